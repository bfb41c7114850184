"""What a node is asked to sign, and how it checks it before it does.

A statement is a node's own part of the deal that all sign (`fedpact.flower.countersigning`): everybody's
contributions, and of prices and payments its own. From its private file the node knows its row of weights, its
payoff, its cost and its cap, so it can tell whether

* its payment is what its prices come to, and in a fair deal its own side payment: p_i = -sum_j l_ij s_j + T_i,
* each price of another's data is what that data is worth to it at the margin: l_ij = a_i' w_ij,
* at these prices no other contribution of its own would be better for it (complementarity, its cap included),
* it gets at least the utility that the coordinator names, and at least what it asks for beyond training alone.

The first three make the profile its best one at its prices. What others were told does not matter to that. A deal
negotiated in sums names no prices: the node knows what the data of others is worth to it, and the price of its own
follows from its payment. Whether a side payment is the fairest follows from everybody's numbers: a node can check that
it leaves it its utility, and the report of the deal proves the rest. Under the Shapley mechanism payments follow from
everybody's rows, and what a node can check of them is its utility.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_from_record, is_number
from fedpact.mechanisms import MECHANISMS
from fedpact.negotiation.agent import Agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr

# Of the prices, and of the payoff, costs and money involved: nearer numbers differ by rounding.
STATEMENT_ROUNDING = 1e-6
MAX_UNIT_DECIMALS = 9
MAX_CONTRIBUTION = 1e200  # who would still give more than this has no best contribution
MAX_SLOPE = 1e40  # of a payoff outside its domain, to find the way in
LEAST_GAIN = "least gain"
NUMBERS = ("mechanism", "agents", "contributions", "payments", "side_payments")  # of a document, beside who is out
TERMS = ("place", "contributions", "money")  # what a node can check that has no numbers of its own
CLAIMS = (*TERMS, "payment", "prices", "own contribution", "utility", LEAST_GAIN)


class Refused(FedpactError):
    """Why a node does not sign."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Who a node is among the agents of a deal, by name and place, and how many these are."""

    name: str
    place: int
    size: int


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnPart:
    """A node's own part of a deal: its place, its prices (None where none are named), and the utility it is told."""

    deal: Deal
    place: int
    prices: FloatArray | None
    utility: float | None

    @property
    def contributions(self) -> FloatArray:
        """Everybody's."""
        return self.deal.contributions

    @property
    def payment(self) -> float:
        """Its own."""
        return float(self.deal.payments[self.place])

    @property
    def side_payment(self) -> float:
        """Its own; the rest of what it is paid is at prices."""
        assert self.deal.side_payments is not None
        return float(self.deal.side_payments[self.place])

    @property
    def priced_payment(self) -> float:
        """What is paid at prices."""
        return self.payment - self.side_payment


def read_own_part(asked: Mapping[str, Any], seat: Seat) -> OwnPart:
    """A node's part of the deal that it is asked to sign, with what it can check that has no numbers of its own.

    Raises
    ------
    Refused
        If the place is another one, or the terms are not sound.
    """
    document, place, prices, utility = (asked.get(key) for key in ("document", "place", "prices", "utility"))
    assert isinstance(document, dict)
    _require("place", type(place) is int and place == seat.place, f"it is not at place {short_repr(place)}")
    names = document.get("agents")
    listed = isinstance(names, list) and len(names) == seat.size and names[seat.place] == seat.name
    _require("place", listed, f"the members are not {seat.size} with {seat.name!r} at place {seat.place}")
    deal = deal_of_document(document)
    given_by_absent = np.delete(deal.contributions, deal.members).any()
    _require("contributions", not given_by_absent, "somebody who is out would contribute")
    _require("money", _is_money(document.get("money")), f"no exchange rate in {short_repr(document.get('money'))}")
    listed = isinstance(prices, list) and len(prices) == seat.size and all(map(is_number, prices))
    if prices is not None and not listed:
        raise Refused(f"prices must be {seat.size} finite numbers, got {short_repr(prices)}")
    if utility is not None and not is_number(utility):
        raise Refused(f"utility must be a finite number, got {short_repr(utility)}")
    row = None if prices is None else np.array(prices, dtype=np.float64)
    return OwnPart(deal=deal, place=seat.place, prices=row, utility=utility)


def deal_of_document(document: Mapping[str, Any]) -> Deal:
    """The deal in a document that members sign, without the prices, which it holds digests of."""
    try:
        out = dict.fromkeys(document.get("excluded") or [], "out of the deal")
        return deal_from_record({key: document.get(key) for key in NUMBERS} | {"excluded": out})
    except (InvalidInput, TypeError) as reason:
        raise Refused(str(reason)) from reason


def check_statement(agent: Agent, given: OwnPart, *, least_gain: float | None = 0.0) -> list[str]:
    """Check its part of a deal against what the agent knows; the claims that were checked, all of which hold.

    Parameters
    ----------
    least_gain
        What it wants at least beyond the utility of training alone, in units of payoff; None if it takes any deal.

    Raises
    ------
    Refused
        With the first claim that does not hold.
    """
    own, [cap] = float(given.contributions[agent.index]), agent.caps
    fits = own <= cap * (1.0 + STATEMENT_ROUNDING)
    _require("contributions", fits, f"{own:g} samples are more than its cap of {cap:g}")
    rules = MECHANISMS.get(given.deal.mechanism)
    is_priced = rules is not None and rules.has_prices
    no_side = given.side_payment == 0.0 or (rules is not None and rules.has_side_payments)
    _require("payment", no_side, f"{given.side_payment:.9g} beside the prices is not for these rules")
    _check_deal(agent, given, least_gain, is_priced=is_priced)
    unchecked = set() if least_gain is not None else {LEAST_GAIN}
    unchecked |= set() if is_priced else {"payment", "prices", "own contribution"}
    unchecked |= {"prices"} if given.prices is None else set()
    return [claim for claim in CLAIMS if claim not in unchecked]


def _check_deal(agent: Agent, given: OwnPart, least_gain: float | None, *, is_priced: bool) -> None:
    """Payment, prices, own contribution and utility, in this order."""
    answer = agent.answer({"number": 0, "kind": "prices", "contributions": given.contributions.tolist()})
    said = answer["tasks"][0] | answer["lots"][0]
    _require("contributions", "payoff" in said, "its payoff is not defined there")
    worth = np.array(said["prices"])
    turnover = abs(given.payment) + float((np.abs(worth) * given.contributions).sum())
    if is_priced:
        prices = _prices_by_payment(agent, given, worth) if given.prices is None else given.prices
        turnover = float((np.abs(prices) * given.contributions).sum())
        if given.prices is None:
            _check_unpriced(agent, given, worth, said)
        _check_prices(agent, given, prices, worth, abs(said["payoff"]) + said["cost"] + turnover)
    scale = abs(said["payoff"]) + said["cost"] + turnover
    utility = said["payoff"] - said["cost"] + given.payment
    enough = given.utility is None or utility >= given.utility - STATEMENT_ROUNDING * scale
    _require("utility", enough, f"it is less than the {given.utility} named")
    if least_gain is not None:
        # How much it falls short stays its own business.
        _require(
            LEAST_GAIN,
            utility - agent.standalone >= least_gain - STATEMENT_ROUNDING * scale,
            "it asks for more",
        )


def _prices_by_payment(agent: Agent, given: OwnPart, worth: FloatArray) -> FloatArray:
    """Its prices where none are named: what data is worth to it, and for its own what its payment leaves."""
    prices, own = worth.copy(), float(given.contributions[agent.index])
    if own > 0.0:
        paid = float(worth @ given.contributions) - float(worth[agent.index]) * own
        prices[agent.index] = -(given.priced_payment + paid) / own
    return prices


def _check_unpriced(agent: Agent, given: OwnPart, worth: FloatArray, said: Mapping[str, Any]) -> None:
    """That it is paid its marginal cost for what it gives, more only at its cap, less what all data is worth to it."""
    own = float(given.contributions[agent.index])
    value = float(worth @ given.contributions)
    due = said["marginal_cost"] * own - value
    rounding = STATEMENT_ROUNDING * (abs(said["payoff"]) + said["cost"] + abs(due) + abs(value))
    most = math.inf if own >= agent.caps[0] * (1.0 - STATEMENT_ROUNDING) and own > 0.0 else due + rounding
    fits = due - rounding <= given.priced_payment <= most
    reason = f"{given.priced_payment:.9g} does not follow from its costs and what data is worth to it"
    _require("payment", fits, reason)  # what does follow stays its own business


def _check_prices(agent: Agent, given: OwnPart, prices: FloatArray, worth: FloatArray, scale: float) -> None:
    """That it is paid by its prices, pays for data what that is worth to it, and would not give more or less."""
    turnover = float((np.abs(prices) * given.contributions).sum())
    due = given.side_payment - float(prices @ given.contributions)
    close = abs(given.payment - due) <= STATEMENT_ROUNDING * (turnover + abs(given.side_payment))
    beside = f" and {given.side_payment:.9g} beside" if given.side_payment else ""
    _require("payment", close, f"it is {given.payment:.9g}, by its prices{beside} {due:.9g}")
    others = np.arange(agent.n_agents) != agent.index
    others &= given.contributions > 0.0  # nothing is paid for what nobody gives
    off = np.abs(prices - worth)[others]
    highest = float(np.abs(worth).max() + np.abs(prices).max())
    _require(
        "prices",
        bool((off <= STATEMENT_ROUNDING * highest).all()),
        "they are not what the data is worth to it at the margin",
    )
    gain = _own_gain(agent, given, float(prices[agent.index]))
    _require("own contribution", gain <= STATEMENT_ROUNDING * scale, "another one would be better for it")


def _own_gain(agent: Agent, given: OwnPart, price: float) -> float:
    """What the best contribution of its own would add at a price of it, all else as it is."""
    from scipy.optimize import brentq  # noqa: PLC0415 - imported where somebody signs

    [weights], [value], [cap] = agent.weights, agent.values, agent.caps
    own, weight = float(given.contributions[agent.index]), float(weights[agent.index])
    around = float(weights @ given.contributions) - weight * own

    def utility(x: float) -> float:
        payoff, cost = agent.payoff.value(np.array([around + weight * x])), agent.costs.value(np.array([x]))
        return float(np.sum(value * payoff - cost)) - price * x

    def slope(x: float) -> float:
        data = np.array([around + weight * x])
        if not (data > agent.payoff.floor).all():
            return MAX_SLOPE
        return float(np.sum(value * weight * agent.payoff.slope(data) - agent.costs.slope(np.array([x])))) - price

    if slope(0.0) <= 0.0:
        return utility(0.0) - utility(own)
    high = min(cap, 1.0)
    while slope(high) > 0.0:
        if high >= cap or high > MAX_CONTRIBUTION:
            return utility(cap) - utility(own) if math.isfinite(cap) else math.inf
        high = min(cap, 2.0 * high)
    return utility(float(brentq(slope, 0.0, high, xtol=np.finfo(float).tiny, maxiter=500))) - utility(own)


def _is_money(given: Any) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("currency"), str):
        return False
    rate, decimals = given.get("per_payoff", 0.0), given.get("decimals")
    return is_number(rate) and rate > 0 and type(decimals) is int and 0 <= decimals <= MAX_UNIT_DECIMALS


def _require(claim: str, holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(f"{claim}: {reason}")
