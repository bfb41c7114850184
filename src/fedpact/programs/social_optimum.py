"""The social optimum: maximise welfare W(s) = sum_i a_i(s) - sum_j c_j(s_j), concave in s; then its canonical point.

Where several profiles are optimal, the canonical one is the point of smallest norm of the optimal face.

Payoffs are strictly concave in the data reached, so the reach xi* is the same at every optimum, but several profiles
may give it: the optimal set is the face

    { s in the box : W s = xi* - 1,  s_j = s_j* for each agent whose marginal welfare is not zero or whose cost bends }

Its least-norm point is the canonical equilibrium: it is unique, so renaming the agents permutes it, identical agents
contribute alike, and where a solver started does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedpact.federation import Federation, require_federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.lots import SharedCap, shared_members
from fedpact.federation.validation import Weights
from fedpact.programs.curvature import Curvature, DenseCurvature, SparseCurvature
from fedpact.programs.domain import edge_rows, interior_point, room
from fedpact.programs.least_norm import nearest_to_zero
from fedpact.programs.parts import maximise_by_parts, maximise_sparse
from fedpact.programs.shared_caps import conclude_within, maximise_within, shared_prices
from fedpact.programs.small_stakes import settle_small_stakes
from fedpact.programs.solver import Solution, conclude
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

# An agent is free to trade when moving it through its whole range changes welfare by less than this share of the scale.
FREE_TOLERANCE = 1e-10
# Directions the weights shrink by more than this are taken not to change anybody's reach.
REACH_RANK_TOLERANCE = 1e-11
FACE_TOLERANCE = 1e-6  # of the largest contribution
# Of the largest contribution: where an agent counts as at its bound; how far one is taken from there, and how far shows
# that it can go (a linear program is solved to 1e-7).
ON_BOUND, A_LITTLE, MOVES_AWAY = 1e-9, 1e-2, 1e-6
OVER_FULL = 1.0 + 1e-12  # of a shared cap: where it is exceeded
MAX_FACE_AGENTS = 2000  # the face takes a singular value decomposition
# Up to here a sparse federation is solved with dense matrices.
MAX_DENSE_AGENTS = 500
# From here on a few lots are decided on at a time.
MIN_PARTED_LOTS = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalFace:
    """The welfare optima around `point`.

    Attributes
    ----------
    point
        One optimum.
    free
        The agents that may contribute differently at another optimum.
    normals
        Orthonormal (free, rank): s + d is an optimum too, while in the box, if normals.T @ d[free] = 0.
    caps
        The agents' caps.
    shared_caps
        Caps that several lots share and that leave room at other optima; those that do not are among the normals.
    """

    point: FloatArray
    free: np.ndarray
    normals: FloatArray
    caps: FloatArray
    shared_caps: Sequence[SharedCap] = ()

    @property
    def is_point(self) -> bool:
        """Whether the optimum is unique."""
        return self.free.size == self.normals.shape[1]

    @cached_property
    def dimension(self) -> int:
        """The dimension of the set of optima."""
        if self.is_point:
            return 0
        inside = self._inside()
        return int(inside.sum() - np.linalg.matrix_rank(self.normals[inside], tol=1e-9)) if inside.any() else 0

    def least_norm(self) -> FloatArray:
        """The optimum of smallest Euclidean norm."""
        if self.is_point:
            return self.point
        best = self.point.copy()
        if self.shared_caps:
            best[self.free] = self._nearest_within()
        else:
            best[self.free] = nearest_to_zero(self.normals, self.point[self.free], self.caps[self.free])
        return best

    def _nearest_within(self) -> FloatArray:
        """The free lots' smallest amounts within shared caps: exceeded ones are held in turn, and let go if better."""
        (rows, rooms), start = self._shared_rows(), self.point[self.free]
        held: list[int] = []
        while True:
            nearest = self._nearest_holding(held, start)
            over = [place for place in np.flatnonzero(rows @ nearest > rooms * OVER_FULL).tolist() if place not in held]
            if not over:
                break
            held.append(over[0])
        for place in list(held):
            others = [other for other in held if other != place]
            without = self._nearest_holding(others, start)
            if (rows @ without <= rooms * OVER_FULL).all() and without @ without < nearest @ nearest:
                held, nearest = others, without
        used = np.maximum(rows @ nearest, rooms)  # above the room by rounding, if at all
        shares = np.divide(rooms, used, out=np.ones_like(used), where=used > 0)
        return nearest * np.where(rows.any(axis=0), shares @ rows, 1.0)

    def _nearest_holding(self, held: Sequence[int], start: FloatArray) -> FloatArray:
        rows, rooms = self._shared_rows()
        caps, normals, point = self.caps[self.free], self.normals, start
        for place in held:  # from within to where the next shared cap is full
            ahead = nearest_to_zero(normals, point, caps)
            here, there = rows[place] @ point, rows[place] @ ahead
            share = np.clip((rooms[place] - here) / (there - here), 0.0, 1.0) if there > here else 0.0
            point = point + share * (ahead - point)
            normals, _ = np.linalg.qr(np.column_stack([normals, rows[place]]))
        return nearest_to_zero(normals, point, caps)

    def _shared_rows(self) -> tuple[FloatArray, FloatArray]:
        """Which free lots each shared cap is over, and what the others leave of it."""
        rows = shared_members(self.shared_caps, self.point.size)
        fixed = np.delete(self.point, self.free)
        used = np.delete(rows, self.free, axis=1) @ fixed
        return rows[:, self.free], np.array([shared.cap for shared in self.shared_caps]) - used

    def vertex(self, direction: FloatArray) -> FloatArray:
        """An optimum that goes furthest along `direction`, given per agent."""
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the unique case

        if self.free.size == 0:
            return self.point
        target = self.normals.T @ self.point[self.free]
        bounds = [(0.0, None if np.isinf(cap) else cap) for cap in self.caps[self.free]]
        rows, rooms = self._shared_rows() if self.shared_caps else (None, None)
        answer = linprog(
            -direction[self.free],
            A_ub=rows,
            b_ub=rooms,
            A_eq=self.normals.T,
            b_eq=target,
            bounds=bounds,
            method="highs",
        )
        furthest = self.point.copy()
        if answer.x is not None:
            furthest[self.free] = np.clip(answer.x, 0.0, self.caps[self.free])
        return furthest

    def holds(self, contributions: FloatArray) -> bool:
        """Whether a profile lies on the face, up to rounding."""
        moved = contributions - self.point
        size = FACE_TOLERANCE * max(float(np.abs(self.point).max()), np.finfo(float).tiny)
        fixed = np.delete(moved, self.free)
        return bool((np.abs(fixed) <= size).all() and (np.abs(self.normals.T @ moved[self.free]) <= size).all())

    def _inside(self) -> NDArray[np.bool_]:
        """Which of the free agents are away from their bounds in the middle of the face.

        A linear program takes as many as it can a little away from the bound where they stand; in the mean of all that
        are found so, everybody is away who can be.
        """
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the unique case

        here = self.point[self.free]
        size = float(here.max())
        if size <= ON_BOUND:  # nothing, but for rounding
            return np.zeros(here.size, dtype=np.bool_)
        here, caps = here / size, self.caps[self.free] / size
        inside = (here > ON_BOUND) & (here < caps - ON_BOUND)
        while not inside.all():
            held = np.flatnonzero(~inside)
            sign = np.where(here[held] > ON_BOUND, 1.0, -1.0)  # at the cap, or at zero
            picked = sp.csr_array((sign, (np.arange(held.size), held)), shape=(held.size, here.size))
            limits = np.where(sign > 0, caps[held], 0.0)
            bounds = [(0.0, None if np.isinf(cap) else cap) for cap in caps]
            kept = sp.hstack([picked, sp.eye_array(held.size)], format="csr")
            if self.shared_caps:
                rows, rooms = self._shared_rows()
                padded = sp.csr_array(np.pad(rows, ((0, 0), (0, held.size))))
                kept, limits = sp.vstack([kept, padded], format="csr"), np.append(limits, rooms / size)
            answer = linprog(
                np.concatenate([np.zeros(here.size), -np.ones(held.size)]),
                A_ub=kept,
                b_ub=limits,
                A_eq=sp.hstack([sp.csr_array(self.normals.T), sp.csr_array((self.normals.shape[1], held.size))]),
                b_eq=self.normals.T @ here,
                bounds=bounds + [(0.0, A_LITTLE)] * held.size,
                method="highs",
            )
            if answer.x is None or not (away := answer.x[here.size :] > MOVES_AWAY).any():
                break
            inside[held[away]] = True
        return inside


def optimal_face(federation: Federation, contributions: FloatArray) -> OptimalFace:
    """The face of optima that holds an optimal profile. Cost: one SVD of the free agents' columns."""
    upper, scale = contribution_bounds(federation)
    slopes = federation.marginal_payoffs(contributions)
    marginal = np.asarray(federation.weights.T @ slopes) - federation.costs.slope(contributions)
    return face_from(
        weights=federation.weights,
        point=contributions,
        marginal=marginal,
        upper=upper,
        scale=scale,
        bends=federation.costs.quadratic > 0,
        caps=federation.caps,
        shared_caps=federation.shared_caps,
    )


def face_from(
    *,
    weights: Weights,
    point: FloatArray,
    marginal: FloatArray,
    upper: FloatArray,
    scale: float,
    bends: NDArray[np.bool_],
    caps: FloatArray,
    shared_caps: Sequence[SharedCap] = (),
) -> OptimalFace:
    """The face from the weights, or any matrix with the rows scaled, and the marginal welfare at an optimum."""
    if shared_caps:
        prices, _ = shared_prices(point, marginal, upper, shared_caps)
        rows, sizes = shared_members(shared_caps, point.size), np.array([shared.cap for shared in shared_caps])
        full = prices * sizes > FREE_TOLERANCE * scale
        stacked = sp.vstack([weights, rows[full]]) if sp.issparse(weights) else np.concatenate([weights, rows[full]])
        left = tuple(shared for shared, is_full in zip(shared_caps, full, strict=True) if not is_full)
        face = face_from(
            weights=stacked,
            point=point,
            marginal=marginal - prices @ rows,
            upper=upper,
            scale=scale,
            bends=bends,
            caps=caps,
        )
        return replace(face, shared_caps=left)
    free = _free_lots(marginal, upper, scale, bends)
    columns = weights[:, free]
    columns = columns if isinstance(columns, np.ndarray) else columns.toarray()
    return OptimalFace(point=point, free=free, normals=_row_space(columns, upper[free]), caps=caps)


def _free_lots(marginal: FloatArray, upper: FloatArray, scale: float, bends: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The lots of which another optimum may hold more or less."""
    return np.flatnonzero((np.abs(marginal) * upper <= FREE_TOLERANCE * scale) & ~bends & (upper > 0))


def undecided_lots(federation: Federation, contributions: FloatArray) -> NDArray[np.intp]:
    """Among very many lots, those whose contributions may differ at another optimum; none where there is no other.

    The free lots fall into parts that reach nobody in common. In a part of up to `MAX_FACE_AGENTS` the rank of the
    weights says whether they are determined; one that is larger is not looked into.
    """
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - for very many agents only

    if federation.shared_caps:  # whose prices would have to be known
        return np.arange(federation.n_lots)
    upper, scale = contribution_bounds(federation)
    slopes = federation.marginal_payoffs(contributions)
    marginal = np.asarray(federation.weights.T @ slopes) - federation.costs.slope(contributions)
    free = _free_lots(marginal, upper, scale, federation.costs.quadratic > 0)
    columns = sp.csc_array(federation.weights[:, free])
    reached = sp.coo_array(columns)
    n_rows, size = columns.shape[0], sum(columns.shape)
    links = sp.csr_array((np.ones(reached.nnz, dtype=np.int8), (reached.row, n_rows + reached.col)), shape=(size, size))
    parts = connected_components(links, directed=False)[1][n_rows:]
    determined = np.diff(columns.indptr) > 0
    by_part, starts = np.argsort(parts, kind="stable"), np.flatnonzero(np.diff(np.sort(parts))) + 1
    for own in np.split(by_part, starts):
        if own.size > MAX_FACE_AGENTS:
            determined[own] = False
        elif own.size > 1:
            block = sp.csr_array(columns[:, own])
            dense = block[np.flatnonzero(np.diff(block.indptr))].toarray()
            determined[own] = _row_space(dense, upper[free[own]]).shape[1] == own.size
    return free[~determined]


def _row_space(columns: FloatArray, size: FloatArray) -> FloatArray:
    """Orthonormal basis (free, rank) of the directions that change somebody's reach."""
    if columns.shape[1] == 0:
        return np.zeros((0, 0))
    scaled = columns * (size / size.max())
    largest = np.abs(scaled).max(axis=1, keepdims=True)
    scaled = scaled[largest[:, 0] > 0] / largest[largest[:, 0] > 0]  # first, since squares may be out of range
    scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    _, singular, rows = np.linalg.svd(scaled, full_matrices=False)
    rank = int((singular > REACH_RANK_TOLERANCE * singular[0]).sum()) if singular.size else 0
    if rank == columns.shape[1]:
        return np.eye(rank)
    basis, _ = np.linalg.qr((rows[:rank] * (size.min() / size)).T)
    return basis


def faces_possible(
    weights: FloatArray,
    marginal: FloatArray,
    upper: FloatArray,
    scale: FloatArray,
    linear: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Which of many federations may have more than one optimum: those whose free agents' columns are not independent.

    `weights` is (federations, n, n), `marginal` the marginal welfare at an optimum and `linear` whether costs do not
    bend, both (federations, n).
    """
    free = (np.abs(marginal) * upper <= FREE_TOLERANCE * scale[:, None]) & linear & (upper > 0)
    several = np.flatnonzero(free.sum(axis=1) > 1)
    columns = np.where(free[several, None, :], weights[several] * upper[several, None, :], 0.0)
    norms = np.linalg.norm(columns, axis=2, keepdims=True)
    singular = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    rank = (singular > REACH_RANK_TOLERANCE * singular[:, :1]).sum(axis=1)
    return several[rank < free[several].sum(axis=1)]


class WelfareProgram:
    """Maximise the welfare of one federation; sparse weights stay sparse where that pays.

    With `lots` only these are decided on, and `data` is what everybody has without them.
    """

    def __init__(
        self, federation: Federation, lots: NDArray[np.intp] | None = None, data: FloatArray | float = 0.0
    ) -> None:
        self.federation = federation
        self.upper, self.scale = contribution_bounds(federation)
        self.is_sparse = federation.is_sparse and federation.n_lots > MAX_DENSE_AGENTS and not federation.shared_caps
        self._weights = federation.weights if self.is_sparse else federation.dense_weights()
        self._costs, self._data, self._is_part = federation.costs, data, lots is not None
        self._last: tuple[FloatArray, FloatArray] | None = None
        if lots is not None:
            self.upper, self._weights = self.upper[lots], self._weights[:, lots]
            self._costs = federation.costs.take(lots)

    @property
    def can_be_parted(self) -> bool:
        """Whether maximising over a few lots at a time is known to pay: many lots, dense, nobody harmed."""
        plain = not (self.is_sparse or self.federation.has_harm or self.federation.shared_caps)
        return plain and self.upper.size >= MIN_PARTED_LOTS

    def part(self, lots: NDArray[np.intp], contributions: FloatArray) -> WelfareProgram:
        """The program over some of the lots, the others held where they are."""
        held = contributions.copy()
        held[lots] = 0.0
        return WelfareProgram(self.federation, lots, np.asarray(self._weights @ held))

    def average_prices(self) -> FloatArray:
        """What a unit of each lot costs, on average over all that may be contributed."""
        return np.divide(self._costs.value(self.upper), self.upper, out=np.ones_like(self.upper), where=self.upper > 0)

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.federation.values * self.federation.payoff.slope(self._reach(contributions))
        return self._weights.T @ slopes - self._costs.slope(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The dense matrix of second derivatives."""
        bent = np.sqrt(self._bends(contributions))[:, None] * self._weights
        hessian = -(bent.T @ bent)  # symmetric by its form, which halves the work
        hessian.flat[:: self.upper.size + 1] -= self._costs.curvature(contributions)
        return hessian

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        if not self.is_sparse:
            return DenseCurvature.scaled(self.hessian(contributions), left, right)
        plain = left * right * self._costs.curvature(contributions)
        return SparseCurvature(self._weights, self._squares, self._bends(contributions), plain, left, right)

    @cached_property
    def _squares(self) -> sp.csr_array:
        return self.federation.sparse_weights().power(2)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        if self._is_part or not self.federation.has_harm:
            return np.asarray(np.inf)
        return room(self._weights, self.federation.payoff.floor, contributions, direction)

    def edges(self) -> FloatArray | None:
        return None if self.is_sparse or self._is_part else edge_rows(self._weights, self.federation.payoff.floor)

    def start(self) -> FloatArray:
        if self._is_part:
            return self.upper / (1.0 + self.upper.size)
        return interior_point(self.federation, self.upper)

    def _reach(self, contributions: FloatArray) -> FloatArray:
        """What a profile reaches; the last one is kept, since slopes and bends are asked for at one point."""
        if self._last is None or not np.array_equal(self._last[0], contributions):
            self._last = contributions.copy(), np.asarray(self._data + self._weights @ contributions)
        return self._last[1]

    def _bends(self, contributions: FloatArray) -> FloatArray:
        """-values g'' at the reach of a profile."""
        return -self.federation.values * self.federation.payoff.curvature(self._reach(contributions))


@dataclass(frozen=True, kw_only=True, eq=False)
class SocialOptimum:
    """The canonical welfare optimum, its multipliers, and the face of all optima.

    With very many agents the face is not worked out (None), and the optimum is the one the solver found; then
    `n_undecided` is how many lots may hold more or less at other optima.
    """

    solution: Solution
    face: OptimalFace | None
    welfare: float
    n_undecided: int = 0

    @property
    def contributions(self) -> FloatArray:
        """The optimum of smallest norm."""
        return self.solution.contributions


def social_optimum(federation: Federation) -> SocialOptimum:
    """The contributions that maximise welfare; where several do, those of smallest norm.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> social_optimum(homogeneous).contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    require_federation(federation)
    return canonical_optimum(federation, maximise_welfare(federation))


def maximise_welfare(federation: Federation) -> Solution:
    """Some welfare optimum, with those who have little at stake settled as well."""
    program = WelfareProgram(federation)
    many = maximise_by_parts if program.can_be_parted else maximise_sparse if program.is_sparse else None
    try:
        found = (many(program) if many else None) or maximise_within(program, federation.shared_caps)
    except NotConverged:
        if not program.is_sparse or federation.n_lots > MAX_FACE_AGENTS:
            raise
        return maximise_welfare(federation.replace(weights=federation.dense_weights()))  # a factorisation is steadier
    if federation.shared_caps or federation.n_lots > MAX_DENSE_AGENTS:
        return found
    settled = settle_small_stakes(federation, found.contributions, program.upper)
    if np.array_equal(settled, found.contributions):
        return found
    try:
        return conclude(program, settled, found.iterations, near=found)
    except NotConverged:  # at this size rounding rules
        return found


def optimum_at(federation: Federation, contributions: FloatArray) -> SocialOptimum:
    """The canonical optimum around a welfare optimum known already; `NotConverged` if it is none."""
    found = conclude_within(WelfareProgram(federation), federation.shared_caps, contributions, 0)
    return canonical_optimum(federation, found)


def canonical_optimum(federation: Federation, found: Solution) -> SocialOptimum:
    """From some welfare optimum to the one of smallest norm, with the face of all of them."""
    if federation.n_lots > MAX_FACE_AGENTS:
        return _one_of_many(federation, found)
    face, solution = optimal_face(federation, found.contributions), found
    if not face.is_point:
        try:
            smallest = face.least_norm()
            solution = conclude_within(WelfareProgram(federation), federation.shared_caps, smallest, found.iterations)
        except NotConverged:  # the face was drawn too wide by rounding: the optimum found stands
            face = OptimalFace(
                point=found.contributions, free=face.free[:0], normals=face.normals[:0, :0], caps=face.caps
            )
    return SocialOptimum(solution=solution, face=face, welfare=federation.welfare(solution.contributions))


def _one_of_many(federation: Federation, found: Solution) -> SocialOptimum:
    """The optimum found, among very many lots, and what is known of others."""
    undecided = undecided_lots(federation, found.contributions)
    point = OptimalFace(point=found.contributions, free=undecided[:0], normals=np.zeros((0, 0)), caps=federation.caps)
    return SocialOptimum(
        solution=found,
        face=None if undecided.size else point,
        welfare=federation.welfare(found.contributions),
        n_undecided=undecided.size,
    )
