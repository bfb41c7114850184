"""Standalone: nobody federates. Each agent trains on its own data, the outside option v_i* of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedpact.arrays import FloatArray
from fedpact.federation import Federation
from fedpact.outcome import Equilibria, Outcome
from fedpact.programs.own import standalone_optimum
from fedpact.properties.certificate import Claim
from fedpact.properties.deviations import isolation

__all__ = ["Standalone", "no_payments"]


def no_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """Zero for everybody."""
    return np.zeros(federation.n_agents)


class Standalone:
    """The baseline in which every agent trains alone."""

    name: ClassVar[str] = "standalone"
    title: ClassVar[str] = "Standalone"
    claims: ClassVar[tuple[Claim, ...]] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.INDIVIDUAL_RATIONALITY)

    def solve(self, federation: Federation) -> Outcome:
        """Everybody's best contribution alone."""
        contributions, _ = standalone_optimum(federation)
        found = self.outcome_at(federation, contributions, no_payments(federation, contributions))
        return replace(
            found,
            equilibria=Equilibria(unique=True, dimension=0, note="each agent's own optimum"),
        )

    def outcome_at(self, federation: Federation, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """A given profile and payments under these rules."""
        return Outcome(
            federation=federation,
            mechanism=self.name,
            contributions=np.asarray(contributions),
            payments=np.asarray(payments),
            deviations=isolation,
            payment_rule=no_payments,
            equilibria=Equilibria(unique=None, dimension=0, note="as given"),
            federated=False,
        )
