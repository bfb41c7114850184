"""Scenarios in the members' words: money per unit of data, money per accuracy point, questions about odd weights."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import fedpact as fp
from edges.command_line import run_main
from fedpact.scenario import parse_scenario, save_scenario
from fedpact.scenario.members_words import DataUnit, Price, weight_questions

BASE: dict[str, Any] = {
    "weights": [[1.0, 0.5], [0.2, 1.0]],
    "payoff": {"family": "power-law", "beta": 0.3},
    "unit": "thousand records",
    "costs": ["20 EUR/thousand records", "0.03 EUR/record"],
    "values": "500 EUR/point",
}


def parse(**changes: Any) -> fp.Scenario:
    document = {key: given for key, given in (BASE | changes).items() if given is not None}
    return parse_scenario(document, where="file")


def test_money_per_unit_and_per_point(tmp_path: Path) -> None:
    scenario = parse()
    np.testing.assert_allclose(scenario.federation.costs.linear, [20.0, 30.0], rtol=1e-15)
    np.testing.assert_array_equal(scenario.federation.values, [50000.0, 50000.0])
    assert (scenario.money, scenario.unit) == (fp.Money("EUR", 1.0), "thousand records")
    save_scenario(scenario, tmp_path / "s.toml")
    assert fp.load_scenario(tmp_path / "s.toml") == scenario


def test_a_stated_rate_is_kept_and_the_deal_is_the_same() -> None:
    """Counting payoff in other money, or data in other units, changes no payment."""
    plain = fp.ExternalityMechanism().solve(parse().federation)
    scaled = parse(money={"currency": "EUR", "per_payoff": 1000.0})
    other = fp.ExternalityMechanism().solve(scaled.federation)
    np.testing.assert_allclose(other.payments * 1000.0, plain.payments, rtol=1e-6, atol=1e-6)
    assert scaled.money == fp.Money("EUR", 1000.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": None}, 'the file must name it: unit = "thousand records"'),
        ({"unit": "images"}, "costs is money per record, but data is counted in images"),
        ({"unit": "5"}, "unit must be a text such as"),
        ({"values": 1.0}, 'costs are in money: write values in money too, such as "500 EUR/point"'),
        ({"costs": 1.0}, "values are in money: write costs in money too"),
        ({"values": "500 USD/point"}, "must be in one currency, got EUR and USD"),
        ({"values": "500 EUR/record"}, r"values must be money per point \(of accuracy\), got per record"),
        ({"costs": ["20 EUR/thousand records", 3.0]}, r"costs\[1\] must be money like the others, got 3.0"),
        ({"costs": "cheap"}, "costs must be a number without quotes, or money such as"),
        ({"money": {"currency": "USD", "per_payoff": 1.0}}, "are in EUR, but money.currency is USD"),
    ],
)
def test_words_that_do_not_add_up_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        parse(**changes)


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0,02 €/record", Price(0.02, "€", DataUnit(1.0, "record"))),
        ("1.234,5 EUR per 100 images", Price(1234.5, "EUR", DataUnit(100.0, "image"))),
        ("5 EUR/accuracy point", Price(5.0, "EUR", DataUnit(1.0, "point"))),
    ],
)
def test_prices_as_people_write_them(text: str, price: Price) -> None:
    assert Price.parse(text, "costs") == price


def federation(weights: list[list[float]]) -> fp.Federation:
    return fp.Federation(weights, costs=0.1, payoff=fp.PowerLaw(0.3))


def test_odd_weights_get_a_question() -> None:
    assert weight_questions(federation([[1.0, 3.0], [0.5, 1.0]])) == []
    assert "look like percentages" in weight_questions(federation([[1.0, 80.0], [35.0, 1.0]]))[0]
    assert "look like percentages" in weight_questions(federation([[100.0, 80.0], [35.0, 100.0]]))[0]
    (large,) = weight_questions(federation([[1.0, 0.5], [25.5, 1.0]]))
    assert large.startswith("weights[1, 0]: is data of agent 0 really worth 25.5 times as much to agent 1")


def test_the_new_example_is_not_symmetric_and_speaks_money(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.toml"
    assert run_main(["new", str(path)]) == 0
    scenario = fp.load_scenario(path)
    weights = np.asarray(scenario.federation.weights)
    assert (weights != weights.T).any() and len(set(scenario.federation.caps)) == 3
    capsys.readouterr()
    assert run_main(["solve", str(path)]) == 0
    assert "amounts in EUR, contributions in thousand records" in capsys.readouterr().out


ANSWERS = [
    "Clinics",
    "Reads X-rays",
    "A,B",
    "100 images",
    "EUR",
    "50",
    "20 EUR",
    "1000",
    "many",
    "30",
    "25.125",  # can be read two ways, so it is asked for again
    "25,1250",
    "2000",
    "yes",  # they use their own data anyway
    "-1",
    "600",
    "back",
    "500EUR",  # what joining costs
    "80",  # percent, it seems
    "0,8",
    "0.1",
]


def test_new_asks_until_it_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter(ANSWERS)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda question, **_: next(given))
    assert run_main(["new", str(tmp_path / "new.toml"), "--ask"]) == 0
    scenario = fp.load_scenario(tmp_path / "new.toml")
    assert scenario.title == "Clinics" and scenario.unit == "100 images"
    assert scenario.description == "Reads X-rays"
    np.testing.assert_array_equal(scenario.federation.home, [50.0, 30.0])
    np.testing.assert_array_equal(scenario.federation.joining_costs, [500.0, 500.0])
    np.testing.assert_allclose(scenario.federation.weights, [[1.0, 0.8], [0.1, 1.0]])
    np.testing.assert_allclose(scenario.federation.costs.linear, [20.0, 25.125])
    np.testing.assert_array_equal(scenario.federation.caps, [50.0, 30.0])
    assert list(given) == []


def test_the_templates_words_for_itself_reach_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["new", str(tmp_path / "new.toml")]) == 0
    scenario = fp.load_scenario(tmp_path / "new.toml")
    assert (scenario.title, scenario.description) == ("", "")


@pytest.mark.parametrize("price", ["20.000", "20,000", "1.500", "12.345"])
def test_a_separator_that_can_mean_two_things_is_refused(
    price: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {**BASE, "values": f"{price} EUR/point"}
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    assert run_main(["compare", str(tmp_path / "s.json")]) == 2
    shown = capsys.readouterr().err
    thousands, decimal = re.sub("[.,]", "", price), float(price.replace(",", "."))
    assert f"values: '{price}' can be read as" in shown and f"or as {thousands}" in shown
    small = re.search(r"write (\S+) or", shown)
    assert small is not None
    for advice, amount in ((small[1], decimal), (thousands, float(thousands))):  # what it advises is read so
        written = parse(values=f"{advice} EUR/point")
        np.testing.assert_allclose(written.federation.values, amount * 100.0)


@pytest.mark.parametrize("price", ["20 000", "20000", "20'000", "20.000,00", "20,000.00", "2e4"])
def test_thousands_that_can_mean_one_thing_only(price: str) -> None:
    np.testing.assert_allclose(parse(values=f"{price} EUR/point").federation.values, 2e6)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError])
def test_asking_can_be_interrupted(
    stop: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(question: str = "") -> str:
        raise stop

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(typer.prompt.__globals__, "visible_prompt_func", ask)
    assert run_main(["new", str(tmp_path / "new.toml"), "--ask"]) == 130
    shown = capsys.readouterr().err
    assert "interrupted" in shown and "Aborted" not in shown
    assert not (tmp_path / "new.toml").exists()


def test_asking_needs_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["new", str(tmp_path / "new.toml"), "--ask"]) == 2
    assert "--ask needs a terminal" in capsys.readouterr().err


def test_costs_that_rise_in_money() -> None:
    money = {
        "linear": "600 EUR/1000 records",
        "quadratic": ["5 EUR/thousand records/thousand records", "0.00001 EUR/record/record"],
    }
    found = parse_scenario(BASE | {"costs": money}, where="file").federation
    np.testing.assert_allclose(found.costs.linear, [600.0, 600.0])
    np.testing.assert_allclose(found.costs.quadratic, [5.0, 10.0])
    with pytest.raises(fp.InvalidInput, match=r"costs\.quadratic must be money per unit and unit"):
        parse_scenario(BASE | {"costs": money | {"quadratic": "5 EUR/record"}}, where="file")


def test_a_negative_price_is_said_to_be_negative() -> None:
    with pytest.raises(
        fp.InvalidInput, match=r"costs must be positive, got '-600 EUR/1000 records': a negative amount"
    ):
        parse_scenario(BASE | {"costs": "-600 EUR/1000 records"}, where="file")
