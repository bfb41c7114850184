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
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, price_taking
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.certificates.side_payments import check_side_payments
from fedpact.certificates.tolerances import STAKE_TOLERANCE, utility_tolerances
from fedpact.deals import Equilibria, Outcome
from fedpact.deals.outcome import AS_GIVEN
from fedpact.federation import Federation
from fedpact.federation.ownership import require_single_lots
from fedpact.mechanisms.externality import ExternalityMechanism, equilibria_of, price_payments
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.fair_shares import (
    FairShares,
    KeptGroups,
    Unkept,
    share_among_groups,
    share_among_members,
)
from fedpact.programs.groups import MAX_LISTED_AGENTS, group_optima
from fedpact.programs.social_optimum import OptimalFace, SocialOptimum, social_optimum
from fedpact.programs.solver import Solution
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rules:
    """The rules of an outcome whose side payments are known: they are constants of its federation."""

    mechanism: FairMechanism
    federation: Federation
    side_payments: FloatArray
    elsewhere: dict[str, FloatArray] = field(default_factory=dict)  # of the last other federation, by fingerprint

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return _shift(price_taking(federation, contributions), self._constants(federation))

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return price_payments(federation, contributions) + self._constants(federation)

    def _constants(self, federation: Federation) -> FloatArray:
        if federation is self.federation:
            return self.side_payments
        if federation.fingerprint not in self.elsewhere:
            self.elsewhere.clear()
            self.elsewhere[federation.fingerprint] = self.mechanism.side_payments(federation)
        return self.elsewhere[federation.fingerprint]


class FairMechanism(ExternalityMechanism):
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

    knows_lots = False

    description = (
        "Contributions and prices as under Externality, and fixed sums between members that bring everybody as close "
        "to its Shapley share as can be while nobody is better off outside."
    )

    has_side_payments = True
    claims_without_harm = ()  # what it keeps, it keeps with harm as well

    def __init__(self, keep: str = "groups", *, time_limit: float = DEFAULT_TIME_LIMIT) -> None:
        if keep not in KEEP:
            raise InvalidInput(field="keep", rule=f"must be one of {', '.join(KEEP)}", value=keep)
        self.keep, self.time_limit = keep, time_limit
        self.name, self.title = NAMES[keep], TITLES[keep]
        kept = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE) if keep == "groups" else (Claim.INDIVIDUAL_RATIONALITY,)
        self.claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, *kept)

    def solve(self, federation: Federation) -> Outcome:
        """The welfare optimum of smallest norm, its payments at prices, and the side payments.

        Raises
        ------
        NoFairDeal
            If no side payments keep everybody, or there are no Shapley shares to return.
        """
        require_single_lots(federation, f"the mechanism {self.name}")
        return self._outcome(federation, social_optimum(federation))

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return _shift(price_taking(federation, contributions), self.side_payments(federation))

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return price_payments(federation, contributions) + self.side_payments(federation)

    def side_payments(self, federation: Federation) -> FloatArray:
        """T: what each member is paid whatever anybody contributes; they add up to zero."""
        return self._side_payments(federation, social_optimum(federation).contributions)

    def outcome_at(
        self,
        federation: Federation,
        contributions: ArrayLike,
        payments: ArrayLike | None = None,
        *,
        equilibria: Equilibria = AS_GIVEN,
        solution: Solution | None = None,
        face: OptimalFace | None = None,
        side_payments: ArrayLike | None = None,
    ) -> Outcome:
        """A profile under these rules; what is paid beyond the prices is a side payment unless they are given."""
        profile = np.asarray(contributions, dtype=np.float64)
        priced = price_payments(federation, profile)
        if side_payments is not None:
            side = np.asarray(side_payments, dtype=np.float64)
        else:
            side = self.side_payments(federation) if payments is None else np.asarray(payments) - priced
        rules = _Rules(mechanism=self, federation=federation, side_payments=side)
        made = super().outcome_at(
            federation,
            profile,
            priced + side if payments is None else payments,
            equilibria=equilibria,
            solution=solution,
            face=face,
            side_payments=side,
        )
        return replace(made, deviations=rules.deviations, payment_rule=rules.payment_rule)

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

    def payment_bounds(self, federation: Federation, contributions: FloatArray) -> PaymentBounds:
        """Payments at prices, certified; of side payments that nobody states nothing is."""
        priced = price_payment_bounds(federation, contributions)
        side = self.side_payments(federation)
        return PaymentBounds(payments=priced.payments + side, errors=np.full(side.size, np.inf))

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        side = None
        if payments is None:
            side = self._side_payments(federation, optimum.contributions)
        return self.outcome_at(
            federation,
            optimum.contributions,
            payments,
            equilibria=equilibria_of(optimum.face),
            solution=optimum.solution,
            face=optimum.face,
            side_payments=side,
        )

    def _side_payments(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """T at a welfare optimum."""
        payoffs, costs = federation.payoffs(contributions), federation.costs.value(contributions)
        priced = price_payments(federation, contributions)
        utilities = payoffs - costs + priced
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
        stakes = utility_tolerances(payoffs, costs, priced, federation.values) / STAKE_TOLERANCE
        try:
            if self.keep == "members":
                return _zero_sum(share_among_members(shares, costs, alone, welfare), utilities, stakes)
            search = _GroupSearch(federation, stakes, self.time_limit)
            found = share_among_groups(shares, costs, alone, welfare, search, stakes=stakes)
            return _zero_sum(found, utilities, stakes)
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


def _zero_sum(found: FairShares, utilities: FloatArray, stakes: FloatArray) -> FloatArray:
    """The side payments that lead from one set of utilities to another with the same sum.

    What rounding leaves of the sum is shared out by stakes: it comes from the large and would swamp the small.
    """
    side = found.utilities - utilities
    return np.asarray(side - side.sum() * stakes / stakes.sum())


def _shift(best: Deviations, constants: FloatArray) -> Deviations:
    """The same deviations where everybody is paid a constant whatever it does."""
    return replace(best, utilities=best.utilities + constants)


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
