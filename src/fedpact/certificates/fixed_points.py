"""The most one member could gain under the two rules of the field that no concave problem describes.

**Payoffs shared out in proportion to contributions.** With k the contributions of the others, member i has
A(x) x / (x + k) - c_i(x). That need not be concave, so no tangent bounds it. But A and x / (x + k) are concave and c_i
is convex: on an interval each lies on one side of its tangent at the middle, and the product of two lines is a
parabola, whose largest value is known. That bounds all contributions in the interval; what it leaves open is cut in
two, until no interval can hold more than the best contribution found, give or take half of what counts as rounding. So
the whole range [0, cap] is searched, and the bound is proven.

**Accuracy shaping**, where a payoff is held down to what it has earned. Member i has
min(a_i(x, s_-i), earned_i(x)) - c_i(x), with earned_i its payoff alone up to its optimum alone s°, and from there on
a_i(s°, 0) + (1 + e) (c_i(x) - c_i(s°)). What is earned less the costs never falls, and a_i - c_i is concave: so the
best x is the peak of a_i - c_i if no more than that is earned there, and otherwise the last x at which no more is
earned than there is to have, found by bisection over the whole range [0, cap]. At a vanishing bonus, e = 0, all x from
s° to there are equally good. The bonus, however small, makes the largest of them best: what a member would spend on
going there counts as a gain that it lets pass.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import utility_tolerances
from fedpact.certificates.deviations import NO_DOMAIN_SCOPE, Deviations, free_riding, isolation, unbounded_deviations
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

FIRST_INTERVALS = np.append(0.0, 2.0 ** np.linspace(-12.0, 0.0, 25))  # of the range
MAX_CUTS = 60
MAX_INTERVALS = 4096  # what is left then counts as a gain
INTERVALS_SCOPE = "all contributions of one member in [0, cap], by bounds on intervals"
HALVINGS = 200
EARNED_PAYOFFS_SCOPE = "all contributions of one member in [0, cap], at the payoff it has earned"


def sharing_in_proportion(federation: Federation, contributions: FloatArray) -> Deviations:
    """The best each member could do with u_i = A(s) s_i / sum(s) - c_i(s_i), or a bound; members have one lot each."""
    arrays = federation.arrays
    if not federation.admits(contributions):
        return unbounded_deviations(federation, contributions, NO_DOMAIN_SCOPE)
    payoffs, costs, given = arrays.payoffs(contributions), arrays.spending(contributions), contributions.sum()
    parts = contributions / given if given > 0 else np.full(payoffs.size, 1.0 / payoffs.size)
    tols = 0.5 * utility_tolerances(payoffs, costs, payoffs.sum() * parts - payoffs, arrays.values)
    upper = np.maximum(arrays.bounds()[0], contributions)
    found = [_Game(arrays, contributions, agent).search(upper[agent], tols[agent]) for agent in range(payoffs.size)]
    actions, reached, bounds = np.array(found).T
    return Deviations(actions=actions, utilities=bounds, shortfalls=bounds - reached, scope=INTERVALS_SCOPE)


class _Game:
    """What one member has at contributions x of its own, (any number,)."""

    def __init__(self, arrays: FederationArrays, contributions: FloatArray, agent: int) -> None:
        self.arrays, self.now = arrays, contributions[agent]
        self.linear, self.quadratic = arrays.linear[agent], arrays.quadratic[agent]
        self.weights = arrays.weights[:, agent]
        self.background = arrays.data(contributions) - self.weights * self.now
        self.others = np.delete(contributions, agent).sum()

    def search(self, upper: float, tol: float) -> tuple[float, float, float]:
        """The best contribution up to `upper`, what the member has there, and a bound on what it has at any."""
        first, end = self.domain(upper)
        edges = first + FIRST_INTERVALS * max(end - first, 0.0)
        edges = np.sort(np.append(edges, np.clip(self.now, first, end)))
        low, high = edges[:-1], edges[1:]
        best, most = self.now, self.utilities(np.array([self.now]))[0]
        for _ in range(MAX_CUTS):
            middle = 0.5 * (low + high)
            tried = np.concatenate([low, high, middle])
            found = self.utilities(tried)
            if found.max() > most:
                best, most = tried[np.argmax(found)], found.max()
            ceilings = self.ceilings(low, high)
            left = ~(ceilings <= most + tol)
            apart = left & (middle > low) & (middle < high)
            if not apart.any():
                return best, most, most + tol
            if np.count_nonzero(left) > MAX_INTERVALS:
                break
            low, high = np.append(low[apart], middle[apart]), np.append(middle[apart], high[apart])
        return best, most, max(most + tol, ceilings[left].max())

    def domain(self, upper: float) -> tuple[float, float]:
        """Between which contributions up to `upper` everybody is in the domain of its payoff."""
        with np.errstate(divide="ignore", invalid="ignore"):
            edges = (self.arrays.floor - self.background) / self.weights
        first, last = edges[self.weights > 0].max(initial=0.0), edges[self.weights < 0].min(initial=upper)
        return float(first), float(last)

    def utilities(self, x: FloatArray) -> FloatArray:
        """What the member has; minus infinity outside the domain."""
        with np.errstate(invalid="ignore"):  # nothing of minus infinity is no payoff either
            found = self._total(x)[0] * self._part(x) - (self.linear + self.quadratic * x) * x
        return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)

    def ceilings(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Bounds on what the member has in intervals."""
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        worth, rise = self._total(middle)
        share, far = self._part(middle), np.maximum(middle + self.others, np.finfo(float).tiny)
        more = self.others / far / far
        spent, dearer = (self.linear + self.quadratic * middle) * middle, self.linear + 2.0 * self.quadratic * middle
        with np.errstate(all="ignore"):  # (worth + rise t)(share + more t) - spent - dearer t, for t in [-half, half]
            curvature, gradient = rise * more, worth * more + rise * share - dearer
            top = np.where(curvature < 0, np.clip(-gradient / (2.0 * curvature), -half, half), half)
            ends = [worth * share - spent + (gradient + curvature * t) * t for t in (-half, half, top)]
            nothing = dearer * half - spent  # where the payoffs of all are negative, they are no gain
            found = np.max([*ends, nothing], axis=0)
        return np.where(np.isnan(found), np.inf, found)

    def _total(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The payoffs of all, and their derivative."""
        data = self.background + x[:, None] * self.weights
        worth = self.arrays.worth(data).sum(axis=1)
        with np.errstate(invalid="ignore"):
            rise = self.arrays.marginal_worth(data) @ self.weights
        return worth, np.where(np.isfinite(worth), rise, np.inf)

    def _part(self, x: FloatArray) -> FloatArray:
        given = x + self.others
        return np.asarray(np.divide(x, given, out=np.ones(x.shape), where=given > 0))


def earning_payoff(federation: Federation, contributions: FloatArray, bonus: float) -> Deviations:
    """The best each member could do where its payoff is held down to what it has earned; members have one lot each."""
    arrays = federation.arrays
    if not federation.admits(contributions):
        return unbounded_deviations(federation, contributions, NO_DOMAIN_SCOPE)
    others = arrays.foreign_data(contributions)
    alone, free = isolation(federation, contributions), free_riding(federation, contributions)
    spent = arrays.lot_costs(alone.actions)

    def shared(x: FloatArray) -> FloatArray:
        return arrays.worth(others + arrays.own_data(x)) - arrays.lot_costs(x)

    def earned(x: FloatArray) -> FloatArray:
        before = np.minimum(x, alone.actions)
        had = arrays.worth(arrays.own_data(before)) - arrays.lot_costs(before)
        return had + bonus * np.maximum(arrays.lot_costs(x) - spent, 0.0)

    low = peak = free.actions
    high = end = np.maximum(np.minimum(arrays.caps, 2.0 * arrays.bounds()[0]), peak)  # beyond, more is spent than won
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        more = shared(middle) >= earned(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    last = np.where(shared(end) >= earned(end), end, low)
    best = np.where(earned(peak) >= shared(peak), peak, last)
    utilities = np.minimum(shared(best), earned(best))
    scope = EARNED_PAYOFFS_SCOPE
    if bonus == 0.0:
        had = np.maximum(contributions, alone.actions)
        utilities = utilities + np.maximum(arrays.lot_costs(best) - arrays.lot_costs(had), 0.0)
        scope = f"{EARNED_PAYOFFS_SCOPE}; at a vanishing bonus, what it would still spend for that counts as gained"
    return Deviations(actions=best, utilities=utilities, scope=scope)
