"""Models of a pilot: scikit-learn estimators by name or object, or a function of one's own.

`sklearn.linear_model:LogisticRegression(C=0.1)` names an estimator. The text is parsed, never run: a public module of
scikit-learn, a class in it that is an estimator, and arguments that are plain values. Before it is trained, missing
features become medians and all features are scaled, by what the coalition's own records say.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from types import CodeType, MethodType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.fitting.pilots.coalitions import CoalitionRecords
from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, Records, feature_scales, scale_features
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, MissingExtra, short_repr

Score = Callable[[CoalitionRecords], ArrayLike]
DEFAULT_MODELS = {
    CLASSIFICATION: "sklearn.linear_model:LogisticRegression(C=0.1, max_iter=1000)",
    REGRESSION: "sklearn.linear_model:Ridge()",
}
SPELLING = re.compile(r"(sklearn(?:\.[A-Za-z][A-Za-z0-9_]*)+):([A-Za-z][A-Za-z0-9_]*)(\(.*\))?", re.DOTALL)
MAX_MODEL_TEXT = 1000
EXAMPLE = DEFAULT_MODELS[CLASSIFICATION]
#: How a regression's errors become a score between 0 and 1.
REGRESSION_MAP = (
    "score = 1 - (squared error) / (squared error of always guessing the average target of all training records), "
    "and 0 where that is negative"
)


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
    found = SPELLING.fullmatch(text.strip()) if len(text) <= MAX_MODEL_TEXT else None
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

    is_model = inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "predict")
    if not is_model or kind is None:
        raise InvalidInput(f"model: {module} has no estimator {name} that predicts")
    try:
        return kind(*positional, **named)
    except TypeError as error:
        raise InvalidInput(f"model: {name} does not take these arguments: {error}") from error


def _literal_arguments(name: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    rule = f"model: the arguments of {name} must be plain values such as C=0.1, got {short_repr(text)}"
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise InvalidInput(rule)
        if any(keyword.arg is None for keyword in call.keywords):
            raise InvalidInput(rule)
        positional = [ast.literal_eval(argument) for argument in call.args]
        return positional, {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except InvalidInput:
        raise
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise InvalidInput(f"{rule}; in Python, fedpact.pilot takes any estimator or function") from error


def require_sklearn() -> None:
    """Say so where scikit-learn is not installed."""
    try:
        importlib.import_module("sklearn")
    except ImportError as error:
        raise MissingExtra("scikit-learn", "pilot") from error


@dataclass(frozen=True, kw_only=True)
class CoalitionModel:
    """What is trained for a coalition.

    Attributes
    ----------
    label
        For people.
    identity
        What tells it from other models, for the file of what was trained; None if that cannot be told.
    why
        Why it cannot be told.
    estimator, score
        A scikit-learn estimator, or else a function from `CoalitionRecords` to a score per member.
    task, seed
        Of the estimator.
    """

    label: str
    identity: str | None
    task: str
    seed: int
    why: str = ""
    estimator: Any = None
    score: Score | None = None

    @classmethod
    def of(cls, given: Any, task: str, seed: int) -> CoalitionModel:
        """The model that a text, an estimator or a function stands for; by default one that suits the task."""
        if callable(given) and not hasattr(given, "fit"):
            label = getattr(given, "__qualname__", type(given).__qualname__)
            identity, why = _identity(given)
            return cls(label=label, identity=identity, why=why, score=given, task=task, seed=seed)
        require_sklearn()
        from sklearn.base import is_classifier, is_regressor  # noqa: PLC0415 - slow to import

        estimator = (
            parse_estimator(DEFAULT_MODELS[task] if given is None else given)
            if given is None or isinstance(given, str)
            else given
        )
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict") and hasattr(estimator, "get_params")):
            raise InvalidInput(f"model must be a text, a scikit-learn estimator or a function, got {short_repr(given)}")
        suits = is_classifier if task == CLASSIFICATION else is_regressor
        if not suits(estimator):
            raise InvalidInput(f"model must be for {task}, which {type(estimator).__name__} is not")
        if "random_state" in estimator.get_params() and estimator.get_params()["random_state"] is None:
            estimator = (
                estimator.set_params(random_state=seed) if isinstance(given, str | None) else _seeded(estimator, seed)
            )
        identity, why = _identity([type(estimator), estimator.get_params()])
        label = " ".join(repr(estimator).split())
        return cls(label=label, identity=identity, why=why, estimator=estimator, task=task, seed=seed)

    def scores(self, coalition: CoalitionRecords) -> list[float]:
        """One score per member, between 0 and 1; NaN where nothing was measured."""
        if self.score is not None:
            return self._own_scores(coalition)
        predict = self._trained(coalition.train)
        guess = coalition.average_target
        return [_test_score(self.task, tested, predict(tested.features), guess) for tested in coalition.tests]

    def _own_scores(self, coalition: CoalitionRecords) -> list[float]:
        assert self.score is not None
        given = self.score(coalition)
        try:
            scores = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{self.label} must return a score per member, got {short_repr(given)}") from error
        known = scores[~np.isnan(scores)]
        if scores.shape != (len(coalition.tests),) or not ((known >= 0.0) & (known <= 1.0)).all():
            raise InvalidInput(
                f"{self.label} must return {len(coalition.tests)} scores between 0 and 1, one per member, "
                f"got {short_repr(given)}"
            )
        return [float(number) for number in scores]

    def _trained(self, train: Records) -> Callable[[FloatArray], FloatArray]:
        from sklearn.base import clone  # noqa: PLC0415 - slow to import

        if self.task == CLASSIFICATION and np.unique(train.targets).size == 1:
            only = float(train.targets[0])
            return lambda features: np.full(len(features), only)
        middle, scale = feature_scales(train.features)
        model = clone(self.estimator)

        def attempt(step: Callable[..., Any], *arrays: Any) -> Any:
            try:
                return step(*arrays)
            except (ValueError, TypeError, ArithmeticError) as error:
                reason = str(error).splitlines()[0]
                raise FedpactError(
                    f"{self.label} trained on {len(train)} records fails: {reason}; take another model, or give "
                    f"members more records"
                ) from error

        attempt(model.fit, scale_features(train.features, middle, scale), train.targets)
        return lambda features: np.asarray(
            attempt(model.predict, scale_features(features, middle, scale)), dtype=np.float64
        )


def _seeded(estimator: Any, seed: int) -> Any:
    from sklearn.base import clone  # noqa: PLC0415 - slow to import

    return clone(estimator).set_params(random_state=seed)


def _identity(given: Any) -> tuple[str | None, str]:
    """What tells a model from others, the same in every process; or None, and why it cannot be told."""
    own = given.func if isinstance(given, functools.partial) else given
    try:
        return hashlib.sha256(repr(_traits(given, getattr(own, "__module__", ""), {})).encode()).hexdigest()[:32], ""
    except Exception as error:  # whatever an object raises that cannot be pickled
        return None, " ".join(str(error).split()) or type(error).__name__


def _traits(given: Any, home: str, seen: dict[int, tuple[int, Any]]) -> Any:
    """A value as plain data: of functions the code, and all that it takes from elsewhere.

    That is followed into functions and objects of the module `home`; those of other modules go by their names.
    """
    import joblib  # noqa: PLC0415 - slow to import

    def of(*parts: Any) -> list[Any]:
        return [_traits(part, home, seen) for part in parts]

    if isinstance(given, list | tuple):
        return [type(given).__name__, *of(*given)]
    if isinstance(given, dict):
        return ["dict", *of(*given.items())]
    if isinstance(given, CodeType):
        return [given.co_code, given.co_names, *of(*given.co_consts)]
    if inspect.ismodule(given):
        return given.__name__
    is_local = inspect.isfunction(given) and "<" in given.__qualname__
    has_parts = isinstance(given, functools.partial | MethodType)
    if not (is_local or has_parts or home in (type(given).__module__, getattr(given, "__module__", None))):
        return joblib.hash(given)
    if id(given) in seen:
        return seen[id(given)][0]
    seen[id(given)] = len(seen), given
    if isinstance(given, functools.partial):
        return ["partial", *of(given.func, given.args, given.keywords)]
    if inspect.ismethod(given):
        return ["method", *of(given.__func__, given.__self__)]
    if inspect.isfunction(given):
        cells = [cell.cell_contents for cell in given.__closure__ or ()]
        outside = {name: given.__globals__[name] for name in _global_names(given.__code__) if name in given.__globals__}
        return ["function", *of(given.__code__, given.__defaults__, given.__kwdefaults__, cells, outside)]
    if inspect.isclass(given):
        return ["class", given.__qualname__, *of(*filter(inspect.isfunction, vars(given).values()))]
    return ["object", *of(type(given), given.__getstate__())]


def _global_names(code: CodeType) -> list[str]:
    inner = (_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return [*code.co_names, *chain.from_iterable(inner)]


def _test_score(task: str, tested: Records, predicted: FloatArray, guess: float) -> float:
    if task == CLASSIFICATION:
        return float((predicted == tested.targets).mean())
    left = float(((predicted - tested.targets) ** 2).mean())
    guessed = float(((guess - tested.targets) ** 2).mean())
    return max(0.0, 1.0 - left / guessed) if guessed > 0 else float(left == 0)
