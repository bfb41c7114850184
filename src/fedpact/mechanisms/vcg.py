"""VCG: everybody has what it adds to the federation.

At a profile s, with v(X) the most welfare a group X reaches by itself,

    p_i = sum_{k != i} (a_k(s) - c_k(s_k)) - v(N without i),        so that        u_i = W(s) - v(N without i).

The second term is nothing agent i can change, so everybody wants welfare to be as large as can be, and the welfare
optima are the equilibria: welfare is a concave potential. Asked for their costs and values instead, members do best to
tell the truth, whatever the others say (Vickrey 1961, Clarke 1971, Groves 1973). Where no weight is negative
v(N) >= v(N without i) + v(i): nobody loses by taking part.

The price is money from outside: M^E, which balances, gives nobody more than it adds (`docs/theory/core.md`). So where
no weight is negative the payments sum to a deficit, `outcome.budget`.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.common_interest import sharing_total, total_bounds, welfare_of_others
from fedpact.certificates.deviations import Deviations
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution
from fedpact.mechanisms.optimum import OptimumMechanism
from fedpact.programs.group_batch import some_groups_together
from fedpact.programs.groups import group_optima
from fedpact.utils.arrays import FloatArray


class VCGMechanism(OptimumMechanism):
    """Everybody has its marginal contribution to welfare; somebody outside pays the deficit.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = VCGMechanism().solve(hospitals().federation)
    >>> outcome.budget > 0, outcome.leavers
    (True, ())
    """

    name = "vcg"
    title = "VCG"
    plain_title = "paid for what others gain by you"
    description = (
        "Everybody has exactly what it adds to the welfare of all, so that nobody gains by misstating its numbers. "
        "Somebody outside has to pay the difference."
    )
    claims = (Claim.NASH, Claim.SOCIAL_OPTIMALITY)
    claims_without_harm = (Claim.INDIVIDUAL_RATIONALITY,)
    is_baseline = True
    knows_lots = True
    knows_shared_caps = True

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        costs = federation.spending(contributions)
        constants = -(costs.sum() - costs) - welfare_of_others(federation, contributions)
        return sharing_total(federation, contributions, constants)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        net = federation.payoffs(contributions) - federation.spending(contributions)
        without = group_optima(federation, ~np.eye(federation.n_agents, dtype=np.bool_)).values
        return np.asarray(net.sum() - net - without)

    def is_vectorised(self, batch: Batch) -> bool:
        return OptimumMechanism.is_vectorised(self, batch)

    def solve_together(self, batch: Batch) -> BatchSolution:
        return OptimumMechanism.solve_together(self, batch)

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        profile = contributions.ravel()
        net = batch.split(batch.joined.payoffs(profile) - batch.joined.costs.value(profile))
        return np.asarray(net.sum(axis=1, keepdims=True) - net - self._welfare_without(batch))

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        costs = batch.split(batch.joined.costs.value(contributions.ravel()))
        others = costs.sum(axis=1, keepdims=True) - costs
        return total_bounds(batch, contributions, -others - self._welfare_without(batch))

    def _welfare_without(self, batch: Batch) -> FloatArray:
        """(federations, n): the welfare the others reach without each member, at a profile that is best for them."""
        if batch.n_agents == 1:
            return np.zeros((len(batch), 1))
        return some_groups_together(batch, ~np.eye(batch.n_agents, dtype=np.bool_))[1]
