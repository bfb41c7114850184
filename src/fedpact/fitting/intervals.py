"""Standard errors and intervals of a fit's estimates, from the posterior around them.

Ends are taken in the coordinates in which the posterior is closest to Gaussian (`fedpact.fitting.posterior`) and then
brought back, so the intervals of weights, beta and values are not symmetric. `weight_errors` are the standard errors
of the weights in those coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpact.fitting.posterior import Posterior
from fedpact.utils.arrays import FloatArray, read_only_copy


def standard_errors(posterior: Posterior, weight_errors: FloatArray) -> Mapping[str, Any]:
    """By name, in the shape of the estimate."""
    point, rules, curves = posterior.point, posterior.rules, posterior.curve_errors
    sizes = posterior.sizes
    if rules.structure is None:
        sizes = sizes.copy()
        np.fill_diagonal(sizes, posterior.units)
    errors: dict[str, Any] = {"weights": read_only_copy(weight_errors * sizes)}
    if rules.curve.has_shape:
        numbers = curves[:, 0] * np.exp(point.curves[:, 0])
        errors["beta"] = float(numbers[0]) if rules.shared[0] else read_only_copy(numbers)
    errors |= {"floors": read_only_copy(curves[:, 1]), "ceilings": read_only_copy(curves[:, 2])}
    errors["values"] = read_only_copy(posterior.log_range_errors * (point.curves[:, 2] - point.curves[:, 1]))
    return errors


def intervals(posterior: Posterior, weight_errors: FloatArray, width: float) -> Mapping[str, FloatArray]:
    """From `width` standard errors below to as many above, by name; the last axis is (lower, upper)."""
    point, rules, curves = posterior.point, posterior.rules, posterior.curve_errors
    found: dict[str, FloatArray] = {}
    if rules.curve.has_shape:
        ends = np.exp(_ends(point.curves[:, 0], width * curves[:, 0]))
        found["beta"] = read_only_copy(ends[0] if rules.shared[0] else ends)
    found["weights"] = read_only_copy(_weight_intervals(posterior, weight_errors, width))
    for place, label in ((1, "floors"), (2, "ceilings")):
        found[label] = read_only_copy(np.clip(_ends(point.curves[:, place], width * curves[:, place]), 0.0, 1.0))
    ranges = np.exp(_ends(np.log(point.curves[:, 2] - point.curves[:, 1]), width * posterior.log_range_errors))
    found["values"] = read_only_copy(np.minimum(ranges, 1.0))
    return found


def _weight_intervals(posterior: Posterior, weight_errors: FloatArray, width: float) -> FloatArray:
    weights, own = posterior.point.weights, posterior.units
    every = np.arange(len(weights))
    with np.errstate(over="ignore"):  # what the data says nothing of, without a prior, may be anything
        ends = own[:, :, None] * np.sinh(_ends(np.arcsinh(weights / own), width * weight_errors))
        if posterior.rules.structure is None:
            ends[every, every] = own * np.exp(_ends(np.zeros(len(weights)), width * weight_errors.diagonal()))
    return ends if posterior.rules.signed else np.maximum(ends, 0.0)


def _ends(middle: FloatArray, reach: FloatArray) -> FloatArray:
    return np.stack([middle - reach, middle + reach], axis=-1)
