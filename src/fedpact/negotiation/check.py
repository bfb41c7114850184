"""The one check of a deal, a transcript or a ledger: a table of what can be checked, and what each check proves.

Every row has words for what it needs and for what is known where it holds. `fedpact check`, `settle`, a strategy that
is given a file, the explorer and a ledger's page show what it finds:

* Of a deal in a file, by the scenario (`check_deal`): the certificates of the claims it is held to, and its rows.
* Of a transcript (`check_transcript`): the deal recomputed from its exchanges alone.
* Of a ledger (`fedpact.fitting.delivery.check_run`): the last deal and what follows it, the files beside it, and all
  signatures. These are verified with the members' public keys and nothing that the coordinator says
  (`fedpact.deals.signatures`). Without `KnownKeys` somebody could have made up the whole run, members and all.
  `check_ledger` is the same but for the shares of a run that pays for what arrived: it works out none, so such a
  settlement does not hold.

A check whose entry or file is not there is left open; that is not a failure, and is said.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.certificates.claims import BALANCE_TOLERANCE, quote_claim
from fedpact.deals import Deal, Outcome, Settlement, is_ledger, read_ledger
from fedpact.deals.deal import Source
from fedpact.deals.deal_file import (
    CHECKED,
    NEGOTIATED,
    contradictions,
    deal_from_record,
    deal_record,
    negotiation_contradictions,
    read_record,
    stated_deal,
)
from fedpact.deals.diagnosis import budget_sentences
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
)
from fedpact.deals.settlement import money_terms, settle_run
from fedpact.deals.signatures import (
    KnownKeys,
    SignedDeal,
    SignedPart,
    document_digest,
    last_deal,
    read_receipt,
    signed_deals,
)
from fedpact.deals.transcript import Transcript, is_transcript, read_transcript
from fedpact.deals.updates import TrainingUpdates, missing_measurements, model_digest
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, Mechanism, mechanism_named
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.negotiation.coordinator import recompute
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import DealFails, FedpactError, InvalidInput, error_context, short_repr
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import MAX_NAMES, differing_texts, join_names

STATED, FINISHED, PAYMENTS, LEFT_OUT = "stated", "finished", "payments", "members"  # names of checks
SHARES, MONEY = "paid shares", "money"
# What reading an entry raises that has a sound chain and unsound content.
UNSOUND = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
PAYMENT_TOLERANCE = 1e-8  # of what changes hands, in the wrong pockets; where there is money a cent counts instead
CENT = 0.01  # of the currency
NO_AMOUNTS = ("contribution", "deviation", "worst_ratio")  # of what shows that a claim is violated
NO_PAYMENTS = "by these rules nobody pays"
COMPARED = "compared with an equilibrium worked out a second time"
UNKNOWN = "not known: no equilibrium was found to compare with"
# Of each kind of entry what it must hold, beside which there may be more, and what may come next in a run. Keys may be
# added wherever a server is started again.
PHASES: Mapping[str, tuple[Mapping[str, type], tuple[str, ...]]] = {
    FIRST: ({}, (AGREED, FAILED)),
    KEYS: ({"keys": dict}, ()),
    AGREED: ({"deal": dict}, (SIGNED, FAILED)),
    SIGNED: ({"signatures": dict}, (TRAINED, FAILED)),
    TRAINED: ({"deliveries": dict}, (VERIFIED, MEASURED, FAILED)),
    VERIFIED: ({"models": list}, (MEASURED, FAILED)),
    MEASURED: ({"accuracies": dict}, (SETTLED, FAILED)),
    SETTLED: ({"cents": dict, "signatures": dict}, ()),
    FAILED: ({"phase": str, "reason": str, "agents": dict}, ()),
}
SETTLED_FIELDS = ("cents", "signatures", "paid_shares")  # of an entry of a settlement: all is signed

Run = Callable[[Any], str]
Applies = Callable[[Any], bool]


class ClaimOpen(Exception):
    """Why a claim cannot be checked."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Whether a claim holds (None: it is left open), and why."""

    holds: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class RecordCheck:
    """A row of the table: what a check of a "deal", a "transcript" or a "ledger" needs and proves, in words.

    `run` says why it holds, or raises `InvalidInput`, or `ClaimOpen` where nothing can be said; `applies` whether there
    is something to check.
    """

    of: str
    name: str
    needs: str
    proves: str
    run: Run
    applies: Applies


CHECKS: list[RecordCheck] = []


def _check(of: str, name: str, *, needs: str, applies: Applies = lambda _: True) -> Callable[[Run], Run]:
    """Put a check into the table, in the order in which they are written; its docstring says what it proves."""

    def add(run: Run) -> Run:
        words = " ".join(str(run.__doc__).split()).rstrip(".")
        proves = words[:1].lower() + words[1:]
        CHECKS.append(RecordCheck(of=of, name=name, needs=needs, proves=proves, run=run, applies=applies))
        return run

    return add


def _finding(run: Run, record: Any) -> Finding:
    try:
        return Finding(holds=True, reason=run(record))
    except ClaimOpen as reason:
        return Finding(holds=None, reason=str(reason))
    except FedpactError as reason:
        return Finding(holds=False, reason=str(reason))
    except UNSOUND as error:  # sound chain, unsound content
        return Finding(holds=False, reason=f"an entry does not hold what it must: {error!r:.120}")


def _findings(of: str, record: Any) -> dict[str, Finding]:
    return {row.name: _finding(row.run, record) for row in CHECKS if row.of == of and row.applies(record)}


class Checked:
    """A record with what was found in it, by claim."""

    findings: Mapping[str, Finding]

    @property
    def failed(self) -> list[str]:
        """The claims that do not hold."""
        return [claim for claim, finding in self.findings.items() if finding.holds is False]

    @property
    def checked(self) -> list[str]:
        """The claims that are not left open."""
        return [claim for claim, finding in self.findings.items() if finding.holds is not None]

    @property
    def failures(self) -> dict[str, str]:
        """What does not hold, by claim, in words."""
        return {claim: self.findings[claim].reason for claim in self.failed}


def check_record(path: Path) -> CheckedLedger | CheckedTranscript:
    """Check everything that a ledger or a transcript says."""
    return check_ledger(path) if is_ledger(path) else check_transcript(path)


# Transcripts


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedTranscript(Checked):
    """A transcript, the deal that its exchanges come to, and the one that is stated, also as plain data."""

    transcript: Transcript
    recomputed: Deal
    deal: Deal
    stated: Mapping[str, Any]

    @cached_property
    def findings(self) -> Mapping[str, Finding]:  # type: ignore[override]
        """By claim."""
        return _findings("transcript", self)

    @property
    def unchecked(self) -> list[str]:
        """What the transcript states and its exchanges say nothing about."""
        header = self.transcript.header
        words = [key for key in ("title", "scenario") if getattr(header, key)]
        return [*words, *(key for key in self.stated if key not in deal_record(self.recomputed))]


def check_transcript(path: Path) -> CheckedTranscript:
    """Recompute the deal of a transcript from its exchanges alone, and hold it against the one it states.

    An error if it states none: the negotiation was interrupted, and `fedpact negotiate` goes on.
    """
    found = read_transcript(path)
    deal = stated_deal(found)
    return CheckedTranscript(transcript=found, recomputed=recompute(found), deal=deal, stated=found.deal or {})


@_check("transcript", "recomputed", needs="a transcript that states a deal")
def _check_recomputed(found: CheckedTranscript) -> str:
    """The deal is the one that the recorded answers come to; not that the answers were true."""
    differing = found.deal.differences(found.recomputed)
    come_to = f"{found.transcript.count} exchanges come to"
    if differing:
        raise InvalidInput(f"{come_to} another deal for {join_names(differing, most=MAX_NAMES)}")
    return f"the deal stated is the one that {come_to}"


@_check("transcript", STATED, needs="a transcript that states a deal")
def _check_negotiation(found: CheckedTranscript) -> str:
    """Protocol, rounds, welfare, residual and how it was settled are those of the exchanges."""
    wrong = negotiation_contradictions(found.stated, found.recomputed)
    if wrong:
        raise InvalidInput("; ".join(wrong))
    return "protocol, rounds, welfare, residual and how it was settled are those that the exchanges come to"


@_check("transcript", "budget-balance", needs="a transcript that states a deal")
def _check_stated_balance(found: CheckedTranscript) -> str:
    """Payments sum to zero."""
    return _balanced_text(found.deal, found.recomputed.balance_tolerance)


def _balanced_text(deal: Deal, tolerance: float) -> str:
    total = float(deal.payments.sum())
    if not abs(total) <= tolerance:
        raise InvalidInput(f"the payments stated sum to {total:+.3g}")
    return f"payments sum to {f'{total:+.1e}' if total else 'zero'}"


# Ledgers


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedLedger(Checked):
    """A ledger, the files beside it and the keys that are known, with what was found in them.

    `keys`, `receipts` and `must_be_signed` are as `check_ledger` takes them. `check_shares` works out anew which shares
    are paid for, and raises `InvalidInput` where others are stated.
    """

    chain: Chain
    folder: Path
    keys: KnownKeys = field(default_factory=KnownKeys)
    receipts: Sequence[Mapping[str, Any]] = ()
    must_be_signed: bool = False
    check_shares: Callable[[CheckedLedger, Any], None] | None = None

    @cached_property
    def findings(self) -> Mapping[str, Finding]:  # type: ignore[override]
        """By claim."""
        found = {f"receipt of {each['name']}": _finding(partial(_check_receipt, each), self) for each in self.receipts}
        return _findings("ledger", self) | found

    @cached_property
    def deal(self) -> Deal | None:
        """The last deal it states; None if there is none, or it is not sound."""
        with suppress(FedpactError, *UNSOUND):  # the findings say what is wrong with it
            return self.stated_deal if AGREED in self.entries else None
        return None

    @cached_property
    def stated_deal(self) -> Deal:
        """The last deal it states, which must be there and sound."""
        return deal_from_record(self.entries[AGREED].content["deal"])

    @cached_property
    def deals(self) -> Sequence[SignedDeal]:
        """The deal that each entry stands under."""
        return signed_deals(self.chain.entries)

    @cached_property
    def under(self) -> SignedDeal:
        """The last deal, with what members have signed under it; one without entries if there is none."""
        return last_deal(self.deals)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The last deal and what follows it, by kind."""
        return self.under.entries

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to a settlement; one that has not pays nobody."""
        return self.findings[FINISHED].holds is True

    @property
    def unchecked(self) -> list[str]:
        """What a ledger states and nobody has signed: the rest is signed, or follows from what is."""
        settled = self.entries[SETTLED].content if SETTLED in self.entries else {}
        beside = [f"{key!r:.80} in the settlement" for key in settled if key not in SETTLED_FIELDS]
        return ["when its last entry was written", *beside]

    @cached_property
    def signed_parts(self) -> Sequence[SignedPart]:
        """Everything that is said to be signed, and whether it is, in the order of the ledger."""
        parts: list[SignedPart] = []
        for entry, under in zip(self.chain.entries, self.deals, strict=True):
            with suppress(FedpactError, *UNSOUND):  # the findings say what is wrong with the entry
                parts.extend(under.signed_parts(entry))
        return parts

    def check_signatures(self, *kinds: str) -> None:
        """Raise `InvalidInput` unless members have signed all that entries of some kinds say."""
        for entry, under in zip(self.chain.entries, self.deals, strict=True):
            if entry.kind in kinds:
                with error_context(f"line {entry.seq + 1}"):
                    under.check_entry(entry)

    def content(self, kind: str, otherwise: str) -> Mapping[str, Any]:
        """Of an entry; where there is none the claim is open."""
        if kind not in self.entries:
            raise ClaimOpen(otherwise)
        return self.entries[kind].content

    def signers(self, kind: str, otherwise: str) -> tuple[str, list[str]]:
        """Who has signed an entry, in words, and who of the deal has not; open where there is no such entry."""
        self.content(kind, otherwise)
        entry = self.entries[kind]
        names = list(dict.fromkeys(part.name for part in self.signed_parts if part.entry == entry.seq))
        missing = [name for name in self.under.document["keys"] if name not in names]
        return join_names(names) if names else "", missing

    def file(self, stated: Mapping[str, Any]) -> Path:
        """A file beside the ledger with the digest that the ledger states; open where it is not there."""
        name = stated["file"]
        if not isinstance(name, str) or Path(name).name != name:
            raise InvalidInput(f"a ledger names files beside it, got {name!r:.80}")
        path = self.folder / name
        if not os.path.exists(path):  # unlike Path.exists, silent about names that are too long
            raise ClaimOpen(f"{name:.80} is not beside the ledger")
        if hashlib.sha256(read_bytes(path)).hexdigest() != stated["sha256"]:
            raise InvalidInput(f"{name} was changed: it does not have the digest in the ledger")
        return path

    @property
    def paid(self) -> Settlement | None:
        """What everybody is paid, where the run is finished and everything holds."""
        is_sound = self.is_finished and not self.failed and self.findings["settlement"].holds
        return self.settlement() if is_sound else None

    @property
    def paid_shares(self) -> Any:
        """The shares that are paid for, where a run is settled by what arrived; None of others."""
        return self.entries[SETTLED].content.get("paid_shares") if self.paid is not None else None

    @property
    def samples(self) -> Mapping[str, Sequence[int]]:
        """The samples that each member has used in every round; of whoever agreed to none there are no rounds."""
        listed = self.entries[TRAINED].content["deliveries"] if TRAINED in self.entries else {}
        given = {name: [each["samples"] for each in rounds] for name, rounds in listed.items()}
        return {name: given.get(name, []) for name in self.under.members} if listed else {}

    @property
    def delivered(self) -> FloatArray | None:
        """What each has delivered, in units of contribution, by what members signed; None if nothing was trained."""
        if TRAINED not in self.entries:
            return None
        signed, deal = self.under.delivered(), self.stated_deal
        return np.array([signed.get(name, own) for name, own in zip(deal.agents, deal.contributions, strict=True)])

    def settlement(self, *, between_members: Outcome | None = None) -> Settlement:
        """What is due for what was delivered, or for the shares that are paid for, in the money of the run.

        `between_members` is the deal's outcome between those who are in it, by whose rule they are paid where it names
        no prices.
        """
        shares = self.entries[SETTLED].content.get("paid_shares")
        delivered, unit = self.under.delivered(), self.under.document["money"]
        return settle_run(self.stated_deal, delivered, unit, shares=shares, between_members=between_members)


def check_ledger(
    path: Path, *, keys: KnownKeys | None = None, receipts: Sequence[Path] = (), must_be_signed: bool = False
) -> CheckedLedger:
    """Check everything that a ledger says.

    `keys` are members' public keys that are known from elsewhere, to compare with those the ledger states; `receipts`
    what members have written down of what they signed last (`receipt.json`). `must_be_signed` says whether a deal that
    nobody has signed yet is a failure; with keys or receipts it always is.
    """
    return CheckedLedger(
        receipts=[read_receipt(receipt) for receipt in receipts],
        chain=read_ledger(path),
        folder=path.parent,
        keys=keys or KnownKeys(),
        must_be_signed=must_be_signed or keys is not None or bool(receipts),
    )


def _has_deal(found: CheckedLedger) -> bool:
    return AGREED in found.entries


@_check("ledger", "chain", needs="the ledger")
def _check_chain(found: CheckedLedger) -> str:
    """No line was changed, moved or taken out without making all later hashes anew."""
    chain = found.chain
    count = len(chain.entries)
    if chain.broken is not None:
        raise InvalidInput(f"line {count + 1} {chain.broken}; what stands before it holds")
    dropped = ", and a last line that was cut off and does not count" if chain.cut_off else ""
    return f"{count} entries, each chained to the last{dropped}; it ends in {chain.head[:16]}"


@_check("ledger", "entries", needs="the ledger")
def _check_entries(found: CheckedLedger) -> str:
    """Every entry has the parts of its kind."""
    for entry in found.chain.entries:
        sound = False
        with suppress(*UNSOUND):
            sound = _has_its_parts(entry)
        if not sound:
            parts = join_names([*PHASES[entry.kind][0]])
            raise InvalidInput(f'line {entry.seq + 1}, "{entry.kind}", does not hold what it must: {parts}')
    return "every entry holds what one of its kind must"


def _has_its_parts(entry: Entry) -> bool:
    """Whether an entry has the parts of its kind, a verification is its terms, and accuracies are from 0 to 1."""
    content, (fields, _) = entry.content, PHASES.get(entry.kind, ({}, ()))
    models = content["models"] if entry.kind == VERIFIED else [content] if entry.kind == MEASURED else []
    scores = [said.get("accuracy") for model in models for said in model["accuracies"].values()]
    return (
        all(isinstance(content[key], kind) for key, kind in fields.items())
        and isinstance(content.get("verification"), dict | None)
        and all(score is None or 0.0 <= score <= 1.0 for score in scores)
    )


@_check("ledger", FINISHED, needs="the ledger")
def _check_finished(found: CheckedLedger) -> str:
    """The run came to a settlement, and nothing failed after it; otherwise nobody is paid."""
    last: Entry | None = None
    for entry, under in zip(found.chain.entries, found.deals, strict=True):
        if entry.kind in (AGREED, FAILED) or (entry.kind == SETTLED and AGREED in under.entries):
            last = entry
    if last is not None and last.kind == SETTLED:
        return "the run has come to its settlement"
    if last is None or last.kind != FAILED:
        raise ClaimOpen("the run is not settled yet")
    reason, about = str(last.content.get("reason")), dict(last.content.get("agents") or {})
    told = "; ".join(f'"{name}": {why}' for name, why in about.items())
    reason = reason if not told or told in reason else f"{reason}: {told}"
    raise InvalidInput(f"the run failed ({last.content.get('phase')}): {reason:.400}")


@_check("ledger", "budget-balance", needs="a deal", applies=_has_deal)
def _check_balance(found: CheckedLedger) -> str:
    """Payments sum to zero, and cents exactly."""
    balanced = _balanced_text(found.stated_deal, found.stated_deal.balance_tolerance)
    if SETTLED in found.entries:
        cents = list(found.entries[SETTLED].content["cents"].values())
        if not all(type(each) is int for each in cents) or sum(cents):
            raise InvalidInput(f"the cents settled sum to {sum(cents)}")
    return balanced


@_check("ledger", "prices", needs="a deal with prices", applies=_has_deal)
def _check_prices(found: CheckedLedger) -> str:
    """Everybody is paid what its prices say, and what one pays another receives."""
    deal = found.stated_deal
    if deal.prices is None:
        raise ClaimOpen("the deal does not say its prices")
    paid = _price_text(deal.price_contradiction())
    sums = deal.prices.sum(axis=0) * deal.contributions
    if not np.abs(sums).max(initial=0.0) <= deal.balance_tolerance:
        raise InvalidInput("what members pay for somebody's data is not what it is paid for it")
    return f"{paid}, and what one pays for data another receives"


def _price_text(contradiction: str) -> str:
    if contradiction:
        raise InvalidInput(contradiction)
    return "everybody is paid what its prices say"


@_check("ledger", "recomputed", needs="the transcript beside the ledger", applies=_has_deal)
def _check_transcript(found: CheckedLedger) -> str:
    """The deal is the one that the recorded answers come to; not that the answers were true."""
    agreed = found.entries[AGREED].content
    stated = agreed.get("transcript")
    if stated is None:
        raise ClaimOpen("the deal was not negotiated here")
    path = found.file(stated)
    with error_context(path.name):
        transcript = read_transcript(path)
        recomputed = recompute(transcript)
    if recomputed.agents != found.stated_deal.agents:
        raise InvalidInput(f"{path.name} is of other members")
    if stated["exchanges"] != transcript.count:
        raise InvalidInput(f"{path.name} has {transcript.count} exchanges, the ledger says {stated['exchanges']!r:.80}")
    told = CheckedTranscript(
        transcript=transcript, recomputed=recomputed, deal=found.stated_deal, stated=agreed["deal"]
    )
    for reason in told.failures.values():
        raise InvalidInput(f"by {path.name} {reason}")
    return f"the deal is the one that {transcript.count} exchanges in {path.name} come to"


@_check("ledger", "model", needs="the model beside the ledger", applies=_has_deal)
def _check_model(found: CheckedLedger) -> str:
    """The file is the model that was trained."""
    trained = found.content(TRAINED, "no model is kept")
    if "models" in trained:
        files = dict.fromkeys(found.file(stated).name for stated in trained["models"].values())
        return f"{join_names(list(files))} are the models that were trained, of every member its own"
    if trained.get("model") is None:
        raise ClaimOpen("no model is kept")
    return f"{found.file(trained['model']).name} is the model that was trained"


@_check(
    "ledger",
    "updates",
    needs="the updates beside the ledger, and a verification",
    applies=lambda found: VERIFIED in found.entries,
)
def _check_updates(found: CheckedLedger) -> str:
    """The models that were measured are made of the updates that members signed."""
    trained = found.content(TRAINED, "nothing was trained yet")
    stated, models = trained.get("updates"), found.entries[VERIFIED].content["models"]
    if stated is None:
        raise ClaimOpen("the updates are not kept beside the ledger")
    updates = TrainingUpdates.load(found.file(stated), stated["sha256"])
    signed = {
        name: [(each["update"], each["samples"]) for each in listed]
        for name, listed in trained["deliveries"].items()
        if listed
    }
    if updates.deliveries() != signed:
        raise InvalidInput("the updates kept are not those that members signed")
    for model in models:
        if model_digest(updates.model_of(model["subset"])) != model.get("model"):
            whose = ", ".join(model["subset"])
            raise InvalidInput(f"the model made of the updates of {whose} is not the one that members measured")
    return f"{len(models)} models are made of the updates that members signed"


@_check("ledger", "settlement", needs="a settlement", applies=_has_deal)
def _check_settlement(found: CheckedLedger) -> str:
    """Cents and transfers are those due for what was delivered, at the prices agreed."""
    content, deal = found.content(SETTLED, "nothing is settled yet"), found.stated_deal
    delivered = found.delivered
    is_short = delivered is not None and bool((delivered != deal.contributions).any())
    if is_short and deal.prices is None and deal.payments.any():
        raise ClaimOpen("less was delivered than agreed, and the deal names no prices: what is due needs the scenario")
    due = found.settlement()
    if dict(zip(due.names, due.cents, strict=True)) != content["cents"]:
        raise InvalidInput("the cents settled are not those due for what was delivered at the prices agreed")
    return f"{len(due.transfers)} transfers of {due.currency} pay for what was delivered at the prices agreed"


@_check(
    "ledger",
    SHARES,
    needs="a verification that settles, the calibration",
    applies=lambda found: SETTLED in found.entries and "paid_shares" in found.entries[SETTLED].content,
)
def _check_paid_shares(found: CheckedLedger) -> str:
    """The shares that are paid for follow from what members measured and the calibration they signed."""
    if found.check_shares is None:
        raise InvalidInput("they were not worked out anew")
    found.check_shares(found, found.entries[SETTLED].content["paid_shares"])
    return "each follows from the calibration and what members measured, without the two parties' reports"


@_check("ledger", "order", needs="the ledger")
def _check_order(found: CheckedLedger) -> str:
    """It holds one run, in the order of a run."""
    stage = FIRST
    for entry in found.chain.entries[1:]:
        line = f"line {entry.seq + 1}, {short_repr(entry.kind)}"
        if stage == SETTLED:
            raise InvalidInput(f"{line}, comes after the settlement, where a run ends")
        if entry.kind != KEYS and entry.kind not in PHASES[stage][1]:
            raise InvalidInput(f'{line}, cannot come after "{stage}"')
        if entry.kind == FAILED:
            stage = FIRST if is_end(entry) else stage
        elif entry.kind != KEYS:
            stage = entry.kind
    return "entries come in the order of a run"


# Signatures: `SignedDeal.check_entry` says what members must have signed of every kind of entry


@_check("ledger", "keys", needs="members' keys; whose they are only with --keys")
def _check_keys(found: CheckedLedger) -> str:
    """Every key was signed for this run by its holder, and is the one known where keys are given."""
    found.check_signatures(KEYS)
    keys: dict[str, str] = {}
    for name, stated in ((n, s) for e in found.chain.entries if e.kind == KEYS for n, s in e.content["keys"].items()):
        if name in keys or stated["key"] in keys.values():
            raise InvalidInput(f'a second key is stated for "{name}", or it has the key of another member')
        keys[name] = stated["key"]
    if found.keys.is_given:
        known = found.keys.by_name
        if other := [name for name, key in keys.items() if known.get(name, key) != key]:
            raise InvalidInput(f"the key stated for {join_names(other)} is not the one known")
        if unknown := [name for name in keys if name not in known]:
            raise InvalidInput(f"the key of {join_names(unknown)} is not among those known")
    whose = f"of {join_names(list(keys))}, each signed for this run"
    if found.keys.is_given:
        return f"{whose}; they are the keys known"
    if not keys:
        raise ClaimOpen("none is stated yet")
    return f"{whose}; they are those the ledger states; --keys compares them with keys that you know"


@_check("ledger", "signed", needs="members' keys")
def _check_signed(found: CheckedLedger) -> str:
    """Every member of the deal signed the same deal and its own prices."""
    found.check_signatures(SIGNED, FAILED)  # what was signed until a failure stays signed
    if found.must_be_signed and SIGNED not in found.entries:
        raise InvalidInput("nobody has signed the deal")
    return f"one deal, and its own part of it, signed by {found.signers(SIGNED, 'nobody has signed the deal')[0]}"


@_check("ledger", "delivered", needs="a training, members' keys")
def _check_delivered(found: CheckedLedger) -> str:
    """Samples and update of every round are those that each member signed; not that the samples were used."""
    found.check_signatures(TRAINED)
    return f"samples and updates of every round, signed by {found.signers(TRAINED, 'nothing was trained yet')[0]}"


def _measured_text(found: CheckedLedger, kind: str, what: str, otherwise: str) -> str:
    """Who has signed what it measured, and who has measured nothing and why."""
    found.check_signatures(kind)
    names, missing = found.signers(kind, otherwise)
    content = found.entries[kind].content
    reasons = missing_measurements(content["models"] if kind == VERIFIED else [content])
    untold = "".join(f'; not by "{name}": {reason:.200}' for name, reason in reasons.items())
    if not names:
        raise ClaimOpen(f"not by {join_names(missing)}{untold}")
    return f"{what} signed by {names}{untold}"


def _is_verified(found: CheckedLedger) -> bool:
    """Whether models of subsets were measured, or some deal says that they are."""
    entries = found.chain.entries
    return any(each.kind == VERIFIED or each.content.get("verification") is not None for each in entries)


@_check("ledger", "verified", needs="a verification, members' keys", applies=_is_verified)
def _check_verified(found: CheckedLedger) -> str:
    """What members measured of models with and without an update is what they signed."""
    what, otherwise = "what it measured of every model", "what arrived was not verified by models of subsets"
    return _measured_text(found, VERIFIED, what, otherwise)


@_check("ledger", "measured", needs="accuracies, members' keys")
def _check_measured(found: CheckedLedger) -> str:
    """Each accuracy is the one that the member signed, of the model trained; not that it measured it well."""
    return _measured_text(found, MEASURED, "its accuracy", "nothing was measured yet")


@_check("ledger", "confirmed", needs="a settlement, members' keys")
def _check_confirmed(found: CheckedLedger) -> str:
    """Everybody signed what was delivered and all cents; open where some did not, which moves no money."""
    found.check_signatures(SETTLED)
    names, missing = found.signers(SETTLED, "nothing is settled yet")
    if missing:
        raise ClaimOpen(f"not by {join_names(missing)}; what it is paid follows from what all have signed")
    return f"the settlement signed by {names}"


def _check_receipt(receipt: Mapping[str, Any], found: CheckedLedger) -> str:
    """That the ledger still holds what a member has signed last."""
    name, about, entries = receipt["name"], receipt["about"], found.chain.entries
    if receipt["run"] != entries[0].hash:
        raise InvalidInput(f'the receipt of "{name}" is of another run: {receipt["run"][:16]}')
    indices = [entry.seq for entry in entries if entry.hash == receipt["head"]]
    if not indices:
        raise InvalidInput(
            f'when "{name}" signed ({about}) the ledger ended in {receipt["head"][:16]}, an entry that it does not '
            f"hold: it was changed or cut off"
        )
    held = {part.digest: part.entry for part in found.signed_parts if part.holds and part.name == name}
    if held.get(receipt["digest"], -1) <= indices[0]:
        raise InvalidInput(f'what "{name}" signed last ({about}) is not in the ledger: its end is missing')
    is_settled, statements = SETTLED in found.entries, receipt.get("statements", {})
    statements = statements.get(document_digest(found.under.document), {}) if is_settled else {}
    for key, digest in statements.items():
        if digest not in held:
            raise InvalidInput(f'"{name}" signed {key:.100}, and the ledger does not hold it')
    before = f", and so are its {len(statements)} statements before" if statements else ""
    return f'what "{name}" signed last ({about}) is there{before}'


# Deals


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentCheck:
    """How far payments can be from those that are due, by member: NaN where nothing is known; and what that rests on.

    `tol` is what may be in the wrong pocket, in units of payoff. `paid` says whose payment is furthest off, what it is
    and what it should be.
    """

    errors: FloatArray
    tol: float
    method: str
    paid: str

    @property
    def error(self) -> float:
        """The largest of the errors."""
        return float(self.errors.max())

    @property
    def exceeds(self) -> bool:
        """Whether more than the tolerance may be in the wrong pocket: also where nothing can be said."""
        return not self.error <= self.tol


def check_payments(mechanism: Mechanism, outcome: Outcome, *, money: Money | None = None) -> PaymentCheck:
    """How far the payments of an outcome are from those that are due under a mechanism's rules.

    They are compared with those of an equilibrium that is worked out a second time: where there are several, with one
    close to the deal's own contributions. A profile that misses the equilibrium a little costs its members next to
    nothing, to second order; the payments move with it to first order, so that certificates of the profile do not show
    it.
    """
    due, method = np.zeros(len(outcome.agents)), NO_PAYMENTS
    if mechanism.has_payments:
        try:
            due, method = mechanism.payments_due(outcome.federation, outcome.contributions), COMPARED
        except SOLVER_ERRORS:
            due, method = np.full(len(outcome.agents), np.nan), UNKNOWN
    errors, turnover = np.abs(outcome.payments - due), outcome.deal.turnover
    sizes = np.nan_to_num(errors)
    worst = int(np.argmax(sizes >= sizes.max() * (1.0 - BALANCE_TOLERANCE)))  # the first of those that are as far off
    paid, rule = _differing_amounts(money, float(outcome.payments[worst]), float(due[worst]))
    # Sums too large for floats to tell cents apart are held to what floats can; among equals all turnover is rounding.
    rounding = BALANCE_TOLERANCE * max(turnover, float(np.abs(outcome.payoffs).sum()))
    return PaymentCheck(
        errors=np.where(np.isfinite(errors), errors, np.nan),
        tol=max(rounding, PAYMENT_TOLERANCE * turnover if money is None else CENT / money.per_payoff),
        method=method,
        paid=f'member "{outcome.agents[worst]}" is paid {paid}, by the rules of {mechanism.name} {rule}',
    )


def _differing_amounts(money: Money | None, one: float, other: float) -> tuple[str, str]:
    """Two amounts as texts that differ, in money where there is money."""
    if money is None:
        texts = differing_texts(one, other)
        return f"{texts[0]} of payoff", f"{texts[1]} of payoff"
    texts = differing_texts(one * money.per_payoff, other * money.per_payoff)
    return f"{money.currency} {texts[0]}", f"{money.currency} {texts[1]}"


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedDeal(Checked):
    """A deal held to what it promises.

    Attributes
    ----------
    deal, rules, outcome
        The deal as it stands in the file, its mechanism, and the deal with the federation of those who are in it.
    claims
        What its certificates are held to.
    out
        The members of the scenario that are not in it, and why; an empty text where the deal does not say it.
    record
        The ledger or transcript it comes from, checked, if it comes from one.
    contradictions
        What its file states otherwise than it follows from contributions and payments, in words.
    unchecked
        What its file states of how it was negotiated, which only a transcript shows.
    """

    deal: Deal
    rules: Mechanism
    outcome: Outcome
    claims: Sequence[Claim]
    out: Mapping[str, str] = field(default_factory=dict)
    record: CheckedLedger | CheckedTranscript | None = None
    money: Money | None = None
    contradictions: Sequence[str] = ()
    unchecked: Sequence[str] = ()

    @cached_property
    def findings(self) -> Mapping[str, Finding]:  # type: ignore[override]
        """By claim: its certificates, the checks of a deal, and those of the record it comes from."""
        found = {claim.value: _finding(partial(_check_certificate, claim), self) for claim in self.claims}
        found |= _findings("deal", self)
        for name, finding in self.record.findings.items() if self.record is not None else ():
            if finding.holds is False or name not in found:
                found = {key: each for key, each in found.items() if key != name} | {name: finding}
        return found

    @cached_property
    def payment_check(self) -> PaymentCheck:
        """How much of its money can be in the wrong pocket."""
        return check_payments(self.rules, self.outcome, money=self.money)

    @property
    def holds_payments(self) -> bool:
        """Whether its payments are held to be those of an equilibrium: wherever it is held to be one."""
        return Claim.NASH in self.claims

    def amount(self, payoff: float) -> str:
        """An amount in money where there is money, in units of payoff otherwise."""
        if self.money is None:
            return f"{payoff:.4g} of payoff"
        return f"{self.money.currency} {payoff * self.money.per_payoff:,.2f}"

    @property
    def price_contradiction(self) -> str:
        """Who is paid something else than its prices come to, in words; empty if nobody is."""
        return self.deal.price_contradiction(partial(_differing_amounts, self.money))

    @property
    def payment_text(self) -> str:
        """How far the payments can be from those of the exact equilibrium, and what says so."""
        found = self.payment_check
        if np.isnan(found.error):
            return f"whether the payments are right cannot be said ({found.method})"
        if found.exceeds:
            return f"up to {self.amount(found.error)} is in the wrong pocket: {found.paid}"
        least = found.tol if self.money else 0.0
        return f"payments agree to {self.amount(max(found.error, least))} ({found.method})"

    @property
    def is_proved(self) -> bool:
        """Whether every claim it is held to is proved, rather than only not refuted."""
        return not self.failed and all(self.outcome.certificates[claim].holds for claim in self.claims)

    @property
    def difference(self) -> str:
        """What is wrong first of all: the record it comes from, who is left out, money, a payment, or a claim."""
        failures = self.failures
        record = self.record.failed if self.record is not None else ()
        first = [*record, LEFT_OUT, MONEY, PAYMENTS, *failures]
        return next((f"{quote_claim(claim)}: {failures[claim]}" for claim in first if claim in failures), "")


def check_deal(
    path: Path,
    federation: Federation,
    *,
    rules: Mechanism | None = None,
    claims: Sequence[Claim] | None = None,
    money: Money | None = None,
    found: CheckedLedger | None = None,
) -> CheckedDeal:
    """The deal of a file, held to claims: by default to those of its mechanism, by whose rules it is judged.

    `found` is the ledger, where it was checked already.
    """
    record: CheckedLedger | CheckedTranscript | None = found
    stated_in: dict[str, Any] = {}
    if is_ledger(path) or is_transcript(path):
        record = record or check_record(path)
        known = record.recomputed if isinstance(record, CheckedTranscript) else record.deal
        if known is None:
            why = "there is no deal in this ledger yet"
            why = next((f"the ledger was changed: {reason}" for reason in record.failures.values()), why)
            kind = DealFails if record.failed else InvalidInput
            raise kind(f"{path}: {why}; `fedpact check {path}` shows what it holds")
        deal = known
    else:
        stated_in = read_record(path, mechanism=None if rules is None else rules.name)
        with error_context(str(path)):
            deal = deal_from_record(stated_in)
    with error_context(str(path)):
        chosen = mechanism_named(deal.mechanism) if rules is None else rules
        outcome = chosen.outcome_of(deal, federation)
        named = chosen if chosen.name == deal.mechanism else MECHANISMS.get(deal.mechanism)
        stated: Sequence[str] = ()
        if np.isfinite(deal.provenance.welfare):  # by what members said, who do not count what joining costs them
            net = deal.provenance.welfare - float(outcome.joining_costs.sum())
            stated = contradictions({"agents": outcome.agents, "welfare": net}, outcome)
            stated_in = {key: entry for key, entry in stated_in.items() if key != "welfare"}
        if named is not None:
            stated = [*stated, *_contradictions(stated_in, deal, outcome, named, federation)]
    reasons = {name: deal.excluded.get(name, "").strip() for name in federation.names if name not in outcome.agents}
    return CheckedDeal(
        deal=deal,
        rules=chosen,
        outcome=outcome,
        claims=chosen.promises(outcome.federation) if claims is None else claims,
        # A text without a letter or digit says nothing.
        out={name: reason if any(map(str.isalnum, reason)) else "" for name, reason in reasons.items()},
        record=record,
        money=money,
        contradictions=stated,
        unchecked=[key for key in NEGOTIATED if key in stated_in and key not in CHECKED],
    )


def check_solved(
    rules: Mechanism, outcome: Outcome, deal: Deal, *, claims: Sequence[Claim] | None = None, money: Money | None = None
) -> CheckedDeal:
    """A deal that was solved, with its outcome, held to claims: by default to those of its mechanism."""
    return CheckedDeal(
        deal=deal,
        rules=rules,
        outcome=outcome,
        claims=rules.promises(outcome.federation) if claims is None else claims,
        out=dict(deal.excluded),
        money=money,
    )


def _contradictions(
    record: dict[str, Any], deal: Deal, outcome: Outcome, rules: Mechanism, federation: Federation
) -> Sequence[str]:
    """What a deal, and its file, states otherwise than it follows by the rules it names.

    Prices and side payments are those of the deal, brought into the scenario's order: whoever delivers less is paid by
    them.
    """
    due = rules.outcome_at(outcome.federation, outcome.contributions, outcome.payments)
    if deal.provenance.source is Source.SOLVED:
        with suppress(*SOLVER_ERRORS):  # where it is no equilibrium the certificates say so
            rules.equilibria(outcome.federation, outcome.contributions)
            due = replace(due, is_solved=True)
    terms, _ = deal.belonging_to(federation)
    stated = {"agents": terms.agents, "prices": terms.prices, "side_payments": terms.side_payments}
    stated = {key: entry for key, entry in jsonable(stated).items() if entry is not None}
    beside = {key: entry for key, entry in record.items() if key not in ("prices", "side_payments")}
    if rules.name not in MECHANISMS:  # how many equilibria there are, and what is paid beside, is for its rules to say
        for key in ("equilibria", "worst_reciprocity", "side_payments"):
            beside.pop(key, None)
            stated.pop(key, None)
    return [*contradictions(stated, due), *(contradictions(beside, due) if beside else [])]


def violation_text(certificate: Certificate, amount: Callable[[float], str]) -> str:
    """By how much a claim is violated, and what shows it; amounts as `amount` writes them."""
    named = {key: join_names(part) if key == "group" else part for key, part in certificate.witness.items()}
    words = {key: "member" if key == "agent" else key.replace("_", " ") for key in named}
    shown = []
    for key, part in named.items():
        if isinstance(part, float):
            shown.append(f"{words[key]} {f'{part:.6g}' if key in NO_AMOUNTS else amount(part)}")
        elif isinstance(part, str):
            shown.append(f"{words[key]} {part}")
    return f"by {amount(-certificate.margin)}: {', '.join(shown)}"


def _check_certificate(claim: Claim, found: CheckedDeal) -> str:
    proof = found.outcome.certificates[claim]
    if proof.verdict is Verdict.VIOLATED:
        raise InvalidInput(f"violated {violation_text(proof, found.amount)}")
    if proof.verdict is Verdict.NOT_REFUTED and np.isnan(proof.margin):
        raise InvalidInput("it could not be worked out")
    if not proof.holds:
        raise ClaimOpen(proof.verdict.value)
    return f"proved for {proof.scope}"


@_check("deal", LEFT_OUT, needs="the scenario")
def _check_members(found: CheckedDeal) -> str:
    """All its members are in the deal, or it says who is not, and why."""
    unexplained = [name for name, reason in found.out.items() if not reason]
    if unexplained:
        are = "is" if len(unexplained) == 1 else "are"
        raise InvalidInput(
            f"{join_names(unexplained)} {are} in the scenario and not in the deal, which does not say why"
        )
    return "everybody of the scenario is in it, or it says why not"


@_check(
    "deal",
    PAYMENTS,
    needs="the scenario, and rules that come to an equilibrium",
    applies=lambda found: found.holds_payments,
)
def _check_payments(found: CheckedDeal) -> str:
    """Nobody's payment is further than a cent from that of an equilibrium worked out a second time."""
    if found.payment_check.exceeds:
        raise InvalidInput(found.payment_text)
    return found.payment_check.method


@_check(
    "deal",
    "budgets",
    needs="a scenario with budgets",
    applies=lambda found: bool(np.isfinite(found.outcome.federation.budgets).any()),
)
def _check_budgets(found: CheckedDeal) -> str:
    """Nobody is asked for more than the scenario says that it can pay."""
    for sentence in budget_sentences(found.outcome, found.amount):
        raise InvalidInput(sentence.removesuffix("."))
    return "nobody is asked for more than it can pay"


@_check("deal", "prices", needs="a deal with prices", applies=lambda found: found.deal.prices is not None)
def _check_deal_prices(found: CheckedDeal) -> str:
    """Everybody is paid what its prices say."""
    return _price_text(found.price_contradiction)


@_check(
    "deal",
    MONEY,
    needs="a ledger, and a scenario with money",
    applies=lambda found: isinstance(found.record, CheckedLedger) and found.money is not None,
)
def _check_money(found: CheckedDeal) -> str:
    """The run's currency, its exchange rate and its decimals are those of the scenario."""
    assert isinstance(found.record, CheckedLedger)
    stated, wanted = found.record.under.document["money"], money_terms(found.money)
    if stated == money_terms(None):
        raise ClaimOpen("the run says nothing of money: its amounts are units of payoff")
    if stated != wanted:
        run, scenario = (
            f"{short_repr(each['currency'])} {short_repr(each['per_payoff'])} per unit of payoff, "
            f"{short_repr(each['decimals'])} decimals"
            for each in (stated, wanted)
        )
        raise InvalidInput(f"the run is settled at {run}; the scenario says {scenario}")
    return "currency, exchange rate and decimals of the run are those of the scenario"


@_check("deal", STATED, needs="the scenario, and a file")
def _check_stated(found: CheckedDeal) -> str:
    """Payoffs, costs, shares, verdicts and all else in the file follow from contributions and payments."""
    if found.contradictions:
        raise InvalidInput(found.contradictions[0])
    return "all else that is stated follows from contributions and payments"
