"""One receiver's payoff shared out among everybody: what an agent works out from its own row alone.

Shapley values are linear in the game, and the total payoff is a sum over receivers. So phi_j = sum_i phi_ij, where
phi_ij is j's share of receiver i's payoff, and the potential is a sum P = sum_i P_i with d P_i / d s_j = d phi_ij /
d s_j. Each term needs the receiver's weights, payoff curve and value, and nothing of anybody else's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.federation import Payoff
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import Owners
from fedpact.shapley.compiled import Precision, integrate
from fedpact.shapley.quadrature import STEP, TAIL, ReceiverNodes, gauss_legendre, nodes_of
from fedpact.shapley.receiver_rows import ReceiverRows
from fedpact.utils.arrays import FloatArray

MAX_NUMPY_SENDERS = 32  # beyond, compiled code has made up for the time it takes to load
COMPILED_TOLERANCE = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceiverShares:
    """Everybody's share of one receiver's payoff at a profile, phi_ij, and its slopes d phi_ij / d s_j."""

    values: FloatArray
    slopes: FloatArray


def receiver_shares(
    weights: FloatArray,
    payoff: Payoff,
    value: float,
    contributions: FloatArray,
    *,
    lot_owners: Owners | None = None,
    n_agents: int = 0,
) -> ReceiverShares:
    """Everybody's share of the payoff of a receiver with these weights; `payoff` is of one agent.

    Where agents have several lots, `lot_owners` says whose each is, by place among `n_agents`: weights and slopes are
    then per lot, the shares per agent.

    Raises
    ------
    OutsideDomain
        If some coalition takes the receiver out of the domain of its payoff.

    Examples
    --------
    >>> from fedpact import PowerLaw
    >>> receiver_shares(np.array([1.0, 0.5]), PowerLaw(1.0), 1.0, np.array([1.0, 1.0])).values.round(6).tolist()
    [0.383333, 0.216667]
    """
    if lot_owners is not None:
        brought = _brought(weights, contributions, lot_owners, n_agents)
        by_agent = receiver_shares(np.ones(brought.size), payoff, value, brought)  # of weight one
        return ReceiverShares(values=by_agent.values, slopes=weights * by_agent.slopes[lot_owners])
    senders = np.flatnonzero(weights)
    if senders.size <= MAX_NUMPY_SENDERS:
        nodes = _nodes(weights, payoff, value, contributions, senders)
        values, slopes = np.zeros((2, weights.size))
        values[senders] = np.einsum("tq,tqk->k", nodes.level, nodes.benefit)
        slopes[senders] = np.einsum("tq,tqk->k", nodes.level, nodes.slope)
        return ReceiverShares(values=values, slopes=slopes)
    rows = ReceiverRows(
        n_agents=weights.size,
        starts=np.array([0, senders.size]),
        agents=senders,
        weights=weights[senders],
        counts=np.ones(senders.size),
        credits=None,
        payoff=payoff,
        values=np.array([value]),
    )
    found = integrate(rows, contributions, Precision.reaching(COMPILED_TOLERANCE))
    return ReceiverShares(values=found.values, slopes=found.slopes)


def _brought(weights: FloatArray, contributions: FloatArray, lot_owners: Owners, n_agents: int) -> FloatArray:
    """The data that each agent's lots bring together."""
    return sum_by(lot_owners, weights * contributions, max(n_agents, int(lot_owners.max(initial=-1)) + 1))


def receiver_potential(
    weights: FloatArray,
    payoff: Payoff,
    value: float,
    contributions: FloatArray,
    *,
    lot_owners: Owners | None = None,
    n_agents: int = 0,
) -> float:
    """P_i(s), the receiver's term of the potential; raises `OutsideDomain`. Lots as in `receiver_shares`."""
    if lot_owners is not None:
        brought = _brought(weights, contributions, lot_owners, n_agents)
        return receiver_potential(np.ones(brought.size), payoff, value, brought)
    senders = np.flatnonzero(weights)
    pulled = (weights * contributions)[senders]
    if (pulled < 0.0).any():
        nodes = _nodes(weights, payoff, value, contributions, senders)
        return float((nodes.complement / nodes.q).sum())
    # Without harm the factors neither overflow nor need to be kept apart.
    times, log_masses = _rule(payoff, value, pulled)
    q, chances = gauss_legendre(max((senders.size + 1) // 2, 1))
    log_products = np.log1p(q[:, None] * np.expm1(-times[:, None] * pulled)[:, None, :]).sum(axis=2)
    return float(np.exp(log_masses) @ (-np.expm1(log_products) @ (chances / q)))


def _nodes(
    weights: FloatArray, payoff: Payoff, value: float, contributions: FloatArray, senders: np.ndarray
) -> ReceiverNodes:
    rule = _rule(payoff, value, weights * contributions)
    return nodes_of(senders, weights[senders], contributions[senders], *rule)


def _rule(payoff: Payoff, value: float, pulled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes t and log weights for one receiver."""
    low, high = np.array([np.minimum(pulled, 0.0).sum()]), np.array([np.maximum(pulled, 0.0).sum()])
    times, log_masses = payoff.rule(low, high, STEP, TAIL)
    return times[0], log_masses[0] + np.log(value)
