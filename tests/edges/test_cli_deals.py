"""Every command that takes a deal, with every kind of file that holds one: good, tampered with, of another scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import fedpact as fp
from fedpact.cli import train as train_command
from fedpact.deals import is_ledger
from fedpact.deals.deal_file import deal_record, outcome_record
from fedpact.explorer.files import DOWNLOADS
from fedpact.scenario import example
from fedpact.training import Experiment
from fedpact.training.run import plan_training
from old_hospitals import HOSPITALS
from random_cases import some
from signed_ledgers import write_signed_ledger

SCENARIO = example("hospitals")
FEDERATION = SCENARIO.federation
SOLVED = fp.ExternalityMechanism().solve(FEDERATION)
Plan = tuple[fp.Deal, Experiment]
MOVED = 10_000.0  # EUR, from the second agent to the first


def solved(run: Any, path: Path) -> None:
    path.write_text(run("solve", "--json").out, encoding="utf-8")


def negotiated(run: Any, path: Path) -> None:
    path.write_text(run("negotiate", "--json").out, encoding="utf-8")


def saved(run: Any, path: Path) -> None:
    SOLVED.deal.save(path)


def compared(run: Any, path: Path) -> None:
    path.write_text(run("compare", "--json").out, encoding="utf-8")


def downloaded(run: Any, path: Path) -> None:
    path.write_bytes(DOWNLOADS["deal.json"].make(SCENARIO, fp.compare(FEDERATION)).data)


def downloaded_with_all(run: Any, path: Path) -> None:
    path.write_bytes(DOWNLOADS["comparison.json"].make(SCENARIO, fp.compare(FEDERATION)).data)


def transcribed(run: Any, path: Path) -> None:
    assert run("negotiate", "--transcript", path).code == 0


def chained(run: Any, path: Path, deal: dict[str, Any] | None = None) -> None:
    changed = {} if deal is None else {"agreed": {"deal": deal}}
    write_signed_ledger(path, SOLVED.deal, money=SCENARIO.money, per_unit=1000.0, changed=changed)


KINDS: dict[str, tuple[str, Callable[[Any, Path], None]]] = {
    "solve --json": ("deal.json", solved),
    "negotiate --json": ("deal.json", negotiated),
    "Deal.save": ("deal.json", saved),
    "compare --json": ("deals.json", compared),
    "the explorer's download": ("deal.json", downloaded),
    "the explorer's comparison": ("deals.json", downloaded_with_all),
    "a transcript": ("deal.jsonl", transcribed),
    "a ledger": ("deal.jsonl", chained),
}


@pytest.fixture(params=some(KINDS, 4))
def file(request: pytest.FixtureRequest, run, tmp_path: Path) -> Path:
    """A file of each kind with the Externality deal of the hospitals."""
    name, write = KINDS[request.param]
    write(run, tmp_path / name)
    return tmp_path / name


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """What `fedpact train` would train: the deal and the experiment."""
    seen: list[Plan] = []

    def stop(deal: fp.Deal, federation: fp.Federation, experiment: Experiment, **options: Any) -> None:
        seen.append((deal, experiment))
        raise typer.Exit

    monkeypatch.setattr(train_command, "train_under", stop)
    return seen


def which(path: Path) -> list[str]:
    """Files with several deals have to be told which one."""
    return ["-m", "externality"] if path.name == "deals.json" else []


def spoil(path: Path) -> None:
    """Move some money in the last deal of a file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    place = next(place for place in reversed(range(len(lines))) if '"payments":' in lines[place])
    record = json.loads(lines[place])
    deals = record.get("outcomes") or [record.get("deal") or record.get("content", {}).get("deal") or record]
    for deal in deals:
        deal["payments"][0] += MOVED
        deal["payments"][1] -= MOVED
    lines[place] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_deal_is_checked_settled_and_trained_from_every_file(run, plans: list[Plan], file: Path) -> None:
    assert run("check", "hospitals", file, *which(file)).code == 0
    settled = run("settle", "hospitals", file, *which(file), "--json").record
    assert settled["mechanism"] == "externality" and settled["agents"] == list(FEDERATION.names)
    paid = [float(balance["amount"]) for balance in settled["balances"]]
    np.testing.assert_allclose(paid, SOLVED.payments * SCENARIO.money.per_payoff, atol=0.01)
    trained = run("train", "hospitals", file, *which(file))
    assert trained.code == 0, trained.err
    np.testing.assert_allclose(plans[0][0].contributions, SOLVED.contributions, rtol=1e-6)


def test_a_deal_that_was_tampered_with_is_refused(run, plans: list[Plan], file: Path, tmp_path: Path) -> None:
    spoil(file)
    checked = run("check", "hospitals", file, *which(file))
    assert checked.code == 1
    assert not is_ledger(file) or "was changed" in checked.err  # an entry that was changed is none
    for command in ("settle", "train"):
        refused = run(command, "hospitals", file, *which(file))
        assert refused.code == (1 if "does not hold" in refused.err else 2) and refused.out == ""
        assert "does not hold" in refused.err or "was changed" in refused.err
    assert not plans


def test_who_insists_may_carry_it_out(run, plans: list[Plan], tmp_path: Path) -> None:
    solved(run, tmp_path / "deal.json")
    spoil(tmp_path / "deal.json")
    refused = run("settle", "hospitals", "deal.json")
    difference = 'member "University" is paid EUR 83992.5, by the rules of externality EUR 73992.5; `fedpact'
    assert difference in refused.err
    settled = run("settle", "hospitals", "deal.json", "--unchecked", "--json")
    assert settled.code == 0
    assert float(settled.record["balances"][0]["amount"]) == pytest.approx(SOLVED.payments[0] + MOVED, abs=0.01)
    assert run("train", "hospitals", "deal.json", "--unchecked").code == 0
    assert plans[0][0].payments[0] == pytest.approx(SOLVED.payments[0] + MOVED)


def test_contributions_that_were_tampered_with(run, tmp_path: Path) -> None:
    record = deal_record(SOLVED.deal)
    record["contributions"][2] *= 1.1
    record["payments"] = fp.ExternalityMechanism().outcome_at(FEDERATION, record["contributions"]).payments.tolist()
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    refused = run("settle", "hospitals", "deal.json")
    assert refused.code == 1
    assert "this deal does not hold: payments: up to EUR 2,340.74 is in the wrong pocket" in refused.err


def test_contributions_a_little_off_are_no_loss_but_money_in_the_wrong_pocket(run, tmp_path: Path) -> None:
    profile = SOLVED.contributions * (1.0 + 1e-4 * np.array([1.0, -1.0, 1.0, -1.0, 1.0]))
    forged = fp.ExternalityMechanism().outcome_at(FEDERATION, profile)
    forged.deal.save(tmp_path / "deal.json")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 1
    assert "Up to EUR 7.89 is in the wrong pocket" in checked.out
    assert "every claim it is held to is proved" not in checked.out.lower()
    record = run("check", "hospitals", "deal.json", "--json").record
    assert record["failed"] == ["payments"] and "payments" in record["checked"]
    off = np.abs(forged.payments - SOLVED.payments)
    np.testing.assert_allclose(record["payment_errors"], off, atol=1e-10)
    assert record["payment_error"] == max(record["payment_errors"]) > record["payment_tolerance"]
    refused = run("settle", "hospitals", "deal.json")
    assert refused.code == 1 and "payments: up to EUR 7.89 is in the wrong pocket" in refused.err
    assert run("check", "hospitals", "deal.json", "--claim", "budget-balance").code == 0


def test_a_forged_ledger_whose_chain_holds(run, tmp_path: Path) -> None:
    record = deal_record(SOLVED.deal)
    record["payments"][0] += MOVED
    record["payments"][1] -= MOVED
    chained(run, tmp_path / "deal.jsonl", record)
    assert {"prices", "settlement"} <= set(run("check", "deal.jsonl", "--json").record["failed"])
    refused = run("settle", "hospitals", "deal.jsonl")
    assert refused.code == 1
    assert re.search(
        r'prices: member "(University|City)" is paid [A-Z0-9. ]+, by its prices', refused.err
    )  # both are as far off


def test_a_small_difference_is_shown_in_digits_that_differ(run, tmp_path: Path) -> None:
    record = outcome_record(SOLVED)
    (payment, *_), moved = record["payments"], 1.0
    record["payments"][0] += moved
    record["payments"][1] -= moved
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    refused = run("settle", "hospitals", "deal.json")
    assert refused.code == 1
    texts = re.search(r'"University" is paid EUR ([\d.]+), by the rules of externality EUR ([\d.]+)', refused.err)
    assert texts is not None and float(texts[1]) - float(texts[2]) == pytest.approx(moved, rel=0.5)
    assert f"{payment:.6g}" in texts[2]


def test_a_deal_of_another_scenario_is_refused(run, plans: list[Plan], file: Path, tmp_path: Path) -> None:
    dearer = FEDERATION.replace(costs=2.0 * FEDERATION.costs.linear)
    fp.save_scenario(fp.Scenario(federation=dearer), tmp_path / "dearer.toml")
    others = {
        "dearer.toml": "made for another scenario: its members are the same, but not all of weights, costs, caps,",
        "paper-w2": "the deal must be between members of the scenario (agent 0, agent 1, agent 2), got 'University'",
    }
    for scenario, difference in others.items():
        for command in ("check", "settle", "train"):
            refused = run(command, scenario, file, *which(file))
            assert refused.code == 2 and refused.out == ""
            assert difference in refused.err
    assert not plans


def test_those_who_stayed_have_a_deal(run, plans: list[Plan], tmp_path: Path) -> None:
    stayed = run("solve", "hospitals", "-m", "shapley", "--leave", "all", "--json")
    (tmp_path / "deal.json").write_text(stayed.out, encoding="utf-8")
    members = stayed.record["agents"]
    assert 1 < len(members) < FEDERATION.n_agents
    checked = run("check", "hospitals", "deal.json", "--json")
    assert checked.code == 0 and checked.record["agents"] == members
    settled = run("settle", "hospitals", "deal.json", "--json").record
    assert settled["agents"] == members
    assert run("train", "hospitals", "deal.json").code == 0
    assert list(plans[0][0].agents) == members
    plan = plan_training(plans[0][0], FEDERATION, plans[0][1])
    out = [place for place, name in enumerate(FEDERATION.names) if name not in members]
    np.testing.assert_array_equal(plan.used[out], plan.own[out])
    spoil(tmp_path / "deal.json")
    assert run("check", "hospitals", "deal.json").code == 1
    assert run("settle", "hospitals", "deal.json").code == 1


def test_where_everybody_left_there_is_no_deal(run, tmp_path: Path) -> None:
    (tmp_path / "deal.json").write_text('{"mechanism": "externality", "agents": []}', encoding="utf-8")
    for command in ("check", "settle", "train"):
        assert run(command, "hospitals", "deal.json").err == "error: deal.json: nobody is in this deal\n"


@pytest.mark.slow
def test_the_recommended_deal_of_several_is_taken(run, tmp_path: Path) -> None:
    compared(run, tmp_path / "deals.json")
    recommended = json.loads((tmp_path / "deals.json").read_text(encoding="utf-8"))["recommendation"]["mechanism"]
    assert run("settle", "hospitals", "deals.json", "--json").record["mechanism"] == recommended
    assert run("settle", "hospitals", "deals.json", "-m", "voluntary").words == "Nobody pays anybody."
    none = run("settle", "hospitals", "deals.json", "-m", "consortium:EqualCosts")
    assert none.code == 2 and "there is no outcome of 'equal-costs' in it; say which mechanism: externality" in none.err


def test_where_nobody_federates_everybody_trains_alone(run, plans: list[Plan], tmp_path: Path) -> None:
    """Also where the file does not say so."""
    record = json.loads(run("solve", HOSPITALS, "-m", "standalone", "--json").out)
    for excluded in (record["excluded"], {}):
        (tmp_path / "deal.json").write_text(json.dumps(record | {"excluded": excluded}), encoding="utf-8")
        assert run("train", HOSPITALS, "deal.json").code == 0
        assert not plans[-1][0].is_federated


def test_without_money_amounts_are_units_of_payoff(run) -> None:
    result = run("settle", "paper-w2")
    assert result.code == 0 and "Transfers (units of payoff)" in result.out
    record = run("settle", "paper-w2", "--json").record
    assert (record["currency"], record["per_payoff"]) == ("units of payoff", 1.0)
    payments = fp.ExternalityMechanism().solve(example("paper-w2").federation).payments
    amounts = [balance["amount"] for balance in record["balances"]]
    np.testing.assert_allclose(np.array(amounts, dtype=float), payments, atol=1e-9)
    assert {len(amount.partition(".")[2]) for amount in amounts} == {9}


def test_whoever_is_out_of_a_deal_is_paid_nothing(run, tmp_path: Path) -> None:
    path = tmp_path / "deal.json"
    solved(run, path)
    deal = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(deal | {"excluded": {"Clinic": "left"}}), encoding="utf-8")
    refused = run("settle", "hospitals", path)
    assert refused.code == 2
    assert 'member "Clinic" is not in the deal' in " ".join(refused.err.split())


@pytest.mark.parametrize("name", ["fair", "fair-members"])
def test_a_fair_deal_is_solved_checked_and_settled_from_its_file(run: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "deal.json"
    path.write_text(run("solve", "hospitals", "-m", name, "--json").out, encoding="utf-8")
    assert run("check", "hospitals", path).code == 0
    balances = json.loads(run("settle", "hospitals", path, "--json").out)["balances"]
    payments = fp.load_deal(path).payments * SCENARIO.money.per_payoff
    np.testing.assert_allclose([float(entry["amount"]) for entry in balances], payments, atol=0.02)  # whole cents
    record = json.loads(path.read_text(encoding="utf-8"))
    record["payments"][0] += MOVED
    record["payments"][1] -= MOVED
    path.write_text(json.dumps(record), encoding="utf-8")
    assert run("check", "hospitals", path).code == 1


def test_side_payments_are_said_when_money_moves(run: Any) -> None:
    settled = run("settle", "hospitals", "-m", "fair")
    assert "fixed whatever anybody contributes: Clinic -8,048" in " ".join(settled.out.split())
    assert len(run("settle", "hospitals", "-m", "fair", "--json").record["side_payments"]) == 5


def test_a_right_deal_of_members_with_three_lots_is_checked_and_settled(run, tmp_path: Path) -> None:
    """Alone the first could use three lots that replace each other: the search for its best must not stop short."""
    federation = fp.Federation(
        [
            [0.48, 0.72, 0.5, 0.0, 0.011, 0.019, 0.008, 0.0, 0.005],
            [0.019, 0.018, 0.009, 1.0, 0.52, 0.52, 0.001, 0.01, 0.008],
            [0.015, 0.001, 0.01, 0.017, 0.008, 0.016, 0.63, 0.56, 0.77],
        ],
        costs=[0.0105, 0.0042, 0.001, 0.0009, 0.0018, 0.1084, 0.0062, 0.0054, 0.0161],
        caps=[14.0, 89.0, 984.0, 42.0, 12.0, 38.0, 34.0, 8.0, 4.0],
        payoff=fp.PowerLaw([0.238, 0.081, 0.024]),
        lot_owners=[0, 0, 0, 1, 1, 1, 2, 2, 2],
    )
    fp.save_scenario(fp.Scenario(federation=federation, money=fp.Money("EUR", 1000.0)), tmp_path / "lots.toml")
    (tmp_path / "deal.json").write_text(run("solve", "lots.toml", "--json").out, encoding="utf-8")
    checked = run("check", "lots.toml", "deal.json", "--json")
    assert checked.code == 0
    assert checked.record["certificates"]["individual-rationality"]["verdict"] == "holds"
    assert run("settle", "lots.toml", "deal.json").code == 0
