"""Which number, if wrong, changes the deal first: held against solving the federation with that number changed."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.sensitivity import STEADY, Variation, vary
from random_cases import cases

WEIGHTS = [[1.0, 0.6, 0.4, -0.15], [0.7, 1.0, 0.3, -0.05], [0.8, 0.5, 1.0, 0.02], [0.5, 0.4, 0.2, 1.0]]
NAMES = ["Nord", "Sued", "Tal", "Berg"]


def banks(**changes: object) -> fp.Federation:
    given = {
        "costs": [900.0, 1500.0, 2000.0, 800.0],
        "caps": [400.0, 150.0, 20.0, 60.0],
        "values": [4e6, 3e6, 8e5, 1.2e6],
        "payoff": fp.PowerLaw(beta=0.25),
        "names": NAMES,
    }
    return fp.Federation(WEIGHTS, **(given | changes))


def idle(federation: fp.Federation) -> list[bool]:
    return (fp.ExternalityMechanism().solve(federation).contributions <= 0).tolist()


def test_the_amount_at_which_somebody_contributes() -> None:
    """Nord's cap: a little above the amount found Sued contributes nothing, a little below it does."""
    compared = fp.compare(banks())
    found = compared.sensitivity
    assert (found.kind, found.member) == ("cap", "Nord")
    cap = 400.0 * found.factor
    assert idle(banks(caps=[cap * 1.002, 150.0, 20.0, 60.0])) == idle(banks()) == [False, True, True, True]
    assert idle(banks(caps=[cap * 0.998, 150.0, 20.0, 60.0])) == [False, False, True, True]
    said = f"if Nord's cap were 15 % less ({cap:.4g} instead of 400), Sued would contribute too."
    assert compared.advice[-1].endswith(said)


def test_nothing_smaller_changes_who_contributes() -> None:
    """Every other number of every member, a tenth larger and smaller, leaves the deal as it is."""
    federation, found = banks(), fp.compare(banks()).sensitivity
    assert abs(np.log(found.factor)) > np.log(1.1)
    for member in range(4):
        for label in ("costs", "caps", "values"):
            numbers = np.array(federation.costs.linear if label == "costs" else getattr(federation, label))
            for factor in (1.1, 1 / 1.1):
                varied = numbers.copy()
                varied[member] *= factor
                assert idle(federation.replace(**{label: varied})) == idle(federation)


def test_who_should_be_in_depends_on_it() -> None:
    compared = fp.compare(banks(home="all", joining_costs=[5e3, 5e3, 5e3, 1e5]))
    found = compared.sensitivity
    assert compared.recommendation.out == ("Berg",)
    assert (found.kind, found.member) == ("value", "Berg")
    for factor, members in ((1.005, 4), (0.995, 3)):
        values = [4e6, 3e6, 8e5, 1.2e6 * found.factor * factor]
        varied = banks(home="all", joining_costs=[5e3, 5e3, 5e3, 1e5], values=values)
        assert len(fp.best_members(varied).members) == members
    assert "the best federation would be Nord, Sued, Tal and Berg" in found.sentence


def test_a_deal_that_no_single_number_changes() -> None:
    """Two alike, with tight caps: at half and double of every number both bring all they have."""
    pair = fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=1e-4, caps=5.0, payoff=fp.PowerLaw(beta=0.3), home="all")
    compared = fp.compare(pair)
    assert compared.sensitivity.sentence == STEADY and compared.sensitivity.kind == ""


def test_it_is_not_worked_out_where_nothing_is_recommended() -> None:
    assert fp.compare(banks(), ["standalone"]).sensitivity is None
    one = fp.Federation([[1.0]], costs=0.01, payoff=fp.PowerLaw(beta=0.1))
    assert fp.compare(one).sensitivity is None


@pytest.mark.slow
def test_the_numbers_of_a_members_lots_vary_together() -> None:
    """Two halves of a lot are as the whole."""
    whole = banks()
    weights = np.column_stack([np.array(WEIGHTS)[:, 0], WEIGHTS])
    split = fp.Federation(
        weights,
        costs=[900.0, 900.0, 1500.0, 2000.0, 800.0],
        caps=[200.0, 200.0, 150.0, 20.0, 60.0],
        values=whole.values,
        payoff=whole.payoff,
        names=NAMES,
        lot_owners=["Nord", *NAMES],
        task_owners=NAMES,
        lot_names=["one", "two", "data", "data", "data"],
    )
    found = fp.compare(split, ["externality"]).sensitivity
    assert (found.kind, found.member) == ("cap", "Nord")
    assert found.factor == pytest.approx(fp.compare(whole, ["externality"]).sensitivity.factor, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(cases(4)))
def test_the_change_is_one_and_a_smaller_one_of_the_same_number_is_none(seed: int) -> None:
    """Random federations with harm and joining costs: what people would see changes at the factor, and not before."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(-0.2, 1.0, (4, 4))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(
        weights,
        costs=rng.uniform(0.5, 2.0, 4) * 1e-3,
        caps=rng.uniform(10.0, 100.0, 4),
        values=rng.uniform(0.5, 2.0, 4),
        payoff=fp.PowerLaw(beta=0.3),
        home="all",
        joining_costs=rng.uniform(0.0, 0.02, 4),
    )
    compared = fp.compare(federation)
    found = compared.sensitivity
    if not found or not found.kind:
        return

    def shown(factor: float) -> tuple[object, ...]:
        varied = federation.with_arrays(vary(federation, [Variation(found.kind, found.member, factor)]).at(0))
        again = fp.compare(varied)
        outcome = again.recommended_outcome
        idle = () if outcome is None else tuple((outcome.contributions <= 1e-9 * outcome.contributions.max()).tolist())
        return tuple(again.recommendation.out), idle

    now, step = shown(1.0), 1.0 + 5e-3 * np.sign(found.factor - 1.0)
    assert shown(found.factor / step) == now != shown(found.factor * step)
