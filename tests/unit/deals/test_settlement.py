"""Payments to cents and transfers: balances are exact, fair to equals and as few transfers as can be."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fedpact as fp
from fedpact.deals import Settlement
from fedpact.deals.settlement import few_transfers, settle_payments, whole_cents
from fedpact.utils.errors import InvalidInput


def numbered(n_agents: int) -> list[str]:
    return [f"agent {agent}" for agent in range(n_agents)]


def settled(payments: Sequence[float], **options: object) -> Settlement:
    return settle_payments(payments, names=numbered(len(payments)), **options)  # type: ignore[arg-type]


def balanced(numbers: Sequence[float]) -> list[float]:
    """The numbers and one more that brings their sum to zero, up to the last bit."""
    return [*numbers, -math.fsum(numbers)]


def moved(settlement: Settlement) -> list[int]:
    """The balances that the transfers bring about."""
    balances = dict.fromkeys(settlement.names, 0)
    for transfer in settlement.transfers:
        balances[transfer.payer] -= transfer.cents
        balances[transfer.payee] += transfer.cents
    return list(balances.values())


def fewest_by_search(balances: Sequence[int]) -> int:
    """Fewest transfers by trying every way to settle the first debt or claim with one other agent."""
    left = [balance for balance in balances if balance]
    if not left:
        return 0
    first, rest = left[0], left[1:]
    options = [
        [*rest[:other], rest[other] + first, *rest[other + 1 :]]
        for other in range(len(rest))
        if rest[other] * first < 0
    ]
    return 1 + min(map(fewest_by_search, options))


# Up to 1e12 of the currency: the last number's rounding error is then well below a cent.
payment_lists = st.sampled_from([1e-9, 1e-3, 1.0, 1e3, 1e12]).flatmap(
    lambda scale: st.lists(st.floats(-scale, scale), max_size=8).map(balanced)
)
quarters = st.lists(st.integers(-9, 9), max_size=6).map(lambda numbers: [number / 4 for number in balanced(numbers)])
cent_lists = st.lists(st.integers(-9, 9), max_size=6).map(lambda numbers: [*numbers, -sum(numbers)])


class TestBalances:
    @given(payment_lists, st.sampled_from([1.0, 0.1, 3.7]), st.sampled_from([0, 2, 3]))
    def test_sum_to_zero_within_one_cent_of_the_exact_amounts(self, payments, per_payoff, decimals):
        settlement = settled(payments, per_payoff=per_payoff, decimals=decimals)
        assert sum(settlement.cents) == 0
        assert all(type(cents) is int for cents in settlement.cents)
        for payment, cents in zip(payments, settlement.cents, strict=True):
            assert abs(cents - Fraction(payment) * Fraction(per_payoff) * 10**decimals) < 1

    @given(payment_lists)
    def test_transfers_reproduce_them(self, payments):
        settlement = settled(payments)
        assert moved(settlement) == list(settlement.cents)
        assert all(transfer.cents > 0 for transfer in settlement.transfers)
        assert len(settlement.transfers) <= max(0, len(payments) - 1)

    @given(payment_lists)
    def test_deterministic(self, payments):
        assert settled(payments) == settled(np.array(payments))

    @given(st.data(), payment_lists)
    def test_renaming_agents_permutes_them_if_no_remainders_tie(self, data, payments):
        remainders = {round(Fraction(payment) * 10**8) % 10**6 for payment in payments}
        assume(len(remainders) == len(payments))
        order = data.draw(st.permutations(range(len(payments))))
        permuted = settled([payments[agent] for agent in order])
        assert permuted.cents == tuple(settled(payments).cents[agent] for agent in order)

    @given(quarters)
    def test_of_equal_payments_at_most_one_group_is_parted(self, payments):
        cents = settled(payments, decimals=0, currency="JPY").cents
        given_to = [
            {paid for one, paid in zip(payments, cents, strict=True) if one == level} for level in set(payments)
        ]
        parted = [amounts for amounts in given_to if len(amounts) > 1]
        assert all(max(amounts) - min(amounts) == 1 for amounts in parted) and len(parted) <= 1

    @pytest.mark.parametrize(
        ("amounts", "expected"),
        [
            ((0.7, 0.6, 0.3, -1.6), (1, 1, 0, -2)),  # two cents to hand out, to 0.7 and 0.6
            ((0.7, 0.6, 0.6, -1.9), (1, 0, 0, -1)),  # two cents: not to 0.7 and one of the equals, who are passed over
            ((0.5, 0.5, 0.2, -1.2), (0, 0, 1, -1)),  # two cents, the first to -1.2
            ((1 / 3, 1 / 3, 1 / 3, -1.0), (1, 0, 0, -1)),  # one cent for three equals and nowhere else to go
            ((-1.0, 1 / 3, 1 / 3, 1 / 3), (-1, 1, 0, 0)),
            ((0.5, -0.5), (1, -1)),
        ],
    )
    def test_by_hand(self, amounts, expected):
        assert settled(amounts, decimals=0).cents == expected

    def test_the_last_bits_do_not_tell_equals_apart(self):
        share = 0.005
        payments = [np.nextafter(share, 1), share, np.nextafter(share, 0), 0.0025, -0.0175]
        assert settled(payments).cents == (0, 0, 0, 1, -1)

    @pytest.mark.slow
    def test_equals_stay_together_among_many_agents(self):
        lone = [Fraction(number, 2000) for number in range(1, 2000)]
        would_be_parted = 0
        for shift in range(-8, 8):
            equal = Fraction(2 * (1000 + shift) + 1, 4000)  # near the cut, which is at a remainder of about a half
            amounts = [*[equal] * 7, *lone]
            cents = whole_cents([*amounts, -sum(amounts)])
            assert sum(cents) == 0
            assert len(set(cents[:7])) == 1
            above = sum(amount > equal for amount in amounts) + (-sum(amounts) % 1 > equal)
            would_be_parted += above < round(sum(amounts) + -sum(amounts) % 1) < above + 7
        assert would_be_parted > 0

    def test_whole_cents_stay_as_they_are(self):
        assert settled([0.29, 0.07, -0.36, 0.0]).cents == (29, 7, -36, 0)

    @given(st.lists(st.floats(-1e18, 1e18), min_size=1, max_size=6).map(balanced), st.floats(-1e-10, 1e-10))
    def test_an_imbalance_of_many_cents_is_spread_in_proportion(self, payments, error):
        payments = [payment * (1 + error) if payment > 0 else payment for payment in payments]
        cents = settled(payments).cents
        assert sum(cents) == 0
        for payment, paid in zip(payments, cents, strict=True):
            assert abs(paid - Fraction(payment) * 100) <= 1 + Fraction(abs(payment) * 100) / 10**9

    def test_more_than_a_machine_integer_holds(self):
        settlement = settled([3e300, -1e300, -2e300], per_payoff=1e6)
        assert sum(settlement.cents) == 0
        assert moved(settlement) == list(settlement.cents)
        assert len(settlement.transfers) == 2


class TestTransfers:
    @given(cent_lists)
    def test_what_is_said_to_be_minimal_is(self, cents):
        transfers, minimal = few_transfers(cents)
        fewest = fewest_by_search(cents)
        assert len(transfers) == fewest if minimal else len(transfers) >= fewest

    @pytest.mark.parametrize("n_agents", [21, 300])
    def test_at_most_one_fewer_than_agents(self, n_agents):
        rng = np.random.default_rng(n_agents)
        settlement = settled(balanced(rng.normal(size=n_agents - 1) * 1000))
        assert moved(settlement) == list(settlement.cents)
        assert len(settlement.transfers) <= n_agents - 1
        assert not settlement.minimal

    def test_opposite_pairs_are_matched_first(self):
        payments = [number for k in range(1, 101) for number in (k, -k)]
        settlement = settled(payments, decimals=0)
        assert len(settlement.transfers) == 100
        assert settlement.minimal

    def test_one_creditor_is_proven_minimal(self):
        settlement = settled([*[-1.0 - k for k in range(40)], 820.0])
        assert len(settlement.transfers) == 40
        assert settlement.minimal

    def test_disjoint_triples_of_their_own_size_are_found(self):
        transfers, minimal = few_transfers([100**k * part for k in range(8) for part in (5, -2, -3)])
        assert len(transfers) == 16
        assert minimal


class TestLedger:
    names = ('Comma, "quote"', "line\nbreak", "carriage\rreturn", "Zürich 大学")

    def settlement(self) -> Settlement:
        return settle_payments([12.34, -4.56, -7.0, -0.78], names=self.names, currency="CHF")

    def test_csv_reads_back(self, tmp_path):
        settlement = self.settlement()
        path = tmp_path / "ledger.csv"
        text = settlement.to_csv(path)
        assert path.read_bytes().decode("utf-8") == text
        header, *rows = csv.reader(io.StringIO(text, newline=""))
        assert header == ["payer", "payee", "amount", "currency"]
        assert rows == [
            ["line\nbreak", 'Comma, "quote"', "4.56", "CHF"],
            ["carriage\rreturn", 'Comma, "quote"', "7.00", "CHF"],
            ["Zürich 大学", 'Comma, "quote"', "0.78", "CHF"],
        ]

    def test_csv_is_one_table_where_semicolons_stand_for_commas(self):
        text = settle_payments([1.0, -1.0], names=["A;B", "C"]).to_csv()
        assert text.splitlines()[1] == 'C,"A;B",1.00,units of payoff'

    def test_json_reads_back(self, tmp_path):
        settlement = self.settlement()
        path = tmp_path / "ledger.json"
        text = settlement.to_json(str(path))
        assert path.read_text(encoding="utf-8") == text
        ledger = json.loads(text)
        assert list(ledger) == ["currency", "per_payoff", "balances", "transfers", "minimal"]
        assert ledger["currency"] == "CHF" and ledger["per_payoff"] == 1.0 and ledger["minimal"] is True
        assert ledger["balances"][0] == {"agent": 'Comma, "quote"', "amount": "12.34"}
        assert [balance["amount"] for balance in ledger["balances"]] == ["12.34", "-4.56", "-7.00", "-0.78"]
        assert ledger["transfers"][1] == {"payer": "carriage\rreturn", "payee": 'Comma, "quote"', "amount": "7.00"}

    @pytest.mark.parametrize(
        ("decimals", "amount"), [(0, "1235"), (2, "1234.57"), (3, "1234.568"), (8, "1234.56780000")]
    )
    def test_decimals(self, decimals, amount):
        settlement = settled([1234.5678, -1234.5678], decimals=decimals)
        assert settlement.amounts == (Decimal(amount), -Decimal(amount))
        assert settlement.record()["transfers"][0]["amount"] == amount

    def test_amounts_are_exact_whatever_the_decimal_context(self):
        settlement = settled([1e40, -1e40])
        with localcontext() as context:
            context.prec = 3
            assert sum(map(Fraction, settlement.amounts)) == 0
            assert settlement.record()["balances"][0]["amount"] == f"{int(1e40)}.00"

    def test_frozen(self):
        settlement = self.settlement()
        with pytest.raises(FrozenInstanceError):
            settlement.cents = ()  # type: ignore[misc]
        assert isinstance(settlement.cents, tuple) and isinstance(settlement.transfers, tuple)
        assert hash(settlement) == hash(self.settlement())

    @pytest.mark.parametrize("payments", [[], [0.0], [0.0, -0.0, 0.0], [1e-300, -1e-300], [0.001, -0.001]])
    def test_nothing_to_pay(self, payments):
        settlement = settled(payments)
        assert settlement.transfers == () and settlement.minimal
        assert set(settlement.amounts) <= {Decimal("0.00")}
        assert settlement.to_csv() == "payer,payee,amount,currency\r\n"
        assert all(balance["amount"] == "0.00" for balance in settlement.record()["balances"])


class TestInput:
    @pytest.mark.parametrize(
        ("payments", "message"),
        [
            ([1.0, -0.5], r"payments must sum to zero, got a sum of 0\.5; name whoever"),
            ([1.0, -1.0 + 1e-8], "payments must sum to zero, got a sum of 1.*e-8"),
            ([1e308, 1e308], "payments must sum to zero, got a sum of 2.*308"),
            ([1.0, math.nan], r'payments\[1\] must be finite, got nan \(member "Ben"\)'),
            ([-math.inf, 1.0], r'payments\[0\] must be finite, got -inf \(member "Ada"\)'),
            ([0.0, 0.0, 0.0], "2 members, 3 numbers given"),
            (0.0, "payments must be one number per member: 2 members, a single number given"),
            ([[0.0, 0.0]], "payments must be .* one number per member, got an array of shape"),
            (["a", "b"], "payments must be .* one number per member"),
        ],
    )
    def test_payments(self, payments, message):
        with pytest.raises(InvalidInput, match=message):
            settle_payments(payments, names=["Ada", "Ben"])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"per_payoff": 0.0}, "per_payoff must be positive, got 0"),
            ({"per_payoff": math.inf}, "per_payoff must be positive and finite, got inf"),
            ({"per_payoff": [1.0, 2.0]}, "per_payoff must be one number"),
            ({"decimals": -1}, "decimals must be a whole number from 0 to 18, got -1"),
            ({"decimals": 2.0}, r"decimals must be a whole number from 0 to 18, got 2\.0"),
            ({"decimals": True}, "decimals must be a whole number"),
            ({"currency": " "}, "currency must be a non-empty string"),
            ({"names": "AB"}, "names must be non-empty strings, one per member"),
            ({"names": None}, "names must be non-empty strings, one per member"),
            ({"names": ["A", ""]}, r"names must be non-empty strings, one per member, got \['A', ''\]"),
            ({"names": ["A", "A"]}, r'names\[1\] must differ from the others, "A" appears twice'),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(InvalidInput, match=message):
            settle_payments([1.0, -1.0], **{"names": ["A", "B"], **options})

    def test_is_not_modified(self):
        payments = np.array([1.0, -1.0])
        names = ["A", "B"]
        settlement = settle_payments(payments, names=names, decimals=np.int64(2))
        names.append("C")
        payments[0] = 5.0
        assert settlement.names == ("A", "B") and settlement.cents == (100, -100)

    def test_rounding_error_of_the_sum_is_allowed(self):
        assert settled([0.1, 0.2, -0.3]).cents == (10, 20, -30)


def test_who_delivers_less_pays_also_where_payments_were_to_cancel() -> None:
    """Equals pay each other the same: nobody is to pay anything, until one of them delivers half."""
    deal = fp.Deal(
        mechanism="externality",
        agents=("A", "B"),
        contributions=np.array([10.0, 10.0]),
        payments=np.zeros(2),
        prices=np.array([[-0.1, 0.1], [0.1, -0.1]]),
    )
    assert fp.settle(deal, delivered=[5.0, 10.0], decimals=2).cents == (-50, 50)


class TestSponsor:
    """Payments that do not balance are settled with whoever covers them."""

    OUTCOME = fp.VCGMechanism().solve(
        fp.Federation([[1.0, 0.4], [0.8, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))
    )

    def test_without_one_they_are_refused(self):
        with pytest.raises(InvalidInput, match=r"payments must sum to zero, got a sum of .* as the sponsor"):
            fp.settle(self.OUTCOME)

    def test_it_pays_what_is_lacking(self):
        settlement = fp.settle(self.OUTCOME, sponsor="Foundation")
        assert settlement.names[-1] == "Foundation" and sum(settlement.cents) == 0
        assert settlement.cents[-1] == -round(self.OUTCOME.budget * 10**9) < 0
        assert "Foundation" in {transfer.payer for transfer in settlement.transfers}

    def test_it_receives_what_is_left_over(self):
        deal = replace(self.OUTCOME, payments=np.array([0.25, -0.75])).deal
        settlement = fp.settle(deal, sponsor="Foundation")
        assert settlement.amounts[-1] == Decimal("0.5")

    def test_it_is_nobody_in_the_deal(self):
        with pytest.raises(InvalidInput, match='sponsor must be somebody who is not in the deal, "agent 0" is in it'):
            fp.settle(self.OUTCOME, sponsor="agent 0")

    def test_it_has_nothing_to_do_where_payments_balance(self):
        balanced = fp.EqualSplit().solve(self.OUTCOME.federation)
        assert fp.settle(balanced, sponsor="Foundation").cents[-1] == 0


@pytest.mark.parametrize(("currency", "decimals"), [("JPY", 0), ("EUR", 2), ("KWD", 3), ("points", 2)])
def test_currencies_have_their_decimals(currency: str, decimals: int) -> None:
    deal = fp.Deal(mechanism="x", agents=("A", "B"), contributions=np.ones(2), payments=np.array([1.23456, -1.23456]))
    settled = fp.settle(deal, money=fp.Money(currency, 1000.0))
    assert settled.decimals == decimals
    assert settled.amounts[0] == round(Decimal("1234.56"), decimals)
