"""How much of the money of a deal can be in the wrong pocket.

The payments stated are compared with those of an equilibrium that is worked out a second time: where there are several,
with one close to the deal's own contributions. A profile that misses the equilibrium a little costs its members next to
nothing, to second order; the payments move with it to first order, so that certificates of the profile do not show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.certificates.tolerances import BALANCE_TOLERANCE
from fedpact.deals import Outcome
from fedpact.mechanisms.base import SOLVER_ERRORS, Mechanism
from fedpact.utils.arrays import FloatArray

PAYMENT_TOLERANCE = 1e-8  # of what changes hands, in the wrong pockets; where there is money a cent counts instead
CENT = 0.01  # of the currency
NO_PAYMENTS = "by these rules nobody pays"
COMPARED = "compared with an equilibrium worked out a second time"
UNKNOWN = "not known: no equilibrium was found to compare with"


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentCheck:
    """How far the payments of a deal can be from those of the exact equilibrium.

    Attributes
    ----------
    errors
        By member, in units of payoff; NaN where nothing is known.
    tol
        What may be in the wrong pocket, in units of payoff.
    method
        What this rests on, in words.
    agent
        Whose payment is furthest off.
    """

    errors: FloatArray
    tol: float
    method: str
    agent: str

    @property
    def error(self) -> float:
        """The largest of the errors."""
        return float(self.errors.max())

    @property
    def is_known(self) -> bool:
        """Whether anything can be said of the payments."""
        return not np.isnan(self.error)

    @property
    def exceeds(self) -> bool:
        """Whether more than the tolerance may be in the wrong pocket: also where nothing can be said."""
        return not self.error <= self.tol


def check_payments(mechanism: Mechanism, outcome: Outcome, *, per_payoff: float | None = None) -> PaymentCheck:
    """How far the payments of an outcome are from those that are due under a mechanism's rules.

    A unit of payoff is worth `per_payoff` of money; None where there is no money.
    """
    due, method = np.zeros(len(outcome.agents)), NO_PAYMENTS
    if mechanism.has_payments:
        try:
            due, method = mechanism.payments_due(outcome.federation, outcome.contributions), COMPARED
        except SOLVER_ERRORS:
            due, method = np.full(len(outcome.agents), np.nan), UNKNOWN
    errors, turnover = np.abs(outcome.payments - due), outcome.deal.turnover
    # Sums too large for floats to tell cents apart are held to what floats can; among equals all turnover is rounding.
    rounding = BALANCE_TOLERANCE * max(turnover, float(np.abs(outcome.payoffs).sum()))
    return PaymentCheck(
        errors=np.where(np.isfinite(errors), errors, np.nan),
        tol=max(rounding, PAYMENT_TOLERANCE * turnover if per_payoff is None else CENT / per_payoff),
        method=method,
        agent=str(outcome.agents[int(np.argmax(np.nan_to_num(errors)))]),
    )
