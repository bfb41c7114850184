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
from fedpact.deals.signatures import document_digest, is_signed_by, statement_document
from fedpact.deals.transcript import find_transcript, read_transcript
from fedpact.fitting.delivery import Calibration
from fedpact.flower.channel import FlowerChannel, Present
from fedpact.flower.messages import ask_nodes, question
from fedpact.flower.personal_models import is_wanted
from fedpact.flower.settings import AppSettings
from fedpact.negotiation import coordinate
from fedpact.negotiation.coordinator import transcript_header
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
        title=settings.title,
        scenario=settings.scenario or None,
        consent=False,  # everybody is asked to sign
        transcript=path,
        resume=_is_resumable(path, present, settings),
    )
    if deal.has_lots:
        raise InvalidInput(
            f"the deal is agreed and stands in {path}, but nodes sign and train under deals between members with one "
            f"lot of data each, and these have several; `fedpact settle SCENARIO {path}` pays it"
        )
    verification = settings.verification()
    if verification is not None and verification["settles"]:
        Calibration.of_record(verification["calibration"]).check_settles(deal)
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
        **({} if verification is None else {"verification": verification}),
    }


def own_parts(agreed: Entry, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each member is asked to sign: the deal's document, its place in it, and its own prices and utility."""
    deal, utilities = agreed.content["deal"], agreed.content["utilities"]
    calibration = (agreed.content.get("verification") or {}).get("calibration")
    wants = agreed.content.get("wants")
    return {
        name: {
            "document": document,
            "place": place,
            "prices": deal["prices"][place] if deal.get("prices") else None,
            "utility": utilities.get(name),
            **({} if calibration is None else {"calibration": calibration}),
            **({} if wants is None else {"wants": wants[name]}),
        }
        for place, name in enumerate(deal["agents"])
        if name not in deal["excluded"]
    }


def ask_members(
    grid: Grid, present: Present, action: str, put: Mapping[str, Mapping[str, Any]], *, timeout: float
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What members that are there say to what is put to them, and why others say nothing that can be read."""
    messages = {
        name: question(node, action, content, timeout=timeout)
        for name, content in put.items()
        if (node := present.node(name)) is not None
    }
    return ask_nodes(grid, messages, timeout=timeout)


def signatures(
    grid: Grid, present: Present, put: Mapping[str, Mapping[str, Any]], *, timeout: float
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What members say to the deal, and why others say nothing that can be used."""
    answers, silent = ask_members(grid, present, "sign", put, timeout=timeout)
    checked: dict[str, dict[str, Any]] = {}
    for name, said in answers.items():
        try:
            checked[name] = _signature(name, said, put[name])
        except InvalidInput as reason:
            silent[name] = str(reason)
    return checked, silent


def refusals(answers: Mapping[str, Mapping[str, Any]], answer: str) -> dict[str, str]:
    """Why members say no, by name."""
    return {name: f"{said.get('reason')!s:.200}" for name, said in answers.items() if said.get(answer) is not True}


def _signature(name: str, said: Mapping[str, Any], put: Mapping[str, Any]) -> dict[str, Any]:
    """A signature or a refusal, checked."""
    if said.get("signed") is False:
        return {"signed": False, "reason": f"{said.get('reason')!s:.200}"}
    document = put["document"]
    digest, key = document_digest(document), document["keys"][name]
    claims = said.get("claims")
    listed = isinstance(claims, list) and all(isinstance(claim, str) for claim in claims)
    wants = said.get("wants")
    if not is_wanted(wants, document["agents"]) if "models" in document else wants is not None:
        raise InvalidInput("does not say whose updates its model is made of, as this deal has it")
    if said.get("signed") is not True or not listed or not is_signed_by(key, document, said.get("signature")):
        raise InvalidInput("signs something else than the deal")
    own = statement_document(
        document, name, prices=put["prices"], utility=put["utility"], claims=claims or [], wants=wants
    )
    if not is_signed_by(key, own, said.get("own_signature")):
        raise InvalidInput("signs something else than its own part of the deal")
    parts = ("signature", "own_signature", "claims", *(["wants"] if wants is not None else []))
    return {"signed": True, "statement": digest, **{part: said[part] for part in parts}}


def _is_resumable(path: Path, present: Present, settings: AppSettings) -> bool:
    """Whether the transcript is of the same agents, by the same rules; nothing is built on anything else."""
    header = transcript_header(
        present.names,
        mechanism=settings.mechanism,
        protocol=settings.protocol,
        title=settings.title,
        scenario=settings.scenario or None,
        consent=False,
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
