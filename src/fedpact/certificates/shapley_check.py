r"""Shapley values, semivalues and their gradients worked out anew: no code is shared with `fedpact.shapley`.

Member j brings u_rj to task r. Up to `MAX_COALITION_AGENTS` members every coalition is listed. Beyond, with payoffs
g(y) = int (1 - e^{-t y}) dm(t),

    phi_j = sum_r v_r int dm(t) int_0^1 dq (1 - e^{-t u_rj}) prod_{k != j} (1 - q + q e^{-t u_rk}),

and d phi_j / d u_rj has t e^{-t u_rj} in index of the first bracket.

- t: Gauss-Legendre on panels of log t. Below t = 1 / (the most data) integrands are linear in t, and panels wide.
- q: the product is a polynomial of degree n - 1, which n / 2 Gauss-Legendre nodes integrate exactly; among many members
  panels that halve towards q = 0, where helpful data leaves something, and towards q = 1 if some harms.
- Many members: given t and q, a task sees members only through sum_k log(1 - q + q e^{-t u_rk}), and credits each by a
  smooth function of its u. Chebyshev points in log |u| stand for them, on both sides of zero, the same for all tasks.

The values add up to all payoffs, which are known in closed form: by how much they do not is the error. With a
`probability`, that is the only q: semivalues. The error is then by how much the nodes in t miss payoffs.

Cost: tasks x members x nodes (t, q), or tasks x points x nodes and tasks x members x points: seconds for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb

import numpy as np

from fedpact.certificates.concave import ConcaveProblem
from fedpact.federation import Exponential, Payoff
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

MAX_COALITION_AGENTS = 12
MAX_ERROR = 1e-9  # of the payoffs: values that miss them by more prove nothing
PANEL, PANEL_NODES, TAIL_PANELS = 2.5, 14, (4.0, 12.0, 32.0)  # in log t; the last below the most data
DECAY_LENGTHS = 40.0  # e^-40 is nothing
MAX_EXACT, OCTAVE_NODES = 200, 10  # in q
MAX_DIRECT = 30_000_000  # tasks x members x nodes, beyond which members are interpolated
MAX_FACTORS = 2_000_000  # held at once
EDGE_SHARE = 1e-3  # of the distance to the edge of the domain: closer to it nobody gains by going
MIN_DATA = 1e-13  # of the most: less is credited in proportion
POINTS_PER_EFOLDING = 9.0


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedShares:
    """Shapley values, or semivalues, and their gradient.

    Attributes
    ----------
    values, gradient
        phi_j, (members,), and d phi_j / d s_l, (lots,), of every lot's owner.
    error
        By how much the values, or the nodes, miss all payoffs.
    proves
        Whether that is little enough to prove anything by.
    method
        How they were obtained, in words.
    probability
        That of semivalues; None for Shapley values.
    """

    values: FloatArray
    gradient: FloatArray
    error: float
    proves: bool
    method: str
    probability: float | None = None


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
        else:
            values, rates = _Integral(arrays, contributions, probability).credits()
        gradient = (rates[:, arrays.lot_owners] * arrays.dense_weights).sum(axis=0)
        if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
            return None
        error = abs(float(values.sum() - payoffs.sum()))
        if probability is not None:
            error = 0.0 if few else _node_error(arrays, contributions)
    size = max(float(np.abs(payoffs).sum()), float(np.abs(values).sum()))
    method = "all coalitions" if few else "an integral of its own"
    return CheckedShares(
        values=values,
        gradient=gradient,
        error=error,
        proves=error <= MAX_ERROR * size,
        method=method,
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
        held, weights = arrays.shared[:, own].any(axis=1), arrays.dense_weights[:, own]
        if integral is None:
            data, chances = _coalitions_before(arrays, contributions, agent, probability)
            weights, values = np.tile(weights, (len(chances), 1)), chances[:, None] * arrays.values
            payoff: Payoff = arrays.payoff.map(partial(np.tile, reps=len(chances)))
        else:
            weights = (integral.times[:, None] * (weights / integral.unit)[:, None, :]).reshape(-1, own.size)
            payoff, values, data = Exponential(1.0), masses[index], np.zeros(masses[index].shape)
        yield ConcaveProblem(
            weights=weights[None],
            values=values.reshape(1, -1),
            payoff=payoff,
            background=data.reshape(1, -1),
            linear=arrays.linear[None, own],
            quadratic=arrays.quadratic[None, own],
            upper=upper[None, own],
            shared=arrays.shared[held][:, own][None],
            limits=arrays.shared_limits[None, held],
        )


# All coalitions


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


# The integral


class _Integral:
    """Nodes and the product of all members' factors, for the data that members bring to tasks, in the payoff's unit."""

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
        work = self.brought.size * self.times.size * self.q.size
        few_points = self.times.size == 1 or probability is not None
        self.points = None if work <= MAX_DIRECT or few_points else _Points(self.brought)

    def credits(self) -> tuple[FloatArray, FloatArray]:
        """Values (members,) and rates d phi_j / d u_rj (tasks, members)."""
        if self.points is not None:
            worth, rates = self._sum_over_times(self.points.points[None], slice(None))
            worth, rates = self.points.interpolate(worth, rates)
        else:
            worth, rates = np.zeros((2, *self.brought.shape))
            for rows in self._blocks():
                worth[rows], rates[rows] = self._sum_over_times(self.brought[rows], rows)
        return worth.sum(axis=0), rates / self.unit

    def masses_without(self, agents: Sequence[int]) -> FloatArray:
        """(agents, tasks, times): what 1 - e^{-t u} counts for in the value of a member that brings u."""
        masses = np.zeros((len(agents), len(self.brought), self.times.size))
        for rows in self._blocks():
            own = self.brought[rows][:, None, agents]
            for index, (t, parts) in enumerate(self._products(rows)):
                with np.errstate(divide="ignore"):  # a factor may be too large for a number where its product is not
                    left = np.exp(np.log(parts)[:, :, None] - _factors(t, own, self.q[:, None])[0])
                masses[:, rows, index] = left.sum(axis=1).T
        return masses

    def _blocks(self) -> list[slice]:
        """Tasks, as many at a time as factors can be held of."""
        size = max(1, MAX_FACTORS // (self.q.size * self.brought.shape[1]))
        return [slice(first, first + size) for first in range(0, len(self.brought), size)]

    def _sum_over_times(self, x: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Credits and rates at data x, (tasks or 1, columns), of the tasks at `rows`."""
        count = len(self.brought[rows])
        worth, rates = np.zeros((2, count, x.shape[1]))
        for t, parts in self._products(rows):
            _, gains, left = _factors(t, x[:, None, :], self.q[:, None])
            if len(x) == 1:
                worth += parts @ gains[0]
                rates += t * (parts @ left[0])
            else:
                worth += np.matmul(parts[:, None, :], gains)[:, 0]
                rates += t * np.matmul(parts[:, None, :], left)[:, 0]
        return worth, rates

    def _products(self, rows: slice) -> Iterator[tuple[float, FloatArray]]:
        """For every t: the product of all members' factors times all masses, (tasks, q)."""
        for t, log_masses in zip(self.times.tolist(), self.log_masses[rows].T, strict=True):
            if self.points is None:
                logs = _factors(t, self.brought[rows][:, None, :], self.q[:, None])[0].sum(axis=-1)
            else:
                logs = self.points.counts[rows] @ _factors(t, self.points.points, self.q[:, None])[0].T
            yield t, np.exp(logs + log_masses[:, None]) * self.q_weights


def _factors(t: float, x: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log(1 - q + q e^{-t x}), and 1 - e^{-t x} and e^{-t x} over that factor, for x of either sign."""
    harms = x < 0
    size = t * np.abs(x)
    kept, gone = np.exp(-size), -np.expm1(-size)
    part = np.where(harms, 1.0 - q, q) * gone if harms.any() else q * gone
    rest = 1.0 - part
    if not harms.any():
        return np.log1p(-part), gone / rest, kept / rest
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
    edges = np.concatenate([start - np.array(TAIL_PANELS)[::-1], np.linspace(start, end, count + 1)])
    nodes, weights = _panels(tuple(edges.tolist()), PANEL_NODES)
    times = np.exp(nodes)
    log_density = np.broadcast_to(arrays.payoff.log_density(times), (arrays.n_tasks, times.size))
    return times, log_density + np.log(weights)


@lru_cache(maxsize=16)
def _q_rule(n_agents: int, harm: bool) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights in q on [0, 1]."""
    if n_agents <= MAX_EXACT:
        return _panels((0.0, 1.0), n_agents // 2 + 1)
    halves = 2.0 ** -np.arange(int(np.ceil(np.log2(n_agents))) + 2.0, 0.0, -1.0)
    edges = [0.0, *halves, *(1.0 - halves[::-1][1:] if harm else ()), 1.0]
    return _panels(tuple(edges), OCTAVE_NODES)


def _panels(edges: tuple[float, ...], count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre with `count` nodes between every two edges."""
    x, w = np.polynomial.legendre.leggauss(count)
    low, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (low + width * (x + 1.0) / 2.0).ravel(), (width * w / 2.0).ravel()


def _node_error(arrays: FederationArrays, contributions: FloatArray) -> float:
    """By how much the nodes in t miss the payoffs of a profile."""
    unit = np.broadcast_to(arrays.payoff.unit, arrays.n_tasks)
    data = arrays.data(contributions) / unit
    times, log_masses = _time_rule(arrays, float(data.min()), float(data.max()))
    found = arrays.values * (np.exp(log_masses) * -np.expm1(-times * data[:, None])).sum(axis=1)
    return float(np.abs(found - arrays.task_payoffs(contributions)).sum())


class _Points:
    """Chebyshev points in log |x| that stand for what members bring, for each sign, and zero for next to nothing.

    With Lagrange polynomials b_p, sum_k h(x_k) = sum_p counts_p h(points_p), counts_p = sum_k b_p(x_k).
    """

    def __init__(self, x: FloatArray) -> None:
        self.x = x
        self.least = MIN_DATA * float(np.abs(x).max())
        self.blocks, points = [], []
        for sign in (1.0, -1.0):
            logs = np.log(np.abs(x[sign * x > self.least]))
            if logs.size:
                low, high = float(logs.min()), max(float(logs.max()), float(logs.min()) + 1e-6)
                count = max(int(POINTS_PER_EFOLDING * (high - low)), 12)
                angles = (2.0 * np.arange(count) + 1.0) * np.pi / (2.0 * count)
                self.blocks.append((sign, low, high, np.cos(angles), np.sin(angles) * (-1.0) ** np.arange(count)))
                points.append(sign * np.exp(low + (high - low) * (np.cos(angles) + 1.0) / 2.0))
        self.points = np.concatenate([*points, np.zeros(1)])
        self.counts = np.array([self._basis(row).sum(axis=0) for row in x])

    def interpolate(self, worth: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is known at the points, (tasks, points), at what members bring, (tasks, members)."""
        found = np.array([self._basis(row) @ at.T for row, at in zip(self.x, np.stack([worth, rates], 1), strict=True)])
        tiny = np.abs(self.x) <= self.least
        return np.where(tiny, self.x * found[..., 1], found[..., 0]), found[..., 1]

    def _basis(self, row: FloatArray) -> FloatArray:
        """(members, points)."""
        basis, first = np.zeros((row.size, self.points.size)), 0
        basis[:, -1] = np.abs(row) <= self.least
        for sign, low, high, nodes, signs in self.blocks:
            chosen = np.flatnonzero(sign * row > self.least)
            away = (np.log(np.abs(row[chosen]))[:, None] - low) / (high - low) * 2.0 - 1.0 - nodes
            away[away == 0] = 1e-300
            parts = signs / away
            basis[chosen, first : first + nodes.size] = parts / parts.sum(axis=1, keepdims=True)
            first += nodes.size
        return basis
