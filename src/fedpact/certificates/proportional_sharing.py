"""The most one agent could gain where all payoffs are shared out in proportion to contributions.

With k the contributions of the others, agent i has A(x) x / (x + k) - c_i(x). That need not be concave, so no tangent
bounds it. But A and x / (x + k) are concave and c_i is convex: on an interval each lies on one side of its tangent at
the middle, and the product of two lines is a parabola, whose largest value is known. That bounds all contributions in
the interval; what it leaves open is cut in two, until no interval can hold more than the best contribution found, give
or take half of what counts as rounding. So the whole range [0, cap] is searched, and the bound is proven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.common_interest import own_limits
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.tolerances import utility_tolerances
from fedpact.federation import Batch, Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.utils.arrays import FloatArray

FIRST_INTERVALS = np.append(0.0, 2.0 ** np.linspace(-12.0, 0.0, 25))  # of the range
MAX_CUTS = 60
MAX_INTERVALS = 4096  # of one agent at a time: what is left then counts as a gain
MAX_NUMBERS = 1_000_000  # held at once
INTERVALS_SCOPE = "all contributions of one member in [0, cap], by bounds on intervals"


def sharing_in_proportion(federation: Federation, contributions: FloatArray) -> Deviations:
    """The best each agent could do with u_i = A(s) s_i / sum(s) - c_i(s_i), or a bound on it."""
    if not federation.admits(contributions):
        anything = np.full(federation.n_agents, np.inf)
        return Deviations(actions=contributions, utilities=anything, scope="somebody is outside its payoff's domain")
    bounds = np.maximum(contribution_bounds(federation)[0], contributions)
    upper = np.minimum(own_limits(federation, contributions), bounds)
    found = _best(federation, federation.dense_weights()[None], contributions[None], upper[None])
    actions, utilities, short = (numbers[0] for numbers in found)
    return Deviations(actions=actions, utilities=utilities, shortfalls=short, scope=INTERVALS_SCOPE)


def proportional_bounds(batch: Batch, contributions: FloatArray) -> FloatArray:
    """The same bounds for many federations at once, (federations, n); all of them must be in the domain."""
    profile = contributions.ravel()
    upper = np.minimum(own_limits(batch.joined, profile), np.maximum(batch.bounds()[0], profile))
    return _best(batch.joined, batch.weights, contributions, batch.split(upper))[1]


def _best(
    federation: Federation, weights: FloatArray, contributions: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Everybody's best contribution up to `upper`, a bound on what it has at any, and what it falls short of that.

    In federations side by side.
    """
    flat, shape = contributions.ravel(), contributions.shape
    payoffs, costs = federation.payoffs(flat).reshape(shape), federation.costs.value(flat).reshape(shape)
    given = contributions.sum(axis=1, keepdims=True)
    parts = np.divide(contributions, given, out=np.full(shape, 1.0 / shape[1]), where=given > 0)
    paid = payoffs.sum(axis=1, keepdims=True) * parts - payoffs
    tols = 0.5 * utility_tolerances(payoffs, costs, paid, federation.values.reshape(shape))
    actions, bounds, short = (np.empty(flat.size) for _ in range(3))
    size = max(1, MAX_NUMBERS // (len(FIRST_INTERVALS) * shape[1]))
    for first in range(0, flat.size, size):
        agents = np.arange(first, min(first + size, flat.size))
        games = _Games(federation, weights, contributions, agents)
        found = _search(games, flat[agents], upper.ravel()[agents], tols.ravel()[agents])
        actions[agents], bounds[agents], short[agents] = found
    return actions.reshape(shape), bounds.reshape(shape), short.reshape(shape)


def _search(
    games: _Games, here: FloatArray, upper: FloatArray, tols: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The best contribution of each agent up to `upper`, a bound on what it has at any, and what it falls short."""
    everybody = np.arange(here.size)
    best, most, open_bounds = here.copy(), games.utilities(everybody, here), np.full(here.size, -np.inf)
    least = games.needed()
    edges = least[:, None] + FIRST_INTERVALS * np.maximum(upper - least, 0.0)[:, None]
    edges = np.sort(np.hstack([edges, np.clip(here, least, np.maximum(upper, least))[:, None]]), axis=1)
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
    """What some agents of federations side by side have at contributions of theirs; arrays are (agents, n)."""

    def __init__(
        self, federation: Federation, weights: FloatArray, contributions: FloatArray, agents: NDArray[np.intp]
    ) -> None:
        self.federation, self.agents = federation, agents
        block, place = np.divmod(agents, contributions.shape[1])
        self.columns = weights[block, :, place]
        self.receivers = block[:, None] * contributions.shape[1] + np.arange(contributions.shape[1])
        data = federation.data(contributions.ravel())
        self.background = data[self.receivers] - self.columns * contributions[block, place][:, None]
        others = contributions[block].copy()
        others[np.arange(agents.size), place] = 0.0
        self.others = others.sum(axis=1)

    def utilities(self, owners: NDArray[np.intp], x: FloatArray) -> FloatArray:
        """What those at `owners` have at these contributions."""
        costs = self.federation.costs.take(self.agents[owners]).value(x)
        with np.errstate(invalid="ignore"):  # nothing of minus infinity is no payoff either
            found = self._total(owners, x)[0] * self._part(owners, x) - costs
        return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)

    def ceilings(self, owners: NDArray[np.intp], low: FloatArray, high: FloatArray) -> FloatArray:
        """Bounds on what they have in intervals."""
        middle, half, others = 0.5 * (low + high), 0.5 * (high - low), self.others[owners]
        worth, rise = self._total(owners, middle)
        share, far = self._part(owners, middle), np.maximum(middle + others, np.finfo(float).tiny)
        more, cost = others / far / far, self.federation.costs.take(self.agents[owners])
        spent, dearer = cost.value(middle), cost.slope(middle)
        with np.errstate(all="ignore"):  # (worth + rise t)(share + more t) - spent - dearer t, for t in [-half, half]
            bend, lean = rise * more, worth * more + rise * share - dearer
            top = np.where(bend < 0, np.clip(-lean / (2.0 * bend), -half, half), half)
            ends = [worth * share - spent + (lean + bend * t) * t for t in (-half, half, top)]
            nothing = dearer * half - spent  # where the payoffs of all are negative, they are no gain
            found = np.max([*ends, nothing], axis=0)
        return np.where(np.isnan(found), np.inf, found)

    def needed(self) -> FloatArray:
        """Where the domain begins: what those who are harmed need of each agent's data."""
        floors = self._floors(self.receivers)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where((self.columns > 0) & np.isfinite(floors), (floors - self.background) / self.columns, 0.0)
        return np.maximum(needed, 0.0).max(axis=1)

    def _total(self, owners: NDArray[np.intp], x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The payoffs of all, and their slope."""
        reached, places = self.background[owners] + x[:, None] * self.columns[owners], self.receivers[owners]
        inside = (reached > self._floors(places)).all(axis=1)
        flat = np.where(inside[:, None], reached, 0.0).ravel()
        payoff, values = self.federation.payoff.take(places.ravel()), self.federation.values[places]
        worth = (values * payoff.value(flat).reshape(places.shape)).sum(axis=1)
        rise = (values * payoff.slope(flat).reshape(places.shape) * self.columns[owners]).sum(axis=1)
        return np.where(inside, worth, -np.inf), np.where(inside, rise, np.inf)

    def _part(self, owners: NDArray[np.intp], x: FloatArray) -> FloatArray:
        given = x + self.others[owners]
        return np.divide(x, given, out=np.ones(x.shape), where=given > 0)

    def _floors(self, places: NDArray[np.intp]) -> FloatArray:
        return np.asarray(np.broadcast_to(self.federation.payoff.floor, self.federation.n_agents)[places])
