"""The fairest deal that holds: M^E's contributions and prices, and side payments that depend on nothing anybody does.

A side payment T_i, the T adding up to zero, changes nobody's reasons to contribute: under M^E with any T the profile
stays an equilibrium, welfare is still the largest, and payments balance. So T can be chosen for fairness alone. It
makes the smallest part r of its Shapley share phi_i(s*) that any member has, in what it gets out,

    a_i + p_i + T_i >= r phi_i,

as large as can be while nobody is better off outside: no member alone (`keep="members"`), or no group of members that
leaves together (`keep="groups"`). Among these it is the T for which benefits are closest to Shapley shares, in the sum
of squares; that is unique, treats equals alike, and is renamed with the members (`fedpact.programs.fair_shares`).

Where no weight is negative such T exist, because T = 0 is one of them: M^E is in the core. With harm there may be none;
`NoFairDeal` then says who cannot be kept, and what it would take.

The numbers of all members go into T. Members who report them for their own good change it, and the message game, which
needs no reports, does not find it.
"""

from __future__ import annotations

import time

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.certificates.side_payments import check_side_payments
from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.side_payments import SidePaymentMechanism, stakes_at_prices
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.fair_shares import (
    KeptGroups,
    Unkept,
    share_among_groups,
    share_among_members,
)
from fedpact.programs.groups import MAX_LISTED_AGENTS, group_optima
from fedpact.programs.worst_group import worst_group
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NoFairDeal, OutsideDomain
from fedpact.utils.words import MAX_NAMES, join_names

KEEP = ("groups", "members")
NAMES = {"groups": "fair", "members": "fair-members"}
TITLES = {"groups": "Fair", "members": "Fair to members"}
MAX_SHARE = 1e6  # times all payoffs and costs: of larger Shapley shares rounding leaves too little
GROUPS_AT_A_TIME = 32  # that are taken in where many are violated
DEFAULT_TIME_LIMIT = 60.0  # seconds


class FairMechanism(SidePaymentMechanism):
    """M^E with the side payments under which the lowest Shapley share returned is as large as can be.

    Parameters
    ----------
    keep
        Who must be at least as well off as outside: every group of members ("groups") or every member ("members").
    time_limit
        Seconds for the search through groups of more than 16 members, after which groups may be left that were not
        found; `fedpact.blocking_group` says how much these could gain at most.

    Examples
    --------
    >>> from fedpact import ExternalityMechanism
    >>> from fedpact.scenario.examples import hospitals
    >>> rules = (ExternalityMechanism(), FairMechanism(), FairMechanism(keep="members"))
    >>> [round(each.solve(hospitals().federation).reciprocity, 3) for each in rules]
    [0.663, 0.711, 0.798]
    """

    description = (
        "Contributions and prices as under Externality, and fixed sums between members that bring everybody as close "
        "to its Shapley share as can be while nobody is better off outside."
    )

    def __init__(self, keep: str = "groups", *, time_limit: float = DEFAULT_TIME_LIMIT) -> None:
        if keep not in KEEP:
            raise InvalidInput(field="keep", rule=f"must be one of {', '.join(KEEP)}", value=keep)
        self.keep, self.time_limit = keep, time_limit
        self.name, self.title = NAMES[keep], TITLES[keep]
        kept = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE) if keep == "groups" else (Claim.INDIVIDUAL_RATIONALITY,)
        self.claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, *kept)

    def stated_payment_bounds(self, outcome: Outcome) -> PaymentBounds:
        """Payments at prices, certified, and the side payments of the outcome as far as duality proves them."""
        priced = price_payment_bounds(outcome.federation, outcome.contributions)
        assert outcome.side_payments is not None
        due = priced.payments + outcome.side_payments
        checked = check_side_payments(outcome, outcome.side_payments, groups=self.keep == "groups")
        if checked is None:
            return PaymentBounds(payments=due, errors=np.full(due.size, np.inf))
        missed = (checked.share_bound - checked.lowest_share) * float(np.abs(outcome.payoffs).sum())
        error = checked.distance + max(missed, 0.0) + max(checked.shortfall, 0.0) + abs(checked.sum)
        return PaymentBounds(payments=due, errors=priced.errors + error)

    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The utilities closest to Shapley shares that keep everybody.

        Raises
        ------
        NoFairDeal
            If no side payments keep everybody, or there are no Shapley shares to return.
        """
        payoffs, costs = federation.payoffs(contributions), federation.costs.value(contributions)
        alone = standalone_optimum(federation)[1]
        try:
            shares = shapley_values(federation, contributions).values
        except OutsideDomain as error:
            raise NoFairDeal(
                f"there are no Shapley shares to return at the welfare optimum: some group of members would leave the "
                f"domain of a payoff ({error})"
            ) from error
        welfare = float(payoffs.sum() - costs.sum())
        largest, shared_out = float(np.abs(shares).max()), float(payoffs.sum())
        if largest > MAX_SHARE * (np.abs(payoffs).sum() + costs.sum()):
            raise NoFairDeal(
                f"there are no Shapley shares to return at the welfare optimum: they are as large as {largest:.3g}, "
                f"and the {shared_out:.3g} there is to share out is lost in their rounding; some group of members is "
                "at the edge of the domain of a payoff"
            )
        stakes = stakes_at_prices(federation, contributions)
        try:
            if self.keep == "members":
                return share_among_members(shares, costs, alone, welfare).utilities
            search = _GroupSearch(federation, stakes, self.time_limit)
            return share_among_groups(shares, costs, alone, welfare, search, stakes=stakes).utilities
        except Unkept as unkept:
            raise _no_deal(federation, unkept) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keep={self.keep!r})"


class _GroupSearch:
    """Groups that would gain by leaving: of all groups where they can be listed, else by a search in limited time."""

    def __init__(self, federation: Federation, stakes: FloatArray, time_limit: float) -> None:
        self._federation, self._stakes, self._end = federation, stakes, time.monotonic() + time_limit
        self._optima = group_optima(federation) if federation.n_agents <= MAX_LISTED_AGENTS else None

    def __call__(self, utilities: FloatArray) -> KeptGroups:
        if self._optima is None:
            found = worst_group(self._federation, utilities, time_limit=0.0)
            if found.gain <= 0.0 and not found.exact:  # none at first sight: the time is for looking closely
                found = worst_group(self._federation, utilities, time_limit=max(0.0, self._end - time.monotonic()))
            return KeptGroups(members=found.members[None], values=np.array([found.value]))
        gains = self._optima.gains(utilities)[1:]  # the first is the empty group
        by_stakes = gains / (self._optima.members[1:] @ self._stakes)
        worst = 1 + np.argsort(-by_stakes, kind="stable")[:GROUPS_AT_A_TIME]
        worst = worst[by_stakes[worst - 1] > 0]
        return KeptGroups(members=self._optima.members[worst], values=self._optima.values[worst])


def _no_deal(federation: Federation, unkept: Unkept) -> NoFairDeal:
    groups = [tuple(federation.names[agent] for agent in np.flatnonzero(group)) for group in unkept.groups.members]
    excess = np.asarray(unkept.groups.values, dtype=float)
    if all(len(group) == 1 for group in groups):
        who = join_names([group[0] for group in groups], most=MAX_NAMES)
        why = f"{who} together have more alone than all have together, {excess.sum():.6g}"
    else:
        said = join_names([f"({join_names(group, most=MAX_NAMES)})" for group in groups], most=MAX_NAMES)
        why = f"the groups {said} ask for more by themselves than there is to share"
    way_out = f"a subsidy of {unkept.subsidy:.6g} from outside would (units of payoff)"
    return NoFairDeal(
        f"no side payments keep everybody: {why}; {way_out}",
        groups=tuple(groups),
        subsidy=unkept.subsidy,
    )
