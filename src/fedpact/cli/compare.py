"""`fedpact compare`: all mechanisms side by side, on the terminal or as a page to mail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from fedpact.certificates import Verdict
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    Units,
    console,
    gain,
    print_json,
    progress,
    quantity,
    read_scenario,
    shown_agents,
    table,
)
from fedpact.cli.uncertainty import show_outlooks
from fedpact.comparison import Comparison
from fedpact.comparison import compare as compare_mechanisms
from fedpact.mechanisms import MECHANISMS, Mechanism, mechanism_named
from fedpact.report.records import comparison_record
from fedpact.scenario import Scenario
from fedpact.utils.errors import NotConverged

__all__ = ["compare"]


def compare(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    mechanisms: Annotated[
        list[str] | None,
        typer.Option("--mechanism", "-m", help="Compare only these; may be given several times.", metavar="NAME"),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report for the members.", metavar="FILE")] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", help="How often to draw the numbers of an uncertain scenario.", metavar="N", min=1),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same draws.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare the mechanisms on a federation: contributions, payments, who would leave, how fair it is.

    Where the scenario says how sure its numbers are, also how sure the deal is.
    """
    chosen = read_scenario(scenario)
    compared = _compared(chosen, [mechanism_named(name) for name in mechanisms or MECHANISMS], draws, seed)
    if html is not None:
        from fedpact.report import write_report  # noqa: PLC0415 - only for --html

        write_report(compared, html, scenario_title=chosen.title, description=chosen.description, money=chosen.money)
    if as_json:
        print_json(comparison_record(compared))
        return
    _show(chosen, compared)
    if html is not None:
        console.print(f"\nReport written to {escape(str(html))}", soft_wrap=True)


def _compared(scenario: Scenario, rules: list[Mechanism], draws: int | None, seed: int) -> Comparison:
    """The comparison with all that the tables need worked out, under a progress bar."""
    with progress(2 * len(rules) + 1) as begin:
        compared = compare_mechanisms(
            scenario.federation,
            rules,
            progress=lambda title: begin(f"solving {title}"),
            uncertainty=scenario.uncertainty,
            draws=draws,
            rng=seed,
        )
        if not compared.outcomes:
            raise NotConverged("; ".join(compared.unsolved.values()))
        for outcome in compared:
            begin(f"certifying {compared.title(outcome.mechanism)}")
            _ = outcome.certificates
        begin("following who leaves")
        _ = compared.recommendation
    return compared


def _show(scenario: Scenario, compared: Comparison) -> None:
    units = Units(scenario.money)
    title = escape(scenario.title or "Federation")
    console.print(f"[bold]{title}[/bold]: {compared.federation.n_agents} agents")
    if scenario.description:
        console.print(escape(scenario.description))
    console.print()
    for print_part in (_contributions, _payments, _mechanisms):
        print_part(compared, units)
        console.print()
    show_outlooks(compared, units)
    for name, reason in compared.unsolved.items():
        console.print(f"{compared.title(name)}: no outcome: {escape(reason)}")
    if compared.recommendation is not None:
        console.print(f"[bold]Recommendation:[/bold] {compared.title(compared.recommendation.mechanism)}.")
        console.print(escape(compared.recommendation.reason))


def _contributions(compared: Comparison, units: Units) -> None:
    made = table("Contributions", "agent", *(compared.title(outcome.mechanism) for outcome in compared))
    agents, rest = shown_agents(np.max([outcome.contributions for outcome in compared], axis=0))
    for agent in agents:
        made.add_row(
            escape(compared.federation.names[agent]),
            *(quantity(float(outcome.contributions[agent])) for outcome in compared),
        )
    console.print(made)
    if rest:
        console.print(rest)


def _payments(compared: Comparison, units: Units) -> None:
    paying = [outcome for outcome in compared if outcome.payments.any()]
    if not paying:
        console.print("Nobody pays anybody.")
        return
    heads = [f"{compared.title(outcome.mechanism)} {what}" for outcome in paying for what in ("payment", "gain")]
    made = table(f"Payments (+ received, - paid) and gains against standing alone, in {units.label}", "agent", *heads)
    agents, rest = shown_agents(np.max([np.abs(outcome.payments) for outcome in paying], axis=0))
    for agent in agents:
        cells = []
        for outcome in paying:
            cells.append(units.show(float(outcome.payments[agent]), sign=True))
            cells.append(gain(float(outcome.ir_gaps[agent]), units, leaves=outcome.agents[agent] in outcome.leavers))
        made.add_row(escape(compared.federation.names[agent]), *cells)
    console.print(made)
    if rest:
        console.print(rest)


def _mechanisms(compared: Comparison, units: Units) -> None:
    made = table("Mechanisms", "mechanism", "welfare", "of best", "reciprocity", "would leave", "promises")
    for outcome in compared:
        promised = compared.mechanisms[outcome.mechanism].claims
        verdicts = {outcome.certificates[claim].verdict for claim in promised}
        leavers = ", ".join(outcome.leavers) if len(outcome.leavers) <= 3 else f"{len(outcome.leavers)} agents"
        made.add_row(
            compared.title(outcome.mechanism),
            f"{outcome.welfare:.4f}",
            compared.of_best(outcome.welfare),
            f"{outcome.reciprocity:.3f}" if np.isfinite(outcome.reciprocity) else "undefined",
            escape(leavers) or "nobody",
            "[red]broken[/red]" if Verdict.VIOLATED in verdicts else "kept" if verdicts <= {Verdict.HOLDS} else "open",
        )
    console.print(made)
