"""What contributing costs: convex functions c_j(s_j), one per agent.

The paper's cost is linear, c_j(s_j) = gamma_j s_j (section 2.1). `Quadratic` adds rising marginal costs,
c_j(s_j) = linear_j s_j + quadratic_j s_j^2. Parameters are a number shared by all agents or one number per agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.utils.arrays import (
    NON_NEGATIVE,
    POSITIVE,
    FloatArray,
    checked_numbers,
    first_where,
    non_negative,
    positive,
)
from fedpact.utils.errors import InvalidInput

__all__ = ["Cost", "Linear", "Quadratic", "as_cost"]


class Cost:
    """A convex cost per agent: c(s) = linear s + quadratic s^2, arrays broadcasting over the last axis."""

    linear: FloatArray
    quadratic: FloatArray

    def value(self, contributions: FloatArray) -> FloatArray:
        """c_j(s_j)."""
        return (self.linear + self.quadratic * contributions) * contributions

    def slope(self, contributions: FloatArray) -> FloatArray:
        """c_j'(s_j), the marginal cost."""
        return self.linear + 2.0 * self.quadratic * contributions

    def curvature(self, contributions: FloatArray) -> FloatArray:
        """c_j''(s_j)."""
        return 2.0 * self.quadratic + np.zeros_like(contributions)

    def affordable(self, budget: FloatArray | float) -> FloatArray:
        """The contribution that costs exactly `budget`."""
        root = self.linear + np.sqrt(self.linear**2 + 4.0 * self.quadratic * budget)
        return 2.0 * np.asarray(budget) / root

    def per_agent(self, names: Sequence[str]) -> Cost:
        """The same cost with one parameter per agent; errors name the agent."""
        raise NotImplementedError

    def take(self, agents: ArrayLike) -> Cost:
        """The costs of some of the agents."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Linear(Cost):
    """c_j(s_j) = rate_j s_j.

    Parameters
    ----------
    rate
        Marginal cost per sample, positive; a number or one per agent.

    Examples
    --------
    >>> float(Linear(0.001).value(400.0))
    0.4
    """

    rate: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checked_numbers("costs", self.rate, positive, POSITIVE))

    @property
    def linear(self) -> FloatArray:  # type: ignore[override]
        return self.rate

    @property
    def quadratic(self) -> FloatArray:  # type: ignore[override]
        return np.zeros_like(self.linear)

    def per_agent(self, names: Sequence[str]) -> Linear:
        rate = checked_numbers("costs", self.rate, positive, POSITIVE, names=names)
        return Linear(np.broadcast_to(rate, len(names)))

    def take(self, agents: ArrayLike) -> Linear:
        return Linear(_taken(self.linear, agents))


@dataclass(frozen=True, eq=False)
class Quadratic(Cost):
    """c_j(s_j) = linear_j s_j + quadratic_j s_j^2.

    Parameters
    ----------
    linear, quadratic
        Coefficients, at least zero and not both zero; numbers or one per agent.

    Examples
    --------
    >>> float(Quadratic(0.5, 0.25).slope(2.0))
    1.5
    """

    linear: Any
    quadratic: Any

    def __post_init__(self) -> None:
        for label in ("linear", "quadratic"):
            numbers = checked_numbers(f"costs.{label}", getattr(self, label), non_negative, NON_NEGATIVE)
            object.__setattr__(self, label, numbers)
        if self.linear.ndim and self.quadratic.ndim and self.linear.size != self.quadratic.size:
            raise InvalidInput(
                f"costs.linear and costs.quadratic must have one number per agent each: "
                f"{self.linear.size} and {self.quadratic.size} given"
            )
        free = first_where(np.atleast_1d((self.linear == 0) & (self.quadratic == 0)))
        if free is not None:
            raise InvalidInput(f"costs[{free}] must rise: linear and quadratic are both 0; give one a positive number")

    def per_agent(self, names: Sequence[str]) -> Quadratic:
        numbers = [
            np.broadcast_to(
                checked_numbers(f"costs.{label}", getattr(self, label), non_negative, NON_NEGATIVE, names=names),
                len(names),
            )
            for label in ("linear", "quadratic")
        ]
        return Quadratic(*numbers)

    def take(self, agents: ArrayLike) -> Quadratic:
        return Quadratic(_taken(self.linear, agents), _taken(self.quadratic, agents))


def _taken(numbers: FloatArray, agents: ArrayLike) -> FloatArray:
    """The chosen agents' numbers; one number shared by all stays shared."""
    return numbers[np.asarray(agents)] if numbers.ndim else numbers


def as_cost(given: Any, names: Sequence[str]) -> Cost:
    """The cost object for what a caller wrote: numbers, a `Cost`, or one `Cost` per agent."""
    if isinstance(given, Cost):
        return given.per_agent(names)
    if isinstance(given, Sequence) and any(isinstance(cost, Cost) for cost in given):
        return _mixed(given, names)
    return Linear(checked_numbers("costs", given, positive, POSITIVE, names=names)).per_agent(names)


def _mixed(given: Sequence[Any], names: Sequence[str]) -> Cost:
    if len(given) != len(names):
        raise InvalidInput(f"costs must have one entry per agent: {len(names)} agents, {len(given)} given")
    singles = []
    for index, cost in enumerate(given):
        if not isinstance(cost, Cost):
            checked_numbers(f"costs[{index}]", cost, positive, POSITIVE, who=names[index])
        single = cost if isinstance(cost, Cost) else Linear(cost)
        singles.append(single)
        if np.ndim(single.linear) or np.ndim(single.quadratic):
            raise InvalidInput(
                f'costs[{index}] must be one agent\'s cost, got numbers for several (agent "{names[index]}")'
            )
    linear = np.array([float(single.linear) for single in singles])
    quadratic = np.array([float(single.quadratic) for single in singles])
    return Quadratic(linear, quadratic) if quadratic.any() else Linear(linear)
