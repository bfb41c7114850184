"""What contributing costs: convex functions c_j(s_j), one per agent.

The paper's cost is linear, c_j(s_j) = gamma_j s_j (section 2.1). `Quadratic` adds rising marginal costs,
c_j(s_j) = linear_j s_j + quadratic_j s_j^2. Parameters are a number shared by all agents or one number per agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.utils.arrays import (
    MAX_ERRORS,
    NON_NEGATIVE,
    POSITIVE,
    FloatArray,
    align,
    checked_numbers,
    labels_of,
    non_negative,
    positive,
)
from fedpact.utils.errors import ErrorCollector, InvalidInput

MUST_RISE = "must rise"


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
        spent = np.asarray(budget, dtype=np.float64)
        # A hypotenuse, since squares and products of costs are out of range long before the costs are.
        root = self.linear + np.hypot(self.linear, 2.0 * np.sqrt(self.quadratic) * np.sqrt(spent))
        half = np.divide(spent, root, out=np.zeros(np.broadcast_shapes(spent.shape, root.shape)), where=root > 0)
        return np.asarray(2.0 * half)

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

    rate: FloatArray

    if TYPE_CHECKING:

        def __init__(self, rate: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checked_numbers("costs", self.rate, positive, POSITIVE, keep_labels=True))

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

    linear: FloatArray
    quadratic: FloatArray

    if TYPE_CHECKING:

        def __init__(self, linear: ArrayLike, quadratic: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        errors = ErrorCollector()
        for part in ("linear", "quadratic"):
            given = getattr(self, part)
            numbers = errors.attempt(
                checked_numbers, f"costs.{part}", given, non_negative, NON_NEGATIVE, keep_labels=True
            )
            object.__setattr__(self, part, numbers)
        errors.raise_errors()
        if self.linear.ndim and self.quadratic.ndim and self.linear.size != self.quadratic.size:
            raise InvalidInput(
                field="costs.linear and costs.quadratic",
                rule="must have as many numbers as each other",
                given=f": {self.linear.size} and {self.quadratic.size} given",
            )
        labels = labels_of(self.linear)
        quadratic = self.quadratic if labels is None else align("costs.quadratic", self.quadratic, labels)
        free = np.flatnonzero((self.linear == 0) & (quadratic == 0))[:MAX_ERRORS]
        if free.size:
            way_out = ": linear and quadratic are both 0; give one a positive number"
            raise InvalidInput.first_of(
                [
                    InvalidInput(field="costs", index=agent, rule=MUST_RISE, value=0.0, given=way_out)
                    for agent in free.tolist()
                ]
            )

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
        kind = getattr(names, "kind", "member")
        counts = f": {len(names)} {kind}s, {len(given)} given"
        raise InvalidInput(field="costs", rule=f"must have one entry per {kind}", value=given, given=counts)
    errors = ErrorCollector()
    singles = [errors.attempt(_single, cost, index, names[index]) for index, cost in enumerate(given)]
    errors.raise_errors()
    linear, quadratic = np.array(singles).T
    return Quadratic(linear, quadratic) if quadratic.any() else Linear(linear)


def _single(given: Any, index: int, name: str) -> tuple[float, float]:
    """The coefficients of one agent's cost."""
    if not isinstance(given, Cost):
        given = Linear(checked_numbers("costs", given, positive, POSITIVE, index=index, agent=name))
    if np.ndim(given.linear) or np.ndim(given.quadratic):
        several, rule = ", got numbers for several", "must be one member's cost"
        raise InvalidInput(field="costs", index=index, rule=rule, value=given, agent=name, given=several)
    return float(given.linear), float(given.quadratic)
