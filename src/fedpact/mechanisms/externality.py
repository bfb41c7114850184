"""The Externality mechanism M^E: contributions maximise welfare, and each member pays for what it uses.

Agent i faces a personal price l_ij = da_i/ds_j for the data of every j != i, and l_jj = -sum_{i != j} l_ij, so every
contributor is paid exactly what the others pay for its data (equations 11 and 12 of the paper). The payment

    p_i = -sum_j l_ij s_j = s_i sum_{k != i} w_ki a_k' - a_i' sum_{j != i} w_ij s_j

sums to zero at every profile. At an interior optimum it is the paper's gamma_i s_i - a_i' (xi_i - 1); at a cap it also
carries the cap's multiplier, mu_i s_i, without which the budget would not balance. With several lots there is a price
for each.

The welfare optima may form a face; the outcome is its point of smallest norm, which treats equal members alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, price_taking
from fedpact.deals.outcome import Equilibria, Outcome
from fedpact.federation import Federation, require_federation
from fedpact.federation.arrays import FederationArrays
from fedpact.mechanisms.base import Mechanism
from fedpact.solvers.welfare import OptimalFace, nearest_optimum, optimum_at, social_optimum, welfare_optima
from fedpact.utils.arrays import FloatArray


def personal_prices(federation: Federation, contributions: ArrayLike) -> FloatArray:
    """The matrix of prices l_ij.

    Row i is what member i pays per sample of each lot; the lot's owner is paid the sum.
    """
    require_federation(federation)
    profile = federation.checked_contributions(contributions)
    federation.payoffs(profile)  # an error that names the member where a payoff is not defined
    return federation.arrays.prices(profile)


class OptimumMechanism(Mechanism):
    """A mechanism whose equilibria are the welfare optima where all values count `value_share` times."""

    optimum_names = ("welfare optimum", "welfare optima")  # what people call one of them, and several

    def solve(self, federation: Federation) -> Outcome:
        """The optimum of smallest norm and its payments."""
        return self.outcome_at(federation, social_optimum(self.played(federation)).contributions, is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return welfare_optima(replace(arrays, values=self.value_share(arrays.n_agents) * arrays.values))[0]

    def face(self, federation: Federation, contributions: FloatArray) -> OptimalFace | None:
        return optimum_at(self.played(federation), contributions).face

    def payments_due(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return self.payments(federation.arrays, nearest_optimum(self.played(federation), contributions))

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        face, (optimum, optima) = optimum_at(self.played(federation), contributions).face, self.optimum_names
        if face.dimension == 0:
            return Equilibria(unique=True, dimension=0, note=f"the only {optimum}")
        kind = "a line" if face.dimension == 1 else f"a set of dimension {face.dimension}"
        note = f"{optima} form {kind}; this is the one of smallest norm, which treats equal members alike"
        return Equilibria(unique=False, dimension=face.dimension, note=note)


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
    claims: Sequence[Claim] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.SPLIT_PROOF)
    claims_without_harm: Sequence[Claim] = (Claim.INDIVIDUAL_RATIONALITY, Claim.CORE)
    has_prices = True

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return price_taking(federation, contributions)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        return arrays.price_payments(contributions)
