"""What agents with several lots and tasks answer, checked: who owns what, and a part for every task and every lot.

Everybody knows whose every lot is, since everybody has weights for all of them; this layout is what most members say it
is. An answer about a profile has an entry for each of the agent's tasks (payoff, prices of all lots, curvature) and for
each of its lots (what it costs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import Owners
from fedpact.federation.lots import Ownership, SharedCap, check_shared_caps
from fedpact.negotiation.validation import (
    BadAnswer,
    CostAnswer,
    Introduction,
    MarginalAnswer,
    add_shares,
    read_cap,
    read_lot,
    read_stiffness,
    read_task,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr

MAX_LOTS, MAX_LOT_NAME = 100_000, 200


@dataclass(frozen=True)
class Layout:
    """Whose every lot is, by place among the agents, and what the lots are called; the same for everybody."""

    lot_owners: tuple[int, ...]
    lot_names: tuple[str, ...]

    def lots_of(self, place: int) -> Owners:
        """The lots of an agent."""
        return np.flatnonzero(np.array(self.lot_owners) == place)


@dataclass(frozen=True, kw_only=True, eq=False)
class LotIntroduction(Introduction):
    """Who owns what, the caps of the agent's own lots, and which lots matter to it, in all and to each of its tasks.

    `shared_caps` are by place among its own lots.
    """

    layout: Layout
    own_caps: FloatArray
    task_uses: tuple[NDArray[np.bool_], ...] = ()
    shared_caps: tuple[SharedCap, ...] = ()

    @property
    def caps(self) -> FloatArray:
        """Of its lots."""
        return self.own_caps


@dataclass(frozen=True, kw_only=True, eq=False)
class LotsAnswer:
    """What an agent says of one profile: of each of its tasks, and what each of its lots costs."""

    tasks: tuple[MarginalAnswer, ...]
    lots: tuple[CostAnswer, ...]

    @property
    def outside(self) -> bool:
        """Whether the profile is beyond the domain of some task's payoff."""
        return any(task.outside for task in self.tasks)

    @property
    def payoff(self) -> float:
        """Of all tasks."""
        return float(sum(task.payoff for task in self.tasks))

    @property
    def cost(self) -> float:
        """Of all lots."""
        return float(sum(lot.cost for lot in self.lots))


def read_lot_introduction(raw: Mapping[str, Any], place: int, size: int, *, brief: bool) -> LotIntroduction:
    """Checked: a layout, caps of at least zero, and known lots; briefly the layout and the caps alone."""
    layout = _read_layout(raw, size)
    own, n_lots = layout.lots_of(place), len(layout.lot_owners)
    caps = _entries(raw, "caps", own.size, "its lots")
    shared_caps = _read_shared_caps(raw, own.size)
    own_caps = np.array([read_cap({"cap": cap}) for cap in caps])
    for shared in shared_caps:
        own_caps[list(shared.lots)] = np.minimum(own_caps[list(shared.lots)], shared.cap)
    uses = np.ones(n_lots, dtype=bool)
    if brief:
        return LotIntroduction(cap=np.inf, uses=uses, layout=layout, own_caps=own_caps, shared_caps=shared_caps)
    tasks = raw.get("tasks")
    if not isinstance(tasks, list) or (not tasks and not own.size):
        raise BadAnswer(f"tasks must list which lots matter to each task, got {short_repr(tasks)}")
    task_uses = tuple(_read_uses(each, n_lots) for each in tasks)
    uses = np.isin(np.arange(n_lots), own)
    for each in task_uses:
        uses |= each
    stiffness = read_stiffness(raw)
    return LotIntroduction(
        cap=np.inf,
        uses=uses,
        layout=layout,
        own_caps=own_caps,
        task_uses=task_uses,
        stiffness=stiffness,
        shared_caps=shared_caps,
    )


def common_layout(introductions: Mapping[int, Introduction]) -> tuple[Layout | None, dict[int, str]]:
    """What most say of whose every lot is (None: one lot each), and who says otherwise, with the reason."""
    said = {place: getattr(each, "layout", None) for place, each in introductions.items()}
    [(layout, _)] = Counter(said.values()).most_common(1)
    here = "one lot of data and one task each" if layout is None else f"{len(layout.lot_owners)} lots"
    reason = f"its file is of another federation: most members speak of {here}, it names other lots or owners"
    return layout, {place: reason for place, each in said.items() if each != layout}


def read_lots_answer(
    raw: Mapping[str, Any],
    at: FloatArray,
    introduction: LotIntroduction,
    *,
    own: Owners,
    histories: Sequence[Sequence[MarginalAnswer]],
    cost_histories: Sequence[Sequence[CostAnswer]],
    n_agents: int,
    shares: bool,
) -> LotsAnswer:
    """Checked: a part for every task and every lot, each consistent with what was said of it before.

    With `shares` every task's payoff is shared out among the agents as well.
    """
    owners = np.array(introduction.layout.lot_owners)
    told = _entries(raw, "tasks", len(introduction.task_uses), "its tasks")
    tasks = []
    for each, uses, earlier in zip(told, introduction.task_uses, histories, strict=True):
        answer = read_task(each, at, uses, earlier, owners if shares else None)
        tasks.append(add_shares(answer, each, uses, earlier, owners=owners, n_agents=n_agents) if shares else answer)
    lots = [
        read_lot(each, at, int(lot), float(cap), earlier)
        for each, lot, cap, earlier in zip(
            _entries(raw, "lots", own.size, "its lots"), own, introduction.own_caps, cost_histories, strict=True
        )
    ]
    return LotsAnswer(tasks=tuple(tasks), lots=tuple(lots))


def _read_layout(raw: Mapping[str, Any], size: int) -> Layout:
    owners, names = raw.get("lot_owners"), raw.get("lot_names")
    if (
        not isinstance(owners, list)
        or not 0 < len(owners) <= MAX_LOTS
        or not all(type(owner) is int and 0 <= owner < size for owner in owners)
    ):
        raise BadAnswer(
            f"lot_owners must list a member by number, 0 to {size - 1}, for each lot, got {short_repr(owners)}"
        )
    named = isinstance(names, list) and len(names) == len(owners)
    if not named or not all(isinstance(name, str) and 0 < len(name) <= MAX_LOT_NAME for name in names or ()):
        raise BadAnswer(f"lot_names must name each of the {len(owners)} lots, got {short_repr(names)}")
    return Layout(tuple(owners), tuple(names or ()))


def _read_shared_caps(raw: Mapping[str, Any], n_own: int) -> tuple[SharedCap, ...]:
    places = tuple(str(place) for place in range(n_own))
    owners, given = np.zeros(n_own, dtype=np.intp), raw.get("shared_caps")
    try:
        return check_shared_caps(given, Ownership(owners, owners, places, places), places, ("the member",))
    except InvalidInput as error:
        raise BadAnswer(str(error)) from error


def _read_uses(given: Any, n_lots: int) -> NDArray[np.bool_]:
    if not isinstance(given, list) or not all(type(lot) is int and 0 <= lot < n_lots for lot in given):
        raise BadAnswer(f"tasks must list lots by number, from 0 to {n_lots - 1}, got {short_repr(given)}")
    return np.isin(np.arange(n_lots), given)


def _entries(raw: Mapping[str, Any], key: str, count: int, what: str) -> list[Any]:
    given = raw.get(key)
    if not isinstance(given, list) or len(given) != count:
        raise BadAnswer(f"{key} must have an entry for each of {what}, {count} in all, got {short_repr(given)}")
    return given
