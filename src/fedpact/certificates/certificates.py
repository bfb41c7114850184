"""Certificates: a claim, a verdict and a witness from which the margin can be recomputed by hand.

They are made from the federation and the outcome alone, one for each claim. Nothing here reads what a
solver reported: equilibrium, optimum, balance, shares and what agents have alone are worked out anew by other routes
(bisection, the dual bound, coalitions or another integral, sums); what groups would do is handed over and verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedpact.certificates.claims import Claim, Verdict
from fedpact.certificates.deviations import Deviations, isolation
from fedpact.certificates.optimality import better_profile, welfare_bound
from fedpact.certificates.reciprocity import WorstReciprocity
from fedpact.certificates.shapley_check import CheckedShares, check_shares
from fedpact.certificates.tolerances import balance_tolerance, would_leave
from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.certificates.core import GroupProfiles


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
        What the verdict speaks of, such as "all deviations of one agent in [0, cap]".
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


class CertifiedOutcome(Protocol):
    """What a certificate may look at."""

    @property
    def federation(self) -> Federation: ...
    @property
    def federated(self) -> bool: ...
    @property
    def deviations(self) -> Callable[[Federation, FloatArray], Deviations]: ...
    @property
    def contributions(self) -> FloatArray: ...
    @property
    def payments(self) -> FloatArray: ...
    @property
    def has_prices(self) -> bool: ...
    @property
    def is_unique(self) -> bool: ...
    @property
    def side_payments(self) -> FloatArray | None: ...
    @property
    def payoffs(self) -> FloatArray: ...
    @property
    def costs(self) -> FloatArray: ...
    @property
    def utilities(self) -> FloatArray: ...
    @property
    def welfare(self) -> float: ...
    @property
    def worst_reciprocity(self) -> WorstReciprocity: ...
    def played_in(self, federation: Federation, contributions: FloatArray) -> CertifiedOutcome: ...
    def solved_in(self, federation: Federation) -> CertifiedOutcome | None: ...
    @property
    def group_profiles(self) -> GroupProfiles: ...


class Certificates(Mapping[str, Certificate]):
    """One certificate per claim, each worked out when it is asked for."""

    def __init__(self, outcome: CertifiedOutcome) -> None:
        self._outcome = outcome
        self._known: dict[str, Certificate] = {}

    def __getitem__(self, claim: str) -> Certificate:
        if claim not in self._known:
            self._known[claim] = self._makers[claim]()
        return self._known[claim]

    def __iter__(self) -> Iterator[str]:
        return iter(Claim)

    def __len__(self) -> int:
        return len(Claim)

    @cached_property
    def _makers(self) -> Mapping[str, Callable[[], Certificate]]:
        outcome = self._outcome
        return {
            Claim.NASH: lambda: certify_nash(outcome, self._deviations),
            Claim.BUDGET_BALANCE: lambda: certify_balance(outcome),
            Claim.SOCIAL_OPTIMALITY: lambda: certify_optimality(outcome, lambda: self._optimum),
            Claim.INDIVIDUAL_RATIONALITY: lambda: certify_rationality(outcome),
            Claim.RECIPROCITY: lambda: certify_reciprocity(outcome, self._shares),
            Claim.CORE: lambda: _certify_core(outcome, lambda: self._optimum),
            Claim.SPLIT_PROOF: lambda: _certify_split_proof(outcome, lambda: self._deviations),
        }

    @cached_property
    def _optimum(self) -> FloatArray:
        return better_profile(self._outcome.federation, self._outcome.contributions)

    @cached_property
    def _deviations(self) -> Deviations:
        return self._outcome.deviations(self._outcome.federation, self._outcome.contributions)

    @cached_property
    def _shares(self) -> CheckedShares | None:
        """The Shapley values; those of the deviations where these were worked out from them."""
        known = self._deviations.shares if Claim.NASH in self._known else None
        return known or check_shares(_played(self._outcome), self._outcome.contributions)


def certify(outcome: CertifiedOutcome) -> Certificates:
    """One certificate per claim."""
    return Certificates(outcome)


def certify_nash(outcome: CertifiedOutcome, best: Deviations) -> Certificate:
    """Nobody gains by acting differently, over the whole range of its actions."""
    proves = best.shares is None or best.shares.proves
    tols = outcome.tolerances
    if best.shares is not None and not proves:
        tols = tols + best.shares.error
    there, refuted = _most(best, outcome.utilities, tols)
    gains = there - outcome.utilities
    agent = int(np.argmax(gains / tols))
    witness = _about(outcome, agent) | {
        "contribution": _own(outcome, outcome.contributions, agent),
        "deviation": _own(outcome, best.actions, agent),
        "utility": float(outcome.utilities[agent]),
        "deviation_utility": float(there[agent]),
    }
    margin, tol = -float(gains[agent]), float(tols[agent])
    return Certificate.judge(Claim.NASH, margin, tol, best.scope, witness, proven=proves, refuted=refuted)


def _most(best: Deviations, utilities: FloatArray, tols: FloatArray) -> tuple[FloatArray, bool]:
    """What everybody could have, and whether an action shows that somebody gains by it; if none does, by the bounds.

    A bound above what somebody has refutes nothing: it may be loose.
    """
    refuted = bool((best.reached - utilities > tols).any())
    return (best.reached if refuted else best.utilities), refuted


def certify_balance(outcome: CertifiedOutcome) -> Certificate:
    """Payments sum to zero."""
    total, turnover = float(outcome.payments.sum()), float(np.abs(outcome.payments).sum())
    witness = {"sum": total, "turnover": turnover}
    tol = float(balance_tolerance(outcome.payments, outcome.payoffs))
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)


def certify_optimality(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No admissible profile has more welfare; `optimum` gives one that may have, if it is needed."""
    federation, tol = outcome.federation, float(outcome.tolerances.sum())
    witness: dict[str, Any] = {"welfare": outcome.welfare}
    bound, refuted = np.inf, False
    if federation.admits(outcome.contributions):
        bound = welfare_bound(federation, outcome.contributions)
    if bound > outcome.welfare + tol:
        better = optimum()
        welfare = federation.welfare(better)
        bound, refuted = min(bound, welfare_bound(federation, better)), welfare > outcome.welfare + tol
        witness |= {"better_welfare": welfare, "better_contributions": better.tolist()}
    witness["upper_bound"] = bound
    scope, margin = "all admissible profiles, by the dual bound", outcome.welfare - bound
    return Certificate.judge(Claim.SOCIAL_OPTIMALITY, margin, tol, scope, witness, refuted=refuted)


def certify_rationality(outcome: CertifiedOutcome) -> Certificate:
    """Everybody does at least as well as alone."""
    tols = outcome.tolerances
    alone, refuted = _most(isolation(outcome.federation, outcome.contributions), outcome.utilities, tols)
    gaps = outcome.utilities - alone
    agent = int(np.argmin(gaps / tols))
    names = outcome.federation.names
    witness = _about(outcome, agent) | {
        "ir_gap": float(gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(alone[agent]),
        "endowments": {names[i]: float(-gaps[i]) for i in np.flatnonzero(would_leave(gaps, tols)) if refuted},
    }
    margin, tol = float(gaps[agent]), float(tols[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, tol, "this profile", witness, refuted=refuted)


def certify_reciprocity(outcome: CertifiedOutcome, shares: CheckedShares | None) -> Certificate:
    """Everybody gets out at least its Shapley share, at every equilibrium."""
    tol = float(outcome.tolerances.sum())
    if shares is None:
        scope = "some coalition leaves the domain, so there are no Shapley values to compare with"
        return Certificate.undefined(Claim.RECIPROCITY, tol, scope)
    benefits = outcome.payoffs + outcome.payments
    gaps = benefits - shares.values
    agent = int(np.argmin(gaps))
    witness = _about(outcome, agent) | {
        "benefit": float(benefits[agent]),
        "shapley_value": float(shares.values[agent]),
    }
    worst, margin = outcome.worst_reciprocity, float(gaps[agent])
    single, scope = worst.searched == 1, f"this profile, with shares by {shares.method}"
    if not single:
        margin = min(margin, _worst_gap(outcome, worst, witness))
        scope = "every equilibrium found on the face of optima"
    witness |= {"equilibria_searched": worst.searched}
    proven = single and shares.proves
    return Certificate.judge(Claim.RECIPROCITY, margin, tol + shares.error, scope, witness, proven=proven)


def _certify_core(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    from fedpact.certificates.core import certify_core  # noqa: PLC0415 - it uses the certificates above

    return certify_core(outcome, optimum)


def _certify_split_proof(outcome: CertifiedOutcome, deviations: Callable[[], Deviations]) -> Certificate:
    from fedpact.certificates.split_proof import certify_split_proof  # noqa: PLC0415 - it uses the certificates above

    return certify_split_proof(outcome, deviations)


def _worst_gap(outcome: CertifiedOutcome, worst: WorstReciprocity, witness: dict[str, Any]) -> float:
    """The lowest gap at the worst equilibrium a search came upon, worked out anew; goes into the witness."""
    profile, names = worst.gap_contributions, outcome.federation.names
    shares = check_shares(_played(outcome), profile)
    if shares is None:
        return np.inf
    gaps = _played(outcome).payoffs(profile) + worst.gap_payments - shares.values
    witness |= {
        "worst_gap": float(gaps.min()),
        "worst_gap_agent": names[int(np.argmin(gaps))],
        "worst_gap_contributions": profile.tolist(),
        "worst_ratio": worst.value,
        "worst_agent": names[worst.agent],
        "worst_contributions": worst.contributions.tolist(),
    }
    return float(gaps.min())


def _played(outcome: CertifiedOutcome) -> Federation:
    return outcome.federation if outcome.federated else outcome.federation.without_sharing()


def _own(outcome: CertifiedOutcome, profile: FloatArray, agent: int) -> float | dict[str, float]:
    """An agent's contribution, or those of its lots by name."""
    federation = outcome.federation
    if not federation.has_lots:
        return float(profile[agent])
    return {federation.lot_names[lot]: float(profile[lot]) for lot in federation.lots_of(agent)}


def _about(outcome: CertifiedOutcome, agent: int) -> dict[str, Any]:
    return {"agent": outcome.federation.names[agent], "index": agent}
