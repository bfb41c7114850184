"""The most any one agent could gain by acting differently, under each mechanism's rules.

Every rule reduces to a concave problem in one variable per agent, which is solved over the whole interval [0, cap].
The gain counts from the utility the outcome gives the agent, so that spoiled payments show as well as spoiled
contributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.optimality import best_at_prices, tangent_gains
from fedpact.certificates.own_lots import best_at_prices_of_lots, best_without_payments
from fedpact.certificates.shapley_check import (
    CheckedShares,
    best_own_contributions,
    check_shares,
    domain_limits,
    own_share_game,
)
from fedpact.certificates.shared_caps import best_contributions
from fedpact.certificates.tolerances import agent_values, utility_tolerances
from fedpact.federation import Cost, Federation, Payoff
from fedpact.federation.bounds import block_bounds, contribution_bounds
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Deviations:
    """The best each agent could do alone.

    Attributes
    ----------
    actions, utilities
        Its contribution (of each of its lots), and the utility it would have, or a bound on it.
    scope
        What was searched.
    shortfalls
        How much less than `utilities` each has at its `actions`, where these are bounds; None where it has that much.
    shares
        The Shapley values it was worked out from, where these are the rule.
    as_two
        What one of two names could do that an agent's cap and value are shared between evenly, everybody else acting
        as before; where prices are linear, and so the same for everybody.
    """

    actions: FloatArray
    utilities: FloatArray
    scope: str
    shortfalls: FloatArray | None = None
    shares: CheckedShares | None = None
    as_two: Callable[[], Deviations] | None = None

    @property
    def reached(self) -> FloatArray:
        """The utilities that the actions give; minus infinity where nothing is known but that there is no bound."""
        reached = self.utilities if self.shortfalls is None else self.utilities - self.shortfalls
        return np.where(np.isposinf(self.utilities), -np.inf, reached)


def shapley_sharing(federation: Federation, contributions: FloatArray) -> Deviations:
    """Paid its Shapley value, agent j maximises phi_j(x, s_-j) - c_j(x) over its own contribution x.

    That is concave in x, so its tangent bounds every gain; where the bound is not rounding, all x are searched.
    """
    shares = check_shares(federation, contributions)
    if shares is None:
        return _unbounded(federation, contributions)
    return _sharing(federation, contributions, shares, None)


def semivalue_sharing(federation: Federation, contributions: FloatArray, probability: float | None) -> Deviations:
    """Paid what it adds on average to coalitions drawn with `probability`, an agent maximises that less its costs.

    Concave in its own contribution like Shapley values.
    """
    shares = check_shares(federation, contributions, probability)
    if shares is None:
        return _unbounded(federation, contributions)
    found = replace(_sharing(federation, contributions, shares, probability), shares=None)
    if shares.proves:
        return found
    scope = f"nothing is proved: the nodes in t miss payoffs by {shares.error:.2g}"
    return replace(found, utilities=np.full(federation.n_agents, np.inf), scope=scope)


def _sharing(
    federation: Federation, contributions: FloatArray, shares: CheckedShares, probability: float | None
) -> Deviations:
    """Paid the shares, of Shapley or of coalitions drawn with `probability`, an agent maximises them less its costs."""
    if federation.has_lots:
        return _shared_lots(federation, contributions, shares, probability)
    costs = federation.costs.value(contributions)
    slopes = shares.slopes - federation.costs.slope(contributions)
    upper = _own_limits(federation, contributions)
    gains, actions = tangent_gains(contributions, slopes, upper), contributions.copy()
    payoffs = federation.payoffs(contributions)
    tols = utility_tolerances(payoffs, costs, shares.values - payoffs, federation.values)
    suspects = np.flatnonzero(~(gains <= tols))
    if suspects.size:
        best, values = best_own_contributions(federation, contributions, suspects, upper[suspects], probability)
        found = values - federation.costs.take(suspects).value(best) - (shares.values - costs)[suspects]
        actions[suspects] = np.where(found > 0, best, contributions[suspects])
        gains[suspects] = np.maximum(found, 0.0)
    scope = f"all contributions of one member in [0, cap], by {shares.method}"
    return Deviations(actions=actions, utilities=shares.values - costs + gains, scope=scope, shares=shares)


def _shared_lots(
    federation: Federation,
    contributions: FloatArray,
    shares: CheckedShares,
    probability: float | None,
) -> Deviations:
    """The same over all amounts of an agent's lots."""
    costs, payoffs = federation.spending(contributions), federation.payoffs(contributions)
    upper = np.maximum(federation.reachable_caps, contributions)
    if not federation.has_harm:  # beyond this, more is spent than the data could bring
        upper = np.minimum(upper, np.maximum(contribution_bounds(federation)[0], contributions))
    slopes = shares.slopes - federation.costs.slope(contributions)
    with np.errstate(invalid="ignore"):
        gains = federation.per_agent_from_lots(tangent_gains(contributions, slopes, upper, federation.shared_caps))
    tols = utility_tolerances(payoffs, costs, shares.values - payoffs, agent_values(federation))
    actions, short = contributions.copy(), gains.copy()
    for agent in np.flatnonzero(~(gains <= tols)).tolist():
        own = federation.lots_of(agent)
        game = own_share_game(federation, contributions, agent, upper[own], probability=probability)
        actions[own], found, short[agent] = game.best(contributions[own], game.box(upper[own]))
        gains[agent] = max(found - (shares.values - costs)[agent], 0.0)
    scope = f"all amounts of one member's lots within the caps, by {shares.method}"
    utilities = shares.values - costs + gains
    return Deviations(actions=actions, utilities=utilities, shortfalls=short, scope=scope, shares=shares)


def _own_limits(federation: Federation, contributions: FloatArray) -> FloatArray:
    """How far an agent may want to go: where nobody harms, no further than its data could pay for."""
    limits = domain_limits(federation, contributions)
    if federation.has_harm:
        return limits
    return np.minimum(limits, np.maximum(contribution_bounds(federation)[0], contributions))


def _unbounded(federation: Federation, contributions: FloatArray) -> Deviations:
    """Where some coalition leaves the domain there is no Shapley value to be paid: nothing bounds what is gained."""
    anything, scope = np.full(federation.n_agents, np.inf), "no Shapley values: a coalition leaves the domain"
    return Deviations(actions=contributions, utilities=anything, scope=scope)


def price_taking(federation: Federation, contributions: FloatArray, *, blocks: int = 1) -> Deviations:
    """At personal prices l_i, agent i asks for the profile x that maximises a_i(x) - c_i(x_i) - l_i x.

    The prices are those of this profile: l_ij = da_i/ds_j, and l_jj makes each column sum to zero. Since l_ij is
    proportional to w_ij, no other reach is better for i than the one it has or, at an own contribution x, the nearest
    that the others' data within the box allows; what is left is a concave problem in x. The federation may be several
    side by side, in as many blocks.
    """
    if federation.has_lots:
        return _price_taking_lots(federation, contributions)
    slopes, data = federation.marginal_payoffs(contributions), federation.data(contributions)
    earned = np.asarray(federation.weights.T @ slopes)  # a_i' w_ii - l_ii, per sample of one's own
    within = contribution_bounds(federation) if blocks == 1 else block_bounds(federation, blocks)
    box = np.maximum(within[0], contributions)
    harm = np.asarray(federation.negative_weights() @ box) if federation.has_harm else np.zeros_like(data)
    help_ = np.asarray(federation.positive_weights() @ box)

    def as_one_of(parts: int) -> Deviations:
        """The same for one of so many names that have equal parts of the agent's cap and value."""
        own, here = federation.own_weights, np.asarray(contributions) / parts
        most = box if parts == 1 else np.maximum(np.minimum(box, federation.caps / parts), here)
        others = -box if parts == 1 else (parts - 1) * most - box  # what its other names have, in place of the agent
        takers = _PriceTakers(
            payoff=federation.payoff,
            costs=federation.costs,
            parts=parts,
            own=own,
            values=federation.values / parts,
            worth=slopes / parts,
            earned=earned,
            data=data,
            lowest=harm + np.minimum(own, 0.0) * others,
            highest=help_ + np.maximum(own, 0.0) * others,
        )
        best = takers.best(best_at_prices(federation, earned, parts * most) / parts, most)
        there, now = takers.utility(best), takers.utility(here)
        return Deviations(
            actions=np.where(there > now, best, here),
            utilities=np.maximum(there, now),
            scope="all profiles one member could ask for at its prices",
            as_two=(lambda: as_one_of(2)) if parts == 1 else None,
        )

    return as_one_of(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _PriceTakers:
    """What names earn and reach at their prices, with `parts` names to an agent; an entry each.

    `worth` is what reach costs, `earned` what a sample of one's own brings, `data` the reach everybody has; `lowest`
    and `highest` is what others may bring.
    """

    payoff: Payoff
    costs: Cost
    parts: int
    own: FloatArray
    values: FloatArray
    worth: FloatArray
    earned: FloatArray
    data: FloatArray
    lowest: FloatArray
    highest: FloatArray

    def take(self, some: NDArray[np.intp]) -> _PriceTakers:
        """Some of them."""
        numbers = ("own", "values", "worth", "earned", "data", "lowest", "highest")
        taken = {name: getattr(self, name)[some] for name in numbers}
        return replace(self, payoff=self.payoff.take(some), costs=self.costs.take(some), **taken)

    def best(self, at_prices: FloatArray, upper: FloatArray) -> FloatArray:
        """The best own contributions: those `at_prices`, unless these leave no choice but another reach."""
        astray = np.flatnonzero(self.reach(at_prices) != self.data)
        best = at_prices.copy()
        if astray.size:
            some = self.take(astray)
            guess = np.clip(some.nearest_with_data(at_prices[astray]), 0.0, upper[astray])
            best[astray] = best_contributions(some.slope, upper[astray], guess=guess)
        return best

    def nearest_with_data(self, x: FloatArray) -> FloatArray:
        """The contributions nearest to some at which the reach that everybody has is still to be had."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (self.data - self.highest) / self.own, (self.data - self.lowest) / self.own
        return np.nan_to_num(np.clip(x, np.minimum(*ends), np.maximum(*ends)))

    def reach(self, x: FloatArray) -> FloatArray:
        return np.clip(self.data, self.lowest + self.own * x, self.highest + self.own * x)

    def slope(self, x: FloatArray) -> FloatArray:
        reached = self.reach(x)
        pull = self.own * (self.values * self.payoff.slope(reached) - self.worth)
        return self.earned + np.where(reached == self.data, 0.0, pull) - self.costs.slope(self.parts * x)

    def utility(self, x: FloatArray) -> FloatArray:
        reached = self.reach(x)
        bought = self.values * self.payoff.value(reached) - self.worth * reached
        return np.asarray(bought + self.earned * x - self.costs.value(self.parts * x) / self.parts)


def _price_taking_lots(federation: Federation, contributions: FloatArray) -> Deviations:
    """The same with a price for every lot. At this profile nothing is gained from the lots of others, to first order.

    An agent's utility at its prices is concave, so that the tangents of its own lots bound every gain; where the bound
    is not rounding, all profiles are searched.
    """
    slopes = federation.marginal_payoffs(contributions)
    earned = np.asarray(federation.weights.T @ slopes)
    box = np.maximum(contribution_bounds(federation)[0], contributions)
    rises = earned - federation.costs.slope(contributions)
    payments = federation.per_agent_from_lots(contributions * (earned - federation.own_worth(slopes)))
    payments = payments - federation.per_agent_from_tasks(
        slopes * (federation.data(contributions) - federation.own_data(contributions))
    )
    costs, payoffs = federation.spending(contributions), federation.payoffs(contributions)
    here = payoffs - costs + payments
    gains = federation.per_agent_from_lots(tangent_gains(contributions, rises, box, federation.shared_caps))
    tols = utility_tolerances(payoffs, costs, payments, agent_values(federation))
    actions, utilities, short = contributions.copy(), here + gains, gains.copy()
    for agent in np.flatnonzero(~(gains <= tols)).tolist():
        own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
        prices = np.asarray(federation.weights[tasks].T @ slopes[tasks])
        prices[own] = prices[own] - earned[own]
        asked, utilities[agent], short[agent] = best_at_prices_of_lots(federation, agent, contributions, prices, box)
        actions[own] = asked[own]
    scope = "all profiles one member could ask for at its prices"
    return Deviations(actions=actions, utilities=np.maximum(utilities, here), shortfalls=short, scope=scope)


def free_riding(federation: Federation, contributions: FloatArray) -> Deviations:
    """Without payments, agent i maximises a_i(x, s_-i) - c_i(x)."""
    if federation.has_lots:
        actions, utilities, short = best_without_payments(federation, contributions, contributions)
        scope = "all amounts of one member's lots within the caps, without payments"
        return Deviations(actions=actions, utilities=utilities, shortfalls=short, scope=scope)
    others = federation.data(contributions) - federation.own_weights * contributions
    return _own(federation, others, "all contributions of one member in [0, cap], without payments")


def isolation(federation: Federation, contributions: FloatArray) -> Deviations:
    """Alone, agent i maximises a_i(x, 0) - c_i(x)."""
    if federation.has_lots:
        nothing = np.zeros(federation.n_lots)
        actions, utilities, short = best_without_payments(federation, nothing, nothing)
        scope = "all amounts of one member's lots within the caps, alone"
        return Deviations(actions=actions, utilities=utilities, shortfalls=short, scope=scope)
    return _own(federation, np.zeros_like(contributions), "all contributions of one member in [0, cap], alone")


def _own(federation: Federation, background: FloatArray, scope: str) -> Deviations:
    """The best of each agent's own data on top of y = `background`."""
    own, values, payoff = federation.own_weights, federation.values, federation.payoff

    def slope(x: FloatArray) -> FloatArray:
        data = background + own * x
        inside = data > payoff.floor  # below it more is wanted at any price
        worth = values * own * payoff.slope(np.where(inside, data, 0.0))
        return np.where(inside, worth, np.inf) - federation.costs.slope(x)

    with np.errstate(all="ignore"):
        at_linear_cost = payoff.inverse_slope(federation.costs.linear / (values * own))
        guess = np.clip(np.nan_to_num((at_linear_cost - background) / own), 0.0, federation.caps)
    best = best_contributions(slope, federation.caps, guess=guess)
    # The last number that is not enough may be at the floor itself, from which the next one leads away.
    best = np.where(background + own * best > payoff.floor, best, np.nextafter(best, federation.caps))
    reached = background + own * best
    inside = reached > payoff.floor  # unless all it has does not lead away
    worth = np.where(inside, values * payoff.value(np.where(inside, reached, 0.0)), -np.inf)
    utilities = np.asarray(worth - federation.costs.value(best))
    return Deviations(actions=best, utilities=utilities, scope=scope)
