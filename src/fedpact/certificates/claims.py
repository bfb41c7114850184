"""The claims a mechanism may make, and the verdicts a certificate may reach."""

from __future__ import annotations

from collections.abc import Mapping
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

    `HOLDS`: it is proved. `NOT_REFUTED`: nothing was found against it, and a violation is not excluded: a search may
    have missed it, a bound be loose, or it could not be worked out (its margin is NaN). `UNDEFINED`: it speaks of
    numbers that do not exist here. `VIOLATED`: it is refuted, and the witness shows by what.
    """

    HOLDS = "holds"
    NOT_REFUTED = "not refuted"
    UNDEFINED = "undefined"
    VIOLATED = "violated"


# What people call the claims.
TITLES: Mapping[Claim, str] = {
    Claim.NASH: "Nobody gains by giving more or less",
    Claim.BUDGET_BALANCE: "The payments balance",
    Claim.SOCIAL_OPTIMALITY: "Best for all together",
    Claim.INDIVIDUAL_RATIONALITY: "Everybody does at least as well as alone",
    Claim.RECIPROCITY: "Everybody gets its fair share",
    Claim.CORE: "No group gains by leaving together",
    Claim.SPLIT_PROOF: "Nobody gains by posing as two",
}


def claim_title(claim: str) -> str:
    """What people call a claim; what is found of a ledger, such as its chain, is called by its own name.

    Examples
    --------
    >>> claim_title("budget-balance"), claim_title("chain")
    ('The payments balance', 'chain')
    """
    return TITLES[Claim(claim)] if claim in tuple(Claim) else claim


def quote_claim(claim: str) -> str:
    """A claim in a sentence: its words in quotes.

    Examples
    --------
    >>> print(quote_claim("budget-balance"), "or", quote_claim("chain"))
    "The payments balance" or chain
    """
    title = claim_title(claim)
    return title if title == claim else f'"{title}"'
