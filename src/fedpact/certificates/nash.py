"""Nash equilibrium: nobody gains by acting differently, over the whole range of its actions.

What a member could do otherwise follows from the mechanism's rules (`fedpact.certificates.deviations`). It counts from
the utility the outcome gives the member, so that spoiled payments show as well as spoiled contributions.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.certificate import Certificate, CertifiedOutcome, about
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.utils.arrays import FloatArray


def certify_nash(outcome: CertifiedOutcome, best: Deviations) -> Certificate:
    """Nobody gains by acting differently; side payments are the same whatever anybody does."""
    proves, tols = best.shares is None or best.shares.proves, outcome.tolerances
    if best.shares is not None and not proves:
        tols = tols + best.shares.error
    there, refuted = best.compare(outcome.utilities - outcome.side_payments, tols)
    gains = there + outcome.side_payments - outcome.utilities
    agent = int(np.argmax(gains / tols))
    witness = about(outcome, agent) | {
        "contribution": _own(outcome, outcome.contributions, agent),
        "deviation": _own(outcome, best.actions, agent),
        "utility": float(outcome.utilities[agent]),
        "deviation_utility": float(outcome.utilities[agent] + gains[agent]),
    }
    margin, tol = -float(gains[agent]), float(tols[agent])
    return Certificate.judge(Claim.NASH, margin, tol, best.scope, witness, proven=proves, refuted=refuted)


def _own(outcome: CertifiedOutcome, profile: FloatArray, agent: int) -> float | dict[str, float]:
    """A member's contribution, or those of its lots by name."""
    federation = outcome.federation
    if not federation.has_lots:
        return float(profile[agent])
    return {federation.lot_names[lot]: float(profile[lot]) for lot in federation.lots_of(agent)}
