"""Semivalues in polynomial time: the integral for Shapley values at one q instead of all of them.

Agent j's semivalue is what it adds on average to coalitions in which everybody else sits with probability q. With g(y)
= integral of (1 - e^{-t y}) dm(t) and e_ik = e^{-t w_ik s_k} (`fedpact.shapley.quadrature`),

    b_j = sum_i values_i int dm(t) (1 - e_ij) prod_{k != j} (1 - q + q e_ik),

and the potential is P(s) = sum_i values_i int dm(t) [1 - prod_k (1 - q + q e_ik)] / q: d P / d s_j = d b_j / d s_j.

Cost: receivers x non-zero weights x t nodes, and the non-zero weights of each squared for the matrix of second
derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.shapley.enumeration import enumerate_semivalues
from fedpact.shapley.quadrature import STEP, TAIL, senders
from fedpact.shapley.routes import MAX_COALITION_AGENTS_HARMED
from fedpact.shapley.values import check_domain, shapley_values
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class _Receiver:
    """One task at the nodes t, for the agents whose data reaches it and their lots.

    `level` (T,) holds weight x prod_k (1 - q + q e_k); `slope` (T, L) is t w_l e_j over the j-th factor, `rates` (T, L)
    the t w_l; the owner of each lot stands at `owners` among the agents. `exponents` (T, K) are the logs of e, and
    `core` (T, K) the factors, over e where that is above 1.
    """

    agents: np.ndarray
    lots: np.ndarray
    owners: np.ndarray
    exponents: FloatArray
    core: FloatArray
    level: FloatArray
    rates: FloatArray
    slope: FloatArray

    @property
    def benefit(self) -> FloatArray:
        """(T, K): 1 - e_j over the j-th factor."""
        gain = -np.expm1(-np.abs(self.exponents))
        return np.asarray(np.where(self.exponents > 0, -gain, gain) / self.core)


class SemivaluePotential:
    """The potential of a semivalue as a function of the contributions."""

    def __init__(self, federation: Federation, probability: float) -> None:
        self.federation, self.probability = federation, probability

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d P / d s_j."""
        gradient = np.zeros(self.federation.n_lots)
        for each in _receivers(self.federation, contributions, self.probability):
            gradient[each.lots] += each.level @ each.slope
        return gradient

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The matrix of second derivatives."""
        hessian = np.zeros((self.federation.n_lots,) * 2)
        for each in _receivers(self.federation, contributions, self.probability):
            pair = -(each.slope.T * (self.probability * each.level)) @ each.slope
            one, other = np.arange(each.lots.size), np.arange(each.lots.size)
            if each.lots.size > each.agents.size:  # lots of one agent share a factor
                one, other = np.nonzero(each.owners[:, None] == each.owners)
            pair[one, other] = -(each.level @ (each.rates[:, one] * each.slope[:, other]))
            hessian[np.ix_(each.lots, each.lots)] += pair
        return hessian


def semivalues(federation: Federation, contributions: FloatArray, probability: float | None) -> FloatArray:
    """The semivalues of a profile; a `probability` of None is one drawn uniformly from [0, 1]: Shapley values."""
    check_domain(federation, contributions)
    if federation.n_agents <= MAX_COALITION_AGENTS_HARMED:
        return enumerate_semivalues(federation, contributions, probability)
    if probability is None:
        return shapley_values(federation, contributions).values
    return integrate_semivalues(federation, contributions, probability)


def integrate_semivalues(federation: Federation, contributions: FloatArray, probability: float) -> FloatArray:
    """The semivalues of a profile by the integral, however few agents there are."""
    values = np.zeros(federation.n_agents)
    for each in _receivers(federation, contributions, probability):
        values[each.agents] += each.level @ each.benefit
    return values


def _receivers(federation: Federation, contributions: FloatArray, q: float) -> Iterator[_Receiver]:
    check_domain(federation, contributions)
    reached = federation.lowest_data(contributions), federation.highest_data(contributions)
    times, log_masses = federation.payoff.rule(*reached, STEP, TAIL)
    for task in range(federation.n_tasks):
        lots, weights = senders(federation, task)
        pulled, agents, owners = weights * contributions[lots], lots, np.arange(lots.size)
        if federation.has_lots:
            agents, owners = np.unique(federation.lot_owners[lots], return_inverse=True)
            pulled = sum_by(owners, pulled, agents.size)
        exponents = -times[task][:, None] * pulled
        left = np.exp(-np.abs(exponents))
        core = 1.0 - q + q * left
        log_product = np.zeros(len(core))
        if pulled.min(initial=0.0) < 0:  # harm: the factor over e, so that neither e nor 1/e overflows
            rises = exponents > 0
            core = np.where(rises, (1.0 - q) * left + q, core)
            left = np.where(rises, 1.0, left)
            log_product = np.maximum(exponents, 0.0).sum(axis=1)
        log_product = log_product + np.log(core).sum(axis=1)
        rates, left = times[task][:, None] * weights, left / core
        yield _Receiver(
            agents=agents,
            lots=lots,
            owners=owners,
            exponents=exponents,
            core=core,
            level=federation.values[task] * np.exp(log_masses[task] + log_product),
            rates=rates,
            slope=rates * (left[:, owners] if federation.has_lots else left),
        )
