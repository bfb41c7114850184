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

from fedpact.mechanisms import MECHANISMS, ExternalityMechanism
from fedpact.negotiation.agent import Agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, short_repr

# Of the prices, and of the payoff, costs and money involved: nearer numbers differ by rounding.
STATEMENT_ROUNDING = 1e-6
MAX_UNIT_DECIMALS = 9
MAX_CONTRIBUTION = 1e200  # who would still give more than this has no best contribution
MAX_SLOPE = 1e40  # of a payoff outside its domain, to find the way in
LEAST_GAIN = "least gain"
CLAIMS = ("place", "contributions", "money", "payment", "prices", "own contribution", "utility", LEAST_GAIN)


class Refused(FedpactError):
    """Why a node does not sign."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Statement:
    """The numbers of a statement."""

    contributions: FloatArray
    prices: FloatArray | None
    payment: float
    side_payment: float
    utility: float | None

    @property
    def priced_payment(self) -> float:
        """What is paid at prices: all but the side payment."""
        return self.payment - self.side_payment


def check_statement(agent: Agent, statement: Mapping[str, Any], *, least_gain: float | None = 0.0) -> list[str]:
    """Check a statement against what the agent knows; the claims that were checked, all of which hold.

    Parameters
    ----------
    least_gain
        What it wants at least beyond the utility of training alone, in units of payoff; None if it takes any deal.

    Raises
    ------
    Refused
        With the first claim that does not hold.
    """
    given = _check_terms(statement, agent.name, agent.index, agent.n_agents)
    own, [cap] = float(given.contributions[agent.index]), agent.caps
    fits = own <= cap * (1.0 + STATEMENT_ROUNDING)
    _require("contributions", fits, f"{own:g} samples are more than its cap of {cap:g}")
    rules = MECHANISMS.get(str(statement.get("mechanism", ExternalityMechanism.name)))
    is_priced = rules is not None and rules.has_prices
    no_side = given.side_payment == 0.0 or (rules is not None and rules.has_side_payments)
    _require("payment", no_side, f"{given.side_payment:.9g} beside the prices is not for these rules")
    _check_deal(agent, given, least_gain, is_priced=is_priced)
    unchecked = set() if least_gain is not None else {LEAST_GAIN}
    unchecked |= set() if is_priced else {"payment", "prices", "own contribution"}
    unchecked |= {"prices"} if given.prices is None else set()
    return [claim for claim in CLAIMS if claim not in unchecked]


def check_terms(statement: Mapping[str, Any], name: str, place: int, size: int) -> list[str]:
    """Check what a node can that has no numbers of its own: its place, and that the terms are sound.

    Raises
    ------
    Refused
        With the first claim that does not hold.
    """
    _check_terms(statement, name, place, size)
    return list(CLAIMS[:3])


def _check_terms(statement: Mapping[str, Any], name: str, place: int, size: int) -> _Statement:
    stated = statement.get("place")
    _require("place", type(stated) is int and stated == place, f"it is not at place {short_repr(stated)}")
    names = statement.get("agents")
    listed = isinstance(names, list) and len(names) == size and names[place] == name
    _require("place", listed, f"the members are not {size} with {name!r} at place {place}")
    given = _read(statement, size)
    _require("contributions", bool((given.contributions >= 0.0).all()), "some are negative")
    _require("contributions", not _given_by_absent(statement, given), "somebody who is out would contribute")
    _require("money", _is_money(statement.get("money")), f"no exchange rate in {short_repr(statement.get('money'))}")
    return given


def _check_deal(agent: Agent, given: _Statement, least_gain: float | None, *, is_priced: bool) -> None:
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
            utility - agent.standalone_utility() >= least_gain - STATEMENT_ROUNDING * scale,
            "it asks for more",
        )


def _prices_by_payment(agent: Agent, given: _Statement, worth: FloatArray) -> FloatArray:
    """Its prices where none are named: what data is worth to it, and for its own what its payment leaves."""
    prices, own = worth.copy(), float(given.contributions[agent.index])
    if own > 0.0:
        paid = float(worth @ given.contributions) - float(worth[agent.index]) * own
        prices[agent.index] = -(given.priced_payment + paid) / own
    return prices


def _check_unpriced(agent: Agent, given: _Statement, worth: FloatArray, said: Mapping[str, Any]) -> None:
    """That it is paid its marginal cost for what it gives, more only at its cap, less what all data is worth to it."""
    own = float(given.contributions[agent.index])
    value = float(worth @ given.contributions)
    due = said["marginal_cost"] * own - value
    rounding = STATEMENT_ROUNDING * (abs(said["payoff"]) + said["cost"] + abs(due) + abs(value))
    most = math.inf if own >= agent.caps[0] * (1.0 - STATEMENT_ROUNDING) and own > 0.0 else due + rounding
    fits = due - rounding <= given.priced_payment <= most
    reason = f"{given.priced_payment:.9g} does not follow from its costs and what data is worth to it"
    _require("payment", fits, reason)  # what does follow stays its own business


def _check_prices(agent: Agent, given: _Statement, prices: FloatArray, worth: FloatArray, scale: float) -> None:
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


def _own_gain(agent: Agent, given: _Statement, price: float) -> float:
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


def _read(statement: Mapping[str, Any], size: int) -> _Statement:
    contributions = _numbers(statement, "contributions", size)
    prices = None if "prices" in statement and statement["prices"] is None else _numbers(statement, "prices", size)
    utility = statement.get("utility")
    return _Statement(
        contributions=contributions,
        prices=prices,
        payment=_number(statement, "payment"),
        side_payment=_number(statement, "side_payment") if "side_payment" in statement else 0.0,
        utility=None if utility is None else _number(statement, "utility"),
    )


def _given_by_absent(statement: Mapping[str, Any], given: _Statement) -> bool:
    out = statement.get("excluded") or []
    return any(
        amount > 0.0 and name in out for name, amount in zip(statement["agents"], given.contributions, strict=True)
    )


def _is_money(given: Any) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("currency"), str):
        return False
    rate, decimals = given.get("per_payoff", 0.0), given.get("decimals")
    return _is_number(rate) and rate > 0 and type(decimals) is int and 0 <= decimals <= MAX_UNIT_DECIMALS


def _numbers(statement: Mapping[str, Any], key: str, size: int) -> FloatArray:
    given = statement.get(key)
    if not isinstance(given, list) or len(given) != size or not all(_is_number(entry) for entry in given):
        raise Refused(f"{key} must be {size} finite numbers, got {short_repr(given)}")
    return np.array(given, dtype=np.float64)


def _number(statement: Mapping[str, Any], key: str) -> float:
    given = statement.get(key)
    if not _is_number(given):
        raise Refused(f"{key} must be a finite number, got {short_repr(given)}")
    return float(given)  # type: ignore[arg-type]


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 1e300


def _require(claim: str, holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(f"{claim}: {reason}")
