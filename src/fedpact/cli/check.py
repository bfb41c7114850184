"""`fedpact check`: does a deal keep its promises? Exit code 1 if a claim fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedpact.certificates import Claim, Verdict
from fedpact.certificates.claims import quote_claim
from fedpact.cli.audits import show_findings, show_record
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    amounts_in,
    choose_mechanism,
    console,
    escape,
    print_json,
    read_scenario,
)
from fedpact.cli.deals import DEFAULT_MECHANISM, DealArgument
from fedpact.cli.exit_codes import CLAIM_FAILS
from fedpact.cli.solve import show_certificates
from fedpact.cli.violation_words import violation_detail
from fedpact.deals.deal_file import outcome_record
from fedpact.deals.diagnosis import budget_sentences
from fedpact.deals.ledger import is_ledger
from fedpact.deals.signatures import read_known_keys
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX
from fedpact.fitting.delivery import with_paid_shares
from fedpact.negotiation.check import CheckedDeal, CheckedLedger, check_deal, check_ledger, check_solved
from fedpact.report.ledger_page import write_ledger_page
from fedpact.report.numbers import Unit
from fedpact.report.words import NOT_CERTIFIED
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import join_names

VERDICTS_BY_WORD = {"Proved": Verdict.HOLDS, "Not refuted": Verdict.NOT_REFUTED, "Undefined": Verdict.UNDEFINED}


def check(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: DealArgument = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            "-m",
            help="The rules; the deal's own by default. Of a file with several deals, also which one.",
            metavar="NAME",
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option("--claim", "-c", help="Hold it to this claim, or 'all'; several allowed.", metavar="CLAIM"),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            help="Members' public keys that you know, a folder or a file: are they those of the ledger?",
            metavar="PATH",
        ),
    ] = None,
    receipts: Annotated[
        list[Path] | None,
        typer.Option(
            "--receipt", help="A member's receipt.json: is all it has signed there? Several allowed.", metavar="FILE"
        ),
    ] = None,
    signed: Annotated[bool, typer.Option("--signed", help="A ledger without signatures fails.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a ledger's page: agreed, delivered, paid, and who signed.", metavar="FILE"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a deal against its certificates: by default what its mechanism promises by design.

    A transcript in place of the scenario: is the deal it states the one its exchanges come to? A ledger: does its
    chain hold, is it signed, by whom, and does everything in it agree?
    """
    asked = keys is not None or bool(receipts) or signed or html is not None
    if deal is None and Path(scenario).suffix.lower() == TRANSCRIPT_SUFFIX:
        if name or claims:
            raise InvalidInput(f"claims need the scenario: fedpact check SCENARIO {scenario}")
        known = None if keys is None else read_known_keys(keys)
        failed = show_record(
            Path(scenario), keys=known, receipts=receipts or [], signed=signed, page=html, as_json=as_json
        )
    else:
        found = _check_ledger(deal, keys, receipts or [], signed=signed, page=html) if asked else None
        failed = _check_deal(read_scenario(scenario), deal, name, _claims(claims), found, as_json=as_json)
    if failed:
        raise typer.Exit(CLAIM_FAILS)


def _check_ledger(
    deal: Path | None, keys: Path | None, receipts: list[Path], *, signed: bool, page: Path | None
) -> CheckedLedger:
    """What is found in a ledger, with its signatures, keys and receipts; its page is written."""
    if deal is None or not is_ledger(deal):
        raise InvalidInput("--keys, --receipt, --signed and --html are for a ledger: fedpact check [SCENARIO] LEDGER")
    known = None if keys is None else read_known_keys(keys)
    found = with_paid_shares(check_ledger(deal, keys=known, receipts=receipts, must_be_signed=signed))
    if page is not None:
        write_ledger_page(found, page)
    return found


def _check_deal(
    scenario: Scenario,
    path: Path | None,
    name: str | None,
    claims: tuple[Claim, ...] | None,
    ledger: CheckedLedger | None,
    *,
    as_json: bool,
) -> list[str]:
    """The claims that fail, with those of a ledger."""
    rules = None if name is None else choose_mechanism(name)
    with amounts_in(scenario.money):
        if path is None:
            usual = rules or choose_mechanism(DEFAULT_MECHANISM)
            found = check_solved(usual, scenario.federation, claims=claims, money=scenario.money)
        else:
            found = check_deal(
                path, scenario.federation, rules=rules, claims=claims, money=scenario.money, found=ledger
            )
    failed = found.failed
    if as_json:
        who = {"excluded": dict(found.out)} if found.out else {}
        print_json(outcome_record(found.outcome) | who | _check_record(found) | {"failed": failed})
        return failed
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] under {found.outcome.mechanism}\n")
    _show_out(found)
    if found.record is not None:
        show_findings(found.record)
    show_certificates(found.outcome)
    console.print(f"\nHeld to: {_list_claims(found.claims)}")
    _show_verdicts(found)
    wrong = found.holds_payments and found.payment_check.exceeds
    console.print(escape(found.payment_text), style="red" if wrong else None)
    for sentence in budget_sentences(found.outcome, found.amount):
        console.print(f"[red]{escape(sentence)}[/red]")
    for text in found.contradictions:
        console.print(f"[red]Stated wrongly[/red]: {escape(text)}.", soft_wrap=True)
    if found.unchecked:
        console.print(
            f"Stated, not checked: {', '.join(found.unchecked)}; the transcript of the negotiation shows them."
        )
    console.print(f"[dim]{NOT_CERTIFIED}[/dim]")
    if failed:
        console.print(f"[red]This deal does not hold[/red]: {escape(_list_claims(failed))}.", soft_wrap=True)
    return failed


def _show_out(found: CheckedDeal) -> None:
    """Who of the scenario is not in the deal, and why, before anything is said of the others."""
    for name, reason in found.out.items():
        why = f"{escape(reason):.400}" if reason else "[red]the deal does not say why[/red]"
        console.print(f"{escape(name)} is out: {why}.", soft_wrap=True)
    if found.out:
        console.print(f"All that follows is about {escape(join_names(found.outcome.agents))} alone.\n", soft_wrap=True)


def _check_record(found: CheckedDeal) -> dict[str, Any]:
    """What was checked, what failed, and how much money can be in the wrong pocket, in units of payoff."""
    payments = found.payment_check
    record = {
        "checked": list(dict.fromkeys([*found.claims, *found.checked])),
        "failed": found.failed,
        "contradictions": found.contradictions,
        "over_budget": found.outcome.over_budget,
        "not_checked": found.unchecked,
        "payment_error": payments.error,
        "payment_tolerance": payments.tol,
        "payment_errors": payments.errors,
        "payment_method": payments.method,
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def _show_verdicts(found: CheckedDeal) -> None:
    """What is proved, not refuted, undefined, violated but not asked of it; then what it breaks, with the numbers."""
    certificates, unit = found.outcome.certificates, Unit.of(found.money, found.outcome.payoffs)
    for word, verdict in VERDICTS_BY_WORD.items():
        claims = [claim for claim, proof in certificates.items() if proof.verdict is verdict]
        if claims:
            console.print(f"{word}: {_list_claims(claims)}")
    violated = [claim for claim, proof in certificates.items() if proof.verdict is Verdict.VIOLATED]
    excused = [claim for claim in violated if claim not in found.claims]
    if excused:
        console.print(f"Violated, but not held to it: {_list_claims(excused)}")
    for claim in (claim for claim in violated if claim in found.claims):
        detail = escape(violation_detail(found.outcome, Claim(claim), unit))
        console.print(f"[red]{quote_claim(claim)} is violated[/red]{detail}")
    if found.deal.price_contradiction:
        console.print(f"[red]prices contradict payments[/red]: {escape(found.deal.price_contradiction)}")
    if found.is_proved:
        console.print("Every claim it is held to is proved.")


def _list_claims(claims: Sequence[str]) -> str:
    return ", ".join(map(quote_claim, claims))


def _claims(given: list[str] | None) -> tuple[Claim, ...] | None:
    if not given:
        return None
    if "all" in given:
        return tuple(Claim)
    known = [claim.value for claim in Claim]
    for claim in given:
        if claim not in known:
            raise InvalidInput(f"--claim must be one of {', '.join(known)} or all, got {claim!r}")
    return tuple(Claim(claim) for claim in given)
