"""One question, `shapley_values`, and the three routes that answer it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation, Population, require_federation
from fedpact.shapley.compiled import Precision, integrate
from fedpact.shapley.enumeration import enumerate_shapley
from fedpact.shapley.quadrature import quadrature_shapley
from fedpact.shapley.receiver_rows import receiver_rows
from fedpact.shapley.routes import MAX_ENUMERATED_AGENTS, METHODS, Route, choose_route
from fedpact.shapley.sampling import sample_shapley
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged, OutsideDomain

DEFAULT_PERMUTATIONS = 2000
DEFAULT_TOLERANCE = 1e-10
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
        "enumeration", "quadrature" or "sampling".
    standard_errors
        Of the values, when they were sampled; zero otherwise.
    """

    values: FloatArray
    gradient: FloatArray
    efficiency_gap: float
    method: str
    standard_errors: FloatArray


def shapley_values(
    federation: Federation | Population,
    contributions: ArrayLike,
    *,
    method: str = "auto",
    tolerance: float = DEFAULT_TOLERANCE,
    permutations: int = DEFAULT_PERMUTATIONS,
    rng: np.random.Generator | int | None = None,
) -> ShapleyValues:
    """Each agent's Shapley share of the total payoff A(s), equation (8) of the paper.

    Parameters
    ----------
    federation, contributions
        The game: coalition X has the payoff A of the profile in which the others contribute nothing. For a
        `Population`, contributions and values are those of one agent of each type.
    method
        "enumeration" of all coalitions (up to 20 agents), "quadrature" (any number), "sampling" of `permutations`
        orders, or "auto": the cheaper of the first two that meets the tolerance.
    tolerance
        Relative error the quadrature has to meet. Close to the edge of the domain, where digits cancel, it may not
        be able to; then `NotConverged` says so, with what was reached in `result`.
    permutations, rng
        For sampling.

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
    if isinstance(federation, Population):
        return _of_types(federation, contributions, tolerance)
    require_federation(federation)
    profile = federation.checked_contributions(contributions)
    check_domain(federation, profile)
    errors, rounding = np.zeros(federation.n_agents), 0.0
    if method == "sampling":
        generator = np.random.default_rng(rng)
        values, gradient, errors = sample_shapley(federation, profile, permutations=permutations, rng=generator)
    else:
        route = choose_route(federation, method)
        few = method == "auto" and federation.n_agents <= MAX_ENUMERATED_AGENTS
        if few and route is not Route.COALITIONS and _edge_error(federation, profile) > tolerance:
            route = Route.COALITIONS  # which keep their digits
        method = "enumeration" if route is Route.COALITIONS else "quadrature"
        values, gradient, rounding = _values_by(route, federation, profile, tolerance)
    result = ShapleyValues(
        values=read_only_copy(values),
        gradient=read_only_copy(gradient),
        efficiency_gap=_efficiency_gap(values, federation.payoffs(profile), _helped_payoff(federation, profile)),
        method=method,
        standard_errors=read_only_copy(errors),
    )
    if method == "quadrature":
        size = max(float(np.abs(federation.payoffs(profile)).sum()), _helped_payoff(federation, profile), TINY)
        _check_precision(federation, result, tolerance, min(_edge_error(federation, profile), rounding / size))
    return result


def _values_by(
    route: Route, federation: Federation, profile: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray, float]:
    """Values and slopes by one of the routes, and the rounding of the values where it is known."""
    if route is Route.COALITIONS:
        return *enumerate_shapley(federation, profile), 0.0
    if route is Route.NUMPY:
        return *quadrature_shapley(federation, profile), np.inf
    integrals = integrate(receiver_rows(federation), profile, Precision.reaching(tolerance))
    return integrals.values, integrals.slopes, integrals.rounding


def _of_types(population: Population, contributions: ArrayLike, tolerance: float) -> ShapleyValues:
    profile = population.types.checked_contributions(contributions)
    if population.types.has_harm:
        raise InvalidInput("a population's weights must be at least zero; expand it to allow for harm")
    integrals = integrate(receiver_rows(population), profile, Precision.reaching(tolerance))
    payoffs = population.payoffs(profile)
    return ShapleyValues(
        values=read_only_copy(integrals.values),
        gradient=read_only_copy(integrals.slopes),
        efficiency_gap=_efficiency_gap(population.counts * integrals.values, population.counts * payoffs, 0.0),
        method="quadrature",
        standard_errors=read_only_copy(np.zeros(profile.size)),
    )


def _helped_payoff(federation: Federation, profile: FloatArray) -> float:
    """The total payoff if nobody harmed anybody: a scale where help and harm cancel."""
    if not federation.has_harm:
        return 0.0
    helped = federation.highest_data(profile)
    return float((federation.values * federation.payoff.value(helped)).sum())


def _efficiency_gap(values: FloatArray, payoffs: FloatArray, helped: float) -> float:
    size = max(float(np.abs(payoffs).sum()), helped, TINY)
    return float(abs(values.sum() - payoffs.sum()) / size)


def _check_precision(federation: Federation, result: ShapleyValues, tolerance: float, reached: float) -> None:
    if not federation.has_harm:
        if result.efficiency_gap > max(tolerance, EFFICIENCY_TOLERANCE):
            raise NotConverged(
                f"the quadrature misses the total payoff by {result.efficiency_gap:.0e}, more than {tolerance:.0e}",
                result=result,
            )
        return
    if max(reached, result.efficiency_gap) > tolerance:
        raise NotConverged(
            f"this close to the edge of the domain the quadrature is good to about "
            f"{max(reached, result.efficiency_gap):.0e} only, not "
            f"{tolerance:.0e}; ask for a larger tolerance, or use enumeration for few members",
            result=result,
        )


def _edge_error(federation: Federation, profile: FloatArray) -> float:
    """A bound before any work: near the edge exponents of size t cancel, up to t = 36 over the distance."""
    if not federation.has_harm:
        return 0.0
    floor = np.broadcast_to(federation.payoff.floor, federation.n_tasks)
    distance = np.where(np.isfinite(floor), federation.lowest_data(profile) - floor, 1.0)
    return 40.0 * np.finfo(float).eps * float((np.abs(np.where(np.isfinite(floor), floor, 1.0)) / distance).max())


def undefined_values(n_agents: int, n_lots: int | None = None) -> ShapleyValues:
    """What stands for the Shapley values of a profile at which some coalition leaves the domain."""
    unknown = read_only_copy(np.full(n_agents, np.nan))
    slopes = unknown if n_lots is None else read_only_copy(np.full(n_lots, np.nan))
    return ShapleyValues(
        values=unknown, gradient=slopes, efficiency_gap=np.nan, method="undefined", standard_errors=unknown
    )


def check_domain(federation: Federation, contributions: FloatArray) -> None:
    """Refuse profiles at which some coalition leaves the domain: the worst holds just those who harm."""
    worst = federation.lowest_data(contributions)
    floor = np.broadcast_to(federation.payoff.floor, worst.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        outside = (worst <= floor) | ~np.isfinite(federation.payoff.value(worst))
    if outside.any():
        task = int(np.flatnonzero(outside)[0])
        by = " if only those whose data harms it are there"
        said = federation.payoff.harm_text(federation.task_labels, task, worst[task], by=by)
        raise OutsideDomain(f"{said}; lower their contributions")
