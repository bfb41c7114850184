"""The picture of a fit."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from unit.fitting.planted import planted

pytest.importorskip("matplotlib")


def test_measured_against_fitted_and_a_curve_per_agent() -> None:
    found = fp.fit(planted(0, n_agents=4, n_runs=20).observations)
    figure = found.plot()
    first, *panels = [axes for part in figure.subfigs for axes in part.axes]
    dots = next(line for line in first.lines if line.get_marker() == "o")
    assert dots.get_xdata().size == 80
    np.testing.assert_allclose(dots.get_ydata()[0], found.observations.accuracies[0, 0])
    assert [panel.get_title(loc="left") for panel in panels[:4]] == list(found.names)
    figure.canvas.draw()


def test_outliers_are_marked_and_odd_names_written() -> None:
    log = planted(0, n_agents=1, n_runs=30)
    spoiled = log.accuracies.copy()
    spoiled[3, 0] = 0.0
    found = fp.fit(fp.Observations.of(log.contributions, spoiled, 1000, ["$\\broken^{math"]))
    figure = found.plot()
    marks = [line for line in figure.subfigs[0].axes[0].lines if line.get_marker() == "x"]
    assert marks
    assert 0.0 in marks[0].get_ydata()
    figure.canvas.draw()


def test_many_agents_show_the_first_six() -> None:
    found = fp.fit(planted(0, n_agents=8, n_runs=30).observations)
    right = found.plot().subfigs[1]
    assert len([axes for axes in right.axes if axes.get_title(loc="left")]) == 6
    assert "first 6 of 8 members" in right.get_supxlabel()
