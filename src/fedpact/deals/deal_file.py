"""Deals in files: one reader for all that can hold one, and one writer.

`load_deal` reads what `fedpact solve --json`, `fedpact negotiate --json` and `Deal.save` write, the explorer's
download, the transcript of a negotiation and the ledger of a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.certificates import Certificate
from fedpact.deals.deal import Deal, Provenance, Source, checked_agents
from fedpact.deals.ledger import AGREED, SIGNED, is_end, is_ledger, read_ledger
from fedpact.deals.outcome import PER_AGENT, Outcome
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX, Transcript, is_transcript, read_transcript
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import DECODERS, read_text, replace_text
from fedpact.utils.jsonl import jsonable

REQUIRED = ("mechanism", "agents", "contributions", "payments")
MAX_NUMBER = 1e300
OUTCOME_FIELDS = (*PER_AGENT, "reciprocity", "welfare", "budget", "leavers", "diagnosis")
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
    path = Path(path)
    read = _from_ledger if is_ledger(path) else _from_transcript if is_transcript(path) else None
    deal = read(path) if read is not None else _from_json(path, mechanism)
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
    record: dict[str, Any] = {
        "mechanism": deal.mechanism,
        "agents": deal.agents,
        "contributions": deal.contributions,
        "payments": deal.payments,
        "prices": deal.prices,
        "side_payments": deal.side_payments,
        "excluded": deal.excluded,
        **({"lot_owners": deal.lot_owners, "lot_names": deal.lot_names} if deal.has_lots else {}),
        "scenario": deal.scenario,
        "source": by.source,
    }
    if by.protocol is not None:
        record |= {name: getattr(by, name) for name in ("protocol", "settled_by", "rounds", "welfare", "residual")}
    plain: dict[str, Any] = jsonable(record)
    return plain


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """Everything an outcome says, as plain data; `deal_from_record` reads the deal in it."""
    worst = outcome.worst_reciprocity
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
    record["worst_reciprocity"] = {
        "value": worst.value,
        "contributions": worst.contributions,
        "payments": worst.payments,
    }
    record["certificates"] = {claim: _certificate(entry) for claim, entry in outcome.certificates.items()}
    record["assumptions"] = [
        {"name": entry.name, "holds": entry.holds, "agents": entry.agents, "consequence": entry.consequence}
        for entry in outcome.assumptions
    ]
    record["equilibria"] = {
        "unique": outcome.equilibria.unique,
        "dimension": outcome.equilibria.dimension,
        "note": outcome.equilibria.note,
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def deal_from_record(record: Mapping[str, Any]) -> Deal:
    """The deal that a record states.

    Raises
    ------
    InvalidInput
        With the key, the rule it breaks and what was given.
    """
    if record.get("agents") == []:  # everybody left
        raise InvalidInput("nobody is in this deal")
    for key in REQUIRED:
        if key not in record:
            raise InvalidInput(f"a deal must have the key {key!r}; `fedpact solve --json` writes it")
    agents = checked_agents(record["agents"])
    size = len(agents)
    lots = {key: record[key] for key in ("lot_owners", "lot_names") if record.get(key) is not None}
    n_lots = len(lots["lot_owners"]) if isinstance(lots.get("lot_owners"), list | tuple) else size
    side = record.get("side_payments")
    return Deal(
        mechanism=record["mechanism"],
        agents=agents,
        contributions=_numbers("contributions", record["contributions"], n_lots),
        payments=_numbers("payments", record["payments"], size),
        side_payments=None if side is None else _numbers("side_payments", side, size),
        prices=_prices(record.get("prices"), size, n_lots),
        excluded={} if record.get("excluded") is None else record["excluded"],
        scenario=record.get("scenario"),
        provenance=_provenance(record),
        **lots,
    )


def stated_deal(transcript: Transcript) -> Deal:
    """The deal that the last line of a transcript states."""
    with error_context(f"{transcript.path}: the deal"):
        record = transcript.deal or {}
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


def is_comparison(path: Path) -> bool:
    """Whether a file holds the outcomes of several mechanisms."""
    if is_ledger(path) or is_transcript(path):
        return False
    with error_context(str(path)):
        record = DECODERS[".json"](read_text(path))
    return isinstance(record, dict) and isinstance(record.get("outcomes"), list)


def _from_ledger(path: Path) -> Deal:
    chain = read_ledger(path)
    with error_context(str(path)):
        if chain.broken is not None:
            raise InvalidInput(f"line {len(chain.entries) + 1} {chain.broken}: the ledger was changed")
        places = [place for place, entry in enumerate(chain.entries) if entry.kind == AGREED]
        if not places:
            raise InvalidInput("there is no deal in this ledger yet")
        agreed, after = chain.entries[places[-1]], chain.entries[places[-1] :]
        ended = next((entry for entry in after if is_end(entry)), None)
        if ended is not None:
            why = f"{ended.content.get('reason')!s:.200}"
            raise InvalidInput(f"the run failed, and its deal with it ({why}): it binds and pays nobody")
        record = agreed.content.get("deal")
        if not isinstance(record, dict):
            raise InvalidInput(f"a deal must be a JSON object, got {short_repr(record)}")
        signed = any(entry.kind == SIGNED for entry in after)
        source = Source.SIGNED.value if signed else record.get("source", Source.NEGOTIATED.value)
        return deal_from_record({**record, "source": source, "ledger": agreed.hash})


def _from_transcript(path: Path) -> Deal:
    transcript = read_transcript(path)
    if transcript.deal is None:
        raise InvalidInput(f"{path}: {NO_DEAL_YET}")
    return stated_deal(transcript)


def _from_json(path: Path, mechanism: str | None) -> Deal:
    record = read_record(path, mechanism=mechanism)
    with error_context(str(path)):
        return deal_from_record(record)


def read_record(path: Path, *, mechanism: str | None = None) -> dict[str, Any]:
    """All that a JSON file states of a deal: of one, where it holds the outcomes of several mechanisms."""
    with error_context(str(path)):
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
    ledger = _text("ledger", record.get("ledger"))
    if not negotiated:
        return Provenance(source=Source(named), ledger=ledger)
    return Provenance(
        source=Source(named),
        protocol=record["protocol"],
        rounds=record["rounds"] if isinstance(record.get("rounds"), int) else 0,
        welfare=_float(record.get("welfare")),
        residual=_float(record.get("residual")),
        settled_by=_text("settled_by", record.get("settled_by")),
        ledger=ledger,
    )


def _numbers(key: str, given: Any, count: int) -> FloatArray:
    if not isinstance(given, list | tuple) or len(given) != count:
        raise InvalidInput(f"{key} must be a list of {count} numbers, got {short_repr(given)}")
    for index, entry in enumerate(given):
        if not is_number(entry):
            raise InvalidInput(f"{key}[{index}] must be a finite number, got {short_repr(entry)}")
    return np.array(given, dtype=np.float64)


def _prices(given: Any, count: int, n_lots: int) -> Any:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != count:
        raise InvalidInput(f"prices must be a list of {count} lists, got {short_repr(given)}")
    return np.array([_numbers(f"prices[{row}]", entries, n_lots) for row, entries in enumerate(given)])


def _text(key: str, given: Any) -> str | None:
    if not isinstance(given, str | None):
        raise InvalidInput(f"{key} must be a text, got {short_repr(given)}")
    return given


def _float(given: Any) -> float:
    return float(given) if is_number(given) else np.nan


def is_number(given: Any) -> bool:
    """Whether plain data is a finite number."""
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= MAX_NUMBER


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "claim": certificate.claim,
        "verdict": certificate.verdict,
        "margin": certificate.margin,
        "tol": certificate.tol,
        "scope": certificate.scope,
        "witness": certificate.witness,
    }
