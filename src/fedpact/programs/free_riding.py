"""The free-riding equilibrium: every agent maximises a_i(s) - c_i(s_i) over its own contribution, without payments.

Agent i wants y_i = t_i(s_i), where values_i w_ii g_i'(t) = c_i'(s_i). So an equilibrium solves

    W s - t(s) = 0 where 0 < s_i < cap_i,     >= 0 where s_i = 0,     <= 0 where s_i = cap_i,

a linear complementarity problem when costs are linear. It may have several solutions. To single one out without favour,
k s is added to the left side: for large k the solution is unique, and it is followed as k falls to zero. Renaming the
agents permutes the whole path, and where the solutions form a convex set it ends at the one of smallest norm.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.free_riding_lots import damped_answers, outside_domain
from fedpact.programs.lemke import box_lemke
from fedpact.programs.no_equilibrium import MAX_NAMES, decide_equilibrium, explain
from fedpact.utils.arrays import FloatArray, like_sized
from fedpact.utils.errors import NoEquilibrium, NotConverged

# The path k_0, k_0 / 2, ... is followed until k is this share of the smallest row of weights, then to zero.
LAST_STIFFNESS = 1e-12
MAX_FREE_RIDING_STEPS = 150
MAX_DESCENTS, MAX_HALVINGS = 60, 30
NEARLY_SOLVED = 1e-3  # of equations with numbers about one
START_FACTORS = (1.0, 10.0, 0.1, 0.01)
SMALLEST_CONTRIBUTION = 1e-200  # of those whose first sample costs nothing
MAX_ROOM = 1e8  # below a cap, in units of contributions: beyond, a cap is as good as none
MAX_LINEARISATIONS = 60
NEWTON_AFTER = 10  # linearisations, whether Newton steps get there from here is tried
MAX_REFINEMENTS = 2
MAX_MULTIPLE = 1e8  # of the largest want, weights being of like size: beyond, answers are taken to grow without end
DATA_TOLERANCE = 1e-11  # of the data that goes into an agent's reach
NEAR_BOUND = 1e-9  # of the cap, or of what an agent contributes alone


def free_riding_equilibrium(federation: Federation) -> FloatArray:
    """One equilibrium; `NoEquilibrium`, with the proof, where there is none, `NotConverged` where that is not known.

    The path is followed first, then Lemke's method tried, and where neither ends at an admissible equilibrium all cases
    are gone through (`fedpact.programs.no_equilibrium`).

    Stopping inequality: W s - t(s) has the right sign, or is within 1e-11 of the data sum_j |w_ij| s_j + |t_i|; where
    marginal costs rise, of that and g'(t_i) / |g''(t_i)|.
    """
    if federation.has_lots:
        return damped_answers(federation)
    able = np.flatnonzero(federation.caps > 0)
    contributions = np.zeros(federation.n_agents)
    if not able.size:
        return contributions
    problem = FreeRidingProblem(federation.take(able))
    try:
        contributions[able] = _equilibrium(problem)
        if federation.admits(contributions):
            return contributions
        failure = outside_domain(federation, contributions)
    except NotConverged as error:
        failure = error

    def polish(near: FloatArray) -> FloatArray | None:
        exact = np.zeros(federation.n_agents)
        with suppress(NotConverged):
            for attempt in (problem.at_bounds_of(near[able]), problem.solve(near[able], 0.0)):
                exact[able] = attempt
                if problem.is_solved(attempt) and not problem.grows(attempt).any() and federation.admits(exact):
                    return exact
        return None

    decided = decide_equilibrium(federation, polish)
    if isinstance(decided, dict):
        raise NoEquilibrium(explain(federation, decided), proof=decided, result=failure.result) from failure
    if decided is None:
        raise failure
    return decided


def _equilibrium(problem: FreeRidingProblem) -> FloatArray:
    federation = problem.federation
    followed = _follow_path(problem)
    if followed is not None and federation.admits(followed):
        return followed
    pivoted = _by_lemke(problem)
    if not problem.is_solved(pivoted):
        pivoted = _by_descent(problem, (pivoted, *_starts(problem)))
    solved, growing = problem.is_solved(pivoted), problem.grows(pivoted)
    if solved and not growing.any() and (followed is None or federation.admits(pivoted)):
        return pivoted
    if followed is not None:
        return followed
    if not solved:
        raise NotConverged(
            "no free-riding equilibrium was reached: double precision cannot follow the members' answers to each "
            f"other's contributions over weights from {np.abs(problem.weights[problem.weights != 0]).min():.3g} to "
            f"{np.abs(problem.weights).max():.3g}",
            result=pivoted,
        )
    names = ", ".join(f'"{federation.names[agent]}"' for agent in np.flatnonzero(growing)[:MAX_NAMES])
    raise NotConverged(
        "no free-riding equilibrium was reached: the members' answers to each other's contributions grow without end, "
        f"{names} first; each makes up for the harm of the others, without a cap; give caps to those who harm",
        result=pivoted,
    )


def _follow_path(problem: FreeRidingProblem) -> FloatArray | None:
    """The end of the path on which k falls to zero; None where it turns back before."""
    rows = np.abs(problem.weights).sum(axis=1)
    contributions, stiffness = problem.alone, float(rows.max())
    while stiffness > LAST_STIFFNESS * rows.min():
        before, contributions = contributions, problem.solve(contributions, stiffness)
        if not problem.is_solved(contributions, stiffness):
            contributions = _by_descent(problem, (before,), stiffness)
            if not problem.is_solved(contributions, stiffness):
                return None
        stiffness /= 2.0
    contributions = _by_descent(problem, (problem.solve(contributions, 0.0), contributions))
    return contributions if problem.is_solved(contributions) and not problem.grows(contributions).any() else None


class FreeRidingProblem:
    """The complementarity problem of a federation whose agents have one lot each, and something to give."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.weights = federation.dense_weights()
        self.own = federation.own_weights
        self.costly = federation.costs.linear > 0
        # Where the first sample costs nothing, zero is never an answer; but what is wanted may be next to nothing.
        self.least = np.where(self.costly, 0.0, SMALLEST_CONTRIBUTION)
        self.alone, _ = standalone_optimum(federation)
        self._always_wanted: tuple[FloatArray, FloatArray] | None = None
        rows, sizes = like_sized(self.weights)
        wanted, _ = self.wanted(self.alone)
        bend = -federation.payoff.slope(0.0 * wanted) / federation.payoff.curvature(0.0 * wanted)
        largest = float((rows * (np.abs(wanted) + bend)).max())
        self.caps = np.minimum(federation.caps, MAX_MULTIPLE * sizes * largest)
        # With linear costs what is wanted does not depend on what is contributed.
        self.is_linear = bool(self.costly.all() and not np.any(federation.costs.quadratic))
        self._always_wanted = self.wanted(self.alone) if self.is_linear else None

    def wanted(self, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t_i(s_i) and its derivative, which is not positive."""
        if self._always_wanted is not None:
            return self._always_wanted
        federation, contributions = self.federation, np.maximum(contributions, self.least)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # looked at below
            marginal = federation.costs.slope(contributions) / (federation.values * self.own)
            wanted = federation.payoff.inverse_slope(marginal)
            bend = federation.costs.curvature(contributions) / (federation.values * self.own)
            falls = np.zeros_like(bend)  # with linear costs, however flat the payoff is there
            np.divide(bend, federation.payoff.curvature(wanted), out=falls, where=bend > 0)
        beyond = ~(np.isfinite(wanted) & np.isfinite(falls))
        if beyond.any():
            agent = int(np.flatnonzero(beyond)[0])
            raise NotConverged(
                f"no free-riding equilibrium was reached: the value {federation.values[agent]:g} that "
                f'"{federation.names[agent]}" puts on payoff is too far from its costs for double precision',
                result=contributions,
            )
        return wanted, falls

    def solve(self, contributions: FloatArray, stiffness: float) -> FloatArray:
        """Newton steps on the pieces: guess who is at a bound, solve for the others, guess again.

        With linear costs a guess that comes back brings all after it back: where the steps end is known then.
        """
        seen: dict[bytes, int] = {}
        visited: list[FloatArray] = []
        for number in range(MAX_FREE_RIDING_STEPS):
            wanted, falls = self.wanted(contributions)
            excess = self.weights @ contributions + stiffness * contributions - wanted
            aim = contributions - excess / (self.own + stiffness - falls)
            # Where zero is never an answer the step is only shortened.
            low, high = (aim <= 0.0) & self.costly, aim >= self.caps
            new = self.at_bounds(contributions, low, high, stiffness, (wanted, falls))
            key = low.tobytes() + high.tobytes()
            still = bool((np.abs(new - contributions) <= 1e-13 * np.maximum(new, contributions)).all())
            contributions = new
            if still and key in seen:
                break
            if self.is_linear and key in seen:
                first = seen[key]
                contributions = visited[first + (MAX_FREE_RIDING_STEPS - 1 - first) % (number - first)]
                break
            seen.setdefault(key, number)
            visited.append(new)
        return np.clip(contributions, 0.0, self.caps)

    def at_bounds(
        self,
        contributions: FloatArray,
        low: NDArray[np.bool_],
        high: NDArray[np.bool_],
        stiffness: float = 0.0,
        wants: tuple[FloatArray, FloatArray] | None = None,
    ) -> FloatArray:
        """A Newton step from `contributions` with these agents at zero and at their caps; never below zero."""
        wanted, falls = wants or self.wanted(contributions)
        new = np.where(low, 0.0, np.where(high, self.caps, contributions))
        free = ~(low | high)
        jacobian = self.weights + np.diag(stiffness - falls)
        target = wanted - falls * contributions - jacobian[:, high] @ self.caps[high]
        if free.any():
            block = jacobian[np.ix_(free, free)]
            new[free] = _solution(block, target[free]) if stiffness else _least_norm_solution(block, target[free])
        return np.maximum(new, np.where(self.costly, 0.0, np.maximum(contributions / 8.0, self.least)))

    def at_bounds_of(self, near: FloatArray) -> FloatArray:
        """The exact contributions if those who are at their bounds nearby are, and nobody else."""
        low, high = near <= NEAR_BOUND * self.alone, near >= (1.0 - NEAR_BOUND) * self.caps
        return np.clip(self.at_bounds(near, low & self.costly, high), 0.0, self.caps)

    def is_solved(self, contributions: FloatArray, stiffness: float = 0.0) -> bool:
        """Whether every agent has the data it wants, or is at the bound that keeps it from having it."""
        wanted, _ = self.wanted(contributions)
        excess = self.weights @ contributions + stiffness * contributions - wanted
        allowed = np.abs(self.weights) @ contributions + stiffness * contributions + np.abs(wanted)
        # Marginal costs are rounded, and what is wanted at them with them; at the floor no payoff is left to bend.
        if not self.is_linear:
            payoff, width = self.federation.payoff, np.zeros_like(wanted)
            bent = (self.federation.costs.quadratic > 0) & (wanted > payoff.floor)
            at = np.where(bent, wanted, 0.0)
            curvature = payoff.curvature(at)
            with np.errstate(over="ignore"):
                np.divide(payoff.slope(at), curvature, out=width, where=bent & (curvature < 0) & np.isfinite(curvature))
            allowed -= width
        short, spare = excess < -DATA_TOLERANCE * allowed, excess > DATA_TOLERANCE * allowed
        return not ((short & (contributions < self.caps)) | (spare & (contributions > self.least))).any()

    def equations(
        self, contributions: FloatArray, matrix: FloatArray, rows: FloatArray, sizes: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
        """What is zero at an equilibrium with these weights, and what is wanted there; numbers of like size."""
        wants = self.wanted(contributions)
        excess = rows * (matrix @ contributions - wants[0])
        above = _fischer(np.minimum(self.caps - contributions, MAX_ROOM * sizes) / sizes, -excess)
        return _fischer(contributions / sizes, -above), wants

    def equation_slopes(
        self,
        contributions: FloatArray,
        matrix: FloatArray,
        rows: FloatArray,
        sizes: FloatArray,
        wants: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Their derivatives."""
        wanted, falls = wants
        below = np.minimum(self.caps - contributions, MAX_ROOM * sizes) / sizes
        excess = rows * (matrix @ contributions - wanted)
        above = _fischer(below, -excess)
        by_room, by_excess = _fischer_slopes(below, -excess)
        by_own, by_above = _fischer_slopes(contributions / sizes, -above)
        jacobian = rows[:, None] * (matrix - np.diag(falls)) * sizes
        return np.diag(by_own + by_above * by_room) + (by_above * by_excess)[:, None] * jacobian

    def grows(self, contributions: FloatArray) -> NDArray[np.bool_]:
        """Which agents contribute without end: as much as they are let, though nothing caps them."""
        return (contributions >= self.caps) & (self.federation.caps > self.caps)


def _fischer(a: FloatArray, b: FloatArray) -> FloatArray:
    """a + b - sqrt(a^2 + b^2), without the digits that cancel."""
    root = np.hypot(a, b)
    total = a + b
    return np.where(total > 0, 2.0 * a * b / np.where(total > 0, total + root, 1.0), total - root)


def _fischer_slopes(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    root = np.maximum(np.hypot(a, b), np.finfo(float).tiny)
    return 1.0 - a / root, 1.0 - b / root


def _solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return _least_norm_solution(matrix, right)


def _least_norm_solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """The solution of smallest norm; where it is the only one, each of its numbers to the last digits."""
    rows, columns = like_sized(matrix)
    level = rows[:, None] * matrix * columns
    solution, _, rank, _ = np.linalg.lstsq(level, rows * right, rcond=1e-13)
    if rank < right.size:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-13)[0])
    for _ in range(MAX_REFINEMENTS):
        solution = solution + np.linalg.solve(level, rows * (right - matrix @ (columns * solution)))
    return np.asarray(columns * solution)


def _by_lemke(problem: FreeRidingProblem) -> FloatArray:
    """Linear complementarity problems one after the other: what agents want, linearised where the last one ended.

    W s - t + u >= 0 complementary to s, caps - s >= 0 complementary to u, in units of what each wants for itself.
    """
    contributions = problem.alone
    for attempt in range(MAX_LINEARISATIONS):
        wanted, falls = problem.wanted(contributions)
        jacobian = problem.weights - np.diag(falls)
        rows, sizes = like_sized(jacobian)
        constants = rows * (falls * contributions - wanted)
        unit = max(float(np.abs(constants).max()), np.finfo(float).tiny)
        states = box_lemke(rows[:, None] * jacobian * sizes, constants / unit, problem.caps / (unit * sizes))
        if states is None:
            break
        low, high = states
        ahead = np.minimum(problem.at_bounds(contributions, low & problem.costly, high), problem.caps)
        ahead = problem.solve(ahead, 0.0) if falls.any() and attempt % NEWTON_AFTER == 0 else ahead
        if problem.is_solved(ahead) or not falls.any():
            return ahead
        # Answers that go to and fro meet in between.
        contributions = ahead if attempt < NEWTON_AFTER else contributions + 0.3 * (ahead - contributions)
    return contributions


def _starts(problem: FreeRidingProblem) -> list[FloatArray]:
    """Where an equilibrium may be near: what agents contribute alone, less by as much as they get from others."""
    sizes = np.abs(problem.weights)
    shares = (np.ones(problem.own.size), problem.own / sizes.sum(axis=1), problem.own / sizes.sum(axis=0))
    return [factor * share * problem.alone for share in (*shares, shares[1] * shares[2]) for factor in START_FACTORS]


def _by_descent(problem: FreeRidingProblem, starts: tuple[FloatArray, ...], stiffness: float = 0.0) -> FloatArray:
    """Where costs bend, linear problems may answer each other in circles: Newton steps that must bring all closer.

    With a + b - sqrt(a^2 + b^2), which is zero where a and b are not negative and one of them is zero, the conditions
    become equations (Fischer and Burmeister), and the sum of their squares has to fall. The first start that leads to
    an equilibrium counts; the first of all if none does.
    """
    for start in starts:
        if problem.is_solved(start, stiffness):
            return start
        with suppress(NotConverged):
            near, error = _descend(problem, start, stiffness)
            found = problem.solve(near, stiffness) if error <= NEARLY_SOLVED else near
            if problem.is_solved(found, stiffness):
                return found
    return starts[0]


def _descend(problem: FreeRidingProblem, s: FloatArray, stiffness: float) -> tuple[FloatArray, float]:
    """Where the steps end, and what is left of the equations there."""
    matrix = problem.weights + stiffness * np.eye(s.size)
    rows, sizes = like_sized(matrix)
    s = np.maximum(s, problem.least)
    values, wants = problem.equations(s, matrix, rows, sizes)
    for _ in range(MAX_DESCENTS):
        if not np.isfinite(values).all() or np.abs(values).max() <= np.finfo(float).eps:
            break
        slopes = problem.equation_slopes(s, matrix, rows, sizes, wants)
        step = -_solution(slopes, values)
        if not (np.isfinite(step).all() and (values @ (slopes @ step)) < 0):
            step = -slopes.T @ values / max(float(np.square(slopes).sum()), np.finfo(float).tiny)
        for halving in range(MAX_HALVINGS):
            moved = np.clip(s + 0.5**halving * step * sizes, 0.0, problem.caps)
            ahead = np.where(problem.costly, moved, np.maximum(moved, np.maximum(s / 8.0, problem.least)))
            ahead_values, ahead_wants = problem.equations(ahead, matrix, rows, sizes)
            if values @ values - ahead_values @ ahead_values >= 1e-4 * 0.5**halving * (values @ values):
                s, values, wants = ahead, ahead_values, ahead_wants
                break
        else:
            break
    return s, float(np.abs(values).max())
