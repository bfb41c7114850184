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
from fedpact.deals.transcript import Header, Transcript, read_transcript
from fedpact.flower.channel import FlowerChannel, Present
from fedpact.flower.settings import Settings
from fedpact.flower.statement import CLAIMS, statement_digest
from fedpact.flower.wire import exchange, question, said_in
from fedpact.negotiation import Channel
from fedpact.negotiation.recording import Playback, Recorder, negotiated, transcript_header
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable

__all__ = ["agreed_deal", "signatures", "statements"]

NEAR = 1e-9  # of the largest contribution: what was said of contributions as near as this was said of the deal's


def agreed_deal(grid: Grid, present: Present, settings: Settings, attempt: int) -> dict[str, Any]:
    """Negotiate with those who are there, from the transcript as far as it goes; what the ledger holds of it."""
    header = transcript_header(present.names, protocol=settings.protocol, game=settings.game, title=settings.title)
    path = settings.folder / f"negotiation-{attempt}.jsonl"
    live = FlowerChannel(grid, present, timeout=settings.timeout)
    before = _transcript(path, header)
    with Recorder.resume(live, before) if before else Recorder.begin(live, path, header) as recorder:
        channel = _Listening(Playback(before, live=recorder) if before else recorder)
        deal = negotiated(channel, header)
        if before is None or before.deal is None:
            recorder.finish(deal_record(deal))
    with path.open("rb") as file:
        os.fsync(file.fileno())  # the ledger must not name what a power failure can take away
    final = read_transcript(path)
    return {
        "deal": deal_record(deal),
        "utilities": channel.utilities(deal),
        "trace": [event for event in jsonable(deal.trace) if event.get("event") != "round"],
        "unseated": {str(node): reason for node, reason in present.unseated.items()},
        "transcript": {
            "file": path.name,
            "sha256": hashlib.sha256(read_bytes(path)).hexdigest(),
            "exchanges": final.count,
        },
        "certificates": [_balance(deal)],
    }


def statements(agreed: Entry, settings: Settings) -> dict[str, dict[str, Any]]:
    """What each member is to sign: everybody's contributions, and its own prices and payment."""
    deal, utilities = agreed.content["deal"], agreed.content["utilities"]
    return {
        name: {
            "agents": deal["agents"],
            "place": place,
            "excluded": list(deal["excluded"]),
            "contributions": deal["contributions"],
            "prices": deal["prices"][place],
            "payment": deal["payments"][place],
            "utility": utilities.get(name),
            "samples_per_unit": settings.samples_per_unit,
            "money": {
                "currency": settings.currency,
                "per_payoff": settings.per_payoff,
                "decimals": settings.decimals,
            },
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
            answers[name] = _signature(said_in(replies[name]), put[name])
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


def _transcript(path: Path, header: Header) -> Transcript | None:
    """The transcript to go on from: of the same agents, by the same rules."""
    if not path.exists() or not path.stat().st_size:
        return None
    try:
        found = read_transcript(path)
    except InvalidInput:  # interrupted before its first line was whole, or not ours: nothing is built on it
        return None
    return found if found.header == header else None


class _Listening:
    """A channel that keeps what agents say of their utilities."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._said: dict[int, tuple[np.ndarray, float]] = {}

    @property
    def names(self) -> Any:
        return self._channel.names

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        answers = self._channel.ask(questions)
        for place, asked in questions.items():
            answer = answers.get(place)
            payoff, cost = (answer.get(key) for key in ("payoff", "cost")) if isinstance(answer, dict) else (None, None)
            if "contributions" in asked and isinstance(payoff, float) and isinstance(cost, float):
                self._said[place] = np.array(asked["contributions"]), payoff - cost
        return answers

    def utilities(self, deal: Deal) -> dict[str, float]:
        """By name, of those who spoke of the deal's own contributions last."""
        near = NEAR * float(deal.contributions.max(initial=0.0))
        return {
            deal.agents[place]: gain + float(deal.payments[place])
            for place, (at, gain) in self._said.items()
            if place in deal.members and np.abs(at - deal.contributions).max() <= near
        }


def _balance(deal: Deal) -> dict[str, Any]:
    """The certificate that a coordinator can give without knowing anybody's numbers."""
    total, turnover = float(deal.payments.sum()), float(np.abs(deal.prices * deal.contributions).sum())
    tol = 1e-9 * turnover
    return {
        "claim": "budget-balance",
        "verdict": "holds" if abs(total) <= tol else "violated",
        "margin": -abs(total),
        "tol": tol,
        "scope": "this deal",
        "witness": {"payments": deal.payments.tolist()},
    }
