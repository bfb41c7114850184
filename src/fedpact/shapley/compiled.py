"""The quadrature for many agents: rows of weights handed to the compiled kernels, integrals summed per agent.

`fedpact.shapley.quadrature` says what is integrated and is the readable form for few agents. Here the nodes are chosen
for a tolerance, sparse weights cost by their non-zeros, and groups of identical agents count as one. Tens of agents are
integrated before the compiler would have begun (`fedpact.shapley.small_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedpact.shapley.quadrature import gauss_legendre
from fedpact.shapley.receiver_rows import ReceiverRows, row_sums
from fedpact.shapley.small_rows import SmallRows
from fedpact.utils.arrays import FloatArray
from fedpact.utils.compiling import are_many_expected
from fedpact.utils.threads import run_in_threads, thread_count

# Rows with up to twice as many entries are integrated exactly in q.
MAX_EXACT_Q_NODES = 12
MAX_EXACT_Q_NODES_HARMED = 32
WINDOW_Q_NODES = 48
MIN_ENTRIES_PER_THREAD = 500  # with their nodes more work than handing them over
MAX_ENTRIES_IN_NUMPY = 64**2  # up to here NumPy, two to four times slower, is quicker than compiling
MIN_FACTORS_NEAR_ZERO = 100  # from here on the nodes near t = 0 are worth a kernel of their own
MAX_CURVATURE_ROWS = 100  # receivers whose curvature is held at once, if it is not more than
MAX_CURVATURE_NUMBERS = 2_000_000  # which memory that is used again holds: fresh pages take longer than the sums
AT_EDGE = 0.1  # of the way from no data to the edge
EXPONENT_ROUNDING = 80.0 * float(np.finfo(float).eps)
Nodes = tuple[FloatArray, np.ndarray, FloatArray, FloatArray]  # as `_prepare_nodes` has them


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
    def for_curvature(cls, *, harmed: bool, at_edge: bool) -> Precision:
        """Nodes for a Hessian, where a per cent is enough; with harm off the edge of the domain pairs need more."""
        if at_edge:
            return cls(per_octave=1, q_nodes=24, living=30.0, series=1e-6, tail=1e-2)
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
        return cls(per_octave=3, q_nodes=24, living=40.0, series=1e-13, tail=1e-14)


@dataclass(frozen=True, kw_only=True, eq=False)
class Integrals:
    """Shapley values per agent, their slopes d phi_j / d s_j and bends d^2 phi_j / d s_j^2 per lot.

    `own_bends` are the second derivatives of phi_j for the pairs of j's lots (`LotWeights.pairs`), or where each has
    one lot for the lots; at the edge of the domain (`is_at_edge`) only as far as receivers contribute whom nobody
    harms. None unless asked for.
    `rounding` bounds what cancelling digits cost the values: near the edge of the domain, exponents of size t that are
    off by a share of t, which is the slope times that share of what harm takes away.
    """

    values: FloatArray
    slopes: FloatArray
    bends: FloatArray
    rounding: float
    own_bends: FloatArray | None = None


def integrate(
    rows: ReceiverRows, contributions: FloatArray, precision: Precision, *, curved: bool = False
) -> Integrals:
    """All Shapley integrals of a profile; `curved` with the bends between lots of one agent, where there are several.

    Cost: entries x t nodes, a few operations each.
    """
    values, slopes, bends = (np.zeros(size) for size in (rows.n_agents, rows.n_lots, rows.n_lots))
    own_bends = np.zeros(rows.own_pairs[0].size) if curved else None
    at_edge = curved and is_at_edge(rows, contributions)
    rounding = 0.0
    for _, block in rows.blocks():
        nodes = x, _, times, log_masses = _prepare_nodes(block, contributions, precision)
        small = _small_rows(rows, block, nodes, precision)
        if small is None:
            value, slope, bend = _sum_compiled(block, nodes, precision)
        else:
            value, slope, bend = small.sums(times, log_masses)
        harm = row_sums(np.minimum(block.counts * x, 0.0), block.starts)
        with np.errstate(over="ignore"):  # deep in harm a slope may be as large as numbers get
            rounding -= EXPONENT_ROUNDING * float(harm @ row_sums(np.abs(slope), block.starts))
        values += block.per_agent(value)
        slopes += block.per_lot(slope, 1)
        bends -= block.per_lot(bend, 2) if curved or rows.lots is None else np.nan  # only a Hessian asks for them
        if own_bends is not None:
            _, harmed = _split_by_harm(block, x)
            elsewhere = at_edge & np.isin(block.receivers, harmed)
            own_bends -= _sum_of_pairs(block, np.where(elsewhere, 0.0, bend))
    return Integrals(values=values, slopes=slopes, bends=bends, rounding=rounding, own_bends=own_bends)


def _small_rows(rows: ReceiverRows, block: ReceiverRows, nodes: Nodes, precision: Precision) -> SmallRows | None:
    """A block of few entries and without harm, for NumPy; None where compiled code pays."""
    x, factors, _, _ = nodes
    if rows.agents.size > MAX_ENTRIES_IN_NUMPY or are_many_expected() or (x < 0.0).any():
        return None
    half = (int(factors.max(initial=1)) + 1) // 2
    exact = gauss_legendre(half) if half <= MAX_EXACT_Q_NODES else (np.zeros(0), np.zeros(0))
    roots = gauss_legendre(precision.q_nodes)
    return SmallRows(block.starts, x, block.counts, exact=exact, roots=roots, living=precision.living)


def _sum_compiled(block: ReceiverRows, nodes: Nodes, precision: Precision) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What every entry of a block is credited with, its slope / w and its bend / w^2, by the kernels."""
    from fedpact.shapley import kernels, kernels_near_zero  # noqa: PLC0415 - compile, or load what was compiled

    x, factors, times, log_masses = nodes
    value, slope, bend = np.zeros(x.size), np.zeros(x.size), np.zeros(x.size)
    per_octave = precision.per_octave * block.payoff.refinement if times.shape[1] > 1 else 1
    most = MAX_EXACT_Q_NODES_HARMED if (x < 0).any() else MAX_EXACT_Q_NODES
    helped, harmed = _split_by_harm(block, x)
    shape = (block.starts, x, block.counts, factors, times)
    done, roots = np.zeros(factors.size, dtype=np.int64), gauss_legendre(precision.q_nodes)
    if per_octave < times.shape[1]:
        long = helped[factors[helped] >= MIN_FACTORS_NEAR_ZERO]
        _run_rows(
            kernels_near_zero.sum_near_zero, long, block.starts, x, block.counts, times, log_masses, roots,
            precision.living, precision.series, done, value, slope, bend,
        )  # fmt: skip
    _run_rows(
        kernels.sum_helped, helped, *shape, per_octave, log_masses, _exact_rules(most), roots, precision.living,
        precision.series, done, value, slope, bend,
    )  # fmt: skip
    _run_rows(
        kernels.sum_harmed, harmed, *shape, log_masses, _exact_rules(most), gauss_legendre(WINDOW_Q_NODES),
        precision.living, value, slope, bend,
    )  # fmt: skip
    return value, slope, bend


def is_at_edge(rows: ReceiverRows, contributions: FloatArray) -> bool:
    """Whether some coalition takes a receiver close to the edge of the domain of its payoff."""
    low = row_sums(np.minimum(rows.counts * rows.pulls(contributions), 0.0), rows.starts)
    return bool((1.0 - low / np.asarray(rows.payoff.floor) < AT_EDGE).any())


def _split_by_harm(rows: ReceiverRows, x: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """The receivers whom nobody harms, and the others: each kind has its kernels, compiled when there is any."""
    harmed = row_sums((x < 0.0).astype(np.float64), rows.starts) > 0.0
    return np.flatnonzero(~harmed), np.flatnonzero(harmed)


def _run_rows(kernel: Callable[..., None], receivers: np.ndarray, starts: np.ndarray, *arguments: Any) -> None:
    """A kernel for the receivers, on all threads."""
    if receivers.size:
        entries = max(1, int(starts[-1]) // (starts.size - 1))
        run_in_threads(
            lambda first, last: kernel(receivers[first:last], starts, *arguments),
            receivers.size,
            least=1 + MIN_ENTRIES_PER_THREAD // entries,
        )


def _sum_of_pairs(rows: ReceiverRows, bend: FloatArray) -> FloatArray:
    """sum over receivers of bend w_l w_m for every pair of lots (l, m) of one agent."""
    if rows.lots is None:
        return rows.per_lot(bend, 2)
    weights, bends = rows.lots.dense(rows), np.zeros((rows.n_receivers, rows.n_agents))
    bends[rows.receivers, rows.agents] = bend
    one, other = rows.own_pairs
    return np.asarray((weights[:, one] * weights[:, other] * bends[:, rows.lots.owners[one]]).sum(axis=0))


def potential_curvature(rows: ReceiverRows, contributions: FloatArray) -> FloatArray:
    """The Hessian of the potential, (n, n), off its diagonal and to a few per cent: enough for a Newton direction.

    The diagonal is `Integrals.bends`. At the edge of the domain it holds what harmed receivers add to it, at the same
    nodes: they make curvatures that differ by many orders of magnitude from one direction to the next, and digits that
    do not cancel as they should would make it up in all of them.
    """
    hessian, own_bends = np.zeros((rows.n_lots, rows.n_lots)), np.zeros(rows.own_pairs[0].size)
    harmed = bool((rows.pulls(contributions) < 0).any())
    at_edge = is_at_edge(rows, contributions)
    precision = Precision.for_curvature(harmed=harmed, at_edge=at_edge)
    most = MAX_EXACT_Q_NODES_HARMED if harmed else MAX_EXACT_Q_NODES
    for _, block in rows.blocks(max(1, MAX_CURVATURE_ROWS * rows.n_agents // rows.n_lots)):
        x, factors, times, log_masses = _prepare_nodes(block, contributions, precision, coarse=at_edge)
        exact_nodes = (int(factors.max(initial=0)) + 1) // 2
        slots = (exact_nodes if exact_nodes <= most else max(precision.q_nodes, most)) if (x < 0).any() else 1
        at_once = max(MAX_CURVATURE_NUMBERS // (times.shape[1] * slots * rows.n_agents), thread_count())
        for own, part in block.blocks(at_once):
            entries = slice(block.starts[own.start], block.starts[own.stop])
            roots = np.zeros((times[own].size * slots, rows.n_agents))
            nodes = x[entries], factors[own], times[own], log_masses[own]
            small = _small_rows(rows, part, nodes, precision)
            if small is None:
                bend = _curve_compiled(part, nodes, precision, roots, most=most)
                own_bends -= 0.0 if bend is None else _sum_of_pairs(part, bend)
            else:
                own_rows = roots.reshape(*times[own].shape, -1).transpose(1, 0, 2)
                own_rows[:, part.receivers, part.agents] = small.curvature(times[own], log_masses[own], part.weights)
            if part.lots is not None:
                weights = np.repeat(part.lots.dense(part), times.shape[1] * slots, axis=0)
                roots = roots[:, part.lots.owners] * weights
            if slots > 1:
                roots = roots[np.repeat(log_masses[own].ravel() > -np.inf, slots)]
            hessian -= roots.T @ roots
    if at_edge:
        hessian[rows.own_pairs] = own_bends
    return hessian


def _curve_compiled(
    part: ReceiverRows, nodes: Nodes, precision: Precision, roots: FloatArray, *, most: int
) -> FloatArray | None:
    """Fill the rows of the potential's curvature; what harmed receivers, if any, add to its diagonal, over w^2."""
    from fedpact.shapley import kernels  # noqa: PLC0415 - compiles, or loads what was compiled

    x, factors, times, log_masses = nodes
    weights = part.weights.view()
    weights.setflags(write=False)  # always, or the kernel is compiled for both kinds
    arguments = (
        part.starts, part.agents, x, weights, part.counts, factors, times, log_masses, _exact_rules(most),
        gauss_legendre(precision.q_nodes), precision.living, roots,
    )  # fmt: skip
    helped, harmed = _split_by_harm(part, x)
    _run_rows(kernels.curvature_helped, helped, *arguments)
    if not harmed.size:
        return None
    bend = np.zeros(part.agents.size)
    _run_rows(kernels.curvature_harmed, harmed, *arguments, bend)
    return bend


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
        _run_rows(
            kernels.own_coefficients, np.arange(block.values.size), block.starts, places, x, block.counts, factors,
            times, log_masses, _exact_rules(MAX_EXACT_Q_NODES_HARMED), gauss_legendre(WINDOW_Q_NODES),
            precision.living, found,
        )  # fmt: skip
        coefficients.append(found.ravel())
        rates.append((times * weights[:, None]).ravel())
        served.append(np.repeat(np.arange(receivers.start, receivers.stop), times.shape[1]))
    return np.concatenate(coefficients), np.concatenate(rates), np.concatenate(served)


def _prepare_nodes(
    rows: ReceiverRows,
    contributions: FloatArray,
    precision: Precision,
    *,
    lowest: FloatArray | None = None,
    coarse: bool = False,
) -> Nodes:
    """Exponents per entry; factors, nodes and log weights per receiver, the nodes rising.

    Those who are harmed have nodes as fine as their own payoffs need; if `coarse` no finer than usual.
    """
    x = rows.pulls(contributions)
    pulled = rows.counts * x
    low = row_sums(np.minimum(pulled, 0.0), rows.starts)
    high = row_sums(np.maximum(pulled, 0.0), rows.starts)
    factors = row_sums(rows.counts, rows.starts).astype(np.int64)
    step = np.log(2.0) / precision.per_octave
    times, log_masses = rows.payoff.rule(low if lowest is None else lowest, high, step, precision.tail)
    log_masses = log_masses + np.log(rows.values)[:, None]
    if times.shape[1] > 1 and (low < 0).any():
        # There are as many nodes as one receiver at the edge of its domain needs; others have no mass at the last.
        idle = times * np.maximum(high, -np.broadcast_to(rows.payoff.floor, high.shape))[:, None] < precision.tail
        refinement = rows.payoff.refinement
        own = np.ceil(np.sqrt(1.0 + np.broadcast_to(rows.payoff.concentration, low.shape)))
        strides = np.where(low < 0, refinement if coarse else refinement // own, 1)[:, None]
        idle |= np.arange(times.shape[1]) % strides > 0
        log_masses = np.where(idle & (low < 0)[:, None], -np.inf, log_masses + np.log(strides))
    return x, factors, np.ascontiguousarray(times[:, ::-1]), np.ascontiguousarray(log_masses[:, ::-1])


@lru_cache(maxsize=4)
def _exact_rules(most: int) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Gauss-Legendre rules of 1 to `most` nodes, one after the other, and where each starts."""
    rules = [gauss_legendre(count) for count in range(1, most + 1)]
    starts = np.concatenate([[0, 0], np.cumsum([nodes.size for nodes, _ in rules])])
    return np.concatenate([nodes for nodes, _ in rules]), np.concatenate([weights for _, weights in rules]), starts
