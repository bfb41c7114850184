"""Voluntary: the model is shared freely and nobody is paid, so everybody free-rides on the others.

The public-good game that motivates mechanisms in the first place (section 1 of the paper). It may have several
equilibria; the outcome says which was found and whether it is the only one.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, free_riding
from fedpact.certificates.no_equilibrium import refutes
from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.programs.free_riding import free_riding_equilibrium
from fedpact.programs.free_riding_batch import follows_together, free_riding_equilibria
from fedpact.programs.free_riding_uniqueness import equilibrium_dimension, is_unique
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NoEquilibrium

NOTES = {
    True: "the only equilibrium",
    False: "one of several equilibria: the end of the path that treats equal members alike",
    None: "the end of the path that treats equal members alike; whether there are others is not known",
}


NOTE_OF_LOTS = "where best answers from everybody's own optimum lead; whether there are others is not known"


class Voluntary(Mechanism):
    """The baseline without payments: agents contribute what suits themselves.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> Voluntary().solve(homogeneous).contributions.round(4).tolist()
    [5.953, 5.953, 5.953]
    """

    name = "voluntary"
    title = "Voluntary"
    plain_title = "share freely, no payments"
    description = "The model is shared freely and nobody pays; each member contributes only what suits itself."
    knows_lots = True
    knows_shared_caps = True
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True

    def played(self, federation: Federation) -> Federation:
        """The federation whose free-riding equilibria are the equilibria: this one, or one with other values."""
        return federation

    def solve(self, federation: Federation) -> Outcome:
        """A free-riding equilibrium."""
        played = self.played(federation)
        try:
            contributions = free_riding_equilibrium(played)
        except NoEquilibrium as error:
            if refutes(played, error.proof):
                raise
            raise (error.__cause__ or error) from None  # rounding spoiled the proof: what led to it stands
        return self.at_equilibrium(federation, contributions)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return free_riding(federation, contributions)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        played = self.played(federation)
        around = equilibrium_dimension(played, contributions)
        unique = False if around else is_unique(played, contributions)
        note = NOTE_OF_LOTS if federation.has_lots else NOTES[unique]
        chosen = Equilibria(unique=unique, dimension=around, note=note)
        return self.outcome_at(federation, contributions, payments, equilibria=chosen)

    def is_vectorised(self, batch: Batch) -> bool:
        return follows_together(batch)

    def played_together(self, batch: Batch) -> Batch:
        """The same of a batch."""
        return batch

    def solve_together(self, batch: Batch) -> BatchSolution:
        contributions = free_riding_equilibria(self.played_together(batch))
        return BatchSolution(contributions=contributions, payments=self.payments_together(batch, contributions))

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        """Payments (federations, n) at a profile of every federation."""
        return np.zeros((len(batch), batch.n_agents))

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        return batch.split(free_riding(batch.joined, contributions.ravel()).utilities)
