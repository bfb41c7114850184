"""For ClientApps that exist already: who a node is, and how many samples it may use.

    app = ClientApp(mods=[keep_deal])

    @app.train()
    def train(message, context):
        trainset = load_data()[:agreed_samples(message)]

A node says who it is in its own configuration, by `agent` (its private file) or by `agent-name`; in a simulation its
`partition-id` is its place among the deal's agents. `max-samples` there is a limit of its own, whatever the deal says.

Where members sign, the node signs with its `key`, or one beside its private file, or else one made for the run; `keys`
and `record` are as in `fedpact.flower.identity`. With a private file it checks the deal against its own numbers.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict

from fedpact.flower.countersigning import check_document
from fedpact.flower.delivery_check import calibration_of_node
from fedpact.flower.identity import (
    keys_of_others,
    least_gain,
    node_state,
    own_agent,
    own_key,
    remember,
    samples_per_unit,
)
from fedpact.flower.learner import Learner, LearnerFactory
from fedpact.flower.messages import (
    ACTION,
    JSON_TEXT,
    MODELS,
    RECORD,
    Conventions,
    model_records,
    read_message,
    reply_with,
    stated_accuracy,
)
from fedpact.flower.node_signing import (
    samples_to_deliver,
    seal_deal,
    sign_deal,
    sign_delivery,
    sign_measured,
    sign_settlement,
    signed_deal,
    state_key,
)
from fedpact.flower.statement import TERMS, OwnPart, Seat, check_statement
from fedpact.negotiation import PROTOCOLS
from fedpact.negotiation.agent import Agent, NodeMemory
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput, short_repr

REFUSED = 6  # Flower's code for a mod that refuses
COUNTS = ("num-examples", "num_examples")


CallNext = Callable[[Message, Context], Message]


def keep_deal(message: Message, context: Context, call_next: CallNext) -> Message:
    """A mod: tell the app its share of the deal, and let no reply out that is made of more.

    Between members that sign (`UnderDeal(signed=True)`) it answers for the node: it checks and signs the deal, trains
    on nothing before it has seen everybody's signature on the same one, and signs what the node delivers and measures.
    Messages without terms, such as those to evaluate, pass as they are.
    """
    return DealKeeper()(message, context, call_next)


@dataclass(frozen=True)
class DealKeeper:
    """The one dialogue of a node about a deal, whatever app is behind it.

    Attributes
    ----------
    learner
        Of a whole app of fedpact's (`client_app`): what its node holds. It negotiates from its private file, and trains
        under a deal that is signed, or not at all. None for other apps.
    """

    learner: LearnerFactory | None = None

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """The reply to a message: the node's own to a question, otherwise the app's, within the deal and signed."""
        try:
            record = message.content.get(RECORD) if message.has_content() else None
            said = record if isinstance(record, ConfigRecord) else {}
            if JSON_TEXT in said and len(message.content) == 1:
                asked = read_message(message)
                return reply_with(message, self.answer(str(asked.pop(ACTION, None)), asked, context))
            if MODELS in said:
                return _measure(message, context, call_next)
            if self.learner is not None and message.metadata.message_type.split(".")[0] == "train":
                return _train_within(None, message, context, call_next)
            return _train_within(said, message, context, call_next) if "agents" in said else call_next(message, context)
        except InvalidInput as reason:
            return Message(Error(REFUSED, str(reason)), reply_to=message)

    def answer(self, action: str, asked: dict[str, Any], context: Context) -> dict[str, Any]:
        """What the node says to a question of a coordinator."""
        if action == "greet":
            seat = self._seat(asked.get("agents"), context)
            return state_key(asked, context, name=seat.name, place=seat.place, size=seat.size)
        if action == "negotiate" and self.learner is not None:
            return answer_negotiation(asked, context, self.learner)
        if action == "sign":
            return self._sign(asked, context)
        if action == "seal":
            return seal_deal(asked, context)
        if action == "settle":
            return sign_settlement(asked, context)
        raise InvalidInput(f"action must be greet, sign, seal or settle, got {short_repr(action)}")

    def _seat(self, names: Any, context: Context) -> Seat:
        """Who the node is: by its private file in an app of fedpact's, otherwise among the members it is told."""
        if self.learner is not None:
            agent = own_agent(context)
            return Seat(name=agent.name, place=agent.index, size=agent.n_agents)
        if not isinstance(names, list):
            raise InvalidInput(f"a roll call must name the members of the deal, got {short_repr(names)}")
        name = _name(names, context)
        if name not in names:
            raise InvalidInput(f'"{name}" is not part of the deal')
        return Seat(name=name, place=names.index(name), size=len(names))

    def _sign(self, asked: dict[str, Any], context: Context) -> dict[str, Any]:
        """Sign the deal: a node with a private file checks it against its own numbers, one without as far as it can."""
        document = asked.get("document")
        if self.learner is None and (not isinstance(document, dict) or not isinstance(document.get("agents"), list)):
            raise InvalidInput("there is no deal to sign in what was asked")
        agent = own_agent(context) if self.learner is not None or "agent" in context.node_config else None
        if agent is not None and agent.has_lots:
            return {"signed": False, "reason": "a node signs deals between members with one lot of data each"}
        if agent is not None and self.learner is not None:
            agent = within_its_data(agent, self.learner(context), samples_per_unit(context))
        seat = self._seat(document["agents"] if isinstance(document, dict) else None, context)

        def own_part(part: OwnPart) -> list[str]:
            return list(TERMS) if agent is None else check_statement(agent, part, least_gain=least_gain(context))

        def check() -> list[str]:
            given = self.learner is not None or "samples-per-unit" in context.node_config
            return check_document(
                seat,
                asked,
                run=node_state(context).get("run", ""),
                key=own_key(context).public,
                known=keys_of_others(context),
                samples_per_unit=samples_per_unit(context) if given else asked["document"]["samples_per_unit"],
                own_part=own_part,
                calibration=calibration_of_node(context),
            )

        return sign_deal(asked, context, name=seat.name, check=check, agent=agent)


def answer_negotiation(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Its answer to a question of the negotiation, if what it has answered before allows it."""
    own, known, state = own_agent(context), keys_of_others(context), node_state(context)
    memory = NodeMemory.of(state.get("memory") or {"protocol": _own_protocol(context)})
    memory = memory.after(asked, knows_keys=known.is_given)
    if asked.get("kind") == "introduce":
        own = within_its_data(own, learner(context), samples_per_unit(context))
    secret = state.get("secret") or os.urandom(32).hex()  # what its masks are made from, drawn once
    identity = Identity(sign=lambda text: own_key(context).sign_bytes(text), known=known)
    answer = replace(own, secret=bytes.fromhex(secret), identity=identity).answer_stranger(asked)
    remember(context, memory=asdict(memory), secret=secret)
    return answer


def _own_protocol(context: Context) -> str:
    """By which protocol the node's owner lets it negotiate; empty for any."""
    named = context.node_config.get("protocol", "")
    if named not in ("", *PROTOCOLS):
        raise InvalidInput(f"protocol must be one of {', '.join(PROTOCOLS)}, got {named!r:.40}")
    return str(named)


def within_its_data(agent: Agent, learner: Learner, samples_per_unit: float) -> Agent:
    """The agent with caps that its data can honour."""
    return replace(agent, caps=np.minimum(agent.caps, learner.samples / samples_per_unit))


def _train_within(terms: Mapping[str, Any] | None, message: Message, context: Context, call_next: CallNext) -> Message:
    """The app's reply to a message to train, if it is made of no more than was agreed; signed under a signed deal.

    Without terms the node goes by the deal that it has signed alone.
    """
    signed = signed_deal(context)
    if terms is None:
        samples = samples_to_deliver(context)  # whatever the coordinator asks for
        name = "" if signed is None else str(signed["document"]["agents"][signed["place"]])
    else:
        name, samples = _share(terms, context)
        if not samples:  # the server learns who it is, and asks no more
            return Message(RecordDict({RECORD: ConfigRecord({"name": name, "samples": 0})}), reply_to=message)
        if signed is not None:
            samples = min(samples, samples_to_deliver(context))
    own = copy.copy(message)
    record = ConfigRecord({"name": name, "samples": samples})
    own.content = RecordDict({**message.content, RECORD: record})
    reply = call_next(own, context)
    if reply.has_error():
        return reply
    used = [metrics[key] for metrics in reply.content.metric_records.values() for key in COUNTS if key in metrics]
    if any(not isinstance(count, int | float) or count > samples for count in used):
        raise InvalidInput(
            f'"{name}" agreed to {samples} samples, and its app used {used[0]}: use agreed_samples(message)'
        )
    checked = copy.copy(reply)
    if signed is not None:
        models = list(reply.content.array_records.values())
        if len(models) != 1 or len(used) != 1 or not isinstance(used[0], int):
            raise InvalidInput('a reply to be signed must hold one record of arrays, and say "num-examples" once')
        record = sign_delivery(context, message, models[0], used[0])
    checked.content = RecordDict({**reply.content, RECORD: record})
    return checked


def _measure(message: Message, context: Context, call_next: CallNext) -> Message:
    """What the app says of each of the models in a message, in one reply; signed where a ledger waits for it."""
    names, models = Conventions.stated(message), model_records(message)
    config = message.content.get(names.config, ConfigRecord({}))
    accuracies: list[float] = []
    for place, arrays in enumerate(models):
        single = copy.copy(message)  # as apps know it
        single.content = RecordDict({names.arrays: arrays, names.config: config})
        reply = call_next(single, context)
        said = stated_accuracy(reply, names.metric)
        if reply.has_error():
            return reply
        if said["accuracy"] is None:
            raise InvalidInput(f"model {place}: {said['reason']}; UnderDeal(metric=...) names another metric")
        accuracies.append(said["accuracy"])
    metrics = MetricRecord({"accuracy": accuracies, "num-examples": said["samples"]})
    signature = sign_measured(context, message, models, accuracies, said["samples"])
    answer = Message(RecordDict({"metrics": metrics}), reply_to=message)
    if signature is not None:
        answer.content[RECORD] = signature
    return answer


def agreed_samples(message: Message) -> int:
    """The most samples this node may use to answer a message to train."""
    record = message.content.get(RECORD)
    samples = record.get("samples") if isinstance(record, ConfigRecord) else None
    if not isinstance(samples, int):
        raise InvalidInput(
            "this message holds no share of a deal; the server needs fedpact.flower.UnderDeal around its strategy and, "
            "unless it knows which node is whose, the app needs ClientApp(mods=[fedpact.flower.keep_deal])"
        )
    return samples


def _share(terms: Mapping[str, Any], context: Context) -> tuple[str, int]:
    """This node's name and samples."""
    names, samples = list(terms["agents"]), list(terms["agreed"])
    name = _name(names, context)
    if name not in names:
        raise InvalidInput(f'"{name}" is not part of the deal')
    agreed = int(samples[names.index(name)])
    share = min(agreed, int(context.node_config.get("max-samples", agreed)))
    if agreed and share < 1:
        raise InvalidInput(f'"{name}" has agreed to {agreed} samples, and its max-samples allows none')
    return name, share


def _name(names: list[Any], context: Context) -> str:
    own = context.node_config
    if "agent-name" in own:
        return str(own["agent-name"])
    if "agent" in own:
        return own_agent(context).name
    place = own.get("partition-id")
    if isinstance(place, int) and 0 <= place < len(names):
        return str(names[place])
    raise InvalidInput("the node's configuration must say who it is: --node-config 'agent-name=\"NAME\"'")
