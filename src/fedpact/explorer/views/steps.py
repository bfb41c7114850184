"""Things that happen step by step: members leaving, and a negotiation. Every step is a picture of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedpact.comparison import Comparison
from fedpact.deals import Outcome
from fedpact.explorer.service import Played
from fedpact.explorer.views.charts import Curve, curves
from fedpact.explorer.views.deal import view_of
from fedpact.report.html import Child, Html, el, join, listed, name
from fedpact.report.numbers import Unit, number_texts, percent
from fedpact.report.sections.parts import BarRow, bar_table
from fedpact.report.svg.bars import Axis, bar
from fedpact.scenario import Scenario
from fedpact.stability import StableFederation
from fedpact.utils.words import count_text

__all__ = ["departure_steps", "negotiation_steps", "negotiation_summary"]

MOST_FRAMES = 120  # rounds of a negotiation that are shown; of more, evenly spaced ones


def departure_steps(scenario: Scenario, comparison: Comparison, settled: StableFederation) -> list[Html]:
    """The deal of every round with who leaves it, then what is left."""
    view = view_of(scenario, comparison)
    axis = Axis.over(*(departure.outcome.ir_gaps for departure in settled.departures), *_last(settled))
    steps = []
    for place, departure in enumerate(settled.departures):
        losing = sum(name_ in departure.leavers for name_ in departure.outcome.agents)
        kept = float(departure.endowments[[name_ in departure.leavers for name_ in departure.outcome.agents]].sum())
        left = count_text(len(departure.outcome.agents), "member")
        head = f"{left} left." if place else "Everybody is at the table."
        steps.append(
            join(
                el("h3", f"Round {place + 1}: ", listed(departure.leavers), " leaves" if losing == 1 else " leave"),
                el(
                    "p",
                    f"{head} ",
                    listed(departure.leavers),
                    " would do better alone; ",
                    el("b", view.unit.text(kept)),
                    " would have kept ",
                    "it." if losing == 1 else "them.",
                ),
                _gaps(departure.outcome, departure.leavers, view.unit, axis),
            )
        )
    steps.append(_end(comparison, settled, view.unit, axis))
    return steps


def _last(settled: StableFederation) -> Sequence[np.ndarray]:
    return [] if settled.outcome is None else [settled.outcome.ir_gaps]


def _end(comparison: Comparison, settled: StableFederation, unit: Unit, axis: Axis) -> Html:
    lost = settled.welfare_all_stay - settled.welfare
    if not settled.departures:
        heading: Child = "Nobody leaves"
        story = "Everybody does at least as well in the federation as alone."
    elif settled.outcome is None:
        heading, story = "Nobody is left", "In the end everybody trains alone."
    else:
        stays = " stays" if len(settled.members) == 1 else " stay"
        heading, story = [listed(settled.members), stays], "Nobody of these wants to leave."
    part = comparison.share_of_best(settled.welfare)
    share = f", {percent(part)} of the best possible" if np.isfinite(part) else ""
    cost = [" Departures cost ", el("b", unit.text(lost)), " of welfare."] if lost > unit.noise else None
    return join(
        el("h3", heading),
        el("p", f"{story} Welfare is ", el("b", unit.text(settled.welfare)), f"{share}.", cost),
        _gaps(settled.outcome, (), unit, axis) if settled.outcome is not None else None,
    )


def _gaps(outcome: Outcome, leavers: Sequence[str], unit: Unit, axis: Axis) -> Html:
    texts = unit.column(outcome.ir_gaps, signed=True)
    rows = [
        BarRow(
            label=name(agent),
            picture=bar(axis, float(gap), "loss" if agent in outcome.leavers else "gain", f"{agent}: {text}"),
            number=text,
            word="leaves" if agent in leavers else None,
            css="loss-text" if agent in leavers else "",
        )
        for agent, gap, text in zip(outcome.agents, outcome.ir_gaps, texts, strict=True)
    ]
    return bar_table("Gains of those at the table", rows, heads=("Member", f"Gain, {unit.label}"))


def negotiation_steps(scenario: Scenario, comparison: Comparison, played: Played) -> list[Html]:
    """What is on the table in every round, or in evenly spaced ones of many, and the deal at the end."""
    view = view_of(scenario, comparison)
    federation = scenario.federation
    agreed = played.deal.contributions
    axis = Axis.over(*(each.contributions for each in played.rounds), agreed)
    shown = np.unique(np.linspace(0, len(played.rounds) - 1, min(len(played.rounds), MOST_FRAMES)).astype(int))
    steps = []
    for place in shown:
        each = played.rounds[place]
        texts = number_texts(each.contributions)
        rows = [
            BarRow(
                label=name(agent),
                picture=bar(axis, float(given), "mech0", f"{agent}: {text}", mark=float(goal)),
                number=text,
            )
            for agent, given, goal, text in zip(federation.names, each.contributions, agreed, texts, strict=True)
        ]
        welfare = "not known yet" if each.welfare is None else view.unit.text(each.welfare)
        apart = _apart(played.deal.provenance.protocol, each.residual)
        steps.append(
            join(
                el("h3", f"Round {place + 1} of {len(played.rounds)}"),
                el("p", "Welfare on the table: ", el("b", welfare), f"; {apart}. Ticks mark what will be agreed."),
                bar_table("On the table", rows, heads=("Member", "Contribution")),
            )
        )
    return [*steps, _agreed(played, view.unit)]


def _apart(protocol: str, residual: float | None) -> str:
    """How far from agreement a round was: a share of what is at stake, or of what is on the table."""
    if residual is None:
        return "this round went too far and is taken back"
    share = "more than all of it" if residual > 1.0 else f"{100.0 * residual:.2g} %"
    if protocol == "price-discovery":
        return f"gain still promised, of what is at stake: {share}"
    return f"wishes apart from the table, of its size: {share}"


def _agreed(played: Played, unit: Unit) -> Html:
    deal = played.deal
    axis = Axis.over(deal.payments)
    texts, given = unit.column(deal.payments, signed=True), number_texts(deal.contributions)
    rows = [
        BarRow(
            label=name(agent),
            picture=bar(axis, float(payment), "loss" if payment < 0 else "gain", f"{agent}: {text}"),
            number=text,
            word=f"gives {contribution}",
        )
        for agent, payment, text, contribution in zip(deal.agents, deal.payments, texts, given, strict=True)
    ]
    by = "personal prices" if deal.provenance.messages is None else "the message game"
    return join(
        el("h3", f"Agreed after {count_text(deal.rounds, 'round')}"),
        el("p", f"Settled by {by}; the payments add up to zero. Plus is received, minus is paid."),
        bar_table("The deal", rows, heads=("Member", f"Payment, {unit.label}")),
    )


def negotiation_summary(scenario: Scenario, comparison: Comparison, played: Played) -> Html:
    """How the negotiation went, as a picture over its rounds."""
    unit = view_of(scenario, comparison).unit
    welfare = np.array([np.nan if each.welfare is None else each.welfare for each in played.rounds])
    rounds = np.arange(1.0, welfare.size + 1)
    lines = [Curve(label="welfare", points=welfare)]
    return curves(
        rounds,
        lines,
        title="Welfare by round",
        below=f"Welfare of what is on the table, in {unit.label}, by round",
        scale=unit.per_payoff,
        marker=1.0,
        zero=False,
    )
