"""One agent's Shapley value as a function of its own contribution, the others held fixed.

Given the others, phi_j(x) = sum over nodes of coefficient x (1 - e^{-t w_ij x}) or sum over coalitions of increments: a
concave function of one variable, cheap to evaluate once the others have been summed over. Best-response dynamics climb
it; the Nash certificate searches all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fedpact.federation import Federation
from fedpact.shapley.compiled import Precision, own_coefficients, receiver_rows
from fedpact.shapley.enumeration import coalitions
from fedpact.shapley.potential import EXACT_TOLERANCE
from fedpact.shapley.quadrature import receiver_nodes
from fedpact.shapley.routes import Route, choose_route
from fedpact.utils.arrays import FloatArray

DOMAIN_EDGE = 1e-9  # how close to the edge of the domain a deviation is followed, relative to the distance
MAX_SLOPE, MAX_EXPONENT = 1e300, 690.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnShare:
    """phi_j and its slope as functions of agent j's own contribution, on [0, upper)."""

    value: Callable[[float], float]
    slope: Callable[[float], float]
    upper: float


def own_shares(
    federation: Federation, contributions: FloatArray, agents: Iterable[int], *, method: str = "auto"
) -> list[OwnShare]:
    """`OwnShare` of each of `agents` at a profile, by "enumeration" or "quadrature"."""
    route = choose_route(federation, method)
    upper, lowest = domain_limits(federation, contributions)
    agents = [int(agent) for agent in agents]
    if route is Route.COALITIONS:
        return [_sum_over_coalitions(federation, contributions, agent, float(upper[agent])) for agent in agents]
    if route is Route.COMPILED:
        rows, precision = receiver_rows(federation), Precision.reaching(EXACT_TOLERANCE)
        found = {agent: own_coefficients(rows, contributions, agent, lowest, precision) for agent in agents}
    else:
        found = _own_coefficients(federation, contributions, lowest, set(agents))
    return [_sum_of_exponentials(*found[agent], float(upper[agent])) for agent in agents]


def domain_limits(federation: Federation, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far each agent alone can raise its contribution, and how low each receiver's y can then fall.

    The first is the cap, or just short of where some coalition's reach would leave the domain.
    """
    if not federation.has_harm:
        return federation.caps, np.zeros(federation.n_agents)
    harm = np.minimum(federation.dense_weights(), 0.0)
    others = (harm @ contributions)[:, None] - harm * contributions  # y of those who harm i, without j
    floor = np.broadcast_to(federation.payoff.floor, federation.n_agents)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(harm < 0, (floor - others) / harm, np.inf).min(axis=0)
    upper = np.minimum(federation.caps, limits * (1.0 - DOMAIN_EDGE))
    reachable = np.where(np.isfinite(upper), upper, contributions)  # infinite only where there is no floor
    return upper, (others + harm * reachable).min(axis=1)


def _sum_over_coalitions(federation: Federation, contributions: FloatArray, agent: int, upper: float) -> OwnShare:
    weights = federation.dense_weights()
    members, shares = coalitions(federation.n_agents)
    without = members[:, agent] == 0
    joined = shares[np.flatnonzero(without) | (1 << agent)]
    data = (members[without] * contributions) @ weights.T
    column = weights[:, agent]

    def value(x: float) -> float:
        return float(joined @ (federation.payoff.increment(data, column * x) @ federation.values))

    def slope(x: float) -> float:
        return float(joined @ (federation.payoff.slope(data + column * x) @ (federation.values * column)))

    return OwnShare(value=value, slope=slope, upper=upper)


def _own_coefficients(
    federation: Federation, contributions: FloatArray, lowest: FloatArray, agents: set[int]
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """For every agent the logs of the coefficients of its value and their rates t w, over receivers and nodes."""
    pieces: dict[int, list[tuple[FloatArray, FloatArray]]] = {agent: [] for agent in agents}
    for nodes in receiver_nodes(federation, contributions, lowest=lowest):
        for place, agent in enumerate(nodes.agents):
            if agent in agents:
                log_coefficient = logsumexp(nodes.log_others[:, :, place], axis=1)
                pieces[agent].append((log_coefficient, nodes.rates[:, place]))
    return {
        agent: (np.concatenate([coefficient for coefficient, _ in own]), np.concatenate([rate for _, rate in own]))
        for agent, own in pieces.items()
    }


def _sum_of_exponentials(log_coefficients: FloatArray, rates: FloatArray, upper: float) -> OwnShare:
    """phi(x) = sum of c (1 - e^{-rate x}); the c are kept as logs: c and e^{-rate x} may each be out of range."""
    counts = np.isfinite(log_coefficients) & (rates != 0)
    log_coefficients, rates = log_coefficients[counts], rates[counts]
    coefficients = np.exp(log_coefficients)
    log_slopes, signs = log_coefficients + np.log(np.abs(rates)), np.sign(rates)

    def value(x: float) -> float:
        exponents = -rates * x
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.exp(log_coefficients + exponents) - coefficients
            near = coefficients * np.expm1(np.minimum(exponents, 1.0))
        return -float(np.where(exponents > 1.0, far, near).sum())

    def slope(x: float) -> float:
        with np.errstate(over="ignore"):
            return max(float(signs @ np.exp(np.minimum(log_slopes - rates * x, MAX_EXPONENT))), -MAX_SLOPE)

    return OwnShare(value=value, slope=slope, upper=upper)
