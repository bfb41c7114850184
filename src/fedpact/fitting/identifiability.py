"""What the data cannot tell apart: weak directions of the information matrix, in words.

Each agent's slots and the shared curve have an information matrix from the data alone, what the other agents' slots
take up eliminated. Directions along which it leaves a standard error above `WEAK_ERROR` (in logarithms, own weights, or
`END_UNIT` for floors and ceilings) are left to the prior; the parameters that make up such a direction are named
together.

Of lots, weights are compared with the largest that the task's owner has for it, and what holds for several tasks is
said once: lots that were never brought one without the other cannot be told apart by any of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.gauss_newton import solve_scaled
from fedpact.fitting.parameters import CURVE_PARTS
from fedpact.fitting.posterior import Posterior
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import join_names

WEAK_ERROR = 0.5
END_UNIT = 0.2  # a change of the floor or the ceiling that counts as much as a factor e of beta
MIN_SHARE = 0.3  # share of the largest part of a direction from which a parameter belongs to it
MAX_NAMED_TOGETHER = 4


def indistinguishable(
    posterior: Posterior, lots: Sequence[str], tasks: Sequence[str], tested: NDArray[np.bool_]
) -> tuple[str, ...]:
    """Groups of parameters, each named in a line; alone if the data says nothing of it.

    `lots` and `tasks` are what the columns and the rows of the weights are called, both the agents where everybody has
    one of each; of tasks that were never tested nothing is said.
    """
    rows = np.flatnonzero(tested).tolist()
    if posterior.rules.structure is not None:
        return _indistinguishable_lots(posterior, lots, tasks, rows)
    names, found = tasks, dict[str, None]()
    for agent in rows:
        matrix, labels = _information(posterior, names, agent)
        strengths, directions = np.linalg.eigh(matrix)
        for direction in directions.T[strengths < WEAK_ERROR**-2.0]:
            sizes = np.abs(direction)
            members = np.flatnonzero(sizes >= MIN_SHARE * sizes.max())
            found[join_names([labels[member] for member in members], most=MAX_NAMED_TOGETHER)] = None
    return tuple(found)


def _indistinguishable_lots(
    posterior: Posterior, lots: Sequence[str], tasks: Sequence[str], rows: Sequence[int]
) -> tuple[str, ...]:
    """The same of lots and tasks: groups of lots with the tasks that cannot tell them apart, then those with curves."""
    rules, point = posterior.rules, posterior.point
    curve_names = [[f"{part} of {task}" for part in CURVE_PARTS] for task in tasks]
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    mixed: dict[str, None] = {}
    for task in rows:
        name, matrix = tasks[task], _information_of_row(posterior, task)
        weight_unit = float(posterior.units[task, 0] / np.exp(point.scales[task]))
        units = np.concatenate([np.full(len(lots), weight_unit), np.tile([1.0, END_UNIT, END_UNIT], 2)])
        free = np.concatenate([rules.free_local[task, 1:], rules.free_shared[-3:]])
        labels = [label for label, kept in zip([*lots, *curve_names[task], *CURVE_PARTS], free, strict=True) if kept]
        n_lots = int(rules.free_ratios[task].sum())
        strengths, directions = np.linalg.eigh((matrix * np.outer(units, units))[np.ix_(free, free)])
        for direction in _few_at_a_time(directions.T[strengths < WEAK_ERROR**-2.0]):
            sizes = np.abs(direction)
            members = np.flatnonzero(sizes >= MIN_SHARE * sizes.max())
            named = tuple(labels[member] for member in members if member < n_lots)
            if named and len(named) == members.size:
                groups.setdefault(named, {})[name] = None
                continue
            among = "" if not named else "all data" if len(named) > MAX_NAMED_TOGETHER - 2 else " and ".join(named)
            weights = [f"weight of {among} to {name}"] if named else []
            mixed[join_names([*weights, *(labels[member] for member in members if member >= n_lots)], most=4)] = None
    lines = []
    for named, towards in groups.items():
        where = "every task" if len(towards) == len(rows) else join_names(list(towards), most=MAX_NAMED_TOGETHER)
        lines.append(f"the data of {join_names(list(named), most=MAX_NAMED_TOGETHER)}, to {where}")
    return (*lines, *mixed)


def _few_at_a_time(directions: FloatArray) -> FloatArray:
    """Directions that span the same, each made of few parameters: no two share the parameter it is chosen for."""
    if len(directions) < 2:
        return directions
    from scipy.linalg import qr, solve_triangular  # noqa: PLC0415 - takes a while to import

    _, upper, order = qr(directions, mode="economic", pivoting=True)
    found = np.empty_like(directions)
    found[:, order] = solve_triangular(upper[:, : len(directions)], upper)
    return found


def _information_of_row(posterior: Posterior, task: int) -> FloatArray:
    """The information of the data on one task's weights and curve and the shared curve, in units of the slots."""
    gathered, rules = posterior.gathered, posterior.rules
    others = np.arange(rules.n_tasks) != task
    system = gathered.with_prior(*rules.precisions()).restricted(rules.free_local, rules.free_shared)
    border = system.border[others][:, :, -3:]
    taken = np.einsum("aps,apt->st", border, solve_scaled(system.blocks[others], border))
    block, across = gathered.blocks[task][1:, 1:], gathered.border[task][1:, -3:]
    return np.block([[block, across], [across.T, gathered.corner[-3:, -3:] - taken]])


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
