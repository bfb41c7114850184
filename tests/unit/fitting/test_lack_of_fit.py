"""Curves are judged on runs left out, beside plain rules; what they miss makes everything less sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.lack_of_fit import folds
from random_cases import cases
from unit.fitting.planted import (
    Lawful,
    all_coalitions,
    per_class_law,
    planted,
    power_law,
    random_coalitions,
    sigmoid_law,
)

SHAPES = {
    "power-law": lambda reached: 1.0 - (1.0 + reached) ** -0.3,
    "exponential": lambda reached: 1.0 - np.exp(-reached),
    "michaelis": lambda reached: reached / (1.0 + reached),
}


def observations(family: str) -> fp.Observations:
    rng = np.random.default_rng(1)
    weights = 0.02 * rng.uniform(0.2, 1.2, (3, 3)) + 0.01 * np.eye(3)
    given = random_coalitions(rng, 3, 60, 1)
    seen = rng.binomial(2000, 0.1 + 0.8 * SHAPES[family](given @ weights.T)) / 2000
    return fp.Observations.of(given, seen, 2000)


def lawful(law, seed: int, count: int, repeats: int, *, noise: float = 0.01) -> Lawful:
    rng = np.random.default_rng(seed)
    return Lawful.of(law(rng, 4), random_coalitions(rng, 4, count, repeats), rng, test_size=2000, noise=noise)


def test_right_curves_beat_both_plain_rules() -> None:
    found = fp.fit(planted(0).observations)
    judged = found.lack_of_fit
    assert judged.error < 0.3 * min(judged.nearest_run, judged.log_linear)
    assert found.is_recommended and found.warnings == ()
    # Runs left out are missed by the noise of their test sets, and a little.
    assert 1.0 < judged.error / np.sqrt(found.sampling.mean()) < 1.3


@pytest.mark.parametrize(
    ("law", "rule"),
    [
        (lambda given: np.where(given[:, 1:] > 50.0, 0.8, 0.3) + 0.0 * given, "the nearest run"),
        (lambda given: 0.9 - 0.2 * np.log1p(given[:, :1] / 18.0) + 0.0 * given, "a log-linear regression"),
    ],
    ids=["steps", "falling"],
)
def test_curves_that_do_not_beat_a_plain_rule_are_not_recommended(law, rule: str) -> None:
    rng = np.random.default_rng(0)
    given = np.repeat(all_coalitions(2, (10.0, 30.0, 100.0, 300.0), 1), 2, axis=0)
    given = given * np.exp(0.1 * rng.standard_normal(given.shape))
    found = fp.fit(Lawful.of(law, given, rng, test_size=5000).observations)
    assert not found.is_recommended
    (warning,) = found.warnings
    assert warning.startswith("the curves do not fit: on runs left out they miss the accuracies by 0.")
    assert rule in warning and "this fit is not recommended" in warning
    assert "Another family (auto chooses one) or curves that members do not share (shared none)" in warning


@pytest.mark.parametrize("law", [per_class_law, sigmoid_law])
@pytest.mark.parametrize("repeats", [1, 2])
def test_what_neighbouring_runs_miss_alike_is_misfit(law, repeats: int) -> None:
    log = lawful(law, 3, 80 // repeats, repeats)
    found = fp.fit(log.observations)
    off = float(np.sqrt(((found.predict(log.contributions) - log.law(log.contributions)) ** 2).mean()))
    np.testing.assert_allclose(found.lack_of_fit.misfit, off, rtol=0.4)
    assert any("runs with similar contributions miss the curves alike" in note for note in found.notes)
    certain = replace(found, doubt=1.0)
    assert found.standard_errors["beta"] > 1.5 * certain.standard_errors["beta"]


def test_noise_is_no_misfit() -> None:
    """With repeats or without, and where the luck of a run is shared by all that test its model."""
    rng, alarms, count = np.random.default_rng(7), 0, cases(24, few=8)
    for trial in range(count):
        given = random_coalitions(rng, 4, 25, 1 + trial % 2)
        true = power_law(rng, 4)(given) + 0.02 * rng.standard_normal((len(given), 1 if trial % 3 else 4))
        seen = rng.binomial(1000, np.clip(true, 0.0, 1.0)) / 1000
        alarms += fp.fit(fp.Observations.of(given, seen, 1000)).lack_of_fit.misfit > 0.0
    assert alarms <= 1 + 0.05 * count


@pytest.mark.parametrize(("law", "helps"), [(sigmoid_law, False), (power_law, True)])
def test_more_runs_help_a_right_model_only(law, helps: bool) -> None:
    few, many = (
        float(np.median(fp.fit(log.observations).prediction_errors(log.contributions)))
        for log in (lawful(law, 1, count, 2, noise=0.0) for count in (40, 160))
    )
    assert (many < 0.7 * few) == helps


def test_prediction_errors_are_those_of_the_draws() -> None:
    found = fp.fit(planted(0).observations)
    given = found.observations.contributions[:20]
    drawn = found.parameter_draws(2000, np.random.default_rng(0))
    reached = np.einsum("dij,rj->dri", found.model.weights(drawn), given)
    log_beta, floors, ceilings = np.moveaxis(found.model.curves(drawn)[:, None], -1, 0)
    accuracies = floors + (ceilings - floors) * (1.0 - (1.0 + reached) ** -np.exp(log_beta))
    np.testing.assert_allclose(found.prediction_errors(given), accuracies.std(axis=0), rtol=0.15, atol=1e-6)
    np.testing.assert_allclose(found.prediction_errors(given[0]), found.prediction_errors(given)[0], rtol=1e-12)


@pytest.mark.parametrize("family", SHAPES)
def test_the_family_that_predicts_unseen_runs_best_is_the_right_one(family: str) -> None:
    found = fp.fit(observations(family), family="auto")
    assert family in {found.family, *found.families.as_good}
    assert found.families.errors[found.family] == min(found.families.errors.values()) == found.lack_of_fit.error
    assert set(found.families.errors) == set(SHAPES)
    assert 0.008 < found.lack_of_fit.error < 0.02
    if family == "exponential":
        assert found.families.errors["michaelis"] > 1.5 * found.families.errors["exponential"]


def test_families_that_cannot_be_told_apart_are_named() -> None:
    found = fp.fit(planted(0, n_agents=2, n_runs=12, largest=20.0).observations, family="auto")
    assert found.families.as_good
    assert any("cannot tell" in note and found.families.as_good[0] in note for note in found.notes)


def test_repeats_are_left_out_together() -> None:
    """Otherwise a fold would predict runs that it has seen."""
    groups = np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 7])
    found = folds(groups)
    assert all(len(set(found[groups == group])) == 1 for group in range(8))
    assert len(set(found)) == 5


def test_one_kind_of_run_tells_nothing() -> None:
    seen = fp.Observations.of([[10.0, 5.0]] * 3, [[0.4, 0.3]] * 3, 1000)
    with pytest.raises(fp.InvalidInput, match="family auto needs runs with different contributions"):
        fp.fit(seen, family="auto")
    found = fp.fit(seen)
    assert not found.is_recommended
    assert "there are no two different runs, so nothing says whether the curves fit" in found.notes
