"""Equal split: everybody has the same part of all payoffs, whatever it brings.

p_i = A(s) / n - a_i(s), with A the sum of all payoffs, so that u_i = A / n - c_i. The rule partnerships use, and the
oldest example of free riding in teams (Alchian and Demsetz 1972; Holmstrom, "Moral hazard in teams", 1982). It balances
at every profile.

The game has the exact potential A(s) / n - sum_j c_j(s_j): it changes with agent i's utility when i alone moves. It is
concave, so the equilibria are its maximisers, the welfare optima of the federation whose values are an n-th.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.common_interest import sharing_total, total_bounds
from fedpact.certificates.deviations import Deviations
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution
from fedpact.mechanisms.optimum import OptimumMechanism
from fedpact.utils.arrays import FloatArray


class EqualSplit(OptimumMechanism):
    """Everybody has an n-th of all payoffs and bears its own costs.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> EqualSplit().solve(homogeneous).contributions.round(4).tolist()
    [5.953, 5.953, 5.953]
    """

    name = "equal-split"
    title = "Equal split"
    plain_title = "share the sum equally"
    description = "All payoffs are put together and everybody gets the same part, whatever it contributed."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True
    knows_lots = True
    knows_shared_caps = True
    optimum_names = ("maximiser of the potential", "maximisers of the potential")

    def played(self, federation: Federation) -> Federation:
        return federation.replace(values=federation.values / federation.n_agents)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return sharing_total(federation, contributions, np.zeros(federation.n_agents), share=1.0 / federation.n_agents)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        payoffs = federation.payoffs(contributions)
        return np.asarray(payoffs.mean() - payoffs)

    def is_vectorised(self, batch: Batch) -> bool:
        return OptimumMechanism.is_vectorised(self, batch)

    def solve_together(self, batch: Batch) -> BatchSolution:
        return OptimumMechanism.solve_together(self, batch)

    def played_together(self, batch: Batch) -> Batch:
        return replace(batch, joined=batch.joined.replace(values=batch.joined.values / batch.n_agents))

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        payoffs = batch.split(batch.joined.payoffs(contributions.ravel()))
        return np.asarray(payoffs.mean(axis=1, keepdims=True) - payoffs)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return total_bounds(batch, contributions, np.zeros(contributions.shape), share=1.0 / batch.n_agents)
