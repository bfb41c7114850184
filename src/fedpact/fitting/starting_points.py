"""Where a fit starts: profiles of the misfit over one beta and one scale for all, everybody's data counting alike.

Beta, the scale and the ceiling trade off against each other, so there are several valleys to try: one start per beta,
each with the best scale for it, each followed for a few steps on at most `TRIAL_ROWS` runs. The best one goes on, first
on at most `VALLEY_ROWS` runs: the long way through the valley is then over when all runs come in.
"""

from __future__ import annotations

import numpy as np

from fedpact.fitting.gauss_newton import WeightedRuns, minimise
from fedpact.fitting.parameters import MAX_CURVE, MIN_CURVE, MIN_RANGE, FitRules, Parameters
from fedpact.utils.arrays import FloatArray

BETAS = (0.05, 0.2, 0.6, 2.0)
TYPICAL_DATA = 5.0  # weighted data of a run in the middle of its curve
SCALES_TRIED = np.linspace(-7.0, 7.0, 15)  # logarithms, around the typical one
TRIAL_STEPS = 12
TRIAL_ROWS, VALLEY_ROWS = 400, 1500
FIRST_RANGE = 1.5 * MIN_RANGE  # where accuracies fall with data: a little more than rounding may take away
VALLEY_STEPS = 100
TRIAL_DECREMENT = 1e-3


def typical_scale(contributions: FloatArray) -> float:
    """The logarithm of the weight with which a typical run reaches `TYPICAL_DATA`: the mean of the scales' prior."""
    totals = contributions.sum(axis=1)
    return float(np.log(TYPICAL_DATA / np.median(totals[totals > 0])))


def first_point(data: WeightedRuns, rules: FitRules, known: FloatArray) -> Parameters:
    """The best of several starts; `known` holds the curve's given parts and NaN elsewhere, (n, 3)."""
    few = _sample(data, TRIAL_ROWS)
    starts = [_profiled(few, rules, known, beta) for beta in (BETAS if rules.curve.has_shape else (1.0,))]
    tried = [
        minimise(few, rules, start, max_steps=TRIAL_STEPS, decrement=TRIAL_DECREMENT, strict=False) for start in starts
    ]
    best = min(tried, key=lambda found: found.objective).point
    if data.contributions.shape[0] <= VALLEY_ROWS:
        return best
    return minimise(_sample(data, VALLEY_ROWS), rules, best, max_steps=VALLEY_STEPS, strict=False).point


def _sample(data: WeightedRuns, most: int) -> WeightedRuns:
    """At most so many of the runs, posterior over all of them."""
    n_runs = data.contributions.shape[0]
    return data.rows(np.unique(np.linspace(0, n_runs - 1, min(n_runs, most)).astype(np.intp)))


def _profiled(data: WeightedRuns, rules: FitRules, known: FloatArray, beta: float) -> Parameters:
    """The best scale for a beta, with the floor and the ceiling that suit it; ratios start at one."""
    n_tasks = rules.n_tasks
    totals = data.contributions.sum(axis=1)[:, None] * np.ones(n_tasks)
    best, least = None, np.inf
    for tried in SCALES_TRIED:
        scale = rules.scale_mean + float(tried)
        curve, _, _ = rules.curve.evaluate(np.exp(scale) * totals, np.log(beta))
        ends = _ends(curve, data)
        curves = np.where(np.isnan(known), np.array([np.log(beta), *ends]), known)
        curves[:, 2] = np.maximum(curves[:, 2], curves[:, 1] + FIRST_RANGE)
        predicted = curves[:, 1] + (curves[:, 2] - curves[:, 1]) * curve
        misfit = float((data.precisions * (data.accuracies - predicted) ** 2).sum())
        if misfit < least:
            ratios, parts = np.where(rules.free_ratios | rules.anchors, 1.0, 0.0), np.zeros(rules.n_parts)
            scales = np.full(n_tasks, scale)
            best, least = Parameters(scales=scales, ratios=ratios, curves=curves, parts=parts), misfit
    assert best is not None
    return best


def _ends(curve: FloatArray, data: WeightedRuns) -> FloatArray:
    """Floor and ceiling by weighted least squares, with a pinch of ridge, inside their limits."""
    columns = np.stack([1.0 - curve, curve], axis=-1)
    gram = np.einsum("ra,rai,raj->ij", data.precisions, columns, columns)
    right = np.einsum("ra,ra,rai->i", data.precisions, data.accuracies, columns)
    pinch = 1e-3 * np.trace(gram) + 1e-12
    floor, ceiling = np.linalg.solve(gram + pinch * np.eye(2), right + pinch * np.array([0.1, 1.0]))
    floor = np.clip(floor, MIN_CURVE[1], MAX_CURVE[1] - 2.0 * MIN_RANGE)
    return np.array([floor, np.clip(ceiling, floor + FIRST_RANGE, MAX_CURVE[2])])
