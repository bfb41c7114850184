"""One page for one member: what it brings, pays or receives and gains, what is certified of that and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from markupsafe import Markup

from fedpact.certificates.reciprocity import shown_shares
from fedpact.comparison import Comparison
from fedpact.comparison.recommendation import addition_text
from fedpact.deals import Outcome
from fedpact.deals.diagnosis import idle_reason
from fedpact.federation.splitting import agent_index
from fedpact.report.markup import mention, render
from fedpact.report.numbers import gain_share_texts, money_text, number_text, percent, probability_text, share_texts
from fedpact.report.page import style_sheet
from fedpact.report.tables import PAID_AT, brought_text, claims_table, price_texts, prices_paid_text
from fedpact.report.view import View
from fedpact.report.words import NOT_CERTIFIED
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text

MAX_TRANSFERS_OF_ONE = 12  # of a page


def render_member_page(
    comparison: Comparison,
    member: str | int,
    *,
    mechanism: str | None = None,
    scenario_title: str = "",
    money: Money | None = None,
    unit: str = "",
) -> str:
    """The page of one member as HTML text, about the recommended deal or the one of `mechanism`.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, compare
    >>> pair = Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, payoff=PowerLaw(beta=0.2), names=["Ada", "Bob"])
    >>> "the page of Ada" in render_member_page(compare(pair, ["externality"]), "Ada")
    True
    """
    view = View.of(comparison, title=scenario_title, money=money, data=unit)
    name, aside = comparison.federation.names[agent_index(comparison.federation, member)], Markup()
    if mechanism is None and view.among_best is not None:
        if name in view.among_best.names:
            view = view.among_best
        else:
            said = Markup(
                "{} should stay out of the deal that is recommended: it {}. This is the deal with everybody in."
            )
            aside = said.format(mention(name), addition_text(comparison, name))
    outcome = view.chosen if mechanism is None else view.comparison[mechanism]
    if outcome is None:
        raise InvalidInput("no mechanism was solved, so there is no deal to show a member")
    place = outcome.agents.index(name)
    promised = view.comparison.mechanism(outcome.mechanism).promises(outcome.federation)
    return str(
        render(
            "member.html",
            view=view,
            style=style_sheet(),
            member=outcome.agents[place],
            outcome=outcome,
            rules=view.comparison.mechanism(outcome.mechanism),
            lead=_lead(view, outcome, place),
            aside=aside,
            rows=_rows(view, outcome, place),
            transfers=_transfers(view, outcome, place),
            claims=replace(claims_table({"verdict": (outcome, promised)}, None), below=()),  # one sheet
            not_certified=NOT_CERTIFIED,
        )
    )


def write_member_page(
    comparison: Comparison,
    member: str | int,
    path: str | PathLike[str],
    *,
    mechanism: str | None = None,
    scenario_title: str = "",
    money: Money | None = None,
    unit: str = "",
) -> None:
    """Write the page to a file, whole or not at all; see `render_member_page`."""
    text = render_member_page(
        comparison, member, mechanism=mechanism, scenario_title=scenario_title, money=money, unit=unit
    )
    replace_text(Path(path), text)


def _lead(view: View, outcome: Outcome, place: int) -> Markup:
    """The deal for this member, in two sentences."""
    unit, payment, gain = view.unit, float(outcome.payments[place]), float(outcome.ir_gaps[place])
    noise = unit.noise
    pays = f"pays {unit.text(-payment)}" if payment < 0 else f"receives {unit.text(payment)}"
    if abs(payment) <= noise:
        pays = "neither pays nor receives anything"
    better = f"{unit.text(abs(gain))} {'better' if gain > 0 else 'worse'} off than alone"
    if abs(gain) <= noise:
        better = "as well off as alone"
    brings = brought_text(outcome, place, unit.data)
    idle = idle_reason(outcome, outcome.agents[place])
    why = f" ({idle})" if idle else ""
    said = Markup("{} contributes {}{} and {}. It is {}.")
    return said.format(mention(outcome.agents[place]), brings, why, pays, better)


def _rows(view: View, outcome: Outcome, place: int) -> list[tuple[str, str, str]]:
    """What it is, how much, and what that means."""
    unit, federation = view.unit, outcome.federation
    share = float(outcome.shapley_values[place])
    rows = [
        (
            unit.of_data(f"Contribution, {federation.lot_names[lot]}" if federation.has_lots else "Contribution"),
            number_text(float(outcome.contributions[lot])),
            _at_most(outcome, int(lot)),
        )
        for lot in federation.lots_of(place)
    ]
    rows += [
        ("What the model is worth to it", unit.text(float(outcome.payoffs[place])), ""),
        ("What its data costs it", unit.text(float(outcome.costs[place])), ""),
        ("Payment", unit.text(float(outcome.payments[place]), signed=True), "received (+) or paid (−)"),
    ]
    assert outcome.side_payments is not None
    if outcome.side_payments.any():
        fixed = unit.text(float(outcome.side_payments[place]), signed=True)
        rows.append(("of it fixed", fixed, "whatever anybody contributes"))
    rows += _price_rows(view, outcome, place)
    if outcome.joining_costs[place]:
        rows.append(("What joining costs it", unit.text(float(outcome.joining_costs[place])), "once"))
    own = "its own model, from which gains count" if outcome.federation.home is not None else "with its own data only"
    rows += [
        ("Net benefit", unit.text(float(outcome.utilities[place])), "worth, less costs, plus payment"),
        ("What it would have alone", unit.text(float(outcome.standalone[place])), own),
        ("Gain", unit.text(float(outcome.ir_gaps[place]), signed=True), "net benefit, less what it would have alone"),
        ("Fair gain", unit.text(float(outcome.fair_gains[place])), "what it adds to what groups of members can gain"),
        ("Of its fair gain it has", gain_share_texts(outcome)[place], ""),
        ("Shapley share", unit.text(share), "what its data adds for all, averaged over all orders of joining"),
        ("Of its Shapley share it gets back", share_texts(outcome)[place], _share_note(outcome, place)),
    ]
    outlook = view.comparison.uncertainty.get(outcome.mechanism)
    if outlook is not None:
        low, high = (unit.text(float(end), signed=True) for end in outlook.interval("ir_gaps")[place])
        rows.append(
            ("How sure the gain is", f"{low} to {high}", f"in {percent(outlook.level, decimals=0)} of the draws")
        )
        chance = probability_text(float(outlook.leave_probabilities[place]), outlook.n_draws)
        words = "of the draws of what is not known for sure"
        said = ("not measured", outlook.assumption) if outlook.assumption else (chance, words)
        rows.append(("It would do better alone", *said))
    return rows


def _price_rows(view: View, outcome: Outcome, place: int) -> list[tuple[str, str, str]]:
    """What a unit of its own data is paid, and what it pays for a unit of others'."""
    unit, federation, prices = view.unit, outcome.federation, price_texts(outcome, view.unit)
    if not prices:
        return []
    rows = [
        (
            f"Price of {federation.lot_names[lot]}" if federation.has_lots else "Price of its data",
            f"{prices[lot]} {unit.per_data}",
            PAID_AT.replace("these", "this"),
        )
        for lot in federation.lots_of(place)
    ]
    paid = prices_paid_text(outcome, place, unit)
    return [*rows, ("Prices it pays for others' data", paid, f"{unit.per_data}, as delivered")] if paid else rows


def _share_note(outcome: Outcome, place: int) -> str:
    """What its part of a fair share is a part of; of a share that is not above zero, why there is none."""
    if not np.isnan(outcome.fair_parts[place]) or np.isnan(outcome.shapley_values[place]):
        return "worth plus payment, before costs"
    share = shown_shares(outcome.payoffs + outcome.payments, outcome.shapley_values)[place]
    return "its data takes away more than it adds for all" if share < 0 else "its data adds nothing for all"


def _at_most(outcome: Outcome, lot: int) -> str:
    """What a contribution is of, and whether the lot stays at home."""
    cap = float(outcome.federation.caps[lot])
    shared = [each.cap for each in outcome.federation.shared_caps if lot in each.lots]
    cap = min([cap, *shared])
    home = ["it stays at home"] if outcome.federation.has_lots and outcome.contributions[lot] == 0.0 else []
    most = [f"of at most {number_text(cap)}"] if np.isfinite(cap) else []
    return ", ".join([*most, *(["with the lots it shares a cap with"] if shared else []), *home])


def _transfers(view: View, outcome: Outcome, place: int) -> Sequence[Markup]:
    """Whom it pays, and who pays it, to the cent."""
    settlement, name = view.settlements[outcome.mechanism], outcome.agents[place]
    if settlement is None:
        return []
    found = [each for each in settlement.transfers if name in {each.payer, each.payee}]
    found.sort(key=lambda each: -each.cents)
    return [
        Markup("{} {}").format(
            Markup("pays {}").format(mention(each.payee))
            if each.payer == name
            else Markup("receives from {}").format(mention(each.payer)),
            money_text(settlement, each.cents),
        )
        for each in found[:MAX_TRANSFERS_OF_ONE]
    ]
