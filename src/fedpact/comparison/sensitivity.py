"""Which number, if it were wrong, would change the deal first.

Every member's cost, value, cap and joining cost, how useful others' data is to it and its data to others, and the curve
of all, by its parameter, is made larger and smaller by up to a factor of two, one at a time. What is watched is who
should be in, who would leave the recommended mechanism, and who contributes nothing under it. The smallest change is
looked for on a coarse grid first, then by bisection among those that change something there; all federations of a step
are solved together.

A change that a larger one undoes may be missed. Who should be in, where data harms or joining costs, takes all groups:
it is watched up to `MAX_AGENTS_GROUPED` members. Where members have budgets nothing is said: whether a deal keeps them
is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.comparison.batches import is_vectorised, solve_arrays
from fedpact.comparison.members import best_groups
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
KINDS = ("cost", "value", "cap", "joining cost", "received", "given")  # of a member
CURVE = "curve"  # of all members
STEADY = (
    "Who takes part and contributes does not hang on a single number: it stays the same with half or twice a member's "
    "cost, value, cap or joining cost, of what data is worth to it or from it, or of the curve's parameter, one at a "
    "time. Payments do change with each of them"
)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The smallest change of one number that changes the deal."""

    kind: str  # of `KINDS`, or `CURVE`; empty where none within a factor of two changes anything
    member: str  # empty of the curve
    factor: float  # what the number is multiplied by
    sentence: str


class Variation(NamedTuple):
    """A member's number of a kind, or the curve's parameter, and what it is multiplied by."""

    kind: str
    member: str
    factor: float


def deal_sensitivity(comparison: Comparison) -> Sensitivity | None:
    """What changes the recommended deal first; None where that is not worked out."""
    federation, chosen = comparison.federation, comparison.recommendation
    limited = np.isfinite(federation.budgets).any()
    if chosen is None or comparison.not_recommended or limited or not 2 <= federation.n_agents <= MAX_AGENTS:
        return None
    watch = _Watch(comparison, chosen.mechanism)
    if not watch.watches_members and not watch.watches_deal:
        return None
    found = _smallest(watch)
    if found is None:
        return Sensitivity(kind="", member="", factor=1.0, sentence=STEADY)
    said = f"The first number to make sure of: if {_input_text(comparison, found)}, {watch.words(found)}"
    return Sensitivity(**found._asdict(), sentence=said)


def _smallest(watch: _Watch) -> Variation | None:
    """The variation nearest to nothing that changes something: on the grid, then by bisection below it."""
    arrays, names, low = watch.federation.given_arrays, watch.federation.names, 1.0
    inputs = [(kind, name) for kind in KINDS for agent, name in enumerate(names) if _is_given(arrays, kind, agent)]
    inputs += [(CURVE, "")] if arrays.payoff.parameters else []
    for high in GRID:
        tried = [Variation(*each, high**sign) for each in inputs for sign in (1, -1)]
        moved = [each for each, changes in zip(tried, watch.changes(tried), strict=True) if changes]
        if moved:
            break
        low = high
    else:
        return None
    full = np.log([each.factor for each in moved])
    lows, highs = np.full(full.size, np.log(low) / np.log(high)), np.ones(full.size)
    for _ in range(BISECTIONS):
        middle = (lows + highs) / 2.0
        factors = np.exp(middle * full).tolist()
        changes = watch.changes([each._replace(factor=at) for each, at in zip(moved, factors, strict=True)])
        lows, highs = np.where(changes, lows, middle), np.where(changes, middle, highs)
    first = int(np.argmin(highs))
    return moved[first]._replace(factor=float(np.exp(highs[first] * full[first])))


class _Watch:
    """Three flags for every member: whether it should be in, leaves the recommended deal, contributes nothing."""

    def __init__(self, comparison: Comparison, mechanism: str) -> None:
        self.federation = comparison.federation
        self.joined = (comparison.among_best or comparison).federation  # those whose deal is recommended
        rules = comparison.mechanism(mechanism)
        self.can_leave = not rules.has_side_payments  # on top of the optimum's prices, which keep everybody
        self.rules = rules if self.can_leave else MECHANISMS["externality"]
        has_outsiders = self.federation.has_harm or bool(self.federation.joining_costs.any())
        self.watches_members = has_outsiders and self.federation.n_agents <= MAX_AGENTS_GROUPED
        # Optima are quick for many members too.
        self.watches_deal = self.rules.federated and (self.rules.has_prices or is_vectorised(self.joined, self.rules))

    def changes(self, variations: Sequence[Variation]) -> NDArray[np.bool_]:
        """Whether each changes a flag."""
        flags = self._flags(variations)
        return np.asarray((flags[:, 1:] != flags[:, :1]).any(axis=(0, 2)))

    def words(self, variation: Variation) -> str:
        """What a variation changes."""
        (is_in, was_leaving, was_idle), (in_then, leaves, idles) = np.swapaxes(self._flags([variation]), 0, 1)
        if (in_then != is_in).any():
            return f"the best federation would be {self._names(in_then)}" if in_then.any() else "nobody should federate"
        if (leaves != was_leaving).any():
            left, stay = leaves & ~was_leaving, was_leaving & ~leaves
            return f"{self._names(left if left.any() else stay)} would " + (
                f"leave {self.rules.title}" if left.any() else "stay"
            )
        stop, start = idles & ~was_idle, was_idle & ~idles
        said = [f"{self._names(stop)} would contribute nothing"] if stop.any() else []
        return " and ".join([*said, *([f"{self._names(start)} would contribute too"] if start.any() else [])])

    def _flags(self, variations: Sequence[Variation]) -> NDArray[np.bool_]:
        """(3, as it is and under each variation, members); a federation without an outcome counts as no change."""
        every = [Variation("", "", 1.0), *variations]
        size = self.federation.n_agents
        flags = np.zeros((3, len(every), size), dtype=np.bool_)
        if self.watches_members:
            totals = group_welfare(vary(self.federation, every), all_groups(size))
            totals = np.where(np.isnan(totals).any(axis=-1, keepdims=True), totals[0], totals)
            flags[0] = best_groups(size, totals)
        if self.watches_deal:
            outcomes = solve_arrays(self.joined, vary(self.joined, every), self.rules)
            brought = sum_by(outcomes.arrays.lot_owners, outcomes.contributions, self.joined.n_agents)
            idle = brought <= NOTHING * brought.max(axis=-1, keepdims=True)
            found = np.stack([outcomes.would_leave & self.can_leave, idle])
            solved = outcomes.solved[:, None]
            flags[1:, :, np.isin(self.federation.names, self.joined.names)] = np.where(solved, found, found[:, :1])
        return flags

    def _names(self, flags: NDArray[np.bool_]) -> str:
        return join_names([self.federation.names[agent] for agent in np.flatnonzero(flags)], most=MAX_NAMES)


def _places(arrays: FederationArrays, kind: str, agent: int) -> dict[str, NDArray[np.bool_]]:
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


def _is_given(arrays: FederationArrays, kind: str, agent: int) -> bool:
    """Whether a member has a number of this kind that can be larger or smaller."""
    numbers = [getattr(arrays, field)[mask] for field, mask in _places(arrays, kind, agent).items()]
    return any(bool((np.isfinite(each) & (each != 0)).any()) for each in numbers)


def vary(federation: Federation, variations: Sequence[Variation]) -> FederationArrays:
    """The federation once for each variation; of members that are not in it none."""
    arrays, changed = federation.given_arrays, dict[str, FloatArray]()
    for index, (kind, member, factor) in enumerate(variations):
        if member in federation.names:
            for field, mask in _places(arrays, kind, federation.names.index(member)).items():
                own = getattr(arrays, field)
                changed.setdefault(field, np.repeat(own[None], len(variations), axis=0))[index][mask] *= factor
    varied = arrays.repeated(len(variations), **changed)
    curves = np.array([[each.factor if each.kind == CURVE else 1.0] for each in variations])
    parameters = {name: curves * numbers for name, numbers in varied.payoff.parameters.items()}
    return federation.counted_from_home(replace(varied, payoff=varied.payoff.unchecked(**parameters)))


def _input_text(comparison: Comparison, variation: Variation) -> str:
    """The number in words, with what it is now and would be where it is one number that people know."""
    kind, name, factor = variation
    much = f"{100.0 * abs(factor - 1.0):.2g} % {'more' if factor > 1.0 else 'less'}"
    if kind == CURVE:
        label, numbers = next(iter(comparison.federation.payoff.parameters.items()))
        then = f" ({factor * float(numbers):.3g} instead of {float(numbers):.3g})" if np.ndim(numbers) == 0 else ""
        return f"the curve's {label} were {much}{then}"
    if kind in ("received", "given"):
        whose, whom = ("others' data", name) if kind == "received" else (f"{name}'s data", "others")
        return f"{whose} were {much} useful to {whom}"
    arrays = comparison.federation.given_arrays
    field, mask = next(iter(_places(arrays, kind, comparison.federation.names.index(name)).items()))
    numbers = getattr(arrays, field)[mask]
    amounts = ""
    if numbers.size == 1 and numbers[0] and kind != "value":
        text = comparison.amount if kind != "cap" else lambda number: f"{number:.4g}"
        then, now = (text(number) for number in (factor * float(numbers[0]), float(numbers[0])))
        unit = DataUnit.parse(comparison.unit or "unit of data")
        per = {"cost": f" per {comparison.unit or unit.noun}", "cap": f" {comparison.unit}".rstrip()}
        per |= {"cost": f" per {unit.noun}"} if unit.count == 1.0 else {}
        amounts = f" ({then} instead of {now}{per.get(kind, '')})" if then != now else ""
    return f"{name}'s {kind} were {much}{amounts}"
