"""Bars, and the layout of who pays whom."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedpact.deals.settlement import settle_payments
from fedpact.report.charts import (
    GAP,
    MAX_NODES,
    SLOT,
    NumberLine,
    agent_bar,
    bar,
    flow_layout,
    payment_flow,
    whisker,
)


class TestBars:
    def test_a_line_holds_zero_and_everything_finite(self):
        line = NumberLine.over([1.0, -3.0], [np.inf, np.nan])
        assert (line.low, line.high) == (-3.0, 1.0)
        assert line.at(-3.0) < line.at(0.0) < line.at(1.0)

    def test_a_line_of_nothing_is_still_a_line(self):
        assert NumberLine.over([]).at(0.0) == NumberLine.over([0.0, 0.0]).at(0.0) == NumberLine.over().at(0.0)

    def test_bars_are_proportional(self):
        line = NumberLine.over([0.0, 10.0])
        assert line.at(10.0) - line.at(0.0) == pytest.approx(2.0 * (line.at(5.0) - line.at(0.0)), abs=0.02)

    def test_nothing_has_no_bar(self):
        line = NumberLine.over([0.0, 10.0])
        assert "<rect" not in bar(line, 0.0, "gain", "none") + bar(line, np.nan, "gain", "none")
        assert "<rect" in bar(line, 1e-9, "gain", "tiny")

    def test_undefined_numbers_have_no_dots(self):
        line = NumberLine.over([0.0, 10.0])
        made = whisker(line, [np.nan, 1.0], 0.5, "gain", "t") + whisker(line, [0.0, 1.0], np.inf, "gain", "t")
        assert made.count("<circle") == 1 and made.count("rod") == 1 and "nan" not in made

    def test_titles_and_names_are_escaped(self):
        line = NumberLine.over([1.0])
        row = agent_bar(line, "<b>", 1.0, "1", word="x")
        assert "<b>" not in row.picture + row.label
        assert "<title>&lt;b&gt;: 1</title>" in row.picture

    @pytest.mark.parametrize(("number", "css"), [(-1.0, "bar loss"), (1.0, "bar gain")])
    def test_bars_of_agents_have_the_colour_of_their_sign(self, number, css):
        line = NumberLine.over([-1.0, 1.0])
        assert css in agent_bar(line, "A", number, "1").picture
        assert "bar mech0" in agent_bar(line, "A", number, "1", css="mech0").picture


def settlement_of(payments, **options):
    return settle_payments(payments, names=[f"agent {agent}" for agent in range(len(payments))], **options)


class TestFlow:
    def test_ribbons_carry_all_that_is_paid(self):
        settlement = settle_payments([0.5, -0.125, 0.25, -0.625], names=["Ada", "Ben", "Cleo", "Dan"])
        payers, payees, amounts = flow_layout(settlement)
        assert [node.key for node in payers] == ["Dan", "Ben"]
        assert [node.key for node in payees] == ["Ada", "Cleo"]
        assert sum(amounts.values()) == 75
        for node, cents in zip(payers, (63, 12), strict=True):
            assert node.cents == pytest.approx(cents, abs=1)
        picture = payment_flow(settlement, "t", "flow-0")
        assert picture.count('class="ribbon"') == len(settlement.transfers)
        for transfer in settlement.transfers:
            said = (
                f"{transfer.payer} pays {transfer.payee} {transfer.cents / 100:.2f}\N{NO-BREAK SPACE}units of payoff."
            )
            assert said in picture

    def test_many_are_drawn_as_one(self):
        payments = np.concatenate([np.arange(1.0, 16.0), -np.arange(1.0, 16.0)[::-1] - np.linspace(-0.07, 0.07, 15)])
        settlement = settlement_of(payments)
        payers, payees, _ = flow_layout(settlement)
        for nodes in (payers, payees):
            assert len(nodes) == MAX_NODES
            assert nodes[-1].key is None
        assert payers[-1].label == "6 other payers"
        turnover = sum(transfer.cents for transfer in settlement.transfers)
        assert sum(node.cents for node in payers) == sum(node.cents for node in payees) == turnover

    def test_labels_never_overlap(self):
        payments = np.random.default_rng(0).standard_normal(40) ** 3
        payers, payees, _ = flow_layout(settlement_of(payments - payments.mean(), per_payoff=100.0))
        lowest = max(node.top + max(node.height, (node.height + SLOT) / 2) for node in (payers[-1], payees[-1]))
        for nodes in (payers, payees):
            middles = [node.top + node.height / 2 for node in nodes]
            assert min(np.diff(middles)) >= SLOT
            assert middles[0] >= SLOT / 2 - 1e-9 and middles[-1] <= lowest - SLOT / 2 + 1e-9
            tops = [(node.top, node.top + node.height) for node in nodes]
            assert all(end + GAP <= start + 1e-9 for (_, end), (start, _) in pairwise(tops))

    def test_names_are_escaped(self):
        settlement = settle_payments([1.0, -1.0], names=["<script>", "&"])
        picture = payment_flow(settlement, "<i>", "flow-0")
        assert "<script>" not in picture and "<i>" not in picture
        assert "&amp; pays &lt;script&gt;" in picture
