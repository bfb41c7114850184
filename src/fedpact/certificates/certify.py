"""Certificates for the five claims, from the federation and the outcome alone.

Nothing here reads what a solver reported: equilibrium, optimum, balance and shares are worked out anew by other routes
(one-dimensional maximisation, the dual bound, sums).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fedpact.certificates.certificate import Certificate, Claim
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.reciprocity import WorstReciprocity
from fedpact.certificates.tolerances import balance_tolerance, outcome_tolerances, would_leave
from fedpact.certificates.welfare_bound import welfare_bound
from fedpact.federation import Federation
from fedpact.programs.social_optimum import social_optimum
from fedpact.utils.arrays import FloatArray


class Certified(Protocol):
    """What a certificate may look at."""

    @property
    def federation(self) -> Federation: ...
    @property
    def deviations(self) -> Callable[[Federation, FloatArray], Deviations]: ...
    @property
    def contributions(self) -> FloatArray: ...
    @property
    def payments(self) -> FloatArray: ...
    @property
    def payoffs(self) -> FloatArray: ...
    @property
    def costs(self) -> FloatArray: ...
    @property
    def utilities(self) -> FloatArray: ...
    @property
    def welfare(self) -> float: ...
    @property
    def ir_gaps(self) -> FloatArray: ...
    @property
    def standalone(self) -> FloatArray: ...
    @property
    def endowments(self) -> FloatArray: ...
    @property
    def shapley_values(self) -> FloatArray: ...
    @property
    def reciprocity_gaps(self) -> FloatArray: ...
    @property
    def worst_reciprocity(self) -> WorstReciprocity: ...


def certify(outcome: Certified) -> dict[str, Certificate]:
    """One certificate per claim."""
    makers = (nash, budget_balance, social_optimality, individual_rationality, reciprocity)
    return {certificate.claim: certificate for certificate in (make(outcome) for make in makers)}


def nash(outcome: Certified) -> Certificate:
    """Nobody gains by acting differently, over the whole range of its actions."""
    best = outcome.deviations(outcome.federation, outcome.contributions)
    gains, tols = best.utilities - outcome.utilities, outcome_tolerances(outcome)
    agent = int(np.argmax(gains / tols))
    witness = _about(outcome, agent) | {
        "contribution": float(outcome.contributions[agent]),
        "deviation": float(best.actions[agent]),
        "utility": float(outcome.utilities[agent]),
        "deviation_utility": float(best.utilities[agent]),
    }
    return Certificate.judge(Claim.NASH, -float(gains[agent]), float(tols[agent]), best.scope, witness)


def budget_balance(outcome: Certified) -> Certificate:
    """Payments sum to zero."""
    total, turnover = float(outcome.payments.sum()), float(np.abs(outcome.payments).sum())
    witness = {"sum": total, "turnover": turnover}
    tol = float(balance_tolerance(outcome.payments, outcome.payoffs))
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)


def social_optimality(outcome: Certified) -> Certificate:
    """No admissible profile has more welfare."""
    federation, tol = outcome.federation, float(outcome_tolerances(outcome).sum())
    witness: dict[str, Any] = {"welfare": outcome.welfare}
    bound = np.inf
    if federation.admits(outcome.contributions):
        bound = welfare_bound(federation, outcome.contributions)
    if bound > outcome.welfare + tol:
        better = social_optimum(federation).contributions
        bound = min(bound, welfare_bound(federation, better))
        witness |= {"better_welfare": federation.welfare(better), "better_contributions": better.tolist()}
    witness["upper_bound"] = bound
    scope = "all admissible profiles, by the dual bound"
    return Certificate.judge(Claim.SOCIAL_OPTIMALITY, outcome.welfare - bound, tol, scope, witness)


def individual_rationality(outcome: Certified) -> Certificate:
    """Everybody does at least as well as alone."""
    tols = outcome_tolerances(outcome)
    agent = int(np.argmin(outcome.ir_gaps / tols))
    witness = _about(outcome, agent) | {
        "ir_gap": float(outcome.ir_gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(outcome.standalone[agent]),
        "endowments": {
            name: float(endowment)
            for name, endowment, leaves in zip(
                outcome.federation.names, outcome.endowments, would_leave(outcome.ir_gaps, tols), strict=True
            )
            if leaves
        },
    }
    margin = float(outcome.ir_gaps[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, float(tols[agent]), "this profile", witness)


def reciprocity(outcome: Certified) -> Certificate:
    """Everybody gets out at least its Shapley share, at every equilibrium."""
    tol = float(outcome_tolerances(outcome).sum())
    if not np.isfinite(outcome.shapley_values).all():
        scope = "some coalition leaves the domain, so there are no Shapley values to compare with"
        return Certificate.undefined(Claim.RECIPROCITY, tol, scope)
    worst = outcome.worst_reciprocity
    agent = int(np.argmin(outcome.reciprocity_gaps))
    here = float(outcome.reciprocity_gaps[agent])
    single = worst.searched == 1
    witness = _about(outcome, agent) | {
        "benefit": float((outcome.payoffs + outcome.payments)[agent]),
        "shapley_value": float(outcome.shapley_values[agent]),
        "worst_gap": worst.gap,
        "worst_gap_agent": outcome.federation.names[worst.gap_agent],
        "worst_gap_contributions": worst.gap_contributions.tolist(),
        "worst_ratio": worst.value,
        "worst_agent": outcome.federation.names[worst.agent],
        "worst_contributions": worst.contributions.tolist(),
        "equilibria_searched": worst.searched,
    }
    scope = "this profile" if single else "every equilibrium found on the face of optima"
    margin = here if single else min(here, worst.gap)
    return Certificate.judge(Claim.RECIPROCITY, margin, tol, scope, witness, proven=single)


def _about(outcome: Certified, agent: int) -> dict[str, Any]:
    return {"agent": outcome.federation.names[agent], "index": agent}
