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

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Claim
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.certificates.side_payments import check_side_payments
from fedpact.certificates.tolerances import outcome_tolerances
from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.side_payments import SidePaymentMechanism, stakes_at_prices
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.fair_shares import (
    SHORTFALL_TOLERANCE,
    FairShares,
    KeptGroups,
    Unkept,
    no_more_groups,
    share_among_groups,
    share_among_members,
)
from fedpact.programs.groups import MAX_LISTED_AGENTS, group_optima
from fedpact.programs.social_optimum import SocialOptimum
from fedpact.programs.worst_group import worst_group
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NoFairDeal, OutsideDomain
from fedpact.utils.words import MAX_NAMES, join_names

KEEP = ("groups", "members")
NAMES = {"groups": "fair", "members": "fair-members"}
TITLES = {"groups": "Fair", "members": "Fair to members"}
MAX_SHARE = 1e6  # times all payoffs and costs: of larger Shapley shares rounding leaves too little
MAX_AGENTS_WITHOUT_PAIRS = 32  # for which the search looks at all but two members from the start
MAX_LOOKS, MIN_BEAM = 10_000, 4  # groups of many members that grow: about how many in all, and at least at a time
GROUPS_AT_A_TIME = 32  # that are taken in where many are violated
DEFAULT_RELAXATIONS = 16
SHARE_ROUNDING = 1e-9  # lowest shares that differ by less are alike
KEPT_IF_FOUND = "side payments keep every group found; of more than {} members not all groups are looked at"


class FairMechanism(SidePaymentMechanism):
    """M^E with the side payments under which the lowest Shapley share returned is as large as can be.

    Parameters
    ----------
    keep
        Who must be at least as well off as outside: every group of members ("groups") or every member ("members").
    max_relaxations
        For the search through groups of more than 16 members, each time it looks closely; groups may be left that were
        not found. The outcome says so, and its core certificate how much these could gain at most; in more time
        `fedpact.blocking_group` says it more closely. A number rather than a time: all machines make the same deal.

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

    def __init__(self, keep: str = "groups", *, max_relaxations: int = DEFAULT_RELAXATIONS) -> None:
        if keep not in KEEP:
            raise InvalidInput(field="keep", rule=f"must be one of {', '.join(KEEP)}", value=keep)
        self.keep, self.max_relaxations = keep, max_relaxations
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
        lacking = found.groups.shortfalls(outcome.utilities) > found.groups.members @ outcome_tolerances(outcome)
        if outcome.reciprocity >= found.lowest_share - SHARE_ROUNDING and not lacking.any():
            assert outcome.side_payments is not None
            side = outcome.side_payments
        return PaymentBounds(payments=priced.payments + side, errors=np.full(side.size, np.inf))

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        made = super()._outcome(federation, optimum, payments)
        if not self._is_bracketed(federation):
            return made
        note = f"{made.equilibria.note}; {KEPT_IF_FOUND.format(MAX_LISTED_AGENTS)}"
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
        stakes = stakes_at_prices(federation, contributions)
        try:
            if self.keep == "members":
                return share_among_members(shares, costs, alone, welfare)
            search = _GroupSearch(federation, stakes, self.max_relaxations)
            return share_among_groups(shares, costs, alone, welfare, search, stakes=stakes)
        except Unkept as unkept:
            raise no_deal_error(federation.names, unkept) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keep={self.keep!r})"


class _GroupSearch:
    """Groups that would gain by leaving: of all groups where they can be listed, else of those that a search finds.

    Many members are searched in steps, each only where the one before finds nothing: the groups known so far; groups
    that grow by one member at a time, the best of each size; neighbours of what prices point at; branch and bound. What
    a group reaches by itself does not depend on what is shared out, so every group looked at stays known.
    """

    def __init__(self, federation: Federation, stakes: FloatArray, max_relaxations: int) -> None:
        self._federation, self._stakes, self._max_relaxations = federation, stakes, max_relaxations
        self._is_listed = federation.n_agents <= MAX_LISTED_AGENTS
        if self._is_listed:
            listed = group_optima(federation)
            self._known = KeptGroups(members=listed.members[1:], values=listed.values[1:])  # the first is empty
            return
        self._known = no_more_groups(stakes)
        self._places: dict[bytes, int] = {}
        self._look_at(_likely_groups(federation.n_agents))

    def __call__(self, utilities: FloatArray) -> KeptGroups:
        found = self._among_known(utilities)
        if self._is_listed or found.values.size:
            return found
        self._grow(utilities)
        found = self._among_known(utilities)
        for relaxations in (0, self._max_relaxations):
            if found.values.size:
                break
            worst = worst_group(self._federation, utilities, time_limit=np.inf, max_relaxations=relaxations)
            self._look_at(worst.members[None])
            found = self._among_known(utilities)
        return found

    def _among_known(self, utilities: FloatArray) -> KeptGroups:
        """Those that lack most, measured by their stakes; beyond rounding where others could be looked for."""
        lacking = self._known.shortfalls(utilities) / (self._known.members @ self._stakes)
        worst = np.argsort(-lacking, kind="stable")[:GROUPS_AT_A_TIME]
        worst = worst[lacking[worst] > (0.0 if self._is_listed else 2.0 * SHORTFALL_TOLERANCE)]
        return KeptGroups(members=self._known.members[worst], values=self._known.values[worst])

    def _look_at(self, groups: NDArray[np.bool_]) -> FloatArray:
        """What groups reach by themselves, each worked out once."""
        new = [group for group in groups if group.tobytes() not in self._places]
        if new:
            found = group_optima(self._federation, np.array(new))
            first = self._known.values.size
            self._places |= {group.tobytes(): first + place for place, group in enumerate(new)}
            self._known = self._known.joined(KeptGroups(members=found.members, values=found.values))
        return self._known.values[[self._places[group.tobytes()] for group in groups]]

    def _grow(self, utilities: FloatArray) -> None:
        """From the pairs that gain most, one member more at a time: a beam search."""
        size = utilities.size
        width = max(MIN_BEAM, MAX_LOOKS // size**2)
        groups = self._known.members[self._known.members.sum(axis=1) == 2]
        for _ in range(size - 3):
            gains = self._look_at(groups) - groups @ utilities
            best = groups[np.argsort(-gains, kind="stable")[:width]]
            more = (best[:, None, :] | np.eye(size, dtype=np.bool_)).reshape(-1, size)
            groups = np.unique(more[more.sum(axis=1) == best[0].sum() + 1], axis=0)
        self._look_at(groups)


def check_shares(shares: FloatArray, payoffs: FloatArray, costs: FloatArray) -> None:
    """Raise `NoFairDeal` where Shapley shares are so large that rounding leaves nothing to share out."""
    largest, shared_out = float(np.abs(shares).max()), float(payoffs.sum())
    if largest > MAX_SHARE * (np.abs(payoffs).sum() + costs.sum()):
        raise NoFairDeal(
            f"there are no Shapley shares to return at the welfare optimum: they are as large as {largest:.3g}, "
            f"and the {shared_out:.3g} there is to share out is lost in their rounding; some group of members is "
            "at the edge of the domain of a payoff"
        )


def _likely_groups(n_agents: int) -> NDArray[np.bool_]:
    """Groups of many members that a search begins with: pairs, and all but one or, if these are few, two."""
    one = np.eye(n_agents, dtype=np.bool_)
    first, second = np.triu_indices(n_agents, 1)
    pairs = one[first] | one[second]
    parts = [pairs, ~one]
    return np.concatenate([*parts, ~pairs] if n_agents <= MAX_AGENTS_WITHOUT_PAIRS else parts)


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
