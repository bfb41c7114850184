"""What a deal is compared with: everybody alone, and a model that is shared freely."""

from __future__ import annotations

from dataclasses import replace

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, free_riding, isolation
from fedpact.deals.outcome import NOT_KNOWN, Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.mechanisms.base import Mechanism
from fedpact.solvers.free_riding import free_riding_equilibria, free_riding_equilibrium, is_only_equilibrium
from fedpact.solvers.groups import standalone_optima
from fedpact.utils.arrays import FloatArray


class Standalone(Mechanism):
    """The baseline in which every member trains alone, the outside option v_i* of the paper."""

    name = "standalone"
    title = "Standalone"
    plain_title = "everybody alone"
    description = "Nobody federates: each member trains alone on its own data."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.INDIVIDUAL_RATIONALITY)
    federated = False
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """Everybody's best contribution alone."""
        return self.outcome_at(federation, standalone_optima(federation.arrays)[0], is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return standalone_optima(arrays)[0]

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return isolation(federation, contributions)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        return Equilibria(unique=True, dimension=0, note="each member's own optimum")


class Voluntary(Mechanism):
    """The baseline without payments: members contribute what suits themselves.

    The public-good game that motivates mechanisms in the first place (section 1 of the paper). It may have several
    equilibria; the outcome says whether the one found is known to be the only one. Where none is found, `solve` raises
    `NotConverged`.

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
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """A free-riding equilibrium."""
        return self.outcome_at(federation, free_riding_equilibrium(self.played(federation)), is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return free_riding_equilibria(replace(arrays, values=self.value_share(arrays.n_agents) * arrays.values))

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return free_riding(federation, contributions)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        unique = is_only_equilibrium(self.played(federation), contributions)
        if unique is None:
            return NOT_KNOWN
        note = "the only equilibrium" if unique else "one of several equilibria, which treats equal members alike"
        return Equilibria(unique=unique, dimension=0, note=note)
