"""One deal as a table: what each brings, at which price, pays or receives, and gains; on the terminal and on pages.

Under a mechanism with prices, what was delivered is paid for at these: its owner receives the price of every unit, and
each of the others pays its part of it.
"""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome
from fedpact.report.numbers import Unit, gain_share_texts, number_text, number_texts
from fedpact.utils.words import MAX_NAMES, join_names

PAID_AT = "what was delivered is paid for at these"


def price_texts(outcome: Outcome, unit: Unit) -> list[str]:
    """What the owner of each lot receives for a unit of it; empty where data has no price."""
    return unit.column(outcome.net_externality) if outcome.has_prices and len(outcome.agents) > 1 else []


def deal_columns(outcome: Outcome, unit: Unit) -> dict[str, list[str]]:
    """The columns of a table with a row per member, by their heads; what is told of lots is left out with several."""
    columns: dict[str, list[str]] = {}
    if not outcome.federation.has_lots:
        columns["brings"] = number_texts(outcome.contributions)
        columns |= {"price": prices} if (prices := price_texts(outcome, unit)) else {}
    columns |= {"payoff": unit.column(outcome.payoffs), "cost": unit.column(outcome.costs)}
    if outcome.joining_costs.any():
        columns["joining"] = unit.column(outcome.joining_costs)
    columns["is paid"] = unit.column(outcome.payments, signed=True)
    columns["gain"] = unit.column(outcome.ir_gaps, signed=True)
    return columns | {"of its fair gain": gain_share_texts(outcome)}


def terms_columns(outcome: Outcome, unit: Unit) -> dict[str, list[str]]:
    """The columns of the page to sign, by their heads: what each gives, pays or receives, and gains."""
    federation = outcome.federation
    if federation.has_lots:
        gives = [brought_text(outcome, agent, "") for agent in range(federation.n_agents)]
    else:
        gives = number_texts(outcome.contributions)
    prices = [] if federation.has_lots else price_texts(outcome, unit)
    return {
        "gives": gives,
        **({"price": prices} if prices else {}),
        "pays (\N{MINUS SIGN}) or receives (+)": unit.column(outcome.payments, signed=True),
        "gains": unit.column(outcome.ir_gaps, signed=True),
        "of its fair gain": gain_share_texts(outcome),
    }


def brought_text(outcome: Outcome, agent: int, unit: str) -> str:
    """How much a member contributes, of each of its lots where it has several; what stays at home is left out."""
    given, own = outcome.federation, outcome.federation.lots_of(agent)
    if not given.has_lots:
        return f"{number_text(float(outcome.contributions[agent]))} {unit or 'units of data'}"
    brought = [lot for lot in own if outcome.contributions[lot] > 0.0]
    told = [f'{number_text(float(outcome.contributions[lot]))} of "{given.lot_names[lot]}"' for lot in brought]
    return f"{join_names(told)}{f' ({unit})' if unit else ''}" if told else "no data"


def deal_units(outcome: Outcome, unit: Unit) -> str:
    """What the numbers of the table are in."""
    said = f"amounts in {unit.label}" + (f", contributions in {unit.data}" if unit.data else "")
    return f"{said}, prices in {unit.per_data}" if "price" in deal_columns(outcome, unit) else said


def prices_paid_text(outcome: Outcome, agent: int, unit: Unit) -> str:
    """What a member pays for a unit of each lot of others that is brought; empty where it pays nothing."""
    federation = outcome.federation
    prices = outcome.arrays.prices(outcome.contributions)[agent]
    paid = (federation.lot_owners != agent) & (outcome.contributions > 0) & (prices != 0)
    ranked = sorted(np.flatnonzero(paid).tolist(), key=lambda lot: -abs(prices[lot] * outcome.contributions[lot]))
    return join_names(
        [f"{unit.text(float(prices[lot]))} for {federation.lot_labels[lot]}" for lot in ranked], most=MAX_NAMES
    )
