"""Individual rationality: everybody does at least as well as alone."""

from __future__ import annotations

import numpy as np

from fedpact.certificates.certificate import Certificate, CertifiedOutcome, about
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import isolation
from fedpact.certificates.tolerances import would_leave


def certify_rationality(outcome: CertifiedOutcome) -> Certificate:
    """Everybody does at least as well as alone."""
    tols, names = outcome.tolerances, outcome.federation.names
    alone, refuted = isolation(outcome.federation, outcome.contributions).compare(outcome.utilities, tols)
    gaps = outcome.utilities - alone
    agent = int(np.argmin(gaps / tols))
    witness = about(outcome, agent) | {
        "ir_gap": float(gaps[agent]),
        "utility": float(outcome.utilities[agent]),
        "standalone": float(alone[agent]),
        "endowments": {names[i]: float(-gaps[i]) for i in np.flatnonzero(would_leave(gaps, tols)) if refuted},
    }
    margin, tol = float(gaps[agent]), float(tols[agent])
    return Certificate.judge(Claim.INDIVIDUAL_RATIONALITY, margin, tol, "this profile", witness, refuted=refuted)
