"""Apps whose models are arrays by name, as a PyTorch `state_dict` is: signed, verified by models of subsets, checked.

The nodes load a model as `load_state_dict` does: every name must be there with its shape and none beside them, and
numbers are cast to the kind of the layer's own, so that a counter comes back as an int64 whatever it was sent as.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import fedpact as fp
from edges.command_line import run_main
from fedpact.flower import Lost, UnderDeal, agreed_samples, keep_deal
from fedpact.negotiation.check import check_ledger
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Stage, kind_of
from unit.flower.test_run import only
from unit.flower.test_under_deal import grid_of

MEMBERS = ("Ada", "Ben", "Cleo", "Dan")
DEAL = fp.Deal(
    mechanism="externality",
    agents=MEMBERS,
    contributions=np.array([10.0, 4.0, 6.5, 8.0]),
    payments=np.array([0.3, -0.1, -0.3, 0.1]),
)
SUBSETS = 15  # all that four members have

# A linear layer and a layer of batch normalisation
LAYERS: Mapping[str, np.ndarray] = {
    "fc1.weight": np.zeros((3, 2), dtype=np.float32),
    "fc1.bias": np.zeros(3, dtype=np.float32),
    "bn.running_mean": np.zeros(3, dtype=np.float32),
    "bn.running_var": np.ones(3, dtype=np.float32),
    "bn.num_batches_tracked": np.array(0, dtype=np.int64),
}


def load_state_dict(record: ArrayRecord) -> dict[str, np.ndarray]:
    given = {name: array.numpy() for name, array in record.items()}
    missing, unexpected = LAYERS.keys() - given.keys(), given.keys() - LAYERS.keys()
    if missing or unexpected:
        raise RuntimeError(f"Missing key(s) in state_dict: {sorted(missing)}; unexpected: {sorted(unexpected)}")
    for name, array in given.items():
        if array.shape != LAYERS[name].shape:
            raise RuntimeError(f"size mismatch for {name}: {array.shape}")
    return {name: given[name].astype(layer.dtype) for name, layer in LAYERS.items()}


def state_dict(state: Mapping[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in state.items()})


def accuracy(state: Mapping[str, np.ndarray]) -> float:
    """Another one for every model."""
    return float(1.0 / (2.0 + np.exp(-sum(float(array.sum()) for array in state.values()) / 100.0)))


def train_layers(state: Mapping[str, np.ndarray], place: int) -> dict[str, np.ndarray]:
    trained = {name: (array + place + 1).astype(array.dtype) for name, array in state.items()}
    return trained | {"bn.num_batches_tracked": state["bn.num_batches_tracked"] + 3}


Replies = Callable[[dict[str, np.ndarray]], ArrayRecord]


def state_dict_app(
    replies: Replies = state_dict, metric: str = "accuracy", arrays: str = "arrays", config: str = "config"
) -> ClientApp:
    app = ClientApp(mods=[keep_deal])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        place = int(context.node_config["partition-id"])
        trained = train_layers(load_state_dict(message.content[arrays]), place)
        metrics = MetricRecord({"num-examples": agreed_samples(message)})
        return Message(RecordDict({arrays: replies(trained), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        assert message.content[config]["server-round"] == 3  # as strategies write it
        metrics = MetricRecord({metric: accuracy(load_state_dict(message.content[arrays])), "num-examples": 50})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def four() -> InProcessGrid:
    return grid_of({}, {}, {}, {}, app=state_dict_app())


def start(grid: InProcessGrid, ledger: Path | None, **more: Any) -> UnderDeal:
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), DEAL, ledger=ledger, **more)
    under.start(grid, state_dict(LAYERS), num_rounds=3, timeout=1.0)
    return under


def subset_models(grid: InProcessGrid) -> list[ArrayRecord]:
    """What the first node was sent to measure, in their order."""
    message = next(message for message in grid.seen if "model-0" in message.content)
    return [message.content[f"model-{place}"] for place in range(SUBSETS)]


def check(ledger: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run_main(["check", str(ledger), *options])
    return code, " ".join(capsys.readouterr().out.split())


def test_models_of_subsets_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three rounds with a counter that averaging makes a float: nobody is lost, and everybody can load every model."""
    grid, ledger = four(), tmp_path / "ledger.jsonl"
    under = start(grid, ledger, verify_subsets=SUBSETS)
    assert under.samples == {"Ada": [10] * 3, "Ben": [4] * 3, "Cleo": [6] * 3, "Dan": [8] * 3}
    assert under.settlement is not None and under.verified is not None
    for model in subset_models(grid):
        assert list(model) == list(LAYERS)
        assert {name: array.numpy().shape for name, array in model.items()} == {
            name: layer.shape for name, layer in LAYERS.items()
        }
    said = [model["accuracies"] for model in under.verified["models"]]
    assert all(each[name]["accuracy"] is not None for each in said for name in MEMBERS)
    assert len({each["Ada"]["accuracy"] for each in said}) == SUBSETS
    assert check(ledger, capsys, "--signed")[0] == 0


def test_the_model_of_all_is_the_one_that_averaging_comes_to(tmp_path: Path) -> None:
    """Array by array, the counter's float included."""
    grid = four()
    under = start(grid, tmp_path / "ledger.jsonl", verify_subsets=SUBSETS)
    assert under.verified is not None and under.result is not None
    averaged = under.result.arrays
    place = [len(model["subset"]) for model in under.verified["models"]].index(len(MEMBERS))
    found = subset_models(grid)[place]
    for name, array in averaged.items():
        ours, theirs = found[name].numpy(), array.numpy()
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def without_a_layer(state: dict[str, np.ndarray]) -> ArrayRecord:
    return state_dict({name: array for name, array in state.items() if name != "fc1.bias"})


def other_shape(state: dict[str, np.ndarray]) -> ArrayRecord:
    return state_dict(state | {"fc1.bias": np.zeros(4, dtype=np.float32)})


def not_finite(state: dict[str, np.ndarray]) -> ArrayRecord:
    return state_dict(state | {"fc1.bias": np.full(3, np.nan, dtype=np.float32)})


def complex_numbers(state: dict[str, np.ndarray]) -> ArrayRecord:
    return state_dict(state | {"fc1.bias": np.zeros(3, dtype=np.complex64)})


def no_numbers(state: dict[str, np.ndarray]) -> ArrayRecord:
    return state_dict(state | {"fc1.bias": np.array(["a", "b", "c"])})


def no_array(state: dict[str, np.ndarray]) -> ArrayRecord:
    broken = Array(dtype="float32", shape=(3,), stype="numpy.ndarray", data=b"nothing of the kind")
    return ArrayRecord(dict(state_dict(state).items()) | {"fc1.bias": broken})


WRONG = {
    without_a_layer: " has other arrays than the one it was sent, such as 'fc1.bias'",
    other_shape: " has other arrays than the one it was sent, such as 'fc1.bias'",
    complex_numbers: " has other arrays than the one it was sent, such as 'fc1.bias'",
    not_finite: "'s array 'fc1.bias' holds numbers that are not finite",
    no_numbers: " holds an array that cannot be read",
}


def test_what_is_no_array_is_not_even_signed(tmp_path: Path) -> None:
    grid = four()
    grid.nodes[FIRST_NODE + 1].app = state_dict_app(no_array)
    with pytest.raises(Lost, match=r'"Ben": .*pickled'):
        start(grid, tmp_path / "ledger.jsonl")


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_an_update_that_cannot_be_averaged_does_not_count(
    wrong: Replies, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its sender is lost, and its name is said."""
    grid = four()
    grid.nodes[FIRST_NODE + 1].app = state_dict_app(wrong)
    with pytest.raises(Lost, match='"Ben": '):
        start(grid, tmp_path / "ledger.jsonl")
    assert f'member "Ben" does not count: its model{WRONG[wrong]}' in caplog.text


def breaks_on_subsets(message: Message, honest: Callable[[Message], Message]) -> Message:
    """A node that cannot load what it is sent to measure."""
    for place in range(SUBSETS):
        if f"model-{place}" in message.content:
            renamed = {f"module.{name}": array for name, array in message.content[f"model-{place}"].items()}
            message.content[f"model-{place}"] = ArrayRecord(renamed)
    return honest(message)


def test_a_member_that_cannot_measure_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, ledger = four(), tmp_path / "ledger.jsonl"
    grid.nodes[FIRST_NODE + 2].fault = breaks_on_subsets
    under = start(grid, ledger, verify_subsets=SUBSETS)
    assert under.settlement is not None
    assert 'member "Cleo" has not measured the models made of subsets of the updates: ' in caplog.text
    assert "Missing key(s) in state_dict" in caplog.text and '"Ada" has not measured' not in caplog.text
    code, told = check(ledger, capsys)
    assert code == 0 and 'not by "Cleo": ' in told and "Missing key(s)" in told


def test_a_measurement_that_fails_everywhere_fails_the_run_which_is_measured_again_without_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, ledger = four(), tmp_path / "ledger.jsonl"
    for node in grid.nodes.values():
        node.fault = breaks_on_subsets
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), DEAL, ledger=ledger, verify_subsets=SUBSETS)
    with pytest.raises(fp.FedpactError, match="no member could measure the models made of subsets of the updates"):
        under.start(grid, state_dict(LAYERS), num_rounds=3, timeout=1.0)
    assert under.result is not None and list(under.result.arrays) == list(LAYERS)  # what was trained is not lost
    assert under.settlement is None
    code, told = check(ledger, capsys)
    assert code == 1 and "the run failed (verify)" in told and "Missing key(s) in state_dict" in told
    kinds = [line.split('"kind":"')[1].split('"')[0] for line in ledger.read_text().splitlines()]
    assert kinds[-1] == "failed" and "verified" not in kinds and "settled" not in kinds
    for node in grid.nodes.values():
        node.fault = None
    grid.seen.clear()
    again = start(grid, ledger, verify_subsets=SUBSETS)
    assert not any(message.content.array_records for message in grid.seen if kind_of(message) == "train")
    assert again.settlement is not None and again.result is not None and list(again.result.arrays) == list(LAYERS)


def test_accuracies_as_flowers_own_examples_call_them(tmp_path: Path) -> None:
    app = state_dict_app(metric="eval_acc")
    under = start(grid_of({}, {}, {}, {}, app=app), tmp_path / "ledger.jsonl", verify_subsets=SUBSETS)
    assert under.verified is not None
    assert all(each["accuracy"] is not None for each in under.verified["models"][0]["accuracies"].values())


def test_an_app_with_other_names_for_records_and_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = state_dict_app(metric="f1", arrays="model", config="settings")
    strategy = FedAvg(fraction_evaluate=0.0, arrayrecord_key="model", configrecord_key="settings")
    ledger = tmp_path / "ledger.jsonl"
    under = UnderDeal(strategy, DEAL, ledger=ledger, verify_subsets=SUBSETS, metric="f1")
    under.start(grid_of({}, {}, {}, {}, app=app), state_dict(LAYERS), num_rounds=3, timeout=1.0)
    assert under.verified is not None and under.settlement is not None
    assert all(each["accuracy"] is not None for each in under.verified["models"][0]["accuracies"].values())
    assert all(each["accuracy"] is not None for each in under.accuracies.values())
    assert check(ledger, capsys)[0] == 0


def test_a_score_of_another_name_is_said(tmp_path: Path) -> None:
    grid = grid_of({}, {}, {}, {}, app=state_dict_app(metric="f1"))
    with pytest.raises(
        fp.FedpactError, match=r"says f1, num-examples; UnderDeal\(metric=\.\.\.\) names another metric"
    ):
        start(grid, tmp_path / "ledger.jsonl", verify_subsets=SUBSETS)


def test_an_app_whose_nodes_cannot_measure_fails_and_measures_again_when_it_is_started_again(tmp_path: Path) -> None:
    """The coordinator's own app: what was trained is kept, and nothing is paid in between."""

    def raising(message: Message, honest: Any) -> Message:
        return Message(Error(code=0, reason="Missing key(s) in state_dict"), reply_to=message)

    federation = fp.Federation(
        [[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.7, 0.5, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
    )
    stage = Stage(federation, tmp_path, faults=dict.fromkeys(range(3), only("evaluate", raising)))
    with pytest.raises(fp.FedpactError, match="could measure"):
        stage.conduct(**{"verify-subsets": 5})
    assert check_ledger(stage.ledger).failed == ["finished"]
    again = Stage(federation, tmp_path)
    again.conduct(**{"verify-subsets": 5})
    found = check_ledger(stage.ledger)
    assert found.failed == [] and found.is_finished
    kinds = [entry.kind for entry in found.chain.entries]
    assert kinds.count("trained") == 1 and kinds.index("failed") < kinds.index("verified") < kinds.index("settled")


def dies_in_round(number: int) -> Callable[[Message, Callable[[Message], Message]], Message]:
    """From some round on Flower answers in the node's place, under its own number."""
    rounds = 0

    def answer(message: Message, honest: Callable[[Message], Message]) -> Message:
        nonlocal rounds
        rounds += "arrays" in message.content
        if rounds < number:
            return honest(message)
        dead = Message(Error(code=5, reason="the node is gone"), reply_to=message)
        dead.metadata.__dict__["_src_node_id"] = 1
        return dead

    return answer


def test_a_dead_node_is_known_by_what_it_was_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid, ledger = four(), tmp_path / "ledger.jsonl"
    grid.nodes[FIRST_NODE + 1].fault = dies_in_round(2)
    with pytest.raises(Lost, match='"Ben": the node is gone'):
        start(grid, ledger)
    assert 'round 2: member "Ben" does not count: the node is gone' in caplog.text
    assert "node 1" not in caplog.text and "node 1" not in ledger.read_text()


def test_a_signed_run_goes_on_when_a_lost_node_is_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, ledger = four(), tmp_path / "ledger.jsonl"
    whole = start(four(), tmp_path / "whole.jsonl", verify_subsets=SUBSETS)
    grid.nodes[FIRST_NODE + 1].fault = dies_in_round(2)
    with pytest.raises(Lost):
        start(grid, ledger, verify_subsets=SUBSETS)
    before = ledger.read_text()
    with pytest.raises(fp.InvalidInput, match="record of another run"):
        start(four(), ledger, verify_subsets=SUBSETS, samples_per_unit=2.0)
    grid.nodes[FIRST_NODE + 1].fault = None
    again = start(grid, ledger, verify_subsets=SUBSETS)
    assert ledger.read_text().startswith(before)  # what was signed stays
    assert again.settlement is not None and whole.settlement is not None
    assert again.settlement.cents == whole.settlement.cents
    assert check_ledger(ledger, must_be_signed=True).failed == []
    assert check(ledger, capsys)[0] == 0
    with pytest.raises(fp.InvalidInput, match="the record of this run, which is over"):
        start(grid, ledger, verify_subsets=SUBSETS)
