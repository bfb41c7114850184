"""Models of a pilot: scikit-learn estimators, by name or object, on features that may be missing.

`sklearn.linear_model:LogisticRegression(C=0.1)` names an estimator. The text is parsed, never run: a public module of
scikit-learn, a class in it that is an estimator, and arguments that are plain values. Before it is trained, missing
features become means beside a column that says so, and all features are scaled, by what is trained on.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, MissingExtra, short_repr

DEFAULT_MODELS = {
    CLASSIFICATION: "sklearn.linear_model:LogisticRegression(C=0.3, max_iter=1000)",
    REGRESSION: "sklearn.linear_model:Ridge()",
}
SPELLING = re.compile(r"(sklearn(?:\.[A-Za-z][A-Za-z0-9_]*)+):([A-Za-z][A-Za-z0-9_]*)(\(.*\))?", re.DOTALL)
SMALLEST_SPREAD = 1e-12  # of a column's mean: below it, a column is constant
EXAMPLE = DEFAULT_MODELS[CLASSIFICATION]


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
    positional, named = _literal_arguments(name, arguments or "()")
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        require_sklearn()
        raise InvalidInput(f"model: scikit-learn has no module {module}") from error
    from sklearn.base import BaseEstimator  # noqa: PLC0415 - slow to import

    if not (inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "predict")):
        raise InvalidInput(f"model: {module} has no estimator {name} that predicts")
    try:
        return kind(*positional, **named)
    except TypeError as error:
        raise InvalidInput(f"model: {name} does not take these arguments: {error}") from error


def _literal_arguments(name: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    rule = f"model: the arguments of {name} must be plain values such as C=0.1, got {short_repr(text)}"
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and all(k.arg for k in call.keywords)):
            raise InvalidInput(rule)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(argument) for argument in call.args], named
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
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
