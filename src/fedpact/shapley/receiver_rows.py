"""The weights laid out for the kernels of `fedpact.shapley.compiled`: a row of entries for every receiver.

Only entries that count are there, so sparse weights cost by their non-zeros; groups of identical agents are one entry
with a count, several lots of an agent one entry with a sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fedpact.federation import Federation, Payoff, Population
from fedpact.federation.arrays import sum_by
from fedpact.utils.arrays import FloatArray

MAX_BLOCK_ROWS = 20_000  # receivers whose nodes are held at once
MAX_ENTRIES_AT_A_TIME = 400_000  # about a second: compiled code is deaf to interrupts while it runs
DENSE_SHARE = 0.5  # share of non-zero weights from which a matrix is treated as full


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

    @property
    def own_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of lots that one agent owns: each lot with itself, if that is all there is."""
        every = np.arange(self.n_agents)
        return (every, every) if self.lots is None else self.lots.pairs

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

    def sample(self, count: int) -> ReceiverRows:
        """About `count` receivers that stand for all of them: each for its neighbours in the order of their values."""
        step = self.n_receivers // count
        order = np.argsort(self.values, kind="stable")
        totals = np.add.reduceat(self.values[order], np.arange(0, order.size, step))
        chosen = order[np.minimum(np.arange(step // 2, step * totals.size, step), order.size - 1)]
        places = np.argsort(chosen)
        chosen, totals = chosen[places], totals[places]
        taken = np.zeros(self.n_receivers, dtype=np.bool_)
        taken[chosen] = True
        own = taken[self.receivers]
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum(np.diff(self.starts)[chosen])]),
            agents=self.agents[own],
            weights=self.weights[own],
            counts=self.counts[own],
            payoff=self.payoff.take(chosen),
            values=totals,
        )

    @property
    def can_be_sampled(self) -> bool:
        """Whether a few receivers tell what all do: everybody is reached by nearly everybody, and nobody harmed."""
        dense = self.agents.size >= DENSE_SHARE * self.n_receivers * self.n_agents
        return dense and self.lots is None and self.credits is None and bool((self.weights >= 0).all())

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


def row_sums(numbers: FloatArray, starts: np.ndarray) -> FloatArray:
    """Sums over the entries of each receiver."""
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
