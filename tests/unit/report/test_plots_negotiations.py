"""The picture of a negotiation shows its rounds, and who had to go when."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Deal
from fedpact.report.plots import new_figure, plot_negotiation
from fedpact.scenario import example


@pytest.fixture(scope="module")
def deal() -> Deal:
    return fp.negotiate(example("hospitals").federation)


def with_trace(deal: Deal, *events: dict[str, Any]) -> Deal:
    return replace(deal, provenance=replace(deal.provenance, trace=events))


def round_of(number: int, residual: float | None, welfare: float | None) -> dict[str, Any]:
    return {"event": "round", "round": number, "residual": residual, "welfare": welfare}


def test_every_round_is_drawn(deal: Deal) -> None:
    upper, lower = deal.plot().axes
    rounds = [event for event in deal.trace if event["event"] == "round"]
    assert upper.get_yscale() == "log"
    curve = lower.lines[1]
    np.testing.assert_array_equal(curve.get_xdata(), np.arange(1, len(rounds) + 1))
    np.testing.assert_array_equal(curve.get_ydata(), [event["welfare"] for event in rounds])
    np.testing.assert_array_equal(
        upper.lines[0].get_ydata(), np.maximum([event["residual"] for event in rounds], 1e-16)
    )


def test_rounds_count_on_where_somebody_had_to_go(deal: Deal) -> None:
    out = {"event": "excluded", "agent": "A $name$ " * 9, "reason": "silence"}
    figure = plot_negotiation(
        with_trace(deal, round_of(1, 1.0, 0.0), round_of(2, 0.1, 1.0), out, round_of(1, 1e-9, 0.8)),
        figure=new_figure(5, 4),
    )
    upper, lower = figure.axes
    np.testing.assert_array_equal(upper.lines[0].get_xdata(), [1, 2, 3])
    for panel in (upper, lower):
        assert [line.get_xdata()[0] for line in panel.lines if line.get_linestyle() == ":"] == [2.5]
    assert [text.get_text()[:15] for text in upper.get_legend().get_texts()] == ["without A \\$nam"]
    figure.savefig(BytesIO())


def test_rounds_that_went_too_far_are_gaps(deal: Deal) -> None:
    figure = plot_negotiation(with_trace(deal, round_of(1, None, None), round_of(2, 0.1, 1.0), round_of(3, 0.0, 1.0)))
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), [np.nan, 0.1, 1e-16])
    figure.savefig(BytesIO())


@pytest.mark.slow
def test_a_negotiation_without_a_single_good_round(deal: Deal) -> None:
    plot_negotiation(with_trace(deal, round_of(1, None, None))).savefig(BytesIO())
    plot_negotiation(with_trace(deal)).savefig(BytesIO())
