"""Messages of training under a deal: to some of the nodes, with other contents, and replies that are models,
counted only if whose they are has signed them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zipfile import BadZipFile

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fedpact.deals.signatures import is_signed_by, own_document
from fedpact.flower.messages import RECORD, exchange, named_arrays, record_digest
from fedpact.utils.errors import InvalidInput


class MembersGrid(Grid):
    """A grid with some of the nodes of another, which notes which node each message went to.

    Parameters
    ----------
    includes
        Whether a node is among them.
    asked
        Where to note nodes, by the number of the message, which its reply names.
    """

    def __init__(self, grid: Grid, includes: Callable[[int], bool], asked: dict[str, int]) -> None:
        self._grid, self._includes, self._asked = grid, includes, asked

    def set_run(self, run: Any) -> None:
        """As the other grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Of the other grid."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """As the other grid."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Of the nodes among them."""
        return [node for node in self._grid.get_node_ids() if self._includes(node)]

    def get_nodes(self) -> Iterable[NodeInfo]:
        """The nodes among them."""
        return [node for node in self._grid.get_nodes() if self._includes(node.node_id)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the other grid."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the other grid."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """The replies that come in time; without a timeout all."""
        sent = dict(enumerate(messages))
        replies = exchange(self._grid, sent, timeout=math.inf if timeout is None else timeout)
        for number, reply in replies.items():
            self._asked[reply.metadata.reply_to_message_id] = sent[number].metadata.dst_node_id
        return list(replies.values())


def check_model(reply: Message, sent: ArrayRecord | None) -> None:
    """A model is averaged only with others of its kind, and one bad number would spoil it for everybody."""
    records = list(reply.content.array_records.values())
    if len(records) != 1 or len(reply.content.metric_records) != 1:
        raise InvalidInput("its reply must hold one record of arrays and one of metrics")
    try:
        found, wanted = named_arrays(records[0]), {} if sent is None else named_arrays(sent)
        kinds = {name: _kind(array) for name, array in found.items()}
    except (AttributeError, BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
        raise InvalidInput(f"its model holds an array that cannot be read: {error!r:.80}") from error
    other = [name for name in found | wanted if name not in wanted or kinds.get(name) != _kind(wanted[name])]
    if other:
        raise InvalidInput(f"its model has other arrays than the one it was sent, such as {other[0]!r:.40}")
    for name, numbers in found.items():
        if not np.isfinite(numbers).all():
            raise InvalidInput(f"its model's array {name!r:.40} holds numbers that are not finite")


def _kind(array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], bool]:
    """An array's shape, and whether it is complex: means of whole numbers are floats, so real numbers are alike."""
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{array.dtype} is no kind of number")
    return array.shape, array.dtype.kind == "c"


def copy_arrays(arrays: ArrayRecord) -> ArrayRecord:
    """Another record of the same arrays, which hold bytes that nobody can write to."""
    return ArrayRecord(dict(arrays.items()))


def with_content(message: Message, content: Mapping[str, Any]) -> Message:
    """The same message with another content."""
    about = message.metadata
    return Message(
        RecordDict(dict(content)), about.dst_node_id, about.message_type, ttl=about.ttl, group_id=about.group_id
    )


def arrays_of(reply: Message) -> ArrayRecord:
    """The model of a reply."""
    records = list(reply.content.array_records.values())
    if len(records) != 1:
        raise InvalidInput(f"a reply to be verified must hold one record of arrays, got {len(records)}")
    return records[0]


def copy_reply(reply: Message) -> Message:
    """The same reply, whose records a strategy may replace."""
    copied = copy.copy(reply)
    copied.content = RecordDict(dict(reply.content.items()))
    return copied


def without_record(reply: Message) -> Message:
    """A reply as the strategy would have received it."""
    stripped = copy.copy(reply)
    stripped.content = RecordDict({key: record for key, record in reply.content.items() if key != RECORD})
    return stripped


@dataclass
class SignedDeliveries:
    """What was delivered under a deal that members have signed.

    Attributes
    ----------
    document
        What everybody has signed of the deal (`fedpact.deals.signatures`).
    by_name
        By member, a list of `round`, `samples`, `update` and `signature`.
    """

    document: Mapping[str, Any]
    by_name: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, reply: Message, name: str, samples: int, server_round: int) -> None:
        """Take down what a member delivers.

        Raises
        ------
        InvalidInput
            If it has not signed it.
        """
        record, document = reply.content.get(RECORD), self.document
        update = record_digest(next(iter(reply.content.array_records.values())))
        delivery = {"round": server_round, "samples": samples, "update": update}
        signature = record.get("signature") if isinstance(record, ConfigRecord) else None
        signed = own_document("delivery", document, name, delivery)
        if not is_signed_by(document["keys"].get(name), signed, signature):
            raise InvalidInput("it has not signed what it delivers")
        self.by_name.setdefault(name, []).append({**delivery, "signature": signature})
