"""M^E with side payments: fixed sums on top of prices that bring members to a division of their choice.

Contributions are a welfare optimum and data is paid for at prices (`fedpact.mechanisms.externality`). On top come
constants T_i that add up to zero. They change nobody's reasons to contribute, so equilibrium, balance and optimality
stay as they are, and T can be chosen to give everybody any utilities that sum to the welfare:

* `FairMechanism`: everybody gets its fair share of the gain (`fedpact.solvers.fair_division`); where some group could
  do better by itself, as close to that, in the sum of squares, as no group would leave. Or, by reciprocity: the lowest
  part r of a Shapley share phi_i that anybody gets back is as large as can be, and of such divisions the one nearest to
  the shares. With no negative weight and no joining costs there is one, because T = 0 is: M^E is in the core.
  Otherwise there may be none; `NoFairDeal` then says who cannot be kept, and what it would take.
* `NashBargaining`: everybody gains the same on what it has alone (Nash, "The bargaining problem", 1950).
* `Nucleolus`: the group with the least reason to stay has as much reason as can be, then the next (Schmeidler 1969).

The numbers of all members go into T. Members who report them for their own good change it, and the message game, which
needs no reports, does not find it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.deals.outcome import Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.shapley import shapley_values
from fedpact.solvers.fair_division import Unkept, fair_gains, fairest_division, nearest_division
from fedpact.solvers.groups import MAX_LISTED_AGENTS, MAX_SEARCHED_AGENTS, KnownGroups, standalone_optimum
from fedpact.solvers.nucleolus import nucleolus
from fedpact.solvers.welfare import nearest_optimum, social_optimum
from fedpact.utils.arrays import FloatArray, align
from fedpact.utils.errors import InvalidInput, NoFairDeal, OutsideDomain
from fedpact.utils.words import MAX_NAMES, join_names

KINDS = {  # by what, and who is kept: the mechanism's name, title and plain title
    ("gain", "groups"): ("fair", "Fair", "pay for what you use, evened out"),
    ("gain", "members"): ("fair-members", "Fair to members", "evened out, keeping single members only"),
    ("reciprocity", "groups"): ("fair-reciprocity", "Fair by reciprocity", "evened out by Shapley shares"),
    ("reciprocity", "members"): (
        "fair-reciprocity-members",
        "Fair by reciprocity to members",
        "evened out by Shapley shares, keeping single members only",
    ),
}
MAX_SHAPLEY_SHARE = 1e6  # times all payoffs and costs: of larger Shapley shares rounding leaves too little
GAIN_ROUNDING = 1e-12  # of what everybody has alone: a loss that is none
KEPT_IF_FOUND = "side payments keep every group found; of more than {} members not all groups are looked at"


class SidePaymentMechanism(ExternalityMechanism):
    """Contributions and prices of M^E, and fixed sums that bring everybody to `target_utilities`."""

    has_side_payments = True
    claims_without_harm: Sequence[Claim] = ()  # what it keeps, it keeps with harm as well

    @abstractmethod
    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What everybody has in the end at a welfare optimum; they sum to the welfare."""

    def side_payments(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """T at a welfare optimum: what each member is paid whatever anybody contributes; they add up to zero.

        Raises
        ------
        NoFairDeal
            If there are no side payments of the kind the mechanism asks for.
        """
        arrays = federation.arrays
        has = arrays.payoffs(contributions) - arrays.spending(contributions) + arrays.price_payments(contributions)
        joining = arrays.joining_costs * (arrays.n_agents > 1)
        return self.target_utilities(federation, contributions) - (has - joining)

    def outcome_at(
        self,
        federation: Federation,
        contributions: ArrayLike,
        payments: ArrayLike | None = None,
        *,
        side_payments: ArrayLike | None = None,
        is_solved: bool = False,
    ) -> Outcome:
        """A profile under these rules; what is paid beyond the prices is a side payment unless they are given."""
        profile = np.asarray(align("contributions", contributions, federation.lot_labels), dtype=np.float64)
        priced = self.payments(federation.arrays, profile)
        if side_payments is not None:
            side = np.asarray(align("side_payments", side_payments, federation.names), dtype=np.float64)
        elif payments is not None:
            side = np.asarray(align("payments", payments, federation.names)) - priced
        else:
            side = self.side_payments(federation, profile if is_solved else social_optimum(federation).contributions)
        paid = priced + side if payments is None else payments
        return super().outcome_at(federation, profile, paid, side_payments=side, is_solved=is_solved)

    def payments_due(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        near = nearest_optimum(federation, contributions)
        return self.payments(federation.arrays, near) + self.side_payments(federation, near)


class FairMechanism(SidePaymentMechanism):
    """M^E with the side payments that bring everybody as close to its fair share as can be.

    Parameters
    ----------
    keep
        Who must be at least as well off as outside: every group of members ("groups") or every member ("members"). Of
        more than 16 members not all groups are looked at: those that a search finds are kept, and the outcome says so.
    by
        What is fair: a share of the gain ("gain"), or of all payoffs ("reciprocity", the paper's measure).

    Members' budgets are kept; `NoFairDeal` if no division does.

    Examples
    --------
    >>> from fedpact import ExternalityMechanism
    >>> from fedpact import load_scenario
    >>> rules = (ExternalityMechanism(), FairMechanism(), FairMechanism(by="reciprocity"))
    >>> outcomes = [each.solve(load_scenario("hospitals").federation) for each in rules]
    >>> [round(each.lowest_gain_share, 3) for each in outcomes], [round(each.reciprocity, 3) for each in outcomes]
    ([0.831, 1.0, 0.079], [0.594, 0.63, 0.862])
    """

    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.INDIVIDUAL_RATIONALITY)

    def __init__(self, keep: str = "groups", by: str = "gain") -> None:
        for label, given, known in (("keep", keep, ("groups", "members")), ("by", by, ("gain", "reciprocity"))):
            if given not in known:
                raise InvalidInput(field=label, rule=f"must be one of {', '.join(known)}", value=given)
        self.keep, self.by = keep, by
        self.name, self.title, self.plain_title = KINDS[by, keep]

    @property
    def description(self) -> str:  # type: ignore[override]
        """What it does, in a sentence."""
        share = "its fair share of the gain" if self.by == "gain" else "its Shapley share"
        return (
            "Contributions and prices as under Externality, and fixed sums between members that bring everybody as "
            f"close to {share} as can be while nobody is better off outside."
        )

    def promises(self, federation: Federation) -> tuple[Claim, ...]:
        few = federation.n_agents <= MAX_LISTED_AGENTS
        keeps_groups, is_fair = self.keep == "groups" and few, self.by == "gain" and few
        return (*self.claims, *((Claim.CORE,) if keeps_groups else ()), *((Claim.FAIR_GAINS,) if is_fair else ()))

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        found = super().equilibria(federation, contributions)
        if self.keep == "members" or federation.n_agents <= MAX_LISTED_AGENTS:
            return found
        return replace(found, note=f"{found.note}; {KEPT_IF_FOUND.format(MAX_LISTED_AGENTS)}")

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The utilities closest to fair shares that keep everybody."""
        payoffs, costs = federation.payoffs(contributions), federation.spending(contributions)
        if federation.n_agents > 1:
            costs = costs + federation.joining_costs
        groups = KnownGroups(federation) if self.keep == "groups" else None
        alone, welfare = standalone_optimum(federation)[1], float(payoffs.sum() - costs.sum())
        least = payoffs - costs - federation.budgets
        try:
            if self.by == "gain":
                target = alone + self._fair_gains(federation)
                return nearest_division(target, alone, welfare, groups, least=least)
            shares = self._shapley_shares(federation, contributions, payoffs, costs)
            return fairest_division(shares, costs, alone, welfare, groups, least=least)
        except Unkept as unkept:
            raise _no_deal_error(federation, unkept, least) from None

    def _fair_gains(self, federation: Federation) -> FloatArray:
        found = fair_gains(federation).values
        if np.isnan(found).any():
            rule = f"must have at most {MAX_SEARCHED_AGENTS} members for fair shares of the gain"
            given = f', got {federation.n_agents}; by="reciprocity" takes any number'
            raise InvalidInput(field="federation", rule=rule, value=federation.n_agents, given=given)
        return found

    def _shapley_shares(
        self, federation: Federation, contributions: FloatArray, payoffs: FloatArray, costs: FloatArray
    ) -> FloatArray:
        """The Shapley shares at the welfare optimum; `NoFairDeal` where there are none."""
        try:
            shares = shapley_values(federation, contributions).values
        except OutsideDomain as error:
            raise NoFairDeal(
                f"there are no Shapley shares to return at the welfare optimum: some group of members would leave the "
                f"domain of a payoff ({error})"
            ) from error
        if (largest := np.abs(shares).max()) > MAX_SHAPLEY_SHARE * (np.abs(payoffs).sum() + costs.sum()):
            raise NoFairDeal(
                f"there are no Shapley shares to return at the welfare optimum: they are as large as {largest:.3g}, "
                "and what there is to share out is lost in their rounding; some group of members is at the edge of the "
                "domain of a payoff"
            )
        return shares


def _no_deal_error(federation: Federation, unkept: Unkept, least: FloatArray) -> NoFairDeal:
    """The error that says who cannot be kept, and what it would take; `least` is what budgets leave to members."""
    names = federation.names
    groups = [tuple(names[int(agent)] for agent in np.flatnonzero(group)) for group in unkept.members]
    if all(len(group) == 1 for group in groups):
        who = join_names([group[0] for group in groups], most=MAX_NAMES)
        why: tuple[str | float, ...] = (
            f"by themselves {who} have ",
            float(unkept.values.sum()),
            " in all, more than there is to share",
        )
    else:
        said = join_names([f"({join_names(group, most=MAX_NAMES)})" for group in groups], most=MAX_NAMES)
        why = (f"the groups {said} ask for more by themselves than there is to share",)
    limited = [names[agent] for agent in np.flatnonzero(np.isfinite(least)).tolist()]
    budgets = f" within the budgets of {join_names(limited, most=MAX_NAMES)}" if limited else ""
    way_out = ("; a subsidy of ", unkept.subsidy, " from outside would")
    text = (f"no side payments keep everybody{budgets}: ", *why, *way_out)
    return NoFairDeal(*text, groups=tuple(groups), subsidy=unkept.subsidy)


class NashBargaining(SidePaymentMechanism):
    """The gain from federating in equal parts, on top of what everybody has alone.

    u_i = v_i* + (v(N) - sum_j v_j*) / n maximises the product of everybody's gains. What only a group of members can do
    by itself plays no part, so groups may gain by leaving. Where all have more alone than together, which takes harm,
    there is nothing to agree on.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> outcome = NashBargaining().solve(load_scenario("hospitals").federation)
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
        joining = float(federation.joining_costs.sum()) if federation.n_agents > 1 else 0.0
        gain = federation.welfare(contributions) - joining - float(alone.sum())
        if gain < -GAIN_ROUNDING * float(np.abs(alone).sum()):
            raise NoFairDeal(
                "there is no gain to share: everybody alone has ",
                -gain,
                " more than all have together",
                groups=tuple((name,) for name in federation.names),
                subsidy=-gain,
            )
        return np.asarray(alone + gain / federation.n_agents)


class Nucleolus(SidePaymentMechanism):
    """Contributions and prices of M^E, and fixed sums that lead to the nucleolus, of up to 16 members.

    With v(X) what a group X reaches by itself, the smallest x(X) - v(X) of all groups is as large as can be, then the
    next smallest, until one division x is left. It is in the core wherever the core is not empty, and so where no
    weight is negative. The divisions that are best in the first step alone are the least core (`fedpact.least_core`).

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> outcome = Nucleolus().solve(load_scenario("hospitals").federation)
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

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The nucleolus of what groups reach by themselves."""
        if federation.n_agents > MAX_LISTED_AGENTS:
            rule = f"must have at most {MAX_LISTED_AGENTS} members for the mechanism {self.name}"
            given = f", got {federation.n_agents}: it needs all 2^n groups; fair-members takes any number"
            raise InvalidInput(field="federation", rule=rule, value=federation.n_agents, given=given)
        return nucleolus(KnownGroups(federation)).utilities
