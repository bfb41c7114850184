"""How much welfare is left on the table: an upper bound from the dual program, and a better profile where there is one.

For any prices m_i >= 0 of reach,

    max W <= sum_i sup_y [values_i g_i(y) - m_i y] + sum_j max over [0, cap_j] of [(W^T m)_j s - c_j(s)].

The bound is tight at m_i = a_i'(xi_i*). At any profile it is evaluated at the profile's own marginal payoffs, and at
those scaled down until no agent without a binding cap would want to contribute more; the smaller counts.

Concave maximisation over [0, upper] for many agents at once, by bisection on their slopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.shared_caps import (
    InteriorClimb,
    add_room_worth,
    best_contributions,
    sales_within,
    steepest_first_prices,
)
from fedpact.federation import Cost, Federation, Payoff, SharedCap
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.validation import Weights
from fedpact.utils.arrays import FloatArray

__all__ = [
    "ConcaveGame",
    "best_at_prices",
    "best_contributions",
    "better_profile",
    "climb",
    "sales",
    "tangent_gains",
    "welfare_bound",
]
MAX_RISING_STEPS, MAX_HALVINGS = 200, 60
MAX_DENSE_AGENTS, CG_TOLERANCE = 1000, 1e-8
TANGENT_GAIN_TOLERANCE = 1e-13  # of what there is to be spent: a gain by the tangents that counts as none
SUFFICIENT_RISE = 1e-4  # of what the slopes promise
RIDGE = 1e-13
WELFARE_ROUNDING = 1e-13  # of welfare: a change that is none


def tangent_gains(
    contributions: FloatArray, slopes: FloatArray, upper: FloatArray, shared_caps: Sequence[SharedCap] = ()
) -> FloatArray:
    """What each agent can gain at most on [0, upper], its utility being concave with this slope where it is.

    Of lots that share caps, what is gained together counts where it adds up right over the lots of each cap.
    """
    if shared_caps:
        prices, per_lot = steepest_first_prices(slopes, upper, shared_caps)
        return add_room_worth(tangent_gains(contributions, slopes - per_lot, upper), contributions, prices, shared_caps)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(slopes > 0, slopes * (upper - contributions), -slopes * contributions)


def welfare_bound(federation: Federation, contributions: FloatArray) -> float:
    """An upper bound on the welfare of every admissible profile, tight when `contributions` are optimal.

    Any profile gives a valid bound, so it does not matter where the contributions come from.
    """
    upper, _ = contribution_bounds(federation)
    prices = federation.marginal_payoffs(contributions)
    earned = np.asarray(federation.weights.T @ prices)
    marginal_cost = federation.costs.slope(contributions)
    if federation.shared_caps:  # what a sample takes of a cap is a cost too
        marginal_cost = marginal_cost + steepest_first_prices(earned - marginal_cost, upper, federation.shared_caps)[1]
    slack = (contributions < upper) & (earned > 0)
    candidates = [1.0]
    if slack.any():
        candidates.append(float(min(1.0, (marginal_cost[slack] / earned[slack]).min())))
    return min(_dual_value(federation, prices * factor, upper) for factor in candidates if factor > 0)


def better_profile(federation: Federation, contributions: FloatArray) -> FloatArray:
    """A profile with more welfare, if there is one: Newton steps projected on the box, from here.

    A contribution stays at a bound that its slope pushes it against; the others take a Newton step, which is halved
    until it stays in the domain and welfare rises or, at the end, the tangents' bound falls. Where the profile given is
    not admissible, it begins at nothing.
    """
    upper, scale = contribution_bounds(federation)
    s = np.clip(contributions, 0.0, upper)
    for shared in federation.shared_caps:
        own = list(shared.lots)
        s[own] *= min(1.0, shared.cap / max(float(s[own].sum()), np.finfo(float).tiny))
    if not federation.admits(s):  # somebody's help may have been what kept it in the domain
        s = np.zeros_like(contributions)
    return climb(federation, s, upper, scale)


class ConcaveGame(Protocol):
    """What is climbed: payoffs of weighted sums, less costs. A federation is one."""

    @property
    def weights(self) -> Weights: ...
    @property
    def values(self) -> FloatArray: ...
    @property
    def payoff(self) -> Payoff: ...
    @property
    def costs(self) -> Cost: ...
    @property
    def shared_caps(self) -> tuple[SharedCap, ...]: ...
    def data(self, contributions: FloatArray, /) -> FloatArray: ...
    def marginal_payoffs(self, contributions: FloatArray, /) -> FloatArray: ...
    def welfare(self, contributions: FloatArray, /) -> float: ...
    def admits(self, contributions: FloatArray, /) -> bool: ...


def climb(federation: ConcaveGame, s: FloatArray, upper: FloatArray, scale: float) -> FloatArray:
    """Projected Newton steps on the box up to `upper`, from an admissible profile; `scale` is the size of welfare."""
    if federation.shared_caps:
        return _climb_within(federation, s, upper, scale)
    slopes, gain = _slopes_and_gain(federation, s, upper)
    for _ in range(MAX_RISING_STEPS):
        if gain <= TANGENT_GAIN_TOLERANCE * scale:
            break
        free = np.flatnonzero(~((s <= 0) & (slopes <= 0)) & ~((s >= upper) & (slopes >= 0)))
        for direction in (_newton_step, _scaled_slopes):
            step = np.zeros_like(s)
            step[free] = direction(federation, s, slopes, free)
            ahead = _ahead(federation, s, slopes, gain, step, upper=upper, scale=scale)
            if ahead is not None:
                s, slopes, gain = ahead
                break
        else:
            break
    return np.asarray(s)


def _ahead(
    federation: ConcaveGame,
    s: FloatArray,
    slopes: FloatArray,
    gain: float,
    step: FloatArray,
    *,
    upper: FloatArray,
    scale: float,
) -> tuple[FloatArray, FloatArray, float] | None:
    """The first profile along a step, halved, at which welfare rises, with its slopes and gain; None if there is none.

    At the end of a climb, where welfare no longer tells profiles apart, it is one at which the gain falls.
    """
    before = federation.welfare(s)
    for halving in range(MAX_HALVINGS):
        ahead = np.clip(s + 0.5**halving * step, 0.0, upper)
        if not federation.admits(ahead):
            continue
        risen = federation.welfare(ahead) - before
        new_slopes, new_gain = _slopes_and_gain(federation, ahead, upper)
        finishing = abs(risen) <= WELFARE_ROUNDING * scale and new_gain < 0.5 * gain
        if finishing or risen > SUFFICIENT_RISE * float(slopes @ (ahead - s)) > 0:
            return ahead, new_slopes, new_gain
    return None


def _climb_within(federation: ConcaveGame, s: FloatArray, upper: FloatArray, scale: float) -> FloatArray:
    """The same within shared caps, along a barrier."""
    columns = federation.weights if isinstance(federation.weights, np.ndarray) else federation.weights.toarray()

    def slopes(at: FloatArray) -> FloatArray:
        return np.asarray(columns.T @ federation.marginal_payoffs(at)) - federation.costs.slope(at)

    def curvature(at: FloatArray) -> FloatArray:
        bends = -federation.values * federation.payoff.curvature(federation.data(at))
        return np.asarray(columns.T @ (bends[:, None] * columns) + np.diag(federation.costs.curvature(at)))

    barrier = InteriorClimb(
        slopes, curvature, federation.admits, upper=upper, shared_caps=federation.shared_caps, scale=scale
    )
    return barrier.run(s, lambda at: _slopes_and_gain(federation, at, upper)[1], TANGENT_GAIN_TOLERANCE * scale)


def _slopes_and_gain(federation: ConcaveGame, s: FloatArray, upper: FloatArray) -> tuple[FloatArray, float]:
    """The slopes of welfare at a profile, and the most that its tangents promise."""
    slopes = np.asarray(federation.weights.T @ federation.marginal_payoffs(s)) - federation.costs.slope(s)
    return slopes, float(tangent_gains(s, slopes, upper, federation.shared_caps).sum())


def _newton_step(federation: ConcaveGame, s: FloatArray, slopes: FloatArray, free: NDArray[np.intp]) -> FloatArray:
    """Minus the inverse of the welfare's curvature times its slopes, for those who are free to move."""
    with np.errstate(over="ignore"):  # so steep that nobody moves
        bends = -federation.values * federation.payoff.curvature(federation.data(s))
    plain = federation.costs.take(free).curvature(s[free])
    columns = federation.weights[:, free]
    unit = 1.0 / np.sqrt(_own_curvatures(federation, s, free))

    def product(direction: FloatArray) -> FloatArray:
        """The curvature, scaled to a unit diagonal, with a ridge for where there are many optima."""
        scaled = unit * direction.T
        curved = columns.T @ (bends * (columns @ scaled.T).T).T
        return np.asarray((unit * (curved.T + plain * scaled)).T + RIDGE * direction)

    if free.size <= MAX_DENSE_AGENTS:
        with np.errstate(over="ignore"):  # where payoffs hardly bend, a step is as long as the box
            return np.asarray(unit * np.linalg.solve(product(np.eye(free.size)), unit * slopes[free]))
    from scipy.sparse.linalg import LinearOperator, cg  # noqa: PLC0415 - for large federations only

    operator = LinearOperator((free.size, free.size), matvec=product, dtype=np.float64)
    return np.asarray(unit * cg(operator, unit * slopes[free], rtol=CG_TOLERANCE)[0])


def _scaled_slopes(federation: ConcaveGame, s: FloatArray, slopes: FloatArray, free: NDArray[np.intp]) -> FloatArray:
    """A step uphill where a Newton step is none: along a flat direction it is so long that the others are lost in it.

    So it is where lots of one agent replace each other.
    """
    return np.asarray(slopes[free] / _own_curvatures(federation, s, free))


def _own_curvatures(federation: ConcaveGame, s: FloatArray, free: NDArray[np.intp]) -> FloatArray:
    """The diagonal of the welfare's curvature, positive, for those who are free to move."""
    with np.errstate(over="ignore"):
        bends = -federation.values * federation.payoff.curvature(federation.data(s))
    columns = federation.weights[:, free]
    squares = columns**2 if isinstance(columns, np.ndarray) else columns.power(2)
    curvatures = squares.T @ bends + federation.costs.take(free).curvature(s[free])
    return np.maximum(np.asarray(curvatures), np.finfo(float).tiny)


def _dual_value(federation: Federation, prices: FloatArray, upper: FloatArray) -> float:
    data = federation.payoff.inverse_slope(prices / federation.values)
    spent = np.where(prices > 0, prices * np.where(np.isfinite(data), data, 0.0), 0.0)
    surplus = federation.values * federation.payoff.value(data) - spent
    earned = np.asarray(federation.weights.T @ prices)
    return float(surplus.sum() + sales(federation, earned, upper).sum())


def sales(federation: Federation, earned: FloatArray, upper: FloatArray) -> FloatArray:
    """max over [0, upper] of earned_j x - c_j(x), per lot; of lots that share caps within these."""
    if federation.shared_caps:
        return sales_within(
            federation.costs, lambda net: best_at_prices(federation, net, upper), earned, federation.shared_caps
        )
    best = best_at_prices(federation, earned, upper)
    return np.asarray(earned * best - federation.costs.value(best))


def best_at_prices(federation: Federation, earned: FloatArray, upper: FloatArray) -> FloatArray:
    """argmax over [0, upper] of earned_j x - c_j(x)."""
    bend = 2.0 * federation.costs.quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.where(
            bend > 0, (earned - federation.costs.linear) / bend, np.inf * np.sign(earned - federation.costs.linear)
        )
    return np.clip(np.nan_to_num(inner, nan=0.0, posinf=np.inf, neginf=-np.inf), 0.0, upper)
