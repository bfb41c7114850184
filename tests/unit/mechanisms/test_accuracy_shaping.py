"""Accuracy shaping: no payments, and a model as good as one's costs have earned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import fedpact as fp
from fedpact.solvers.groups import standalone_optimum
from strategies import random_federations

EQUALS = fp.Federation(np.ones((4, 4)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))


@pytest.mark.parametrize("bonus", [0.0, 0.3])
def test_equals_contribute_what_the_closed_form_says(bonus: float) -> None:
    # (1 + e) (c s - c s0) = a(4 s) - a(s0), s0 the optimum alone: 0.02 (1 + s0)^-1.02 = 0.001.
    alone = (0.02 / 0.001) ** (1 / 1.02) - 1.0

    def left(s: float) -> float:
        return (1 + alone) ** -0.02 - (1 + 4 * s) ** -0.02 - (1 + bonus) * 0.001 * (s - alone)

    outcome = fp.AccuracyShaping(bonus=bonus).solve(EQUALS)
    np.testing.assert_allclose(outcome.contributions, brentq(left, alone, 400.0, xtol=1e-13), rtol=1e-10)
    np.testing.assert_allclose(outcome.payoffs, 1 - (1 + outcome.contributions.sum()) ** -0.02, rtol=1e-12)


def test_newton_steps_end_where_plain_iteration_does() -> None:
    for bonus in (0.0, 0.5):
        for federation in random_federations(401, 24, harm=False):
            found = fp.AccuracyShaping(bonus=bonus).solve(federation).contributions
            alone, had = standalone_optimum(federation)
            spent = federation.costs.value(alone)
            profile = alone
            for _ in range(400):  # spend what the others' data adds to the payoff, over 1 + e
                added = np.maximum(federation.payoffs(profile) - had - spent, 0.0)
                budget, linear, quadratic = (
                    spent + added / (1 + bonus),
                    federation.costs.linear,
                    federation.costs.quadratic,
                )
                bought = 2.0 * budget / (linear + np.sqrt(linear**2 + 4.0 * quadratic * budget))
                profile = np.minimum(bought, federation.caps)
            others = federation.data(profile) > federation.arrays.own_data(profile)  # nobody helps it: its own optimum
            np.testing.assert_allclose(found[others], profile[others], rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(found[~others], alone[~others], rtol=1e-9)


def test_at_a_vanishing_bonus_everybody_has_what_it_has_alone() -> None:
    for federation in random_federations(402, 24, harm=False):
        outcome = fp.AccuracyShaping().solve(federation)
        np.testing.assert_allclose(outcome.utilities, outcome.standalone, rtol=1e-7, atol=1e-10)
        assert all(outcome.certificates[claim].holds for claim in fp.AccuracyShaping().promises(federation))
        whole = federation.payoffs(outcome.contributions)
        assert (outcome.payoffs <= whole + 1e-12).all()


def test_no_deal_without_payments_that_keeps_everybody_has_more_data() -> None:
    """Karimireddy et al. 2022: it is data-maximal. Profiles under which all do as well as alone, drawn at random."""
    rng, kept = np.random.default_rng(403), 0
    for federation in random_federations(404, 24, harm=False):
        most = fp.AccuracyShaping().solve(federation).contributions
        alone, had = standalone_optimum(federation)
        for _ in range(40):
            tried = np.minimum(
                alone + rng.uniform(0.0, 1.2, most.size) * np.maximum(most - alone, 1e-3), federation.caps
            )
            stays = federation.payoffs(tried) - federation.costs.value(tried) >= had
            if stays.all():
                kept += 1
                assert (tried <= most * (1 + 1e-9) + 1e-12).all()
    assert kept > 10


def test_less_than_the_bonus_draws_out_is_no_equilibrium() -> None:
    right = fp.AccuracyShaping().solve(EQUALS)
    alone = standalone_optimum(EQUALS)[0]
    for part in (0.0, 0.5, 0.999):
        less = fp.AccuracyShaping().outcome_at(EQUALS, alone + part * (right.contributions - alone))
        assert less.certificates["nash"].verdict == "violated"
    more = fp.AccuracyShaping().outcome_at(EQUALS, 1.001 * right.contributions)
    assert more.certificates["nash"].verdict == "violated"


def test_what_is_held_back_reaches_files_and_checks(tmp_path) -> None:
    outcome = fp.AccuracyShaping().solve(EQUALS.replace(caps=np.full(4, 20.0)))
    assert (outcome.payoffs < EQUALS.payoffs(outcome.contributions) - 1e-3).all()
    outcome.deal.save(tmp_path / "deal.json")
    again = fp.AccuracyShaping().outcome_of(fp.load_deal(tmp_path / "deal.json"), outcome.federation)
    np.testing.assert_array_equal(again.payoffs, outcome.payoffs)
    assert not fp.settle(outcome).transfers


@pytest.mark.parametrize("bonus", [-0.1, float("inf"), float("nan")])
def test_a_bonus_out_of_range(bonus: float) -> None:
    with pytest.raises(fp.InvalidInput, match="bonus must be at least zero"):
        fp.AccuracyShaping(bonus=bonus)
