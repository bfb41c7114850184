"""One agent's Shapley value as a function of its own contribution, the others held fixed.

Given the others, phi_j(x) = sum over nodes of coefficient x (1 - e^{-t w_ij x}) or sum over coalitions of increments: a
concave function of one variable, cheap to evaluate once the others have been summed over. Best-response dynamics climb
it.

With several lots phi_j is a sum over tasks of concave functions of u_r, what j's lots together bring to task r
(`OwnLots`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.shapley.compiled import Precision, own_coefficients
from fedpact.shapley.enumeration import coalitions
from fedpact.shapley.potential import EXACT_TOLERANCE
from fedpact.shapley.quadrature import receiver_nodes
from fedpact.shapley.receiver_rows import receiver_rows
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
    """`OwnShare` of each of `agents`, who have one lot each, at a profile, by "enumeration" or "quadrature"."""
    require_single_lots(federation, "a member's share as a function of one number")
    route = choose_route(federation, method)
    upper, lowest = domain_limits(federation, contributions)
    agents = [int(agent) for agent in agents]
    if route is Route.COALITIONS:
        return [_sum_over_coalitions(federation, contributions, agent, float(upper[agent])) for agent in agents]
    if route is Route.COMPILED:
        rows, precision = receiver_rows(federation), Precision.reaching(EXACT_TOLERANCE)
        found = {agent: own_coefficients(rows, contributions, agent, lowest, precision)[:2] for agent in agents}
    else:
        found = _own_coefficients(federation, contributions, lowest, set(agents))
    return [_sum_of_exponentials(*found[agent], float(upper[agent])) for agent in agents]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnLots:
    """phi_j as a function of agent j's lots, through what they bring to every task, u = weights @ x.

    Attributes
    ----------
    weights
        (tasks, lots of j).
    value, slopes, bends
        phi_j, and its first and second derivatives by each u, as functions of u.
    floor
        What every u must exceed, for each coalition to stay in the domain.
    """

    weights: FloatArray
    value: Callable[[FloatArray], float]
    slopes: Callable[[FloatArray], FloatArray]
    bends: Callable[[FloatArray], FloatArray]
    floor: FloatArray


def own_lots(
    federation: Federation, contributions: FloatArray, agent: int, upper: FloatArray, *, method: str = "auto"
) -> OwnLots:
    """The share of one agent as a function of its lots in the box up to `upper`, the others held fixed."""
    own = federation.lots_of(agent)
    weights = federation.dense_weights()[:, own]
    profile = contributions.copy()
    profile[own] = 0.0
    others = federation.lowest_data(profile)
    payoff_floor = np.broadcast_to(federation.payoff.floor, others.shape)
    floor = payoff_floor - others
    route = choose_route(federation, method)
    if route is Route.COALITIONS:
        return _lots_over_coalitions(federation, profile, agent, weights, floor)
    deepest = np.minimum(weights, 0.0) @ upper
    lowest = np.maximum(others + deepest, payoff_floor * (1.0 - DOMAIN_EDGE) + DOMAIN_EDGE * others)
    # The agent's factor drops out, so anything may stand for its own data; something must, for it to have an entry.
    profile[own] = contributions[own]
    if route is Route.COMPILED:
        precision = Precision.reaching(EXACT_TOLERANCE)
        log_coefficients, times, tasks = own_coefficients(receiver_rows(federation), profile, agent, lowest, precision)
    else:
        log_coefficients, times, tasks = _own_lot_coefficients(federation, profile, lowest, agent)
    return _lots_of_exponentials(log_coefficients, times, tasks, weights, floor)


def _lots_over_coalitions(
    federation: Federation, profile: FloatArray, agent: int, weights: FloatArray, floor: FloatArray
) -> OwnLots:
    members, shares = coalitions(federation.n_agents)
    without = members[:, agent] == 0
    joined = shares[np.flatnonzero(without) | (1 << agent)]
    data = (members[without][:, federation.lot_owners] * profile) @ federation.dense_weights().T
    payoff, values = federation.payoff, federation.values
    return OwnLots(
        weights=weights,
        value=lambda u: float(joined @ (payoff.increment(data, u) @ values)),
        slopes=lambda u: np.asarray((joined @ payoff.slope(data + u)) * values),
        bends=lambda u: np.asarray((joined @ payoff.curvature(data + u)) * values),
        floor=floor,
    )


def _own_lot_coefficients(
    federation: Federation, contributions: FloatArray, lowest: FloatArray, agent: int
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """The logs of the coefficients of an agent's value, the times and the tasks they belong to."""
    pieces = []
    for task, nodes in enumerate(receiver_nodes(federation, contributions, lowest=lowest)):
        for place in np.flatnonzero(nodes.agents == agent):
            pieces.append(
                (logsumexp(nodes.log_others[:, :, place], axis=1), nodes.times, np.full(nodes.times.size, task))
            )
    if not pieces:
        return np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.intp)
    log_coefficients, times, tasks = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return log_coefficients, times, tasks


def _lots_of_exponentials(
    log_coefficients: FloatArray, times: FloatArray, tasks: np.ndarray, weights: FloatArray, floor: FloatArray
) -> OwnLots:
    """phi(u) = sum of c (1 - e^{-t u_r})."""
    counts = np.isfinite(log_coefficients) & (times > 0)
    log_coefficients, times, tasks = log_coefficients[counts], times[counts], tasks[counts]
    coefficients = np.exp(log_coefficients)

    def value(u: FloatArray) -> float:
        exponents = -times * u[tasks]
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.exp(log_coefficients + exponents) - coefficients
            near = coefficients * np.expm1(np.minimum(exponents, 1.0))
        return -float(np.where(exponents > 1.0, far, near).sum())

    def derivative(u: FloatArray, order: int) -> FloatArray:
        logs = log_coefficients + order * np.log(times) - times * u[tasks]
        terms = np.exp(np.minimum(logs, MAX_EXPONENT))
        return np.asarray(np.bincount(tasks, weights=terms, minlength=weights.shape[0]), dtype=np.float64)

    return OwnLots(
        weights=weights,
        value=value,
        slopes=lambda u: derivative(u, 1),
        bends=lambda u: -derivative(u, 2),
        floor=floor,
    )


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
        with np.errstate(divide="ignore"):  # rounding may put somebody on the edge, where the slope is infinite
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
