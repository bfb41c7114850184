"""The free-riding equilibrium: every agent maximises a_i(s) - c_i(s_i) over its own contribution, without payments.

Agent i wants y_i = t_i(s_i), where values_i w_ii g_i'(t) = c_i'(s_i). So an equilibrium solves

    W s - t(s) = 0 where 0 < s_i < cap_i,     >= 0 where s_i = 0,     <= 0 where s_i = cap_i,

a linear complementarity problem when costs are linear. It may have several solutions. To single one out without favour,
k s is added to the left side: for large k the solution is unique, and it is followed as k falls to zero. Renaming the
agents permutes the whole path, and where the solutions form a convex set it ends at the one of smallest norm.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.programs.best_response import best_own, standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

# The path k_0, k_0 / 2, ... is followed down to this share of k_0, then to zero.
LAST_STIFFNESS = 1e-12
MAX_NEWTON_STEPS = 60
MAX_CONTRIBUTION = 1e100  # beyond this the agents' answers are taken to grow without end
MAX_SWEEPS = 5000
RESPONSE_TOLERANCE = 1e-11
MAX_MINOR_AGENTS = 12
MAX_SUPPORT_AGENTS = 6
MAX_PIVOTS_PER_VARIABLE = 50
MIN_PIVOT = 1e-11


def free_riding_equilibrium(federation: Federation) -> FloatArray:
    """One equilibrium; raises `NotConverged` if neither the path, nor Lemke's method, nor best responses reach one.

    Stopping inequality: each contribution is within 1e-11 of the best response, relative to the largest.
    """
    able = np.flatnonzero(federation.caps > 0)
    contributions = np.zeros(federation.n_agents)
    if able.size:
        contributions[able] = _equilibrium(federation.take(able))
    return contributions


def _equilibrium(federation: Federation) -> FloatArray:
    problem = _Complementarity(federation)
    stiffness = float(np.abs(problem.weights).sum(axis=1).max())
    contributions, _ = standalone_optimum(federation)
    share = 1.0
    while share > LAST_STIFFNESS:
        contributions = problem.solve(contributions, share * stiffness)
        share /= 2.0
    contributions = problem.solve(contributions, 0.0)
    if problem.residual(contributions) > RESPONSE_TOLERANCE and not federation.costs.quadratic.any():
        contributions = _by_lemke(problem, contributions)
    if problem.residual(contributions) > RESPONSE_TOLERANCE:
        contributions = _best_responses(problem, contributions)
    if problem.residual(contributions) > RESPONSE_TOLERANCE:
        raise NotConverged(
            "no free-riding equilibrium was reached: the agents' answers to each other's contributions cycle or grow "
            "without end",
            result=contributions,
        )
    return contributions


def equilibrium_dimension(federation: Federation, contributions: FloatArray) -> int:
    """Of the set of equilibria around one of them: how many ways the agents inside their bounds can trade."""
    inside = (contributions > 0) & (contributions < federation.caps) & (federation.costs.quadratic == 0)
    chosen = np.flatnonzero(inside)
    block = federation.dense_weights()[np.ix_(chosen, chosen)]
    scaled = block / np.sqrt(np.outer(block.diagonal(), block.diagonal()))
    return int(chosen.size - np.linalg.matrix_rank(scaled, tol=1e-10)) if chosen.size else 0


def is_unique(federation: Federation, contributions: FloatArray) -> bool | None:
    """Whether the equilibrium is the only one: True, False, or None where this is not known.

    Unique if every principal minor of W is positive (a P-matrix), in particular if its symmetric part is positive
    definite. Otherwise, with few agents and linear costs, every combination of agents at a bound is tried.
    """
    weights = federation.dense_weights()
    if np.linalg.eigvalsh(weights + weights.T).min() > 1e-12 * np.abs(weights).max():
        return True
    n_agents = federation.n_agents
    if n_agents <= MAX_MINOR_AGENTS and _all_minors_positive(weights):
        return True
    if n_agents <= MAX_SUPPORT_AGENTS and not federation.costs.quadratic.any():
        return not _another_solution(federation, contributions)
    return None


class _Complementarity:
    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.weights = federation.dense_weights()
        self.own = federation.own_weights
        self.costly = federation.costs.linear > 0

    def wanted(self, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t_i(s_i) and its derivative, which is not positive."""
        federation = self.federation
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
        """Newton steps on the pieces: guess who is at a bound, solve for the others, guess again."""
        cap = self.federation.caps
        seen: set[bytes] = set()
        for _ in range(MAX_NEWTON_STEPS):
            wanted, falls = self.wanted(contributions)
            excess = self.weights @ contributions + stiffness * contributions - wanted
            aim = contributions - excess / (self.own + stiffness - falls)
            # Where the first sample costs nothing, zero is never an answer: the step is only shortened.
            low, high = (aim <= 0.0) & self.costly, aim >= cap
            new = np.where(low, 0.0, np.where(high, cap, contributions))
            free = ~(low | high)
            jacobian = self.weights + np.diag(stiffness - falls)
            target = wanted - falls * contributions - jacobian[:, high] @ cap[high]
            if free.any():
                new[free] = np.linalg.lstsq(jacobian[np.ix_(free, free)], target[free], rcond=1e-13)[0]
            key = low.tobytes() + high.tobytes()
            moved = np.abs(new - contributions).max()
            contributions = np.where(self.costly, np.maximum(new, 0.0), np.maximum(new, contributions / 8.0))
            still = moved <= 1e-13 * max(float(contributions.max()), 1e-300)
            if (key in seen and still) or len(seen) > MAX_NEWTON_STEPS:
                break
            seen.add(key)
        return np.clip(contributions, 0.0, cap)

    def responses(self, contributions: FloatArray) -> FloatArray:
        others = self.weights @ contributions - self.own * contributions
        return best_own(self.federation, others)

    def residual(self, contributions: FloatArray) -> float:
        if contributions.max() > MAX_CONTRIBUTION:
            return np.inf
        response = self.responses(contributions)
        size = max(float(np.abs(contributions).max()), float(np.abs(response).max()), np.finfo(float).tiny)
        return float(np.abs(response - contributions).max() / size) if np.isfinite(size) else np.inf


def _by_lemke(problem: _Complementarity, fallback: FloatArray) -> FloatArray:
    """With linear costs: W s - t + u >= 0 complementary to s, caps - s >= 0 complementary to u, in scaled units."""
    wanted, _ = problem.wanted(fallback)
    caps = problem.federation.caps
    size = np.maximum(wanted, np.finfo(float).tiny) / problem.own  # what each would contribute for itself
    unit = float(size.max())
    limited = np.flatnonzero(np.isfinite(caps))
    weights = problem.weights / problem.own[:, None]
    n_agents = wanted.size
    block = np.zeros((n_agents + limited.size,) * 2)
    block[:n_agents, :n_agents] = weights
    block[limited, n_agents + np.arange(limited.size)] = 1.0
    block[n_agents + np.arange(limited.size), limited] = -1.0
    solved = _lemke(block, np.concatenate([-wanted / problem.own / unit, caps[limited] / unit]))
    if solved is None:
        return fallback
    return problem.solve(np.clip(solved[:n_agents] * unit, 0.0, caps), 0.0)


def _best_responses(problem: _Complementarity, contributions: FloatArray) -> FloatArray:
    """Agents answer in turn until nobody moves."""
    contributions = contributions.copy()
    for _ in range(MAX_SWEEPS):
        before = contributions.copy()
        for agent in range(contributions.size):
            contributions[agent] = problem.responses(contributions)[agent]
        size = max(float(contributions.max()), np.finfo(float).tiny)
        if size > MAX_CONTRIBUTION or np.abs(contributions - before).max() <= 1e-14 * size:
            break
    return contributions


def _all_minors_positive(weights: FloatArray) -> bool:
    n_agents = weights.shape[0]
    scaled = weights / np.sqrt(np.outer(weights.diagonal(), weights.diagonal()))
    return all(
        np.linalg.det(scaled[np.ix_(chosen, chosen)]) > 1e-12
        for size in range(2, n_agents + 1)
        for chosen in combinations(range(n_agents), size)
    )


def _another_solution(federation: Federation, contributions: FloatArray) -> bool:
    """Whether some choice of agents at zero, at the cap and in between gives a different equilibrium."""
    problem = _Complementarity(federation)
    wanted, _ = problem.wanted(contributions)
    states = [(0, 1, 2) if np.isfinite(cap) else (0, 1) for cap in federation.caps]
    size = max(float(contributions.max()), float(np.abs(wanted / problem.own).max()))
    for choice in product(*states):
        candidate = _at_choice(problem.weights, wanted, federation.caps, np.array(choice))
        if candidate is None or problem.residual(candidate) > 1e-9:
            continue
        if np.abs(candidate - contributions).max() > 1e-6 * size:
            return True
    return False


def _at_choice(
    weights: FloatArray, wanted: FloatArray, caps: FloatArray, choice: NDArray[np.int_]
) -> FloatArray | None:
    free, full = choice == 1, choice == 2
    candidate = np.where(full, caps, 0.0)
    if free.any():
        right = wanted[free] - weights[np.ix_(free, full)] @ caps[full]
        solved, _, rank, _ = np.linalg.lstsq(weights[np.ix_(free, free)], right, rcond=1e-12)
        if rank < free.sum():  # a whole set of solutions: its other members stand in other choices
            return None
        candidate[free] = solved
    return candidate if (candidate >= 0).all() and (candidate <= caps).all() else None


def _lemke(matrix: FloatArray, constants: FloatArray) -> FloatArray | None:
    """A solution z >= 0 with w = M z + q >= 0 and z.w = 0, or None if the path ends in a ray or takes too long.

    The path of almost complementary solutions; for copositive M such as non-negative matrices with a positive diagonal
    it ends at a solution (Cottle, Pang and Stone, The Linear Complementarity Problem, section 4.4). Ties are broken
    lexicographically, so it does not cycle. Cost: a few n pivots of n^2 each. SciPy has no such solver.
    """
    size = constants.size
    if (constants >= 0).all():
        return np.zeros(size)
    # Columns: w (the identity), z, the artificial variable, the constants.
    tableau = np.hstack([np.eye(size), -matrix, -np.ones((size, 1)), constants[:, None]])
    artificial = 2 * size
    basis = np.arange(size)
    row = int(np.argmin(constants))
    entering = artificial
    for _ in range(MAX_PIVOTS_PER_VARIABLE * size):
        leaving = int(basis[row])
        _pivot(tableau, row, entering)
        basis[row] = entering
        if leaving == artificial:
            solution = np.zeros(2 * size + 1)
            solution[basis] = tableau[:, -1]
            return np.maximum(solution[size : 2 * size], 0.0)
        entering = leaving + size if leaving < size else leaving - size
        column = tableau[:, entering]
        rows = np.flatnonzero(column > MIN_PIVOT * max(1.0, float(np.abs(column).max())))
        if rows.size == 0:
            return None
        row = _first_to_vanish(tableau, rows, column, basis, artificial)
    return None


def _pivot(tableau: FloatArray, row: int, column: int) -> None:
    tableau[row] /= tableau[row, column]
    factors = tableau[:, column].copy()
    factors[row] = 0.0
    tableau -= np.outer(factors, tableau[row])


def _first_to_vanish(tableau: FloatArray, rows: np.ndarray, column: FloatArray, basis: np.ndarray, last: int) -> int:
    """The row of the smallest ratio; among equals the artificial variable's, else the lexicographically smallest."""
    ratios = tableau[rows, -1] / column[rows]
    tied = rows[ratios <= ratios.min() + 1e-12 * max(1.0, abs(float(ratios.min())))]
    if tied.size > 1:
        if (basis[tied] == last).any():
            return int(tied[basis[tied] == last][0])
        keys = tableau[tied, : basis.size] / column[tied][:, None]
        return int(tied[np.lexsort(keys.T[::-1])[0]])
    return int(tied[0])
