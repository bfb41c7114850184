"""The most one member could gain where all payoffs are shared out in proportion to contributions.

With k the contributions of the others, member i has A(x) x / (x + k) - c_i(x). That need not be concave, so no tangent
bounds it. But A and x / (x + k) are concave and c_i is convex: on an interval each lies on one side of its tangent at
the middle, and the product of two lines is a parabola, whose largest value is known. That bounds all contributions in
the interval; what it leaves open is cut in two, until no interval can hold more than the best contribution found, give
or take half of what counts as rounding. So the whole range [0, cap] is searched, and the bound is proven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.deviations import NO_DOMAIN_SCOPE, Deviations, unbounded
from fedpact.certificates.tolerances import utility_tolerances
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

FIRST_INTERVALS = np.append(0.0, 2.0 ** np.linspace(-12.0, 0.0, 25))  # of the range
MAX_CUTS = 60
MAX_INTERVALS = 4096  # of one member at a time: what is left then counts as a gain
MAX_NUMBERS = 1_000_000  # held at once
INTERVALS_SCOPE = "all contributions of one member in [0, cap], by bounds on intervals"


def sharing_in_proportion(federation: Federation, contributions: FloatArray) -> Deviations:
    """The best each member could do with u_i = A(s) s_i / sum(s) - c_i(s_i), or a bound; members have one lot each."""
    arrays = federation.arrays
    if not federation.admits(contributions):
        return unbounded(federation, contributions, NO_DOMAIN_SCOPE)
    payoffs, costs, given = arrays.payoffs(contributions), arrays.spending(contributions), contributions.sum()
    parts = contributions / given if given > 0 else np.full(payoffs.size, 1.0 / payoffs.size)
    tols = 0.5 * utility_tolerances(payoffs, costs, payoffs.sum() * parts - payoffs, arrays.values)
    upper = np.maximum(arrays.bounds()[0], contributions)
    actions, bounds, short = (np.empty(payoffs.size) for _ in range(3))
    size = max(1, MAX_NUMBERS // (len(FIRST_INTERVALS) * payoffs.size))
    for first in range(0, payoffs.size, size):
        agents = np.arange(first, min(first + size, payoffs.size))
        games = _Games(arrays, contributions, agents)
        actions[agents], bounds[agents], short[agents] = _search(games, upper[agents], tols[agents])
    return Deviations(actions=actions, utilities=bounds, shortfalls=short, scope=INTERVALS_SCOPE)


def _search(games: _Games, upper: FloatArray, tols: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The best contribution of each member up to `upper`, a bound on what it has at any, and what it falls short."""
    here, everybody = games.now, np.arange(games.now.size)
    best, most, open_bounds = here.copy(), games.utilities(everybody, here), np.full(here.size, -np.inf)
    first, end = games.domain(upper)
    edges = first[:, None] + FIRST_INTERVALS * np.maximum(end - first, 0.0)[:, None]
    edges = np.sort(np.hstack([edges, np.clip(here, first, end)[:, None]]), axis=1)
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    owners = np.repeat(everybody, edges.shape[1] - 1)
    for cut in range(MAX_CUTS):
        middle = 0.5 * (low + high)
        for tried in (low, high, middle):
            found = games.utilities(owners, tried)
            order = np.lexsort([found, owners])
            last = order[np.flatnonzero(np.diff(owners[order], append=-1))]  # the highest of each
            better = last[found[last] > most[owners[last]]]
            best[owners[better]], most[owners[better]] = tried[better], found[better]
        ceilings = games.ceilings(owners, low, high)
        left = ~(ceilings <= (most + tols)[owners])
        stops = np.bincount(owners[left], minlength=here.size) > MAX_INTERVALS
        ends = left & (stops[owners] | (cut == MAX_CUTS - 1))
        np.maximum.at(open_bounds, owners[ends], ceilings[ends])
        apart = left & ~ends & (middle > low) & (middle < high)
        low, high = np.append(low[apart], middle[apart]), np.append(middle[apart], high[apart])
        owners = np.tile(owners[apart], 2)
        if not owners.size:
            break
    bounds = np.maximum(most + tols, open_bounds)
    return best, bounds, bounds - most


class _Games:
    """What some members have at contributions of theirs."""

    def __init__(self, arrays: FederationArrays, contributions: FloatArray, agents: NDArray[np.intp]) -> None:
        self.arrays, self.agents, self.now = arrays, agents, contributions[agents]
        self.columns = arrays.dense_weights[:, agents].T  # (members, tasks)
        self.background = arrays.data(contributions) - self.columns * self.now[:, None]
        self.others = np.where(np.eye(contributions.size, dtype=np.bool_)[agents], 0.0, contributions).sum(axis=1)

    def domain(self, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Between which contributions up to `upper` everybody is in the domain of its payoff."""
        with np.errstate(divide="ignore", invalid="ignore"):
            edges = np.where(self.columns != 0, (self.arrays.floor - self.background) / self.columns, np.nan)
        first = np.where(self.columns > 0, edges, 0.0).max(axis=1)
        last = np.where(self.columns < 0, edges, np.inf).min(axis=1)
        return np.maximum(first, 0.0), np.minimum(last, upper)

    def utilities(self, owners: NDArray[np.intp], x: FloatArray) -> FloatArray:
        """What those at `owners` have at these contributions."""
        with np.errstate(invalid="ignore"):  # nothing of minus infinity is no payoff either
            found = self._total(owners, x)[0] * self._part(owners, x) - self._costs(owners, x)[0]
        return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)

    def ceilings(self, owners: NDArray[np.intp], low: FloatArray, high: FloatArray) -> FloatArray:
        """Bounds on what they have in intervals."""
        middle, half, others = 0.5 * (low + high), 0.5 * (high - low), self.others[owners]
        worth, rise = self._total(owners, middle)
        share, far = self._part(owners, middle), np.maximum(middle + others, np.finfo(float).tiny)
        more, (spent, dearer) = others / far / far, self._costs(owners, middle)
        with np.errstate(all="ignore"):  # (worth + rise t)(share + more t) - spent - dearer t, for t in [-half, half]
            curvature, gradient = rise * more, worth * more + rise * share - dearer
            top = np.where(curvature < 0, np.clip(-gradient / (2.0 * curvature), -half, half), half)
            ends = [worth * share - spent + (gradient + curvature * t) * t for t in (-half, half, top)]
            nothing = dearer * half - spent  # where the payoffs of all are negative, they are no gain
            found = np.max([*ends, nothing], axis=0)
        return np.where(np.isnan(found), np.inf, found)

    def _total(self, owners: NDArray[np.intp], x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The payoffs of all, and their derivative."""
        data = self.background[owners] + x[:, None] * self.columns[owners]
        worth = self.arrays.worth(data).sum(axis=1)
        with np.errstate(invalid="ignore"):
            rise = (self.arrays.marginal_worth(data) * self.columns[owners]).sum(axis=1)
        return worth, np.where(np.isfinite(worth), rise, np.inf)

    def _costs(self, owners: NDArray[np.intp], x: FloatArray) -> tuple[FloatArray, FloatArray]:
        linear, quadratic = self.arrays.linear[self.agents[owners]], self.arrays.quadratic[self.agents[owners]]
        return (linear + quadratic * x) * x, linear + 2.0 * quadratic * x

    def _part(self, owners: NDArray[np.intp], x: FloatArray) -> FloatArray:
        given = x + self.others[owners]
        return np.asarray(np.divide(x, given, out=np.ones(x.shape), where=given > 0))
