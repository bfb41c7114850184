"""Fig. 3: its numbers agree with single solves, its judgements follow from the numbers, its picture shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import Sweep
from fedpact.paper import fig3
from fedpact.paper.results import Judgement

POINTS = 25  # steps of 0.25


@pytest.fixture(scope="module")
def result() -> fig3.Result:
    return fig3.fig3_result(POINTS)


def with_gaps(mechanism: str, change) -> Sweep:
    found = fig3.grid(POINTS)
    metrics = {name: dict(values) for name, values in found.metrics.items()}
    metrics[mechanism]["ir_gaps"] = change(metrics[mechanism]["ir_gaps"])
    return replace(found, metrics=metrics)


def test_every_judgement_is_the_one_known(result: fig3.Result) -> None:
    assert [found.statement for found in result.findings if not found.as_expected] == []
    assert len(result.findings) == 6


@pytest.mark.parametrize("place", [(0, 0), (0, 24), (24, 0), (24, 24), (12, 12), (13, 18)])
def test_the_grid_is_the_papers_instance(place: tuple[int, int]) -> None:
    """By single solves, from the matrix as the paper prints it."""
    axis = np.linspace(-3.0, 3.0, POINTS)
    w10, w01 = axis[place[0]], axis[place[1]]
    federation = fp.Federation(
        [[1.0, w01, 2.0], [w10, 1.0, 0.5], [1.0, 3.0, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02)
    )
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        gaps = fig3.grid(POINTS).metrics[mechanism.name]["ir_gaps"][place]
        np.testing.assert_allclose(gaps, mechanism.solve(federation).ir_gaps, rtol=1e-6, atol=1e-10)


def test_the_text_s_reading_exchanges_giver_and_receiver() -> None:
    axis = np.linspace(-3.0, 3.0, POINTS)
    w10, w01 = axis[16], axis[20]
    federation = fp.Federation(
        [[1.0, w10, 1.0], [w01, 1.0, 3.0], [2.0, 0.5, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02)
    )
    gaps = fig3.grid(POINTS, text_reading=True).metrics["shapley"]["ir_gaps"][16, 20]
    np.testing.assert_allclose(gaps, fp.ShapleyMechanism().solve(federation).ir_gaps, rtol=1e-6, atol=1e-10)


def test_judgements_follow_the_numbers() -> None:
    """Each is turned by numbers that say the opposite."""
    nobody_loses = with_gaps("shapley", np.abs)
    assert fig3._shapley_loses(nobody_loses).judgement is Judgement.NOT_CONFIRMED
    both_lose = with_gaps(
        "shapley", lambda gaps: np.stack([-np.abs(gaps[..., 0]), -np.abs(gaps[..., 1]), gaps[..., 2]], -1)
    )
    assert fig3._who_loses_where_all_help(both_lose).judgement is Judgement.CONFIRMED
    assert fig3._the_example(both_lose).judgement is Judgement.CONFIRMED
    one_loses = with_gaps("externality", lambda gaps: gaps - gaps.min())
    assert fig3._externality_keeps_all(one_loses).judgement is Judgement.NOT_CONFIRMED


def test_the_picture_has_a_map_per_mechanism_and_agent(result: fig3.Result) -> None:
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    figure = figure_class(figsize=result.size, layout="constrained")
    assert result.draw is not None
    result.draw(figure)
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert len(titles) == 6
    assert len(figure.legends) == 1
    assert "a coalition leaves the domain" in [text.get_text() for text in figure.legends[0].get_texts()]
