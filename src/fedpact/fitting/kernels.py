"""The compiled heart of `fedpact.fitting.gauss_newton`: sums over the runs, every agent on its own.

The matrices are small and many, which threaded linear algebra is bad at: it spends its time waiting where other
programs use the cores.
"""

# The loops are written out for the compiler.
from __future__ import annotations

import numba as nb
import numpy as np

from fedpact.utils.compiling import announce_compiling

announce_compiling()


@nb.njit(cache=True, error_model="numpy")
def _gather_one(
    agent, contributions, precisions, changes, steep, value, by_shape, reached, scales, blocks, local, with_blocks
):  # fmt: skip
    n_runs, n_lots = contributions.shape
    n_slots = n_lots + 4
    row = np.empty(n_slots)
    own = np.exp(scales[agent])
    for run in range(n_runs):
        precision = precisions[run, agent]
        if precision == 0.0:
            continue
        steepness = steep[run, agent]
        row[0] = steepness * reached[run, agent]
        for lot in range(n_lots):
            row[1 + lot] = steepness * own * contributions[run, lot]
        row[n_slots - 3] = by_shape[run, agent]
        row[n_slots - 2] = 1.0 - value[run, agent]
        row[n_slots - 1] = value[run, agent]
        for slot in range(n_slots):
            weighted = precision * row[slot]
            if weighted == 0.0:
                continue
            local[agent, slot] += weighted * changes[run, agent]
            if with_blocks:
                for other in range(slot + 1):
                    blocks[agent, slot, other] += weighted * row[other]
    if with_blocks:
        for slot in range(n_slots):
            for other in range(slot):
                blocks[agent, other, slot] = blocks[agent, slot, other]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def gather(
    first, last, contributions, precisions, changes, steep, value, by_shape, reached, scales, blocks, local,
    with_blocks,
):  # fmt: skip
    """J' Q x into `local` (n, p) and, if asked, J' Q J into `blocks` (n, p, p), both zero before.

    Of agents `first` to `last`. Arrays over runs and agents (tasks; contributions over runs and lots): `precisions` are
    Q, `changes` x, `steep` the derivative of an accuracy by the weighted data `reached`, `value` the curve from 0 to 1
    and `by_shape` the derivative of an accuracy by log(beta).
    """
    for agent in range(first, last):
        _gather_one(
            agent, contributions, precisions, changes, steep, value, by_shape, reached, scales, blocks, local,
            with_blocks,
        )  # fmt: skip
