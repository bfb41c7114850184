"""Nucleolus: the group that has the least reason to stay has as much reason as can be.

What members share is the best welfare v(N); what a group X could reach by itself is v(X). The nucleolus (Schmeidler,
"The nucleolus of a characteristic function game", 1969) makes the smallest x(X) - v(X) of all groups as large as can
be, then the next smallest, until one division x is left (`fedpact.programs.nucleolus`). It is in the core wherever the
core is not empty, and so where no weight is negative, M^E being in it; no division is further from losing a group.

It is reached as an equilibrium by the contributions and prices of M^E, and side payments worked out from the numbers of
all members.
"""

from __future__ import annotations

from fedpact.certificates.claims import Claim
from fedpact.federation import Federation
from fedpact.mechanisms.side_payments import SidePaymentMechanism
from fedpact.programs.groups import group_optima
from fedpact.programs.nucleolus import nucleolus
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

MAX_NUCLEOLUS_AGENTS = 10


class Nucleolus(SidePaymentMechanism):
    """Contributions and prices of M^E, and fixed sums that lead to the nucleolus, up to 10 members.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = Nucleolus().solve(hospitals().federation)
    >>> outcome.certificates["core"].holds
    True
    """

    name = "nucleolus"
    title = "Nucleolus"
    description = (
        "Contributions and prices as under Externality, and fixed sums between members after which the group with the "
        "least reason to stay has as much reason as can be."
    )
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY)
    claims_without_harm = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE)

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The nucleolus of what groups reach by themselves."""
        if federation.n_agents > MAX_NUCLEOLUS_AGENTS:
            rule = f"must have at most {MAX_NUCLEOLUS_AGENTS} agents for the mechanism {self.name}"
            given = f", got {federation.n_agents}: it compares all 2^n groups; fair takes any number"
            raise InvalidInput(field="federation", rule=rule, value=federation.n_agents, given=given)
        return nucleolus(group_optima(federation))
