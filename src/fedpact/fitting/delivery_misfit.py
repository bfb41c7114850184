"""Whether the curves fit the accuracies of subset models, and what follows if they do not.

A floor, a ceiling or a shape of the curve that is wrong bends everybody's predictions, and shares bend with them until
honest members look as if they had delivered too little. Accuracies are linear in floors and ceilings, so whether others
would fit better can be tested: by how much the squared residuals would fall with another floor, ceiling and shape
common to all, and with a floor and a ceiling of every member's own, held against what chance would do (two F tests;
the smaller p-value, doubled, counts).

If the fall is clear, floors, ceilings and shape are no longer taken as known: how far each kind is off enters the
errors as a doubt of that size, the shares are fitted anew, and intervals are as wide as that leaves them (embedded
model error, as `fedpact.fitting.lack_of_fit` has it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtrc

from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.fitting.subset_models import SharesFit, SubsetModels

SHAPE_STEP = 1e-4  # of the parameter, to see which way the curve bends
RANK_TOL = 1e-9  # directions that add less than this are none
MISFIT_P_VALUE = 0.05  # not to rely on curves that fit costs little; to rely on others flags the honest
MIN_END_DOUBT = 0.05  # in accuracy
MAX_SHAPE_DOUBT = 0.2  # of the parameter
N_MISFITS = 3  # floors, ceilings, shape


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveMisfit:
    """How far the curves are from the accuracies of the subset models.

    Attributes
    ----------
    p_value
        How likely accuracies so far from the curves are if floors, ceilings and shape are right; NaN if there are too
        few models to tell.
    sizes
        By how much floors and ceilings (in accuracy) and the shape (as a share of its parameter) seem to be off; root
        mean squares over the members.
    """

    p_value: float
    sizes: tuple[float, float, float]

    @property
    def doubts(self) -> tuple[float, float, float]:
        """How far off floors, ceilings and shape may be: nobody can tell for sure which of the ends is wrong."""
        ends = max(*self.sizes[:2], MIN_END_DOUBT)
        return ends, ends, min(self.sizes[2], MAX_SHAPE_DOUBT)

    @property
    def is_clear(self) -> bool:
        """Whether the curves are no longer relied on."""
        return self.p_value < MISFIT_P_VALUE

    @property
    def text(self) -> str | None:
        """What a reader has to know, if anything."""
        if not self.is_clear:
            return None
        chance = f"{self.p_value:.2g}" if self.p_value >= 0.001 else "below 0.001"
        return (
            f"the curves do not fit the accuracies (p {chance}): floors seem to be off by about {self.sizes[0]:.2f} "
            f"and ceilings by {self.sizes[1]:.2f}. Shares are estimated without relying on them: intervals are wider, "
            f"what all shares have in common cannot be told, and members are held against the one in the middle; "
            f"give the accuracy without data and with all data as measured, or fit the curves anew"
        )


def misfit_columns(models: SubsetModels, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(measurements, columns): by which accuracies grow with each floor, ceiling and the shape; and the columns' kinds.

    A column for every member that measured, for floors and for ceilings, and one for the shape if the family has one.
    """
    where = models.places
    curve = models.curves(shares)[where]
    own = models.member_indicators[:, models.member_indicators.any(axis=0)]
    columns = [(1.0 - curve)[:, None] * own, curve[:, None] * own]
    payoff = models.federation.payoff
    if payoff.parameters:
        bent = type(payoff)(**{name: number * (1.0 + SHAPE_STEP) for name, number in payoff.parameters.items()})
        change = (models.curves(shares, bent)[where] - curve) / SHAPE_STEP
        columns.append((change * (models.ceilings - models.floors)[where[1]])[:, None])
    kinds = [np.full(column.shape[1], kind) for kind, column in enumerate(columns)]
    return np.hstack(columns), np.concatenate(kinds)


def curve_misfit(models: SubsetModels, found: SharesFit) -> CurveMisfit:
    """Judge what the curves miss at the shares found."""
    columns, kinds = misfit_columns(models, found.shares)
    slopes = models.slopes(found.shares)[:, models.identified & (found.shares > 0.0)]
    residuals = models.residuals(found.shares)
    both = np.hstack([slopes, columns])
    common = np.stack([columns[:, kinds == kind].sum(axis=1) for kind in np.unique(kinds)], axis=1)
    p_values = [_f_test(models, found, slopes, more, residuals) for more in (common, columns)]
    told = [p_value for p_value in p_values if np.isfinite(p_value)]
    p_value = min(1.0, len(told) * min(told)) if told else np.nan
    change = _fall(found, both, residuals)[2][slopes.shape[1] :]
    sizes = [
        float(np.sqrt((change[kinds == kind] ** 2).mean())) if (kinds == kind).any() else 0.0
        for kind in range(N_MISFITS)
    ]
    return CurveMisfit(p_value=p_value, sizes=(sizes[0], sizes[1], sizes[2]))


def _f_test(
    models: SubsetModels, found: SharesFit, slopes: FloatArray, more: FloatArray, residuals: FloatArray
) -> float:
    """How likely the fall of the squares by more columns is by chance; NaN if there are too few models to tell."""
    before, known, _ = _fall(found, slopes, residuals)
    after, rank, _ = _fall(found, np.hstack([slopes, more]), residuals)
    added, degrees = rank - known, models.seen.n_runs - rank
    if degrees < 1 or added < 1:
        return np.nan
    return float(fdtrc(added, degrees, max(after - before, 0.0) / added))


def _fall(found: SharesFit, columns: FloatArray, residuals: FloatArray) -> tuple[float, int, FloatArray]:
    """By how much squares fall with these columns, how many of them count, and the step along each."""
    if not columns.shape[1]:
        return 0.0, 0, np.empty(0)
    gram = found.covariance.inner(columns, columns)
    pull = found.covariance.inner(columns, residuals)
    lengths = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    kept = values > RANK_TOL * values.max()
    parts = (vectors.T @ (pull / lengths))[kept]
    step = vectors[:, kept] @ (parts / values[kept]) / lengths
    return float((parts**2 / values[kept]).sum()), int(kept.sum()), step
