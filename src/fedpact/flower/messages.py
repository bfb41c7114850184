"""Questions to nodes and what comes back, as Flower messages.

Questions and answers are plain data, sent as one line of strict JSON in a record of their own: numbers arrive bit for
bit, and what JSON cannot hold fails on the way out. What a node sends back is never trusted: an error, a record that is
not there, a text that is no JSON object are told apart here and judged elsewhere.

| message                        | its record `fedpact` holds                                   | who answers          |
|--------------------------------|--------------------------------------------------------------|----------------------|
| greet, negotiate, sign, settle | the question, as JSON; nothing is beside it                  | the node's mod alone |
| train, the strategy's own      | what everybody agreed to, and everybody's signatures on that | the app, within that |
| models to measure              | how many, and the head of the ledger the answer is to name   | the app, one by one  |
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedpact.deals.updates import model_digest
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import decode_line, encode_line
from fedpact.utils.words import printable

RECORD = "fedpact"  # the record that holds what fedpact has to say, in every message
JSON_TEXT = "json"
ACTION = "action"  # what a question to a node is about
MODELS = "models"  # how many models a message to measure them holds
SEAL = "seal"  # everybody's signatures on the deal, in messages to train
ACCURACY_KEYS = ("accuracy", "eval_acc")  # how apps call it, the second in Flower's own examples
MIN_PAUSE, MAX_PAUSE, PAUSE_GROWTH = 0.01, 0.5, 1.5  # seconds between looks for replies, and how they grow
MAX_TEXT_LENGTH = 1 << 24  # characters of an answer
MAX_REASON_LENGTH = 200

K = TypeVar("K")


# Plain data


def question(node: int, action: str, content: Mapping[str, Any], *, timeout: float) -> Message:
    """A message that puts a question to a node; it is not answered once the time is up.

    Flower hands a message only to apps with a function for its type. All apps have one to train, and a mod sees the
    message before that: there `keep_deal` answers.
    """
    return Message(message_content({**content, ACTION: action}), node, "train", ttl=max(timeout, 1.0))


def reply_with(message: Message, content: Mapping[str, Any]) -> Message:
    """The reply to a question."""
    return Message(message_content(content), reply_to=message)


def message_content(content: Mapping[str, Any]) -> RecordDict:
    """Plain data as the content of a message."""
    return RecordDict({RECORD: ConfigRecord({JSON_TEXT: encode_line(content)})})


def own_record(message: Message) -> Mapping[str, Any]:
    """What fedpact has to say in a message; empty if nothing."""
    record = message.content.get(RECORD) if message.has_content() else None
    return record if isinstance(record, ConfigRecord) else {}


def read_message(message: Message) -> dict[str, Any]:
    """The plain data in a message; raises `InvalidInput` if there is none, in words that can be shown."""
    if message.has_error():
        raise InvalidInput(error_reason(message))
    text = own_record(message).get(JSON_TEXT)
    if not isinstance(text, str):
        raise InvalidInput("sends no answer that fedpact can read; is its ClientApp one of fedpact's?")
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidInput(f"sends {len(text)} characters, more than {MAX_TEXT_LENGTH}")
    said = decode_line(text.encode(errors="replace"))
    try:
        json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # "\ud800" in JSON is half a character: no file can hold it
        raise InvalidInput("sends a text that is not UTF-8") from error
    return said


def error_reason(message: Message) -> str:
    """Why a reply is an error, on one line: Flower names the exception first."""
    told = printable(" ".join((message.error.reason or "").split()))
    return told[:MAX_REASON_LENGTH] or f"error {message.error.code} without a reason"


def exchange(grid: Grid, messages: Mapping[K, Message], *, timeout: float) -> dict[K, Message]:
    """Send messages, and wait for replies until all are there or the time is up.

    Flower's own `send_and_receive` looks for replies every three seconds; a negotiation has many short rounds. A reply
    is known by the message that it answers: for a node that has died Flower answers, under a number of its own.
    """
    keys = list(messages)
    pushed = list(grid.push_messages([messages[key] for key in keys])) if keys else []
    waiting = {number: key for key, number in zip(keys, pushed, strict=False) if number}
    replies: dict[K, Message] = {}
    deadline, pause = time.monotonic() + timeout, MIN_PAUSE
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            key = waiting.pop(reply.metadata.reply_to_message_id, None)
            if key is not None:
                replies[key] = reply
        remaining = deadline - time.monotonic()
        if not waiting or remaining <= 0.0:
            break
        time.sleep(min(pause, remaining))
        pause = min(pause * PAUSE_GROWTH, MAX_PAUSE)
    return replies


def ask_nodes(
    grid: Grid, nodes: Mapping[K, int], action: str, put: Mapping[K, Mapping[str, Any]], timeout: float
) -> tuple[dict[K, dict[str, Any]], dict[K, str]]:
    """What nodes answer to what is put to each, and why others say nothing that can be read."""
    messages = {key: question(nodes[key], action, put[key], timeout=timeout) for key in nodes}
    replies = exchange(grid, messages, timeout=timeout)
    answers: dict[K, dict[str, Any]] = {}
    silent = {key: "no answer in time" for key in nodes if key not in replies}
    for key, reply in replies.items():
        try:
            answers[key] = read_message(reply)
        except InvalidInput as reason:
            silent[key] = str(reason)
    return answers, silent


# Models


class Conventions(NamedTuple):
    """What an app and its strategy call the records and the metric that they exchange; messages to measure say it."""

    arrays: str = "arrays"  # the record that holds the model
    config: str = "config"  # the record that holds the number of the round
    metric: str = ""  # the score from 0 to 1 in replies to messages to evaluate; empty for one of `ACCURACY_KEYS`

    @classmethod
    def of(cls, strategy: Any, metric: str | None) -> Conventions:
        """Those of a strategy such as Flower's."""
        keys = getattr(strategy, "arrayrecord_key", "arrays"), getattr(strategy, "configrecord_key", "config")
        return cls(*keys, metric or "")

    @classmethod
    def stated(cls, message: Message) -> Conventions:
        """Those of a message to measure models."""
        return cls(*map(str, own_record(message).get("conventions", ())))


def models_of(message: Message) -> list[ArrayRecord]:
    """The models of a message to measure them."""
    count = own_record(message)[MODELS]
    known = type(count) is int and 0 < count <= len(message.content)  # before a list is made of so many
    found = [message.content.get(f"model-{index}") for index in range(count)] if known else []
    if not found or not all(isinstance(arrays, ArrayRecord) for arrays in found):
        raise InvalidInput(f"a message with {count!r:.40} models must hold as many records of arrays")
    return found  # type: ignore[return-value]


def ask_to_measure(  # noqa: PLR0917 - whom, and what
    grid: Grid,
    nodes: Mapping[str, int],
    models: Mapping[str, Sequence[ArrayRecord]],
    conventions: Conventions,
    server_round: int,
    timeout: float,
    **more: Any,
) -> dict[str, dict[str, Any]]:
    """What members say of models, and their signatures, or why they say nothing; `nodes` are of who is there."""
    config = ConfigRecord({"server-round": server_round})  # which apps may look for, where strategies write it
    messages = {}
    for name, node in nodes.items():
        record = ConfigRecord({"conventions": list(conventions), MODELS: len(models[name]), **more})
        listed = {f"model-{index}": arrays for index, arrays in enumerate(models[name])}
        content = RecordDict({**listed, conventions.config: config, RECORD: record})
        messages[name] = Message(content, node, "evaluate", ttl=max(timeout, 1.0))
    replies = exchange(grid, messages, timeout=timeout)
    found = {name: stated_scores(replies.get(name), len(models[name])) for name in models}
    for name, said in found.items():
        if said["accuracies"] is not None:
            said["signature"] = own_record(replies[name]).get("signature")
    return found


def stated_scores(reply: Message | None, count: int, metric: str = "") -> dict[str, Any]:
    """What a node says of so many models, in their order, or why it does not; `metric` as in `Conventions`."""
    if reply is None:
        return {"accuracies": None, "reason": "no reply in time"}
    if reply.has_error():
        return {"accuracies": None, "reason": error_reason(reply)}
    metrics: Mapping[str, Any] = next(iter(reply.content.metric_records.values()), {})  # type: ignore[call-overload]
    names = (metric,) if metric else ACCURACY_KEYS
    given, samples = next((metrics[key] for key in names if key in metrics), None), metrics.get("num-examples")
    scores = given if isinstance(given, list) else [given]
    sound = len(scores) == count and all(isinstance(score, float) and 0.0 <= score <= 1.0 for score in scores)
    if not sound or type(samples) is not int or samples < 1:
        there = ", ".join(sorted(map(str, metrics))) or "no metric"
        wanted = f"{' or '.join(names)} from 0 to 1 and num-examples"
        return {"accuracies": None, "reason": f"the reply holds no accuracy: it must say {wanted}, and says {there}"}
    return {"accuracies": scores, "samples": samples}


def record_digest(arrays: ArrayRecord) -> str:
    """A number for a model (`fedpact.deals.updates.model_digest`)."""
    return model_digest(named_arrays(arrays))


def named_arrays(arrays: ArrayRecord) -> dict[str, np.ndarray[Any, Any]]:
    """A model's arrays by name."""
    return {name: array.numpy() for name, array in arrays.items()}


def array_record(arrays: Mapping[str, np.ndarray[Any, Any]]) -> ArrayRecord:
    """A model under the names of its arrays."""
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def only_arrays(message: Message, what: str) -> ArrayRecord:
    """The model of a message that holds one."""
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise InvalidInput(f"{what} must hold one record of arrays, got {len(records)}")
    return records[0]
