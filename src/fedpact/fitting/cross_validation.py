"""Which family of curves suits a log: the one that predicts best the runs it has not seen.

The runs are shared out into folds, repeats of the same contributions into the same one. Each family is fitted to all
folds but one and predicts that one. The squared errors of two families on the same runs are compared run by run, so the
noise that both share cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.accuracy_curves import CURVE_FAMILIES
from fedpact.fitting.observations import Observations
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged

if TYPE_CHECKING:
    from fedpact.fitting.result import Fit

AUTO_FAMILY = "auto"
FOLDS = 5
FOLD_SEED = 0

FitFamily = Callable[[Observations, str, "Fit | None"], "Fit"]


@dataclass(frozen=True, kw_only=True)
class FamilyComparison:
    """How well each family predicts runs it has not seen.

    Attributes
    ----------
    errors
        By family: root mean square of the errors, in accuracy; families whose fit did not settle are left out.
    chosen
        The family with the smallest.
    as_good
        Families that the log cannot tell from it: their squared errors are larger by less than one standard error.
    """

    errors: Mapping[str, float]
    chosen: str
    as_good: tuple[str, ...]


def compare_families(
    observations: Observations, fit_family: FitFamily, *, progress: Callable[[str], None] | None = None
) -> FamilyComparison:
    """Fit every family on folds of the runs, and compare what they predict of the others.

    Raises
    ------
    InvalidInput
        If there are no two runs with different contributions.
    NotConverged
        If no family could be fitted.
    """
    folds = _folds(observations.repeats)
    squares: dict[str, FloatArray] = {}
    for family in CURVE_FAMILIES:
        if progress is not None:
            progress(f"comparing families: {family}")
        try:
            squares[family] = _squared_errors(observations, fit_family, family, folds)
        except NotConverged:
            continue
    if not squares:
        raise NotConverged("no family of curves could be fitted to all folds of the runs")
    errors = {family: float(np.sqrt(np.nanmean(found))) for family, found in squares.items()}
    chosen = min(errors, key=errors.__getitem__)
    return FamilyComparison(
        errors=errors,
        chosen=chosen,
        as_good=tuple(
            family
            for family in errors
            if family != chosen and not _is_worse(squares[family] - squares[chosen], observations.repeats)
        ),
    )


def _folds(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """(runs,): the fold of each run."""
    n_groups = int(groups.max()) + 1
    if n_groups < 2:
        raise InvalidInput(
            "family auto needs runs with different contributions to compare families by; name a family instead"
        )
    order = np.random.default_rng(FOLD_SEED).permutation(n_groups)
    return np.asarray(order[groups] % min(FOLDS, n_groups), dtype=np.intp)


def _squared_errors(
    observations: Observations, fit_family: FitFamily, family: str, folds: NDArray[np.intp]
) -> FloatArray:
    """(runs, n): of predictions of each run by a fit that has not seen it; NaN where nothing was measured."""
    squares = np.full(observations.accuracies.shape, np.nan)
    whole = fit_family(observations, family, None)
    for fold in range(int(folds.max()) + 1):
        unseen = folds == fold
        seen = _part(observations, ~unseen)
        found = fit_family(seen, family, whole)
        predicted = found.predict(observations.contributions[unseen])
        squares[unseen] = (observations.accuracies[unseen] - predicted) ** 2
    return squares


def _part(observations: Observations, kept: NDArray[np.bool_]) -> Observations:
    """Some of the runs; agents that were measured in none of them are the prior's."""
    return replace(
        observations,
        contributions=observations.contributions[kept],
        accuracies=observations.accuracies[kept],
        test_sizes=observations.test_sizes[kept],
        rows=tuple(np.array(observations.rows)[kept].tolist()),
    )


def _is_worse(differences: FloatArray, groups: NDArray[np.intp]) -> bool:
    """Whether squared errors are larger by more than a standard error; runs with the same contributions count once."""
    sums = np.bincount(groups, np.nansum(differences, axis=1))
    return bool(sums.mean() > sums.std(ddof=1) / np.sqrt(sums.size))
