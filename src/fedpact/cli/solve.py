"""`fedpact solve`: one mechanism in full, with its certificates, who would leave, and what a group would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.certificates.claims import claim_title
from fedpact.certificates.core import SOME_GROUPS
from fedpact.cli import inputs, screen
from fedpact.comparison import StableFederation, blocking_group, stable_federation
from fedpact.deals import Deal, Outcome
from fedpact.deals.deal_file import outcome_record
from fedpact.deals.diagnosis import diagnose, fairness_sentences, harm_sentences, idle_sentences
from fedpact.report.numbers import Unit, lowest_share_text, smallest_gain_text
from fedpact.report.page import shared_cap_sentences
from fedpact.report.records import departures_record
from fedpact.report.tables import deal_table, lots_table
from fedpact.solvers.groups import MAX_LISTED_AGENTS
from fedpact.utils.files import replace_text
from fedpact.utils.words import MAX_NAMES, group_text, join_names


def solve(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    name: inputs.MechanismOption = inputs.DEFAULT_MECHANISM,
    leave: Annotated[str | None, Option("--leave", help="Let members leave: all, worst or groups.")] = None,
    details: Annotated[bool, Option("--details", help="Margins, scopes, and assumptions that fail.")] = False,
    output: Annotated[Path | None, Option("--output", "-o", help="Keep the deal, as .json.")] = None,
    force: inputs.Force = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Solve one mechanism: contributions, payments, utilities and certificates."""
    inputs.check_output(output, force=force, suffixes=(".json",))
    chosen = inputs.read_scenario(scenario)
    rules = inputs.choose_mechanism(name)
    settled = None
    with inputs.amounts_in(chosen.money), screen.progress(2) as begin:
        if leave:
            settled = stable_federation(chosen.federation, rules, leave=leave)
        begin(f"solving {rules.title}")
        outcome = settled.outcome if settled else rules.solve(chosen.federation)
        begin(f"certifying {rules.title}")
        _ = outcome and outcome.certificates
    record = outcome_record(outcome) if outcome else {"mechanism": rules.name, "agents": []}
    if settled:
        record |= {"departures": departures_record(settled), "excluded": settled.reasons}
    if output is not None:
        replace_text(output, screen.json_text(record) + "\n")
    if as_json:
        screen.print_json(record)
        return
    screen.say((chosen.title or "Federation", "bold"), f" under {rules.full_title}")
    screen.say()
    if settled:
        _show_departures(settled, Unit.of(chosen.money, [settled.welfare]), by_groups=leave == "groups")
    if outcome:
        unit = Unit.of(chosen.money, outcome.payoffs, data=chosen.unit)
        _show_outcome(outcome, unit, details=details)
    screen.say_written([] if output is None else [output])


def _show_outcome(outcome: Outcome, unit: Unit, *, details: bool) -> None:
    if outcome.federation.has_lots:
        screen.print_table(lots_table(outcome, unit))
        screen.say_all(shared_cap_sentences(outcome, unit))
        screen.say()
    screen.print_table(deal_table(outcome, unit))
    screen.say_all(harm_sentences(outcome, unit.text))
    say_side_payments(outcome.deal, unit)
    reciprocity = f"reciprocity {lowest_share_text(outcome)}"
    if np.isnan(outcome.reciprocity):
        reciprocity = f"reciprocity undefined: {outcome.certificates[Claim.RECIPROCITY].scope}"
    screen.say(f"Welfare {unit.text(outcome.welfare)}; {smallest_gain_text(outcome, unit)}; {reciprocity}")
    screen.say_imbalance(outcome, unit, "It")
    screen.say()
    show_certificates(outcome, unit, details=details)
    for claim in (Claim.CORE, Claim.SPLIT_PROOF):
        if outcome.certificates[claim].verdict is Verdict.VIOLATED:
            screen.say_all(filter(None, [violation_sentence(outcome, claim, unit)]))
    screen.say_all((*diagnose(outcome, unit.text), *fairness_sentences(outcome, unit.text)))
    screen.say_all(sentence for sentence in idle_sentences(outcome) if sentence not in outcome.diagnosis)
    if details:
        _show_theory(outcome)
    core = outcome.certificates[Claim.CORE]
    if core.verdict is Verdict.NOT_REFUTED and core.scope == SOME_GROUPS:
        most = unit.text(core.witness["gain_upper_bound"])
        screen.say(f"No group that was looked at gains by leaving; any other gains at most {most}.")


def _show_theory(outcome: Outcome) -> None:
    """Which of the paper's assumptions fail, for whom, and which equilibria there are."""
    for assumption in outcome.assumptions:
        if not assumption.holds:
            who = join_names(assumption.agents, most=MAX_NAMES)
            screen.say((assumption.name, "bold"), f" fails for {who}: {assumption.consequence}.")
    screen.say(f"Equilibrium: {outcome.equilibria.note}.")


def show_certificates(outcome: Outcome, unit: Unit, *, details: bool) -> None:
    """Every claim with its verdict; in detail, with its margin in a unit and what was searched too."""
    title, heads = "Certificates (--details shows margins and what was searched)", ["claim", "verdict"]
    if details:
        title, heads = f"Certificates (margins in {unit.label})", [*heads, "margin", "scope"]
    rows = []
    for found in outcome.certificates.values():
        verdict = found.verdict.value
        if found.verdict is Verdict.VIOLATED and found.claim not in outcome.rules.promises(outcome.federation):
            verdict += ", not promised"
        rows.append((claim_title(found.claim), verdict, _margin_text(found, unit), found.scope)[: len(heads)])
    screen.print_rows(title, heads, rows, words=("verdict", "scope"))


def _margin_text(certificate: Certificate, unit: Unit) -> str:
    """A margin; a dash where nothing was found to work it out from."""
    looked = certificate.verdict in (Verdict.HOLDS, Verdict.VIOLATED) or np.isfinite(certificate.margin)
    return unit.column([certificate.margin], signed=True)[0] if looked else "-"


def violation_sentence(outcome: Outcome, claim: Claim, unit: Unit) -> str:
    """Who gains by leaving, or by posing as two, where the witness of a violated claim says so; else empty."""
    certificate = outcome.certificates[claim]
    if claim is Claim.SPLIT_PROOF and "gains" in certificate.witness:
        gains, most = certificate.witness["gains"], certificate.witness["agent"]
        said = f"{most} would gain {unit.text(gains[most])} by posing as two"
        others = [name for name, gain in gains.items() if name != most and gain > certificate.tol]
        if others:
            return f"{said}, more than anybody else; {join_names(others, most=MAX_NAMES)} would gain too."
        everybody = len(gains) == len(outcome.agents)
        return f"{said}, nobody else would." if everybody else f"{said}; not everybody else was looked at."
    if claim is not Claim.CORE or "group" not in certificate.witness:
        return ""
    group, gain = certificate.witness["group"], unit.text(certificate.witness["gain"])
    if len(group) < len(outcome.agents) or len(group) == 1:
        return _leaving_sentence(group, outcome.agents, gain)
    said = f"All members together could have {gain} more than this deal gives them."
    if len(group) > MAX_LISTED_AGENTS:
        return said
    found = blocking_group(outcome, proper=True)
    if not found.blocks:
        return f"{said} No smaller group gains by leaving."
    return f"{said} {_leaving_sentence(found.group, outcome.agents, unit.text(found.gain))}"


def _leaving_sentence(group: Sequence[str], agents: Sequence[str], gain: str) -> str:
    who = group_text(group, agents, most=MAX_NAMES)
    if len(group) == 1:
        return f"{who} would gain {gain} by leaving alone."
    return f"{who[0].upper()}{who[1:]} would gain {gain} in total by leaving together, to be shared among them."


def say_side_payments(deal: Deal, unit: Unit) -> None:
    """What of the payments is fixed, where anything is."""
    if deal.side_payments is None or not deal.side_payments.any():
        return
    largest = np.argsort(-np.abs(deal.side_payments), kind="stable")
    sums = unit.column(deal.side_payments[largest], signed=True)
    fixed = [f"{deal.agents[agent]} {amount}" for agent, amount in zip(largest, sums, strict=True)]
    screen.say(f"Of what is paid, fixed whatever anybody contributes: {join_names(fixed, most=MAX_NAMES)}")


def _show_departures(settled: StableFederation, unit: Unit, *, by_groups: bool) -> None:
    if not settled.departures:
        screen.say("Nobody wants to leave.")
        screen.say()
        return
    for step, departure in enumerate(settled.departures, start=1):
        screen.say(f"Round {step}: {', '.join(departure.leavers)} would leave.")
    amounts = (settled.welfare, settled.welfare_all_stay, settled.endowment_to_keep_all)
    left, stayed, keep = (unit.text(amount) for amount in amounts)
    verb = "stays" if len(settled.members) == 1 else "stay"
    stay = f"{', '.join(settled.members)} {verb}" if settled.members else "Nobody stays"
    least = "at least " if by_groups else ""  # other groups may gain too
    others = "in federations of their own" if by_groups else "each alone"
    screen.say(
        f"{stay}. Welfare {left} with those who left {others}, {stayed} had everybody stayed; keeping everybody would "
        f"take endowments of {least}{keep}."
    )
    screen.say()
