"""Which number, if it were wrong, would change the deal first.

Every member's cost, value, cap and joining cost, how useful others' data is to it and its data to others, is made
larger and smaller by up to a factor of two, one at a time. What is watched is who should be in, who would leave the
recommended mechanism, and who contributes nothing under it. The smallest change is looked for on a coarse grid first,
then by bisection among those that change something there; all federations of a step are solved together.

A change that a larger one undoes may be missed. Who should be in, where data harms or joining costs, takes all groups:
it is watched up to `MAX_AGENTS_GROUPED` members. Where members have budgets nothing is said: whether a deal keeps them
is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.comparison.batches import solve_arrays
from fedpact.comparison.members import best_groups
from fedpact.comparison.sweeps import is_vectorised
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.mechanisms import MECHANISMS
from fedpact.scenario.members_words import DataUnit
from fedpact.solvers.groups import all_groups, group_welfare
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, join_names

if TYPE_CHECKING:
    from fedpact.comparison.comparison import Comparison

GRID = (1.1, 1.3, 2.0)  # factors, and their inverses
BISECTIONS = 7
MAX_AGENTS, MAX_AGENTS_GROUPED = 30, 8
NOTHING = 1e-9  # of the largest contribution
KINDS = ("cost", "value", "cap", "joining cost", "received", "given")
STEADY = (
    "No single number has to be exact: with half or twice a member's cost, value, cap or joining cost, or of what data "
    "is worth to it or from it, one at a time, the same members take part and contribute"
)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The smallest change of one number that changes the deal."""

    kind: str  # of `KINDS`; empty where none within a factor of two changes anything
    member: str
    factor: float  # what the number is multiplied by
    sentence: str


class _Variation(NamedTuple):
    kind: str
    member: str
    factor: float


class _State(NamedTuple):
    """What is watched of a deal, one flag per member each: who should be in, who leaves, who contributes nothing."""

    members: tuple[bool, ...]
    leavers: tuple[bool, ...] = ()
    idle: tuple[bool, ...] = ()


def deal_sensitivity(comparison: Comparison) -> Sensitivity | None:
    """What changes the recommended deal first; None where that is not worked out."""
    federation = comparison.federation
    if comparison.recommendation is None or comparison.not_recommended or not 2 <= federation.n_agents <= MAX_AGENTS:
        return None
    if np.isfinite(federation.budgets).any():
        return None
    watch = _Watch(comparison)
    if not watch.watches_members and not watch.watches_deal:
        return None
    variation = _smallest(watch)
    if variation is None:
        return Sensitivity(kind="", member="", factor=1.0, sentence=STEADY)
    said = f"The first number to make sure of: if {_input_text(comparison, variation)}, {watch.words(variation)}"
    return Sensitivity(kind=variation.kind, member=variation.member, factor=variation.factor, sentence=said)


def _smallest(watch: _Watch) -> _Variation | None:
    """The variation nearest to nothing that changes something."""
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
    first = int(np.argmin(highs))
    return moved[first]._replace(factor=float(np.exp(signs[first] * highs[first])))


class _Watch:
    """What the recommended deal is, and what becomes of it under variations."""

    def __init__(self, comparison: Comparison) -> None:
        assert comparison.recommendation is not None
        self.comparison, chosen = comparison, comparison.recommendation.mechanism
        federation = comparison.federation
        self.joined = (comparison.among_best or comparison).federation  # those whose deal is recommended
        self.rules = comparison.mechanism(chosen)
        self.keeps_all = self.rules.has_side_payments  # on top of the optimum's prices
        if self.keeps_all:
            self.rules = MECHANISMS["externality"]
        few = federation.n_agents <= MAX_AGENTS_GROUPED
        self.watches_members = few and (federation.has_harm or bool(federation.joining_costs.any()))
        # Optima are quick for many members too.
        quick = self.rules.has_prices or is_vectorised(self.joined, self.rules)
        self.watches_deal = self.rules.federated and quick

    def changes(self, variations: Sequence[_Variation]) -> list[bool]:
        """Whether each changes something."""
        now, *then = self._states(variations)
        return [state != now for state in then]

    def words(self, variation: _Variation) -> str:
        """What a variation changes."""
        now, then = self._states([variation])
        names, joined = self.comparison.federation.names, self.joined.names
        if then.members != now.members:
            best = [name for name, is_in in zip(names, then.members, strict=True) if is_in]
            return f"the best federation would be {_names(best)}" if best else "nobody should federate"
        if then.leavers != now.leavers:
            left, stay = _new(joined, now.leavers, then.leavers), _new(joined, then.leavers, now.leavers)
            return f"{_names(left or stay)} would {f'leave {self.rules.title}' if left else 'stay'}"
        stop, start = _new(joined, now.idle, then.idle), _new(joined, then.idle, now.idle)
        said = [f"{_names(stop)} would contribute nothing"] if stop else []
        return " and ".join([*said, *([f"{_names(start)} would contribute too"] if start else [])])

    def _states(self, variations: Sequence[_Variation]) -> list[_State]:
        """The state as it is, and under each variation; of a federation without an outcome it counts as no change."""
        every = [_Variation("", "", 1.0), *variations]
        size = self.comparison.federation.n_agents
        members = [(True,) * size] * len(every)
        if self.watches_members:
            totals = group_welfare(_vary(self.comparison.federation, every), all_groups(size))
            totals = np.where(np.isnan(totals).any(axis=-1, keepdims=True), totals[0], totals)
            members = [tuple(each) for each in best_groups(size, totals).tolist()]
        if not self.watches_deal:
            return [_State(each) for each in members]
        arrays = _vary(self.joined, every)
        outcomes = solve_arrays(self.joined, arrays, self.rules)
        brought = sum_by(arrays.lot_owners, outcomes.contributions, arrays.n_agents)
        idle = brought <= NOTHING * brought.max(axis=-1, keepdims=True)
        leaves = outcomes.would_leave & ~self.keeps_all
        states = [
            _State(each, tuple(left), tuple(nothing))
            for each, left, nothing in zip(members, leaves.tolist(), idle.tolist(), strict=True)
        ]
        return [state if solved else states[0] for state, solved in zip(states, outcomes.solved, strict=True)]


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


def _names(names: Sequence[str]) -> str:
    return join_names(names, most=MAX_NAMES)


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
