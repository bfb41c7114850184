"""A node; what is new under a deal is marked.

On a deployed node every message starts a process, and most messages of a deal neither train nor test: PyTorch is
imported by those that do.
"""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.flower import agreed_samples, keep_deal

app = ClientApp(mods=[keep_deal])  # new: says who the node is, and lets out no more than was agreed


def _own(context: Context):
    from digits.task import load_data

    return load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_round(message: Message, context: Context) -> Message:
    """One epoch on the node's own images."""
    from torch.utils.data import Subset

    from digits.task import make_model, train

    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples, _ = _own(context)
    samples = Subset(samples, range(agreed_samples(message)))  # new: no more than was agreed
    loss = train(model, samples)
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(samples), "loss": loss}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate_round(message: Message, context: Context) -> Message:
    """Accuracy on the node's own test images."""
    from digits.task import make_model, test

    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, samples = _own(context)
    metrics = MetricRecord({"num-examples": len(samples), "accuracy": test(model, samples)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
