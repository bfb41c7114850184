"""What the page is made of: escaping, numbers in words, axes, and the layout of who pays whom."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedpact.deals.settlement import settle_payments
from fedpact.report.html import el, join, listed
from fedpact.report.numbers import Unit, as_given, cents_text, percent, returned
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.svg.nodes import GAP, MOST_NODES, SLOT, laid_out
from fedpact.report.view import losses_first
from fedpact.scenario import Money

NBSP = "\N{NO-BREAK SPACE}"


def euros(rate: float = 1.0) -> Unit:
    return Unit.of(Money("EUR", rate), np.ones(1))


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


class TestNumbers:
    def test_money_has_its_currency_its_sign_and_separators(self):
        assert euros(1e6).text(0.155727) == f"EUR{NBSP}155,727"
        assert euros(1e6).text(-0.155727, signed=True) == f"−EUR{NBSP}155,727"
        assert euros(100.0).text(0.155727, signed=True) == f"+EUR{NBSP}15.57"

    def test_columns_share_their_decimals(self):
        assert euros(1e4).column([0.2, -0.01234, 0.0], signed=True) == ["+2,000", "−123", "0"]
        assert euros(10.0).column([0.2, -0.01234, np.nan, np.inf]) == ["2.00", "−0.12", "undefined", "∞"]

    def test_small_money_keeps_its_digits(self):
        assert euros().text(0.001234) == f"EUR{NBSP}0.001234"

    def test_rounding_errors_are_zero(self):
        assert euros(1e6).column([1e-12, -1e-12], signed=True) == ["0", "0"]

    def test_payoff_without_money(self):
        assert Unit.of(None, [1.0]).text(0.0391889) == f"0.03919{NBSP}units"

    @pytest.mark.parametrize(
        ("given", "text"),
        [(400.0, "400"), (np.inf, "unlimited"), (0.001, "0.001"), (1234567.8, "1,234,568"), (-0.2, "−0.2")],
    )
    def test_numbers_somebody_chose(self, given, text):
        assert as_given(given) == text

    def test_cents(self):
        assert cents_text(settle_payments([12.345, -12.345], names=["a", "b"]), -1234567) == "−12,345.67"
        assert cents_text(settle_payments([5.0, -5.0], names=["a", "b"], decimals=0), 1500) == "1,500"

    def test_percentages(self):
        assert percent(0.6633, decimals=0) == f"66{NBSP}%"
        assert percent(np.nan) == "undefined"

    @pytest.mark.parametrize(
        ("ratio", "share", "text"),
        [
            (0.663, 1.0, f"66{NBSP}%"),
            (np.inf, 0.0, "share is zero"),
            (-np.inf, 0.0, "below a zero share"),
            (np.nan, np.nan, "undefined"),
            (-3.0, -0.1, "share is below zero"),
            (25.0, 0.1, "25 times"),
            (1e9, 1e-9, "over a million times"),
        ],
    )
    def test_shares_returned(self, ratio, share, text):
        assert returned(ratio, share) == text


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
