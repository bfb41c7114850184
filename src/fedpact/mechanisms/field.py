"""Mechanisms of the literature, on one footing with fedpact's own.

| name             | payments                                                    | equilibrium             |
|------------------|-------------------------------------------------------------|-------------------------|
| equal-split      | p_i = A / n - a_i                                           | maximises A / n - sum c |
| proportional     | p_i = A s_i / sum s - a_i                                   | a fixed point           |
| cost-sharing     | p_i = b (c_i - mean of the others' c_j)                     | free riding at (1 - b) c |
| vcg              | p_i = W(s) - (a_i - c_i) - v(N without i)                   | maximises welfare       |
| leave-one-out    | p_i = A(s) - A(s without i) - a_i                           | maximises welfare       |
| accuracy-shaping | none; the model is degraded to what a member's costs earned | a fixed point           |

A is the sum of all payoffs, W welfare, v(X) the most welfare that a group X reaches by itself. Divisions of the gain
(Nash bargaining, nucleolus) stand with the fair deal, `fedpact.mechanisms.fair`.

Examples
--------
>>> from fedpact import Federation, PowerLaw
>>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
>>> for rules in (EqualSplit(), CostSharing(), VCGMechanism(), AccuracyShaping(), ProportionalSharing()):
...     outcome = rules.solve(homogeneous)
...     print(f"{rules.name}: {outcome.contributions[0]:.4f} each, from outside {round(outcome.budget, 4) + 0.0}")
equal-split: 5.9530 each, from outside 0.0
cost-sharing: 18.1238 each, from outside 0.0
vcg: 18.1238 each, from outside 0.0441
accuracy-shaping: 59.3692 each, from outside 0.0
proportional: 74.3457 each, from outside 0.0
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.core import welfare_of_others
from fedpact.certificates.deviations import Deviations, free_riding, sharing_total, unbounded_deviations
from fedpact.certificates.fixed_points import earning_payoff, sharing_in_proportion
from fedpact.deals.outcome import NOT_KNOWN, Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.federation.lots import require_single_lots
from fedpact.mechanisms.base import Mechanism, Voluntary
from fedpact.mechanisms.externality import OptimumMechanism
from fedpact.solvers.fixed_points import proportional_equilibria, shaped_equilibria
from fedpact.solvers.groups import group_welfare, standalone_optima
from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, non_negative, one_number
from fedpact.utils.errors import NotConverged


class EqualSplit(OptimumMechanism):
    """Everybody has an n-th of all payoffs and bears its own costs.

    The rule partnerships use, and the oldest example of free riding in teams (Alchian and Demsetz 1972; Holmstrom,
    "Moral hazard in teams", 1982). The game has the exact potential A / n - sum c, so that the equilibria are the
    welfare optima of the federation whose values are an n-th.
    """

    name = "equal-split"
    title = "Equal split"
    plain_title = "share the sum equally"
    description = "All payoffs are put together and everybody gets the same part, whatever it contributed."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True
    optimum_names = ("maximiser of the potential", "maximisers of the potential")

    def value_share(self, n_agents: int) -> float:
        return 1.0 / n_agents

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return sharing_total(federation, contributions, np.zeros(federation.n_agents), share=1.0 / federation.n_agents)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        payoffs = arrays.payoffs(contributions)
        return np.asarray(payoffs.mean(axis=-1, keepdims=True) - payoffs)


class LeaveOneOut(OptimumMechanism):
    """Everybody has what all payoffs lose without its data.

    The yardstick most used to say what a participant's data is worth: train with it and without. What the others have
    without i is nothing i can change, so u_i changes with welfare when i alone moves, and the welfare optima are the
    equilibria. What all add to all others is less than there is where data replaces other data, and more where it
    harms: payments leave a surplus, or lack money, `outcome.budget`.
    """

    name = "leave-one-out"
    title = "Leave one out"
    plain_title = "paid for what would be lost without you"
    description = "Everybody has what all payoffs together would lose without its data, which is less than there is."
    claims = (Claim.NASH, Claim.SOCIAL_OPTIMALITY)
    is_baseline = True

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        without = ~np.eye(federation.n_agents, dtype=np.bool_)[:, federation.lot_owners] * contributions
        if not all(federation.admits(profile) for profile in without):
            scope = "somebody leaves its payoff's domain without one of the others"
            return unbounded_deviations(federation, contributions, scope)
        constants = -federation.arrays.payoffs(without).sum(axis=-1)
        return sharing_total(federation, contributions, constants)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        """What the payoffs of all lose without each member, less its own.

        Raises
        ------
        NotConverged
            If somebody would leave its payoff's domain without one of the others: its loss has no bound.
        """
        given = np.swapaxes(arrays.member_data(contributions), -1, -2)  # (..., giver, task)
        left = arrays.data(contributions)[..., None, :] - given
        wide = arrays.expanded()
        lost = np.argwhere(left <= wide.floor)
        if lost.size:
            giver, receiver = arrays.names[lost[0][-2]], arrays.names[arrays.task_owners[lost[0][-1]]]
            raise NotConverged(
                f'what is lost without "{giver}" has no bound: the data of others harms "{receiver}" beyond the domain '
                "of its payoff; lower caps may help",
                result=contributions,
            )
        added = (wide.values * wide.payoff.increment(left, given)).sum(axis=-1)
        return np.asarray(added - arrays.payoffs(contributions))


class VCGMechanism(OptimumMechanism):
    """Everybody has its marginal contribution to welfare; somebody outside pays the deficit.

    u_i = W(s) - v(N without i). The second term is nothing member i can change, so everybody wants welfare to be as
    large as can be. Asked for their costs and values instead, members do best to tell the truth, whatever the others
    say (Vickrey 1961, Clarke 1971, Groves 1973). The price is money from outside: M^E, which balances, gives nobody
    more than it adds, so where no weight is negative the payments sum to a deficit, `outcome.budget`.
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

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        costs = federation.spending(contributions)
        constants = -(costs.sum() - costs) - welfare_of_others(federation, contributions)
        return sharing_total(federation, contributions, constants)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        net = arrays.payoffs(contributions) - arrays.spending(contributions)
        without = group_welfare(arrays, ~np.eye(arrays.n_agents, dtype=np.bool_))
        return np.asarray(net.sum(axis=-1, keepdims=True) - net - without)


class CostSharing(Voluntary):
    """M^BG: everybody is refunded a part of its costs, and pays that part of the average of the others'.

    The budget-balanced mechanism of Murhekar, Yuan, Chaudhury, Li and Mehta ("Incentives in federated learning:
    equilibria, dynamics, and mechanisms for welfare maximization", NeurIPS 2023). What the others spend is nothing a
    member can change, so it free-rides as if its costs were (1 - b) c_i. By default b = 1 - 1/n: all costs are paid
    together. Among members who are all alike that reaches the welfare optimum; among others it need not.

    Parameters
    ----------
    part
        b, from 0 (everybody bears its costs) to below 1; 1 - 1/n if not given.
    """

    name = "cost-sharing"
    title = "Cost sharing"
    plain_title = "costs are shared"
    description = (
        "Members pay a part of each other's costs; each contributes what suits itself at the costs left to it."
    )
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)

    def __init__(self, part: float | None = None) -> None:
        rule = (lambda number: (number >= 0.0) & (number < 1.0)), "at least 0 and below 1"
        self.part = None if part is None else one_number("part", part, *rule)

    def value_share(self, n_agents: int) -> float:
        return n_agents if self.part is None or n_agents == 1 else 1.0 / (1.0 - self.part)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        share = 1.0 / self.value_share(federation.n_agents)  # of its costs, which each member bears
        best = free_riding(self.played(federation), contributions)
        paid = (1.0 - share) * _mean_of_others(federation.spending(contributions))
        return replace(
            best,
            utilities=share * best.utilities - paid,
            shortfalls=share * best.shortfalls,
            scope="all contributions of one member in [0, cap], at the costs left to it",
        )

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        costs = arrays.spending(contributions)
        return (1.0 - 1.0 / self.value_share(arrays.n_agents)) * (costs - _mean_of_others(costs))


def _mean_of_others(costs: FloatArray) -> FloatArray:
    """For every member, what the others spend on average; nothing where there are none."""
    return np.asarray((costs.sum(axis=-1, keepdims=True) - costs) / max(costs.shape[-1] - 1, 1))


class FixedPointMechanism(Mechanism):
    """A mechanism of members with one lot each whose equilibria are found by answers to each other."""

    is_baseline = True
    one_lot: str  # why it does not say what to do with several

    def solve(self, federation: Federation) -> Outcome:
        """An equilibrium that answers lead to."""
        require_single_lots(federation, f"the mechanism {self.name}", self.one_lot)
        found = self.solve_stack(federation.arrays)
        if found is None or np.isnan(found).any():
            title = self.title.lower()
            said = f"{title}: members' answers to each other do not settle; there may be no equilibrium"
            raise NotConverged(said, result=found)
        return self.outcome_at(federation, found, is_solved=True)


class ProportionalSharing(FixedPointMechanism):
    """All payoffs are shared out in proportion to contributions.

    Pay by volume, the rule consortia and most incentive schemes for federated learning start from (Zeng, Chen et al.,
    "A comprehensive survey of incentive mechanism for federated learning", 2021), and that of contests (Tullock 1980).
    What data is useful for, and to whom, does not count. The game has no potential, and utilities need not be concave:
    what answers in turn reach is certified over the whole range of everybody's contributions.
    """

    name = "proportional"
    title = "Proportional"
    plain_title = "paid by the amount of data"
    description = "All payoffs are put together and shared out by the amount of data each member contributed."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    one_lot = "it pays by volume, and does not say how much of one lot counts for how much of another"

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return proportional_equilibria(arrays)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return sharing_in_proportion(federation, contributions)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        payoffs, given = arrays.payoffs(contributions), contributions.sum(axis=-1, keepdims=True)
        parts = np.divide(contributions, given, out=np.zeros(contributions.shape), where=given > 0)
        return payoffs.sum(axis=-1, keepdims=True) * parts - payoffs * (given > 0)


class AccuracyShaping(FixedPointMechanism):
    """Nobody pays; the model a member gets is degraded to what its costs have earned.

    Karimireddy, Guo and Jordan ("Mechanisms that incentivize data sharing in federated learning", 2022). With s_i° what
    member i would contribute alone, and e >= 0 a bonus, its payoff is a_i(s_i, 0) while s_i <= s_i°, and beyond

        a_i(s_i°, 0) + (1 + e) (c_i(s_i) - c_i(s_i°)),      never more than a_i(s).

    So everybody goes on until it has the whole model or reaches its cap. No rule that leaves everybody as well off as
    alone, without money, draws more data out of members. Where e vanishes, the default, nobody has more than alone.

    Parameters
    ----------
    bonus
        e: by how much more accuracy goes up than costs do, as a part of these; 0 is the limit of a vanishing one.
    """

    name = "accuracy-shaping"
    title = "Accuracy shaping"
    plain_title = "who gives less gets a weaker model"
    description = "Nobody pays. Everybody gets a model as good as its contribution has earned, and not a better one."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    claims_without_harm = (Claim.INDIVIDUAL_RATIONALITY,)
    one_lot = "a model is earned by one contribution that goes up, and costs of several lots can be run up in many ways"

    def __init__(self, bonus: float = 0.0) -> None:
        self.bonus = one_number("bonus", bonus, non_negative, NON_NEGATIVE)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return shaped_equilibria(arrays, self.bonus)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return earning_payoff(federation, contributions, self.bonus)

    def payoffs(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        """What each member gets: its earned payoff, at most that of the whole model."""
        alone = standalone_optima(arrays)[0]
        had = arrays.without_sharing().payoffs(np.minimum(contributions, alone))
        beyond = np.maximum(arrays.spending(contributions) - arrays.spending(alone), 0.0)
        return np.minimum(arrays.payoffs(contributions), had + (1.0 + self.bonus) * beyond)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        if federation.has_harm:
            return NOT_KNOWN
        note = "the only equilibrium at any bonus above 0, in the limit of that"
        return Equilibria(unique=True, dimension=0, note=note)
