"""What the sections around the deal show: the summary, what is certified, what it rests on, the federation, the method.

Each function prepares what the template of the same name fills in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import fedpact
from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.deals import Outcome
from fedpact.deals.diagnosis import diagnose
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.report.deal_table import deal_units, terms_columns
from fedpact.report.markup import mention, mention_list, name_tag
from fedpact.report.measured import MeasuredTable, measured_tables
from fedpact.report.numbers import (
    MINUS,
    SPACE,
    UNDEFINED,
    Unit,
    given_text,
    lowest_gain_share_text,
    lowest_share_text,
    money_text,
    number_text,
    number_texts,
    percent,
    share_texts,
    smallest_gain_text,
)
from fedpact.report.stability import leaving_group
from fedpact.report.view import MAX_SHOWN, Selection, View
from fedpact.report.words import ASSUMPTIONS, CLAIMS, GLOSSARY, NOT_CERTIFIED, SHAPLEY_METHODS
from fedpact.scenario import Measured
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text, join_names

MAX_REASON_LENGTH = 3000
MAX_CARD_NAMES = 3
MAX_SIGNATURES = 12  # on the page to sign
STATED = "How useful data is, what it is worth and what it costs is as the members say; no pilot has measured it."
ASSUMED = "That members deliver what they agreed to, and told the truth about their costs and what the model is worth."
VERDICT_SIGNS = {Verdict.HOLDS: "✓", Verdict.VIOLATED: "✗", Verdict.NOT_REFUTED: "○", Verdict.UNDEFINED: "–"}
MAX_FAILING_NAMES = 4
MAX_LISTED_ROWS = 500
"""The most agents whose numbers are all listed."""

# The strongest shade of a weight; text stays readable on it. Tables with more columns are set tighter.
MAX_SHADE = 0.55
MAX_ROOMY_COLUMNS = 12


# Summary


@dataclass(frozen=True)
class Card:
    """A headline number with what it is and a word on it."""

    label: str
    figure: str
    note: str


def summary(view: View) -> dict[str, Any]:
    """The recommendation with its reason, the headline numbers, the mechanisms at a glance, what was not solved."""
    comparison, joined = view.comparison, view.among_best or view
    chosen = joined.chosen
    if view.measured is not None and not view.measured.has_deal:
        chosen = None
    recommendation = comparison.recommendation if comparison.outcomes else None
    count, size = joined.federation.n_agents, view.federation.n_agents
    members = f"{count:,}" if count == size else f"{count:,} of {size:,}"
    cards = [Card("Members", members, "" if chosen is None else _leavers_note(joined, chosen))]
    if chosen is not None:
        cards += [_welfare_card(joined, chosen), _money_card(joined, chosen), _fairness_card(chosen)]
    is_deal = chosen is not None and chosen.federated and not comparison.not_recommended
    deal = chosen if is_deal and recommendation is not None else None
    return {
        "deal": None if deal is None else _deal_terms(joined, deal),
        "deal_units": "" if deal is None else deal_units(deal, view.unit),
        "rests_on": [] if deal is None else _rests_on(joined, deal),
        "signing": [] if deal is None else [name for name in deal.agents if len(deal.agents) <= MAX_SIGNATURES],
        "recommendation": recommendation,
        "plain_title": recommendation and comparison.mechanism(recommendation.mechanism).plain_title,
        "about": recommendation and comparison.mechanism(recommendation.mechanism).description,
        "max_reason_length": MAX_REASON_LENGTH,
        "cards": cards,
        "measured": view.measured,
        "measured_tables": () if view.measured is None else _measured_tables(view, view.measured),
        "overview": _overview(view) if chosen is not None or view.measured is None else (),
        "unsolved": [(comparison.title(name), reason) for name, reason in comparison.unsolved.items()],
    }


def _deal_terms(view: View, deal: Outcome) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads and rows of the table that members sign; of many members those that gain most."""
    shown = view.select(deal.ir_gaps, "").agents
    columns = terms_columns(deal, view.unit)
    return _table(
        [deal.agents[agent] for agent in shown],
        {head: [texts[agent] for agent in shown] for head, texts in columns.items()},
    )


def _rests_on(view: View, deal: Outcome) -> list[tuple[str, str]]:
    """By which rule it is, who pays whom, and what it rests on: measured or stated, certified, assumed."""
    measured, settlement = view.measured, view.settlements[deal.mechanism]
    numbers = ("Stated", STATED) if measured is None else ("Measured", measured.advice)
    proved = [CLAIMS[Claim(claim)][0] for claim, found in deal.certificates.items() if found.verdict is Verdict.HOLDS]
    facts = [("Rule", view.comparison.mechanism(deal.mechanism).description)]
    if settlement is not None and 0 < len(settlement.transfers) <= MAX_SIGNATURES:
        paid = [f"{each.payer} pays {each.payee} {money_text(settlement, each.cents)}" for each in settlement.transfers]
        facts.append(("Payments", f"{'; '.join(paid)}."))
    return [*facts, numbers, ("Certified", f"{'; '.join(proved) or 'nothing'}."), ("Assumed", ASSUMED)]


def _measured_tables(view: View, found: Measured) -> list[MeasuredTable]:
    return measured_tables(found, view.federation.names, view.federation.lot_owners, view.unit)


def _leavers_note(view: View, outcome: Outcome) -> str:
    if outcome.leavers:
        return Markup("{} would leave").format(mention_list(outcome.leavers, MAX_CARD_NAMES))
    group = leaving_group(view.comparison, outcome.mechanism, view.unit).members
    if group:
        return Markup("{} would leave together").format(mention_list(group, MAX_CARD_NAMES))
    proved = view.comparison.group_verdict(outcome.mechanism) is Verdict.HOLDS
    return "nobody would leave, alone or in a group" if proved else "nobody would leave"


def _welfare_card(view: View, chosen: Outcome) -> Card:
    stable = view.comparison.after_departures.get(chosen.mechanism)
    welfare = stable.welfare if stable is not None else chosen.welfare
    label = "Welfare, once the unwilling have left" if chosen.leavers and stable is not None else "Welfare, all members"
    alone, share = float(chosen.standalone.sum()), view.comparison.share_of_best(welfare)
    notes = [f"{percent(share)} of the best"] if np.isfinite(share) else []
    if alone > 0:
        notes.append(f"{percent(welfare / alone - 1.0, signed=True)} against everybody alone")
    return _card(label, view.unit.text(welfare), "; ".join(notes))


def _money_card(view: View, chosen: Outcome) -> Card:
    settlement, received = view.settlements[chosen.mechanism], float(np.maximum(chosen.payments, 0.0).sum())
    label = "Changes hands"
    if settlement is None:
        return _card(label, view.unit.text(float(np.abs(chosen.payments).sum()) / 2), "the payments do not balance")
    if not settlement.transfers:
        return _card(label, "nothing", "no payments")
    return _card(label, view.unit.text(received), f"in {count_text(len(settlement.transfers), 'transfer')}")


def _fairness_card(chosen: Outcome) -> Card:
    text = lowest_gain_share_text(chosen)
    if text == UNDEFINED:
        note = "of more than 64 members it is not worked out"
    elif np.isnan(chosen.lowest_gain_share):
        note = "there is no gain to share"
    elif chosen.lowest_gain_share >= 0.995:
        note = "everybody has its fair share of the gain"
    else:
        note = Markup("{}\u2019s part of its fair share of the gain").format(
            mention(chosen.agents[int(np.nanargmin(chosen.gain_shares))])
        )
    return _card("Lowest fair gain", text, note)


def _card(label: str, figure: str, note: str) -> Card:
    return Card(label, figure.replace(SPACE, " "), note)  # a long amount may go below its currency


def _overview(view: View) -> list[dict[str, Any]]:
    """A row per mechanism."""
    welfare = view.unit.column([outcome.welfare for outcome in view.comparison])
    rows = []
    for outcome, text in zip(view.comparison, welfare, strict=True):
        stable = view.comparison.after_departures.get(outcome.mechanism)
        rows.append(
            {
                "outcome": outcome,
                "about": view.comparison.mechanism(outcome.mechanism).description,
                "cells": (
                    text,
                    percent(view.comparison.share_of_best(outcome.welfare)),
                    "–" if stable is None else percent(view.comparison.share_of_best(stable.welfare)),
                    _leavers_cell(view, outcome),
                    lowest_gain_share_text(outcome),
                    lowest_share_text(outcome),
                ),
            }
        )
    return rows


def _leavers_cell(view: View, outcome: Outcome) -> str:
    """Who would leave alone or, if nobody would, how many together."""
    if not outcome.federated:
        return "–"
    if len(outcome.leavers) == 1:
        return name_tag(outcome.leavers[0])
    if outcome.leavers:
        return f"{len(outcome.leavers):,} of {len(outcome.agents):,}"
    group = leaving_group(view.comparison, outcome.mechanism, view.unit).members
    return f"{len(group):,} together" if group else "nobody"


# Certificates


@dataclass(frozen=True, kw_only=True)
class CheckedClaim:
    """A certificate of one outcome as a cell."""

    title: str
    about: str
    outcome: Outcome
    certificate: Certificate
    sign: str
    css: str
    word: str
    margin: str


def certificates(view: View) -> dict[str, Any]:
    """Claims by mechanisms."""
    by_outcome = {
        view.title_of(outcome): checked_claims(
            outcome, view.comparison.mechanism(outcome.mechanism).promises(outcome.federation), view.unit
        )
        for outcome in view.comparison
    }
    by_claim = list(zip(*by_outcome.values(), strict=True))
    return {"by_outcome": by_outcome, "by_claim": by_claim, "not_certified": NOT_CERTIFIED}


def checked_claims(outcome: Outcome, promised: Sequence[Claim], unit: Unit) -> list[CheckedClaim]:
    """The certificates of an outcome, whose mechanism promises some of the claims."""
    return [
        _checked_claim(outcome, found, promised=found.claim in promised, unit=unit)
        for found in outcome.certificates.values()
    ]


def _checked_claim(outcome: Outcome, found: Certificate, *, promised: bool, unit: Unit) -> CheckedClaim:
    css, word = _promise(found.verdict, promised=promised)
    title, about = CLAIMS[Claim(found.claim)]
    return CheckedClaim(
        title=title,
        about=about,
        outcome=outcome,
        certificate=found,
        sign=VERDICT_SIGNS[found.verdict],
        css=css,
        word=word,
        margin=_margin_text(outcome, unit, found),
    )


def _promise(verdict: Verdict, *, promised: bool) -> tuple[str, str]:
    """The class of a cell and the word on the promise."""
    if verdict is Verdict.VIOLATED:
        return ("broken", "promised: an error") if promised else ("missed", "not promised")
    if verdict is not Verdict.HOLDS:
        return "open", "promised" if promised else "not promised"
    return ("kept", "promised by design") if promised else ("bonus", "not promised, holds here")


def _margin_text(outcome: Outcome, unit: Unit, found: Certificate) -> str:
    """The margin in the unit of the page; of individual rationality it is the smallest gain, and has a name."""
    if found.claim is Claim.INDIVIDUAL_RATIONALITY:
        return smallest_gain_text(outcome, unit)
    return f"margin {'0' if abs(found.margin) <= found.tol else unit.column([found.margin], signed=True)[0]}"


# Assumptions


def conditions(view: View) -> dict[str, Any]:
    """The paper's assumptions, for whom they fail, and what stands out under each mechanism."""
    outcomes = view.mechanisms_proper
    assumptions = []
    for same in zip(*(outcome.assumptions for outcome in outcomes), strict=True):
        failing = [(view.title_of(outcome), one) for outcome, one in zip(outcomes, same, strict=True) if not one.holds]
        alike = len(failing) == len(outcomes) and len({tuple(one.agents) for _, one in failing}) == 1
        assumptions.append(
            {
                "name": same[0].name.capitalize(),
                "about": ASSUMPTIONS.get(same[0].name),
                "failing": failing,
                "alike": alike,
            }
        )
    limits = {"max_names": MAX_FAILING_NAMES, "max_sentences": MAX_SHOWN}
    return {"assumptions": assumptions, "diagnose": diagnose, **limits}


# The federation


def federation(view: View) -> dict[str, Any]:
    """What was known of every agent, how useful data is to whom, and every number of every deal."""
    chosen = _prominent(view)
    return {
        "curve": _curve_text(view.federation),
        "terms": _terms(view),
        "chosen": chosen,
        "tables": _tables(view, chosen),
        "weights": _weights(view, chosen),
        "weights_note": _weights_note(view.federation),
        "numbers": [(view.title_of(outcome), _numbers(view, outcome)) for outcome in view.comparison],
        "n_hidden": max(0, view.federation.n_agents - MAX_LISTED_ROWS),
    }


def _terms(view: View) -> list[str]:
    """What the federation is told beside costs, caps and values, a sentence each."""
    given = view.federation
    said = [
        "Members use their own data at home whether they share it or not: costs are those of sharing, and gains count "
        "from there."
        if given.home is not None
        else "Members pay for using their own data too, as in the paper: none is used at home for nothing."
    ]
    total = float(given.joining_costs.sum())
    said.append(
        f"Joining costs {view.unit.text(total)} in all, paid once by those who take part."
        if total
        else "Joining costs nothing."
    )
    limited = np.flatnonzero(np.isfinite(given.budgets)).tolist()
    said += (
        [f"What {join_names([given.names[agent] for agent in limited], most=MAX_CARD_NAMES)} can pay is limited."]
        if limited
        else []
    )
    if view.comparison.models == "personal":
        said.append("Everybody has a model of its own, which leaves out data that harms it.")
    return said


def _prominent(view: View) -> Selection:
    if view.chosen is None:
        return view.select(np.zeros(view.federation.n_agents), "the first entries")
    if view.chosen.payments.any():
        return view.select(np.abs(view.chosen.payments), f"the largest payments under {view.title_of(view.chosen)}")
    given = sum_by(view.federation.lot_owners, view.chosen.contributions, view.federation.n_agents)
    return view.select(given, f"the largest contributions under {view.title_of(view.chosen)}")


def _curve_text(given: Federation) -> str:
    ranges = []
    for label, numbers in given.payoff.parameters.items():
        low, high = float(np.min(numbers)), float(np.max(numbers))
        ranges.append(f"{label} = {low:g}" if low == high else f"{label} = {low:g} to {high:g}")
    return f"{given.payoff.family} curve" + (f" ({', '.join(ranges)})" if ranges else "")


def _table(
    names: Sequence[str], columns: Mapping[str, Sequence[str]], *, kind: str = "Member"
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads and rows of a table with a row per agent, or whatever it is of."""
    return (kind, *columns), list(zip(map(name_tag, names), *columns.values(), strict=True))


def _tables(view: View, chosen: Selection) -> list[tuple[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]]:
    """What was known of the members; of those with several lots or tasks a table of each."""
    given = view.federation
    if not given.has_lots:
        return [("Members", _agent_columns(view, chosen))]
    owned = np.asarray(chosen.agents)
    lots, tasks = (np.flatnonzero(np.isin(owners, owned)) for owners in (given.lot_owners, given.task_owners))
    of_lots = _cost_columns(view, lots)
    of_tasks = {"Value": view.unit.given_column(given.values[tasks])}
    of_members = _member_columns(view, owned)
    members = [("Members", _table([given.names[agent] for agent in owned], of_members))] if of_members else []
    return [
        *members,
        ("Lots of data", _table([given.lot_labels[lot] for lot in lots], of_lots, kind="Lot")),
        ("Tasks", _table([given.task_labels[task] for task in tasks], of_tasks, kind="Task")),
    ]


def _agent_columns(view: View, chosen: Selection) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    given, shown = view.federation, np.asarray(chosen.agents)
    columns = _cost_columns(view, shown) | {"Value": view.unit.given_column(given.values[shown])}
    return _table([view.names[agent] for agent in shown], columns | _member_columns(view, shown))


def _member_columns(view: View, shown: NDArray[np.intp]) -> dict[str, list[str]]:
    """What joining costs members, and the most they can pay."""
    given, columns = view.federation, {}
    if given.joining_costs.any():
        columns["Joining costs"] = view.unit.given_column(given.joining_costs[shown])
    if np.isfinite(given.budgets).any():
        budgets = given.budgets[shown]
        known = iter(view.unit.given_column(budgets[np.isfinite(budgets)]))
        columns["Budget"] = [next(known) if np.isfinite(budget) else "no limit" for budget in budgets]
    return columns


def _cost_columns(view: View, shown: NDArray[np.intp]) -> dict[str, list[str]]:
    """What data costs, and the most there is of it."""
    given = view.federation
    columns = {view.unit.of_data("Cost of the first unit"): view.unit.given_column(given.costs.linear[shown])}
    if given.costs.quadratic.any():
        columns["rising per unit by"] = view.unit.given_column(2.0 * given.costs.quadratic[shown])
    columns["Cap"] = [given_text(float(cap)) for cap in given.caps[shown]]
    if given.shared_caps:
        shared = {lot: given_text(each.cap) for each in given.shared_caps for lot in each.lots}
        columns["Shared cap"] = [shared.get(lot, "none") for lot in shown.tolist()]
    if given.home is not None:
        columns["At home"] = [given_text(float(amount)) for amount in given.home[shown]]
    return columns


def _numbers(view: View, outcome: Outcome) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every per-agent number of an outcome; each member finds its own row here."""
    shown, unit = slice(0, MAX_LISTED_ROWS), view.unit
    brought = sum_by(outcome.federation.lot_owners, outcome.contributions, outcome.federation.n_agents)
    columns = {
        "Contribution": number_texts(brought[shown]),
        "Payoff": unit.column(outcome.payoffs[shown]),
        "Cost": unit.column(outcome.costs[shown]),
        "Payment": unit.column(outcome.payments[shown], signed=True),
        **_side_payments(outcome, unit),
        **({"Joining": unit.column(outcome.joining_costs[shown])} if outcome.joining_costs.any() else {}),
        "Net benefit": unit.column(outcome.utilities[shown]),
        "Alone": unit.column(outcome.standalone[shown]),
        "Gain": unit.column(outcome.ir_gaps[shown], signed=True),
        "Fair gain": unit.column(outcome.fair_gains[shown]),
        "Shapley share": unit.column(outcome.shapley_values[shown]),
        "Share back": share_texts(outcome)[shown],
    }
    return _table(outcome.agents[:MAX_LISTED_ROWS], columns)


def _side_payments(outcome: Outcome, unit: Unit) -> dict[str, list[str]]:
    """A column for the part of the payments that nobody's contribution changes, where there is one."""
    assert outcome.side_payments is not None
    if not outcome.side_payments.any():
        return {}
    return {"of it fixed": unit.column(outcome.side_payments[:MAX_LISTED_ROWS], signed=True)}


def _weights(view: View, chosen: Selection) -> dict[str, Any]:
    """The weights among the chosen agents as a coloured table: the row receives, the column gives."""
    given = view.federation.take(np.asarray(chosen.agents))
    weights = given.weights
    tight = given.n_lots > MAX_ROOMY_COLUMNS
    own = given.task_owners[:, None] == given.lot_owners
    shades = MAX_SHADE * np.abs(weights) / (np.abs(weights).max() or 1.0)
    rows = []
    for row, texts in enumerate(_weight_texts(weights, tight=tight)):
        kinds = ["harm" if weight < 0 else "help" for weight in weights[row]]
        kinds = ["own" if mine else kind for mine, kind in zip(own[row], kinds, strict=True)]
        rows.append((given.task_labels[row], list(zip(texts, kinds, shades[row], strict=True))))
    return {"names": given.lot_labels, "rows": rows, "tight": tight}


def _weight_texts(weights: FloatArray, *, tight: bool) -> list[list[str]]:
    """Every weight as text; with the same few decimals where there is little room."""
    decimals = int(np.clip(2 - np.floor(np.log10(np.abs(weights).max() or 1.0)), 0, 6))
    form = f".{decimals}f" if tight else ".4g"
    return [["0" if weight == 0 else format(weight, form).replace("-", MINUS) for weight in row] for row in weights]


def _weights_note(given: Federation) -> str:
    """The range of all weights, those not shown among them."""
    n_agents = given.n_agents
    if given.has_lots:
        n_used, n_harmful = int(np.count_nonzero(given.weights)), int((given.weights < 0).sum())
        return (
            "The row is a task, which receives; the column is a lot of data, which gives. "
            f"Of {given.n_tasks * given.n_lots:,} weights {n_used:,} are other than zero, {n_harmful:,} of these "
            "harmful. Framed: a member’s own lots and tasks."
        )
    if n_agents == 1:
        return "A single member: only its own data matters."
    n_pairs = n_agents * (n_agents - 1)
    n_other = int(np.count_nonzero(given.weights)) - n_agents
    n_harmful = int((given.weights < 0).sum())
    mean = float((given.weights.sum() - given.weights.diagonal().sum()) / n_pairs)
    harm = f"{n_harmful:,} of these {'is' if n_harmful == 1 else 'are'} harmful" if n_harmful else "none is harmful"
    return (
        "The row receives, the column gives; 1 means as useful as one’s own data usually is. "
        f"Of {n_pairs:,} pairs of members, {n_other:,} have a weight other than zero; {harm}. "
        f"The mean weight of another’s data is {number_text(mean, digits=3)}."
    )


# Method


def method(view: View) -> dict[str, Any]:
    """A glossary, and how everything was computed."""
    used = {outcome.shapley.method for outcome in view.comparison}
    methods = [text for name, text in SHAPLEY_METHODS.items() if name in used]
    return {"glossary": GLOSSARY, "methods": methods, "version": fedpact.__version__}
