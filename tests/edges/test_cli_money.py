"""What must never move money: failed runs, unsigned words, code named in files, deals that cannot be checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import Result
from fedpact.deals import Ledger
from fedpact.deals.deal_file import deal_record
from fedpact.deals.ledger import FAILED, MEASURED, SETTLED
from fedpact.flower import run as run_module
from fedpact.flower.run import Lost
from fedpact.scenario import example
from signed_ledgers import write_signed_ledger
from unit.flower.cheats import Cheat, conduct_run, sent_back
from unit.flower.in_process import Stage
from unit.flower.test_run import only, silent

Run = Callable[..., Result]
HOSPITALS = example("hospitals")
SOLVED = fp.ExternalityMechanism().solve(HOSPITALS.federation)
PAIR = fp.Federation(
    [[1.0, 0.5], [0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02), names=["North", "South"]
)


# Runs that did not finish


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """The ledger of a run whose nodes die in the first round."""
    fp.save_scenario(fp.Scenario(federation=PAIR), tmp_path / "pair.toml")
    stage = Stage(PAIR, tmp_path / "stage", faults=dict.fromkeys(range(2), only("train", silent)))
    with pytest.raises(Lost):
        stage.conduct()
    return stage.ledger


def test_a_failed_run_pays_nobody(run: Run, failed: Path, tmp_path: Path) -> None:
    for options in ([], ["--unchecked"], ["--json"], ["-o", "transfers.csv"], ["--delivered", "North=1"]):
        refused = run("settle", "pair.toml", failed, *options)
        assert refused.code == 2 and refused.out == "" and "nobody is paid: the run failed" in refused.err
        assert "--unchecked" not in refused.err, "which would not pay it either"
    assert not (tmp_path / "transfers.csv").exists()
    for arguments in ([failed], ["pair.toml", failed]):
        checked = run("check", *arguments)
        assert checked.code == 1 and "the run failed (lost)" in checked.words
        assert "accuracy is paid" not in checked.words  # a column of the table
    assert "finished" in run("check", failed, "--json").record["failed"]
    assert run("check", failed, "--html", "page.html").code == 1
    kept = failed.read_bytes()
    assert run("check", failed, "--html", failed).code == 2 and failed.read_bytes() == kept
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Nobody is paid: the run failed" in page and "agreed pay" in page
    with pytest.raises(fp.InvalidInput, match="the run failed, and its deal with it"):
        fp.load_deal(failed)


def test_cutting_off_the_failure_does_not_pay_either(run: Run, failed: Path) -> None:
    kept = failed.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]
    failed.write_text("".join(kept), encoding="utf-8")
    refused = run("settle", "pair.toml", failed)
    assert refused.code == 2 and "nobody is paid: the run is not settled yet" in refused.err
    assert "--delivered NAME=AMOUNT" in refused.err, "the way out"
    open_run = run("check", failed)
    assert open_run.code == 0 and "Nobody is paid: the run is not settled yet" in open_run.words


def write_ledger(path: Path, **more: Any) -> None:
    """A ledger of the hospitals' deal."""
    write_signed_ledger(path, SOLVED.deal, money=HOSPITALS.money, per_unit=1000.0, **more)


@pytest.mark.parametrize("is_settled", [False, True], ids=["last", "before a settlement"])
def test_a_failure_after_the_deal(run: Run, tmp_path: Path, is_settled: bool) -> None:
    SOLVED.deal.save(tmp_path / "deal.json")
    path = tmp_path / "ledger.jsonl"
    write_ledger(path, until=MEASURED)
    with Ledger(path) as ledger:
        ledger.append(FAILED, {"phase": "train", "reason": "City was killed"})
        if is_settled:
            due = fp.settle(SOLVED.deal, money=HOSPITALS.money)
            ledger.append(SETTLED, {"cents": dict(zip(due.names, due.cents, strict=True)), "signatures": {}})
    checked = run("check", "ledger.jsonl")
    assert checked.code == 1 and "Nobody is paid: the run failed (train): City was killed" in checked.words
    for options in ([], ["--unchecked"]):
        refused = run("settle", "hospitals", "ledger.jsonl", *options)
        assert refused.code == 1 and refused.out == ""
    assert run("settle", "hospitals", "deal.json", "--delivered", "City=0").code == 0, "the members may still agree to"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("begun", {"decimals": None}),
        (SETTLED, {"cents": [1]}),
        ("trained", {"deliveries": None}),
        ("trained", {"deliveries": {"City": ["x"]}}),
    ],
)
def test_a_ledger_of_unsound_entries_pays_nobody(run: Run, tmp_path: Path, kind: str, change: Any) -> None:
    write_ledger(tmp_path / "ledger.jsonl", changed={kind: change})
    assert run("check", "ledger.jsonl").code == 1
    for options in ([], ["--unchecked"]):
        refused = run("settle", "hospitals", "ledger.jsonl", *options)
        assert refused.code == 1 and refused.out == "" and "fedpact itself" not in refused.err


# What nobody has signed


def test_what_nobody_signed_moves_no_money(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the ledger states that City was asked a hundred times: every signature still holds."""
    note = run_module.SignedRun.note

    def stating_more(run: Any, kind: str, content: Any) -> None:
        note(run, kind, content | ({"asked": {"City": 100}} if kind == "trained" else {}))

    money = {"currency": HOSPITALS.money.currency, "per-payoff": HOSPITALS.money.per_payoff}
    honest = Stage(HOSPITALS.federation, tmp_path / "honest", run_config=money)
    honest.conduct()
    monkeypatch.setattr(run_module.SignedRun, "note", stating_more)
    forged = Stage(HOSPITALS.federation, tmp_path / "forged", run_config=money)
    forged.conduct()
    assert '"asked":{"City":100}' in forged.ledger.read_text(encoding="utf-8")
    receipts = [
        part for place in range(5) for part in ("--receipt", forged.folder / f"agents/{place}-record/receipt.json")
    ]
    assert run("check", "hospitals", forged.ledger, "--signed", *receipts).code == 0
    paid, due = (run("settle", "hospitals", stage.ledger, "--json").record for stage in (forged, honest))
    assert paid["balances"] == due["balances"] and paid["delivered"] == paid["agreed"]


def test_a_run_is_settled_in_its_own_money_whatever_is_asked(run: Run, tmp_path: Path) -> None:
    stage = Stage(HOSPITALS.federation, tmp_path / "stage", run_config={"currency": "CHF", "per-payoff": 2e6})
    stage.conduct()
    fp.save_scenario(fp.Scenario(federation=HOSPITALS.federation), tmp_path / "no-money.toml")
    settled = run("settle", "no-money.toml", stage.ledger, "--json").record
    assert (settled["currency"], settled["per_payoff"]) == ("CHF", 2e6)
    for options in (["--delivered", "City=0"], ["--sponsor", "Bank"]):
        refused = run("settle", "no-money.toml", stage.ledger, *options)
        assert refused.code == 2 and f"leave out {options[0]}" in refused.err


@pytest.mark.parametrize("money", [fp.Money("USD", HOSPITALS.money.per_payoff), fp.Money("EUR", 7000.0)])
def test_a_run_in_other_money_than_the_scenario_says(run: Run, tmp_path: Path, money: fp.Money) -> None:
    """The ledger agrees with itself: only the scenario shows that everybody is paid by another rate."""
    write_signed_ledger(tmp_path / "ledger.jsonl", SOLVED.deal, money=money, per_unit=1000.0)
    assert run("check", "ledger.jsonl").code == 0
    checked = run("check", "hospitals", "ledger.jsonl", "--json")
    assert checked.code == 1 and checked.record["failed"] == ["money"]
    assert "the scenario says 'EUR'" in run("check", "hospitals", "ledger.jsonl").words
    refused = run("settle", "hospitals", "ledger.jsonl")
    assert refused.code == 1 and f"the run is settled at '{money.currency}' {money.per_payoff}" in refused.err
    assert run("settle", "hospitals", "ledger.jsonl", "--unchecked", "--json").record["currency"] == money.currency


def test_decimals_that_are_not_the_currencys(run: Run, tmp_path: Path) -> None:
    yen = {"currency": "JPY", "decimals": 2}
    write_ledger(tmp_path / "ledger.jsonl", changed={"begun": yen})
    assert "decimals must be 0, as amounts in 'JPY' have, got 2" in run("check", "ledger.jsonl").words
    assert run("settle", "hospitals", "ledger.jsonl").code == 1


@pytest.mark.slow
def test_how_many_samples_a_measurement_rests_on_is_signed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They weigh what is paid where a deal is settled by what arrived; a coordinator states others."""
    honest = run_module.verified_content

    def weighed(*arguments: Any) -> dict[str, Any]:
        content = honest(*arguments)
        for place, model in enumerate(content["models"][1:]):
            for score in model["accuracies"].values():
                score["samples"] = 10 ** (place % 7)
        return content

    monkeypatch.setattr(run_module, "verified_content", weighed)
    with pytest.raises(fp.InvalidInput, match="has signed one number of samples, and several are stated"):
        conduct_run(tmp_path, 0, Cheat(updates={0: sent_back}, used=0.0))


# Code


@pytest.mark.slow
def test_code_named_in_a_deal_is_not_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evilmod.py").write_text("import pathlib; pathlib.Path('evil').touch(); X = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    record = json.loads(run("solve", "-m", "shapley", "--json").out) | {"mechanism": "evilmod:X"}
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    for command in ("check", "settle", "train"):
        for options in ([], ["--unchecked"], ["--unchecked", "--delivered", "City=0"]):
            if "--unchecked" in options and (command == "check" or (command == "train" and len(options) > 1)):
                continue
            refused = run(command, "hospitals", "deal.json", *options, *(["-o", "run"] if command == "train" else []))
            if options != ["--unchecked"]:  # as it stands, a deal needs no rules
                assert refused.code == 2 and "mechanism must be one of externality, shapley" in refused.err
            assert not (tmp_path / "evil").exists() and "evilmod" not in sys.modules


# Deals that cannot be checked


def test_a_deal_that_cannot_be_checked_is_refused(run: Run, tmp_path: Path) -> None:
    """Side payments of a fair deal, where there is no fair deal to compare them with."""
    weights = [[1.0, -0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    federation = fp.Federation(weights, costs=0.001, caps=[2.0, 50.0, 50.0], payoff=fp.PowerLaw(beta=0.3))
    with pytest.raises(fp.NoFairDeal):
        fp.FairMechanism().solve(federation)
    fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "harm.toml")
    record = json.loads(run("solve", "harm.toml", "--json").out)
    side = [0.2, -0.1, -0.1]
    invented = {
        "mechanism": "fair",
        "payments": (np.array(record["payments"]) + side).tolist(),
        "side_payments": side,
        **{key: record[key] for key in ("agents", "contributions", "prices", "scenario")},
    }
    (tmp_path / "deal.json").write_text(json.dumps(invented), encoding="utf-8")
    checked = run("check", "harm.toml", "deal.json")
    assert checked.code == 1 and "Whether the payments are right cannot be said" in checked.words
    assert "payments" in run("check", "harm.toml", "deal.json", "--json").record["failed"]
    refused = run("settle", "harm.toml", "deal.json")
    assert refused.code == 1 and refused.out == "" and "--unchecked" in refused.err
    assert run("settle", "harm.toml", "deal.json", "--unchecked").code == 0


def forged_prices(record: dict[str, Any]) -> None:
    """University's prices of City's and County's data, so that it is due the same in all while all is delivered."""
    prices, given = record["prices"], record["contributions"]
    prices[0][1] += 0.04 / given[1]
    prices[0][2] -= 0.04 / given[2]


def reorder(record: dict[str, Any]) -> None:
    """University and City change places in the file."""
    for key in ("agents", "contributions", "payments", "side_payments", "prices"):
        rows = record[key]
        rows[0], rows[1] = rows[1], rows[0]
    for row in record["prices"]:
        row[0], row[1] = row[1], row[0]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("is_forged", [True, False])
def test_prices_are_checked_in_any_order_and_in_ledgers(
    run: Run, tmp_path: Path, is_forged: bool, in_order: bool
) -> None:
    """Whoever delivers less is paid by them."""
    record = deal_record(SOLVED.deal)
    if is_forged:
        forged_prices(record)
    if not in_order:
        reorder(record)
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    write_signed_ledger(tmp_path / "ledger.jsonl", record, money=HOSPITALS.money, per_unit=1000.0)
    for arguments in (["deal.json", "--delivered", "County=0"], ["ledger.jsonl"]):
        paid = run("settle", "hospitals", *arguments)
        assert paid.code == (1 if is_forged else 0), arguments
        assert run("check", "hospitals", arguments[0]).code == (1 if is_forged else 0)
        assert not is_forged or "prices" in paid.err


# Members who are left out


@pytest.fixture
def four(run: Run, tmp_path: Path) -> dict[str, Any]:
    """The best deal of four of the five hospitals."""
    names = HOSPITALS.federation.names
    part = HOSPITALS.federation.take([place for place, name in enumerate(names) if name != "Clinic"])
    fp.ExternalityMechanism().solve(part).deal.save(tmp_path / "deal.json")
    return dict(json.loads((tmp_path / "deal.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("reason", [None, "", "  ", "\u200b", "."])
def test_who_is_left_out_without_a_word_is_named(run: Run, four: dict[str, Any], tmp_path: Path, reason: Any) -> None:
    if reason is not None:
        (tmp_path / "deal.json").write_text(json.dumps(four | {"excluded": {"Clinic": reason}}), encoding="utf-8")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 1
    assert checked.words.index("Clinic is out: the deal does not say why") < checked.words.index(
        "Best for all together"
    )
    assert "members" in run("check", "hospitals", "deal.json", "--json").record["failed"]
    for command in ("settle", "train"):
        refused = run(command, "hospitals", "deal.json")
        assert refused.code == 1 and refused.out == ""
        assert "Clinic is in the scenario and not in the deal, which does not say why" in refused.err


def test_who_is_left_out_with_a_reason_is_said_first(run: Run, four: dict[str, Any], tmp_path: Path) -> None:
    said = four | {"excluded": {"Clinic": "its connector costs more than it gains"}}
    (tmp_path / "deal.json").write_text(json.dumps(said), encoding="utf-8")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 0
    first = "Clinic is out: its connector costs more than it gains. All that follows is about University, City, "
    assert checked.words.split("Externality", 1)[-1].split("externality", 1)[-1].strip().startswith(first)
    assert run("check", "hospitals", "deal.json", "--json").record["excluded"] == said["excluded"]
    settled = run("settle", "hospitals", "deal.json")
    assert settled.code == 0 and settled.words.startswith("Clinic is out: its connector costs more than it gains.")
    assert run("settle", "hospitals", "deal.json", "--json").record["excluded"] == said["excluded"]
    for wrong in ({"Nobody": "left"}, {"Clinic": None}, {"Clinic": 0}, ["Clinic"]):
        (tmp_path / "deal.json").write_text(json.dumps(four | {"excluded": wrong}), encoding="utf-8")
        assert run("check", "hospitals", "deal.json").code == 2


def test_who_left_is_in_the_deal_of_those_who_stayed(run: Run, tmp_path: Path) -> None:
    stable = fp.stable_federation(HOSPITALS.federation, "shapley")
    assert stable.leavers and stable.deal is not None
    stable.deal.save(tmp_path / "deal.json")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 0 and f"{stable.leavers[0]} is out: it is better off alone." in checked.words


def test_narrow_terminals_break_no_word(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that do not fit follow below, beside the names again."""
    from fedpact.cli import screen

    monkeypatch.setattr(screen.console, "width", 60)
    for command in ("compare", "solve", "settle"):
        lines = run(command, "hospitals").out.splitlines()
        tables = [line for line in lines if line.startswith(("University", "Clinic"))]
        assert tables and max(map(len, tables)) <= 60, command
    heads = [line for line in run("compare", "hospitals").out.splitlines() if line.startswith("member ")]
    assert any("brings" in head and "gain" not in head for head in heads)
