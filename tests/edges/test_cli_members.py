"""Four banks with data at home, joining costs and budgets: what compare, check, settle, sweep and solve say of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp

BANKS = """
title = "Four banks"
unit = "thousand records"
names = ["Nord", "Sued", "Tal", "Berg"]
weights = [[1.0, 0.6, 0.4, -0.15], [0.7, 1.0, 0.3, -0.05], [0.8, 0.5, 1.0, 0.02], [0.5, 0.4, 0.2, 1.0]]
costs = ["900 EUR/thousand records", "1500 EUR/thousand records", "2000 EUR/thousand records", "0.8 EUR/record"]
caps = [400, 150, 20, 60]
values = ["40000 EUR/point", "30000 EUR/point", "8000 EUR/point", "12000 EUR/point"]
home = "all"
joining_costs = ["5000 EUR", "5000 EUR", "5000 EUR", "BERG EUR"]
budgets = [inf, BUDGET, BUDGET, inf]
[payoff]
family = "power-law"
beta = 0.25
[money]
currency = "EUR"
per_payoff = 1.0
"""


def banks(folder: Path, *, joining: str = "5000", budget: str = "inf") -> Path:
    path = folder / "banks.toml"
    path.write_text(BANKS.replace("BERG", joining).replace("BUDGET", budget), encoding="utf-8")
    return path


def test_prices_stand_beside_payments(run, tmp_path: Path) -> None:
    said = run("compare", banks(tmp_path)).words
    assert "prices in EUR per thousand records" in said
    outcome = fp.ExternalityMechanism().solve(fp.load_scenario(banks(tmp_path)).federation)
    price = outcome.payments[0] / outcome.contributions[0]
    assert f"{price:,.2f}" in said, "it receives the price of every record, and pays nothing"


@pytest.mark.slow
def test_the_deal_without_whom_should_stay_out(run, tmp_path: Path) -> None:
    path = banks(tmp_path, joining="150000")
    said = run("compare", path).words
    assert "Recommendation: Fair (pay for what you use, evened out), among Nord, Sued and Tal, without Berg." in said
    without = fp.FairMechanism().solve(fp.load_scenario(path).federation.take([0, 1, 2]))
    assert f"{without.payments[0]:+,.0f} {without.ir_gaps[0]:+,.0f} 100 %" in said
    assert "a subsidy of EUR 64,970 from outside would" in said, "of the fair deal with everybody in"
    record = run("compare", path, "--json").record
    assert record["recommendation"]["out"] == ["Berg"]
    np.testing.assert_allclose(record["recommended_outcome"]["payments"], without.payments, rtol=1e-9)
    run("compare", path, "--html", tmp_path / "berg.html", "--member", "Berg")
    page = (tmp_path / "berg.html").read_text(encoding="utf-8")
    assert "is not part of this deal" in page and "it would add EUR 85,030" in page and "To settle it" not in page


def test_no_fair_deal_is_told_in_money(run, tmp_path: Path) -> None:
    result = run("solve", banks(tmp_path, joining="150000"), "-m", "fair")
    assert result.code == 1 and "a subsidy of EUR 64,970 from outside would" in result.err


def test_budgets_that_are_exceeded(run, tmp_path: Path) -> None:
    path, asked = banks(tmp_path, budget="60000"), "Sued is asked for EUR 89,240.01 and can pay EUR 60,000.00."
    rules = ("-m", "externality")
    checked = run("check", path, *rules)
    assert checked.code == 1 and asked in checked.words and "This deal does not hold: budgets." in checked.words
    refused = run("settle", path, *rules)
    assert refused.code == 1 and f"budgets: {asked.removesuffix('.')}; `fedpact check" in refused.err
    assert asked in run("settle", path, *rules, "--unchecked").words
    for command in ("check",), ("settle", "--unchecked"):
        assert run(*command, path, *rules, "--json").record["over_budget"] == ["Sued"]
    assert "is asked for" not in run("check", path, "-m", "fair").words
    said = run("solve", path, "-m", "fair").words
    assert "cannot have all of their fair gains: Sued can pay no more than EUR" in said
    assert "can pay no more" not in run("solve", banks(tmp_path), "-m", "fair").words


@pytest.mark.parametrize(
    ("field", "words"),
    [("budgets", "the budgets"), ("joining_costs", "the joining costs"), ("home", "the data at home")],
)
def test_what_a_deal_was_made_without_is_named(run, tmp_path: Path, field: str, words: str) -> None:
    path = banks(tmp_path, budget="60000")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(field)]
    (tmp_path / "before.toml").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "deal.json").write_text(run("solve", tmp_path / "before.toml", "--json").out, encoding="utf-8")
    result = run("check", path, tmp_path / "deal.json")
    assert result.code == 2 and "but not all of weights" in result.err
    changed = path.read_text(encoding="utf-8").replace("900 EUR", "901 EUR")
    path.write_text(changed, encoding="utf-8")
    assert "data at home, joining costs and budgets" in run("check", path, tmp_path / "deal.json").err


def test_sweeps_of_budgets_in_money(run, tmp_path: Path) -> None:
    path, numbers = banks(tmp_path), tmp_path / "sweep.csv"
    vary = ("--vary", "budgets[Sued]=50000 EUR,90000 EUR", "--metric", "payments", "--metric", "gain_shares")
    result = run("sweep", path, *vary, "-m", "fair", "-o", numbers)
    assert result.code == 0 and "part of the fair gain (ratio)" in result.words
    record = run("sweep", path, *vary, "-m", "fair", "-o", numbers, "--force", "--json").record
    paid = np.array(record["mechanisms"]["fair"]["payments"])[:, 1]
    np.testing.assert_allclose(paid, [-50000.0, -90000.0], rtol=1e-9)
    for written, message in (
        ("budgets=5 USD,6 USD", "sums must be in EUR, got '5 USD'"),
        ("budgets=5,6 EUR", "values must all be sums of money if one is"),
        ("budgets=EUR 5", 'sums such as "50000 EUR"'),
    ):
        wrong = run("sweep", path, "--vary", written, "-o", numbers, "--force")
        assert wrong.code == 2 and message in wrong.err


def test_sweeps_of_data_at_home(run, tmp_path: Path) -> None:
    path = banks(tmp_path)
    vary = ("--vary", "home[Nord]=0,100,400", "-m", "externality", "-o", tmp_path / "sweep.csv", "--json")
    gaps = run("sweep", path, *vary).record["mechanisms"]["externality"]["ir_gaps"]
    federation = fp.load_scenario(path).federation
    for amount, found in zip((0.0, 100.0, 400.0), gaps, strict=True):
        varied = federation.replace(home=[amount, 150.0, 20.0, 60.0])
        np.testing.assert_allclose(found, fp.ExternalityMechanism().solve(varied).ir_gaps, rtol=1e-7)
    assert "needs data at home" in run("sweep", "paper-w1", "--vary", "home=1,2", "-o", tmp_path / "x.csv").err


@pytest.mark.slow
def test_more_is_shared_than_there_is_at_home(run, tmp_path: Path) -> None:
    path = banks(tmp_path)
    path.write_text(
        path.read_text(encoding="utf-8").replace('home = "all"', "home = [50, 150, 20, 60]"), encoding="utf-8"
    )
    for command in ("solve", "compare"):
        assert "uses 50 at home: what is there to share is there to use" in run(command, path).words
        assert "at home: what is there" not in run(command, "paper-w1").words


def test_the_smallest_gain_has_a_name(run, tmp_path: Path) -> None:
    outcome = fp.FairMechanism().solve(fp.load_scenario(banks(tmp_path)).federation)
    assert outcome.certificates["individual-rationality"].margin == pytest.approx(outcome.ir_gaps.min())
    assert (
        f"smallest gain +EUR {outcome.ir_gaps.min():,.0f}, of Berg" in run("solve", banks(tmp_path), "-m", "fair").words
    )


def test_nothing_is_shared_out_where_everybody_stays_alone(run, tmp_path: Path) -> None:
    found = run("solve", banks(tmp_path), "-m", "standalone", "--json").record["certificates"]["fair-gains"]
    fair = fp.Standalone().solve(fp.load_scenario(banks(tmp_path)).federation).fair_gains
    assert found["witness"]["gain_forgone"] == pytest.approx(fair.sum()) == pytest.approx(-found["margin"])
    assert "groups_that_bind" not in json.dumps(found)
