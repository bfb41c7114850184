"""The claims of a ledger's last deal, each checked by a function that says why it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.deal import Deal, whole_samples
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.delivered import (
    agreed_transfers,
    payments_for_delivered,
    payments_for_shares,
)
from fedpact.deals.ledger import AGREED, SETTLED, SIGNED, TRAINED, VERIFIED, Chain, Entry
from fedpact.deals.settlement import settle_payments
from fedpact.deals.signed_delivery import ledger_delivery
from fedpact.deals.stated import negotiation_contradictions
from fedpact.deals.transcript import read_transcript
from fedpact.deals.updates import TrainingUpdates, model_digest
from fedpact.deals.verified_models import missing_measurements
from fedpact.negotiation.coordinator import recompute
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes
from fedpact.utils.words import join_names

UNSIGNED = "nothing in this ledger is signed with a key: its numbers are the word of whoever wrote it"
UPDATES = "updates"


class ClaimBroken(Exception):
    """Why a claim does not hold."""


class ClaimOpen(Exception):
    """Why a claim cannot be checked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LedgerRecord:
    """The last deal of a ledger and what follows it, by kind, and where the files are."""

    entries: Mapping[str, Entry]
    folder: Path
    chain: Chain

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


def _check_signatures(record: LedgerRecord) -> str:
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


def _check_verified(record: LedgerRecord) -> str:
    """Who has measured the models made of subsets of the updates, where nobody has signed it."""
    entry = record.entries[VERIFIED]
    models = entry.content["models"]
    out, said = missing_measurements(models), dict.fromkeys(name for model in models for name in model["accuracies"])
    names = [name for name in said if name not in out]
    raise ClaimOpen(f"recorded as measured by {join_names(names)}{unmeasured_text(entry)}; nobody has signed it")


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


CLAIMS: dict[str, Callable[[LedgerRecord], str]] = {
    "budget-balance": _check_balance,
    "prices": _check_prices,
    "recomputed": _check_transcript,
    "signed": _check_signatures,
    "contributions": _check_contributions,
    "model": _check_model,
    UPDATES: _check_updates,
    "verified": _check_verified,
    "settlement": _check_settlement,
}
