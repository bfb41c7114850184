"""The nucleolus: the division under which the group least content with it is as content as can be, and so on down.

With v(X) the most a group reaches by itself, e(X) = x(X) - v(X) is what it has beyond that under a division x of v(N).
The least core makes the smallest e as large as can be; of these divisions the nucleolus makes the next smallest as
large as can be, until one is left (Schmeidler 1969). All divisions are admitted, also those that give a member less
than it has alone: the prenucleolus, which is the nucleolus wherever the core is not empty.

One linear program per level (Kopelowitz 1967): maximise t with e(X) >= t for all groups that are not settled. Groups
whose multiplier is positive have e(X) = t in every solution and are settled there; so is every group whose members
follow from settled ones. At most n levels, each over all 2^n groups.
"""

from __future__ import annotations

import numpy as np

from fedpact.programs.groups import GroupOptima
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MULTIPLIER_TOLERANCE = 1e-7  # multipliers of one level sum to one
RANK_TOLERANCE = 1e-9


def nucleolus(groups: GroupOptima) -> FloatArray:
    """The division of v(N) for the values of all groups, the empty one first and everybody last."""
    from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed here

    scale = max(float(np.abs(groups.values).max()), np.finfo(float).tiny)
    members, values = groups.members.astype(np.float64), groups.values / scale
    settled, totals = members[-1:], values[-1:]
    open_groups = np.arange(1, len(values) - 1)
    while np.linalg.matrix_rank(settled) < members.shape[1]:
        open_groups = open_groups[_is_independent(settled, members[open_groups])]
        rows = np.hstack([-members[open_groups], np.ones((open_groups.size, 1))])
        found = linprog(
            np.append(np.zeros(members.shape[1]), -1.0),
            A_ub=rows,
            b_ub=-values[open_groups],
            A_eq=np.hstack([settled, np.zeros((len(settled), 1))]),
            b_eq=totals,
            bounds=(None, None),
            method="highs",
        )
        if found.x is None:
            raise NotConverged(f"the linear program of the nucleolus has no solution: {found.message}", result=None)
        known = len(settled)
        for place in open_groups[found.ineqlin.marginals < -MULTIPLIER_TOLERANCE]:
            if _is_independent(settled, members[[place]])[0]:
                settled = np.vstack([settled, members[place]])
                totals = np.append(totals, values[place] + found.x[-1])
        if len(settled) == known:
            raise NotConverged("rounding leaves open which groups settle the nucleolus", result=found.x[:-1] * scale)
    return np.asarray(scale * np.linalg.lstsq(settled, totals, rcond=None)[0])


def _is_independent(settled: FloatArray, rows: FloatArray) -> np.ndarray:
    """Which rows are no combination of the settled ones."""
    basis = np.linalg.qr(settled.T)[0]
    return np.linalg.norm(rows - (rows @ basis) @ basis.T, axis=1) > RANK_TOLERANCE
