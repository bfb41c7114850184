"""The social optimum as a program: welfare W(s) = sum_i a_i(s) - sum_j c_j(s_j), concave in s."""

from __future__ import annotations

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.federation import Federation
from fedpact.programs.bounds import contribution_bounds
from fedpact.programs.domain import inside, room

__all__ = ["WelfareProgram"]


class WelfareProgram:
    """Maximise the welfare of one federation."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.upper, self.scale = contribution_bounds(federation)
        self._weights = federation.dense_weights()

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.federation.values * self.federation.payoff.slope(self._weights @ contributions)
        return slopes @ self._weights - self.federation.costs.slope(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        bend = self.federation.values * self.federation.payoff.curvature(self._weights @ contributions)
        curvature = self._weights.T @ (bend[:, None] * self._weights)
        return curvature - np.diag(self.federation.costs.curvature(contributions))

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self._weights, self.federation.payoff.floor, contributions, direction)

    def start(self) -> FloatArray:
        return inside(self.federation, self.upper)
