"""Lines, tables and frames: they say what the attributes say, at any size, and escape what people typed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedpact import (
    Comparison,
    ExternalityMechanism,
    Federation,
    MissingExtra,
    Money,
    Observations,
    Outcome,
    OutsideDomain,
    PowerLaw,
    ShapleyMechanism,
    Standalone,
    compare,
    fit,
    settle,
    shapley_values,
    stable_federation,
)
from fedpact.deals.outcome import PER_AGENT
from fedpact.report.records import who_would_leave
from old_hospitals import example, hospitals


@pytest.fixture(scope="module")
def hospital_comparison() -> Comparison:
    return compare(hospitals().federation)


@pytest.fixture(scope="module")
def harmful_comparison() -> Comparison:
    """One share is zero, so one ratio is infinite; under one baseline the Shapley values are undefined."""
    return compare(example("paper-w3").federation)


def alike(n_agents: int, *, names: list[str] | None = None) -> Federation:
    weights = np.full((n_agents, n_agents), 0.1) + 0.9 * np.eye(n_agents)
    return Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02), names=names)


class Together(Standalone):
    """What everybody has alone, shown as if they federated."""

    federated = True


def alone(n_agents: int, *, names: list[str] | None = None) -> Outcome:
    """An outcome of any size that takes no time."""
    return Standalone().solve(alike(n_agents, names=names))


def empty() -> Comparison:
    return Comparison(federation=alike(3), outcomes=[], mechanisms={}, unsolved={})


class TestLines:
    def test_federation(self) -> None:
        assert repr(hospitals().federation) == "Federation(5 agents, power-law)"

    def test_outcome(self, hospital_comparison: Comparison) -> None:
        assert repr(hospital_comparison["externality"]) == (
            "Outcome(externality, 5 agents, welfare 3.203, nobody would leave)"
        )
        assert repr(hospital_comparison["shapley"]) == (
            "Outcome(shapley, 5 agents, welfare 2.962, Children's and Clinic would leave)"
        )
        assert repr(hospital_comparison["standalone"]) == (
            "Outcome(standalone, 5 agents, welfare 2.729, nobody federates)"
        )

    def test_comparison(self, hospital_comparison: Comparison) -> None:
        assert repr(hospital_comparison) == (
            "Comparison(5 agents, welfare: externality 3.203, shapley 2.962, fair 3.203, voluntary 3.081, "
            "standalone 2.729)"
        )

    def test_comparison_names_what_has_no_outcome(self, hospital_comparison: Comparison) -> None:
        partial = replace(
            hospital_comparison, outcomes=hospital_comparison.outcomes[:1], unsolved={"voluntary": "it went wrong"}
        )
        assert repr(partial) == "Comparison(5 agents, welfare: externality 3.203, voluntary unsolved)"

    def test_stable_federation(self) -> None:
        federation = hospitals().federation
        everybody = stable_federation(federation, ExternalityMechanism())
        assert repr(everybody) == "StableFederation(externality, nobody leaves, welfare 3.203)"
        some = stable_federation(federation, ShapleyMechanism())
        stay = f"{len(some.members)} of 5 agents stay"
        assert repr(some) == f"StableFederation(shapley, {stay}, welfare {some.welfare:.3f})"

    def test_a_profile_outside_the_domain_can_still_be_named(self) -> None:
        federation = example("paper-w3").federation
        outcome = Standalone().solve(federation)
        harmed = replace(outcome, rules=Together()).with_profile([400.0, 0.0, 0.0], np.zeros(3))
        with pytest.raises(OutsideDomain):
            _ = harmed.payoffs
        assert repr(harmed) == "Outcome(standalone, 3 agents, outside the domain of a payoff)"
        assert repr(Comparison(federation=federation, outcomes=[harmed], mechanisms={}, unsolved={})) == (
            "Comparison(3 agents, welfare: standalone undefined)"
        )

    def test_lines_have_no_line_breaks(self) -> None:
        together = replace(alone(3, names=["a\nb", "c", "d"]), rules=Together())
        outcome = together.with_profile([0.0] * 3, [-1.0, 2.0, 2.0])
        assert who_would_leave(outcome) == "a b would leave"


class TestFrames:
    def test_outcome(self, harmful_comparison: Comparison) -> None:
        for outcome in harmful_comparison:
            frame = outcome.to_frame()
            assert list(frame.index) == list(outcome.agents)
            assert frame.index.name == "agent"
            assert list(frame.columns) == list(PER_AGENT)
            for label in PER_AGENT:
                np.testing.assert_array_equal(frame[label].to_numpy(), getattr(outcome, label))

    def test_every_per_agent_attribute_is_there(self, hospital_comparison: Comparison) -> None:
        outcome = hospital_comparison["externality"]
        found = {name: getattr(outcome, name) for name in dir(outcome) if not name.startswith("_")}
        arrays = {name for name, value in found.items() if isinstance(value, np.ndarray)}
        # With one task per agent its payoffs are the agent's; prices of shared caps are per cap; fair parts are ratios.
        flags = {"tolerances", "would_leave", "on_boundary", "in_domain"}
        assert set(PER_AGENT) == arrays - {"task_payoffs", "shared_cap_prices", "fair_parts"} - flags

    def test_agents_with_several_lots(self) -> None:
        """What is per lot does not stand beside what is per agent."""
        federation = example("hospitals-lots").federation
        comparison = compare(federation, ["externality", "standalone"])
        frame = comparison["externality"].to_frame()
        assert list(frame.index) == list(federation.names) and "contributions" not in frame
        assert len(comparison.to_frame()) == 10

    def test_comparison(self, hospital_comparison: Comparison) -> None:
        frame = hospital_comparison.to_frame()
        assert frame.index.names == ["mechanism", "agent"]
        assert len(frame) == 5 * 5
        for outcome in hospital_comparison:
            assert frame.loc[outcome.mechanism].equals(outcome.to_frame())
        assert frame.loc[("shapley", "Clinic"), "ir_gaps"] == hospital_comparison["shapley"].ir_gaps[4]

    def test_federation(self) -> None:
        federation = hospitals().federation
        frame = federation.to_frame()
        assert list(frame.index) == list(federation.names)
        expected = {
            "costs.linear": federation.costs.linear,
            "costs.quadratic": federation.costs.quadratic,
            "caps": federation.caps,
            "values": federation.values,
            "payoff.beta": np.full(5, 0.3),
        }
        assert list(frame.columns) == list(expected)
        for label, numbers in expected.items():
            np.testing.assert_array_equal(frame[label].to_numpy(), numbers)

    @pytest.mark.parametrize("pick", [lambda c: c, lambda c: c["shapley"], lambda c: c.federation])
    def test_without_pandas(
        self,
        pick: Callable[[Comparison], Comparison | Outcome | Federation],
        hospital_comparison: Comparison,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        shown = pick(hospital_comparison)
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(
            MissingExtra, match=r'^pandas is not installed: pip install "\.\[frame\]" in a clone of fedpact'
        ):
            shown.to_frame()


def test_fedpact_and_its_lines_and_tables_load_neither_pandas_nor_matplotlib() -> None:
    code = (
        "import sys, fedpact\n"
        "outcome = fedpact.Standalone().solve(fedpact.Federation([[1.0]], costs=1.0, payoff=fedpact.Log()))\n"
        "repr(outcome), repr(outcome.federation)\n"
        "import fedpact.report.plots\n"
        "print(sorted({'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_deals_settlements_fits_and_shapley_values_have_frames(hospital_comparison: Comparison) -> None:
    outcome = hospital_comparison["externality"]
    deal = outcome.deal.to_frame()
    np.testing.assert_array_equal(deal["payments"], outcome.payments)
    assert list(deal.index) == list(outcome.agents) and "contributions" in deal
    settled = settle(outcome, money=Money("EUR", 1e6))
    assert settled.to_frame().loc["City", "amount"] == settled.amounts[1]
    shares = shapley_values(outcome.federation, outcome.contributions)
    assert shares.to_frame()["values"].tolist() == shares.values.tolist()
    runs = Observations.of([[5.0, 0.0], [0.0, 5.0], [60.0, 0.0], [0.0, 60.0], [60.0, 60.0]], np.full((5, 2), 0.5))
    found = fit(runs).to_frame()
    assert list(found.index) == ["agent 0", "agent 1"] and "weights[agent 1]" in found
