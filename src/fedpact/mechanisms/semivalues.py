"""Semivalues: everybody has what it adds, on average, to groups of the others drawn at random.

With every other member in the group with probability q, independently, member i adds

    b_i = sum over X containing i of q^(|X|-1) (1-q)^(n-|X|) [A(s[X]) - A(s[X without i])]

to the sum A of all payoffs, and is paid p_i = b_i - a_i, so that u_i = b_i - c_i. q = 1/2 counts all groups alike: the
value of Banzhaf (1965), which data valuation took up for being least disturbed by noise (Wang and Jia, "Data Banzhaf",
2023). A q drawn uniformly from [0, 1] gives Shapley values and M^Shap (Dubey, Neyman and Weber 1981). At q = 1 it is
leave-one-out (`fedpact.mechanisms.leave_one_out`).

When i alone moves, u_i changes by as much as P(s) - sum_j c_j(s_j) with P = sum over X of q^(|X|-1) (1-q)^(n-|X|)
A(s[X]): an exact potential. Every member on its own is among the groups, so P is strictly concave, and there is exactly
one equilibrium. Few groups are listed; of more than 12 members the integral for Shapley values is taken at the one q
(`fedpact.shapley.semivalues`). Of all semivalues only the Shapley value hands out exactly A: the others leave a surplus
or lack money.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.batches import semivalue_bounds
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, semivalue_sharing
from fedpact.deals import Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.mechanisms.optimum import reject_unsolved
from fedpact.mechanisms.shapley import potential_equilibria
from fedpact.programs.batch_solver import maximise_blocks
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.shapley_equilibrium import semivalue_optimum
from fedpact.shapley.enumeration import coalitions, semivalue_weights
from fedpact.shapley.routes import MAX_COALITION_AGENTS_HARMED
from fedpact.shapley.semivalues import semivalues
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

BANZHAF = 0.5


class SemivalueMechanism(Mechanism):
    """Everybody has what it adds on average to random groups.

    Parameters
    ----------
    probability
        q, with which each of the others is in the group: above 0 and below 1, by default a half (Banzhaf); None for
        one drawn uniformly (Shapley).

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> SemivalueMechanism().solve(homogeneous).contributions.round(4).tolist()
    [31.6646, 31.6646, 31.6646]
    """

    name = "banzhaf"
    title = "Banzhaf"
    plain_title = "paid for what you add to a random group"
    description = (
        "Everybody has what it adds, on average, to a group in which each of the others sits with even chances. It is "
        "more or less than there is to share out."
    )
    claims = (Claim.NASH,)
    is_baseline = True
    knows_lots = True
    knows_shared_caps = True

    def __init__(self, probability: float | None = BANZHAF) -> None:
        if probability is not None and not 0.0 < probability < 1.0:
            rule = "must be above 0 and below 1, or None for Shapley values"
            raise InvalidInput(field="probability", rule=rule, value=probability)
        self.probability = probability

    def solve(self, federation: Federation) -> Outcome:
        """The unique equilibrium and its payments."""
        solution = semivalue_optimum(federation, self.probability)
        equilibria = potential_equilibria(federation, solution.contributions)
        return self.outcome_at(federation, solution.contributions, equilibria=equilibria, solution=solution)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return semivalue_sharing(federation, contributions, self.probability)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        values = semivalues(federation, contributions, self.probability)
        return values - federation.payoffs(contributions)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        equilibria = potential_equilibria(federation, contributions)
        return self.outcome_at(federation, contributions, payments, equilibria=equilibria)

    def is_vectorised(self, batch: Batch) -> bool:
        return batch.joined.payoff.hyperbola() is not None and batch.n_agents <= MAX_COALITION_AGENTS_HARMED

    def solve_together(self, batch: Batch) -> BatchSolution:
        members, _ = coalitions(batch.n_agents)
        shares = semivalue_weights(batch.n_agents, self.probability)[members.sum(axis=1).astype(int)]
        start = 2.0 * standalone_optimum(batch.joined)[0]
        bounds = batch.bounds(multiple=float(shares.sum()))
        contributions, gains = maximise_blocks(batch.joined, *bounds, members[1:], shares[1:], start=start)
        imprecise = reject_unsolved(contributions, gains)
        payments = np.full(contributions.shape, np.nan)
        for place in np.flatnonzero(~np.isnan(contributions).any(axis=1)).tolist():
            payments[place] = self.payment_rule(batch[place], contributions[place])
        return BatchSolution(contributions=contributions, payments=payments, imprecise=imprecise)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return semivalue_bounds(batch, contributions, self.probability)
