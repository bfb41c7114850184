"""The Shapley mechanism M^Shap: everybody is topped up or charged to its Shapley share of the total payoff.

p_i = phi_i - a_i (equation 10 of the paper), so u_i = phi_i - c_i. The game has an exact strictly concave potential
(`fedpact.shapley.potential`), hence exactly one equilibrium, found by maximising it.

The paper's best-response dynamics reach the same point: agents take turns to answer the others' contributions. Each
answer maximises phi_j(x, s_-j) - c_j(x) over [0, cap], a concave function of one variable, and so climbs the potential
coordinate by coordinate. That is slower than maximising the potential at once, and independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.batches import share_bounds
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, shapley_sharing
from fedpact.certificates.payment_bounds import PaymentBounds, share_payment_bounds
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.mechanisms.optimum import reject_unsolved
from fedpact.programs.batch_solver import maximise_blocks
from fedpact.programs.best_response import best_answer, best_shapley_lots, standalone_optimum
from fedpact.programs.shapley_equilibrium import shapley_optimum, split_dimension
from fedpact.shapley.enumeration import coalitions, enumerate_blocks
from fedpact.shapley.own_share import own_shares
from fedpact.shapley.routes import MAX_COALITION_AGENTS
from fedpact.shapley.values import check_domain, shapley_values
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged

UNIQUE = Equilibria(unique=True, dimension=0, note="the only equilibrium: its potential is strictly concave")


def potential_equilibria(federation: Federation, contributions: FloatArray) -> Equilibria:
    """The only equilibrium, up to how agents split what they bring over lots of theirs that are interchangeable."""
    dimension = split_dimension(federation, contributions)
    if dimension == 0:
        return UNIQUE
    note = (
        "payoffs and shares are those of every equilibrium; members may exchange some of their own lots for each "
        "other, and each split here is the one of smallest norm"
    )
    return Equilibria(unique=False, dimension=dimension, note=note)


def shapley_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """phi_i - a_i at a profile."""
    return shapley_values(federation, contributions).values - federation.payoffs(contributions)


class ShapleyMechanism(Mechanism):
    """M^Shap: perfectly reciprocal; contributions exceed the social optimum.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> ShapleyMechanism().solve(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """

    name = "shapley"
    title = "Shapley"
    plain_title = "everybody gets its fair share"
    description = (
        "Payments top up or charge each member until it has its Shapley share of everything the federation achieves. "
        "A member that poses as several gains by it."
    )
    knows_lots = True
    knows_shared_caps = True
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.RECIPROCITY)

    def solve(self, federation: Federation) -> Outcome:
        """The unique equilibrium and its payments."""
        solution = shapley_optimum(federation)
        equilibria = potential_equilibria(federation, solution.contributions)
        return self.outcome_at(federation, solution.contributions, equilibria=equilibria, solution=solution)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return shapley_sharing(federation, contributions)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return shapley_payments(federation, contributions)

    def payment_bounds(self, federation: Federation, contributions: FloatArray) -> PaymentBounds:
        return share_payment_bounds(federation, contributions)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        return self.outcome_at(
            federation, contributions, payments, equilibria=potential_equilibria(federation, contributions)
        )

    def is_vectorised(self, batch: Batch) -> bool:
        return batch.joined.payoff.hyperbola() is not None and batch.n_agents <= MAX_COALITION_AGENTS

    def solve_together(self, batch: Batch) -> BatchSolution:
        members, shares = coalitions(batch.n_agents)
        start = 2.0 * standalone_optimum(batch.joined)[0]  # under Shapley sharing agents contribute more than alone
        bounds = batch.bounds(multiple=batch.harmonic)
        contributions, gains = maximise_blocks(batch.joined, *bounds, members[1:], shares[1:], start=start)
        imprecise = reject_unsolved(contributions, gains)
        profile = np.nan_to_num(contributions).ravel()
        values, _ = enumerate_blocks(batch.joined, profile, len(batch))
        payments = values - batch.split(batch.joined.payoffs(profile))
        return BatchSolution(contributions=contributions, payments=payments, imprecise=imprecise)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return share_bounds(batch, contributions)


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponseTrace:
    """The path of best responses: `trace[k]` is the profile after k rounds, `contributions` the last."""

    contributions: FloatArray
    trace: FloatArray
    rounds: int


def best_response_dynamics(
    federation: Federation, *, start: ArrayLike = 0.0, tol: float = 1e-10, max_rounds: int = 2000
) -> BestResponseTrace:
    """Agents answer in turn until, in a whole round, nobody moves by more than `tol` of the largest contribution.

    Raises
    ------
    NotConverged
        After `max_rounds` rounds; `result` is the trace so far.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> best_response_dynamics(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """
    profile = federation.checked_contributions(start).copy()
    check_domain(federation, profile)
    path = [profile.copy()]
    for _ in range(max_rounds):
        for agent in range(federation.n_agents):
            if federation.has_lots:
                profile[federation.lots_of(agent)] = best_shapley_lots(federation, profile, agent)
            else:
                profile[agent] = _answer(federation, profile, agent)
        path.append(profile.copy())
        if np.abs(path[-1] - path[-2]).max() <= tol * max(float(profile.max()), np.finfo(float).tiny):
            return _trace(path)
    raise NotConverged(f"best responses still moved after {max_rounds} rounds", result=_trace(path))


def _answer(federation: Federation, profile: FloatArray, agent: int) -> float:
    share = own_shares(federation, profile, [agent])[0]
    return best_answer(federation, share, agent, guess=float(profile[agent]))[0]


def _trace(path: list[FloatArray]) -> BestResponseTrace:
    return BestResponseTrace(
        contributions=read_only_copy(path[-1]), trace=read_only_copy(np.array(path)), rounds=len(path) - 1
    )
