"""Solving a batch: compiled code for both mechanisms, single solves for the few it leaves and for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedpact.comparison.batch_outcome import BatchOutcome
from fedpact.comparison.batch_profiles import is_compiled, optima, shapley_equilibria
from fedpact.federation import Batch
from fedpact.mechanisms import Mechanism, ShapleyMechanism, Standalone
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.optimal_face import faces_possible
from fedpact.programs.social_optimum import optimum_at
from fedpact.shapley.enumeration import enumerate_blocks
from fedpact.shapley.routes import MAX_COALITION_AGENTS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, NotConverged

__all__ = ["solve_batch"]

Progress = Callable[[int], None]


def solve_batch(batch: Batch, mechanism: Mechanism, *, progress: Progress | None = None) -> BatchOutcome:
    """The outcome of a mechanism on every federation of a batch, the same as solving each alone.

    `progress` is called with the number of federations that are done, now and then. Federations that cannot be solved
    raise `NotConverged`, whose `result` holds all the others, with NaN in their place.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import ExternalityMechanism, Federation, PowerLaw
    >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
    >>> outcome = solve_batch(Batch.varied(base, costs=np.array([[0.001], [0.002]])), ExternalityMechanism())
    >>> outcome.contributions[0].round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    report = progress or _silent
    faces: tuple[int, ...] = ()
    if isinstance(mechanism, Standalone):
        contributions = batch.split(standalone_optimum(batch.joined)[0])
    elif not is_compiled(batch, mechanism):
        contributions, faces = _one_by_one(batch, mechanism, report)
    elif isinstance(mechanism, ShapleyMechanism):
        contributions = shapley_equilibria(batch)
    else:
        contributions, faces = _canonical(batch, optima(batch))
    report(len(batch))
    found = _with_payments(
        BatchOutcome(
            batch=batch,
            mechanism=mechanism,
            contributions=contributions,
            payments=np.full(contributions.shape, np.nan),
            faces=faces,
        )
    )
    failed = np.flatnonzero(~found.solved)
    if failed.size:
        raise NotConverged(
            f"{failed.size} of {len(batch)} federations could not be solved, the first is number {failed[0]}",
            result=found,
        )
    return found


def _canonical(batch: Batch, contributions: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
    """Each optimum moved to the one of smallest norm, and which federations have several optima."""
    upper, scale = batch.bounds()
    profile = np.nan_to_num(contributions).ravel()
    earned = np.asarray(batch.joined.weights.T @ batch.joined.marginal_payoffs(profile))
    marginal = batch.split(earned - batch.joined.costs.slope(profile))
    linear = (np.zeros(batch.joined.n_agents) + batch.joined.costs.quadratic).reshape(marginal.shape) == 0
    faces = []
    for place in faces_possible(batch.weights, marginal, batch.split(upper), scale, linear):
        if np.isnan(contributions[place]).any():
            continue
        optimum = optimum_at(batch[int(place)], contributions[place])
        contributions[place] = optimum.contributions
        if optimum.face is not None and not optimum.face.is_point:
            faces.append(int(place))
    return contributions, tuple(faces)


def _one_by_one(batch: Batch, mechanism: Mechanism, report: Progress) -> tuple[FloatArray, tuple[int, ...]]:
    contributions = np.empty((len(batch), batch.n_agents))
    faces = []
    for place in range(len(batch)):
        report(place)
        try:
            outcome = mechanism.solve(batch[place])
        except FedpactError:
            contributions[place] = np.nan
            continue
        contributions[place] = outcome.contributions
        if outcome.face is not None and not outcome.face.is_point:
            faces.append(place)
    return contributions, tuple(faces)


def _with_payments(outcome: BatchOutcome) -> BatchOutcome:
    """The outcome with what the mechanism pays at its profiles."""
    batch, profile, shares = outcome.batch, outcome.profile, None
    if isinstance(outcome.mechanism, ShapleyMechanism) and batch.n_agents <= MAX_COALITION_AGENTS:
        shares = enumerate_blocks(batch.joined, profile, len(batch))
        payments = shares[0] - batch.split(batch.joined.payoffs(profile))
    else:
        payments = batch.split(outcome.mechanism.payment_rule(batch.joined, profile))
    return replace(outcome, payments=np.where(outcome.solved[:, None], payments, np.nan), shares=shares)


def _silent(done: int) -> None:
    pass
