"""How sure the numbers of a federation are: standard errors, how they go together, and draws.

Numbers that are positive (a payoff's parameter, the values, an agent's own weight) are drawn with normal logarithms;
weights between agents with normal asinh(w_ij / w_ii), which is a plain normal around zero and a logarithm far from it.
All weights of lots are drawn so, with the largest weight that its owner's lots have for the task in place of w_ii.
The number in the scenario is the median. With signs "positive", weights drawn below zero count as zero.

Correlations are those of these coordinates, in the order: the payoff's parameter, the values (one number each if all
agents share it, otherwise one per agent), the weights row by row. Without correlations every number strays by itself.
For many agents a matrix of correlations is too large; a `factor` with a row of length one per number stands for it:
correlations = factor factor'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
CORRELATION_TOL = 1e-6  # correlations that people have rounded are off by as much


@dataclass(frozen=True, eq=False, init=False)
class Uncertainty:
    """Standard errors of a federation's numbers and their correlations.

    Parameters
    ----------
    weights
        (n, n) standard errors, or (tasks, lots).
    values, parameter
        Standard errors of the values and of the payoff's parameter: a number shared by all agents, or one per agent
        (task).
    correlations
        (m, m), m the number of numbers; None if they stray independently or `factor` is given.
    factor
        (m, k), rows of length one, in place of correlations.
    signs
        "positive" if weights below zero are out of the question, else "any".
    """

    weights: FloatArray
    values: FloatArray
    parameter: FloatArray
    correlations: FloatArray | None
    factor: FloatArray | None
    signs: str

    def __init__(
        self,
        *,
        weights: ArrayLike,
        values: ArrayLike = 0.0,
        parameter: ArrayLike = 0.0,
        correlations: ArrayLike | None = None,
        factor: ArrayLike | None = None,
        signs: str = "positive",
    ) -> None:
        if signs not in WEIGHT_SIGNS:
            rule = f"must be one of {', '.join(WEIGHT_SIGNS)}"
            raise InvalidInput(field="uncertainty.signs", rule=rule, value=signs)
        checked: dict[str, Any] = {"weights": _checked_errors(weights), "signs": signs}
        n_tasks = checked["weights"].shape[0]
        for name, given in (("values", values), ("parameter", parameter)):
            field = f"uncertainty.{name}"
            numbers = checked_numbers(field, given, non_negative, NON_NEGATIVE)
            if numbers.ndim and numbers.size != n_tasks:
                counts = f": {n_tasks} rows of weights, {numbers.size} numbers given"
                raise InvalidInput(field=field, rule="must be a number or one per member", value=given, given=counts)
            checked[name] = numbers
        if correlations is not None and factor is not None:
            raise InvalidInput("uncertainty takes correlations or a factor, not both")
        n_numbers = checked["parameter"].size + checked["values"].size + checked["weights"].size
        checked["correlations"] = None if correlations is None else _checked_correlations(correlations, n_numbers)
        checked["factor"] = None if factor is None else _checked_factor(factor, n_numbers)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_tasks(self) -> int:
        """How many rows there are: agents, or tasks."""
        return int(self.weights.shape[0])

    @property
    def n_numbers(self) -> int:
        """How many numbers are uncertain."""
        return int(self.parameter.size + self.values.size + self.weights.size)

    @cached_property
    def root(self) -> FloatArray:
        """A matrix R with R R' the correlations."""
        if self.factor is not None:
            return np.asarray(self.factor)
        if self.correlations is None:
            return np.eye(self.n_numbers)
        values, vectors = np.linalg.eigh(self.correlations)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def check(self, federation: Federation) -> None:
        """Raise `InvalidInput` unless these are standard errors of this federation's numbers."""
        if federation.is_sparse:
            raise InvalidInput("uncertainty needs dense weights; write the weights as rows, or leave uncertainty out")
        if federation.weights.shape != self.weights.shape:
            shapes = f"{_shape_text(federation.weights.shape)} weights, {_shape_text(self.weights.shape)} given"
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
        n_tasks, generator = self.n_tasks, np.random.default_rng(rng)
        noise = generator.standard_normal((count, self.root.shape[1])) @ self.root.T
        places = np.cumsum([self.parameter.size, self.values.size])
        of_parameter, of_values, of_weights = np.split(noise, places, axis=1)

        def positive(numbers: FloatArray, errors: FloatArray, strayed: FloatArray) -> FloatArray:
            return np.asarray(np.broadcast_to(numbers * np.exp(_near(strayed * errors / numbers)), (count, n_tasks)))

        payoff = federation.payoff
        drawn = {name: positive(each, self.parameter, of_parameter) for name, each in payoff.parameters.items()}
        return federation.arrays.repeated(
            count,
            weights=self._weights(federation, of_weights.reshape(count, *self.weights.shape)),
            values=positive(federation.values, self.values, of_values),
            payoff=payoff.unchecked(**drawn),
        )

    def take(self, agents: ArrayLike, *, lots: ArrayLike | None = None) -> Uncertainty:
        """The uncertainty of the federation of some of the agents, given by their indices; or of tasks and lots."""
        chosen = np.asarray(agents, dtype=np.intp)
        columns = chosen if lots is None else np.asarray(lots, dtype=np.intp)
        places = []
        first = 0
        for numbers in (self.parameter, self.values):
            places.append(first + (chosen if numbers.ndim else np.zeros(1, dtype=np.intp)))
            first += numbers.size
        places.append(first + (chosen[:, None] * self.weights.shape[1] + columns).ravel())
        kept = np.concatenate(places)
        return Uncertainty(
            weights=self.weights[np.ix_(chosen, columns)],
            values=self.values[chosen] if self.values.ndim else self.values,
            parameter=self.parameter[chosen] if self.parameter.ndim else self.parameter,
            correlations=None if self.correlations is None else self.correlations[np.ix_(kept, kept)],
            factor=None if self.factor is None else self.factor[kept],
            signs=self.signs,
        )

    def _weights(self, federation: Federation, strayed: FloatArray) -> FloatArray:
        weights = federation.dense_weights()
        if federation.has_lots:
            own = weight_units(weights, federation.task_owners[:, None] == federation.lot_owners)
        else:
            own = weights.diagonal()[:, None]
        errors = self.weights / np.hypot(weights, own)
        drawn = own * np.sinh(np.arcsinh(weights / own) + _near(strayed * errors))
        if self.signs == "positive":
            drawn = np.maximum(drawn, np.minimum(weights, 0.0))
        if federation.has_lots:
            return drawn
        every = np.arange(self.n_tasks)
        strayed_own = strayed[:, every, every] * self.weights.diagonal() / own[:, 0]
        drawn[:, every, every] = own[:, 0] * np.exp(_near(strayed_own))
        return drawn

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uncertainty):
            return NotImplemented
        return self.signs == other.signs and all(
            np.array_equal(np.atleast_1d(mine), np.atleast_1d(theirs))
            if mine is not None and theirs is not None
            else mine is theirs
            for mine, theirs in zip(self._parts(), other._parts(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> tuple[Any, ...]:
        return self.weights, self.values, self.parameter, self.correlations, self.factor


def weight_units(weights: FloatArray, owned: NDArray[np.bool_]) -> FloatArray:
    """(tasks, 1): in which the weights of a task are counted: the largest that lots of its owner have for it.

    Where these have none, the largest of all; `owned` is (tasks, lots).
    """
    sizes = np.abs(weights)
    own = np.where(owned, sizes, 0.0).max(axis=1, initial=0.0, keepdims=True)
    every = sizes.max(axis=1, initial=0.0, keepdims=True)
    return np.where(own > 0, own, np.where(every > 0, every, 1.0))


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


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


def _checked_errors(given: ArrayLike) -> FloatArray:
    field = "uncertainty.weights"
    weights = _matrix(field, given)
    _check_entries(field, weights, ~non_negative(weights), f"must be {NON_NEGATIVE}")
    return weights


def _checked_correlations(given: ArrayLike, count: int) -> FloatArray:
    field = "uncertainty.correlations"
    matrix = _matrix(field, given)
    if matrix.shape != (count, count):
        raise InvalidInput(
            field=field,
            rule=f"must be {count} x {count}",
            value=given,
            given=f": one row for each of the payoff's parameter, the values and the weights; "
            f"got {matrix.shape[0]} x {matrix.shape[1]}",
        )
    _check_entries(field, matrix, ~(np.abs(matrix) <= 1.0 + CORRELATION_TOL), "must lie between -1 and 1")
    _check_entries(field, matrix, np.diag(np.abs(matrix.diagonal() - 1.0) > CORRELATION_TOL), "must be 1")
    for row, column in np.argwhere(np.abs(matrix - matrix.T) > CORRELATION_TOL)[:1]:
        both = f"[{row}, {column}] is {matrix[row, column]:g}, [{column}, {row}] is {matrix[column, row]:g}"
        raise InvalidInput(field=field, rule="must be symmetric", value=given, given=f": {both}")
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest < -CORRELATION_TOL * count:
        rule = "must be correlations that can occur together (no negative eigenvalue)"
        raise InvalidInput(field=field, rule=rule, value=lowest)
    return matrix


def _check_entries(field: str, matrix: FloatArray, wrong: NDArray[np.bool_], rule: str) -> None:
    places = [(int(row), int(column)) for row, column in np.argwhere(wrong)[:MAX_ERRORS]]
    if places:
        raise InvalidInput.first_of(
            [InvalidInput(field=field, index=place, rule=rule, value=float(matrix[place])) for place in places]
        )


def _checked_factor(given: ArrayLike, count: int) -> FloatArray:
    factor = _matrix("uncertainty.factor", given)
    lengths = np.linalg.norm(factor, axis=1)
    if factor.shape[0] != count or not np.isfinite(factor).all() or (lengths > 1 + CORRELATION_TOL).any():
        raise InvalidInput(
            field="uncertainty.factor",
            rule=f"must have {count} rows of length at most one",
            value=given,
            given=f", one for each of the payoff's parameter, the values and the weights; got shape {factor.shape}, "
            f"longest row {lengths.max():g}",
        )
    return factor
