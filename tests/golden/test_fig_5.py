"""Fig. 5: the zero crossings, and what the paper says of the signs around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper import fig5
from fedpact.paper.fig5 import INCOMING, Panel, four_agents, panel
from fedpact.paper.results import Judgement, Result

# The paper's instance: beta = 0.5, gamma = (0.1, 0.3, 0.3, 0.3), tau = 3.
SHAPLEY_CROSSINGS = {-0.1: -0.067252, 0.0: 0.0, 0.1: 0.050357}
FEW = 14  # steps of 0.1


@pytest.fixture(scope="module")
def panels() -> list[Panel]:
    return [panel(incoming, FEW) for incoming in INCOMING]


@pytest.fixture(scope="module")
def result() -> Result:
    return fig5.fig5_result(FEW)


def test_the_instance_is_the_paper_s() -> None:
    federation = four_agents(-0.1, 0.25)
    expected = [[1, -0.1, -0.1, -0.1], [0.25, 1, 1, 1], [0.25, 1, 1, 1], [0.25, 1, 1, 1]]
    np.testing.assert_array_equal(federation.weights, expected)
    np.testing.assert_array_equal(federation.costs.linear, [0.1, 0.3, 0.3, 0.3])
    np.testing.assert_array_equal(federation.caps, 3.0)
    np.testing.assert_array_equal(federation.payoff.beta, 0.5)
    np.testing.assert_array_equal(federation.values, 1.0)


@pytest.mark.parametrize("place", range(3))
def test_crossings(panels: list[Panel], place: int) -> None:
    each = panels[place]
    np.testing.assert_allclose(each.crossings["externality"], [0.0], atol=1e-8)
    np.testing.assert_allclose(each.crossings["shapley"], [SHAPLEY_CROSSINGS[each.incoming]], atol=1e-6)


def gain_by_hand(incoming: float, outgoing: float) -> float:
    """Agent 0's gain under M^Shap by the paper's own route: best responses, then Shapley values by enumeration."""
    federation = four_agents(incoming, outgoing)
    profile = fp.best_response_dynamics(federation).contributions
    share = fp.shapley_values(federation, profile, method="enumeration").values[0]
    alone = (0.5 / 0.1) ** (1 / 1.5) - 1
    return float(share - 0.1 * profile[0] - (1 - (1 + alone) ** -0.5 - 0.1 * alone))


@pytest.mark.parametrize("incoming", INCOMING)
def test_crossings_by_another_route(incoming: float) -> None:
    place = SHAPLEY_CROSSINGS[incoming]
    assert abs(gain_by_hand(incoming, place)) < 2e-6
    assert gain_by_hand(incoming, place - 0.01) < -1e-3
    assert gain_by_hand(incoming, place + 0.01) > 1e-3


def test_proposition_1_holds_beyond_its_conditions(panels: list[Panel]) -> None:
    for each in panels:
        np.testing.assert_array_equal(np.sign(each.externality), np.sign(each.outgoing))
        np.testing.assert_array_equal(np.sign(each.gaps("externality")), np.sign(each.outgoing))
        np.testing.assert_array_equal(each.in_domain, each.outgoing > -1 / 3)


def test_who_is_at_a_bound(panels: list[Panel]) -> None:
    """Agent 0 always contributes under M^E, and gives its cap at the right ends."""
    for each in panels:
        assert each.contributions("externality").min() > 0
        assert each.contributions("externality")[-1] == pytest.approx(3.0)
        assert each.contributions("shapley")[0] == pytest.approx(0.0, abs=1e-12)
        assert each.contributions("shapley")[-1] == pytest.approx(3.0)


def test_every_judgement_is_the_one_known(result: Result) -> None:
    assert [found.statement for found in result.findings if not found.as_expected] == []
    assert [sum(found.judgement is judgement for found in result.findings) for judgement in Judgement] == [7, 3, 0]


def test_judgements_follow_the_numbers(panels: list[Panel]) -> None:
    """The statements about an agent that is harmed are wrong of one that is helped, and the other way round."""
    harmed, _, helped = panels
    for judged in (fig5._shapley_below_zero, fig5._paid_throughout, fig5._externality_at_zero, fig5._shift):
        assert judged([helped, helped, harmed]).judgement is Judgement.NOT_CONFIRMED
    for judged in (fig5._shapley_above_zero, fig5._pays):
        assert judged([helped, helped, harmed]).judgement is Judgement.NOT_CONFIRMED


def test_the_text_shows_the_crossings(result: Result) -> None:
    assert "| −0.1 | 0 | 0 | below 0 | −0.0673 |" in result.text
    assert "| 0.1 | 0 | 0 | above 0 | 0.0504 |" in result.text


def test_without_a_crossing_nothing_is_confirmed_and_nothing_breaks(panels: list[Panel]) -> None:
    never = [replace(each, outgoing=each.outgoing[:5], outcomes=cut(each)) for each in panels]
    assert np.isnan(never[0].crossing("shapley"))
    for judged in (
        fig5._threshold,
        fig5._externality_at_zero,
        fig5._what_they_look_at,
        fig5._shapley_below_zero,
    ):
        assert judged(never).judgement is Judgement.NOT_CONFIRMED
    assert "undefined" in fig5._shapley_above_zero(never).evidence


def cut(each: Panel) -> dict[str, Sequence[fp.Outcome]]:
    return {name: outcomes[:5] for name, outcomes in each.outcomes.items()}
