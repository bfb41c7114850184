"""The one check of a record: a table of what can be checked of a ledger or a transcript, and what each check proves.

`CHECKS` lists every check with what it needs and what it proves where it holds; `fedpact check`, `settle`, `load_deal`
and a ledger's page show what it finds. Of a ledger the last deal and what follows it are checked, with the files beside
it, and all signatures (`fedpact.negotiation.signature_audit`). A check whose entry or file is not there is left open;
that is not a failure, and is said. Ledgers without signatures, such as those of deals made elsewhere, are said to be
unsigned; whoever needs signatures asks for them, and then that is a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.deal import Deal, whole_samples
from fedpact.deals.deal_file import deal_from_record, deal_record, stated_deal
from fedpact.deals.delivered import agreed_transfers, payments_for_delivered, payments_for_shares
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
from fedpact.deals.settlement import settle_payments
from fedpact.deals.signatures import KnownKeys
from fedpact.deals.signed_delivery import ledger_delivery
from fedpact.deals.stated import negotiation_contradictions
from fedpact.deals.transcript import Transcript, read_transcript
from fedpact.deals.updates import TrainingUpdates, model_digest
from fedpact.deals.verified_models import missing_measurements
from fedpact.negotiation.coordinator import recompute
from fedpact.negotiation.signature_audit import SignatureAudit, SignedPart, read_receipt
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, error_context
from fedpact.utils.files import read_bytes
from fedpact.utils.words import MAX_NAMES, join_names

UNSIGNED = "nothing in this ledger is signed with a key: its numbers are the word of whoever wrote it"
STATED = "stated"  # how the check of all that a file states beside contributions and payments is called
FINISHED = "finished"


class ClaimBroken(Exception):
    """Why a claim does not hold."""


class ClaimOpen(Exception):
    """Why a claim cannot be checked."""


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
    receipts_read = {f"receipt of {read_receipt(receipt)['name']}": receipt for receipt in receipts}
    chain = read_ledger(path)
    record = LedgerRecord(chain=chain, folder=path.parent, keys=keys or KnownKeys())
    record.must_be_signed = must_be_signed or keys is not None or bool(receipts)
    findings = {check.name: _finding(check.run, record) for check in CHECKS if check.applies(record)}
    findings |= {name: _finding(partial(_check_receipt, receipt), record) for name, receipt in receipts_read.items()}
    deal = None
    with suppress(FedpactError, KeyError, AttributeError, TypeError):  # the findings say what is wrong with it
        deal = record.deal if AGREED in record.entries else None
    parts = () if record.signed is None else record.signed.parts
    return LedgerAudit(chain=chain, deal=deal, findings=findings, signed_parts=parts)


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


@dataclass(kw_only=True, eq=False)
class LedgerRecord:
    """A ledger, the files beside it, and the keys that are known; `entries` are the last deal and what follows it."""

    chain: Chain
    folder: Path
    keys: KnownKeys = field(default_factory=KnownKeys)
    must_be_signed: bool = False

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """The last deal and what follows it, by kind."""
        return _since_deal(self.chain)

    @cached_property
    def signed(self) -> SignatureAudit | None:
        """All signatures; None of a ledger that has none."""
        return SignatureAudit(self.chain, self.keys) if self.chain.is_signed else None

    @cached_property
    def deal(self) -> Deal:
        """The deal that its entry states."""
        return deal_from_record(self.entries[AGREED].content["deal"])

    def content(self, kind: str, otherwise: str) -> Mapping[str, Any]:
        """Of an entry; where there is none the claim is open."""
        if kind not in self.entries:
            raise ClaimOpen(otherwise)
        return self.entries[kind].content

    def file(self, stated: Mapping[str, Any]) -> Path:
        """A file beside the ledger with the digest that the ledger states; open where it is not there."""
        name = stated["file"]
        if not isinstance(name, str) or Path(name).name != name:
            raise InvalidInput(f"a ledger names files beside it, got {name!r:.80}")
        path = self.folder / name
        if not path.exists():
            raise ClaimOpen(f"{name} is not beside the ledger")
        if hashlib.sha256(read_bytes(path)).hexdigest() != stated["sha256"]:
            raise ClaimBroken(f"{name} was changed: it does not have the digest in the ledger")
        return path


def _check_chain(record: LedgerRecord) -> str:
    chain = record.chain
    count = len(chain.entries)
    if chain.broken is not None:
        raise ClaimBroken(f"line {count + 1} {chain.broken}; what stands before it holds")
    dropped = ", and a last line that was cut off and does not count" if chain.cut_off else ""
    return f"{count} entries, each chained to the last{dropped}; it ends in {chain.head[:16]}"


def _check_entries(record: LedgerRecord) -> str:
    """Every entry holds what one of its kind must: a sound chain may be one of unsound entries."""
    for entry in record.chain.entries:
        why = _unsound_part(entry)
        if why is not None:
            raise ClaimBroken(f'line {entry.seq + 1}, "{entry.kind}", does not hold {why}')
    return "every entry holds what one of its kind must"


def _check_finished(record: LedgerRecord) -> str:
    """The run came to its end: the last deal settled, and nothing failed after it or made it void before."""
    last: Entry | None = None
    for entry in record.chain.entries:
        stands = last is not None and not is_end(last)  # a deal, or a phase of it that can be tried again
        if entry.kind in (AGREED, FAILED) or (entry.kind == SETTLED and stands):
            last = entry
    if last is not None and last.kind == SETTLED:
        return "the run has come to its settlement"
    if last is not None and last.kind == FAILED:
        raise ClaimBroken(_failure_text(last.content))
    raise ClaimOpen("the run is not settled yet")


def _check_order(record: LedgerRecord) -> str:
    if record.signed is None:
        raise ClaimBroken(str(_second_run(record.chain)))
    _check_wrong(record.signed, "order")
    return "entries come in the order of a run"


def _check_balance(record: LedgerRecord) -> str:
    total = float(record.deal.payments.sum())
    if abs(total) > record.deal.balance_tolerance:
        raise ClaimBroken(f"the payments agreed sum to {total:+.3g}")
    if SETTLED in record.entries:
        cents = list(record.entries[SETTLED].content["cents"].values())
        if not all(type(each) is int for each in cents) or sum(cents):
            raise ClaimBroken(f"the cents settled sum to {sum(cents)}")
    return f"payments sum to {sum_text(total)}"


def sum_text(total: float) -> str:
    """What payments that balance sum to: zero, or what rounding leaves of it."""
    return f"{total:+.1e}" if total else "zero"


def _check_prices(record: LedgerRecord) -> str:
    if record.deal.prices is None:
        raise ClaimOpen("the deal does not say its prices")
    if record.deal.price_contradiction:
        raise ClaimBroken(record.deal.price_contradiction)
    sums = record.deal.prices.sum(axis=0) * record.deal.contributions
    if np.abs(sums).max(initial=0.0) > record.deal.balance_tolerance:
        raise ClaimBroken("what members pay for somebody's data is not what it is paid for it")
    return "everybody is paid what its prices say, and what one pays for data another receives"


def _check_transcript(record: LedgerRecord) -> str:
    stated = record.entries[AGREED].content.get("transcript")
    if stated is None:
        raise ClaimOpen("the deal was not negotiated here")
    path = record.file(stated)
    with error_context(path.name):
        transcript = read_transcript(path)
        deal = recompute(transcript)
    if deal.agents != record.deal.agents:
        raise ClaimBroken(f"{path.name} is of other members")
    differing = record.deal.differences(deal)
    if differing:
        raise ClaimBroken(f'{path.name} comes to another deal for "{differing[0]}"')
    wrong = negotiation_contradictions(record.entries[AGREED].content["deal"], deal)
    if stated["exchanges"] != transcript.count:
        wrong.append(f"exchanges is {transcript.count}, the file says {stated['exchanges']!r:.80}")
    if wrong:
        raise ClaimBroken(f"by {path.name} " + "; ".join(wrong))
    return f"the deal is the one that {transcript.count} exchanges in {path.name} come to"


def _check_unsigned(record: LedgerRecord) -> str:
    content = record.content(SIGNED, f"nobody has signed the deal: {UNSIGNED}")
    _check_same_deal(record, content, "signed")
    members = [record.deal.agents[place] for place in record.deal.members]
    said = content["signatures"]
    missing = [name for name in members if name not in said]
    if missing:
        raise ClaimBroken(f"not signed by {', '.join(missing)}")
    refused = [name for name in members if not isinstance(said[name], dict) or said[name].get("signed") is False]
    if refused:
        raise ClaimBroken(f"{', '.join(refused)} refused to sign")
    raise ClaimOpen(f"recorded as signed by {', '.join(members)}, but {UNSIGNED}")


def _check_contributions(record: LedgerRecord) -> str:
    content, deal = record.content(TRAINED, "nothing was trained yet"), record.deal
    agreed = whole_samples(deal.contributions, float(content["samples_per_unit"]))
    asked = {name: [rounds] for name, rounds in (content.get("asked") or {}).items()}
    for name, used in content["samples"].items():
        own = agreed[deal.agents.index(name)]
        if any(type(count) is not int or count < 0 for count in [*used, *asked.get(name, [])]):
            raise ClaimBroken(f'samples and rounds of member "{name}" must be whole numbers, none below 0')
        if max(used, default=0) > own:
            raise ClaimBroken(f'member "{name}" agreed to {own} samples and {max(used)} were used')
    return "nobody's samples were used beyond what it agreed to"


def _check_model(record: LedgerRecord) -> str:
    trained = record.content(TRAINED, "no model is kept")
    if "models" in trained:
        files = dict.fromkeys(record.file(stated).name for stated in trained["models"].values())
        return f"{join_names(list(files))} are the models that were trained, of every member its own"
    if trained.get("model") is None:
        raise ClaimOpen("no model is kept")
    return f"{record.file(trained['model']).name} is the model that was trained"


def _check_settlement(record: LedgerRecord) -> str:
    content, deal = record.content(SETTLED, "nothing is settled yet"), record.deal
    _check_same_deal(record, content, "settled")
    payments = deal.payments
    if "paid_shares" in content:
        payments = _payments_by_shares(record)
    elif TRAINED in record.entries:
        payments = _due_payments(record)
    elif record.chain.is_signed:
        raise ClaimBroken("it is settled without having been trained")
    due = settle_payments(
        payments,
        names=deal.agents,
        per_payoff=content["per_payoff"],
        currency=content["currency"],
        decimals=content["decimals"],
    )
    if dict(zip(due.names, due.cents, strict=True)) != content["cents"]:
        raise ClaimBroken("the cents settled are not those due for what was delivered at the prices agreed")
    stated = due.record()
    if any(stated[part] != content[part] for part in ("transfers", "minimal")):
        raise ClaimBroken("the transfers do not carry out what is settled")
    if stated["balances"] != content["balances"]:
        raise ClaimBroken("the balances are not those of the payments due")
    _check_beside(record, content)
    return f"{len(due.transfers)} transfers of {due.currency} pay for what was delivered at the prices agreed"


def _check_beside(record: LedgerRecord, content: Mapping[str, Any]) -> None:
    """That what a settlement states beside the money is what was agreed and delivered, where it states it."""
    deal = record.deal
    unit = {part: content[part] for part in ("per_payoff", "currency", "decimals")}
    if content.get("agreed_balances") is not None:
        agreed = settle_payments(deal.payments, names=deal.agents, **unit)
        if content["agreed_balances"] != agreed.record()["balances"]:
            raise ClaimBroken("the pay stated as agreed is not that of the deal")
    if content.get("agreed") is not None and content["agreed"] != deal.contributions.tolist():
        raise ClaimBroken("the contributions stated as agreed are not those of the deal")
    if content.get("delivered") is not None and TRAINED in record.entries:
        delivered = ledger_delivery(record.chain, deal, record.entries[AGREED], record.entries[TRAINED])
        if content["delivered"] != delivered.tolist():
            raise ClaimBroken("what is stated as delivered is not what the training came to")


def _payments_by_shares(record: LedgerRecord) -> FloatArray:
    """What is due when of every contribution the shares stated are paid for."""
    deal, stated = record.deal, record.entries[SETTLED].content["paid_shares"]
    if deal.prices is None:
        raise ClaimBroken("it is settled by what arrived, and the deal names no prices")
    owed = agreed_transfers(deal, deal.prices)
    shares = np.array([[np.nan if share is None else share for share in row] for row in stated], dtype=np.float64)
    if shares.shape != owed.shape or (np.isnan(shares) != (owed == 0.0)).any():
        raise ClaimBroken("the shares that are paid for are not one per contribution that somebody pays for")
    if (shares < 0.0).any():
        raise ClaimBroken("some share that is paid for is negative")
    return payments_for_shares(deal.payments, owed, shares)


def _check_updates(record: LedgerRecord) -> str:
    """That the updates kept are those signed, and the models measured those made of them."""
    trained = record.content(TRAINED, "nothing was trained yet")
    stated, verified = trained.get("updates"), record.entries.get(VERIFIED)
    if stated is None or verified is None:
        raise ClaimOpen("the updates are not kept beside the ledger")
    updates = TrainingUpdates.load(record.file(stated), stated["sha256"])
    signed = {
        name: [each["update"] for each in listed] for name, listed in trained.get("deliveries", {}).items() if listed
    }
    counts = {name: [each["samples"] for each in trained["deliveries"][name]] for name in signed}
    if updates.digests() != signed or updates.counts() != counts:
        raise ClaimBroken("the updates kept are not those that members signed")
    for model in verified.content["models"]:
        if model_digest(updates.model_of(model["subset"])) != model.get("model"):
            whose = ", ".join(model["subset"])
            raise ClaimBroken(f"the model made of the updates of {whose} is not the one that members measured")
    return f"{len(verified.content['models'])} models are made of the updates that members signed"


def unmeasured_text(entry: Entry) -> str:
    """Who has not measured what an entry lists, and why."""
    reasons = missing_measurements(entry.content["models"] if entry.kind == VERIFIED else [entry.content])
    return "".join(f'; not by "{name}": {reason:.200}' for name, reason in reasons.items())


def _due_payments(record: LedgerRecord) -> FloatArray:
    """What is due for what was delivered; in a ledger that does not say so, all that was agreed must have been."""
    deal, trained = record.deal, record.entries[TRAINED].content
    if record.chain.is_signed or "delivered" in record.entries[SETTLED].content:
        delivered = ledger_delivery(record.chain, deal, record.entries[AGREED], record.entries[TRAINED])
    else:
        agreed = whole_samples(deal.contributions, float(trained["samples_per_unit"]))
        for place in deal.members:
            most = max(trained["samples"].get(deal.agents[place], ()), default=0)
            if most < agreed[place]:
                name = deal.agents[place]
                raise ClaimBroken(
                    f'member "{name}" agreed to {agreed[place]} samples, delivered {most}, and is paid for all'
                )
        return deal.payments
    try:
        return payments_for_delivered(deal, delivered)
    except InvalidInput as error:
        raise ClaimOpen(f"less was delivered than agreed: {error}") from error


def _check_same_deal(record: LedgerRecord, content: Mapping[str, Any], done: str) -> None:
    if content["deal"] != record.entries[AGREED].hash:
        raise ClaimBroken(f"what was {done} is another deal")


def _check_wrong(signed: SignatureAudit, claim: str) -> None:
    if claim in signed.wrong:
        raise ClaimBroken("; ".join(signed.wrong[claim]))


def _check_keys(record: LedgerRecord) -> str:
    assert record.signed is not None
    _check_wrong(record.signed, "keys")
    names = [part.name for part in record.signed.parts if part.kind == KEYS]
    whose = f"of {join_names(names)}, each signed for this run"
    if record.keys.is_given:
        return f"{whose}; they are the keys known"
    if not names:
        raise ClaimOpen("none is stated yet")
    return f"{whose}; they are those the ledger states; --keys compares them with keys that you know"


def _signers(record: LedgerRecord, claim: str, kind: str, otherwise: str) -> tuple[str, list[str]]:
    """Who has signed an entry, in words, and who of the deal has not; open where there is no such entry."""
    assert record.signed is not None
    _check_wrong(record.signed, claim)
    record.content(kind, otherwise)
    names = dict.fromkeys(part.name for part in record.signed.parts if part.entry == record.entries[kind].seq)
    deal = record.signed.deals[record.entries[AGREED].hash]
    return join_names(list(names)) if names else "", [name for name in deal["keys"] if name not in names]


def _check_signed(record: LedgerRecord) -> str:
    if record.signed is not None:
        names, _ = _signers(record, "signed", SIGNED, "nobody has signed the deal")
        return f"one deal, and its own part of it, signed by {names}"
    if record.must_be_signed:
        raise ClaimBroken(UNSIGNED)
    return _check_unsigned(record)


def _check_delivered(record: LedgerRecord) -> str:
    names, _ = _signers(record, "delivered", TRAINED, "nothing was trained yet")
    return f"samples and updates of every round, signed by {names}"


def _check_verified(record: LedgerRecord) -> str:
    """Who has measured the models made of subsets of the updates."""
    if record.signed is None:
        entry = record.entries[VERIFIED]
        models = entry.content["models"]
        out = missing_measurements(models)
        said = dict.fromkeys(name for model in models for name in model["accuracies"] if name not in out)
        told = f"{join_names(list(said))}{unmeasured_text(entry)}"
        raise ClaimOpen(f"recorded as measured by {told}; nobody has signed it")
    return _measured_by(record, "verified", VERIFIED, "what arrived was not verified by models of subsets")


def _check_measured(record: LedgerRecord) -> str:
    return _measured_by(record, "measured", MEASURED, "nothing was measured yet")


def _measured_by(record: LedgerRecord, claim: str, kind: str, otherwise: str) -> str:
    names, missing = _signers(record, claim, kind, otherwise)
    untold = unmeasured_text(record.entries[kind])
    if not names:
        raise ClaimOpen(f"not by {join_names(missing)}{untold}")
    what = "what it measured of every model" if kind == VERIFIED else "its accuracy"
    return f"{what} signed by {names}{untold}"


def _check_confirmed(record: LedgerRecord) -> str:
    names, missing = _signers(record, "confirmed", SETTLED, "nothing is settled yet")
    if missing:
        raise ClaimOpen(f"not by {join_names(missing)}; what it is paid follows from what all have signed")
    return f"the settlement signed by {names}"


def _check_receipt(receipt: Path, record: LedgerRecord) -> str:
    if record.signed is None:
        raise ClaimBroken("what it is for is not in this ledger: nothing is signed with a key")
    return record.signed.check_receipt(receipt)


def _finding(check: Callable[[LedgerRecord], str], record: LedgerRecord) -> AuditFinding:
    try:
        return AuditFinding(holds=True, reason=check(record))
    except ClaimOpen as reason:
        return AuditFinding(holds=None, reason=str(reason))
    except (ClaimBroken, FedpactError) as reason:
        return AuditFinding(holds=False, reason=str(reason))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:  # sound chain, unsound content
        return AuditFinding(holds=False, reason=f"an entry does not hold what it must: {error!r:.120}")


@dataclass(frozen=True, kw_only=True)
class LedgerCheck:
    """One check of a ledger.

    Attributes
    ----------
    name
        What it is called.
    needs, proves
        What must be there for it, and what is known where it holds, in words.
    run
        Why it holds; raises `ClaimBroken` or `ClaimOpen`.
    applies
        Whether there is something to check.
    """

    name: str
    needs: str
    proves: str
    run: Callable[[LedgerRecord], str]
    applies: Callable[[LedgerRecord], bool] = lambda record: AGREED in record.entries


def _is_signed(record: LedgerRecord) -> bool:
    return record.signed is not None


def _is_verified(record: LedgerRecord) -> bool:
    if record.signed is None:
        return VERIFIED in record.entries
    agreed_to = any("verification" in document for document in record.signed.deals.values())
    return agreed_to or VERIFIED in record.entries or "verified" in record.signed.wrong


CHECKS = (
    LedgerCheck(
        name="chain",
        needs="the ledger",
        proves="no line was changed, moved or taken out without making all later hashes anew",
        run=_check_chain,
        applies=lambda record: True,
    ),
    LedgerCheck(
        name="entries",
        needs="the ledger",
        proves="every entry has the parts of its kind",
        run=_check_entries,
        applies=lambda record: True,
    ),
    LedgerCheck(
        name=FINISHED,
        needs="the ledger",
        proves="the run came to a settlement, and nothing failed after it; otherwise nobody is paid",
        run=_check_finished,
        applies=lambda record: True,
    ),
    LedgerCheck(
        name="budget-balance",
        needs="a deal",
        proves="payments sum to zero, and cents exactly",
        run=_check_balance,
    ),
    LedgerCheck(
        name="prices",
        needs="a deal with prices",
        proves="everybody is paid what its prices say, and what one pays another receives",
        run=_check_prices,
    ),
    LedgerCheck(
        name="recomputed",
        needs="the transcript beside the ledger",
        proves="the deal is the one that the recorded answers come to; not that the answers were true",
        run=_check_transcript,
    ),
    LedgerCheck(
        name="signed",
        needs="members' keys",
        proves="every member of the deal signed the same deal and its own prices",
        run=_check_signed,
        applies=lambda record: AGREED in record.entries or _is_signed(record) or record.must_be_signed,
    ),
    LedgerCheck(
        name="contributions",
        needs="a training",
        proves="nobody's samples were used beyond what it agreed to, by the counts stated",
        run=_check_contributions,
    ),
    LedgerCheck(
        name="model",
        needs="the model beside the ledger",
        proves="the file is the model that was trained",
        run=_check_model,
    ),
    LedgerCheck(
        name="updates",
        needs="the updates beside the ledger, and a verification",
        proves="the models that were measured are made of the updates that members signed",
        run=_check_updates,
        applies=lambda record: VERIFIED in record.entries,
    ),
    LedgerCheck(
        name="verified",
        needs="a verification, members' keys",
        proves="what members measured of models with and without an update is what they signed",
        run=_check_verified,
        applies=_is_verified,
    ),
    LedgerCheck(
        name="settlement",
        needs="a settlement",
        proves="cents and transfers are those due for what was delivered, at the prices agreed",
        run=_check_settlement,
    ),
    LedgerCheck(
        name="keys",
        needs="members' keys; whose they are only with --keys",
        proves="every key was signed for this run by its holder, and is the one known where keys are given",
        run=_check_keys,
        applies=_is_signed,
    ),
    LedgerCheck(
        name="order",
        needs="the ledger",
        proves="it holds one run, in the order of a run",
        run=_check_order,
        applies=lambda record: _is_signed(record) or _second_run(record.chain) is not None,
    ),
    LedgerCheck(
        name="delivered",
        needs="a training, members' keys",
        proves="samples and update of every round are those that each member signed; not that the samples were used",
        run=_check_delivered,
        applies=_is_signed,
    ),
    LedgerCheck(
        name="measured",
        needs="accuracies, members' keys",
        proves="each accuracy is the one that the member signed, of the model trained; not that it measured it well",
        run=_check_measured,
        applies=_is_signed,
    ),
    LedgerCheck(
        name="confirmed",
        needs="a settlement, members' keys",
        proves="everybody signed what was delivered and all cents; open where some did not, which moves no money",
        run=_check_confirmed,
        applies=_is_signed,
    ),
)
