"""The ClientApp of an agent: it negotiates from its private file, signs what it has checked, and keeps to it.

The private file (`fedpact.negotiation.processes.save_agent`) is named in the node's own configuration
(`fedpact.flower.identity`).

Whatever a coordinator asks for, a node trains on no more samples than the deal it has signed says, and on none before
it has seen that everybody has signed the same deal. It signs what it delivers in every round, what it measures of the
model and of models made of subsets of the updates, and what all are paid (`fedpact.deals.documents`), and keeps a
receipt of what it has signed last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.flower.countersigning import Seat, check_document
from fedpact.flower.delivery_check import calibration_of_node
from fedpact.flower.identity import keys_of_others, least_gain, own_agent, own_key, refuse_lots, samples_per_unit
from fedpact.flower.learner import Learner, LearnerFactory
from fedpact.flower.messages import (
    RECORD,
    model_records,
    read_message,
    reply_with,
    stated_accuracies,
    stated_accuracy,
)
from fedpact.flower.node_signing import (
    called_to,
    samples_to_deliver,
    seal_deal,
    server_round,
    sign_accuracies,
    sign_accuracy,
    sign_deal,
    sign_delivery,
    sign_settlement,
    state_key,
)
from fedpact.flower.statement import check_statement
from fedpact.negotiation import PROTOCOLS
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.node_memory import NodeMemory
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput

MASKS = "masks"  # the record of a node's state that holds what its masks are made from
MEMORY = "negotiation"  # and the one with what it remembers of the negotiation
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
    agent = own_agent(context)
    return state_key(asked, context, name=agent.name, place=agent.index, size=agent.n_agents)


def _negotiate(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    own, identity = own_agent(context), _identity(context)
    memory = _memory(context).after(asked, knows_keys=identity.known.is_given)
    if asked.get("kind") == "introduce":
        own = _within_its_data(own, learner(context), samples_per_unit(context))
    answer = replace(own, secret=_mask_secret(context), identity=identity).answer(asked)
    context.state[MEMORY] = ConfigRecord(
        {"protocol": memory.protocol, "members": list(memory.members), "agreed": list(memory.agreed)}
    )
    return answer


def _memory(context: Context) -> NodeMemory:
    """What the node remembers of this run's negotiation; at first, by which protocol its owner lets it negotiate."""
    kept = context.state.get(MEMORY)
    if not isinstance(kept, ConfigRecord):
        named = context.node_config.get("protocol", "")
        if named not in ("", *PROTOCOLS):
            raise InvalidInput(f"protocol must be one of {', '.join(PROTOCOLS)}, got {named!r:.40}")
        return NodeMemory(protocol=str(named))
    members: list[Any] = list(kept["members"])  # type: ignore[arg-type]
    agreed: list[Any] = list(kept["agreed"])  # type: ignore[arg-type]
    return NodeMemory(
        protocol=str(kept["protocol"]), members=tuple(map(int, members)), agreed=tuple(map(float, agreed))
    )


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
    """Sign the deal and its own part of it if they hold for its numbers and its data."""
    unit, own = samples_per_unit(context), own_agent(context)
    if own.has_lots:
        return refuse_lots()
    agent = _within_its_data(own, learner(context), unit)

    def check() -> list[str]:
        return check_document(
            Seat(name=agent.name, place=agent.index, size=agent.n_agents),
            asked,
            run=called_to(context),
            key=own_key(context).public,
            known=keys_of_others(context),
            samples_per_unit=unit,
            own_part=lambda statement: check_statement(agent, statement, least_gain=least_gain(context)),
            calibration=calibration_of_node(context),
        )

    return sign_deal(asked, context, name=agent.name, check=check, agent=agent)


def _seal(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    return seal_deal(asked, context)


def _settle(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    return sign_settlement(asked, context)


QUERIES: Mapping[str, Answer] = {
    "greet": _greet,
    "negotiate": _negotiate,
    "sign": _sign,
    "seal": _seal,
    "settle": _settle,
}


def _train(message: Message, context: Context, learner: Learner) -> Message:
    # whatever the coordinator asks for: it is paid for what it delivers
    samples = min(samples_to_deliver(context), learner.samples)
    if samples < 1:
        raise InvalidInput("this node holds no sample to train on")
    model = learner.train(_arrays(message).to_numpy_ndarrays(), samples, server_round(message))
    arrays = _with_names(_arrays(message), ArrayRecord([np.asarray(array) for array in model]))
    content = RecordDict(
        {
            ARRAYS: arrays,
            METRICS: MetricRecord({"num-examples": samples}),
            RECORD: sign_delivery(context, message, arrays, samples),
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
    accuracy, samples = float(found.accuracy), int(found.samples)
    reply = Message(
        RecordDict({METRICS: MetricRecord({"accuracy": accuracy, "num-examples": samples})}), reply_to=message
    )
    _check_stated(stated_accuracy(reply))
    signature = sign_accuracy(context, message, arrays, accuracy=accuracy, samples=samples)
    if signature is not None:
        reply.content[RECORD] = signature
    return reply


def _evaluate_several(message: Message, models: Sequence[ArrayRecord], context: Context, learner: Learner) -> Message:
    """What it measures of models made of subsets of the updates, in their order and under one signature."""
    scores = [learner.evaluate(arrays.to_numpy_ndarrays()) for arrays in models]
    accuracies = [float(score.accuracy) for score in scores]
    samples = int(scores[0].samples)
    reply = Message(
        RecordDict({METRICS: MetricRecord({"accuracy": accuracies, "num-examples": samples})}), reply_to=message
    )
    _check_stated(stated_accuracies(reply, len(models)))
    signature = sign_accuracies(context, message, models, accuracies=accuracies, samples=samples)
    if signature is not None:
        reply.content[RECORD] = signature
    return reply


def _check_stated(said: Mapping[str, Any]) -> None:
    """Nothing is signed that the server would not count."""
    if "reason" in said:
        raise InvalidInput(f"{said['reason']}: the learner's Score must hold an accuracy from 0 to 1 and its samples")


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


def _within_its_data(agent: Agent, learner: Learner, samples_per_unit: float) -> Agent:
    """The agent with caps that its data can honour."""
    most = learner.samples / samples_per_unit
    return replace(agent, caps=np.minimum(agent.caps, most))
