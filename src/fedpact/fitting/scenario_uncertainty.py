"""The posterior of a fit as a scenario file states it: standard errors and correlations."""

from __future__ import annotations

import numpy as np

from fedpact.fitting.posterior import Posterior
from fedpact.scenario import Uncertainty
from fedpact.utils.arrays import FloatArray

MAX_INLINE = 64  # numbers whose correlations stand in the file itself
FACTOR_DRAWS = 400  # that stand for the correlations of more
FACTOR_SEED = 0
CORRELATION_DIGITS = 6
ERROR_DIGITS = 4


def scenario_uncertainty(posterior: Posterior, rates: FloatArray, *, signs: str, wider: float) -> Uncertainty:
    """Standard errors and correlations in the coordinates of `fedpact.scenario.uncertainty`.

    Parameters
    ----------
    posterior
        The Gaussian around the estimates.
    rates
        What a unit of accuracy is worth: one number, or one per agent (task).
    signs
        Whether weights below zero may be drawn.
    wider
        By how much standard errors are enlarged, since the noise was estimated too.
    """
    point, rules = posterior.point, posterior.rules
    n_tasks, n_noise = rules.n_tasks, rules.n_noise
    one_shape = bool(rules.shared[0])
    one_value = bool(rules.shared[1:].all() and rates.ndim == 0) and bool(
        np.ptp(point.curves[:, 1:], axis=0).max() == 0
    )
    n_numbers = (1 if one_shape else n_tasks) + (1 if one_value else n_tasks) + point.ratios.size
    inline = n_numbers <= MAX_INLINE
    noise = np.eye(n_noise) if inline else np.random.default_rng(FACTOR_SEED).standard_normal((FACTOR_DRAWS, n_noise))
    strayed = _coordinates(posterior, noise, one_shape=one_shape, one_value=one_value)
    strayed = strayed if inline else strayed / np.sqrt(FACTOR_DRAWS)
    errors = np.linalg.norm(strayed, axis=0)
    factor = (strayed / np.where(errors > 0, errors, 1.0)).T
    shape_errors, value_errors, weight_errors = np.split(
        errors * wider, np.cumsum([1 if one_shape else n_tasks, 1 if one_value else n_tasks])
    )
    values = np.broadcast_to(rates, n_tasks) * (point.curves[:, 2] - point.curves[:, 1])
    shapes = np.exp(point.curves[:, 0])
    sizes = posterior.sizes
    if rules.structure is None:
        sizes = sizes.copy()
        np.fill_diagonal(sizes, posterior.units)
    return Uncertainty(
        parameter=_rounded(shape_errors[0] * shapes[0] if one_shape else shape_errors * shapes),
        values=_rounded(value_errors[0] * values[0] if one_value else value_errors * values),
        weights=_rounded(weight_errors.reshape(sizes.shape) * sizes),
        correlations=_correlations(factor) if inline else None,
        factor=None if inline else factor.astype(np.float32),
        signs=signs,
    )


def _coordinates(posterior: Posterior, noise: FloatArray, *, one_shape: bool, one_value: bool) -> FloatArray:
    """(count, numbers): how far the numbers stray in their coordinates, to first order, for given noise."""
    point = posterior.point
    local, shared = posterior.steps(noise)
    curves = local[:, :, -3:] + shared[:, None, -3:]
    ranges = (curves[:, :, 2] - curves[:, :, 1]) / (point.curves[:, 2] - point.curves[:, 1])
    if posterior.rules.structure is None:
        scales, every = local[:, :, :1], np.arange(point.scales.size)
        weights = (point.ratios * scales + local[:, :, 1 : 1 + every.size]) / np.hypot(1.0, point.ratios)
        weights[:, every, every] = scales[:, :, 0]
    else:
        weights = posterior.weight_deviations(local)
    shapes = curves[:, :1, 0] if one_shape else curves[:, :, 0]
    return np.hstack([shapes, ranges[:, :1] if one_value else ranges, weights.reshape(len(noise), -1)])


def _correlations(factor: FloatArray) -> FloatArray:
    matrix = np.round(np.clip(factor @ factor.T, -1.0, 1.0), CORRELATION_DIGITS) + 0.0
    matrix = (matrix + matrix.T) / 2.0
    np.fill_diagonal(matrix, 1.0)
    return matrix


def _rounded(errors: FloatArray) -> FloatArray:
    """Four digits: a person reads them, and no estimate of an error is better than that."""
    sizes = np.abs(errors)
    with np.errstate(divide="ignore"):
        places = np.where(sizes > 0, ERROR_DIGITS - 1 - np.floor(np.log10(sizes)), 0.0)
    power = 10.0 ** np.clip(places, -300, 300)
    return np.asarray(np.round(errors * power) / power)
