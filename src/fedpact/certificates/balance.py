"""Budget balance: payments sum to zero, so that nobody outside pays or is paid."""

from __future__ import annotations

import numpy as np

from fedpact.certificates.certificate import Certificate, CertifiedOutcome
from fedpact.certificates.claims import Claim
from fedpact.certificates.tolerances import balance_tolerance


def certify_balance(outcome: CertifiedOutcome) -> Certificate:
    """Payments sum to zero."""
    total, turnover = float(outcome.payments.sum()), float(np.abs(outcome.payments).sum())
    witness = {"sum": total, "turnover": turnover}
    tol = float(balance_tolerance(outcome.payments, outcome.payoffs))
    return Certificate.judge(Claim.BUDGET_BALANCE, -abs(total), tol, "this profile", witness)
