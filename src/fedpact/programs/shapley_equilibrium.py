"""The Shapley equilibrium as a program: maximise the potential less the costs, P(s) - sum_j c_j(s_j).

An agent that is paid its Shapley value climbs the potential (`fedpact.shapley.potential`), so the equilibria are the
maximisers. The potential is strictly concave: there is exactly one.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.ownership import require_single_lots
from fedpact.programs.solver import Curvature, DenseCurvature, Solution, edge_rows, interior_point, maximise, room
from fedpact.shapley.potential import ROUGH_TOLERANCE, CompiledPotential, Potential, potential_of
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged, OutsideDomain

CLOSE_TO_THE_EDGE = 1e-6  # of the way from no data to the edge: a slope there has ten digits at most


class ShapleyProgram:
    """Maximise the potential less the costs; `potential` is the route to it."""

    def __init__(self, federation: Federation, potential: Potential) -> None:
        require_single_lots(federation, "the Shapley equilibrium")
        self.federation = federation
        self.potential = potential
        # P is a weighted sum of A over coalitions; the weights of the coalitions of size k add up to 1/k.
        harmonic = float((1.0 / np.arange(1, federation.n_agents + 1)).sum())
        upper, self.scale = contribution_bounds(federation, multiple=harmonic)
        self._harm = np.minimum(federation.dense_weights(), 0.0)
        self.upper = np.minimum(upper, _harmless_alone(self._harm, federation.payoff.floor))

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

    def edges(self) -> FloatArray | None:
        return edge_rows(self._harm, self.federation.payoff.floor)

    def start(self) -> FloatArray:
        return interior_point(self.federation, self.upper)


def _harmless_alone(harm: FloatArray, floor: FloatArray | float) -> FloatArray:
    """The contribution of each agent that would by itself take somebody to the edge of the domain.

    A coalition of just those who harm has to stay inside, so this bounds every maximiser. It is of the size of the deal
    where the spending bound, which knows nothing of harm, may be many orders of magnitude too large.
    """
    edges = np.broadcast_to(floor, harm.shape[0])[:, None]
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(edges, harm, out=np.full(harm.shape, np.inf), where=harm < 0).min(axis=0))


def shapley_optimum(federation: Federation) -> Solution:
    """The maximiser of the potential less the costs; with many agents found roughly first."""
    potential = potential_of(federation)
    rough = None
    # With harm the potential is steep at the edge of the domain: there is nothing to be had from rough integrals.
    if isinstance(potential, CompiledPotential) and not federation.has_harm:
        rough = ShapleyProgram(federation, CompiledPotential(federation, tolerance=ROUGH_TOLERANCE))
    try:
        return maximise(ShapleyProgram(federation, potential), rough=rough)
    except NotConverged as error:
        raise NotConverged(f"{error}{_reason(federation, error.result.contributions)}", result=error.result) from error


def _reason(federation: Federation, contributions: FloatArray) -> str:
    """Which number double precision has no digits left for, if it is that."""
    floor = np.broadcast_to(federation.payoff.floor, federation.n_agents)
    distances = 1.0 - np.asarray(federation.negative_weights() @ contributions) / floor
    agent = int(np.argmin(distances))
    if distances[agent] > CLOSE_TO_THE_EDGE:
        return ""
    return (
        f': those who harm "{federation.names[agent]}" would take it within {distances[agent]:.0e} of the edge of its '
        "payoff's domain, where double precision has too few digits; lower their caps"
    )
