"""The quadrature for many agents: rows of weights handed to the compiled kernels, integrals summed per agent.

`fedpact.shapley.quadrature` says what is integrated and is the readable form for few agents. Here the nodes are chosen
for a tolerance, sparse weights cost by their non-zeros, and groups of identical agents count as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from fedpact.federation import Federation, Payoff, Population
from fedpact.shapley.quadrature import gauss_legendre
from fedpact.utils.arrays import FloatArray, sum_by

# Rows with up to twice as many entries are integrated exactly in q.
MAX_EXACT_Q_NODES = 12
MAX_EXACT_Q_NODES_HARMED = 32
WINDOW_Q_NODES = 48
MAX_BLOCK_ROWS = 20_000  # receivers whose nodes are held at once
MAX_ENTRIES_AT_A_TIME = 400_000  # about a second: compiled code is deaf to interrupts while it runs
MAX_CURVATURE_ROWS = 100  # receivers whose curvature is held at once
EXPONENT_ROUNDING = 80.0 * float(np.finfo(float).eps)
CLOSE_TO_THE_EDGE = 0.01  # of the way from no data to the edge: Newton directions here take exact curvatures
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
class LotWeights(ABC):
    """Several lots per agent: which lots an entry of `ReceiverRows` is the sum of; `owners` is the agent of each."""

    owners: np.ndarray

    @property
    def n_lots(self) -> int:
        """How many lots there are."""
        return self.owners.size

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of lots that one agent owns."""
        one, other = np.nonzero(self.owners[:, None] == self.owners)
        return one, other

    @abstractmethod
    def take(self, own: slice, receivers: slice) -> LotWeights:
        """Those of some of the entries and receivers, counted from the first of these."""

    @abstractmethod
    def pulls(self, contributions: FloatArray) -> FloatArray:
        """u, the sum over an agent's lots of weight times contribution, per entry."""

    @abstractmethod
    def per_lot(self, integrals: FloatArray, power: int) -> FloatArray:
        """Entries times weight^power, summed over receivers."""

    @abstractmethod
    def dense(self, rows: ReceiverRows) -> FloatArray:
        """The weights, (receivers, lots)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LotMatrix(LotWeights):
    """Where nearly all weights count: `matrix` (receivers, lots), its columns in the `order` of the lots' owners.

    `firsts` is where the lots of each owner start, `ranks` the owner of every column among those who own any.
    """

    order: np.ndarray
    firsts: np.ndarray
    ranks: np.ndarray
    matrix: FloatArray

    def take(self, own: slice, receivers: slice) -> LotMatrix:
        """Some of the receivers."""
        return replace(self, matrix=self.matrix[receivers])

    def pulls(self, contributions: FloatArray) -> FloatArray:
        """u per entry."""
        return np.asarray(np.add.reduceat(self.matrix * contributions[self.order], self.firsts, axis=1)).ravel()

    def per_lot(self, integrals: FloatArray, power: int) -> FloatArray:
        """Entries times weight^power, summed over receivers."""
        credited = integrals.reshape(-1, self.firsts.size)[:, self.ranks]
        sums = np.empty(self.n_lots)
        sums[self.order] = np.einsum("rl,rl->l", self.matrix if power == 1 else self.matrix**power, credited)
        return sums

    def dense(self, rows: ReceiverRows) -> FloatArray:
        """The weights, (receivers, lots)."""
        matrix = np.empty_like(self.matrix)
        matrix[:, self.order] = self.matrix
        return matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class LotEntries(LotWeights):
    """The weights that are not zero: `entries` is the entry each belongs to, rising, `lots` its lot."""

    entries: np.ndarray
    lots: np.ndarray
    weights: FloatArray

    def take(self, own: slice, receivers: slice) -> LotEntries:
        """Some of the receivers."""
        some = slice(*np.searchsorted(self.entries, [own.start, own.stop]))
        return replace(self, entries=self.entries[some] - own.start, lots=self.lots[some], weights=self.weights[some])

    def pulls(self, contributions: FloatArray) -> FloatArray:
        """u per entry."""
        if not self.entries.size:
            return np.zeros(0)
        firsts = np.flatnonzero(np.diff(self.entries, prepend=-1))
        return np.asarray(np.add.reduceat(self.weights * contributions[self.lots], firsts), dtype=np.float64)

    def per_lot(self, integrals: FloatArray, power: int) -> FloatArray:
        """Entries times weight^power, summed over receivers."""
        credited = integrals[self.entries] * self.weights**power
        return sum_by(self.lots, credited, self.n_lots)

    def dense(self, rows: ReceiverRows) -> FloatArray:
        """The weights, (receivers, lots)."""
        matrix = np.zeros((rows.n_receivers, self.n_lots))
        matrix[rows.receivers[self.entries], self.lots] = self.weights
        return matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceiverRows:
    """Who reaches whom: receiver i owns the entries starts[i] to starts[i + 1].

    With several lots per agent an entry stands for all of an agent's lots (`lots`), and its weight is one: s is then u
    itself. `credits` is how many receivers of that kind an agent meets through the entry, `counts` how many agents it
    stands for in the receiver's product; both are one unless agents are grouped.
    """

    n_agents: int
    starts: np.ndarray
    agents: np.ndarray
    weights: FloatArray
    counts: FloatArray
    credits: FloatArray | None
    payoff: Payoff
    values: FloatArray
    lots: LotWeights | None = None

    @property
    def n_receivers(self) -> int:
        """How many receivers there are."""
        return self.starts.size - 1

    @property
    def receivers(self) -> np.ndarray:
        """The receiver of every entry."""
        return np.repeat(np.arange(self.n_receivers), np.diff(self.starts))

    @property
    def n_lots(self) -> int:
        """How many slopes there are."""
        return self.n_agents if self.lots is None else self.lots.n_lots

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
                    lots=None if self.lots is None else self.lots.take(own, slice(first, last)),
                ),
            )
            first = last

    def pulls(self, contributions: FloatArray) -> FloatArray:
        """w_ij s_j per entry, or its sum over the agent's lots."""
        if self.lots is not None:
            return self.lots.pulls(contributions)
        return self.weights * contributions[self.agents]

    def per_lot(self, integrals: FloatArray, power: int) -> FloatArray:
        """Entries times weight^power, summed over receivers: for slopes the first power, for bends the second."""
        if self.lots is not None:
            return self.lots.per_lot(integrals, power)
        return self.per_agent(integrals * (self.weights if power == 1 else self.weights**power))

    def per_agent(self, integrals: FloatArray) -> FloatArray:
        """Entries summed over receivers."""
        credited = integrals if self.credits is None else integrals * self.credits
        if self.agents.size == (self.starts.size - 1) * self.n_agents and self.credits is None:
            return credited.reshape(-1, self.n_agents).sum(axis=0)
        return sum_by(self.agents, credited, self.n_agents)


@dataclass(frozen=True, kw_only=True, eq=False)
class Integrals:
    """Shapley values per agent, their slopes d phi_j / d s_j and bends d^2 phi_j / d s_j^2 per lot.

    `own_bends` are the second derivatives of phi_j for the pairs of j's lots (`LotWeights.pairs`), where asked for.
    `rounding` bounds what cancelling digits cost the values: near the edge of the domain, exponents of size t that are
    off by a share of t, which is the slope times that share of what harm takes away.
    """

    values: FloatArray
    slopes: FloatArray
    bends: FloatArray
    rounding: float
    own_bends: FloatArray | None = None


def receiver_rows(federation: Federation | Population) -> ReceiverRows:
    """The entries of a federation, or of one agent per type of a population."""
    if isinstance(federation, Population):
        return _group_rows(federation)
    if federation.has_lots:
        return _lot_rows(federation)
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


def integrate(
    rows: ReceiverRows, contributions: FloatArray, precision: Precision, *, curved: bool = False
) -> Integrals:
    """All Shapley integrals of a profile; `curved` with the bends between lots of one agent, where there are several.

    Cost: entries x t nodes, a few operations each.
    """
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    values, slopes, bends = (np.zeros(size) for size in (rows.n_agents, rows.n_lots, rows.n_lots))
    pairs = rows.lots.pairs if rows.lots is not None and curved else None
    own_bends = None if pairs is None else np.zeros(pairs[0].size)
    rounding = 0.0
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
        harm = _row_sums(np.minimum(block.counts * x, 0.0), block.starts)
        rounding -= EXPONENT_ROUNDING * float(harm @ _row_sums(np.abs(slope), block.starts))
        values += block.per_agent(value)
        slopes += block.per_lot(slope, 1)
        bends -= block.per_lot(bend, 2) if curved or rows.lots is None else np.nan  # only a Hessian asks for them
        if pairs is not None and own_bends is not None:
            own_bends -= _sum_of_pairs(block, bend, pairs)
    return Integrals(values=values, slopes=slopes, bends=bends, rounding=rounding, own_bends=own_bends)


def _sum_of_pairs(rows: ReceiverRows, bend: FloatArray, pairs: tuple[np.ndarray, np.ndarray]) -> FloatArray:
    """sum over receivers of bend w_l w_m for every pair of lots (l, m) of one agent."""
    assert rows.lots is not None
    weights, bends = rows.lots.dense(rows), np.zeros((rows.n_receivers, rows.n_agents))
    bends[rows.receivers, rows.agents] = bend
    one, other = pairs
    return np.asarray((weights[:, one] * weights[:, other] * bends[:, rows.lots.owners[one]]).sum(axis=0))


def potential_curvature(rows: ReceiverRows, contributions: FloatArray) -> FloatArray:
    """The Hessian of the potential, (n, n), off its diagonal and to a few per cent: enough for a Newton direction.

    The diagonal is `Integrals.bends`.
    """
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    hessian = np.zeros((rows.n_lots, rows.n_lots))
    precision = _curvature_precision(rows, contributions)
    for _, block in rows.blocks(max(1, MAX_CURVATURE_ROWS * rows.n_agents // rows.n_lots)):
        x, factors, times, log_masses = _prepare_nodes(block, contributions, precision)
        slots = max(precision.q_nodes, MAX_EXACT_Q_NODES) if (x < 0).any() else 1
        roots = np.zeros((times.size * slots, rows.n_agents))
        kernels.curvature_rows(
            block.starts, block.agents, x, block.weights, block.counts, factors, times, log_masses,
            _exact_rules(MAX_EXACT_Q_NODES), gauss_legendre(precision.q_nodes), precision.living, roots,
        )  # fmt: skip
        if block.lots is not None:
            weights = np.repeat(block.lots.dense(block), times.shape[1] * slots, axis=0)
            roots = roots[:, block.lots.owners] * weights
        hessian -= roots.T @ roots
    return hessian


def _curvature_precision(rows: ReceiverRows, contributions: FloatArray) -> Precision:
    """As good as the gradient close to the edge of the domain, whose steepness drowns every other direction."""
    depth = _row_sums(np.minimum(rows.counts * rows.pulls(contributions), 0.0), rows.starts)
    if (depth <= (1.0 - CLOSE_TO_THE_EDGE) * rows.payoff.floor).any():
        return Precision.reaching(0.0)
    return Precision.for_curvature(harmed=bool((depth < 0).any()))


def own_coefficients(
    rows: ReceiverRows, contributions: FloatArray, agent: int, lowest: FloatArray, precision: Precision
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Logs of the coefficients and rates of phi_j(x) = sum of coefficient x (1 - e^{-rate x}), for one agent.

    With several lots x is the u of the receiver, which comes as the third array.
    """
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    coefficients, rates, served = [], [], []
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
        served.append(np.repeat(np.arange(receivers.start, receivers.stop), times.shape[1]))
    return np.concatenate(coefficients), np.concatenate(rates), np.concatenate(served)


def _prepare_nodes(
    rows: ReceiverRows, contributions: FloatArray, precision: Precision, *, lowest: FloatArray | None = None
) -> tuple[FloatArray, np.ndarray, FloatArray, FloatArray]:
    """Exponents per entry; factors, nodes and log weights per receiver, the nodes rising."""
    x = rows.pulls(contributions)
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


def _lot_rows(federation: Federation) -> ReceiverRows:
    """Per task: the agents with a lot that reaches it."""
    order, present, firsts = federation.lots_by_owner
    weights, owners = federation.weights, federation.lot_owners
    if isinstance(weights, np.ndarray) and np.count_nonzero(weights) >= DENSE_SHARE * weights.size:
        in_order = bool((np.diff(owners) >= 0).all())
        ranks = np.repeat(np.arange(present.size), np.diff(np.append(firsts, order.size)))
        agents, counts = np.tile(present, federation.n_tasks), np.full(federation.n_tasks, present.size)
        lots: LotWeights = LotMatrix(
            owners=owners, order=order, firsts=firsts, ranks=ranks, matrix=weights if in_order else weights[:, order]
        )
    else:
        sorted_weights = sp.csr_array(weights)[:, order]
        sorted_weights.sort_indices()
        tasks = np.repeat(np.arange(federation.n_tasks), np.diff(sorted_weights.indptr))
        columns = order[sorted_weights.indices]
        begins = np.ones(columns.size, dtype=bool)
        begins[1:] = (np.diff(tasks) != 0) | (np.diff(owners[columns]) != 0)
        agents, counts = owners[columns][begins], np.bincount(tasks[begins], minlength=federation.n_tasks)
        lots = LotEntries(owners=owners, entries=np.cumsum(begins) - 1, lots=columns, weights=sorted_weights.data)
    return ReceiverRows(
        n_agents=federation.n_agents,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        agents=agents,
        weights=np.ones(agents.size),
        counts=np.ones(agents.size),
        credits=None,
        payoff=federation.payoff,
        values=federation.values,
        lots=lots,
    )


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
