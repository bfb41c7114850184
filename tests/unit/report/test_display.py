"""Lines, tables and frames: they say what the attributes say, at any size, and escape what people typed."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape

from fedpact import (
    Comparison,
    ExternalityMechanism,
    Federation,
    Log,
    MissingExtra,
    Money,
    Observations,
    Outcome,
    OutsideDomain,
    PowerLaw,
    Quadratic,
    ShapleyMechanism,
    Standalone,
    compare,
    fit,
    settle,
    shapley_values,
    stable_federation,
)
from fedpact.deals.outcome import PER_AGENT
from fedpact.report.numbers import Unit, lowest_share_text
from fedpact.report.records import MAX_JUDGED, MAX_ROWS, who_would_leave
from fedpact.report.tables import BALANCE, deal_table
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


def losing(outcome: Outcome) -> Comparison:
    """A comparison whose agents leave by name, and with a mechanism that has no outcome."""
    worse = replace(outcome, rules=Together()).with_profile(outcome.contributions, [-0.5, -0.5, 1.0])
    mechanisms = {"standalone": Standalone()}
    return Comparison(federation=outcome.federation, outcomes=[worse], mechanisms=mechanisms, unsolved={"<b>": "<i>"})


def empty() -> Comparison:
    return Comparison(federation=alike(3), outcomes=[], mechanisms={}, unsolved={})


def rows(table: str) -> list[list[str]]:
    """The texts of an HTML table, header first."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    return [[html.unescape(cell) for cell in row] for row in cells]


def as_number(text: str) -> float:
    words = {"undefined": np.nan, "∞": np.inf, "−∞": -np.inf}
    return words[text] if text in words else float(text.replace("−", "-").replace(",", ""))


class TestLines:
    def test_federation(self) -> None:
        assert repr(hospitals().federation) == "Federation(5 agents, power-law)"

    def test_one_agent_is_singular(self) -> None:
        single = Federation([[1.0]], costs=1.0, payoff=Log())
        assert repr(single) == "Federation(1 agent, log)"

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
        assert "voluntary has no outcome: it went wrong" in partial._repr_html_()

    def test_empty_comparison(self) -> None:
        assert repr(empty()) == "Comparison(3 agents, welfare: no mechanisms)"

    def test_stable_federation(self) -> None:
        federation = hospitals().federation
        everybody = stable_federation(federation, ExternalityMechanism())
        assert repr(everybody) == "StableFederation(externality, nobody leaves, welfare 3.203)"
        some = stable_federation(federation, ShapleyMechanism())
        stay = f"{len(some.members)} of 5 agents stay"
        assert repr(some) == f"StableFederation(shapley, {stay}, welfare {some.welfare:.3f})"

    def test_everybody_left(self, hospital_comparison: Comparison) -> None:
        some = hospital_comparison.after_departures["shapley"]
        first = replace(some.departures[0], leavers=hospitals().federation.names)
        none = replace(some, members=(), outcome=None, departures=(first,), welfare=-1234.5)
        assert repr(none) == "StableFederation(shapley, 0 of 5 agents stay, welfare -1234)"

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

    @pytest.mark.parametrize(
        ("names", "words"),
        [
            (["a", "b", "c", "d", "e"], "4 of 5 would leave"),
            (["a" * 30, "b" * 30, "c" * 30, "d"], "3 of 4 would leave"),
            (["a", "b", "c", "d"], "a, b and c would leave"),
        ],
    )
    def test_many_or_long_leavers_are_counted(self, names: list[str], words: str) -> None:
        n_agents = len(names)
        payments = np.append(np.full(n_agents - 1, -1.0), n_agents - 1.0)
        outcome = replace(alone(n_agents, names=names), rules=Together()).with_profile(np.zeros(n_agents), payments)
        assert who_would_leave(outcome) == words


class TestTables:
    def test_outcome_shows_the_columns_of_a_deal(
        self, hospital_comparison: Comparison, harmful_comparison: Comparison
    ) -> None:
        for outcome in (*hospital_comparison, *harmful_comparison):
            head, *body = rows(outcome._repr_html_())
            assert [row[0] for row in body] == list(outcome.agents)
            table = deal_table(outcome, Unit.of(None, outcome.payoffs), (*BALANCE, "share back"))
            assert head == ["agent", *table.columns]
            assert [row[1:] for row in body] == [list(texts) for texts in zip(*table.columns.values(), strict=True)]

    def test_outcome_shows_every_verdict(self, harmful_comparison: Comparison) -> None:
        for outcome in harmful_comparison:
            for claim, certificate in outcome.certificates.items():
                assert f"{claim} {certificate.verdict}" in outcome._repr_html_()

    def test_comparison_shows_every_mechanism(self, harmful_comparison: Comparison) -> None:
        head, *body = rows(harmful_comparison._repr_html_())
        for row, outcome in zip(body, harmful_comparison, strict=True):
            cells = dict(zip(head, row, strict=True))
            assert cells["mechanism"] == harmful_comparison.title(outcome.mechanism)
            assert as_number(cells["welfare"]) == pytest.approx(outcome.welfare, abs=1e-4)
            assert cells["reciprocity"] == lowest_share_text(outcome)
        assert [row[-1] for row in body] == [
            who_would_leave(each).removesuffix(" would leave") for each in harmful_comparison
        ]

    def test_comparison_gives_the_recommendation(self, hospital_comparison: Comparison) -> None:
        assert hospital_comparison.recommendation is not None
        assert escape(" ".join(hospital_comparison.advice)) in hospital_comparison._repr_html_()

    def test_empty_comparison(self) -> None:
        assert "0 mechanisms" in empty()._repr_html_()

    def test_federation_shows_parameters_and_weights(self) -> None:
        federation = hospitals().federation
        tables = [rows(table) for table in re.findall(r"<table>.*?</table>", federation._repr_html_())]
        parameters, weights = tables
        assert parameters[0] == ["agent", "costs.linear", "costs.quadratic", "caps", "values", "payoff.beta"]
        assert parameters[1] == ["University", "0.0014", "0.000024", "120", "1", "0.3"]
        assert weights[0][1:] == list(federation.names)
        shown = [[as_number(cell) for cell in row[1:]] for row in weights[1:]]
        np.testing.assert_array_equal(shown, federation.weights)

    def test_uncapped_agents_have_an_infinite_cap(self) -> None:
        federation = Federation([[1.0]], costs=Quadratic(1e-9, 2e12), payoff=Log())
        assert rows(federation._repr_html_())[1] == ["agent 0", "1e−09", "2e+12", "unlimited", "1"]

    @pytest.mark.parametrize("show", [lambda outcome: outcome, lambda outcome: outcome.federation, losing])
    def test_names_are_escaped(self, show: Callable[[Outcome], Outcome | Federation | Comparison]) -> None:
        names = ["<script>alert(1)</script>", "A & B", '"quoted"']
        shown = show(alone(3, names=names))._repr_html_()
        assert "<script" not in shown
        assert "A & B" not in shown
        assert escape("A & B") in shown

    def test_long_tables_stop(self) -> None:
        outcome = alone(MAX_ROWS + 3)
        for table in (outcome._repr_html_(), outcome.federation._repr_html_()):
            body = rows(table)[1:]
            assert [row[0] for row in body] == [*outcome.agents[:MAX_ROWS], "… 3 more"]

    def test_as_many_rows_as_fit_need_no_remark(self) -> None:
        assert "more" not in alone(MAX_ROWS)._repr_html_()

    def test_large_outcomes_show_only_what_is_cheap(self) -> None:
        outcome = alone(MAX_JUDGED + 1)
        assert "fair gain" not in outcome._repr_html_()
        assert not {"shapley", "certificates"} & set(vars(outcome))
        comparison = compare(outcome.federation, [Standalone()])
        assert "reciprocity" not in comparison._repr_html_()
        assert not {"recommendation", "after_departures"} & set(vars(comparison))

    def test_large_federations_show_only_counts(self) -> None:
        weights = np.eye(7)
        weights[2, 5] = -0.5
        shown = Federation(weights, costs=1.0, payoff=Log())._repr_html_()
        assert "7 × 7 weights: 8 not zero, 1 negative" in shown
        assert "<table" in shown and "<table" not in alike(MAX_JUDGED + 1)._repr_html_()


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
        assert "University" in comparison["externality"]._repr_html_() and "7 × 10" in federation._repr_html_()

    def test_frames_are_copies(self, hospital_comparison: Comparison) -> None:
        outcome = hospital_comparison["externality"]
        before = outcome.payments.copy()
        frame = outcome.to_frame()
        frame.loc["City", "payments"] = 7.0
        np.testing.assert_array_equal(outcome.payments, before)

    def test_comparison(self, hospital_comparison: Comparison) -> None:
        frame = hospital_comparison.to_frame()
        assert frame.index.names == ["mechanism", "agent"]
        assert len(frame) == 5 * 5
        for outcome in hospital_comparison:
            assert frame.loc[outcome.mechanism].equals(outcome.to_frame())
        assert frame.loc[("shapley", "Clinic"), "ir_gaps"] == hospital_comparison["shapley"].ir_gaps[4]

    def test_empty_comparison(self) -> None:
        frame = empty().to_frame()
        assert frame.empty
        assert list(frame.columns) == list(PER_AGENT)

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

    def test_federation_without_payoff_parameters_and_with_linear_costs(self) -> None:
        frame = Federation(np.eye(2), costs=[1.0, 2.0], payoff=Log()).to_frame()
        assert list(frame.columns) == ["costs.linear", "costs.quadratic", "caps", "values"]
        assert frame["costs.quadratic"].tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("pick", [lambda c: c, lambda c: c["shapley"], lambda c: c.federation])
    def test_without_pandas(
        self,
        pick: Callable[[Comparison], Comparison | Outcome | Federation],
        hospital_comparison: Comparison,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        shown = pick(hospital_comparison)
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r'^pandas is not installed: pip install "fedpact\[frame\]"$'):
            shown.to_frame()


def test_fedpact_and_its_lines_and_tables_load_neither_pandas_nor_matplotlib() -> None:
    code = (
        "import sys, fedpact\n"
        "outcome = fedpact.Standalone().solve(fedpact.Federation([[1.0]], costs=1.0, payoff=fedpact.Log()))\n"
        "repr(outcome), outcome._repr_html_(), outcome.federation._repr_html_()\n"
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
