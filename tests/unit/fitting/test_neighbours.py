"""Smooth residuals are told from rough ones."""

from __future__ import annotations

import numpy as np

from fedpact.fitting.neighbours import smooth_part

RNG = np.random.default_rng(0)
GIVEN = np.exp(RNG.uniform(0.0, 6.0, (60, 2)))


def test_noise_is_not_smooth() -> None:
    p_values = [smooth_part(RNG.standard_normal((60, 3)), GIVEN).p_value(1.0) for _ in range(30)]
    assert np.mean(np.array(p_values) < 0.1) <= 0.2


def test_a_function_of_the_contributions_is() -> None:
    function = np.sin(np.log(GIVEN))
    found = smooth_part(np.sqrt(2.0) * function + RNG.standard_normal((60, 2)), GIVEN)
    assert found.p_value(1.0) < 1e-3
    assert 0.3 < found.share < 0.9
    assert smooth_part(function, GIVEN).share > 0.9


def test_missing_accuracies_are_left_out() -> None:
    numbers = np.sin(np.log(GIVEN)) + 0.3 * RNG.standard_normal((60, 2))
    numbers[RNG.random(numbers.shape) < 0.3] = np.nan
    assert smooth_part(numbers, GIVEN).p_value(1.0) < 1e-3


def test_too_few_runs_say_nothing() -> None:
    assert smooth_part(np.ones((5, 2)), GIVEN[:5]).p_value(1.0) == 1.0
    assert smooth_part(np.zeros((60, 2)), GIVEN).p_value(1.0) == 1.0


def test_resembling_agents_count_less() -> None:
    found = smooth_part(np.sin(np.log(GIVEN)) + RNG.standard_normal((60, 2)), GIVEN)
    assert found.p_value(4.0) > found.p_value(1.0)
