"""Standalone: nobody federates. Each agent trains on its own data, the outside option v_i* of the paper."""

from __future__ import annotations

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, isolation
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.programs.best_response import standalone_optimum
from fedpact.utils.arrays import FloatArray

OWN_OPTIMUM = Equilibria(unique=True, dimension=0, note="each member's own optimum")


class Standalone(Mechanism):
    """The baseline in which every agent trains alone."""

    name = "standalone"
    title = "Standalone"
    plain_title = "everybody alone"
    description = "Nobody federates: each member trains alone on its own data."
    knows_lots = True
    knows_shared_caps = True
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.INDIVIDUAL_RATIONALITY)
    federated = False
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """Everybody's best contribution alone."""
        contributions, _ = standalone_optimum(federation)
        return self.at_equilibrium(federation, contributions)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return isolation(federation, contributions)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        return self.outcome_at(federation, contributions, payments, equilibria=OWN_OPTIMUM)

    def is_vectorised(self, batch: Batch) -> bool:
        return True

    def solve_together(self, batch: Batch) -> BatchSolution:
        contributions = batch.split(standalone_optimum(batch.joined)[0])
        return BatchSolution(contributions=contributions, payments=0.0 * contributions)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return batch.split(isolation(batch.joined, contributions.ravel()).utilities)
