"""The most any one agent could gain by acting differently, under each mechanism's rules.

Every rule reduces to a concave problem in one variable per agent, which is solved over the whole interval [0, cap].
The gain counts from the utility the outcome gives the agent, so that spoiled payments show as well as spoiled
contributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.best_response import best_answer, best_own, own_utilities
from fedpact.programs.root_finding import falling_root
from fedpact.programs.solver import linearised_gains
from fedpact.shapley import shapley_values
from fedpact.shapley.own_share import domain_limits, own_shares
from fedpact.shapley.routes import MAX_COALITION_AGENTS_HARMED
from fedpact.utils.arrays import FloatArray

__all__ = ["Deviations", "free_riding", "isolation", "price_taking", "shapley_sharing"]


MOST_SEARCHED = 40  # agents; beyond this deviations are bounded first and searched only where the bound is not small
SUSPICIOUS = 1e-9  # a bound on a gain that calls for a search, relative to all payoffs
MOST_SUSPECTS = 3
MOST_IN_BOX = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Deviations:
    """The best each agent could do alone: its contribution, the utility it would have, and what was searched."""

    actions: FloatArray
    utilities: FloatArray
    scope: str


def shapley_sharing(federation: Federation, contributions: FloatArray) -> Deviations:
    """Paid its Shapley value, agent j maximises phi_j(x, s_-j) - c_j(x) over its own contribution x."""
    if federation.n_agents > MOST_SEARCHED:
        return _bounded_by_concavity(federation, contributions)
    few_harmful = federation.has_harm and federation.n_agents <= MAX_COALITION_AGENTS_HARMED
    # Without harm the integral is exact everywhere; near the edge of the domain coalitions lose fewer digits.
    shares = own_shares(
        federation,
        contributions,
        range(federation.n_agents),
        method="enumeration" if few_harmful else "quadrature",
    )
    actions, utilities = np.empty(federation.n_agents), np.empty(federation.n_agents)
    for agent, share in enumerate(shares):
        here = float(contributions[agent])
        best, utility = best_answer(federation, share, agent, guess=here)
        actions[agent] = max(here, best, key=utility)
        utilities[agent] = utility(actions[agent])
    return Deviations(actions=actions, utilities=utilities, scope="all contributions of one agent in [0, cap]")


def _bounded_by_concavity(federation: Federation, contributions: FloatArray) -> Deviations:
    """For many agents: phi_j - c_j is concave in x, so its tangent bounds every gain; only suspects are searched."""
    shares = shapley_values(federation, contributions)
    slopes = shares.gradient - federation.costs.slope(contributions)
    limits, _ = domain_limits(federation, contributions)
    upper = np.minimum(limits, np.maximum(contribution_bounds(federation)[0], contributions))
    here = shares.values - federation.costs.value(contributions)
    bounds = linearised_gains(contributions, slopes, upper)
    actions, gains = np.where(slopes > 0, upper, 0.0), bounds
    size = float(np.abs(shares.values).sum())
    suspects = np.flatnonzero(bounds > SUSPICIOUS * size)
    if suspects.size:
        suspects = suspects[np.argsort(-bounds[suspects])][:MOST_SUSPECTS]
        gains = np.where(bounds > SUSPICIOUS * size, 0.0, bounds)
        for agent, share in zip(suspects, own_shares(federation, contributions, suspects), strict=True):
            best, utility = best_answer(federation, share, int(agent), guess=float(contributions[agent]))
            actions[agent], gains[agent] = best, utility(best) - here[agent]
    scope = "all contributions of one agent in [0, cap], bounded by the tangent of a concave utility"
    return Deviations(actions=actions, utilities=here + gains, scope=scope)


def price_taking(federation: Federation, contributions: FloatArray) -> Deviations:
    """At personal prices l_i, agent i asks for the profile x that maximises a_i(x) - c_i(x_i) - l_i x.

    The prices are those of this profile: l_ij = da_i/ds_j, and l_jj makes each column sum to zero. Since l_ij is
    proportional to w_ij, no other reach is better for i; what is left is its own contribution, at the price -l_ii.
    """
    slopes = federation.marginal_payoffs(contributions)
    earned = np.asarray(federation.weights.T @ slopes)  # a_i' w_ii - l_ii, per sample of one's own
    upper, _ = contribution_bounds(federation)
    box = np.maximum(upper, contributions)
    actions = best_at_prices(federation, earned, box)
    data = federation.data(contributions)
    surplus = federation.values * federation.payoff.value(data) - slopes * data
    utilities = surplus + earned * actions - federation.costs.value(actions)
    # That bounds every gain; where it leaves one, the others' contributions are kept within the box as well.
    here = surplus + earned * contributions - federation.costs.value(contributions)
    gains = utilities - here
    for agent in _suspects(gains, float(np.abs(here).sum())):
        actions[agent], utilities[agent] = _best_in_box(federation, contributions, int(agent), box=box, slopes=slopes)
    return Deviations(actions=actions, utilities=utilities, scope="all profiles one agent could ask for at its prices")


def _suspects(gains: FloatArray, size: float) -> NDArray[np.intp]:
    """The agents whose bound on a gain is not small, largest first."""
    found = np.flatnonzero(gains > SUSPICIOUS * size)
    return found[np.argsort(-gains[found])][:MOST_IN_BOX]


def _best_in_box(
    federation: Federation, contributions: FloatArray, agent: int, *, box: FloatArray, slopes: FloatArray
) -> tuple[float, float]:
    """The best profile in the box for a price taker: a concave problem in its own contribution x.

    At x its reach can lie anywhere between what the others' data allows; the best is the one it has, or the nearest.
    """
    weights = federation.weights_to(agent)
    own, weights[agent] = float(weights[agent]), 0.0
    lowest, highest = float(np.minimum(weights, 0.0) @ box), float(np.maximum(weights, 0.0) @ box)
    present = float(federation.data(contributions)[agent])
    payoff, cost = federation.payoff.take([agent]), federation.costs.take([agent])
    value, price = float(federation.values[agent]), float(slopes[agent])
    earned = float((federation.weights_from(agent) * slopes).sum())

    def reach(x: float) -> float:
        return min(max(present, lowest + own * x), highest + own * x)

    def slope(x: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            pull = value * float(np.ravel(payoff.slope(np.array([reach(x)])))[0]) - price
        clipped = own * pull if reach(x) != present else 0.0
        return float(earned + clipped - cost.slope(np.array([x]))[0])

    best = falling_root(slope, float(box[agent]), guess=float(contributions[agent]) or 1.0)
    data = np.array([reach(best)])
    worth = value * payoff.value(data) - price * data + earned * best - cost.value(np.array([best]))
    return best, float(np.ravel(worth)[0])


def best_at_prices(federation: Federation, earned: FloatArray, upper: FloatArray) -> FloatArray:
    """argmax over [0, upper] of earned_j x - c_j(x)."""
    bend = 2.0 * federation.costs.quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.where(
            bend > 0, (earned - federation.costs.linear) / bend, np.inf * np.sign(earned - federation.costs.linear)
        )
    return np.clip(np.nan_to_num(inner, nan=0.0, posinf=np.inf, neginf=-np.inf), 0.0, upper)


def free_riding(federation: Federation, contributions: FloatArray) -> Deviations:
    """Without payments, agent i maximises a_i(x, s_-i) - c_i(x)."""
    others = federation.data(contributions) - federation.own_weights * contributions
    return _own(federation, others, "all contributions of one agent in [0, cap], without payments")


def isolation(federation: Federation, contributions: FloatArray) -> Deviations:
    """Alone, agent i maximises a_i(x, 0) - c_i(x)."""
    return _own(federation, np.zeros_like(contributions), "all contributions of one agent in [0, cap], alone")


def _own(federation: Federation, background: FloatArray, scope: str) -> Deviations:
    actions = best_own(federation, background)
    return Deviations(actions=actions, utilities=own_utilities(federation, actions, background), scope=scope)
