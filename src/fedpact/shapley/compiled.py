"""The quadrature for many agents: rows of weights handed to the compiled kernels, integrals summed per agent.

`fedpact.shapley.quadrature` says what is integrated and is the readable form for few agents. Here the nodes are chosen
for a tolerance, sparse weights cost by their non-zeros, and groups of identical agents count as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fedpact.federation import Federation, Payoff, Population
from fedpact.shapley.quadrature import gauss_legendre
from fedpact.utils.arrays import FloatArray

# Rows with up to twice as many entries are integrated exactly in q.
MAX_EXACT_Q_NODES = 12
MAX_EXACT_Q_NODES_HARMED = 32
WINDOW_Q_NODES = 48
MAX_BLOCK_ROWS = 20_000  # receivers whose nodes are held at once
MAX_ENTRIES_AT_A_TIME = 400_000  # about a second: compiled code is deaf to interrupts while it runs
MAX_CURVATURE_ROWS = 100  # receivers whose curvature is held at once
DENSE_SHARE = 0.5  # share of non-zero weights from which a matrix is treated as full


@dataclass(frozen=True, kw_only=True, eq=False)
class Precision:
    """How finely to integrate.

    Attributes
    ----------
    per_octave
        t nodes to each doubling: the error falls like exp(-pi^2 per_octave / log 2).
    q_nodes, living
        Gauss-Legendre nodes in sqrt(q), and how many e-foldings of the integrand they cover.
    series, tail
        Where the series in q m and the nodes towards t = 0 are cut.
    """

    per_octave: int
    q_nodes: int
    living: float
    series: float
    tail: float

    @classmethod
    def for_curvature(cls, *, harmed: bool) -> Precision:
        """Nodes for a Hessian, where a per cent is enough; near the edge of the domain that takes more of them."""
        if harmed:
            return cls(per_octave=2, q_nodes=24, living=30.0, series=1e-6, tail=1e-4)
        return cls(per_octave=1, q_nodes=6, living=10.0, series=1e-3, tail=1e-3)

    @classmethod
    def reaching(cls, tolerance: float) -> Precision:
        """Nodes for a relative error of `tolerance` in every value (measured: well below it)."""
        if tolerance >= 1e-4:
            return cls(per_octave=1, q_nodes=10, living=16.0, series=1e-6, tail=1e-6)
        if tolerance >= 1e-8:
            return cls(per_octave=2, q_nodes=16, living=32.0, series=1e-10, tail=1e-10)
        return cls(per_octave=3, q_nodes=24, living=40.0, series=1e-13, tail=1e-12)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceiverRows:
    """Who reaches whom: receiver i owns the entries starts[i] to starts[i + 1].

    `credits` is how many receivers of that kind an agent meets through the entry, `counts` how many agents it stands
    for in the receiver's product; both are one unless agents are grouped.
    """

    n_agents: int
    starts: np.ndarray
    agents: np.ndarray
    weights: FloatArray
    counts: FloatArray
    credits: FloatArray | None
    payoff: Payoff
    values: FloatArray

    def blocks(self, max_rows: int = MAX_BLOCK_ROWS) -> Iterator[tuple[slice, ReceiverRows]]:
        """The same entries, so many receivers at a time that they fit into memory and take no longer than a second."""
        first, n_receivers = 0, self.starts.size - 1
        while first < n_receivers:
            full = int(np.searchsorted(self.starts, self.starts[first] + MAX_ENTRIES_AT_A_TIME, side="right")) - 1
            last = min(max(full, first + 1), first + max_rows, n_receivers)
            own = slice(self.starts[first], self.starts[last])
            yield (
                slice(first, last),
                replace(
                    self,
                    starts=self.starts[first : last + 1] - self.starts[first],
                    agents=self.agents[own],
                    weights=self.weights[own],
                    counts=self.counts[own],
                    credits=None if self.credits is None else self.credits[own],
                    payoff=self.payoff.take(np.arange(first, last)),
                    values=self.values[first:last],
                ),
            )
            first = last

    def per_agent(self, integrals: FloatArray) -> FloatArray:
        """Entries summed over receivers."""
        credited = integrals if self.credits is None else integrals * self.credits
        if self.agents.size == (self.starts.size - 1) * self.n_agents and self.credits is None:
            return credited.reshape(-1, self.n_agents).sum(axis=0)
        return np.asarray(np.bincount(self.agents, weights=credited, minlength=self.n_agents), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Integrals:
    """Shapley values, their slopes d phi_j / d s_j, and the bends d^2 phi_j / d s_j^2, per agent."""

    values: FloatArray
    slopes: FloatArray
    bends: FloatArray


def receiver_rows(federation: Federation | Population) -> ReceiverRows:
    """The entries of a federation, or of one agent per type of a population."""
    if isinstance(federation, Population):
        return _group_rows(federation)
    n_agents = federation.n_agents
    weights = federation.weights
    if not federation.is_sparse and np.count_nonzero(weights) >= DENSE_SHARE * weights.size:
        starts = np.arange(0, n_agents**2 + 1, n_agents)
        agents = np.tile(np.arange(n_agents), n_agents)
        numbers = weights.ravel()
    elif federation.is_sparse:
        sparse = federation.sparse_weights()
        starts, agents, numbers = sparse.indptr.astype(np.int64), sparse.indices, sparse.data
    else:
        row, agents = np.nonzero(weights)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_agents))])
        numbers = weights[row, agents]
    return ReceiverRows(
        n_agents=n_agents,
        starts=starts,
        agents=agents,
        weights=numbers,
        counts=np.ones(numbers.size),
        credits=None,
        payoff=federation.payoff,
        values=federation.values,
    )


def integrate(rows: ReceiverRows, contributions: FloatArray, precision: Precision) -> Integrals:
    """All Shapley integrals of a profile. Cost: entries x t nodes, a few operations each."""
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    values, slopes, bends = (np.zeros(rows.n_agents) for _ in range(3))
    for _, block in rows.blocks():
        x, factors, times, log_masses = _prepare_nodes(block, contributions, precision)
        value, slope, bend = np.empty(x.size), np.empty(x.size), np.empty(x.size)
        per_octave = precision.per_octave * block.payoff.refinement if times.shape[1] > 1 else 1
        most = MAX_EXACT_Q_NODES_HARMED if (x < 0).any() else MAX_EXACT_Q_NODES
        kernels.sum_entries(
            block.starts, x, block.counts, factors, times, per_octave, log_masses, _exact_rules(most),
            gauss_legendre(precision.q_nodes), gauss_legendre(WINDOW_Q_NODES), precision.living, precision.series,
            value, slope, bend,
        )  # fmt: skip
        values += block.per_agent(value)
        slopes += block.per_agent(slope * block.weights)
        bends -= block.per_agent(bend * block.weights**2)
    return Integrals(values=values, slopes=slopes, bends=bends)


def potential_curvature(rows: ReceiverRows, contributions: FloatArray) -> FloatArray:
    """The Hessian of the potential, (n, n), off its diagonal and to a few per cent: enough for a Newton direction.

    The diagonal is `Integrals.bends`.
    """
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    hessian = np.zeros((rows.n_agents, rows.n_agents))
    precision = Precision.for_curvature(harmed=bool((rows.weights < 0).any()))
    for _, block in rows.blocks(MAX_CURVATURE_ROWS):
        x, factors, times, log_masses = _prepare_nodes(block, contributions, precision)
        slots = max(precision.q_nodes, MAX_EXACT_Q_NODES) if (x < 0).any() else 1
        roots = np.zeros((times.size * slots, rows.n_agents))
        kernels.curvature_rows(
            block.starts, block.agents, x, block.weights, block.counts, factors, times, log_masses,
            _exact_rules(MAX_EXACT_Q_NODES), gauss_legendre(precision.q_nodes), precision.living, roots,
        )  # fmt: skip
        hessian -= roots.T @ roots
    return hessian


def own_coefficients(
    rows: ReceiverRows, contributions: FloatArray, agent: int, lowest: FloatArray, precision: Precision
) -> tuple[FloatArray, FloatArray]:
    """Logs of the coefficients and rates of phi_j(x) = sum of coefficient x (1 - e^{-rate x}), for one agent."""
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    coefficients, rates = [], []
    for receivers, block in rows.blocks():
        x, factors, times, log_masses = _prepare_nodes(block, contributions, precision, lowest=lowest[receivers])
        mine = np.flatnonzero(block.agents == agent)
        owners = np.searchsorted(block.starts, mine, side="right") - 1
        places, weights = np.full(block.values.size, -1), np.zeros(block.values.size)
        places[owners], weights[owners] = mine, block.weights[mine]
        found = np.empty(times.shape)
        kernels.own_coefficients(
            block.starts, places, x, block.counts, factors, times, log_masses,
            _exact_rules(MAX_EXACT_Q_NODES_HARMED), gauss_legendre(WINDOW_Q_NODES), precision.living, found,
        )  # fmt: skip
        coefficients.append(found.ravel())
        rates.append((times * weights[:, None]).ravel())
    return np.concatenate(coefficients), np.concatenate(rates)


def _prepare_nodes(
    rows: ReceiverRows, contributions: FloatArray, precision: Precision, *, lowest: FloatArray | None = None
) -> tuple[FloatArray, np.ndarray, FloatArray, FloatArray]:
    """Exponents per entry; factors, nodes and log weights per receiver, the nodes rising."""
    x = rows.weights * contributions[rows.agents]
    pulled = rows.counts * x
    low = _row_sums(np.minimum(pulled, 0.0), rows.starts)
    high = _row_sums(np.maximum(pulled, 0.0), rows.starts)
    factors = _row_sums(rows.counts, rows.starts).astype(np.int64)
    step = np.log(2.0) / precision.per_octave
    times, log_masses = rows.payoff.rule(low if lowest is None else lowest, high, step, precision.tail)
    log_masses = log_masses + np.log(rows.values)[:, None]
    return x, factors, np.ascontiguousarray(times[:, ::-1]), np.ascontiguousarray(log_masses[:, ::-1])


def _row_sums(numbers: FloatArray, starts: np.ndarray) -> FloatArray:
    sums = np.zeros(starts.size - 1)
    filled = np.flatnonzero(np.diff(starts))
    if filled.size:
        sums[filled] = np.add.reduceat(numbers, starts[filled])
    return sums


def _group_rows(population: Population) -> ReceiverRows:
    """Per type: the other types, its own type's other agents, and the agent itself."""
    types = population.types
    k = types.n_agents
    weights = np.hstack([types.dense_weights(), population.own_weights[:, None]])
    counts = np.hstack([np.broadcast_to(population.counts, (k, k)) - np.eye(k), np.ones((k, 1))])
    met = np.hstack([np.broadcast_to(population.counts[:, None], (k, k)) - np.eye(k), np.ones((k, 1))])
    agents = np.hstack([np.broadcast_to(np.arange(k), (k, k)), np.arange(k)[:, None]])
    keep = (counts > 0) & (weights != 0)
    return ReceiverRows(
        n_agents=k,
        starts=np.concatenate([[0], np.cumsum(keep.sum(axis=1))]),
        agents=agents[keep],
        weights=weights[keep],
        counts=counts[keep],
        credits=met[keep],
        payoff=types.payoff,
        values=types.values,
    )


@lru_cache(maxsize=4)
def _exact_rules(most: int) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Gauss-Legendre rules of 1 to `most` nodes, one after the other, and where each starts."""
    rules = [gauss_legendre(count) for count in range(1, most + 1)]
    starts = np.concatenate([[0, 0], np.cumsum([nodes.size for nodes, _ in rules])])
    return np.concatenate([nodes for nodes, _ in rules]), np.concatenate([weights for _, weights in rules]), starts
