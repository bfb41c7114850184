"""Checking answers: one is used only if it is complete, finite, in range and consistent with what was said before.

Payoffs rise and are concave in the data reached, costs rise and are convex, and contributing nothing is always inside
the domain: answers that no such payoff or cost could give are broken too. `BadAnswer` says what is wrong with an
answer, in words that go into the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import Owners, sum_by
from fedpact.negotiation import masks
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

# Of the payoffs and costs involved: contradictions smaller than this are rounding.
CONTRADICTION_TOLERANCE = 1e-9
PROPORTION_TOLERANCE = 1e-9
SHARE_TOLERANCE = 1e-8  # of the payoff: shares come from a quadrature
KEY_DIGITS = 64
MAX_SIGNATURE = 1000  # characters
SEED_BYTES = 32
MAX_STATED = 1e50  # numbers beyond it are no payoffs, prices or samples


class BadAnswer(Exception):
    """What is wrong with an answer."""


class Withdrawal(BadAnswer):
    """The agent says that it leaves."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Introduction:
    """The cap, whose data matters to the agent, and how fast it loses its worth to it; 0 where it does not say."""

    cap: float
    uses: NDArray[np.bool_]
    stiffness: float = 0.0

    @property
    def caps(self) -> FloatArray:
        """Of its lots."""
        return np.array([self.cap])


@dataclass(frozen=True, kw_only=True, eq=False)
class CostAnswer:
    """What contributing costs at one profile: of an agent's only lot, or of one of several.

    Attributes
    ----------
    at
        The profile.
    outside
        Whether it lies beyond the domain of a payoff, so that nothing is said of it.
    """

    at: FloatArray
    outside: bool = False
    cost: float = 0.0
    marginal_cost: float = 0.0
    cost_curvature: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalAnswer(CostAnswer):
    """What an agent answers about one profile; of an agent with several lots and tasks, about one task.

    Attributes
    ----------
    worth
        a_i' w_ij: what one more sample of each agent's (of each lot) is worth to it.
    curvature
        -a_i'' / a_i'^2: how fast that falls.
    """

    payoff: float = -np.inf
    worth: FloatArray
    curvature: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareAnswer(MarginalAnswer):
    """The same, with everybody's Shapley share of the agent's payoff, and d share_j / d s_j."""

    shares: FloatArray
    slopes: FloatArray


def check_answer(raw: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The answer as a dictionary that answers this question; raises `BadAnswer`."""
    if not isinstance(raw, dict):
        raise BadAnswer("no answer in time" if raw is None else f"not an answer but {type(raw).__name__}")
    if raw.get("leave") is True:
        raise Withdrawal("it leaves")
    number = raw.get("number")
    if type(number) is not int or number != question["number"]:
        raise BadAnswer(f"answers question {_describe(number)} instead of {question['number']}")
    if isinstance(raw.get("error"), str):
        raise BadAnswer(f"fails to answer: {raw['error']:.200}")
    return raw


def read_introduction(raw: dict[str, Any], index: int, size: int, *, brief: bool = False) -> Introduction:
    """Checked: a cap of at least zero, and known agents, to which itself is added; briefly the cap alone."""
    cap = read_cap(raw)
    if brief:
        return Introduction(cap=cap, uses=np.ones(size, dtype=bool))
    uses = raw.get("uses")
    if not isinstance(uses, list) or not all(type(j) is int and 0 <= j < size for j in uses):
        raise BadAnswer(f"uses must list members by number, from 0 to {size - 1}, got {_describe(uses)}")
    if len(set(uses)) != len(uses):
        raise BadAnswer("uses must list every member once")
    return Introduction(cap=cap, uses=np.isin(np.arange(size), [*uses, index]), stiffness=read_stiffness(raw))


def read_cap(raw: Mapping[str, Any]) -> float:
    """Checked: at least zero, or infinite."""
    given = raw.get("cap")
    endless = (isinstance(given, str) and given == "inf") or (isinstance(given, float) and given == np.inf)
    return np.inf if endless else _number(raw, "cap", low=0.0)


def read_stiffness(raw: Mapping[str, Any]) -> float:
    """Checked: at least zero; zero where it is not said."""
    return _number(raw, "stiffness", low=0.0) if "stiffness" in raw else 0.0


def read_marginals(
    raw: dict[str, Any],
    at: FloatArray,
    index: int,
    introduction: Introduction,
    earlier: Sequence[MarginalAnswer],
    *,
    coalitions: bool = False,
) -> MarginalAnswer:
    """Checked: finite numbers of the right sign, about the data that matters, and consistent with all said before.

    With `coalitions` a profile is inside where all coalitions are, so that only harm can lead out.
    """
    if raw.get("outside") is True:
        _check_outside(at, earlier, coalitions=coalitions)
        return MarginalAnswer(at=at, outside=True, worth=np.zeros(at.size))
    answer = MarginalAnswer(at=at, **_payoff_numbers(raw, at.size), **_cost_numbers(raw))
    if answer.worth[~introduction.uses].any():
        raise BadAnswer("names a price for data that does not matter to it")
    if answer.worth[index] < 0.0:
        raise BadAnswer("says that its own data harms it")
    _check_cost(answer, index, introduction.cap)
    _check_payoff(answer)
    for before in earlier:
        _check_payoffs(before, answer, coalitions=coalitions)
        _check_costs(before, answer, index)
        if not before.outside:
            check_proportions(before.worth, answer.worth)
    return answer


def read_task(
    raw: Any, at: FloatArray, uses: NDArray[np.bool_], earlier: Sequence[MarginalAnswer], owners: Owners | None = None
) -> MarginalAnswer:
    """Checked: what an agent with several lots or tasks says of one task, as in `read_marginals` without the costs.

    With `owners`, whose every lot is, a profile is inside where all coalitions of these are.
    """
    told = _as_object(raw, "a task")
    coalitions = owners is not None
    if told.get("outside") is True:
        _check_outside(at, earlier, coalitions=coalitions, owners=owners)
        return MarginalAnswer(at=at, outside=True, worth=np.zeros(at.size))
    answer = MarginalAnswer(at=at, **_payoff_numbers(told, at.size))
    if answer.worth[~uses].any():
        raise BadAnswer("names a price for data that does not matter to it")
    _check_payoff(answer)
    for before in earlier:
        _check_payoffs(before, answer, coalitions=coalitions, owners=owners)
        if not before.outside:
            check_proportions(before.worth, answer.worth)
    return answer


def read_lot(raw: Any, at: FloatArray, lot: int, cap: float, earlier: Sequence[CostAnswer]) -> CostAnswer:
    """Checked: what an agent with several lots says that one of them costs it."""
    answer = CostAnswer(at=at, **_cost_numbers(_as_object(raw, "a lot")))
    _check_cost(answer, lot, cap)
    for before in earlier:
        _check_costs(before, answer, lot)
    return answer


def _as_object(raw: Any, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadAnswer(f"says {_describe(raw)} of {what}, where it must answer with an object")
    return raw


def _payoff_numbers(raw: dict[str, Any], n_lots: int) -> dict[str, Any]:
    return {
        "payoff": _number(raw, "payoff"),
        "worth": _numbers(raw, "prices", n_lots),
        "curvature": _number(raw, "curvature", low=0.0),
    }


def _cost_numbers(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: _number(raw, key, low=0.0) for key in ("cost", "marginal_cost", "cost_curvature")}


def read_shares(
    raw: dict[str, Any], at: FloatArray, index: int, introduction: Introduction, earlier: Sequence[MarginalAnswer]
) -> ShareAnswer:
    """Checked: marginal prices, and shares that make up the payoff and are those of a concave one."""
    told = read_marginals(raw, at, index, introduction, earlier, coalitions=True)
    return add_shares(told, raw, introduction.uses, earlier, owners=np.arange(at.size), n_agents=at.size)


def add_shares(
    told: MarginalAnswer,
    raw: dict[str, Any],
    uses: NDArray[np.bool_],
    earlier: Sequence[MarginalAnswer],
    *,
    owners: Owners,
    n_agents: int,
) -> ShareAnswer:
    """What was told of the margins together with the shares, checked; `owners` says whose every lot is."""
    at, nothing = told.at, np.zeros(told.at.size)
    if told.outside:
        return ShareAnswer(at=at, outside=True, worth=nothing, shares=np.zeros(n_agents), slopes=nothing)
    shares, slopes = _numbers(raw, "shares", n_agents), _numbers(raw, "slopes", at.size)
    used = sum_by(owners, uses.astype(np.float64), n_agents) > 0.0
    if shares[~used].any() or slopes[~uses].any():
        raise BadAnswer("names a share for data that does not matter to it")
    size = float(np.abs(shares).sum()) + abs(told.payoff)
    if abs(float(shares.sum()) - told.payoff) > SHARE_TOLERANCE * size:
        raise BadAnswer(f"says that its payoff is {told.payoff:g}, where the shares of it add up to {shares.sum():g}")
    helped, margin = (sum_by(owners, numbers * at, n_agents) for numbers in (told.worth, slopes))
    wrong_way = (np.sign(helped) * shares < -SHARE_TOLERANCE * size) & (helped != 0.0)
    if wrong_way.any() or (np.sign(told.worth) * slopes < 0.0).any():
        raise BadAnswer("gives a share for data that harms it, or takes one from data that helps it")
    if (np.abs(shares) > SHARE_TOLERANCE * size)[used & (sum_by(owners, at, n_agents) == 0.0)].any():
        raise BadAnswer("gives a share to somebody who brings nothing")
    if (shares < margin - SHARE_TOLERANCE * (size + sum_by(owners, np.abs(slopes * at), n_agents))).any():
        raise BadAnswer("says that more data of somebody's is worth more to it than the data before")
    answer = ShareAnswer(**{**vars(told), "shares": shares, "slopes": slopes})
    for before in earlier:
        if isinstance(before, ShareAnswer) and not before.outside:
            _check_falling(before, answer)
    return answer


def _check_falling(before: ShareAnswer, now: ShareAnswer) -> None:
    """The slopes are the gradient of a concave function, the agent's part of the potential."""
    step = now.at - before.at
    turn = (now.slopes - before.slopes) * step
    rounding = SHARE_TOLERANCE * float(((np.abs(now.slopes) + np.abs(before.slopes)) * np.abs(step)).sum())
    if turn.sum() > rounding:
        raise BadAnswer("contradicts its earlier answer: its shares rise faster where there is more data")


def check_proportions(before: FloatArray, now: FloatArray, *, tol: float = PROPORTION_TOLERANCE) -> None:
    """What data is worth at the margin keeps its proportions: they are those of the weights."""
    sizes = float(np.abs(before).sum()), float(np.abs(now).sum())
    if min(sizes) > 0.0 and np.abs(now / sizes[1] - before / sizes[0]).max() > tol:
        raise BadAnswer("contradicts its earlier answer: the data of others is worth other proportions to it now")


def read_key(raw: dict[str, Any]) -> tuple[str, str]:
    """Checked: an X25519 key in hexadecimal, and its signature, which may be empty."""
    key = raw.get("key")
    if not isinstance(key, str) or len(key) != KEY_DIGITS or not set(key) <= set("0123456789abcdef"):
        raise BadAnswer(f"key must be {KEY_DIGITS} hexadecimal digits, got {_describe(key)}")
    return key, _read_signature(raw)


def read_masked(raw: dict[str, Any], count: int) -> tuple[str, str] | None:
    """Checked: so many masked numbers, as they came, and their signature; None if the member has another key now."""
    if raw.get("stale") is True:
        return None
    try:
        masks.decode(raw.get("masked"), count)
    except InvalidInput as error:
        raise BadAnswer(str(error)) from error
    return str(raw["masked"]), _read_signature(raw)


def read_payment(raw: dict[str, Any]) -> tuple[float, str]:
    """Checked: a finite number, and its signature."""
    return _number(raw, "payment"), _read_signature(raw)


def _read_signature(raw: dict[str, Any]) -> str:
    """Checked: a text, empty where the member has no signing key."""
    signature = raw.get("signature", "")
    if not isinstance(signature, str) or len(signature) > MAX_SIGNATURE:
        raise BadAnswer(f"signature must be a text, got {_describe(signature)}")
    return signature


def read_seeds(raw: dict[str, Any], rounds: Sequence[Sequence[int]]) -> list[dict[int, bytes]]:
    """Checked: for every round a seed of 32 bytes for each of some peers."""
    seeds = raw.get("seeds")
    if not isinstance(seeds, list) or len(seeds) != len(rounds):
        raise BadAnswer("seeds must be one object for each round")
    found: list[dict[int, bytes]] = []
    for peers, given in zip(rounds, seeds, strict=True):
        texts = given if isinstance(given, dict) else {}
        try:
            found.append({peer: bytes.fromhex(texts[str(peer)]) for peer in peers})
        except (KeyError, TypeError, ValueError) as error:
            raise BadAnswer("seeds must be hexadecimal, one for each other member") from error
        if any(len(seed) != SEED_BYTES for seed in found[-1].values()):
            raise BadAnswer(f"seeds must have {SEED_BYTES} bytes")
    return found


def read_acceptance(raw: dict[str, Any]) -> None:
    """That it accepts the deal; raises `Withdrawal` if it does not."""
    if raw.get("accepts") is False:
        raise Withdrawal("it refuses the deal, which is worth less to it than training alone or than it asks for")
    if raw.get("accepts") is not True:
        raise BadAnswer(f"accepts must be true or false, got {_describe(raw.get('accepts'))}")


def check_messages(raw: dict[str, Any], proposals: FloatArray, prices: FloatArray) -> None:
    """That final messages are those agreed on: others would move money between third members, at no cost to its own."""
    for key, agreed in (("proposals", proposals), ("prices", prices)):
        stated = _numbers(raw, key, agreed.size)
        if np.abs(stated - agreed).max() > PROPORTION_TOLERANCE * np.abs(agreed).max():
            raise BadAnswer(f"its final {key} are not those that were agreed")


def _check_cost(now: CostAnswer, lot: int, cap: float) -> None:
    """Nothing costs nothing, and a convex cost is at most its margin."""
    if np.isinf(cap) and now.marginal_cost == 0.0 and now.cost_curvature == 0.0:
        raise BadAnswer("says that contributing without end costs nothing")
    own = float(now.at[lot])
    if (own == 0.0 and now.cost > 0.0) or now.cost > now.marginal_cost * own * (1.0 + CONTRADICTION_TOLERANCE):
        raise BadAnswer(f"says that {own:g} samples cost it {now.cost:g}, at a marginal cost of {now.marginal_cost:g}")


def _check_payoff(now: MarginalAnswer) -> None:
    """Nothing is worth nothing, and a concave payoff is at least its margin."""
    margin = now.worth * now.at
    if (not now.at.any() and now.payoff != 0.0) or now.payoff < margin.sum() - CONTRADICTION_TOLERANCE * (
        np.abs(margin).sum() + abs(now.payoff)
    ):
        raise BadAnswer(f"says that its payoff is {now.payoff:g}, where by its prices it is at least {margin.sum():g}")


def _reach_steps(
    worth: FloatArray, before: FloatArray, at: FloatArray, *, coalitions: bool, owners: Owners | None
) -> FloatArray:
    """What a move adds to the reach that decides on the domain: of all data, or of that which harms alone.

    Whose every lot is matters to the latter: whether somebody harms depends on all of its lots together.
    """
    if not coalitions:
        return worth * (at - before)
    if owners is None:
        return np.minimum(worth, 0.0) * (at - before)
    count = int(owners.max(initial=-1)) + 1
    there, here = (np.minimum(sum_by(owners, worth * place, count), 0.0) for place in (at, before))
    return np.concatenate([there, -here])


def _check_outside(
    at: FloatArray, earlier: Sequence[MarginalAnswer], *, coalitions: bool, owners: Owners | None = None
) -> None:
    """Where an agent reaches as much data as at a place inside its domain, it is inside as well."""
    if not at.any():
        raise BadAnswer("says that contributing nothing is outside the domain of its payoff")
    for before in earlier:
        step = _reach_steps(before.worth, before.at, at, coalitions=coalitions, owners=owners)
        if not before.outside and before.worth.any() and step.sum() >= CONTRADICTION_TOLERANCE * np.abs(step).sum():
            raise BadAnswer(
                "contradicts its earlier answer: outside its domain, with more data than when it was inside"
            )


def _check_payoffs(
    before: MarginalAnswer, now: MarginalAnswer, *, coalitions: bool, owners: Owners | None = None
) -> None:
    """Tangents lie above a concave payoff."""
    if before.outside:
        step = _reach_steps(now.worth, now.at, before.at, coalitions=coalitions, owners=owners)
        if now.worth.any() and step.sum() >= CONTRADICTION_TOLERANCE * np.abs(step).sum():
            raise BadAnswer(
                "contradicts its earlier answer: inside its domain, with less data than when it was outside"
            )
    else:
        step = now.at - before.at
        _check_tangents("payoff", before.payoff, now.payoff, before.worth * step, now.worth * step)


def _check_costs(before: CostAnswer, now: CostAnswer, lot: int) -> None:
    """Tangents lie below a convex cost."""
    if not before.outside:
        step = float(now.at[lot] - before.at[lot])
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
        raise BadAnswer(
            f"contradicts its earlier answer: its {what} cannot go from {abs(before):g} to {abs(now):g} "
            f"with what it says of the margins"
        )


def _number(raw: Mapping[str, Any], key: str, *, low: float = -MAX_STATED) -> float:
    number = _finite(raw.get(key))
    if number is None:
        raise BadAnswer(f"{key} must be a number, got {_describe(raw.get(key))}")
    if not low <= number <= MAX_STATED:
        raise BadAnswer(f"{key} must lie between {low:g} and {MAX_STATED:g}, got {number:g}")
    return number


def _numbers(raw: dict[str, Any], key: str, size: int) -> FloatArray:
    given = raw.get(key)
    if not isinstance(given, list) or len(given) != size:
        length = len(given) if isinstance(given, list) else "none"
        raise BadAnswer(f"{key} must list {size} numbers, got {length}")
    numbers = [_finite(entry) for entry in given]
    for place, number in enumerate(numbers):
        if number is None or abs(number) > MAX_STATED:
            raise BadAnswer(f"{key}[{place}] must be a finite number, got {_describe(given[place])}")
    return np.array(numbers, dtype=np.float64)


def _finite(given: Any) -> float | None:
    """A finite number as a float, None for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _describe(given: Any) -> str:
    try:
        return f"{given!r:.40}"
    except Exception:  # what an agent sends need not even be printable
        return f"a {type(given).__name__}"
