"""Accuracy shaping: nobody pays, and everybody gets a model as good as its contribution has earned.

Karimireddy, Guo and Jordan ("Mechanisms that incentivize data sharing in federated learning", 2022). With s_i° what
member i would contribute alone, and e >= 0 a bonus, its payoff is

    a_i(s_i, 0)                                              while s_i <= s_i°,
    a_i(s_i°, 0) + (1 + e) (c_i(s_i) - c_i(s_i°))            beyond, and never more than a_i(s):

the server hands out a degraded model until a member's costs have earned the whole one. So everybody goes on until it
has the whole model or reaches its cap. No rule that leaves everybody as well off as alone, without money, draws more
data out of members. Where e vanishes, the default, nobody has more than alone: what the data is worth beyond goes into
collecting it, or is held back. `outcome.payoffs` is what each gets; what is held back is a_i(s) less that.

Members with several lots of data are refused. What earns the whole model is one contribution that goes up from s_i°.
With several lots the same costs can be run up in many ways, of no use to anybody, and there is no least contribution to
start from.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.shaped_payoffs import earning_payoff
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Batch, Federation
from fedpact.federation.lots import require_single_lots
from fedpact.mechanisms.base import NOT_KNOWN, BatchSolution, Mechanism
from fedpact.programs.best_response import own_utilities, standalone_optimum
from fedpact.programs.shaped_equilibrium import shaped_equilibrium
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged

WHY_NO_LOTS = "a model is earned by one contribution that goes up, and costs of several lots can be run up in many ways"
UNSETTLED = "accuracy shaping: members' answers to each other do not settle; there may be no equilibrium"
UNIQUE = Equilibria(unique=True, dimension=0, note="the only equilibrium at any bonus above 0, in the limit of that")


class AccuracyShaping(Mechanism):
    """Nobody pays; the model a member gets is degraded to what its costs have earned.

    Parameters
    ----------
    bonus
        e: by how much more accuracy goes up than costs do, as a part of these; 0 is the limit of a vanishing one.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> outcome = AccuracyShaping().solve(homogeneous)
    >>> outcome.contributions.round(4).tolist(), outcome.leavers
    ([59.3692, 59.3692, 59.3692], ())
    """

    name = "accuracy-shaping"
    title = "Accuracy shaping"
    plain_title = "who gives less gets a weaker model"
    description = "Nobody pays. Everybody gets a model as good as its contribution has earned, and not a better one."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    claims_without_harm = (Claim.INDIVIDUAL_RATIONALITY,)
    is_baseline = True

    def __init__(self, bonus: float = 0.0) -> None:
        if not 0.0 <= bonus < np.inf:
            raise InvalidInput(field="bonus", rule="must be at least 0 and finite", value=bonus)
        self.bonus = bonus

    def solve(self, federation: Federation) -> Outcome:
        """The contributions at which everybody has earned the whole model, or gives all it has."""
        require_single_lots(federation, f"the mechanism {self.name}", WHY_NO_LOTS)
        contributions = shaped_equilibrium(federation, self.bonus)
        if np.isnan(contributions).any():
            raise NotConverged(UNSETTLED, result=contributions)
        return self.at_equilibrium(federation, contributions)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return earning_payoff(federation, contributions, self.bonus)

    def payoff_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What each member gets: its earned payoff, at most that of the whole model."""
        alone = standalone_optimum(federation)[0]
        before = np.minimum(contributions, alone)
        had = own_utilities(federation, before, np.zeros_like(before)) + federation.costs.value(before)
        beyond = np.maximum(federation.costs.value(contributions) - federation.costs.value(alone), 0.0)
        return np.minimum(federation.payoffs(contributions), had + (1.0 + self.bonus) * beyond)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        known = NOT_KNOWN if federation.has_harm else UNIQUE
        return self.outcome_at(federation, contributions, payments, equilibria=known)

    def is_vectorised(self, batch: Batch) -> bool:
        return True

    def solve_together(self, batch: Batch) -> BatchSolution:
        contributions = batch.split(shaped_equilibrium(batch.joined, self.bonus, blocks=len(batch)))
        unsettled = np.flatnonzero(np.isnan(contributions).any(axis=1)).tolist()
        errors = {place: NotConverged(UNSETTLED, result=contributions[place]) for place in unsettled}
        return BatchSolution(contributions=contributions, payments=0.0 * contributions, errors=errors)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return batch.split(earning_payoff(batch.joined, contributions.ravel(), self.bonus).utilities)
