"""Payoff families: what data is worth, as a function of y = xi - 1, the weighted data an agent can reach.

Every family is a *Bernstein function*

    g(y) = integral of (1 - e^{-t y}) dm(t),        m a positive measure on t > 0,

so g(0) = 0, g rises and is concave, and the Shapley values of the federation have an exact integral
(`fedpact.shapley.integral`). With negative weights y may fall below zero, down to the family's `floor`, where the
payoff falls to minus infinity; so a maximiser never touches the edge of the domain.

| family      | g(y)              | dm(t)                               | floor |
|-------------|-------------------|-------------------------------------|-------|
| PowerLaw    | 1 - (1 + y)^-beta | t^(beta-1) e^-t / Gamma(beta) dt    | -1    |
| Log         | log(1 + y)        | e^-t / t dt                         | -1    |
| Michaelis   | y / (y + half)    | half e^(-half t) dt                 | -half |
| Exponential | 1 - e^(-rate y)   | a point mass at t = rate            | none  |

`PowerLaw` with value 1 is the paper's payoff, equation (3). Parameters are a number shared by all agents or one number
per agent; all functions act on arrays whose last axis runs over the agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from fedpact.utils.arrays import POSITIVE, FloatArray, checked_numbers, positive
from fedpact.utils.errors import OutsideDomain

# e^-36 = 2e-16: beyond this many decay lengths the measure no longer counts.
DECAY_LENGTHS = 36.0
LARGEST_EXPONENT = 709.79  # e to this power is more than any float


class Payoff:
    """A family of payoff curves. Subclasses are frozen dataclasses whose fields are the parameters.

    `family`, `title` and `formula` are what files and people call it, `parameter_hints` what its parameters mean to
    them: files, their schema and the explorer's forms follow.
    """

    family: ClassVar[str]
    title: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    parameter_hints: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        """Every parameter is positive, and kept as a read-only array; a family with other rules says so here."""
        for name, given in self.parameters.items():
            object.__setattr__(self, name, checked_numbers(f"payoff.{name}", given, positive, POSITIVE))

    def value(self, y: FloatArray) -> FloatArray:
        """g(y)."""
        raise NotImplementedError

    def slope(self, y: FloatArray) -> FloatArray:
        """g'(y), positive and falling."""
        raise NotImplementedError

    def curvature(self, y: FloatArray) -> FloatArray:
        """g''(y), negative."""
        raise NotImplementedError

    def inverse_slope(self, slope: FloatArray) -> FloatArray:
        """The y at which g'(y) equals `slope`."""
        raise NotImplementedError

    def increment(self, y: FloatArray, step: FloatArray) -> FloatArray:
        """g(y + step) - g(y), without cancellation however small the step."""
        raise NotImplementedError

    def counted_from(self, data: FloatArray) -> tuple[Self, FloatArray | float, FloatArray | float]:
        """What more data y is worth to whoever has `data` already: h(y) = g(data + y) - g(data).

        A family (the curve h / value, as a function of y / unit), the unit and the value: a shifted Bernstein function
        is one too, its measure times e^(-t data), and every family here is closed under it.
        """
        raise NotImplementedError(f"{type(self).__name__} says nothing of data at home (counted_from)")

    @property
    def floor(self) -> FloatArray | float:
        """The infimum of the domain: g is defined for y above it."""
        raise NotImplementedError

    @property
    def lowest_finite(self) -> FloatArray | float:
        """Where payoffs are finite numbers, y is above it: the floor, unless numbers end before."""
        return self.floor

    @property
    def concentration(self) -> FloatArray | float:
        """How much further out than t = 1, and more narrowly, the measure sits: 0 for all but steep power laws."""
        return 0.0

    def harm_text(self, names: Sequence[str], task: int, data: float, *, by: str = "") -> str:
        """That weighted data this low harms a member (or task) more than the payoff describes; `by` says who does."""
        floor = float(np.broadcast_to(self.floor, len(names))[task])
        limit = f"must stay above {floor:g}" if np.isfinite(floor) else "has no finite payoff"
        who = f'{getattr(names, "kind", "member")} "{names[task]}"'
        return (
            f"{who} is harmed more than its payoff curve describes{by}: helpful less harmful data, each times its "
            f"weight, comes to {data:g} and {limit}"
        )

    @property
    def unit(self) -> FloatArray | float:
        """The unit of data in which the measure of every task sits at t of about one, and its floor, if any, at -1."""
        return 1.0

    def log_density(self, times: FloatArray) -> FloatArray:
        """log of t dm/dt, the measure per unit of log t, of data in `unit`; (T,), or (tasks, T)."""
        raise NotImplementedError(
            f"{type(self).__name__} has no measure (log_density): only enumeration has its values"
        )

    def time_rule(self, lowest: float, highest: float, step: float) -> tuple[FloatArray, FloatArray]:
        """Times (T,) and log weights (T,) or (tasks, T) of a quadrature rule for m, of data in `unit`.

        The trapezoid rule in v, with spacing `step`, where log t = v - e^(v0 - v). Above e^v0 = 1 / highest v is about
        log t, in which the integrands are analytic in a strip of half-width pi/2, so that the error falls like
        exp(-pi^2 / step); below, where all of them are linear in t, t falls to zero within a few nodes. The rule serves
        all data from `lowest` > -1 to `highest` in every coalition.
        """
        if not -1.0 < lowest <= highest < np.inf:
            raise OutsideDomain(f"weighted data from {lowest:g} to {highest:g} is outside the domain of the payoff")
        concentration = np.max(self.concentration)
        start = -np.log(max(highest, 1.0))
        end = np.log((DECAY_LENGTHS + 3.0 * concentration) / (1.0 + min(lowest, 0.0)))
        step = step / np.sqrt(1.0 + concentration)
        nodes = np.arange(end, start - np.log(8.0 * DECAY_LENGTHS), -step)[::-1]
        damping = np.exp(start - nodes)
        times = np.exp(nodes - damping)
        log_weights = self.log_density(times) + np.log(step * (1.0 + damping))
        # Nodes count from where they do if nobody is harmed, up to where they do at worst harm.
        counts = np.atleast_2d(log_weights + np.log(np.minimum(times * max(highest, 1.0), 1.0)))
        first, last = (
            np.flatnonzero((each > each.max(axis=1, keepdims=True) - DECAY_LENGTHS - 4.0).any(axis=0))
            for each in (counts, counts - times * min(lowest, 0.0))
        )
        kept = slice(first[0], last[-1] + 1)
        return times[kept], log_weights[..., kept]

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """What the parameters of the family are called."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]

    @property
    def parameters(self) -> Mapping[str, FloatArray]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @classmethod
    def unchecked(cls, **parameters: FloatArray) -> Self:
        """The family with parameters of any shape, such as (federations, tasks), that are known to be right."""
        made = cls.__new__(cls)
        for name, numbers in parameters.items():
            object.__setattr__(made, name, numbers)
        return made

    def map(self, function: Callable[[FloatArray], FloatArray]) -> Self:
        """The family with a function applied to every parameter that is not a single number."""
        return self.unchecked(**{name: function(p) if p.ndim else p for name, p in self.parameters.items()})

    def take(self, agents: ArrayLike) -> Self:
        """The payoffs of some of the agents."""
        chosen = np.asarray(agents)
        return type(self)(**{k: v[chosen] if v.ndim else v for k, v in self.parameters.items()})


@dataclass(frozen=True, eq=False)
class PowerLaw(Payoff):
    """g(y) = 1 - (1 + y)^-beta, the paper's family.

    Examples
    --------
    >>> float(PowerLaw(beta=1.0).value(3.0))
    0.75
    """

    beta: FloatArray
    family: ClassVar[str] = "power-law"
    title: ClassVar[str] = "Power law"
    formula: ClassVar[str] = "1 - (1 + y)^-beta"
    parameter_hints: ClassVar[Mapping[str, str]] = {"beta": "how fast errors fall; accuracy levels off slowly"}

    if TYPE_CHECKING:

        def __init__(self, beta: ArrayLike) -> None: ...

    def value(self, y: FloatArray) -> FloatArray:
        return -np.expm1(-self.beta * np.log1p(y))

    def slope(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", divide="ignore"):  # infinite at the edge, and in numbers a little before
            return self.beta * (1.0 + y) ** (-self.beta - 1.0)

    def curvature(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", divide="ignore"):
            return -self.beta * (self.beta + 1.0) * (1.0 + y) ** (-self.beta - 2.0)

    def inverse_slope(self, slope: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", over="ignore"):  # slope 0 is reached at infinity
            return np.expm1(-np.log(slope / self.beta) / (self.beta + 1.0))

    def increment(self, y: FloatArray, step: FloatArray) -> FloatArray:
        return -((1.0 + y) ** -self.beta) * np.expm1(-self.beta * np.log1p(step / (1.0 + y)))

    def counted_from(self, data: FloatArray) -> tuple[Self, FloatArray, FloatArray]:
        return self, 1.0 + data, (1.0 + data) ** -self.beta

    @property
    def floor(self) -> float:
        return -1.0

    @property
    def concentration(self) -> FloatArray:
        return np.maximum(self.beta - 1.0, 0.0)

    def log_density(self, times: FloatArray) -> FloatArray:
        beta = self.beta[:, None] if self.beta.ndim else self.beta
        return np.asarray(beta * np.log(times) - times - gammaln(beta))


@dataclass(frozen=True, eq=False)
class Log(Payoff):
    """g(y) = log(1 + y): unbounded, every doubling of data is worth the same.

    Examples
    --------
    >>> round(float(Log().value(1.0)), 6)
    0.693147
    """

    family: ClassVar[str] = "log"
    title: ClassVar[str] = "Logarithm"
    formula: ClassVar[str] = "log(1 + y)"

    def value(self, y: FloatArray) -> FloatArray:
        return np.log1p(y)

    def slope(self, y: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + y)

    def curvature(self, y: FloatArray) -> FloatArray:
        return -1.0 / (1.0 + y) ** 2

    def inverse_slope(self, slope: FloatArray) -> FloatArray:
        return 1.0 / slope - 1.0

    def increment(self, y: FloatArray, step: FloatArray) -> FloatArray:
        return np.log1p(step / (1.0 + y))

    def counted_from(self, data: FloatArray) -> tuple[Self, FloatArray, float]:
        return self, 1.0 + data, 1.0

    @property
    def floor(self) -> float:
        return -1.0

    def log_density(self, times: FloatArray) -> FloatArray:
        return -times


@dataclass(frozen=True, eq=False)
class Michaelis(Payoff):
    """g(y) = y / (y + half): half of the possible payoff is reached at y = half.

    Examples
    --------
    >>> float(Michaelis(half=50.0).value(50.0))
    0.5
    """

    half: FloatArray
    family: ClassVar[str] = "michaelis"
    title: ClassVar[str] = "Michaelis"
    formula: ClassVar[str] = "y / (y + half)"
    parameter_hints: ClassVar[Mapping[str, str]] = {"half": "the data that brings half of what is possible"}

    if TYPE_CHECKING:

        def __init__(self, half: ArrayLike) -> None: ...

    def value(self, y: FloatArray) -> FloatArray:
        return y / (y + self.half)

    def slope(self, y: FloatArray) -> FloatArray:
        return self.half / (y + self.half) ** 2

    def curvature(self, y: FloatArray) -> FloatArray:
        return -2.0 * self.half / (y + self.half) ** 3

    def inverse_slope(self, slope: FloatArray) -> FloatArray:
        return np.sqrt(self.half / slope) - self.half

    def increment(self, y: FloatArray, step: FloatArray) -> FloatArray:
        return self.half * step / ((y + self.half) * (y + step + self.half))

    def counted_from(self, data: FloatArray) -> tuple[Self, float, FloatArray]:
        half = self.half + data
        return self.unchecked(half=half), 1.0, self.half / half

    @property
    def floor(self) -> FloatArray:
        return -self.half

    @property
    def unit(self) -> FloatArray:
        return self.half

    def log_density(self, times: FloatArray) -> FloatArray:
        return np.log(times) - times


@dataclass(frozen=True, eq=False)
class Exponential(Payoff):
    """g(y) = 1 - e^(-rate y).

    Examples
    --------
    >>> round(float(Exponential(rate=0.5).value(2.0)), 6)
    0.632121
    """

    rate: FloatArray
    family: ClassVar[str] = "exponential"
    title: ClassVar[str] = "Exponential"
    formula: ClassVar[str] = "1 - exp(-rate y)"
    parameter_hints: ClassVar[Mapping[str, str]] = {"rate": "accuracy levels off fast, after about 1/rate of data"}

    if TYPE_CHECKING:

        def __init__(self, rate: ArrayLike) -> None: ...

    def value(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # minus infinity in numbers, far below zero
            return -np.expm1(-self.rate * y)

    def slope(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # infinite in numbers, far below zero
            return self.rate * np.exp(-self.rate * y)

    def curvature(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return -(self.rate**2) * np.exp(-self.rate * y)

    def inverse_slope(self, slope: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):  # a saturated agent has slope 0, reached at infinity
            return (np.log(self.rate) - np.log(slope)) / self.rate

    def increment(self, y: FloatArray, step: FloatArray) -> FloatArray:
        return -np.exp(-self.rate * y) * np.expm1(-self.rate * step)

    def counted_from(self, data: FloatArray) -> tuple[Self, float, FloatArray]:
        return self, 1.0, np.exp(-self.rate * data)

    @property
    def floor(self) -> float:
        return -np.inf

    @property
    def lowest_finite(self) -> FloatArray:
        return -LARGEST_EXPONENT / self.rate

    @property
    def unit(self) -> FloatArray:
        return 1.0 / self.rate

    def time_rule(self, lowest: float, highest: float, step: float) -> tuple[FloatArray, FloatArray]:
        return np.ones(1), np.zeros(1)


FAMILIES: Mapping[str, type[Payoff]] = {family.family: family for family in (PowerLaw, Exponential, Log, Michaelis)}
