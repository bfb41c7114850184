r"""Shapley values, semivalues and their gradients worked out anew: no code is shared with `fedpact.shapley`.

Member j brings u_rj to task r. Up to `MAX_COALITION_AGENTS` members every coalition is listed. Beyond, with payoffs
g(y) = int (1 - e^{-t y}) dm(t),

    phi_j = sum_r v_r int dm(t) int_0^1 dq (1 - e^{-t u_rj}) prod_{k != j} (1 - q + q e^{-t u_rk}),

and d phi_j / d u_rj has t e^{-t u_rj} in place of the first bracket.

- t: Gauss-Legendre on panels of log t. Below t = 1 / (the most data) integrands are linear in t, and panels wide.
- q: Gauss-Legendre on panels that halve towards q = 0, where helpful data leaves something, and towards q = 1 if some
  harms.
- Members: given t and q, a task sees them only through sum_k log(1 - q + q e^{-t u_rk}), and credits each by a smooth
  function of its u. Chebyshev points in asinh(u / the least |u|) stand for them, the same for all tasks.

The values add up to all payoffs, which are known in closed form: by how much they do not is the error. With a
`probability`, that is the only q: semivalues. The error is then by how much the nodes in t miss payoffs.

Cost: tasks x points x nodes (t, q) and tasks x members x points: seconds for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb

import numpy as np
from numpy.polynomial import chebyshev, legendre

from fedpact.certificates.concave import ConcaveProblem, welfare_problem
from fedpact.federation import Exponential, Payoff
from fedpact.federation.arrays import FederationArrays
from fedpact.federation.payoffs import LARGEST_EXPONENT
from fedpact.utils.arrays import FloatArray

MAX_COALITION_AGENTS = 12
MAX_ERROR = 1e-9  # of the payoffs: values that miss them by more prove nothing
PANEL, PANEL_NODES, TAIL_PANELS = 2.5, 14, (32.0, 12.0, 4.0)  # in log t; the last below the most data
DECAY_LENGTHS = 40.0  # e^-40 is nothing
OCTAVE_NODES = 10  # in q
EDGE_SHARE = 1e-3  # of the distance to the edge of the domain: closer to it nobody gains by going
MIN_DATA = 1e-12  # of the most: points lie no closer to nothing
POINTS_PER_EFOLDING, MIN_POINTS = 16.0, 60


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedShares:
    """Shapley values, or semivalues, and their gradient."""

    # values, gradient: phi_j, (members,), and d phi_j / d s_l, (lots,), of every lot's owner
    values: FloatArray
    gradient: FloatArray
    error: float  # by how much the values, or the nodes, miss all payoffs
    proves: bool  # whether that is little enough to prove anything by
    method: str  # how they were obtained, in words
    probability: float | None = None  # that of semivalues; None for Shapley values


def check_shares(
    arrays: FederationArrays, contributions: FloatArray, probability: float | None = None
) -> CheckedShares | None:
    """The Shapley values of a profile, or semivalues; None where some coalition leaves the domain."""
    if (arrays.lowest_data(contributions) <= arrays.floor).any():
        return None
    payoffs, few = arrays.payoffs(contributions), arrays.n_agents <= MAX_COALITION_AGENTS
    with np.errstate(all="ignore"):
        if few:
            values, rates = _count_coalitions(arrays, contributions, probability)
            missed = 0.0
        else:
            integral = _Integral(arrays, contributions, probability)
            values, rates = integral.credits()
            missed = float(
                np.abs(integral.payoffs(arrays.data(contributions)) - arrays.task_payoffs(contributions)).sum()
            )
        gradient = (rates[:, arrays.lot_owners] * arrays.weights).sum(axis=0)
    if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
        return None
    error = abs(float(values.sum() - payoffs.sum())) if probability is None else missed
    return CheckedShares(
        values=values,
        gradient=gradient,
        error=error,
        proves=error <= MAX_ERROR * max(float(np.abs(payoffs).sum()), float(np.abs(values).sum())),
        method="all coalitions" if few else "an integral of its own",
        probability=probability,
    )


def own_share_problems(
    arrays: FederationArrays,
    contributions: FloatArray,
    agents: Sequence[int],
    upper: FloatArray,
    probability: float | None,
) -> Iterator[ConcaveProblem]:
    """For each of some members: what it is credited with less its costs over its own lots, but for the value at zero.

    `upper` are the bounds of all lots.
    """
    integral = None
    if arrays.n_agents > MAX_COALITION_AGENTS:
        most = np.where(np.isfinite(upper), np.maximum(upper, contributions), contributions)
        integral = _Integral(arrays, contributions, probability, reaching=most)
        masses = integral.masses_without(agents)
    for index, agent in enumerate(agents):
        own = np.flatnonzero(arrays.lot_owners == agent)
        weights = arrays.weights[:, own]
        if integral is None:
            data, chances = _coalitions_before(arrays, contributions, agent, probability)
            weights, values = np.tile(weights, (len(chances), 1)), chances[:, None] * arrays.values
            payoff: Payoff = arrays.payoff.map(partial(np.tile, reps=len(chances)))
        else:
            weights = (integral.times[:, None] * (weights / integral.unit)[:, None, :]).reshape(-1, own.size)
            payoff, values, data = Exponential(1.0), masses[index], np.zeros(masses[index].shape)
        yield replace(
            welfare_problem(arrays, upper[None, own], own),
            weights=weights[None],
            values=values.reshape(1, -1),
            payoff=payoff,
            background=data.reshape(1, -1),
        )


def _coalitions_before(
    arrays: FederationArrays, contributions: FloatArray, agent: int, probability: float | None
) -> tuple[FloatArray, FloatArray]:
    """The data (coalitions, tasks) of all coalitions without a member, and how likely it finds each before it."""
    n_agents = arrays.n_agents
    members = (np.arange(1 << n_agents)[:, None] >> np.arange(n_agents)) & 1
    members = members[members[:, agent] == 0]
    chances = [1.0 / (n_agents * comb(n_agents - 1, size)) for size in range(n_agents)]
    if probability is not None:
        chances = [probability**size * (1.0 - probability) ** (n_agents - 1 - size) for size in range(n_agents)]
    return members @ arrays.member_data(contributions).T, np.array(chances)[members.sum(axis=1)]


def _count_coalitions(
    arrays: FederationArrays, contributions: FloatArray, probability: float | None
) -> tuple[FloatArray, FloatArray]:
    """Values (members,) and rates d phi_j / d u_rj (tasks, members)."""
    brought = arrays.member_data(contributions)
    values, rates = np.zeros(arrays.n_agents), np.zeros(brought.shape)
    for agent in range(arrays.n_agents):
        data, chances = _coalitions_before(arrays, contributions, agent, probability)
        values[agent] = chances @ (arrays.payoff.increment(data, brought[:, agent]) @ arrays.values)
        rates[:, agent] = arrays.values * (chances @ arrays.payoff.slope(data + brought[:, agent]))
    return values, rates


class _Integral:
    """Nodes in t and q, and points that stand for what members bring to tasks, in the payoff's unit.

    With Chebyshev polynomials T_d, and `coefficients` those of a function given at the points,
    sum_k h(u_k) = sum_p counts_p h(points_p), counts_p = sum_k sum_d T_d(u_k) coefficients_dp.
    """

    def __init__(
        self,
        arrays: FederationArrays,
        contributions: FloatArray,
        probability: float | None,
        reaching: FloatArray | None = None,
    ) -> None:
        self.unit = np.broadcast_to(arrays.payoff.unit, arrays.n_tasks)[:, None]
        self.brought = arrays.member_data(contributions) / self.unit
        most = contributions if reaching is None else reaching
        lowest, highest = arrays.lowest_data(contributions) / self.unit[:, 0], arrays.highest_data(most)
        # Those who harm may go further, but not over the edge of the domain, at -1.
        lowest = np.maximum(arrays.lowest_data(most) / self.unit[:, 0], -1.0 + EDGE_SHARE * (1.0 + lowest))
        self.times, log_weights = _time_rule(arrays, float(lowest.min()), float((highest / self.unit[:, 0]).max()))
        self.log_masses = log_weights + np.log(arrays.values)[:, None]
        self.q, self.q_weights = _q_rule(self.brought.shape[1], bool((self.brought < 0).any()))
        if probability is not None:
            self.q, self.q_weights = np.array([probability]), np.ones(1)
        size = np.abs(self.brought)
        scale = max(size[size > 0].min(initial=1.0), MIN_DATA * size.max())
        position = np.arcsinh(self.brought / scale)
        low, width = position.min(), max(np.ptp(position), 1e-6)
        count = max(int(POINTS_PER_EFOLDING * width), MIN_POINTS)
        nodes = chebyshev.chebpts1(count)
        points = scale * np.sinh(low + width * (nodes + 1.0) / 2.0)
        self.points = np.where(points == 0, np.finfo(float).tiny, points)
        self.position = (position - low) / width * 2.0 - 1.0
        self.coefficients = np.linalg.inv(chebyshev.chebvander(nodes, count - 1))
        sums = np.array([chebyshev.chebvander(row, count - 1).sum(axis=0) for row in self.position])
        self.counts = sums @ self.coefficients

    def credits(self) -> tuple[FloatArray, FloatArray]:
        """Values (members,) and rates d phi_j / d u_rj (tasks, members)."""
        worth, rates = np.zeros((2, *self.counts.shape))  # of the points; worth by unit of data
        for t, parts, gains, left in self._products():
            worth += parts @ (gains / self.points)
            rates += t * (parts @ left)
        worth, rates = (
            chebyshev.chebval(self.position, (self.coefficients @ at.T)[..., None], tensor=False)
            for at in (worth, rates)
        )
        return (self.brought * worth).sum(axis=0), rates / self.unit

    def masses_without(self, agents: Sequence[int]) -> FloatArray:
        """(agents, tasks, times): what 1 - e^{-t u} counts for in the value of a member that brings u."""
        own, masses = self.brought[:, None, agents], []
        for t, parts, *_ in self._products():
            with np.errstate(divide="ignore"):  # a factor may be too large for a number where its product is not
                left = np.exp(np.log(parts)[:, :, None] - _factors(t, own, self.q[:, None])[0])
            masses.append(left.sum(axis=1).T)
        return np.stack(masses, axis=-1)

    def payoffs(self, data: FloatArray) -> FloatArray:
        """What tasks have of all data, by the nodes in t."""
        return (np.exp(self.log_masses) * -np.expm1(-self.times * (data[:, None] / self.unit))).sum(axis=1)

    def _products(self) -> Iterator[tuple[float, FloatArray, FloatArray, FloatArray]]:
        """For every t: the product of all members' factors times all masses, (tasks, q), and `_factors` of points."""
        for t, log_masses in zip(self.times.tolist(), self.log_masses.T, strict=True):
            logs, gains, left = _factors(t, self.points, self.q[:, None])
            exponents = self.counts @ logs.T + log_masses[:, None]
            # At the edge of the domain a product is larger than any number: then nothing follows from it.
            products = np.exp(np.where(exponents < LARGEST_EXPONENT, exponents, np.nan)) * self.q_weights
            yield t, products, gains, left


def _factors(t: float, x: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log(1 - q + q e^{-t x}), and 1 - e^{-t x} and e^{-t x} over that factor, for x of either sign."""
    harms, size = x < 0, t * np.abs(x)
    kept, gone = np.exp(-size), -np.expm1(-size)
    part = np.where(harms, 1.0 - q, q) * gone
    rest = 1.0 - part
    logs = np.where(harms, size, 0.0) + np.log1p(-part)
    return logs, np.where(harms, -gone, gone) / rest, np.where(harms, 1.0, kept) / rest


def _time_rule(arrays: FederationArrays, lowest: float, highest: float) -> tuple[FloatArray, FloatArray]:
    """Times (T,) and log weights (tasks, T) of a rule for m that serves data from `lowest` to `highest`, in units."""
    if isinstance(arrays.payoff, Exponential):
        return np.ones(1), np.zeros((arrays.n_tasks, 1))
    concentration = float(np.max(arrays.payoff.concentration))
    end = np.log((DECAY_LENGTHS + 3.0 * concentration) / (1.0 + min(lowest, 0.0)))
    start = -np.log(max(highest, 1.0)) - 1.0
    count = int(np.ceil((end - start) / PANEL * np.sqrt(1.0 + concentration)))
    nodes, weights = _panels([*(start - np.array(TAIL_PANELS)), *np.linspace(start, end, count + 1)], PANEL_NODES)
    times = np.exp(nodes)
    log_density = np.broadcast_to(arrays.payoff.log_density(times), (arrays.n_tasks, times.size))
    return times, log_density + np.log(weights)


def _q_rule(n_agents: int, harm: bool) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights in q on [0, 1]."""
    halves = 2.0 ** -np.arange(int(np.ceil(np.log2(n_agents))) + 2.0, 0.0, -1.0)
    return _panels([0.0, *halves, *(1.0 - halves[::-1][1:] if harm else ()), 1.0], OCTAVE_NODES)


def _panels(edges: Sequence[float], count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre with `count` nodes between every two edges."""
    x, w = legendre.leggauss(count)
    low, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (low + width * (x + 1.0) / 2.0).ravel(), (width * w / 2.0).ravel()
