"""The most one agent could gain where all payoffs are shared out in proportion to contributions.

With k the contributions of the others, agent i has A(x) x / (x + k) - c_i(x). That need not be concave, so no tangent
bounds it. But A and x / (x + k) are concave and c_i is convex: on an interval each lies on one side of its tangent at
the middle, and the product of two lines is a parabola, whose largest value is known. That bounds all contributions in
the interval; what it leaves open is cut in two, until no interval can hold more than the best contribution found, give
or take half of what counts as rounding. So the whole range [0, cap] is searched, and the bound is proven.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.certificates.common_interest import own_limits
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.tolerances import utility_tolerances
from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.utils.arrays import FloatArray

FIRST_INTERVALS = np.append(0.0, 2.0 ** np.linspace(-12.0, 0.0, 25))  # of the range
MAX_CUTS = 60
MAX_INTERVALS = 4096  # of one agent at a time: what is left then counts as a gain
SCOPE = "all contributions of one agent in [0, cap], by bounds on intervals"


def sharing_in_proportion(federation: Federation, contributions: FloatArray) -> Deviations:
    """The best each agent could do with u_i = A(s) s_i / sum(s) - c_i(s_i), or a bound on it."""
    if not federation.admits(contributions):
        anything = np.full(federation.n_agents, np.inf)
        return Deviations(actions=contributions, utilities=anything, scope="somebody is outside its payoff's domain")
    payoffs, costs = federation.payoffs(contributions), federation.costs.value(contributions)
    given = contributions.sum()
    parts = contributions / given if given > 0 else np.full(federation.n_agents, 1.0 / federation.n_agents)
    tols = 0.5 * utility_tolerances(payoffs, costs, payoffs.sum() * parts - payoffs, federation.values)
    bounds = np.maximum(contribution_bounds(federation)[0], contributions)
    upper = np.minimum(own_limits(federation, contributions), bounds)
    found = [_search(federation, contributions, agent, upper[agent], tols[agent]) for agent in range(payoffs.size)]
    actions, utilities = np.array(found).T
    return Deviations(actions=actions, utilities=utilities, scope=SCOPE)


def _search(
    federation: Federation, contributions: FloatArray, agent: int, upper: float, tol: float
) -> tuple[float, float]:
    """One agent's best contribution up to `upper`, and a bound on what it has at any."""
    here = np.array([contributions[agent]])
    value, bound, least = _game_of(federation, contributions, agent)
    best, most = float(here[0]), float(value(here)[0])
    edges = np.unique(np.append(least + FIRST_INTERVALS * max(upper - least, 0.0), np.clip(here, least, upper)))
    low, high = edges[:-1], edges[1:]
    for _ in range(MAX_CUTS):
        if not low.size:
            return best, most + tol
        tried = np.concatenate([low, high, 0.5 * (low + high)])
        found = value(tried)
        if found.max() > most:
            best, most = float(tried[found.argmax()]), float(found.max())
        ceilings = bound(low, high)
        left = ~(ceilings <= most + tol)
        if left.sum() > MAX_INTERVALS:
            break
        middle = 0.5 * (low + high)
        apart = left & (middle > low) & (middle < high)
        low, high = np.append(low[apart], middle[apart]), np.append(middle[apart], high[apart])
    return best, float(max(most + tol, ceilings[left].max(initial=-np.inf)))


def _game_of(
    federation: Federation, contributions: FloatArray, agent: int
) -> tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray, FloatArray], FloatArray], float]:
    """An agent's utility at many contributions, a bound on it in many intervals, and where the domain begins."""
    column = federation.weights[:, [agent]]
    column = np.asarray(column if isinstance(column, np.ndarray) else column.toarray())[:, 0]
    touched = np.flatnonzero(column)
    column, payoff, values = column[touched], federation.payoff.take(touched), federation.values[touched]
    data = federation.data(contributions)
    background = data[touched] - column * contributions[agent]
    rest = float(federation.payoffs(contributions).sum() - (values * payoff.value(data[touched])).sum())
    others, cost = float(np.delete(contributions, agent).sum()), federation.costs.take(np.array([agent]))

    def total(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        reached = background + x[:, None] * column
        inside = (reached > payoff.floor).all(axis=1)
        reached = np.where(inside[:, None], reached, data[touched])
        worth, rise = (
            (values * payoff.value(reached)).sum(axis=1),
            (values * payoff.slope(reached) * column).sum(axis=1),
        )
        return np.where(inside, rest + worth, -np.inf), np.where(inside, rise, np.inf)

    def part(x: FloatArray) -> FloatArray:
        return np.divide(x, x + others, out=np.full(x.shape, 1.0), where=x + others > 0)

    def value(x: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):  # nothing of minus infinity is no payoff either
            return np.nan_to_num(total(x)[0] * part(x) - cost.value(x), nan=-np.inf, neginf=-np.inf)

    def bound(low: FloatArray, high: FloatArray) -> FloatArray:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        worth, rise = total(middle)
        share, far = part(middle), np.maximum(middle + others, np.finfo(float).tiny)
        more = others / far / far if others else 0.0
        spent, dearer = cost.value(middle), cost.slope(middle)
        with np.errstate(all="ignore"):  # (worth + rise t)(share + more t) - spent - dearer t, for t in [-half, half]
            bend, lean = rise * more, worth * more + rise * share - dearer
            top = np.where(bend < 0, np.clip(-lean / (2.0 * bend), -half, half), half)
            ends = [worth * share - spent + (lean + bend * t) * t for t in (-half, half, top)]
            nothing = dearer * half - spent  # where the payoffs of all are negative, they are no gain
            found = np.max([*ends, nothing], axis=0)
        return np.where(np.isnan(found), np.inf, found)

    floors = np.broadcast_to(payoff.floor, column.shape)
    needed = ((floors - background) / column)[(column > 0) & np.isfinite(floors)]  # whoever needs its data
    return value, bound, float(needed.max(initial=0.0))
