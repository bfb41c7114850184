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

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedpact.federation import Cost, Federation, Payoff
from fedpact.programs.small_batches import Programs, climb_small
from fedpact.utils.arrays import FloatArray
from fedpact.utils.compiling import pays_to_compile
from fedpact.utils.threads import run_in_threads

MAX_COALITIONS_AT_A_TIME = 100_000  # of all programs together: compiled code is deaf to interrupts while it runs
# One coalition of many agents: NumPy leaves matrices of this size to linear algebra libraries, and is as quick then.
MIN_AGENTS_FOR_BLAS, BLAS_ADVANTAGE = 24, 8
CHUNK_SIZE = 32  # programs: fewer are not worth a thread of their own


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
    blocks, n_agents = weights.shape[:2]
    shape = payoff.hyperbola()
    assert shape is not None, "compiled code knows payoffs with hyperbolic slopes only"

    def stacked(numbers: FloatArray | float) -> FloatArray:
        return np.array(np.broadcast_to(numbers, blocks * n_agents)).reshape(blocks, n_agents)

    steepness, decay, width = (stacked(np.asarray(part, dtype=np.float64)) for part in shape)
    programs = Programs(
        weights=weights,
        values=stacked(values),
        steepness=steepness,
        decay=decay,
        width=width,
        linear=stacked(costs.linear),
        quadratic=stacked(costs.quadratic),
        upper=stacked(upper),
        scale=scale,
        members=np.asarray(members, dtype=np.float64),
        shares=np.array(shares, dtype=np.float64),
    )
    contributions, gains = np.array(start).reshape(blocks, n_agents), np.zeros(blocks)
    climb(programs, contributions, gains)
    return contributions, gains


def climb(programs: Programs, contributions: FloatArray, gains: FloatArray) -> None:
    """Fill the maximisers, from where `contributions` are, and the linearised gain each is left with.

    Few and small programs in NumPy; others, or where many such are expected, in compiled code.
    """
    blocks, n_agents = contributions.shape
    work = blocks * programs.shares.size * n_agents**2
    if programs.shares.size == 1 and n_agents >= MIN_AGENTS_FOR_BLAS:
        work //= BLAS_ADVANTAGE
    if not pays_to_compile(work):
        climb_small(programs, contributions, gains)
        return
    piece = max(1, MAX_COALITIONS_AT_A_TIME // programs.shares.size)
    own = (programs.values * programs.steepness, programs.decay, programs.width)
    numbers = np.stack([*own, programs.linear, programs.quadratic, programs.upper], axis=1)
    arguments = (
        programs.weights, numbers, programs.scale, programs.members > 0.0, programs.shares, contributions, gains
    )  # fmt: skip
    for start in range(0, blocks, piece):
        run_in_threads(partial(_climb_part, start, arguments), min(piece, blocks - start), least=CHUNK_SIZE)


def _climb_part(start: int, arguments: Sequence[np.ndarray], first: int, last: int) -> None:
    from fedpact.programs.kernels import climb_all  # noqa: PLC0415 - compiles, or loads what was compiled

    climb_all(start + first, start + last, *arguments)


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
