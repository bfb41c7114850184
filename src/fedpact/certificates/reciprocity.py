"""Reciprocity: what each agent gets out, a_i + p_i, against its Shapley share phi_i (equation 9 of the paper).

The definition takes the minimum over all equilibria. Where the welfare optima form a face, the payments and the Shapley
values vary over it, so the worst equilibrium is searched: the vertices furthest along each lot's axis, then segments
between the worst of them and the others. A search can refute, never prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedpact.certificates.claims import Certificate, Claim, about
from fedpact.certificates.shapley_check import CheckedShares, check_shares
from fedpact.utils.arrays import FloatArray, read_only_copy

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome
    from fedpact.solvers.welfare import OptimalFace

# Shares and benefits below this part of the largest are rounding, not reasons for a ratio.
NO_SHARE = 1e-13
# Shares up to this part of the largest share or benefit are zero to a reader: no part of them is spoken of.
SHOWN_SHARE_TOLERANCE = 1e-9
MAX_AXES = 30
TIE = 1e-9  # relative: scores of equals differ by rounding
SEGMENT = np.linspace(0.0, 1.0, 9)[1:-1]


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
class WorstReciprocity:
    """The lowest reciprocity over the equilibria that were looked at."""

    # value, agent: The lowest ratio, and the agent that has it
    value: float
    agent: int
    # contributions, payments: The equilibrium at which it has it
    contributions: FloatArray
    payments: FloatArray
    # gap, gap_contributions, gap_payments: The lowest a_i + p_i - phi_i and its equilibrium: with negative Shapley
    # values another than above
    gap: float
    gap_contributions: FloatArray
    gap_payments: FloatArray
    searched: int  # how many equilibria were looked at


Evaluate = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]


def worst_over_face(face: OptimalFace | None, start: FloatArray, evaluate: Evaluate) -> WorstReciprocity:
    """The worst reciprocity found over the face of equilibria that holds `start`.

    `evaluate` gives payments, benefits a_i + p_i and Shapley values, (equilibria, members) each, at profiles
    (equilibria, lots). Those without Shapley values are no worse than any.
    """

    def measure(profiles: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        payments, benefits, shares = evaluate(profiles)
        unknown = np.array(~np.isfinite(shares).all(axis=1, keepdims=True))
        unknown[0] = False
        ratios, gaps = reciprocity_ratios(benefits, shares), benefits - shares
        return payments, np.where(unknown, np.inf, ratios), np.where(unknown, np.inf, gaps)

    profiles = start[None]
    if face is not None and not face.is_point:
        corners = _corners(face)
        profiles = np.concatenate([profiles, corners])
        origins = profiles[[int(np.argmin(scores.min(axis=1))) for scores in measure(profiles)[1:]]]
        segments = origins[:, None, None] + SEGMENT[:, None] * (corners - origins[:, None])[:, :, None]
        profiles = np.concatenate([profiles, segments.reshape(-1, start.size)])
    payments, ratios, gaps = measure(profiles)
    by_ratio, by_gap = (_first_lowest(scores.min(axis=1)) for scores in (ratios, gaps))
    return WorstReciprocity(
        value=float(ratios[by_ratio].min()),
        agent=_first_lowest(ratios[by_ratio]),
        contributions=read_only_copy(profiles[by_ratio]),
        payments=read_only_copy(payments[by_ratio]),
        gap=float(gaps[by_gap].min()),
        gap_contributions=read_only_copy(profiles[by_gap]),
        gap_payments=read_only_copy(payments[by_gap]),
        searched=len(profiles),
    )


def _first_lowest(scores: FloatArray) -> int:
    """The first of those that are lowest but for rounding: among equals rounding differs from machine to machine."""
    lowest = scores.min()
    return int(np.argmax(scores <= lowest + TIE * abs(lowest))) if np.isfinite(lowest) else int(np.argmin(scores))


def _corners(face: OptimalFace) -> FloatArray:
    """The vertices furthest along the axes of the lots that vary, either way; each once."""
    axes = [sign * np.eye(face.point.size)[lot] for lot in face.free[:MAX_AXES] for sign in (1.0, -1.0)]
    size = max(float(np.abs(face.point).max()), np.finfo(float).tiny)
    found = {tuple(np.round(corner / size, 9)): corner for corner in map(face.vertex, axes)}
    return np.array(list(found.values()))


def certify_reciprocity(outcome: Outcome, shares: CheckedShares | None) -> Certificate:
    """Everybody gets out at least its Shapley share, at every equilibrium."""
    tol = float(outcome.tolerances.sum())
    if shares is None:
        scope = "some coalition leaves the domain, so there are no Shapley values to compare with"
        return Certificate.undefined(Claim.RECIPROCITY, tol, scope)
    benefits = outcome.payoffs + outcome.payments
    gaps = benefits - shares.values
    agent = int(np.argmin(gaps))
    witness = about(outcome, agent) | {
        "benefit": float(benefits[agent]),
        "shapley_value": float(shares.values[agent]),
    }
    worst, margin, scope = (
        outcome.worst_reciprocity,
        float(gaps[agent]),
        f"this profile, with shares by {shares.method}",
    )
    if worst.searched > 1:
        scope, names = "every equilibrium found on the face of optima", outcome.federation.names
        there = check_shares(outcome.played, worst.gap_contributions)  # what the search says is worked out anew
        if there is not None:
            found = outcome.played.payoffs(worst.gap_contributions) + worst.gap_payments - there.values
            margin = min(margin, float(found.min()))
            witness |= {
                "worst_gap": float(found.min()),
                "worst_gap_agent": names[int(np.argmin(found))],
                "worst_gap_contributions": worst.gap_contributions.tolist(),
                "worst_ratio": worst.value,
                "worst_agent": names[worst.agent],
                "worst_contributions": worst.contributions.tolist(),
            }
    witness |= {"equilibria_searched": worst.searched}
    proven = worst.searched == 1 and shares.proves
    tol += shares.error
    return Certificate.judge(Claim.RECIPROCITY, margin, tol, scope, witness, proven=proven, refuted=shares.proves)
