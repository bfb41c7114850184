"""The domain of a program: where everybody's payoff is defined, how far it is to its edge, and a point well inside.

With negative weights every y_i that enters must be above the payoff's floor. For welfare y = W s enters; for Shapley
values every coalition's, the lowest of which holds just those who harm.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

MAX_PIECES = 100  # of a sum of straight pieces, more than a step of Newton's method ever takes


def room(
    weights: FloatArray, floor: FloatArray | float, contributions: FloatArray, direction: FloatArray
) -> FloatArray:
    """The largest t with weights @ (contributions + t direction) above the floor."""
    here, change = weights @ contributions, weights @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(change < 0, (floor - here) / change, np.inf)
    return np.asarray(steps.min(axis=-1))


def edge_rows(weights: FloatArray, floor: FloatArray | float) -> FloatArray | None:
    """Rows with which 1 + rows @ contributions is the distance to the edge of the domain, as a share of all there is.

    One row per agent that somebody harms; None where nobody is harmed or payoffs have no edge.
    """
    floors = np.broadcast_to(floor, weights.shape[0])
    harmed = (weights < 0).any(axis=1) & np.isfinite(floors)
    return weights[harmed] / -floors[harmed, None] if harmed.any() else None


def interior_point(federation: Federation, upper: FloatArray) -> FloatArray:
    """A point inside the box at which every coalition is well inside the domain."""
    depth = np.asarray(federation.negative_weights() @ upper)
    at_rest = np.zeros(federation.n_tasks)
    comfortable = 0.5 * federation.payoff.slope(at_rest) / federation.payoff.curvature(at_rest)  # above every floor
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(depth < 0, comfortable / depth, np.inf).min()
    return upper * min(share, 1.0 / (1.0 + federation.n_lots))


def coalition_room(federation: Federation, contributions: FloatArray, direction: FloatArray) -> FloatArray:
    """The largest t at which every coalition of agents with several lots is inside the domain.

    What the agents who harm bring together, sum_j min(u_j + t v_j, 0), is concave in t and made of straight pieces, so
    Newton's method ends at the root from above.
    """
    here, change = (np.asarray(_dense(federation.agent_data(s))) for s in (contributions, direction))
    floor = np.broadcast_to(federation.payoff.floor, federation.n_tasks)
    counts, step = change < 0, np.full(federation.n_tasks, np.inf)  # far along only those count who get worse
    for _ in range(MAX_PIECES):
        slope, level = np.where(counts, change, 0.0).sum(axis=1), np.where(counts, here, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.where(slope < 0, (floor - level) / slope, np.inf)
            step, before = np.minimum(step, root), step
            reached = np.where(np.isfinite(step)[:, None], here + step[:, None] * change, change)
        counts = reached < 0
        if (step == before).all():
            break
    return np.asarray(step.min())


def _dense(matrix: FloatArray | sp.csr_array) -> FloatArray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
