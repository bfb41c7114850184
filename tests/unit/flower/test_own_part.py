"""What a node signs and what it does not: every number of a sound statement, spoiled on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import read_ledger
from fedpact.flower.checks import OWN_PART, Refused, check_by_private_file, check_own_part, check_settlement
from fedpact.flower.identity import Seat
from fedpact.mechanisms import personal_prices, resolve_mechanism
from fedpact.negotiation import Agent
from old_hospitals import example
from signed_ledgers import write_signed_ledger
from strategies import random_federations


def statement(federation: fp.Federation, place: int) -> dict[str, Any]:
    """What the solved deal says to one agent."""
    solved = fp.ExternalityMechanism().solve(federation)
    prices = personal_prices(federation, solved.contributions)
    return {
        "agents": list(federation.names),
        "place": place,
        "contributions": solved.contributions.tolist(),
        "prices": prices[place].tolist(),
        "payment": float(-(prices[place] @ solved.contributions)),
        "utility": float(solved.utilities[place]),
        "money": {"currency": "EUR", "per_payoff": 1e6, "decimals": 2},
        "excluded": [],
    }


def checked(agent: Agent, given: dict[str, Any], *, least_gain: float | None = 0.0) -> list[str]:
    """What the agent checks of a deal in which this is its part."""
    size, place = agent.n_agents, agent.index
    document = {key: given.get(key) for key in ("agents", "contributions", "money", "excluded")}
    document["mechanism"] = given.get("mechanism", "externality")
    for key in ("payment", "side_payment"):
        document[f"{key}s"] = [given.get(key, 0.0) if member == place else 0.0 for member in range(size)]
    asked = {"document": document} | {key: given.get(key) for key in ("place", "prices", "utility")}
    deal = check_own_part(Seat(agent.name, place, size), asked)
    own = {key: given.get(key) for key in ("prices", "utility")}
    return [*OWN_PART, *check_by_private_file(agent, deal, **own, least_gain=least_gain)]


HOSPITALS = example("hospitals").federation
AGENT = Agent.of(HOSPITALS, 1)
SOUND = statement(HOSPITALS, 1)


def spoiled(key: str, place: int, factor: float) -> dict[str, Any]:
    numbers = list(SOUND[key])
    numbers[place] *= factor
    return SOUND | {key: numbers}


def out(name: str) -> dict[str, Any]:
    """Somebody out of the deal, and its price as it was."""
    index = SOUND["agents"].index(name)
    given = [*SOUND["contributions"]]
    given[index] = 0.0
    return SOUND | {"contributions": given, "excluded": [name]}


def with_payment(given: dict[str, Any]) -> dict[str, Any]:
    """Its payment made to fit its prices."""
    return given | {"payment": -float(np.dot(given["prices"], given["contributions"])), "utility": None}


@pytest.mark.parametrize("name", ["fair", "fair-members"])
def test_a_fair_deal_is_signed_with_its_own_side_payment(name: str) -> None:
    solved = resolve_mechanism(name).solve(HOSPITALS)
    side = float(solved.side_payments[1])
    assert abs(side) > 0.0
    paid = {"payment": float(solved.payments[1]), "utility": float(solved.utilities[1])}
    fair = SOUND | paid | {"mechanism": name, "side_payment": side}
    assert "payment" in checked(AGENT, fair)
    for spoil in ({"side_payment": 2.0 * side}, {"side_payment": 0.0}, {"mechanism": "externality"}):
        with pytest.raises(Refused, match="payment"):
            checked(AGENT, fair | spoil)


def test_a_sound_statement_is_signed() -> None:
    assert checked(AGENT, SOUND) == [
        "place",
        "contributions",
        "money",
        "payment",
        "prices",
        "own contribution",
        "utility",
        "least gain",
    ]
    assert "least gain" not in checked(AGENT, SOUND, least_gain=None)


@pytest.mark.parametrize("seed", range(3))
def test_solved_deals_of_all_kinds_are_signed(seed: int) -> None:
    """Optima at zero, at a cap and in between, harmful weights among them."""
    for federation in random_federations(seed, 30):
        for place in range(federation.n_agents):
            checked(Agent.of(federation, place), statement(federation, place), least_gain=None)


@pytest.mark.parametrize(
    ("given", "claim"),
    [
        (SOUND | {"place": 2}, "place"),
        (SOUND | {"place": True}, "place"),
        (SOUND | {"agents": SOUND["agents"][:-1]}, "place"),
        (SOUND | {"agents": ["City", "University", "County", "Children's", "Clinic"]}, "place"),
        (SOUND | {"agents": "City"}, "place"),
        (SOUND | {"payment": SOUND["payment"] * 1.001}, "payment"),
        (SOUND | {"payment": SOUND["payment"] - 0.001}, "payment"),
        (spoiled("prices", 0, 1.01), "payment"),
        (spoiled("contributions", 0, 0.99), "payment"),
        (with_payment(spoiled("prices", 0, 1.01)), "prices"),
        (with_payment(spoiled("prices", 0, 0.9)), "prices"),  # too good is not what was agreed either
        (with_payment(spoiled("prices", 1, 0.9)), "own contribution"),
        (with_payment(spoiled("prices", 1, 1.1)), "own contribution"),
        (with_payment(spoiled("contributions", 1, 0.8)), "prices"),
        (with_payment(spoiled("contributions", 1, 9.0)), "contributions"),
        (with_payment(spoiled("contributions", 0, -1.0)), "contributions"),
        (SOUND | {"utility": SOUND["utility"] + 0.001}, "utility"),
        (SOUND | {"prices": SOUND["prices"][:-1]}, "prices must be 5 finite numbers"),
        # Without prices what it is paid follows from its costs and what data is worth to it.
        (SOUND | {"prices": None, "payment": SOUND["payment"] * 1.01, "utility": None}, "payment"),
        (SOUND | {"prices": None, "payment": SOUND["payment"] * 0.99, "utility": None}, "payment"),
        (SOUND | {"prices": None, "mechanism": "shapley", "utility": 1e3}, "utility"),
        (SOUND | {"contributions": [*SOUND["contributions"][:-1], float("nan")]}, "contributions.4. must be"),
        (SOUND | {"contributions": [*SOUND["contributions"][:-1], True]}, "contributions.4. must be"),
        (SOUND | {"payment": "0.1"}, "payments.1. must be a finite number"),
        (SOUND | {"payment": float("inf")}, "payments.1. must be a finite number"),
        (SOUND | {"utility": "much"}, "utility must be a finite number"),
        (SOUND | {"excluded": ["University"]}, "contributions: somebody who is out"),
        (SOUND | {"money": None}, "money"),
        (SOUND | {"money": SOUND["money"] | {"per_payoff": 0.0}}, "money"),
        (SOUND | {"money": SOUND["money"] | {"decimals": True}}, "money"),
        (SOUND | {"money": SOUND["money"] | {"currency": 3}}, "money"),
        (SOUND | {"money": SOUND["money"] | {"decimals": 3}}, "money: decimals must be 2"),
        (out("Clinic"), "prices: they name one for the data of somebody who is out"),
        ({}, "place"),
    ],
)
def test_what_is_not_signed(given: dict[str, Any], claim: str) -> None:
    with pytest.raises(Refused, match=f"^{claim}"):
        checked(AGENT, given)


def test_without_prices_all_else_is_checked() -> None:
    assert "own contribution" in checked(AGENT, SOUND | {"prices": None})
    assert "prices" not in checked(AGENT, SOUND | {"prices": None})
    shares = checked(AGENT, SOUND | {"prices": None, "mechanism": "shapley"})
    assert "utility" in shares and "payment" not in shares


def test_a_cap_is_a_cap() -> None:
    capped = replace(AGENT, caps=np.array([SOUND["contributions"][1] - 1.0]))
    with pytest.raises(Refused, match="more than its cap"):
        checked(capped, SOUND)


def test_a_lure_without_end_is_refused() -> None:
    """Paid more per sample than one costs, without a cap: no contribution would be the best."""
    endless = replace(AGENT, caps=np.array([np.inf]), costs=fp.Linear(np.array([0.001])))
    lured = with_payment(spoiled("prices", 1, 100.0))
    with pytest.raises(Refused, match="own contribution"):
        checked(endless, lured)


def test_least_gain() -> None:
    gain = float(fp.ExternalityMechanism().solve(HOSPITALS).ir_gaps[1])
    assert "least gain" in checked(AGENT, SOUND, least_gain=gain - 1e-4)
    with pytest.raises(Refused, match=r"^least gain: it asks for more$"):
        checked(AGENT, SOUND, least_gain=gain + 1e-4)


@pytest.mark.parametrize("given", [{"payment": 7.0}, {"utility": 9e9}, {"contributions": [0.0, 8e7, 0.0, 0.0, 0.0]}])
def test_why_it_does_not_sign_quotes_no_number_of_its_own(given: dict[str, Any]) -> None:
    """A coordinator of sums, where no prices are named, could ask about any profile."""
    with pytest.raises(Refused) as refused:
        checked(AGENT, SOUND | {"prices": None} | given)
    stated = str(refused.value).replace("payment: 7 does", "")
    assert not any(character.isdigit() for character in stated), stated


def test_no_settlement_that_charges_who_is_out_is_signed(tmp_path: Path) -> None:
    """Nobody sees everybody's prices: a row for somebody who is out could have any shortfall charged to it."""
    prices = [[-6.0, 6.0, 6.0, 0.0], [3.0, -9.0, 4.0, 0.0], [3.0, 3.0, -10.0, 0.0], [0.0] * 4]
    given = np.array([100.0, 50.0, 20.0, 0.0])
    deal = fp.Deal(
        mechanism="externality",
        agents=("Ann", "Ben", "Cat", "Out"),
        contributions=given,
        payments=-(np.array(prices) @ given),
        prices=prices,
        excluded={"Out": "it was late"},
    )
    used = {"Ann": [100], "Ben": [10], "Cat": [20]}
    document = write_signed_ledger(tmp_path / "ledger.jsonl", deal, money=fp.Money("EUR", 1.0), used=used)
    entries = read_ledger(tmp_path / "ledger.jsonl").entries
    index = next(entry.seq for entry in entries if entry.kind == "agreed")
    asked = {
        "head": entries[-2].hash,
        "delivered": {"Ann": 100.0, "Ben": 10.0, "Cat": 20.0},
        "cents": dict(entries[-1].content["cents"]),
        "entries": [vars(entry) for entry in entries[index + 1 : -1]],
    }
    cat = {"document": document, "place": 2, "prices": prices[2], "calibration": None}
    assert check_settlement(cat, asked, {}) == asked["delivered"]
    asked["cents"] |= {"Ann": asked["cents"]["Ann"] + 24000, "Out": -24000}
    with pytest.raises(Refused, match='"Out" is not in the deal, and -24000 cents are settled with it'):
        check_settlement(cat, asked, {})
