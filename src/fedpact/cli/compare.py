"""`fedpact compare`: all mechanisms side by side, on the terminal or as a page to mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.certificates import Verdict
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    MECHANISM_NAMES,
    AsJson,
    Force,
    ScenarioArgument,
    check_output,
    choose_mechanism,
    console,
    escape,
    gain_texts,
    keep_words_whole,
    print_agents,
    print_imbalance,
    print_json,
    print_measured,
    progress,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.cli.per_agent import find_agent
from fedpact.cli.pictures import check_picture, write_picture
from fedpact.comparison import Comparison, Outlook
from fedpact.comparison import compare as compare_mechanisms
from fedpact.deals import Outcome
from fedpact.mechanisms import Mechanism, compared_mechanisms, resolve_mechanisms
from fedpact.mechanisms.registry import ALL
from fedpact.report.deal_table import PAID_AT, deal_columns, deal_units, price_texts
from fedpact.report.measured import no_deal_text
from fedpact.report.numbers import (
    Unit,
    lowest_gain_share_text,
    lowest_share_text,
    number_texts,
    percent,
    probability_text,
    share_text,
)
from fedpact.report.property_table import HEADS, LIES, property_rows
from fedpact.report.records import comparison_record, properties_record
from fedpact.report.stability import NOBODY, Temptation, leaving_group, posing_as_two
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.words import count_text, group_text, join_names

MAX_NAMES_IN_CELL = 3


def compare(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    mechanisms: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism",
            "-m",
            help=f"Compare only these: {MECHANISM_NAMES}. May be given several times.",
            metavar="NAME",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Compare all of fedpact's own, with a table of the properties of each.")
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report for the members.", metavar="FILE")] = None,
    member: Annotated[
        str | None,
        typer.Option(
            "--member",
            help="With --html: one page for this member, about the recommended deal or the only --mechanism.",
            metavar="NAME",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="The mechanisms side by side, as .png, .svg or .pdf.", metavar="FILE"),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", help="How often to draw the numbers of an uncertain scenario.", metavar="N", min=1),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same draws.", min=0)] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare the mechanisms on a federation: contributions, payments, who would leave, how fair it is.

    Where the scenario says how sure its numbers are, also how sure the deal is; where a pilot measured it, what it
    measured instead.
    """
    for output in (html, plot):
        if output is not None:
            check_output(output, force=force)
    if plot is not None:
        check_picture(plot)
    chosen = read_scenario(scenario)
    if member is not None and html is None:
        raise InvalidInput("--member needs --html FILE, the page to write")
    place = None if member is None else find_agent("--member", member, chosen.federation.names)
    if every and mechanisms:
        raise InvalidInput("--all and --mechanism exclude each other: give one of them")
    named = [choose_mechanism(name) for name in mechanisms] if mechanisms else None
    compared = _compare(chosen, ALL if every else named, draws, seed)
    if html is not None:
        _write_page(chosen, compared, html, place, mechanisms or ())
    if plot is not None:
        write_picture(compared.plot(), plot)
    if as_json:
        measured = {} if chosen.measured is None else {"measured": asdict(chosen.measured)}
        print_json(comparison_record(compared) | (properties_record(compared) if every else {}) | measured)
        return
    _show(chosen, compared, in_brief=every)
    if html is not None:
        console.print(f"\n{'Report' if member is None else 'Page'} written to {escape(str(html))}", soft_wrap=True)
    if plot is not None:
        console.print(f"\nPicture written to {escape(str(plot))}", soft_wrap=True)


def _write_page(
    scenario: Scenario, compared: Comparison, path: Path, place: int | None, mechanisms: Sequence[str]
) -> None:
    """The report, or the page of one member."""
    from fedpact.report import write_member_page, write_report  # noqa: PLC0415 - only for --html

    title, money, unit = scenario.title, scenario.money, scenario.unit
    if place is None:
        write_report(
            compared,
            path,
            scenario_title=title,
            description=scenario.description,
            money=money,
            unit=unit,
            measured=scenario.measured,
        )
        return
    only = compared.outcomes[0].mechanism if len(mechanisms) == 1 else None
    write_member_page(compared, place, path, mechanism=only, scenario_title=title, money=money, unit=unit)


def _compare(scenario: Scenario, rules: list[Mechanism] | str | None, draws: int | None, seed: int) -> Comparison:
    """The comparison with all that the tables need worked out, under a progress bar."""
    count = len(compared_mechanisms(scenario.federation) if rules is None else resolve_mechanisms(rules))
    with progress(2 * count + 4) as begin:
        compared = compare_mechanisms(
            scenario, rules, progress=lambda title: begin(f"solving {title}"), draws=draws, rng=seed
        )
        if not compared.outcomes:
            raise NotConverged("; ".join(compared.unsolved.values()))
        for outcome in compared:
            begin(f"certifying {compared.title(outcome.mechanism)}")
            _ = outcome.certificates
        begin("looking for groups that would leave")
        _ = compared.blocking_groups, compared.splitting_gains
        if rules == ALL:
            begin("looking for lies that gain")
            _ = compared.misreporting_gains
        begin("following who leaves")
        _ = compared.recommendation
        begin("looking for numbers that would change the deal")
        _ = compared.sensitivity
    return compared


def _show(scenario: Scenario, compared: Comparison, *, in_brief: bool = False) -> None:
    """The tables; in brief those with a row per mechanism alone, and what holds under each."""
    unit = Unit.of(scenario.money, [outcome.payoffs for outcome in compared], data=scenario.unit)
    title = escape(scenario.title or "Federation")
    console.print(f"[bold]{title}[/bold]: {count_text(compared.federation.n_agents, 'member')}")
    if scenario.description:
        console.print(escape(scenario.description))
    console.print()
    if scenario.measured is not None:
        print_measured(scenario.measured, compared.federation, unit)
        if not scenario.measured.has_deal:
            console.print(f"[bold]Recommendation:[/bold] none. {escape(no_deal_text(scenario.measured))}")
            return
        console.print(f"\n[bold]{escape(scenario.measured.advice)}[/bold]\n")
    by_member = () if in_brief else (_show_contributions, _show_payments, _show_gains)
    properties = (_show_properties,) if in_brief else ()
    for print_part in (*by_member, _show_mechanisms, _show_temptations, *properties):
        print_part(compared, unit)
        console.print()
    for outlook in compared.uncertainty.values():
        _show_outlook(outlook, unit)
        console.print()
    for name, reason in compared.unsolved.items():
        console.print(f"{compared.title(name)}: no outcome: {escape(reason)}")
    if compared.recommendation is not None:
        chosen = compared.mechanism(compared.recommendation.mechanism)
        whose = compared.recommendation.whose
        console.print(f"[bold]Recommendation:[/bold] {escape(chosen.full_title)}{escape(whose)}.")
        if whose and compared.recommended_outcome is not None:
            _show_deal(
                compared.recommended_outcome, unit, f"The deal without {join_names(compared.recommendation.out)}"
            )
        for sentence in compared.advice:
            console.print(f"- {escape(sentence)}")
    else:
        titles = escape(join_names(_titles(compared.outcomes, compared)))
        verb = "is" if len(compared.outcomes) == 1 else "are"
        console.print(
            f"[bold]Recommendation:[/bold] none. {titles} {verb} there to compare with; name a mechanism to choose as "
            "well, such as -m externality."
        )


def _show_deal(outcome: Outcome, unit: Unit, title: str) -> None:
    """What each brings, pays or receives and gains in one deal."""
    columns = list(deal_columns(outcome, unit).items())
    print_agents(f"{title} ({deal_units(outcome, unit)})", outcome.agents, columns, sizes=outcome.ir_gaps)


def _show_contributions(compared: Comparison, unit: Unit) -> None:
    given = np.array([outcome.contributions for outcome in compared])
    texts = np.array(number_texts(given.ravel())).reshape(given.shape).tolist()
    columns = list(zip(_titles(compared.outcomes, compared), texts, strict=True))
    federation = compared.federation
    kind = "lot" if federation.has_lots else "member"
    print_agents(unit.of_data("Contributions"), federation.lot_labels, columns, sizes=given.max(axis=0), kind=kind)


def _show_payments(compared: Comparison, unit: Unit) -> None:
    paying = [outcome for outcome in compared if compared.mechanism(outcome.mechanism).has_payments]
    if not paying:
        console.print("Nobody pays anybody.")
        return
    columns = [
        (title, unit.column(outcome.payments, signed=True))
        for title, outcome in zip(_titles(paying, compared), paying, strict=True)
    ]
    sizes = np.max([np.abs(outcome.payments) for outcome in paying], axis=0)
    print_agents(f"Payments (+ received, - paid), in {unit.label}", compared.federation.names, columns, sizes=sizes)
    for outcome in paying:
        print_imbalance(outcome, unit, compared.title(outcome.mechanism))
    _show_prices(compared, unit)


def _show_prices(compared: Comparison, unit: Unit) -> None:
    """What a unit of each lot is paid; mechanisms with the same prices share a column."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for outcome in compared:
        titles.setdefault(tuple(price_texts(outcome, unit)), []).append(compared.title(outcome.mechanism))
    columns = [(", ".join(those), texts) for texts, those in titles.items() if texts]
    if columns:
        federation = compared.federation
        kind = "lot" if federation.has_lots else "member"
        console.print()
        sizes = np.max([outcome.contributions for outcome in compared], axis=0)
        print_agents(f"Prices, in {unit.per_data}: {PAID_AT}", federation.lot_labels, columns, sizes=sizes, kind=kind)


def _show_gains(compared: Comparison, unit: Unit) -> None:
    deals = [outcome for outcome in compared if outcome.federated]
    if not deals:
        return
    columns = [
        (title, gain_texts(outcome.ir_gaps, unit, leaves=np.isin(outcome.agents, outcome.leavers)))
        for title, outcome in zip(_titles(deals, compared), deals, strict=True)
    ]
    sizes = np.max([np.abs(outcome.ir_gaps) for outcome in deals], axis=0)
    print_agents(f"Gains against standing alone, in {unit.label}", compared.federation.names, columns, sizes=sizes)


def _show_mechanisms(compared: Comparison, unit: Unit) -> None:
    heads = ("mechanism", "welfare", "of best", "lowest fair gain", "reciprocity", "promises")
    made = table(f"Mechanisms, welfare in {unit.label}", *heads)
    welfare = unit.column([outcome.welfare for outcome in compared])
    for outcome, text in zip(compared, welfare, strict=True):
        promised = compared.mechanisms[outcome.mechanism].promises(outcome.federation)
        verdicts = {outcome.certificates[claim].verdict for claim in promised}
        made.add_row(
            compared.title(outcome.mechanism),
            terminal_text(text),
            terminal_text(percent(compared.share_of_best(outcome.welfare))),
            terminal_text(lowest_gain_share_text(outcome)),
            terminal_text(lowest_share_text(outcome)),
            "[red]broken[/red]" if Verdict.VIOLATED in verdicts else "kept" if verdicts <= {Verdict.HOLDS} else "open",
        )
    console.print(made)
    console.print(
        "Lowest fair gain: the least part that anybody has of its fair share of the gain. Reciprocity: of its Shapley "
        "share of everything, what it would have had alone included."
    )


def _show_temptations(compared: Comparison, unit: Unit) -> None:
    """Who would leave, alone or in a group."""
    deals = [outcome for outcome in compared if outcome.federated]
    if not deals:
        return
    made = table(f"Who would leave; gains in {unit.label}", "mechanism", "leave alone", "gain most by leaving")
    for outcome in deals:
        made.add_row(
            compared.title(outcome.mechanism),
            escape(_few_names(outcome.leavers, outcome.agents)) or NOBODY,
            _temptation_text(leaving_group(compared, outcome.mechanism, unit), outcome.agents),
        )
    console.print(made)


def _show_properties(compared: Comparison, unit: Unit) -> None:
    """What holds under each mechanism, its money from or to outside, and what is gained by manipulation."""
    made = table(f"What holds; payments that do not balance need (+) or leave over (-) {unit.label}", *HEADS)
    for row in property_rows(compared, unit):
        made.add_row(compared.title(row.outcome.mechanism), *map(terminal_text, (*row.cells, row.lies)))
    keep_words_whole(made, HEADS)
    console.print(made)
    console.print(f"lies gain: {LIES}.")
    posing = {each: posing_as_two(compared, each.mechanism, unit) for each in compared.outcomes if each.federated}
    gain = [
        f"{_temptation_text(found, outcome.agents)} under {compared.title(outcome.mechanism)}"
        for outcome, found in posing.items()
        if found.members
    ]
    if gain:
        console.print(f"Posing as two, where identities are cheap, gains most: {join_names(gain)}.")


def _temptation_text(found: Temptation, everybody: Sequence[str]) -> str:
    said = f"{escape(_few_names(found.members, everybody))} {found.gain}" if found.members else found.word
    return terminal_text(f"{said} ({found.limit})" if found.limit else said)


def _few_names(names: Sequence[str], everybody: Sequence[str]) -> str:
    return group_text(names, everybody, most=MAX_NAMES_IN_CELL)


def _titles(outcomes: Sequence[Outcome], compared: Comparison) -> list[str]:
    return [compared.title(outcome.mechanism) for outcome in outcomes]


def _show_outlook(outlook: Outlook, unit: Unit) -> None:
    """Intervals of payments and gains, who may leave, and what would keep them."""
    payments, gains = outlook.interval("payments"), outlook.interval("ir_gaps")
    columns = [("payment", _interval_texts(payments, unit))] if np.nan_to_num(outlook.outcomes.payments).any() else []
    columns += [("gain", _interval_texts(gains, unit))]
    if not outlook.assumption:
        columns += [
            ("leaves", [probability_text(float(part), outlook.n_draws) for part in outlook.leave_probabilities]),
            (f"keeps with {percent(outlook.assurance, decimals=0)}", unit.column(outlook.keeping_endowments)),
        ]
    level = percent(outlook.level, decimals=0)
    title = f"{outlook.title} under uncertainty: {level} intervals from {outlook.n_draws} draws, in {unit.label}"
    sizes = outlook.leave_probabilities + np.abs(payments).max(axis=1)
    print_agents(terminal_text(title), outlook.agents, columns, sizes=sizes)
    if outlook.assumption:
        console.print(f"Who would leave: {outlook.assumption}.")
    ends = outlook.interval("lowest_fair_part")
    if np.isfinite(ends).all():
        low, high = (terminal_text(share_text(float(end), 1.0)) for end in ends)
        console.print(f"Lowest fair share back between {low} and {high}.")
    if outlook.n_unsolved:
        console.print(f"{outlook.n_unsolved} draws could not be solved and are left out.")


def _interval_texts(ends: FloatArray, unit: Unit) -> list[str]:
    lows, highs = (unit.column(side, signed=True) for side in ends.T)
    return [f"{low} to {high}" for low, high in zip(lows, highs, strict=True)]
