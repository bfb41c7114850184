"""Many small programs at once: projected Newton in compiled code, one instance after the other on every core.

Both mechanisms maximise a weighted sum over coalitions X of the members' total payoff, less the costs,

    f(s) = sum_X share_X sum_i values_i g_i(sum_{j in X} w_ij s_j) - sum_j c_j(s_j)       over 0 <= s <= upper:

the social optimum with the grand coalition alone, the Shapley equilibrium with all of them
(`fedpact.shapley.potential`). From a start, agents held at a bound by the sign of their slope stay there and others
take a Newton step, projected on the box and halved until f rises.

Stopping inequality: the linearised gain is at most 1e-15 of the scale, or falls no further. It comes back in units
of the scale with the point it belongs to: what is not small enough is for the caller to solve another way. Cost per
step: n 2^n slopes and n^2 2^n products for the Shapley equilibrium, 1 / 2^n of that for the optimum.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Cost, Federation, Payoff
from fedpact.utils.arrays import FloatArray

MAX_COALITIONS_AT_A_TIME = 100_000  # of all programs together: compiled code is deaf to interrupts while it runs


def maximise_blocks(
    federation: Federation,
    upper: FloatArray,
    scale: FloatArray,
    members: FloatArray,
    shares: FloatArray,
    *,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Maximisers (blocks, n) of federations side by side in one, and the linearised gain each is left with.

    `upper` and `scale` are the box and the size of each program (`block_bounds`); `members`
    (coalitions, n) and `shares` the coalitions that count and their weights; `start` is where to begin.
    """
    return maximise_stack(
        _diagonal_blocks(federation, scale.size),
        payoff=federation.payoff,
        costs=federation.costs,
        values=federation.values,
        upper=upper,
        scale=scale,
        members=members,
        shares=shares,
        start=start,
    )


def maximise_stack(
    weights: FloatArray,
    *,
    payoff: Payoff,
    costs: Cost,
    values: FloatArray,
    upper: FloatArray,
    scale: FloatArray,
    members: FloatArray,
    shares: FloatArray,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The same with the weights of every program, (blocks, n, n); the rest has a number per agent of all blocks."""
    from fedpact.programs.kernels import as_many_threads_as_chunks, climb_all  # noqa: PLC0415 - compiles, or loads what was compiled

    blocks, n_agents = weights.shape[:2]
    shape = payoff.hyperbola()
    assert shape is not None, "compiled code knows payoffs with hyperbolic slopes only"

    def stacked(numbers: FloatArray | float) -> FloatArray:
        return np.array(np.broadcast_to(numbers, blocks * n_agents)).reshape(blocks, n_agents)

    steepness, decay, width = (stacked(np.asarray(part, dtype=np.float64)) for part in shape)
    contributions, gains = np.array(start).reshape(blocks, n_agents), np.zeros(blocks)
    per_block = (
        weights, stacked(values), steepness, decay, width, stacked(costs.linear), stacked(costs.quadratic),
        stacked(upper), scale,
    )  # fmt: skip
    chosen, importance = np.asarray(members) > 0, np.array(shares, dtype=np.float64)
    piece = max(1, MAX_COALITIONS_AT_A_TIME // importance.size)
    for first in range(0, blocks, piece):
        some = slice(first, first + piece)
        arguments = [*(part[some] for part in per_block), chosen, importance, contributions[some], gains[some]]
        with as_many_threads_as_chunks(len(gains[some])):
            climb_all(*arguments)
    return contributions, gains


def _diagonal_blocks(federation: Federation, blocks: int) -> FloatArray:
    """The weights of every block, (blocks, n, n)."""
    n_agents = federation.n_agents // blocks
    if not federation.is_sparse:
        return np.array(federation.weights).reshape(1, n_agents, n_agents)
    entries = federation.sparse_weights().tocoo()
    rows, columns = entries.coords
    dense = np.zeros((blocks, n_agents, n_agents))
    dense[rows // n_agents, rows % n_agents, columns % n_agents] = entries.data
    return dense
