"""The ClientApp of an agent: it negotiates from its private file, signs what it has checked, and keeps to it.

The private file (`fedpact.negotiation.processes.save_agent`) is named in the node's own configuration
(`fedpact.flower.identity`).

Whatever a coordinator asks for, a node trains on no more samples than the deal it has signed says, and on none before
it has seen that everybody has signed the same deal. It signs what it delivers in every round, what it measures of the
model and of models made of subsets of the updates, and what all are paid (`fedpact.deals.documents`), and keeps a
receipt of what it has signed last.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.deals import whole_samples
from fedpact.deals.documents import (
    accuracy_document,
    delivery_document,
    key_document,
    settlement_document,
    statement_document,
    verification_document,
)
from fedpact.deals.signatures import document_digest
from fedpact.flower.countersigning import check_document, check_everybody_signed, check_settlement
from fedpact.flower.delivery_check import check_delivery_settlement, pilot_of_node, settles_by_delivery
from fedpact.flower.identity import keep_receipt, keys_of_others, own_agent, own_key
from fedpact.flower.learner import Learner, LearnerFactory
from fedpact.flower.messages import RECORD, model_records, read_message, record_digest, reply_with
from fedpact.flower.statement import Refused
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput, short_repr

MASKS = "masks"  # the record of a node's state that holds what its masks are made from
RUN = "run"  # the record of a node's state that says which run it was called to
SIGNED = "signed"  # the one that holds the deal it has signed
SEALED = "sealed"  # the one that says which deal it knows everybody to have signed
ARRAYS, METRICS = "arrays", "metrics"


def client_app(learner: LearnerFactory) -> ClientApp:
    """The app of a node that negotiates, trains under the deal and checks what it is to be paid.

    Parameters
    ----------
    learner
        Makes the node's `Learner` from its context.
    """
    app = ClientApp()
    for action, answer in QUERIES.items():
        app.query(action)(_handler(answer, learner))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return _train(message, context, learner(context))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return _evaluate(message, context, learner(context))

    return app


Answer = Callable[[dict[str, Any], Context, LearnerFactory], dict[str, Any]]


def _handler(answer: Answer, learner: LearnerFactory) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        return reply_with(message, answer(read_message(message), context, learner))

    return handle


def _greet(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Who it is, and which key it signs with in this run."""
    agent, run = own_agent(context), asked.get("run")
    said = {"name": agent.name, "index": agent.index, "agents": int(agent.weights.size)}
    if not isinstance(run, str):
        raise InvalidInput(f"a roll call must name the run, got {short_repr(run)}")
    key = own_key(context)
    context.state[RUN] = ConfigRecord({"run": run})
    return said | {"key": key.public, "signature": key.sign(key_document(run, agent.name, agent.index, key.public))}


def _negotiate(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    agent = replace(own_agent(context), secret=_mask_secret(context), identity=_identity(context))
    if asked.get("kind") == "introduce":
        agent = _within_its_data(agent, learner(context), _samples_per_unit(context))
    return agent.answer(asked)


def _mask_secret(context: Context) -> bytes:
    """What the node's masks are made from: drawn once, kept in the node's state."""
    kept = context.state.get(MASKS)
    if not isinstance(kept, ConfigRecord):
        kept = context.state[MASKS] = ConfigRecord({"secret": os.urandom(32)})
    return bytes(kept["secret"])  # type: ignore[arg-type]


def _identity(context: Context) -> Identity:
    """The key the node signs with, read when it does, and the others' public ones."""
    return Identity(sign=lambda text: own_key(context).sign_bytes(text), known=keys_of_others(context))


def _sign(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Sign the deal and its own part of it if they hold; the last one signed is the one kept to."""
    unit, key = _samples_per_unit(context), own_key(context)
    agent = _within_its_data(own_agent(context), learner(context), unit)
    run = context.state.get(RUN)
    try:
        claims = check_document(
            agent,
            asked,
            run=str(run["run"]) if isinstance(run, ConfigRecord) else "",
            key=key.public,
            known=keys_of_others(context),
            samples_per_unit=unit,
            least_gain=_least_gain(context),
            pilot=pilot_of_node(context),
        )
    except Refused as reason:
        return {"signed": False, "reason": str(reason)}
    document = asked["document"]
    digest = document_digest(document)
    own = statement_document(
        document["run"], digest, agent.name, prices=asked["prices"], utility=asked["utility"], claims=claims
    )
    kept = {part: asked.get(part) for part in ("document", "place", "prices", "pilot")}
    context.state.pop(SEALED, None)
    context.state[SIGNED] = ConfigRecord({"json": json.dumps(kept)})
    keep_receipt(context, document)
    return {
        "signed": True,
        "statement": digest,
        "claims": claims,
        "signature": key.sign(document),
        "own_signature": key.sign(own),
    }


def _seal(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """See that everybody has signed the same deal; without that it does not train."""
    signed = _signed_deal(context)
    if signed is None:
        return {"sealed": False, "reason": "it has not signed any deal"}
    try:
        check_everybody_signed(signed["document"], asked.get("signatures"))
    except Refused as reason:
        return {"sealed": False, "reason": str(reason)}
    context.state[SEALED] = ConfigRecord({"digest": document_digest(signed["document"])})
    return {"sealed": True}


def _settle(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Sign everybody's cents if its own are those due for what was delivered."""
    signed = _signed_deal(context)
    if signed is None:
        return {"confirmed": False, "reason": "it has not signed any deal"}
    document = signed["document"]
    digest = document_digest(document)
    if asked.get("deal") != digest:
        return {"confirmed": False, "reason": "it has signed another deal"}
    try:
        if settles_by_delivery(document):
            delivered = check_delivery_settlement(document, signed["pilot"], asked)
        else:
            delivered = check_settlement(signed["place"], document, signed["prices"], asked)
    except Refused as reason:
        return {"confirmed": False, "reason": str(reason)}
    settlement = settlement_document(
        document["run"], str(asked.get("head")), digest, delivered, asked["cents"], asked.get("paid_shares")
    )
    keep_receipt(context, settlement)
    return {"confirmed": True, "signature": own_key(context).sign(settlement)}


QUERIES: Mapping[str, Answer] = {
    "greet": _greet,
    "negotiate": _negotiate,
    "sign": _sign,
    "seal": _seal,
    "settle": _settle,
}


def _train(message: Message, context: Context, learner: Learner) -> Message:
    signed = _signed_deal(context)
    if signed is None:
        raise InvalidInput("this node has not signed any deal; it does not train")
    document, digest = signed["document"], document_digest(signed["document"])
    sealed = context.state.get(SEALED)
    if not isinstance(sealed, ConfigRecord) or sealed["digest"] != digest:
        raise InvalidInput("this node has not seen everybody's signature on the deal; it does not train")
    agreed = int(whole_samples(document["contributions"], document["samples_per_unit"])[signed["place"]])
    name = document["agents"][signed["place"]]
    samples = min(agreed, learner.samples)  # whatever the coordinator asks for: it is paid for what it delivers
    if samples < 1:
        raise InvalidInput(f'"{name}" has not agreed to contribute any sample; it does not train')
    model = learner.train(_arrays(message).to_numpy_ndarrays(), samples, _server_round(message))
    arrays = _with_names(_arrays(message), ArrayRecord([np.asarray(array) for array in model]))
    delivery = {"round": _server_round(message), "samples": samples, "update": record_digest(arrays)}
    delivered = delivery_document(document["run"], digest, name, delivery)
    keep_receipt(context, delivered, head=document["head"])
    content = RecordDict(
        {
            ARRAYS: arrays,
            METRICS: MetricRecord({"num-examples": samples}),
            RECORD: ConfigRecord({"name": name, "samples": samples, "signature": own_key(context).sign(delivered)}),
        }
    )
    return Message(content, reply_to=message)


def _evaluate(message: Message, context: Context, learner: Learner) -> Message:
    """What it measures of a model; signed where the coordinator names the entry of the ledger it goes by."""
    several = model_records(message)
    if several is not None:
        return _evaluate_several(message, several, context, learner)
    arrays = _arrays(message)
    found = learner.evaluate(arrays.to_numpy_ndarrays())
    measured = {"accuracy": float(found.accuracy), "samples": int(found.samples)}
    content = RecordDict({METRICS: MetricRecord({"accuracy": measured["accuracy"], "num-examples": found.samples})})
    record, signed = message.content.get(RECORD), _signed_deal(context)
    if isinstance(record, ConfigRecord) and "head" in record and signed is not None:
        document, name = signed["document"], signed["document"]["agents"][signed["place"]]
        accuracy = accuracy_document(
            document["run"],
            str(record["head"]),
            document_digest(document),
            name,
            measured | {"model": record_digest(arrays)},
        )
        keep_receipt(context, accuracy)
        content[RECORD] = ConfigRecord({"name": name, "signature": own_key(context).sign(accuracy)})
    return Message(content, reply_to=message)


def _evaluate_several(message: Message, models: Sequence[ArrayRecord], context: Context, learner: Learner) -> Message:
    """What it measures of models made of subsets of the updates, in their order and under one signature."""
    scores = [learner.evaluate(arrays.to_numpy_ndarrays()) for arrays in models]
    accuracies = [float(score.accuracy) for score in scores]
    samples = int(scores[0].samples)
    content = RecordDict({METRICS: MetricRecord({"accuracy": accuracies, "num-examples": samples})})
    record, signed = message.content.get(RECORD), _signed_deal(context)
    if isinstance(record, ConfigRecord) and "head" in record and signed is not None:
        document, name = signed["document"], signed["document"]["agents"][signed["place"]]
        measured = {"models": [record_digest(arrays) for arrays in models], "accuracies": accuracies}
        made = verification_document(
            document["run"],
            str(record["head"]),
            document_digest(document),
            name,
            measured | {"samples": samples},
        )
        keep_receipt(context, made)
        content[RECORD] = ConfigRecord({"name": name, "signature": own_key(context).sign(made)})
    return Message(content, reply_to=message)


def _server_round(message: Message) -> int:
    """The number of the round, as strategies write it; 0 if this one does not."""
    for record in message.content.config_records.values():
        number = record.get("server-round")
        if isinstance(number, int):
            return number
    return 0


def _arrays(message: Message) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise InvalidInput(f"a message to train or evaluate must hold one record of arrays, got {len(records)}")
    return records[0]


def _with_names(before: ArrayRecord, after: ArrayRecord) -> ArrayRecord:
    """The arrays after training under the names they came with."""
    if len(before) != len(after):
        raise InvalidInput(f"the learner must return {len(before)} arrays, got {len(after)}")
    return ArrayRecord(dict(zip(before.keys(), after.values(), strict=True)))


def _signed_deal(context: Context) -> dict[str, Any] | None:
    """The document it has signed, its place in it, and its own prices."""
    record = context.state.get(SIGNED)
    return json.loads(str(record["json"])) if isinstance(record, ConfigRecord) else None


def _within_its_data(agent: Agent, learner: Learner, samples_per_unit: float) -> Agent:
    """The agent with a cap that its data can honour."""
    return replace(agent, cap=min(agent.cap, learner.samples / samples_per_unit))


def _samples_per_unit(context: Context) -> float:
    given = context.node_config.get("samples-per-unit", context.run_config.get("samples-per-unit", 1.0))
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise InvalidInput(f"samples-per-unit must be a positive number, got {short_repr(given)}")
    return float(given)


def _least_gain(context: Context) -> float | None:
    """What the node wants beyond training alone; nothing less than that if its configuration does not say."""
    given = context.node_config.get("least-gain", 0.0)
    if given == "none":
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        rule = 'must be a number in units of payoff, or "none" to take any deal'
        raise InvalidInput(f"least-gain {rule}, got {short_repr(given)}")
    return float(given)
