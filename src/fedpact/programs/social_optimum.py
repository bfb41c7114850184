"""The social optimum: solve the welfare program, then move to the canonical point of the optimal face."""

from __future__ import annotations

from dataclasses import dataclass

from fedpact.federation import Federation
from fedpact.programs.optimal_face import OptimalFace, optimal_face
from fedpact.programs.solver import Solution, conclude, maximise
from fedpact.programs.welfare import WelfareProgram
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

__all__ = ["SocialOptimum", "canonical_optimum", "optimum_at", "social_optimum"]

MOST_FOR_FACE = 2000  # agents: the face takes a singular value decomposition


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
    face = optimal_face(federation, found.contributions) if federation.n_agents <= MOST_FOR_FACE else None
    solution = found
    if face is not None and not face.is_point:
        try:
            solution = conclude(WelfareProgram(federation), face.least_norm(), found.iterations)
        except NotConverged:  # the face was drawn too wide by rounding: the optimum found stands
            face = OptimalFace(
                point=found.contributions, free=face.free[:0], normals=face.normals[:0, :0], caps=face.caps
            )
    return SocialOptimum(solution=solution, face=face, welfare=federation.welfare(solution.contributions))
