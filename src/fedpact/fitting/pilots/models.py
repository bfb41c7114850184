"""Models of a pilot, and how good their predictions are: estimators and scores of scikit-learn.

**Models.** `sklearn.linear_model:LogisticRegression(C=0.1)` names an estimator. The text is parsed, never run: a public
module of scikit-learn, a class in it that is an estimator, and arguments that are plain values. Before it is trained,
missing features become means beside a column that says so, and all features are scaled, by what is trained on.

**Paired differences.** Two arrangements are tested on the same records in the same splits. What is known of the
difference of their scores d is by leaving out groups of records (delete-a-group jackknife, G groups, or clusters of
records that belong together): with d_g the difference without group g and d' their mean,

    variance = (G - 1) / G sum_g (d_g - d')^2  +  (variance of d over splits) / (number of splits).

It serves scores that are no averages over records, such as the area under the ROC curve, as well as those that are.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, Index
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, MissingExtra, short_repr

DEFAULT_MODELS = {
    CLASSIFICATION: "sklearn.linear_model:LogisticRegression(C=0.3, max_iter=1000)",
    REGRESSION: "sklearn.linear_model:Ridge()",
}
SPELLING = re.compile(r"(sklearn(?:\.[A-Za-z][A-Za-z0-9_]*)+):([A-Za-z][A-Za-z0-9_]*)(\(.*\))?", re.DOTALL)
SMALLEST_SPREAD = 1e-12  # of a column's mean: below it, a column is constant
EXAMPLE = DEFAULT_MODELS[CLASSIFICATION]
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


def parse_estimator(text: str) -> Any:
    """The estimator that a text names.

    Examples
    --------
    >>> parse_estimator("sklearn.linear_model:Ridge(alpha=0.5)")
    Ridge(alpha=0.5)
    >>> parse_estimator("os:system('ls')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fedpact.utils.errors.InvalidInput: model must be written like sklearn.linear_model:LogisticRegression(...
    """
    found = SPELLING.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"model must be written like {EXAMPLE}, got {short_repr(text)}")
    module, name, arguments = found.groups()
    require_sklearn()
    from sklearn.base import BaseEstimator  # noqa: PLC0415 - slow to import

    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise InvalidInput(f"model: scikit-learn has no module {module}") from error
    if not (inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "predict")):
        raise InvalidInput(f"model: {module} has no estimator {name} that predicts")
    rule = f"model: the arguments of {name} must be plain values such as C=0.1, got {short_repr(arguments)}"
    try:
        call = ast.parse(f"f{arguments or '()'}", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and all(k.arg for k in call.keywords)):
            raise InvalidInput(rule)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return kind(*map(ast.literal_eval, call.args), **named)
    except TypeError as error:
        raise InvalidInput(f"model: {name} does not take these arguments: {error}") from error
    except (SyntaxError, MemoryError, RecursionError, ValueError) as error:
        raise InvalidInput(f"{rule}; in Python, fedpact.pilot takes any estimator") from error


def require_sklearn() -> None:
    """Say so where scikit-learn is not installed."""
    try:
        importlib.import_module("sklearn")
    except ImportError as error:
        raise MissingExtra("scikit-learn", "pilot") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotModel:
    """Trains one kind of model."""

    estimator: Any  # An untrained scikit-learn estimator, with its seed
    task: str  # "classification" or "regression"
    n_classes: int  # Of a classification

    @classmethod
    def of(cls, given: Any, task: str, n_classes: int, seed: int) -> PilotModel:
        """The model that a text or an estimator stands for; by default a linear one that suits the task."""
        require_sklearn()
        from sklearn.base import clone, is_classifier, is_regressor  # noqa: PLC0415 - slow to import

        named = DEFAULT_MODELS[task] if given is None else given
        estimator = parse_estimator(named) if isinstance(named, str) else named
        if not all(hasattr(estimator, needed) for needed in ("fit", "predict", "get_params")):
            raise InvalidInput(f"model must be a text or a scikit-learn estimator, got {short_repr(given)}")
        if not (is_classifier if task == CLASSIFICATION else is_regressor)(estimator):
            raise InvalidInput(f"model must be for {task}, which {type(estimator).__name__} is not")
        estimator = clone(estimator)
        if "random_state" in estimator.get_params() and estimator.get_params()["random_state"] is None:
            estimator.set_params(random_state=seed)
        return cls(estimator=estimator, task=task, n_classes=n_classes)

    @property
    def label(self) -> str:
        """The estimator as Python writes it."""
        return " ".join(repr(self.estimator).split())

    @property
    def takes_weights(self) -> bool:
        """Whether records can count for less than others."""
        from sklearn.utils.validation import has_fit_parameter  # noqa: PLC0415 - slow to import

        return bool(has_fit_parameter(self.estimator, "sample_weight"))

    def train(self, features: FloatArray, targets: FloatArray, weights: FloatArray | None = None) -> Any:
        """A trained model: a function from features to predictions, (N, classes) probabilities or (N,) numbers."""
        from sklearn import config_context  # noqa: PLC0415 - slow to import
        from sklearn.base import clone  # noqa: PLC0415

        if self.task == CLASSIFICATION and np.all(targets == targets[0]):
            only = np.eye(self.n_classes)[int(targets[0])]
            return lambda rows: np.tile(only, (len(rows), 1))
        prepare, model = _preparation(features), clone(self.estimator)
        try:
            with config_context(assume_finite=True, skip_parameter_validation=True):
                model.fit(prepare(features), targets, **({} if weights is None else {"sample_weight": weights}))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise FedpactError(
                f"{self.label} trained on {len(targets)} records fails: {str(error).splitlines()[0]}; take another "
                f"model, or give members more records"
            ) from error
        return lambda rows: self._predict(model, prepare(rows))

    def _predict(self, model: Any, rows: FloatArray) -> FloatArray:
        if self.task == REGRESSION:
            return np.asarray(model.predict(rows), dtype=np.float64)
        found = np.zeros((len(rows), self.n_classes))
        if hasattr(model, "predict_proba"):
            found[:, model.classes_.astype(int)] = model.predict_proba(rows)
        else:
            found[np.arange(len(rows)), model.predict(rows).astype(int)] = 1.0
        return found


def _preparation(features: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Missing features become means beside a column that says so, and all are scaled, by what is trained on.

    What `SimpleImputer(add_indicator=True)` and `StandardScaler` do, in a tenth of their time: models are small.
    """
    missing = np.isnan(features)
    known = np.maximum((~missing).sum(axis=0), 1)
    means = np.where(missing, 0.0, features).sum(axis=0) / known
    marked = np.flatnonzero(missing.any(axis=0))

    def fill(rows: FloatArray) -> FloatArray:
        gaps = np.isnan(rows)
        return np.hstack([np.where(gaps, means, rows), gaps[:, marked]])

    filled = fill(features)
    centres, spreads = filled.mean(axis=0), filled.std(axis=0)
    spreads[spreads < SMALLEST_SPREAD * np.maximum(np.abs(centres), 1.0)] = 1.0
    return lambda rows: np.asarray((fill(rows) - centres) / spreads)


def _stored(predictions: FloatArray) -> Any:
    """An estimator that has its predictions already: what scikit-learn's scorers ask for."""
    from sklearn import base  # noqa: PLC0415 - slow to import

    is_class = predictions.ndim == 2
    kind = base.ClassifierMixin if is_class else base.RegressorMixin

    class Stored(kind, base.BaseEstimator):  # type: ignore[misc, valid-type]
        classes_ = np.arange(predictions.shape[-1])

        def predict(self, rows: Any) -> FloatArray:
            return predictions[rows].argmax(axis=1) if is_class else predictions[rows]

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

    `name` is one of `sklearn.metrics.get_scorer_names()`, or a scorer; by default one that suits the task. A score with
    a variance of its own overrides `measure` and `difference`; `fedpact.pilot(score=...)` takes it as it is.
    """

    def __init__(self, name: Any, task: str) -> None:
        from sklearn.metrics import get_scorer, get_scorer_names  # noqa: PLC0415 - slow to import

        chosen = DEFAULT_SCORES[task] if name is None else name
        if not isinstance(chosen, str) and (not callable(chosen) or isinstance(chosen, type)):
            raise InvalidInput(f"score must be a name or a scorer of scikit-learn, got {short_repr(chosen)}")
        self.name = str(chosen)
        self._scorer: Any = chosen
        if not isinstance(chosen, str):
            return
        if chosen not in get_scorer_names():
            near = get_close_matches(chosen, get_scorer_names(), n=1, cutoff=0.5)
            raise InvalidInput(
                f"score must be one of {', '.join(WORDS)}, or another score of scikit-learn, got {chosen!r:.40}"
                + (f"; did you mean {near[0]}?" if near else "")
            )
        for_numbers = chosen.startswith(NUMBER_SCORES)
        if not chosen.startswith("d2_") and for_numbers != (task == REGRESSION):
            kind, suits = ("numbers", "accuracy") if for_numbers else ("classes", "r2")
            raise InvalidInput(
                f"score {chosen} is for {kind}, and the target makes a {task}: take another, such as {suits}"
            )
        self._scorer = get_scorer(chosen)

    @property
    def words(self) -> str:
        """What it is, in words."""
        return WORDS.get(self.name, self.name)

    def of(self, predictions: FloatArray, truth: FloatArray) -> float:
        """The score of predictions; NaN where it has none."""
        return float(self.measure(predictions, truth, np.ones((1, len(truth))))[0])

    def measure(self, predictions: FloatArray, truth: FloatArray, kept: FloatArray) -> FloatArray:
        """The score of all records first, then what `difference` needs to know: here a score for each row of `kept`.

        `kept`, (1 + G, N), is 1 for records that count and 0 for others (`kept_records`); in its first row all count.
        """
        is_class = predictions.ndim == 2
        labels: Any = truth.astype(np.intp) if is_class else truth
        if self.name in QUICK and (self.name != "roc_auc" or predictions.shape[1] == 2):
            found = QUICK[self.name](predictions, labels, kept)
        else:
            stored = _stored(predictions)
            found = np.array([self._score(stored, rows, labels[rows]) for rows in map(np.flatnonzero, kept)])
        if is_class and self.name != "accuracy":  # one class only has none
            found[[np.ptp(labels[rows > 0]) == 0 for rows in kept]] = np.nan
        return found

    def difference(self, one: FloatArray, other: FloatArray) -> tuple[float, float]:
        """The mean of `one - other` and its variance; (splits, ...) each, of what `measure` found in every split."""
        found = one - other
        left_out = np.nanmean(found[:, 1:], axis=0)
        n = len(left_out)
        by_records = (n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum())
        by_splits = float(found[:, 0].var(ddof=1)) / len(found) if len(found) > 1 else 0.0
        return float(found[:, 0].mean()), by_records + by_splits

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
