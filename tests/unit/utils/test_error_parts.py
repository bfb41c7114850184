"""Refusals of deals, settlements, sweeps and mechanisms carry the field, the rule and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fedpact as fp
from consortium import EqualCosts
from fedpact.deals.settlement import settle_payments

PAIR = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))
DEAL = fp.Deal(mechanism="externality", agents=("A", "B"), contributions=[1.0, 2.0], payments=[0.5, -0.5])


def make_deal(**changed: Any) -> fp.Deal:
    given = {"mechanism": "externality", "agents": ("A", "B"), "contributions": [1.0, 2.0], "payments": [0.5, -0.5]}
    return fp.Deal(**(given | changed))


class Wordy(EqualCosts):
    claims = ("nash",)


@pytest.mark.parametrize(
    ("act", "field", "value"),
    [
        (lambda: make_deal(mechanism=3), "mechanism", 3),
        (lambda: make_deal(agents=["A", "A"]), "agents", "A"),
        (lambda: make_deal(scenario=3), "scenario", 3),
        (lambda: make_deal(provenance="x"), "provenance", "x"),
        (lambda: make_deal(excluded=["A"]), "excluded", ["A"]),
        (lambda: make_deal(prices="x"), "prices", "x"),
        (lambda: make_deal(prices=[[1.0]]), "prices", [[1.0]]),
        (lambda: DEAL.samples(0.0), "per_unit", 0.0),
        (lambda: DEAL.among(["A", "C"]), "names", ["A", "C"]),
        (lambda: DEAL.belonging_to(PAIR), "deal", "A"),
        (lambda: fp.settle(DEAL, decimals=-1), "decimals", -1),
        (lambda: fp.settle(DEAL, money=3), "money", 3),
        (lambda: fp.settle(3), "deal", 3),
        (lambda: settle_payments([1.0, -1.0], names=["A", "A"]), "names", "A"),
        (lambda: settle_payments([1.0, 1.0], names=["A", "B"]), "payments", 2.0),
        (lambda: settle_payments([1.0, -1.0], names=["A", "B"], currency=""), "currency", ""),
        (lambda: fp.sweep(PAIR, "costs"), "vary", "costs"),
        (lambda: fp.sweep(PAIR, "colour=1,2"), "vary", "colour"),
        (lambda: fp.sweep(PAIR, "costs=1,1"), "costs", "1,1"),
        (lambda: fp.sweep(PAIR, "costs=1:2"), "costs", "1:2"),
        (lambda: fp.sweep(PAIR, "costs=1,x"), "costs", "x"),
        (lambda: fp.sweep(PAIR, "costs[2]=1,2"), "costs[2]", "2"),
        (lambda: fp.sweep(PAIR, "costs=-1,2"), "costs", -1.0),
        (lambda: fp.sweep(PAIR, "costs=1,2", metrics=["luck"]), "metrics", "luck"),
        (lambda: fp.sweep(PAIR, "costs=1,2", metrics=[]), "metrics", []),
        (lambda: fp.compare(PAIR, ["barter"]), "mechanism", "barter"),
        (lambda: fp.compare(PAIR, [3]), "mechanism", 3),
        (lambda: fp.compare(PAIR, []), "mechanisms", []),
        (lambda: fp.compare(PAIR, ["nowhere:Rules"]), "mechanism", "nowhere:Rules"),
        (lambda: fp.compare(PAIR, [Wordy()]), "Wordy.claims", "nash"),
        (lambda: fp.compare(PAIR)["barter"], "mechanism", "barter"),
        (lambda: fp.solve_batch(3, "shapley"), "federations", 3),
        (lambda: fp.MessageGame(PAIR), "weights", 2),
    ],
)
def test_parts(act: Callable[[], Any], field: str, value: Any) -> None:
    with pytest.raises(fp.InvalidInput) as caught:
        act()
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.rule is not None
