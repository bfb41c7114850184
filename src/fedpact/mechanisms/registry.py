"""Mechanisms by name: fedpact's own, those that installed packages register, and any class by its import path.

A package registers a mechanism under the entry point group `fedpact.mechanisms`:

    [project.entry-points."fedpact.mechanisms"]
    equal-costs = "consortium.mechanisms:EqualCosts"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module

from fedpact.mechanisms.base import Mechanism
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.mechanisms.standalone import Standalone
from fedpact.mechanisms.voluntary import Voluntary
from fedpact.utils.errors import InvalidInput

ENTRY_POINTS = "fedpact.mechanisms"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

# In the order they are shown.
MECHANISMS: Mapping[str, Mechanism] = {
    mechanism.name: mechanism for mechanism in (ExternalityMechanism(), ShapleyMechanism(), Voluntary(), Standalone())
}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of that name: one of fedpact's own, or of an installed package.

    Imports nothing that is not installed as a mechanism, so names may come from files of strangers.
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    from importlib.metadata import entry_points  # noqa: PLC0415 - looks through all installed packages

    registered = entry_points(group=ENTRY_POINTS)
    found = {entry.value: entry for entry in registered if entry.name == name}
    if not found:
        known = ", ".join([*MECHANISMS, *sorted({entry.name for entry in registered} - set(MECHANISMS))])
        raise InvalidInput(f"mechanism must be one of {known}, got {name!r:.80}")
    if len(found) > 1:
        raise InvalidInput(f"several installed packages register a mechanism {name!r}: {', '.join(sorted(found))}")
    (path,) = found
    mechanism = _import_mechanism(path)
    if mechanism.name != name:
        raise InvalidInput(f"{path} is registered as {name!r} but calls itself {mechanism.name!r}")
    return mechanism


def resolve_mechanism(given: Mechanism | str) -> Mechanism:
    """The mechanism meant: itself, one by name, or one by its import path, "package.module:Class".

    Examples
    --------
    >>> resolve_mechanism("shapley")
    ShapleyMechanism()
    >>> resolve_mechanism("fedpact.mechanisms:Voluntary").title
    'Voluntary'
    """
    if isinstance(given, Mechanism):
        return _check_named(given)
    if isinstance(given, str):
        return _import_mechanism(given) if ":" in given else mechanism_named(given)
    what = f"the class {given.__name__}; call it" if isinstance(given, type) else f"{given!r:.80}"
    raise InvalidInput(f"mechanism must be a name or a mechanism such as ShapleyMechanism(), got {what}")


def resolve_mechanisms(given: Mechanism | str | Iterable[Mechanism | str] | None) -> tuple[Mechanism, ...]:
    """The mechanisms meant, each once; all of fedpact's own if nothing is given."""
    if given is None:
        return tuple(MECHANISMS.values())
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        given = [given]
    found = tuple(resolve_mechanism(each) for each in given)
    names = [mechanism.name for mechanism in found]
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"name at least one mechanism, each once, got {', '.join(names) or 'none'}")
    return found


def _check_named(mechanism: Mechanism) -> Mechanism:
    """Names appear in files and in their names; titles are read by people."""
    for label in ("name", "title"):
        if not isinstance(getattr(mechanism, label, None), str):
            raise InvalidInput(f"a mechanism needs a {label}: {type(mechanism).__name__} has none")
    if not NAME.fullmatch(mechanism.name):
        raise InvalidInput(
            f"the name of a mechanism must be small letters, digits and hyphens, got {mechanism.name!r:.80} "
            f"({type(mechanism).__name__})"
        )
    return mechanism


def _import_mechanism(path: str) -> Mechanism:
    """The mechanism at "package.module:Class", made without arguments if it is a class."""
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module's own code raises
        raise InvalidInput(f"mechanism {path!r:.80}: {module_name!r:.80} cannot be imported: {error}") from error
    found = getattr(module, attribute, None)
    if isinstance(found, type) and issubclass(found, Mechanism):
        try:
            found = found()
        except TypeError as error:
            raise InvalidInput(f"mechanism {path!r:.80} cannot be made without arguments: {error}") from error
    if not isinstance(found, Mechanism):
        what = f"there is no {attribute!r:.80} in {module_name!r:.80}" if found is None else f"it is {found!r:.80}"
        raise InvalidInput(f"mechanism {path!r:.80} must be a fedpact.Mechanism: {what}")
    return _check_named(found)
