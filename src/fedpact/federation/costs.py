"""What contributing costs: convex functions c_l(s_l), one per lot.

The paper's cost is linear, c_l(s_l) = gamma_l s_l (section 2.1). `Quadratic` adds rising marginal costs,
c_l(s_l) = linear_l s_l + quadratic_l s_l^2. Parameters are a number shared by all lots or one number per lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fedpact.utils.arrays import (
    MAX_ERRORS,
    NON_NEGATIVE,
    POSITIVE,
    FloatArray,
    checked_numbers,
    non_negative,
    positive,
)
from fedpact.utils.errors import ErrorCollector, InvalidInput

MUST_RISE = "must rise"


class Cost:
    """A convex cost per lot: c(s) = linear s + quadratic s^2. Subclasses are frozen dataclasses of parameters."""

    linear: FloatArray
    quadratic: FloatArray
    rules: ClassVar[tuple[Any, str]]  # what parameters must be: a function, and its words

    def __post_init__(self) -> None:
        errors = ErrorCollector()
        for name, given in self.parameters.items():
            label = self.label(name)
            checked = errors.attempt(checked_numbers, label, given, *self.rules)
            object.__setattr__(self, name, checked)
        errors.raise_errors()

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def label(self, name: str) -> str:
        """What errors call a parameter."""
        return f"costs.{name}"

    def value(self, contributions: FloatArray) -> FloatArray:
        """c_l(s_l)."""
        return (self.linear + self.quadratic * contributions) * contributions

    def slope(self, contributions: FloatArray) -> FloatArray:
        """c_l'(s_l), the marginal cost."""
        return self.linear + 2.0 * self.quadratic * contributions

    def curvature(self, contributions: FloatArray) -> FloatArray:
        """c_l''(s_l)."""
        return 2.0 * self.quadratic + np.zeros_like(contributions)

    def take(self, lots: ArrayLike) -> Self:
        """The costs of some of the lots; one number shared by all stays shared."""
        chosen = np.asarray(lots)
        return type(self)(**{name: p[chosen] if p.ndim else p for name, p in self.parameters.items()})


@dataclass(frozen=True, eq=False)
class Linear(Cost):
    """c_l(s_l) = rate_l s_l.

    Parameters
    ----------
    rate
        Marginal cost per sample, positive; a number or one per lot.

    Examples
    --------
    >>> float(Linear(0.001).value(400.0))
    0.4
    """

    rate: FloatArray
    rules: ClassVar[tuple[Any, str]] = (positive, POSITIVE)

    if TYPE_CHECKING:

        def __init__(self, rate: ArrayLike) -> None: ...

    def label(self, name: str) -> str:
        return "costs"

    @property
    def linear(self) -> FloatArray:  # type: ignore[override]
        return self.rate

    @property
    def quadratic(self) -> FloatArray:  # type: ignore[override]
        return np.zeros_like(self.rate)


@dataclass(frozen=True, eq=False)
class Quadratic(Cost):
    """c_l(s_l) = linear_l s_l + quadratic_l s_l^2.

    Parameters
    ----------
    linear, quadratic
        Coefficients, at least zero and not both zero; numbers or one per lot.

    Examples
    --------
    >>> float(Quadratic(0.5, 0.25).slope(2.0))
    1.5
    """

    linear: FloatArray
    quadratic: FloatArray
    rules: ClassVar[tuple[Any, str]] = (non_negative, NON_NEGATIVE)

    if TYPE_CHECKING:

        def __init__(self, linear: ArrayLike, quadratic: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.linear.ndim and self.quadratic.ndim and self.linear.size != self.quadratic.size:
            raise InvalidInput(
                field="costs.linear and costs.quadratic",
                rule="must have as many numbers as each other",
                given=f": {self.linear.size} and {self.quadratic.size} given",
            )
        way_out = ": linear and quadratic are both 0; give one a positive number"
        free = np.flatnonzero((self.linear == 0) & (self.quadratic == 0))[:MAX_ERRORS].tolist()
        errors = [InvalidInput(field="costs", index=lot, rule=MUST_RISE, value=0.0, given=way_out) for lot in free]
        if errors:
            raise InvalidInput.first_of(errors)


def make_cost(linear: FloatArray, quadratic: FloatArray) -> Cost:
    """The cost with these coefficients: linear where nothing rises."""
    return Quadratic(linear, quadratic) if quadratic.any() else Linear(linear)


def as_cost(given: Any, names: Sequence[str]) -> Cost:
    """The cost object for what a caller wrote: numbers or a `Cost`, with one parameter per lot; errors name the lot."""
    if isinstance(given, list | tuple) and any(isinstance(cost, Cost) for cost in given):
        way_out = ", got a list of costs; give one Quadratic(linear, quadratic) with a number for each in both"
        raise InvalidInput(field="costs", rule="must be numbers or one Linear or Quadratic", value=given, given=way_out)
    cost = (
        given if isinstance(given, Cost) else Linear(checked_numbers("costs", given, positive, POSITIVE, names=names))
    )
    parameters = {
        name: checked_numbers(cost.label(name), numbers, *cost.rules, names=names)
        for name, numbers in cost.parameters.items()
    }
    return type(cost)(**{name: np.broadcast_to(numbers, len(names)) for name, numbers in parameters.items()})
