"""How sure the numbers of a federation are: standard errors, how they go together, and draws.

Numbers that are positive (a payoff's parameter, the values, an agent's own weight) are drawn with normal logarithms;
weights between agents with normal asinh(w_ij / w_ii), which is a plain normal around zero and a logarithm far from it.
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

from fedpact.federation import Federation
from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, non_negative, read_only_copy
from fedpact.utils.errors import InvalidInput

__all__ = ["FederationDraws", "Uncertainty"]

SIGNS = ("positive", "any")
FARTHEST = 12.0  # from the median, in logarithms: further draws have no meaning
ROUNDING = 1e-6  # in correlations, which people may have rounded


@dataclass(frozen=True, kw_only=True, eq=False)
class FederationDraws:
    """Numbers a federation may have: weights (count, n, n), values and the payoff's parameter (count, n)."""

    weights: FloatArray
    values: FloatArray
    parameter: FloatArray

    def __len__(self) -> int:
        return int(self.weights.shape[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """Standard errors of a federation's numbers and their correlations.

    Parameters
    ----------
    weights
        (n, n) standard errors.
    values, parameter
        Standard errors of the values and of the payoff's parameter: a number shared by all agents, or one per agent.
    correlations
        (m, m), m the number of numbers; None if they stray independently or `factor` is given.
    factor
        (m, k), rows of length one, in place of correlations.
    signs
        "positive" if weights below zero are out of the question, else "any".
    """

    weights: Any
    values: Any = 0.0
    parameter: Any = 0.0
    correlations: Any = None
    factor: Any = None
    signs: str = "positive"

    def __post_init__(self) -> None:
        if self.signs not in SIGNS:
            raise InvalidInput(f"uncertainty.signs must be one of {', '.join(SIGNS)}, got {self.signs!r:.40}")
        weights = _matrix("uncertainty.weights", self.weights)
        if weights.shape[0] != weights.shape[1]:
            raise InvalidInput(f"uncertainty.weights must be square like weights, got shape {weights.shape}")
        for row, column in np.argwhere(~non_negative(weights))[:1]:
            raise InvalidInput(
                f"uncertainty.weights[{row}, {column}] must be {NON_NEGATIVE}, got {weights[row, column]:g}"
            )
        checked = {"weights": weights}
        for label in ("values", "parameter"):
            numbers = checked_numbers(f"uncertainty.{label}", getattr(self, label), non_negative, NON_NEGATIVE)
            if numbers.ndim and numbers.size != weights.shape[0]:
                raise InvalidInput(
                    f"uncertainty.{label} must be a number or one per agent: {weights.shape[0]} agents, "
                    f"{numbers.size} numbers given"
                )
            checked[label] = numbers
        for field, numbers in checked.items():
            object.__setattr__(self, field, numbers)
        self._check_correlations()

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return int(self.weights.shape[0])

    @property
    def n_numbers(self) -> int:
        """How many numbers are uncertain."""
        return int(self.parameter.size + self.values.size + self.weights.size)

    def _check_correlations(self) -> None:
        if self.correlations is not None and self.factor is not None:
            raise InvalidInput("uncertainty takes correlations or a factor, not both")
        if self.correlations is not None:
            matrix = _matrix("uncertainty.correlations", self.correlations)
            if matrix.shape != (self.n_numbers, self.n_numbers):
                raise InvalidInput(
                    f"uncertainty.correlations must be {self.n_numbers} x {self.n_numbers}: one row for each of the "
                    f"payoff's parameter, the values and the weights; got {matrix.shape[0]} x {matrix.shape[1]}"
                )
            _check_correlations(matrix)
            object.__setattr__(self, "correlations", matrix)
        if self.factor is not None:
            factor = _matrix("uncertainty.factor", self.factor)
            lengths = np.linalg.norm(factor, axis=1)
            if factor.shape[0] != self.n_numbers or not np.isfinite(factor).all() or (lengths > 1 + ROUNDING).any():
                raise InvalidInput(
                    f"uncertainty.factor must have {self.n_numbers} rows of length at most one, one for each of the "
                    f"payoff's parameter, the values and the weights; got shape {factor.shape}, "
                    f"longest row {lengths.max():g}"
                )
            object.__setattr__(self, "factor", factor)

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
        if federation.n_agents != self.n_agents:
            raise InvalidInput(
                f"uncertainty.weights must have one row per agent: {federation.n_agents} agents, {self.n_agents} given"
            )
        if not federation.payoff.parameters and self.parameter.any():
            raise InvalidInput(f"the payoff family {federation.payoff.family} has no parameter that could be uncertain")

    def draws(self, federation: Federation, count: int, rng: Any = None) -> FederationDraws:
        """Numbers the federation may have, `count` times over.

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
        n_agents, generator = self.n_agents, np.random.default_rng(rng)
        noise = generator.standard_normal((count, self.root.shape[1])) @ self.root.T
        places = np.cumsum([self.parameter.size, self.values.size])
        of_parameter, of_values, of_weights = np.split(noise, places, axis=1)
        given = next(iter(federation.payoff.parameters.values()), np.ones(1))

        def positive(numbers: FloatArray, errors: FloatArray, strayed: FloatArray) -> FloatArray:
            return np.asarray(np.broadcast_to(numbers * np.exp(_near(strayed * errors / numbers)), (count, n_agents)))

        return FederationDraws(
            weights=self._weights(federation.weights, of_weights.reshape(count, n_agents, n_agents)),
            values=positive(federation.values, self.values, of_values),
            parameter=positive(given, self.parameter, of_parameter),
        )

    def _weights(self, weights: FloatArray, strayed: FloatArray) -> FloatArray:
        own = weights.diagonal()[:, None]
        errors = self.weights / np.hypot(weights, own)
        drawn = own * np.sinh(np.arcsinh(weights / own) + _near(strayed * errors))
        if self.signs == "positive":
            drawn = np.maximum(drawn, np.minimum(weights, 0.0))
        every = np.arange(self.n_agents)
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


def _near(strayed: FloatArray) -> FloatArray:
    return np.clip(strayed, -FARTHEST, FARTHEST)


def _matrix(label: str, given: Any) -> FloatArray:
    try:
        matrix = read_only_copy(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{label} must be a matrix of numbers, got {given!r:.80}") from error
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInput(f"{label} must be a matrix of numbers, got shape {matrix.shape}")
    return matrix


def _check_correlations(matrix: FloatArray) -> None:
    label = "uncertainty.correlations"
    for row, column in np.argwhere(~(np.abs(matrix) <= 1.0 + ROUNDING))[:1]:
        raise InvalidInput(f"{label}[{row}, {column}] must lie between -1 and 1, got {matrix[row, column]:g}")
    for row in np.flatnonzero(np.abs(matrix.diagonal() - 1.0) > ROUNDING)[:1]:
        raise InvalidInput(f"{label}[{row}, {row}] must be 1, got {matrix[row, row]:g}")
    for row, column in np.argwhere(np.abs(matrix - matrix.T) > ROUNDING)[:1]:
        raise InvalidInput(
            f"{label} must be symmetric: [{row}, {column}] is {matrix[row, column]:g}, "
            f"[{column}, {row}] is {matrix[column, row]:g}"
        )
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest < -ROUNDING * matrix.shape[0]:
        raise InvalidInput(
            f"{label} must be correlations that can occur together (no negative eigenvalue), got {lowest:g}"
        )
