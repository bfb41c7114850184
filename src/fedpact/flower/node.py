"""A node under a deal: it answers for itself, and lets its app train and measure within what it has signed.

    app = ClientApp(mods=[keep_deal])

    @app.train()
    def train(message, context):
        trainset = load_data()[:agreed_samples(message)]

A node says who it is in its own configuration (`fedpact.flower.identity`); `max-samples` there is a limit of its own,
whatever the deal says. With a private file it negotiates, in an app of fedpact's, and checks the deal against its own
numbers (`fedpact.flower.checks`).

Where members sign, it trains on no more samples than the deal it has signed says, whatever a coordinator asks for, and
on none without everybody's signature on the same deal, which messages to train bring along. It signs what it delivers
in every round, what it measures of models, and what all are paid, and keeps a receipt of that. It remembers its own
statements, by its receipt also when the server is started again, and signs no settlement of a ledger that lacks or
changes one of them.
"""

from __future__ import annotations

import copy
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.deals import whole_samples
from fedpact.deals.signatures import (
    OWN_PARTS,
    document_digest,
    key_document,
    own_document,
    own_statement_words,
    settlement_document,
    statement_document,
)
from fedpact.flower.checks import (
    Refused,
    check_by_private_file,
    check_deal,
    check_everybody_signed,
    check_settlement,
    wanted_updates,
)
from fedpact.flower.identity import OwnNode, logger
from fedpact.flower.messages import (
    ACTION,
    JSON_TEXT,
    MODELS,
    RECORD,
    SEAL,
    Conventions,
    models_of,
    only_arrays,
    own_record,
    read_message,
    record_digest,
    reply_with,
    stated_scores,
)
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.node_memory import NodeMemory
from fedpact.negotiation.protocols import find_protocol
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput, Refusal, short_repr
from fedpact.utils.jsonl import decode_line

REFUSED = 6  # Flower's code for a mod that refuses
RUN = re.compile("[0-9a-f]{64}")  # the hash of its ledger's first entry
COUNTS = ("num-examples", "num_examples")
# Parts of what a node remembers, beside its key, the run it was called to, and the negotiation's memory and secret.
CAPS = "caps"  # of its lots, as it has introduced itself
ROUND = "round"  # the last it has trained in, since it has signed
SIGNED = "signed"  # the deal it has signed, its index in it, and its own prices
STATEMENTS = "statements"  # digests of what it has signed under each deal, also in its receipt

CallNext = Callable[[Message, Context], Message]
Model = Sequence[np.ndarray[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a model does on a node's own test set: the share of right answers, and of how many."""

    accuracy: float
    samples: int


class Learner(Protocol):
    """A node's data and how to learn from it; made anew for every message, so it should import frameworks late."""

    @property
    def samples(self) -> int:
        """Training samples the node holds: the most it can contribute."""

    def train(self, model: Model, samples: int, server_round: int) -> Model:
        """The model after one round on the first `samples` of its training samples."""

    def evaluate(self, model: Model) -> Score:
        """The model on its own test set."""


LearnerFactory = Callable[[Context], Learner]


def keep_deal(message: Message, context: Context, call_next: CallNext) -> Message:
    """A mod: it answers for the node under a deal (`UnderDeal`), and tells the app its share.

    It checks and signs the deal, trains on nothing before it has seen everybody's signature on the same one, lets no
    reply out that is made of more samples, and signs what the node delivers and measures. Other messages, such as those
    to evaluate, pass as they are.
    """
    return DealNode(context).reply(message, call_next)


def agreed_samples(message: Message) -> int:
    """The most samples this node may use to answer a message to train."""
    samples = own_record(message).get("samples")
    if not isinstance(samples, int):
        raise InvalidInput(
            "this message holds no share of a deal; the server needs fedpact.flower.UnderDeal around its strategy, and "
            "the app needs ClientApp(mods=[fedpact.flower.keep_deal])"
        )
    return samples


def server_round(message: Message) -> int:
    """The number of the round, as strategies write it; 0 if this one does not."""
    numbers = [record.get("server-round") for record in message.content.config_records.values()]
    return next((number for number in numbers if isinstance(number, int)), 0)


def client_app(learner: LearnerFactory) -> ClientApp:
    """The app of a node that negotiates, trains under the deal and checks what it is to be paid.

    Parameters
    ----------
    learner
        Makes the node's `Learner` from its context.
    """
    app = ClientApp(mods=[lambda message, context, call_next: DealNode(context, learner).reply(message, call_next)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own, arrays = learner(context), only_arrays(message, "a message to train")
        samples = min(agreed_samples(message), own.samples)
        if samples < 1:
            raise InvalidInput("this node holds no sample to train on")
        model = own.train(arrays.to_numpy_ndarrays(), samples, server_round(message))
        trained = ArrayRecord([np.asarray(array) for array in model])
        if len(trained) != len(arrays):
            raise InvalidInput(f"the learner must return {len(arrays)} arrays, got {len(trained)}")
        named = ArrayRecord(dict(zip(arrays.keys(), trained.values(), strict=True)))  # as they came
        metrics = MetricRecord({"num-examples": samples})
        return Message(RecordDict({"arrays": named, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = only_arrays(message, "a message to evaluate")
        found = learner(context).evaluate(arrays.to_numpy_ndarrays())
        metrics = MetricRecord({"accuracy": float(found.accuracy), "num-examples": int(found.samples)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


class DealNode(OwnNode):
    """The one dialogue of a node about a deal, whatever app is behind it; `context` is that of a message.

    With a `learner`, that of a whole app of fedpact's (`client_app`), it negotiates from its private file, and trains
    under a deal that is signed, or not at all.
    """

    def __init__(self, context: Context, learner: LearnerFactory | None = None) -> None:
        super().__init__(context, usual_unit=None if learner is None else 1.0)
        self._learner = learner

    @property
    def signed(self) -> dict[str, Any] | None:
        """The document it has signed, its index in it, and its own prices; None if it has signed none."""
        return self.state.get(SIGNED)

    def reply(self, message: Message, call_next: CallNext) -> Message:
        """The reply to a message: the node's own to a question, otherwise the app's, within the deal and signed."""
        try:
            said = own_record(message)
            if JSON_TEXT in said and len(message.content) == 1:
                return reply_with(message, self._answer(read_message(message)))
            if MODELS in said:
                return self._measure(message, call_next)
            is_bound = self._learner is not None or self.signed is not None  # to a deal, whatever the message holds
            if SEAL in said or (is_bound and message.metadata.message_type.split(".")[0] == "train"):
                return self._train(message, call_next)
            return call_next(message, self.context)
        except InvalidInput as reason:
            return Message(Error(REFUSED, str(reason)), reply_to=message)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What the node says to a question of a coordinator."""
        if self._learner is not None:
            self.required_agent()
        answers = {"greet": self._greet, "sign": self._sign_deal, "settle": self._sign_settlement}
        if self._learner is not None:
            answers["negotiate"] = self._negotiate
        action = asked.pop(ACTION, None)
        if action not in answers:
            raise InvalidInput(f"action must be {' or '.join(answers)}, got {short_repr(action)}")
        return answers[action](asked)

    def _greet(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a roll call: who the node is, and which key it signs with in this run."""
        run, seat = asked.get("run"), self.seat(asked.get("agents"))
        if not isinstance(run, str) or RUN.fullmatch(run) is None:
            raise InvalidInput(f"a roll call must name the run, by 64 hexadecimal digits, got {short_repr(run)}")
        self.remember(run=run)
        signature = self.key.sign(key_document(run, seat.name, seat.index, self.key.public))
        said = {"name": seat.name, "index": seat.index, "agents": seat.size}
        return {**said, "key": self.key.public, "signature": signature}

    # The negotiation

    @property
    def _memory_part(self) -> str:
        """Where its memory is kept: of a run of Flower where it has a private file, otherwise of a ledger."""
        return "memory" if self.private_file is not None else f"memory of {self.state.get('run', '')}"

    @property
    def _memory(self) -> NodeMemory:
        """What it remembers of the questions it has answered, and by which protocol its owner has it negotiate."""
        named = self.config.get("protocol", "")
        if named != "":
            find_protocol(named)
        return NodeMemory.of(self.state.get(self._memory_part) or {"protocol": named})

    def _within_data(self, agent: Agent) -> Agent:
        """What the node knows of itself, with caps that its data can honour."""
        if self._learner is None:
            return agent
        assert self.samples_per_unit is not None
        held = self._learner(self.context).samples / self.samples_per_unit
        return replace(agent, caps=np.minimum(agent.caps, held))

    def _negotiate(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer to a question of the negotiation, if what it has answered before allows it."""
        agent, memory = self.required_agent(), self._memory.after(asked, knows_keys=self.known_keys.is_given)
        stated = None if asked.get("kind") == "introduce" else self.state.get(CAPS)
        agent = self._within_data(agent) if stated is None else replace(agent, caps=np.array(stated))
        secret = self.state.get("secret") or os.urandom(32).hex()  # what its masks are made from, drawn once
        identity = Identity(sign=self.key.sign_bytes, known=self.known_keys)
        answer = replace(agent, secret=bytes.fromhex(secret), identity=identity).answer_stranger(dict(asked))
        self.remember(**{self._memory_part: asdict(memory), CAPS: agent.caps.tolist()}, secret=secret)
        return answer

    # What it signs

    def _sign_deal(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Sign the deal and the node's own part of it if they hold; the last one signed is the one kept to.

        It decides on one deal in a run only, by all that is signed of it, with or without a private file
        (`NodeMemory.after_deal`).
        """
        document = asked.get("document")
        if not isinstance(document, dict) or not isinstance(document.get("agents"), list):
            raise InvalidInput("there is no deal to sign in what was asked")
        seat, agent = self.seat(document["agents"]), self.agent
        try:
            if agent is not None and agent.has_lots:
                raise Refused("a node signs deals between members with one lot of data each")
            deal, claims = check_deal(self, seat, asked)
            parts: dict[str, Any] = {part: asked.get(part) for part in ("prices", "utility")}
            # The same deal may stand in another ledger, or further on in this one; all else that is signed is pinned.
            terms = {part: stated for part, stated in document.items() if part not in ("run", "head")}
            digest = document_digest({**parts, "document": terms, "wants": asked.get("wants")})
            memory = self._memory.after_deal(deal, digest, index=seat.index)
            self.remember(**{self._memory_part: asdict(memory)})
            if agent is not None:
                agent = self._within_data(agent)
                claims += check_by_private_file(agent, deal, **parts, least_gain=self.least_gain)
            wants = wanted_updates(document, asked.get("wants"), agent, seat.name)
        except (Refused, Refusal) as reason:
            details = getattr(reason, "details", "")
            logger.warning("it does not sign the deal: %s%s", reason, f" ({details})" if details else "")
            return {"signed": False, "reason": str(reason)}
        own = statement_document(document, seat.name, **parts, claims=claims, wants=wants)
        kept = {part: asked.get(part) for part in ("document", "place", "prices", "calibration")}
        self.remember(**{SIGNED: kept, ROUND: 0})
        self._keep_statement(seat.name, document)
        return {
            "signed": True,
            "claims": claims,
            "signature": self.key.sign(document),
            "own_signature": self.key.sign(own),
            **({} if wants is None else {"wants": wants}),
        }

    def _sign_settlement(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Sign everybody's cents if all that the node has signed is in the ledger, and its own are those due for it."""
        signed = self.signed
        if signed is None:
            return {"confirmed": False, "reason": "it has not signed any deal"}
        document = signed["document"]
        digest = document_digest(document)
        if asked.get("deal") != digest:
            return {"confirmed": False, "reason": "it has signed another deal"}
        try:
            delivered = check_settlement(signed, asked, self._statements().get(digest, {}))
        except Refused as reason:
            return {"confirmed": False, "reason": str(reason)}
        settlement = settlement_document(
            document, str(asked.get("head")), delivered, asked["cents"], asked.get("paid_shares")
        )
        self._keep_statement(document["agents"][signed["place"]], settlement)
        return {"confirmed": True, "signature": self.key.sign(settlement)}

    # What its app does

    def _train(self, message: Message, call_next: CallNext) -> Message:
        """The app's reply to a message to train, signed, if it is made of no more than was agreed.

        A node goes by the deal that it has signed alone, whatever the coordinator asks for.
        """
        name, agreed = self._samples_to_deliver(own_record(message).get(SEAL))
        number = self._round_to_train(message)
        samples = min(agreed, int(self.config.get("max-samples", agreed)))
        if samples < 1:
            raise InvalidInput(f'"{name}" has agreed to {agreed} samples, and its max-samples allows none')
        reply = call_next(_with_record(message, ConfigRecord({"name": name, "samples": samples})), self.context)
        if reply.has_error():
            return reply
        used = [metrics[key] for metrics in reply.content.metric_records.values() for key in COUNTS if key in metrics]
        if any(not isinstance(count, int | float) or count > samples for count in used):
            raise InvalidInput(
                f'"{name}" agreed to {samples} samples, and its app used {used[0]}: use agreed_samples(message)'
            )
        models = list(reply.content.array_records.values())
        if len(models) != 1 or len(used) != 1 or not isinstance(used[0], int):
            raise InvalidInput('a reply to be signed must hold one record of arrays, and say "num-examples" once')
        self.remember(**{ROUND: number})
        delivery = {"round": number, "samples": used[0], "update": record_digest(models[0])}
        return _with_record(reply, self._sign_own("delivery", delivery))

    def _samples_to_deliver(self, seal: Any) -> tuple[str, int]:
        """What it is called and how many samples it has agreed to, by a deal that bears everybody's signature."""
        signed = self.signed
        if signed is None:
            raise InvalidInput("this node has not signed any deal; it does not train")
        document, index = signed["document"], signed["place"]
        if not isinstance(seal, str):
            raise InvalidInput("this node has not seen everybody's signature on the deal; it does not train")
        try:
            check_everybody_signed(document, decode_line(seal.encode(errors="replace")))
        except Refused as reason:
            raise InvalidInput(
                f"this node has not seen everybody's signature on the deal, and does not train: {reason}"
            ) from None
        name = document["agents"][index]
        agreed = int(whole_samples(document["contributions"], document["samples_per_unit"])[index])
        if agreed < 1:
            raise InvalidInput(f'"{name}" has not agreed to contribute any sample; it does not train')
        return name, agreed

    def _round_to_train(self, message: Message) -> int:
        """The round, if it is to train in it: each of the deal's once, in order, until it measures what they come to.

        A server that was stopped puts the deal to everybody again before it trains anew, from the first round.
        """
        signed = self.signed
        assert signed is not None
        document, number, last = signed["document"], server_round(message), self.state.get(ROUND, 0)
        if not 1 <= number <= document["rounds"]:
            raise InvalidInput(f"the deal is of rounds 1 to {document['rounds']}, and this is round {number}")
        if number <= last:
            raise InvalidInput(f"it has trained in round {last}, and is asked for round {number} again")
        measured = {OWN_PARTS[about][1] for about in ("verification", "accuracy")}
        if measured & self._statements().get(document_digest(document), {}).keys():
            raise InvalidInput("it has measured what training comes to, which is over")
        return number

    def _measure(self, message: Message, call_next: CallNext) -> Message:
        """What the app says of each of the models in a message, in one reply; signed where a ledger waits for it.

        Where one does the message names the ledger's entry that it goes by.
        """
        names, models, record = Conventions.stated(message), models_of(message), own_record(message)
        config = message.content.get(names.config, ConfigRecord({}))
        accuracies: list[float] = []
        for index, arrays in enumerate(models):
            single = copy.copy(message)  # as apps know it
            single.content = RecordDict({names.arrays: arrays, names.config: config})
            reply = call_next(single, self.context)
            if reply.has_error():
                return reply
            said = stated_scores(reply, 1, names.metric)
            if said["accuracies"] is None:
                raise InvalidInput(f"model {index}: {said['reason']}; UnderDeal(metric=...) names another metric")
            accuracies += said["accuracies"]
        metrics = MetricRecord({"accuracy": accuracies, "num-examples": said["samples"]})
        answer = Message(RecordDict({"metrics": metrics}), reply_to=message)
        if "head" not in record or self.signed is None:
            return answer
        if time.time() > message.metadata.created_at + message.metadata.ttl:
            raise InvalidInput("it has measured for longer than the server waits; it signs nothing that comes too late")
        about = str(record.get("about"))
        if about not in ("accuracy", "verification") or (about == "accuracy" and len(models) != 1):
            raise InvalidInput(
                f"it signs what it measures of a model or of several, and not a statement about {about!r:.40}"
            )
        digests = [record_digest(arrays) for arrays in models]
        measured = {"models": digests, "accuracies": list(accuracies), "samples": said["samples"]}
        answer.content[RECORD] = self._sign_own(about, measured, head=str(record["head"]))
        return answer

    # Its own statements

    def _sign_own(self, about: str, said: Mapping[str, Any], *, head: str | None = None) -> ConfigRecord:
        """A statement of its own under the deal, signed and kept."""
        signed = self.signed
        assert signed is not None
        document, name = signed["document"], signed["document"]["agents"][signed["place"]]
        made = own_document(about, document, name, said, head=head)
        self._keep_statement(name, made, **({} if head else {"head": document["head"]}))
        return ConfigRecord({"name": name, "signature": self.key.sign(made)})

    def _statements(self) -> dict[str, dict[str, str]]:
        """Digests of what it has signed of its own under each deal, by the deal's digest and the statement's key."""
        state = self.state
        held = state.get(STATEMENTS, {})
        written = self.last_receipt(state.get("run", "")).get(STATEMENTS, {})  # of before this process was started
        return {deal: written.get(deal, {}) | held.get(deal, {}) for deal in {**written, **held}}

    def _keep_statement(self, name: str, document: Mapping[str, Any], **more: Any) -> None:
        """Keep a receipt of what it signs, and of its own statements the digest; the last with its key counts."""
        statements, key = self._statements(), own_statement_words(document)
        if key is not None:
            statements.setdefault(document["deal"], {})[key] = document_digest(document)
            self.remember(**{STATEMENTS: statements})
        self.keep_receipt(name, document, **more, **({STATEMENTS: statements} if statements else {}))


def _with_record(message: Message, record: ConfigRecord) -> Message:
    """The same message, with what fedpact has to say in it."""
    copied = copy.copy(message)
    copied.content = RecordDict({**message.content, RECORD: record})
    return copied
