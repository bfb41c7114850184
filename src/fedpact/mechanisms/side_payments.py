"""M^E with side payments: what mechanisms share that add sums nobody's contribution changes.

Contributions are a welfare optimum and data is paid for at prices (`fedpact.mechanisms.externality`). On top come
constants T_i that add up to zero. They change nobody's reasons to contribute, so equilibrium, balance and optimality
stay as they are, and T can be chosen to give everybody any utilities that sum to the welfare. A mechanism says which:
`target_utilities`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, price_taking
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds
from fedpact.certificates.tolerances import STAKE_TOLERANCE, agent_values, utility_tolerances
from fedpact.deals import Equilibria, Outcome
from fedpact.deals.outcome import AS_GIVEN
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import SOLVER_ERRORS, BatchSolution
from fedpact.mechanisms.externality import ExternalityMechanism, price_payments
from fedpact.mechanisms.optimum import equilibria_of
from fedpact.programs.group_batch import groups_together, lists_together
from fedpact.programs.groups import knowing
from fedpact.programs.social_optimum import OptimalFace, SocialOptimum, social_optimum
from fedpact.programs.solver import Solution
from fedpact.utils.arrays import FloatArray, align

DIVISION_TIME_LIMIT = 120.0  # seconds, for dividing what is gained so that no group among many would leave


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rules:
    """The rules of an outcome whose side payments are known: they are constants of its federation."""

    mechanism: SidePaymentMechanism
    federation: Federation
    side_payments: FloatArray
    elsewhere: dict[str, FloatArray] = field(default_factory=dict)  # of the last other federation, by fingerprint

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return _shift(price_taking(federation, contributions), self._constants(federation))

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return price_payments(federation, contributions) + self._constants(federation)

    def _constants(self, federation: Federation) -> FloatArray:
        if federation is self.federation:
            return self.side_payments
        if federation.fingerprint not in self.elsewhere:
            self.elsewhere.clear()
            self.elsewhere[federation.fingerprint] = self.mechanism.side_payments(federation)
        return self.elsewhere[federation.fingerprint]


class SidePaymentMechanism(ExternalityMechanism):
    """Contributions and prices of M^E, and fixed sums that bring everybody to `target_utilities`."""

    has_side_payments = True
    asks_for_groups = False  # whether the targets depend on what all groups reach by themselves
    claims_without_harm: Sequence[Claim] = ()  # what it keeps, it keeps with harm as well

    @abstractmethod
    def target_utilities(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What everybody has in the end at a welfare optimum; they sum to the welfare."""

    def solve(self, federation: Federation) -> Outcome:
        """The welfare optimum of smallest norm, its payments at prices, and the side payments.

        Raises
        ------
        NoFairDeal
            If there are no side payments of the kind the mechanism asks for.
        """
        return self._outcome(federation, social_optimum(federation))

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return _shift(price_taking(federation, contributions), self.side_payments(federation))

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        return price_payments(federation, contributions) + self.side_payments(federation)

    def side_payments(self, federation: Federation) -> FloatArray:
        """T: what each member is paid whatever anybody contributes; they add up to zero."""
        return self._side_payments(federation, social_optimum(federation).contributions)

    def outcome_at(
        self,
        federation: Federation,
        contributions: ArrayLike,
        payments: ArrayLike | None = None,
        *,
        equilibria: Equilibria = AS_GIVEN,
        solution: Solution | None = None,
        face: OptimalFace | None = None,
        side_payments: ArrayLike | None = None,
    ) -> Outcome:
        """A profile under these rules; what is paid beyond the prices is a side payment unless they are given."""
        profile = np.asarray(align("contributions", contributions, federation.lot_labels), dtype=np.float64)
        payments = None if payments is None else np.asarray(align("payments", payments, federation.names))
        priced = price_payments(federation, profile)
        if side_payments is not None:
            side = np.asarray(align("side_payments", side_payments, federation.names), dtype=np.float64)
        else:
            side = self.side_payments(federation) if payments is None else payments - priced
        rules = _Rules(mechanism=self, federation=federation, side_payments=side)
        made = super().outcome_at(
            federation,
            profile,
            priced + side if payments is None else payments,
            equilibria=equilibria,
            solution=solution,
            face=face,
            side_payments=side,
        )
        return replace(made, deviations=rules.deviations, payment_rule=rules.payment_rule)

    def solve_together(self, batch: Batch) -> BatchSolution:
        """The optima and prices of all together, side payments one federation after the other."""
        found = ExternalityMechanism().solve_together(batch)
        payments = np.full(found.payments.shape, np.nan)
        contributions = found.contributions.copy()
        together = groups_together(batch) if self.asks_for_groups and lists_together(batch) else None
        for place in np.flatnonzero(~np.isnan(contributions).any(axis=1)).tolist():
            federation = batch[place]
            is_known = together is not None and np.isfinite(together[place].values).all()
            try:
                with knowing({federation.fingerprint: together[place]} if together and is_known else {}):
                    side = self._side_payments(federation, contributions[place])
                payments[place] = found.payments[place] + side
            except SOLVER_ERRORS:
                contributions[place] = np.nan  # told when it is solved alone
        return replace(found, contributions=contributions, payments=payments)

    def is_vectorised(self, batch: Batch) -> bool:
        return ExternalityMechanism().is_vectorised(batch)

    def deviation_bounds_at(self, batch: Batch, contributions: FloatArray, payments: FloatArray) -> FloatArray:
        """What is paid beyond the prices is a constant."""
        prices = ExternalityMechanism()
        side = payments - prices.payments_together(batch, contributions)
        return prices.deviation_bounds(batch, contributions) + side

    def payment_bounds(self, federation: Federation, contributions: FloatArray) -> PaymentBounds:
        """Payments at prices, certified; of side payments that nobody states nothing is."""
        priced = price_payment_bounds(federation, contributions)
        side = self.side_payments(federation)
        return PaymentBounds(payments=priced.payments + side, errors=np.full(side.size, np.inf))

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        side = None
        if payments is None:
            side = self._side_payments(federation, optimum.contributions)
        return self.outcome_at(
            federation,
            optimum.contributions,
            payments,
            equilibria=equilibria_of(optimum, *self.optimum_names),
            solution=optimum.solution,
            face=optimum.face,
            side_payments=side,
        )

    def _side_payments(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """T at a welfare optimum: from what everybody has at prices to its target.

        What rounding leaves of the sum is shared out by stakes: it comes from the large and would swamp the small.
        """
        payoffs, costs = federation.payoffs(contributions), federation.spending(contributions)
        utilities = payoffs - costs + price_payments(federation, contributions)
        side = self.target_utilities(federation, contributions) - utilities
        stakes = stakes_at_prices(federation, contributions)
        return np.asarray(side - side.sum() * (stakes / stakes.sum()))


def stakes_at_prices(federation: Federation, contributions: FloatArray) -> FloatArray:
    """What rounding in each member's utility is measured by, where data is paid for at prices."""
    payoffs, costs = federation.payoffs(contributions), federation.spending(contributions)
    priced = price_payments(federation, contributions)
    return utility_tolerances(payoffs, costs, priced, agent_values(federation)) / STAKE_TOLERANCE


def _shift(best: Deviations, constants: FloatArray) -> Deviations:
    """The same deviations where everybody is paid a constant whatever it does; not what two names are paid."""
    return replace(best, utilities=best.utilities + constants, as_two=None)
