"""Mechanisms whose equilibria are the welfare optima of a federation: what they share.

They differ in what is paid. Where several profiles are optimal, the one of smallest norm is the outcome.
"""

from __future__ import annotations

from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Federation
from fedpact.mechanisms.base import Mechanism
from fedpact.programs.social_optimum import OptimalFace, SocialOptimum, optimum_at, social_optimum
from fedpact.utils.arrays import FloatArray


class OptimumMechanism(Mechanism):
    """Equilibria are the welfare optima of `played(federation)`, by default of the federation itself.

    Attributes
    ----------
    optimum_names
        What people call one of them, and several.
    """

    optimum_names = ("welfare optimum", "welfare optima")

    def played(self, federation: Federation) -> Federation:
        """The federation whose welfare optima are the equilibria: this one, or one with other values."""
        return federation

    def solve(self, federation: Federation) -> Outcome:
        """The optimum of smallest norm and its payments."""
        return self._outcome(federation, social_optimum(self.played(federation)))

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        return self._outcome(federation, optimum_at(self.played(federation), contributions), payments)

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        return self.outcome_at(
            federation,
            optimum.contributions,
            payments,
            equilibria=equilibria_of(optimum.face, *self.optimum_names),
            solution=optimum.solution,
            face=optimum.face,
        )


def equilibria_of(face: OptimalFace | None, optimum: str, optima: str) -> Equilibria:
    """What is known of the equilibria from the set of optima, and what these are called."""
    if face is None:
        note = f"one of the {optima}; with so many agents others were not sought"
        return Equilibria(unique=None, dimension=0, note=note)
    dimension = face.dimension
    if dimension == 0:
        return Equilibria(unique=True, dimension=0, note=f"the only {optimum}")
    kind = "a line" if dimension == 1 else f"a set of dimension {dimension}"
    note = f"{optima} form {kind}; this is the one of smallest norm, which treats equal agents alike"
    return Equilibria(unique=False, dimension=dimension, note=note)
