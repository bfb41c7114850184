"""What a record proves: that the deal it states is the one its exchanges come to, and that everything in it agrees.

Of a ledger the last deal and what follows it are checked, with the files beside it, and all signatures
(`fedpact.negotiation.signature_audit`). A claim that a record says nothing about, or whose file is not there, is left
open; that is not a failure, and is said. Ledgers without signatures, such as those of deals made elsewhere, are said to
be unsigned; whoever needs signatures asks for them, and then that is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpact.deals.deal import Deal
from fedpact.deals.deal_file import deal_record, stated_deal
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    FIRST,
    KEYS,
    MEASURED,
    SETTLED,
    SIGNED,
    TRAINED,
    VERIFIED,
    Chain,
    Entry,
    is_end,
    is_ledger,
    read_ledger,
)
from fedpact.deals.signatures import KnownKeys
from fedpact.deals.stated import negotiation_contradictions
from fedpact.deals.transcript import Transcript, read_transcript
from fedpact.negotiation.audit_claims import (
    CLAIMS,
    UNSIGNED,
    UPDATES,
    ClaimBroken,
    ClaimOpen,
    LedgerRecord,
    sum_text,
    unmeasured_text,
)
from fedpact.negotiation.coordinator import recompute
from fedpact.negotiation.signature_audit import CLAIM_OF, SIGNED_CLAIMS, SignatureAudit, SignedPart, read_receipt
from fedpact.utils.errors import FedpactError, InvalidInput
from fedpact.utils.words import MAX_NAMES, join_names

STATED = "stated"  # how the check of all that a file states beside contributions and payments is called
NOT_YET = {
    "signed": "nobody has signed the deal",
    "delivered": "nothing was trained yet",
    "verified": "what arrived was not verified by models of subsets",
    "measured": "nothing was measured yet",
    "confirmed": "nothing is settled yet",
}


FINISHED = "finished"
UNFINISHED = "the run is not settled yet"


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
    """What was found in a ledger, its chain, and what is signed by whom."""

    chain: Chain
    signed_parts: Sequence[SignedPart] = ()

    def last(self, kind: str) -> Entry | None:
        """The entry of a kind that belongs to the last deal."""
        return _since_deal(self.chain).get(kind)

    def entry(self, kind: str) -> Entry:
        """The entry of a kind that belongs to the last deal and must be there."""
        return _since_deal(self.chain)[kind]

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to a settlement; one that has not pays nobody."""
        return self.findings[FINISHED].holds is True

    @property
    def unchecked(self) -> list[str]:
        """What a signed ledger states and nobody has signed: the rest is signed, or follows from what is."""
        return ["when its last entry was written"] if self.chain.is_signed else []


@dataclass(frozen=True, kw_only=True, eq=False)
class TranscriptAudit(Audit):
    """What was found in a transcript, and the deal that its exchanges come to."""

    transcript: Transcript
    recomputed: Deal

    @property
    def unchecked(self) -> list[str]:
        """What the transcript states and its exchanges say nothing about."""
        header = self.transcript.header
        words = [key for key in ("title", "scenario") if getattr(header, key)]
        return [*words, *(key for key in self.transcript.deal or () if key not in deal_record(self.recomputed))]


def audit(path: Path) -> LedgerAudit | TranscriptAudit:
    """Check everything that a ledger or a transcript says.

    Raises
    ------
    InvalidInput
        If the file is neither, or the exchanges are not those of a negotiation.
    """
    return audit_ledger(path) if is_ledger(path) else audit_transcript(path)


def audit_ledger(
    path: Path, *, keys: KnownKeys | None = None, receipts: Sequence[Path] = (), must_be_signed: bool = False
) -> LedgerAudit:
    """Check everything that a ledger says.

    Parameters
    ----------
    keys
        Members' public keys that are known from elsewhere, to compare with those the ledger states.
    receipts
        What members have written down of what they signed last (`receipt.json`).
    must_be_signed
        Whether a ledger without signatures is a failure; with keys or receipts it always is.

    Raises
    ------
    InvalidInput
        If the file is no ledger at all, or a receipt none.
    """
    chain = read_ledger(path)
    whose = [read_receipt(receipt)["name"] for receipt in receipts]
    findings = {
        "chain": _chain_finding(chain),
        "entries": _entries_finding(chain),
        FINISHED: _finished_finding(chain),
    }
    if not chain.is_signed and (second := _second_run(chain)):
        findings["order"] = AuditFinding(holds=False, reason=second)
    entries = _since_deal(chain)
    signed = SignatureAudit(chain, keys or KnownKeys()) if chain.is_signed else None
    if AGREED in entries:
        record = LedgerRecord(entries=entries, folder=path.parent, chain=chain)
        only_verified = () if VERIFIED in entries else (UPDATES, "verified")
        checks = {claim: check for claim, check in CLAIMS.items() if claim not in only_verified}
        findings |= {claim: _finding(check, record) for claim, check in checks.items()}
    if signed is not None:
        findings |= _signature_findings(signed, entries)
    elif must_be_signed or keys is not None or receipts:
        findings["signed"] = AuditFinding(holds=False, reason=UNSIGNED)
    for name, receipt in zip(whose, receipts, strict=True):
        findings[f"receipt of {name}"] = _receipt_finding(signed, receipt)
    deal = None
    with suppress(FedpactError, KeyError, AttributeError, TypeError):  # the findings say what is wrong with it
        deal = record.deal if AGREED in entries else None
    return LedgerAudit(chain=chain, deal=deal, findings=findings, signed_parts=() if signed is None else signed.parts)


def _receipt_finding(signed: SignatureAudit | None, receipt: Path) -> AuditFinding:
    if signed is None:
        return AuditFinding(holds=False, reason="what it is for is not in this ledger: nothing is signed with a key")
    try:
        return AuditFinding(holds=True, reason=signed.check_receipt(receipt))
    except InvalidInput as reason:
        return AuditFinding(holds=False, reason=str(reason))


def _signature_findings(signed: SignatureAudit, entries: Mapping[str, Entry]) -> dict[str, AuditFinding]:
    """What members have signed, claim by claim."""
    found = {claim: AuditFinding(holds=False, reason="; ".join(why)) for claim, why in signed.wrong.items()}
    for claim in SIGNED_CLAIMS:
        if claim not in found:
            found[claim] = _sound_signatures(claim, signed, entries)
    if not any("verification" in document for document in signed.deals.values()) and found["verified"].holds is None:
        del found["verified"]
    return {claim: found[claim] for claim in SIGNED_CLAIMS if claim in found}


def _sound_signatures(claim: str, signed: SignatureAudit, entries: Mapping[str, Entry]) -> AuditFinding:
    """What holds of a claim that nothing speaks against."""
    if claim == "order":
        return AuditFinding(holds=True, reason="entries come in the order of a run")
    if claim == "keys":
        parts = [part for part in signed.parts if part.kind == KEYS]
        whose = f"of {join_names([part.name for part in parts])}, each signed for this run"
        if signed.known.is_given:
            return AuditFinding(holds=True, reason=f"{whose}; they are the keys known")
        stated = "they are those the ledger states; --keys compares them with keys that you know"
        return AuditFinding(
            holds=True if parts else None, reason=f"{whose}; {stated}" if parts else "none is stated yet"
        )
    kind = next(kind for kind, of in CLAIM_OF.items() if of == claim)
    if kind not in entries:
        return AuditFinding(holds=None, reason=NOT_YET[claim])
    names = [part.name for part in signed.parts if part.entry == entries[kind].seq]
    names = list(dict.fromkeys(names))
    deal = signed.deals[entries[AGREED].hash]
    missing = [name for name in deal["keys"] if name not in names]
    if claim == "signed":
        return AuditFinding(holds=True, reason=f"one deal, and its own part of it, signed by {join_names(names)}")
    if claim == "delivered":
        return AuditFinding(holds=True, reason=f"samples and updates of every round, signed by {join_names(names)}")
    what = {
        "verified": "what it measured of every model",
        "measured": "its accuracy",
        "confirmed": "the settlement",
    }[claim]
    if missing and (claim == "confirmed" or not names):
        follows = "; what it is paid follows from what all have signed" if claim == "confirmed" else ""
        return AuditFinding(
            holds=None, reason=f"not by {join_names(missing)}{follows or unmeasured_text(entries[kind])}"
        )
    told = unmeasured_text(entries[kind]) if claim in ("verified", "measured") else ""
    return AuditFinding(holds=True, reason=f"{what} signed by {join_names(names)}{told}")


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
    findings = {"recomputed": recomputed}
    if transcript.deal is not None:
        findings[STATED] = _negotiation_finding(transcript.deal, deal)
    total = float(stated.payments.sum())
    balances = abs(total) <= deal.balance_tolerance
    reason = f"payments sum to {sum_text(total)}" if balances else f"the payments stated sum to {total:+.3g}"
    return TranscriptAudit(
        transcript=transcript,
        recomputed=deal,
        deal=None if transcript.deal is None else stated,
        findings=findings | {"budget-balance": AuditFinding(holds=balances, reason=reason)},
    )


def _negotiation_finding(record: Mapping[str, Any], deal: Deal) -> AuditFinding:
    wrong = negotiation_contradictions(record, deal)
    sound = "protocol, rounds, welfare, residual and how it was settled are those that the exchanges come to"
    return AuditFinding(holds=not wrong, reason="; ".join(wrong) or sound)


def _since_deal(chain: Chain) -> dict[str, Entry]:
    """The last deal and what follows it, by kind."""
    found: dict[str, Entry] = {}
    for entry in chain.entries:
        if entry.kind == AGREED:
            found = {}
        if entry.kind == AGREED or AGREED in found:
            found[entry.kind] = entry
    return found


def _second_run(chain: Chain) -> str | None:
    """Where a second run begins, in words: a ledger holds one, and of two the first would go unchecked."""
    settled = False
    for entry in chain.entries[1:]:
        if entry.kind == FIRST or (entry.kind == AGREED and settled):
            return (
                f'line {entry.seq + 1}, "{entry.kind}", begins a second run; a ledger holds one, name a file for each'
            )
        settled |= entry.kind == SETTLED
    return None


def _chain_finding(chain: Chain) -> AuditFinding:
    count = len(chain.entries)
    if chain.broken is not None:
        return AuditFinding(holds=False, reason=f"line {count + 1} {chain.broken}; what stands before it holds")
    dropped = ", and a last line that was cut off and does not count" if chain.cut_off else ""
    reason = f"{count} entries, each chained to the last{dropped}; it ends in {chain.head[:16]}"
    return AuditFinding(holds=True, reason=reason)


def _finished_finding(chain: Chain) -> AuditFinding:
    """Whether the run came to its end: the last deal settled, and nothing failed after it or made it void before."""
    last: Entry | None = None
    for entry in chain.entries:
        stands = last is not None and not is_end(last)  # a deal, or a phase of it that can be tried again
        if entry.kind in (AGREED, FAILED) or (entry.kind == SETTLED and stands):
            last = entry
    if last is not None and last.kind == SETTLED:
        return AuditFinding(holds=True, reason="the run has come to its settlement")
    if last is not None and last.kind == FAILED:
        return AuditFinding(holds=False, reason=_failure_text(last.content))
    return AuditFinding(holds=None, reason=UNFINISHED)


def _failure_text(content: Mapping[str, Any]) -> str:
    """Why a run failed, with what is said of members, as far as its entry is sound."""
    reason, about = str(content.get("reason")), content.get("agents")
    told = "; ".join(f'"{name}": {why}' for name, why in about.items()) if isinstance(about, dict) else ""
    reason = reason if not told or told in reason else f"{reason}: {told}"
    return f"the run failed ({content.get('phase')}): {reason:.400}"


# What an entry must hold, by its kind; more may stand beside it.
ENTRY_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    KEYS: {"run": str, "keys": dict},
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
        return "reasons by member"
    if entry.kind == MEASURED and not all(map(_is_accuracy, entry.content["accuracies"].values())):
        return "accuracies from 0 to 1 by member"
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


def _finding(check: Callable[[LedgerRecord], str], record: LedgerRecord) -> AuditFinding:
    try:
        return AuditFinding(holds=True, reason=check(record))
    except ClaimOpen as reason:
        return AuditFinding(holds=None, reason=str(reason))
    except (ClaimBroken, FedpactError) as reason:
        return AuditFinding(holds=False, reason=str(reason))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:  # sound chain, unsound content
        return AuditFinding(holds=False, reason=f"an entry does not hold what it must: {error!r:.120}")
