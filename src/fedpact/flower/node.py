"""The ClientApp of an agent: it negotiates from its private file, signs what it has checked, and keeps to it.

The private file (`fedpact.negotiation.agent_file.save_agent`) is named in the node's own configuration
(`fedpact.flower.identity`).

Whatever a coordinator asks for, a node trains on no more samples than the deal it has signed says, and on none before
it has seen that everybody has signed the same deal. It signs what it delivers in every round, what it measures of the
model and of models made of subsets of the updates, and what all are paid (`fedpact.deals.signatures`), and keeps a
receipt of what it has signed last.
"""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.flower.learner import LearnerFactory
from fedpact.flower.messages import stated_accuracy
from fedpact.flower.mods import DealKeeper, agreed_samples
from fedpact.flower.node_signing import server_round
from fedpact.utils.errors import InvalidInput

ARRAYS, METRICS = "arrays", "metrics"


def client_app(learner: LearnerFactory) -> ClientApp:
    """The app of a node that negotiates, trains under the deal and checks what it is to be paid.

    Parameters
    ----------
    learner
        Makes the node's `Learner` from its context.
    """
    app = ClientApp(mods=[DealKeeper(learner)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own, arrays = learner(context), _arrays(message)
        samples = min(agreed_samples(message), own.samples)
        if samples < 1:
            raise InvalidInput("this node holds no sample to train on")
        model = own.train(arrays.to_numpy_ndarrays(), samples, server_round(message))
        trained = _with_names(arrays, ArrayRecord([np.asarray(array) for array in model]))
        content = RecordDict({ARRAYS: trained, METRICS: MetricRecord({"num-examples": samples})})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        found = learner(context).evaluate(_arrays(message).to_numpy_ndarrays())
        metrics = MetricRecord({"accuracy": float(found.accuracy), "num-examples": int(found.samples)})
        reply = Message(RecordDict({METRICS: metrics}), reply_to=message)
        if (said := stated_accuracy(reply))["accuracy"] is None:  # nothing is signed that the server would not count
            raise InvalidInput(
                f"{said['reason']}: the learner's Score must hold an accuracy from 0 to 1 and its samples"
            )
        return reply

    return app


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
