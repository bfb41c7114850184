"""How sure the numbers of a federation are: standard errors, how they go together, and draws.

Numbers that are positive (a payoff's parameter, the values, an agent's own weight) are drawn with normal logarithms;
weights between agents with normal asinh(w_ij / w_ii), which is a plain normal around zero and a logarithm far from it.
All weights of lots are drawn so, with the largest weight that its owner's lots have for the task in place of w_ii.
The number in the scenario is the median. With signs "positive", weights drawn below zero count as zero.

How they go together is said by a `factor` with a row of length one per number: correlations = factor factor', those of
these coordinates, in the order: the payoff's parameter, the values (one number each if all agents share it, otherwise
one per agent), the weights row by row. Without it every number strays by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import (
    MAX_ERRORS,
    NON_NEGATIVE,
    FloatArray,
    checked_numbers,
    labels_of,
    non_negative,
    read_only_copy,
)
from fedpact.utils.errors import InvalidInput

WEIGHT_SIGNS = ("positive", "any")
MAX_LOG_DEVIATION = 12.0  # of a draw from the median: further ones have no meaning
LENGTH_TOL = 1e-4  # of rows that were rounded
EACH_NUMBER = "one row for each of the payoff's parameter, the values and the weights"


@dataclass(frozen=True, eq=False, kw_only=True)
class Uncertainty:
    """Standard errors of a federation's numbers and their correlations.

    Parameters
    ----------
    weights
        (n, n) standard errors, or (tasks, lots).
    values, parameter
        Standard errors of the values and of the payoff's parameter: a number shared by all agents, or one per agent
        (task).
    factor
        (m, k), m the number of numbers, rows of length one; None if they stray independently.
    signs
        "positive" if weights below zero are out of the question, else "any".
    """

    weights: FloatArray
    values: FloatArray = 0.0  # type: ignore[assignment]
    parameter: FloatArray = 0.0  # type: ignore[assignment]
    factor: FloatArray | None = None
    signs: str = "positive"

    def __post_init__(self) -> None:
        if self.signs not in WEIGHT_SIGNS:
            rule = f"must be one of {', '.join(WEIGHT_SIGNS)}"
            raise InvalidInput(field="uncertainty.signs", rule=rule, value=self.signs)
        weights = _matrix("uncertainty.weights", self.weights)
        _check_entries("uncertainty.weights", weights, ~non_negative(weights), f"must be {NON_NEGATIVE}")
        object.__setattr__(self, "weights", weights)
        for name in ("values", "parameter"):
            field, given = f"uncertainty.{name}", getattr(self, name)
            numbers = checked_numbers(field, given, non_negative, NON_NEGATIVE)
            if numbers.ndim and numbers.size != len(weights):
                counts = f": {len(weights)} rows of weights, {numbers.size} numbers given"
                raise InvalidInput(field=field, rule="must be a number or one per member", value=given, given=counts)
            object.__setattr__(self, name, numbers)
        if self.factor is not None:
            object.__setattr__(
                self, "factor", _checked_factor(_matrix("uncertainty.factor", self.factor), self.n_numbers)
            )

    @property
    def n_numbers(self) -> int:
        """How many numbers are uncertain."""
        return int(self.parameter.size + self.values.size + self.weights.size)

    def check(self, federation: Federation) -> None:
        """Raise `InvalidInput` unless these are standard errors of this federation's numbers."""
        if federation.weights.shape != self.weights.shape:
            shapes = "{} x {} weights, {} x {} given".format(*federation.weights.shape, *self.weights.shape)
            per = "task and one column per lot" if federation.has_lots else "member"
            raise InvalidInput(f"uncertainty.weights must have one row per {per}, like weights: {shapes}")
        if not federation.payoff.parameters and self.parameter.any():
            raise InvalidInput(f"the payoff family {federation.payoff.family} has no parameter that could be uncertain")

    def draws(self, federation: Federation, count: int, rng: Any = None) -> FederationArrays:
        """Federations with numbers that this one may have, along a leading axis of length `count`.

        Parameters
        ----------
        federation
            Its numbers are the medians.
        count
            How many draws.
        rng
            A Generator, an int or None.
        """
        self.check(federation)
        root = np.eye(self.n_numbers) if self.factor is None else self.factor
        noise = np.random.default_rng(rng).standard_normal((count, root.shape[1])) @ root.T
        of_parameter, of_values, of_weights = self._split(noise)

        def positive(numbers: FloatArray, errors: FloatArray, strayed: FloatArray) -> FloatArray:
            return np.asarray(
                np.broadcast_to(numbers * np.exp(_near(strayed * errors / numbers)), (count, len(self.weights)))
            )

        payoff = federation.payoff
        drawn = {name: positive(each, self.parameter, of_parameter) for name, each in payoff.parameters.items()}
        arrays = federation.given_arrays.repeated(
            count,
            weights=self._weights(federation, of_weights.reshape(count, *self.weights.shape)),
            values=positive(federation.values, self.values, of_values),
            payoff=payoff.unchecked(**drawn),
        )
        return federation.counted_from_home(arrays)

    def take(self, tasks: ArrayLike, lots: ArrayLike) -> Uncertainty:
        """The uncertainty of some of the tasks and lots, given by their indices; of agents with one each, of both."""
        chosen, columns = np.asarray(tasks, dtype=np.intp), np.asarray(lots, dtype=np.intp)

        def some(numbers: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
            """Those of the tasks chosen, where there is one per task."""
            return numbers[chosen] if shape else numbers

        of_parameter, of_values, of_weights = self._split(np.arange(self.n_numbers))
        own = some(of_parameter, self.parameter.shape), some(of_values, self.values.shape)
        kept = np.concatenate([*own, of_weights.reshape(self.weights.shape)[np.ix_(chosen, columns)].ravel()])
        return Uncertainty(
            weights=self.weights[np.ix_(chosen, columns)],
            values=some(self.values, self.values.shape),
            parameter=some(self.parameter, self.parameter.shape),
            factor=None if self.factor is None else self.factor[kept],
            signs=self.signs,
        )

    def _split(self, numbers: NDArray[Any]) -> list[NDArray[Any]]:
        """What belongs to the parameter, the values and the weights, along the last axis."""
        return np.split(numbers, np.cumsum([self.parameter.size, self.values.size]), axis=-1)

    def _weights(self, federation: Federation, strayed: FloatArray) -> FloatArray:
        weights = federation.weights
        own = weight_units(weights, federation.task_owners[:, None] == federation.lot_owners)
        errors = self.weights / np.hypot(weights, own)
        drawn = own * np.sinh(np.arcsinh(weights / own) + _near(strayed * errors))
        if self.signs == "positive":
            drawn = np.maximum(drawn, np.minimum(weights, 0.0))
        if federation.has_lots:
            return drawn
        every = np.arange(len(weights))
        strayed_own = strayed[:, every, every] * self.weights.diagonal() / own[:, 0]
        drawn[:, every, every] = np.where(weights.diagonal() > 0, own[:, 0] * np.exp(_near(strayed_own)), 0.0)
        return drawn

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uncertainty):
            return NotImplemented
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return all(np.array_equal(np.atleast_1d(one), np.atleast_1d(theirs)) for one, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]


def weight_units(weights: FloatArray, owned: NDArray[np.bool_]) -> FloatArray:
    """(tasks, 1): in which the weights of a task are counted: the largest that lots of its owner have for it.

    Where these have none, the largest of all; `owned` is (tasks, lots).
    """
    sizes = np.abs(weights)
    own = np.where(owned, sizes, 0.0).max(axis=1, initial=0.0, keepdims=True)
    every = sizes.max(axis=1, initial=0.0, keepdims=True)
    return np.where(own > 0, own, np.where(every > 0, every, 1.0))


def _near(strayed: FloatArray) -> FloatArray:
    return np.clip(strayed, -MAX_LOG_DEVIATION, MAX_LOG_DEVIATION)


def _matrix(field: str, given: ArrayLike) -> FloatArray:
    rule = "must be a matrix of numbers"
    if labels_of(given) is not None or labels_of(given, "columns") is not None:
        raise InvalidInput(field=field, rule="has no names to go by", given=": give its .to_numpy() to go by position")
    try:
        matrix = read_only_copy(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(field=field, rule=rule, value=given) from error
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInput(field=field, rule=rule, value=given, given=f", got shape {matrix.shape}")
    return matrix


def _check_entries(field: str, matrix: FloatArray, wrong: NDArray[np.bool_], rule: str) -> None:
    entries = [(int(row), int(column)) for row, column in np.argwhere(wrong)[:MAX_ERRORS]]
    if entries:
        raise InvalidInput.first_of(
            [InvalidInput(field=field, index=entry, rule=rule, value=float(matrix[entry])) for entry in entries]
        )


def _checked_factor(factor: FloatArray, count: int) -> FloatArray:
    lengths = np.linalg.norm(factor, axis=1)
    if len(factor) != count or not (lengths <= 1 + LENGTH_TOL).all():
        rule = f"must have {count} rows of length at most one"
        given = f": {EACH_NUMBER}; got shape {factor.shape}, longest row {lengths.max():g}"
        raise InvalidInput(field="uncertainty.factor", rule=rule, value=factor, given=given)
    return factor
