"""The social optimum: maximise welfare W(s) = sum_i a_i(s) - sum_j c_j(s_j), concave in s; then its canonical point.

Where several profiles are optimal, the canonical one is the point of smallest norm of the optimal face.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.curvature import Curvature, DenseCurvature, SparseCurvature
from fedpact.programs.domain import interior_point, room
from fedpact.programs.optimal_face import OptimalFace, optimal_face
from fedpact.programs.solver import Solution, conclude, maximise
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MAX_FACE_AGENTS = 2000  # the face takes a singular value decomposition
# Up to here a sparse federation is solved with dense matrices.
MAX_DENSE_AGENTS = 500


class WelfareProgram:
    """Maximise the welfare of one federation; sparse weights stay sparse where that pays."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.upper, self.scale = contribution_bounds(federation)
        self._sparse = federation.is_sparse and federation.n_agents > MAX_DENSE_AGENTS
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
        return interior_point(self.federation, self.upper)

    def _bends(self, contributions: FloatArray) -> FloatArray:
        """-values g'' at the reach of a profile."""
        return -self.federation.values * self.federation.payoff.curvature(self._weights @ contributions)


@dataclass(frozen=True, kw_only=True, eq=False)
class SocialOptimum:
    """The canonical welfare optimum, its multipliers, and the face of all optima.

    With very many agents the face is not worked out (None), and the optimum is the one the solver found.
    """

    solution: Solution
    face: OptimalFace | None
    welfare: float

    @property
    def contributions(self) -> FloatArray:
        """The optimum of smallest norm."""
        return self.solution.contributions


def social_optimum(federation: Federation) -> SocialOptimum:
    """The contributions that maximise welfare; where several do, those of smallest norm.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> social_optimum(homogeneous).contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    return canonical_optimum(federation, maximise(WelfareProgram(federation)))


def optimum_at(federation: Federation, contributions: FloatArray) -> SocialOptimum:
    """The canonical optimum around a welfare optimum known already; `NotConverged` if it is none."""
    return canonical_optimum(federation, conclude(WelfareProgram(federation), contributions, 0))


def canonical_optimum(federation: Federation, found: Solution) -> SocialOptimum:
    """From some welfare optimum to the one of smallest norm, with the face of all of them."""
    face = optimal_face(federation, found.contributions) if federation.n_agents <= MAX_FACE_AGENTS else None
    solution = found
    if face is not None and not face.is_point:
        try:
            solution = conclude(WelfareProgram(federation), face.least_norm(), found.iterations)
        except NotConverged:  # the face was drawn too wide by rounding: the optimum found stands
            face = OptimalFace(
                point=found.contributions, free=face.free[:0], normals=face.normals[:0, :0], caps=face.caps
            )
    return SocialOptimum(solution=solution, face=face, welfare=federation.welfare(solution.contributions))
