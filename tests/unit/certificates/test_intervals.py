"""Bisection on the bits of numbers, and the tangent's bound."""

from __future__ import annotations

import numpy as np

from fedpact.certificates.optimality import tangent_gains
from fedpact.certificates.shared_caps import WAYS_FROM_GUESS, best_contributions


def test_roots_of_every_size_are_found_to_the_last_digit() -> None:
    answers = np.array([1e-200, 1e-9, 0.3, 1.0, 7.0, 1e12, 1e200])
    found = best_contributions(lambda x: 1.0 - x / answers, np.full(answers.size, np.inf))
    np.testing.assert_allclose(found, answers, rtol=3e-16)


def test_a_guess_changes_nothing_but_the_time() -> None:
    answers, calls = np.array([1e-200, 1e-9, 0.3, 1.0, 7.0, 1e12, 1e200]), []

    def slope(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return 1.0 - x / answers

    upper = np.array([np.inf, np.inf, 0.3, 0.5, np.inf, np.inf, np.inf])
    right, without = best_contributions(slope, upper), len(calls)
    for guess in (right, right * (1.0 + 1e-12), np.zeros(answers.size), np.ones(answers.size), 10.0 * answers, upper):
        calls.clear()
        np.testing.assert_array_equal(best_contributions(slope, upper, guess=np.minimum(guess, 1e300)), right)
        assert len(calls) <= without + len(WAYS_FROM_GUESS)
        assert len(calls) <= 4 or guess is not right


def test_where_there_is_no_root_it_ends_at_a_bound() -> None:
    slopes = np.array([-1.0, 0.0, 1.0, 5.0, np.nan])
    upper = np.array([5.0, 5.0, 5.0, 0.0, 5.0])
    np.testing.assert_array_equal(best_contributions(lambda x: slopes, upper), [0.0, 0.0, 5.0, 0.0, 0.0])


def test_infinite_slopes_at_the_start_are_fine() -> None:
    """Below the floor of its domain an agent wants more at any price."""

    def slope(x: np.ndarray) -> np.ndarray:
        return np.where(x <= 2.0, np.inf, 1.0 / (x - 2.0) - 0.25)

    np.testing.assert_allclose(best_contributions(slope, np.array([np.inf])), 6.0, rtol=3e-16)


def test_the_tangent_bounds_the_gain_and_is_never_negative() -> None:
    here, upper = np.array([1.0, 1.0, 0.0, 2.0]), np.array([3.0, 3.0, 1.0, 2.0])
    gains = tangent_gains(here, np.array([0.5, -0.5, -1.0, 1.0]), upper)
    np.testing.assert_allclose(gains, [1.0, 0.5, 0.0, 0.0])
