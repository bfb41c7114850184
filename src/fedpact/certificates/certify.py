"""Certificates for the five claims, from the federation and the outcome alone.

Nothing here reads what a solver reported: equilibrium, optimum, balance and shares are worked out anew by other routes
(one-dimensional maximisation, the dual bound, sums).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fedpact.certificates.certificate import Certificate, Claim, Verdict
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.reciprocity import WorstReciprocity
from fedpact.certificates.welfare_bound import welfare_bound
from fedpact.federation import Federation
from fedpact.programs.social_optimum import social_optimum
from fedpact.utils.arrays import FloatArray

__all__ = ["Certified", "certify", "tolerance", "tolerances"]

BALANCE = 1e-12  # of the money that changes hands, or of the payoffs where hardly any does
PRECISION = 1e-8  # of the payoffs and costs at stake


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


def tolerance(outcome: Certified) -> float:
    """What counts as rounding for all agents together, in units of payoff: a share of what is at stake."""
    return float(tolerances(outcome).sum())


def tolerances(outcome: Certified) -> FloatArray:
    """What counts as rounding for each agent: a share of what is at stake for it."""
    at_stake = np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments)
    return PRECISION * at_stake + 1e-14 * outcome.federation.values


def certify(outcome: Certified) -> dict[str, Certificate]:
    """One certificate per claim."""
    makers = (nash, budget_balance, social_optimality, individual_rationality, reciprocity)
    return {certificate.claim: certificate for certificate in (make(outcome) for make in makers)}


def nash(outcome: Certified) -> Certificate:
    """Nobody gains by acting differently, over the whole range of its actions."""
    best = outcome.deviations(outcome.federation, outcome.contributions)
    gains, tols = best.utilities - outcome.utilities, tolerances(outcome)
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
    tol = BALANCE * max(turnover, float(np.abs(outcome.payoffs).sum()))  # among equals the turnover itself is rounding
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)


def social_optimality(outcome: Certified) -> Certificate:
    """No admissible profile has more welfare."""
    federation, tol = outcome.federation, tolerance(outcome)
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
    tols = tolerances(outcome)
    agent = int(np.argmin(outcome.ir_gaps / tols))
    witness = _about(outcome, agent) | {
        "ir_gap": float(outcome.ir_gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(outcome.standalone[agent]),
        "endowments": {
            name: float(endowment)
            for name, endowment, tol in zip(outcome.federation.agent_names, outcome.endowments, tols, strict=True)
            if endowment > tol
        },
    }
    margin = float(outcome.ir_gaps[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, float(tols[agent]), "this profile", witness)


def reciprocity(outcome: Certified) -> Certificate:
    """Everybody gets out at least its Shapley share, at every equilibrium."""
    if not np.isfinite(outcome.shapley_values).all():
        scope = "undefined: some coalition leaves the domain, so there are no Shapley values to compare with"
        return Certificate(
            claim=Claim.RECIPROCITY,
            verdict=Verdict.NOT_REFUTED,
            margin=np.nan,
            tol=tolerance(outcome),
            scope=scope,
            witness={},
        )
    worst = outcome.worst_reciprocity
    agent = int(np.argmin(outcome.reciprocity_gaps))
    here = float(outcome.reciprocity_gaps[agent])
    single = worst.searched == 1
    witness = _about(outcome, agent) | {
        "benefit": float((outcome.payoffs + outcome.payments)[agent]),
        "shapley_value": float(outcome.shapley_values[agent]),
        "worst_gap": worst.gap,
        "worst_gap_agent": outcome.federation.agent_names[worst.gap_agent],
        "worst_gap_contributions": worst.gap_contributions.tolist(),
        "worst_ratio": worst.value,
        "worst_agent": outcome.federation.agent_names[worst.agent],
        "worst_contributions": worst.contributions.tolist(),
        "equilibria_searched": worst.searched,
    }
    scope = "this profile" if single else "every equilibrium found on the face of optima"
    margin = here if single else min(here, worst.gap)
    return Certificate.judge(Claim.RECIPROCITY, margin, tolerance(outcome), scope, witness, proven=single)


def _about(outcome: Certified, agent: int) -> dict[str, Any]:
    return {"agent": outcome.federation.agent_names[agent], "index": agent}
