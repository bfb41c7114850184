"""A member whose data harms a little: no percentage of a share that is not above zero; and who brings nothing.

Kueste's data is of use to itself and harms the three others: its Shapley share is below zero while its benefit is not,
so that the ratio of both is a large negative number that says nothing about fairness.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedpact as fp

BANKS = ("Nord", "Kueste", "Sued", "West")
OF_SHARE = "Kueste's data takes away more than it adds for all"
NEGATIVE_PERCENTAGE = re.compile(r"[-\N{MINUS SIGN}]\s?\d[\d,.]*\s?%")


def harmful() -> fp.Scenario:
    weights = [[1.0, -0.09, 0.42, 0.72], [0.09, 1.0, 0.45, 0.08], [0.47, -0.11, 1.0, 0.65], [0.37, -0.16, 0.21, 1.0]]
    costs, caps = [0.0033, 0.0014, 0.0007, 0.0026], [200.0, 5.0, 5.0, 5.0]
    return _scenario(weights, costs, caps)


def idle() -> fp.Scenario:
    """Kueste's data would harm, West's costs too much."""
    weights = [[1.0, -0.4, 0.42, 0.72], [0.6, 1.0, 0.45, 0.5], [0.47, -0.4, 1.0, 0.65], [0.37, -0.4, 0.21, 1.0]]
    return _scenario(weights, [0.0033, 0.014, 0.0007, 0.4], [200.0, 5.0, 5.0, 5.0])


def _scenario(weights: list[list[float]], costs: list[float], caps: list[float]) -> fp.Scenario:
    federation = fp.Federation(weights, costs=costs, caps=caps, payoff=fp.PowerLaw(0.5), names=BANKS)
    return fp.Scenario(federation=federation, title="Four banks", money=fp.Money("EUR", 150000.0))


@pytest.fixture
def banks(tmp_path: Path) -> str:
    fp.save_scenario(harmful(), tmp_path / "banks.toml")
    return "banks.toml"


def test_the_recommendation_names_who_gets_too_little_and_who_harms(run, banks: str) -> None:
    result = run("compare", banks)
    assert result.code == 0
    assert re.search(r"Its price is fairness: \w+ gets \d+ % of its fair share of the gain", result.words)
    assert re.search(r"Fair raises the lowest share of a fair gain from \d+ % to 100 %", result.words)
    assert not NEGATIVE_PERCENTAGE.search(result.words)


def test_solve_says_it_in_words_with_the_money(run, banks: str) -> None:
    result = run("solve", banks)
    assert f"{OF_SHARE} (Shapley share -EUR 45,527), and it pays EUR 12,151." in result.words
    assert "reciprocity 56 %" in result.words
    assert "reciprocity -" not in result.words
    assert not NEGATIVE_PERCENTAGE.search(result.words)


def test_a_welfare_below_zero_is_no_part_of_the_best(run, tmp_path: Path) -> None:
    weights = [[1.0, 0.9], [0.9, 1.0]]
    federation = fp.Federation(
        weights, costs=0.01, caps=5.0, payoff=fp.PowerLaw(0.5), names=BANKS[:2], home="all", joining_costs=0.01
    )
    fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "pair.toml")
    assert fp.compare(federation)["voluntary"].welfare < 0.0
    assert run("compare", "pair.toml", "--html", "report.html").code == 0
    text = _text(tmp_path / "report.html")
    assert "of the best" in text and not NEGATIVE_PERCENTAGE.search(text)


def test_shares_of_the_whole_are_those_above_zero(run, banks: str) -> None:
    shown = run("shapley", banks, "-m", "externality")
    assert shown.code == 0 and not NEGATIVE_PERCENTAGE.search(shown.words)
    kueste = next(line for line in shown.out.splitlines() if line.startswith("Kueste"))
    assert "%" not in kueste and sum("%" in line for line in shown.out.splitlines()) == 3


@pytest.mark.slow
def test_the_report_and_the_page_of_the_member_say_it_in_words(run, banks: str, tmp_path: Path) -> None:
    assert run("compare", banks, "--html", "report.html").code == 0
    text = _text(tmp_path / "report.html")
    assert "Lowest share of a fair gain" in text
    assert f"{OF_SHARE} (Shapley share −EUR 45,527), and it pays EUR 12,151." in text
    assert not NEGATIVE_PERCENTAGE.search(text)
    assert run("compare", banks, "--html", "member.html", "--member", "Kueste", "-m", "fair-reciprocity").code == 0
    page = _text(tmp_path / "member.html")
    assert "Of its Shapley share it gets back share is below zero its data takes away more than it adds for all" in page


def test_sweeps_count_ratios_below_zero_and_say_no_more_of_them(run, banks: str) -> None:
    result = run("sweep", banks, "--vary", "costs[Nord]=0.003,0.004", "--metric", "reciprocity", "-o", "out.csv")
    assert result.code == 0, result.err
    assert re.search(r"Externality .*all +- +- +- +- +- +100.0 %", result.out)
    assert "of a share below zero no part is got back" in result.words
    fairly = run("sweep", banks, "--vary", "costs[Nord]=0.003,0.004", "--metric", "lowest_fair_part", "-o", "two.csv")
    assert re.search(r"Externality .*all +0.5\d+ +\S+ +0.5\d+ +0.5\d+ +\S+ +0.0 %", fairly.out)


def test_who_contributes_nothing_is_named_with_the_reason(run, tmp_path: Path) -> None:
    fp.save_scenario(idle(), tmp_path / "idle.toml")
    reasons = (
        "Kueste contributes nothing: its data would harm the others on net.",
        "West contributes nothing: its data costs more than it is worth to all.",
    )
    solved, compared = run("solve", "idle.toml"), run("compare", "idle.toml", "--html", "idle.html")
    for reason in reasons:
        assert reason in solved.words
        assert reason in compared.words
        assert reason in _text(tmp_path / "idle.html")
    assert solved.words.count(reasons[0]) == 1


def test_the_page_of_a_member_that_contributes_nothing_says_why(run, tmp_path: Path) -> None:
    fp.save_scenario(idle(), tmp_path / "idle.toml")
    for name, why in {"Kueste": "would harm the others on net", "West": "costs more than it is worth to all"}.items():
        assert run("compare", "idle.toml", "-m", "externality", "--member", name, "--html", f"{name}.html").code == 0
        assert f"(its data {why})" in _text(tmp_path / f"{name}.html")


def _text(path: Path) -> str:
    """What a page says, without tags and breaks."""
    body = path.read_text(encoding="utf-8").partition("<body")[2]
    plain = re.sub(r"<(style|script|svg).*?</\1>", " ", body, flags=re.DOTALL)
    words = re.sub(r"<[^>]+>", " ", plain).replace("&#39;", "'").replace("\N{NO-BREAK SPACE}", " ")
    return " ".join(words.split()).replace("( ", "(").replace(" .", ".")
