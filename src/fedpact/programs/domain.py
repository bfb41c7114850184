"""The domain with negative weights: every y_i that enters must stay above the payoff's floor.

For welfare y = W s enters; for Shapley values every coalition's, the lowest of which holds just those who harm:
y = min(W, 0) s.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray


def room(
    weights: FloatArray, floor: FloatArray | float, contributions: FloatArray, direction: FloatArray
) -> FloatArray:
    """The largest t with weights @ (contributions + t direction) above the floor."""
    here, change = weights @ contributions, weights @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(change < 0, (floor - here) / change, np.inf)
    return np.asarray(steps.min(axis=-1))


def interior_point(federation: Federation, upper: FloatArray) -> FloatArray:
    """A point inside the box at which every coalition is well inside the domain."""
    depth = np.asarray(federation.negative_weights() @ upper)
    at_rest = np.zeros(federation.n_agents)
    comfortable = 0.5 * federation.payoff.slope(at_rest) / federation.payoff.curvature(at_rest)  # above every floor
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(depth < 0, comfortable / depth, np.inf).min()
    return upper * min(share, 1.0 / (1.0 + federation.n_agents))
