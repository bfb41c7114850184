"""Which number, if it were wrong, would change the deal first.

Every member's cost, value, cap and joining cost, how useful others' data is to it and its data to others, is made
larger and smaller by up to a factor of two, one at a time. What is watched is who should be in, which mechanism is
recommended, who would leave it, and who contributes nothing. The smallest change is looked for on a coarse grid first,
then by bisection among those that change something there; all federations of a step are solved together.

A change that a larger one undoes may be missed, and so may be a mechanism that is recommended for what is left once
some have left it: here one that somebody leaves is not chosen. Who should be in, where data harms or joining costs, and
which of two mechanisms is as good take all groups: they are watched up to `MAX_AGENTS_GROUPED` members. Where members
have budgets nothing is said: whether a deal keeps them is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.comparison.batches import solve_arrays
from fedpact.comparison.members import best_groups
from fedpact.comparison.recommendation import CLOSE_SHARE, choose
from fedpact.comparison.sweeps import is_vectorised
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.mechanisms import Mechanism
from fedpact.scenario.members_words import DataUnit
from fedpact.solvers.fair_gains import fair_gains_of_totals
from fedpact.solvers.groups import BoolArray, all_groups, group_welfare
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, join_names

if TYPE_CHECKING:
    from fedpact.comparison.comparison import Comparison

GRID = (1.1, 1.3, 2.0)  # factors, and their inverses
BISECTIONS = 7
MAX_AGENTS, MAX_AGENTS_GROUPED = 30, 8
NOTHING = 1e-9  # of the largest contribution
IN_PLAY = 0.9  # of the recommended mechanism's welfare: others with less are left out
KINDS = ("cost", "value", "cap", "joining cost", "received", "given")
STEADY = (
    "No cost, value, cap or joining cost of a member, nor how useful its data or others' data to it is, changes this "
    "deal by being half or double of what is stated, one at a time"
)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The smallest change of one number that changes the deal.

    Attributes
    ----------
    kind, member
        Which number, one of `KINDS`, and whose; empty where none within a factor of two changes anything.
    factor
        What it is multiplied by.
    sentence
        All of it in words.
    """

    kind: str
    member: str
    factor: float
    sentence: str


class _Variation(NamedTuple):
    kind: str
    member: str
    factor: float


class _State(NamedTuple):
    """What is watched of a deal: who should be in, who leaves, the mechanism by index, and who contributes nothing."""

    members: tuple[bool, ...]
    leavers: tuple[bool, ...]
    mechanism: int
    idle: tuple[bool, ...]


def deal_sensitivity(comparison: Comparison) -> Sensitivity | None:
    """What changes the recommended deal first; None where that is not worked out."""
    recommended = comparison.recommendation
    federation = comparison.federation
    if recommended is None or comparison.not_recommended or not 2 <= federation.n_agents <= MAX_AGENTS:
        return None
    if np.isfinite(federation.budgets).any():  # whether a deal within them is left is not followed
        return None
    watch = _Watch(comparison)
    if not watch.watches_members and (recommended.mechanism == "standalone" or not watch.rules):
        return None
    found = _smallest(watch)
    if found is None:
        return Sensitivity(kind="", member="", factor=1.0, sentence=STEADY)
    variation, change = found
    said = f"The first number to make sure of: if {_input_text(comparison, variation)}, {change}"
    return Sensitivity(kind=variation.kind, member=variation.member, factor=variation.factor, sentence=said)


def _smallest(watch: _Watch) -> tuple[_Variation, str] | None:
    """The variation nearest to nothing that changes something, and what it changes, in words."""
    federation, low = watch.comparison.federation, 1.0
    inputs = [(kind, name) for kind in KINDS for name in federation.names if _is_given(federation, kind, name)]
    for high in GRID:
        tried = [_Variation(*each, high**sign) for each in inputs for sign in (1, -1)]
        moved = [each for each, changes in zip(tried, watch.changes(tried), strict=True) if changes]
        if moved:
            break
        low = high
    else:
        return None
    signs = np.array([1.0 if each.factor > 1.0 else -1.0 for each in moved])
    lows, highs = np.full(len(moved), np.log(low)), np.full(len(moved), np.log(high))
    for _ in range(BISECTIONS):
        middle = (lows + highs) / 2.0
        changes = watch.changes(
            [each._replace(factor=at) for each, at in zip(moved, np.exp(signs * middle), strict=True)]
        )
        lows, highs = np.where(changes, lows, middle), np.where(changes, middle, highs)
    for first in np.argsort(highs, kind="stable").tolist():
        variation = moved[first]._replace(factor=float(np.exp(signs[first] * highs[first])))
        if words := watch.words(variation):
            return variation, words
    assert watch.watches_mechanism  # every other change has words
    watch.watches_mechanism = False  # another seemed to be the one to choose, and was not
    return _smallest(watch)


class _Watch:
    """What the recommended deal is, and what becomes of it under variations."""

    def __init__(self, comparison: Comparison) -> None:
        assert comparison.recommendation is not None
        self.comparison, self.chosen = comparison, comparison.recommendation.mechanism
        federation = comparison.federation
        self.joined = comparison.among_best or comparison  # those whose deal is recommended
        self.has_groups = federation.n_agents <= MAX_AGENTS_GROUPED
        self.watches_members = self.has_groups and (federation.has_harm or bool(federation.joining_costs.any()))
        self.watches_mechanism = True
        self.rules = [rules for rules in self.joined.mechanisms.values() if self._is_in_play(rules)]

    def _is_in_play(self, rules: Mechanism) -> bool:
        """Whether a mechanism is solved for many federations at once, and is recommended or might be."""
        quick = rules.has_prices or is_vectorised(
            self.joined.federation, rules
        )  # optima are quick for many members too
        if rules.is_baseline or rules.has_side_payments or not quick:
            return False
        welfare = {each.mechanism: each.welfare for each in self.joined}
        return welfare.get(rules.name, -np.inf) >= IN_PLAY * welfare.get(self.chosen, -np.inf)

    def changes(self, variations: Sequence[_Variation]) -> list[bool]:
        """Whether each changes something."""
        now, *then = self._states(variations)
        return [state != now for state in then]

    def words(self, variation: _Variation) -> str:
        """What a variation changes; empty where the recommendation turns out to be the same."""
        now, then = self._states([variation])
        names, joined = self.comparison.federation.names, self.joined.federation.names
        if then.members != now.members:
            best = [name for name, is_in in zip(names, then.members, strict=True) if is_in]
            return (
                f"the best federation would be {join_names(best, most=MAX_NAMES)}" if best else "nobody should federate"
            )
        if then.leavers != now.leavers:
            left, stay = _new(joined, now.leavers, then.leavers), _new(joined, then.leavers, now.leavers)
            would = f"would leave {self.comparison.title(self.chosen)}" if left else "would stay"
            return f"{join_names(left or stay, most=MAX_NAMES)} {would}"
        if then.idle != now.idle:
            stop, start = _new(joined, now.idle, then.idle), _new(joined, then.idle, now.idle)
            said = [f"{join_names(stop, most=MAX_NAMES)} would contribute nothing"] if stop else []
            return " and ".join(
                [*said, *([f"{join_names(start, most=MAX_NAMES)} would contribute too"] if start else [])]
            )
        return self._other_mechanism(variation)

    def _other_mechanism(self, variation: _Variation) -> str:
        from fedpact.comparison.comparison import compare  # noqa: PLC0415 - a comparison has a sensitivity

        federation = self.joined.federation
        varied = federation.with_arrays(_vary(federation, [variation]).at(0))
        recommended = compare(varied, list(self.joined.mechanisms.values())).recommendation
        if recommended is None or recommended.mechanism == self.chosen:
            return ""
        return f"{self.comparison.title(recommended.mechanism)} would be recommended instead"

    def _states(self, variations: Sequence[_Variation]) -> list[_State]:
        """The state as it is, and under each variation."""
        every = [_Variation("", "", 1.0), *variations]
        size = self.comparison.federation.n_agents
        members = [(True,) * size] * len(every)
        if self.watches_members:
            totals = group_welfare(_vary(self.comparison.federation, every), all_groups(size))
            totals = np.where(np.isnan(totals).any(axis=-1, keepdims=True), totals[0], totals)
            members = [tuple(each) for each in best_groups(size, totals).tolist()]
        if self.chosen == "standalone":
            return [_State(each, (), -1, ()) for each in members]
        federation = self.joined.federation
        arrays = _vary(federation, every)
        outcomes = {each.name: solve_arrays(federation, arrays, each) for each in self.rules}
        watched = outcomes.get(self.chosen) or next(iter(outcomes.values()), None)
        if watched is None:
            return [_State(each, (), -1, ()) for each in members]
        brought = sum_by(arrays.lot_owners, watched.contributions, arrays.n_agents)
        idle = brought <= NOTHING * brought.max(axis=-1, keepdims=True)
        leaves = watched.would_leave if self.chosen in outcomes else np.zeros_like(idle)
        choices = self._choices(arrays, list(outcomes.values())) if self.watches_mechanism else [-1] * len(every)
        states = [
            _State(each, tuple(left), choice, tuple(nothing))
            for each, left, choice, nothing in zip(members, leaves.tolist(), choices, idle.tolist(), strict=True)
        ]
        # Of a federation without an outcome nothing is known: it counts as no change.
        return [state if solved else states[0] for state, solved in zip(states, watched.solved, strict=True)]

    def _choices(self, arrays: FederationArrays, outcomes: Sequence[Outcomes]) -> list[int]:
        """Which mechanism that keeps everybody, within its budget, is the one to choose, by index; -1 if none does."""
        budgets = self.joined.federation.budgets
        keeps = np.array(
            [
                each.solved
                & ~each.would_leave.any(axis=-1)
                & (-each.payments <= budgets + each.tolerances).all(axis=-1)
                for each in outcomes
            ]
        )
        welfare = np.where(keeps, np.array([each.welfare for each in outcomes]), -np.inf)
        choices = np.where(keeps.any(axis=0), welfare.argmax(axis=0), -1)
        most = np.where(keeps.any(axis=0), welfare.max(axis=0), 0.0)
        tied = np.flatnonzero((keeps & (welfare >= most - CLOSE_SHARE * np.abs(most))).sum(axis=0) > 1)
        if tied.size and self.has_groups:
            groups = all_groups(arrays.n_agents)
            totals = group_welfare(arrays.at(tied), groups)
            fair = fair_gains_of_totals(totals, arrays.n_agents)
            ranked = [_hold_and_share(each, tied, groups, totals, fair) for each in outcomes]
            for index, point in enumerate(tied.tolist()):
                holds, shares = ([each[part][index] for each in ranked] for part in (0, 1))
                choices[point] = choose(welfare[:, point].tolist(), holds, shares)
        return [int(choice) for choice in choices]


def _hold_and_share(
    outcomes: Outcomes, points: NDArray[np.intp], groups: BoolArray, totals: FloatArray, fair: FloatArray
) -> tuple[list[bool], list[float]]:
    """Whether no group gains by leaving, and the lowest share of a fair gain, at some of the federations."""
    tols, gains = outcomes.tolerances[points], outcomes.ir_gaps[points]
    lacking = (totals - outcomes.utilities[points] @ groups.T)[:, :-1].max(axis=-1)  # without everybody together
    shares = np.divide(gains, fair, out=np.full(gains.shape, np.inf), where=fair > tols).min(axis=-1)
    return (lacking <= tols.sum(axis=-1)).tolist(), shares.tolist()


def _parts(arrays: FederationArrays, kind: str, agent: int) -> dict[str, NDArray[np.bool_]]:
    """Which of a federation's numbers a kind of a member's is, by their field."""
    lots, tasks = arrays.lot_owners == agent, arrays.task_owners == agent
    fields = {
        "cost": {"linear": lots, "quadratic": lots},
        "value": {"values": tasks},
        "cap": {"caps": lots},
        "joining cost": {"joining_costs": np.arange(arrays.n_agents) == agent},
        "received": {"weights": tasks[:, None] & ~lots},
        "given": {"weights": ~tasks[:, None] & lots},
    }
    return fields[kind]


def _is_given(federation: Federation, kind: str, name: str) -> bool:
    """Whether a member has a number of this kind that can be larger or smaller."""
    arrays = federation.given_arrays
    parts = _parts(arrays, kind, federation.names.index(name)).items()
    return any(
        bool((np.isfinite(found) & (found != 0)).any())
        for field, mask in parts
        for found in [getattr(arrays, field)[mask]]
    )


def _vary(federation: Federation, variations: Sequence[_Variation]) -> FederationArrays:
    """The federation once for each variation; of members that are not in it none."""
    arrays, changed = federation.given_arrays, dict[str, FloatArray]()
    for index, (kind, member, factor) in enumerate(variations):
        if member in federation.names:
            for field, mask in _parts(arrays, kind, federation.names.index(member)).items():
                own = getattr(arrays, field)
                numbers = changed.setdefault(field, np.repeat(own[None], len(variations), axis=0))
                numbers[index][mask] *= factor
    return federation.counted_from_home(arrays.repeated(len(variations), **changed))


def _new(names: Sequence[str], now: Sequence[bool], then: Sequence[bool]) -> list[str]:
    return [name for name, was, is_now in zip(names, now, then, strict=True) if is_now and not was]


def _input_text(comparison: Comparison, variation: _Variation) -> str:
    """The number in words, with what it is now and would be where it is one number that people know."""
    kind, name, factor = variation
    much = f"{100.0 * abs(factor - 1.0):.2g} % {'more' if factor > 1.0 else 'less'}"
    if kind == "received":
        return f"others' data were {much} useful to {name}"
    if kind == "given":
        return f"{name}'s data were {much} useful to others"
    arrays = comparison.federation.given_arrays
    field, mask = next(iter(_parts(arrays, kind, comparison.federation.names.index(name)).items()))
    numbers = getattr(arrays, field)[mask]
    amounts = ""
    if numbers.size == 1 and numbers[0] and kind != "value":
        text = comparison.amount if kind != "cap" else lambda number: f"{number:.4g}"
        then, now = (text(number) for number in (factor * float(numbers[0]), float(numbers[0])))
        unit = DataUnit.parse(comparison.unit or "unit of data")
        per = {
            "cost": f" per {unit.noun if unit.count == 1.0 else comparison.unit}",
            "cap": f" {comparison.unit}".rstrip(),
        }
        amounts = f" ({then} instead of {now}{per.get(kind, '')})" if then != now else ""
    return f"{name}'s {kind} were {much}{amounts}"
