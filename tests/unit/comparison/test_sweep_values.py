"""The values of an axis: ranges, logarithmic ranges, lists."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact import InvalidInput
from fedpact.comparison.sweep_values import parse_values


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
        (" 0 : 1 : 3 ", [0.0, 0.5, 1.0]),
        ("1:-1:3", [1.0, 0.0, -1.0]),
        ("0.01:1:3:log", [0.01, 0.1, 1.0]),
        ("1:0.01:3: log ", [1.0, 0.1, 0.01]),
        ("1:2:2", [1.0, 2.0]),
        ("5", [5.0]),
        ("3,1,2", [3.0, 1.0, 2.0]),
        (" 1e-3 , .5 ", [0.001, 0.5]),
        ("10,inf", [10.0, np.inf]),
        ("-inf,0", [-np.inf, 0.0]),
        ("-1e308:1e308:3", [-1e308, 0.0, 1e308]),
    ],
)
def test_written_forms(written: str, values: list[float]) -> None:
    np.testing.assert_allclose(parse_values("x", written), values, rtol=1e-15)


def test_even_values_carry_no_rounding() -> None:
    """-0.9 + 3 x 0.3 is not zero in floating point; a weight of -1e-16 would be harm."""
    assert parse_values("x", "-0.9:0.9:7").tolist() == [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    grid = parse_values("x", "-3:3:121")
    assert [f"{value:.12g}" for value in grid] == [repr(value).removesuffix(".0") for value in grid.tolist()]
    assert not np.signbit(grid[60])
    assert not np.signbit(parse_values("x", "-0")[0])


def test_ends_are_exact() -> None:
    thirds = parse_values("x", "0.3333333333333333:0.6666666666666666:4")
    assert thirds[[0, -1]].tolist() == [0.3333333333333333, 0.6666666666666666]
    tiny = parse_values("x", "1e-320:3e-320:3")
    assert tiny[[0, -1]].tolist() == [1e-320, 3e-320]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0:1", "x: values cannot be '0:1'; write \"start:stop:count\""),
        ("0:1:2:lin", "x: values cannot be '0:1:2:lin'"),
        ("0:1:2:log:3", "x: values cannot be"),
        ("0:1:0", "x: the count must be a whole number from 1 to 1,000,000, got '0'"),
        ("0:1:-2", "the count must be a whole number"),
        ("0:1:2.5", "the count must be a whole number"),
        ("0:1:1000001", "the count must be a whole number"),
        ("0:1:" + "9" * 5000, "the count must be a whole number"),
        ("0:1:", "the count must be a whole number"),
        ("0:1:1", "a range needs two different ends and a count of at least 2, got '0:1:1'; a single value is"),
        ("2:2:3", "a single value is written alone, x=2"),
        ("0:inf:3", "a range needs finite ends, got '0:inf:3'; list the values instead"),
        ("0:1:3:log", "a logarithmic range needs positive ends, got '0:1:3:log'; leave out :log"),
        ("-1:1:3:log", "a logarithmic range needs positive ends"),
        ("a:1:3", "'a' is not a number"),
        ("1,,2", "x: '' is not a number"),
        ("1,2,", "'' is not a number"),
        ("one", "x: 'one' is not a number; write \"start:stop:count\""),
        ("1,nan", "values must be numbers, got 'nan'"),
        ("nan:1:3", "values must be numbers, got 'nan'"),
        ("1,2,1", "x: values must differ, got 1 more than once in '1,2,1'"),
        ("0,-0", "values must differ, got 0 more than once"),
        ("1:1.0000000000000002:5", "values must differ"),
    ],
)
def test_mistakes_are_told(written: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_values("x", written)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300
