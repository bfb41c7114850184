"""The Externality mechanism M^E: contributions maximise welfare, and each agent pays for what it uses.

Agent i faces a personal price l_ij = da_i/ds_j for the data of every j != i, and l_jj = -sum_{i != j} l_ij, so every
contributor is paid exactly what the others pay for its data (equations 11 and 12 of the paper). The payment

    p_i = -sum_j l_ij s_j = s_i sum_{k != i} w_ki a_k' - a_i' sum_{j != i} w_ij s_j

sums to zero at every profile. At an interior optimum it is the paper's gamma_i s_i - a_i' (xi_i - 1); at a cap it also
carries the cap's multiplier, mu_i s_i, without which the budget would not balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedpact.certificates.batches import price_bounds
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, price_taking
from fedpact.certificates.optimality import better_profile
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution
from fedpact.mechanisms.optimum import OptimumMechanism
from fedpact.utils.arrays import FloatArray


def price_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """Payments at the personal prices of a profile; they sum to zero at every profile."""
    slopes = federation.marginal_payoffs(contributions)
    received = contributions * (np.asarray(federation.weights.T @ slopes) - federation.own_worth(slopes))
    paid = slopes * (federation.data(contributions) - federation.own_data(contributions))
    return np.asarray(federation.per_agent_from_lots(received) - federation.per_agent_from_tasks(paid))


def personal_prices(federation: Federation, contributions: FloatArray) -> Any:
    """The matrix of prices l_ij, dense or sparse like the weights: row i is what agent i pays per sample of each j.

    With several lots per agent there is a column per lot.
    """
    slopes = federation.marginal_payoffs(contributions)
    if federation.has_lots:
        return _prices_of_lots(federation, slopes)
    if federation.is_sparse:
        prices = sp.csr_array(sp.diags_array(slopes) @ federation.weights)
        prices = prices - sp.diags_array(prices.diagonal())
        return sp.csr_array(prices - sp.diags_array(np.asarray(prices.sum(axis=0)).ravel()))
    prices = slopes[:, None] * federation.weights
    np.fill_diagonal(prices, 0.0)
    np.fill_diagonal(prices, -prices.sum(axis=0))
    return prices


def _prices_of_lots(federation: Federation, slopes: FloatArray) -> Any:
    """What one more sample of each lot is worth to the tasks of each other agent; owners are paid the sum."""
    worth = sp.csr_array(sp.diags_array(slopes) @ federation.sparse_weights()).tocoo()
    tasks, lots = worth.coords
    buyers = federation.task_owners[tasks]
    foreign = buyers != federation.lot_owners[lots]
    shape = (federation.n_agents, federation.n_lots)
    prices = sp.csr_array((worth.data[foreign], (buyers[foreign], lots[foreign])), shape=shape)
    paid = (-np.asarray(prices.sum(axis=0)).ravel(), (federation.lot_owners, np.arange(federation.n_lots)))
    prices = sp.csr_array(prices + sp.csr_array(paid, shape=shape))
    return prices if federation.is_sparse else prices.toarray()


class ExternalityMechanism(OptimumMechanism):
    """M^E: maximises welfare; nobody is paid for more than its data is worth to the others.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    >>> federation = Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> outcome = ExternalityMechanism().solve(federation)
    >>> outcome.contributions.round(4).tolist()
    [16.8967, 6.1563, 31.2144]
    >>> str(outcome.certificates["social-optimality"].verdict)
    'holds'
    """

    name = "externality"
    title = "Externality"
    plain_title = "pay for what you use"
    description = (
        "Members contribute what is best for all of them together. Each pays for the data it uses and is paid for the "
        "data it gives."
    )
    knows_lots = True
    knows_shared_caps = True
    claims: Sequence[Claim] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.SPLIT_PROOF)
    claims_without_harm: Sequence[Claim] = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return price_taking(federation, contributions)

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return price_payments(federation, contributions)

    def price_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray | None:
        return personal_prices(federation, contributions)

    def payment_bounds(self, federation: Federation, contributions: FloatArray) -> PaymentBounds:
        return price_payment_bounds(federation, contributions)

    def nearby_equilibrium(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return better_profile(federation, contributions)

    def is_vectorised(self, batch: Batch) -> bool:
        return OptimumMechanism.is_vectorised(self, batch)

    def solve_together(self, batch: Batch) -> BatchSolution:
        return OptimumMechanism.solve_together(self, batch)

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return batch.split(price_payments(batch.joined, contributions.ravel()))

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return price_bounds(batch, contributions)
