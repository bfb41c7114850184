"""`fedpact check`: does a deal keep its promises? Exit code 1 if a claim fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedpact.cli.common import DEFAULT_EXAMPLE, AsJson, ScenarioArgument, console, print_json, read_scenario
from fedpact.cli.solve import show_certificates
from fedpact.errors import InvalidInput
from fedpact.mechanisms import mechanism_named
from fedpact.outcome import Outcome
from fedpact.properties import Claim
from fedpact.records import outcome_record, read_deal
from fedpact.scenario import Scenario

__all__ = ["check"]

CLAIM_FAILS = 1


def check(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: Annotated[
        Path | None, typer.Argument(help="A deal written by `fedpact solve --json`; solved anew if not given.")
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
    """Check a deal against its certificates: by default what its mechanism promises by design."""
    chosen = read_scenario(scenario)
    outcome, promised = _outcome(chosen, deal, name)
    held_to = _claims(claims) if claims else promised
    failed = [claim for claim in held_to if not outcome.certificates[claim].holds]
    if as_json:
        print_json(outcome_record(outcome) | {"checked": [*held_to], "failed": failed})
    else:
        console.print(f"[bold]{escape(chosen.title or 'Federation')}[/bold] under {outcome.mechanism}\n")
        show_certificates(outcome)
        console.print(f"\nHeld to: {', '.join(held_to)}")
        for claim in failed:
            certificate = outcome.certificates[claim]
            console.print(f"[red]{claim} is violated[/red] by {-certificate.margin:.3g}: {_told(certificate.witness)}")
        if not failed:
            console.print("Every claim holds.")
    if failed:
        raise typer.Exit(CLAIM_FAILS)


def _outcome(scenario: Scenario, deal: Path | None, name: str | None) -> tuple[Outcome, tuple[Claim, ...]]:
    if deal is None:
        rules = mechanism_named(name or "externality")
        return rules.solve(scenario.federation), tuple(rules.claims)
    stated, contributions, payments = read_deal(deal, scenario.federation.agent_names)
    rules = mechanism_named(name or stated)
    return rules.outcome_at(scenario.federation, contributions, payments), tuple(rules.claims)


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
