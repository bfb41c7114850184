"""Reciprocity: what each agent gets out, a_i + p_i, against its Shapley share phi_i (equation 9 of the paper).

The definition takes the minimum over all equilibria. Where the welfare optima form a face, the payments and the Shapley
values vary over it, so the worst equilibrium is searched: the vertices furthest along each agent's axis and along
random directions, then segments between the worst so far and the others. A search can refute, never prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedpact.utils.arrays import FloatArray, read_only_copy

# Shares and benefits below this part of the largest are rounding, not reasons for a ratio.
NO_SHARE = 1e-13
# Shares up to this part of the largest share or benefit are zero to a reader: no part of them is spoken of.
SHOWN_SHARE_TOLERANCE = 1e-9
MAX_EVALUATIONS, CHEAP_AGENTS = 600, 8  # a quarter of it with more agents, where one takes long
MAX_AXES = 30
MIN_IMPROVEMENT = 1e-12
TIE = 1e-9  # relative: scores of equals differ by rounding
SEGMENT = np.linspace(0.0, 1.0, 9)[1:]


def reciprocity_ratios(benefits: FloatArray, shares: FloatArray) -> FloatArray:
    """benefits / shares; where a share is zero +inf, 1 or -inf as the benefit is positive, zero or negative.

    The last axis runs over the agents of one federation.
    """
    size = np.maximum(np.abs(benefits), np.abs(shares)).max(axis=-1, keepdims=True)
    size = np.maximum(size, np.finfo(float).tiny)
    no_share = np.abs(shares) <= NO_SHARE * size
    no_benefit = np.abs(benefits) <= NO_SHARE * size
    undefined = np.where(no_benefit, 1.0, np.where(benefits > 0, np.inf, -np.inf))
    return np.where(no_share, undefined, benefits / np.where(no_share, 1.0, shares))


def shown_shares(benefits: FloatArray, shares: FloatArray) -> FloatArray:
    """Shapley shares with what is rounding set to zero; the last axis runs over the agents of one federation."""
    size = np.maximum(np.abs(benefits), np.abs(shares)).max(axis=-1, keepdims=True)
    return np.where(np.abs(shares) <= SHOWN_SHARE_TOLERANCE * size, 0.0, shares)


def fair_parts(benefits: FloatArray, shares: FloatArray) -> FloatArray:
    """benefits / shares of those whose share is above zero, NaN for the others.

    Of a share at or below zero no part can be had: the ratio is large where somebody harms a little, and negative where
    it gets more than its share.
    """
    shown = shown_shares(benefits, shares)
    return np.where(shown > 0, benefits / np.where(shown > 0, shares, 1.0), np.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class EquilibriumBenefits:
    """Payments, benefits and Shapley values at one equilibrium."""

    contributions: FloatArray
    payments: FloatArray
    benefits: FloatArray
    shares: FloatArray

    @property
    def ratios(self) -> FloatArray:
        """(a_i + p_i) / phi_i."""
        return reciprocity_ratios(self.benefits, self.shares)

    @property
    def gaps(self) -> FloatArray:
        """a_i + p_i - phi_i."""
        return self.benefits - self.shares


class EquilibriumFace(Protocol):
    """The set of equilibria around one of them."""

    @property
    def point(self) -> FloatArray: ...
    @property
    def free(self) -> np.ndarray: ...
    @property
    def is_point(self) -> bool: ...
    def vertex(self, direction: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WorstReciprocity:
    """The lowest reciprocity over the equilibria that were looked at.

    Attributes
    ----------
    value, agent
        The lowest ratio, and the agent that has it.
    contributions, payments, ratios
        The equilibrium at which it has it.
    gap, gap_agent, gap_contributions, gap_payments
        The lowest a_i + p_i - phi_i, its agent and its equilibrium: with negative Shapley values another than above.
    searched
        How many equilibria were looked at.
    """

    value: float
    agent: int
    contributions: FloatArray
    payments: FloatArray
    ratios: FloatArray
    gap: float
    gap_agent: int
    gap_contributions: FloatArray
    gap_payments: FloatArray
    searched: int


def worst_over_face(
    face: EquilibriumFace | None, start: FloatArray, evaluate: Callable[[FloatArray], EquilibriumBenefits]
) -> WorstReciprocity:
    """The worst reciprocity found over the face of equilibria that holds `start`."""
    seen = [evaluate(start)]
    if face is not None and not face.is_point:
        corners = _corners(face)
        seen += [evaluate(corner) for corner in corners]
        most = MAX_EVALUATIONS if start.size <= CHEAP_AGENTS else MAX_EVALUATIONS // 4
        for score in (_lowest_ratio, _lowest_gap):
            _descend(seen, corners, evaluate, score, most)
    by_ratio = seen[_first_lowest([_lowest_ratio(equilibrium) for equilibrium in seen])]
    by_gap = seen[_first_lowest([_lowest_gap(equilibrium) for equilibrium in seen])]
    ratios = by_ratio.ratios
    agent, gap_agent = _first_lowest(ratios), _first_lowest(by_gap.gaps)
    return WorstReciprocity(
        value=float(ratios.min()),
        agent=agent,
        contributions=read_only_copy(by_ratio.contributions),
        payments=read_only_copy(by_ratio.payments),
        ratios=read_only_copy(ratios),
        gap=float(by_gap.gaps.min()),
        gap_agent=gap_agent,
        gap_contributions=read_only_copy(by_gap.contributions),
        gap_payments=read_only_copy(by_gap.payments),
        searched=len(seen),
    )


def _descend(
    seen: list[EquilibriumBenefits],
    corners: list[FloatArray],
    evaluate: Callable[[FloatArray], EquilibriumBenefits],
    score: Callable[[EquilibriumBenefits], float],
    most: int,
) -> None:
    """From the worst so far, try the segments to all corners, as long as that makes it worse; extends `seen`."""
    improved = True
    while improved and len(seen) + len(corners) * len(SEGMENT) <= most:
        origin = min(seen, key=score)
        tried = [
            evaluate(origin.contributions + share * (corner - origin.contributions))
            for corner in corners
            for share in SEGMENT
        ]
        improved = score(min(tried, key=score)) < score(origin) - MIN_IMPROVEMENT
        seen += tried


def _first_lowest(scores: ArrayLike) -> int:
    """The first of those that are lowest but for rounding: among equals rounding differs from machine to machine."""
    each = np.asarray(scores, dtype=np.float64)
    lowest = each.min()
    return int(np.argmax(each <= lowest + TIE * abs(lowest))) if np.isfinite(lowest) else int(np.argmin(each))


def _lowest_ratio(equilibrium: EquilibriumBenefits) -> float:
    return float(equilibrium.ratios.min()) if np.isfinite(equilibrium.shares).all() else np.inf


def _lowest_gap(equilibrium: EquilibriumBenefits) -> float:
    return float(equilibrium.gaps.min()) if np.isfinite(equilibrium.shares).all() else np.inf


def _corners(face: EquilibriumFace) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    n_agents = face.point.size
    axes = [sign * np.eye(n_agents)[agent] for agent in face.free[:MAX_AXES] for sign in (1.0, -1.0)]
    random = list(rng.standard_normal((min(2 * len(axes), 20), n_agents)))
    size = max(float(np.abs(face.point).max()), np.finfo(float).tiny)
    found = {tuple(np.round(corner / size, 9)): corner for corner in (face.vertex(axis) for axis in axes + random)}
    return list(found.values())
