"""One federation under one mechanism, alone or in a batch: right, refused, flagged, wrong or crashed.

right     every promised claim is certified, and no other route disagrees
none      there is no equilibrium with payoffs that are finite numbers, and the proof of it holds in sixty digits
refused   an error of fedpact's own says why there is no answer
flagged   an answer, with a promised claim that is not certified: whoever reads it is warned
wrong     an answer whose promises are all certified, and yet another route disagrees, or the batch with the single one
crashed   any other exception, or a warning that reaches the caller
hung      still at work after the time limit (`evaluator` finds out)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import fedpact as fp
from extremes.exact import (
    MAX_COALITION_AGENTS,
    ExactFederation,
    own_gains,
    payoffs_and_costs,
    price_payments,
    shapley_gains,
    welfare_gap,
)
from extremes.extended import shapley_integral
from extremes.no_equilibrium import is_refuted
from fedpact.certificates import Verdict
from fedpact.certificates.tolerances import outcome_tolerances
from fedpact.mechanisms import FIELD_MECHANISMS
from fedpact.mechanisms import MECHANISMS as ALL_MECHANISMS
from fedpact.mechanisms.payment_check import check_payments
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, NoEquilibrium

RIGHT, NONE, REFUSED, FLAGGED = "right", "none", "refused", "flagged"
WRONG, CRASHED, HUNG = "wrong", "crashed", "hung"
VERDICTS = (RIGHT, NONE, REFUSED, FLAGGED, WRONG, CRASHED, HUNG)
BAD = (WRONG, CRASHED, HUNG)

ALLOWANCE = 2.0  # times the certificates' tolerances
MONEY = 1e-6  # of an agent's stake: payments that differ by more are checked as `fedpact check` does
SUM_ROUNDING = 1e-12  # of all stakes
INTEGRAL = 1e-9  # of all payoffs: an integral that misses them by more decides nothing
MAX_NEWTON_AGENTS = 16  # for which the welfare optimum is always worked out to the last digit
MAX_GROUP_AGENTS = 8
SELDOM = 10  # one in so many of the others


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of one federation under one mechanism.

    Attributes
    ----------
    place
        Of the federation in its group.
    row
        The mechanism, or the mechanism and "batch".
    verdict, reason
        What it counts as, and why.
    checked
        Whether another route confirmed it.
    seconds
        Of processor time the package took.
    """

    place: int
    row: str
    verdict: str
    reason: str = ""
    checked: bool = False
    seconds: float = 0.0

    def as_record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


# Those whose rules are worked out in sixty digits here; of the field only what pays at the prices of the optimum.
MECHANISMS = {
    name: mechanism
    for name, mechanism in ALL_MECHANISMS.items()
    if name not in FIELD_MECHANISMS or isinstance(mechanism, fp.ExternalityMechanism)
}


def mechanisms_for(federation: fp.Federation) -> list[str]:
    """All that can be judged; the one that looks through all groups, with a time limit of its own, if these are few."""
    few = federation.n_agents <= MAX_GROUP_AGENTS
    return [name for name, mechanism in MECHANISMS.items() if few or getattr(mechanism, "keep", "") != "groups"]


ROWS = tuple(row for name in MECHANISMS for row in (name, f"{name}, batch"))


def try_alone(
    federation: fp.Federation, place: int, name: str, exact: ExactFederation
) -> tuple[Trial, fp.Outcome | None]:
    """One mechanism on one federation, with the certificates it promises."""
    mechanism = MECHANISMS[name]

    def work() -> tuple[fp.Outcome | NoEquilibrium, str]:
        try:
            outcome = mechanism.solve(federation)
        except NoEquilibrium as error:
            return error, ""
        return outcome, _broken_promise(mechanism, outcome)

    trial, found = _watch(work, place, name)
    if found is not None and isinstance(found[0], NoEquilibrium):
        return check_proof(trial, found[0], exact), None
    return trial, None if found is None else found[0]


def check_proof(trial: Trial, error: NoEquilibrium, exact: ExactFederation) -> Trial:
    """That there is no equilibrium, proved once more."""
    if trial.verdict == CRASHED:
        return trial
    if not is_refuted(exact, error.proof):
        return _with(trial, WRONG, f"the proof does not hold: {error}")
    return _with(trial, NONE, checked=True)


def try_batch(
    group: list[fp.Federation], name: str, exact: list[ExactFederation]
) -> tuple[list[Trial], fp.BatchOutcome | None]:
    """One mechanism on all federations of a group together, with the certificates it promises."""
    mechanism, row = MECHANISMS[name], f"{name}, batch"

    def work() -> tuple[fp.BatchOutcome, str]:
        outcome = fp.solve_batch(group, mechanism)
        for federation in group:
            for claim in mechanism.promises(federation):
                assert outcome.certificates[claim].verdicts.size == len(group)
        return outcome, ""

    whole, found = _watch(work, 0, row)
    if found is None or whole.verdict == CRASHED:
        return [Trial(**whole.as_record() | {"place": place}) for place in range(len(group))], None
    outcome, seconds = found[0], whole.seconds / len(group)
    trials = []
    for place in range(len(group)):
        verdict, reason = RIGHT, ""
        if place in outcome.errors:
            error = outcome.errors[place]
            verdict = REFUSED if isinstance(error, FedpactError) else CRASHED
            reason = f"{type(error).__name__}: {error}"
        else:
            for claim in mechanism.promises(group[place]):
                if (said := outcome.certificates[claim].verdicts[place]) != Verdict.HOLDS:
                    verdict, reason = FLAGGED, f"{claim} {said}"
        trial = Trial(place=place, row=row, verdict=verdict, reason=reason, seconds=seconds)
        if isinstance(error := outcome.errors.get(place), NoEquilibrium):
            trial = check_proof(trial, error, exact[place])
        trials.append(trial)
    return trials, outcome


def compare_batch(trial: Trial, batch: fp.BatchOutcome, single: fp.Outcome | None, exact: ExactFederation) -> Trial:
    """A batch's answer against the certificates of the same answer alone, other routes and the single answer."""
    mechanism = batch.mechanism
    outcome = batch[trial.place]
    if broken := _broken_promise(mechanism, outcome):
        return _with(trial, WRONG, f"the batch says that all holds, alone it is {broken}")
    trial = check(trial, outcome, exact)
    if trial.verdict == RIGHT and single is not None and not _broken_promise(mechanism, single):
        agent = _beyond(np.abs(outcome.payments - single.payments), _money_tolerances(outcome))
        unique = outcome.equilibria.unique and single.equilibria.unique
        doubtful = (_admits_doubt(mechanism, each) for each in (outcome, single))
        if agent is not None and unique and not any(doubtful):
            said = f"payment {agent} is {outcome.payments[agent]:.9g} in a batch, {single.payments[agent]:.9g} alone"
            return _with(trial, WRONG, said)
    return trial


def check(trial: Trial, outcome: fp.Outcome, exact: ExactFederation) -> Trial:
    """A certified answer, judged by routes that share nothing with the package."""
    s, tols = outcome.contributions, outcome_tolerances(outcome)
    alone = not outcome.federated
    told = payoffs_and_costs(exact, s, alone=alone)
    if told is None:
        return _with(trial, WRONG, "outside the domain")
    utilities = np.array(told[0]) - np.array(told[1]) + outcome.payments
    if (agent := _beyond(np.abs(utilities - outcome.utilities), ALLOWANCE * tols)) is not None:
        return _with(trial, WRONG, f"utility {agent} is {outcome.utilities[agent]:.9g}, exactly {utilities[agent]:.9g}")
    if abs(float(np.sum(outcome.payments.astype(np.longdouble)))) > 1e-11 * _stakes(outcome).sum():
        return _with(trial, WRONG, "payments do not sum to zero")
    if isinstance(MECHANISMS[outcome.mechanism], fp.ExternalityMechanism):
        return _check_optimum(trial, outcome, exact)
    if outcome.mechanism == "shapley":
        return _check_shares(trial, outcome, exact)
    gains, _ = own_gains(exact, s, tols, alone=alone)
    if (agent := _beyond(np.array(gains), ALLOWANCE * tols)) is not None:
        return _with(
            trial, WRONG, f"agent {agent} could gain {gains[agent]:.3g}, {gains[agent] / tols[agent]:.3g} tolerances"
        )
    return _with(trial, RIGHT, checked=True)


def _check_optimum(trial: Trial, outcome: fp.Outcome, exact: ExactFederation) -> Trial:
    """M^E, with side payments or without: the welfare optimum and the payments there, in sixty digits."""
    tols = outcome_tolerances(outcome)
    tol = ALLOWANCE * float(tols.sum())
    to_the_end = exact.n <= MAX_NEWTON_AGENTS or _lot(outcome) == 0
    least, most, optimum = welfare_gap(exact, outcome.contributions, 0.0 if to_the_end else tol)
    if least > tol:
        return _with(trial, WRONG, f"there is more welfare: {least:.3g}, {least / tol:.3g} times what is rounding")
    if optimum is not None:
        due = np.array(price_payments(exact, optimum)) + outcome.side_payments
        agent = _beyond(np.abs(due - outcome.payments), _money_tolerances(outcome))
        if agent is not None:
            verdict = FLAGGED if _admits_doubt(MECHANISMS[outcome.mechanism], outcome) else WRONG
            said = f"payment {agent} is {outcome.payments[agent]:.9g}, exactly {due[agent]:.9g}"
            return _with(trial, verdict, said)
    return _with(trial, RIGHT, checked=most <= tol)


def _check_shares(trial: Trial, outcome: fp.Outcome, exact: ExactFederation) -> Trial:
    """M^Shap: shares and what could be gained, by all coalitions of a few agents, by an integral of many."""
    s, tols = outcome.contributions, outcome_tolerances(outcome)
    if exact.n <= MAX_COALITION_AGENTS:
        found = shapley_gains(exact, s, tols)
        if found is None:
            return _with(trial, WRONG, "outside the domain of a coalition")
        shares, gains = (np.array(part) for part in found)
    else:
        if _lot(outcome):
            return trial
        integral = shapley_integral(outcome.federation, s)
        if integral is None:
            return _with(trial, WRONG, "outside the domain of a coalition")
        shares, slopes = (part.astype(float) for part in integral)
        missing = abs(shares.sum() - outcome.payoffs.sum())
        if not missing <= INTEGRAL * max(np.abs(shares).sum(), np.abs(outcome.payoffs).sum()):
            return trial
        # Only what the tangents leave open downwards or up to twice the contribution: the rest is for coalitions.
        climb = slopes - outcome.federation.costs.slope(s)
        reach = np.minimum(s, outcome.federation.caps - s)
        gains = np.where(climb > 0, 0.5 * climb * np.minimum(reach, 1e-3 * s), 0.0)
    benefits = outcome.payoffs + outcome.payments
    if (agent := _beyond(np.abs(benefits - shares), ALLOWANCE * tols.sum())) is not None:
        return _with(trial, WRONG, f"share {agent} is {benefits[agent]:.9g}, exactly {shares[agent]:.9g}")
    if (agent := _beyond(gains, ALLOWANCE * tols)) is not None:
        said = f"agent {agent} could gain {gains[agent]:.3g}, {gains[agent] / tols[agent]:.3g} tolerances"
        return trial if exact.n > MAX_COALITION_AGENTS else _with(trial, WRONG, said)
    return _with(trial, RIGHT, checked=True)


def _watch(work: Callable[[], tuple[Any, str]], place: int, row: str) -> tuple[Trial, tuple[Any, str] | None]:
    """Run the package's part: what it says, what it warns of and how long it takes."""
    begun, found, verdict, reason = time.process_time(), None, RIGHT, ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = work()
        except FedpactError as error:
            verdict, reason = REFUSED, f"{type(error).__name__}: {error}"
        except Exception as error:  # the point is to find them
            verdict, reason = CRASHED, f"{type(error).__name__}: {error}"
    seconds = time.process_time() - begun
    if found is not None and found[1]:
        verdict, reason = FLAGGED, found[1]
    if warned:
        said = warned[0]
        verdict, reason = CRASHED, f"{said.category.__name__}: {said.message} ({_module(said.filename)}:{said.lineno})"
    return Trial(place=place, row=row, verdict=verdict, reason=reason, seconds=seconds), found


def _module(filename: str) -> str:
    return filename.rpartition("/src/")[2]


def _broken_promise(mechanism: fp.Mechanism, outcome: fp.Outcome) -> str:
    """The first promised claim that is not certified."""
    for claim in mechanism.promises(outcome.federation):
        certificate = outcome.certificates[claim]
        if certificate.verdict != Verdict.HOLDS:
            return f"{claim} {certificate.verdict} by {-certificate.margin / certificate.tol:.3g} tolerances"
    return ""


def _admits_doubt(mechanism: fp.Mechanism, outcome: fp.Outcome) -> bool:
    """Whether `fedpact check` would say that more than rounding may be in the wrong pocket."""
    found = check_payments(mechanism, outcome)
    return found.exceeds or not found.is_certified


def _stakes(outcome: fp.Outcome) -> FloatArray:
    return np.asarray(
        np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments) + 1e-14 * outcome.federation.values
    )


def _money_tolerances(outcome: fp.Outcome) -> FloatArray:
    """A share of each agent's own stake, and of everybody's what sums of floats leave."""
    stakes = _stakes(outcome)
    return np.asarray(MONEY * stakes + SUM_ROUNDING * stakes.sum())


def _beyond(amounts: FloatArray, tols: FloatArray | float) -> int | None:
    """The agent whose amount is furthest beyond what is tolerated, if any is; what is not a number is."""
    over = ~(amounts <= tols)
    return int(np.argmax(np.where(np.isfinite(amounts), amounts / tols, np.inf))) if over.any() else None


def _lot(outcome: fp.Outcome) -> int:
    """A number that follows from the federation, for what is done seldom."""
    return int(abs(float(outcome.federation.values[0])) * 1e9) % SELDOM


def _with(trial: Trial, verdict: str, reason: str = "", *, checked: bool = False) -> Trial:
    return Trial(**trial.as_record() | {"verdict": verdict, "reason": reason, "checked": checked})
