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
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.certificates.side_payments import check_side_payments
from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.federation.splitting import canonical_order, interchangeable_agents
from fedpact.mechanisms.side_payments import DIVISION_TIME_LIMIT, SidePaymentMechanism, stakes_at_prices
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.fair_shares import (
    SHORTFALL_TOLERANCE,
    FairShares,
    KeptGroups,
    Unkept,
    share_among_groups,
    share_among_members,
)
from fedpact.programs.groups import MAX_LISTED_AGENTS, group_optima
from fedpact.programs.known_groups import MAX_GROUPS_TAKEN_IN, KnownGroups
from fedpact.programs.social_optimum import SocialOptimum
from fedpact.programs.worst_group import affordable_relaxations, check_search_limits, worst_group
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NoFairDeal, OutsideDomain
from fedpact.utils.progress import report_progress
from fedpact.utils.words import MAX_NAMES, join_names

KEEP = ("groups", "members")
NAME_BY_KEPT = {"groups": "fair", "members": "fair-members"}
TITLES = {"groups": "Fair", "members": "Fair to members"}
PLAIN_TITLES = {"groups": "pay for what you use, evened out", "members": "evened out, keeping single members only"}
MAX_SHAPLEY_SHARE = 1e6  # times all payoffs and costs: of larger Shapley shares rounding leaves too little
SHARE_ROUNDING = 1e-9  # lowest shares that differ by less are alike
KEPT_IF_FOUND = "side payments keep every group found; of more than {} members not all groups are looked at"


class FairMechanism(SidePaymentMechanism):
    """M^E with the side payments under which the lowest Shapley share returned is as large as can be.

    Parameters
    ----------
    keep
        Who must be at least as well off as outside: every group of members ("groups") or every member ("members").
    max_relaxations
        For the search through groups of more than 16 members, each time it looks closely: up to 40, fewer among many,
        if not given. Groups may be left that were not found. The outcome says so, and its core certificate how much
        these could gain at most; in more time `fedpact.blocking_group` says it more closely. A number rather than a
        time: all machines make the same deal.
    time_limit
        Seconds after which no more groups of more than 16 members are looked for; those found until then are kept, and
        the outcome says so. It is there for federations of hundreds of members: on other machines the deal may differ.

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

    def __init__(
        self,
        keep: str = "groups",
        *,
        max_relaxations: int | None = None,
        time_limit: float = DIVISION_TIME_LIMIT,
    ) -> None:
        if keep not in KEEP:
            raise InvalidInput(field="keep", rule=f"must be one of {', '.join(KEEP)}", value=keep)
        check_search_limits(time_limit, max_relaxations)
        self.keep, self.max_relaxations, self.time_limit = keep, max_relaxations, time_limit
        self.name, self.title, self.plain_title = NAME_BY_KEPT[keep], TITLES[keep], PLAIN_TITLES[keep]
        self.asks_for_groups = keep == "groups"
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
        return self._fairest(federation, contributions).utilities

    def second_payment_bounds(self, outcome: Outcome) -> PaymentBounds:
        """The same worked out a second time; where groups are not all looked at, others that are as fair stand.

        They have to keep every group that the second search finds, and to return as large a lowest share.
        """
        federation = outcome.federation
        if not self._is_bracketed(federation):
            return super().second_payment_bounds(outcome)
        second = self.nearby_equilibrium(federation, outcome.contributions)
        priced, found = price_payment_bounds(federation, second), self._fairest(federation, second)
        side = found.utilities - (federation.payoffs(second) - federation.spending(second) + priced.payments)
        lacking = found.groups.shortfalls(outcome.utilities) > found.groups.members @ outcome.tolerances
        if not outcome.lowest_fair_part < found.lowest_share - SHARE_ROUNDING and not lacking.any():
            assert outcome.side_payments is not None
            side = outcome.side_payments
        return PaymentBounds(payments=priced.payments + side, errors=np.full(side.size, np.inf))

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        begun = time.monotonic()
        made = super()._outcome(federation, optimum, payments)
        if not self._is_bracketed(federation):
            return made
        note = f"{made.equilibria.note}; {KEPT_IF_FOUND.format(MAX_LISTED_AGENTS)}"
        if time.monotonic() - begun > self.time_limit:
            note += f", and the search ended after {self.time_limit:g} seconds"
        return replace(made, equilibria=replace(made.equilibria, note=note))

    def _is_bracketed(self, federation: Federation) -> bool:
        """Whether some groups are not looked at: fairer side payments, and groups that gain, are not excluded."""
        return self.keep == "groups" and federation.n_agents > MAX_LISTED_AGENTS

    def _fairest(self, federation: Federation, contributions: FloatArray) -> FairShares:
        """The fairest sharing at a welfare optimum."""
        payoffs, costs = federation.payoffs(contributions), federation.spending(contributions)
        alone = standalone_optimum(federation)[1]
        try:
            shares = shapley_values(federation, contributions).values
        except OutsideDomain as error:
            raise NoFairDeal(
                f"there are no Shapley shares to return at the welfare optimum: some group of members would leave the "
                f"domain of a payoff ({error})"
            ) from error
        welfare = float(payoffs.sum() - costs.sum())
        check_shares(shares, payoffs, costs)
        if self.keep == "members":
            try:
                return share_among_members(shares, costs, alone, welfare)
            except Unkept as unkept:
                raise no_deal_error(federation.names, unkept) from None
        stakes = stakes_at_prices(federation, contributions)
        if self._is_bracketed(federation):
            order = canonical_order(payoffs, stakes, costs, alone, shares)
            ordered = federation.take(order)
        else:
            order, ordered = np.arange(federation.n_agents), federation
        search = _GroupSearch(ordered, stakes[order], self.max_relaxations, time.monotonic() + self.time_limit)
        try:
            found = share_among_groups(
                shares[order],
                costs[order],
                alone[order],
                welfare,
                search,
                quick_search=search.quick,
                stakes=stakes[order],
                alike=interchangeable_agents(ordered),
            )
        except Unkept as unkept:
            raise no_deal_error(ordered.names, unkept) from None
        places = np.argsort(order)
        groups = KeptGroups(members=found.groups.members[:, places], values=found.groups.values)
        return FairShares(utilities=found.utilities[places], lowest_share=found.lowest_share, groups=groups)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keep={self.keep!r})"


class _GroupSearch:
    """Groups that would gain by leaving: of all groups where they can be listed, else of those that a search finds.

    Many members are searched in steps, each only where the one before finds nothing: the groups known so far; the
    neighbours of those that come closest; groups that grow from pairs and shrink from everybody; what prices point at,
    and branch and bound.
    """

    def __init__(
        self, federation: Federation, stakes: FloatArray, max_relaxations: int | None, deadline: float
    ) -> None:
        self._federation, self._stakes = federation, stakes
        affordable = affordable_relaxations(federation.n_agents)
        self._max_relaxations = affordable if max_relaxations is None else max_relaxations
        self._listed: KeptGroups | None = None
        if federation.n_agents <= MAX_LISTED_AGENTS:
            listed = group_optima(federation, progress=_report)
            self._listed = KeptGroups(members=listed.members[1:], values=listed.values[1:])  # the first is empty
            return
        self._known = KnownGroups(federation, deadline=deadline)
        self._known.look_at_likely()

    def __call__(self, utilities: FloatArray) -> KeptGroups:
        found = self.quick(utilities)
        if self._listed is None and not found.values.size and not self._known.is_late:
            self._known.climb_from_best(utilities)
            found = self._among_known(utilities)
        if self._listed is None and not found.values.size and not self._known.is_late:
            worst_group(
                self._federation,
                utilities,
                time_limit=self._known.time_left,
                max_relaxations=self._max_relaxations,
                known=self._known,
            )
            found = self._among_known(utilities)
        return found

    def quick(self, utilities: FloatArray) -> KeptGroups:
        """Without what takes longest."""
        if self._listed is not None:
            return _worst(self._listed, self._listed.shortfalls(utilities), self._listed.members @ self._stakes, 0.0)
        found = self._among_known(utilities)
        for look in (self._known.walk, self._known.grow_and_shrink):
            if found.values.size or self._known.is_late:
                break
            look(utilities)
            found = self._among_known(utilities)
        return found

    def _among_known(self, utilities: FloatArray) -> KeptGroups:
        known = KeptGroups(members=self._known.members, values=self._known.values)
        gains, stakes = self._known.gains(utilities), self._known.sums(self._stakes)
        return _worst(known, gains, stakes, 2.0 * SHORTFALL_TOLERANCE)


def check_shares(shares: FloatArray, payoffs: FloatArray, costs: FloatArray) -> None:
    """Raise `NoFairDeal` where Shapley shares are so large that rounding leaves nothing to share out."""
    largest, shared_out = float(np.abs(shares).max()), float(payoffs.sum())
    if largest > MAX_SHAPLEY_SHARE * (np.abs(payoffs).sum() + costs.sum()):
        raise NoFairDeal(
            f"there are no Shapley shares to return at the welfare optimum: they are as large as {largest:.3g}, "
            f"and the {shared_out:.3g} there is to share out is lost in their rounding; some group of members is "
            "at the edge of the domain of a payoff"
        )


def _report(done: int, total: int) -> None:
    report_progress(f"{done:,} of {total:,} groups")


def _worst(groups: KeptGroups, lacking: FloatArray, stakes: FloatArray, tolerance: float) -> KeptGroups:
    """Those that lack most, measured by their stakes, and more than the tolerance."""
    shares = lacking / stakes
    worst = np.argsort(-shares, kind="stable")[:MAX_GROUPS_TAKEN_IN]
    worst = worst[shares[worst] > tolerance]
    return KeptGroups(members=groups.members[worst], values=groups.values[worst])


def no_deal_error(names: Sequence[str], unkept: Unkept) -> NoFairDeal:
    """The error that says who cannot be kept, and what it would take."""
    groups = [tuple(names[int(agent)] for agent in np.flatnonzero(group)) for group in unkept.groups.members]
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
