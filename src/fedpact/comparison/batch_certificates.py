"""Certificates of a whole batch: the margins `fedpact.certificates` would find one by one, from bounds that cost
little.

Utilities are concave in what an agent decides, and so is welfare; tangents therefore bound every gain. At an
equilibrium they are tight, so almost all federations are settled at once. Where a bound does not decide, or the
equilibrium is one of several, the federation is judged alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.certificate import Claim, Verdict
from fedpact.certificates.tolerances import balance_tolerance
from fedpact.comparison.batch_profiles import optima
from fedpact.federation import Batch
from fedpact.mechanisms import ExternalityMechanism, ShapleyMechanism
from fedpact.programs.solver import linearised_gains
from fedpact.utils.arrays import FloatArray, read_only_copy

if TYPE_CHECKING:
    from fedpact.comparison.batch_outcome import BatchOutcome

__all__ = ["Judgements", "judge"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgements:
    """One claim, judged for every federation: arrays (federations,).

    Attributes
    ----------
    margins
        The worst slack in units of payoff; below zero it is a violation.
    tols
        Violations up to this size count as rounding.
    verdicts
        `Verdict` by federation.
    """

    claim: Claim
    margins: FloatArray
    tols: FloatArray
    verdicts: NDArray[np.object_]

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Where the claim is proved."""
        return np.asarray(self.verdicts == Verdict.HOLDS)


def judge(outcome: BatchOutcome) -> Mapping[str, Judgements]:
    """All five claims."""
    tols = outcome.tolerances
    unsure = np.zeros(len(outcome), dtype=bool)
    several = unsure.copy()
    several[list(outcome.faces)] = True
    nash, nash_tols = _worst(-_gains(outcome), tols)
    rational, rational_tols = _worst(outcome.ir_gaps, tols)
    budget = -np.abs(outcome.payments.sum(axis=1))
    budget_tols = balance_tolerance(outcome.payments, outcome.payoffs)
    welfare = outcome.welfare - _best_welfare(outcome)
    fair = outcome.reciprocity_gaps.min(axis=1)
    total = tols.sum(axis=1)
    optimal = isinstance(outcome.mechanism, ExternalityMechanism)
    return {
        Claim.NASH: _settled(outcome, Claim.NASH, nash, nash_tols, nash < -nash_tols),
        Claim.BUDGET_BALANCE: _settled(outcome, Claim.BUDGET_BALANCE, budget, budget_tols, unsure),
        Claim.SOCIAL_OPTIMALITY: _settled(
            outcome, Claim.SOCIAL_OPTIMALITY, welfare, total, (welfare < -total) if optimal else unsure
        ),
        Claim.INDIVIDUAL_RATIONALITY: _settled(outcome, Claim.INDIVIDUAL_RATIONALITY, rational, rational_tols, unsure),
        Claim.RECIPROCITY: _settled(outcome, Claim.RECIPROCITY, fair, total, several),
    }


def _gains(outcome: BatchOutcome) -> FloatArray:
    """A bound on what each agent gains by acting differently."""
    batch, profile = outcome.batch, outcome.profile
    if isinstance(outcome.mechanism, ShapleyMechanism):
        return _tangents(batch, profile, np.nan_to_num(outcome.shapley_slopes).ravel(), multiple=batch.harmonic)
    if isinstance(outcome.mechanism, ExternalityMechanism):
        return _welfare_tangents(batch, profile)
    best = outcome.mechanism.deviations(batch.joined, profile)
    return batch.split(best.utilities) - outcome.utilities


def _welfare_tangents(batch: Batch, profile: FloatArray) -> FloatArray:
    federation = batch.joined
    return _tangents(batch, profile, np.asarray(federation.weights.T @ federation.marginal_payoffs(profile)))


def _tangents(batch: Batch, profile: FloatArray, marginal: FloatArray, *, multiple: float = 1.0) -> FloatArray:
    upper, _ = batch.bounds(multiple=multiple)
    slopes = marginal - batch.joined.costs.slope(profile)
    return batch.split(linearised_gains(profile, slopes, np.maximum(upper, profile)))


def _best_welfare(outcome: BatchOutcome) -> FloatArray:
    """An upper bound on the welfare of every profile of each federation: the optimum's tangent."""
    batch, profile = outcome.batch, outcome.profile
    if not isinstance(outcome.mechanism, ExternalityMechanism):
        profile = np.nan_to_num(optima(batch)).ravel()
    welfare = (
        batch.joined.payoffs(profile) - batch.joined.costs.value(profile) + _welfare_tangents(batch, profile).ravel()
    )
    return np.asarray(batch.split(welfare).sum(axis=1))


def _worst(margins: FloatArray, tols: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The margin of the agent that is worst off in proportion to what is at stake for it, and its tolerance."""
    agent = np.argmin(margins / tols, axis=1)[:, None]
    return np.take_along_axis(margins, agent, axis=1)[:, 0], np.take_along_axis(tols, agent, axis=1)[:, 0]


def _settled(
    outcome: BatchOutcome, claim: Claim, margins: FloatArray, tols: FloatArray, alone: NDArray[np.bool_]
) -> Judgements:
    """Verdicts from margins; those marked `alone` from the certificate of the single outcome."""
    undefined = np.isnan(margins)
    found = np.where(margins >= -tols, Verdict.HOLDS, Verdict.VIOLATED).astype(object)
    found[undefined] = Verdict.UNDEFINED
    margins, tols = margins.copy(), tols.copy()
    for place in np.flatnonzero(alone & outcome.solved):
        certificate = outcome[int(place)].certificates[claim]
        margins[place], tols[place], found[place] = certificate.margin, certificate.tol, certificate.verdict
    return Judgements(claim=claim, margins=read_only_copy(margins), tols=read_only_copy(tols), verdicts=found)
