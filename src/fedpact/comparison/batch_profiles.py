"""The equilibria of a batch by compiled code, and one by one where it does not reach them."""

from __future__ import annotations

import numpy as np

from fedpact.federation import Batch
from fedpact.mechanisms import ExternalityMechanism, Mechanism, ShapleyMechanism
from fedpact.programs.batch_solver import maximise_blocks
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.solver import GAIN_TOLERANCE
from fedpact.shapley.enumeration import coalitions
from fedpact.shapley.routes import MAX_COALITION_AGENTS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError

__all__ = ["is_compiled", "optima", "shapley_equilibria"]

MOST_AGENTS = 16  # in the compiled welfare program


def is_compiled(batch: Batch, mechanism: Mechanism) -> bool:
    """Whether compiled code solves this mechanism on federations of this size and family."""
    if batch.joined.payoff.hyperbola() is None:
        return False
    if isinstance(mechanism, ShapleyMechanism):
        return batch.n_agents <= MAX_COALITION_AGENTS
    return isinstance(mechanism, ExternalityMechanism) and batch.n_agents <= MOST_AGENTS


def optima(batch: Batch) -> FloatArray:
    """A welfare optimum of every federation, NaN where none was reached."""
    if not is_compiled(batch, ExternalityMechanism()):
        return np.array([_single(batch, place, ExternalityMechanism()) for place in range(len(batch))])
    everybody = np.ones((1, batch.n_agents))
    found, gains = maximise_blocks(batch.joined, *batch.bounds(), everybody, np.ones(1), start=_start(batch))
    return _completed(batch, found, gains, ExternalityMechanism())


def shapley_equilibria(batch: Batch) -> FloatArray:
    """The Shapley equilibrium of every federation, NaN where it was not reached."""
    members, shares = coalitions(batch.n_agents)
    bounds = batch.bounds(multiple=batch.harmonic)
    found, gains = maximise_blocks(batch.joined, *bounds, members[1:], shares[1:], start=2.0 * _start(batch))
    return _completed(batch, found, gains, ShapleyMechanism())


def _start(batch: Batch) -> FloatArray:
    """What everybody would contribute alone: the right size, and inside the domain unless harm is strong.

    Under Shapley sharing they contribute more; twice as much is a better guess.
    """
    return standalone_optimum(batch.joined)[0]


def _completed(batch: Batch, contributions: FloatArray, gains: FloatArray, mechanism: Mechanism) -> FloatArray:
    """What compiled code left open, solved one by one."""
    for place in np.flatnonzero(~(gains <= GAIN_TOLERANCE)):
        contributions[place] = _single(batch, int(place), mechanism)
    return contributions


def _single(batch: Batch, place: int, mechanism: Mechanism) -> FloatArray:
    try:
        return mechanism.solve(batch[place]).contributions
    except FedpactError:  # NaN, and the caller says how many
        return np.full(batch.n_agents, np.nan)
