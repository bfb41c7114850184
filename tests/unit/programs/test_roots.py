"""The root of a falling function on [0, upper]."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.programs.roots import falling_root


@pytest.mark.parametrize("answer", [1e-200, 1e-9, 0.3, 1.0, 7.0, 1e12, 1e200])
@pytest.mark.parametrize("upper", [np.inf, 1e250])
def test_finds_roots_of_every_size(answer, upper):
    # A few units in the last place.
    assert falling_root(lambda x: 1.0 - x / answer, upper) == pytest.approx(answer, rel=4e-15)


def test_a_good_guess_does_not_matter_for_the_answer():
    roots = [falling_root(lambda x: 1.0 / (1.0 + x) - 0.1, np.inf, guess=guess) for guess in (1e-8, 1.0, 9.0, 1e8)]
    np.testing.assert_allclose(roots, 9.0, rtol=4e-15)


@pytest.mark.parametrize(
    ("slope", "upper", "answer"),
    [
        (lambda x: -1.0, 5.0, 0.0),
        (lambda x: -x, 5.0, 0.0),
        (lambda x: 1.0, 5.0, 5.0),
        (lambda x: 10.0 - x, 5.0, 5.0),
        (lambda x: 1.0, 0.0, 0.0),
    ],
)
def test_ends_at_a_bound_where_there_is_no_root(slope, upper, answer):
    assert falling_root(slope, upper) == answer


def test_infinite_slopes_at_the_start_are_fine():
    """Below the floor of its domain an agent wants more at any price."""
    assert falling_root(lambda x: np.inf if x <= 2.0 else 1.0 / (x - 2.0) - 0.25, np.inf) == pytest.approx(
        6.0, rel=1e-14
    )
