"""A concave program over very many coordinates: a few of them at a time, or by sparse products.

At an optimum of a thousand members most stand at a bound: they contribute nothing, or all they have. So only some are
decided on, the others wait at a bound, and those that wait take part once their slope says that they should move: first
the ones whose data are worth most for what they cost. Every round maximises over twice as many newcomers as the one
before, and whoever has come to rest at a bound waits there again. Each round gains, so no set of them comes back.

Stopping inequality: nobody who waits could gain more than `WAITING_GAIN` of the scale by a move through its whole
range, in a straight line, and then that of `fedpact.programs.solver.conclude` over all coordinates. Cost per round: two
products with the weights, and an interior point over the few.

With a sparse curvature all take part. The barrier is followed until it shows who belongs at a bound, whoever would get
there by a Newton step of its own; then conjugate gradients finish without it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedpact.programs.solver import (
    Program,
    Solution,
    conclude,
    finish_batch,
    follow_barrier,
    linearised_gains,
    maximise_batch,
    settle_by_own_steps,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

WAITING_GAIN = 1e-14
FIRST_NEWCOMERS = 32
MAX_PART_ROUNDS = 30
MAX_UNDECIDED_SHARE = 0.5  # of all coordinates: with more of them undecided, all at once are no dearer
SPARSE_BARRIER = 1e-5  # of the scale, for all coordinates together: where conjugate gradients take over


class PartedProgram(Program, Protocol):
    """A program that can be restricted to some of its coordinates."""

    def part(self, lots: NDArray[np.intp], contributions: FloatArray) -> Program:
        """The program over some coordinates, the others held where they are."""

    def average_prices(self) -> FloatArray:
        """What a unit of each coordinate costs."""


def maximise_by_parts(program: PartedProgram) -> Solution | None:
    """The maximiser; None where most coordinates are undecided, or rounding is in the way."""
    upper, prices, scale = program.upper, program.average_prices(), float(np.max(program.scale))
    profile, working = np.zeros_like(upper), np.zeros(upper.shape, dtype=np.bool_)
    newcomers, steps = FIRST_NEWCOMERS, 0
    for _ in range(MAX_PART_ROUNDS):
        gradient = program.gradient(profile)
        could_gain = linearised_gains(profile, gradient, upper) > WAITING_GAIN * scale
        waiting = np.flatnonzero(could_gain & ~working)
        if not waiting.size:
            return _conclude_or_none(program, profile, steps)
        working &= (profile > 0.0) & (profile < upper)
        urgency = np.abs(gradient[waiting]) / prices[waiting]
        working[waiting[np.argsort(-urgency, kind="stable")[:newcomers]]] = True
        lots, newcomers = np.flatnonzero(working), 2 * newcomers
        if lots.size > MAX_UNDECIDED_SHARE * upper.size:
            break
        profile[lots], taken = maximise_batch(program.part(lots, profile))
        steps += taken
    return None


def maximise_sparse(program: Program) -> Solution | None:
    """The maximiser of a program with a sparse curvature; None where the barrier was left too early."""
    near, steps = follow_barrier(program, SPARSE_BARRIER / program.upper.size)
    ones = np.ones_like(near)
    bends = program.curvature(near, ones, ones).diagonal
    settled = settle_by_own_steps(near, program.gradient(near), bends, program.upper)
    if not program.room(np.zeros_like(near), settled) > 1.0:  # who is harmed needs those who went to a bound
        return None
    found, finishing = finish_batch(program, settled)
    return _conclude_or_none(program, found, steps + finishing)


def _conclude_or_none(program: Program, profile: FloatArray, steps: int) -> Solution | None:
    try:
        return conclude(program, profile, steps)
    except NotConverged:
        return None
