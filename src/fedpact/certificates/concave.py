r"""The concave problem behind the certificates: a bound on it from any point, and an ascent.

    maximise    f(x) = sum_r v_r g_r(b_r + sum_l w_rl x_l) - sum_l (c_l x_l + d_l x_l^2)
    over        0 <= x_l <= upper_l,      sum of x_l under shared cap k <= limit_k.

A member's own choice is one, with what the others bring in b; so is the welfare of everybody, or of a group. Payoffs
lie below their tangents. So at any x, with e = W^T (v g'(b + W x)) what a unit of each lot earns there,

    f(t) <= f(x) + sum_l [(e_l - c_l) t_l - d_l t_l^2] - sum_l [(e_l - c_l) x_l - d_l x_l^2]      for every t,

and the first sum is largest lot by lot, once every shared cap has a price p_k >= 0 that is taken off what its lots
earn and paid back as p_k limit_k (weak duality: any price gives a bound). What this exceeds f(x) by is the *gap*: zero
at a maximiser. It proves what it bounds wherever the point comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Payoff
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

MAX_STEPS = 200
NEWTON_HALVINGS, GRADIENT_HALVINGS = 8, 50  # a Newton step that has to be cut short leads into a corner of the bounds
GAP_TOLERANCE = 1e-13  # of payoffs and costs: a gap that is none
VALUE_ROUNDING = 1e-13  # of payoffs and costs: a change of f that is none
SUFFICIENT_RISE = 1e-4  # of what the gradient promises
MIN_RIDGE, MAX_RIDGE = 1e-12, 1e-3  # of the Hessian's diagonal: between them, the gap as a part of payoffs and costs
PRICE_HALVINGS = 70
FULL_CAP_TOLERANCE = 1e-12  # of a shared cap: what is left of one that is full
CAP_STEEPNESS = 1e6  # of the Hessian's diagonal
MAX_POWER = 500  # of two, of what is spent


@dataclass(frozen=True, kw_only=True, eq=False)
class ConcaveProblem:
    """Problems side by side, along the first axis; arrays whose first axis has length one are the same for all."""

    # weights, values, background: (problems, rows, lots), (problems, rows): w, v and b. A row of value zero does not
    # count, in its domain or not
    weights: FloatArray
    values: FloatArray
    payoff: Payoff  # the family; parameters are a number, (rows,) or (problems, rows)
    background: FloatArray
    # linear, quadratic, upper: (problems, lots): c, of any sign, d and the upper bounds; `upper` has an entry for every
    # problem
    linear: FloatArray
    quadratic: FloatArray
    upper: FloatArray
    # shared, limits: (problems, shared caps, lots), 1 where a lot is under a cap, and (problems, shared caps)
    shared: FloatArray
    limits: FloatArray

    def at(self, index: Any) -> ConcaveProblem:
        """Some of the problems."""
        if self.upper.shape[0] == 1:
            return self
        names = ("weights", "values", "background", "linear", "quadratic", "upper", "shared", "limits")
        parts = {name: part[index] if len(part := getattr(self, name)) > 1 else part for name in names}
        payoff = self.payoff.unchecked(**{n: p[index] if p.ndim > 1 else p for n, p in self.payoff.parameters.items()})
        return replace(self, payoff=payoff, **parts)

    def data(self, x: FloatArray) -> FloatArray:
        """b + W x, (problems, rows)."""
        return np.asarray(self.background + np.matmul(self.weights, x[..., None])[..., 0])

    def costs(self, x: FloatArray) -> FloatArray:
        """(problems, lots)."""
        return (self.linear + self.quadratic * x) * x

    def value(self, x: FloatArray) -> FloatArray:
        """f(x), (problems,); minus infinity outside the domain of a payoff that counts."""
        worth = self._rows(self.data(x), self.payoff.value, -np.inf)
        return np.asarray(worth.sum(axis=-1) - self.costs(x).sum(axis=-1))

    def size(self, x: FloatArray) -> FloatArray:
        """Payoffs and costs in absolute terms, (problems,): what rounding is measured by."""
        worth = self._rows(self.data(x), self.payoff.value, 0.0)
        return np.asarray(np.abs(worth).sum(axis=-1) + np.abs(self.costs(x)).sum(axis=-1) + np.finfo(float).tiny)

    def earned(self, x: FloatArray) -> FloatArray:
        """e, what a unit of each lot earns, (problems, lots)."""
        marginal = self._rows(self.data(x), self.payoff.slope, np.inf)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.matmul(marginal[:, None, :], self.weights)[:, 0])

    def gaps(self, x: FloatArray, earned: FloatArray) -> FloatArray:
        """What bounds f exceed f(x) by, lot by lot, (problems, lots); only sums over shared caps have a meaning."""
        net = earned - self.linear
        with np.errstate(invalid="ignore"):
            return most_earned(net, self)[1] - (net - self.quadratic * x) * x

    def project(self, x: FloatArray) -> FloatArray:
        """The point within the bounds that is closest to x."""
        if not self.limits.shape[-1]:
            return np.clip(x, 0.0, self.upper)
        return most_earned(x, replace(self, quadratic=np.full_like(self.linear, 0.5)))[0]

    def within_means(self, start: FloatArray) -> ConcaveProblem:
        """The problem with bounds beyond which more is spent than could be gained, compared with `start`.

        Costs are positive. A maximiser that costs S has f >= f(start), and no lot brings more than S buys: so
        S <= sum_r v_r g_r(b_r + what S buys) - f(start). The right is concave in S, and what the start costs is one
        such S; the largest is looked for above it, and rounded up to a power of two. A start outside the domain bounds
        nothing.
        """
        helpful = replace(self, weights=np.maximum(self.weights, 0.0))
        least = np.nan_to_num(self.value(start), neginf=-np.finfo(float).max)
        high = np.full(len(self.upper), float(MAX_POWER))
        # What costs less than rounding of f(start) cannot be told from nothing.
        known = np.maximum(self.costs(start).sum(axis=-1), 1e-12 * self.size(start))
        low = np.log2(np.maximum(known, 2.0**-MAX_POWER))
        while (high - low > 1.0).any():
            middle = np.floor(0.5 * (low + high))
            spent = np.exp2(middle)
            data = helpful.data(np.minimum(self._affordable(spent), self.upper))
            pays = self._rows(data, self.payoff.value, 0.0).sum(axis=-1) - least >= spent
            low, high = np.where(pays, middle, low), np.where(pays, high, middle)
        return replace(self, upper=np.minimum(self.upper, self._affordable(2.0 * np.exp2(high))))

    def _affordable(self, budget: FloatArray) -> FloatArray:
        budget = budget[:, None]
        return 2.0 * budget / (self.linear + np.sqrt(self.linear**2 + 4.0 * self.quadratic * budget))

    def _rows(self, data: FloatArray, function: Any, outside: float) -> FloatArray:
        with np.errstate(all="ignore"):
            found = np.where(data > self.payoff.floor, self.values * function(data), outside)
        return np.where(self.values > 0, found, 0.0)


def welfare_problem(
    arrays: FederationArrays, upper: FloatArray | None = None, lots: Any = slice(None)
) -> ConcaveProblem:
    """The welfare of one federation over some lots, of others there is nothing.

    `upper` is (problems, lots), by default the bounds that hold the maximisers over all lots.
    """
    return ConcaveProblem(
        weights=arrays.weights[None, :, lots],
        values=arrays.values[None],
        payoff=arrays.payoff,
        background=np.zeros((1, arrays.n_tasks)),
        linear=arrays.linear[None, lots],
        quadratic=arrays.quadratic[None, lots],
        upper=arrays.bounds()[0][None, lots] if upper is None else upper,
        shared=arrays.shared[None, :, lots],
        limits=arrays.shared_limits[None],
    )


def group_problem(arrays: FederationArrays, members: NDArray[np.bool_]) -> ConcaveProblem:
    """The welfare of groups (groups, members) by themselves, as problems over everybody's lots."""
    bounds = arrays.bounds()[0]
    problem = welfare_problem(arrays, np.where(members[:, arrays.lot_owners], bounds, 0.0))
    return replace(problem, values=np.where(members[:, arrays.task_owners], arrays.values, 0.0))


def most_earned(net: FloatArray, problem: ConcaveProblem) -> tuple[FloatArray, FloatArray]:
    """argmax and maximum of sum_l (net_l x_l - quadratic_l x_l^2) within the bounds, (problems, lots) each.

    The maximum is a bound however well the prices of shared caps are found; the worth of a cap is split evenly among
    its lots. The argmax keeps the shared caps.
    """
    prices = np.zeros((*net.shape[:-1], problem.limits.shape[-1]))
    if prices.size:
        prices = _cap_prices(net, problem)
        net = net - np.matmul(prices[..., None, :], problem.shared)[..., 0, :]
    amounts = _amounts(net, problem)
    with np.errstate(invalid="ignore"):
        most = np.where(amounts > 0, (net - problem.quadratic * amounts) * amounts, 0.0)
    if prices.size:
        worth = prices * problem.limits / np.maximum(problem.shared.sum(axis=-1), 1.0)
        most = most + np.matmul(np.nan_to_num(worth)[..., None, :], problem.shared)[..., 0, :]
    return amounts, most


def _amounts(net: FloatArray, problem: ConcaveProblem) -> FloatArray:
    quadratic = np.broadcast_to(problem.quadratic, net.shape)
    inner = np.where(net > 0, np.inf, 0.0)
    np.divide(net, 2.0 * quadratic, out=inner, where=quadratic > 0)
    return np.clip(inner, 0.0, problem.upper)


def _cap_prices(net: FloatArray, problem: ConcaveProblem) -> FloatArray:
    """Prices of shared caps, (problems, caps), at which no more is brought than they allow: zero, or by bisection."""

    def brought(prices: FloatArray) -> FloatArray:
        left = net - np.matmul(prices[..., None, :], problem.shared)[..., 0, :]
        return np.asarray(np.matmul(problem.shared, _amounts(left, problem)[..., None])[..., 0])

    with np.errstate(invalid="ignore"):
        high = np.where(problem.shared > 0, net[..., None, :], 0.0).max(axis=-1)
    low = np.zeros_like(high)
    high = np.where(brought(low) > problem.limits, high, 0.0)
    for _ in range(PRICE_HALVINGS if high.any() else 0):
        middle = 0.5 * (low + high)
        exceeds = brought(middle) > problem.limits
        low, high = np.where(exceeds, middle, low), np.where(exceeds, high, middle)
    return high


class Maxima(NamedTuple):
    """Where ascents end, (problems, lots), with f there and a bound on f everywhere, (problems,)."""

    x: FloatArray
    values: FloatArray
    bounds: FloatArray


def maximise(problem: ConcaveProblem, start: FloatArray) -> Maxima:
    """Newton steps projected on the bounds, from a start in the domain; where it is not, nothing is known.

    A lot stays at a bound that its gradient pushes it against; the others take a Newton step, which is halved until f
    rises or, where f no longer tells points apart, the gap falls. An ascent ends where the gap is rounding, or no step
    rises. Cost: a dense system of the free lots for each step.
    """
    x = problem.project(start)
    gaps, inside = np.full(len(x), np.inf), np.flatnonzero(np.isfinite(problem.value(x)))
    gaps[inside] = problem.at(inside).gaps(x[inside], problem.at(inside).earned(x[inside])).sum(axis=-1)
    going = inside
    for _ in range(MAX_STEPS):
        going = going[~(gaps[going] <= GAP_TOLERANCE * problem.at(going).size(x[going]))]
        if not going.size:
            break
        x[going], gaps[going], moved = _advance(problem.at(going), x[going], gaps[going])
        going = going[moved]
    # Where the gap is rounding, the last digits of x.
    x[inside], gaps[inside], _ = _advance(problem.at(inside), x[inside], gaps[inside], attempts=1)
    values, bounds = problem.value(x), np.full(len(x), np.inf)
    bounds[inside] = values[inside] + np.maximum(gaps[inside], 0.0)
    return Maxima(x=x, values=values, bounds=bounds)


def _advance(
    problem: ConcaveProblem, x: FloatArray, gaps: FloatArray, attempts: int = NEWTON_HALVINGS + GRADIENT_HALVINGS
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """The first points along halved steps at which f rises or is level with a smaller gap; and which there are."""
    ahead, new_gaps, moved = x.copy(), gaps.copy(), np.zeros(len(x), dtype=np.bool_)
    values, sizes = problem.value(x), problem.size(x)
    gradient = problem.earned(x) - problem.linear - 2.0 * problem.quadratic * x
    newton, uphill = _directions(problem, x, gaps, gradient)
    for attempt in range(attempts):
        index = np.flatnonzero(~moved)
        if not index.size:
            break
        some, is_newton = problem.at(index), attempt < NEWTON_HALVINGS
        step = newton[index] * 0.5**attempt if is_newton else uphill[index] * 0.5 ** (attempt - NEWTON_HALVINGS)
        tried = some.project(x[index] + step)
        rise = some.value(tried) - values[index]
        promised = (gradient[index] * (tried - x[index])).sum(axis=-1)
        rises = (promised > 0) & (rise > SUFFICIENT_RISE * promised)
        likely = rises | (np.abs(rise) <= VALUE_ROUNDING * sizes[index])
        index, tried, rises, some = index[likely], tried[likely], rises[likely], problem.at(index[likely])
        gap = some.gaps(tried, some.earned(tried)).sum(axis=-1)
        good = np.isfinite(gap) & (rises | (gap < 0.5 * gaps[index]))
        ahead[index[good]], new_gaps[index[good]], moved[index[good]] = tried[good], gap[good], True
    return ahead, new_gaps, moved


def _directions(
    problem: ConcaveProblem, x: FloatArray, gaps: FloatArray, gradient: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Newton steps of the free lots, and the gradient over the Hessian's diagonal, for where these do not rise.

    The Hessian is flat where lots replace each other: a ridge that vanishes with the gap keeps steps short. It is steep
    across the shared caps that are full, so that steps lead along them.
    """
    full = np.matmul(problem.shared, x[..., None])[..., 0] >= problem.limits * (1.0 - FULL_CAP_TOLERANCE)
    if full.size:
        brought = (problem.shared > 0) & (x > 0)[:, None, :]
        price = np.where(brought, gradient[:, None, :], np.inf).min(axis=-1)  # of what gives way first
        full &= np.isfinite(price) & (price > 0)
        gradient = gradient - np.matmul(np.where(full, price, 0.0)[..., None, :], problem.shared)[..., 0, :]
    free = ~(((x <= 0) & (gradient < 0)) | ((x >= problem.upper) & (gradient > 0)))
    lots = np.flatnonzero(free.any(axis=0))
    free, gradient, columns = free[:, lots], gradient[:, lots], problem.weights[:, :, lots]
    curvature = -problem._rows(problem.data(x), problem.payoff.curvature, -np.inf)
    newton, uphill = np.zeros((2, *x.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        hessian = np.matmul(np.swapaxes(columns, -1, -2) * curvature[:, None, :], columns)
        diagonal = np.einsum("pii->pi", hessian)
        diagonal += 2.0 * problem.quadratic[:, lots]
        upper, straight = problem.upper[:, lots], diagonal <= np.finfo(float).tiny
        exchanged = np.matmul(1.0 * full[..., None, :], problem.shared[..., lots])[..., 0, :] > 0
        flat = free & straight & ~exchanged  # f is a line here: the best is at a bound
        to_bound = np.sign(gradient) * upper
        scale = np.where(free & ~flat, np.where(straight, upper, 1.0 / np.sqrt(np.where(straight, 1.0, diagonal))), 0.0)
        hessian *= scale[:, :, None] * scale[:, None, :]
        across = full[..., None] * problem.shared[..., lots] * scale[:, None, :]
        across /= np.maximum(np.abs(across).max(axis=-1, keepdims=True, initial=0.0), np.finfo(float).tiny)
        hessian += CAP_STEEPNESS * np.matmul(np.swapaxes(across, -1, -2), across)
        diagonal += np.where(free & ~flat, np.clip(gaps / (problem.size(x) + gaps), MIN_RIDGE, MAX_RIDGE)[:, None], 1.0)
        known = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(scale * gradient).all(axis=1)
        try:
            steps = np.linalg.solve(hessian[known], (scale * gradient)[known][..., None])[..., 0]
        except np.linalg.LinAlgError:  # the ridge of one of them is lost beside a full cap
            inverses = np.linalg.pinv(hessian[known], hermitian=True)
            steps = np.matmul(inverses, (scale * gradient)[known][..., None])[..., 0]
        newton[np.ix_(known, lots)] = np.where(flat[known], to_bound[known], scale[known] * steps)
        uphill[:, lots] = np.where(flat, to_bound, scale * scale * gradient)
    newton, uphill = np.nan_to_num([newton, uphill], posinf=0.0, neginf=0.0)
    return newton, uphill
