"""Round numbers on axes, and labels moved apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedpact.explorer.charts import spread_labels

PLACES = st.lists(st.floats(0.0, 100.0), max_size=8)
GAP, ROUNDING = 10.0, 1e-9


@given(PLACES)
def test_spread_labels_are_apart_in_order_and_on_the_side(places: list[float]) -> None:
    found = spread_labels(places, gap=GAP, end=100.0)
    order = np.argsort(places, kind="stable")
    apart = np.diff(np.array(found)[order])
    assert (apart >= GAP - ROUNDING).all()
    assert all(-ROUNDING <= place <= 100.0 + ROUNDING for place in found)
