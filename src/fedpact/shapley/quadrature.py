"""Exact Shapley values in polynomial time: one integral over t and q per receiver.

A payoff family is g(y) = integral of (1 - e^{-t y}) dm(t). For one t the payoff of a coalition is one minus a product
over its members, and averaging over coalitions in which each agent sits with probability q, q uniform on [0, 1], gives

    phi_j = sum_i values_i int dm(t) int_0^1 dq (1 - e_ij) prod_{k != j} (1 - q + q e_ik),     e_ik = e^{-t w_ik s_k},

and d phi_j / d s_j with (1 - e_ij) replaced by t w_ij e_ij. The t integral is a trapezoid sum in log t chosen from the
data each receiver can reach; the q integrand is a polynomial of degree n - 1, so Gauss-Legendre with n/2 nodes
integrates it exactly.

With several lots per agent, e_ij = e^{-t u_ij} with u_ij the sum over j's lots of w_il s_l, and receivers are tasks.

Cost: receivers x non-zero weights^2 x t nodes. Efficiency, sum_j phi_j = A(s), is a free check of the error. With many
agents q is integrated where the integrand lives, by `fedpact.shapley.compiled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import OutsideDomain

STEP = 0.29  # trapezoid spacing in log t: error exp(-pi^2 / 0.29) = 2e-15 times a factor that grows with beta
TAIL = 1e-14  # where the t nodes start, in units of one over the largest reachable data


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceiverNodes:
    """One receiver's integrand at the nodes (t, q), for the agents whose data reaches it.

    `level` (T, Q) holds weight x prod_k (1 - q + q e_k) and `complement` weight x (1 - prod_k ...); `benefit` (T, Q, K)
    is (1 - e_j) over the j-th factor, so that `level x benefit` is the integrand of phi_j; `slope` (T, Q, L) is
    t w_l e_j over it, for each of `lots`, whose owner stands at `owners` among the agents. `rates` (T, L) are the
    t w_l; `log_others` (T, Q, K) is the log of `level` without the j-th factor.
    """

    agents: np.ndarray
    lots: np.ndarray
    owners: np.ndarray
    times: FloatArray
    rates: FloatArray
    level: FloatArray
    complement: FloatArray
    benefit: FloatArray
    slope: FloatArray
    q: FloatArray
    log_others: FloatArray


def quadrature_shapley(federation: Federation, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shapley values per agent, and their derivatives d phi_j / d s_j per lot."""
    values = np.zeros(federation.n_agents)
    gradient = np.zeros(federation.n_lots)
    for nodes in receiver_nodes(federation, contributions):
        values[nodes.agents] += np.einsum("tq,tqk->k", nodes.level, nodes.benefit)
        gradient[nodes.lots] += np.einsum("tq,tqk->k", nodes.level, nodes.slope)
    return values, gradient


def receiver_nodes(
    federation: Federation, contributions: FloatArray, *, lowest: FloatArray | None = None
) -> Iterator[ReceiverNodes]:
    """Yield `ReceiverNodes` for every task of the federation.

    The nodes serve every coalition at `contributions`; with `lowest` also profiles at which y falls as low as that.
    """
    if lowest is None:
        lowest = federation.lowest_data(contributions)
    highest = federation.highest_data(contributions)
    if (lowest <= np.broadcast_to(federation.payoff.floor, lowest.shape)).any():
        raise OutsideDomain("in some group a member is harmed more than its payoff curve describes")
    times, log_masses = federation.payoff.rule(lowest, highest, STEP, TAIL)
    log_values = np.log(federation.values)
    for receiver in range(federation.n_tasks):
        lots, weights = senders(federation, receiver)
        owners = federation.lot_owners[lots] if federation.has_lots else None
        masses = log_masses[receiver] + log_values[receiver]
        yield nodes_of(lots, weights, contributions[lots], times[receiver], masses, lot_owners=owners)


def senders(federation: Federation, receiver: int) -> tuple[np.ndarray, FloatArray]:
    """The lots whose data reaches a task, and their weights."""
    if federation.is_sparse:
        weights = federation.sparse_weights()
        row = slice(weights.indptr[receiver], weights.indptr[receiver + 1])
        return weights.indices[row], weights.data[row]
    lots = np.flatnonzero(federation.weights[receiver])
    return lots, federation.weights[receiver][lots]


def nodes_of(
    lots: np.ndarray,
    weights: FloatArray,
    contributions: FloatArray,
    times: FloatArray,
    log_masses: FloatArray,
    *,
    lot_owners: np.ndarray | None = None,
) -> ReceiverNodes:
    """The nodes of one receiver, from the weights and contributions of those who reach it and a rule for t.

    Lots are agents unless `lot_owners` says whose each is.
    """
    pulled = weights * contributions
    agents, owners = lots, np.arange(lots.size)
    if lot_owners is not None:
        agents, owners = np.unique(lot_owners, return_inverse=True)
        pulled = sum_by(owners, pulled, agents.size)
    exponent = -times[:, None] * pulled[None, :]  # (T, K); e = exp(exponent)
    nodes, weights_q = gauss_legendre(max((agents.size + 1) // 2, 1))
    q = np.broadcast_to(nodes, (times.size, nodes.size))
    # Factor 1 - q + q e, written so that neither e nor 1/e overflows.
    rising = exponent > 0
    damped = np.exp(-np.abs(exponent))[:, None, :]
    rising3 = rising[:, None, :]
    q3 = q[:, :, None]
    core = np.where(rising3, (1.0 - q3) * damped + q3, 1.0 - q3 + q3 * damped)  # factor, over e where e > 1
    log_factor = np.where(
        rising3, exponent[:, None, :] + np.log(core), np.log1p(q3 * np.expm1(np.minimum(exponent, 0.0))[:, None, :])
    )
    log_weight = log_masses[:, None] + np.log(weights_q)
    log_product = log_factor.sum(axis=2)
    log_level = log_weight + log_product
    gain = -np.expm1(-np.abs(exponent))[:, None, :] * np.where(rising3, -1.0, 1.0)
    e_over = np.where(rising3, 1.0, damped)
    left, own = (e_over, core) if lot_owners is None else (e_over[:, :, owners], core[:, :, owners])
    slope = times[:, None, None] * weights * left / own
    return ReceiverNodes(
        agents=agents,
        lots=lots,
        owners=owners,
        times=times,
        rates=times[:, None] * weights,
        level=np.exp(log_level),
        complement=_complement(log_weight, log_product),
        benefit=gain / core,
        slope=slope,
        q=q,
        log_others=log_level[:, :, None] - log_factor,
    )


def _complement(log_weight: FloatArray, log_product: FloatArray) -> FloatArray:
    """weight x (1 - product), where either may be out of range by itself."""
    near = -np.exp(log_weight) * np.expm1(np.minimum(log_product, 1.0))
    return np.where(log_product > 1.0, np.exp(log_weight) - np.exp(log_weight + log_product), near)


@lru_cache(maxsize=64)
def gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0
