"""Bars in the cells of tables."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.explorer.charts import NumberLine, agent_bar, bar


class TestBars:
    def test_a_line_holds_zero_and_everything_finite(self):
        line = NumberLine.over([1.0, -3.0], [np.inf, np.nan])
        assert (line.low, line.high) == (-3.0, 1.0)
        assert line.at(-3.0) < line.at(0.0) < line.at(1.0)

    def test_a_line_of_nothing_is_still_a_line(self):
        assert NumberLine.over([]).at(0.0) == NumberLine.over([0.0, 0.0]).at(0.0) == NumberLine.over().at(0.0)

    def test_bars_are_proportional(self):
        line = NumberLine.over([0.0, 10.0])
        assert line.at(10.0) - line.at(0.0) == pytest.approx(2.0 * (line.at(5.0) - line.at(0.0)), abs=0.02)

    def test_nothing_has_no_bar(self):
        line = NumberLine.over([0.0, 10.0])
        assert "<rect" not in bar(line, 0.0, "gain", "none") + bar(line, np.nan, "gain", "none")
        assert "<rect" in bar(line, 1e-9, "gain", "tiny")

    def test_titles_and_names_are_escaped(self):
        line = NumberLine.over([1.0])
        row = agent_bar(line, "<b>", 1.0, "1", word="x")
        assert "<b>" not in row.picture + row.label
        assert "<title>&lt;b&gt;: 1</title>" in row.picture

    @pytest.mark.parametrize(("number", "css"), [(-1.0, "bar loss"), (1.0, "bar gain")])
    def test_bars_of_agents_have_the_colour_of_their_sign(self, number, css):
        line = NumberLine.over([-1.0, 1.0])
        assert css in agent_bar(line, "A", number, "1").picture
        assert "bar mech0" in agent_bar(line, "A", number, "1", css="mech0").picture
