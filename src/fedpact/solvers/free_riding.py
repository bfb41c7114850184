"""The free-riding equilibrium: every member maximises a_i(s) - c_i(s_i) over its own lots, without payments.

**One lot each.** Member i wants the data t_i(s_i) at which value_i w_ii g_i'(t) = c_i'(s_i). An equilibrium solves

    weights @ s - t(s) = 0 where 0 < s_i < cap_i,      >= 0 where s_i = 0,      <= 0 where s_i = cap_i,

a linear complementarity problem when costs are linear. It may have several solutions. To single one out without favour,
k s is added to the left side: for large k the solution is unique, and it is followed as k falls to zero, k halved at
every step, by Newton steps on the pieces: guess who is at a bound, solve for the others, guess again. Renaming members
permutes the whole path, and where the solutions form a convex set it ends at the one of smallest norm. The paths of
many federations are followed side by side. Where a path turns back, others are tried, on which k d s is added, with d
what a member receives, gives, has of its own data or pays for a sample.

**Several lots**, or where all paths turn back: all members answer each other at once, each by its own concave program,
and go part of the way, less far when they overshoot. Newton steps on all gradients at once go ahead of them.

Stopping inequality: what every member could still gain by another contribution, linearised, is at most 1e-10 of what it
has at stake. Where none is found `NotConverged` says so; there may be none.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, times, times_transposed
from fedpact.solvers.groups import all_groups, owned_entries, standalone_optima, sub_federations
from fedpact.solvers.interior_point import GAIN_TOLERANCE, Maximum, linearised_gains, maximise
from fedpact.solvers.welfare import WelfareProgram, canonical_optimum
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged

LAST_STIFFNESS = 1e-12  # of the smallest row of weights: k from which the path goes on to zero
MAX_PATH_STEPS = 60  # for one k
MAX_SHRINK = 0.99  # k times this is a step too short to be tried: the path turns back
DATA_TOLERANCE = 1e-11  # of all data that goes into what a member reaches
LEAST_SHARE = 1e-30  # of what a member contributes alone: where its first sample costs nothing it gives at least this
MAX_ANSWERS, MAX_NEWTON_STEPS = 400, 20
NEWTON_EVERY = 8  # answers; between them Newton steps on all gradients would mostly lead where they led before
MAX_MINOR_AGENTS, MAX_SUPPORT_AGENTS = 12, 6
HARMED_MULTIPLE = 1e3  # of what a member contributes alone at most: the most it makes up for harm with, without a cap


def free_riding_equilibrium(federation: Federation) -> FloatArray:
    """One equilibrium, (lots,); `NotConverged` where none is found.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> free_riding_equilibrium(homogeneous).round(4).tolist()
    [5.953, 5.953, 5.953]
    """
    found = free_riding_equilibria(federation.arrays)
    if np.isnan(found).any():
        raise NotConverged(
            "no free-riding equilibrium was found: the members' answers to each other's contributions do not settle, "
            "or lead out of the domain of a payoff; there may be none, and lower caps may help",
            result=found,
        )
    return read_only_copy(found)


def free_riding_equilibria(arrays: FederationArrays) -> FloatArray:
    """One equilibrium of each federation, (..., lots); NaN where none is found."""
    flat = arrays.flattened() if arrays.shape else arrays.repeated(1)
    with np.errstate(all="ignore"):
        found = np.full(flat.caps.shape, np.nan) if arrays.has_lots else _follow_all_paths(flat)
        for index in np.flatnonzero(np.isnan(found).any(axis=-1)).tolist():
            found[index] = _answer_each_other(flat.at(index))
    return found.reshape(*arrays.shape, -1)


def is_only_equilibrium(federation: Federation, contributions: FloatArray) -> bool | None:
    """Whether an equilibrium is the only one; None where that is not known.

    With one lot each, it is if every principal minor of the weights is positive (a P-matrix; Cottle, Pang and Stone,
    The Linear Complementarity Problem, theorem 3.3.7), in particular if their symmetric part is positive definite, rows
    being scaled to a diagonal of ones. Otherwise, among few members with linear costs, every combination of members at
    a bound is tried.
    """
    arrays = federation.arrays
    if arrays.has_lots:
        return None
    weights = federation.arrays.weights
    able = np.flatnonzero((arrays.caps > 0) & (weights.diagonal() > 0))
    scaled = weights[np.ix_(able, able)] / weights.diagonal()[able][:, None]
    if not able.size or np.linalg.eigvalsh(scaled + scaled.T).min() > 1e-12 * np.abs(scaled).max():
        return True
    if able.size <= MAX_MINOR_AGENTS:
        chosen = all_groups(able.size)[:, :, None]
        minors = np.linalg.det(np.where(chosen & np.swapaxes(chosen, 1, 2), scaled, np.eye(able.size)))
        if (minors > 1e-12).all():
            return True
    if able.size > MAX_SUPPORT_AGENTS or arrays.quadratic.any():
        return None
    return not _another_equilibrium(arrays, np.asarray(contributions))


def _another_equilibrium(arrays: FederationArrays, contributions: FloatArray) -> bool:
    """Whether some choice of members at zero, at the cap and in between gives a different equilibrium; linear costs."""
    states = np.array(list(product((0, 1, 2), repeat=arrays.n_agents)))
    states = states[~((states == 2) & np.isinf(arrays.caps)).any(axis=1)]
    with np.errstate(all="ignore"):
        alone = np.broadcast_to(standalone_optima(arrays)[0], states.shape)
        path, none = _Path(arrays.repeated(len(states)), alone, np.ones(states.shape)), np.zeros(len(states))
        tried = path.at_bounds(alone, states == 0, states == 2, none)
        solved = path.is_solved(tried, none) & (tried <= arrays.caps).all(axis=-1)
        moved = np.abs(tried - contributions).max(axis=-1) > 1e-6 * max(float(tried[solved].max(initial=0.0)), 1e-300)
    return bool((solved & moved).any())


def _follow_all_paths(arrays: FederationArrays) -> FloatArray:
    """The ends of the first paths that do not turn back, (federations, n); NaN where all do."""
    sizes = np.abs(arrays.weights)
    own = np.einsum("pii->pi", sizes)
    found = np.full(arrays.caps.shape, np.nan)
    for pull in (np.ones_like(own), sizes.sum(axis=-1), sizes.sum(axis=-2), own, arrays.linear):
        left = np.flatnonzero(np.isnan(found).any(axis=-1))
        if not left.size:
            break
        most = pull[left].max(axis=-1, keepdims=True)
        found[left] = _follow_paths(arrays.at(left), pull[left] / np.where(most > 0, most, 1.0))
    return found


def _follow_paths(arrays: FederationArrays, pull: FloatArray) -> FloatArray:
    """The ends of the paths of federations with one lot each, (federations, n); NaN where one turns back."""
    path, found = _Path(arrays, standalone_optima(arrays)[0], pull), np.full(arrays.caps.shape, np.nan)
    sizes = np.abs(arrays.weights).sum(axis=-1)
    stiffness, last = sizes.max(axis=-1), LAST_STIFFNESS * sizes.min(axis=-1, where=sizes > 0, initial=np.inf)
    contributions, index, shrink = path.alone, np.arange(len(found)), np.full(len(found), 0.5)
    before = 2.0 * stiffness
    while index.size:
        stiffness = np.where(before * shrink > last, before * shrink, 0.0)
        ahead = path.solve(contributions, stiffness)
        solved = path.is_solved(ahead, stiffness)
        found[index[solved & (stiffness == 0)]] = ahead[solved & (stiffness == 0)]
        contributions = np.where(solved[:, None], ahead, contributions)
        before = np.where(solved, stiffness, before)
        shrink = np.where(solved, np.maximum(shrink**2, 0.5), np.sqrt(shrink))  # a step that fails is tried in parts
        going = np.flatnonzero((before > 0) & (shrink < MAX_SHRINK))
        index, path, contributions, shrink = index[going], path.at(going), contributions[going], shrink[going]
        before, last = before[going], last[going]
    inside = (arrays.data(np.nan_to_num(found)) > arrays.floor).all(axis=-1, keepdims=True)
    return np.where(inside & np.isfinite(found), found, np.nan)


class _Path:
    """The complementarity problems of federations with one lot each, at one k for each federation; `pull` is d."""

    def __init__(self, arrays: FederationArrays, alone: FloatArray, pull: FloatArray) -> None:
        self.arrays, self.alone, self.pull = arrays, alone, pull
        self._own = np.einsum("...ii->...i", arrays.weights)
        self._worth = arrays.values * self._own
        self._able = (arrays.caps > 0) & (self._worth > 0)
        # Where the first sample costs nothing, zero is never an answer.
        self._least = np.where(self._able & (arrays.linear == 0), LEAST_SHARE * alone, 0.0)

    def at(self, index: NDArray[np.intp]) -> _Path:
        """Those of some federations."""
        return _Path(self.arrays.at(index), self.alone[index], self.pull[index])

    def wanted(self, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t_i(s_i) and its derivative, which is not positive."""
        worth = np.where(self._able, self._worth, 1.0)
        marginal = self.arrays.marginal_costs(np.maximum(contributions, self._least)) / worth
        wanted = self.arrays.payoff.inverse_slope(marginal)
        curved = self.arrays.quadratic > 0
        falls = np.where(curved, 2.0 * self.arrays.quadratic / worth / self.arrays.payoff.curvature(wanted), 0.0)
        return wanted, falls

    def solve(self, contributions: FloatArray, stiffness: FloatArray) -> FloatArray:
        """Newton steps on the pieces from a profile."""
        k, caps = stiffness[:, None] * self.pull, self.arrays.caps
        for _ in range(MAX_PATH_STEPS):
            wanted, falls = self.wanted(contributions)
            excess = self.arrays.data(contributions) + k * contributions - wanted
            aim = contributions - excess / (self._own + k - falls)
            low, high = ~self._able | ((aim <= 0) & (self._least == 0)), self._able & (aim >= caps)
            ahead = self.at_bounds(contributions, low, high, stiffness)
            moved = ~(np.abs(ahead - contributions) <= 1e-13 * np.maximum(ahead, contributions))
            contributions = ahead
            if not moved.any():
                break
        return np.clip(contributions, 0.0, caps)

    def at_bounds(
        self, contributions: FloatArray, low: NDArray[np.bool_], high: NDArray[np.bool_], stiffness: FloatArray
    ) -> FloatArray:
        """A Newton step with these members at zero and at their caps; of several answers the smallest."""
        wanted, falls = self.wanted(contributions)
        held, at, eye = low | high, np.where(high, self.arrays.caps, 0.0), np.eye(low.shape[-1])
        shift = stiffness[:, None] * self.pull - falls
        right = np.where(held, 0.0, wanted - falls * contributions - times(self.arrays.weights, at) - shift * at)
        exact, solved = bool((stiffness > 0).all()), np.full(right.shape, np.nan)
        if len(held) == 1:  # of many members most stand at a bound
            free = np.flatnonzero(~held[0])
            block = self.arrays.weights[0][np.ix_(free, free)] + np.diag(shift[0, free])
            if np.isfinite(block).all() and np.isfinite(right).all():
                solved[0, free] = _solve(block[None], right[:, free], exact=exact)[0]
        else:
            matrix = self.arrays.weights + shift[..., None] * eye
            matrix = np.where(held[:, :, None] | held[:, None, :], eye, matrix)
            sound = np.isfinite(matrix).all(axis=(-1, -2)) & np.isfinite(right).all(axis=-1)
            solved[sound] = _solve(matrix[sound], right[sound], exact=exact)
        lowest = np.where(self._least > 0, np.maximum(contributions / 8.0, self._least), 0.0)
        return np.maximum(np.where(held, at, solved), lowest)

    def is_solved(self, contributions: FloatArray, stiffness: FloatArray) -> NDArray[np.bool_]:
        """Whether every member has the data it wants, or is at the bound that keeps it from having it."""
        own = stiffness[:, None] * self.pull * contributions
        wanted, _ = self.wanted(contributions)
        excess = self.arrays.data(contributions) + own - wanted
        allowed = times(np.abs(self.arrays.weights), contributions) + own + np.abs(wanted)
        payoff, curved = self.arrays.payoff, self.arrays.quadratic > 0
        allowed += np.where(curved, np.nan_to_num(-payoff.slope(wanted) / payoff.curvature(wanted)), 0.0)
        short, spare = excess < -DATA_TOLERANCE * allowed, excess > DATA_TOLERANCE * allowed
        wrong = (short & (contributions < self.arrays.caps)) | (spare & (contributions > self._least))
        return np.asarray(np.isfinite(excess).all(axis=-1) & ~(wrong & self._able).any(axis=-1))


def _solve(matrices: FloatArray, right: FloatArray, *, exact: bool) -> FloatArray:
    """Solutions of linear systems side by side; unless `exact`, the smallest where there are several."""
    if exact:
        try:
            return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
        except np.linalg.LinAlgError:
            pass
    inverse = np.asarray(np.linalg.pinv(matrices, rcond=1e-13), dtype=np.float64)
    solved = times(inverse, right)
    return solved + times(inverse, right - times(matrices, solved))


def _answer_each_other(arrays: FederationArrays) -> FloatArray:
    """An equilibrium of one federation, with any number of lots, (lots,); NaN where answers do not settle."""
    everybody = np.eye(arrays.n_agents, dtype=np.bool_)
    alone, lots, has_lot = sub_federations(arrays, everybody)
    tasks, has_task = owned_entries(everybody[:, arrays.task_owners])
    upper, scale = alone.bounds()
    if arrays.has_harm:  # what others harm may be worth more than a member has alone
        caps = alone.reachable_caps
        upper = np.where(np.isfinite(caps), caps, HARMED_MULTIPLE * upper)

    def own_programs(profile: FloatArray) -> tuple[WelfareProgram, FloatArray]:
        """Everybody's own program if the others stay as they are, and what it does in it."""
        foreign = arrays.foreign_data(profile)
        background = np.where(has_task, foreign[tasks], 0.0)
        program = WelfareProgram(alone, upper=upper, scale=scale, background=background)
        return program, np.where(has_lot, profile[lots], 0.0)

    profile, part, before = standalone_optima(arrays)[0], 1.0, np.inf
    for answer in range(MAX_ANSWERS):
        for tried in (_newton_point(arrays, profile), profile) if answer % NEWTON_EVERY == 0 else (profile,):
            program, own = own_programs(tried)
            gains = linearised_gains(program, own)[0]
            if (gains <= GAIN_TOLERANCE).all() and (arrays.shared @ tried <= arrays.shared_limits * (1 + 1e-12)).all():
                for agent in np.flatnonzero(has_lot.sum(axis=1) > 1).tolist():  # between collinear lots of one member
                    found = Maximum(contributions=own[[agent]], gains=gains[[agent]], iterations=0)
                    own[agent] = canonical_optimum(program.one(agent), found).contributions
                tried[lots[has_lot]] = own[has_lot]
                return tried
        move = maximise(program).contributions - own
        distance = float(np.abs(move).max())
        part = max(0.5 * part, 0.5 / arrays.n_agents) if distance >= before else min(1.1 * part, 1.0)
        profile[lots[has_lot]] += part * move[has_lot]
        if not (arrays.data(profile) > arrays.floor).all():
            break
        before = distance
    return np.full(arrays.n_lots, np.nan)


def _newton_point(arrays: FederationArrays, profile: FloatArray) -> FloatArray:
    """Where Newton steps on everybody's gradients in its own lots lead, within all caps but shared ones."""
    weights, own, caps = arrays.weights, arrays.without_sharing().weights, arrays.reachable_caps
    s = profile.copy()
    for _ in range(MAX_NEWTON_STEPS):
        gradient = times_transposed(own, arrays.marginal_payoffs(s)) - arrays.marginal_costs(s)
        free = np.flatnonzero(~((s <= 0) & (gradient <= 0)) & ~((s >= caps) & (gradient >= 0)))
        curved = arrays.worth_curvature(arrays.data(s))[:, None] * weights[:, free]
        jacobian = own[:, free].T @ curved - np.diag(2.0 * arrays.quadratic[free])
        if not (np.isfinite(jacobian).all() and np.isfinite(gradient).all()):
            return profile
        step = np.linalg.lstsq(jacobian, gradient[free], rcond=None)[0]
        s[free] = np.clip(s[free] - step, 0.0, caps[free])
    return s
