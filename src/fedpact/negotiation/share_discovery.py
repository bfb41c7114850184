"""Price discovery for the Shapley mechanism: everybody says how its payoff is shared out, and what more data adds.

Shapley values are linear in the game, so j's share of everything is a sum of its shares of the receivers' payoffs, and
every receiver works out its own from its own row. Each round everybody says, of the same contributions, what it says
under price discovery, everybody's share of its payoff, and the slopes of these. Their sum is the gradient of the
potential of which the equilibrium is the maximiser (`fedpact.solvers.shapley_equilibrium`).

The coordinator's model shares out the curves fitted to the answers (`fedpact.negotiation.payoff_curves`), and is
corrected to first order: at the profile asked about its gradient is the one stated. For the four families the curves
are the payoffs themselves and the correction vanishes; for any other payoff the profile at which the model promises
nothing more is still the equilibrium. Where the potential turns out to fall along a step, the next goes to where its
slope along the step vanishes.

Payments are shares less payoffs, p_i = sum_k phi_ki - sum_j phi_ij. They sum to zero because every share is counted
once either way.

Stopping inequality: the model's step promises at most `tol` of what is at stake to first order, or falls no further
below `STALLED_GAIN`, and the linearised gain, which bounds what any profile could add, is at most `MAX_GAIN_LEFT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Exponential, Payoff, PowerLaw
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.negotiation.price_discovery import MAX_GAIN_LEFT, SAME_PROFILE, STALLED_GAIN
from fedpact.negotiation.protocol import ProtocolResult
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import TaskAnswer
from fedpact.negotiation.welfare_model import MAX_STRETCHES, STRETCH, WelfareModel, least_norm_profile
from fedpact.shapley.receiver import receiver_shares
from fedpact.solvers.interior_point import maximise
from fedpact.solvers.shapley_equilibrium import PotentialProgram
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MIN_POWER, MAX_POWER = 1e-6, 200.0  # of the power laws that stand for logarithms and for exponentials
NEARLY_OVER = 0.99  # of a box without cap: the maximiser may lie beyond it
MIN_STEP_SHARE, MAX_STEP_SHARE = 0.1, 0.7  # of a step that went too far


def discover_shares(session: Session, *, tol: float, max_rounds: int, start: FloatArray) -> ProtocolResult:
    """The equilibrium of the Shapley mechanism; `start` is where to begin."""
    profile, best, residual = start, None, np.inf
    split: FloatArray | None = None  # of lots that can stand for each other: the one of smallest norm, asked about last
    for number in range(1, max_rounds + 1):
        try:
            answers = session.ask_about(profile, shares=True)
        except MemberExcluded:
            here = session.for_all_lots(profile[session.lots])
            return ProtocolResult(contributions=here, payments=None, rounds=number)
        outside = any(answer.outside for answer in answers.values())
        model = None if outside else ShareModel.of(session, profile[session.lots])
        asked, accepted = profile, model is not None and (best is None or model.rise_from(best) >= 0.0)
        if best is not None and split is not None:
            agreed = model if model is not None and accepted and model.gap <= MAX_GAIN_LEFT else best
            return agreed.result(session, number, residual)
        if model is not None and accepted:
            wanted, promised = model.best()
            last, residual = residual, max(promised, 0.0) / model.scale
            best, profile = model, session.for_all_lots(wanted)
        else:
            profile = _step_back(session, best, model, profile)
        session.notify_round(
            number,
            contributions=asked,
            residual=residual if accepted else None,
            welfare=None if model is None else model.welfare,
            prices=None,
            utilities={place: answer.utility for place, answer in answers.items()},
        )
        is_settled = residual <= tol or (residual <= STALLED_GAIN and residual >= last) if accepted else False
        if best is not None and is_settled and best.gap <= MAX_GAIN_LEFT:
            split = best.smallest_split()
            if split is None:
                return best.result(session, number, residual)
            profile = session.for_all_lots(split)
    if best is not None and best.gap <= MAX_GAIN_LEFT:
        return best.result(session, max_rounds, residual)
    reason = "somebody was outside the domain of its payoff in all of them"
    if best is not None:
        reason = f"the last step still promised {residual:.1e} of what is at stake{best.suspicion(session)}"
    raise NotConverged(f"no agreement within {max_rounds} rounds: {reason}", result=best)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareModel:
    """The potential less the costs around a profile, as the members have described it.

    `shares` is (tasks, members), the row's payoff shared out; `slopes` their slopes, (tasks, lots).
    """

    welfare_model: WelfareModel
    shares: FloatArray
    slopes: FloatArray
    histories: Sequence[Sequence[TaskAnswer]]

    @classmethod
    def of(cls, session: Session, at: FloatArray) -> ShareModel:
        """The model of what everybody has said, lastly about one profile; `at` is of the members' lots."""
        histories = [session.task_histories[int(task)] for task in session.tasks]
        answers = [history[-1] for history in histories]
        return cls(
            welfare_model=WelfareModel.of(session, at),
            shares=np.array([answer.shares[session.members] for answer in answers]),
            slopes=np.array([answer.slopes[session.lots] for answer in answers]),
            histories=histories,
        )

    @property
    def at(self) -> FloatArray:
        """The profile of the members."""
        return self.welfare_model.at

    @property
    def welfare(self) -> float:
        """At the profile, as stated."""
        return self.welfare_model.welfare

    @property
    def scale(self) -> float:
        """The size of what is at stake."""
        return self.welfare_model.scale

    @cached_property
    def gradient(self) -> FloatArray:
        """What everybody's share gains by one more sample of its own, less the cost of it; as stated."""
        return self.slopes.sum(axis=0) - self.welfare_model.marginal_costs

    @property
    def gap(self) -> float:
        """How much higher the potential can be at most, of the scale: the linearised gain over what can be afforded."""
        harmonic = float((1.0 / np.arange(1, self.shares.shape[1] + 1)).sum())
        affordable = self.welfare_model.affordable(2.0 * harmonic * self.scale)
        upper = np.maximum(np.minimum(self.welfare_model.caps, affordable), self.at)
        gains = np.maximum(self.gradient * (upper - self.at), -self.gradient * self.at)
        return float(gains.sum()) / self.scale

    def rise_from(self, before: ShareModel) -> float:
        """How much higher the potential is than at a profile before, by the slopes at both ends of the step."""
        step = self.at - before.at
        rounding = STALLED_GAIN * self.scale
        return float((before.gradient + self.gradient) @ step) + rounding

    def best(self) -> tuple[FloatArray, float]:
        """The profile the model is largest at, and how much that promises to first order."""
        caps = self.welfare_model.caps
        box = np.where(np.isfinite(caps), caps, STRETCH * (1.0 + self.at.max()))
        for _ in range(MAX_STRETCHES):
            found = maximise(_SharesProgram(self, box)).contributions[0]
            stretched = ~np.isfinite(caps) & (found >= NEARLY_OVER * box)
            if not stretched.any():
                break
            box = np.where(stretched, STRETCH * box, box)
        return found, float(self.gradient @ (found - self.at))

    def suspicion(self, session: Session) -> str:
        """Whose answers are furthest from what its earlier ones led to expect."""
        if any(len(history) < 2 for history in self.histories):
            return ""
        off = np.abs(_receiver_slopes(self) - self.slopes) @ self.at
        name = session.names[int(session.task_owners[session.tasks[int(np.argmax(off))]])]
        return f'; the answers of member "{name}" fit together least'

    def smallest_split(self) -> FloatArray | None:
        """The profile in which everybody's lots that can stand for each other have the smallest norm.

        None where that is the one asked about: the same data then reaches every task, at the same cost.
        """
        base, profile = self.welfare_model, self.at.copy()
        finite = np.where(np.isfinite(base.caps), base.caps, 2.0 * (1.0 + self.at.max()))
        for member in np.flatnonzero(np.bincount(base.lot_members) > 1):
            own = np.flatnonzero(base.lot_members == member)
            split = least_norm_profile(
                self.at[own],
                weights=base.curves.prices[:, own],
                gradient=self.gradient[own],
                quadratic=0.5 * base.cost_curvatures[own],
                upper=finite[own],
                scale=self.scale,
            )
            profile[own] = self.at[own] if split is None else split
        moved = np.abs(profile - self.at).max() > SAME_PROFILE * (1.0 + np.abs(self.at).max())
        return profile if moved else None

    def result(self, session: Session, rounds: int, residual: float) -> ProtocolResult:
        """What it comes to: everybody's shares less its payoff."""
        received = sum_by(self.welfare_model.task_members, self.shares.sum(axis=1), self.shares.shape[1])
        return ProtocolResult(
            contributions=session.for_all_lots(self.at),
            payments=session.for_everybody(self.shares.sum(axis=0) - received),
            rounds=rounds,
            settled_by="Shapley shares",
            residual=residual,
            welfare=self.welfare,
        )


class _SharesProgram:
    """The model as a program: curves of payoffs shared out, corrected to the gradient that was stated."""

    def __init__(self, model: ShareModel, upper: FloatArray) -> None:
        self.model, self.upper, self.scale = model, upper[None], np.array([model.scale])
        self.shared, self.shared_limits = np.zeros((0, upper.size)), np.zeros((1, 0))
        self._potential = PotentialProgram(_fitted_arrays(model), bounds=(upper, self.scale))
        self._correction = model.slopes.sum(axis=0) - self._potential.gradient(model.at[None])[0]

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """What more of every lot adds to the potential, less its cost."""
        base = self.model.welfare_model
        costs = base.marginal_costs + base.cost_curvatures * (contributions - base.at)
        return self._potential.gradient(contributions) + self._correction - costs

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """Minus the second derivatives."""
        return self._potential.hessian(contributions) + np.diag(self.model.welfare_model.cost_curvatures)

    def max_step(self, contributions: FloatArray, direction: FloatArray) -> FloatArray | float:
        """The largest step at which every coalition is inside the domain."""
        return self._potential.max_step(contributions, direction)

    def at(self, index: NDArray[np.intp]) -> _SharesProgram:
        """This one: there are no others."""
        return self


def _receiver_slopes(model: ShareModel) -> FloatArray:
    """The slopes of the model at the profile it is about, by receiver."""
    fitted = _fitted_arrays(model)
    return np.array(
        [
            receiver_shares(
                row, fitted.payoff.take([task]), float(fitted.values[task]), model.at, lot_owners=fitted.lot_owners
            ).slopes
            for task, row in enumerate(fitted.weights)
        ]
    )


def _fitted_arrays(model: ShareModel) -> FederationArrays:
    """The curves as payoffs of weights times contributions: exponentials if all are, otherwise power laws.

    They have no costs of their own. A power law has the slope and curvature of its curve where that was taken.
    """
    base, curves = model.welfare_model, model.welfare_model.curves
    payoff: Payoff
    if np.isinf(curves.width).all():
        weights, payoff = curves.prices, Exponential(curves.decay)
        values = np.exp(curves.decay * curves.offset) / curves.decay
    else:
        power = np.clip(np.where(np.isinf(curves.width), np.inf, curves.decay * curves.width - 1.0), MIN_POWER, None)
        power = np.minimum(power, np.maximum(MAX_POWER, 2.0 * curves.decay * curves.offset))
        width = (power + 1.0) / curves.decay
        from_nothing = width - curves.offset  # to the floor
        values = from_nothing / power * np.exp(-(power + 1.0) * np.log(from_nothing / width))
        weights, payoff = curves.prices / from_nothing[:, None], PowerLaw(power)
    nothing = np.zeros(base.at.size)
    return FederationArrays(
        weights=weights,
        values=values,
        linear=nothing,
        quadratic=nothing,
        caps=base.caps,
        payoff=payoff,
        names=tuple(str(member) for member in range(model.shares.shape[1])),
        lot_owners=base.lot_members,
        task_owners=base.task_members,
        shared=np.zeros((0, base.at.size)),
        shared_limits=np.zeros(0),
        joining_costs=np.zeros(model.shares.shape[1]),
        budgets=np.full(model.shares.shape[1], np.inf),
    )


def _step_back(session: Session, best: ShareModel | None, model: ShareModel | None, profile: FloatArray) -> FloatArray:
    """Where the potential's slope along the step vanishes, or halfway back where somebody was outside."""
    if best is None:
        return 0.5 * profile
    step = profile[session.lots] - best.at
    share = 0.5
    if model is not None:
        ahead, there = float(best.gradient @ step), float(model.gradient @ step)
        share = float(np.clip(ahead / (ahead - there), MIN_STEP_SHARE, MAX_STEP_SHARE)) if ahead > there else share
    return session.for_all_lots(best.at + share * step)
