"""From a deal to transfers of money: who receives what, who pays whom, and how it is written down.

Balances are whole cents that sum to zero exactly, carried out by few transfers. "Cent" stands for the smallest unit of
the currency, 10**-decimals. Money is counted in integers; floats are read exactly, as fractions. A deal whose scenario
says nothing of money is settled in units of payoff.

Prices are agreed, and what is delivered is paid for: with d_j in the place of s_j member i is paid

    p_i = -sum_j l_ij d_j + T_i,

T_i its side payment. What i pays for j's data, l_ij d_j, j receives, so the payments balance whatever is delivered.
Under a mechanism without prices they follow from its payment rule at the delivered profile, which needs the
federation.

A member that used n of N agreed samples in a round has delivered the share n / N of its contribution; over several
rounds the mean counts. Less than one agreed sample is none, and nothing is delivered or paid for it. Where members
agreed to be paid by what arrived in effect, the share of every single transfer is estimated instead
(`fedpact.fitting.delivery`).

Transfers: opposite balances are matched first; of the r that are left the largest debtor pays the largest creditor
until all are square: at most r - 1 transfers, in O(r log r). Fewer would do only where some of these balances sum to
zero among themselves, to the cent. They are proven minimal if they meet the lower bound max(debtors, creditors,
ceil(2 r / 3)), whose last part holds because a zero-sum set without an opposite pair has at least three members.

Cents, by largest remainder: every amount is rounded down, and the cents then missing go to the largest remainders, so
each balance is one of the two whole cents next to the exact amount, and an amount of whole cents stays as it is.
Remainders that tie go in the order of agents.

Agents with equal payments get equal cents if that can be: equals that are more than the cents left are passed over for
whoever comes after them. Where whole groups of equals never have the right count (three agents who are owed a third of
a cent each), the first group passed over is parted by one cent, and those that come first in it are rounded up.

Payments sum to zero only up to rounding error. An error below one cent disappears in the rounding; a larger one,
which only huge amounts can have, is first taken off in proportion to the amounts.

Cost: O(n log n).
"""

from __future__ import annotations

import heapq
import json
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals.deal import Deal
from fedpact.deals.outcome import Outcome
from fedpact.federation.lots import check_names
from fedpact.scenario import Money
from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, non_negative, one_number, positive
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.files import replace_text
from fedpact.utils.tables import csv_rows

SUM_TOLERANCE = Fraction(1, 10**9)
"""How far the payments may be from summing to zero, as a share of the sum of their absolute values."""

NEGLIGIBLE_CENTS = Fraction(1, 1_000_000)  # a sum below this part of a cent is rounding whatever the payments are

MAX_DECIMALS = 18
MONEY_DECIMALS = 2
# Of currencies that have not two (ISO 4217).
DECIMALS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"), 0),
    **dict.fromkeys(("UGX", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
PAYOFF_UNIT, PAYOFF_DECIMALS = "units of payoff", 9
NO_PRICES = (
    "this deal names no prices; what is due for less than agreed follows from its mechanism's payment rule, and that "
    "needs the federation"
)
MIN_GROUPED, MAX_GROUPED = 1000, 10**15  # sums between these are written with all digits and commas
GRAINS = 10**6
"""Grains in a cent. Amounts that are the same to the nearest grain count as equal, whatever their last bits say."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One payment from `payer` to `payee`, a positive whole number of cents."""

    payer: str
    payee: str
    cents: int


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """Who ends up with what, and the transfers that bring it about.

    Attributes
    ----------
    names, cents
        The agents and what each receives (negative: pays), in cents; the cents sum to zero.
    currency, per_payoff, decimals
        The unit of money, how much of it one unit of payoff is worth, and its number of decimals.
    minimal
        Whether it is proven that no fewer transfers would do.
    agreed, delivered, agreed_cents
        Where it is known what was delivered: that and what was agreed, in units of contribution (one number per lot
        where members own several), and the cents that would be due had everybody delivered all of it.
    """

    names: tuple[str, ...]
    cents: tuple[int, ...]
    transfers: tuple[Transfer, ...]
    currency: str
    per_payoff: float
    decimals: int
    minimal: bool
    agreed: tuple[float, ...] | None = None
    delivered: tuple[float, ...] | None = None
    agreed_cents: tuple[int, ...] | None = None

    @property
    def amounts(self) -> tuple[Decimal, ...]:
        """What each agent receives (negative: pays), in units of the currency."""
        return tuple(self._amount(cents) for cents in self.cents)

    def record(self) -> dict[str, Any]:
        """Balances and transfers as plain data; amounts are texts such as "12.34": no reader makes floats of them."""
        known = {
            "agreed": self.agreed and list(self.agreed),
            "delivered": self.delivered and list(self.delivered),
            "agreed_balances": self.agreed_cents and self._balances(self.agreed_cents),
        }
        return {
            "currency": self.currency,
            "per_payoff": self.per_payoff,
            "balances": self._balances(self.cents),
            "transfers": [
                {"payer": transfer.payer, "payee": transfer.payee, "amount": f"{self._amount(transfer.cents):f}"}
                for transfer in self.transfers
            ],
            "minimal": self.minimal,
            **({} if self.delivered is None else known),
        }

    def to_frame(self) -> Any:
        """A pandas frame of what every agent receives (negative: pays), as exact decimals."""
        from fedpact.report.records import agents_frame  # noqa: PLC0415 - optional dependency

        return agents_frame(self.names, {"amount": list(self.amounts)})

    def to_json(self, path: str | Path | None = None) -> str:
        """Balances and transfers as JSON text, also written to `path` if one is given."""
        return _write_text(json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n", path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The transfers as CSV text (RFC 4180), also written to `path` if one is given."""
        columns = ("payer", "payee", "amount")
        rows = [(*(row[column] for column in columns), self.currency) for row in self.record()["transfers"]]
        return _write_text(csv_rows([(*columns, "currency"), *rows], line_end="\r\n"), path)

    def _balances(self, cents: Iterable[int]) -> list[dict[str, str]]:
        return [
            {"agent": name, "amount": f"{self._amount(each):f}"} for name, each in zip(self.names, cents, strict=True)
        ]

    def _amount(self, cents: int) -> Decimal:
        return Decimal(f"{cents}e-{self.decimals}")  # exact, where arithmetic would round to the context's precision


def currency_decimals(currency: str) -> int:
    """How many decimals amounts of a currency have (ISO 4217)."""
    return DECIMALS.get(currency.upper(), MONEY_DECIMALS)


def money_terms(money: Money | None, decimals: int | None = None) -> dict[str, Any]:
    """The unit that amounts are counted in: the currency with its usual decimals, or units of payoff without money."""
    currency, rate = (PAYOFF_UNIT, 1.0) if money is None else (money.currency, money.per_payoff)
    usual = PAYOFF_DECIMALS if money is None else currency_decimals(currency)
    return {"currency": currency, "per_payoff": rate, "decimals": usual if decimals is None else decimals}


def check_terms(terms: Any) -> None:
    """Raise `InvalidInput` unless these are terms of money (`money_terms`), with the decimals of their currency."""
    if not isinstance(terms, dict) or sorted(terms) != ["currency", "decimals", "per_payoff"]:
        raise InvalidInput(f"there is no exchange rate in {short_repr(terms)}")
    check_unit(**terms)
    currency, decimals = terms["currency"], terms["decimals"]
    usual = PAYOFF_DECIMALS if currency == PAYOFF_UNIT else currency_decimals(currency)
    if decimals != usual:
        rule = f"must be {usual}, as amounts in {short_repr(currency)} have"
        raise InvalidInput(field="decimals", rule=rule, value=decimals, given=f", got {decimals}")


def settle(
    deal: Deal | Outcome,
    *,
    money: Money | None = None,
    decimals: int | None = None,
    sponsor: str | None = None,
    delivered: ArrayLike | None = None,
    between_members: Outcome | None = None,
    unchecked: bool = False,
) -> Settlement:
    """The transfers that carry out a deal's payments.

    Parameters
    ----------
    money
        The exchange rate, such as a scenario's; without one, amounts are units of payoff.
    decimals
        Digits after the point; those of the currency (ISO 4217), and 9 for units of payoff, by default.
    sponsor
        Who pays what payments that do not balance lack, and receives what they leave over. The name of nobody in the
        deal; it comes last in the balances. Without one, payments that do not balance are refused.
    delivered
        What each has delivered, in units of contribution, which is what is paid for; all that was agreed by default.
        It needs a deal with prices, or an outcome.
    between_members
        Of a deal without prices, some of whose members are out: its outcome between the others, by whose rule they are
        paid for what they delivered.
    unchecked
        Whether to settle a deal whose payments are not what its prices come to.

    Examples
    --------
    >>> from fedpact import ExternalityMechanism
    >>> from fedpact import load_scenario
    >>> scenario = load_scenario("hospitals")
    >>> settlement = settle(ExternalityMechanism().solve(scenario.federation), money=scenario.money)
    >>> len(settlement.transfers), sum(settlement.cents)
    (4, 0)
    """
    agreed = deal.deal if isinstance(deal, Outcome) else deal
    if not isinstance(agreed, Deal):
        given = f", got {agreed!r:.80}; settle_payments takes numbers"
        raise InvalidInput(field="deal", rule="must be a deal or an outcome", value=agreed, given=given)
    if not isinstance(money, Money | None):
        rule = 'must be Money("EUR", 1000.0) or the like, or None'
        raise InvalidInput(field="money", rule=rule, value=money)
    if not unchecked:
        _check_prices(agreed)
    unit = money_terms(money, decimals)
    if delivered is None:
        return settle_payments(agreed.payments, names=agreed.agents, sponsor=sponsor, **unit)
    given = checked_delivery(agreed, delivered)
    due = payments_for_delivered(deal, given, between_members=between_members)
    return _settle_delivered(agreed, given, due, sponsor=sponsor, **unit)


def settle_run(
    deal: Deal,
    delivered: Mapping[str, float],
    unit: Mapping[str, Any],
    *,
    shares: Any = None,
    between_members: Outcome | None = None,
) -> Settlement:
    """What is due in a run whose members sign: what coordinators state, nodes hold it to, and `fedpact check` finds.

    `delivered` is what members have signed to have delivered, by name; `unit` the money they have signed. `shares`, as
    in `payments_for_shares`, are what is paid for where they signed to be paid by what arrived.
    """
    _check_prices(deal)
    check_terms(unit)
    given = np.array([delivered.get(name, own) for name, own in zip(deal.agents, deal.contributions, strict=True)])
    if shares is None:
        due = payments_for_delivered(deal, given, between_members=between_members)
    else:
        due = payments_for_shares(deal, shares)
    return _settle_delivered(deal, given, due, **unit)


def _check_prices(deal: Deal) -> None:
    if contradiction := deal.price_contradiction():
        difference = f": {contradiction}; unchecked=True settles it as it is"
        rule = "must be what the deal's prices come to"
        raise InvalidInput(field="payments", rule=rule, value=None, given=difference)


def _settle_delivered(deal: Deal, delivered: FloatArray, payments: FloatArray, **unit: Any) -> Settlement:
    """The transfers of the payments due for what was delivered, beside what was agreed."""
    return replace(
        settle_payments(payments, names=deal.agents, **unit),
        agreed=tuple(deal.contributions.tolist()),
        delivered=tuple(delivered.tolist()),
        agreed_cents=settle_payments(deal.payments, names=deal.agents, **unit).cents,
    )


def settle_payments(
    payments: ArrayLike,
    *,
    names: Sequence[str],
    per_payoff: float = 1.0,
    currency: str = PAYOFF_UNIT,
    decimals: int = 2,
    sponsor: str | None = None,
) -> Settlement:
    """Turn payments into balances in whole cents and into few transfers between agents.

    Payments are one per agent, in units of payoff; positive means that the agent receives. Their sum must be zero to
    within 1e-9 of the sum of their absolute values, or a `sponsor` (as in `settle`) pays what they lack. Money has so
    many `decimals`: 2 for the euro, 0 for the yen, 3 for the dinar.

    Examples
    --------
    >>> settlement = settle_payments([0.5, -0.125, 0.25, -0.625], names=["Ada", "Ben", "Cleo", "Dan"], per_payoff=10.1)
    >>> [str(amount) for amount in settlement.amounts]
    ['5.05', '-1.26', '2.52', '-6.31']
    >>> for transfer in settlement.transfers:
    ...     print(transfer.payer, "pays", transfer.payee, transfer.cents)
    Ben pays Cleo 126
    Dan pays Ada 505
    Dan pays Cleo 126
    >>> settlement.minimal
    True
    """
    if sponsor is not None:
        if not isinstance(sponsor, str) or not sponsor.strip():
            raise InvalidInput(field="sponsor", rule="must be a name", value=sponsor)
        if sponsor in names:
            rule = "must be somebody who is not in the deal"
            raise InvalidInput(field="sponsor", rule=rule, value=sponsor, given=f', "{sponsor:.60}" is in it')
        payments, names = np.append(payments, -math.fsum(np.asarray(payments))), (*names, sponsor)
    agents = check_names("names", names, None)
    check_unit(currency=currency, per_payoff=per_payoff, decimals=decimals)
    rate = float(per_payoff)
    cents_per_payoff = Fraction(rate) * 10 ** int(decimals)
    exact = _exact_payments(payments, agents, NEGLIGIBLE_CENTS / cents_per_payoff, Fraction(rate), currency)
    cents = whole_cents([payment * cents_per_payoff for payment in exact])
    transfers, minimal = few_transfers(cents)
    return Settlement(
        names=agents,
        cents=tuple(cents),
        transfers=tuple(
            Transfer(payer=agents[payer], payee=agents[payee], cents=paid) for payer, payee, paid in sorted(transfers)
        ),
        currency=currency,
        per_payoff=rate,
        decimals=int(decimals),
        minimal=minimal,
    )


def check_unit(*, currency: Any, per_payoff: Any, decimals: Any) -> None:
    """Raise `InvalidInput` unless amounts can be counted in this unit."""
    one_number("per_payoff", per_payoff, positive, "positive and finite")
    if isinstance(decimals, bool) or not isinstance(decimals, int | np.integer) or not 0 <= decimals <= MAX_DECIMALS:
        rule = f"must be a whole number from 0 to {MAX_DECIMALS}"
        raise InvalidInput(field="decimals", rule=rule, value=decimals, given=f", got {short_repr(decimals)}")
    if not isinstance(currency, str) or not currency.strip():
        raise InvalidInput(field="currency", rule="must be a non-empty string", value=currency)


def _exact_payments(
    given: ArrayLike, names: Sequence[str], negligible: Fraction, rate: Fraction, currency: str
) -> list[Fraction]:
    payments = checked_numbers("payments", given, np.isfinite, "finite", names=names)
    if payments.ndim == 0:
        counts = f": {len(names)} members, a single number given"
        raise InvalidInput(field="payments", rule="must be one number per member", value=given, given=counts)
    exact = [Fraction(payment) for payment in payments.tolist()]
    total, gross = sum(exact, Fraction(0)), sum(map(abs, exact), Fraction(0))
    if abs(total) > max(SUM_TOLERANCE * gross, negligible):
        money = Decimal((total * rate).numerator) / Decimal((total * rate).denominator)
        text = f"{money:,.2f}" if MIN_GROUPED <= abs(money) < MAX_GROUPED else f"{money:.6g}"
        unit = "" if currency == PAYOFF_UNIT else f" {currency:.40}"
        way_out = "name whoever covers it as the sponsor (--sponsor), or as one more member"
        given_sum = f", got a sum of {text}{unit}; {way_out}"
        raise InvalidInput(field="payments", rule="must sum to zero", value=total, given=given_sum)
    return exact


def _write_text(text: str, path: str | Path | None) -> str:
    if path is not None:
        replace_text(Path(path), text)
    return text


# Payments for what was delivered


def payments_for_delivered(
    deal: Deal | Outcome, delivered: ArrayLike, *, between_members: Outcome | None = None
) -> FloatArray:
    """What each agent is paid for what was delivered of each contribution, in units of payoff.

    `between_members` is for a deal without prices: its outcome between those who are in it (`Mechanism.outcome_of`), by
    whose rule they are paid. Who is out has delivered nothing to the others and is paid nothing. It is an error if more
    was delivered than agreed, or the payments do not follow from what is known.

    Examples
    --------
    >>> from fedpact import ExternalityMechanism
    >>> from fedpact import load_scenario
    >>> outcome = ExternalityMechanism().solve(load_scenario("hospitals").federation)
    >>> paid = payments_for_delivered(outcome, outcome.contributions * [0.5, 1, 1, 1, 1])
    >>> bool(abs(paid.sum()) < 1e-9), bool(paid[0] < outcome.payments[0])
    (True, True)
    """
    agreed = deal.deal if isinstance(deal, Outcome) else deal
    given = checked_delivery(agreed, delivered)
    if (given == agreed.contributions).all():
        return agreed.payments
    if agreed.prices is not None:
        return _payments_for(agreed, given)
    by_rule = deal if isinstance(deal, Outcome) else between_members
    if by_rule is None:
        if agreed.payments.any():
            raise InvalidInput(NO_PRICES)
        return agreed.payments
    shares, terms = dict(zip(_lots(agreed), given.tolist(), strict=True)), by_rule.deal
    due = by_rule.rules.payments(by_rule.arrays, np.array([shares[lot] for lot in _lots(terms)])) + terms.side_payments
    paid = dict(zip(terms.agents, due.tolist(), strict=True))  # who may stand in another order there
    return np.array([0.0 if name in agreed.excluded else paid.get(name, 0.0) for name in agreed.agents])


def _payments_for(deal: Deal, taken: FloatArray) -> FloatArray:
    """A deal's payments where so much of each contribution is paid for, (lots,), or by each payer, (n, lots)."""
    assert deal.prices is not None
    owners = deal.lot_owner_indices
    change = deal.prices * (taken - deal.contributions)
    change[owners, np.arange(len(owners))] = 0.0
    received = np.bincount(owners, weights=change.sum(axis=0), minlength=len(deal.agents))
    return np.asarray(deal.payments - change.sum(axis=1) + received)


def _lots(deal: Deal) -> list[tuple[str, str]]:
    """Every lot by its owner's name and its own."""
    return list(zip(deal.lot_owners or deal.agents, deal.lot_names or deal.agents, strict=True))


def agreed_transfers(deal: Deal) -> FloatArray:
    """(n, n): what the row's member pays the column's for its data if all was delivered, at the deal's prices."""
    if deal.prices is None:
        raise InvalidInput(NO_PRICES)
    owed = deal.prices * deal.contributions
    np.fill_diagonal(owed, 0.0)
    return owed


def payments_for_shares(deal: Deal, shares: Any) -> FloatArray:
    """A deal's payments when of every transfer that is owed, (n, n), this share is paid; nothing where none is."""
    owed, given = agreed_transfers(deal), np.array(shares, dtype=np.float64)  # None is NaN
    if given.shape != owed.shape or (np.isnan(given) != (owed == 0.0)).any() or (given < 0.0).any():
        raise InvalidInput("the shares that are paid for must be one number of at least 0 per transfer that is owed")
    return _payments_for(deal, deal.contributions * np.where(np.isnan(given), 1.0, given))


def checked_delivery(deal: Deal, delivered: ArrayLike) -> FloatArray:
    """What was delivered, one number per contribution, none above what was agreed; rounding is taken back."""
    lots = deal.lot_labels
    given = checked_numbers("delivered", delivered, non_negative, NON_NEGATIVE, names=lots)
    given = np.array(np.broadcast_to(given, deal.contributions.shape))
    over = given > deal.contributions * (1.0 + 1e-9)
    if over.any():
        index = int(np.flatnonzero(over)[0])
        raise InvalidInput(
            f"delivered[{index}] must be at most the {deal.contributions[index]:.9g} that was agreed, got "
            f'{given[index]:.9g} ({"lot" if deal.has_lots else "member"} "{lots[index]}"): nobody is paid for more'
        )
    return np.minimum(given, deal.contributions)


# Whole cents, and few transfers


def whole_cents(amounts: Sequence[Fraction]) -> list[int]:
    """Whole cents that sum to zero, from amounts in cents whose sum is zero up to rounding error.

    Examples
    --------
    >>> whole_cents([Fraction(5, 2), Fraction(5, 4), Fraction(-15, 4)])
    [3, 1, -4]
    """
    grains = _balanced_grains(amounts)
    cents = [amount // GRAINS for amount in grains]
    for agent in _rounded_up(grains, -sum(cents)):
        cents[agent] += 1
    return cents


def _balanced_grains(amounts: Sequence[Fraction]) -> list[int]:
    """The amounts in grains, summing to less than a cent either way.

    Whole cents are whole grains, so an amount never passes a whole cent on its way to the nearest grain.
    """
    grains = [round(amount * GRAINS) for amount in amounts]
    total, gross = sum(grains), sum(map(abs, grains))
    if abs(total) < GRAINS:
        return grains
    sign = 1 if total > 0 else -1
    return [amount - sign * (abs(total * amount) // gross) for amount in grains]


def _rounded_up(grains: Sequence[int], count: int) -> list[int]:
    """The `count` agents to round up: the largest remainders, equals together if that can be."""
    equals: dict[int, list[int]] = defaultdict(list)
    for agent, amount in enumerate(grains):
        if amount % GRAINS:
            equals[amount].append(agent)
    chosen: list[int] = []
    passed: list[int] = []
    for agents in sorted(equals.values(), key=lambda agents: (-(grains[agents[0]] % GRAINS), agents[0])):
        (chosen if len(chosen) + len(agents) <= count else passed).extend(agents)
    return (chosen + passed)[:count]


Paid = tuple[int, int, int]
"""Payer, payee and cents; the agents by number."""


def few_transfers(cents: Sequence[int]) -> tuple[list[Paid], bool]:
    """Transfers that settle the balances, and whether it is proven that no fewer would do.

    Examples
    --------
    >>> few_transfers([5, -2, 7, -3, -7])
    ([(4, 2, 7), (3, 0, 3), (1, 0, 2)], True)
    """
    owed: dict[int, deque[int]] = defaultdict(deque)
    for agent, balance in enumerate(cents):
        if balance > 0:
            owed[balance].append(agent)
    pairs = [
        (payer, owed[-balance].popleft(), -balance)
        for payer, balance in enumerate(cents)
        if balance < 0 and owed.get(-balance)
    ]
    matched = {agent for payer, payee, _ in pairs for agent in (payer, payee)}
    left = [agent for agent, balance in enumerate(cents) if balance and agent not in matched]
    transfers = _largest_first(cents, left)
    debtors = sum(cents[agent] < 0 for agent in left)
    bound = max(debtors, len(left) - debtors, -(-2 * len(left) // 3))
    return pairs + transfers, len(transfers) == bound


def _largest_first(cents: Sequence[int], agents: Sequence[int]) -> list[Paid]:
    """Let the largest debtor pay the largest creditor until all agents are square; ties in the order of agents."""
    debts = [(cents[agent], agent) for agent in agents if cents[agent] < 0]
    claims = [(-cents[agent], agent) for agent in agents if cents[agent] > 0]
    heapq.heapify(debts)
    heapq.heapify(claims)
    transfers = []
    while debts:
        debt, payer = heapq.heappop(debts)
        claim, payee = heapq.heappop(claims)
        paid = min(-debt, -claim)
        transfers.append((payer, payee, paid))
        if debt + paid:
            heapq.heappush(debts, (debt + paid, payer))
        if claim + paid:
            heapq.heappush(claims, (claim + paid, payee))
    return transfers
