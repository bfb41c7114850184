"""What the page is made of: escaping, numbers in words, axes, and the layout of who pays whom."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedpact.deals.settlement import settle_payments
from fedpact.report.html import el, join, listed
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.svg.nodes import GAP, MOST_NODES, SLOT, laid_out
from fedpact.report.view import losses_first


class TestHtml:
    def test_texts_are_escaped_and_elements_are_not(self):
        assert el("p", "<", el("b", "&"), None, ["x", ["y"]]) == "<p>&lt;<b>&amp;</b>xy</p>"

    def test_attributes_are_escaped_and_absent_ones_left_out(self):
        made = el("a", href='"<', class_=None, open=False, hidden=True, aria_label="'")
        assert made == '<a href="&quot;&lt;" hidden aria-label="&#x27;"></a>'

    def test_characters_no_page_may_hold_are_replaced(self):
        assert join("a\x00\x1f\ud800b\tc") == "a���b\tc"

    @pytest.mark.parametrize(
        ("names", "text"),
        [
            ([], ""),
            (["A"], "<bdi>A</bdi>"),
            (["A", "B"], "<bdi>A</bdi> and <bdi>B</bdi>"),
            (["A", "B", "C"], "<bdi>A</bdi>, <bdi>B</bdi> and <bdi>C</bdi>"),
            (["A", "B", "C", "D"], "<bdi>A</bdi>, <bdi>B</bdi> and 2 more"),
        ],
    )
    def test_names_in_a_sentence(self, names, text):
        assert listed(names, most=2 if len(names) > 3 else 3) == text


class TestBars:
    def test_an_axis_holds_zero_and_everything_finite(self):
        axis = Axis.over([1.0, -3.0], [np.inf, np.nan])
        assert (axis.low, axis.high) == (-3.0, 1.0)
        assert axis.at(-3.0) < axis.at(0.0) < axis.at(1.0)

    def test_an_axis_of_nothing_is_still_an_axis(self):
        assert Axis.over([]).at(0.0) == Axis.over([0.0, 0.0]).at(0.0)

    def test_bars_are_proportional(self):
        axis = Axis.over([0.0, 10.0])
        assert axis.at(10.0) - axis.at(0.0) == pytest.approx(2.0 * (axis.at(5.0) - axis.at(0.0)), abs=0.02)

    def test_nothing_has_no_bar(self):
        axis = Axis.over([0.0, 10.0])
        assert "<rect" not in bar(axis, 0.0, "gain", "none") + bar(axis, np.nan, "gain", "none")

    def test_losses_come_first_and_gains_are_not_forgotten(self):
        gaps = np.concatenate([-np.arange(1.0, 101.0), np.arange(1.0, 101.0)])
        ranked = gaps[np.argsort(-losses_first(gaps), kind="stable")][:20]
        assert ranked.tolist() == [*(-np.arange(100.0, 88.0, -1.0)), *np.arange(100.0, 92.0, -1.0)]


class TestFlow:
    def test_ribbons_carry_all_that_is_paid(self):
        settlement = settle_payments([0.5, -0.125, 0.25, -0.625], names=["Ada", "Ben", "Cleo", "Dan"])
        layout = laid_out(settlement)
        assert [node.key for node in layout.payers] == ["Dan", "Ben"]
        assert [node.key for node in layout.payees] == ["Ada", "Cleo"]
        assert sum(layout.ribbons.values()) == 75
        for node, cents in zip(layout.payers, (63, 12), strict=True):
            assert node.cents == pytest.approx(cents, abs=1)

    def test_many_are_drawn_as_one(self):
        payments = np.concatenate([np.arange(1.0, 16.0), -np.arange(1.0, 16.0)[::-1] - np.linspace(-0.07, 0.07, 15)])
        settlement = settle_payments(payments, names=[f"agent {agent}" for agent in range(30)])
        layout = laid_out(settlement)
        for nodes in (layout.payers, layout.payees):
            assert len(nodes) == MOST_NODES
            assert nodes[-1].key is None
        assert layout.payers[-1].label == "6 other payers"
        turnover = sum(transfer.cents for transfer in settlement.transfers)
        assert sum(node.cents for node in layout.payers) == sum(node.cents for node in layout.payees) == turnover

    def test_labels_never_overlap(self):
        rng = np.random.default_rng(0)
        payments = rng.standard_normal(40) ** 3
        payments -= payments.mean()
        layout = laid_out(settle_payments(payments, names=[f"agent {agent}" for agent in range(40)], per_payoff=100.0))
        for nodes in (layout.payers, layout.payees):
            middles = [node.top + node.height / 2 for node in nodes]
            assert min(np.diff(middles)) >= SLOT
            assert middles[0] >= SLOT / 2 - 1e-9 and middles[-1] <= layout.height - SLOT / 2 + 1e-9
            tops = [(node.top, node.top + node.height) for node in nodes]
            assert all(end + GAP <= start + 1e-9 for (_, end), (start, _) in pairwise(tops))
