"""The federations that come with fedpact."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.scenario import EXAMPLES, example


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
    """Everybody shares something and gains by it; Shapley loses the clinic, and without payments nobody shares."""
    scenario = example("hospitals")
    assert scenario.money == fp.Money(currency="EUR", per_payoff=1.0)
    federation = scenario.federation
    np.testing.assert_array_equal(federation.home, federation.caps)
    comparison = fp.compare(federation)
    deal = comparison["externality"]
    assert ((deal.contributions > 0) & (deal.contributions < federation.caps)).all(), "no cap obscures it"
    assert (deal.ir_gaps > 5 * federation.joining_costs).all()
    assert (deal.gain_shares > 0.8).all() and (deal.gain_shares < 1.2).all()
    assert comparison.holds_together("externality") and comparison.holds_together("fair")
    assert comparison.best_members.members == federation.names
    assert comparison["shapley"].leavers == ("Clinic",)
    assert comparison.after_departures["shapley"].leavers == ("Clinic", "Children's")
    assert not comparison["voluntary"].contributions.any()


def test_hospitals_with_lots_bring_all_kinds_but_what_misleads() -> None:
    federation = example("hospitals-lots").federation
    deal = fp.ExternalityMechanism().solve(federation)
    kept = [label for label, brought in zip(federation.lot_labels, deal.contributions, strict=True) if not brought]
    assert kept == ["City: old device"] and (deal.ir_gaps > 10 * federation.joining_costs).all()


def test_hospitals_with_privacy_share_raw_records_and_noisy_ones() -> None:
    federation = example("hospitals-privacy").federation
    deal = fp.ExternalityMechanism().solve(federation)
    assert (deal.contributions > 0).all() and (deal.ir_gaps > 0).all()
    raw = np.array([name == "raw" for name in federation.lot_names])
    costs = fp.Quadratic(federation.costs.linear + 3000.0 * raw, federation.costs.quadratic)
    dear = fp.ExternalityMechanism().solve(federation.replace(costs=costs))
    assert not dear.contributions[::2].any(), "nobody shares a raw record"


def test_unknown_example_lists_the_known() -> None:
    with pytest.raises(
        fp.InvalidInput,
        match="no built-in federation 'banks'; there are hospitals, hospitals-lots, hospitals-privacy, paper-w1",
    ):
        fp.load_scenario("banks")
    with pytest.raises(fp.InvalidInput, match=r"^banks\.toml: there is no such file; check the path$"):
        fp.load_scenario("banks.toml")
