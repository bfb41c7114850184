"""How good predictions are, by any score of scikit-learn, and what is known of a difference between two.

**Paired.** Two arrangements are tested on the same records in the same splits. What is known of the difference of
their scores d is by leaving out groups of records (delete-a-group jackknife, G groups, or clusters of records that
belong together): with d_g the difference without group g and d' their mean,

    variance = (G - 1) / G sum_g (d_g - d')^2  +  (variance of d over splits) / (number of splits).

It serves scores that are no averages over records, such as the area under the ROC curve, as well as those that are.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy.stats import rankdata

from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, Index, Records
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr

DEFAULT_SCORES = {CLASSIFICATION: "accuracy", REGRESSION: "r2"}
WORDS = {
    "accuracy": "share of right answers",
    "balanced_accuracy": "share of right answers, every class alike",
    "roc_auc": "area under the ROC curve",
    "average_precision": "area under the precision-recall curve",
    "f1": "F1 score",
    "neg_log_loss": "log likelihood of an answer",
    "r2": "share of the variance explained",
    "neg_mean_absolute_error": "mean absolute error, negative",
}
NUMBER_SCORES = ("r2", "explained_variance", "max_error", "neg_max", "neg_mean", "neg_root", "neg_median")
JACKKNIFE_GROUPS = 20
LARGE_CLASS = 0.8  # from this share on, accuracy is nearly what the constant answer has


class _Stored:
    """An estimator that has its predictions already: what scikit-learn's scorers ask for."""

    def __init__(self, predictions: FloatArray) -> None:
        self._predictions = predictions
        self._estimator_type = "classifier" if predictions.ndim == 2 else "regressor"
        if predictions.ndim == 2:
            self.classes_ = np.arange(predictions.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags  # noqa: PLC0415

        classifier = self._predictions.ndim == 2
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if classifier else None,
            regressor_tags=None if classifier else RegressorTags(),
        )

    def fit(self, *_: Any) -> _Stored:
        return self

    def predict(self, rows: Any) -> FloatArray:
        found = self._predictions[rows]
        return found if found.ndim == 1 else found.argmax(axis=1)

    def predict_proba(self, rows: Any) -> FloatArray:
        return self._predictions[rows]


def _accuracy(predictions: FloatArray, labels: Index) -> float:
    return float((predictions.argmax(axis=1) == labels).mean())


def _balanced_accuracy(predictions: FloatArray, labels: Index) -> float:
    right = predictions.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def _roc_auc(predictions: FloatArray, labels: Index) -> float:
    ranks = rankdata(predictions[:, 1])[labels == 1]
    n = len(ranks)
    return float((ranks.mean() - 0.5 * (n + 1)) / (len(labels) - n))


# What scikit-learn's scorers return, in a hundredth of their time: members choose by thousands of scores.
QUICK: dict[str, Callable[[FloatArray, Index], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "roc_auc": _roc_auc,
}


class ScoreFunction:
    """A score of scikit-learn, of predictions that were made already.

    Parameters
    ----------
    name
        One of `sklearn.metrics.get_scorer_names()`, or a scorer; by default one that suits the task.
    task
        "classification" or "regression".
    """

    def __init__(self, name: Any, task: str) -> None:
        from sklearn.metrics import get_scorer, get_scorer_names  # noqa: PLC0415 - slow to import

        chosen = DEFAULT_SCORES[task] if name is None else name
        if isinstance(chosen, str) and chosen not in get_scorer_names():
            common, near = ", ".join(WORDS), get_close_matches(chosen, get_scorer_names(), n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise InvalidInput(
                f"score must be one of {common}, or another score of scikit-learn, got {chosen!r:.40}{meant}"
            )
        for_numbers = isinstance(chosen, str) and chosen.startswith(NUMBER_SCORES)
        if isinstance(chosen, str) and not chosen.startswith("d2_") and for_numbers != (task == REGRESSION):
            kind, suits = ("numbers", "accuracy") if for_numbers else ("classes", "r2")
            raise InvalidInput(
                f"score {chosen} is for {kind}, and the target makes a {task}: take another, such as {suits}"
            )
        if not isinstance(chosen, str) and not callable(chosen):
            raise InvalidInput(f"score must be a name or a scorer of scikit-learn, got {short_repr(chosen)}")
        self.name = chosen if isinstance(chosen, str) else str(chosen)
        self._scorer: Callable[..., float] = get_scorer(chosen) if isinstance(chosen, str) else chosen

    @property
    def words(self) -> str:
        """What it is, in words."""
        return WORDS.get(self.name, self.name)

    def of(self, predictions: FloatArray, truth: FloatArray, rows: Any = None) -> float:
        """The score of predictions, of some records if `rows` are given; NaN where it has none."""
        chosen = np.arange(len(truth)) if rows is None else rows
        labels = truth[chosen].astype(int) if predictions.ndim == 2 else truth[chosen]
        if predictions.ndim == 2 and self.name != "accuracy" and np.all(labels == labels[:1]):
            return float("nan")
        if self.name in QUICK and (self.name != "roc_auc" or predictions.shape[1] == 2):
            return QUICK[self.name](predictions[chosen], np.asarray(labels, dtype=np.intp))
        try:
            return float(self._scorer(_Stored(predictions), chosen, labels))
        except (ValueError, TypeError) as error:
            several = f" (with several classes: {self.name}_macro or {self.name}_ovr)" if predictions.ndim == 2 else ""
            reason = str(error).splitlines()[0]
            raise InvalidInput(f"score {self.name} cannot be computed here: {reason}{several}") from error

    def jackknife(self, predictions: FloatArray, own: Records) -> FloatArray:
        """(1 + G,): the score of all records, and without each group of them."""
        _, groups = np.unique(own.groups, return_inverse=True)
        n = min(JACKKNIFE_GROUPS, int(groups.max()) + 1)
        # Records of one class are dealt out in turn, so that no group holds all of a rare one.
        order = np.lexsort((groups, own.truth))
        part = np.empty(len(own), dtype=np.intp)
        part[order] = np.arange(len(own)) % n
        if groups.max() + 1 < len(own):
            part = groups % n
        whole = self.of(predictions, own.truth)
        return np.array([whole, *(self.of(predictions, own.truth, np.flatnonzero(part != g)) for g in range(n))])


def difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """The mean of `one - other` and its variance; both (splits, 1 + G) as `ScoreFunction.jackknife` gives them."""
    found = one - other
    left_out = np.nanmean(found[:, 1:], axis=0)
    n = len(left_out)
    by_records = (n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum())
    by_splits = float(found[:, 0].var(ddof=1)) / len(found) if len(found) > 1 else 0.0
    return float(found[:, 0].mean()), by_records + by_splits
