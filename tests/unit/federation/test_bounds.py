"""How much a maximiser can spend: found in few evaluations, and right at every scale."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fedpact.federation.bounds import largest_spending


@pytest.mark.parametrize("worth", [lambda s, a, b: -a * np.expm1(-b * s), lambda s, a, b: a * np.log1p(b * s)])
def test_spending_bounds_are_the_powers_found_one_by_one(worth):
    rng = np.random.default_rng(5)
    a, b = 10 ** rng.uniform(-40, 40, 60) * (rng.random(60) < 0.8), 10 ** rng.uniform(-30, 30, 60)
    asked = 0

    def count(spending):
        nonlocal asked
        asked += 1
        return worth(spending, a, b)

    found = largest_spending(count, 60)
    for place, bound in enumerate(found):
        buys = partial(worth, a=a[place], b=b[place])
        assert (bound == 0) == (a[place] * b[place] <= 1), "its first unit must pay"
        assert bound == 0 or (buys(bound) < bound and buys(bound / 2) >= bound / 2)
    assert asked < 60, "not one for every power of two"


def test_spending_without_an_end_is_the_largest_number():
    assert largest_spending(lambda spending: 1e308 * spending, 1).tolist() == [2.0**1023]
