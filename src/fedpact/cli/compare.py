"""`fedpact compare`: all mechanisms side by side, on the terminal or as a page to mail."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from fedpact.cli import inputs, screen
from fedpact.cli.app import CLAIM_FAILS
from fedpact.cli.per_agent import find_agent
from fedpact.comparison import Comparison
from fedpact.comparison import compare as compare_mechanisms
from fedpact.deals import Outcome
from fedpact.deals.deal_file import outcome_record
from fedpact.mechanisms import Mechanism, compared_mechanisms, resolve_mechanisms
from fedpact.mechanisms.registry import ALL
from fedpact.report import tables
from fedpact.report.numbers import Unit
from fedpact.report.records import comparison_record, properties_record
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.files import replace_text
from fedpact.utils.words import count_text, join_names, printable


def compare(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    mechanisms: Annotated[
        list[str] | None, Option("--mechanism", "-m", help=f"Compare only these: {inputs.MECHANISM_NAMES}.")
    ] = None,
    every: Annotated[bool, Option("--all", help="Compare all mechanisms of fedpact, with their properties.")] = False,
    html: Annotated[Path | None, Option("--html", help="Write a report for the members.")] = None,
    member: Annotated[str | None, Option("--member", help="With --html: the page of this member.")] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Keep the recommended deal, as .json.")] = None,
    force: inputs.Force = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Compare the mechanisms on a federation: contributions, payments, who would leave, how fair it is.

    If the scenario says how sure its numbers are, you also see how sure the deal is; if a pilot measured it, you see
    what the pilot measured.
    """
    inputs.check_output(html, force=force)
    inputs.check_output(output, force=force, suffixes=(".json",))
    chosen = inputs.read_scenario(scenario)
    if member is not None and html is None:
        raise InvalidInput("--member needs --html FILE, the page to write")
    index = None if member is None else find_agent("--member", member, chosen.federation.names)
    if every and mechanisms:
        raise InvalidInput("--all and --mechanism exclude each other: give one of them")
    named = [inputs.choose_mechanism(name) for name in mechanisms] if mechanisms else None
    compared = _compare(chosen, ALL if every else named)
    if html is not None:
        only = compared.outcomes[0].mechanism if named is not None and len(named) == 1 else None
        replace_text(html, _page(chosen, compared, index, only))
    deal = compared.recommended_deal
    if output is not None and deal is not None and compared.recommended_outcome is not None:
        record = outcome_record(compared.recommended_outcome) | {"excluded": dict(deal.excluded)}
        replace_text(output, screen.json_text(record) + "\n")
    if as_json:
        measured = {} if chosen.measured is None else {"measured": asdict(chosen.measured)}
        screen.print_json(comparison_record(compared) | (properties_record(compared) if every else {}) | measured)
    else:
        _show(chosen, compared, in_brief=every)
        if html is not None:
            screen.say()
            screen.say(f"{'Report' if member is None else 'Page'} written to {html}", path=True)
        if output is not None and deal is not None:
            screen.say(f"The recommended deal is kept in {output}", path=True)
        elif deal is not None and deal.is_federated:
            options = " --all" if every else "".join(f" -m {name}" for name in mechanisms or ())
            screen.say("To keep this deal in a file:")
            screen.say(f"  fedpact compare {scenario}{options} -o deal.json", path=True)
    if output is not None and deal is None:  # nothing is wrong with what was given, and there is no file all the same
        typer.echo(f"No deal is recommended, so {printable(str(output))} was not written.", err=True)
        raise typer.Exit(CLAIM_FAILS)


def _page(scenario: Scenario, compared: Comparison, index: int | None, mechanism: str | None) -> str:
    """The report, or the page of one member."""
    from fedpact.report import render_member_page, render_report  # noqa: PLC0415 - only for --html

    if index is None:
        return render_report(compared, scenario)
    return render_member_page(compared, index, scenario, mechanism=mechanism)


def _compare(scenario: Scenario, rules: list[Mechanism] | str | None) -> Comparison:
    """The comparison with all that the tables need worked out, under a progress bar."""
    count = len(compared_mechanisms(scenario.federation) if rules is None else resolve_mechanisms(rules))
    with screen.progress(2 * count + 4) as begin:
        compared = compare_mechanisms(scenario, rules, progress=lambda title: begin(f"solving {title}"))
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


def _show(scenario: Scenario, compared: Comparison, *, in_brief: bool) -> None:
    """The recommended deal, the mechanisms side by side, the advice; in brief, what holds under each mechanism."""
    unit = Unit.of(scenario.money, [outcome.payoffs for outcome in compared], data=scenario.unit)
    screen.say((scenario.title or "Federation", "bold"), f": {count_text(compared.federation.n_agents, 'member')}")
    if scenario.description:
        screen.say(scenario.description)
    screen.say()
    if scenario.measured is not None:
        screen.say_measured(scenario.measured, compared.federation, unit)
        if not scenario.measured.has_deal:
            screen.say(("Recommendation:", "bold"), f" none. {tables.no_deal_text(scenario.measured)}")
            return
        screen.say()
        screen.say((scenario.measured.advice, "bold"))
        screen.say()
    if not in_brief:
        _show_deal(compared, unit)
    for table in (tables.gains_table(compared, unit), tables.mechanisms_table(compared, unit)):
        screen.print_table(table)
        screen.say()
    screen.say(tables.TWO_MEASURES)
    screen.say()
    screen.print_table(tables.leaving_table(compared, unit))
    screen.say()
    if in_brief:
        _show_properties(compared, unit)
    for outlook in compared.uncertainty.values():
        screen.print_table(tables.outlook_table(outlook, unit))
        screen.say_all(tables.outlook_notes(outlook))
        screen.say()
    for name, reason in compared.unsolved.items():
        screen.say(f"{compared.title(name)}: no outcome: {reason}")
    _show_recommendation(compared)


def _show_deal(compared: Comparison, unit: Unit) -> None:
    """What everybody gives, pays or receives and gains in the recommended deal; in every deal if none is."""
    recommended, outcome = compared.recommendation, compared.recommended_outcome
    shown: list[Outcome] = list(compared) if recommended is None or outcome is None else [outcome]
    for each in shown:
        without = f", without {join_names(recommended.out)}" if recommended and recommended.out else ""
        title = f"{compared.title(each.mechanism)}{without}"
        if each.federation.has_lots:
            screen.print_table(tables.lots_table(each, unit))
            screen.say()
        screen.print_table(tables.deal_table(each, unit, title=title))
        screen.say()
    for each in compared:
        screen.say_imbalance(each, unit, compared.title(each.mechanism))


def _show_properties(compared: Comparison, unit: Unit) -> None:
    """What holds under each mechanism, its money from or to outside, and what is gained by manipulation."""
    screen.print_table(tables.properties_table(compared, unit))
    screen.say(f"lies gain: {tables.LIES}.")
    posing = {compared.title(each.mechanism): tables.posing_text(compared, each, unit) for each in compared}
    gain = [f"{said} under {title}" for title, said in posing.items() if said]
    if gain:
        screen.say(f"Posing as two, where identities are cheap, gains most: {join_names(gain)}.")
    screen.say()


def _show_recommendation(compared: Comparison) -> None:
    recommended = compared.recommendation
    if recommended is None:
        titles = join_names([compared.title(each.mechanism) for each in compared])
        verb = "is" if len(compared.outcomes) == 1 else "are"
        why = (
            f" none. {titles} {verb} there to compare with; name a mechanism to choose as well, such as -m externality."
        )
        screen.say(("Recommendation:", "bold"), why)
        return
    title = compared.mechanism(recommended.mechanism).full_title
    screen.say(("Recommendation:", "bold"), f" {title}{recommended.whose}.")
    screen.say_all(f"- {sentence}" for sentence in compared.advice)
