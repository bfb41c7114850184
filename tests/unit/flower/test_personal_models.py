"""Personal models on Flower: every member is sent its own, made of the updates that are of use to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAdam, FedAvg

import fedpact as fp
from fedpact.flower import UnderDeal
from fedpact.flower.settings import write_app
from fedpact.negotiation import agents_of
from fedpact.negotiation.agent_file import save_agent
from fedpact.negotiation.check import check_ledger
from random_cases import some
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Killed, Stage
from unit.flower.test_signed_ledger import content as content_of
from unit.flower.test_signed_ledger import entries_of
from unit.flower.test_under_deal import DEAL, grid_of, mean, start, three

WANTS = {"A": ["A", "B"], "B": ["A", "B"], "C": ["A", "B", "C"]}  # C harms the others
SAMPLES = {"A": 10, "B": 4, "C": 6}
# Of agent 2's data agent 1 makes a lot, and agent 0 nothing good.
HARMED = fp.Federation(
    [[1.0, 0.9, -0.7], [0.6, 1.0, 0.9], [0.5, 0.6, 1.0]],
    costs=0.001,
    caps=[20.0, 12.0, 16.0],  # which all of them bring
    payoff=fp.PowerLaw(beta=0.3),
)
PERSONAL = HARMED.with_personal_models()


def content(path: Path, kind: str) -> dict[str, Any]:
    return content_of(entries_of(path), kind)


def sent(grid: InProcessGrid, kind: str) -> list[dict[int, float]]:
    """What nodes were sent, round by round."""
    rounds: list[dict[int, float]] = []
    for message in grid.seen:
        if message.metadata.message_type == kind and "arrays" in message.content:
            place = message.metadata.dst_node_id - FIRST_NODE
            if not rounds or place in rounds[-1]:
                rounds.append({})
            rounds[-1][place] = float(message.content["arrays"].to_numpy_ndarrays()[0][0])
    return rounds


def by_hand(rounds: int) -> list[dict[str, float]]:
    """Everybody's model after every round: each adds the mean of its data to its own, as `users_app` does."""
    models, history = dict.fromkeys(SAMPLES, 0.0), []
    for _ in range(rounds):
        trained = {name: models[name] + mean(place, SAMPLES[name]) for place, name in enumerate(SAMPLES)}
        models = {
            name: sum(SAMPLES[other] * trained[other] for other in wanted) / sum(SAMPLES[other] for other in wanted)
            for name, wanted in WANTS.items()
        }
        history.append(models)
    return history


def test_models_are_averages_of_what_members_want(tmp_path: Path) -> None:
    under, grid = UnderDeal(FedAvg(), DEAL, wants=WANTS, ledger=tmp_path / "ledger.jsonl"), three()
    model, expected = start(under, grid, rounds=3), by_hand(3)
    assert under.samples == {"A": [10] * 3, "B": [4] * 3, "C": [6] * 3}
    found = {name: arrays.to_numpy_ndarrays()[0][0] for name, arrays in under.models.items()}
    assert found == pytest.approx(expected[-1], rel=1e-12) and model == found["A"]
    assert abs(found["C"] - found["A"]) > 0.1
    trained, measured = sent(grid, "train"), sent(grid, "evaluate")
    for before, after, models in zip(trained[1:], measured, expected, strict=False):
        assert before == pytest.approx(dict(enumerate(models.values())), rel=1e-12)
        assert after == pytest.approx(dict(enumerate(models.values())), rel=1e-12)
    assert len(trained) == len(measured) == 3 and all(len(each) == 3 for each in trained)


def test_without_harm_the_model_is_the_common_one(tmp_path: Path) -> None:
    everybody = dict.fromkeys(SAMPLES, tuple(SAMPLES))
    common = start(UnderDeal(FedAdam(), DEAL, ledger=tmp_path / "common.jsonl"), three())
    under = UnderDeal(FedAdam(), DEAL, wants=everybody, ledger=tmp_path / "personal.jsonl")
    np.testing.assert_array_equal(start(under, three()), common)
    assert all((arrays.to_numpy_ndarrays()[0] == common).all() for arrays in under.models.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verify_subsets": 5}, "verify_subsets cannot be used with personal models: .* leave it out, or train one"),
        ({"wants": {"A": ["A"], "B": ["B"]}}, '"C" is missing'),
        ({"wants": WANTS | {"B": ["A", "Zoe"]}}, r'wants\["B"\] must be a list of members, got \[.Zoe.\]'),
        ({"wants": WANTS | {"B": "A"}}, r'wants\["B"\] must be a list of members, got .A.'),
    ],
)
def test_what_needs_one_model_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        UnderDeal(FedAvg(), DEAL, **{"wants": WANTS, **options})


# Runs of fedpact's own, whose members sign


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A run that is over; tests change copies of its ledger."""
    made = Stage(PERSONAL, tmp_path_factory.mktemp("personal"), run_config={"models": "personal"})
    made.conduct()
    return made


def expected_models(stage: Stage) -> dict[str, float]:
    """After two rounds of pulling half the way to one's place, from 0."""
    samples = fp.load_deal(stage.ledger).samples()
    models = dict.fromkeys(samples, 0.0)
    for _ in range(2):
        trained = {name: 0.5 * (models[name] + place) for place, name in enumerate(samples)}
        after = {}
        for name, row in zip(samples, PERSONAL.wanted_lots, strict=True):
            wanted = [other for other, taken in zip(samples, row, strict=True) if taken]
            total = sum(samples[other] for other in wanted)
            after[name] = sum(samples[other] * trained[other] for other in wanted) / total
        models = after
    return models


def test_a_signed_run_leaves_every_members_model(stage: Stage) -> None:
    found = check_ledger(stage.ledger, must_be_signed=True)
    assert found.failed == [] and found.findings["model"].holds and found.findings["measured"].holds
    trained, measured = content(stage.ledger, "trained"), content(stage.ledger, "measured")["accuracies"]
    assert len(trained["deliveries"]) == 3 and "model" not in trained
    for place, (name, model) in enumerate(expected_models(stage).items()):
        stated = trained["models"][name]
        with np.load(stage.ledger.parent / stated["file"]) as kept:
            assert float(kept["arr_0"]) == pytest.approx(model, rel=1e-12)
        assert measured[name]["model"] == stated["arrays"]
        assert measured[name]["accuracy"] == pytest.approx(1.0 / (1.0 + abs(model - place)), rel=1e-12)
    assert trained["models"]["agent 1"] == trained["models"]["agent 2"] != trained["models"]["agent 0"]
    signatures = content(stage.ledger, "signed")["signatures"]
    assert signatures["agent 0"]["wants"] == ["agent 0", "agent 1"]


@pytest.mark.parametrize("killed_at", some(range(9), 3))
def test_killed_and_started_again(killed_at: int, stage: Stage, tmp_path: Path) -> None:
    again = Stage(PERSONAL, tmp_path, run_config={"models": "personal"})
    with pytest.raises(Killed):
        again.conduct(again.grid(killed_at=killed_at))
    again.conduct()
    assert check_ledger(again.ledger, must_be_signed=True).failed == []
    kept, whole = (content(each.ledger, "trained")["models"] for each in (again, stage))
    assert {name: each["arrays"] for name, each in kept.items()} == {
        name: each["arrays"] for name, each in whole.items()
    }


def test_a_run_does_not_go_on_with_other_models(stage: Stage) -> None:
    other = Stage(stage.federation, stage.folder)
    with pytest.raises(fp.InvalidInput, match="another run: there models is 'personal', here None"):
        other.conduct()


def test_a_node_refuses_a_file_that_counts_harm(tmp_path: Path) -> None:
    torn = Stage(HARMED, tmp_path, run_config={"models": "personal"})
    with pytest.raises(
        fp.InvalidInput, match='"agent 0" does not sign the deal: models: its private file counts data of'
    ):
        torn.conduct()


def test_the_app_of_a_scenario_says_which_models(tmp_path: Path) -> None:
    write_app(tmp_path / "deal", fp.Scenario(federation=HARMED, models="personal"))
    assert 'models = "personal"' in (tmp_path / "deal" / "app" / "pyproject.toml").read_text(encoding="utf-8")
    row = json.loads((tmp_path / "deal" / "agents" / "0.json").read_text(encoding="utf-8"))
    assert 0.0 in row["weights"] and min(row["weights"]) == 0.0


# Users' apps, whose members sign


@pytest.mark.parametrize("with_files", [False, True])
def test_users_apps_sign_too(with_files: bool, tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = [{}, {}, {}]
    if with_files:
        for place, agent in enumerate(agents_of(PERSONAL)):
            save_agent(agent, tmp_path / f"{place}.json")
            configs[place] = {"agent": str(tmp_path / f"{place}.json")}
    deal = fp.ExternalityMechanism().solve(PERSONAL).deal
    ledger = tmp_path / "ledger.jsonl"
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), deal, ledger=ledger, wants=PERSONAL)
    under.start(grid_of(*configs), ArrayRecord([np.zeros(1)]), num_rounds=2, timeout=1.0)
    assert check_ledger(ledger, must_be_signed=True).failed == []
    assert content(ledger, "signed")["signatures"]["agent 0"]["wants"] == ["agent 0", "agent 1"]
    assert len(content(ledger, "trained")["models"]) == 3


def test_a_node_with_a_file_refuses_other_updates_than_it_wants(tmp_path: Path) -> None:
    save_agent(agents_of(PERSONAL)[0], tmp_path / "0.json")
    deal, ledger = fp.ExternalityMechanism().solve(PERSONAL).deal, tmp_path / "ledger.jsonl"
    everybody = dict.fromkeys(PERSONAL.names, PERSONAL.names)
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), deal, ledger=ledger, wants=everybody)
    with pytest.raises(
        fp.InvalidInput, match=r'"agent 0" does not sign .* it wants the updates of agent 0, agent 1, not'
    ):
        under.start(
            grid_of({"agent": str(tmp_path / "0.json")}, {}, {}),
            ArrayRecord([np.zeros(1)]),
            num_rounds=1,
            timeout=1.0,
        )
