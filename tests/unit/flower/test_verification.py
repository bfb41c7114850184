"""Verified between nodes: signed, in the ledger, read by `fedpact verify`, settled by it; and attacked."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

import fedpact as fp
from edges.command_line import run_main
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.settlement import settle_run
from fedpact.deals.updates import RoundUpdates, TrainingUpdates, draw_subsets
from fedpact.fitting.delivery import check_run, ledger_calibration
from fedpact.fitting.logs import read_logs, read_verified
from fedpact.flower import UnderDeal
from fedpact.negotiation.check import check_ledger
from unit.flower.cheats import CHEATS, MEMBERS, Cheat, ada_earns, conduct_run, sent_back
from unit.flower.in_process import Stage
from unit.flower.test_signed_ledger import Entries, attacked, content, entries_of, rechain
from unit.flower.test_under_deal import DEAL, start, three

SEED = 0


@pytest.fixture(scope="module")
def cheated(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A run in which Ada sends back the model she was given."""
    return conduct_run(tmp_path_factory.mktemp("verified"), SEED, Cheat(updates={0: sent_back}, used=0.0))


@pytest.fixture
def ledger(cheated: Stage, tmp_path: Path) -> Path:
    shutil.copytree(cheated.ledger.parent, tmp_path / "record")
    return tmp_path / "record" / "ledger.jsonl"


def test_a_verified_run_is_sound_and_pays_for_what_arrived(ledger: Path) -> None:
    found = check_run(ledger)
    assert found.failed == [] and found.findings["paid shares"].holds
    assert found.findings["verified"].holds and found.findings["updates"].holds
    assert sorted(p.name for p in found.signed_parts if p.about == "verification") == sorted(MEMBERS)
    settled = found.entries.get("settled")
    assert settled is not None and sum(settled.content["cents"].values()) == 0
    shares = np.array(settled.content["paid_shares"], dtype=float)
    assert np.nanmax(shares[:, 0]) < 0.3  # nothing arrived of Ada's
    assert 0.7 < np.nanmean(shares[:, 1:]) < 1.3
    paid = found.settlement()
    assert paid.agreed_cents is not None and paid.cents[0] < paid.agreed_cents[0] - 1_000_000


def test_the_ledger_is_what_verify_and_fit_read(ledger: Path) -> None:
    table = read_verified(ledger)
    subsets, accuracies, sizes = table.tests(MEMBERS)
    assert table.names == MEMBERS and subsets.shape == (31, 5)
    calibration = ledger_calibration(check_ledger(ledger))
    assert calibration is not None
    found = fp.estimate_delivery(
        calibration.federation,
        41.7,
        subsets,
        accuracies,
        sizes,
        calibration.curves.floors,
        calibration.curves.ceilings,
    )
    assert found.shares[0] < 0.1
    assert not found.can_judge  # 42 points of one member are not worth what those of another are: calibrate first
    assert found.shares[1:].min() > 0.7
    assert read_logs([ledger]).n_runs == 32  # and the model that the run ended in


def change_accuracy(entries: Entries) -> None:
    content(entries, "verified")["models"][3]["accuracies"]["Ben"]["accuracy"] = 0.9


def drop_model(entries: Entries) -> None:
    content(entries, "verified")["models"].pop()


def other_subset(entries: Entries) -> None:
    models = content(entries, "verified")["models"]
    models[0]["subset"], models[1]["subset"] = models[1]["subset"], models[0]["subset"]


def no_signature(entries: Entries) -> None:
    del content(entries, "verified")["signatures"]["Cleo"]


def another_calibration(entries: Entries) -> None:
    content(entries, "agreed")["verification"]["calibration"]["weights"][0][1] *= 2.0


def paid_in_full(entries: Entries) -> None:
    shares = content(entries, "settled")["paid_shares"]
    content(entries, "settled")["paid_shares"] = [[None if share is None else 1.0 for share in row] for row in shares]


def not_by_delivery(entries: Entries) -> None:
    del content(entries, "settled")["paid_shares"]


def not_verified(entries: Entries) -> None:
    entries[:] = [entry for entry in entries if entry["kind"] != "verified"]


ATTACKS = {
    change_accuracy: "verified",
    drop_model: "verified",
    other_subset: "verified",
    no_signature: "verified",
    another_calibration: "signed",
    paid_in_full: "settlement",
    not_by_delivery: "confirmed",
    not_verified: "confirmed",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_every_change_is_found(ledger: Path, attack: Callable[[Entries], None]) -> None:
    assert ATTACKS[attack] in attacked(ledger, attack).failed


def test_other_updates_and_other_models_are_found(ledger: Path) -> None:
    entries = entries_of(ledger)
    stated = content(entries, "trained")["updates"]
    updates = TrainingUpdates.load(ledger.parent / stated["file"], stated["sha256"])
    spoiled = dict(updates.rounds[0].updates) | {"Ben": {"0": updates.rounds[0].updates["Ben"]["0"] + 1.0}}
    changed = RoundUpdates(before=updates.rounds[0].before, updates=spoiled, samples=updates.rounds[0].samples)
    stated |= TrainingUpdates(rounds=[changed]).save(ledger.parent / stated["file"])
    rechain(ledger, entries)
    assert "not those that members signed" in check_ledger(ledger).findings["updates"].reason


def test_updates_that_count_otherwise_are_found(ledger: Path) -> None:
    """A coordinator could hide that nothing came from Ada by giving her update no weight."""
    entries = entries_of(ledger)
    stated = content(entries, "trained")["updates"]
    first = TrainingUpdates.load(ledger.parent / stated["file"], stated["sha256"]).rounds[0]
    changed = RoundUpdates(before=first.before, updates=first.updates, samples=dict(first.samples) | {"Ada": 1})
    stated |= TrainingUpdates(rounds=[changed]).save(ledger.parent / stated["file"])
    rechain(ledger, entries)
    assert "not those that members signed" in check_ledger(ledger).findings["updates"].reason


def test_a_file_that_holds_no_updates_is_said_so(ledger: Path) -> None:
    entries = entries_of(ledger)
    stated = content(entries, "trained")["updates"]
    (ledger.parent / stated["file"]).write_bytes(b"nothing of the kind")
    stated["sha256"] = hashlib.sha256(b"nothing of the kind").hexdigest()
    rechain(ledger, entries)
    assert "does not hold the updates of a training" in check_ledger(ledger).findings["updates"].reason


def move_shares(entries: Entries, step: float) -> None:
    """All that Ada is paid for moved, and the cents with it: at 10,000 EUR a point a little of a share is money."""
    settled, deal = content(entries, "settled"), deal_from_record(content(entries, "agreed")["deal"])
    for row in settled["paid_shares"][1:]:
        row[0] = round(row[0] + step, 6)
    unit = {part: entries[0]["content"][part] for part in ("currency", "per_payoff", "decimals")}
    delivered = dict(zip(deal.agents, deal.contributions.tolist(), strict=True))
    due = settle_run(deal, delivered, unit, shares=settled["paid_shares"])
    settled["cents"] = dict(zip(due.names, due.cents, strict=True))


@pytest.mark.parametrize("step", [0.9, 0.001, 1.9e-4, 1e-6])
def test_shares_that_do_not_follow_are_found(ledger: Path, step: float) -> None:
    """Even if members had signed them: the shares are worked out anew, in the digits in which machines agree."""
    before = content(entries_of(ledger), "settled")["cents"]
    attacked(ledger, lambda entries: move_shares(entries, step))
    found = check_run(ledger)
    assert "settlement" not in found.failed and found.findings["paid shares"].holds is False
    assert step < 1e-4 or content(entries_of(ledger), "settled")["cents"] != before
    assert found.paid is None and found.paid_shares is None


def test_every_command_works_the_shares_out(
    cheated: Stage, ledger: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ledger.parent)  # where errors go by a short name
    scenario, name = str(cheated.folder / "calibration.toml"), ledger.name
    assert run_main(["check", scenario, name]) == run_main(["settle", scenario, name]) == 0
    attacked(ledger, lambda entries: move_shares(entries, 0.9))
    capsys.readouterr()
    assert run_main(["check", scenario, name, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == ["paid shares", "confirmed"]
    for command, code in (
        (["settle", scenario, name], 1),
        (["settle", scenario, name, "--unchecked"], 1),
        (["verify", name], 2),
    ):
        assert run_main(command) == code and "paid shares" in capsys.readouterr().err
    with pytest.raises(fp.InvalidInput, match="paid shares"):
        UnderDeal(FedAvg(), ledger)


def test_what_is_not_worked_out_is_not_paid(ledger: Path) -> None:
    found = check_ledger(ledger)
    assert found.failed == ["paid shares"] and found.paid is None
    assert check_run(ledger).paid is not None


@pytest.mark.slow
def test_a_node_disputes_cents_that_do_not_follow(tmp_path: Path) -> None:
    """A coordinator that would pay Ada in full is found by every node."""

    def paid_shares(*_: Any) -> Any:  # which nodes do not ask
        return [[None if row == column else 1.0 for column in range(5)] for row in range(5)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unit.flower.cheats.Calibration.paid_shares", paid_shares)
        with pytest.raises(fp.InvalidInput, match="the shares that are paid for: they are not those"):
            conduct_run(tmp_path, SEED, Cheat(updates={0: sent_back}), once=False)
    assert "the settlement is disputed" in json.dumps(entries_of(tmp_path / "record" / "ledger.jsonl")[-1])


def test_two_members_have_no_third_beneficiary(tmp_path: Path) -> None:
    weights = np.array([[0.1, 0.1, 0.0], [0.1, 0.1, 0.0], [0.0, 0.0, 0.1]])
    federation = fp.Federation(weights=weights, costs=1e-3, caps=400.0, payoff=fp.PowerLaw(0.5))
    calibration = tmp_path / "calibration.toml"
    fp.save_scenario(fp.Scenario(federation=federation), calibration)
    stage = Stage(federation, tmp_path)
    with pytest.raises(fp.InvalidInput, match=r"needs a third member: besides agent \d, who pays"):
        stage.conduct(**{"verify-subsets": 7, "settle-by": "delivery", "calibration": str(calibration)})


def test_a_strategy_under_a_deal_is_verified_too(tmp_path: Path) -> None:
    under = UnderDeal(FedAvg(), DEAL, ledger=tmp_path / "ledger.jsonl", verify_subsets=30)
    grid = three()
    start(under, grid)
    models = [message for message in grid.seen if "model-1" in message.content]
    assert len(models) == 3 and all("model-6" in message.content for message in models)  # all seven in one message
    found = check_ledger(tmp_path / "ledger.jsonl")
    assert found.failed == []
    table = read_verified(tmp_path / "ledger.jsonl")
    subsets, accuracies, sizes = table.tests(table.names)
    assert table.names == DEAL.agents and sorted(map(tuple, subsets.tolist())) == sorted(SUBSETS_OF_THREE)
    assert (accuracies == 0.5).all() and (sizes == 5).all()


def test_updates_that_are_small_on_the_disk_alone_are_not_read(tmp_path: Path) -> None:
    """They are written as they are: an archive that holds more than its bytes was made by somebody else."""
    np.savez_compressed(tmp_path / "updates.npz", rounds=np.array("[]"), large=np.zeros(10**7))
    content = (tmp_path / "updates.npz").read_bytes()
    assert len(content) < 10**5
    with pytest.raises(fp.InvalidInput, match="what the archive holds takes 77 MiB of memory"):
        TrainingUpdates.load(tmp_path / "updates.npz", hashlib.sha256(content).hexdigest())


SUBSETS_OF_THREE = [tuple(float(number >> place & 1) for place in range(3)) for number in range(1, 8)]


def test_settling_by_delivery_needs_models_and_a_calibration(tmp_path: Path) -> None:
    stage = Stage(fp.Federation(weights=np.eye(3), costs=0.1, payoff=fp.Log()), tmp_path)
    with pytest.raises(fp.InvalidInput, match="say verify-subsets, such as 30, and calibration"):
        stage.settings(**{"settle-by": "delivery"})


def test_subsets_are_different_and_decided_by_the_updates() -> None:
    digests = {f"agent {place}": [str(place)] for place in range(20)}
    drawn = draw_subsets(digests, 30)
    assert len({tuple(subset) for subset in drawn}) == 30 and all(drawn)
    assert drawn != draw_subsets(digests | {"member 3": ["other"]}, 30)
    assert drawn != draw_subsets(digests, 30, salt="another deal")


def test_the_model_of_all_is_the_model_trained() -> None:
    rng = np.random.default_rng(0)
    updates = TrainingUpdates()
    model = {"w": rng.standard_normal(4).astype(np.float32), "b": np.array(1.0), "batches": np.array(0)}
    for _ in range(3):
        sent = {name: {key: array + rng.standard_normal(array.shape) for key, array in model.items()} for name in "ab"}
        for name in "ab":
            sent[name]["batches"] = np.array(int(model["batches"]) + 7)  # a counter, which averaging makes a float
        updates.rounds.append(RoundUpdates(before=model, updates=sent, samples={"a": 3, "b": 1}))
        kinds = {key: np.result_type(array.dtype, np.float32) for key, array in model.items()}
        model = {key: (0.75 * sent["a"][key] + 0.25 * sent["b"][key]).astype(kinds[key]) for key in model}
    ours = updates.model_of(["a", "b"])
    assert list(ours) == list(model)
    for key, theirs in model.items():
        np.testing.assert_allclose(ours[key], theirs, rtol=1e-5)
        assert ours[key].dtype == theirs.dtype


@pytest.fixture(scope="module")
def honestly(tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """What Ada has in the end if nobody cheats, for each data set."""
    folder = tmp_path_factory.mktemp("honest")
    return [ada_earns(folder / str(seed), seed, CHEATS["nobody cheats"]) for seed in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHEATS if name != "nobody cheats"])
def test_what_cheats_gain(tmp_path: Path, honestly: list[np.ndarray], name: str) -> None:
    found = np.array(
        [ada_earns(tmp_path / str(seed), seed, CHEATS[name]) - without for seed, without in enumerate(honestly)]
    )
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    with_it, without = found.mean(axis=0)
    if not CHEATS[name].colludes:  # who does is not kept from it, as the page says
        assert with_it <= 2.0 * errors[0]
    if CHEATS[name].updates:
        assert without > 0.0  # what is counted is paid
