"""`fedpact compare`: all mechanisms side by side, on the terminal or as a page to mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

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
    print_imbalance,
    print_json,
    print_measured,
    print_result,
    progress,
    read_scenario,
    terminal_text,
)
from fedpact.cli.per_agent import find_agent
from fedpact.cli.pictures import check_picture, write_picture
from fedpact.comparison import Comparison
from fedpact.comparison import compare as compare_mechanisms
from fedpact.mechanisms import Mechanism, compared_mechanisms, resolve_mechanisms
from fedpact.mechanisms.registry import ALL
from fedpact.report.numbers import Unit
from fedpact.report.records import comparison_record, properties_record
from fedpact.report.tables import (
    LIES,
    TWO_MEASURES,
    contributions_table,
    deal_table,
    gains_table,
    leaving_table,
    mechanisms_table,
    no_deal_text,
    outlook_notes,
    outlook_table,
    payments_table,
    posing_as_two,
    prices_table,
    properties_table,
    temptation_text,
)
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.words import count_text, join_names


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
    if not in_brief:
        _show_members(compared, unit)
    print_result(mechanisms_table(compared, unit))
    console.print(f"{TWO_MEASURES}\n")
    print_result(leaving_table(compared, unit))
    console.print()
    if in_brief:
        _show_properties(compared, unit)
    for outlook in compared.uncertainty.values():
        print_result(outlook_table(outlook, unit))
        for sentence in outlook_notes(outlook):
            console.print(escape(terminal_text(sentence)))
        console.print()
    for name, reason in compared.unsolved.items():
        console.print(f"{compared.title(name)}: no outcome: {escape(reason)}")
    _show_recommendation(compared, unit)


def _show_members(compared: Comparison, unit: Unit) -> None:
    """What everybody gives, pays or receives, and gains under each mechanism."""
    print_result(contributions_table(compared, unit))
    console.print()
    payments = payments_table(compared, unit)
    print_result(payments)
    if payments is None:
        console.print("Nobody pays anybody.")
    for outcome in compared:
        print_imbalance(outcome, unit, compared.title(outcome.mechanism))
    for each in (prices_table(compared, unit), gains_table(compared, unit)):
        console.print()
        print_result(each)
    console.print()


def _show_properties(compared: Comparison, unit: Unit) -> None:
    """What holds under each mechanism, its money from or to outside, and what is gained by manipulation."""
    print_result(properties_table(compared, unit))
    console.print(f"lies gain: {LIES}.")
    posing = {each: posing_as_two(compared, each.mechanism, unit) for each in compared.outcomes if each.federated}
    gain = [
        f"{temptation_text(found, outcome.agents)} under {compared.title(outcome.mechanism)}"
        for outcome, found in posing.items()
        if found.members
    ]
    if gain:
        said = terminal_text(join_names(gain))
        console.print(f"Posing as two, where identities are cheap, gains most: {escape(said)}.")
    console.print()


def _show_recommendation(compared: Comparison, unit: Unit) -> None:
    recommended, outcome = compared.recommendation, compared.recommended_outcome
    if recommended is None:
        titles = escape(join_names([compared.title(each.mechanism) for each in compared]))
        verb = "is" if len(compared.outcomes) == 1 else "are"
        console.print(
            f"[bold]Recommendation:[/bold] none. {titles} {verb} there to compare with; name a mechanism to choose as "
            "well, such as -m externality."
        )
        return
    title = compared.mechanism(recommended.mechanism).full_title
    console.print(f"[bold]Recommendation:[/bold] {escape(title)}{escape(recommended.whose)}.")
    if recommended.whose and outcome is not None:
        print_result(deal_table(outcome, unit, title=f"The deal without {join_names(recommended.out)}"))
    for sentence in compared.advice:
        console.print(f"- {escape(sentence)}")
