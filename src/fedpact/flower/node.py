"""The ClientApp of an agent: it negotiates from its private file, signs what it has checked, and keeps to it.

The private file (`fedpact.negotiation.processes.save_agent`) is named in the node's own configuration:

    flower-supernode ... --node-config 'agent="/secure/university.json"'

In a simulation nodes have no configuration of their own; there `agents` in the run's configuration names a folder, and
node k takes the k-th file of it (`0.json`, `1.json`, ...).

Whatever a coordinator asks for, a node trains on no more samples than the deal it has signed says, and on none before
it has signed one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.deals import whole_samples
from fedpact.flower.keys import signing_identity
from fedpact.flower.learner import Learner, LearnerFactory
from fedpact.flower.messages import RECORD, read_message, reply_with
from fedpact.flower.statement import Refused, check_statement, statement_digest
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.processes import load_agent
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput, short_repr

MASKS = "masks"  # the record of a node's state that holds what its masks are made from
SIGNED = "signed"  # the record of a node's state that holds the statement it has signed
ARRAYS, METRICS = "arrays", "metrics"
CENT = 1  # how far rounding may move a payment, in cents


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
        found = learner(context).evaluate(_arrays(message).to_numpy_ndarrays())
        metrics = MetricRecord({"accuracy": float(found.accuracy), "num-examples": int(found.samples)})
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    return app


def own_agent(context: Context) -> Agent:
    """The agent of a node's private file."""
    path = context.node_config.get("agent")
    if path is None and "agents" in context.run_config and "partition-id" in context.node_config:
        path = str(Path(str(context.run_config["agents"])) / f"{context.node_config['partition-id']}.json")
    if not isinstance(path, str):
        raise InvalidInput("the node's configuration must name its private file: --node-config 'agent=\"FILE\"'")
    agent = load_agent(Path(path).expanduser())
    if not 0 <= agent.index < agent.weights.size:
        raise InvalidInput(f"{path}: index must be a place from 0 to {agent.weights.size - 1}, got {agent.index}")
    return agent


Answer = Callable[[dict[str, Any], Context, LearnerFactory], dict[str, Any]]


def _handler(answer: Answer, learner: LearnerFactory) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        return reply_with(message, answer(read_message(message), context, learner))

    return handle


def _greet(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    agent = own_agent(context)
    return {"name": agent.name, "index": agent.index, "agents": int(agent.weights.size)}


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


def _identity(context: Context) -> Identity | None:
    """The key the node signs with, where its configuration names one, and the folder of the others' public ones."""
    key, others = context.node_config.get("key"), context.node_config.get("keys")
    return signing_identity(Path(str(key)), Path(str(others)) if others else None) if key else None


def _sign(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Sign a statement if it holds; the last one signed is the one kept to."""
    unit = _samples_per_unit(context)
    agent = _within_its_data(own_agent(context), learner(context), unit)
    try:
        if asked.get("samples_per_unit") != unit:
            raise Refused(f"samples_per_unit must be {unit:g}, got {short_repr(asked.get('samples_per_unit'))}")
        claims = check_statement(agent, asked, least_gain=_least_gain(context))
    except Refused as reason:
        return {"signed": False, "reason": str(reason)}
    context.state[SIGNED] = ConfigRecord({"json": json.dumps(asked)})
    return {"signed": True, "statement": statement_digest(asked), "claims": claims}


def _settle(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Confirm cents that are those of the statement signed."""
    statement = _statement(context)
    if statement is None:
        return {"confirmed": False, "reason": "it has not signed any deal"}
    money, cents = statement["money"], asked.get("cents")
    due = statement["payment"] * money["per_payoff"] * 10 ** money["decimals"]
    if asked.get("statement") != statement_digest(statement):
        return {"confirmed": False, "reason": "it has signed another deal"}
    if type(cents) is not int or abs(cents - due) > CENT + abs(due) * 1e-9:
        return {"confirmed": False, "reason": f"{short_repr(cents)} cents are not the {due:.2f} it has agreed to"}
    return {"confirmed": True}


QUERIES: Mapping[str, Answer] = {"greet": _greet, "negotiate": _negotiate, "sign": _sign, "settle": _settle}


def _train(message: Message, context: Context, learner: Learner) -> Message:
    statement = _statement(context)
    if statement is None:
        raise InvalidInput("this node has not signed any deal; it does not train")
    agreed = int(whole_samples(statement["contributions"], statement["samples_per_unit"])[statement["place"]])
    name = statement["agents"][statement["place"]]
    samples = min(agreed, learner.samples, _samples_wanted(message, name, agreed))
    if samples < 1:
        raise InvalidInput(f'"{name}" has not agreed to contribute any sample; it does not train')
    model = learner.train(_arrays(message).to_numpy_ndarrays(), samples, _server_round(message))
    content = RecordDict(
        {
            ARRAYS: _with_names(_arrays(message), ArrayRecord([np.asarray(array) for array in model])),
            METRICS: MetricRecord({"num-examples": samples}),
            RECORD: ConfigRecord({"name": name, "samples": samples}),
        }
    )
    return Message(content, reply_to=message)


def _samples_wanted(message: Message, name: str, agreed: int) -> int:
    """How many samples the coordinator asks for."""
    record: Mapping[str, Any] = message.content.get(RECORD, {})  # type: ignore[assignment]
    samples = dict(zip(record.get("agents", []), record.get("agreed", []), strict=False))
    return int(samples.get(name, agreed))


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


def _statement(context: Context) -> dict[str, Any] | None:
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
    given = context.node_config.get("least-gain")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidInput(f"least-gain must be a number in units of payoff, got {short_repr(given)}")
    return float(given)
