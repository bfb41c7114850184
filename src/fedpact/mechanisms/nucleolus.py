"""Nucleolus: the group that has the least reason to stay has as much reason as can be.

What members share is the best welfare v(N); what a group X could reach by itself is v(X). The nucleolus (Schmeidler,
"The nucleolus of a characteristic function game", 1969) makes the smallest x(X) - v(X) of all groups as large as can
be, then the next smallest, until one division x is left (`fedpact.programs.nucleolus`). It is in the core wherever the
core is not empty, and so where no weight is negative, M^E being in it; no division is further from losing a group. The
divisions that are best in the first step alone are the least core (`fedpact.least_core`).

It is reached as an equilibrium by the contributions and prices of M^E, and side payments worked out from the numbers of
all members. Up to 16 members all groups are listed; beyond, it is the nucleolus of the groups that a search finds, and
the outcome says so.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.federation.identities import canonical_order, interchangeable_agents
from fedpact.mechanisms.side_payments import DIVISION_TIME_LIMIT, SidePaymentMechanism, stakes_at_prices
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.groups import MAX_COMPILED_MEMBERS, MAX_LISTED_AGENTS, group_optima
from fedpact.programs.nucleolus import Division, nucleolus, nucleolus_among_many
from fedpact.programs.social_optimum import SocialOptimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

NOTE = "the nucleolus of the groups found; of more than {} members not all groups are looked at"


class Nucleolus(SidePaymentMechanism):
    """Contributions and prices of M^E, and fixed sums that lead to the nucleolus, up to 64 members.

    Parameters
    ----------
    time_limit
        Seconds after which no more groups of more than 16 members are looked for; the outcome says so. On other
        machines the deal may then differ.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = Nucleolus().solve(hospitals().federation)
    >>> outcome.certificates["core"].holds
    True
    """

    name = "nucleolus"
    title = "Nucleolus"
    plain_title = "make the unhappiest group happiest"
    description = (
        "Contributions and prices as under Externality, and fixed sums between members after which the group with the "
        "least reason to stay has as much reason as can be."
    )
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY)
    claims_without_harm = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE)
    asks_for_groups = True

    def __init__(self, *, time_limit: float = DIVISION_TIME_LIMIT) -> None:
        if not time_limit >= 0:
            raise InvalidInput(field="time_limit", rule="must be a number of seconds, 0 or more", value=time_limit)
        self.time_limit = time_limit

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The nucleolus of what groups reach by themselves."""
        return self.division(federation, contributions).utilities

    def division(self, federation: Federation, contributions: FloatArray) -> Division:
        """The same with the level of its least core; `contributions` are a welfare optimum."""
        if federation.n_agents <= MAX_LISTED_AGENTS:
            return nucleolus(group_optima(federation), interchangeable_agents(federation))
        if federation.n_agents > MAX_COMPILED_MEMBERS:
            rule = f"must have at most {MAX_COMPILED_MEMBERS} members for the mechanism {self.name}"
            given = f", got {federation.n_agents}: it searches through 2^n groups; fair-members takes any number"
            raise InvalidInput(field="federation", rule=rule, value=federation.n_agents, given=given)
        payoffs, stakes = federation.payoffs(contributions), stakes_at_prices(federation, contributions)
        order = canonical_order(payoffs, stakes, standalone_optimum(federation)[1])
        found = nucleolus_among_many(federation.take(order), time_limit=self.time_limit)
        return replace(found, utilities=found.utilities[np.argsort(order)])

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        begun = time.monotonic()
        made = super()._outcome(federation, optimum, payments)
        if federation.n_agents <= MAX_LISTED_AGENTS:
            return made
        note = f"{made.equilibria.note}; {NOTE.format(MAX_LISTED_AGENTS)}"
        if time.monotonic() - begun > self.time_limit:
            note += f", and the search ended after {self.time_limit:g} seconds"
        return replace(made, equilibria=replace(made.equilibria, note=note))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
