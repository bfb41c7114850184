"""`fedpact solve`: one mechanism in full, with its certificates, who would leave, and what a group would have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.certificates.claims import claim_title
from fedpact.certificates.core import SOME_GROUPS
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    Force,
    MechanismOption,
    ScenarioArgument,
    amounts_in,
    check_output,
    choose_mechanism,
    console,
    escape,
    json_text,
    print_agents,
    print_imbalance,
    print_json,
    print_result,
    progress,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.cli.violation_words import violation_sentences
from fedpact.comparison import BlockingGroup, StableFederation, blocking_group, stable_federation
from fedpact.deals import Deal, Outcome
from fedpact.deals.deal_file import outcome_record
from fedpact.deals.diagnosis import diagnose, fairness_sentences, idle_sentences
from fedpact.report.numbers import Unit, lowest_share_text, number_texts, share_notes, smallest_gain_text
from fedpact.report.records import blocking_group_record, departures_record
from fedpact.report.sections import shared_cap_sentences
from fedpact.report.tables import deal_table, price_texts
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text
from fedpact.utils.words import MAX_NAMES, join_names


def solve(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    name: MechanismOption = "externality",
    leave: Annotated[
        str | None,
        typer.Option(
            "--leave",
            help="Let members leave who would: 'all' at once, 'worst' first, or in 'groups'.",
            metavar="ORDER",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            help="What these members would gain by leaving together: names, by commas or one at a time.",
            metavar="NAMES",
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show margins, what was searched, and which assumptions fail.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Keep the deal, .json: for check, settle and train.", metavar="FILE"),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Solve one mechanism: contributions, payments, utilities and certificates."""
    if output is not None:
        check_output(output, force=force, suffixes=(".json",))
    chosen = read_scenario(scenario)
    rules = choose_mechanism(name)
    asked = _group(group or [], chosen.federation.names)
    if asked and leave:
        raise InvalidInput("--group asks about the deal with everybody in it; leave out --leave")
    settled = None
    with amounts_in(chosen.money), progress(2) as begin:
        if leave:
            settled = stable_federation(chosen.federation, rules, leave=leave)
        begin(f"solving {rules.title}")
        outcome = settled.outcome if settled else rules.solve(chosen.federation)
        begin(f"certifying {rules.title}")
        _ = outcome and outcome.certificates
    together = blocking_group(outcome, group=asked) if outcome and asked else None
    record = outcome_record(outcome) if outcome else {"mechanism": rules.name, "agents": []}
    if settled:
        record |= {"departures": departures_record(settled), "excluded": settled.reasons}
    record |= {"group": blocking_group_record(together)} if together else {}
    if output is not None:
        replace_text(output, json_text(record) + "\n")
    if as_json:
        print_json(record)
        return
    console.print(f"[bold]{escape(chosen.title or 'Federation')}[/bold] under {escape(rules.full_title)}\n")
    if settled:
        _show_departures(settled, Unit.of(chosen.money, [settled.welfare]), by_groups=leave == "groups")
    if outcome:
        unit = Unit.of(chosen.money, outcome.payoffs, data=chosen.unit)
        _show_outcome(outcome, unit, details=details)
        if together:
            _show_group(together, unit)
    if output is not None:
        console.print(f"\nWritten: {escape(str(output))}", soft_wrap=True)


def _group(given: Sequence[str], agents: Sequence[str]) -> list[str]:
    """The members asked about; none if nobody is."""
    for text in given:
        if not text.strip():
            raise InvalidInput(f"--group must name one or more members, got {text!r}; leave it out to ask about nobody")
    return [name for text in given for name in split_names(text, agents)]


def split_names(text: str, agents: Sequence[str]) -> list[str]:
    """Names written one after the other with commas between them; those of agents may hold commas themselves.

    Examples
    --------
    >>> split_names("City, Clinic", ["City", "Clinic"])
    ['City', 'Clinic']
    >>> split_names("City,Smith, Jones & Co", ["City", "Smith, Jones & Co"])
    ['City', 'Smith, Jones & Co']
    """
    names, rest = [], text.strip()
    while rest:
        whole = [name for name in agents if rest == name or re.match(re.escape(name) + r"\s*,", rest)]
        name = max(whole, key=len, default=rest.partition(",")[0].strip())
        names.append(name)
        rest = rest[len(name) :].lstrip().removeprefix(",").strip()
    return names


def _show_outcome(outcome: Outcome, unit: Unit, *, details: bool) -> None:
    _show_agents(outcome, unit)
    console.print()
    show_certificates(outcome, details=details)
    for sentence in violation_sentences(outcome, unit):
        console.print(escape(sentence))
    for sentence in (*diagnose(outcome, unit.text), *fairness_sentences(outcome, unit.text)):
        console.print(escape(terminal_text(sentence)))
    for sentence in idle_sentences(outcome):
        if sentence not in outcome.diagnosis:
            console.print(escape(sentence))
    if details:
        _show_theory(outcome)
    core = outcome.certificates[Claim.CORE]
    if core.verdict is Verdict.NOT_REFUTED and core.scope == SOME_GROUPS:
        most = terminal_text(unit.text(core.witness["gain_upper_bound"]))
        console.print(f"No group that was looked at gains by leaving; any other gains at most {escape(most)}.")


def _show_theory(outcome: Outcome) -> None:
    """Which of the paper's assumptions fail, for whom, and which equilibria there are."""
    for assumption in outcome.assumptions:
        if not assumption.holds:
            who = escape(join_names(assumption.agents, most=MAX_NAMES))
            console.print(f"[bold]{assumption.name}[/bold] fails for {who}: {assumption.consequence}.")
    console.print(f"Equilibrium: {outcome.equilibria.note}.")


def show_certificates(outcome: Outcome, *, details: bool = True) -> None:
    """Every claim with its verdict; in detail, with its margin and what was searched too."""
    made = (
        table("Certificates (margins in units of payoff)", "claim", "verdict", "margin", "scope")
        if details
        else table("Certificates (--details shows margins and what was searched)", "claim", "verdict")
    )
    made.columns[-1].justify = "left"
    for certificate in outcome.certificates.values():
        broken = certificate.verdict is Verdict.VIOLATED
        coloured = certificate.verdict.value
        if broken:
            promised = certificate.claim in outcome.rules.promises(outcome.federation)
            coloured = f"[red]{coloured}[/red]" if promised else f"{coloured}, not promised"
        more = (_margin_text(certificate), certificate.scope) if details else ()
        made.add_row(claim_title(certificate.claim), coloured, *more)
    console.print(made)


def _margin_text(certificate: Certificate) -> str:
    """A margin in two digits; a dash where nothing was found to work it out from."""
    looked = certificate.verdict in (Verdict.HOLDS, Verdict.VIOLATED) or np.isfinite(certificate.margin)
    return (f"{certificate.margin:+.1e}" if certificate.margin else "0") if looked else "-"


def _show_group(found: BlockingGroup, unit: Unit) -> None:
    """What members asked about would have together, against what they have."""
    now, then = sum(found.utilities.values()), sum(found.group_utilities.values())
    together, has = [terminal_text(unit.text(amount)) for amount in (then, now)]
    who = join_names(found.group)
    if len(found.group) == 1:
        said = f"{who} alone would have {together}; in this deal it has {has}"
    else:
        said = f"{who} would have {together} together, by themselves; in this deal they have {has}"
    if found.blocks:
        shared = "" if len(found.group) == 1 else " in total, to be shared among them"
        said += f". Leaving would gain {terminal_text(unit.text(found.gain))}{shared}."
    elif found.gain < 0 and unit.column([found.gain])[0] != "0":
        said += f". Leaving would cost {terminal_text(unit.text(-found.gain))}."
    else:
        said += ". Leaving would gain nothing."
    console.print(f"\n{escape(said)}")


def _show_agents(outcome: Outcome, unit: Unit) -> None:
    if outcome.federation.has_lots:
        _show_lots(outcome, unit)
    print_result(deal_table(outcome, unit))
    for sentence in share_notes(outcome, unit):
        console.print(escape(terminal_text(sentence)))
    show_side_payments(outcome.deal, unit)
    welfare = terminal_text(unit.text(outcome.welfare))
    smallest = terminal_text(smallest_gain_text(outcome, unit))
    console.print(f"Welfare {escape(welfare)}; {escape(smallest)}; {escape(_reciprocity_text(outcome))}")
    print_imbalance(outcome, unit, "It")


def show_side_payments(deal: Deal, unit: Unit) -> None:
    """What of the payments is fixed, where anything is."""
    if deal.side_payments is None or not deal.side_payments.any():
        return
    largest = np.argsort(-np.abs(deal.side_payments), kind="stable")
    sums = unit.column(deal.side_payments[largest], signed=True)
    fixed = [f"{deal.agents[agent]} {amount}" for agent, amount in zip(largest, sums, strict=True)]
    said = escape(terminal_text(join_names(fixed, most=MAX_NAMES)))
    console.print(f"Of what is paid, fixed whatever anybody contributes: {said}")


def _reciprocity_text(outcome: Outcome) -> str:
    """The lowest part of a Shapley share that anybody gets back, or why there is none."""
    if np.isnan(outcome.reciprocity):
        return f"reciprocity undefined: {outcome.certificates[Claim.RECIPROCITY].scope}"
    return f"reciprocity {terminal_text(lowest_share_text(outcome))}"


def _show_lots(outcome: Outcome, unit: Unit) -> None:
    """What each member brings of each of its lots, and how much there is."""
    federation, brought = outcome.federation, outcome.contributions
    columns = [("contributes", number_texts(brought)), ("of at most", number_texts(federation.arrays.reachable_caps))]
    if prices := price_texts(outcome, unit):
        columns.append((f"price, {unit.per_data}", prices))
    print_agents(unit.of_data("Lots"), federation.lot_labels, columns, sizes=brought, kind="lot")
    for sentence in shared_cap_sentences(outcome, unit):
        console.print(escape(terminal_text(sentence)))
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
    others = "in federations of their own" if by_groups else "each alone"
    console.print(
        f"{escape(stay)}. Welfare {amounts[0]} with those who left {others}, {amounts[1]} had everybody stayed; "
        f"keeping everybody would take endowments of {least}{amounts[2]}.\n"
    )
