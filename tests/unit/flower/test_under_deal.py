"""Strategies under a deal: Flower's own, run by real apps in one process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    Strategy,
)

import fedpact as fp
from fedpact.deals import Ledger
from fedpact.deals.signatures import deal_document
from fedpact.flower import Lost, UnderDeal, agreed_samples, keep_deal
from fedpact.flower.messages import question, read_message
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Node, kind_of

DEAL = fp.Deal(
    mechanism="externality",
    agents=("A", "B", "C"),
    contributions=np.array([10.0, 4.0, 6.5]),
    payments=np.array([0.3, -0.1, -0.2]),
)
PRICES = np.array([[-0.09, 0.075, 0.0], [0.04, -0.1, 0.0], [0.05, 0.025, 0.0]])
PRICED = replace(DEAL, prices=PRICES, payments=-(PRICES @ DEAL.contributions))
DATA = {place: np.arange(100.0) * (place + 1) for place in range(4)}


def users_app(use: Callable[[Message], int] = agreed_samples, **mods: Any) -> ClientApp:
    """An app as a user has it, with the two lines that are new: the mod, and the number of samples."""
    app = ClientApp(mods=mods.get("mods", [keep_deal]))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = DATA[int(context.node_config["partition-id"])][: use(message)]
        model = message.content["arrays"].to_numpy_ndarrays()[0] + own.mean()
        content = {"arrays": ArrayRecord([model]), "metrics": MetricRecord({"num-examples": len(own), "loss": 1.0})}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 5, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def grid_of(*configs: dict[str, Any], app: ClientApp | None = None) -> InProcessGrid:
    nodes = {}
    for place, config in enumerate(configs):
        context = Context(
            run_id=1,
            node_id=FIRST_NODE + place,
            node_config={"partition-id": place, "num-partitions": len(configs), **config},
            state=RecordDict(),
            run_config={},
        )
        nodes[FIRST_NODE + place] = Node(app or users_app(), context)
    return InProcessGrid(nodes)


def three() -> InProcessGrid:
    return grid_of({}, {}, {})


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ledgers are written."""
    monkeypatch.chdir(tmp_path)


def under_deal(strategy: Strategy, deal: Any, **more: Any) -> UnderDeal:
    return UnderDeal(strategy, deal, **{"ledger": "ledger.jsonl"} | more)


def start(strategy: Strategy, grid: InProcessGrid, rounds: int = 2, **more: Any) -> np.ndarray:
    result = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=rounds, timeout=1.0, **more)
    return result.arrays.to_numpy_ndarrays()[0]


def mean(place: int, samples: int) -> float:
    return float(DATA[place][:samples].mean())


def test_contributions_are_capped_counted_and_paid() -> None:
    under = under_deal(FedAvg(), DEAL, money=fp.Money("EUR", 100.0))
    model = start(under, three())
    assert under.samples == {"A": [10, 10], "B": [4, 4], "C": [6, 6]}
    expected = 2 * (10 * mean(0, 10) + 4 * mean(1, 4) + 6 * mean(2, 6)) / 20
    np.testing.assert_allclose(model, expected, rtol=1e-12)
    assert under.settlement is not None and under.settlement.cents == (3000, -1000, -2000)


@pytest.mark.parametrize(
    "strategy",
    [
        FedAvg(fraction_evaluate=0.0),
        FedAvgM(server_momentum=0.5),
        FedAdam(),
        FedMedian(),
        FedTrimmedAvg(),
        FedProx(proximal_mu=0.1),
        DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.0, 1e9, 3),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_every_strategy_comes_to_what_it_would_with_capped_data(strategy: Strategy) -> None:
    """The same strategy alone, over apps that cap by themselves, makes the same model."""
    samples = {0: 10, 1: 4, 2: 6}

    def capped(message: Message) -> int:
        return samples[message.metadata.dst_node_id - FIRST_NODE]

    alone = start(copy.deepcopy(strategy), grid_of({}, {}, {}, app=users_app(capped, mods=[])))
    under = start(under_deal(strategy, DEAL), three())
    np.testing.assert_allclose(under, alone, rtol=1e-12)


def test_nothing_of_the_callers_is_written_to() -> None:
    strategy = FedAvgM(server_momentum=0.5)
    before = copy.deepcopy(vars(strategy))
    train, evaluate = ConfigRecord({"lr": 0.1}), ConfigRecord({"batch": 8})
    arrays = ArrayRecord([np.zeros(1)])
    under_deal(strategy, DEAL).start(three(), arrays, 2, 1.0, train, evaluate)
    assert vars(strategy) == before
    assert dict(train) == {"lr": 0.1} and dict(evaluate) == {"batch": 8}
    assert arrays.to_numpy_ndarrays()[0] == 0.0


def test_an_app_that_takes_more_does_not_count() -> None:
    grid = three()
    grid.nodes[FIRST_NODE + 1].app = users_app(lambda message: 50)
    under = under_deal(FedAvg(), DEAL)
    with pytest.raises(Lost, match='"B" agreed to 4 samples, and its app used 50'):
        start(under, grid, rounds=1)
    assert under.samples["B"] == [] and under.settlement is None


def test_a_strategy_that_leaves_a_member_out_is_refused() -> None:
    under = under_deal(FedAvg(fraction_train=0.4, min_train_nodes=1), PRICED)
    with pytest.raises(fp.InvalidInput, match=r"FedAvg does not ask .* to train in round 1; .* as with fraction_train"):
        start(under, three())


def test_names_come_from_the_nodes_configuration() -> None:
    grid = grid_of({"agent-name": "C"}, {"agent-name": "A"}, {"agent-name": "B", "max-samples": 2})
    under = under_deal(FedAvg(), PRICED)
    start(under, grid, rounds=1)
    assert under.samples == {"A": [10], "B": [2], "C": [6]}
    with pytest.raises(Lost, match='"B": agreed to 4 samples and delivered 2 on average'):  # without prices
        start(under_deal(FedAvg(), DEAL, ledger="other.jsonl"), grid, rounds=1)


def test_excluded_agents_and_those_who_give_nothing_are_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    deal = replace(DEAL, contributions=np.array([10.0, 4.0, 0.0]))
    grid = three()
    under = under_deal(FedAvg(), deal)
    start(under, grid, rounds=1)
    asked = {(kind_of(message), message.metadata.dst_node_id) for message in grid.seen}
    assert ("train", FIRST_NODE + 2) not in asked and ("evaluate", FIRST_NODE + 2) in asked
    assert under.settlement is not None and not [each for each in caplog.records if each.levelname == "WARNING"]
    out = replace(deal, payments=np.array([0.1, -0.1, 0.0]), excluded={"C": "silent"})
    grid = three()
    start(under_deal(FedAvg(), out, ledger="other.jsonl"), grid, rounds=1)
    assert {kind_of(each) for each in grid.seen if each.metadata.dst_node_id == FIRST_NODE + 2} == {"greet"}


def test_what_is_delivered_is_paid_for_at_the_prices_agreed(tmp_path: Path) -> None:
    """B uses 2 of 4 samples in both rounds: it is paid half for them, and A and C pay half."""
    under = under_deal(FedAvg(), PRICED)
    start(under, grid_of({}, {"agent-name": "B", "max-samples": 2}, {}))
    assert under.settlement is not None and under.settlement.delivered == (10.0, 2.0, 6.5)
    due = -(PRICES @ [10.0, 2.0, 6.5])
    np.testing.assert_allclose(np.array(under.settlement.cents, float) / 1e9, due, atol=2e-9)
    found = check_record(tmp_path / "ledger.jsonl")
    assert found.failed == [] and found.findings["settlement"].holds
    paid = found.settlement()
    assert paid.agreed == (10.0, 4.0, 6.5) and paid.delivered == (10.0, 2.0, 6.5)


def test_what_members_measured_is_in_the_ledger_and_can_be_fitted(tmp_path: Path) -> None:
    under = under_deal(FedAvg(), DEAL, samples_per_unit=2.0)
    start(under, three(), rounds=2)
    assert {name: (each["accuracy"], each["samples"]) for name, each in under.accuracies.items()} == dict.fromkeys(
        "ABC", (0.5, 5)
    )
    assert not check_record(tmp_path / "ledger.jsonl").failed
    seen = fp.Observations.from_files([tmp_path / "ledger.jsonl"])
    assert seen.names == ("A", "B", "C")
    np.testing.assert_array_equal(seen.contributions, [[10.0, 4.0, 6.5]])
    np.testing.assert_array_equal(seen.accuracies, [[0.5, 0.5, 0.5]])
    np.testing.assert_array_equal(seen.test_sizes, [[5.0, 5.0, 5.0]])


def test_deals_come_in_many_forms(tmp_path: Path) -> None:
    federation = example("paper-w2").federation
    outcome, deal = fp.ExternalityMechanism().solve(federation), fp.negotiate(federation)
    expected = {"agent 0": 16, "agent 1": 6, "agent 2": 31}
    assert under_deal(FedAvg(), outcome).agreed == expected
    assert under_deal(FedAvg(), deal).agreed == expected
    assert under_deal(FedAvg(), deal, samples_per_unit=10.0).agreed["agent 1"] == 61
    DEAL.save(tmp_path / "deal.json")
    assert under_deal(FedAvg(), tmp_path / "deal.json").agreed == {"A": 10, "B": 4, "C": 6}
    assert under_deal(FedAvg(), str(tmp_path / "deal.json")).agreed == {"A": 10, "B": 4, "C": 6}
    start(under_deal(FedAvg(), DEAL), three(), rounds=1)
    assert under_deal(FedAvg(), tmp_path / "ledger.jsonl").agreed == {"A": 10, "B": 4, "C": 6}


def test_a_transcript_that_states_another_deal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    fp.negotiate(example("paper-w2").federation, transcript=path)
    assert under_deal(FedAvg(), path).agreed == {"agent 0": 16, "agent 1": 6, "agent 2": 31}
    said, _, stated = path.read_text(encoding="utf-8").rpartition('{"deal"')
    path.write_text(said + '{"deal"' + stated.replace('"contributions": [16', '"contributions": [11'), encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match="this deal does not hold: recomputed: 6 exchanges come to another deal"):
        under_deal(FedAvg(), path)


@pytest.mark.parametrize(
    ("deal", "problem"),
    [
        (3, "deal must be a Deal, an Outcome or a file, got 3"),
        ({"agents": ["A"]}, "deal must be a Deal"),
        ("nowhere.json", "no such file"),
        ("deal.csv", "no such file"),
    ],
)
def test_deals_that_are_none(deal: Any, problem: str) -> None:
    with pytest.raises(fp.InvalidInput, match=problem):
        under_deal(FedAvg(), deal)


def test_what_cannot_be_started() -> None:
    with pytest.raises(fp.InvalidInput, match="strategy must be a flwr"):
        under_deal("FedAvg", DEAL)  # type: ignore[arg-type]
    with pytest.raises(fp.InvalidInput, match="3 members contribute under the deal and the strategy waits for 5"):
        under_deal(FedAvg(min_train_nodes=5), DEAL)
    with pytest.raises(fp.InvalidInput, match="0 members contribute"):
        under_deal(FedAvg(), replace(DEAL, contributions=np.array([0.0, 0.5, 0.0])))
    with pytest.raises(fp.InvalidInput, match="0 members contribute"):
        under_deal(FedAvg(), fp.Standalone().solve(example("paper-w2").federation))  # nobody trains together
    with pytest.raises(fp.InvalidInput, match="samples_per_unit must be positive"):
        under_deal(FedAvg(), DEAL, samples_per_unit=0.0)
    with pytest.raises(fp.InvalidInput, match="name the file for what members sign"):
        start(UnderDeal(FedAvg(), DEAL), three())
    with pytest.raises(fp.InvalidInput, match="num_rounds must be at least 1"):
        start(under_deal(FedAvg(), DEAL), three(), rounds=0)


def test_agreed_samples_says_what_is_missing() -> None:
    three()
    with pytest.raises(fp.InvalidInput, match="the app needs ClientApp"):
        agreed_samples(Message(RecordDict(), 1, "train"))


def test_a_node_without_a_private_file_signs_one_deal_in_a_run() -> None:
    grid = three()
    under = under_deal(FedAvg(), DEAL)
    start(under, grid)
    with Ledger(Path("ledger.jsonl")) as ledger:
        entries = ledger.entries
    document = deal_document(entries, next(entry for entry in entries if entry.kind == "agreed"))
    asked = {"document": document, "place": 0, "prices": None, "utility": None}
    other = asked | {"document": document | {"payments": [0.0] * len(DEAL.agents)}}
    grid.push_messages([question(FIRST_NODE, "sign", other, timeout=1.0)])
    (reply,) = grid.pull_messages([f"message {len(grid.seen) - 1}"])
    assert "decides on the one deal" in read_message(reply)["reason"]
