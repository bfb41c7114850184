"""For ClientApps that exist already: who a node is, and how many samples it may use.

    app = ClientApp(mods=[keep_deal])

    @app.train()
    def train(message, context):
        trainset = load_data()[:agreed_samples(message)]

A node says who it is in its own configuration, by `agent` (its private file) or by `agent-name`; in a simulation its
`partition-id` is its place among the deal's agents. `max-samples` there is a limit of its own, whatever the deal says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict

from fedpact.flower.identity import own_agent
from fedpact.flower.messages import RECORD, model_records, stated_accuracy
from fedpact.utils.errors import InvalidInput

REFUSED = 6  # Flower's code for a mod that refuses
COUNTS = ("num-examples", "num_examples")


def keep_deal(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """A mod: tell the app its share of the deal, and let no reply out that is made of more.

    Messages without terms, such as those to evaluate, pass as they are.
    """
    several = model_records(message) if message.has_content() else None
    if several is not None:
        return _measure_each(message, several, context, call_next)
    terms = message.content.get(RECORD) if message.has_content() else None
    if not isinstance(terms, ConfigRecord) or "agents" not in terms:
        return call_next(message, context)
    try:
        name, samples = _share(terms, context)
    except InvalidInput as reason:
        return Message(Error(REFUSED, str(reason)), reply_to=message)
    own = copy.copy(message)
    record = ConfigRecord({"name": name, "samples": samples})
    own.content = RecordDict({**message.content, RECORD: record})
    reply = call_next(own, context)
    if reply.has_error():
        return reply
    used = [metrics[key] for metrics in reply.content.metric_records.values() for key in COUNTS if key in metrics]
    if any(not isinstance(count, int | float) or count > samples for count in used):
        used_more = f'"{name}" agreed to {samples} samples, and its app used {used[0]}: use agreed_samples(message)'
        return Message(Error(REFUSED, used_more), reply_to=message)
    checked = copy.copy(reply)
    checked.content = RecordDict({**reply.content, RECORD: record})
    return checked


def _measure_each(
    message: Message,
    models: Sequence[ArrayRecord],
    context: Context,
    call_next: Callable[[Message, Context], Message],
) -> Message:
    """What the app says of each of several models, in one reply."""
    accuracies: list[float] = []
    samples = 0
    for place, arrays in enumerate(models):
        single = copy.copy(message)
        single.content = RecordDict({"arrays": arrays, "config": ConfigRecord({})})
        reply = call_next(single, context)
        if reply.has_error():
            return reply
        said = stated_accuracy(reply)
        if said["accuracy"] is None:
            told = f'model {place}: {said["reason"]}: an app must say "accuracy" and "num-examples" when it evaluates'
            return Message(Error(REFUSED, told), reply_to=message)
        accuracies.append(said["accuracy"])
        samples = said["samples"]
    metrics = MetricRecord({"accuracy": accuracies, "num-examples": samples})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


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


def _share(terms: ConfigRecord, context: Context) -> tuple[str, int]:
    """This node's name and samples."""
    names: list[Any] = list(terms["agents"])  # type: ignore[arg-type]
    samples: list[Any] = list(terms["agreed"])  # type: ignore[arg-type]
    name = _name(names, context)
    if name not in names:
        raise InvalidInput(f'"{name}" is not part of the deal')
    share = min(
        int(samples[names.index(name)]), int(context.node_config.get("max-samples", samples[names.index(name)]))
    )
    if share < 1:
        raise InvalidInput(f'"{name}" has agreed to contribute no sample')
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
