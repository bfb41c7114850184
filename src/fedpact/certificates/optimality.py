"""Social optimality: no admissible profile has more welfare.

Payoffs are concave, so the tangents at any profile bound the welfare of all (`fedpact.certificates.concave`); at an
optimum the bound is tight. Where it is not, an ascent from the profile finds a better one, if there is one, and the
bound there is a better one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.certificates.certificate import Certificate, CertifiedOutcome
from fedpact.certificates.claims import Claim
from fedpact.certificates.concave import maximise, welfare_problem
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray


def certify_optimality(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No admissible profile has more welfare; `optimum` gives one that may have, if it is needed."""
    arrays, tol, welfare = outcome.arrays, float(outcome.tolerances.sum()), float(outcome.welfare)
    witness: dict[str, Any] = {"welfare": welfare}
    bound, refuted = welfare_bound(arrays, outcome.contributions), False
    if bound > welfare + tol:
        better = optimum()
        reached = float(arrays.welfare(better))
        bound, refuted = min(bound, welfare_bound(arrays, better)), reached > welfare + tol
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
