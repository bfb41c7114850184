"""`fedpact solve`: one mechanism in full, with its certificates, and who would leave."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from fedpact.certificates import Verdict
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    MechanismOption,
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
from fedpact.deals import Outcome
from fedpact.mechanisms import mechanism_named
from fedpact.report.records import departures_record, outcome_record
from fedpact.stability import StableFederation, stable_federation

__all__ = ["show_certificates", "solve"]


def solve(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    name: MechanismOption = "externality",
    leave: Annotated[
        str | None,
        typer.Option("--leave", help="Let agents leave who would: 'all' at once or 'worst' first.", metavar="ORDER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve one mechanism: contributions, payments, utilities and certificates."""
    chosen = read_scenario(scenario)
    rules = mechanism_named(name)
    with progress(2) as begin:
        begin(f"solving {rules.title}")
        settled = stable_federation(chosen.federation, rules, leave=leave) if leave else None
        outcome = settled.outcome if settled else rules.solve(chosen.federation)
        begin(f"certifying {rules.title}")
        _ = outcome and outcome.certificates
    if as_json:
        record = outcome_record(outcome) if outcome else {"mechanism": rules.name, "agents": []}
        print_json(record | ({"departures": departures_record(settled)} if settled else {}))
        return
    console.print(f"[bold]{escape(chosen.title or 'Federation')}[/bold] under {rules.title}\n")
    if settled:
        _show_departures(settled)
    if outcome:
        _show_outcome(outcome, Units(chosen.money))


def _show_outcome(outcome: Outcome, units: Units) -> None:
    _show_agents(outcome, units)
    console.print()
    show_certificates(outcome)
    for sentence in outcome.diagnosis:
        console.print(escape(sentence))
    for assumption in outcome.assumptions:
        if not assumption.holds:
            who = ", ".join(assumption.agents[:5]) + (" ..." if len(assumption.agents) > 5 else "")
            console.print(f"[bold]{assumption.name}[/bold] fails for {escape(who)}: {assumption.consequence}.")
    console.print(f"Equilibrium: {outcome.equilibria.note}.")


def show_certificates(outcome: Outcome) -> None:
    """Every claim with its verdict, margin and what was searched."""
    made = table("Certificates", "claim", "verdict", "margin", "scope")
    made.columns[3].justify = "left"
    for certificate in outcome.certificates.values():
        verdict = certificate.verdict.value
        coloured = f"[red]{verdict}[/red]" if certificate.verdict is Verdict.VIOLATED else verdict
        made.add_row(certificate.claim.value, coloured, f"{certificate.margin:+.1e}", certificate.scope)
    console.print(made)


def _show_agents(outcome: Outcome, units: Units) -> None:
    heads = ("agent", "contributes", "payoff", "cost", "is paid", "gain", "of Shapley")
    made = table(f"Agents (amounts in {units.label})", *heads)
    agents, rest = shown_agents(outcome.contributions)
    for agent in agents:
        ratio = float(outcome.reciprocity_ratios[agent])
        made.add_row(
            escape(outcome.agents[agent]),
            quantity(float(outcome.contributions[agent])),
            units.show(float(outcome.payoffs[agent])),
            units.show(float(outcome.costs[agent])),
            units.show(float(outcome.payments[agent]), sign=True),
            gain(float(outcome.ir_gaps[agent]), units, leaves=outcome.agents[agent] in outcome.leavers),
            f"{100 * ratio:.0f} %" if np.isfinite(ratio) else "undefined",
        )
    console.print(made)
    if rest:
        console.print(rest)
    console.print(f"Welfare {outcome.welfare:.6g}; reciprocity {outcome.reciprocity:.4g}")


def _show_departures(settled: StableFederation) -> None:
    if not settled.departures:
        console.print("Nobody wants to leave.\n")
        return
    for step, departure in enumerate(settled.departures, start=1):
        console.print(f"Round {step}: {escape(', '.join(departure.leavers))} would leave.")
    stay = f"{', '.join(settled.members)} stay" if settled.members else "Nobody stays"
    console.print(
        f"{escape(stay)}. Welfare {settled.welfare:.6g} with the others on their own, "
        f"{settled.welfare_all_stay:.6g} had everybody stayed; "
        f"keeping everybody would take endowments of {settled.endowment_to_keep_all:.6g}.\n"
    )
