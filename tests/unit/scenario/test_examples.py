"""The federations that come with fedpact."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.scenario.examples import EXAMPLES, example, hospitals


def test_names_of_the_examples() -> None:
    assert list(EXAMPLES) == ["hospitals", "hospitals-lots", "hospitals-privacy", "paper-w1", "paper-w2", "paper-w3"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_itself_each_time(name: str) -> None:
    scenario = example(name)
    assert scenario == example(name)
    assert scenario.title
    assert scenario.federation.n_agents in (3, 5)


def test_paper_instances_are_told_apart() -> None:
    weights = [example(name).federation.weights for name in ("paper-w1", "paper-w2", "paper-w3")]
    np.testing.assert_array_equal(weights[0], 1.0)
    assert weights[1][1, 2] == 3.0
    assert weights[2][1, 0] == -0.2


def test_hospitals_tell_the_story_they_are_there_for() -> None:
    """Externality keeps everybody at the most welfare; Shapley is fair and loses those it overcharges."""
    scenario = hospitals()
    assert scenario.money == fp.Money(currency="EUR", per_payoff=1_000_000.0)
    comparison = fp.compare(scenario.federation)
    assert comparison["externality"].leavers == ()
    assert set(comparison["shapley"].leavers) == {"Children's", "Clinic"}
    for outcome in comparison:
        inside = (outcome.contributions > 0) & (outcome.contributions < scenario.federation.caps)
        assert inside.all(), "an interior example: no cap obscures it"


def test_unknown_example_lists_the_known() -> None:
    with pytest.raises(
        fp.InvalidInput,
        match="no built-in federation 'banks'; there are hospitals, hospitals-lots, hospitals-privacy, paper-w1",
    ):
        fp.load_scenario("banks")
    with pytest.raises(fp.InvalidInput, match=r"^banks\.toml: there is no such file; check the path$"):
        fp.load_scenario("banks.toml")


def test_examples_are_loaded_by_name_and_compared_as_they_are() -> None:
    scenario = fp.load_scenario("hospitals")
    assert scenario == hospitals()
    compared = fp.compare(scenario, ["externality", "shapley"])
    assert compared.federation == scenario.federation and compared["shapley"].leavers
