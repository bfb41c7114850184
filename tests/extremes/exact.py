"""A federation in sixty decimal digits: payoffs, slopes, the welfare optimum, Shapley values by all coalitions.

Nothing of the package is used but the numbers of the federation, so that its answers can be judged. Python's decimals
have no underflow and no overflow to speak of. Vectors are lists.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

import fedpact as fp

CONTEXT = Context(prec=60, Emax=10**15, Emin=-(10**15))
ZERO, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)
MAX_COALITION_AGENTS = 6
MAX_STEPS, MAX_HALVINGS = 60, 40
SHARP = Decimal(10) ** -28  # of the welfare's size: a gain by the tangents that ends Newton's steps
MAX_BRACKETS, MAX_BISECTIONS = 60, 120
FIRST_BRACKET = Decimal(10) ** -9

Vector = list[Decimal]


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Work in sixty digits."""

    def working(*given: Any, **named: Any) -> Any:
        with localcontext(CONTEXT):
            return function(*given, **named)

    return working


def decimals(numbers: Any, count: int) -> Vector:
    """Floats as they are, to the last digit."""
    return [Decimal(float(number)) for number in np.broadcast_to(np.asarray(numbers, dtype=float), count)]


class ExactFederation:
    """The numbers of a federation as decimals; zeros of the weights are left out."""

    def __init__(self, federation: fp.Federation) -> None:
        n = self.n = federation.n_agents
        self.family = federation.payoff.family
        weights = federation.dense_weights()
        self.rows = [{j: Decimal(float(weights[i, j])) for j in np.flatnonzero(weights[i])} for i in range(n)]
        self.linear, self.quadratic = decimals(federation.costs.linear, n), decimals(federation.costs.quadratic, n)
        self.caps, self.values = decimals(federation.caps, n), decimals(federation.values, n)
        parameters = list(federation.payoff.parameters.values())
        self.parameters = decimals(parameters[0], n) if parameters else [ONE] * n

    @cached_property
    def columns(self) -> list[list[tuple[int, Decimal]]]:
        """For every agent, whom its data reaches, and how."""
        columns: list[list[tuple[int, Decimal]]] = [[] for _ in range(self.n)]
        for i, row in enumerate(self.rows):
            for j, weight in row.items():
                columns[j].append((i, weight))
        return columns

    def floor(self, i: int) -> Decimal:
        """Payoffs are defined above it."""
        if self.family == "exponential":
            return Decimal("-Infinity")
        return -self.parameters[i] if self.family == "michaelis" else -ONE

    def value(self, i: int, y: Decimal) -> Decimal:
        """values_i g_i(y)."""
        a = self.parameters[i]
        if self.family == "power-law":
            g = ONE - (-a * (ONE + y).ln()).exp()
        elif self.family == "log":
            g = (ONE + y).ln()
        elif self.family == "michaelis":
            g = y / (y + a)
        else:
            g = ONE - (-a * y).exp()
        return self.values[i] * g

    def slope(self, i: int, y: Decimal) -> Decimal:
        """values_i g_i'(y)."""
        a = self.parameters[i]
        if self.family == "power-law":
            g = a * (-(a + ONE) * (ONE + y).ln()).exp()
        elif self.family == "log":
            g = ONE / (ONE + y)
        elif self.family == "michaelis":
            g = a / (y + a) ** 2
        else:
            g = a * (-a * y).exp()
        return self.values[i] * g

    def bend(self, i: int, y: Decimal, slope: Decimal) -> Decimal:
        """-values_i g_i''(y), from the slope there."""
        a = self.parameters[i]
        if self.family == "power-law":
            return slope * (a + ONE) / (ONE + y)
        if self.family == "log":
            return slope / (ONE + y)
        return TWO * slope / (y + a) if self.family == "michaelis" else slope * a

    def reach(self, s: Vector) -> Vector:
        """y_i = sum_j w_ij s_j."""
        return [sum((w * s[j] for j, w in row.items()), ZERO) for row in self.rows]

    def admits(self, y: Vector) -> bool:
        """Whether all payoffs are defined."""
        return all(y[i] > self.floor(i) for i in range(self.n))

    def cost(self, j: int, x: Decimal) -> Decimal:
        """c_j(x)."""
        return (self.linear[j] + self.quadratic[j] * x) * x

    def marginal_cost(self, j: int, x: Decimal) -> Decimal:
        """c_j'(x)."""
        return self.linear[j] + TWO * self.quadratic[j] * x

    def welfare(self, s: Vector, y: Vector) -> Decimal:
        """All payoffs less all costs."""
        return sum((self.value(i, y[i]) - self.cost(i, s[i]) for i in range(self.n)), ZERO)

    def welfare_slopes(self, s: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Payoffs' slopes, and those of welfare by contribution."""
        slopes = [self.slope(i, y[i]) for i in range(self.n)]
        earned = [sum((w * slopes[i] for i, w in column), ZERO) for column in self.columns]
        return slopes, [earned[j] - self.marginal_cost(j, s[j]) for j in range(self.n)]

    @cached_property
    def limits(self) -> Vector:
        """What nobody exceeds at any welfare optimum: costs cannot be above all payoffs that they could buy."""
        spending = sum(self.values, ZERO) if self.family != "log" else ONE
        while self._bought(spending) > spending:
            spending *= 10
        for _ in range(20):
            spending = self._bought(spending)
        return [min(self.caps[j], self._affordable(j, spending)) for j in range(self.n)]

    def _affordable(self, j: int, spending: Decimal) -> Decimal:
        """The x with c_j(x) = spending."""
        a, b = self.linear[j], self.quadratic[j]
        if spending == 0:
            return ZERO
        return spending / a if b == 0 else TWO * spending / (a + (a * a + 4 * b * spending).sqrt())

    def _bought(self, spending: Decimal) -> Decimal:
        """At least the payoffs of all profiles that cost no more than this."""
        x = [min(self.caps[j], self._affordable(j, spending)) for j in range(self.n)]
        helped = [sum((w * x[j] for j, w in row.items() if w > 0), ZERO) for row in self.rows]
        return sum((self.value(i, helped[i]) for i in range(self.n)), ZERO)


@exactly
def welfare_gap(exact: ExactFederation, contributions: Any, enough: float) -> tuple[float, float, Vector | None]:
    """How much welfare the best profile has more: bounds from below and above, and the optimum if it is unique.

    From the contributions, Newton's steps on those who are not held at a bound. Welfare is concave, so tangents bound
    it above everywhere. Up to `enough` the upper bound is not sharpened; the optimum is then not known either.
    """
    s = decimals(contributions, exact.n)
    y = exact.reach(s)
    first = best = exact.welfare(s, y)
    slopes, climb = exact.welfare_slopes(s, y)
    gap = _tangent_gap(exact, s, climb)
    unique = False
    size = sum((abs(exact.value(i, y[i])) + exact.cost(i, s[i]) for i in range(exact.n)), ZERO)
    size = max(size, SHARP * sum(exact.values, ZERO))
    for _ in range(MAX_STEPS):
        if gap <= SHARP * size or (enough and gap <= Decimal(enough)):
            break
        free = [
            j
            for j in range(exact.n)
            if not (s[j] <= 0 and climb[j] <= 0) and not (s[j] >= exact.limits[j] and climb[j] >= 0)
        ]
        step, unique = _newton_step(exact, y, slopes, climb, free)
        part = ONE
        for _ in range(MAX_HALVINGS):
            ahead = list(s)
            for j, move in zip(free, step, strict=True):
                ahead[j] = min(max(s[j] + part * move, ZERO), exact.limits[j])
            there = exact.reach(ahead)
            if exact.admits(there) and (welfare := exact.welfare(ahead, there)) > best:
                break
            part /= TWO
        else:
            break
        s, y, best = ahead, there, welfare
        slopes, climb = exact.welfare_slopes(s, y)
        gap = _tangent_gap(exact, s, climb)
    optimum = s if unique and gap <= SHARP * size * 1000 else None
    return float(best - first), float(best - first + gap), optimum


def _tangent_gap(exact: ExactFederation, s: Vector, climb: Vector) -> Decimal:
    limits = exact.limits
    return sum(
        (climb[j] * (max(limits[j], s[j]) - s[j]) if climb[j] > 0 else -climb[j] * s[j] for j in range(exact.n)), ZERO
    )


def _newton_step(
    exact: ExactFederation, y: Vector, slopes: Vector, climb: Vector, free: list[int]
) -> tuple[Vector, bool]:
    """Minus the inverse of the curvature times the slopes, and whether there is an inverse."""
    place = {j: k for k, j in enumerate(free)}
    matrix = [[ZERO] * len(free) for _ in free]
    for i, row in enumerate(exact.rows):
        bend = exact.bend(i, y[i], slopes[i])
        entries = [(place[j], w) for j, w in row.items() if j in place]
        for k, w in entries:
            bent = bend * w
            target = matrix[k]
            for other, v in entries:
                target[other] += bent * v
    for k, j in enumerate(free):
        matrix[k][k] += TWO * exact.quadratic[j]
    return solve_linear(matrix, [climb[j] for j in free])


def solve_linear(matrix: list[Vector], right: Vector) -> tuple[Vector, bool]:
    """The solution of a positive semidefinite system; where it has many, one of them, and False."""
    n = len(right)
    units = [ONE / matrix[k][k].sqrt() if matrix[k][k] > 0 else ONE for k in range(n)]
    a = [[matrix[i][j] * units[i] * units[j] for j in range(n)] for i in range(n)]
    b = [right[i] * units[i] for i in range(n)]
    regular = True
    order = list(range(n))
    for step in range(n):
        pivot = max(range(step, n), key=lambda k: a[k][k])
        a[step], a[pivot] = a[pivot], a[step]
        b[step], b[pivot] = b[pivot], b[step]
        order[step], order[pivot] = order[pivot], order[step]
        for row in a:
            row[step], row[pivot] = row[pivot], row[step]
        if a[step][step] <= Decimal(10) ** -40:
            regular = False
            for k in range(step, n):
                a[k][k] = Decimal(10) ** -40  # what is left is flat: go far along it, to a bound
                for j in range(step, n):
                    if j != k:
                        a[k][j] = ZERO
            break
        for k in range(step + 1, n):
            if a[k][step]:
                factor = a[k][step] / a[step][step]
                row, source = a[k], a[step]
                for j in range(step + 1, n):
                    row[j] -= factor * source[j]
                b[k] -= factor * b[step]
    x = [ZERO] * n
    for k in reversed(range(n)):
        rest = b[k] - sum((a[k][j] * x[j] for j in range(k + 1, n)), ZERO)
        x[k] = rest / a[k][k] if a[k][k] else ZERO
    found = [ZERO] * n
    for k in range(n):
        found[order[k]] = x[k] * units[order[k]]
    return found, regular


@exactly
def price_payments(exact: ExactFederation, s: Vector) -> list[float]:
    """What M^E pays at a profile: everybody buys the others' data at its own marginal payoffs."""
    y = exact.reach(s)
    slopes = [exact.slope(i, y[i]) for i in range(exact.n)]
    paid = [slopes[i] * sum((w * s[j] for j, w in row.items() if j != i), ZERO) for i, row in enumerate(exact.rows)]
    received = [
        s[j] * sum((w * slopes[i] for i, w in column if i != j), ZERO) for j, column in enumerate(exact.columns)
    ]
    return [float(received[i] - paid[i]) for i in range(exact.n)]


@exactly
def own_gains(exact: ExactFederation, contributions: Any, enough: Any, *, alone: bool) -> tuple[list[float], bool]:
    """What each agent could gain by another contribution, without payments; and whether the profile is admissible."""
    s = decimals(contributions, exact.n)
    y = [exact.rows[i].get(i, ZERO) * s[i] for i in range(exact.n)] if alone else exact.reach(s)
    if not exact.admits(y):
        return [], False

    def gain(i: int) -> Decimal:
        own, others = exact.rows[i].get(i, ZERO), y[i] - exact.rows[i].get(i, ZERO) * s[i]

        def climb(x: Decimal) -> Decimal | None:
            reached = others + own * x
            return own * exact.slope(i, reached) - exact.marginal_cost(i, x) if reached > exact.floor(i) else None

        def utility(x: Decimal) -> Decimal:
            return exact.value(i, others + own * x) - exact.cost(i, x)

        return largest_gain(climb, utility, s[i], exact.caps[i], Decimal(float(enough[i])))

    return [float(gain(i)) for i in range(exact.n)], True


def largest_gain(
    climb: Callable[[Decimal], Decimal | None],
    utility: Callable[[Decimal], Decimal],
    s: Decimal,
    cap: Decimal,
    enough: Decimal,
) -> Decimal:
    """How far a concave utility rises above that of s: a bound if that is no more than `enough`, else the gain.

    `climb` is its slope, None outside the domain, which it leaves downwards or upwards but not in between.
    """
    here = climb(s)
    assert here is not None
    if here == 0 or (here > 0 and s >= cap) or (here < 0 and s <= 0):
        return ZERO
    rises = here > 0
    width = max(s * FIRST_BRACKET, Decimal(10) ** -30)
    for _ in range(MAX_BRACKETS):
        far = min(s + width, cap) if rises else max(s - width, ZERO)
        there = climb(far)
        if abs(here) * abs(far - s) <= enough and (there is None or (there <= 0) == rises or far in {cap, ZERO}):
            return abs(here) * abs(far - s)
        if there is None or (there <= 0) == rises or far in {cap, ZERO}:
            break
        width *= 10
    near = s
    for _ in range(MAX_BISECTIONS):
        middle = (near + far) / TWO
        there = climb(middle)
        if there is None or (there <= 0) == rises:
            far = middle
        else:
            near = middle
    if (found := climb(far)) is not None and (found > 0) == rises:
        near = far
    return utility(near) - utility(s)


class Coalitions:
    """Shapley values and slopes by all coalitions of a few agents, the others fixed."""

    def __init__(self, exact: ExactFederation, s: Vector) -> None:
        self.exact, self.s = exact, s

    def _worth(self, agent: int, x: Decimal, *, slope: bool) -> Decimal | None:
        exact, others = self.exact, [j for j in range(self.exact.n) if j != agent]
        total = ZERO
        for size in range(len(others) + 1):
            chance = ONE / (exact.n * comb(exact.n - 1, size))
            for members in combinations(others, size):
                for i, weight in exact.columns[agent]:
                    row = exact.rows[i]
                    before = sum((row[j] * self.s[j] for j in members if j in row), ZERO)
                    after = before + weight * x
                    if min(before, after) <= exact.floor(i):
                        return None
                    if slope:
                        total += chance * weight * exact.slope(i, after)
                    else:
                        total += chance * (exact.value(i, after) - exact.value(i, before))
        return total

    def value(self, agent: int, x: Decimal) -> Decimal | None:
        """phi of one agent at another contribution of its own; None where a coalition leaves the domain."""
        return self._worth(agent, x, slope=False)

    def climb(self, agent: int, x: Decimal) -> Decimal | None:
        """Its slope less the marginal cost."""
        found = self._worth(agent, x, slope=True)
        return None if found is None else found - self.exact.marginal_cost(agent, x)


@exactly
def shapley_gains(exact: ExactFederation, contributions: Any, enough: Any) -> tuple[list[float], list[float]] | None:
    """Shapley values at a profile and what each agent could gain if paid by them; None outside the domain."""
    s = decimals(contributions, exact.n)
    game = Coalitions(exact, s)
    values, gains = [], []
    for agent in range(exact.n):
        value = game.value(agent, s[agent])
        if value is None:
            return None
        values.append(float(value))

        def utility(x: Decimal, agent: int = agent) -> Decimal:
            return (game.value(agent, x) or ZERO) - exact.cost(agent, x)

        climb = lambda x, agent=agent: game.climb(agent, x)
        gains.append(float(largest_gain(climb, utility, s[agent], exact.caps[agent], Decimal(float(enough[agent])))))
    return values, gains


@exactly
def payoffs_and_costs(
    exact: ExactFederation, contributions: Any, *, alone: bool
) -> tuple[list[float], list[float]] | None:
    """a_i and c_i at a profile; None outside the domain."""
    s = decimals(contributions, exact.n)
    y = [exact.rows[i].get(i, ZERO) * s[i] for i in range(exact.n)] if alone else exact.reach(s)
    if not exact.admits(y):
        return None
    return [float(exact.value(i, y[i])) for i in range(exact.n)], [float(exact.cost(i, s[i])) for i in range(exact.n)]
