"""Who owns which data and tests, and which caps lots share: an agent may hold several lots and have several tasks.

A *lot* is a kind of data, a column of the weights: it has a cost and a cap of its own, and its owner chooses how much
of it to bring. A *task* is what data is good for, a row: it has a value and a payoff curve of its own. Where everybody
has one of each, in the order of the agents, lots and tasks are the agents themselves.

A *shared cap* bounds the sum of some lots of one agent, on top of the cap each of them may have: the same records,
offered raw or with noise. What an agent can bring is then no box but a polytope, and that of all is the product:

    0 <= s_l <= cap_l,      sum of s_l over the lots of a shared cap <= its cap.

A lot is under one shared cap at most. Every program over contributions stays concave, since the set is convex. Code
that handles only boxes refuses shared caps (`require_own_caps`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import Owners
from fedpact.utils.arrays import FloatArray, read_only
from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

Stated = TypeVar("Stated")
OwnersGiven: TypeAlias = "Sequence[str | int] | Owners"  # by name, or by index among the agents
SHARED_CAP_ROUNDING = 1e-9  # of a shared cap: a sum that exceeds it by less is rounding
MIN_SHARING = 2
MAX_LISTED = 12  # names in a message
# Letters and marks that show a blank, or nothing; format and control characters are known by their category.
BLANK = re.compile("[\u115f\u1160\u2800]")
LOOKALIKE_SCRIPTS = {"Latin", "Cyrillic", "Greek"}
INVISIBLE = re.compile("[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0000-\U000e0fff]")


class Ownership(NamedTuple):
    """The owner of every lot and of every task, as indices of agents, and what these are called."""

    lot_owners: Owners
    task_owners: Owners
    lot_names: tuple[str, ...]
    task_names: tuple[str, ...]


def require_single_lots(owned: Any, what: str, why: str = "") -> None:
    """Refuse a federation or a deal of members with several lots or tasks; `what` needs one of each, in words.

    `why` may be said: a sentence without a full stop.
    """
    if owned.has_lots:
        reason = f" ({why})" if why else ""
        raise InvalidInput(
            f"{what} knows members with one lot of data and one task only, got several lots or tasks per member{reason}"
            f"; leave out lot_owners and task_owners and give one row and one column per member"
        )


def require_own_caps(owned: Any, what: str) -> None:
    """Refuse a federation whose lots share a cap; `what` needs a cap of its own for each, in words."""
    if owned.shared_caps:
        raise InvalidInput(
            f"{what} knows lots with a cap each only, got {len(owned.shared_caps)} shared_caps; leave them out and "
            "lower the caps of the lots instead, to what the solved deal brings of each"
        )


def default_names(n_agents: int) -> tuple[str, ...]:
    """What agents are called whom nobody has named."""
    return tuple(f"agent {agent}" for agent in range(n_agents))


def owner_names(lot_owners: Any, task_owners: Any) -> tuple[str, ...]:
    """The agents in the order in which they first own something; by default names where owners are indices."""
    found = [owner for owners in (lot_owners, task_owners) if _is_listed(owners) for owner in owners]
    if any(isinstance(owner, str) for owner in found):
        return tuple(dict.fromkeys(owner for owner in found if isinstance(owner, str)))
    return default_names(max((int(owner) for owner in found if isinstance(owner, Integral)), default=-1) + 1)


def check_names(
    field: str, given: Any, count: int | None, *, counted: str = "members", owners: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Names, none of them blank: one for each of `count`, unless nobody knows how many there are, and all different.

    `counted` says in words what they are names of. With `owners`, only those of one owner have to differ.
    """
    each = "member" if owners is None else field.removesuffix("_names")
    if not _is_listed(given) or not all(isinstance(name, str) and name.strip() for name in given):
        raise InvalidInput(field=field, rule=f"must be non-empty strings, one per {each}", value=given)
    names = tuple(given)
    if count is not None and len(names) != count:
        counts = f": {count} {counted}, {len(names)} names given"
        raise InvalidInput(field=field, rule=f"must have one entry per {each}", value=given, given=counts)
    errors, seen = ErrorCollector(), dict[tuple[str | None, str], str]()
    for index, name in enumerate(names):
        owner = None if owners is None else owners[index]
        key = owner, looks_of(name)
        if (before := seen.get(key)) is not None:
            rule = "must differ from the others" if owner is None else "must differ from the owner's others"
            twice = (
                f', "{name:.60}" appears twice' if before == name else f", {before!a:.60} and {name!a:.60} look alike"
            )
            errors.errors.append(
                InvalidInput(field=field, index=index, rule=rule, value=name, given=twice, agent=owner)
            )
        seen[key] = name
        scripts = mixed_scripts(name)
        if owners is None and scripts:
            rule = f"must not mix letters of {' and '.join(scripts)} in a word, which look alike"
            errors.errors.append(
                InvalidInput(field=field, index=index, rule=rule, value=name, given=f", got {name!a:.60}")
            )
    errors.raise_errors()
    return names


def mixed_scripts(name: str) -> list[str]:
    """Scripts with letters that look alike, where a word has letters of several: one of them is not what people see."""
    for word in name.split():
        found = {unicodedata.name(letter, "").partition(" ")[0].title() for letter in word}
        if len(mixed := sorted(found & LOOKALIKE_SCRIPTS)) > 1:
            return mixed
    return []


def looks_of(name: str) -> str:
    """What people see of a name: without what is invisible, and whatever way its letters are put together."""
    plain = INVISIBLE.sub("", BLANK.sub(" ", unicodedata.normalize("NFKC", name)))
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in {"Cc", "Cf"} or letter.isspace())
    return " ".join(shown.split())


def check_ownership(names: tuple[str, ...], shape: tuple[int, int], given: Mapping[str, Any]) -> Ownership:
    """The owners of the columns and the rows of weights of this shape, or an error that holds all errors."""
    errors, found = ErrorCollector(), dict[str, Any]()
    for kind, count, counted in (("lot", shape[1], "columns"), ("task", shape[0], "rows")):
        owners = errors.attempt(_check_owners, f"{kind}_owners", given[f"{kind}_owners"], names, count, counted)
        if owners is None:
            continue
        own, field = given[f"{kind}_names"], f"{kind}_names"
        if own is None:
            own = default_own_names(owners, names)
        else:
            of = [names[owner] for owner in owners]
            own = errors.attempt(check_names, field, own, count, counted=counted, owners=of)
        found |= {f"{kind}_owners": owners, field: own}
    if given["lot_owners"] is not None and given["task_owners"] is not None and len(found) == len(Ownership._fields):
        for agent in sorted(set(range(len(names))) - {*found["lot_owners"].tolist(), *found["task_owners"].tolist()}):
            rule, neither = "must own a lot or a task", ": it owns neither; leave it out"
            errors.errors.append(InvalidInput(field="names", index=agent, rule=rule, value=names[agent], given=neither))
    errors.raise_errors()
    return Ownership(**found)


def default_own_names(owners: Owners, names: Sequence[str]) -> tuple[str, ...]:
    """What things are called that nobody has named: their owner's name, or "University 1", "University 2", ..."""
    if np.array_equal(owners, np.arange(len(names))):
        return tuple(names)
    counts = np.bincount(owners, minlength=len(names))
    seen = [0] * len(names)
    found = []
    for owner in owners.tolist():
        seen[owner] += 1
        found.append(names[owner] if counts[owner] == 1 else f"{names[owner]} {seen[owner]}")
    return tuple(found)


def labels(owners: Owners, own_names: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Names that tell all lots (tasks) apart: "University: X-rays"; the plain name where it holds the owner's."""
    return tuple(
        own if own.startswith(names[owner]) else f"{names[owner]}: {own}"
        for owner, own in zip(owners.tolist(), own_names, strict=True)
    )


def stated_by_name(label: str, stated: Mapping[str, Stated], names: Sequence[str]) -> list[Stated | None]:
    """What is said for each of some members, lots or tasks, the more specific winning; None where nothing is.

    It may be said for all, under the empty name, for a member with all it owns (NAME.LOT), or for one by its name.
    """
    found: list[Stated | None] = [None] * len(names)
    for name, entry in sorted(stated.items(), key=lambda pair: (pair[0] != "", pair[0] in names)):
        chosen = [index for index, known in enumerate(names) if name in {"", known}] or lots_by_name(name, names)
        if not chosen:
            kind, listed = getattr(names, "kind", "member"), ", ".join(names[:MAX_LISTED])
            raise InvalidInput(f'{label}: there is no {kind} "{name}"; {kind}s are {listed}')
        for index in chosen:
            found[index] = entry
    return found


def lots_by_name(member: str, names: Sequence[str]) -> list[int]:
    """Which of some columns MEMBER.LOT are of a member; names may hold dots that a space follows ("St. Mary")."""
    rest = [known.removeprefix(f"{member}.") for known in names]
    return [index for index, own in enumerate(rest) if own != names[index] and own[:1].strip()]


def owned_by(owners: Owners, agents: Owners) -> tuple[Owners, Owners]:
    """What some agents own, in their order, and whose among these it is."""
    own = [np.flatnonzero(owners == agent) for agent in agents]
    members = np.repeat(np.arange(agents.size), [each.size for each in own])
    return np.concatenate([*own, np.zeros(0, dtype=np.intp)]), members


def _is_listed(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str)


def _check_owners(field: str, given: Any, names: Sequence[str], count: int, counted: str) -> Owners:
    """Places among the agents; without any, every agent owns one, in order."""
    if given is None:
        if count != len(names):
            way_out = f": {count} {counted} of weights, {len(names)} members; say whose each of them is"
            raise InvalidInput(field=field, rule="is missing", given=way_out)
        return read_only(np.arange(count))
    entries = list(given) if _is_listed(given) else given
    if not isinstance(entries, list) or len(entries) != count:
        found = f", got {len(entries)}" if isinstance(entries, list) else f", got {short_repr(given)}"
        raise InvalidInput(field=field, rule=f"must name an owner for each of the {count} {counted}", given=found)
    errors, known = ErrorCollector(), {name: index for index, name in enumerate(names)}
    members = f"must be one of the members ({_listed(names)})"
    owners = []
    for index, entry in enumerate(entries):
        owner = _index_of(entry, known, len(names))
        if owner is None:
            errors.errors.append(InvalidInput(field=field, index=index, rule=members, value=entry))
        owners.append(owner)
    errors.raise_errors()
    return read_only(np.array(owners, dtype=np.intp))


def _index_of(given: Any, known: Mapping[str, int], count: int) -> int | None:
    """The index of what is given by name or by number."""
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given) if 0 <= int(given) < count else None
    return known.get(given) if isinstance(given, str) else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


class SharedCap(NamedTuple):
    """Lots of one agent, by their indices, and the most that can be brought of all of them together."""

    lots: tuple[int, ...]
    cap: float


SharedCapsGiven: TypeAlias = "Iterable[SharedCap | tuple[Sequence[str | int], float] | Mapping[str, Any]]"


def check_shared_caps(
    given: Any, ownership: Ownership, labels: Sequence[str], names: Sequence[str]
) -> tuple[SharedCap, ...]:
    """Shared caps with their lots as indices, or an error that holds all errors."""
    if given is None:
        return ()
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        rule = 'must be a list of lots and their common cap, such as [(["A: raw", "A: noised"], 100.0)]'
        raise InvalidInput(field="shared_caps", rule=rule, value=given)
    given = list(given)
    if given and np.array_equal(ownership.lot_owners, np.arange(len(names))):
        why = ": a member with one lot has nothing to share it with; say whose the lots are with lot_owners"
        raise InvalidInput(field="shared_caps", rule="needs members with several lots", given=why)
    only = {name: lot for lot, name in enumerate(ownership.lot_names) if ownership.lot_names.count(name) == 1}
    known = only | {label: lot for lot, label in enumerate(labels)}
    errors = ErrorCollector()
    owners = [names[owner] for owner in ownership.lot_owners]
    found = [
        errors.attempt(_check_shared_cap, index, entry, owners, known, labels) for index, entry in enumerate(given)
    ]
    taken: set[int] = set()
    for index, shared in enumerate(found):
        twice = [] if shared is None else [lot for lot in shared.lots if lot in taken]
        if twice:
            rule, said = "must share no lot with another", f', "{labels[twice[0]]}" is under two'
            errors.errors.append(InvalidInput(field="shared_caps", index=index, rule=rule, value=given, given=said))
        taken |= set() if shared is None else set(shared.lots)
    errors.raise_errors()
    return tuple(shared for shared in found if shared is not None)


def take_shared_caps(shared_caps: Iterable[SharedCap], lots: NDArray[np.intp]) -> tuple[SharedCap, ...]:
    """The shared caps of whose lots all are among `lots`, as indices of these."""
    indices = {int(lot): index for index, lot in enumerate(lots)}
    return tuple(
        SharedCap(tuple(indices[lot] for lot in shared.lots), shared.cap)
        for shared in shared_caps
        if all(lot in indices for lot in shared.lots)
    )


def first_exceeded(contributions: FloatArray, shared_caps: Sequence[SharedCap]) -> SharedCap | None:
    """The first shared cap that a profile exceeds beyond rounding."""
    for shared in shared_caps:
        if contributions[list(shared.lots)].sum() > shared.cap * (1.0 + SHARED_CAP_ROUNDING):
            return shared
    return None


def shared_members(shared_caps: Sequence[SharedCap], n_lots: int) -> FloatArray:
    """(shared caps, lots): 1 where a lot is under the cap."""
    rows = np.zeros((len(shared_caps), n_lots))
    for row, shared in zip(rows, shared_caps, strict=True):
        row[list(shared.lots)] = 1.0
    return rows


def _check_shared_cap(
    index: int, given: Any, owners: Sequence[str], known: Mapping[str, int], labels: Sequence[str]
) -> SharedCap:
    def refuse(rule: str, value: Any, **more: Any) -> NoReturn:
        raise InvalidInput(field="shared_caps", index=index, rule=rule, value=value, **more)

    pair = (given.get("lots"), given.get("cap")) if isinstance(given, Mapping) else given
    if not (isinstance(pair, Sequence) and len(pair) == len(SharedCap._fields) and _is_listed(pair[0])):
        refuse("must be a list of lots and their common cap", given)
    lots, cap = [*pair[0]], pair[1]
    found = [_index_of(lot, known, len(owners)) for lot in lots]
    if None in found:
        unknown = lots[found.index(None)]
        called = "number" if isinstance(unknown, Integral) and not isinstance(unknown, bool) else "called"
        why = f": there is no lot {called} {short_repr(unknown)}; the lots are {_listed(labels)}"
        refuse("must name lots", unknown, given=why)
    if len(set(found)) < max(len(found), MIN_SHARING):
        refuse("must name two or more different lots", lots)
    agents = list(dict.fromkeys(owners[lot] for lot in found if lot is not None))
    if len(agents) > 1:
        refuse("must name lots of one member", lots, given=f", got lots of {agents[0]} and {agents[1]}")
    if isinstance(cap, bool) or not isinstance(cap, Real) or not 0.0 <= float(cap) < np.inf:
        refuse("must have a cap that is finite and at least zero", cap, agent=agents[0])
    return SharedCap(tuple(lot for lot in found if lot is not None), float(cap))
