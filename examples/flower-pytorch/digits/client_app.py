"""A node; what is new under a deal is marked."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.utils.data import Subset

from digits.task import load_data, make_model, test, train
from fedpact.flower import agreed_samples, keep_deal

app = ClientApp(mods=[keep_deal])  # new: says who the node is, and lets out no more than was agreed


def _own(context: Context):
    return load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_round(message: Message, context: Context) -> Message:
    """One epoch on the node's own images."""
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
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, samples = _own(context)
    metrics = MetricRecord({"num-examples": len(samples), "accuracy": test(model, samples)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
