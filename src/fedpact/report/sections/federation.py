"""The federation itself: what was known of every agent, how useful data is to whom, and every number of every deal."""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.report.html import Child, Html, el, name, table
from fedpact.report.numbers import given_text, number_texts, share_text
from fedpact.report.sections.parts import folded, section
from fedpact.report.sections.weights import weight_table
from fedpact.report.view import Selection, View
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text

__all__ = ["federation"]

MOST_LISTED = 500
"""The most agents whose numbers are all listed."""


def federation(view: View) -> Html:
    """Agents, weights, and all numbers to open."""
    chosen = _prominent(view)
    return section(
        "federation",
        "The federation",
        el("p", _payoff_text(view.federation)),
        el(
            "p",
            f"Cost and value in {view.unit.label}. The cap is the most a member can contribute; the value is what one "
            "whole unit of model quality is worth to it.",
            class_="note",
        ),
        _agents(view, chosen),
        chosen.note,
        el("h3", "How useful one member’s data is to another"),
        weight_table(view, chosen),
        el("h3", "All numbers", id="numbers"),
        el("p", f"Amounts in {view.unit.label}." if view.comparison.outcomes else "Nothing was solved.", class_="note"),
        [folded(view.title_of(outcome), _numbers(view, outcome)) for outcome in view.comparison],
    )


def _prominent(view: View) -> Selection:
    if view.chosen is None:
        return view.select(np.zeros(view.federation.n_agents), "the first entries")
    if view.chosen.payments.any():
        return view.select(np.abs(view.chosen.payments), f"the largest payments under {view.title_of(view.chosen)}")
    return view.select(view.chosen.contributions, f"the largest contributions under {view.title_of(view.chosen)}")


def _payoff_text(federation: Federation) -> str:
    parameters = ", ".join(
        f"{label} = {_range(np.asarray(numbers))}" for label, numbers in federation.payoff.parameters.items()
    )
    curve = f"{federation.payoff.family} curve" + (f" ({parameters})" if parameters else "")
    return (
        f"{count_text(federation.n_agents, 'member')}. What a member’s model is worth rises with the data that reaches "
        f"it along a {curve}: much at first, less and less later."
    )


def _range(numbers: FloatArray) -> str:
    low, high = float(numbers.min()), float(numbers.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _agents(view: View, chosen: Selection) -> Html:
    given, shown = view.federation, list(chosen.agents)
    columns = {"Cost of the first unit": view.unit.given_column(given.costs.linear[shown])}
    if given.costs.quadratic.any():
        columns["rising per unit by"] = view.unit.given_column(2.0 * given.costs.quadratic[shown])
    columns["Cap"] = [given_text(float(cap)) for cap in given.caps[shown]]
    columns["Value"] = view.unit.given_column(given.values[shown])
    rows = [
        (name(view.names[agent]), *(texts[place] for texts in columns.values())) for place, agent in enumerate(shown)
    ]
    return table("Members", ("Member", *columns), rows)


def _numbers(view: View, outcome: Outcome) -> list[Child]:
    """Every per-agent number of an outcome; each member finds its own row here."""
    shown = slice(0, MOST_LISTED)
    unit = view.unit
    columns = {
        "Contribution": number_texts(outcome.contributions[shown]),
        "Payoff": unit.column(outcome.payoffs[shown]),
        "Cost": unit.column(outcome.costs[shown]),
        "Payment": unit.column(outcome.payments[shown], signed=True),
        "Net benefit": unit.column(outcome.utilities[shown]),
        "Alone": unit.column(outcome.standalone[shown]),
        "Gain": unit.column(outcome.ir_gaps[shown], signed=True),
        "Shapley share": unit.column(outcome.shapley_values[shown]),
        "Share back": [
            share_text(float(ratio), float(share))
            for ratio, share in zip(outcome.reciprocity_ratios[shown], outcome.shapley_values[shown], strict=True)
        ],
    }
    rows = [
        (name(agent), *(texts[place] for texts in columns.values()))
        for place, agent in enumerate(outcome.agents[:MOST_LISTED])
    ]
    hidden = len(outcome.agents) - len(rows)
    note = el("p", f"{count_text(hidden, 'more member')} not listed.", class_="note") if hidden else None
    return [table(f"All numbers under {view.title_of(outcome)}", ("Member", *columns), rows), note]
