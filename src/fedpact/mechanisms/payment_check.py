"""How much of the money of a deal can be in the wrong pocket.

The payments stated are compared with those due at the stated contributions, worked out without the solver; a certified
bound says how far these can be from the payments of the exact equilibrium. Where that bound is too wide to tell, an
equilibrium is worked out a second time, certified in the same way, and the payments stated are compared with its own.
Where it cannot be certified to the tolerance, such as where there are many optima or very many members, the comparison
is all there is, and is called so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.certificates.tolerances import payment_tolerance
from fedpact.deals import Outcome
from fedpact.mechanisms.base import SOLVER_ERRORS, Mechanism
from fedpact.utils.arrays import FloatArray

NO_PAYMENTS = "certified: by these rules nobody pays"
AT_PROFILE = "certified: by the slopes at its contributions no equilibrium has payments further off"
AT_SECOND = "certified: compared with an equilibrium worked out a second time, itself certified"
COMPARED = "not certified: compared with an equilibrium worked out a second time"
UNKNOWN = "not known: no equilibrium was found to compare with"


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentCheck:
    """How far the payments of a deal can be from those of the exact equilibrium.

    Attributes
    ----------
    errors
        By agent, in units of payoff; NaN where nothing is known.
    tol
        What may be in the wrong pocket, in units of payoff.
    method
        What this rests on, in words.
    is_certified
        Whether it is a proven bound; otherwise it is the difference to a second solve.
    agent
        Whose payment is furthest off.
    """

    errors: FloatArray
    tol: float
    method: str
    is_certified: bool
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
    """Bound the misallocated money of an outcome under a mechanism's rules.

    Parameters
    ----------
    per_payoff
        How much money a unit of payoff is worth; None where there is no money.
    """
    stated = outcome.payments
    tol = payment_tolerance(outcome.deal.turnover, outcome.payoffs, per_payoff)
    here = mechanism.stated_payment_bounds(outcome)
    errors, is_certified = np.abs(stated - here.payments) + here.errors, True
    method = AT_PROFILE if mechanism.has_payments else NO_PAYMENTS
    if mechanism.has_payments and not errors.max() <= tol:
        try:
            there = mechanism.second_payment_bounds(outcome)
        except SOLVER_ERRORS:
            method, is_certified = UNKNOWN, False
        else:
            is_certified = bool(there.errors.max() <= tol)
            method = AT_SECOND if is_certified else COMPARED
            errors = np.abs(stated - there.payments) + (there.errors if is_certified else 0.0)
    errors = np.where(np.isfinite(errors), errors, np.nan)
    worst = int(np.argmax(errors))
    return PaymentCheck(
        errors=errors, tol=tol, method=method, is_certified=is_certified, agent=str(outcome.agents[worst])
    )
