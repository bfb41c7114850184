"""One page for one member: what it brings, pays or receives and gains, what is certified of that and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup

from fedpact.certificates import Claim
from fedpact.certificates.reciprocity import shown_shares
from fedpact.comparison import Comparison
from fedpact.comparison.recommendation import addition_text
from fedpact.deals import Outcome
from fedpact.deals.diagnosis import idle_reason
from fedpact.federation.splitting import agent_index
from fedpact.report.markup import mention, render, style_sheet
from fedpact.report.numbers import money_text, number_text, percent, probability_text
from fedpact.report.page import View
from fedpact.report.tables import MEMBER_COLUMNS, PAID_AT, brought_text, claims_table, price_texts, prices_paid_text
from fedpact.report.words import NOT_CERTIFIED
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput

MAX_TRANSFERS_OF_ONE = 12  # of a page
# Of the columns of a deal: what each is called on the page of one member, and what it means.
SHEET: Mapping[str, tuple[str, str]] = {
    "payoff": ("What the model is worth to it", ""),
    "cost": ("What its data costs it", ""),
    "is paid": ("Payment", "received (+) or paid (−)"),
    "of it fixed": ("of it fixed", "whatever anybody contributes"),
    "joining": ("What joining costs it", "once"),
    "net benefit": ("Net benefit", "worth, less costs, plus payment"),
    "alone": ("What it would have alone", ""),
    "gain": ("Gain", "net benefit, less what it would have alone"),
    "fair gain": ("Fair gain", "what it adds to what groups of members can gain"),
    "of its fair gain": ("Of its fair gain it has", ""),
    "Shapley share": ("Shapley share", "what its data adds for all, averaged over all orders of joining"),
    "share back": ("Of its Shapley share it gets back", ""),
}
RATIOS = ("of its fair gain", "share back")
OF_RECIPROCITY = ("Shapley share", "share back")


def render_member_page(
    comparison: Comparison, member: str | int, scenario: Scenario | None = None, *, mechanism: str | None = None
) -> str:
    """The page of one member as HTML text, about the recommended deal or the one of `mechanism`.

    Of a member that should stay out of the recommended deal it says so, and what it would have with everybody in.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, compare
    >>> pair = Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, payoff=PowerLaw(beta=0.2), names=["Ada", "Bob"])
    >>> "the page of Ada" in render_member_page(compare(pair, ["externality"]), "Ada")
    True
    """
    view = View.of(comparison, scenario)
    name, is_out = comparison.federation.names[agent_index(comparison.federation, member)], False
    if mechanism is None and view.among_best is not None:
        is_out = name not in view.among_best.names
        view = view if is_out else view.among_best
    outcome = view.chosen if mechanism is None else view.comparison[mechanism]
    if outcome is None:
        raise InvalidInput("no mechanism was solved, so there is no deal to show a member")
    index, rules = outcome.agents.index(name), view.comparison.mechanism(outcome.mechanism)
    without = () if _is_by_shares(outcome) else (Claim.RECIPROCITY,)
    claims = claims_table({"verdict": (outcome, rules.promises(outcome.federation))}, None, without=without)
    return str(
        render(
            "member.html",
            view=view,
            style=style_sheet(),
            member=name,
            outcome=outcome,
            rules=rules,
            lead=_lead(view, outcome, index),
            out=addition_text(comparison, name) if is_out else "",
            rows=_rows(view, outcome, index),
            transfers=[] if is_out else _transfers(view, outcome, index),
            claims=replace(claims, below=()),  # one sheet
            not_certified=NOT_CERTIFIED,
        )
    )


def _is_by_shares(outcome: Outcome) -> bool:
    """Whether the deal is about Shapley shares of everything; beside another deal they say nothing to who signs it."""
    return Claim.RECIPROCITY in outcome.promised or getattr(outcome.rules, "by", "") == "reciprocity"


def _lead(view: View, outcome: Outcome, index: int) -> Markup:
    """The deal for this member, in two sentences."""
    unit, payment, gain = view.unit, float(outcome.payments[index]), float(outcome.ir_gaps[index])
    noise = unit.noise
    pays = f"pays {unit.text(-payment)}" if payment < 0 else f"receives {unit.text(payment)}"
    if abs(payment) <= noise:
        pays = "neither pays nor receives anything"
    better = f"{unit.text(abs(gain))} {'better' if gain > 0 else 'worse'} off than alone"
    if abs(gain) <= noise:
        better = "as well off as alone"
    brings = brought_text(outcome, index, unit.data)
    idle = idle_reason(outcome, outcome.agents[index])
    why = f" ({idle})" if idle else ""
    said = Markup("{} contributes {}{} and {}. It is {}.")
    return said.format(mention(outcome.agents[index]), brings, why, pays, better)


def _rows(view: View, outcome: Outcome, index: int) -> list[tuple[str, str, str]]:
    """What it is, how much, and what that means."""
    unit, federation = view.unit, outcome.federation
    rows = [
        (
            unit.of_data(f"Contribution, {federation.lot_names[lot]}" if federation.has_lots else "Contribution"),
            number_text(float(outcome.contributions[lot])),
            _at_most(outcome, int(lot)),
        )
        for lot in federation.lots_of(index)
    ]
    own = "its own model, from which gains count" if federation.home is not None else "with its own data only"
    for head, (label, note) in SHEET.items():
        if head in OF_RECIPROCITY and not _is_by_shares(outcome):
            continue
        texts = MEMBER_COLUMNS[head](outcome, unit)
        if len(texts):
            text = texts[index] if head in RATIOS else unit.labelled(texts[index])
            rows.append((label, text, {"alone": own, "share back": _share_note(outcome, index)}.get(head, note)))
        rows += _price_rows(view, outcome, index) if head == "of it fixed" else []
    outlook = view.comparison.uncertainty.get(outcome.mechanism)
    if outlook is None:
        return rows
    low, high = (unit.text(float(end), signed=True) for end in outlook.interval("ir_gaps")[index])
    rows.append(("How sure the gain is", f"{low} to {high}", f"in {percent(outlook.level, decimals=0)} of the draws"))
    chance = probability_text(float(outlook.leave_probabilities[index]), outlook.n_draws)
    sure = ("not measured", outlook.assumption) if outlook.assumption else (chance, "of the draws")
    return [*rows, ("It would do better alone", *sure)]


def _price_rows(view: View, outcome: Outcome, index: int) -> list[tuple[str, str, str]]:
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
        for lot in federation.lots_of(index)
    ]
    paid = prices_paid_text(outcome, index, unit)
    return (
        [
            *rows,
            ("Prices it pays for others' data", paid, f"{unit.per_data.removeprefix(f'{unit.label} ')}, as delivered"),
        ]
        if paid
        else rows
    )


def _share_note(outcome: Outcome, index: int) -> str:
    """What its part of a fair share is a part of; of a share that is not above zero, why there is none."""
    if not np.isnan(outcome.fair_parts[index]) or np.isnan(outcome.shapley_values[index]):
        return "worth plus payment, before costs"
    share = shown_shares(outcome.payoffs + outcome.payments, outcome.shapley_values)[index]
    return "its data takes away more than it adds for all" if share < 0 else "its data adds nothing for all"


def _at_most(outcome: Outcome, lot: int) -> str:
    """What a contribution is of, and whether the lot stays at home."""
    cap = float(outcome.federation.caps[lot])
    shared = [each.cap for each in outcome.federation.shared_caps if lot in each.lots]
    cap = min([cap, *shared])
    home = ["it stays at home"] if outcome.federation.has_lots and outcome.contributions[lot] == 0.0 else []
    most = [f"of at most {number_text(cap)}"] if np.isfinite(cap) else []
    return ", ".join([*most, *(["with the lots it shares a cap with"] if shared else []), *home])


def _transfers(view: View, outcome: Outcome, index: int) -> Sequence[Markup]:
    """Whom it pays, and who pays it, to the cent."""
    settlement, name = view.settlements[outcome.mechanism], outcome.agents[index]
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
