"""Flower in one process: a Grid that hands messages to real ClientApps, contents through protobuf, in milliseconds.

It stands on two things that Flower keeps to itself, `metadata._message_id` and `TaskIdentity`; a test says so when they
change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import fedpact as fp
from fedpact.flower import Score, client_app
from fedpact.flower.messages import RECORD, read_message
from fedpact.flower.server import conduct, federated_averaging
from fedpact.flower.settings import AppSettings
from fedpact.negotiation import agents_of
from fedpact.negotiation.agent_file import save_agent

RAISED = 2  # Flower's code for an exception in a ClientApp
FIRST_NODE = 1000

Fault = Callable[[Message, Callable[[Message], Message]], Message | None]


def through_protobuf(message: Message) -> Message:
    """The message as it arrives at the other end."""
    wire = message_to_proto(message).SerializeToString()
    return message_from_proto(ProtoMessage.FromString(wire))


def kind_of(message: Message) -> str:
    """What a question to a node is about, or the type of a message to its app."""
    record = message.content.get(RECORD) if message.has_content() else None
    if isinstance(record, ConfigRecord) and "json" in record and len(message.content) == 1:
        return str(read_message(message).get("action"))
    return message.metadata.message_type


@dataclass
class Node:
    """A node with its app; a fault may answer in its place, or not at all."""

    app: ClientApp
    context: Context
    fault: Fault | None = None

    def handle(self, message: Message) -> Message | None:
        def honest(asked: Message) -> Message:
            try:
                return self.app(asked, self.context)
            except Exception as error:
                return Message(Error(RAISED, f"{type(error)}:<'{error}'>"), reply_to=asked)

        return honest(message) if self.fault is None else self.fault(message, honest)


class Killed(BaseException):
    """The server's process ends here."""


@dataclass
class InProcessGrid(Grid):
    """Nodes in this process.

    Attributes
    ----------
    killed_at
        The push at which the server ends, counted from 0.
    seen, first
        All messages that were pushed, and the first push of each type.
    """

    nodes: dict[int, Node]
    killed_at: int | None = None
    pushes: int = 0
    seen: list[Message] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    _replies: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *given: Any, **named: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        if self.pushes == self.killed_at:
            raise Killed
        self.pushes += 1
        numbers = []
        for message in messages:
            number = f"message {len(self.seen)}"
            message.metadata.__dict__["_message_id"] = number
            arrived = through_protobuf(message)
            self.seen.append(arrived)
            self.first.setdefault(kind_of(message), self.pushes - 1)
            numbers.append(number)
            node = self.nodes.get(message.metadata.dst_node_id)
            reply = node.handle(arrived) if node is not None else None
            if reply is not None:
                self._replies[number] = through_protobuf(reply)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return list(self.pull_messages(list(self.push_messages(list(messages)))))


class Pulling:
    """A learner whose model is a number that every node pulls half the way to its place."""

    samples = 10**12
    used: ClassVar[list[tuple[int, int]]] = []  # place and samples of every round of training, over all nodes

    def __init__(self, context: Context) -> None:
        self.place = int(context.node_config["partition-id"])

    def train(self, model: Any, samples: int, server_round: int) -> list[np.ndarray]:
        self.used.append((self.place, samples))
        return [0.5 * (model[0] + self.place)]

    def evaluate(self, model: Any) -> Score:
        return Score(accuracy=float(1.0 / (1.0 + abs(model[0] - self.place))), samples=10 + self.place)


@dataclass
class Stage:
    """A federation on nodes of this process, and a folder for its private files and its record."""

    federation: fp.Federation
    folder: Path
    faults: dict[int, Fault] = field(default_factory=dict)
    node_config: dict[int, dict[str, Any]] = field(default_factory=dict)
    learner: Any = Pulling
    run_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "agents").mkdir(parents=True, exist_ok=True)
        for agent in agents_of(self.federation):
            save_agent(agent, self.folder / "agents" / f"{agent.index}.json")

    @property
    def ledger(self) -> Path:
        return self.folder / "record" / "ledger.jsonl"

    def settings(self, **more: Any) -> AppSettings:
        usual = {"timeout": 0.02, "patience": 0.0, "currency": "EUR", "per-payoff": 1e6, "rounds": 2}
        given = {
            "record": str(self.folder / "record"),
            "names": json.dumps(list(self.federation.names)),
            **usual,
            **self.run_config,
            **more,
        }
        return AppSettings.of({name: setting for name, setting in given.items() if setting is not None})

    def grid(self, *, killed_at: int | None = None, places: Iterable[int] | None = None) -> InProcessGrid:
        nodes = {}
        for place in range(self.federation.n_agents) if places is None else places:
            config = {
                "partition-id": place,
                "num-partitions": self.federation.n_agents,
                "agent": str(self.folder / "agents" / f"{place}.json"),
                **self.node_config.get(place, {}),
            }
            context = Context(
                run_id=1,
                node_id=FIRST_NODE + place,
                node_config=config,
                state=RecordDict(),
                run_config=dict(self.run_config),
            )
            nodes[FIRST_NODE + place] = Node(client_app(self.learner), context, self.faults.get(place))
        return InProcessGrid(nodes, killed_at=killed_at)

    def conduct(self, grid: InProcessGrid | None = None, *, strategy: Any = federated_averaging, **more: Any) -> None:
        conduct(grid or self.grid(), self.settings(**more), initial=lambda: [np.zeros(())], strategy=strategy)
