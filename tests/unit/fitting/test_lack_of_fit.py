"""Curves that do not fit are said so, and make everything less sure; noise is not taken for misfit."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.lack_of_fit import Evidence
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


@pytest.fixture(scope="module")
def wrong() -> Lawful:
    """Runs of another law: logistic curves by class, label skew, four repeats, 20,000 test samples."""
    rng = np.random.default_rng(0)
    law = per_class_law(rng, 5)
    return Lawful.of(law, all_coalitions(5, (10.0, 60.0, 400.0), 4), rng, test_size=20_000)


def outlook(found: fp.Fit) -> fp.Outlook:
    """What is open about who stays."""
    federation = found.federation(costs=0.002, caps=400.0)
    return fp.compare(federation, [fp.ShapleyMechanism()], uncertainty=found.uncertainty()).uncertainty["shapley"]


@pytest.mark.slow
def test_another_law_ends_in_a_warning(wrong: Lawful) -> None:
    found = fp.fit(wrong.observations)
    judged = found.lack_of_fit
    assert judged.is_clear and judged.evidence is Evidence.REPEATS
    assert 6.0 < judged.times_sampling < 11.0
    true = wrong.law(wrong.contributions)
    off = float(np.sqrt(((found.predict(wrong.contributions) - true) ** 2).mean()))
    np.testing.assert_allclose(judged.misfit, off, rtol=0.1)
    assert found.training_noise < 0.1 * judged.misfit  # there is none
    assert found.quality.chi_square_per_degree > 30.0
    (warning,) = found.warnings
    assert warning.startswith("the curves do not fit: they miss the accuracies by 0.0")
    assert "repeats of the same runs agree with each other, not with the curves (p below 0.001)" in warning
    assert (
        "Another family (auto chooses one) or curves that members do not share (shared none) may fit better" in warning
    )


@pytest.mark.slow
def test_another_law_makes_probabilities_of_leaving_less_sure(wrong: Lawful, monkeypatch: pytest.MonkeyPatch) -> None:
    told = outlook(fp.fit(wrong.observations))
    monkeypatch.setattr("fedpact.fitting.estimate.doubt_factor", lambda errors, found: 1.0)
    before = outlook(fp.fit(wrong.observations))  # as if the misfit averaged out like noise
    sure = (before.leave_probabilities < 0.01) | (before.leave_probabilities > 0.99)
    assert sure.sum() >= 4
    assert not ((told.leave_probabilities < 0.01) | (told.leave_probabilities > 0.99)).any()
    assert (np.nanstd(told.ir_gaps, axis=0) > 4.0 * np.nanstd(before.ir_gaps, axis=0)).all()


def test_curves_that_fit_are_left_in_peace_with_repeats() -> None:
    rng = np.random.default_rng(0)
    given = random_coalitions(rng, 4, 40, 3)
    found = fp.fit(Lawful.of(power_law(rng, 4), given, rng, test_size=1000, noise=0.015).observations)
    assert found.warnings == ()
    assert found.lack_of_fit.pure_degrees >= 300
    np.testing.assert_allclose(found.training_noise, 0.015, atol=0.003)
    assert found.lack_of_fit.misfit < 0.006
    assert 0.8 < found.quality.chi_square_per_degree < 1.3


@pytest.mark.parametrize("law", [per_class_law, sigmoid_law])
def test_without_repeats_neighbours_tell(law) -> None:
    rng = np.random.default_rng(3)
    log = Lawful.of(law(rng, 4), random_coalitions(rng, 4, 80, 1), rng, test_size=2000, noise=0.01)
    found = fp.fit(log.observations)
    assert found.lack_of_fit.is_clear and found.lack_of_fit.evidence is Evidence.NEIGHBOURS
    off = float(np.sqrt(((found.predict(log.contributions) - log.law(log.contributions)) ** 2).mean()))
    np.testing.assert_allclose(found.lack_of_fit.misfit, off, rtol=0.4)
    assert "runs with similar contributions miss the curves alike" in found.warnings[0]


def test_what_cannot_be_known_is_said() -> None:
    found = fp.fit(planted(0, training_noise=0.03).observations)
    assert found.warnings == () and found.lack_of_fit.is_unknown
    note = next(note for note in found.notes if "times the error of the test sets" in note)
    assert "Without repeats nobody can tell, and the intervals take it for noise" in note


def test_residuals_that_the_test_sets_explain_need_no_word() -> None:
    found = fp.fit(planted(0).observations)
    assert found.warnings == () and not found.lack_of_fit.is_unknown
    assert not any("test sets" in note for note in found.notes)


def test_known_noise_shows_misfit_without_repeats() -> None:
    rng = np.random.default_rng(5)
    log = Lawful.of(sigmoid_law(rng, 3), random_coalitions(rng, 3, 30, 1), rng, test_size=2000, noise=0.01)
    judged = fp.fit(log.observations, training_noise=0.01).lack_of_fit
    assert judged.is_clear
    assert judged.misfit > 0.01
    true = fp.fit(planted(0, training_noise=0.02).observations, training_noise=0.02)
    assert not true.lack_of_fit.is_clear


def test_a_few_repeats_are_no_proof() -> None:
    """One pair of runs that happen to agree says little about the noise of all."""
    log = planted(1, n_agents=3, n_runs=30, training_noise=0.03)
    given, seen = np.vstack([log.contributions, log.contributions[:1]]), np.vstack([log.accuracies, log.accuracies[:1]])
    found = fp.fit(fp.Observations.of(given, seen, 1000))
    assert found.warnings == ()
    alone = fp.fit(log.observations)
    np.testing.assert_allclose(found.standard_errors["beta"], alone.standard_errors["beta"], rtol=0.6)


def test_lucky_runs_are_no_misfit() -> None:
    """All agents test one model: its luck is shared, and is noise all the same."""
    rng, alarms, count = np.random.default_rng(7), 0, cases(13)
    for _ in range(count):
        given = random_coalitions(rng, 4, 25, 2)
        true = power_law(rng, 4)(given) + 0.02 * rng.standard_normal((len(given), 1))
        seen = rng.binomial(1000, np.clip(true, 0.0, 1.0)) / 1000
        alarms += fp.fit(fp.Observations.of(given, seen, 1000)).lack_of_fit.is_clear
    assert alarms <= 1 + 0.05 * count


def test_more_runs_do_not_help_a_wrong_model() -> None:
    def errors(count: int) -> float:
        rng = np.random.default_rng(1)
        log = Lawful.of(sigmoid_law(rng, 3), random_coalitions(rng, 3, count, 2), rng, test_size=5000)
        found = fp.fit(log.observations)
        return float(np.median(found.prediction_errors(log.contributions)))

    assert errors(160) > 0.7 * errors(40)


def test_more_runs_help_a_right_one() -> None:
    def errors(count: int) -> float:
        rng = np.random.default_rng(1)
        log = Lawful.of(power_law(rng, 3), random_coalitions(rng, 3, count, 2), rng, test_size=5000)
        found = fp.fit(log.observations)
        return float(np.median(found.prediction_errors(log.contributions)))

    assert errors(160) < 0.7 * errors(40)


def test_prediction_errors_are_those_of_the_draws() -> None:
    found = fp.fit(planted(0).observations)
    given = found.observations.contributions[:20]
    draws = found.draws(2000, 0)
    reached = np.einsum("dij,rj->dri", draws.weights, given)
    accuracies = draws.floors[:, None] + draws.values[:, None] * (1.0 - (1.0 + reached) ** -draws.beta[:, None])
    np.testing.assert_allclose(found.prediction_errors(given), accuracies.std(axis=0), rtol=0.15)
    np.testing.assert_allclose(found.prediction_errors(given[0]), found.prediction_errors(given)[0], rtol=1e-12)
