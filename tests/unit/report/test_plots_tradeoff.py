"""The picture of what mechanisms trade off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from fedpact import Comparison, Money, compare
from old_hospitals import example


@pytest.fixture(scope="module")
def hospitals() -> Comparison:
    return compare(example("hospitals").federation)


def marks(axes) -> list:
    return [line for line in axes.lines if line.get_marker() == "o"]


def test_marks_are_welfare_and_lowest_share_filled_where_it_holds(hospitals: Comparison) -> None:
    (axes,) = hospitals.plot_tradeoff().axes
    drawn = marks(axes)
    assert len(drawn) == len(hospitals.outcomes)
    for outcome, mark in zip(hospitals, drawn, strict=True):
        np.testing.assert_allclose(mark.get_xdata(), [outcome.welfare])
        np.testing.assert_allclose(mark.get_ydata(), [100.0 * max(outcome.lowest_gain_share, 0.0)])
        filled = mark.get_markerfacecolor() == mark.get_markeredgecolor()
        assert filled == hospitals.holds_together(outcome.mechanism)
    assert [text.get_text() for text in axes.texts] == ["Externality", "Shapley", "Fair", "Voluntary", "Standalone"]


def test_welfare_is_in_money_where_there_is_money(hospitals: Comparison) -> None:
    (axes,) = hospitals.plot_tradeoff(money=Money(currency="EUR", per_payoff=1e6)).axes
    assert axes.get_xlabel() == "welfare, EUR"
    for outcome, mark in zip(hospitals, marks(axes), strict=True):
        np.testing.assert_allclose(mark.get_xdata(), [1e6 * outcome.welfare])
    axes.figure.draw_without_rendering()
    assert all("," in label.get_text() for label in axes.get_xticklabels())
    assert hospitals.plot_tradeoff().axes[0].get_xlabel() == "welfare, units of payoff"


@pytest.mark.parametrize("name", ["hospitals", "paper-w1", "paper-w2", "paper-w3"])
def test_labels_do_not_cover_each_other(name: str) -> None:
    figure = compare(example(name).federation).plot_tradeoff()
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_nothing_to_show_is_an_empty_picture(hospitals: Comparison) -> None:
    (axes,) = replace(hospitals, outcomes=()).plot_tradeoff().axes
    assert not marks(axes)


def test_many_are_numbered_with_a_key() -> None:
    figure = compare(example("hospitals").federation, "all").plot_tradeoff()
    figure.draw_without_rendering()
    *numbers, key = figure.axes[0].texts
    assert sorted(int(number) for text in numbers for number in text.get_text().split()) == list(range(1, 18))
    assert [line.split(maxsplit=1)[0] for line in key.get_text().splitlines()] == [str(n) for n in range(1, 18)]
    boxes = [text.get_window_extent() for text in numbers]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
