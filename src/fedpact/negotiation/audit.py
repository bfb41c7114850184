"""What a record proves: that the deal it states is the one its exchanges come to, and that everything in it agrees.

Of a ledger the last deal and what follows it are checked, with the files beside it. A claim that a record says nothing
about, or whose file is not there, is left open; that is not a failure, and is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedpact.deals.deal import Deal, whole_samples
from fedpact.deals.deal_file import deal_from_record, stated_deal
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    MEASURED,
    SETTLED,
    SIGNED,
    TRAINED,
    VERIFIED,
    Chain,
    Entry,
    is_ledger,
    read_ledger,
)
from fedpact.deals.settlement import settle_payments
from fedpact.deals.transcript import Transcript, read_transcript
from fedpact.negotiation.coordinator import recompute
from fedpact.utils.errors import FedpactError, InvalidInput, error_context
from fedpact.utils.files import read_bytes
from fedpact.utils.words import MAX_NAMES, join_names


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """Whether a claim holds (None: it is left open), and why."""

    holds: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What was found in a record.

    Attributes
    ----------
    deal
        The last deal it states, or None.
    findings
        By claim.
    """

    deal: Deal | None
    findings: Mapping[str, AuditFinding]

    @property
    def failed(self) -> list[str]:
        """The claims that do not hold."""
        return [claim for claim, finding in self.findings.items() if finding.holds is False]

    @property
    def checked(self) -> list[str]:
        """The claims that are not left open."""
        return [claim for claim, finding in self.findings.items() if finding.holds is not None]


@dataclass(frozen=True, kw_only=True, eq=False)
class LedgerAudit(Audit):
    """What was found in a ledger, and its chain."""

    chain: Chain

    def last(self, kind: str) -> Entry | None:
        """The entry of a kind that belongs to the last deal."""
        return _since_deal(self.chain).get(kind)


@dataclass(frozen=True, kw_only=True, eq=False)
class TranscriptAudit(Audit):
    """What was found in a transcript, and the deal that its exchanges come to."""

    transcript: Transcript
    recomputed: Deal


class _Wrong(Exception):
    """Why a claim does not hold."""


class _Open(Exception):
    """Why a claim cannot be checked."""


def audit(path: Path) -> LedgerAudit | TranscriptAudit:
    """Check everything that a ledger or a transcript says.

    Raises
    ------
    InvalidInput
        If the file is neither, or the exchanges are not those of a negotiation.
    """
    return audit_ledger(path) if is_ledger(path) else audit_transcript(path)


def audit_ledger(path: Path) -> LedgerAudit:
    """Check everything that a ledger says; raises `InvalidInput` if the file is no ledger at all."""
    chain = read_ledger(path)
    findings = {"chain": _chain_finding(chain), "entries": _entries_finding(chain)}
    entries = _since_deal(chain)
    if AGREED not in entries:
        return LedgerAudit(chain=chain, deal=None, findings=findings)
    record = _Record(entries=entries, folder=path.parent)
    findings |= {claim: _finding(check, record) for claim, check in CLAIMS.items()}
    deal = None
    with suppress(FedpactError, KeyError, AttributeError):  # the findings say what is wrong with it
        deal = record.deal
    return LedgerAudit(chain=chain, deal=deal, findings=findings)


def audit_transcript(path: Path) -> TranscriptAudit:
    """Recompute the deal of a transcript from its exchanges alone, and hold it against the one it states.

    Raises
    ------
    InvalidInput
        If the file is no transcript, or its exchanges are not those of a negotiation by the rules of its header.
    """
    transcript = read_transcript(path)
    deal = recompute(transcript)
    stated = deal if transcript.deal is None else stated_deal(transcript)
    come_to = f"{transcript.count} exchanges come to"
    differing = stated.differences(deal)
    if transcript.deal is None:
        recomputed = AuditFinding(holds=None, reason=f"no deal is stated; this is the one that {come_to}")
    elif differing:
        whose = join_names(differing, most=MAX_NAMES)
        recomputed = AuditFinding(holds=False, reason=f"{come_to} another deal for {whose}")
    else:
        recomputed = AuditFinding(holds=True, reason=f"the deal stated is the one that {come_to}")
    total = float(stated.payments.sum())
    balances = abs(total) <= deal.balance_tolerance
    reason = f"payments sum to {total:+.1e}" if balances else f"the payments stated sum to {total:+.3g}"
    return TranscriptAudit(
        transcript=transcript,
        recomputed=deal,
        deal=None if transcript.deal is None else stated,
        findings={"recomputed": recomputed, "budget-balance": AuditFinding(holds=balances, reason=reason)},
    )


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


# What an entry must hold, by its kind; more may stand beside it.
ENTRY_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    AGREED: {"deal": dict},
    SIGNED: {"deal": str, "signatures": dict},
    TRAINED: {"samples": dict, "samples_per_unit": (int, float)},
    MEASURED: {"accuracies": dict},
    VERIFIED: {"models": list},
    SETTLED: {"deal": str, "cents": dict, "balances": list, "transfers": list},
    FAILED: {"phase": str, "reason": str},
}


def _entries_finding(chain: Chain) -> AuditFinding:
    """Whether every entry holds what one of its kind must: a sound chain may be one of unsound entries."""
    for entry in chain.entries:
        why = _unsound_part(entry)
        if why is not None:
            return AuditFinding(holds=False, reason=f'line {entry.seq + 1}, "{entry.kind}", does not hold {why}')
    return AuditFinding(holds=True, reason="every entry holds what one of its kind must")


def _unsound_part(entry: Entry) -> str | None:
    for key, kind in ENTRY_FIELDS.get(entry.kind, {}).items():
        if not isinstance(entry.content.get(key), kind):
            return f"its {key}"
    if entry.kind == FAILED and not isinstance(entry.content.get("agents") or {}, dict):
        return "reasons by agent"
    if entry.kind == MEASURED and not all(map(_is_accuracy, entry.content["accuracies"].values())):
        return "accuracies from 0 to 1 by agent"
    if entry.kind == VERIFIED and not all(map(_is_measured_model, entry.content["models"])):
        return "the subset and the accuracies from 0 to 1 of every model"
    return None


def _is_measured_model(stated: Any) -> bool:
    """Whether it is a model made of a subset of the updates, and what members measured of it."""
    return (
        isinstance(stated, dict)
        and isinstance(stated.get("subset"), list)
        and all(isinstance(name, str) for name in stated["subset"])
        and isinstance(stated.get("accuracies"), dict)
        and all(map(_is_accuracy, stated["accuracies"].values()))
    )


def _is_accuracy(stated: Any) -> bool:
    if not isinstance(stated, dict):
        return False
    accuracy = stated.get("accuracy")
    return accuracy is None or (isinstance(accuracy, int | float) and 0.0 <= accuracy <= 1.0)


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
    if abs(total) > record.deal.balance_tolerance:
        raise _Wrong(f"the payments agreed sum to {total:+.3g}")
    if SETTLED in record.entries:
        cents = list(record.entries[SETTLED].content["cents"].values())
        if not all(type(each) is int for each in cents) or sum(cents):
            raise _Wrong(f"the cents settled sum to {sum(cents)}")
    return f"payments sum to {total:+.1e}"


def _check_prices(record: _Record) -> str:
    if record.deal.prices is None:
        raise _Open("the deal does not say its prices")
    if record.deal.price_contradiction:
        raise _Wrong(record.deal.price_contradiction)
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
    differing = record.deal.differences(deal)
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
    return f"recorded as signed by {', '.join(members)}; what they sent is a digest, which proves nothing by itself"


def _check_contributions(record: _Record) -> str:
    content, deal = record.content(TRAINED, "nothing was trained yet"), record.deal
    agreed = whole_samples(deal.contributions, float(content["samples_per_unit"]))
    for name, used in content["samples"].items():
        own = agreed[deal.agents.index(name)]
        if max(used, default=0) > own:
            raise _Wrong(f'agent "{name}" agreed to {own} samples and {max(used)} were used')
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
    if due.record()["balances"] != content["balances"]:
        raise _Wrong("the balances are not those of the payments agreed")
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
