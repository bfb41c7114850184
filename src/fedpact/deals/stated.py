"""What a file states of a deal beside contributions and payments, held against what follows from these.

Payoffs, costs, utilities, shares, prices, certificates and all else that `fedpact solve --json` writes follow from the
federation, the contributions and the payments. Numbers are compared with the largest of their kind, so that rounding
on another machine does not count; words, names and verdicts must be the same.
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
DERIVED = (
    *OUTCOME_FIELDS,
    *OF_LOTS,
    "worst_reciprocity",
    "certificates",
    "assumptions",
    "equilibria",
    "prices",
    "excluded",
)
CHECKED = tuple(key for key in DERIVED if key not in GIVEN)
CONTRIBUTIONS = ("contribution", "contributions", "deviation")  # how names of numbers in units of data end
COUNTS = ("index", "dimension", "equilibria_searched")
RATIOS = ("reciprocity", "reciprocity_ratios", "value", "worst_ratio")
PRICES = ("prices", "net_externality", "shared_cap_prices")
# How a deal was negotiated: it follows from what was asked and answered, and from nothing else.
OF_NEGOTIATION = ("protocol", "settled_by", "rounds", "welfare", "residual")
RESIDUAL_TOLERANCE = 1e-12  # of what is at stake: residuals are of the order of rounding


def contradictions(record: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """What a record states otherwise than it follows from the outcome, in words; keys it does not know are left out."""
    stated = {key: entry for key, entry in record.items() if key in CHECKED}
    if isinstance(stated.get("excluded"), dict):  # who is not among its agents is out of all that follows
        stated["excluded"] = {name: why for name, why in stated["excluded"].items() if name in outcome.agents}
    if list(record["agents"]) == list(outcome.agents):
        return list(_Comparison(outcome).differences(stated))
    if any(key in stated for key in PER_AGENT if key not in (*GIVEN, "side_payments")):
        return ["agents must be those in the deal, in the order of the scenario, where a file states what they have"]
    return []


def negotiation_contradictions(record: Mapping[str, Any], deal: Deal) -> list[str]:
    """What a record states of how a deal was negotiated otherwise than its exchanges come to, in words."""
    due = deal_record(deal)
    scale = max(abs(deal.provenance.welfare), deal.turnover)
    tolerances = {"welfare": STATED_TOLERANCE * scale, "residual": RESIDUAL_TOLERANCE}
    compared = [key for key in ("source", "scenario", *OF_NEGOTIATION) if key in record]
    return [text for key in compared for text in _compare(key, record[key], due.get(key), tolerances.get(key, 0.0))]


class _Comparison:
    """What follows from an outcome, and how large numbers of each kind are."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.due = outcome_record(outcome)
        self.stake = float((np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments)).sum())
        prices = self.due["prices"]
        self.price = float(np.abs(prices).max()) if prices else float(np.abs(outcome.net_externality).max())
        self.ratio = _largest(outcome.reciprocity_ratios)
        self.contribution = float(outcome.contributions.max())

    def differences(self, stated: Mapping[str, Any]) -> Iterator[str]:
        for key, entry in stated.items():
            if key == "certificates" and isinstance(entry, dict):
                yield from self._certificates(entry)
            else:
                yield from self._compare(key, key, entry, self.due.get(key))

    def _certificates(self, stated: Mapping[str, Any]) -> Iterator[str]:
        for claim, entry in stated.items():
            due = self.due["certificates"].get(claim)
            if isinstance(entry, dict) and due is not None:
                due = due | {"witness": self._witness(entry.get("witness"), due)}
            yield from self._compare(f"certificates.{claim}", claim, entry, due)

    def _witness(self, stated: Any, due: Mapping[str, Any]) -> dict[str, Any]:
        """The witness due, of the agent stated where by rounding any could be the worst."""
        witness = dict(due["witness"])
        name = stated.get("agent") if isinstance(stated, dict) else None
        if not is_number(due["margin"]) or abs(due["margin"]) > due["tol"]:  # one that is not finite is text
            return witness
        if not isinstance(name, str) or name not in self.outcome.agents:
            return witness
        place, outcome = list(self.outcome.agents).index(name), self.outcome
        per_agent: dict[str, FloatArray] = {
            "contribution": outcome.contributions,
            "utility": outcome.utilities,
            "deviation_utility": outcome.utilities,
            "split_utility": outcome.utilities,
            "benefit": outcome.payoffs + outcome.payments,
            "shapley_value": outcome.shapley_values,
            "standalone": outcome.standalone,
            "ir_gap": outcome.ir_gaps,
        }
        witness |= {"agent": name, "index": place}
        if outcome.federation.has_lots:  # of lots, amounts that are as good by rounding are not told apart
            per_agent.pop("contribution")
            witness |= {key: stated.get(key) for key in ("contribution", "deviation") if key in witness}
        witness |= {key: float(numbers[place]) for key, numbers in per_agent.items() if key in witness}
        for key in ("deviation_utility", "split_utility"):  # bounds, good to the certificate's tolerance
            if key in witness and is_number(stated.get(key)) and abs(stated[key] - witness[key]) <= due["tol"]:
                witness[key] = stated[key]
        if "deviation" in witness and not outcome.federation.has_lots:
            witness["deviation"] = self._deviation(stated.get("deviation"), place)
        return witness

    def _deviation(self, stated: Any, place: int) -> float:
        """An agent's best other contribution; where nothing is gained, staying and both ends are as good."""
        outcome, federation = self.outcome, self.outcome.federation
        best = outcome.rules.deviations(federation, outcome.contributions).actions
        ends = (outcome.arrays.bounds()[0], federation.caps)
        as_good = [0.0, *(float(numbers[place]) for numbers in (best, outcome.contributions, *ends))]
        return float(stated) if is_number(stated) and stated in as_good else float(best[place])

    def _compare(self, path: str, key: str, stated: Any, due: Any) -> Iterator[str]:
        if isinstance(stated, dict) and isinstance(due, dict):
            for name, entry in stated.items():
                yield from self._compare(f"{path}.{name}", name, entry, due.get(name))
        elif isinstance(stated, list) and isinstance(due, list) and len(stated) == len(due):
            for place, (one, other) in enumerate(zip(stated, due, strict=True)):
                yield from self._compare(f"{path}[{place}]", key, one, other)
        else:
            yield from _compare(path, stated, due, self._tolerance(key, due) if is_number(due) else 0.0)

    def _tolerance(self, key: str, due: float) -> float:
        if key == "tol":  # of the order of rounding itself, and the verdict is compared
            return abs(due)
        if key in COUNTS:
            return STATED_TOLERANCE * abs(due)
        if key.endswith(CONTRIBUTIONS):
            return STATED_CONTRIBUTION_TOLERANCE * max(self.contribution, abs(due))
        scale = self.ratio if key in RATIOS else self.price if key in PRICES else self.stake
        return STATED_TOLERANCE * max(scale, abs(due))


def _compare(path: str, stated: Any, due: Any, tol: float) -> Iterator[str]:
    """How one number or word that is stated differs from the one due, if it does."""
    if is_number(stated) and is_number(due):
        if not abs(stated - due) <= tol:
            is_due, is_stated = differing_texts(due, stated)
            yield f"{path} is {is_due}, the file says {is_stated}"
    elif type(stated) is not type(due) or stated != due:
        yield f"{path} is {short_repr(due)}, the file says {short_repr(stated)}"


def _largest(numbers: FloatArray) -> float:
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
