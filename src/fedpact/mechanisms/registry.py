"""Mechanisms by name: fedpact's own, those that installed packages register, and any class by its import path.

A package registers a mechanism under the entry point group `fedpact.mechanisms`:

    [project.entry-points."fedpact.mechanisms"]
    equal-costs = "consortium.mechanisms:EqualCosts"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from fedpact.certificates.claims import Claim
from fedpact.federation import Federation
from fedpact.mechanisms import fair, field
from fedpact.mechanisms.base import Mechanism, Standalone, Voluntary
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.mechanisms.shapley import SemivalueMechanism, ShapleyMechanism
from fedpact.solvers.groups import MAX_LISTED_AGENTS
from fedpact.utils.errors import InvalidInput

ENTRY_POINTS = "fedpact.mechanisms"
ALL = "all"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _by_name(*mechanisms: Mechanism) -> Mapping[str, Mechanism]:
    return {mechanism.name: mechanism for mechanism in mechanisms}


# Those swept and followed if none is named, in the order they are shown; a comparison adds the fair deal.
DEFAULT_MECHANISMS = _by_name(ExternalityMechanism(), ShapleyMechanism(), Voluntary(), Standalone())

# Those of the literature that stand beside them where they are asked for.
FIELD_MECHANISMS = _by_name(
    field.EqualSplit(),
    field.ProportionalSharing(),
    field.CostSharing(),
    fair.NashBargaining(),
    fair.Nucleolus(),
    field.VCGMechanism(),
    field.LeaveOneOut(),
    SemivalueMechanism(),
    field.AccuracyShaping(),
)

# All of fedpact's own. Side payments take a search through groups, which is too much for thousands of federations.
MECHANISMS: Mapping[str, Mechanism] = {
    **DEFAULT_MECHANISMS,
    **_by_name(*(fair.FairMechanism(keep, by) for by, keep in fair.KINDS)),
    **FIELD_MECHANISMS,
}


def compared_mechanisms(federation: Federation) -> tuple[Mechanism, ...]:
    """Those compared on a federation if none is named: the fair deal among them where all groups can be listed.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> [mechanism.name for mechanism in compared_mechanisms(load_scenario("hospitals").federation)]
    ['externality', 'shapley', 'fair', 'voluntary', 'standalone']
    """
    chosen = list(DEFAULT_MECHANISMS.values())
    if federation.n_agents <= MAX_LISTED_AGENTS:
        chosen.insert(2, MECHANISMS["fair"])
    return tuple(chosen)


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of that name: one of fedpact's own, or of an installed package.

    Imports nothing that is not installed as a mechanism, so names may come from files of strangers.
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    from importlib.metadata import entry_points  # noqa: PLC0415 - looks through all installed packages

    registered = entry_points(group=ENTRY_POINTS)
    paths = sorted({entry.value for entry in registered if entry.name == name})
    if not paths:
        known = ", ".join([*MECHANISMS, *sorted({entry.name for entry in registered} - set(MECHANISMS))])
        given = f", got {name!r:.80}; one of your own goes by its import path: package.module:Class"
        raise InvalidInput(field="mechanism", rule=f"must be one of {known}", value=name, given=given)
    if len(paths) > 1:
        several = f", got {name!r} of {', '.join(paths)}"
        raise InvalidInput(field="mechanism", rule="must be registered by one package", value=name, given=several)
    mechanism = _import_mechanism(paths[0])
    if mechanism.name != name:
        given = f", got {name!r} of {paths[0]}, which calls itself {mechanism.name!r}"
        raise InvalidInput(field="mechanism", rule="must be registered under its name", value=name, given=given)
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
        return _check_attributes(given)
    if isinstance(given, str):
        return _import_mechanism(given) if ":" in given else mechanism_named(given)
    what = f"the class {given.__name__}; call it" if isinstance(given, type) else f"{given!r:.80}"
    rule = "must be a name or a mechanism such as ShapleyMechanism()"
    raise InvalidInput(field="mechanism", rule=rule, value=given, given=f", got {what}")


def resolve_mechanisms(given: Mechanism | str | Iterable[Mechanism | str] | None) -> tuple[Mechanism, ...]:
    """The mechanisms meant, each once; "all" for all of fedpact's own, the default ones if nothing is given."""
    if given is None:
        return tuple(DEFAULT_MECHANISMS.values())
    if isinstance(given, str) and given == ALL:
        return tuple(MECHANISMS.values())
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        given = [given]
    found = tuple(resolve_mechanism(each) for each in given)
    names = [mechanism.name for mechanism in found]
    if not names or len(set(names)) < len(names):
        raise InvalidInput(field="mechanisms", rule="must be one or more, each once", value=names)
    return found


def _check_attributes(mechanism: Mechanism) -> Mechanism:
    """Names appear in files and in their names; titles are read by people; claims are certified."""
    kind = type(mechanism).__name__
    name, title, claims = (getattr(mechanism, label, None) for label in ("name", "title", "claims"))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput(field=f"{kind}.name", rule="must be small letters, digits and hyphens", value=name)
    if not isinstance(title, str):
        raise InvalidInput(field=f"{kind}.title", rule="must be a text", value=title)
    if not isinstance(claims, Sequence) or isinstance(claims, str):
        rule = "must be a tuple of claims such as (Claim.NASH,)"
        raise InvalidInput(field=f"{kind}.claims", rule=rule, value=claims)
    for index, claim in enumerate(claims):
        if not isinstance(claim, Claim):
            rule = f"must be one of {', '.join(f'Claim.{each.name}' for each in Claim)}"
            raise InvalidInput(field=f"{kind}.claims", index=index, rule=rule, value=claim)
    return mechanism


def _import_mechanism(path: str) -> Mechanism:
    """The mechanism at "package.module:Class", made without arguments if it is a class."""
    module_name, _, attribute = path.partition(":")

    def refusal(rule: str, why: object) -> InvalidInput:
        return InvalidInput(
            f"mechanism {path!r:.80}{rule}: {why}", field="mechanism", rule=rule.strip(": "), value=path
        )

    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module's own code raises
        raise refusal(f": {module_name!r:.80} cannot be imported", error) from error
    found = getattr(module, attribute, None)
    if isinstance(found, type) and issubclass(found, Mechanism):
        try:
            found = found()
        except Exception as error:  # whatever the class's own code raises
            raise refusal(" cannot be made without arguments", error) from error
    if found is None:
        raise refusal(" must be a fedpact.Mechanism", f"there is no {attribute!r:.80} in {module_name!r:.80}")
    if not isinstance(found, Mechanism):
        raise refusal(" must be a fedpact.Mechanism", f"it is of type {type(found).__name__}")
    return _check_attributes(found)
