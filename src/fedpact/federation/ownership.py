"""Who owns which data and which tests: an agent may hold several lots of data and have several tasks.

A *lot* is a kind of data, a column of the weights: it has a cost and a cap of its own, and its owner chooses how much
of it to bring. A *task* is what data is good for, a row: it has a value and a payoff curve of its own. Where everybody
has one of each, in the order of the agents, lots and tasks are the agents themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

Owners = NDArray[np.intp]
OwnersGiven: TypeAlias = "Sequence[str | int] | Owners"  # by name, or by place among the agents


class Ownership(NamedTuple):
    """The owner of every lot and of every task, as places among the agents, and what these are called."""

    lot_owners: Owners
    task_owners: Owners
    lot_names: tuple[str, ...]
    task_names: tuple[str, ...]


class HasLots(Protocol):
    """A federation, or a deal."""

    @property
    def has_lots(self) -> bool:
        """Whether agents own several lots or tasks."""


def require_single_lots(owned: HasLots, what: str, why: str = "") -> None:
    """Refuse agents with several lots or tasks; `what` needs one of each, in words: "a batch", "the message game".

    `why` may be said: a sentence without a full stop.
    """
    if owned.has_lots:
        reason = f" ({why})" if why else ""
        raise InvalidInput(
            f"{what} knows members with one lot of data and one task only, got several lots or tasks per member{reason}"
            f"; leave out lot_owners and task_owners and give one row and one column per member"
        )


def default_names(n_agents: int) -> tuple[str, ...]:
    """What agents are called whom nobody has named."""
    return tuple(f"agent {agent}" for agent in range(n_agents))


def owner_names(lot_owners: Any, task_owners: Any) -> tuple[str, ...]:
    """The agents in the order in which they first own something; by default names where owners are places."""
    found = [owner for owners in (lot_owners, task_owners) if _is_listed(owners) for owner in owners]
    if any(isinstance(owner, str) for owner in found):
        return tuple(dict.fromkeys(owner for owner in found if isinstance(owner, str)))
    return default_names(max((int(owner) for owner in found if isinstance(owner, Integral)), default=-1) + 1)


def checked_ownership(
    names: tuple[str, ...],
    shape: tuple[int, int],
    *,
    lot_owners: Any,
    task_owners: Any,
    lot_names: Any,
    task_names: Any,
) -> Ownership:
    """The owners of the columns and the rows of weights of this shape, or an error that holds all errors."""
    errors = ErrorCollector()
    n_tasks, n_lots = shape
    lots = errors.attempt(_checked_owners, "lot_owners", lot_owners, names, n_lots, "columns")
    tasks = errors.attempt(_checked_owners, "task_owners", task_owners, names, n_tasks, "rows")
    if lots is not None:
        lot_names = errors.attempt(_checked_own_names, "lot_names", lot_names, lots, names)
    if tasks is not None:
        task_names = errors.attempt(_checked_own_names, "task_names", task_names, tasks, names)
    if lots is not None and tasks is not None and not (lot_owners is None or task_owners is None):
        for agent in sorted(set(range(len(names))) - set(lots.tolist()) - set(tasks.tolist())):
            rule, given = "must own a lot or a task", ": it owns neither; leave it out"
            errors.errors.append(InvalidInput(field="names", index=agent, rule=rule, value=names[agent], given=given))
    errors.raise_errors()
    assert lots is not None and tasks is not None
    return Ownership(lots, tasks, lot_names, task_names)


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


def _is_listed(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str)


def _checked_owners(field: str, given: Any, names: Sequence[str], count: int, counted: str) -> Owners:
    """Places among the agents; without any, every agent owns one, in order."""
    if given is None:
        if count != len(names):
            way_out = f": {count} {counted} of weights, {len(names)} members; say whose each of them is"
            raise InvalidInput(field=field, rule="is missing", given=way_out)
        return _read_only(np.arange(count))
    entries = list(given) if _is_listed(given) else given
    if not isinstance(entries, list) or len(entries) != count:
        found = f", got {len(entries)}" if isinstance(entries, list) else f", got {short_repr(given)}"
        raise InvalidInput(field=field, rule=f"must name an owner for each of the {count} {counted}", given=found)
    places = {name: place for place, name in enumerate(names)}
    errors = ErrorCollector()
    owners = [errors.attempt(_checked_owner, field, index, entry, places) for index, entry in enumerate(entries)]
    errors.raise_errors()
    return _read_only(np.array(owners, dtype=np.intp))


def _checked_owner(field: str, index: int, given: Any, places: dict[str, int]) -> int:
    if isinstance(given, str) and given in places:
        return places[given]
    if isinstance(given, Integral) and not isinstance(given, bool) and 0 <= int(given) < len(places):
        return int(given)
    there = ", ".join(list(places)[:8]) + (", ..." if len(places) > 8 else "")
    raise InvalidInput(field=field, index=index, rule=f"must be one of the members ({there})", value=given)


def _checked_own_names(field: str, given: Any, owners: Owners, names: Sequence[str]) -> tuple[str, ...]:
    if given is None:
        return default_own_names(owners, names)
    listed = _is_listed(given) and all(isinstance(name, str) and name.strip() for name in given)
    found = tuple(given) if listed else ()
    if not listed or len(found) != owners.size:
        counts = f": {owners.size} wanted, {len(found)} given" if listed else f", got {short_repr(given)}"
        raise InvalidInput(field=field, rule="must be non-empty strings, one for each", value=given, given=counts)
    errors, seen = ErrorCollector(), set()
    for index, (owner, name) in enumerate(zip(owners.tolist(), found, strict=True)):
        if (owner, name) in seen:
            rule, twice = "must differ from the owner's others", f', "{name}" appears twice'
            errors.errors.append(
                InvalidInput(field=field, index=index, rule=rule, value=name, given=twice, agent=names[owner])
            )
        seen.add((owner, name))
    errors.raise_errors()
    return found


def _read_only(owners: Owners) -> Owners:
    owners = owners.astype(np.intp)
    owners.setflags(write=False)
    return owners
