"""The claims a mechanism may make, and the verdicts a certificate may reach."""

from __future__ import annotations

from enum import StrEnum


class Claim(StrEnum):
    """Section 2.2 of the paper, that the profile is an equilibrium at all, and what is beyond the paper."""

    NASH = "nash"
    BUDGET_BALANCE = "budget-balance"
    SOCIAL_OPTIMALITY = "social-optimality"
    INDIVIDUAL_RATIONALITY = "individual-rationality"
    RECIPROCITY = "reciprocity"
    CORE = "core"
    SPLIT_PROOF = "split-proof"


class Verdict(StrEnum):
    """What is known of a claim.

    `HOLDS`: it is proved. `NOT_REFUTED`: a search found no violation but cannot exclude one. `UNDEFINED`: it speaks of
    numbers that do not exist here. `VIOLATED`: it is refuted, or could not be worked out at all.
    """

    HOLDS = "holds"
    NOT_REFUTED = "not refuted"
    UNDEFINED = "undefined"
    VIOLATED = "violated"
