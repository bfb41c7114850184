"""What the data cannot tell apart: weak directions of the information matrix, in words.

Each agent's slots and the shared curve have an information matrix from the data alone, what the other agents' slots
take up eliminated. Directions along which it leaves a standard error above `WEAK_ERROR` (in logarithms, own weights, or
`END_UNIT` for floors and ceilings) are left to the prior; the parameters that make up such a direction are named
together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedpact.fitting.gauss_newton import solve_scaled
from fedpact.fitting.parameters import CURVE_PARTS
from fedpact.fitting.posterior import Posterior
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import join_names

WEAK_ERROR = 0.5
END_UNIT = 0.2  # a change of the floor or the ceiling that counts as much as a factor e of beta
MIN_SHARE = 0.3  # share of the largest part of a direction from which a parameter belongs to it
MAX_NAMED_TOGETHER = 4


def indistinguishable(posterior: Posterior, names: Sequence[str]) -> tuple[str, ...]:
    """Groups of parameters, each named in a line; alone if the data says nothing of it."""
    found: dict[str, None] = {}
    for agent in range(len(names)):
        matrix, labels = _information(posterior, names, agent)
        strengths, directions = np.linalg.eigh(matrix)
        for direction in directions.T[strengths < WEAK_ERROR**-2.0]:
            sizes = np.abs(direction)
            members = np.flatnonzero(sizes >= MIN_SHARE * sizes.max())
            found[join_names([labels[member] for member in members], most=MAX_NAMED_TOGETHER)] = None
    return tuple(found)


def _information(posterior: Posterior, names: Sequence[str], agent: int) -> tuple[FloatArray, list[str]]:
    """The information on one agent's slots and the shared curve, in comparable units, and what the slots are called."""
    gathered, rules = posterior.gathered, posterior.rules
    local, shared = rules.free_local[agent], rules.free_shared
    others = np.arange(len(names)) != agent
    system = gathered.with_prior(*rules.precisions()).restricted(rules.free_local, rules.free_shared)
    border = system.border[others]
    taken = np.einsum("aps,apt->st", border, solve_scaled(system.blocks[others], border))
    corner = gathered.corner - taken
    matrix = np.block([[gathered.blocks[agent], gathered.border[agent]], [gathered.border[agent].T, corner]])
    units = np.concatenate([np.ones(1 + len(names)), np.tile([1.0, END_UNIT, END_UNIT], 2)])
    free = np.concatenate([local, shared])
    matrix = matrix * np.outer(units, units)
    name = names[agent]
    labels = [
        f"own weight of {name}",
        *(f"weight of {giver}'s data to {name}" for giver in names),
        *(f"{part} of {name}" for part in CURVE_PARTS),
        *CURVE_PARTS,
    ]
    return matrix[np.ix_(free, free)], [label for label, kept in zip(labels, free, strict=True) if kept]
