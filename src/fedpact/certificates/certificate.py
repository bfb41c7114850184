"""A certificate: a claim, a verdict, and a witness from which the margin can be recomputed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np


class Claim(StrEnum):
    """The properties of section 2.2 of the paper, and that the profile is an equilibrium at all."""

    NASH = "nash"
    BUDGET_BALANCE = "budget-balance"
    SOCIAL_OPTIMALITY = "social-optimality"
    INDIVIDUAL_RATIONALITY = "individual-rationality"
    RECIPROCITY = "reciprocity"


class Verdict(StrEnum):
    """What is known of a claim.

    `HOLDS`: it is proved. `NOT_REFUTED`: a search found no violation but cannot exclude one. `UNDEFINED`: it speaks of
    numbers that do not exist here. `VIOLATED`: it is refuted, or could not be worked out at all.
    """

    HOLDS = "holds"
    NOT_REFUTED = "not refuted"
    UNDEFINED = "undefined"
    VIOLATED = "violated"


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
            verdict = Verdict.VIOLATED if refuted or np.isnan(margin) else Verdict.NOT_REFUTED
        return cls(claim=claim, verdict=verdict, margin=float(margin), tol=float(tol), scope=scope, witness=witness)

    @classmethod
    def undefined(cls, claim: Claim, tol: float, scope: str) -> Certificate:
        """The certificate of a claim about numbers that do not exist; `scope` says why."""
        return cls(claim=claim, verdict=Verdict.UNDEFINED, margin=float("nan"), tol=tol, scope=scope, witness={})

    @property
    def holds(self) -> bool:
        """Whether the claim is proved."""
        return self.verdict is Verdict.HOLDS
