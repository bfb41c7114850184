"""The Shapley equilibrium as a program: the potential P(s) - sum_j c_j(s_j), strictly concave in s.

phi_j = P(N) - P(N without j), and P(N without j) does not depend on s_j; so an agent that is paid its Shapley value
climbs the potential, and the equilibria are its maximisers. Agents on their own make P strictly concave: there is
exactly one. Up to `FEW_AGENTS` agents P is summed over all coalitions, beyond that it is integrated
(`fedpact.shapley.quadrature`).
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.domain import inside, room
from fedpact.programs.solver import Solution, maximise
from fedpact.shapley.compiled import Integrals, Precision, integrate, potential_curvature, rows_of
from fedpact.shapley.enumeration import coalitions
from fedpact.shapley.quadrature import receiver_nodes
from fedpact.utils.arrays import FloatArray

__all__ = ["CompiledPotential", "EnumeratedPotential", "IntegratedPotential", "shapley_optimum"]

FEW_AGENTS = 8
MANY_AGENTS = 16
EXACT, ROUGH = 1e-10, 1e-4  # tolerances of the compiled integrals


class _Potential:
    """What both ways of evaluating the potential share: the box, the scale and the domain."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        # P is a weighted sum of A over coalitions; the weights of the coalitions of size k add up to 1/k.
        harmonic = float((1.0 / np.arange(1, federation.n_agents + 1)).sum())
        self.upper, self.scale = contribution_bounds(federation, multiple=harmonic)
        self._harm = np.minimum(federation.dense_weights(), 0.0)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        raise NotImplementedError

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        return DenseCurvature.scaled(self.hessian(contributions), left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self._harm, self.federation.payoff.floor, contributions, direction)

    def start(self) -> FloatArray:
        return inside(self.federation, self.upper)


class EnumeratedPotential(_Potential):
    """The potential summed over all coalitions."""

    def __init__(self, federation: Federation) -> None:
        super().__init__(federation)
        self._weights = federation.dense_weights()
        self._members, self._shares = coalitions(federation.n_agents)

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.federation.payoff.slope(self._data(contributions)) * self.federation.values
        marginal = self._shares @ (self._members * (slopes @ self._weights))
        return marginal - self.federation.costs.slope(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        bends = self.federation.payoff.curvature(self._data(contributions)) * self.federation.values
        together = np.einsum(
            "xi,xj,xk->ijk", bends * self._shares[:, None], self._members, self._members, optimize=True
        )
        curvature = np.einsum("ijk,ij,ik->jk", together, self._weights, self._weights)
        return curvature - np.diag(self.federation.costs.curvature(contributions))

    def _data(self, contributions: FloatArray) -> FloatArray:
        return (self._members * contributions) @ self._weights.T


class IntegratedPotential(_Potential):
    """The potential by quadrature, for any number of agents."""

    def gradient(self, contributions: FloatArray) -> FloatArray:
        gradient = -self.federation.costs.slope(contributions)
        for nodes in receiver_nodes(self.federation, contributions):
            gradient[nodes.agents] += np.einsum("tq,tqk->k", nodes.level, nodes.slope)
        return gradient

    def hessian(self, contributions: FloatArray) -> FloatArray:
        hessian = -np.diag(self.federation.costs.curvature(contributions))
        for nodes in receiver_nodes(self.federation, contributions):
            count = nodes.agents.size
            slopes = nodes.slope.reshape(-1, count)
            pair = -(slopes.T * (nodes.level * nodes.q).ravel()) @ slopes
            np.fill_diagonal(pair, -np.einsum("tq,tqk->k", nodes.level, nodes.bend))
            hessian[np.ix_(nodes.agents, nodes.agents)] += pair
        return hessian


class CompiledPotential(_Potential):
    """The potential by compiled quadrature, for many agents; the Hessian is approximate off its diagonal."""

    def __init__(self, federation: Federation, *, tolerance: float) -> None:
        super().__init__(federation)
        self._entries = rows_of(federation)
        self._precision = Precision.reaching(tolerance)
        self._at: FloatArray | None = None
        self._integrals: Integrals | None = None

    def gradient(self, contributions: FloatArray) -> FloatArray:
        return self._integrate(contributions).slopes - self.federation.costs.slope(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        hessian = potential_curvature(self._entries, contributions)
        bends = self._integrate(contributions).bends - self.federation.costs.curvature(contributions)
        np.fill_diagonal(hessian, bends)
        return hessian

    def _integrate(self, contributions: FloatArray) -> Integrals:
        """The integrals at a point; a Hessian is asked for where the gradient was."""
        if self._integrals is None or self._at is None or not np.array_equal(self._at, contributions):
            self._integrals = integrate(self._entries, contributions, self._precision)
            self._at = contributions.copy()
        return self._integrals


def shapley_optimum(federation: Federation) -> Solution:
    """The maximiser of the potential: summed for few agents, integrated for more, roughly first for many."""
    n_agents = federation.n_agents
    if n_agents <= FEW_AGENTS:
        return maximise(EnumeratedPotential(federation))
    if n_agents <= MANY_AGENTS:
        return maximise(IntegratedPotential(federation))
    exact = CompiledPotential(federation, tolerance=EXACT)
    # With harm the potential is steep at the edge of the domain: there is nothing to be had from rough integrals.
    return maximise(exact, rough=None if federation.has_harm else CompiledPotential(federation, tolerance=ROUGH))
