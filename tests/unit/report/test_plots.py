"""Pictures of results: marks, cells and curves are the numbers; names are read as they are; one pair of axes each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Deal, Outcome
from fedpact.report.plots.results import MAX_NAMED, plot_negotiation
from fedpact.scenario import example
from unit.fitting.planted import planted

matplotlib = pytest.importorskip("matplotlib")


def paid(n_agents: int, names: list[str] | None = None) -> Outcome:
    """A deal in which the last member pays all others."""
    federation = fp.Federation(
        np.eye(n_agents) + 0.1, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02), names=names
    )
    payments = np.append(np.full(n_agents - 1, 1.0), 1.0 - n_agents)
    return fp.ExternalityMechanism().solve(federation).with_profile(np.full(n_agents, 10.0), payments)


def compared(outcome: Outcome) -> fp.Comparison:
    return fp.compare(outcome.federation, ["externality"])


def marks(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def y_texts(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_marks_of_a_deal_and_of_mechanisms_are_the_numbers() -> None:
    comparison = fp.compare(example("hospitals").federation)
    deal = comparison["externality"]
    (ax,) = deal.plot().axes
    np.testing.assert_allclose(marks(ax)["is paid"].get_xdata(), deal.payments)
    np.testing.assert_allclose(marks(ax)["gains over standing alone"].get_xdata(), deal.ir_gaps)
    assert "nobody would leave" in ax.get_title(loc="left") and y_texts(ax) == list(deal.agents)
    (ax,) = comparison.plot().axes
    assert list(marks(ax)) == ["Externality", "Shapley", "Fair", "Voluntary"]
    np.testing.assert_allclose(marks(ax)["Shapley"].get_xdata(), comparison["shapley"].ir_gaps)
    assert replace(comparison, outcomes=()).plot().axes[0].get_title(loc="left") == "No mechanism has an outcome"


def test_rounding_is_not_blown_up() -> None:
    """Payments that are rounding to the certificates are zero."""
    outcome = paid(3)
    (ax,) = outcome.with_profile(outcome.contributions, [1e-17, 0.0, -1e-17]).plot().axes
    assert not marks(ax)["is paid"].get_xdata().any()


def test_many_members_go_by_number() -> None:
    (ax,) = paid(MAX_NAMED + 1).plot().axes
    assert ax.get_ylabel() == "member, by number" and "agent 1" not in y_texts(ax)


def test_weights_are_cells_centred_at_zero() -> None:
    federation = example("hospitals-lots").federation
    (image,) = federation.plot().axes[0].images
    np.testing.assert_array_equal(image.get_array(), federation.weights)
    assert image.norm(0.0) == pytest.approx(0.5)
    red, _, blue, _ = image.cmap(0.25)
    assert red > blue, "harm is orange"


def test_measured_against_fitted() -> None:
    log = planted(0, n_agents=1, n_runs=30)
    spoiled = log.accuracies.copy()
    spoiled[3, 0] = 0.0
    (ax,) = fp.fit(fp.Observations.of(log.contributions, spoiled, 1000, ["$\\broken^{math"])).plot().axes
    dots, far = (next(line for line in ax.lines if line.get_marker() == mark) for mark in ("o", "x"))
    assert dots.get_xdata().size + far.get_xdata().size == 30 and 0.0 in far.get_ydata()
    ax.figure.canvas.draw()


def negotiated(*events: dict[str, Any]) -> Deal:
    deal = fp.negotiate(example("hospitals").federation)
    return replace(deal, provenance=replace(deal.provenance, trace=events)) if events else deal


def test_every_round_of_a_negotiation_is_drawn() -> None:
    deal = negotiated()
    (ax,) = deal.plot().axes
    residuals = [event["residual"] for event in deal.trace if event["event"] == "round"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.maximum(residuals, 1e-16))
    assert ax.get_yscale() == "log"


def test_who_had_to_go_is_marked_and_rounds_that_went_too_far_are_gaps() -> None:
    out = {"event": "excluded", "agent": "A $name$ " * 9, "reason": "silence"}
    rounds = [{"event": "round", "round": 1, "residual": residual} for residual in (0.1, None, 0.2)]
    figure = plot_negotiation(negotiated(rounds[0], out, *rounds[1:]))
    (ax,) = figure.axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.1, np.nan, 0.2])
    assert ax.lines[1].get_xdata()[0] == 1.5 and "without A" in marks(ax)[ax.lines[1].get_label()].get_label()
    figure.draw_without_rendering()


DRAWN: list[Callable[[Outcome], Any]] = [
    lambda outcome: outcome.federation.plot(),
    lambda outcome: outcome.plot(),
    lambda outcome: compared(outcome).plot(),
]


@pytest.mark.parametrize("draw", DRAWN)
class TestEveryPicture:
    def test_names_are_not_read_as_mathematics(self, draw: Callable[[Outcome], Any]) -> None:
        figure = draw(paid(3, names=["$\\frac{$", "a$b$", "two\nlines"]))
        figure.draw_without_rendering()
        assert y_texts(figure.axes[0]) == ["$\\frac{$", "a$b$", "two lines"]

    def test_leaves_no_trace(self, draw: Callable[[Outcome], Any]) -> None:
        before = dict(matplotlib.rcParams)
        assert draw(paid(3))._repr_png_().startswith(b"\x89PNG")
        assert dict(matplotlib.rcParams) == before
        pyplot = sys.modules.get("matplotlib.pyplot")
        assert pyplot is None or not pyplot.get_fignums()

    def test_without_matplotlib(self, draw: Callable[[Outcome], Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(
            fp.MissingExtra, match=r'^matplotlib is not installed: pip install "\.\[plot\]" in a clone of fedpact'
        ):
            draw(paid(3))


def test_draws_on_given_axes() -> None:
    figure = matplotlib.figure.Figure()
    left, right = figure.subplots(1, 2)
    assert paid(3).plot(ax=left) is figure and paid(3).federation.plot(ax=right) is figure
    assert left.lines and right.images
