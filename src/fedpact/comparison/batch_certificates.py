"""Certificates of a whole batch: the margins `fedpact.certificates` would find one by one, from bounds that cost
little.

Utilities are concave in what an agent decides, and so is welfare; tangents therefore bound every gain. At an
equilibrium they are tight, so almost all federations are settled at once. Where a bound does not decide, or the
equilibrium is one of several, the federation is judged alone; so is a claim for which there is no such bound. No
number of a solver goes into a margin: one is asked only for profiles that may have more welfare, and what they have is
worked out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.batches import check_batch_shares, welfare_rises
from fedpact.certificates.claims import Claim, Verdict
from fedpact.certificates.core import MAX_AGENTS_ALWAYS_LISTED, member_bounds
from fedpact.certificates.deviations import isolation
from fedpact.certificates.tolerances import balance_tolerance
from fedpact.federation import Batch
from fedpact.mechanisms import ExternalityMechanism
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.programs.group_batch import groups_together, most_together
from fedpact.programs.groups import all_groups
from fedpact.utils.arrays import FloatArray, read_only_copy

if TYPE_CHECKING:
    from fedpact.comparison.batch_outcome import BatchOutcome


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


class BatchCertificates(Mapping[str, Judgements]):
    """Every claim, judged for every federation when it is asked for."""

    def __init__(self, outcome: BatchOutcome) -> None:
        self._outcome = outcome
        self._known: dict[str, Judgements] = {}

    def __getitem__(self, claim: str) -> Judgements:
        if claim not in self._known:
            judge = _judge_alone if self._outcome.batch.has_lots else JUDGES.get(Claim(claim), _judge_alone)
            self._known[claim] = judge(self._outcome, Claim(claim))
        return self._known[claim]

    def __iter__(self) -> Iterator[str]:
        return iter(Claim)

    def __len__(self) -> int:
        return len(Claim)

    def __contains__(self, claim: object) -> bool:
        return claim in list(Claim)


def _judge_nash(outcome: BatchOutcome, claim: Claim) -> Judgements:
    margins, tols = _worst(outcome.utilities - _deviation_bounds(outcome), outcome.tolerances)
    return _verdicts(outcome, claim, margins, tols, ~(margins >= -tols))


def _judge_balance(outcome: BatchOutcome, claim: Claim) -> Judgements:
    tols = balance_tolerance(outcome.payments, outcome.payoffs)
    return _verdicts(outcome, claim, -np.abs(outcome.payments.sum(axis=1)), tols, np.zeros(len(outcome), dtype=bool))


def _judge_optimality(outcome: BatchOutcome, claim: Claim) -> Judgements:
    tols = outcome.tolerances.sum(axis=1)
    margins, undecided = _welfare_margins(outcome, tols)
    return _verdicts(outcome, claim, margins, tols, undecided)


def _judge_rationality(outcome: BatchOutcome, claim: Claim) -> Judgements:
    alone = outcome.batch.split(isolation(outcome.batch.joined, outcome.profile).utilities)
    margins, tols = _worst(outcome.utilities - alone, outcome.tolerances)
    return _verdicts(outcome, claim, margins, tols, np.isnan(margins))


def _judge_reciprocity(outcome: BatchOutcome, claim: Claim) -> Judgements:
    several = np.zeros(len(outcome), dtype=bool)
    several[list(outcome.several)] = True
    played = outcome.batch if outcome.mechanism.federated else outcome.batch.without_sharing()
    shares = check_batch_shares(played, outcome.batch.split(outcome.profile))
    margins = (outcome.payoffs + outcome.payments - shares.values).min(axis=1)
    tols = outcome.tolerances.sum(axis=1) + shares.errors
    return _verdicts(outcome, claim, margins, tols, several | ~shares.proves)


def _judge_core(outcome: BatchOutcome, claim: Claim) -> Judgements:
    """By prices at the outcome's own profile; what is left by all groups, where federations outnumber these."""
    batch, tols = outcome.batch, outcome.tolerances
    utilities = np.nan_to_num(outcome.utilities).ravel()
    bounds = batch.split(member_bounds(batch.joined, utilities, outcome.profile, upper=batch.bounds()[0]))
    positive = np.maximum(bounds, 0.0).sum(axis=1)
    margins, sums = -np.where(positive > 0, positive, bounds.max(axis=1)), tols.sum(axis=1)
    margins[~outcome.solved] = np.nan
    proved = np.asarray((bounds <= tols).all(axis=1))
    left = np.flatnonzero(~proved & outcome.solved)
    if batch.n_agents <= MAX_AGENTS_ALWAYS_LISTED and (batch in _groups or left.size > 1 << batch.n_agents):
        welfare, most = (numbers[left] for numbers in _group_welfare(batch))
        margins[left], sums[left], clear = _group_margins(welfare, most, outcome.utilities[left], tols[left])
        proved[left[clear]] = True
    return _verdicts(outcome, claim, margins, sums, ~proved)


_groups: WeakKeyDictionary[Batch, tuple[FloatArray, FloatArray]] = WeakKeyDictionary()  # several mechanisms ask


def _group_welfare(batch: Batch) -> tuple[FloatArray, FloatArray]:
    """(federations, groups): the welfare every group reaches by itself, and a bound on it."""
    if batch not in _groups:
        step = most_together(batch.n_agents)
        parts = [batch.take(range(k, min(k + step, len(batch)))) for k in range(0, len(batch), step)]
        found = [_welfare_of_groups(part) for part in (parts if len(parts) > 1 else [batch])]
        _groups[batch] = np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])
    return _groups[batch]


def _welfare_of_groups(batch: Batch) -> tuple[FloatArray, FloatArray]:
    """The same for federations few enough that the profiles of all groups fit into memory."""
    members = all_groups(batch.n_agents)[1:]
    profiles = np.stack([each.contributions[1:] for each in groups_together(batch)])
    welfare, bounds = np.empty((2, len(batch), len(members)))
    for place, group in enumerate(members):
        inside = np.flatnonzero(group)
        some = batch.restrict(inside)
        welfare[:, place], bounds[:, place] = _welfare_and_bounds(some, profiles[:, place][:, inside])
    return welfare, bounds


def _group_margins(
    welfare: FloatArray, most: FloatArray, utilities: FloatArray, tols: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Minus the largest gain of any group, its tolerance, and whether that is settled, (federations,) each."""
    members = all_groups(utilities.shape[1])[1:]
    has = utilities @ members.T
    gains, bounds = welfare - has, most - has
    rounding = tols @ members.T
    beyond = np.asarray(gains > rounding)
    violated = np.asarray(beyond.any(axis=1))
    counted = np.where(beyond | ~violated[:, None], gains, -np.inf)
    worst = np.argmax(counted, axis=1)[:, None]
    settled = np.asarray(violated | (bounds <= rounding).all(axis=1))
    return -np.take_along_axis(gains, worst, 1)[:, 0], np.take_along_axis(rounding, worst, 1)[:, 0], settled


def _judge_alone(outcome: BatchOutcome, claim: Claim) -> Judgements:
    """By the certificate of each outcome, one after the other."""
    nothing = np.full(len(outcome), np.nan)
    return _verdicts(outcome, claim, nothing, nothing.copy(), np.ones(len(outcome), dtype=bool))


JUDGES: Mapping[Claim, Callable[[BatchOutcome, Claim], Judgements]] = {
    Claim.NASH: _judge_nash,
    Claim.BUDGET_BALANCE: _judge_balance,
    Claim.SOCIAL_OPTIMALITY: _judge_optimality,
    Claim.INDIVIDUAL_RATIONALITY: _judge_rationality,
    Claim.RECIPROCITY: _judge_reciprocity,
    Claim.CORE: _judge_core,
}


def _deviation_bounds(outcome: BatchOutcome) -> FloatArray:
    try:
        payments = np.nan_to_num(outcome.payments)
        return outcome.mechanism.deviation_bounds_at(outcome.batch, outcome.batch.split(outcome.profile), payments)
    except SOLVER_ERRORS:  # one federation spoils it: each is judged alone
        return np.full(outcome.contributions.shape, np.nan)


def _welfare_margins(outcome: BatchOutcome, tols: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Welfare less a bound on that of every profile, and where that decides nothing.

    The bound is the tangent at the outcome's own profile or, where that is not tight, at a welfare optimum. There the
    claim is violated if the optimum has more welfare; if it has not, nothing is decided.
    """
    _, bounds = _welfare_and_bounds(outcome.batch, outcome.contributions)
    undecided = np.zeros(len(outcome), dtype=bool)
    loose = np.flatnonzero(~(outcome.welfare >= bounds - tols) & outcome.solved)
    if loose.size:
        some = outcome.batch.take(loose)
        best, best_bounds = _welfare_and_bounds(some, ExternalityMechanism().solve_batch(some).contributions)
        bounds[loose] = np.fmin(bounds[loose], best_bounds)
        undecided[loose] = ~(best > outcome.welfare[loose] + tols[loose]) & ~(outcome.welfare >= bounds - tols)[loose]
    return outcome.welfare - bounds, undecided


def _welfare_and_bounds(batch: Batch, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(federations,): welfare at a profile and the tangents' bound on all welfare; NaN where it is not admissible."""
    data = batch.split(batch.joined.data(np.nan_to_num(contributions).ravel()))
    floor = np.broadcast_to(batch.joined.payoff.floor, batch.joined.n_agents)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = batch.split(np.isfinite(batch.joined.payoff.value(data.ravel())))
    inside = ((data > batch.split(floor)) & finite & ~np.isnan(contributions)).all(axis=1)
    profile = np.where(inside[:, None], contributions, 0.0).ravel()
    welfare = batch.split(batch.joined.payoffs(profile) - batch.joined.costs.value(profile)).sum(axis=1)
    welfare[~inside] = np.nan
    return welfare, welfare + welfare_rises(batch, batch.split(profile))


def _worst(margins: FloatArray, tols: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The margin of the agent that is worst off in proportion to what is at stake for it, and its tolerance."""
    with np.errstate(invalid="ignore"):  # those that were not solved
        agent = np.argmin(margins / tols, axis=1)[:, None]
    return np.take_along_axis(margins, agent, axis=1)[:, 0], np.take_along_axis(tols, agent, axis=1)[:, 0]


def _verdicts(
    outcome: BatchOutcome, claim: Claim, margins: FloatArray, tols: FloatArray, alone: NDArray[np.bool_]
) -> Judgements:
    """Verdicts from margins; those marked `alone` from the certificate of the single outcome."""
    undefined = np.isnan(margins)
    found = np.where(margins >= -tols, Verdict.HOLDS, Verdict.VIOLATED).astype(object)
    found[undefined] = Verdict.UNDEFINED
    margins, tols = margins.copy(), tols.copy()
    for place in np.flatnonzero(alone & outcome.solved):
        try:
            certificate = outcome[int(place)].certificates[claim]
        except SOLVER_ERRORS:  # it could not be worked out
            margins[place], found[place] = np.nan, Verdict.NOT_REFUTED
            continue
        margins[place], tols[place], found[place] = certificate.margin, certificate.tol, certificate.verdict
    return Judgements(claim=claim, margins=read_only_copy(margins), tols=read_only_copy(tols), verdicts=found)
