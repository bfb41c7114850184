"""Cells as people write them are read."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.utils.tables import NumberFormat


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,234", "0,5"], [1.234, 0.5]),
        (["1,234", "0.5"], [1234.0, 0.5]),
        (["1.234.567,5", "12 345,6"], [1234567.5, 12345.6]),
        (["1,234,567", "-5 %", "+.5e-3"], [1234567.0, -0.05, 0.0005]),
    ],
)
def test_commas_are_what_the_file_says(cells: list[str], read: list[float]) -> None:
    written = NumberFormat.of(cells)
    np.testing.assert_allclose([written.number(cell) for cell in cells], read, rtol=1e-15)
