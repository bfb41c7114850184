"""Noise: the test set's, the training's, and what agents of one run share."""

from __future__ import annotations

import numpy as np

from fedpact.fitting.noise import excess_variance, sampling_variances, within_run_correlation


def test_sampling_variance_is_binomial_and_never_zero() -> None:
    sizes = np.array([1000.0, 1000.0, 1000.0])
    variances = sampling_variances(np.array([0.5, 0.9, 1.0]), sizes)
    np.testing.assert_allclose(variances[:2], [0.25 / 1000, 0.09 / 1000], rtol=0.01)
    assert variances[2] > 0
    np.testing.assert_array_equal(sampling_variances(np.array([0.5]), None), [0.0])


def test_excess_variance_is_found_again() -> None:
    rng = np.random.default_rng(0)
    sampling = rng.uniform(1e-5, 4e-4, 5000)
    residuals = rng.standard_normal(5000) * np.sqrt(sampling + 0.02**2)
    found = excess_variance(residuals, sampling, 5000.0)
    # A mean of 5000 squares has a relative standard error of 2 %; five of these.
    np.testing.assert_allclose(np.sqrt(found), 0.02, rtol=0.05)


def test_no_excess_variance_where_residuals_are_small_enough() -> None:
    assert excess_variance(np.full(10, 0.001), np.full(10, 1e-4), 8.0) == 0.0
    assert excess_variance(np.zeros(10), np.zeros(10), 8.0) == 0.0


def test_without_sampling_noise_it_is_the_mean_square() -> None:
    residuals = np.array([0.01, -0.02, 0.03, 0.0])
    np.testing.assert_allclose(excess_variance(residuals, np.zeros(4), 2.0), (residuals**2).sum() / 2.0, rtol=1e-4)


def test_correlation_within_runs_is_found_and_noise_is_not_taken_for_it() -> None:
    rng = np.random.default_rng(0)
    alone = rng.standard_normal((400, 5))
    together = np.sqrt(0.5) * alone + np.sqrt(0.5) * rng.standard_normal((400, 1))
    np.testing.assert_allclose(within_run_correlation(together), 0.5, atol=0.1)
    assert within_run_correlation(alone) < 0.05
    assert within_run_correlation(together[:2]) == 0.0  # too few pairs to say
    assert within_run_correlation(np.full((50, 3), np.nan)) == 0.0
    assert within_run_correlation(np.zeros((50, 3))) == 0.0
