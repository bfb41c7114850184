"""Claims about an outcome, the verdicts on them, and the certificate: both with a witness to recompute the margin from.

What people call a claim stands here too, and what counts as rounding for every claim, and with it who would leave.
Amounts are in units of payoff and compared with what is at stake: a claim about one agent with that agent's payoff,
cost and payment, a claim about all of them with the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome


class Claim(StrEnum):
    """Section 2.2 of the paper, that the profile is an equilibrium at all, and what is beyond the paper."""

    NASH = "nash"
    BUDGET_BALANCE = "budget-balance"
    SOCIAL_OPTIMALITY = "social-optimality"
    INDIVIDUAL_RATIONALITY = "individual-rationality"
    RECIPROCITY = "reciprocity"
    CORE = "core"
    SPLIT_PROOF = "split-proof"
    FAIR_GAINS = "fair-gains"


class Verdict(StrEnum):
    """What is known of a claim.

    `HOLDS`: it is proved. `NOT_REFUTED`: nothing was found against it, and a violation is not excluded: a search may
    have missed it, a bound be loose, or it could not be worked out (its margin is NaN). `UNDEFINED`: it speaks of
    numbers that do not exist here. `VIOLATED`: it is refuted, and the witness shows by what.
    """

    HOLDS = "holds"
    NOT_REFUTED = "not refuted"
    UNDEFINED = "undefined"
    VIOLATED = "violated"


# What people call the claims.
TITLES: Mapping[Claim, str] = {
    Claim.NASH: "Nobody gains by giving more or less",
    Claim.BUDGET_BALANCE: "The payments balance",
    Claim.SOCIAL_OPTIMALITY: "Best for all together",
    Claim.INDIVIDUAL_RATIONALITY: "Everybody does at least as well as alone",
    Claim.RECIPROCITY: "Everybody gets back its Shapley share",
    Claim.CORE: "No group gains by leaving together",
    Claim.SPLIT_PROOF: "Nobody gains by posing as two",
    Claim.FAIR_GAINS: "The gain is shared as fairly as can be without anybody leaving",
}


def claim_title(claim: str) -> str:
    """What people call a claim; what is found of a ledger, such as its "chain", is called by its own name."""
    return TITLES[Claim(claim)] if claim in tuple(Claim) else claim


def quote_claim(claim: str) -> str:
    """A claim in a sentence: its words in quotes, such as "The payments balance"."""
    title = claim_title(claim)
    return title if title == claim else f'"{title}"'


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """What was claimed, whether it holds, by how much, and why one should believe it.

    Attributes
    ----------
    margin
        The worst slack in units of payoff, worst in proportion to what is at stake for the agent; below zero it is a
        violation. NaN where the claim is undefined.
    tol
        Violations up to this size count as rounding.
    scope
        What the verdict speaks of, such as "this profile"; it is written into deal files.
    witness
        The numbers from which `margin` follows.
    """

    claim: Claim
    verdict: Verdict
    margin: float
    tol: float
    scope: str
    witness: Mapping[str, Any]

    @classmethod
    def judge(
        cls,
        claim: Claim,
        margin: float,
        tol: float,
        scope: str,
        witness: Mapping[str, Any],
        *,
        proven: bool = True,
        refuted: bool = True,
    ) -> Certificate:
        """The certificate whose verdict follows from its margin; what is not a number counts as a violation.

        `proven` is whether a margin within the tolerance proves the claim, `refuted` whether one below it refutes it.
        """
        if np.isfinite(margin) and margin >= -tol:
            verdict = Verdict.HOLDS if proven else Verdict.NOT_REFUTED
        else:
            verdict = Verdict.VIOLATED if refuted and not np.isnan(margin) else Verdict.NOT_REFUTED
        return cls(claim=claim, verdict=verdict, margin=float(margin), tol=float(tol), scope=scope, witness=witness)

    @classmethod
    def undefined(cls, claim: Claim, tol: float, scope: str) -> Certificate:
        """The certificate of a claim about numbers that do not exist; `scope` says why."""
        return cls(claim=claim, verdict=Verdict.UNDEFINED, margin=float("nan"), tol=tol, scope=scope, witness={})

    @property
    def holds(self) -> bool:
        """Whether the claim is proved."""
        return self.verdict is Verdict.HOLDS


def about(outcome: Outcome, agent: int) -> dict[str, Any]:
    """Whom a witness is about."""
    return {"agent": outcome.federation.names[agent], "index": agent}


STAKE_TOLERANCE = 1e-8  # of an agent's payoff, cost and payment together
VALUE_TOLERANCE = 1e-14  # of an agent's value, for those with nothing at stake
SUM_ROUNDING = 1e-15  # of what all have at stake, which enters the utility of each where payoffs are shared out
STATED_TOLERANCE = 1e-9  # of the largest number of its kind, between what a file states and what follows
STATED_CONTRIBUTION_TOLERANCE = 1e-6  # the same for contributions, which a flat optimum leaves less certain
BALANCE_TOLERANCE = 1e-12  # of the money that changes hands, or of the payoffs where hardly any does


def utility_tolerances(payoffs: FloatArray, costs: FloatArray, payments: FloatArray, values: FloatArray) -> FloatArray:
    """What counts as rounding in each member's utility, (..., members). Welfare is compared with their sum."""
    at_stake = np.abs(payoffs) + costs + np.abs(payments)
    rounding = VALUE_TOLERANCE * values + SUM_ROUNDING * at_stake.sum(axis=-1, keepdims=True)
    return np.maximum(STAKE_TOLERANCE * at_stake + rounding, np.finfo(float).tiny)


def agent_values(arrays: FederationArrays) -> FloatArray:
    """What payoff is worth to each member, over all its tasks, (..., members); to one without tasks as to anybody."""
    values = sum_by(arrays.task_owners, arrays.values, arrays.n_agents)
    return np.where(values > 0, values, arrays.values.max(axis=-1, keepdims=True))


def balance_tolerance(payments: FloatArray, payoffs: FloatArray) -> FloatArray:
    """What counts as rounding in the sum of payments over the last axis; among equals all turnover is rounding."""
    turnover = np.maximum(np.abs(payments).sum(axis=-1), np.abs(payoffs).sum(axis=-1))
    return np.asarray(BALANCE_TOLERANCE * turnover)


def would_leave(ir_gaps: FloatArray, tolerances: FloatArray) -> NDArray[np.bool_]:
    """Which agents do worse than alone by more than rounding; nobody where the gap is not known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(ir_gaps < -tolerances)
