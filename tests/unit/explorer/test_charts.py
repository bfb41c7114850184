"""Bars, curves and maps show their numbers where they are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpact.explorer.charts import (
    ChartLine,
    NumberLine,
    agent_bar,
    curve_chart,
    heat_cells,
    tick_marks,
    tick_texts,
    ticks,
)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_even_and_inside(low, width):
    high = low + width
    found = ticks(low, high)
    assert len(found) <= 8
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert all(low - slack <= tick <= high + slack for tick in found)
    if len(found) > 2 and width > 1e-9 * abs(low):
        np.testing.assert_allclose(np.diff(found), found[1] - found[0], rtol=1e-3)


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6))
def test_ticks_are_told_apart(low, width):
    texts = tick_texts(ticks(low, low + width))
    assert len(set(texts)) == len(texts)


def test_curves_are_lifted_where_there_is_no_number():
    points = np.array([0.0, 1.0, np.nan, 2.0, 3.0])
    made = curve_chart(np.arange(5.0), [ChartLine(label="a", points=points)], title="t", below="b")
    (path,) = re.findall(r'd="([^"]*)"', made)
    assert path.count("M") == 2 and path.count("L") == 2
    assert "nan" not in made


@pytest.mark.parametrize("points", [np.zeros(3), np.full(3, np.nan), np.array([np.inf, 1.0, 2.0])])
def test_odd_curves_can_be_drawn(points):
    lines = [ChartLine(label="a", points=points)]
    made = curve_chart(np.arange(3.0), lines, title="t", below="b", marker=1.0)
    assert "nan" not in made and "inf" not in made.replace("info", "")


def test_names_in_curves_are_escaped():
    made = curve_chart(np.array([0.0, 1.0]), [ChartLine(label="<b>", points=np.ones(2))], title="<i>", below="<u>")
    assert not re.search("<b>|<i>|<u>", made)


def test_maps_colour_by_sign_and_size():
    assert heat_cells(np.array([[-2.0, 0.0], [1.0, np.nan]])) == [
        (0, 1, "loss", 0.92),
        (1, 1, "gain", 0.0),
        (0, 0, "gain", 0.46),
        (1, 0, "none", 1.0),
    ]


def test_ticks_of_a_map_stand_at_the_middles_of_its_cells():
    marks = tick_marks(0.0, 4.0, cells=5)
    assert [text for _, text in marks] == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose([at for at, _ in marks], [10.0, 30.0, 50.0, 70.0, 90.0])
    np.testing.assert_allclose([at for at, _ in tick_marks(0.0, 4.0)], [0.0, 25.0, 50.0, 75.0, 100.0])


def test_a_line_holds_zero_and_everything_finite():
    line = NumberLine.over([1.0, -3.0], [np.inf, np.nan])
    assert (line.low, line.high) == (-3.0, 1.0)
    assert line.at(-3.0) < line.at(0.0) < line.at(1.0)
    assert NumberLine.over([]).at(0.0) == NumberLine.over([0.0, 0.0]).at(0.0)


def test_bars_are_proportional_coloured_by_sign_and_escaped():
    line = NumberLine.over([-10.0, 10.0])
    assert line.at(10.0) - line.at(0.0) == pytest.approx(2.0 * (line.at(5.0) - line.at(0.0)), abs=0.02)
    assert "<rect" not in agent_bar(line, "A", 0.0, "0").picture + agent_bar(line, "A", np.nan, "-").picture
    assert (
        "bar loss" in agent_bar(line, "A", -1.0, "1").picture and "bar gain" in agent_bar(line, "A", 1.0, "1").picture
    )
    row = agent_bar(line, "<b>", 1.0, "1", css="mech0", word="x")
    assert "bar mech0" in row.picture and "<title>&lt;b&gt;: 1</title>" in row.picture and "<b>" not in row.label
