"""What every member reaches alone, with its own data only: v_i* = max over its own lots of a_i - c_i.

Each member is a federation by itself, of as many lots and tasks as the member with most of them has (those that one
lacks have a cap of zero, or no value), so that all are solved side by side, each at its own scale.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, Owners, sum_by
from fedpact.solvers.interior_point import GAIN_TOLERANCE
from fedpact.solvers.welfare import welfare_optima
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged


def standalone_optimum(federation: Federation) -> tuple[FloatArray, FloatArray]:
    """Contributions (lots) and utilities v_i* (members) of members that train alone, equation (6) of the paper.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, caps=[400.0, 0.0], payoff=PowerLaw(beta=0.1))
    >>> contributions, utilities = standalone_optimum(pair)
    >>> contributions.round(4).tolist(), utilities.round(4).tolist()
    ([7.1113, 0.0], [0.1166, 0.0])
    """
    contributions, utilities = standalone_optima(federation.arrays)
    if np.isnan(utilities).any():
        name = federation.names[int(np.argmax(np.isnan(utilities)))]
        raise NotConverged(f'no optimum was found for what "{name}" reaches alone', result=contributions)
    return read_only_copy(contributions), read_only_copy(utilities)


def standalone_optima(arrays: FederationArrays) -> tuple[FloatArray, FloatArray]:
    """Contributions (..., lots) and utilities (..., members) of members that train alone; NaN where not converged."""
    contributions = np.zeros((*arrays.shape, arrays.n_lots))
    converged = np.ones((*arrays.shape, arrays.n_agents), dtype=np.bool_)
    lots, has_lot = _owned(arrays.lot_owners, arrays.n_agents)
    if has_lot.any() and arrays.n_tasks:
        found, gains = welfare_optima(_alone(arrays, lots, has_lot))
        contributions[..., lots[has_lot]], converged = found[..., has_lot], gains <= GAIN_TOLERANCE
    payoffs = sum_by(arrays.task_owners, arrays.worth(arrays.own_data(contributions)), arrays.n_agents)
    return contributions, np.where(converged, payoffs - arrays.spending(contributions), np.nan)


def _alone(arrays: FederationArrays, lots: Owners, has_lot: NDArray[np.bool_]) -> FederationArrays:
    """Every member as a federation of one, (..., members)."""
    tasks, has_task = _owned(arrays.task_owners, arrays.n_agents)
    rows, columns = tasks[:, :, None], lots[:, None, :]
    weights = arrays.weights[..., rows, columns] if isinstance(arrays.weights, np.ndarray) else None
    if weights is None:
        weights = np.asarray(arrays.weights[np.broadcast_arrays(rows, columns)]).reshape(*tasks.shape, lots.shape[1])
    shape = (*arrays.shape, arrays.n_agents, len(arrays.shared))
    return replace(
        arrays,
        weights=np.where(has_task[:, :, None] & has_lot[:, None, :], weights, 0.0),
        values=np.where(has_task, arrays.values[..., tasks], 0.0),
        linear=arrays.linear[..., lots],
        quadratic=arrays.quadratic[..., lots],
        caps=np.where(has_lot, arrays.caps[..., lots], 0.0),
        payoff=arrays.payoff.map(lambda parameter: np.broadcast_to(parameter, arrays.values.shape)[..., tasks]),
        lot_owners=np.zeros(lots.shape[1], dtype=np.intp),
        task_owners=np.zeros(tasks.shape[1], dtype=np.intp),
        n_agents=1,
        shared=np.moveaxis(np.where(has_lot, arrays.shared[:, lots], 0.0), 0, 1),
        shared_limits=np.broadcast_to(arrays.shared_limits[..., None, :], shape),
    )


def _owned(owners: Owners, n_agents: int) -> tuple[Owners, NDArray[np.bool_]]:
    """What each member owns, (members, most that one owns), and which entries are there."""
    counts = np.bincount(owners, minlength=n_agents)
    there = np.arange(counts.max(initial=0)) < counts[:, None]
    owned = np.zeros(there.shape, dtype=np.intp)
    owned[there] = np.argsort(owners, kind="stable")
    return owned, there
