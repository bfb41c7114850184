"""Price discovery: the coordinator asks what contributions are worth at the margin, and moves to where nobody gains.

Each round everybody says, of the same contributions, its payoffs, its marginal prices a_i' w_ij, one curvature number
for each and its costs. Under the Shapley mechanism it adds how its payoffs are shared out, phi_ij, and the derivatives
of these: Shapley values are linear in the game, so every receiver works out its own part from its own row.

The coordinator's model of what was said is a federation: its weights are the prices, its payoffs the curves fitted to
the answers (`fit_curves`), its costs quadratic, corrected to first order so that the gradient at
the profile asked about is the one stated. It is solved as any other: the welfare optimum, or the maximiser of the
potential (`fedpact.solvers`), is what everybody is asked about next. For fedpact's families the curves are the payoffs
themselves, and two or three rounds suffice; for any other payoff the profile at which the model promises nothing more
is still the right one. Where the objective turns out to fall along a step, or the step ends outside somebody's domain,
the next goes part of the way.

Payments follow from the prices, or are shares less payoffs, p_i = sum_k phi_ki - sum_j phi_ij. Where several profiles
are as good, the last round moves to the one of smallest norm, so that equal members are treated alike.

Stopping inequality: the model's step promises at most `tol` of what is at stake, or falls no further below
`STALLED_GAIN`, and the linearised gain, which bounds what any profile could add, is at most `MAX_GAIN_LEFT` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedpact.federation import Exponential, Payoff, PowerLaw
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.negotiation.session import ProtocolResult, Session, SettledBy
from fedpact.negotiation.validation import LotAnswer, TaskAnswer
from fedpact.solvers.interior_point import Maximum, linearised_gains, maximise
from fedpact.solvers.shapley_equilibrium import PotentialProgram, least_norm_split
from fedpact.solvers.welfare import WelfareProgram, canonical_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged
from fedpact.utils.words import join_names

ASSUMED_POWER = 1.2  # decay x width where nothing else is known
MAX_WIDTH = 1e6  # in decay lengths: wider ones are exponentials
MIN_WIDTH = 1e-9
MIN_DISTANCE = 1e-2  # decay lengths, or of a contribution: what is known of a nearer profile says too little
MIN_CURVATURE = 1e-12  # of one over the value of the data asked about: less is none
NEARLY_LOG = 1e-14  # decay x width - 1: nearer to 1 the integral is a logarithm to the last digit
HALVINGS = 40  # leaves 1e-11 of a width
MIN_POWER, MAX_POWER = 1e-6, 200.0  # of the power laws that stand for logarithms and for exponentials
STALLED_GAIN = 1e-10  # of what is at stake: an end where rounding lets it fall no further
MAX_GAIN_LEFT = 1e-7  # of what is at stake: the most an agreement may miss
MAX_SLOPE_ERROR = 2.0  # times the curvature of a cost that was stated
SAME_PROFILE = 1e-9  # of the contributions: nearer profiles are the same
ROUNDING = 1e-12  # of what is at stake
MIN_STEP_SHARE, MAX_STEP_SHARE = 0.1, 0.7  # of a step that went too far
STRETCH, MAX_STRETCHES = 64.0, 12  # of a box without caps in which the model is maximised
NEARLY_OVER = 0.99  # of that box: the maximiser may lie beyond it


def discover_prices(session: Session, *, mechanism: str, tol: float, max_rounds: int) -> ProtocolResult:
    """Contributions that no member would change; it begins where the negotiation is."""
    is_shapley = mechanism == "shapley"
    profile, best, residual, is_last = session.profile, None, np.inf, False
    for number in range(1, max_rounds + 1):
        session.profile, session.rounds = profile, session.rounds + 1
        answers = session.ask_about(profile, shares=is_shapley)
        is_outside = any(answer.outside for answer in answers.values())
        model = None if is_outside else Model.of(session, profile[session.lots], is_shapley=is_shapley)
        asked, before, is_better = profile, best, model is not None and (best is None or model.rises_from(best))
        if model is not None and is_better:
            last, residual, best = residual, model.promised, model
        session.notify_round(
            number,
            contributions=asked,
            residual=residual if is_better else None,
            welfare=None if model is None else model.welfare,
            prices=None if model is None or is_shapley else session.for_every_pair(model.member_worth),
            utilities={index: answer.utility for index, answer in answers.items()},
        )
        if before is not None and is_last:  # where rounding drew the set of best profiles too wide, the former stands
            agreed = model if model is not None and is_better and model.gap <= MAX_GAIN_LEFT else before
            return agreed.result(session, residual)
        if best is None or not is_better:
            profile = _step_back(session, best, model, profile)
            continue
        profile = session.for_all_lots(best.wanted)
        if (residual <= tol or (residual <= STALLED_GAIN and residual >= last)) and best.gap <= MAX_GAIN_LEFT:
            smallest = best.smallest
            if np.abs(smallest - best.at).max(initial=0.0) <= SAME_PROFILE * (1.0 + best.at.max(initial=0.0)):
                return best.result(session, residual)
            profile, is_last = session.for_all_lots(smallest), True
    if best is not None and best.gap <= MAX_GAIN_LEFT:
        return best.result(session, residual)
    raise NotConverged(f"no agreement within {max_rounds} rounds: {_suspicion(session)}", result=best)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """What the members have said of a profile, and the federation that they describe.

    Attributes
    ----------
    at
        The profile, of the members' lots.
    arrays
        The federation: members by their number among those who take part.
    worth, payoffs, shares
        As stated there: (tasks, lots), (tasks,) and, under the Shapley mechanism, (tasks, members).
    costs, gradient
        As stated: of every lot, and of the welfare or the potential less costs.
    """

    at: FloatArray
    arrays: FederationArrays
    worth: FloatArray
    payoffs: FloatArray
    shares: FloatArray
    costs: FloatArray
    gradient: FloatArray
    is_shapley: bool

    @classmethod
    def of(cls, session: Session, at: FloatArray, *, is_shapley: bool) -> Model:
        """From all that the members have answered, lastly about this profile."""
        members, lots = session.members, session.lots
        histories, cost_histories = session.task_histories, session.lot_histories
        answers = [history[-1] for history in histories]
        costs = [history[-1] for history in cost_histories]
        weights, values, payoff = fit_curves(histories)
        marginal_costs = np.array([cost.marginal_cost for cost in costs])
        cost_curvatures = np.array([_cost_curvature(*each) for each in zip(cost_histories, lots, strict=True)])
        gradients = np.array([answer.slopes if is_shapley else answer.worth for answer in answers])
        model = cls(
            at=at,
            arrays=FederationArrays(
                weights=weights[:, lots],
                values=values,
                linear=marginal_costs - cost_curvatures * at,
                quadratic=0.5 * cost_curvatures,
                caps=session.caps[lots],
                payoff=payoff,
                names=tuple(session.names[member] for member in members),
                lot_owners=np.searchsorted(members, session.lot_owners[lots]),
                task_owners=np.searchsorted(members, session.task_owners),
                shared=np.zeros((0, lots.size)),
                shared_limits=np.zeros(0),
                joining_costs=np.zeros(members.size),
                budgets=np.full(members.size, np.inf),
            ),
            worth=np.array([answer.worth[lots] for answer in answers]),
            payoffs=np.array([answer.payoff for answer in answers]),
            shares=np.array([answer.shares[members] for answer in answers]) if is_shapley else np.zeros((0, 0)),
            costs=np.array([cost.cost for cost in costs]),
            gradient=gradients.sum(axis=0)[lots] - marginal_costs,
            is_shapley=is_shapley,
        )
        correction = model.gradient - model.program(np.maximum(at, 1.0)).gradient(at[None])[0]
        return replace(model, arrays=replace(model.arrays, linear=model.arrays.linear - correction))

    def program(self, upper: FloatArray) -> WelfareProgram | PotentialProgram:
        """What is to be maximised, within bounds."""
        if self.is_shapley:
            return PotentialProgram(self.arrays, bounds=(upper, np.array([self.scale])))
        return WelfareProgram(self.arrays, upper=upper, scale=np.array([self.scale]))

    @property
    def welfare(self) -> float:
        """At the profile, as stated."""
        return float(self.payoffs.sum() - self.costs.sum())

    @cached_property
    def scale(self) -> float:
        """The size of what is at stake."""
        stated = float(np.abs(self.payoffs).sum() + self.costs.sum())
        rest = np.zeros(self.payoffs.size)
        with np.errstate(all="ignore"):
            first = -(self.arrays.marginal_worth(rest) ** 2) / self.arrays.worth_curvature(rest)
        return stated or 1e-3 * float(np.nansum(first))

    @property
    def member_worth(self) -> FloatArray:
        """What one more sample of each lot is worth to each member, (members, lots)."""
        return np.array(sum_by(self.arrays.task_owners, self.worth.T, self.arrays.n_agents).T)

    @cached_property
    def gap(self) -> float:
        """How much more there can be at most, of the scale: the linearised gain over what payoffs can buy.

        Payoffs are concave, so whatever the curves are like there is no more, as long as the costs of a better profile
        are at most twice the payoffs and costs of this one (under the Shapley mechanism, of the potential).
        """
        harmonic = float((1.0 / np.arange(1, self.arrays.n_agents + 1)).sum()) if self.is_shapley else 1.0
        budget, curvature = 2.0 * harmonic * self.scale, 4.0 * self.arrays.quadratic
        linear = np.maximum(self.arrays.linear, 0.0)
        with np.errstate(divide="ignore"):
            affordable = 2.0 * budget / (linear + np.sqrt(linear**2 + curvature * budget))
        upper = np.maximum(np.minimum(self.arrays.caps, affordable), self.at)
        return float(linearised_gains(self.program(upper), self.at[None])[0][0])

    @cached_property
    def wanted(self) -> FloatArray:
        """The profile that the model is largest at; this one where numbers nobody can mean allow no other."""
        caps = self.arrays.caps
        box = np.where(np.isfinite(caps), caps, STRETCH * (1.0 + self.at.max(initial=0.0)))
        for _ in range(MAX_STRETCHES):
            found = maximise(self.program(box)).contributions[0]
            beyond = ~np.isfinite(caps) & (found >= NEARLY_OVER * box)
            if not beyond.any():
                break
            box = np.where(beyond, STRETCH * box, box)
        return found if np.isfinite(found).all() else self.at

    @property
    def promised(self) -> float:
        """The gain of going there, of the scale: half of the gradient along the step, which is exact at the end."""
        return max(0.5 * float(self.gradient @ (self.wanted - self.at)) / self.scale, 0.0)

    @property
    def smallest(self) -> FloatArray:
        """The profile of smallest norm that is as good as this one."""
        finite = np.where(np.isfinite(self.arrays.caps), self.arrays.caps, 2.0 * (1.0 + self.at.max(initial=0.0)))
        program = self.program(finite)
        if isinstance(program, PotentialProgram):
            return least_norm_split(program, self.at)
        here = Maximum(contributions=self.at[None], gains=linearised_gains(program, self.at[None])[0], iterations=0)
        return canonical_optimum(program, here).contributions

    def rises_from(self, before: Model) -> bool:
        """Whether what is maximised is larger than at a profile before; the potential, by both ends' gradients."""
        if self.is_shapley:
            rise = float((before.gradient + self.gradient) @ (self.at - before.at))
            return rise >= -STALLED_GAIN * self.scale
        return self.welfare >= before.welfare - ROUNDING * before.scale

    def result(self, session: Session, residual: float) -> ProtocolResult:
        """What everybody agrees on: this profile, and the prices or the shares stated there."""
        prices = payments = None
        if self.is_shapley:
            received = sum_by(self.arrays.task_owners, self.shares.sum(axis=1), self.arrays.n_agents)
            payments = session.for_everybody(self.shares.sum(axis=0) - received)
        else:
            prices, own = self.member_worth, (self.arrays.lot_owners, np.arange(self.at.size))
            prices[own] = 0.0
            prices[own] = -prices.sum(axis=0)  # who is paid receives what the others pay
            prices = session.for_every_pair(prices)
        return ProtocolResult(
            contributions=session.for_all_lots(self.at),
            prices=prices,
            payments=payments,
            settled_by=SettledBy.SHAPLEY_SHARES if self.is_shapley else SettledBy.PERSONAL_PRICES,
            residual=residual,
            welfare=self.welfare,
        )


def _cost_curvature(history: Sequence[LotAnswer], lot: int) -> float:
    """As stated; as the marginal costs say, where they have risen at quite another rate since the last other amount."""
    now = history[-1]
    for before in reversed(history):
        moved = float(now.at[lot] - before.at[lot])
        if abs(moved) > MIN_DISTANCE * float(now.at[lot]):
            risen = max((now.marginal_cost - before.marginal_cost) / moved, 0.0)
            agrees = risen <= MAX_SLOPE_ERROR * now.cost_curvature and now.cost_curvature <= MAX_SLOPE_ERROR * risen
            rounding = ROUNDING * now.marginal_cost / abs(moved)
            return now.cost_curvature if agrees or abs(risen - now.cost_curvature) <= rounding else risen
    return now.cost_curvature


def _step_back(session: Session, best: Model | None, model: Model | None, profile: FloatArray) -> FloatArray:
    """To where the gradient along the step vanishes, or halfway back where somebody was outside."""
    if best is None:
        return 0.5 * profile
    step, share = profile[session.lots] - best.at, 0.5
    if model is not None:
        ahead, there = float(best.gradient @ step), float(model.gradient @ step)
        share = float(np.clip(ahead / (ahead - there), MIN_STEP_SHARE, MAX_STEP_SHARE)) if ahead > there else share
    return session.for_all_lots(best.at + share * step)


def _suspicion(session: Session) -> str:
    """Who may be to blame: whoever was outside its domain most often; otherwise there is no telling."""
    names = [session.names[owner] for owner in session.task_owners]
    outside = [sum(answer.outside for answer in history) for history in session.task_histories]
    if any(outside):
        task = int(np.argmax(outside))
        return f'member "{names[task]}" was outside the domain of its payoff in {outside[task]} of them'
    return f"answers do not fit together, of one of {join_names(list(dict.fromkeys(names)))}"


# Payoff curves


def fit_curves(histories: Sequence[Sequence[TaskAnswer]]) -> tuple[FloatArray, FloatArray, Payoff]:
    """A weight for every lot, (tasks, lots), a value and a payoff curve of every task, from all answers about it.

    In t, the change of the value of the data at the member's own prices (units of payoff) since it was asked, the slope
    of its payoff is taken for the hyperbola

        a'(t) = (1 + t / width)^(-decay width),        width = infinity standing for e^(-decay t),

    1 at t = 0; `decay` is the curvature stated, and the width is the one at which contributing nothing is worth
    nothing. A hyperbola is the slope of a power law with the exponent 1 - decay width, so for fedpact's families the
    curve is the payoff itself; for any other concave payoff it is a model with its slope and curvature at one profile,
    which is all that a step of Newton's method needs.
    """
    bases = [_base_answer(history) for history in histories]
    prices = np.array([base.worth for base in bases])
    offset = np.array([base.worth @ base.at for base in bases])
    decay, payoffs = np.array([_decay(base) for base in bases]), np.array([base.payoff for base in bases])
    with np.errstate(all="ignore"):  # whatever is stated, no curve bends more that is worth nothing at nothing
        steepest = 2.0 * (payoffs / offset - 1.0) / offset
        is_absurd = (payoffs > offset) & (offset * decay > MIN_DISTANCE) & (decay > 10.0 * steepest)
    decay = np.where(is_absurd, 0.25 * steepest, decay)
    width = _widths(offset, payoffs, decay)
    if np.isinf(width).all():
        return prices, np.exp(decay * offset) / decay, Exponential(decay)
    power = np.clip(decay * width - 1.0, MIN_POWER, None)
    power = np.minimum(power, np.maximum(MAX_POWER, 2.0 * decay * offset))
    width = (power + 1.0) / decay
    to_floor = width - offset  # from nothing
    values = to_floor / power * np.exp(-(power + 1.0) * np.log(to_floor / width))
    return prices / to_floor[:, None], values, PowerLaw(power)


def _base_answer(history: Sequence[TaskAnswer]) -> TaskAnswer:
    """Where the curve is taken: the last profile, or the last at which the member had not enough."""
    inside = [answer for answer in history if not answer.outside]
    return next((answer for answer in reversed(inside) if answer.worth.any()), inside[-1])


def _decay(base: TaskAnswer) -> float:
    """The curvature stated; where it is none, one that makes itself felt over the contributions asked about."""
    value_of_data = float(np.abs(base.worth).sum()) * (1.0 + float(base.at.max()))
    return base.curvature if base.curvature * value_of_data > MIN_CURVATURE else 1.0 / (value_of_data or 1.0)


def _widths(offset: FloatArray, payoffs: FloatArray, decay: FloatArray) -> FloatArray:
    """The widths at which the integral of a' over the data at hand is the payoff; nothing lies in the domain.

    The integral moves one way as the curve becomes wider: bisection, in the logarithm of the distance from the furthest
    profile known to the edge of the domain.
    """
    furthest = np.maximum(offset, 0.0)
    low = furthest * 1e-12 + MIN_WIDTH * ASSUMED_POWER / decay
    high = low + MAX_WIDTH / decay
    narrowest = furthest + low
    with np.errstate(over="ignore"):
        toward = -np.sign(offset)
        is_wide = toward * (_hyperbola(-offset, decay, furthest + high) + payoffs) >= 0.0
        is_narrow = ~(toward * (_hyperbola(-offset, decay, narrowest) + payoffs) > 0.0)
        for _ in range(HALVINGS):
            middle = np.sqrt(low * high)
            more = toward * (_hyperbola(-offset, decay, furthest + middle) + payoffs) > 0.0
            low, high = np.where(more, middle, low), np.where(more, high, middle)
    fitted = np.where(is_wide, np.inf, np.where(is_narrow, narrowest, furthest + high))
    is_near = np.abs(offset) * decay < MIN_DISTANCE
    return np.where(is_near, np.maximum(ASSUMED_POWER / decay, narrowest), fitted)


def _hyperbola(steps: FloatArray, decay: FloatArray, width: FloatArray) -> FloatArray:
    """The integral of a' from 0 to t where the width is finite and t inside the domain."""
    excess = decay * width - 1.0
    excess = np.where(np.abs(excess) < NEARLY_LOG, NEARLY_LOG, excess)
    return -width / excess * np.expm1(-excess * np.log1p(steps / width))
