"""What a coordinator makes of answers about one profile: a model of welfare, and the profile it would be best at.

The payoffs are the curves of `fedpact.negotiation.payoff_curves`, the costs quadratic. The model's maximiser is found
by the compiled solver for small programs, and where that does not get there by the interior point; nobody is asked
anything for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import SharedCap
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import first_exceeded, take_shared_caps
from fedpact.negotiation.payoff_curves import MAX_SLOPE_ERROR, MIN_DISTANCE, PayoffCurves, fit_curves
from fedpact.negotiation.validation import CostAnswer, MarginalAnswer
from fedpact.programs.batch_solver import climb
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.domain import room
from fedpact.programs.shared_caps import maximise_within, shared_prices
from fedpact.programs.small_batches import Programs
from fedpact.programs.solver import linearised_gains, maximise_batch
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

AnswerT = TypeVar("AnswerT", bound=CostAnswer)
STRETCH = 64.0
MAX_STRETCHES = 12
MAX_COMPILED_AGENTS = 24  # agents: more are solved faster by the interior point alone
MAX_SQUARED = 1e100
MAX_LINEARISED_GAIN = 1e-11  # a linearised gain, of the scale, that makes a point the model's maximiser


class Table(Protocol):
    """Those who negotiate, and what they have answered: all members of a session, or a group of them. As in `Session`.

    `lots` and `tasks` are those of the members, `lot_owners` and `task_owners` say whose all are.
    """

    names: list[str]
    size: int
    lot_owners: NDArray[np.intp]
    task_owners: NDArray[np.intp]

    @property
    def histories(self) -> Mapping[int, Sequence[MarginalAnswer]]:
        """What was answered about every task."""

    @property
    def cost_histories(self) -> Mapping[int, Sequence[CostAnswer]]:
        """What was answered about every lot's cost."""

    @property
    def members(self) -> NDArray[np.intp]:
        """Their places."""

    @property
    def lots(self) -> NDArray[np.intp]:
        """The members' lots."""

    @property
    def tasks(self) -> NDArray[np.intp]:
        """The members' tasks."""

    @property
    def caps(self) -> FloatArray:
        """The caps of all lots; zero for those of agents who are not at the table."""

    @property
    def shared_caps(self) -> tuple[SharedCap, ...]:
        """That the members' lots share, by their places among all lots."""

    def for_all_lots(self, numbers: Sequence[float] | FloatArray) -> FloatArray:
        """Numbers of the members' lots as those of all lots."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WelfareModel:
    """Welfare around a profile, as the members have described it.

    Arrays run over the members' tasks (payoffs, curves) or lots; `worth` is (tasks, lots), what was answered about the
    profile itself. `task_members` and `lot_members` say whose each is, by number among the members.
    """

    at: FloatArray
    worth: FloatArray
    payoffs: FloatArray
    costs: FloatArray
    marginal_costs: FloatArray
    cost_curvatures: FloatArray
    caps: FloatArray
    curves: PayoffCurves = field(repr=False)
    task_members: NDArray[np.intp]
    lot_members: NDArray[np.intp]
    shared_caps: tuple[SharedCap, ...] = ()

    @classmethod
    def of(cls, table: Table, at: FloatArray) -> WelfareModel:
        """The model of a profile, from all that the members have answered about it and others; `at` is of their lots.

        What they have answered last about this profile counts as their last answer.
        """
        members, lots = table.members, table.lots
        histories = [_ending_at(table.histories[int(task)], at, lots) for task in table.tasks]
        cost_histories = [_ending_at(table.cost_histories[int(lot)], at, lots) for lot in lots]
        answers, costs = [history[-1] for history in histories], [history[-1] for history in cost_histories]
        return cls(
            at=at,
            worth=np.array([answer.worth[lots] for answer in answers]),
            payoffs=np.array([answer.payoff for answer in answers]),
            costs=np.array([answer.cost for answer in costs]),
            marginal_costs=np.array([answer.marginal_cost for answer in costs]),
            cost_curvatures=np.array([_cost_curvature(*each) for each in zip(cost_histories, lots, strict=True)]),
            caps=table.caps[lots],
            curves=fit_curves(histories, lots),
            task_members=np.searchsorted(members, table.task_owners[table.tasks]),
            lot_members=np.searchsorted(members, table.lot_owners[lots]),
            shared_caps=take_shared_caps(table.shared_caps, lots),
        )

    @property
    def agent_worth(self) -> FloatArray:
        """What one more sample of each lot is worth to each member, (members, lots)."""
        worth = np.zeros((self._n_members, self.at.size))
        np.add.at(worth, self.task_members, self.worth)
        return worth

    @property
    def utilities(self) -> FloatArray:
        """Payoff less cost of every member, as stated."""
        return self._per_member(self.payoffs, self.costs)

    @property
    def _n_members(self) -> int:
        return 1 + int(max(self.task_members.max(initial=-1), self.lot_members.max(initial=-1)))

    def _per_member(self, of_tasks: FloatArray, of_lots: FloatArray) -> FloatArray:
        """Sums over everybody's tasks, less those over its lots."""
        count = self._n_members
        return sum_by(self.task_members, of_tasks, count) - sum_by(self.lot_members, of_lots, count)

    @property
    def welfare(self) -> float:
        """At the profile, as stated."""
        return float(self.payoffs.sum() - self.costs.sum())

    @cached_property
    def scale(self) -> float:
        """The size of what is at stake."""
        return float(np.abs(self.payoffs).sum() + self.costs.sum()) or 1e-3 * float((1.0 / self.curves.decay).sum())

    @cached_property
    def marginal_welfare(self) -> FloatArray:
        """What one more sample of each agent's is worth to all, less its cost."""
        return self.worth.sum(axis=0) - self.marginal_costs

    @cached_property
    def gap(self) -> float:
        """How much more welfare there can be at most, of the scale: the linearised gain over what payoffs can buy.

        Payoffs are concave, so whatever the curves are like there is no more, as long as the costs of a better profile
        are at most twice the payoffs and costs of this one.
        """
        upper = np.maximum(np.minimum(self.caps, self.affordable(2.0 * self.scale)), self.at)
        if self.shared_caps:
            return shared_prices(self.at, self.marginal_welfare, upper, self.shared_caps)[1] / self.scale
        return float(linearised_gains(self.at, self.marginal_welfare, upper).sum()) / self.scale

    def best(self) -> tuple[FloatArray, float]:
        """The profile the model is largest at, and how much more it promises there."""
        box = np.where(np.isfinite(self.caps), self.caps, STRETCH * (1.0 + self.at.max()))
        for _ in range(MAX_STRETCHES):
            found = self._maximise(box)
            stretched = ~np.isfinite(self.caps) & (found >= 0.99 * box)
            if not stretched.any():
                break
            box = np.where(stretched, STRETCH * box, box)
        return found, self.promised(found)

    def promised(self, profile: FloatArray) -> float:
        """The model's gain in welfare from the profile it is about to another."""
        return float(self.gains(profile).sum())

    def gains(self, profile: FloatArray) -> FloatArray:
        """Every member's gain, payoff less cost, from the profile the model is about to another."""
        moved = profile - self.at
        here, there = self.curves.steps(self.at), self.curves.steps(profile)
        costs = self.marginal_costs * moved + 0.5 * self.cost_curvatures * moved**2
        with np.errstate(invalid="ignore"):
            return self._per_member(self.curves.payoffs(there) - self.curves.payoffs(here), costs)

    def affordable(self, budget: float) -> FloatArray:
        """The contributions that cost so much each."""
        linear = np.maximum(self._linear_costs, 0.0)
        with np.errstate(divide="ignore"):
            return 2.0 * budget / (linear + np.sqrt(linear**2 + 2.0 * self.cost_curvatures * budget))

    @property
    def _linear_costs(self) -> FloatArray:
        """The marginal costs of the first sample."""
        return self.marginal_costs - self.cost_curvatures * self.at

    def _maximise(self, box: FloatArray) -> FloatArray:
        if self.shared_caps:
            try:
                return maximise_within(_Program(self, box), self.shared_caps).contributions
            except NotConverged as error:  # what was reached is asked about
                reached = getattr(error.result, "contributions", self.at)
                return self.at if first_exceeded(reached, self.shared_caps) else reached
        few = self.at.size <= MAX_COMPILED_AGENTS and self.payoffs.size == self.at.size
        found, gain = self._climb(box) if few and self._can_be_squared(box) else (self.at, np.inf)
        if gain <= MAX_LINEARISED_GAIN:
            return found
        try:
            other, _ = maximise_batch(_Program(self, box))
        except np.linalg.LinAlgError:  # numbers nobody can mean: what was found stands, however little it promises
            return found
        return found if self.promised(found) >= self.promised(other) else other

    def _can_be_squared(self, box: FloatArray) -> bool:
        """Whether compiled code can square everything without overflow."""
        curves = self.curves
        with np.errstate(over="ignore"):
            steepest = curves.slopes(-curves.offset)
            bends = curves.bends(-curves.offset) * (np.abs(curves.prices) @ box) ** 2
        return bool((steepest < MAX_SQUARED).all() and (bends < MAX_SQUARED).all())

    def _climb(self, box: FloatArray) -> tuple[FloatArray, float]:
        """By the solver of small programs, which counts from y = prices s = 0: the slope there is the steepness."""
        curves, wide = self.curves, np.isinf(self.curves.width)
        finite = np.where(wide, 1.0, curves.width)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steepness = curves.slopes(-curves.offset)
            width = np.where(wide, np.inf, curves.width - curves.offset)
            decay = np.where(wide, curves.decay, curves.decay * finite / np.where(wide, 1.0, width))
        found, gains = np.zeros((1, self.at.size)), np.zeros(1)
        everybody = np.ones((1, self.at.size))
        program = Programs(
            weights=np.ascontiguousarray(curves.prices)[None],
            values=everybody,
            steepness=steepness[None],
            decay=decay[None],
            width=width[None],
            linear=self._linear_costs[None],
            quadratic=0.5 * self.cost_curvatures[None],
            upper=box[None],
            scale=np.array([self.scale]),
            members=everybody,
            shares=np.ones(1),
        )
        climb(program, found, gains)
        return found[0], float(gains[0])


def _ending_at(history: Sequence[AnswerT], at: FloatArray, lots: NDArray[np.intp]) -> Sequence[AnswerT]:
    """A history in which the last answer about a profile comes last."""
    if np.array_equal(history[-1].at[lots], at):
        return history
    there = [answer for answer in history if np.array_equal(answer.at[lots], at)][-1]
    return [answer for answer in history if answer is not there] + [there]


def _cost_curvature(history: Sequence[CostAnswer], place: int) -> float:
    """As stated; as the marginal costs say, where they have risen at quite another rate since the last other place."""
    now = history[-1]
    for before in reversed(history):
        moved = float(now.at[place] - before.at[place])
        if not before.outside and abs(moved) > MIN_DISTANCE * float(now.at[place]):
            risen = max((now.marginal_cost - before.marginal_cost) / moved, 0.0)
            agrees = risen <= MAX_SLOPE_ERROR * now.cost_curvature and now.cost_curvature <= MAX_SLOPE_ERROR * risen
            rounding = 1e-12 * now.marginal_cost / abs(moved)
            return now.cost_curvature if agrees or abs(risen - now.cost_curvature) <= rounding else risen
    return now.cost_curvature


class _Program:
    """The model as a program for the interior point."""

    def __init__(self, model: WelfareModel, upper: FloatArray) -> None:
        self.model, self.curves = model, model.curves
        self.upper, self.scale = upper, model.scale

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.curves.slopes(self.curves.steps(contributions))
        moved = contributions - self.model.at
        return self.curves.prices.T @ slopes - self.model.marginal_costs - self.model.cost_curvatures * moved

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        bends = self.curves.bends(self.curves.steps(contributions))
        hessian = -(self.curves.prices.T * bends) @ self.curves.prices - np.diag(self.model.cost_curvatures)
        return DenseCurvature.scaled(hessian, left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self.curves.prices, self.curves.floor, contributions, direction)

    def edges(self) -> FloatArray | None:
        return None

    def start(self) -> FloatArray:
        share = 0.5 * float(self.room(np.zeros(self.upper.size), self.upper))
        return self.upper * min(share, 1.0 / (1.0 + self.upper.size))
