"""Strategies under a deal: Flower's own, run by real apps in one process."""

from __future__ import annotations

import copy
import random
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
from fedpact.flower import UnderDeal, agreed_samples, keep_deal
from fedpact.negotiation import Agent
from fedpact.negotiation.agent_file import save_agent
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Node, kind_of

DEAL = fp.Deal(
    mechanism="externality",
    agents=("A", "B", "C"),
    contributions=np.array([10.0, 4.0, 6.5]),
    payments=np.array([0.3, -0.1, -0.2]),
)
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
        assert "fedpact" not in message.content
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


def start(strategy: Strategy, grid: InProcessGrid, rounds: int = 2, **more: Any) -> np.ndarray:
    result = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=rounds, timeout=1.0, **more)
    return result.arrays.to_numpy_ndarrays()[0]


def mean(place: int, samples: int) -> float:
    return float(DATA[place][:samples].mean())


def test_contributions_are_capped_counted_and_paid() -> None:
    under = UnderDeal(FedAvg(), DEAL, money=fp.Money("EUR", 100.0))
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
    under = start(UnderDeal(strategy, DEAL), three())
    np.testing.assert_allclose(under, alone, rtol=1e-12)


def test_nothing_of_the_callers_is_written_to() -> None:
    strategy = FedAvgM(server_momentum=0.5)
    before = copy.deepcopy(vars(strategy))
    train, evaluate = ConfigRecord({"lr": 0.1}), ConfigRecord({"batch": 8})
    arrays = ArrayRecord([np.zeros(1)])
    UnderDeal(strategy, DEAL).start(three(), arrays, 2, 1.0, train, evaluate)
    assert vars(strategy) == before
    assert dict(train) == {"lr": 0.1} and dict(evaluate) == {"batch": 8}
    assert arrays.to_numpy_ndarrays()[0] == 0.0


def test_an_app_that_takes_more_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    grid = three()
    grid.nodes[FIRST_NODE + 1].app = users_app(lambda message: 50)
    under = UnderDeal(FedAvg(), DEAL)
    model = start(under, grid, rounds=1)
    np.testing.assert_allclose(model, (10 * mean(0, 10) + 6 * mean(2, 6)) / 16, rtol=1e-12)
    assert under.samples["B"] == [0]
    assert '"B" agreed to 4 samples, and its app used 50' in caplog.text
    assert under.settlement is None
    assert under.short() == {"B": "agreed to 4 samples and delivered 0 on average"}


def test_a_node_without_the_mod_cannot_claim_more_either(caplog: pytest.LogCaptureFixture) -> None:
    grid = three()
    grid.nodes[FIRST_NODE + 1].app = users_app(lambda message: 50, mods=[])
    nodes = {FIRST_NODE + place: name for place, name in enumerate("ABC")}
    under = UnderDeal(FedAvg(), DEAL, nodes=nodes)
    start(under, grid, rounds=1)
    assert under.samples["B"] == [0] and "it used 50 samples and agreed to 4" in caplog.text


def test_nodes_that_do_not_say_who_they_are(caplog: pytest.LogCaptureFixture) -> None:
    grid = grid_of({}, {}, {}, app=users_app(lambda message: 1, mods=[]))
    under = UnderDeal(FedAvg(), DEAL)
    under.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1, timeout=1.0)
    assert "its ClientApp needs mods=[fedpact.flower.keep_deal]" in caplog.text
    assert under.settlement is None and under.samples == {"A": [0], "B": [0], "C": [0]}


def test_names_come_from_the_nodes_configuration(tmp_path: Path) -> None:
    federation = fp.Federation(np.eye(3), costs=0.1, payoff=fp.Log(), names=["A", "B", "C"])
    save_agent(Agent.of(federation, 0), tmp_path / "a.json")
    grid = grid_of({"agent-name": "C"}, {"agent": str(tmp_path / "a.json")}, {"agent-name": "B", "max-samples": 2})
    under = UnderDeal(FedAvg(), DEAL)
    start(under, grid, rounds=1)
    assert under.samples == {"A": [10], "B": [2], "C": [6]}
    assert under.short() == {"B": "agreed to 4 samples and delivered 2 on average"}


def test_strangers_and_doubles_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    grid = grid_of({}, {}, {}, {"agent-name": "D"})
    grid.nodes[FIRST_NODE + 2].context.node_config["agent-name"] = "A"
    under = UnderDeal(FedAvg(), DEAL)
    start(under, grid, rounds=1)
    assert '"D" is not part of the deal' in caplog.text and 'another node is called "A" as well' in caplog.text
    assert under.samples == {"A": [10], "B": [4], "C": [0]}


def test_excluded_agents_and_those_who_give_nothing_are_not_asked() -> None:
    deal = replace(DEAL, contributions=np.array([10.0, 4.0, 0.0]))
    nodes = {FIRST_NODE + place: name for place, name in enumerate("ABC")}
    grid = three()
    under = UnderDeal(FedAvg(), deal, nodes=nodes)
    start(under, grid, rounds=1)
    asked = {(kind_of(message), message.metadata.dst_node_id) for message in grid.seen}
    assert ("train", FIRST_NODE + 2) not in asked and ("evaluate", FIRST_NODE + 2) in asked
    assert under.settlement is not None
    out = replace(deal, payments=np.array([0.1, -0.1, 0.0]), excluded={"C": "silent"})
    grid = three()
    start(UnderDeal(FedAvg(), out, nodes=nodes), grid, rounds=1)
    assert FIRST_NODE + 2 not in {message.metadata.dst_node_id for message in grid.seen}


def test_a_silent_member_is_noted() -> None:
    def silent(message: Message, honest: Any) -> Message | None:
        return None if kind_of(message) == "train" else honest(message)

    grid = three()
    grid.nodes[FIRST_NODE].fault = silent
    under = UnderDeal(FedAvg(), DEAL)
    start(under, grid, rounds=1)
    assert under.samples["A"] == [0] and under.settlement is None


PRICES = np.array([[-0.09, 0.075, 0.0], [0.04, -0.1, 0.0], [0.05, 0.025, 0.0]])
PRICED = replace(DEAL, prices=PRICES, payments=-(PRICES @ DEAL.contributions))


def test_what_is_delivered_is_paid_for_at_the_prices_agreed(tmp_path: Path) -> None:
    """B uses 2 of 4 samples in both rounds: it is paid half for them, and A and C pay half."""
    under = UnderDeal(FedAvg(), PRICED, ledger=tmp_path / "ledger.jsonl")
    start(under, grid_of({}, {"agent-name": "B", "max-samples": 2}, {}))
    assert under.settlement is not None and under.settlement.delivered == (10.0, 2.0, 6.5)
    due = -(PRICES @ [10.0, 2.0, 6.5])
    np.testing.assert_allclose(np.array(under.settlement.cents, float) / 1e9, due, atol=2e-9)
    found = check_record(tmp_path / "ledger.jsonl")
    assert found.failed == [] and found.findings["settlement"].holds
    paid = found.settlement()
    assert paid.agreed == (10.0, 4.0, 6.5) and paid.delivered == (10.0, 2.0, 6.5)


def test_who_is_not_asked_in_a_round_has_not_failed_to_deliver() -> None:
    nodes = {FIRST_NODE + place: name for place, name in enumerate("ABC")}
    under = UnderDeal(FedAvg(fraction_train=0.4, min_train_nodes=1), PRICED, nodes=nodes)
    random.seed(7)  # Flower draws the nodes of a round with it: with this seed everybody is asked at least once
    start(under, three(), rounds=12)
    assert all(0 in samples for samples in under.samples.values())
    assert under.short() == {} and under.settlement is not None


def test_what_members_measured_is_in_the_ledger_and_can_be_fitted(tmp_path: Path) -> None:
    under = UnderDeal(FedAvg(), DEAL, samples_per_unit=2.0, ledger=tmp_path / "ledger.jsonl")
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
    assert UnderDeal(FedAvg(), outcome).agreed == expected
    assert UnderDeal(FedAvg(), deal).agreed == expected
    assert UnderDeal(FedAvg(), deal, samples_per_unit=10.0).agreed["agent 1"] == 61
    DEAL.save(tmp_path / "deal.json")
    assert UnderDeal(FedAvg(), tmp_path / "deal.json").agreed == {"A": 10, "B": 4, "C": 6}
    assert UnderDeal(FedAvg(), str(tmp_path / "deal.json")).agreed == {"A": 10, "B": 4, "C": 6}
    start(UnderDeal(FedAvg(), DEAL, ledger=tmp_path / "ledger.jsonl"), three(), rounds=1)
    assert UnderDeal(FedAvg(), tmp_path / "ledger.jsonl").agreed == {"A": 10, "B": 4, "C": 6}


def test_a_transcript_that_states_another_deal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    fp.negotiate(example("paper-w2").federation, transcript=path)
    assert UnderDeal(FedAvg(), path).agreed == {"agent 0": 16, "agent 1": 6, "agent 2": 31}
    said, _, stated = path.read_text(encoding="utf-8").rpartition('{"deal"')
    path.write_text(said + '{"deal"' + stated.replace('"contributions": [16', '"contributions": [11'), encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match="this deal does not hold: recomputed: 6 exchanges come to another deal"):
        UnderDeal(FedAvg(), path)


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
        UnderDeal(FedAvg(), deal)


def test_what_cannot_be_started() -> None:
    with pytest.raises(fp.InvalidInput, match="strategy must be a flwr"):
        UnderDeal("FedAvg", DEAL)  # type: ignore[arg-type]
    with pytest.raises(fp.InvalidInput, match="3 members contribute under the deal and the strategy waits for 5"):
        UnderDeal(FedAvg(min_train_nodes=5), DEAL)
    with pytest.raises(fp.InvalidInput, match="0 members contribute"):
        UnderDeal(FedAvg(), replace(DEAL, contributions=np.array([0.0, 0.5, 0.0])))
    with pytest.raises(fp.InvalidInput, match="0 members contribute"):
        UnderDeal(FedAvg(), fp.Standalone().solve(example("paper-w2").federation))  # nobody trains together
    with pytest.raises(fp.InvalidInput, match="samples_per_unit must be positive"):
        UnderDeal(FedAvg(), DEAL, samples_per_unit=0.0)
    with pytest.raises(fp.InvalidInput, match="num_rounds must be at least 1"):
        start(UnderDeal(FedAvg(), DEAL), three(), rounds=0)


def test_agreed_samples_says_what_is_missing() -> None:
    three()
    with pytest.raises(fp.InvalidInput, match="the app needs ClientApp"):
        agreed_samples(Message(RecordDict(), 1, "train"))
