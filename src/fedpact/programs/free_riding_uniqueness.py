"""Whether a free-riding equilibrium is the only one (`fedpact.programs.free_riding`), and what lies around it.

With linear costs every equilibrium is at zero, at the cap or in between for each agent; where few agents leave few such
choices, all of them are tried side by side.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.programs.free_riding import FreeRidingProblem
from fedpact.utils.arrays import FloatArray

MAX_MINOR_AGENTS = 12
MAX_SUPPORT_AGENTS = 6


def equilibrium_dimension(federation: Federation, contributions: FloatArray) -> int:
    """Of the set of equilibria around one of them: how many ways the agents inside their bounds can trade.

    Not worked out for agents with several lots.
    """
    if federation.has_lots:
        return 0
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
    if federation.has_lots:
        return None
    weights = federation.dense_weights()
    if np.linalg.eigvalsh(weights + weights.T).min() > 1e-12 * np.abs(weights).max():
        return True
    n_agents = federation.n_agents
    if n_agents <= MAX_MINOR_AGENTS and _all_minors_positive(weights):
        return True
    if n_agents <= MAX_SUPPORT_AGENTS and not federation.costs.quadratic.any():
        return not _another_solution(federation, contributions)
    return None


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
    problem = FreeRidingProblem(federation)
    wanted, _ = problem.wanted(contributions)
    states = [(0, 1, 2) if np.isfinite(cap) else (0, 1) for cap in federation.caps]
    candidates = _at_choices(problem.weights, wanted, federation.caps, np.array(list(product(*states))))
    size = max(float(contributions.max()), float(np.abs(wanted / problem.own).max()))
    elsewhere = np.abs(candidates - contributions).max(axis=1) > 1e-6 * size
    return any(problem.is_solved(candidate) for candidate in candidates[elsewhere])


def _at_choices(weights: FloatArray, wanted: FloatArray, caps: FloatArray, choices: NDArray[np.int_]) -> FloatArray:
    """The contributions within bounds with agents at zero (0), at the cap (2) and in between (1), for every choice.

    Choices with a whole set of solutions are left out: its other members stand in other choices.
    """
    free, full = choices == 1, choices == 2
    held = np.where(full, np.where(np.isfinite(caps), caps, 0.0), 0.0)
    right = np.where(free, wanted - held @ weights.T, 0.0)
    pairs = free[:, :, None] & free[:, None, :]
    blocks = np.where(pairs, weights, 0.0)
    largest = np.abs(blocks).max(axis=(1, 2))
    # Those at a bound have a row and column of their own, of a size that leaves the rank of the others as it is.
    units = np.where(free, 0.0, np.where(largest > 0, largest, 1.0)[:, None])
    left, singular, across = np.linalg.svd(blocks + units[:, :, None] * np.eye(caps.size))
    sound = singular[:, -1] > 1e-12 * singular[:, 0]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of what is not sound, or beyond all numbers
        turned = np.einsum("cji,cj->ci", left, right) / singular
        candidates = np.where(free, np.einsum("cji,cj->ci", across, turned), held)
    return candidates[sound & (np.isfinite(candidates) & (candidates >= 0) & (candidates <= caps)).all(axis=1)]
