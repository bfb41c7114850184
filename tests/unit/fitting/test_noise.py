"""Variances of measured accuracies."""

from __future__ import annotations

import numpy as np

from fedpact.fitting.lack_of_fit import excess_variance, sampling_variances


def test_test_sets_of_all_right_or_all_wrong_are_not_certain() -> None:
    found = sampling_variances(np.array([0.0, 0.5, 1.0]), np.full(3, 100.0))
    np.testing.assert_allclose(found[1], 0.0025)
    assert (found > 0).all()
    assert not sampling_variances(np.array([0.5]), None).any()


def test_variance_beyond_the_known_is_found() -> None:
    rng = np.random.default_rng(0)
    known = np.full(20_000, 0.01**2)
    residuals = np.sqrt(known + 0.03**2) * rng.standard_normal(known.size)
    np.testing.assert_allclose(np.sqrt(excess_variance(residuals, known, known.size)), 0.03, rtol=0.03)
    assert excess_variance(0.5 * np.sqrt(known), known, known.size) == 0.0
