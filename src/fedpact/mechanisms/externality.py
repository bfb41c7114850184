"""The Externality mechanism M^E: contributions maximise welfare, and each agent pays for what it uses.

Agent i faces a personal price l_ij = da_i/ds_j for the data of every j != i, and l_jj = -sum_{i != j} l_ij, so every
contributor is paid exactly what the others pay for its data (equations 11 and 12 of the paper). The payment

    p_i = -sum_j l_ij s_j = s_i sum_{k != i} w_ki a_k' - a_i' sum_{j != i} w_ij s_j

sums to zero at every profile. At an interior optimum it is the paper's gamma_i s_i - a_i' (xi_i - 1); at a cap it also
carries the cap's multiplier, mu_i s_i, without which the budget would not balance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from fedpact.certificates.certificate import Claim
from fedpact.certificates.deviations import price_taking
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.base import Rules
from fedpact.programs.optimal_face import OptimalFace
from fedpact.programs.social_optimum import SocialOptimum, optimum_at, social_optimum
from fedpact.utils.arrays import FloatArray

__all__ = ["ExternalityMechanism", "personal_prices", "price_payments"]


def price_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """Payments at the personal prices of a profile; they sum to zero at every profile."""
    slopes = federation.marginal_payoffs(contributions)
    own = federation.own_weights
    received = contributions * (np.asarray(federation.weights.T @ slopes) - own * slopes)
    paid = slopes * (federation.data(contributions) - own * contributions)
    return np.asarray(received - paid)


def personal_prices(federation: Federation, contributions: FloatArray) -> Any:
    """The matrix of prices l_ij, dense or sparse like the weights: row i is what agent i pays per sample of each j."""
    slopes = federation.marginal_payoffs(contributions)
    if federation.is_sparse:
        prices = sp.csr_array(sp.diags_array(slopes) @ federation.weights)
        prices = prices - sp.diags_array(prices.diagonal())
        return sp.csr_array(prices - sp.diags_array(np.asarray(prices.sum(axis=0)).ravel()))
    prices = slopes[:, None] * federation.weights
    np.fill_diagonal(prices, 0.0)
    np.fill_diagonal(prices, -prices.sum(axis=0))
    return prices


class ExternalityMechanism(Rules):
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

    name: ClassVar[str] = "externality"
    title: ClassVar[str] = "Externality"
    claims: ClassVar[tuple[Claim, ...]] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY)
    deviations = staticmethod(price_taking)
    payment_rule = staticmethod(price_payments)
    price_rule = staticmethod(personal_prices)

    def solve(self, federation: Federation) -> Outcome:
        """The welfare optimum of smallest norm and its payments."""
        return self._at(federation, social_optimum(federation))

    def at_equilibrium(self, federation: Federation, contributions: FloatArray) -> Outcome:
        return self._at(federation, optimum_at(federation, contributions))

    def _at(self, federation: Federation, optimum: SocialOptimum) -> Outcome:
        found = self.outcome_of(federation, optimum.contributions)
        return replace(found, equilibria=_equilibria(optimum.face), solution=optimum.solution, face=optimum.face)


def _equilibria(face: OptimalFace | None) -> Equilibria:
    if face is None:
        return Equilibria(
            unique=None, dimension=0, note="a welfare optimum; with so many agents others were not sought"
        )
    dimension = face.dimension
    if dimension == 0:
        return Equilibria(unique=True, dimension=0, note="the only welfare optimum")
    kind = "a line" if dimension == 1 else f"a set of dimension {dimension}"
    note = f"welfare optima form {kind}; this is the one of smallest norm, which treats equal agents alike"
    return Equilibria(unique=False, dimension=dimension, note=note)
