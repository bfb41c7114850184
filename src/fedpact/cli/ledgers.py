"""A ledger on the terminal: what it holds, and whether everything in it agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from fedpact.cli.common import console, print_agents, print_json
from fedpact.deals.deal_file import stated_numbers
from fedpact.deals.ledger import FAILED, MEASURED, SETTLED, TRAINED
from fedpact.negotiation.audit import Audit, audit
from fedpact.report.numbers import PAYOFF_LABEL, number_texts
from fedpact.utils.errors import InvalidInput

__all__ = ["check_ledger", "ledger_with_deal", "show_findings"]


def check_ledger(path: Path, *, as_json: bool) -> list[str]:
    """Show what a ledger holds; the claims that fail."""
    found = audit(path)
    if as_json:
        print_json(_record(found))
        return found.failed
    first = found.chain.entries[0] if found.chain.entries else None
    title = str(first.content.get("title") or "") if first else ""
    console.print(f"[bold]The ledger of {escape(title) if title else 'a run'}[/bold]\n")
    if found.deal is not None and "budget-balance" not in found.failed:
        _show_deal(found)
    end = found.chain.entries[-1] if found.chain.entries else None
    if end is not None and end.kind == FAILED:
        console.print(f"The run failed ({escape(str(end.content.get('phase')))}): {escape(_reason(end.content))}.\n")
    show_findings(found)
    if not found.failed:
        console.print("Every claim that can be checked holds.")
    return found.failed


def show_findings(found: Audit) -> None:
    """Claim by claim, in words."""
    for claim, finding in found.findings.items():
        colour, verdict = {True: ("blue", "holds"), False: ("red", "is violated"), None: ("dim", "is open")}[
            finding.holds
        ]
        console.print(f"[{colour}]{claim} {verdict}[/{colour}]: {escape(finding.reason)}.", soft_wrap=True)


def ledger_with_deal(path: Path) -> Audit:
    """A ledger that holds a deal."""
    found = audit(path)
    if found.deal is None:
        raise InvalidInput(f"{path}: no deal is in this ledger yet")
    return found


def _record(found: Audit) -> dict[str, Any]:
    return {
        "entries": [
            {"seq": entry.seq, "time": entry.time, "kind": entry.kind, "hash": entry.hash}
            for entry in found.chain.entries
        ],
        "head": found.chain.head,
        "deal": found.deal,
        "findings": {
            claim: {"holds": finding.holds, "reason": finding.reason} for claim, finding in found.findings.items()
        },
        "checked": [claim for claim, finding in found.findings.items() if finding.holds is not None],
        "failed": found.failed,
    }


def _show_deal(found: Audit) -> None:
    """Who gave what, got which accuracy, and is paid how much."""
    deal: Any = found.deal
    names = [str(name) for name in deal["agents"]]
    contributions, payments = stated_numbers(deal, len(names))
    trained, measured, settled = (found.last(kind) for kind in (TRAINED, MEASURED, SETTLED))
    money = settled.content if settled is not None else None
    paid = {entry["agent"]: entry["amount"] for entry in money["balances"]} if money else {}
    used = trained.content["samples"] if trained is not None else {}
    accuracies = measured.content["accuracies"] if measured is not None else {}
    found_accuracies = [accuracies.get(name, {}).get("accuracy") for name in names]
    columns = [
        ("contributes", number_texts(contributions)),
        ("samples used", [str(max(used[name], default=0)) if name in used else "-" for name in names]),
        ("accuracy", ["-" if accuracy is None else f"{accuracy:.3f}" for accuracy in found_accuracies]),
        ("is paid", list(map(paid.get, names, number_texts(payments, signed=True)))),
    ]
    agents = [f"{name} (out)" if name in deal.get("excluded", {}) else name for name in names]
    title = f"The deal (paid in {money['currency'] if money else PAYOFF_LABEL})"
    print_agents(title, agents, columns, sizes=np.array(contributions))
    console.print()


def _reason(content: Any) -> str:
    told = "; ".join(f'"{name}": {reason}' for name, reason in (content.get("agents") or {}).items())
    reason = str(content.get("reason"))
    return reason if not told or told in reason else f"{reason}: {told}"
