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

from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, Index
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


def _stored(predictions: FloatArray) -> Any:
    """An estimator that has its predictions already: what scikit-learn's scorers ask for."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: PLC0415 - slow to import

    kind = ClassifierMixin if predictions.ndim == 2 else RegressorMixin

    class Stored(kind, BaseEstimator):  # type: ignore[misc, valid-type]
        classes_ = np.arange(predictions.shape[-1])

        def predict(self, rows: Any) -> FloatArray:
            found = predictions[rows]
            return found if found.ndim == 1 else found.argmax(axis=1)

        def predict_proba(self, rows: Any) -> FloatArray:
            return predictions[rows]

    return Stored()


def _accuracy(predictions: FloatArray, labels: Index, kept: FloatArray) -> FloatArray:
    return np.asarray(kept @ (predictions.argmax(axis=1) == labels) / kept.sum(axis=1))


def _balanced_accuracy(predictions: FloatArray, labels: Index, kept: FloatArray) -> FloatArray:
    right, member = predictions.argmax(axis=1) == labels, np.eye(int(labels.max()) + 1)[labels]
    counts = kept @ member
    shares = np.divide(kept @ (member * right[:, None]), counts, out=np.zeros_like(counts), where=counts > 0)
    return np.asarray(shares.sum(axis=1) / (counts > 0).sum(axis=1))


def _roc_auc(predictions: FloatArray, labels: Index, kept: FloatArray) -> FloatArray:
    """The share of pairs of a record of each class that are in order; half of those that are tied."""
    scores = predictions[:, 1]
    order = np.argsort(scores)
    scores, negative = scores[order], (kept * (labels == 0))[:, order]
    below = np.concatenate([np.zeros((len(kept), 1)), np.cumsum(negative, axis=1)], axis=1)
    first, last = np.searchsorted(scores, scores, "left"), np.searchsorted(scores, scores, "right")
    positive = (kept * (labels == 1))[:, order]
    pairs = negative.sum(axis=1) * positive.sum(axis=1)
    return np.asarray((positive * (below[:, first] + below[:, last])).sum(axis=1) / (2.0 * np.maximum(pairs, 1.0)))


# What scikit-learn's scorers return, in a hundredth of their time: members choose by thousands of scores.
QUICK: dict[str, Callable[[FloatArray, Index, FloatArray], FloatArray]] = {
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

    def of(self, predictions: FloatArray, truth: FloatArray) -> float:
        """The score of predictions; NaN where it has none."""
        return float(self.jackknife(predictions, truth, np.ones((1, len(truth))))[0])

    def jackknife(self, predictions: FloatArray, truth: FloatArray, kept: FloatArray) -> FloatArray:
        """One score for each row of `kept`, which is 1 for records that count and 0 for others."""
        labels: Any = truth.astype(np.intp) if predictions.ndim == 2 else truth
        if self.name in QUICK and (self.name != "roc_auc" or predictions.shape[1] == 2):
            found = QUICK[self.name](predictions, labels, kept)
        else:
            stored = _stored(predictions)
            found = np.array([self._score(stored, rows, labels[rows]) for rows in map(np.flatnonzero, kept)])
        if predictions.ndim == 2 and self.name != "accuracy":  # one class only has none
            found[[np.ptp(labels[rows > 0]) == 0 for rows in kept]] = np.nan
        return found

    def _score(self, stored: Any, rows: Index, labels: Any) -> float:
        try:
            with np.errstate(all="ignore"):
                return float(self._scorer(stored, rows, labels))
        except (ValueError, TypeError) as error:
            several = f" (with several classes: {self.name}_macro or {self.name}_ovr)" if labels.dtype == int else ""
            reason = str(error).splitlines()[0]
            raise InvalidInput(f"score {self.name} cannot be computed here: {reason}{several}") from error


def kept_records(truth: FloatArray, groups: Index) -> FloatArray:
    """(1 + G, N): which records are kept: all, and all but one of G groups."""
    _, groups = np.unique(groups, return_inverse=True)
    n = min(JACKKNIFE_GROUPS, int(groups.max()) + 1)
    part = groups % n
    if groups.max() + 1 == len(truth):
        # Records of one class are dealt out in turn, so that no group holds all of a rare one.
        part[np.lexsort((groups, truth))] = np.arange(len(truth)) % n
    return np.concatenate([np.ones((1, len(truth))), part != np.arange(n)[:, None]])


def difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """The mean of `one - other` and its variance; both (splits, 1 + G) of all records and without each of G groups."""
    found = one - other
    left_out = np.nanmean(found[:, 1:], axis=0)
    n = len(left_out)
    by_records = (n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum())
    by_splits = float(found[:, 0].var(ddof=1)) / len(found) if len(found) > 1 else 0.0
    return float(found[:, 0].mean()), by_records + by_splits
