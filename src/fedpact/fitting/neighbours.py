"""Do runs with similar contributions miss the curves alike? Noise does not; curves that do not fit do.

Residuals r of an agent are taken as a smooth function of the contributions plus noise, a Gaussian process over the runs

    r ~ N(0, v (share K + (1 - share) I)),        K_ab = exp(-|x_a - x_b|^2 / (2 l^2)),

with x the logarithms of the contributions and share the part of the variance that is smooth. Share and length l are
those of greatest likelihood, all agents taken together. Twice the gain in log-likelihood over share 0 is compared with
half a chi-square of one degree of freedom, for each length tried (the share cannot be negative). Residuals are what a
fit has left, so what it could follow is gone and the comparison errs on the side of noise.

The cost is an eigendecomposition of at most `MAX_RUNS` runs for each pattern of missing accuracies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from fedpact.utils.arrays import FloatArray

LENGTHS = (0.5, 1.0, 2.0)  # in logarithms of contributions
SHARES = np.linspace(0.0, 0.98, 50)
LINEAR_BELOW = 1.0 / 3.0  # of the median contribution: smaller ones differ by their difference, not their ratio
MAX_RUNS = 250
MIN_RUNS = 8


@dataclass(frozen=True, kw_only=True)
class SmoothPart:
    """The part of the residuals' variance that is smooth in the contributions, and twice its log-likelihood ratio."""

    share: float = 0.0
    statistic: float = 0.0

    def p_value(self, crowding: float) -> float:
        """How likely noise is to look so smooth; `crowding` squares of one run count as one."""
        if self.statistic <= 0.0:
            return 1.0
        return min(1.0, len(LENGTHS) * 0.5 * float(chdtrc(1.0, self.statistic / crowding)))


def smooth_part(residuals: FloatArray, contributions: FloatArray) -> SmoothPart:
    """Of residuals over their standard deviations, (runs, n), NaN where nothing was measured."""
    positive = contributions[contributions > 0]
    places = np.log1p(contributions / (LINEAR_BELOW * np.median(positive)))
    likelihoods = np.zeros((len(LENGTHS), SHARES.size))
    squares, count = np.zeros_like(likelihoods), 0
    for agents, runs in _patterns(~np.isnan(residuals)):
        if runs.size < MIN_RUNS:
            continue
        apart = ((places[runs, None, :] - places[None, runs, :]) ** 2).sum(axis=2)
        seen = residuals[np.ix_(runs, agents)]
        count += seen.size
        for place, length in enumerate(LENGTHS):
            strengths, directions = np.linalg.eigh(np.exp(-apart / (2.0 * length**2)))
            variances = SHARES * np.maximum(strengths, 0.0)[:, None] + 1.0 - SHARES  # (runs, shares)
            power = ((directions.T @ seen) ** 2).sum(axis=1)
            squares[place] += (power[:, None] / variances).sum(axis=0)
            likelihoods[place] -= 0.5 * agents.size * np.log(variances).sum(axis=0)
    if not count or not squares[0, 0] > 0.0:
        return SmoothPart()
    likelihoods -= 0.5 * count * np.log(squares)
    best = int(likelihoods.argmax())
    gain = float(likelihoods.flat[best] - likelihoods[0, 0])
    return SmoothPart(share=float(SHARES[best % SHARES.size]), statistic=2.0 * gain)


def _patterns(measured: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Agents that were measured in the same runs, and at most so many of these, spread over all of them."""
    found, member = np.unique(measured, axis=1, return_inverse=True)
    patterns = []
    for number, pattern in enumerate(found.T):
        runs = np.flatnonzero(pattern)
        chosen = np.unique(np.linspace(0, runs.size - 1, min(runs.size, MAX_RUNS)).astype(np.intp))
        patterns.append((np.flatnonzero(member.ravel() == number), runs[chosen]))
    return patterns
