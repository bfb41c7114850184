"""Checking answers: one is used only if it is complete, finite, in range and consistent with what was said before.

`SCHEMAS` says of every kind of question which parts its answer has; `read_answer` is the one validator for all of them.
What the parts say together is checked after that: payoffs rise and are concave in the data reached, costs rise and are
convex, contributing nothing is inside the domain, and answers that no such payoff or cost could give are broken too.
`BadAnswer` says what is wrong with an answer, in words that go into the trace: payoffs and costs are not quoted, since
all members may read that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import sum_by
from fedpact.negotiation import masks
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import printable

# Of the payoffs and costs involved: contradictions smaller than this are rounding.
CONTRADICTION_TOLERANCE = 1e-9
PROPORTION_TOLERANCE = 1e-9
SHARE_TOLERANCE = 1e-8  # of the payoff: shares come from a quadrature
HEX_DIGITS = 64  # of a key
MAX_TEXT = 1000  # characters of a signature
MAX_LOTS, MAX_LOT_NAME = 100_000, 200
MAX_STATED = 1e50  # numbers beyond it are no payoffs, prices or samples


class BadAnswer(InvalidInput):
    """What is wrong with an answer, or with a part of a private file that an answer would state."""


class Withdrawal(BadAnswer):
    """The agent says that it leaves."""


@dataclass(frozen=True)
class Layout:
    """Whose every lot is, by index, and what the lots are called (nothing where everybody has one lot and one task)."""

    lot_owners: tuple[int, ...]
    lot_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Introduction:
    """Who owns what, the caps of the agent's own lots, and which lots matter to each of its tasks, if it tells."""

    layout: Layout
    caps: FloatArray
    task_uses: tuple[NDArray[np.bool_], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class LotAnswer:
    """What one lot costs at one profile."""

    at: FloatArray
    cost: float
    marginal_cost: float
    cost_curvature: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskAnswer:
    """What is said of one task at one profile; nothing where that lies beyond the domain of its payoff.

    Attributes
    ----------
    worth, curvature
        a' w_j, what one more sample of each lot is worth to it, and -a'' / a'^2, how fast that falls.
    shares, slopes
        Everybody's Shapley share of the payoff, and its derivative by each lot; zero where that was not asked for.
    """

    at: FloatArray
    outside: bool = False
    payoff: float = -np.inf
    worth: FloatArray
    curvature: float = 0.0
    shares: FloatArray
    slopes: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileAnswer:
    """What an agent says of one profile: of each of its tasks, and what each of its lots costs."""

    tasks: tuple[TaskAnswer, ...]
    lots: tuple[LotAnswer, ...]

    @property
    def outside(self) -> bool:
        """Whether the profile is beyond the domain of some task's payoff."""
        return any(task.outside for task in self.tasks)

    @property
    def utility(self) -> float:
        """Payoffs of all tasks less costs of all lots."""
        return float(sum(task.payoff for task in self.tasks) - sum(lot.cost for lot in self.lots))


# Readers of one part of an answer: what was given and what it is called, to what it is worth; `BadAnswer` otherwise.
Reader = Callable[[Any, str], Any]


def number(given: Any, name: str, *, low: float = -MAX_STATED) -> float:
    """A finite number from `low`; booleans and texts are none."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not -MAX_STATED <= given <= MAX_STATED:
        raise BadAnswer(f"{name} must be a finite number, got {short_repr(given)}")
    if given < low:
        raise BadAnswer(f"{name} must be at least {low:g}, got {given:g}")
    return float(given)


positive = partial(number, low=0.0)


def cap(given: Any, name: str) -> float:
    """At least zero, or infinite."""
    is_endless = (isinstance(given, str) and given == "inf") or (isinstance(given, float) and given == np.inf)
    return np.inf if is_endless else positive(given, name)


def numbers(given: Any, name: str, *, size: int) -> FloatArray:
    """So many finite numbers."""
    if not isinstance(given, list) or len(given) != size:
        raise BadAnswer(f"{name} must list {size} numbers, got {len(given) if isinstance(given, list) else 'none'}")
    return np.array([number(each, f"{name}[{index}]") for index, each in enumerate(given)], dtype=np.float64)


def agreed_numbers(given: Any, name: str, *, numbers_agreed: FloatArray) -> FloatArray:
    """Final messages are those agreed on: others would move money between third members, at no cost to its own."""
    stated = numbers(given, name, size=numbers_agreed.size)
    if np.abs(stated - numbers_agreed).max() > PROPORTION_TOLERANCE * np.abs(numbers_agreed).max():
        raise BadAnswer(f"its final {name} are not those that were agreed")
    return stated


def lot_indices(given: Any, name: str, *, size: int) -> NDArray[np.bool_]:
    """Some of so many lots, by number, each once: whether each is among them."""
    if not isinstance(given, list) or not all(type(each) is int and 0 <= each < size for each in given):
        raise BadAnswer(f"{name} must list lots by number, from 0 to {size - 1}, got {short_repr(given)}")
    if len(set(given)) != len(given):
        raise BadAnswer(f"{name} must list each of the lots once")
    return np.isin(np.arange(size), given)


def each_of(given: Any, name: str, *, part: Reader, what: str, count: int | None = None) -> list[Any]:
    """A list with an entry for each of so many things; of any length with None."""
    if not isinstance(given, list) or (count is not None and len(given) != count):
        many = "" if count is None else f", {count} in all"
        raise BadAnswer(f"{name} must have an entry for each of {what}{many}, got {short_repr(given)}")
    return [part(entry, name) for entry in given]


def fields(given: Any, name: str, *, parts: Mapping[str, Reader]) -> dict[str, Any] | None:
    """An object with these parts; one that says it is outside, where that may be, has no others."""
    if not isinstance(given, dict):
        raise BadAnswer(f"says {short_repr(given)} of {name}, where it must answer with an object")
    if "prices" in parts and given.get("outside") is True:
        return None
    return {key: part(given.get(key), key) for key, part in parts.items()}


def hexadecimal(given: Any, name: str) -> str:
    """A key."""
    if not isinstance(given, str) or len(given) != HEX_DIGITS or not set(given) <= set("0123456789abcdef"):
        raise BadAnswer(f"{name} must be {HEX_DIGITS} hexadecimal digits, got {short_repr(given)}")
    return given


def signature(given: Any, name: str) -> str:
    """A text, or none where the member does not sign."""
    if given is not None and (not isinstance(given, str) or len(given) > MAX_TEXT):
        raise BadAnswer(f"{name} must be a text, got {short_repr(given)}")
    return given or ""


def acceptance(given: Any, name: str) -> bool:
    """Whether it accepts the deal; who does not leaves."""
    if given is False:
        raise Withdrawal("it refuses the deal, which is worth less to it than training alone or than it asks for")
    if given is not True:
        raise BadAnswer(f"{name} must be true or false, got {short_repr(given)}")
    return given


def _profile(n_tasks: int, n_own: int, n_lots: int, **more: Reader) -> Mapping[str, Reader]:
    """Of every task and of every own lot."""
    task: dict[str, Reader] = {"payoff": number, "curvature": positive, "prices": partial(numbers, size=n_lots)}
    lot: dict[str, Reader] = dict.fromkeys(("cost", "marginal_cost", "cost_curvature"), positive)
    return {
        "tasks": partial(each_of, part=partial(fields, parts=task | more), what="its tasks", count=n_tasks),
        "lots": partial(each_of, part=partial(fields, parts=lot), what="its lots", count=n_own),
    }


# By kind of question: the parts of its answer, as functions of what they are about.
SCHEMAS: Mapping[str, Callable[..., Mapping[str, Reader]]] = {
    "prices": lambda n_tasks, n_own, n_lots, n_agents: _profile(n_tasks, n_own, n_lots),
    "shares": lambda n_tasks, n_own, n_lots, n_agents: _profile(
        n_tasks, n_own, n_lots, shares=partial(numbers, size=n_agents), slopes=partial(numbers, size=n_lots)
    ),
    "messages": lambda proposals, prices: {
        "proposals": partial(agreed_numbers, numbers_agreed=proposals),
        "prices": partial(agreed_numbers, numbers_agreed=prices),
    },
    "accept": lambda: {"accepts": acceptance},
    "key": lambda: {"key": hexadecimal, "signature": signature},
    "sums": lambda count: {"masked": lambda given, _: masks.decode(given, count), "signature": signature},
    "payment": lambda: {"payment": number, "signature": signature},
}


def read_answer(kind: str, raw: Mapping[str, Any], **about: Any) -> Any:
    """The parts of an answer to a question of some kind, checked."""
    return {key: part(raw.get(key), key) for key, part in SCHEMAS[kind](**about).items()}


def check_answer(raw: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The answer as a dictionary that answers this question; raises `BadAnswer`."""
    if not isinstance(raw, dict):
        raise BadAnswer("no answer in time" if raw is None else f"not an answer but {type(raw).__name__}")
    if raw.get("leave") is True:
        raise Withdrawal("it leaves")
    stated = raw.get("number")
    if type(stated) is not int or stated != question["number"]:
        raise BadAnswer(f"answers question {short_repr(stated)} instead of {question['number']}")
    if isinstance(raw.get("error"), str):
        raise BadAnswer(f"fails to answer: {printable(raw['error']):.200}")
    return raw


def read_introduction(raw: Mapping[str, Any], index: int, size: int, *, tells_uses: bool = True) -> Introduction:
    """Checked: a layout, caps of at least zero, and known lots, if members tell which matter to them."""
    layout = read_layout(raw, size)
    owners = np.array(layout.lot_owners)
    own, n_lots = np.flatnonzero(owners == index), owners.size
    caps = np.array(
        each_of(raw.get("caps"), "caps", part=lambda given, _: cap(given, "cap"), what="its lots", count=own.size)
    )
    if not tells_uses:
        return Introduction(layout=layout, caps=caps)
    tasks = each_of(raw.get("tasks"), "tasks", part=partial(lot_indices, size=n_lots), what="its tasks")
    if not tasks and not own.size:
        raise BadAnswer("tasks must list which lots matter to each task, and it has neither tasks nor lots")
    if not layout.lot_names and len(tasks) != 1:
        raise BadAnswer(f"tasks must have one entry where everybody has one lot and one task, got {len(tasks)}")
    return Introduction(layout=layout, caps=caps, task_uses=tuple(tasks))


def read_layout(raw: Mapping[str, Any], size: int) -> Layout:
    """Whose every lot is, among so many members, and what it is called."""
    owners, names = raw.get("lot_owners"), raw.get("lot_names", [])
    if (
        not isinstance(owners, list)
        or not 0 < len(owners) <= MAX_LOTS
        or not all(type(owner) is int and 0 <= owner < size for owner in owners)
    ):
        raise BadAnswer(
            f"lot_owners must list a member by number, 0 to {size - 1}, for each lot, got {short_repr(owners)}"
        )
    is_plain = names == [] and owners == list(range(size))
    is_list = isinstance(names, list) and len(names) == len(owners)
    if not is_plain and not (
        is_list and all(isinstance(name, str) and 0 < len(name) <= MAX_LOT_NAME for name in names)
    ):
        raise BadAnswer(f"lot_names must name each of the {len(owners)} lots, got {short_repr(names)}")
    return Layout(tuple(owners), tuple(names))


def read_profile(
    raw: Mapping[str, Any],
    at: FloatArray,
    introduction: Introduction,
    earlier: Sequence[ProfileAnswer],
    *,
    index: int,
    n_agents: int,
    shares: bool,
) -> ProfileAnswer:
    """Checked: a part for every task and every lot, each consistent with what was said of it before.

    With `shares` payoffs are shared out among the agents as well, and a profile is inside where all coalitions are.
    """
    owners, tasks_used = np.array(introduction.layout.lot_owners), introduction.task_uses
    own = np.flatnonzero(owners == index)
    about = {"n_tasks": len(tasks_used), "n_own": own.size, "n_lots": at.size, "n_agents": n_agents}
    parts = read_answer("shares" if shares else "prices", raw, **about)
    tasks, lots = [], []
    nothing = TaskAnswer(at=at, worth=np.zeros(at.size), slopes=np.zeros(at.size), shares=np.zeros(n_agents))
    for task, (told, uses) in enumerate(zip(parts["tasks"], tasks_used, strict=True)):
        if told is None:
            if not at.any():
                raise BadAnswer("says that contributing nothing is outside the domain of its payoff")
            tasks.append(replace(nothing, outside=True))
            continue
        answer = replace(nothing, **{("worth" if key == "prices" else key): told[key] for key in told})
        if not introduction.layout.lot_names and answer.worth[index] < 0.0:
            raise BadAnswer("says that its own data harms it")
        _check_task(answer, uses, [each.tasks[task] for each in earlier])
        if shares:
            _check_shares(answer, uses, sum_by(owners, uses.astype(np.float64), n_agents) > 0.0)
        tasks.append(answer)
    for place, (stated, lot, most) in enumerate(zip(parts["lots"], own, introduction.caps, strict=True)):
        cost = LotAnswer(at=at, **stated)
        _check_cost(cost, int(lot), float(most), [each.lots[place] for each in earlier])
        lots.append(cost)
    return ProfileAnswer(tasks=tuple(tasks), lots=tuple(lots))


def _check_task(now: TaskAnswer, uses: NDArray[np.bool_], earlier: Sequence[TaskAnswer]) -> None:
    """Nothing is worth nothing, a concave payoff is at least its margin, and prices keep the proportions of weights."""
    if now.worth[~uses].any():
        raise BadAnswer("names a price for data that does not matter to it")
    margin = now.worth * now.at
    if (not now.at.any() and now.payoff != 0.0) or now.payoff < margin.sum() - CONTRADICTION_TOLERANCE * (
        np.abs(margin).sum() + abs(now.payoff)
    ):
        raise BadAnswer("says that its payoff is less than its prices make it")
    for before in earlier:
        if before.outside:
            continue
        moved = now.at - before.at
        _check_tangents("payoff", before.payoff, now.payoff, before.worth * moved, now.worth * moved)
        sizes = float(np.abs(before.worth).sum()), float(np.abs(now.worth).sum())
        if min(sizes) > 0.0 and np.abs(now.worth / sizes[1] - before.worth / sizes[0]).max() > PROPORTION_TOLERANCE:
            raise BadAnswer("contradicts its earlier answer: the data of others is worth other proportions to it now")


def _check_shares(now: TaskAnswer, uses: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
    """Shares make up the payoff, and are of those whose data matters; slopes have the signs of the prices."""
    if now.shares[~used].any() or now.slopes[~uses].any():
        raise BadAnswer("names a share for data that does not matter to it")
    total = float(now.shares.sum())
    if abs(total - now.payoff) > SHARE_TOLERANCE * (float(np.abs(now.shares).sum()) + abs(now.payoff)):
        raise BadAnswer("says that the shares of its payoff do not add up to it")
    if (np.sign(now.worth) * now.slopes < 0.0).any():
        raise BadAnswer("gives a share for data that harms it, or takes one from data that helps it")


def _check_cost(now: LotAnswer, lot: int, most: float, earlier: Sequence[LotAnswer]) -> None:
    """Nothing costs nothing, a convex cost is at most its margin, and its tangents lie below it."""
    if np.isinf(most) and now.marginal_cost == 0.0 and now.cost_curvature == 0.0:
        raise BadAnswer("says that contributing without end costs nothing")
    own = float(now.at[lot])
    if (own == 0.0 and now.cost > 0.0) or now.cost > now.marginal_cost * own * (1.0 + CONTRADICTION_TOLERANCE):
        raise BadAnswer("says that its samples cost it more than they do at the margin")
    for before in earlier:
        step = own - float(before.at[lot])
        _check_tangents("cost", -before.cost, -now.cost, -before.marginal_cost * step, -now.marginal_cost * step)


def _check_tangents(
    what: str, before: float, now: float, by_before: FloatArray | float, by_now: FloatArray | float
) -> None:
    """From `before` to `now` no concave function rises more than its slope before says, nor less than that after."""
    rise = now - before
    rounding = CONTRADICTION_TOLERANCE * (abs(before) + abs(now))
    most = np.sum(by_before) + rounding + CONTRADICTION_TOLERANCE * np.sum(np.abs(by_before))
    least = np.sum(by_now) - rounding - CONTRADICTION_TOLERANCE * np.sum(np.abs(by_now))
    if not least <= rise <= most:
        raise BadAnswer(f"contradicts its earlier answer: its {what} does not change as it says at the margins")
