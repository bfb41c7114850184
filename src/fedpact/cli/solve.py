"""`fedpact solve`: one mechanism in full, with its certificates, and who would leave."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from fedpact.certificates import Claim, Verdict
from fedpact.certificates.core import SOME_GROUPS
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    MechanismOption,
    ScenarioArgument,
    choose_mechanism,
    console,
    counter,
    escape,
    gain_texts,
    print_agents,
    print_imbalance,
    print_json,
    progress,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.deals import Outcome
from fedpact.deals.deal_file import outcome_record
from fedpact.report.numbers import Unit, number_texts, share_text
from fedpact.report.records import departures_record
from fedpact.stability import StableFederation, stable_federation
from fedpact.utils.words import MAX_NAMES, join_names


def solve(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    name: MechanismOption = "externality",
    leave: Annotated[
        str | None,
        typer.Option(
            "--leave", help="Let agents leave who would: 'all' at once, 'worst' first, or in 'groups'.", metavar="ORDER"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve one mechanism: contributions, payments, utilities and certificates."""
    chosen = read_scenario(scenario)
    rules = choose_mechanism(name)
    settled = None
    if leave:
        with counter("letting members leave") as count:
            settled = stable_federation(chosen.federation, rules, leave=leave, progress=count)
    with progress(2) as begin:
        begin(f"solving {rules.title}")
        outcome = settled.outcome if settled else rules.solve(chosen.federation)
        begin(f"certifying {rules.title}")
        _ = outcome and outcome.certificates
    if as_json:
        record = outcome_record(outcome) if outcome else {"mechanism": rules.name, "agents": []}
        print_json(record | ({"departures": departures_record(settled)} if settled else {}))
        return
    console.print(f"[bold]{escape(chosen.title or 'Federation')}[/bold] under {rules.title}\n")
    if settled:
        _show_departures(settled, Unit.of(chosen.money, [settled.welfare]), by_groups=leave == "groups")
    if outcome:
        _show_outcome(outcome, Unit.of(chosen.money, outcome.payoffs))


def _show_outcome(outcome: Outcome, unit: Unit) -> None:
    _show_agents(outcome, unit)
    console.print()
    show_certificates(outcome)
    for sentence in outcome.diagnosis:
        console.print(escape(sentence))
    for assumption in outcome.assumptions:
        if not assumption.holds:
            who = escape(join_names(assumption.agents, most=MAX_NAMES))
            console.print(f"[bold]{assumption.name}[/bold] fails for {who}: {assumption.consequence}.")
    console.print(f"Equilibrium: {outcome.equilibria.note}.")
    core = outcome.certificates[Claim.CORE]
    if core.verdict is Verdict.NOT_REFUTED and core.scope == SOME_GROUPS:
        most = terminal_text(unit.text(core.witness["gain_upper_bound"]))
        console.print(f"No group that was looked at gains by leaving; any other gains at most {escape(most)}.")


def show_certificates(outcome: Outcome) -> None:
    """Every claim with its verdict, margin and what was searched."""
    made = table("Certificates", "claim", "verdict", "margin", "scope")
    made.columns[3].justify = "left"
    for certificate in outcome.certificates.values():
        verdict = certificate.verdict.value
        coloured = f"[red]{verdict}[/red]" if certificate.verdict is Verdict.VIOLATED else verdict
        made.add_row(certificate.claim.value, coloured, f"{certificate.margin:+.1e}", certificate.scope)
    console.print(made)


def _show_agents(outcome: Outcome, unit: Unit) -> None:
    leaves = np.isin(outcome.agents, outcome.leavers)
    shares = zip(outcome.reciprocity_ratios, outcome.shapley_values, strict=True)
    federation = outcome.federation
    if federation.has_lots:
        _show_lots(outcome)
    columns = [
        *([] if federation.has_lots else [("contributes", number_texts(outcome.contributions))]),
        ("payoff", unit.column(outcome.payoffs)),
        ("cost", unit.column(outcome.costs)),
        ("is paid", unit.column(outcome.payments, signed=True)),
        ("gain", gain_texts(outcome.ir_gaps, unit, leaves=leaves)),
        ("of Shapley", [share_text(float(ratio), float(share)) for ratio, share in shares]),
    ]
    sizes = outcome.costs if federation.has_lots else outcome.contributions
    print_agents(f"Members (amounts in {unit.label})", outcome.agents, columns, sizes=sizes)
    assert outcome.side_payments is not None
    if outcome.side_payments.any():
        largest = np.argsort(-np.abs(outcome.side_payments), kind="stable")
        sums = unit.column(outcome.side_payments[largest], signed=True)
        fixed = [f"{outcome.agents[agent]} {amount}" for agent, amount in zip(largest, sums, strict=True)]
        said = escape(terminal_text(join_names(fixed, most=MAX_NAMES)))
        console.print(f"Of what is paid, fixed whatever anybody contributes: {said}")
    welfare = terminal_text(unit.text(outcome.welfare))
    console.print(f"Welfare {escape(welfare)}; reciprocity {outcome.reciprocity:.4g}")
    print_imbalance(outcome, unit, "It")


def _show_lots(outcome: Outcome) -> None:
    """What each member brings of each of its lots, and how much there is."""
    federation, brought = outcome.federation, outcome.contributions
    columns = [("contributes", number_texts(brought)), ("of at most", number_texts(federation.caps))]
    print_agents("Lots", federation.lot_labels, columns, sizes=brought, kind="lot")
    console.print()


def _show_departures(settled: StableFederation, unit: Unit, *, by_groups: bool) -> None:
    if not settled.departures:
        console.print("Nobody wants to leave.\n")
        return
    for step, departure in enumerate(settled.departures, start=1):
        console.print(f"Round {step}: {escape(', '.join(departure.leavers))} would leave.")
    welfare = (settled.welfare, settled.welfare_all_stay, settled.endowment_to_keep_all)
    amounts = [escape(terminal_text(unit.text(amount))) for amount in welfare]
    verb = "stays" if len(settled.members) == 1 else "stay"
    stay = f"{', '.join(settled.members)} {verb}" if settled.members else "Nobody stays"
    least = "at least " if by_groups else ""  # other groups may gain too
    console.print(
        f"{escape(stay)}. Welfare {amounts[0]} with the others on their own, {amounts[1]} had everybody stayed; "
        f"keeping everybody would take endowments of {least}{amounts[2]}.\n"
    )
