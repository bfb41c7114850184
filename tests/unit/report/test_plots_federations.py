"""Pictures: the bars are the numbers, labels can be read, nothing global changes, and every size can be drawn."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedpact import Comparison, Federation, MissingExtra, Outcome, PowerLaw, Standalone, compare
from fedpact.report.plots import plot_comparison, plot_federation, plot_outcome
from fedpact.report.plots.federations import MAX_NAMED, MAX_NAMED_WEIGHTS
from fedpact.report.plots.style import AMOUNT, BAD, GOOD
from old_hospitals import example, hospitals

ROUNDING = 1e-12  # of payoffs of the size of one: drawn as zero

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def hospital_comparison() -> Comparison:
    return compare(hospitals().federation)


@pytest.fixture(scope="module")
def harmful_comparison() -> Comparison:
    """One share is zero, so one ratio is infinite; under one baseline the Shapley values are undefined."""
    return compare(example("paper-w3").federation)


def paid(n_agents: int, *, caps: float = 400.0, names: list[str] | None = None) -> Outcome:
    """An outcome of any size with payments of both signs that takes no time."""
    weights = np.full((n_agents, n_agents), 0.1) + 0.9 * np.eye(n_agents)
    federation = Federation(weights, costs=0.001, caps=caps, payoff=PowerLaw(beta=0.02), names=names)
    outcome = replace(Standalone().solve(federation), rules=Together())
    return outcome.with_profile(outcome.contributions, np.linspace(-0.1, 0.1, n_agents))


class Together(Standalone):
    """What everybody has alone, shown as if they federated."""

    federated = True


def compared(*outcomes: Outcome) -> Comparison:
    return Comparison(
        federation=outcomes[0].federation, outcomes=outcomes, mechanisms={"standalone": Standalone()}, unsolved={}
    )


def bars(panel: Any) -> list[float]:
    return [bar.get_width() for bar in panel.patches]


def colours(panel: Any) -> list[str]:
    return [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in panel.patches]


def strokes(panel: Any) -> list[float]:
    """Where the upright strokes stand, top to bottom."""
    return [float(line[0, 0]) for collection in panel.collections for line in collection.get_segments()]


def y_texts(panel: Any) -> list[str]:
    return [label.get_text() for label in panel.get_yticklabels()]


def texts_apart(figure: Any, texts: list[Any]) -> None:
    """No two of the texts overlap, and none leaves the figure."""
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    for one, other in pairwise(boxes):
        assert not one.padded(-0.5).overlaps(other.padded(-0.5))
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


class TestFederation:
    def test_cells_are_the_weights_centred_at_zero(self) -> None:
        federation = example("paper-w3").federation
        (ax, _) = plot_federation(federation).axes
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), federation.weights)
        assert image.get_clim() == (-3.0, 3.0)
        assert [text.get_text() for text in ax.texts[:4]] == ["1", "0.1", "2", "−0.2"]

    def test_harm_is_orange_and_help_is_blue(self) -> None:
        image = plot_federation(example("paper-w3").federation).axes[0].images[0]
        harm, nothing, helped = image.cmap(image.norm(np.array([-3.0, 0.0, 3.0])))
        assert harm[0] > harm[2] and helped[2] > helped[0]
        np.testing.assert_allclose(nothing[:3], 0.97, atol=0.01)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_agents", [1, 5, MAX_NAMED_WEIGHTS])
    def test_names_do_not_overlap(self, n_agents: int) -> None:
        names = [f"The long name of agent number {agent}" for agent in range(n_agents)]
        figure = plot_federation(paid(n_agents, names=names).federation)
        texts_apart(figure, figure.axes[0].get_yticklabels())
        assert len(set(y_texts(figure.axes[0]))) == n_agents

    @pytest.mark.slow
    def test_many_agents_go_by_number(self) -> None:
        figure = plot_federation(paid(MAX_NAMED_WEIGHTS + 1).federation)
        figure.draw_without_rendering()
        assert "agent 0" not in y_texts(figure.axes[0])

    def test_draws_on_given_axes(self) -> None:
        given = matplotlib.figure.Figure()
        left, _ = given.subplots(1, 2)
        assert hospitals().federation.plot(ax=left) is given
        assert left.images


class TestOutcome:
    @pytest.mark.parametrize("mechanism", ["externality", "shapley"])
    def test_bars_are_the_numbers(self, hospital_comparison: Comparison, mechanism: str) -> None:
        outcome = hospital_comparison[mechanism]
        contributions, payments, gains = plot_outcome(outcome).axes
        np.testing.assert_allclose(bars(contributions), outcome.contributions)
        np.testing.assert_allclose(bars(payments), outcome.payments)
        np.testing.assert_allclose(bars(gains), outcome.ir_gaps, atol=ROUNDING)
        assert colours(gains) == [GOOD if gap >= 0 else BAD for gap in outcome.ir_gaps]
        assert strokes(contributions) == outcome.federation.caps.tolist()
        assert y_texts(contributions) == list(outcome.agents)

    def test_signs_are_written(self, hospital_comparison: Comparison) -> None:
        gains = plot_outcome(hospital_comparison["shapley"]).axes[2]
        assert [text.get_text()[0] for text in gains.texts] == ["+", "+", "+", "−", "−"]

    def test_the_headline_says_who_would_leave(self, hospital_comparison: Comparison) -> None:
        headline = plot_outcome(hospital_comparison["shapley"]).axes[0].get_title(loc="left")
        assert headline == "Shapley: welfare 2.962, Children's and Clinic would leave"

    def test_far_caps_are_told_but_do_not_flatten_the_bars(self, harmful_comparison: Comparison) -> None:
        contributions = plot_outcome(harmful_comparison["externality"]).axes[0]
        assert not strokes(contributions)
        assert contributions.get_xlabel() == "Contribution, caps beyond: 400"
        assert contributions.get_xlim()[1] < 40.0

    @pytest.mark.parametrize(
        ("caps", "words"),
        [
            ([20.0, 20.0, 20.0], "Contribution, | = cap"),
            ([20.0, 500.0, np.inf], "Contribution, | = cap, caps beyond: 500"),
            ([np.inf] * 3, "Contribution, no cap"),
            ([400.0, 500.0, 500.0], "Contribution, caps beyond: 400 to 500"),
        ],
    )
    def test_caps_in_words(self, caps: list[float], words: str) -> None:
        outcome = paid(3)
        federation = outcome.federation.replace(caps=caps)
        assert plot_outcome(replace(outcome, federation=federation)).axes[0].get_xlabel() == words

    def test_rounding_is_not_blown_up(self) -> None:
        outcome = paid(3)
        panel = plot_outcome(outcome.with_profile(outcome.contributions, [1e-17, -1e-17, 0.0])).axes[1]
        assert bars(panel) == [0.0] * 3
        assert [text.get_text() for text in panel.texts] == ["0"] * 3

    def test_nobody_contributes(self) -> None:
        outcome = paid(3)
        figure = plot_outcome(outcome.with_profile(np.zeros(3), np.zeros(3)))
        figure.draw_without_rendering()
        assert bars(figure.axes[0]) == [0.0] * 3

    @pytest.mark.slow
    @pytest.mark.parametrize("n_agents", [1, 2, 30, 31, MAX_NAMED])
    def test_names_do_not_overlap(self, n_agents: int) -> None:
        names = [f"The long name of agent number {agent}" for agent in range(n_agents)]
        figure = plot_outcome(paid(n_agents, names=names))
        texts_apart(figure, figure.axes[0].get_yticklabels())

    @pytest.mark.parametrize("n_agents", [MAX_NAMED + 1, 200])
    def test_many_agents_go_by_number(self, n_agents: int) -> None:
        outcome = paid(n_agents)
        figure = plot_outcome(outcome)
        contributions, payments, _ = figure.axes
        figure.draw_without_rendering()
        texts_apart(
            figure, [label for label in contributions.get_yticklabels() if 0 <= label.get_position()[1] < n_agents]
        )
        assert contributions.get_ylabel() == "member, by number"
        np.testing.assert_allclose(bars(payments), outcome.payments)

    def test_draws_on_a_given_figure_or_part_of_one(self, hospital_comparison: Comparison) -> None:
        whole = matplotlib.figure.Figure(layout="constrained")
        part, _ = whole.subfigures(2, 1)
        assert hospital_comparison["shapley"].plot(figure=part) is part
        assert len(whole.axes) == 3
        whole.draw_without_rendering()


class TestComparison:
    def test_bars_are_the_numbers(self, hospital_comparison: Comparison) -> None:
        panels = plot_comparison(hospital_comparison).axes
        for row, outcome in enumerate(hospital_comparison):
            contributions, payments, gains, benefits = panels[4 * row : 4 * row + 4]
            np.testing.assert_allclose(bars(contributions), outcome.contributions)
            np.testing.assert_allclose(bars(payments), outcome.payments)
            np.testing.assert_allclose(bars(gains), outcome.ir_gaps, atol=ROUNDING)
            np.testing.assert_allclose(bars(benefits), outcome.payoffs + outcome.payments)
            np.testing.assert_allclose(strokes(benefits), outcome.shapley_values)
            assert colours(benefits) == [BAD if ratio < 1 - 1e-6 else GOOD for ratio in outcome.reciprocity_ratios]

    def test_columns_share_their_scale(self, hospital_comparison: Comparison) -> None:
        panels = plot_comparison(hospital_comparison).axes
        for column in range(4):
            assert len({panel.get_xlim() for panel in panels[column::4]}) == 1

    def test_rows_are_titled(self, hospital_comparison: Comparison) -> None:
        panels = plot_comparison(hospital_comparison).axes
        assert [panel.get_title(loc="left") for panel in panels[::4]] == [
            "Externality: welfare 3.203, nobody would leave",
            "Shapley: welfare 2.962, Children's and Clinic would leave",
            "Fair: welfare 3.203, nobody would leave",
            "Voluntary: welfare 3.081, nobody would leave",
            "Standalone: welfare 2.729, nobody federates",
        ]

    def test_undefined_shares_are_said_to_be_so(self, harmful_comparison: Comparison) -> None:
        panel = plot_comparison(harmful_comparison).axes[4 * 3 + 3]
        assert panel.get_title(loc="right") == "Shapley shares undefined"
        assert not strokes(panel)
        assert set(colours(panel)) == {AMOUNT}

    @pytest.mark.slow
    @pytest.mark.parametrize("n_agents", [1, MAX_NAMED, 200])
    def test_names_and_headings_do_not_overlap(self, n_agents: int) -> None:
        names = [f"The long name of agent number {agent}" for agent in range(n_agents)]
        outcome = paid(n_agents, names=names)
        figure = plot_comparison(compared(outcome, outcome))
        figure.draw_without_rendering()
        shown = [label for label in figure.axes[0].get_yticklabels() if 0 <= label.get_position()[1] < n_agents]
        texts_apart(figure, shown)
        texts_apart(figure, [panel.xaxis.label for panel in figure.axes[-4:]])

    def test_nothing_to_compare(self, hospital_comparison: Comparison) -> None:
        figure = plot_comparison(replace(hospital_comparison, outcomes=()))
        assert figure.get_suptitle() == "No mechanism has an outcome"

    @pytest.mark.slow
    def test_draws_on_a_given_figure(self, hospital_comparison: Comparison) -> None:
        given = matplotlib.figure.Figure()
        assert hospital_comparison.plot(figure=given) is given
        assert len(given.axes) == 5 * 4


PICTURES: list[Callable[[Outcome], Any]] = [
    lambda outcome: outcome.federation.plot(),
    lambda outcome: outcome.plot(),
    lambda outcome: compared(outcome).plot(),
]


@pytest.mark.parametrize("draw", PICTURES)
class TestEveryPicture:
    @pytest.mark.slow
    def test_notebooks_get_a_png(self, draw: Callable[[Outcome], Any]) -> None:
        assert draw(paid(3))._repr_png_().startswith(b"\x89PNG")

    @pytest.mark.slow
    def test_can_be_pickled(self, draw: Callable[[Outcome], Any]) -> None:
        figure = draw(paid(3))
        again = pickle.loads(pickle.dumps(figure))
        assert type(again) is type(figure)
        assert again._repr_png_() == figure._repr_png_()

    def test_names_are_not_read_as_mathematics(self, draw: Callable[[Outcome], Any]) -> None:
        outcome = paid(3, names=["$\\frac{$", "a$b$", "two\nlines"])
        figure = draw(outcome.with_profile(outcome.contributions, [-0.1, -0.1, 0.2]))
        figure.draw_without_rendering()
        assert y_texts(figure.axes[0]) == ["$\\frac{$", "a$b$", "two lines"]

    def test_leaves_no_trace(self, draw: Callable[[Outcome], Any]) -> None:
        before = dict(matplotlib.rcParams)
        draw(paid(3))._repr_png_()
        assert dict(matplotlib.rcParams) == before
        pyplot = sys.modules.get("matplotlib.pyplot")
        assert pyplot is None or not pyplot.get_fignums()

    def test_without_matplotlib(self, draw: Callable[[Outcome], Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtra, match=r'^matplotlib is not installed: pip install "fedpact\[plot\]"$'):
            draw(paid(3))
