"""From nodes that are there to a deal that they have signed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from fedpact.deals import Deal, Entry
from fedpact.deals.deal_file import deal_record
from fedpact.deals.transcript import read_transcript
from fedpact.flower.channel import FlowerChannel, Present
from fedpact.flower.messages import exchange, question, read_message
from fedpact.flower.settings import AppSettings
from fedpact.flower.statement import CLAIMS, statement_digest
from fedpact.negotiation import coordinate
from fedpact.negotiation.coordinator import transcript_header
from fedpact.negotiation.recording import find_transcript
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable

# Of the largest contribution: what was said of contributions as near as this was said of the deal's.
CONTRIBUTION_ROUNDING = 1e-9


def agreed_deal(grid: Grid, present: Present, settings: AppSettings, attempt: int) -> dict[str, Any]:
    """Negotiate with those who are there, from the transcript as far as it goes; what the ledger holds of it."""
    path = settings.folder / f"negotiation-{attempt}.jsonl"
    deal = coordinate(
        FlowerChannel(grid, present, timeout=settings.timeout),
        mechanism=settings.mechanism,
        protocol=settings.protocol,
        game=settings.game,
        title=settings.title,
        transcript=path,
        resume=_is_resumable(path, present, settings),
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())  # the ledger must not name what a power failure can take away
    final = read_transcript(path)
    return {
        "deal": deal_record(deal),
        "utilities": _utilities(deal),
        "trace": [event for event in jsonable(deal.trace) if event.get("event") != "round"],
        "unseated": {str(node): reason for node, reason in present.unseated.items()},
        "transcript": {
            "file": path.name,
            "sha256": hashlib.sha256(read_bytes(path)).hexdigest(),
            "exchanges": final.count,
        },
        "certificates": [_balance(deal)],
    }


def statements(agreed: Entry, settings: AppSettings) -> dict[str, dict[str, Any]]:
    """What each member is to sign: everybody's contributions, and its own payment and, if known, prices."""
    deal, utilities = agreed.content["deal"], agreed.content["utilities"]
    return {
        name: {
            "agents": deal["agents"],
            "place": place,
            "excluded": list(deal["excluded"]),
            "contributions": deal["contributions"],
            "mechanism": deal["mechanism"],
            "prices": deal["prices"][place] if deal.get("prices") else None,
            "payment": deal["payments"][place],
            "side_payment": deal["side_payments"][place] if deal.get("side_payments") else 0.0,
            "utility": utilities.get(name),
            "samples_per_unit": settings.samples_per_unit,
            "money": settings.unit,
            "deal": agreed.hash,
        }
        for place, name in enumerate(deal["agents"])
        if name not in deal["excluded"]
    }


def signatures(
    grid: Grid, present: Present, put: Mapping[str, Mapping[str, Any]], *, timeout: float
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What members say to their statements, and why others say nothing that can be used."""
    messages = {
        name: question(node, "sign", statement, timeout=timeout)
        for name, statement in put.items()
        if (node := present.node(name)) is not None
    }
    replies = exchange(grid, messages, timeout=timeout)
    answers: dict[str, dict[str, Any]] = {}
    silent: dict[str, str] = {}
    for name in messages:
        try:
            if name not in replies:
                raise InvalidInput("no answer in time")
            answers[name] = _signature(read_message(replies[name]), put[name])
        except InvalidInput as reason:
            silent[name] = str(reason)
    return answers, silent


def _signature(said: Mapping[str, Any], statement: Mapping[str, Any]) -> dict[str, Any]:
    """A signature or a refusal, checked."""
    if said.get("signed") is False:
        return {"signed": False, "reason": f"{said.get('reason')!s:.200}"}
    if said.get("signed") is not True or said.get("statement") != statement_digest(statement):
        raise InvalidInput("signs something else than the deal")
    claims = [claim for claim in CLAIMS if claim in (said.get("claims") or ())]
    return {"signed": True, "statement": said["statement"], "claims": claims}


def _is_resumable(path: Path, present: Present, settings: AppSettings) -> bool:
    """Whether the transcript is of the same agents, by the same rules; nothing is built on anything else."""
    header = transcript_header(
        present.names,
        mechanism=settings.mechanism,
        protocol=settings.protocol,
        game=settings.game,
        title=settings.title,
    )
    try:
        return find_transcript(path, header) is not None
    except InvalidInput:  # interrupted before its first line was whole, or not ours
        return False


def _utilities(deal: Deal) -> dict[str, float]:
    """By name, of those who spoke of the deal's own contributions: payoff less cost as they said, and the payment."""
    near = CONTRIBUTION_ROUNDING * float(deal.contributions.max(initial=0.0))
    for event in reversed(deal.trace):
        if event["event"] == "round" and np.abs(event["contributions"] - deal.contributions).max() <= near:
            return {
                deal.agents[place]: event["utilities"][place] + float(deal.payments[place])
                for place in deal.members
                if event["utilities"][place] is not None
            }
    return {}


def _balance(deal: Deal) -> dict[str, Any]:
    """The certificate that a coordinator can give without knowing anybody's numbers."""
    total, tol = float(deal.payments.sum()), deal.balance_tolerance
    return {
        "claim": "budget-balance",
        "verdict": "holds" if abs(total) <= tol else "violated",
        "margin": -abs(total),
        "tol": tol,
        "scope": "this deal",
        "witness": {"payments": deal.payments.tolist()},
    }
