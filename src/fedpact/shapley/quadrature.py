"""Exact Shapley values in polynomial time: one integral over t and q per receiver.

A payoff family is g(y) = integral of (1 - e^{-t y}) dm(t). For one t the payoff of a coalition is one minus a product
over its members, and averaging over coalitions in which each agent sits with probability q, q uniform on [0, 1], gives

    phi_j = sum_i values_i int dm(t) int_0^1 dq (1 - e_ij) prod_{k != j} (1 - q + q e_ik),     e_ik = e^{-t w_ik s_k},

and d phi_j / d s_j with (1 - e_ij) replaced by t w_ij e_ij. The t integral is a trapezoid sum in log t chosen from the
data each receiver can reach; the q integrand is a polynomial of degree n - 1, so Gauss-Legendre with n/2 nodes
integrates it exactly, and beyond `MOST_EXACT_NODES` nodes the rule is Gauss-Legendre in sqrt(q), scaled to where the
integrand lives: q of order 1 / sum_k (1 - e_ik).

Cost: receivers x non-zero weights x nodes. Efficiency, sum_j phi_j = A(s), is a free check of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import OutsideDomain

__all__ = ["ReceiverNodes", "gauss_legendre", "quadrature_shapley", "receiver_nodes"]

STEP = 0.29  # trapezoid spacing in log t: error exp(-pi^2 / 0.29) = 2e-15 times a factor that grows with beta
TAIL = 1e-14  # where the t nodes start, in units of one over the largest reachable data
MOST_EXACT_NODES = 32
LIVING_RANGE = 40.0  # q is cut where the integrand has fallen by e^-40


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceiverNodes:
    """One receiver's integrand at the nodes (t, q), for the agents whose data reaches it.

    `level` (T, Q) holds weight x prod_k (1 - q + q e_k); `benefit`, `slope` and `bend` (T, Q, K) are (1 - e_j),
    t w_j e_j and t^2 w_j^2 e_j over the j-th factor, so that `level x benefit` is the integrand of phi_j. `rates` (T,
    K) are the t w_j; `log_others` (T, Q, K) is the log of `level`
    without the j-th factor.
    """

    agents: np.ndarray
    rates: FloatArray
    level: FloatArray
    benefit: FloatArray
    slope: FloatArray
    bend: FloatArray
    q: FloatArray
    log_others: FloatArray


def quadrature_shapley(federation: Federation, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shapley values and their derivatives d phi_j / d s_j."""
    values = np.zeros(federation.n_agents)
    gradient = np.zeros(federation.n_agents)
    for nodes in receiver_nodes(federation, contributions):
        values[nodes.agents] += np.einsum("tq,tqk->k", nodes.level, nodes.benefit)
        gradient[nodes.agents] += np.einsum("tq,tqk->k", nodes.level, nodes.slope)
    return values, gradient


def receiver_nodes(
    federation: Federation, contributions: FloatArray, *, lowest: FloatArray | None = None
) -> Iterator[ReceiverNodes]:
    """Yield `ReceiverNodes` for every agent of the federation.

    The nodes serve every coalition at `contributions`; with `lowest` also profiles at which y falls as low as that.
    """
    if lowest is None:
        lowest = np.asarray(federation.negative_weights() @ contributions)
    highest = np.asarray(federation.positive_weights() @ contributions)
    if (lowest <= np.broadcast_to(federation.payoff.floor, lowest.shape)).any():
        raise OutsideDomain("some coalition takes an agent's reach out of the domain of its payoff")
    times, log_masses = federation.payoff.rule(lowest, highest, STEP, TAIL)
    log_values = np.log(federation.values)
    for receiver in range(federation.n_agents):
        agents, weights = _senders(federation, receiver)
        yield _nodes(
            agents, weights, contributions[agents], times[receiver], log_masses[receiver] + log_values[receiver]
        )


def _senders(federation: Federation, receiver: int) -> tuple[np.ndarray, FloatArray]:
    if federation.is_sparse:
        weights = federation.sparse_weights()
        row = slice(weights.indptr[receiver], weights.indptr[receiver + 1])
        return weights.indices[row], weights.data[row]
    agents = np.flatnonzero(federation.weights[receiver])
    return agents, federation.weights[receiver][agents]


def _nodes(
    agents: np.ndarray, weights: FloatArray, contributions: FloatArray, times: FloatArray, log_masses: FloatArray
) -> ReceiverNodes:
    exponent = -times[:, None] * (weights * contributions)[None, :]  # (T, K); e = exp(exponent)
    q, log_q_weights = _q_nodes(exponent)
    # Factor 1 - q + q e, written so that neither e nor 1/e overflows.
    rising = exponent > 0
    damped = np.exp(-np.abs(exponent))[:, None, :]
    rising3 = rising[:, None, :]
    q3 = q[:, :, None]
    core = np.where(rising3, (1.0 - q3) * damped + q3, 1.0 - q3 + q3 * damped)  # factor, over e where e > 1
    log_factor = np.where(
        rising3, exponent[:, None, :] + np.log(core), np.log1p(q3 * np.expm1(np.minimum(exponent, 0.0))[:, None, :])
    )
    log_level = log_masses[:, None] + log_q_weights + log_factor.sum(axis=2)
    gain = -np.expm1(-np.abs(exponent))[:, None, :] * np.where(rising3, -1.0, 1.0)
    e_over = np.where(rising3, 1.0, damped)
    slope = times[:, None, None] * weights * e_over / core
    return ReceiverNodes(
        agents=agents,
        rates=times[:, None] * weights,
        level=np.exp(log_level),
        benefit=gain / core,
        slope=slope,
        bend=times[:, None, None] * weights * slope,
        q=q,
        log_others=log_level[:, :, None] - log_factor,
    )


def _q_nodes(exponent: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes (T, Q) on [0, 1] and the logs of their weights."""
    n_senders = exponent.shape[1]
    exact = (n_senders + 1) // 2
    if exact <= MOST_EXACT_NODES:
        nodes, weights = gauss_legendre(max(exact, 1))
        shape = (exponent.shape[0], nodes.size)
        return np.broadcast_to(nodes, shape), np.broadcast_to(np.log(weights), shape)
    nodes, weights = gauss_legendre(MOST_EXACT_NODES)
    mass = -np.expm1(np.minimum(exponent, 0.0)).sum(axis=1) - np.maximum(exponent, 0.0).sum(axis=1)
    reach = np.sqrt(np.where(mass > LIVING_RANGE, LIVING_RANGE / np.maximum(mass, LIVING_RANGE), 1.0))
    root = reach[:, None] * nodes[None, :]
    return root**2, np.log(2.0 * root * reach[:, None] * weights[None, :])


@lru_cache(maxsize=64)
def gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0
