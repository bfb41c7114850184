"""`fedpact check`: does a deal keep its promises? Exit code 1 if a claim fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedpact.cli.common import DEFAULT_EXAMPLE, AsJson, ScenarioArgument, console, print_json, read_scenario
from fedpact.cli.recomputing import RECOMPUTED, Recomputed, check_transcript, recomputed, show_recomputed
from fedpact.cli.solve import show_certificates
from fedpact.errors import InvalidInput
from fedpact.mechanisms import mechanism_named
from fedpact.negotiation.transcript import read_transcript
from fedpact.outcome import Outcome
from fedpact.properties import Claim
from fedpact.records import TRANSCRIPT, outcome_record, read_deal
from fedpact.scenario import Scenario

__all__ = ["check"]

CLAIM_FAILS = 1


def check(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: Annotated[
        Path | None,
        typer.Argument(
            help="A deal written by `fedpact solve --json`, or a transcript (.jsonl) of `fedpact negotiate`; solved "
            "anew if not given."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--mechanism", "-m", help="The rules; the deal's own by default.", metavar="NAME")
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option("--claim", "-c", help="Hold it to this claim, or 'all'; several allowed.", metavar="CLAIM"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a deal against its certificates: by default what its mechanism promises by design.

    A transcript in place of the scenario: is the deal it states the one its exchanges come to?
    """
    if deal is None and Path(scenario).suffix.lower() == TRANSCRIPT:
        if name or claims:
            raise InvalidInput("claims need the scenario: fedpact check SCENARIO TRANSCRIPT")
        failed = check_transcript(Path(scenario), as_json=as_json)
    else:
        failed = _check_deal(read_scenario(scenario), deal, name, claims, as_json=as_json)
    if failed:
        raise typer.Exit(CLAIM_FAILS)


def _check_deal(
    scenario: Scenario, deal: Path | None, name: str | None, claims: list[str] | None, *, as_json: bool
) -> list[str]:
    """The claims that fail."""
    negotiation = recomputed(read_transcript(deal)) if deal is not None and deal.suffix.lower() == TRANSCRIPT else None
    outcome, promised = _negotiated(scenario, negotiation, name) if negotiation else _outcome(scenario, deal, name)
    held_to = _claims(claims) if claims else promised
    broken = [claim for claim in held_to if not outcome.certificates[claim].holds]
    failed = list(dict.fromkeys([*broken, *(negotiation.failed if negotiation else [])]))
    if as_json:
        checked = [*held_to, *([RECOMPUTED] if negotiation else [])]
        print_json(outcome_record(outcome) | {"checked": checked, "failed": failed})
        return failed
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] under {outcome.mechanism}\n")
    if negotiation:
        show_recomputed(negotiation)
    show_certificates(outcome)
    console.print(f"\nHeld to: {', '.join(held_to)}")
    for claim in broken:
        certificate = outcome.certificates[claim]
        console.print(f"[red]{claim} is violated[/red] by {-certificate.margin:.3g}: {_told(certificate.witness)}")
    if not failed:
        console.print("Every claim holds.")
    return failed


def _outcome(scenario: Scenario, deal: Path | None, name: str | None) -> tuple[Outcome, tuple[Claim, ...]]:
    if deal is None:
        rules = mechanism_named(name or "externality")
        return rules.solve(scenario.federation), tuple(rules.claims)
    stated, contributions, payments = read_deal(deal, scenario.federation.agent_names)
    rules = mechanism_named(name or stated)
    return rules.outcome_at(scenario.federation, contributions, payments), tuple(rules.claims)


def _negotiated(scenario: Scenario, found: Recomputed, name: str | None) -> tuple[Outcome, tuple[Claim, ...]]:
    """The deal the exchanges come to, among those who were at the table to the end."""
    deal, names = found.deal, list(scenario.federation.agent_names)
    if sorted(deal.agents) != sorted(names):
        raise InvalidInput(
            f"{found.transcript.path}: agents must be those of the scenario ({', '.join(names)}), "
            f"got {', '.join(deal.agents)}"
        )
    rules = mechanism_named(name or "externality")
    there = deal.members
    federation = scenario.federation.take([names.index(deal.agents[place]) for place in there])
    return rules.outcome_at(federation, deal.contributions[there], deal.payments[there]), tuple(rules.claims)


def _claims(given: list[str]) -> tuple[Claim, ...]:
    if "all" in given:
        return tuple(Claim)
    known = [claim.value for claim in Claim]
    for claim in given:
        if claim not in known:
            raise InvalidInput(f"--claim must be one of {', '.join(known)} or all, got {claim!r}")
    return tuple(Claim(claim) for claim in given)


def _told(witness: object) -> str:
    assert isinstance(witness, dict)
    simple = {key: value for key, value in witness.items() if isinstance(value, (str, float, int))}
    return escape(
        ", ".join(
            f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}" for key, value in simple.items()
        )
    )
