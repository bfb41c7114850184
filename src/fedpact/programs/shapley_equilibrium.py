"""The Shapley equilibrium as a program: maximise the potential less the costs, P(s) - sum_j c_j(s_j).

An agent that is paid its Shapley value climbs the potential (`fedpact.shapley.potential`), so the equilibria are the
maximisers. The potential is strictly concave: there is exactly one.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.ownership import require_single_lots
from fedpact.programs.solver import Curvature, DenseCurvature, Solution, interior_point, maximise, room
from fedpact.shapley.potential import ROUGH_TOLERANCE, CompiledPotential, Potential, potential_of
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import OutsideDomain


class ShapleyProgram:
    """Maximise the potential less the costs; `potential` is the route to it."""

    def __init__(self, federation: Federation, potential: Potential) -> None:
        require_single_lots(federation, "the Shapley equilibrium")
        self.federation = federation
        self.potential = potential
        # P is a weighted sum of A over coalitions; the weights of the coalitions of size k add up to 1/k.
        harmonic = float((1.0 / np.arange(1, federation.n_agents + 1)).sum())
        self.upper, self.scale = contribution_bounds(federation, multiple=harmonic)
        self._harm = np.minimum(federation.dense_weights(), 0.0)

    def gradient(self, contributions: FloatArray) -> FloatArray:
        try:
            return self.potential.gradient(contributions) - self.federation.costs.slope(contributions)
        except OutsideDomain:  # by rounding: the search for a step takes a shorter one
            return np.full_like(contributions, np.nan)

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        hessian = self.potential.hessian(contributions) - np.diag(self.federation.costs.curvature(contributions))
        return DenseCurvature.scaled(hessian, left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self._harm, self.federation.payoff.floor, contributions, direction)

    def start(self) -> FloatArray:
        return interior_point(self.federation, self.upper)


def shapley_optimum(federation: Federation) -> Solution:
    """The maximiser of the potential less the costs; with many agents found roughly first."""
    potential = potential_of(federation)
    rough = None
    # With harm the potential is steep at the edge of the domain: there is nothing to be had from rough integrals.
    if isinstance(potential, CompiledPotential) and not federation.has_harm:
        rough = ShapleyProgram(federation, CompiledPotential(federation, tolerance=ROUGH_TOLERANCE))
    return maximise(ShapleyProgram(federation, potential), rough=rough)
