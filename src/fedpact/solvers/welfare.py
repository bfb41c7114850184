"""The social optimum: maximise welfare W(s) = sum_r value_r g_r(y_r) - sum_l c_l(s_l), y = weights @ s, concave in s.

Payoffs are strictly concave in the data that tasks reach, so the data y* is the same at every optimum, but several
profiles may give it: the optima are the face (`OptimalFace`) of all s in the box, within shared caps, with

    weights @ s = y*,      s_l = s_l* for each lot whose marginal welfare is not zero or whose cost is curved.

Its least-norm point is the canonical optimum: it is unique, so renaming members permutes it, equal members contribute
alike, and where the solver started does not matter.

Among very many members most stand at a bound, so only some lots are decided on at a time (`_maximise_by_parts`).

**The face.** Around an optimum s*, with p the prices of shared caps, a lot is *free* if its marginal welfare less p is
zero and its cost is not curved. The optima are the points of the box with

    weights @ s = weights @ s*,      s_l = s_l* where l is not free,      full shared caps full, the others kept.

The rows of the first and third condition, on the free lots, are held as an orthonormal basis (`normals`).

`nearest_point` of a polyhedron to a target, by non-negative least squares: with y = x - target, the least |y| with
G y >= h is y = -r / r_0, where (r, r_0) = (G' u, h' u - 1) is the residual of

    the u >= 0 with the least |G' u|^2 + (h' u - 1)^2,

and no point exists where that is zero (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). The
constraints with u > 0 bind, so that y is the least-norm solution of these, to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation, require_federation
from fedpact.federation.arrays import FederationArrays, times, times_transposed
from fedpact.solvers.interior_point import GAIN_TOLERANCE, Maximum, finish, linearised_gains, maximise
from fedpact.utils.arrays import FloatArray, read_only_copy

MIN_PARTED_LOTS = 100
FIRST_NEWCOMERS, MAX_PART_ROUNDS = 32, 30
FACE_GAIN = 1e-12  # of the scale: the least-norm point of a face may leave so much
MAX_DECAY_LENGTHS = 3.0
WAITING_GAIN = 1e-14  # of the scale: who could gain no more by a move through its whole range waits at its bound


class WelfareProgram:
    """The welfare of federations with one leading axis, or of one federation; `background` is data tasks have besides.

    Bounds `upper` and stakes `scale` are those of `arrays.bounds` if not given.
    """

    def __init__(
        self,
        arrays: FederationArrays,
        *,
        upper: FloatArray | None = None,
        scale: FloatArray | None = None,
        background: FloatArray | float = 0.0,
    ) -> None:
        if upper is None or scale is None:
            upper, scale = arrays.bounds()
        self.arrays, self._background = arrays, background
        self.upper, self.scale = upper.reshape(-1, arrays.n_lots), np.reshape(scale, -1)
        self.shared, caps = arrays.shared, arrays.shared_limits.shape[-1]
        self.shared_limits = np.broadcast_to(arrays.shared_limits, (*self.scale.shape, caps))

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """dW/ds."""
        marginal = self.arrays.marginal_worth(self._data(contributions))
        return times_transposed(self.arrays.weights, marginal) - self.arrays.marginal_costs(contributions)

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """-d2W/ds2."""
        curvature = -self.arrays.worth_curvature(self._data(contributions))
        found = weighted_gram(self.arrays.weights, curvature)
        np.einsum("pii->pi", found)[...] += 2.0 * self.arrays.quadratic
        return found

    def max_step(self, contributions: FloatArray, direction: FloatArray) -> FloatArray | float:
        """How far the data of every task stays above the floor of its payoff."""
        if not self.arrays.has_harm:
            return np.inf
        here, change = self._data(contributions), times(self.arrays.weights, direction)
        floor = payoff_floor(self.arrays, here)
        return np.asarray(np.where(change < 0, (floor - here) / change, np.inf).min(axis=-1))

    def at(self, index: NDArray[np.intp]) -> WelfareProgram:
        """The welfare of some of the federations."""
        if not self.arrays.shape:
            return self
        background = self._background[index] if isinstance(self._background, np.ndarray) else self._background
        return WelfareProgram(
            self.arrays.at(index), upper=self.upper[index], scale=self.scale[index], background=background
        )

    def one(self, index: int) -> WelfareProgram:
        """The program of one of the federations."""
        found = self.at(np.array([index]))
        return WelfareProgram(found.arrays.at(0), upper=found.upper, scale=found.scale, background=found._background)

    def part(self, lots: NDArray[np.intp], contributions: FloatArray) -> WelfareProgram:
        """The program of one federation over some of its lots, the others held where they are."""
        held = contributions.copy()
        held[:, lots] = 0.0
        return WelfareProgram(
            take_lots(self.arrays, lots), upper=self.upper[:, lots], scale=self.scale, background=self._data(held)
        )

    def _data(self, contributions: FloatArray) -> FloatArray:
        return self._background + self.arrays.data(contributions)


@dataclass(frozen=True, kw_only=True, eq=False)
class SocialOptimum:
    """The canonical welfare optimum, and the face of all optima."""

    contributions: FloatArray  # the optimum of smallest norm
    welfare: float  # what it is worth to all together
    face: OptimalFace  # all optima
    # the linearised gain left, in units of what is at stake: a bound on the relative distance from the maximum
    gain: float
    iterations: int  # newton steps taken


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
    program = WelfareProgram(federation.arrays)
    return canonical_optimum(program, maximise_welfare(program).require_converged())


def optimum_at(federation: Federation, contributions: FloatArray) -> SocialOptimum:
    """The canonical optimum around a welfare optimum known already, or close; `NotConverged` if it is none."""
    program, profile = WelfareProgram(federation.arrays), np.asarray(contributions, dtype=np.float64)[None]
    found = Maximum(contributions=profile, gains=linearised_gains(program, profile)[0], iterations=0)
    if not found.converged.all():  # nearly one
        found = finish(program, profile)
    return canonical_optimum(program, found.require_converged())


def nearest_optimum(federation: Federation, contributions: FloatArray) -> FloatArray:
    """A welfare optimum close to a profile that is nearly one; the canonical one where it is not."""
    found = finish(WelfareProgram(federation.arrays), np.asarray(contributions, dtype=np.float64)[None])
    return found.contributions[0] if found.converged.all() else social_optimum(federation).contributions


def welfare_optima(arrays: FederationArrays) -> tuple[FloatArray, FloatArray]:
    """The canonical optima of federations, (..., lots), and the linearised gains left in units of stakes, (...).

    An optimum that was not reached is NaN.
    """
    if not arrays.shape:
        program = WelfareProgram(arrays)
        found = canonical_optimum(program, maximise_welfare(program))
        reached = found.gain <= GAIN_TOLERANCE
        return np.where(reached, found.contributions, np.nan), np.asarray(found.gain)
    flat = arrays.flattened()
    program = WelfareProgram(flat)
    maximum = maximise(program)
    contributions, gains = maximum.contributions, maximum.gains
    several = may_have_several(flat, program.gradient(contributions), program.upper, program.scale)
    for index in np.flatnonzero(several & maximum.converged).tolist():
        alone = Maximum(contributions=contributions[[index]], gains=gains[[index]], iterations=0)
        found = canonical_optimum(program.one(index), alone)
        contributions[index], gains[index] = found.contributions, found.gain
    contributions[~maximum.converged] = np.nan
    return contributions.reshape(*arrays.shape, -1), gains.reshape(arrays.shape)


def maximise_welfare(program: WelfareProgram) -> Maximum:
    """Some welfare optimum of one federation."""
    lots = program.upper.shape[-1]
    if lots >= MIN_PARTED_LOTS and not program.arrays.has_harm and not program.shared.size:
        found = _maximise_by_parts(program)
        if found is not None:
            return found
    return maximise(program)


def _maximise_by_parts(program: WelfareProgram) -> Maximum | None:
    """A few lots at a time, first those worth most for what they cost; None where most take part in the end.

    Whoever has come to rest at a bound waits there until its gradient says that it should move. Every round maximises
    over twice as many newcomers as the one before, and gains, so no set of them comes back.
    """
    upper, scale = program.upper[0], float(program.scale[0])
    spent = program.arrays.lot_costs(upper)
    prices = np.divide(spent, upper, out=np.ones_like(upper), where=upper > 0)
    profile, working = np.zeros_like(upper), np.zeros(upper.shape, dtype=np.bool_)
    newcomers, steps = FIRST_NEWCOMERS, 0
    for _ in range(MAX_PART_ROUNDS):
        gradient = program.gradient(profile[None])[0]
        gains = np.maximum(gradient * (upper - profile), -gradient * profile)
        waiting = np.flatnonzero((gains > WAITING_GAIN * scale) & ~working)
        if not waiting.size:
            total = float(gains.sum()) / max(scale, np.finfo(float).tiny)
            return Maximum(contributions=profile[None], gains=np.array([total]), iterations=steps)
        working &= (profile > 0.0) & (profile < upper)
        urgency = np.abs(gradient[waiting]) / prices[waiting]
        working[waiting[np.argsort(-urgency, kind="stable")[:newcomers]]] = True
        lots, newcomers = np.flatnonzero(working), min(2 * newcomers, upper.size // 8)
        if lots.size > 0.5 * upper.size:
            return None
        found = maximise(program.part(lots, profile[None]))
        profile[lots], steps = found.contributions[0], steps + found.iterations
    return None


def canonical_optimum(program: WelfareProgram, found: Maximum) -> SocialOptimum:
    """From some optimum of one federation to the one of smallest norm, with the face of all of them."""
    arrays, contributions, gain = program.arrays, found.contributions[0], float(found.gains[0])
    prices = linearised_gains(program, contributions[None])[1][0] if program.shared.size else None
    gradient = program.gradient(contributions[None])[0]
    scale = float(program.scale[0])
    face = optimal_face(arrays, contributions, gradient, upper=program.upper[0], scale=scale, prices=prices)
    if not face.is_point:
        smallest = face.least_norm()
        over = arrays.shared @ smallest / np.maximum(arrays.shared_limits, np.finfo(float).tiny)
        smallest /= np.where(arrays.shared > 0, np.maximum(over, 1.0)[:, None], 1.0).max(axis=0, initial=1.0)
        left = float(linearised_gains(program, smallest[None])[0][0])
        if left <= max(10.0 * gain, FACE_GAIN):
            contributions, gain = smallest, left
        else:  # rounding drew the face too wide: the optimum found stands
            face = face.only_point()
    return SocialOptimum(
        contributions=read_only_copy(contributions),
        welfare=float(arrays.welfare(contributions)),
        face=face,
        gain=gain,
        iterations=found.iterations,
    )


def payoff_floor(arrays: FederationArrays, data: FloatArray) -> FloatArray:
    """What the data of every task has to stay above in a step from `data`, (..., tasks).

    A payoff without a floor falls exponentially: from below zero no step goes more than a few decay lengths further.
    """
    rest = np.zeros(arrays.n_tasks)
    decay = arrays.payoff.slope(rest) / arrays.payoff.curvature(rest)
    return np.where(np.isfinite(arrays.floor), arrays.floor, np.minimum(data, 0.0) + MAX_DECAY_LENGTHS * decay)


def take_lots(arrays: FederationArrays, lots: NDArray[np.intp]) -> FederationArrays:
    """The federation with some of its lots."""
    parts = {name: getattr(arrays, name)[..., lots] for name in ("weights", "linear", "quadratic", "caps", "shared")}
    return replace(arrays, **parts, lot_owners=arrays.lot_owners[lots])


def weighted_gram(weights: FloatArray, factors: FloatArray) -> FloatArray:
    """weights.T @ diag(factors) @ weights, (programs, lots, lots)."""
    root = np.sqrt(factors)[..., None] * weights
    return np.asarray(np.swapaxes(root, -1, -2) @ root)


# All optima, and the one nearest to zero

FREE_TOLERANCE = 1e-10  # of the scale: what moving a free lot through its whole range changes at most
RANK_TOLERANCE = 1e-11  # of the largest singular value: smaller ones change nobody's data
FACE_TOLERANCE = 1e-6  # of the largest contribution: a profile so close to the face is on it
AWAY = 1e-6  # of the largest contribution: a lot so far from its bounds is away from them


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalFace:
    """The welfare optima around `point`: of the `free` lots another optimum may hold more or less.

    With orthonormal `normals` (free, rank), s + d is an optimum too, while within `upper` and the shared caps, if
    normals.T @ d[free] = 0. `shared` are the rows (shared caps, free) of the shared caps that are not full, and
    `shared_limits` what the other lots leave of them.
    """

    point: FloatArray
    free: NDArray[np.intp]
    normals: FloatArray
    upper: FloatArray
    shared: FloatArray
    shared_limits: FloatArray

    @property
    def is_point(self) -> bool:
        """Whether the optimum is unique."""
        return bool(self.free.size == self.normals.shape[1])

    @cached_property
    def dimension(self) -> int:
        """The dimension of the set of optima."""
        if self.is_point:
            return 0
        inside = self._inside()
        return int(inside.sum() - np.linalg.matrix_rank(self.normals[inside], tol=1e-9)) if inside.any() else 0

    def only_point(self) -> OptimalFace:
        """The face that holds nothing but its point."""
        return replace(self, free=self.free[:0], normals=self.normals[:0, :0], shared=self.shared[:, :0])

    def holds(self, contributions: FloatArray) -> bool:
        """Whether a profile lies on the face, up to rounding."""
        moved = contributions - self.point
        size = FACE_TOLERANCE * max(float(np.abs(self.point).max(initial=0.0)), np.finfo(float).tiny)
        fixed = np.delete(moved, self.free)
        return bool((np.abs(fixed) <= size).all() and (np.abs(self.normals.T @ moved[self.free]) <= size).all())

    def least_norm(self) -> FloatArray:
        """The optimum of smallest Euclidean norm."""
        best, size = self.point.copy(), float(self.point[self.free].max(initial=0.0))
        if self.is_point or size <= 0:  # where nothing is brought, no point has a smaller norm
            return best
        upper, eye = self.upper[self.free], np.eye(self.free.size)
        found = nearest_point(
            self.normals @ (self.normals.T @ self.point[self.free]) / size,
            np.concatenate([eye, -eye, -self.shared]),
            np.concatenate([0.0 * upper, -upper / size, -self.shared_limits / size]),
            self.normals,
        )
        if found is not None:
            best[self.free] = np.clip(size * found, 0.0, upper)
        return best

    def vertex(self, direction: FloatArray) -> FloatArray:
        """An optimum that goes furthest along `direction`, given per lot."""
        furthest = self.point.copy()
        if not self.is_point:
            found = self._minimise(-direction[self.free])
            if found is not None:
                furthest[self.free] = np.clip(found, 0.0, self.upper[self.free])
        return furthest

    def _inside(self) -> NDArray[np.bool_]:
        """Which of the free lots are away from their bounds in the middle of the face.

        Each linear program goes as far as it can away from the bounds where lots still stand; in the mean of all points
        found so, every lot is away that can be.
        """
        size = max(float(self.point[self.free].max()), np.finfo(float).tiny)
        here, upper = self.point[self.free], self.upper[self.free]
        inside = (here > AWAY * size) & (here < upper - AWAY * size)
        while not inside.all():
            outward = np.where(inside, 0.0, np.where(here > AWAY * size, 1.0, -1.0))
            found = self._minimise(outward)
            away = np.zeros_like(inside) if found is None else (np.abs(found - here) > AWAY * size) & ~inside
            if not away.any():
                break
            inside |= away
        return inside

    def _minimise(self, costs: FloatArray) -> Any:
        """The free lots' amounts that minimise linear costs over the face; None where rounding leaves none."""
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the unique case

        return linprog(
            costs,
            A_ub=self.shared if self.shared.size else None,
            b_ub=self.shared_limits if self.shared.size else None,
            A_eq=self.normals.T,
            b_eq=self.normals.T @ self.point[self.free],
            bounds=np.column_stack([np.zeros(self.free.size), self.upper[self.free]]),
            method="highs",
        ).x


def optimal_face(
    arrays: FederationArrays,
    point: FloatArray,
    gradient: FloatArray,
    *,
    upper: FloatArray,
    scale: float,
    prices: FloatArray | None = None,
) -> OptimalFace:
    """The face that holds an optimum of one federation, from the gradient there and the prices of shared caps.

    Cost: one singular value decomposition of the free lots' columns.
    """
    prices = np.zeros(len(arrays.shared)) if prices is None else prices
    full = prices * arrays.shared_limits > FREE_TOLERANCE * scale
    free = np.flatnonzero(_is_free(gradient - prices @ arrays.shared, arrays.quadratic, upper, scale))
    columns = arrays.weights[:, free]
    shared = arrays.shared[~full]
    left = arrays.shared_limits[~full] - np.delete(shared, free, axis=1) @ np.delete(point, free)
    matters = np.isfinite(left)
    return OptimalFace(
        point=point,
        free=free,
        normals=_row_space(np.concatenate([columns, arrays.shared[full][:, free]]), upper[free]),
        upper=upper,
        shared=shared[matters][:, free],
        shared_limits=left[matters],
    )


def may_have_several(
    arrays: FederationArrays, gradients: FloatArray, upper: FloatArray, scale: FloatArray
) -> NDArray[np.bool_]:
    """Which of many federations may have more than one optimum: those whose free lots' columns are not independent.

    With shared caps all are looked into.
    """
    if arrays.shared.size:
        return np.ones(len(scale), dtype=np.bool_)
    free = _is_free(gradients, arrays.quadratic, upper, scale[:, None])
    several = np.zeros(len(scale), dtype=np.bool_)
    candidates = np.flatnonzero(free.sum(axis=-1) > 1)
    weights = np.broadcast_to(arrays.weights, (len(scale), *arrays.weights.shape[-2:]))[candidates]
    columns = np.where(free[candidates, None, :], weights * upper[candidates, None, :], 0.0)
    norms = np.linalg.norm(columns, axis=-1, keepdims=True)
    singular = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    rank = (singular > RANK_TOLERANCE * singular[:, :1]).sum(axis=-1)
    several[candidates] = rank < free[candidates].sum(axis=-1)
    return several


def _is_free(
    gradient: FloatArray, quadratic: FloatArray, upper: FloatArray, scale: FloatArray | float
) -> NDArray[np.bool_]:
    return np.asarray((np.abs(gradient) * upper <= FREE_TOLERANCE * scale) & (quadratic == 0) & (upper > 0))


def _row_space(rows: FloatArray, size: FloatArray) -> FloatArray:
    """An orthonormal basis (free, rank) of the directions that change somebody's data."""
    if rows.shape[1] == 0:
        return np.zeros((0, 0))
    scaled = rows * (size / size.max())
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    triangle = np.linalg.qr(scaled[norms[:, 0] > 0] / norms[norms[:, 0] > 0], mode="r")
    singular = np.linalg.svd(triangle, compute_uv=False)
    rank = int((singular > RANK_TOLERANCE * singular[:1]).sum())
    if rank == rows.shape[1]:
        return np.eye(rank)
    basis = np.linalg.svd(triangle, full_matrices=False)[2]
    return np.linalg.qr((basis[:rank] * (size.min() / size)).T)[0]


MOVABLE = 1e-5  # of a row: what is left of it along the plane, where x can be moved to meet it
VIOLATION_TOLERANCE = 1e-12
NO_POINT = 1e-10  # -r_0 is 1 / (1 + |y|^2): below this no point is near


def nearest_point(
    target: FloatArray, rows: FloatArray, limits: FloatArray, normals: FloatArray, *, tolerance: float = 0.0
) -> FloatArray | None:
    """The x nearest to the target with rows @ x >= limits and normals.T @ (x - target) = 0; None where there is none.

    `normals` are orthonormal columns; numbers should be of the size of one. What a limit is missed by counts up to the
    `tolerance`.
    """
    along = rows - (rows @ normals) @ normals.T
    movable = np.linalg.norm(along, axis=1) > MOVABLE * np.linalg.norm(rows, axis=1)
    along, missing = along[movable], (limits - rows @ target)[movable] - tolerance
    if (missing <= VIOLATION_TOLERANCE).all():
        return target
    from scipy.optimize import nnls  # noqa: PLC0415 - heavy, and only where something binds

    system, right = np.concatenate([along.T, missing[None]]), np.append(np.zeros(target.size), 1.0)
    multipliers = nnls(system, right, maxiter=100 * missing.size)[0]
    if 1.0 - missing @ multipliers < NO_POINT:
        return None
    binding = multipliers > 0
    moved = np.linalg.lstsq(along[binding], missing[binding], rcond=1e-12)[0]
    return target + moved if (missing - along @ moved).max() <= VIOLATION_TOLERANCE else None
