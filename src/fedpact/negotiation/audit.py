"""What a ledger proves: its chain holds, and what it says agrees with itself and with the files beside it.

Claims are checked of the last deal a ledger holds and of what follows it. One that the ledger says nothing about, or
whose file is not there, is left open; that is not a failure, and is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.deal import Deal
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.ledger import AGREED, SETTLED, SIGNED, TRAINED, Chain, Entry, read_ledger
from fedpact.deals.settlement import settle_payments
from fedpact.negotiation.coordinator import DEAL_TOLERANCE, recompute
from fedpact.utils.errors import FedpactError, InvalidInput, error_context
from fedpact.utils.files import read_bytes


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """Whether a claim holds (None: it is left open), and why."""

    holds: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A ledger and what was found.

    Attributes
    ----------
    chain
        The ledger.
    deal
        The last deal it holds, or None.
    findings
        By claim.
    """

    chain: Chain
    deal: Mapping[str, Any] | None
    findings: Mapping[str, AuditFinding]

    @property
    def failed(self) -> list[str]:
        """The claims that do not hold."""
        return [claim for claim, finding in self.findings.items() if finding.holds is False]

    def last(self, kind: str) -> Entry | None:
        """The entry of a kind that belongs to the last deal."""
        return _since_deal(self.chain).get(kind)


class _Wrong(Exception):
    """Why a claim does not hold."""


class _Open(Exception):
    """Why a claim cannot be checked."""


def audit(path: Path) -> Audit:
    """Check everything that a ledger says.

    Raises
    ------
    InvalidInput
        If the file is no ledger at all.
    """
    chain = read_ledger(path)
    findings = {"chain": _chain_finding(chain)}
    entries = _since_deal(chain)
    if AGREED in entries:
        record = _Record(entries=entries, folder=path.parent)
        findings |= {claim: _finding(check, record) for claim, check in CLAIMS.items()}
    deal = entries[AGREED].content.get("deal") if AGREED in entries else None
    return Audit(chain=chain, deal=deal if isinstance(deal, dict) else None, findings=findings)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Record:
    """The last deal of a ledger and what follows it, by kind, and where the files are."""

    entries: Mapping[str, Entry]
    folder: Path

    @cached_property
    def deal(self) -> Deal:
        return deal_from_record(self.entries[AGREED].content["deal"])

    def content(self, kind: str, otherwise: str) -> Mapping[str, Any]:
        """Of an entry; where there is none the claim is open."""
        if kind not in self.entries:
            raise _Open(otherwise)
        return self.entries[kind].content

    def file(self, stated: Mapping[str, Any]) -> Path:
        """A file beside the ledger with the digest that the ledger states; open where it is not there."""
        name = stated["file"]
        if not isinstance(name, str) or Path(name).name != name:
            raise InvalidInput(f"a ledger names files beside it, got {name!r:.80}")
        path = self.folder / name
        if not path.exists():
            raise _Open(f"{name} is not beside the ledger")
        if hashlib.sha256(read_bytes(path)).hexdigest() != stated["sha256"]:
            raise _Wrong(f"{name} was changed: it does not have the digest in the ledger")
        return path


def _since_deal(chain: Chain) -> dict[str, Entry]:
    """The last deal and what follows it, by kind."""
    found: dict[str, Entry] = {}
    for entry in chain.entries:
        if entry.kind == AGREED:
            found = {}
        if entry.kind == AGREED or AGREED in found:
            found[entry.kind] = entry
    return found


def _chain_finding(chain: Chain) -> AuditFinding:
    count = len(chain.entries)
    if chain.broken is not None:
        return AuditFinding(holds=False, reason=f"line {count + 1} {chain.broken}; {count} entries before it stand")
    dropped = ", and a last line that was cut off and does not count" if chain.cut_off else ""
    reason = f"{count} entries, each chained to the last{dropped}; it ends in {chain.head[:16]}"
    return AuditFinding(holds=True, reason=reason)


def _finding(check: Callable[[_Record], str], record: _Record) -> AuditFinding:
    try:
        return AuditFinding(holds=True, reason=check(record))
    except _Open as reason:
        return AuditFinding(holds=None, reason=str(reason))
    except (_Wrong, FedpactError) as reason:
        return AuditFinding(holds=False, reason=str(reason))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:  # sound chain, unsound content
        return AuditFinding(holds=False, reason=f"an entry does not hold what it must: {error!r:.120}")


def _check_balance(record: _Record) -> str:
    total = float(record.deal.payments.sum())
    if abs(total) > DEAL_TOLERANCE * record.deal.turnover:
        raise _Wrong(f"the payments agreed sum to {total:+.3g}")
    if SETTLED in record.entries:
        cents = list(record.entries[SETTLED].content["cents"].values())
        if not all(type(each) is int for each in cents) or sum(cents):
            raise _Wrong(f"the cents settled sum to {sum(cents)}")
    return f"payments sum to {total:+.1e}"


def _check_prices(record: _Record) -> str:
    deal = record.deal
    if deal.prices is None:
        raise _Open("the deal does not say its prices")
    due = -(deal.prices * deal.contributions).sum(axis=1)
    off = np.abs(due - deal.payments)
    if (off > DEAL_TOLERANCE * deal.turnover).any():
        place = int(off.argmax())
        raise _Wrong(f'agent "{deal.agents[place]}" is paid {deal.payments[place]:.6g}, by its prices {due[place]:.6g}')
    return "everybody is paid what its prices say"


def _check_transcript(record: _Record) -> str:
    stated = record.entries[AGREED].content.get("transcript")
    if stated is None:
        raise _Open("the deal was not negotiated here")
    path = record.file(stated)
    with error_context(path.name):
        deal = recompute(path)
    if deal.agents != record.deal.agents:
        raise _Wrong(f"{path.name} is of other agents")
    differing = record.deal.differences(deal, tol=DEAL_TOLERANCE)
    if differing:
        raise _Wrong(f'{path.name} comes to another deal for "{differing[0]}"')
    return f"the deal is the one that {stated['exchanges']} exchanges in {path.name} come to"


def _check_signatures(record: _Record) -> str:
    content = record.content(SIGNED, "nobody has signed the deal")
    _check_same_deal(record, content, "signed")
    members = [record.deal.agents[place] for place in record.deal.members]
    missing = [name for name in members if name not in content["signatures"]]
    if missing:
        raise _Wrong(f"not signed by {', '.join(missing)}")
    return f"signed by {', '.join(members)}"


def _check_contributions(record: _Record) -> str:
    content, deal = record.content(TRAINED, "nothing was trained yet"), record.deal
    unit = float(content["samples_per_unit"])
    for name, used in content["samples"].items():
        agreed = float(deal.contributions[deal.agents.index(name)]) * unit
        if max(used, default=0) > agreed * (1.0 + DEAL_TOLERANCE) + DEAL_TOLERANCE:
            raise _Wrong(f'agent "{name}" agreed to {agreed:g} samples and {max(used)} were used')
    return "nobody's samples were used beyond what it agreed to"


def _check_model(record: _Record) -> str:
    stated = record.content(TRAINED, "no model is kept").get("model")
    if stated is None:
        raise _Open("no model is kept")
    return f"{record.file(stated).name} is the model that was trained"


def _check_settlement(record: _Record) -> str:
    content, deal = record.content(SETTLED, "nothing is settled yet"), record.deal
    _check_same_deal(record, content, "settled")
    due = settle_payments(
        deal.payments,
        names=deal.agents,
        per_payoff=content["per_payoff"],
        currency=content["currency"],
        decimals=content["decimals"],
    )
    if dict(zip(due.names, due.cents, strict=True)) != content["cents"]:
        raise _Wrong("the cents settled are not those of the payments agreed")
    if due.record()["transfers"] != content["transfers"]:
        raise _Wrong("the transfers do not carry out what is settled")
    return f"{len(due.transfers)} transfers of {due.currency} carry out the payments agreed"


def _check_same_deal(record: _Record, content: Mapping[str, Any], done: str) -> None:
    if content["deal"] != record.entries[AGREED].hash:
        raise _Wrong(f"what was {done} is another deal")


CLAIMS: dict[str, Callable[[_Record], str]] = {
    "budget-balance": _check_balance,
    "prices": _check_prices,
    "recomputed": _check_transcript,
    "signed": _check_signatures,
    "contributions": _check_contributions,
    "model": _check_model,
    "settlement": _check_settlement,
}
