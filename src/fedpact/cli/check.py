"""`fedpact check`: does a deal keep its promises? Exit code 1 if a claim fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from fedpact.certificates import Claim, Verdict
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    choose_mechanism,
    console,
    print_json,
    read_scenario,
)
from fedpact.cli.ledgers import check_ledger, ledger_with_deal, show_findings
from fedpact.cli.solve import show_certificates
from fedpact.cli.transcripts import RECOMPUTED, check_transcript, recomputed, show_recomputed
from fedpact.deals import Outcome, is_ledger
from fedpact.deals.deal_file import deal_record, read_deal, stated_numbers
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX, read_transcript
from fedpact.mechanisms import mechanism_named
from fedpact.report.records import outcome_record
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput

__all__ = ["check"]

CLAIM_FAILS = 1
WORDS = {"Proved": Verdict.HOLDS, "Not refuted": Verdict.NOT_REFUTED, "Undefined": Verdict.UNDEFINED}


def check(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: Annotated[
        Path | None,
        typer.Argument(
            help="A deal written by `fedpact solve --json`, a transcript (.jsonl) of `fedpact negotiate`, or a ledger; "
            "solved anew if not given."
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

    A transcript in place of the scenario: is the deal it states the one its exchanges come to? A ledger: does its
    chain hold, and everything in it agree?
    """
    if deal is None and Path(scenario).suffix.lower() == TRANSCRIPT_SUFFIX:
        if name or claims:
            raise InvalidInput("claims need the scenario: fedpact check SCENARIO TRANSCRIPT_SUFFIX")
        check_file = check_ledger if is_ledger(Path(scenario)) else check_transcript
        failed = check_file(Path(scenario), as_json=as_json)
    else:
        failed = _check_deal(read_scenario(scenario), deal, name, claims, as_json=as_json)
    if failed:
        raise typer.Exit(CLAIM_FAILS)


def _check_deal(
    scenario: Scenario, deal: Path | None, name: str | None, claims: list[str] | None, *, as_json: bool
) -> list[str]:
    """The claims that fail."""
    recorded = deal is not None and deal.suffix.lower() == TRANSCRIPT_SUFFIX
    ledger = ledger_with_deal(deal) if deal is not None and recorded and is_ledger(deal) else None
    negotiation = recomputed(read_transcript(deal)) if deal is not None and recorded and not ledger else None
    said = deal_record(negotiation.deal) if negotiation else ledger.deal if ledger else None
    if said is not None:
        outcome, promised = _negotiated(scenario, deal, said, name)
    else:
        outcome, promised = _outcome(scenario, deal, name)
    held_to = _claims(claims) if claims else promised
    broken = [claim for claim in held_to if outcome.certificates[claim].verdict is Verdict.VIOLATED]
    apart = negotiation.failed if negotiation else ledger.failed if ledger else []
    failed = list(dict.fromkeys([*broken, *apart]))
    if as_json:
        checked = [*held_to, *([RECOMPUTED] if negotiation else []), *(ledger.findings if ledger else [])]
        print_json(outcome_record(outcome) | {"checked": checked, "failed": failed})
        return failed
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] under {outcome.mechanism}\n")
    if negotiation:
        show_recomputed(negotiation)
    if ledger:
        show_findings(ledger)
    show_certificates(outcome)
    console.print(f"\nHeld to: {', '.join(held_to)}")
    _show_verdicts(outcome, held_to)
    return failed


def _show_verdicts(outcome: Outcome, held_to: Sequence[Claim]) -> None:
    """What is proved, not refuted, undefined, violated but not asked of it; then what it breaks, with the numbers."""
    violated = [claim for claim, proof in outcome.certificates.items() if proof.verdict is Verdict.VIOLATED]
    for word, verdict in WORDS.items():
        claims = [claim for claim, proof in outcome.certificates.items() if proof.verdict is verdict]
        if claims:
            console.print(f"{word}: {', '.join(claims)}")
    excused = [claim for claim in violated if claim not in held_to]
    if excused:
        console.print(f"Violated, but not held to it: {', '.join(excused)}")
    for claim in (claim for claim in violated if claim in held_to):
        certificate = outcome.certificates[claim]
        console.print(f"[red]{claim} is violated[/red] by {-certificate.margin:.3g}: {_told(certificate.witness)}")
    if all(outcome.certificates[claim].holds for claim in held_to):
        console.print("Every claim it is held to is proved.")


def _outcome(scenario: Scenario, deal: Path | None, name: str | None) -> tuple[Outcome, tuple[Claim, ...]]:
    if deal is None:
        rules = choose_mechanism(name or "externality")
        return rules.solve(scenario.federation), tuple(rules.claims)
    stated, contributions, payments = read_deal(deal, scenario.federation.names)
    rules = choose_mechanism(name) if name else mechanism_named(stated)
    return rules.outcome_at(scenario.federation, contributions, payments), tuple(rules.claims)


def _negotiated(
    scenario: Scenario, path: Path | None, deal: Mapping[str, Any], name: str | None
) -> tuple[Outcome, tuple[Claim, ...]]:
    """The deal on record, among those who were at the table to the end."""
    agents, names = list(deal["agents"]), list(scenario.federation.names)
    if sorted(agents) != sorted(names):
        raise InvalidInput(
            f"{path}: agents must be those of the scenario ({', '.join(names)}), got {', '.join(map(str, agents))}"
        )
    rules = choose_mechanism(name) if name else mechanism_named(str(deal.get("mechanism") or "externality"))
    there = [place for place, agent in enumerate(agents) if agent not in (deal.get("excluded") or {})]
    federation = scenario.federation.take([names.index(agents[place]) for place in there])
    contributions, payments = (np.array(part)[there] for part in stated_numbers(deal, len(agents)))
    return rules.outcome_at(federation, contributions, payments), tuple(rules.claims)


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
