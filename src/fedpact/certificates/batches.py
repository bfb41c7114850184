"""Bounds for many federations at once, those of `deviations`, `optimality` and `shapley_check`, in one pass.

Utilities are concave in what an agent decides, and so is welfare: tangents bound every gain. At an equilibrium they are
tight. Arrays are (federations, n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.deviations import price_taking
from fedpact.certificates.optimality import tangent_gains
from fedpact.certificates.shapley_check import (
    MAX_COALITION_AGENTS,
    MAX_ERROR,
    Coalitions,
    check_shares,
    domain_limits,
    leaves_domain,
)
from fedpact.certificates.tolerances import utility_tolerances
from fedpact.federation import Batch
from fedpact.utils.arrays import FloatArray

MAX_COALITION_DATA = 2_000_000  # numbers held at once
BRACKET = 1e-3  # of a contribution: how much further on its slope is looked at where no tangent decides


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchShares:
    """Shapley values and slopes d phi_j / d s_j of every federation; NaN where a coalition leaves the domain.

    Attributes
    ----------
    errors
        (federations,): by how much the values miss the sum of all payoffs.
    proves
        (federations,): whether that is little enough to prove anything by.
    """

    values: FloatArray
    slopes: FloatArray
    errors: FloatArray
    proves: NDArray[np.bool_]


def check_batch_shares(batch: Batch, contributions: FloatArray) -> BatchShares:
    """The Shapley values of every federation: coalitions of all of them together, or each by itself if large."""
    values, slopes = np.full((2, *contributions.shape), np.nan)
    inside = np.asarray(~batch.split(leaves_domain(batch.joined, contributions.ravel())).any(axis=1))
    if batch.n_agents <= MAX_COALITION_AGENTS:
        for places in _portions(batch, np.flatnonzero(inside)):
            values[places], slopes[places] = _coalitions(batch, contributions, places).at_profile()
    else:
        for place in np.flatnonzero(inside):
            shares = check_shares(batch[int(place)], contributions[place])
            if shares is not None:
                values[place], slopes[place] = shares.values, shares.slopes
    payoffs = np.where(inside[:, None], contributions, 0.0)
    payoffs = batch.split(batch.joined.payoffs(payoffs.ravel()))
    errors = np.abs(values.sum(axis=1) - payoffs.sum(axis=1))
    sizes = np.maximum(np.abs(values).sum(axis=1), np.abs(payoffs).sum(axis=1))
    return BatchShares(values=values, slopes=slopes, errors=errors, proves=errors <= MAX_ERROR * sizes)


def share_bounds(batch: Batch, contributions: FloatArray) -> FloatArray:
    """Utilities nobody exceeds by another contribution of its own where Shapley values are paid; NaN without them."""
    shares, profile = check_batch_shares(batch, contributions), contributions.ravel()
    costs = batch.split(batch.joined.costs.value(profile))
    climb = shares.slopes - batch.split(batch.joined.costs.slope(profile))
    upper = _own_limits(batch, contributions)
    gains = tangent_gains(contributions, climb, upper)
    stakes = utility_tolerances(shares.values, costs, 0.0 * costs, batch.split(batch.joined.values))
    suspects = np.flatnonzero((shares.proves[:, None] & ~(gains <= stakes)).any(axis=1))
    if batch.n_agents <= MAX_COALITION_AGENTS:
        for places in _portions(batch, suspects):
            further = np.minimum(contributions[places] * (1.0 + BRACKET), upper[places])
            ahead = _coalitions(batch, contributions, places).slopes(further)
            ahead = ahead - batch.take(places).split(batch.take(places).joined.costs.slope(further.ravel()))
            upper[places] = np.where(ahead <= 0, further, upper[places])
        gains = tangent_gains(contributions, climb, upper)
    return np.asarray(shares.values - costs + gains)


def semivalue_bounds(batch: Batch, contributions: FloatArray, probability: float | None) -> FloatArray:
    """The same where everybody is paid what it adds on average to coalitions drawn with `probability`."""
    values, slopes = np.full((2, *contributions.shape), np.nan)
    inside = np.asarray(~batch.split(leaves_domain(batch.joined, contributions.ravel())).any(axis=1))
    for places in _portions(batch, np.flatnonzero(inside)):
        some = batch.take(places)
        games = Coalitions(some.joined, some.weights, contributions[places], probability=probability)
        values[places], slopes[places] = games.at_profile()
    profile = contributions.ravel()
    climb = slopes - batch.split(batch.joined.costs.slope(profile))
    gains = tangent_gains(contributions, climb, _own_limits(batch, contributions))
    return np.asarray(values - batch.split(batch.joined.costs.value(profile)) + gains)


def price_bounds(batch: Batch, contributions: FloatArray) -> FloatArray:
    """The best each agent could do at the personal prices of its federation's profile."""
    return batch.split(price_taking(batch.joined, contributions.ravel(), blocks=len(batch)).utilities)


def welfare_rises(batch: Batch, contributions: FloatArray) -> FloatArray:
    """(federations,): by how much welfare could be higher elsewhere, at most."""
    profile = contributions.ravel()
    earned = np.asarray(batch.joined.weights.T @ batch.joined.marginal_payoffs(profile))
    upper = np.maximum(batch.bounds()[0], profile)
    gains = tangent_gains(profile, earned - batch.joined.costs.slope(profile), upper)
    return np.asarray(batch.split(gains).sum(axis=1))


def _own_limits(batch: Batch, contributions: FloatArray) -> FloatArray:
    """How far an agent may want to go: in federations without harm, no further than its data could pay for."""
    profile, harms = contributions.ravel(), np.asarray((batch.weights < 0).any(axis=(1, 2)))
    limits = domain_limits(batch.joined, profile)
    sensible = np.minimum(limits, np.maximum(batch.bounds()[0], profile))
    return np.where(harms[:, None], batch.split(limits), batch.split(sensible))


def _coalitions(batch: Batch, contributions: FloatArray, places: NDArray[np.intp]) -> Coalitions:
    some = batch.take(places)
    return Coalitions(some.joined, some.weights, contributions[places])


def _portions(batch: Batch, places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Federations in portions whose coalitions fit into memory."""
    size = max(1, MAX_COALITION_DATA // (batch.n_agents << batch.n_agents))
    return [places[first : first + size] for first in range(0, places.size, size)]
