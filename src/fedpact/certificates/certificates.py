"""One certificate for each claim about an outcome, worked out from the federation and the outcome alone.

Nothing here reads what a solver reported: equilibrium, optimum, balance, shares and what members have alone are worked
out anew by other routes (tangents and an ascent of their own, coalitions or another integral, sums); what groups would
do is handed over and verified. Four claims are decided here by one comparison each, the others in their modules:

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

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.certificates.claims import (
    VALUE_TOLERANCE,
    Certificate,
    Claim,
    about,
    agent_values,
    balance_tolerance,
    would_leave,
)
from fedpact.certificates.concave import maximise, welfare_problem
from fedpact.certificates.core import certify_core, certify_fair_gains
from fedpact.certificates.deviations import Deviations, isolation
from fedpact.certificates.reciprocity import certify_reciprocity
from fedpact.certificates.shapley_check import CheckedShares, check_shares
from fedpact.certificates.split_proof import certify_split_proof
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import MechanismError, short_repr

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome


class Certificates(Mapping[str, Certificate]):
    """One certificate per claim, each worked out when it is asked for."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._known: dict[str, Certificate] = {}
        self._makers: Mapping[str, Callable[[], Certificate]] = {
            Claim.NASH: lambda: certify_nash(outcome, self._deviations),
            Claim.BUDGET_BALANCE: lambda: certify_balance(outcome),
            Claim.SOCIAL_OPTIMALITY: lambda: certify_optimality(outcome, lambda: self._optimum),
            Claim.INDIVIDUAL_RATIONALITY: lambda: certify_rationality(outcome),
            Claim.RECIPROCITY: lambda: certify_reciprocity(outcome, self._shares),
            Claim.CORE: lambda: certify_core(outcome, lambda: self._optimum),
            Claim.SPLIT_PROOF: lambda: certify_split_proof(outcome),
            Claim.FAIR_GAINS: lambda: certify_fair_gains(outcome, lambda: self._optimum),
        }

    def __getitem__(self, claim: str) -> Certificate:
        if claim not in self._known:
            self._known[claim] = self._makers[claim]()
        return self._known[claim]

    def __iter__(self) -> Iterator[str]:
        return iter(Claim)

    def __len__(self) -> int:
        return len(Claim)

    @cached_property
    def _optimum(self) -> FloatArray:
        return better_profile(self._outcome.federation.arrays, self._outcome.contributions)

    @cached_property
    def _deviations(self) -> Deviations:
        outcome = self._outcome
        found = outcome.rules.deviations(outcome.federation, outcome.contributions)
        if not isinstance(found, Deviations):
            rules = f"{type(outcome.rules).__module__}:{type(outcome.rules).__qualname__}"
            raise MechanismError(f"{rules}.deviations must return a Deviations, got {short_repr(found)}")
        return found

    @cached_property
    def _shares(self) -> CheckedShares | None:
        """The Shapley values; those that the deviations were worked out from, if these were."""
        known = self._deviations.shares if Claim.NASH in self._known else None
        if known is not None and known.probability is None:
            return known
        return check_shares(self._outcome.played, self._outcome.contributions)


def certify_nash(outcome: Outcome, best: Deviations) -> Certificate:
    """Nobody gains by acting differently; side payments and joining costs are the same whatever anybody does."""
    proves, tols = best.shares is None or best.shares.proves, outcome.tolerances
    if best.shares is not None and not proves:
        tols = tols + best.shares.error
    fixed = outcome.side_payments - outcome.joining_costs
    there, refuted = best.compare(outcome.utilities - fixed, tols)
    gains = there + fixed - outcome.utilities
    agent = int(np.argmax(gains / tols))
    witness = about(outcome, agent) | {
        "contribution": _own(outcome, outcome.contributions, agent),
        "deviation": _own(outcome, best.actions, agent),
        "utility": float(outcome.utilities[agent]),
        "deviation_utility": float(outcome.utilities[agent] + gains[agent]),
    }
    margin, tol = -float(gains[agent]), float(tols[agent])
    own = outcome.federation.lots_of(agent)
    if not proves and np.array_equal(best.actions[own], outcome.contributions[own]):
        refuted = False  # nobody gains by what it does already: the shares are lost in rounding
    return Certificate.judge(Claim.NASH, margin, tol, best.scope, witness, proven=proves, refuted=refuted)


def _own(outcome: Outcome, profile: FloatArray, agent: int) -> float | dict[str, float]:
    """A member's contribution, or those of its lots by name."""
    federation = outcome.federation
    if not federation.has_lots:
        return float(profile[agent])
    return {federation.lot_names[lot]: float(profile[lot]) for lot in federation.lots_of(agent)}


def certify_balance(outcome: Outcome) -> Certificate:
    """Payments sum to zero."""
    total, turnover = float(outcome.payments.sum()), float(np.abs(outcome.payments).sum())
    witness = {"sum": total, "turnover": turnover}
    tol = float(balance_tolerance(outcome.payments, outcome.payoffs))
    tol += VALUE_TOLERANCE * float(agent_values(outcome.federation.arrays).sum())
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)


def certify_optimality(outcome: Outcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No admissible profile has more welfare; `optimum` gives one that may have, if it is needed."""
    arrays, tol, welfare = outcome.federation.arrays, float(outcome.tolerances.sum()), float(outcome.welfare)
    witness: dict[str, Any] = {"welfare": welfare}
    joining = float(arrays.joining_costs.sum()) if arrays.n_agents > 1 else 0.0
    bound, refuted = welfare_bound(arrays, outcome.contributions) - joining, False
    if bound > welfare + tol:
        better = optimum()
        reached = float(arrays.welfare(better)) - joining
        bound, refuted = min(bound, welfare_bound(arrays, better) - joining), reached > welfare + tol
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


def certify_rationality(outcome: Outcome) -> Certificate:
    """Everybody does at least as well as alone."""
    tols, names = outcome.tolerances, outcome.federation.names
    alone, refuted = isolation(outcome.federation, outcome.contributions).compare(outcome.utilities, tols)
    gaps = outcome.utilities - alone
    agent = int(np.argmin(gaps / tols if (gaps < -tols).any() else gaps))  # who loses most surely, or gains least
    witness = about(outcome, agent) | {
        "ir_gap": float(gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(alone[agent]),
        "endowments": {names[i]: float(-gaps[i]) for i in np.flatnonzero(would_leave(gaps, tols)) if refuted},
    }
    margin, tol = float(gaps[agent]), float(tols[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, tol, "this profile", witness, refuted=refuted)
