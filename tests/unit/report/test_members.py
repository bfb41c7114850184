"""What members have and want, in the report: prices, fair gains, data at home, joining costs, budgets, who is out."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from unit.report.reports import report_of

MONEY = fp.Money("EUR", 1.0)


def banks(**changes: object) -> fp.Scenario:
    given = {
        "costs": [900.0, 1500.0, 2000.0, 800.0],
        "caps": [400.0, 150.0, 20.0, 60.0],
        "values": [4e6, 3e6, 8e5, 1.2e6],
        "payoff": fp.PowerLaw(beta=0.25),
        "names": ["Nord", "Sued", "Tal", "Berg"],
        "home": "all",
        "joining_costs": [5e3, 5e3, 5e3, 1.5e5],
        "budgets": [np.inf, 6e4, np.inf, np.inf],
    }
    weights = [[1.0, 0.6, 0.4, -0.15], [0.7, 1.0, 0.3, -0.05], [0.8, 0.5, 1.0, 0.02], [0.5, 0.4, 0.2, 1.0]]
    return fp.Scenario(federation=fp.Federation(weights, **(given | changes)), money=MONEY, unit="records")


@pytest.fixture(scope="module")
def compared() -> fp.Comparison:
    return fp.compare(banks())


@pytest.fixture(scope="module")
def text(compared: fp.Comparison, read) -> str:
    return read(report_of(compared, money=MONEY, unit="records")).text


def test_the_headline_and_the_deal_without_whom_should_stay_out(compared: fp.Comparison, text: str) -> None:
    assert "evened out, among Nord, Sued and Tal, without Berg" in text
    outcome = compared.recommended_outcome
    table = text[text.index("The deal without Berg") : text.index("Mechanisms, welfare in")]
    for agent in range(3):
        assert f"{outcome.payments[agent]:+,.0f}".replace("-", "−") in table
        assert f"{outcome.ir_gaps[agent]:+,.0f}".replace("-", "−") in table
    assert compared.sensitivity is None, "whether a deal within budgets is left is not followed"
    everybody = report_of(fp.compare(banks(joining_costs=5e3)), money=MONEY)
    assert "The deal without" not in everybody and "what follows is with everybody in" not in everybody


def test_prices(compared: fp.Comparison, text: str) -> None:
    assert (
        "Where there are prices, what was delivered is paid for at them." in text and "prices in EUR per record" in text
    )
    outcome = compared["externality"]
    price = outcome.payments[0] / outcome.contributions[0]
    assert f"{price:,.2f}" in text


def test_gains_against_fair_gains(compared: fp.Comparison, text: str) -> None:
    fairness = text[text.index("Gains against fair gains") : text.index("Welfare is the net benefits")]
    outcome = compared["externality"]
    assert outcome.fair_gains[3] == 0 and outcome.ir_gaps[3] < 0 < outcome.fair_gains[1]
    sued = f"Sued {outcome.fair_gains[1]:,.0f} {outcome.ir_gaps[1]:+,.0f} {outcome.gain_shares[1]:.0%}".replace(
        "%", " %"
    )
    assert sued in fairness
    assert f"Berg 0 −{-outcome.ir_gaps[3]:,.0f} fair gain is zero" in fairness
    assert "−%" not in fairness.replace(" ", "")


def test_what_the_federation_is_told(text: str) -> None:
    told = text[text.index("What a member’s model is worth rises") :]
    assert "costs are those of sharing, and gains count from there" in told
    assert "Joining costs EUR 165,000 in all" in told and "What Sued can pay is limited." in told
    assert "Joining costs Budget" in told and "150,000 no limit" in told
    assert "a model of its own" not in told
    plain = report_of(fp.compare(banks(home=None, joining_costs=0.0, budgets=None)), money=MONEY)
    assert "Joining costs nothing." in plain and "Members pay for using their own data too" in plain
    personal = fp.Scenario(federation=banks().federation, models="personal", money=MONEY)
    assert "Everybody has a model of its own" in report_of(fp.compare(personal), money=MONEY)


def test_why_a_fair_deal_gives_less_than_fair_gains(read) -> None:
    scenario = banks(joining_costs=5e3, budgets=[np.inf, 6e4, np.inf, np.inf])
    text = read(report_of(fp.compare(scenario), money=MONEY)).text
    assert "cannot have all of their fair gains: Sued can pay no more than EUR 60,000." in text
