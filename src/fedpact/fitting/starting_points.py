"""Where a fit starts: profiles of the misfit over one beta and one scale for all, everybody's data counting alike.

Beta, the scale and the ceiling trade off against each other, so there are several valleys to try: one start per beta,
each with the best scale for it, each followed for a few steps on at most `FEW_ROWS` runs. The best one goes on, first
on at most `SOME_ROWS` runs: the long way through the valley is then over when all runs come in.
"""

from __future__ import annotations

import numpy as np

from fedpact.fitting.gauss_newton import Data, minimise
from fedpact.fitting.parameters import HIGHEST_CURVE, LEAST_RANGE, LOWEST_CURVE, Parameters, Setting
from fedpact.utils.arrays import FloatArray

__all__ = ["first_point", "typical_scale"]

BETAS = (0.05, 0.2, 0.6, 2.0)
TYPICAL_DATA = 5.0  # weighted data of a run in the middle of its curve
SCALES_TRIED = np.linspace(-7.0, 7.0, 15)  # logarithms, around the typical one
TRIAL_STEPS = 12
FEW_ROWS, SOME_ROWS = 400, 1500
WAY = 100  # steps through the valley
LOOSE = 1e-3


def typical_scale(contributions: FloatArray) -> float:
    """The logarithm of the weight with which a typical run reaches `TYPICAL_DATA`: the mean of the scales' prior."""
    totals = contributions.sum(axis=1)
    return float(np.log(TYPICAL_DATA / np.median(totals[totals > 0])))


def first_point(data: Data, setting: Setting, known: FloatArray) -> Parameters:
    """The best of several starts; `known` holds the curve's given parts and NaN elsewhere, (n, 3)."""
    few = _sample(data, FEW_ROWS)
    starts = [_profiled(few, setting, known, beta) for beta in (BETAS if setting.curve.has_shape else (1.0,))]
    tried = [minimise(few, setting, start, most_steps=TRIAL_STEPS, decrement=LOOSE, strict=False) for start in starts]
    best = min(tried, key=lambda found: found.objective).point
    if data.contributions.shape[0] <= SOME_ROWS:
        return best
    return minimise(_sample(data, SOME_ROWS), setting, best, most_steps=WAY, strict=False).point


def _sample(data: Data, most: int) -> Data:
    """At most so many of the runs, spread over all of them."""
    n_runs = data.contributions.shape[0]
    return data.rows(np.unique(np.linspace(0, n_runs - 1, min(n_runs, most)).astype(np.intp)))


def _profiled(data: Data, setting: Setting, known: FloatArray, beta: float) -> Parameters:
    """The best scale for a beta, with the floor and the ceiling that suit it; ratios start at one."""
    n_agents = setting.n_agents
    totals = data.contributions.sum(axis=1)[:, None] * np.ones(n_agents)
    best, least = None, np.inf
    for tried in SCALES_TRIED:
        scale = setting.scale_mean + float(tried)
        curve, _, _ = setting.curve.evaluate(np.exp(scale) * totals, np.log(beta))
        ends = _ends(curve, data)
        curves = np.where(np.isnan(known), np.array([np.log(beta), *ends]), known)
        curves[:, 2] = np.maximum(curves[:, 2], curves[:, 1] + LEAST_RANGE)
        predicted = curves[:, 1] + (curves[:, 2] - curves[:, 1]) * curve
        misfit = float((data.precisions * (data.accuracies - predicted) ** 2).sum())
        if misfit < least:
            ratios = np.where(setting.free_ratios | np.eye(n_agents, dtype=bool), 1.0, 0.0)
            best, least = Parameters(scales=np.full(n_agents, scale), ratios=ratios, curves=curves), misfit
    assert best is not None
    return best


def _ends(curve: FloatArray, data: Data) -> FloatArray:
    """Floor and ceiling by weighted least squares, with a pinch of ridge, inside their limits."""
    columns = np.stack([1.0 - curve, curve], axis=-1)
    gram = np.einsum("ra,rai,raj->ij", data.precisions, columns, columns)
    right = np.einsum("ra,ra,rai->i", data.precisions, data.accuracies, columns)
    pinch = 1e-3 * np.trace(gram) + 1e-12
    floor, ceiling = np.linalg.solve(gram + pinch * np.eye(2), right + pinch * np.array([0.1, 1.0]))
    floor = np.clip(floor, LOWEST_CURVE[1], HIGHEST_CURVE[1] - 2.0 * LEAST_RANGE)
    return np.array([floor, np.clip(ceiling, floor + LEAST_RANGE, HIGHEST_CURVE[2])])
