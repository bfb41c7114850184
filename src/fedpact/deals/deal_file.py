"""Deals in files: one reader for all that can hold one, and one writer.

`load_deal` reads what `fedpact solve --json`, `fedpact negotiate --json` and `Deal.save` write, the explorer's
download, the transcript of a negotiation and the ledger of a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.certificates.claims import STATED_CONTRIBUTION_TOLERANCE, STATED_TOLERANCE
from fedpact.deals.deal import Deal, Provenance, Source
from fedpact.deals.ledger import AGREED, FAILED, SIGNED, is_end, is_ledger, read_ledger
from fedpact.deals.outcome import PER_AGENT, Outcome
from fedpact.deals.signatures import last_deal, signed_deals
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX, Transcript, is_transcript, read_transcript
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import DECODERS, read_text, replace_text
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import differing_texts

PARTS = ("mechanism", "agents", "contributions", "payments", "prices", "side_payments", "excluded")
REQUIRED = PARTS[:4]
LOT_PARTS = ("lot_owners", "lot_names")
# How a deal was negotiated: it follows from what was asked and answered, and from nothing else.
NEGOTIATED = ("protocol", "settled_by", "rounds", "welfare", "residual")
MAX_NUMBER = 1e300
OUTCOME_FIELDS = (*PER_AGENT, "reciprocity", "welfare", "budget", "leavers", "diagnosis")
# What the outcome is made from: compared with the rules by the certificates, or with the scenario when it is read.
GIVEN = ("mechanism", "agents", "contributions", "payments", "scenario", "source")
OF_LOTS = ("task_owners", "task_names", "task_payoffs", "shared_caps", "shared_cap_prices")
BESIDE = ("worst_reciprocity", "certificates", "assumptions", "equilibria", "prices", "excluded")
CHECKED = tuple(key for key in (*OUTCOME_FIELDS, *OF_LOTS, *BESIDE) if key not in GIVEN)
RATIOS = ("reciprocity", "reciprocity_ratios", "value")
PRICES = ("prices", "net_externality", "shared_cap_prices")
RESIDUAL_TOLERANCE = 1e-12  # of what is at stake: residuals are of the order of rounding
NO_DEAL_YET = "there is no deal in it yet; `fedpact negotiate` with this transcript goes on"


def load_deal(path: Path | str, *, mechanism: str | None = None) -> Deal:
    """The deal in a file.

    Parameters
    ----------
    path
        A JSON file of `fedpact solve`, `fedpact negotiate`, `Deal.save` or the explorer; a transcript; a ledger.
    mechanism
        Which one, in a file that holds the outcomes of several; the recommended one by default.

    Raises
    ------
    InvalidInput
        If there is no such file, no deal in it, or the deal is not what a deal must be.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(field="path", rule="must be the name of a file", value=path)
    path = Path(path)
    if is_ledger(path):
        deal = _from_ledger(path)
    elif is_transcript(path):
        deal = stated_deal(read_transcript(path))
    else:
        record = read_record(path, mechanism=mechanism)
        with error_context(str(path)):
            deal = deal_from_record(record)
    if mechanism is not None and deal.mechanism != mechanism:
        raise InvalidInput(f"{path}: the deal in it is one of {deal.mechanism}, not of {mechanism}")
    return deal


def save_deal(deal: Deal, path: Path | str) -> None:
    """Write a deal to a JSON file that `load_deal` reads."""
    if not isinstance(path, str | os.PathLike) or Path(path).suffix.lower() == TRANSCRIPT_SUFFIX:
        rule = f"must be the name of a JSON file; names that end in {TRANSCRIPT_SUFFIX} are for transcripts and ledgers"
        raise InvalidInput(field="path", rule=rule, value=path, given=f", got {short_repr(path)}")
    replace_text(Path(path), json.dumps(deal_record(deal), indent=2, ensure_ascii=False) + "\n")


def deal_record(deal: Deal) -> dict[str, Any]:
    """A deal as plain data, which `deal_from_record` reads."""
    by = deal.provenance
    record = {part: getattr(deal, part) for part in (*PARTS, *(LOT_PARTS if deal.has_lots else ()), "scenario")}
    record |= {"source": by.source}
    record |= {name: getattr(by, name) for name in NEGOTIATED if by.protocol is not None}
    plain: dict[str, Any] = jsonable(record)
    return plain


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """Everything an outcome says, as plain data; `deal_from_record` reads the deal in it."""
    record = deal_record(outcome.deal)
    record |= {field: getattr(outcome, field) for field in OUTCOME_FIELDS}
    federation = outcome.federation
    if federation.has_lots:
        record |= {"task_owners": [federation.names[owner] for owner in federation.task_owners]}
        record |= {"task_names": federation.task_names, "task_payoffs": outcome.task_payoffs}
    if federation.shared_caps:
        labels = federation.lot_labels
        record["shared_caps"] = [
            {"lots": [labels[lot] for lot in shared.lots], "cap": shared.cap} for shared in federation.shared_caps
        ]
        record["shared_cap_prices"] = outcome.shared_cap_prices
    worst = outcome.worst_reciprocity
    record["worst_reciprocity"] = {part: getattr(worst, part) for part in ("value", "contributions", "payments")}
    proof = ("claim", "verdict", "margin", "tol", "scope", "witness")
    record["certificates"] = {
        claim: {part: getattr(entry, part) for part in proof} for claim, entry in outcome.certificates.items()
    }
    told = ("name", "holds", "agents", "consequence")
    record["assumptions"] = [{part: getattr(entry, part) for part in told} for entry in outcome.assumptions]
    record["equilibria"] = asdict(outcome.equilibria)
    plain: dict[str, Any] = jsonable(record)
    return plain


def deal_from_record(record: Mapping[str, Any]) -> Deal:
    """The deal that a record states; an error names the key, the rule it breaks and what was given."""
    if record.get("agents") == []:  # everybody left
        raise InvalidInput("nobody is in this deal")
    for key in REQUIRED:
        if key not in record:
            raise InvalidInput(f"a deal must have the key {key!r}; `fedpact solve --json` writes it")
    parts = {part: record.get(part) for part in (*PARTS, *LOT_PARTS, "scenario")}
    for key in ("contributions", "payments", "side_payments"):
        if key in REQUIRED or parts[key] is not None:
            parts[key] = _numbers(key, parts[key])
    rows = parts["prices"]
    if rows is not None:
        if not isinstance(rows, list):
            raise InvalidInput(f"prices must be a list of lists, got {short_repr(rows)}")
        parts["prices"] = [_numbers(f"prices[{row}]", each) for row, each in enumerate(rows)]
    excluded = {} if parts["excluded"] is None else parts["excluded"]
    return Deal(**parts | {"excluded": excluded, "provenance": _provenance(record)})


def stated_deal(transcript: Transcript) -> Deal:
    """The deal that the last line of a transcript states."""
    if transcript.deal is None:
        raise InvalidInput(f"{transcript.path}: {NO_DEAL_YET}")
    with error_context(f"{transcript.path}: the deal"):
        record = transcript.deal
        if record.get("agents") != list(transcript.header.agents):
            raise InvalidInput("agents must be those of the first line, in their order")
        return deal_from_record({"source": Source.NEGOTIATED.value, "scenario": transcript.header.scenario, **record})


def is_deal_record(record: Any) -> bool:
    """Whether plain data looks like a deal, or like the outcomes of several mechanisms."""
    return isinstance(record, dict) and ("outcomes" in record or {"contributions", "payments"} <= record.keys())


def holds_deal(path: Path) -> bool:
    """Whether a file looks like one of a deal, whatever is in it: a ledger, a transcript or a JSON file."""
    if not path.is_file():
        return False
    if is_ledger(path) or is_transcript(path):
        return True
    try:
        return is_deal_record(DECODERS[".json"](read_text(path)))
    except ValueError:  # of which InvalidInput is one
        return False


def _from_ledger(path: Path) -> Deal:
    chain = read_ledger(path)
    with error_context(str(path)):
        if chain.broken is not None:
            raise InvalidInput(f"line {len(chain.entries) + 1} {chain.broken}: the ledger was changed")
        entries = last_deal(signed_deals(chain.entries)).entries
        if AGREED not in entries:
            raise InvalidInput("there is no deal in this ledger yet")
        if FAILED in entries and is_end(entries[FAILED]):
            why = f"{entries[FAILED].content.get('reason')!s:.200}"
            raise InvalidInput(f"the run failed, and its deal with it ({why}): it binds and pays nobody")
        record = entries[AGREED].content.get("deal")
        if not isinstance(record, dict):
            raise InvalidInput(f"a deal must be a JSON object, got {short_repr(record)}")
        source = Source.SIGNED.value if SIGNED in entries else record.get("source", Source.NEGOTIATED.value)
        return deal_from_record({**record, "source": source})


def read_record(path: Path, *, mechanism: str | None = None) -> dict[str, Any]:
    """All that a JSON file states of a deal: of one, where it holds the outcomes of several mechanisms."""
    with error_context(str(path)):
        if path.suffix.lower() == ".html":
            raise InvalidInput("this is a page; the deal is the .json that -o writes")
        record = DECODERS[".json"](read_text(path))
        if not isinstance(record, dict):
            raise InvalidInput(f"a deal must be one JSON object, got {short_repr(record)}")
        outcomes = record.get("outcomes")
        if not isinstance(outcomes, list):
            return record
        recommended = record.get("recommendation")
        name = mechanism or (recommended.get("mechanism") if isinstance(recommended, dict) else None)
        listed = [each for each in outcomes if isinstance(each, dict)]
        for outcome in listed:
            if outcome.get("mechanism") == name:
                return outcome
        there = ", ".join(str(each.get("mechanism")) for each in listed)
        raise InvalidInput(f"there is no outcome of {name!r} in it; say which mechanism: {there}")


def _provenance(record: Mapping[str, Any]) -> Provenance:
    negotiated = isinstance(record.get("protocol"), str)
    named = record.get("source", Source.NEGOTIATED.value if negotiated else Source.STATED.value)
    if named not in [source.value for source in Source]:
        raise InvalidInput(f"source must be one of {', '.join(s.value for s in Source)}, got {short_repr(named)}")
    if not negotiated:
        return Provenance(source=Source(named))
    settled_by, rounds = record.get("settled_by"), record.get("rounds")
    if not isinstance(settled_by, str | None):
        raise InvalidInput(f"settled_by must be a text, got {short_repr(settled_by)}")
    known: dict[str, Any] = {key: float(record[key]) for key in ("welfare", "residual") if is_number(record.get(key))}
    known |= {"protocol": record["protocol"], "rounds": rounds if isinstance(rounds, int) else 0}
    return Provenance(source=Source(named), settled_by=settled_by, **known)


def _numbers(key: str, given: Any) -> FloatArray:
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{key} must be a list of numbers, got {short_repr(given)}")
    for index, entry in enumerate(given):
        if not is_number(entry):
            raise InvalidInput(f"{key}[{index}] must be a finite number, got {short_repr(entry)}")
    return np.array(given, dtype=np.float64)


def is_number(given: Any) -> bool:
    """Whether plain data is a finite number."""
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= MAX_NUMBER


# What a file states of a deal beside contributions and payments, held against what follows from these. Numbers are
# compared with the largest of their kind, so that rounding on another machine does not count; words, names and verdicts
# must be the same. A certificate's witness may be any that is as bad by rounding, and is worked out anew where it is
# shown: claim, verdict and margin count.


def contradictions(record: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """What a record states otherwise than it follows from the outcome, in words; keys it does not know are left out."""
    stated = {key: entry for key, entry in record.items() if key in CHECKED}
    if isinstance(stated.get("excluded"), dict):  # who is not among its agents is out of all that follows
        stated["excluded"] = {name: why for name, why in stated["excluded"].items() if name in outcome.agents}
    if isinstance(stated.get("certificates"), dict):
        stated["certificates"] = {claim: _judged(entry) for claim, entry in stated["certificates"].items()}
    if list(record["agents"]) == list(outcome.agents):
        due, tolerance = outcome_record(outcome), _rounding(outcome)
        return [text for key, entry in stated.items() for text in _compare(key, key, entry, due.get(key), tolerance)]
    if any(key in stated for key in PER_AGENT if key not in (*GIVEN, "side_payments")):
        return ["agents must be those in the deal, in the order of the scenario, where a file states what they have"]
    return []


def negotiation_contradictions(record: Mapping[str, Any], deal: Deal) -> list[str]:
    """What a record states of how a deal was negotiated otherwise than its exchanges come to, in words."""
    due = deal_record(deal)
    scale = max(abs(deal.provenance.welfare), deal.turnover)
    tolerances = {"welfare": STATED_TOLERANCE * scale, "residual": RESIDUAL_TOLERANCE}
    compared = [key for key in ("source", "scenario", *NEGOTIATED) if key in record]
    return [text for key in compared for text in _differ(key, record[key], due.get(key), tolerances.get(key, 0.0))]


def _judged(certificate: Any) -> Any:
    if not isinstance(certificate, dict):
        return certificate
    return {key: certificate.get(key) for key in ("claim", "verdict", "margin")}


def _rounding(outcome: Outcome) -> Callable[[str, float], float]:
    """How far a number of a key may be from the one that is due, by how large those of its kind are in an outcome."""
    prices = outcome.net_externality if outcome.deal.prices is None else outcome.deal.prices
    stake = float((np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments)).sum())
    ratio, price, given = map(_largest, (outcome.reciprocity_ratios, prices, outcome.contributions))
    scales = {"dimension": 0.0} | dict.fromkeys(RATIOS, ratio) | dict.fromkeys(PRICES, price)

    def tolerance(key: str, due: float) -> float:
        if key.endswith("contributions"):
            return STATED_CONTRIBUTION_TOLERANCE * max(given, abs(due))
        return STATED_TOLERANCE * max(scales.get(key, stake), abs(due))

    return tolerance


def _compare(path: str, key: str, stated: Any, due: Any, tolerance: Callable[[str, float], float]) -> Iterator[str]:
    """How what is stated under a path differs from what is due, number by number and word by word."""
    if isinstance(stated, dict) and isinstance(due, dict):
        for name, entry in stated.items():
            yield from _compare(f"{path}.{name}", name, entry, due.get(name), tolerance)
    elif isinstance(stated, list) and isinstance(due, list) and len(stated) == len(due):
        for index, (one, other) in enumerate(zip(stated, due, strict=True)):
            yield from _compare(f"{path}[{index}]", key, one, other, tolerance)
    else:
        yield from _differ(path, stated, due, tolerance(key, due) if is_number(due) else 0.0)


def _differ(path: str, stated: Any, due: Any, tol: float) -> Iterator[str]:
    if is_number(stated) and is_number(due):
        if not abs(stated - due) <= tol:
            is_due, is_stated = differing_texts(due, stated)
            yield f"{path} is {is_due}, the file says {is_stated}"
    elif type(stated) is not type(due) or stated != due:
        yield f"{path} is {short_repr(due)}, the file says {short_repr(stated)}"


def _largest(numbers: FloatArray) -> float:
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
