"""A convex bound on what any group gains by leaving, where no weight is negative.

Let z_i say whether i is in the group, s_j what j contributes and x_ij how much of that reaches i. A group gains

    sum_i [z_i a_i(y_i / z_i) - U_i z_i] - sum_j z_j c_j(s_j / z_j),     y_i = w_ii s_i + sum_{j != i} w_ij x_ij,

with 0 <= x_ij <= s_j, x_ij <= cap_j z_i and s_j <= cap_j z_j, for z_i either 0 or 1. With z in [0, 1], not all zero, it
is a concave program whose maximum bounds every group. Its perspectives are cones: a payoff with slope
steepness (1 + y / width)^-(p + 1) takes a power cone with exponent 1 / (p + 1), or exponential cones where it is a
logarithm (p = 0) or an exponential (width infinite); the bend of a cost takes a second-order cone. Where agents have
several lots and tasks, a lot's and a task's z is its owner's.

Clarabel solves it, an interior point method. Cost: a variable per agent and per weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.groups import BoolArray
from fedpact.utils.arrays import FloatArray

RELAXATION_TOLERANCE = 5e-7  # of the scale: Clarabel ends at 1e-8, and the residuals of all rows add up
# Clarabel's own settings, and more careful ones for when it makes no progress.
STEPS_AND_REGULARISATIONS = ((0.99, 1e-8), (0.9, 1e-7), (0.7, 1e-7))
MAX_RELAXED_WEIGHTS = 40_000  # between different agents: with more, one relaxation takes minutes


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxedGroup:
    """The best of all fractional groups: no group gains more than `bound`; `membership` (n,) is z."""

    bound: float
    membership: FloatArray


def relaxation_obstacle(federation: Federation) -> str:
    """Why a federation has no relaxation, in words; empty if it has one."""
    if federation.has_harm:
        return "some weights are negative"
    exponents = _exponents(federation)
    if exponents is None or (exponents < 0).any():
        return f"the payoff family {federation.payoff.family} has no cone"
    if np.count_nonzero(federation.weight_entries) - federation.n_lots > MAX_RELAXED_WEIGHTS:
        return "too many members exchange data"
    if find_spec("clarabel") is None:
        return 'Clarabel is not installed: pip install "fedpact[groups]"'
    return ""


def _exponents(federation: Federation) -> FloatArray | None:
    """p per agent, where slopes fall like (1 + y / width)^-(p + 1); infinite for an exponential."""
    shape = federation.payoff.hyperbola()
    if shape is None:
        return None
    _, decay, width = (np.broadcast_to(np.asarray(part, dtype=np.float64), federation.n_tasks) for part in shape)
    return np.where(np.isinf(width), np.inf, decay * np.where(np.isinf(width), 1.0, width) - 1.0)


class GroupRelaxation:
    """The relaxation of a federation at given utilities; gains are worked out in units of `scale`.

    Of groups with at most `max_members`.
    """

    def __init__(
        self, federation: Federation, utilities: FloatArray, scale: float, *, max_members: int | None = None
    ) -> None:
        self._federation, self._utilities, self._scale = federation, utilities, scale
        self._max_members = federation.n_agents if max_members is None else max_members
        self._upper = contribution_bounds(federation)[0]

    def solve(self, inside: BoolArray, outside: BoolArray, *, time_limit: float) -> RelaxedGroup | None:
        """The bound on groups with all of `inside` and none of `outside`; None if it was not reached."""
        agents, owners = np.flatnonzero(~outside), self._federation.lot_owners
        if not (np.isin(agents, owners).any() and np.isin(agents, self._federation.task_owners).any()):
            return None  # nothing to bring, or nobody it is good for
        lots = np.concatenate([np.flatnonzero(owners == agent) for agent in agents])
        program = _ConicProgram(self._federation.take(agents), self._upper[lots], inside[agents])
        found = program.solve(self._utilities[agents], self._scale, time_limit, self._max_members)
        if found is None:
            return None
        bound, fractions = found
        membership = np.zeros(self._federation.n_agents)
        membership[agents] = np.clip(fractions, 0.0, 1.0)
        return RelaxedGroup(bound=(bound + RELAXATION_TOLERANCE) * self._scale, membership=membership)


class _ConicProgram:
    """The rows of one relaxation: its variables are z, s and x in units of the box, then r and q of the cones."""

    def __init__(self, federation: Federation, upper: FloatArray, inside: BoolArray) -> None:
        n, tasks, lots = federation.n_agents, federation.n_tasks, federation.n_lots
        self._federation, self._inside, self._upper = federation, inside, upper
        self._bent = np.flatnonzero(np.broadcast_to(federation.costs.quadratic, lots) > 0)
        scaled = federation.dense_weights() * upper
        own = federation.task_owners[:, None] == federation.lot_owners
        self._receiver, self._sender = np.nonzero(np.where(own, 0.0, scaled))
        sizes = np.cumsum([0, n, lots, self._receiver.size, tasks, self._bent.size])
        unit = sp.eye_array(sizes[-1], format="csr")
        self.z, self.s, self.x, self.r, self.q = (unit[low:high] for low, high in pairwise(sizes))
        self._lot_z, self._task_z = self.z[federation.lot_owners], self.z[federation.task_owners]
        passed_on = scaled[self._receiver, self._sender], (self._receiver, np.arange(self._receiver.size))
        reaching = sp.csr_array(passed_on, shape=(tasks, self._receiver.size))
        self._data = sp.csr_array(np.where(own, scaled, 0.0)) @ self.s + reaching @ self.x
        self._most = np.asarray(scaled.sum(axis=1))

    def solve(
        self, utilities: FloatArray, scale: float, time_limit: float, max_members: int
    ) -> tuple[float, FloatArray] | None:
        """The most that is gained, in units of the scale, and z."""
        import clarabel  # noqa: PLC0415 - optional dependency

        payoff_cones, payoff_rows, gain = self._payoffs(clarabel)
        costs, upper, n = self._federation.costs, self._upper, self._federation.n_agents
        gain -= utilities @ self.z + (costs.linear * upper) @ self.s
        gain -= (np.broadcast_to(costs.quadratic, upper.size) * upper**2)[self._bent] @ self.q
        free, fixed = self.z[~self._inside], self.z[self._inside]
        size = sp.csr_array(self.z.sum(axis=0).reshape(1, -1))
        linear = [self.s, self._lot_z - self.s]
        linear += [self.x, self.s[self._sender] - self.x, self._task_z[self._receiver] - self.x]
        bounded = [-free, size, -size]
        bent_z = self._lot_z[self._bent]
        bends = [self.q + bent_z, self.q - bent_z, 2.0 * self.s[self._bent]]
        rows = sp.vstack([fixed, *bounded, *linear, _interleaved(bends), payoff_rows], format="csc")
        constant = np.zeros(rows.shape[0])
        limits = np.concatenate([-np.ones(fixed.shape[0]), np.ones(free.shape[0]), [-1.0, max_members]])
        constant[: limits.size] = limits
        above = sum(block.shape[0] for block in (*bounded, *linear))
        cones = [clarabel.ZeroConeT(fixed.shape[0]), clarabel.NonnegativeConeT(above)]
        cones += [clarabel.SecondOrderConeT(3)] * self._bent.size + payoff_cones
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.time_limit = False, max(time_limit, 0.0)
        none = sp.csc_array((rows.shape[1], rows.shape[1]))
        for step, regularisation in STEPS_AND_REGULARISATIONS:
            settings.max_step_fraction, settings.static_regularization_constant = step, regularisation
            found = clarabel.DefaultSolver(none, -gain / scale, -rows, constant, cones, settings).solve()
            if str(found.status) in {"Solved", "AlmostSolved"}:
                return max(-found.obj_val, -found.obj_val_dual), np.asarray(found.x)[:n]
            if str(found.status) == "MaxTime":
                break
        return None

    def _payoffs(self, clarabel: Any) -> tuple[list[Any], sp.csr_array, FloatArray]:
        """The cones that hold r to the payoffs, their rows, and what the payoffs add to the gain."""
        federation, n, z = self._federation, self._federation.n_tasks, self._task_z
        exponents, shape = _exponents(federation), federation.payoff.hyperbola()
        assert exponents is not None and shape is not None
        steepness, decay, width = (np.broadcast_to(np.asarray(part, dtype=np.float64), n) for part in shape)
        if np.isinf(width).all():  # z - r, r >= z e^(-decay y / z)
            worth = federation.values * steepness / decay
            rows = [sp.diags_array(-decay) @ self._data, z, self.r]
            return [clarabel.ExponentialConeT()] * n, _interleaved(rows), worth @ (z - self.r)
        reach = z + sp.diags_array(1.0 / width) @ self._data
        size = 1.0 + self._most / width  # of the reach: what a cone holds should be near one
        reach = sp.diags_array(1.0 / size) @ reach
        if (exponents == 0).all():  # r <= z log(reach / z)
            rows = [self.r - sp.diags_array(np.log(size)) @ z, z, reach]
            return (
                [clarabel.ExponentialConeT()] * n,
                _interleaved(rows),
                (federation.values * steepness * width) @ self.r,
            )
        share = 1.0 / (1.0 + exponents)  # z - r, r^share reach^(1 - share) >= z
        worth = federation.values * steepness * width / exponents
        rows = [self.r, reach, sp.diags_array(size ** (share - 1.0)) @ z]
        return [clarabel.PowerConeT(each) for each in share.tolist()], _interleaved(rows), worth @ (z - self.r)


def _interleaved(blocks: list[sp.csr_array]) -> sp.csr_array:
    """The first rows of all blocks, then their second rows, and so on: a cone after the other."""
    count = blocks[0].shape[0]
    order: NDArray[np.intp] = np.arange(len(blocks) * count).reshape(len(blocks), count).T.ravel()
    return sp.csr_array(sp.vstack(blocks, format="csr")[order])
