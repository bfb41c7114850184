"""Shapley values and slopes of more agents than coalitions can be listed for, in extended precision.

With x_ij = w_ij s_j and m the measure of g,

    phi_j = sum_i values_i int dm(t) (1 - e^{-t x_ij}) int_0^1 dq prod_{k != j} (1 - q + q e^{-t x_ik}).

The inner integrand is a polynomial in q, for which Gauss-Legendre with half its degree of nodes is exact; the outer one
takes the trapezoid in log t. Neither is arranged as in the package: all products are sums of logs,
and no node is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

import fedpact as fp

Extended = NDArray[np.longdouble]
STEP, LENGTHS, TAIL = 0.15, 60.0, 1e-17


def shapley_integral(federation: fp.Federation, contributions: NDArray[np.float64]) -> tuple[Extended, Extended] | None:
    """Values and slopes d phi_j / d s_j; None where a coalition leaves the domain."""
    weights = federation.dense_weights().astype(np.longdouble)
    s = contributions.astype(np.longdouble)
    floor = np.broadcast_to(federation.payoff.floor, s.shape)
    if (np.minimum(weights * s, 0.0).sum(axis=1) <= floor).any():
        return None
    values, slopes = np.zeros((2, s.size), dtype=np.longdouble)
    with np.errstate(all="ignore"):
        for receiver in range(s.size):
            senders = np.flatnonzero(weights[receiver])
            w = weights[receiver, senders]
            value, slope = _receiver(federation, receiver, w, s[senders])
            values[senders] += federation.values[receiver] * value
            slopes[senders] += federation.values[receiver] * slope
    return values, slopes


def _receiver(federation: fp.Federation, receiver: int, w: Extended, s: Extended) -> tuple[Extended, Extended]:
    x = w * s
    t, log_mass = _rule(federation, receiver, np.minimum(x, 0.0).sum(), np.maximum(x, 0.0).sum())
    nodes, shares = np.polynomial.legendre.leggauss(max(x.size // 2 + 1, 1))
    q, shares = (nodes.astype(np.longdouble) + 1.0) / 2.0, shares.astype(np.longdouble) / 2.0
    exponents = -t[:, None] * x
    # log(1 - q + q e^e): around e = 0 by log1p, for large e by e + log(q + (1 - q) e^-e)
    part = q[:, None]
    grown = np.maximum(exponents, 0.0)[:, None, :]
    factors = grown + np.log1p(
        np.where(
            exponents[:, None, :] > 0,
            (1.0 - part) * np.expm1(-np.abs(exponents))[:, None, :],
            part * np.expm1(-np.abs(exponents))[:, None, :],
        )
    )
    level = factors.sum(axis=2)[:, :, None] - factors + log_mass[:, None, None]  # without one agent each
    left = np.einsum("q,tqj->tj", shares, np.exp(level))
    grows = np.einsum("q,tqj->tj", shares, np.exp(level + exponents[:, None, :]))
    small = left * -np.expm1(np.minimum(exponents, 1.0))
    return np.where(exponents > 1.0, left - grows, small).sum(axis=0), (t[:, None] * w * grows).sum(axis=0)


def _rule(
    federation: fp.Federation, receiver: int, lowest: np.longdouble, highest: np.longdouble
) -> tuple[Extended, Extended]:
    """Nodes t and the logs of their masses."""
    payoff = federation.payoff
    one = [float(np.broadcast_to(parameter, federation.n_agents)[receiver]) for parameter in payoff.parameters.values()]
    if payoff.family == "exponential":
        return np.array(one, dtype=np.longdouble), np.zeros(1, dtype=np.longdouble)
    half = one[0] if payoff.family == "michaelis" else 1.0
    beta = one[0] if payoff.family == "power-law" else 1.0
    step = STEP / max(1.0, np.sqrt(beta))
    upper = np.log((LENGTHS + 4.0 * beta) / np.minimum(lowest + half, half))
    lower = np.log(TAIL / np.maximum(highest, half))
    t = np.exp(np.arange(upper, lower, -step, dtype=np.longdouble))
    log_mass = {"power-law": beta * np.log(t) - t - gammaln(beta), "log": -t, "michaelis": np.log(half * t) - half * t}
    return t, log_mass[payoff.family] + np.log(step)
