"""Reciprocity: what each agent gets out, a_i + p_i, against its Shapley share phi_i (equation 9 of the paper).

The definition takes the minimum over all equilibria. Where the welfare optima form a face, the payments and the Shapley
values vary over it, so the worst equilibrium is searched: the vertices furthest along each agent's axis and along
random directions, then segments between the worst so far and the others. A search can refute, never prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedpact.arrays import FloatArray, frozen
from fedpact.programs.face import OptimalFace

__all__ = ["Evaluation", "WorstReciprocity", "reciprocity_ratios", "worst_over_face"]

# Shares and benefits below this part of the largest are rounding, not reasons for a ratio.
NEGLIGIBLE = 1e-13
MOST_EVALUATIONS = 600
SEGMENT = np.linspace(0.0, 1.0, 9)[1:]


def reciprocity_ratios(benefits: FloatArray, shares: FloatArray) -> FloatArray:
    """benefits / shares; where a share is zero +inf, 1 or -inf as the benefit is positive, zero or negative."""
    size = max(float(np.abs(benefits).max()), float(np.abs(shares).max()), np.finfo(float).tiny)
    no_share = np.abs(shares) <= NEGLIGIBLE * size
    no_benefit = np.abs(benefits) <= NEGLIGIBLE * size
    undefined = np.where(no_benefit, 1.0, np.where(benefits > 0, np.inf, -np.inf))
    return np.where(no_share, undefined, benefits / np.where(no_share, 1.0, shares))


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """Payments, benefits and Shapley values at one equilibrium."""

    contributions: FloatArray
    payments: FloatArray
    benefits: FloatArray
    shares: FloatArray

    @property
    def ratios(self) -> FloatArray:
        """(a_i + p_i) / phi_i."""
        return reciprocity_ratios(self.benefits, self.shares)


@dataclass(frozen=True, kw_only=True, eq=False)
class WorstReciprocity:
    """The lowest reciprocity ratio over the equilibria, and the equilibrium and agent that attain it."""

    value: float
    agent: int
    contributions: FloatArray
    payments: FloatArray
    ratios: FloatArray
    gap: float
    searched: int


def worst_over_face(
    face: OptimalFace | None, start: FloatArray, evaluate: Callable[[FloatArray], Evaluation]
) -> WorstReciprocity:
    """The worst reciprocity found over the face of equilibria that holds `start`."""
    best = _scored(evaluate(start))
    searched = 1
    if face is not None and not face.is_point:
        corners = _corners(face)
        for corner in corners:
            best = min(best, _scored(evaluate(corner)), key=lambda scored: scored[0])
            searched += 1
        improved = True
        while improved and searched < MOST_EVALUATIONS:
            improved = False
            for corner in corners:
                origin = best[1].contributions
                for share in SEGMENT:
                    tried = _scored(evaluate(origin + share * (corner - origin)))
                    searched += 1
                    if tried[0] < best[0] - 1e-12:
                        best, improved = tried, True
    ratios = best[1].ratios
    agent = int(np.argmin(ratios))
    return WorstReciprocity(
        value=float(ratios[agent]),
        agent=agent,
        contributions=frozen(best[1].contributions),
        payments=frozen(best[1].payments),
        ratios=frozen(ratios),
        gap=float((best[1].benefits - best[1].shares)[agent]),
        searched=searched,
    )


def _scored(evaluation: Evaluation) -> tuple[float, Evaluation]:
    worst = float(evaluation.ratios.min())
    return (worst if np.isfinite(evaluation.shares).all() else np.inf), evaluation


def _corners(face: OptimalFace) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    n_agents = face.point.size
    axes = [sign * np.eye(n_agents)[agent] for agent in face.free[: MOST_EVALUATIONS // 20] for sign in (1.0, -1.0)]
    random = list(rng.standard_normal((min(2 * len(axes), 20), n_agents)))
    found = {tuple(np.round(corner, 9)): corner for corner in (face.vertex(axis) for axis in axes + random)}
    return list(found.values())
