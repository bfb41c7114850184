"""How far a convex function is from its least, by several of its tangents at once.

Where curvatures are large, one unit in the last place of x turns a slope by more than is tolerated: no float is flat
enough, though the floats on both sides of the minimum are as good as it. With h convex on [0, 1]^n, slopes g_m at
points x_m next to x, and shares l_m >= 0 that sum to one,

    h(x) - min h  <=  sum_m l_m (g_m - g_0) (x_m - x)  +  max over y of g (x - y),        g = sum_m l_m g_m,

because each tangent lies below h, and h(x_m) above the tangent at x. A linear program chooses the shares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.utils.arrays import FloatArray

MAX_NEIGHBOURS = 12
NEIGHBOUR = 4.0  # units in the last place: further away a slope is turned by more than rounding
LEAST_SHARE = 1e-3  # of the gain, for a coordinate to be looked at


def linearised_gap(slopes: FloatArray, x: FloatArray) -> FloatArray:
    """max over y in [0, 1]^n of slopes (x - y), per coordinate."""
    return np.maximum(slopes * x, -slopes * (1.0 - x))


def mixed_gap(slopes_at: Callable[[FloatArray], FloatArray], x: FloatArray) -> float:
    """An upper bound on h(x) - min h, with floats next to x along the coordinates that leave most to gain."""
    from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed where rounding rules

    here = slopes_at(x)
    gains = linearised_gap(here, x)
    whole = float(gains.sum())
    if not 0.0 < whole < np.inf:
        return whole
    points, slopes = [x], [here]
    for place in [j for j in np.argsort(-gains)[:MAX_NEIGHBOURS].tolist() if gains[j] > LEAST_SHARE * whole]:
        near = x.copy()
        near[place] = np.clip(x[place] - np.sign(here[place]) * NEIGHBOUR * np.spacing(x[place]), 0.0, 1.0)
        there = slopes_at(near)
        if np.isfinite(there).all():
            points.append(near)
            slopes.append(there)
    tangents, errors = np.array(slopes), np.array([(g - here) @ (p - x) for g, p in zip(slopes, points, strict=True)])
    up, down = tangents * x / whole, -tangents * (1.0 - x) / whole
    falls, rises = (tangents >= 0).all(axis=0), (tangents <= 0).all(axis=0)
    turns = ~(falls | rises)  # elsewhere gains are as linear in the shares as they are anyway
    surely = errors / whole + up[:, falls].sum(axis=1) + down[:, rises & ~falls].sum(axis=1)
    count = int(turns.sum())
    answer = linprog(
        np.concatenate([surely, np.ones(count)]),
        A_ub=np.hstack([np.hstack([up[:, turns], down[:, turns]]).T, np.vstack([-np.eye(count)] * 2)]),
        b_ub=np.zeros(2 * count),
        A_eq=np.concatenate([np.ones(surely.size), np.zeros(count)])[None],
        b_eq=[1.0],
        method="highs",
    )
    if answer.x is None:
        return whole
    shares = np.maximum(answer.x[: errors.size], 0.0)
    shares = shares / shares.sum()
    return min(whole, float(shares @ np.abs(errors) + linearised_gap(shares @ tangents, x).sum()))
