"""Nash bargaining: everybody has what it has alone, and the gain from federating is shared out evenly.

Members who can pay each other may agree on any utilities that sum to the best welfare v(N). The solution of Nash
("The bargaining problem", 1950) maximises the product of what everybody gains on what it has alone, v_i*; with money it
is

    u_i = v_i* + (v(N) - sum_j v_j*) / n.

Here it is reached as an equilibrium: by the contributions and prices of M^E, and side payments. What only a group of
members can do by itself plays no part, so groups may gain by leaving. Where all have more alone than together, which
takes harm, there is nothing to agree on.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.federation import Federation
from fedpact.mechanisms.side_payments import SidePaymentMechanism
from fedpact.programs.best_response import standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NoFairDeal

GAIN_ROUNDING = 1e-12  # of what everybody has alone: a loss that is none


class NashBargaining(SidePaymentMechanism):
    """The gain from federating in equal parts, on top of what everybody has alone.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = NashBargaining().solve(hospitals().federation)
    >>> float(outcome.ir_gaps.min()) > 0, float(outcome.ir_gaps.std().round(9))
    (True, 0.0)
    """

    name = "nash-bargaining"
    title = "Nash bargaining"
    plain_title = "split the surplus evenly"
    description = (
        "Contributions and prices as under Externality, and fixed sums between members after which everybody gains the "
        "same on what it has alone."
    )
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.INDIVIDUAL_RATIONALITY)

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """Everybody's utility alone, and an n-th of what there is beyond."""
        alone = standalone_optimum(federation)[1]
        gain = federation.welfare(contributions) - float(alone.sum())
        if gain < -GAIN_ROUNDING * float(np.abs(alone).sum()):
            raise NoFairDeal(
                f"there is no gain to share: everybody alone has {-gain:.6g} more than all have together (units of "
                "payoff)",
                groups=tuple((name,) for name in federation.names),
                subsidy=-gain,
            )
        return np.asarray(alone + gain / federation.n_agents)
