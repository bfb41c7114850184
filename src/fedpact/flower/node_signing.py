"""What a node signs, and what it must have seen before it does: for whole apps and for `keep_deal` alike.

The deal a node has signed stays in its state, and so does the run it was called to, and that it knows everybody to
have signed the same deal. What it delivers and measures is signed under that deal, and of what it signed it keeps a
receipt (`fedpact.flower.identity`). It remembers these statements, by that receipt also when the server is started
again, and signs no settlement of a ledger that lacks or changes one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message

from fedpact.deals import whole_samples
from fedpact.deals.signatures import (
    document_digest,
    key_document,
    measured_parts,
    own_document,
    own_statement_key,
    settlement_document,
    statement_document,
)
from fedpact.flower.countersigning import (
    check_everybody_signed,
    check_own_statements,
    check_settlement,
    entries_since_deal,
)
from fedpact.flower.delivery_check import check_delivery_settlement, settles_by_delivery
from fedpact.flower.identity import keep_receipt, last_receipt, node_state, own_key, remember
from fedpact.flower.messages import RECORD, record_digest
from fedpact.flower.personal_models import own_wants
from fedpact.flower.statement import Refused
from fedpact.negotiation.agent import Agent
from fedpact.utils.errors import InvalidInput, short_repr

# Parts of what a node remembers (`node_state`) beside its key and the run it was called to.
SIGNED = "signed"  # the deal it has signed, its place in it, and its own prices
SEALED = "sealed"  # the digest of the deal that it knows everybody to have signed
STATEMENTS = "statements"  # digests of what it has signed under each deal, also in its receipt


def state_key(asked: Mapping[str, Any], context: Context, *, name: str, place: int, size: int) -> dict[str, Any]:
    """The answer to a roll call: who the node is, and which key it signs with in this run."""
    run = asked.get("run")
    if not isinstance(run, str):
        raise InvalidInput(f"a roll call must name the run, got {short_repr(run)}")
    key = own_key(context)
    remember(context, run=run)
    signature = key.sign(key_document(run, name, place, key.public))
    return {"name": name, "index": place, "agents": size, "key": key.public, "signature": signature}


def sign_deal(
    asked: Mapping[str, Any],
    context: Context,
    *,
    name: str,
    check: Callable[[], list[str]],
    agent: Agent | None = None,
) -> dict[str, Any]:
    """Sign the deal and the node's own part of it if they hold; the last one signed is the one kept to.

    Parameters
    ----------
    check
        Raises `Refused`, or says which claims it has checked.
    agent
        What the node knows of itself; None if it has no private file.
    """
    try:
        claims = check()
        wants = own_wants(asked["document"], asked.get("wants"), agent, name)
    except Refused as reason:
        return {"signed": False, "reason": str(reason)}
    document, key = asked["document"], own_key(context)
    own = statement_document(
        document, name, prices=asked["prices"], utility=asked["utility"], claims=claims, wants=wants
    )
    kept = {part: asked.get(part) for part in ("document", "place", "prices", "calibration")}
    remember(context, **{SIGNED: kept, SEALED: None})
    _keep_statement(context, name, document)
    return {
        "signed": True,
        "statement": document_digest(document),
        "claims": claims,
        "signature": key.sign(document),
        "own_signature": key.sign(own),
        **({} if wants is None else {"wants": wants}),
    }


def seal_deal(asked: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """See that everybody has signed the same deal; without that the node does not train."""
    signed = signed_deal(context)
    if signed is None:
        return {"sealed": False, "reason": "it has not signed any deal"}
    try:
        check_everybody_signed(signed["document"], asked.get("signatures"))
    except Refused as reason:
        return {"sealed": False, "reason": str(reason)}
    remember(context, **{SEALED: document_digest(signed["document"])})
    return {"sealed": True}


def sign_settlement(asked: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Sign everybody's cents if all that the node has signed is in the ledger, and its own are those due for it."""
    signed = signed_deal(context)
    if signed is None:
        return {"confirmed": False, "reason": "it has not signed any deal"}
    document = signed["document"]
    digest = document_digest(document)
    if asked.get("deal") != digest:
        return {"confirmed": False, "reason": "it has signed another deal"}
    try:
        entries = entries_since_deal(document, asked)
        check_own_statements(_name(signed), document, _statements(context).get(digest, {}), entries.values())
        if settles_by_delivery(document):
            delivered = check_delivery_settlement(document, signed["calibration"], asked, entries)
        else:
            delivered = check_settlement(signed["place"], document, signed["prices"], asked, entries)
    except Refused as reason:
        return {"confirmed": False, "reason": str(reason)}
    settlement = settlement_document(
        document, str(asked.get("head")), delivered, asked["cents"], asked.get("paid_shares")
    )
    _keep_statement(context, _name(signed), settlement)
    return {"confirmed": True, "signature": own_key(context).sign(settlement)}


def signed_deal(context: Context) -> dict[str, Any] | None:
    """The document a node has signed, its place in it, and its own prices; None if it has signed none."""
    return node_state(context).get(SIGNED)


def samples_to_deliver(context: Context) -> int:
    """How many samples a node has agreed to, by the deal that everybody has signed.

    Raises
    ------
    InvalidInput
        If it has signed none, has not seen everybody's signature, or contributes nothing.
    """
    signed = signed_deal(context)
    if signed is None:
        raise InvalidInput("this node has not signed any deal; it does not train")
    document = signed["document"]
    if node_state(context).get(SEALED) != document_digest(document):
        raise InvalidInput("this node has not seen everybody's signature on the deal; it does not train")
    agreed = int(whole_samples(document["contributions"], document["samples_per_unit"])[signed["place"]])
    if agreed < 1:
        raise InvalidInput(f'"{_name(signed)}" has not agreed to contribute any sample; it does not train')
    return agreed


def sign_delivery(context: Context, message: Message, arrays: ArrayRecord, samples: int) -> ConfigRecord:
    """The record of a reply that says whose it is, of how many samples, with its signature."""
    signed = signed_deal(context)
    assert signed is not None
    document, name = signed["document"], _name(signed)
    delivery = {"round": server_round(message), "samples": samples, "update": record_digest(arrays)}
    delivered = own_document("delivery", document, name, delivery)
    _keep_statement(context, name, delivered, head=document["head"])
    return ConfigRecord({"name": name, "samples": samples, "signature": own_key(context).sign(delivered)})


def sign_measured(
    context: Context, message: Message, models: Sequence[ArrayRecord], accuracies: Sequence[float], samples: int
) -> ConfigRecord | None:
    """The signature of what a node measured of models; None where no deal is signed, or no ledger waits for it.

    Where one does the message names the ledger's entry that it goes by.
    """
    record, signed = message.content[RECORD], signed_deal(context)
    if "head" not in record or signed is None:  # type: ignore[operator]
        return None
    if time.time() > message.metadata.created_at + message.metadata.ttl:
        raise InvalidInput("it has measured for longer than the server waits, and signs nothing that comes too late")
    about, head = str(record.get("about")), str(record["head"])  # type: ignore[union-attr, call-overload]
    if about not in ("accuracy", "verification") or (about == "accuracy" and len(models) != 1):
        raise InvalidInput(
            f"it signs what it measures of a model or of several, and not a statement about {about!r:.40}"
        )
    document, name = signed["document"], _name(signed)
    measured = measured_parts(about, [record_digest(arrays) for arrays in models], accuracies, samples)
    made = own_document(about, document, name, measured, head=head)
    _keep_statement(context, name, made)
    return ConfigRecord({"name": name, "signature": own_key(context).sign(made)})


def server_round(message: Message) -> int:
    """The number of the round, as strategies write it; 0 if this one does not."""
    for record in message.content.config_records.values():
        number = record.get("server-round")
        if isinstance(number, int):
            return number
    return 0


def _statements(context: Context) -> dict[str, dict[str, str]]:
    """Digests of what a node has signed of its own under each deal, by the deal's digest and the statement's key."""
    state = node_state(context)
    held = state.get(STATEMENTS, {})
    written = last_receipt(context, state.get("run", "")).get(STATEMENTS, {})  # of before this process was started
    return {deal: written.get(deal, {}) | held.get(deal, {}) for deal in {**written, **held}}


def _keep_statement(context: Context, name: str, document: Mapping[str, Any], **more: Any) -> None:
    """Keep a receipt of what a node signs, and of its own statements the digest; the last with its key counts."""
    statements, key = _statements(context), own_statement_key(document)
    if key is not None:
        statements.setdefault(document["deal"], {})[key] = document_digest(document)
        remember(context, **{STATEMENTS: statements})
    keep_receipt(context, name, document, **more, **({STATEMENTS: statements} if statements else {}))


def _name(signed: Mapping[str, Any]) -> str:
    return str(signed["document"]["agents"][signed["place"]])
