"""Curves of what sharing brings: fitted to gains that were measured, and compared with plain guesses.

Under own choice a member loses nothing by what others share, and gains with it; its gain over its own model alone is
modelled as

    gain_i(s) = value_i g( sum_l w_il s_l ),        w_il >= 0, l the lots of others,

g one of the payoff families. Under one model for all, its own shared records count too, and weights may be of any sign.
A family's scale is in its weights, so a few shapes of g are tried; the one with the least error on profiles left out is
taken. Beside it stand two plain guesses: the gain of the nearest profile, and a linear function of log(1 + s). Curves
that predict worse than these are not used: no deal is made of them.

What is known of a measured gain m_ip is its variance v_ip over records and splits; the fit weighs by it. The best of
noisy measurements is the luckiest, so a member's curve is then shrunk (James and Stein's positive part): by
max(0, 1 - v / m^2), m its gain when everything is shared and v the variance of that. A gain counts as far as it stands
out of its noise, and one below its standard error not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from fedpact.federation import Exponential, Payoff, PowerLaw
from fedpact.fitting.lack_of_fit import baseline_residuals, rms
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr

SHAPES: tuple[Payoff, ...] = (PowerLaw(beta=0.5), PowerLaw(beta=1.0), Exponential(rate=1.0))
NEGLIGIBLE = 1e-6  # of the largest weight of shares: smaller ones are rounding
MIN_SPREAD = 1e-3  # of a gain that was measured without any doubt: a thousandth of the score
LOWEST, MOST = -0.5, 1e3  # weighted data that harm may come to, and weights of everything a lot has
CHANCE = 0.1  # of an error on profiles left out: smaller differences say nothing
FULL = 3.0  # weighted data at which a first guess has everything shared


@dataclass(frozen=True, kw_only=True, eq=False)
class SharingCurves:
    """Fitted gains."""

    shape: Payoff  # The payoff family
    values: FloatArray  # (n,): the most each member can gain, in units of the score
    weights: FloatArray  # (n, lots): how useful each lot's records are to each member
    # (n,): standard errors of the gains when everything is shared, and root mean squared errors on profiles left out
    noise: FloatArray
    left_out: FloatArray
    # Root mean squared error on profiles left out, by what predicts: "curves", "nearest profile", "log-linear", "no
    # gain"
    errors: Mapping[str, float]

    def gains(self, amounts: FloatArray) -> FloatArray:
        """(..., n): what members gain when so many records (..., lots) are shared."""
        return _curve(self.shape, self.values, self.weights, amounts)

    @property
    def gain_errors(self) -> FloatArray:
        """(n,): standard errors of gains by the curves: what records leave open, and what the curves get wrong."""
        return np.hypot(np.maximum(self.noise, MIN_SPREAD), self.left_out)

    @property
    def predicts(self) -> bool:
        """Whether the curves predict what they were not fitted to as well as plain guesses do, but for chance."""
        return self.errors["curves"] <= (1.0 + CHANCE) * min(self.errors.values())


def shapes_of(family: str | None) -> Sequence[Payoff]:
    """The curves to choose from: those of a family, or all."""
    found = [shape for shape in SHAPES if family in (None, shape.family)]
    if not found:
        known = ", ".join(sorted({shape.family for shape in SHAPES}))
        raise InvalidInput(f"family must be one of {known}, got {short_repr(family)}")
    return found


def fit_gains(
    amounts: FloatArray,
    gains: FloatArray,
    variances: FloatArray,
    allowed: NDArray[np.bool_] | None,
    *,
    shapes: Sequence[Payoff] = SHAPES,
) -> SharingCurves:
    """The curves, one of `shapes`, that fit measured gains best.

    `amounts` (profiles, lots) are records shared, `gains` and `variances` (profiles, n) in units of the score;
    `allowed` (n, lots) says which weights may lie above zero, and None that all may have any sign.
    """
    scale = np.maximum(amounts.max(axis=0), 1.0)
    shares = amounts / scale

    def left_out_errors(shape: Payoff) -> FloatArray:
        errors = []
        for held, amount in enumerate(shares):
            kept = np.arange(len(shares)) != held
            fitted = _fit(shape, shares[kept], gains[kept], variances[kept], allowed)
            errors.append(_curve(shape, *fitted, amount) - gains[held])
        return np.array(errors)

    left_out = {shape: left_out_errors(shape) for shape in shapes}
    best = min(shapes, key=lambda shape: rms(left_out[shape]))
    values, weights = _fit(best, shares, gains, variances, allowed)
    full, noise = _curve(best, values, weights, np.ones(len(scale))), variances[np.argmax(shares.sum(axis=1))]
    kept = np.clip(1.0 - np.divide(noise, full**2, out=np.ones_like(full), where=full != 0.0), 0.0, 1.0)
    weights[kept == 0.0] = 0.0
    weights[np.abs(weights) < NEGLIGIBLE * np.abs(weights).max()] = 0.0
    # What simple guesses get wrong on profiles left out.
    nearest, linear = baseline_residuals(shares, np.log1p(10.0 * shares), gains, np.arange(len(shares)))
    plain = {"nearest profile": rms(nearest), "log-linear": rms(linear), "no gain": rms(gains)}
    return SharingCurves(
        shape=best,
        values=kept * values,
        weights=weights / scale,
        noise=np.sqrt(noise),
        left_out=np.sqrt(np.mean(np.square(left_out[best]), axis=0)),
        errors={"curves": rms(left_out[best])} | plain,
    )


def _curve(shape: Payoff, values: FloatArray, weights: FloatArray, shares: FloatArray) -> FloatArray:
    return np.asarray(values * shape.value(np.maximum(shares @ weights.T, LOWEST)))


def _fit(
    shape: Payoff, shares: FloatArray, gains: FloatArray, variances: FloatArray, allowed: NDArray[np.bool_] | None
) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and weights (n, lots) of shares."""
    values, weights = np.zeros(gains.shape[1]), np.zeros((gains.shape[1], shares.shape[1]))
    for member, known in enumerate(gains.T):
        mine = np.ones(shares.shape[1], dtype=bool) if allowed is None else allowed[member]
        spread, shared = np.maximum(np.sqrt(variances[:, member]), MIN_SPREAD), shares[:, mine]

        def residuals(p: FloatArray, x: FloatArray = shared, y: FloatArray = known, by: FloatArray = spread) -> Any:
            return (p[0] * shape.value(np.maximum(x @ p[1:], LOWEST)) - y) / by

        def jacobian(p: FloatArray, x: FloatArray = shared, by: FloatArray = spread) -> Any:
            reach = x @ p[1:]
            inside = np.maximum(reach, LOWEST)
            steep = p[0] * shape.slope(inside) * (reach > LOWEST)
            return np.column_stack([shape.value(inside), steep[:, None] * x]) / by[:, None]

        n = int(mine.sum())
        start = np.append(max(float(known.max()), MIN_SPREAD), np.full(n, FULL / n))
        lowest = np.append(0.0, np.full(n, -MOST if allowed is None else 0.0))
        with np.errstate(all="ignore"):  # a step along which nothing changes
            found = least_squares(residuals, start, jac=jacobian, bounds=(lowest, MOST), x_scale="jac")
        values[member], weights[member, mine] = found.x[0], found.x[1:]
    return values, weights
