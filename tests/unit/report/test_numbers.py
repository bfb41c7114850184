"""Numbers in words: money and payoff, columns, percentages, shares."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.deals.settlement import settle_payments
from fedpact.report.numbers import (
    Unit,
    cents_text,
    given_text,
    number_text,
    number_texts,
    percent,
    probability_text,
    share_text,
)
from fedpact.scenario import Money

NBSP = "\N{NO-BREAK SPACE}"


def euros(rate: float = 1.0) -> Unit:
    return Unit.of(Money("EUR", rate), np.ones(1))


class TestColumns:
    @pytest.mark.parametrize(
        ("numbers", "texts"),
        [
            ([], []),
            ([0.0, -0.0], ["0", "0"]),
            ([1234567.8, 1.0], ["1,234,568", "1"]),
            ([1000.0, 0.012], ["1,000", "0.012"]),
            ([3e-7, 0.0], ["3e−07", "0"]),
            ([np.inf, -np.inf, np.nan], ["∞", "−∞", "undefined"]),
            ([-9.9996], ["−10.000"]),
        ],
    )
    def test_texts(self, numbers, texts):
        assert number_texts(np.array(numbers)) == texts

    def test_what_counts_as_rounding_is_zero(self):
        assert number_texts(np.array([1e-9, -1e-9]), signed=True, rounding=1e-8) == ["0", "0"]


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
        assert given_text(given) == text

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
            (1.2, -0.1, "share is below zero"),
            (1.0, 0.0, "share is zero"),
            (-0.3, 0.1, "less than nothing"),
            (25.0, 0.1, "25 times"),
            (1e9, 1e-9, "over a million times"),
        ],
    )
    def test_shares_share_text(self, ratio, share, text):
        assert share_text(ratio, share) == text

    def test_one_number(self):
        assert number_text(-1234.5678) == "−1,235"
        assert number_text(float("inf")) == "∞"
        assert number_text(0.123456789, digits=6) == "0.123457"

    @pytest.mark.parametrize(
        ("part", "text"),
        [(0.0, "below 0.25 %"), (0.03, "3.0 %"), (0.5, "50 %"), (0.97, "97.0 %"), (1.0, "above 99.75 %")],
    )
    def test_probabilities_are_never_certain(self, part, text):
        assert probability_text(part, 400).replace(NBSP, " ") == text
