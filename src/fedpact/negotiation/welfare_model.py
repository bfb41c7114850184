"""What a coordinator makes of answers about one profile: a model of welfare, and the profile it would be best at.

The payoffs are the curves of `fedpact.negotiation.payoff_curves`, the costs quadratic. The model's maximiser is found
by the interior point (`fedpact.solvers.interior_point`); nobody is asked anything for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Log, SharedCap
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.federation.lots import shared_members, take_shared_caps
from fedpact.negotiation.payoff_curves import MAX_SLOPE_ERROR, MIN_DISTANCE, PayoffCurves, fit_curves
from fedpact.negotiation.session import Session
from fedpact.negotiation.validation import LotAnswer, TaskAnswer
from fedpact.solvers.interior_point import linearised_gains, maximise
from fedpact.solvers.optimal_face import optimal_face
from fedpact.utils.arrays import FloatArray

AnswerT = TypeVar("AnswerT", TaskAnswer, LotAnswer)
STRETCH = 64.0
MAX_STRETCHES = 12


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
    def of(cls, session: Session, at: FloatArray) -> WelfareModel:
        """The model of a profile, from all that the members have answered about it and others; `at` is of their lots.

        What they have answered last about this profile counts as their last answer.
        """
        members, lots = session.members, session.lots
        histories = [_ending_at(session.task_histories[int(task)], at, lots) for task in session.tasks]
        cost_histories = [_ending_at(session.lot_histories[int(lot)], at, lots) for lot in lots]
        answers, costs = [history[-1] for history in histories], [history[-1] for history in cost_histories]
        return cls(
            at=at,
            worth=np.array([answer.worth[lots] for answer in answers]),
            payoffs=np.array([answer.payoff for answer in answers]),
            costs=np.array([answer.cost for answer in costs]),
            marginal_costs=np.array([answer.marginal_cost for answer in costs]),
            cost_curvatures=np.array([_cost_curvature(*each) for each in zip(cost_histories, lots, strict=True)]),
            caps=session.caps[lots],
            curves=fit_curves(histories, lots),
            task_members=np.searchsorted(members, session.task_owners[session.tasks]),
            lot_members=np.searchsorted(members, session.lot_owners[lots]),
            shared_caps=take_shared_caps(session.shared_caps, lots),
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
        return float(linearised_gains(ModelProgram(self, upper), self.at[None])[0][0])

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
        """The model's maximiser over a box; what was reached where numbers nobody can mean allow no more."""
        found = maximise(ModelProgram(self, box)).contributions[0]
        return found if np.isfinite(found).all() else self.at

    def least_norm(self) -> FloatArray | None:
        """The profile of smallest norm that is as good as this one; None where there is no other."""
        finite = np.where(np.isfinite(self.caps), self.caps, 2.0 * (1.0 + self.at.max()))
        prices = linearised_gains(ModelProgram(self, finite), self.at[None])[1][0]
        return least_norm_profile(
            self.at,
            weights=self.curves.prices,
            gradient=self.marginal_welfare,
            quadratic=0.5 * self.cost_curvatures,
            upper=finite,
            scale=self.scale,
            shared_caps=self.shared_caps,
            prices=prices,
        )


def least_norm_profile(
    at: FloatArray,
    *,
    weights: FloatArray,
    gradient: FloatArray,
    quadratic: FloatArray,
    upper: FloatArray,
    scale: float,
    shared_caps: Sequence[SharedCap] = (),
    prices: FloatArray | None = None,
) -> FloatArray | None:
    """The maximiser of smallest norm among those that reach the same data at the same cost; None if `at` is the only.

    `prices` are those of the shared caps.
    """
    n_tasks, n_lots = weights.shape
    arrays = FederationArrays(
        weights=weights,
        values=np.ones(n_tasks),
        linear=np.zeros(n_lots),
        quadratic=quadratic,
        caps=upper,
        payoff=Log(),
        names=("all",),
        lot_owners=np.zeros(n_lots, dtype=np.intp),
        task_owners=np.zeros(n_tasks, dtype=np.intp),
        shared=shared_members(shared_caps, n_lots),
        shared_limits=np.array([shared.cap for shared in shared_caps]),
        joining_costs=np.zeros(1),
        budgets=np.full(1, np.inf),
    )
    face = optimal_face(arrays, at, gradient, upper=upper, scale=scale, prices=prices)
    return None if face.is_point else face.least_norm()


def _ending_at(history: Sequence[AnswerT], at: FloatArray, lots: NDArray[np.intp]) -> Sequence[AnswerT]:
    """A history in which the last answer about a profile comes last."""
    if np.array_equal(history[-1].at[lots], at):
        return history
    there = [answer for answer in history if np.array_equal(answer.at[lots], at)][-1]
    return [answer for answer in history if answer is not there] + [there]


def _cost_curvature(history: Sequence[LotAnswer], place: int) -> float:
    """As stated; as the marginal costs say, where they have risen at quite another rate since the last other place."""
    now = history[-1]
    for before in reversed(history):
        moved = float(now.at[place] - before.at[place])
        if abs(moved) > MIN_DISTANCE * float(now.at[place]):
            risen = max((now.marginal_cost - before.marginal_cost) / moved, 0.0)
            agrees = risen <= MAX_SLOPE_ERROR * now.cost_curvature and now.cost_curvature <= MAX_SLOPE_ERROR * risen
            rounding = 1e-12 * now.marginal_cost / abs(moved)
            return now.cost_curvature if agrees or abs(risen - now.cost_curvature) <= rounding else risen
    return now.cost_curvature


class ModelProgram:
    """The model as a program of the interior point, which solves many side by side: here one."""

    def __init__(self, model: WelfareModel, upper: FloatArray) -> None:
        self.model, self.curves = model, model.curves
        self.upper, self.scale = upper[None], np.array([model.scale])
        self.shared = shared_members(model.shared_caps, upper.size)
        self.shared_limits = np.array([[shared.cap for shared in model.shared_caps]])

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """What more of every lot adds to welfare."""
        slopes = self.curves.slopes(self.curves.steps(contributions[0]))
        moved = contributions - self.model.at
        return self.curves.prices.T @ slopes - self.model.marginal_costs - self.model.cost_curvatures * moved

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """Minus the second derivatives of welfare."""
        bends = self.curves.bends(self.curves.steps(contributions[0]))
        return ((self.curves.prices.T * bends) @ self.curves.prices + np.diag(self.model.cost_curvatures))[None]

    def max_step(self, contributions: FloatArray, direction: FloatArray) -> FloatArray | float:
        """The largest step within the domain of every curve."""
        here, change = self.curves.prices @ contributions[0], self.curves.prices @ direction[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(change < 0, (self.curves.floor - here) / change, np.inf)
        return np.array([steps.min()])

    def at(self, index: NDArray[np.intp]) -> ModelProgram:
        """This one: there are no others."""
        return self
