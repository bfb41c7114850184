"""What a file states of a deal beside contributions and payments, held against what follows from these.

Payoffs, costs, utilities, shares, prices, verdicts and all else that `fedpact solve --json` writes follow from the
federation, the contributions and the payments. Numbers are compared with the largest of their kind, so that rounding
on another machine does not count; words, names and verdicts must be the same. Of certificates only claims and verdicts
count: margins and witnesses are worked out anew wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedpact.certificates.claims import STATED_CONTRIBUTION_TOLERANCE, STATED_TOLERANCE
from fedpact.deals.deal import Deal
from fedpact.deals.deal_file import OUTCOME_FIELDS, deal_record, is_number, outcome_record
from fedpact.deals.outcome import PER_AGENT, Outcome
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import short_repr
from fedpact.utils.words import differing_texts

# What the outcome is made from: compared with the rules by the certificates, or with the scenario when it is read.
GIVEN = ("mechanism", "agents", "contributions", "payments", "scenario", "source")
OF_LOTS = ("task_owners", "task_names", "task_payoffs", "shared_caps", "shared_cap_prices")
BESIDE = ("worst_reciprocity", "certificates", "assumptions", "equilibria", "prices", "excluded")
CHECKED = tuple(key for key in (*OUTCOME_FIELDS, *OF_LOTS, *BESIDE) if key not in GIVEN)
RATIOS = ("reciprocity", "reciprocity_ratios", "value")
PRICES = ("prices", "net_externality", "shared_cap_prices")
# How a deal was negotiated: it follows from what was asked and answered, and from nothing else.
OF_NEGOTIATION = ("protocol", "settled_by", "rounds", "welfare", "residual")
RESIDUAL_TOLERANCE = 1e-12  # of what is at stake: residuals are of the order of rounding


def contradictions(record: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """What a record states otherwise than it follows from the outcome, in words; keys it does not know are left out."""
    stated = {key: entry for key, entry in record.items() if key in CHECKED}
    if isinstance(stated.get("excluded"), dict):  # who is not among its agents is out of all that follows
        stated["excluded"] = {name: why for name, why in stated["excluded"].items() if name in outcome.agents}
    if isinstance(stated.get("certificates"), dict):
        stated["certificates"] = {claim: _verdict(entry) for claim, entry in stated["certificates"].items()}
    if list(record["agents"]) == list(outcome.agents):
        due, tolerances = outcome_record(outcome), _Tolerances(outcome)
        return [text for key, entry in stated.items() for text in _compare(key, key, entry, due.get(key), tolerances)]
    if any(key in stated for key in PER_AGENT if key not in (*GIVEN, "side_payments")):
        return ["agents must be those in the deal, in the order of the scenario, where a file states what they have"]
    return []


def negotiation_contradictions(record: Mapping[str, Any], deal: Deal) -> list[str]:
    """What a record states of how a deal was negotiated otherwise than its exchanges come to, in words."""
    due = deal_record(deal)
    scale = max(abs(deal.provenance.welfare), deal.turnover)
    tolerances = {"welfare": STATED_TOLERANCE * scale, "residual": RESIDUAL_TOLERANCE}
    compared = [key for key in ("source", "scenario", *OF_NEGOTIATION) if key in record]
    return [text for key in compared for text in _differ(key, record[key], due.get(key), tolerances.get(key, 0.0))]


def _verdict(certificate: Any) -> Any:
    if not isinstance(certificate, dict):
        return certificate
    return {key: certificate.get(key) for key in ("claim", "verdict")}


class _Tolerances:
    """How large numbers of each kind are in an outcome, and so how far they may be apart by rounding."""

    def __init__(self, outcome: Outcome) -> None:
        prices = outcome.deal.prices
        self.stake = float((np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments)).sum())
        self.price = _largest(outcome.net_externality if prices is None else prices)
        self.ratio, self.contribution = _largest(outcome.reciprocity_ratios), _largest(outcome.contributions)

    def of(self, key: str, due: float) -> float:
        """Of a number of this key."""
        if key.endswith("contributions"):
            return STATED_CONTRIBUTION_TOLERANCE * max(self.contribution, abs(due))
        scale = self.ratio if key in RATIOS else self.price if key in PRICES else self.stake
        return STATED_TOLERANCE * max(0.0 if key == "dimension" else scale, abs(due))


def _compare(path: str, key: str, stated: Any, due: Any, tolerances: _Tolerances) -> Iterator[str]:
    """How what is stated under a path differs from what is due, number by number and word by word."""
    if isinstance(stated, dict) and isinstance(due, dict):
        for name, entry in stated.items():
            yield from _compare(f"{path}.{name}", name, entry, due.get(name), tolerances)
    elif isinstance(stated, list) and isinstance(due, list) and len(stated) == len(due):
        for place, (one, other) in enumerate(zip(stated, due, strict=True)):
            yield from _compare(f"{path}[{place}]", key, one, other, tolerances)
    else:
        yield from _differ(path, stated, due, tolerances.of(key, due) if is_number(due) else 0.0)


def _differ(path: str, stated: Any, due: Any, tol: float) -> Iterator[str]:
    if is_number(stated) and is_number(due):
        if not abs(stated - due) <= tol:
            is_due, is_stated = differing_texts(due, stated)
            yield f"{path} is {is_due}, the file says {is_stated}"
    elif type(stated) is not type(due) or stated != due:
        yield f"{path} is {short_repr(due)}, the file says {short_repr(stated)}"


def _largest(numbers: FloatArray) -> float:
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
