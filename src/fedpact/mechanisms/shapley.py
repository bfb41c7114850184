"""The Shapley mechanism M^Shap: everybody is topped up or charged to its Shapley share of the total payoff.

p_i = phi_i - a_i (equation 10 of the paper), so u_i = phi_i - c_i. The game has an exact strictly concave potential
(`fedpact.shapley.potential`), hence exactly one equilibrium, found by maximising it. The paper's best-response
dynamics reach the same point and are kept as a second route (`best_response_dynamics`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fedpact.certificates.certificate import Claim
from fedpact.certificates.deviations import shapley_sharing
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.base import Rules
from fedpact.programs.shapley_equilibrium import shapley_optimum
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray

__all__ = ["ShapleyMechanism", "shapley_payments"]


def shapley_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """phi_i - a_i at a profile."""
    return shapley_values(federation, contributions).values - federation.payoffs(contributions)


class ShapleyMechanism(Rules):
    """M^Shap: perfectly reciprocal; contributions exceed the social optimum.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> ShapleyMechanism().solve(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """

    name: ClassVar[str] = "shapley"
    title: ClassVar[str] = "Shapley"
    claims: ClassVar[tuple[Claim, ...]] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.RECIPROCITY)
    deviations = staticmethod(shapley_sharing)
    payment_rule = staticmethod(shapley_payments)

    def solve(self, federation: Federation) -> Outcome:
        """The unique equilibrium and its payments."""
        solution = shapley_optimum(federation)
        return replace(self.at_equilibrium(federation, solution.contributions), solution=solution)

    def at_equilibrium(self, federation: Federation, contributions: FloatArray) -> Outcome:
        only = Equilibria(unique=True, dimension=0, note="the only equilibrium: its potential is strictly concave")
        return replace(self.outcome_of(federation, contributions), equilibria=only)
