"""The social optimum as a program: welfare W(s) = sum_i a_i(s) - sum_j c_j(s_j), concave in s."""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.curvature import Curvature, DenseCurvature, SparseCurvature
from fedpact.programs.domain import inside, room
from fedpact.utils.arrays import FloatArray

__all__ = ["WelfareProgram"]

# Up to here a sparse federation is solved with dense matrices.
MOST_DENSE = 500


class WelfareProgram:
    """Maximise the welfare of one federation; sparse weights stay sparse where that pays."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.upper, self.scale = contribution_bounds(federation)
        self._sparse = federation.is_sparse and federation.n_agents > MOST_DENSE
        self._weights = federation.weights if self._sparse else federation.dense_weights()

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.federation.values * self.federation.payoff.slope(self._weights @ contributions)
        return self._weights.T @ slopes - self.federation.costs.slope(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The dense matrix of second derivatives."""
        curvature = self._weights.T @ (self._bends(contributions)[:, None] * self._weights)
        return -curvature - np.diag(self.federation.costs.curvature(contributions))

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        if not self._sparse:
            return DenseCurvature.scaled(self.hessian(contributions), left, right)
        plain = left * right * self.federation.costs.curvature(contributions)
        return SparseCurvature(self._weights, self._bends(contributions), plain, left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self._weights, self.federation.payoff.floor, contributions, direction)

    def start(self) -> FloatArray:
        return inside(self.federation, self.upper)

    def _bends(self, contributions: FloatArray) -> FloatArray:
        """-values g'' at the reach of a profile."""
        return -self.federation.values * self.federation.payoff.curvature(self._weights @ contributions)
