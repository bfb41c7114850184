"""Each member's fair share of what a federation's data is worth: `shapley_values`, and its kin for arrays.

Up to ten members all coalitions are summed (`fedpact.shapley.coalitions`), and up to twenty if asked or if digits
would cancel otherwise; beyond, there is the integral (`fedpact.shapley.integral`). Both are exact.

Shapley values are linear in the game, and the total payoff is a sum over tasks. So phi_j = sum_r phi_rj, and so is the
potential: each term needs the weights, payoff curve and value of one task, and nothing of anybody else's. `Rows` is
what an agent works out from its own tasks alone when a deal is negotiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation, require_federation
from fedpact.federation.arrays import FederationArrays, Owners, sum_by
from fedpact.federation.payoffs import Payoff
from fedpact.shapley import coalitions, integral
from fedpact.shapley.integral import credit, potential
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged, OutsideDomain

METHODS = ("auto", "enumeration", "quadrature")
DEFAULT_TOLERANCE = 1e-10
FEW_ENUMERATED = 10  # of one federation; side by side coalitions are the cheaper way for some more
TINY = float(np.finfo(float).tiny)
EFFICIENCY_TOLERANCE = 1e-12  # sums of many values are not exact beyond this


@dataclass(frozen=True, kw_only=True, eq=False)
class ShapleyValues:
    """Shapley values at a profile, and how they were obtained.

    Attributes
    ----------
    values
        phi_j, each agent's share of the total payoff.
    gradient
        d phi_j / d s_j, for each lot of agent j.
    efficiency_gap
        How far sum(phi) is from A, relative to the sum of absolute payoffs, or to what it would be without harm.
    method
        "enumeration" or "quadrature".
    """

    values: FloatArray
    gradient: FloatArray
    efficiency_gap: float
    method: str

    def to_frame(self) -> Any:
        """A pandas frame of the values by agent number, with the gradient where everybody has one lot."""
        from fedpact.report.records import agents_frame  # noqa: PLC0415 - optional dependency

        own = {"gradient": self.gradient} if self.gradient.shape == self.values.shape else {}
        return agents_frame([str(agent) for agent in range(self.values.size)], {"values": self.values, **own})


def shapley_values(
    federation: Federation,
    contributions: ArrayLike,
    *,
    method: str = "auto",
    tolerance: float = DEFAULT_TOLERANCE,
) -> ShapleyValues:
    """Each agent's Shapley share of the total payoff A(s), equation (8) of the paper.

    Parameters
    ----------
    federation, contributions
        The game: coalition X has the payoff A of the profile in which the others contribute nothing.
    method
        "enumeration" of all coalitions (up to 20 agents), "quadrature" (any number), or "auto": the cheaper of the two
        that meets the tolerance.
    tolerance
        Relative error the quadrature has to meet. Close to the edge of the domain, where digits cancel, it may not
        be able to; then `NotConverged` says so, with what was reached in `result`.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.01, payoff=PowerLaw(beta=1.0))
    >>> shapley_values(federation, [1.0, 1.0]).values.round(6).tolist()
    [0.383333, 0.716667]
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if not 0 < tolerance < 1:
        raise InvalidInput(f"tolerance must lie between 0 and 1, got {tolerance!r}")
    require_federation(federation)
    profile = federation.checked_contributions(contributions)
    check_domain(federation, profile)
    arrays = federation.arrays
    if method == "auto":
        method = "enumeration" if _are_few(arrays, profile, tolerance) else "quadrature"
    if method == "quadrature":
        return _integrated(arrays, profile, tolerance)
    values, gradient = coalitions.values_and_gradient(arrays, profile)
    return _result(values, gradient, _efficiency_gap(arrays, profile, values), method)


def share_values(
    arrays: FederationArrays, contributions: FloatArray, probability: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Shapley values (..., members) and d phi_owner(l) / d s_l (..., lots), for all leading axes.

    With a `probability`, the semivalues of groups that each of the others is in with that probability.

    NaN for a federation some coalition of which leaves the domain of the payoff.

    Raises
    ------
    NotConverged
        Where one of many members is so close to the edge of the domain that digits cancel.
    """
    if arrays.n_agents <= coalitions.FEW_MEMBERS:
        coefficients = coalitions.size_coefficients(arrays.n_agents, probability)
        return coalitions.values_and_gradient(arrays, contributions, coefficients)
    shape = np.broadcast_shapes(arrays.shape, contributions.shape[:-1])
    profiles = np.broadcast_to(contributions, (*shape, arrays.n_lots))
    values, gradient = np.full((*shape, arrays.n_agents), np.nan), np.full((*shape, arrays.n_lots), np.nan)
    outside = (arrays.lowest_data(contributions) <= np.asarray(arrays.payoff.lowest_finite)).any(axis=-1)
    outside = np.broadcast_to(outside, shape)
    for index in np.ndindex(shape):
        if outside[index]:
            continue
        one = arrays.at(index[len(shape) - len(arrays.shape) :]) if arrays.shape else arrays
        if probability is not None:
            values[index], gradient[index], _ = integral.integrate(one, profiles[index], probability=probability)
        elif _are_few(one, profiles[index], DEFAULT_TOLERANCE):
            values[index], gradient[index] = coalitions.values_and_gradient(one, profiles[index])
        else:
            found = _integrated(one, profiles[index], DEFAULT_TOLERANCE)
            values[index], gradient[index] = found.values, found.gradient
    return values, gradient


def undefined_values(n_agents: int, n_lots: int | None = None) -> ShapleyValues:
    """What stands for the Shapley values of a profile at which some coalition leaves the domain."""
    unknown = np.full(n_agents, np.nan)
    return _result(unknown, unknown if n_lots is None else np.full(n_lots, np.nan), np.nan, "undefined")


def check_domain(federation: Federation, contributions: FloatArray) -> None:
    """Refuse profiles at which some coalition leaves the domain: the worst holds just those who harm."""
    worst = federation.arrays.lowest_data(contributions)
    floor = np.broadcast_to(federation.arrays.payoff.floor, worst.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        outside = (worst <= floor) | ~np.isfinite(federation.arrays.payoff.value(worst))
    if outside.any():
        task = int(np.flatnonzero(outside)[0])
        by = " if only those whose data harms it are there"
        said = federation.arrays.payoff.harm_text(federation.task_labels, task, worst[task], by=by)
        way_out = 'or let everybody leave out what harms it: models = "personal", with_personal_models()'
        raise OutsideDomain(f"{said}; lower their contributions, {way_out}")


def _are_few(arrays: FederationArrays, contributions: FloatArray, tolerance: float) -> bool:
    """Whether coalitions are cheaper than the integral, or keep digits that it would lose."""
    if arrays.n_agents <= FEW_ENUMERATED:
        return True
    return arrays.n_agents <= coalitions.MAX_ENUMERATED_MEMBERS and _edge_error(arrays, contributions) > tolerance


def _integrated(arrays: FederationArrays, contributions: FloatArray, tolerance: float) -> ShapleyValues:
    """Shapley values by the integral, held against the total payoff."""
    shares = integral.integrate(arrays, contributions)
    gap = _efficiency_gap(arrays, contributions, shares.values)
    result = _result(shares.values, shares.gradient, gap, "quadrature")
    reached = min(_edge_error(arrays, contributions), shares.rounding / _payoff_scale(arrays, contributions))
    if reached > tolerance:
        raise NotConverged(
            f"this close to the edge of the domain the quadrature is good to about {reached:.0e} only, not "
            f"{tolerance:.0e}; ask for a larger tolerance, or use enumeration for few members",
            result=result,
        )
    return _check_efficiency(result, tolerance)


def _check_efficiency(result: ShapleyValues, tolerance: float) -> ShapleyValues:
    if result.efficiency_gap > max(tolerance, EFFICIENCY_TOLERANCE):
        raise NotConverged(
            f"the quadrature misses the total payoff by {result.efficiency_gap:.0e}, more than {tolerance:.0e}",
            result=result,
        )
    return result


def _result(values: FloatArray, gradient: FloatArray, gap: float, method: str) -> ShapleyValues:
    return ShapleyValues(
        values=read_only_copy(values), gradient=read_only_copy(gradient), efficiency_gap=gap, method=method
    )


def _payoff_scale(arrays: FederationArrays, contributions: FloatArray) -> float:
    """The sum of absolute payoffs, or the total payoff if nobody harmed anybody, where help and harm cancel."""
    helped = float(arrays.worth(arrays.highest_data(contributions)).sum()) if arrays.has_harm else 0.0
    return max(float(np.abs(arrays.payoffs(contributions)).sum()), helped, TINY)


def _efficiency_gap(arrays: FederationArrays, contributions: FloatArray, values: FloatArray) -> float:
    missed = abs(values.sum() - arrays.payoffs(contributions).sum())
    return float(missed / _payoff_scale(arrays, contributions))


def _edge_error(arrays: FederationArrays, contributions: FloatArray) -> float:
    """A bound before any work: near the edge exponents of size t cancel, up to t = 36 over the distance."""
    if not arrays.has_harm:
        return 0.0
    floor = np.where(np.isfinite(arrays.floor), arrays.floor, -1.0)
    distance = np.where(np.isfinite(arrays.floor), arrays.lowest_data(contributions) - floor, 1.0)
    return 40.0 * np.finfo(float).eps * float((np.abs(floor) / distance).max())


class TaskShares(NamedTuple):
    """Everybody's shares of the payoffs of tasks (tasks, members), and their derivatives by lots (tasks, lots)."""

    values: FloatArray
    slopes: FloatArray


class Rows(NamedTuple):
    """Some tasks: their weights (tasks, lots), curves and values; and whose all lots are, of so many members."""

    weights: FloatArray
    payoff: Payoff
    values: FloatArray
    lot_owners: Owners
    n_agents: int

    def shares(self, contributions: FloatArray) -> TaskShares:
        """Everybody's shares of these payoffs; raises `OutsideDomain` if a coalition leaves the domain of one.

        Examples
        --------
        >>> from fedpact import PowerLaw
        >>> row = Rows(np.array([[1.0, 0.5]]), PowerLaw(1.0), np.ones(1), np.arange(2), 2)
        >>> row.shares(np.array([1.0, 1.0])).values.round(6).tolist()
        [[0.383333, 0.216667]]
        """
        found, value = credit(self._brought(contributions), self.payoff), self.values[:, None]
        return TaskShares(value * found.values, value * self.weights * found.derivatives[:, self.lot_owners])

    def potential(self, contributions: FloatArray) -> float:
        """The terms of the potential, together; raises `OutsideDomain`."""
        return float(self.values @ potential(self._brought(contributions), self.payoff))

    def _brought(self, contributions: FloatArray) -> FloatArray:
        """The data that each member's lots bring to each task, (tasks, members)."""
        brought = sum_by(self.lot_owners, self.weights * contributions, self.n_agents)
        lowest = np.minimum(brought, 0.0).sum(axis=1)
        if not ((lowest > self.payoff.lowest_finite).all() and np.isfinite(brought).all()):
            data = f"weighted data from {lowest.min(initial=0.0):g} to {brought.max(initial=0.0):g}"
            raise OutsideDomain(f"{data} is outside the domain of the payoff")
        return brought
