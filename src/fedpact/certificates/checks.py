"""The claims that one comparison decides: equilibrium, balance, optimality, and that nobody does better alone.

* **Nash**: nobody gains by acting differently, over the whole range of its actions. What a member could do otherwise
  follows from the mechanism's rules (`fedpact.certificates.deviations`). It counts from the utility the outcome gives
  the member, so that spoiled payments show as well as spoiled contributions.
* **Budget balance**: payments sum to zero, so that nobody outside pays or is paid.
* **Social optimality**: no admissible profile has more welfare. Payoffs are concave, so the tangents at any profile
  bound the welfare of all (`fedpact.certificates.concave`); at an optimum the bound is tight. Where it is not, an
  ascent from the profile finds a better one, if there is one, and the bound there is a better one too.
* **Individual rationality**: everybody does at least as well as alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.certificates.claims import Certificate, CertifiedOutcome, Claim, about
from fedpact.certificates.concave import maximise, welfare_problem
from fedpact.certificates.deviations import Deviations, isolation
from fedpact.certificates.tolerances import balance_tolerance, would_leave
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray


def certify_nash(outcome: CertifiedOutcome, best: Deviations) -> Certificate:
    """Nobody gains by acting differently; side payments are the same whatever anybody does."""
    proves, tols = best.shares is None or best.shares.proves, outcome.tolerances
    if best.shares is not None and not proves:
        tols = tols + best.shares.error
    there, refuted = best.compare(outcome.utilities - outcome.side_payments, tols)
    gains = there + outcome.side_payments - outcome.utilities
    agent = int(np.argmax(gains / tols))
    witness = about(outcome, agent) | {
        "contribution": _own(outcome, outcome.contributions, agent),
        "deviation": _own(outcome, best.actions, agent),
        "utility": float(outcome.utilities[agent]),
        "deviation_utility": float(outcome.utilities[agent] + gains[agent]),
    }
    margin, tol = -float(gains[agent]), float(tols[agent])
    return Certificate.judge(Claim.NASH, margin, tol, best.scope, witness, proven=proves, refuted=refuted)


def _own(outcome: CertifiedOutcome, profile: FloatArray, agent: int) -> float | dict[str, float]:
    """A member's contribution, or those of its lots by name."""
    federation = outcome.federation
    if not federation.has_lots:
        return float(profile[agent])
    return {federation.lot_names[lot]: float(profile[lot]) for lot in federation.lots_of(agent)}


def certify_balance(outcome: CertifiedOutcome) -> Certificate:
    """Payments sum to zero."""
    total, turnover = float(outcome.payments.sum()), float(np.abs(outcome.payments).sum())
    witness = {"sum": total, "turnover": turnover}
    tol = float(balance_tolerance(outcome.payments, outcome.payoffs))
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)


def certify_optimality(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No admissible profile has more welfare; `optimum` gives one that may have, if it is needed."""
    arrays, tol, welfare = outcome.federation.arrays, float(outcome.tolerances.sum()), float(outcome.welfare)
    witness: dict[str, Any] = {"welfare": welfare}
    bound, refuted = welfare_bound(arrays, outcome.contributions), False
    if bound > welfare + tol:
        better = optimum()
        reached = float(arrays.welfare(better))
        bound, refuted = min(bound, welfare_bound(arrays, better)), reached > welfare + tol
        witness |= {"better_welfare": reached, "better_contributions": better.tolist()}
    witness["upper_bound"] = bound
    scope, margin = "all admissible profiles, by the dual bound", welfare - bound
    return Certificate.judge(Claim.SOCIAL_OPTIMALITY, margin, tol, scope, witness, refuted=refuted)


def welfare_bound(arrays: FederationArrays, contributions: FloatArray) -> float:
    """An upper bound on the welfare of every admissible profile, tight where `contributions` are optimal.

    Any admissible profile gives a valid bound, from wherever it comes; others give none.
    """
    problem, x = welfare_problem(arrays), contributions[None]
    value = problem.value(x)[0]
    return float(value + problem.gaps(x, problem.earned(x)).sum()) if np.isfinite(value) else np.inf


def better_profile(arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
    """A profile with more welfare, if there is one: an ascent from here, or from nothing if this is not admissible."""
    problem = welfare_problem(arrays)
    start = problem.project(contributions[None])
    return np.asarray(maximise(problem, np.where(np.isfinite(problem.value(start)), start, 0.0)).x[0])


def certify_rationality(outcome: CertifiedOutcome) -> Certificate:
    """Everybody does at least as well as alone."""
    tols, names = outcome.tolerances, outcome.federation.names
    alone, refuted = isolation(outcome.federation, outcome.contributions).compare(outcome.utilities, tols)
    gaps = outcome.utilities - alone
    agent = int(np.argmin(gaps / tols))
    witness = about(outcome, agent) | {
        "ir_gap": float(gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(alone[agent]),
        "endowments": {names[i]: float(-gaps[i]) for i in np.flatnonzero(would_leave(gaps, tols)) if refuted},
    }
    margin, tol = float(gaps[agent]), float(tols[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, tol, "this profile", witness, refuted=refuted)
