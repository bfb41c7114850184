"""Caps that several lots of one agent share: the same records, offered raw or with noise, at most so many in all.

A shared cap bounds the sum of some lots of one agent, on top of the cap each of them may have. What an agent can bring
is then no box but a polytope, which is the product over the agents of theirs:

    0 <= s_l <= cap_l,      sum of s_l over the lots of a shared cap <= its cap.

A lot is under one shared cap at most. Every program over contributions stays concave, since the set is convex; who
only knows boxes refuses shared caps (`require_own_caps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

SHARED_CAP_ROUNDING = 1e-9  # of a shared cap: a sum that exceeds it by less is rounding
MIN_SHARING = 2
MAX_LISTED = 12  # lots in a message


class SharedCap(NamedTuple):
    """Lots of one agent, by their places, and the most that can be brought of all of them together."""

    lots: tuple[int, ...]
    cap: float


SharedCapsGiven: TypeAlias = "Iterable[SharedCap | tuple[Sequence[str | int], float] | Mapping[str, Any]]"


class HasSharedCaps(Protocol):
    """A federation."""

    @property
    def shared_caps(self) -> tuple[SharedCap, ...]:
        """The caps that lots share."""


def require_own_caps(owned: HasSharedCaps, what: str) -> None:
    """Refuse lots that share a cap; `what` needs a cap of its own for each, in words: "the message game"."""
    if owned.shared_caps:
        raise InvalidInput(
            f"{what} knows lots with a cap each only, got {len(owned.shared_caps)} shared_caps; leave them out and "
            "lower the caps of the lots instead, to what the solved deal brings of each"
        )


def checked_shared_caps(
    given: Any, *, owners: NDArray[np.intp], labels: Sequence[str], lot_names: Sequence[str], names: Sequence[str]
) -> tuple[SharedCap, ...]:
    """Shared caps with their lots as places, or an error that holds all errors."""
    if given is None:
        return ()
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        rule = 'must be a list of lots and their common cap, such as [(["A: raw", "A: noised"], 100.0)]'
        raise InvalidInput(field="shared_caps", rule=rule, value=given)
    known = _places(labels, lot_names)
    errors = ErrorCollector()
    found = [errors.attempt(_checked, place, entry, owners, known, names) for place, entry in enumerate(given)]
    taken: set[int] = set()
    for place, shared in enumerate(found):
        twice = [] if shared is None else [lot for lot in shared.lots if lot in taken]
        if twice:
            rule, said = "must share no lot with another", f', "{labels[twice[0]]}" is under two'
            errors.errors.append(InvalidInput(field="shared_caps", index=place, rule=rule, value=given, given=said))
        taken |= set() if shared is None else set(shared.lots)
    errors.raise_errors()
    return tuple(shared for shared in found if shared is not None)


def take_shared_caps(shared_caps: Iterable[SharedCap], lots: NDArray[np.intp]) -> tuple[SharedCap, ...]:
    """The shared caps of whose lots all are among `lots`, as places among these."""
    places = {int(lot): place for place, lot in enumerate(lots)}
    return tuple(
        SharedCap(tuple(places[lot] for lot in shared.lots), shared.cap)
        for shared in shared_caps
        if all(lot in places for lot in shared.lots)
    )


def reachable_caps(caps: FloatArray, shared_caps: Sequence[SharedCap]) -> FloatArray:
    """The most that can be brought of each lot alone: its own cap, or the one it shares."""
    if not shared_caps:
        return caps
    reachable = caps.copy()
    for shared in shared_caps:
        own = list(shared.lots)
        reachable[own] = np.minimum(reachable[own], shared.cap)
    reachable.setflags(write=False)
    return reachable


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


def _places(labels: Sequence[str], lot_names: Sequence[str]) -> dict[str, int]:
    """Lots by what they can be called: their labels, and their names where only one lot has it."""
    alone = {name: place for place, name in enumerate(lot_names) if list(lot_names).count(name) == 1}
    return alone | {label: place for place, label in enumerate(labels)}


def _checked(
    place: int, given: Any, owners: NDArray[np.intp], known: Mapping[str, int], names: Sequence[str]
) -> SharedCap:
    lots, cap = _parts(place, given)
    found = [_checked_lot(place, lot, known, owners.size) for lot in lots]
    if len(set(found)) < max(len(found), MIN_SHARING):
        raise InvalidInput(field="shared_caps", index=place, rule="must name two or more different lots", value=lots)
    agents = sorted({int(owners[lot]) for lot in found})
    if len(agents) > 1:
        whose = f", got lots of {names[agents[0]]} and {names[agents[1]]}"
        raise InvalidInput(
            field="shared_caps", index=place, rule="must name lots of one member", value=lots, given=whose
        )
    if isinstance(cap, bool) or not isinstance(cap, Real) or not 0.0 <= float(cap) < np.inf:
        rule = "must have a cap that is finite and at least zero"
        raise InvalidInput(field="shared_caps", index=place, rule=rule, value=cap, agent=names[agents[0]])
    return SharedCap(tuple(found), float(cap))


def _parts(place: int, given: Any) -> tuple[list[Any], Any]:
    if isinstance(given, Mapping) and set(given) == {"lots", "cap"}:
        given = (given["lots"], given["cap"])
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(SharedCap._fields)
    if not listed or isinstance(given[0], str) or not isinstance(given[0], Iterable):
        rule = "must be a list of lots and their common cap"
        raise InvalidInput(field="shared_caps", index=place, rule=rule, value=given)
    return list(given[0]), given[1]


def _checked_lot(place: int, given: Any, known: Mapping[str, int], n_lots: int) -> int:
    if isinstance(given, str) and given in known:
        return known[given]
    if isinstance(given, Integral) and not isinstance(given, bool) and 0 <= int(given) < n_lots:
        return int(given)
    called = "number" if isinstance(given, Integral) and not isinstance(given, bool) else "called"
    labels = {lot: name for name, lot in known.items()}  # names that only one lot has come first, so labels stay
    listed = ", ".join(labels[lot] for lot in range(min(n_lots, MAX_LISTED))) + (", ..." if n_lots > MAX_LISTED else "")
    why = f": there is no lot {called} {short_repr(given)}; the lots are {listed}"
    raise InvalidInput(field="shared_caps", index=place, rule="must name lots", value=given, given=why)
