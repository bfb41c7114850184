"""Proportional sharing: everybody has a part of all payoffs, as large as its part of the contributions.

    p_i = A(s) s_i / sum_j s_j - a_i(s),    so that    u_i = A(s) s_i / sum_j s_j - c_i(s_i),

with A the sum of all payoffs: pay by volume, the rule consortia and most incentive schemes for federated learning start
from (Zeng, Chen et al., "A comprehensive survey of incentive mechanism for federated learning", 2021), and that of
contests (Tullock 1980). It balances at every profile. What data is useful for, and to whom, does not count.

The game has no potential. A member's utility need not be concave in what it contributes, so that an equilibrium is a
fixed point that answers in turn may or may not reach, and there may be others or none: what is reached is certified
over the whole range of everybody's contributions, that it is the only one is not.

Members with several lots of data are refused. Volume is one number; of lots there are several, and how much of one
counts for how much of another the rule does not say. Counted alike, everybody would bring its cheapest data.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.proportional_sharing import proportional_bounds, sharing_in_proportion
from fedpact.deals import Outcome
from fedpact.federation import Batch, Federation
from fedpact.federation.lots import require_single_lots
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.programs.proportional_sharing import proportional_equilibrium
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

WHY_NO_LOTS = "it pays by volume, and does not say how much of one lot counts for how much of another"
UNSETTLED = "proportional sharing: members' answers to each other do not settle; there may be no equilibrium"


class ProportionalSharing(Mechanism):
    """All payoffs are shared out in proportion to contributions.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> ProportionalSharing().solve(homogeneous).contributions.round(4).tolist()
    [74.3457, 74.3457, 74.3457]
    """

    name = "proportional"
    title = "Proportional"
    plain_title = "paid by the amount of data"
    description = "All payoffs are put together and shared out by the amount of data each member contributed."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """An equilibrium that answers in turn lead to."""
        require_single_lots(federation, f"the mechanism {self.name}", WHY_NO_LOTS)
        contributions = proportional_equilibrium(federation, federation.dense_weights()[None])[0]
        if np.isnan(contributions).any():
            raise NotConverged(UNSETTLED, result=contributions)
        return self.at_equilibrium(federation, contributions)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return sharing_in_proportion(federation, contributions)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        payoffs, given = federation.payoffs(contributions), contributions.sum()
        return payoffs.sum() * contributions / given - payoffs if given > 0 else np.zeros_like(payoffs)

    def is_vectorised(self, batch: Batch) -> bool:
        return True

    def solve_together(self, batch: Batch) -> BatchSolution:
        contributions = proportional_equilibrium(batch.joined, batch.weights)
        profile = np.nan_to_num(contributions)
        payoffs = batch.split(batch.joined.payoffs(profile.ravel()))
        given = profile.sum(axis=1, keepdims=True)
        parts = np.divide(profile, given, out=np.zeros(profile.shape), where=given > 0)
        unsettled = np.flatnonzero(np.isnan(contributions).any(axis=1)).tolist()
        return BatchSolution(
            contributions=contributions,
            payments=payoffs.sum(axis=1, keepdims=True) * parts - payoffs * (given > 0),
            errors={place: NotConverged(UNSETTLED, result=contributions[place]) for place in unsettled},
        )

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return proportional_bounds(batch, contributions)
