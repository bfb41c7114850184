"""One certificate for each claim about an outcome, worked out from the federation and the outcome alone.

Nothing here reads what a solver reported: equilibrium, optimum, balance, shares and what members have alone are worked
out anew by other routes (tangents and an ascent of their own, coalitions or another integral, sums); what groups would
do is handed over and verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from fedpact.certificates.checks import (
    better_profile,
    certify_balance,
    certify_nash,
    certify_optimality,
    certify_rationality,
)
from fedpact.certificates.claims import Certificate, CertifiedOutcome, Claim
from fedpact.certificates.core import certify_core
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.reciprocity import certify_reciprocity
from fedpact.certificates.shapley_check import CheckedShares, check_shares
from fedpact.certificates.split_proof import certify_split_proof
from fedpact.utils.arrays import FloatArray


class Certificates(Mapping[str, Certificate]):
    """One certificate per claim, each worked out when it is asked for."""

    def __init__(self, outcome: CertifiedOutcome) -> None:
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
        found: Deviations = outcome.rules.deviations(outcome.federation, outcome.contributions)
        return found

    @cached_property
    def _shares(self) -> CheckedShares | None:
        """The Shapley values; those that the deviations were worked out from, if these were."""
        known = self._deviations.shares if Claim.NASH in self._known else None
        if known is not None and known.probability is None:
            return known
        return check_shares(self._outcome.played, self._outcome.contributions)
