"""Standalone: nobody federates. Each agent trains on its own data, the outside option v_i* of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fedpact.certificates.certificate import Claim
from fedpact.certificates.deviations import isolation
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.base import Rules
from fedpact.programs.best_response import standalone_optimum
from fedpact.utils.arrays import FloatArray

__all__ = ["Standalone", "no_payments"]


def no_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """Zero for everybody."""
    return np.zeros(federation.n_agents)


class Standalone(Rules):
    """The baseline in which every agent trains alone."""

    name: ClassVar[str] = "standalone"
    title: ClassVar[str] = "Standalone"
    claims: ClassVar[tuple[Claim, ...]] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.INDIVIDUAL_RATIONALITY)
    deviations = staticmethod(isolation)
    payment_rule = staticmethod(no_payments)
    federated: ClassVar[bool] = False

    def solve(self, federation: Federation) -> Outcome:
        """Everybody's best contribution alone."""
        contributions, _ = standalone_optimum(federation)
        return self.at_equilibrium(federation, contributions)

    def at_equilibrium(self, federation: Federation, contributions: FloatArray) -> Outcome:
        own = Equilibria(unique=True, dimension=0, note="each agent's own optimum")
        return replace(self.outcome_of(federation, contributions), equilibria=own)
