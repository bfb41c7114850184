"""What is signed by whom on a ledger, verified with the members' public keys and nothing that the coordinator says.

Every document that members have signed (`fedpact.deals.documents`) is made anew from the entries, with the run's
number and the hash of the entry before; a signature counts only if it is that member's on that document. So no entry
can be changed, moved or taken from another run, even by somebody who chains all hashes anew: they would have to sign
as members.

Whether the keys are the members' own no ledger can tell. Whoever knows them from elsewhere compares (`KnownKeys`);
without that somebody could have made up the whole run, members and all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedpact.deals.deal import whole_samples
from fedpact.deals.documents import (
    MONEY,
    accuracy_document,
    deal_document_of,
    delivery_document,
    key_document,
    own_statement_words,
    settlement_document,
    stated_model,
    statement_document,
)
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    FIRST,
    KEYS,
    MEASURED,
    SETTLE,
    SETTLED,
    SIGNED,
    TRAINED,
    VERIFIED,
    Chain,
    Entry,
    is_end,
)
from fedpact.deals.signatures import KnownKeys, document_digest, is_signed_by
from fedpact.deals.signed_delivery import signed_delivery
from fedpact.deals.verified_models import check_subsets, measured_documents
from fedpact.utils.errors import FedpactError, InvalidInput, error_context, short_repr
from fedpact.utils.files import read_text
from fedpact.utils.words import join_names

# What may come after what; keys may be added wherever a server is started again.
ORDER: Mapping[str, tuple[str, ...]] = {
    FIRST: (AGREED, FAILED),
    AGREED: (SIGNED, FAILED),
    SIGNED: (TRAINED, FAILED),
    TRAINED: (VERIFIED, MEASURED, FAILED),
    VERIFIED: (MEASURED, FAILED),
    MEASURED: (SETTLED, FAILED),
    SETTLED: (),
}
CLAIM_OF = {
    KEYS: "keys",
    SIGNED: "signed",
    TRAINED: "delivered",
    VERIFIED: "verified",
    MEASURED: "measured",
    SETTLED: "confirmed",
}


@dataclass(frozen=True, kw_only=True)
class SignedPart:
    """A document that a member has signed, or is said to have.

    Attributes
    ----------
    entry, kind
        The place and kind of the ledger's entry that holds the signature.
    about, name
        Which document, and whose signature.
    digest
        The document's.
    holds
        Whether the signature is that member's on that document.
    """

    entry: int
    kind: str
    about: str
    name: str
    digest: str
    holds: bool


@dataclass
class SignatureAudit:
    """All signatures of a ledger.

    Attributes
    ----------
    parts
        In the order of the ledger.
    wrong
        What does not hold, by claim.
    deals
        The document of every deal, by the hash of its entry.
    """

    chain: Chain
    known: KnownKeys = field(default_factory=KnownKeys)
    parts: list[SignedPart] = field(default_factory=list)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    deals: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._since: dict[str, Entry] = {}
        self._stated: dict[str, str] = {}
        self._check_order()
        for entry in self.chain.entries:
            try:
                self._read(entry)
            except FedpactError as reason:
                self._add(CLAIM_OF.get(entry.kind, "signed"), f"line {entry.seq + 1}: {reason}")
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
                self._add(CLAIM_OF.get(entry.kind, "signed"), f"line {entry.seq + 1} is not sound: {error!r:.120}")

    def check_receipt(self, path: Path) -> str:
        """Whether the ledger still holds what a member has signed last; raises `InvalidInput` if it does not."""
        receipt = read_receipt(path)
        name, about = receipt["name"], receipt["about"]
        entries = self.chain.entries
        if not entries or receipt["run"] != entries[0].hash:
            raise InvalidInput(f'the receipt of "{name}" is of another run: {receipt["run"][:16]}')
        places = [entry.seq for entry in entries if entry.hash == receipt["head"]]
        if not places:
            raise InvalidInput(
                f'when "{name}" signed ({about}) the ledger ended in {receipt["head"][:16]}, an entry that it does not '
                f"hold: it was changed or cut off"
            )
        found = [p for p in self.parts if p.holds and (p.name, p.digest) == (name, receipt["digest"])]
        if not any(part.entry > places[0] for part in found):
            raise InvalidInput(f'what "{name}" signed last ({about}) is not in the ledger: its end is missing')
        statements = receipt.get("statements", {}).get(self._deal()[1], {}) if SETTLED in self._since else {}
        held = {part.digest for part in self.parts if part.holds and part.name == name}
        for key, digest in statements.items():
            if digest not in held:
                raise InvalidInput(f'"{name}" signed {own_statement_words(key)}, and the ledger does not hold it')
        before = f", and so are its {len(statements)} statements before" if statements else ""
        return f'what "{name}" signed last ({about}) is there{before}'

    # Entries

    def _read(self, entry: Entry) -> None:
        if entry.kind == KEYS:
            self._read_keys(entry)
        elif entry.kind == AGREED:
            self._since = {AGREED: entry}
            self.deals[entry.hash] = deal_document_of(self.chain.entries, entry)
        elif entry.kind in (SIGNED, TRAINED, VERIFIED, MEASURED, SETTLED):
            reader = {
                SIGNED: self._read_deal,
                TRAINED: self._read_training,
                VERIFIED: self._read_verification,
                MEASURED: self._read_accuracies,
                SETTLED: self._read_settlement,
            }
            reader[entry.kind](entry)
            self._since[entry.kind] = entry
        elif entry.kind == FAILED:
            self._read_failure(entry)

    def _read_keys(self, entry: Entry) -> None:
        for name, stated in entry.content["keys"].items():
            key = stated["key"]
            document = key_document(self._run, name, stated["place"], key)
            self._sign(entry, name, key, document, stated.get("signature"))
            if name in self._stated:
                self._add("keys", f'a second key is stated for "{name}"')
            elif key in self._stated.values():
                self._add("keys", f'"{name}" has the key of another member')
            expected = self.known.key_of(name, stated["place"])
            if self.known.is_given and expected != key:
                why = "is not known" if expected is None else "is not the one known"
                self._add("keys", f'the key stated for "{name}" {why}')
            self._stated.setdefault(name, key)

    def _read_deal(self, entry: Entry) -> None:
        document, digest = self._deal()
        content = entry.content
        if content["deal"] != self._since[AGREED].hash or content["document"] != digest:
            self._add("signed", "what was signed is another deal")
        agreed = self._since[AGREED].content
        members = _members(document)
        without_key = [name for name in members if name not in document["keys"]]
        if without_key:
            self._add("signed", f"no key is stated for {join_names(without_key)}")
        missing = [name for name in members if name not in content["signatures"]]
        if missing:
            self._add("signed", f"not signed by {join_names(missing)}")
        for name, said in content["signatures"].items():
            if name not in members:
                self._add("signed", f'"{name}" is not in the deal')
            elif said.get("signed") is not True:
                self._add("signed", f'"{name}" has refused to sign: {said.get("reason")!s:.80}')
            else:
                self._read_deal_signature(entry, name, said, agreed)

    def _read_deal_signature(self, entry: Entry, name: str, said: Mapping[str, Any], agreed: Mapping[str, Any]) -> None:
        document, digest = self._deal()
        key, place = document["keys"].get(name), document["agents"].index(name)
        prices = agreed["deal"].get("prices")
        own = statement_document(
            self._run,
            digest,
            name,
            prices=prices[place] if prices else None,
            utility=agreed["utilities"].get(name),
            claims=said.get("claims") or [],
            wants=said.get("wants"),
        )
        self._sign(entry, name, key, document, said.get("signature"))
        self._sign(entry, name, key, own, said.get("own_signature"))

    def _read_training(self, entry: Entry) -> None:
        content, (document, _) = entry.content, self._signed_deal("trained")
        self._read_deliveries(entry)
        signed_delivery(document, content["deliveries"])
        counts = whole_samples(document["contributions"], document["samples_per_unit"])
        agreed = {name: int(counts[document["agents"].index(name)]) for name in _members(document)}
        said = {name: [each["samples"] for each in content["deliveries"].get(name, [])] for name in agreed}
        counted = {name: used if agreed.get(name) or any(used) else [] for name, used in content["samples"].items()}
        if counted != said:
            self._add("delivered", "the samples stated are not those that members signed")
        if content["samples_per_unit"] != document["samples_per_unit"] or content["agreed"] != agreed:
            self._add("delivered", "the samples stated as agreed are not those of the deal")

    def _read_deliveries(self, entry: Entry) -> None:
        document, digest = self._deal()
        for name, listed in entry.content.get("deliveries", {}).items():
            for delivery in listed:
                made = delivery_document(self._run, digest, name, delivery)
                self._sign(entry, name, document["keys"].get(name), made, delivery.get("signature"))

    def _read_verification(self, entry: Entry) -> None:
        content, (document, _) = entry.content, self._signed_deal("verified")
        if TRAINED not in self._since or "verification" not in document:
            raise InvalidInput("the deal does not say that it is verified, or nothing was trained")
        check_subsets(document, self._since[TRAINED].content["deliveries"], content["models"])
        signatures = content.get("signatures") or {}
        for name, made in measured_documents(document, content["models"], head=entry.previous):
            self._sign(entry, name, document["keys"].get(name), made, signatures.get(name))

    def _read_accuracies(self, entry: Entry) -> None:
        document, digest = self._signed_deal("measured")
        for name, said in entry.content["accuracies"].items():
            if said.get("accuracy") is None:
                continue
            model = stated_model(self._since[TRAINED].content, name) if TRAINED in self._since else {}
            if said.get("model") != model.get("arrays"):
                self._add("measured", f'"{name}" has measured another model than the one trained')
            made = accuracy_document(self._run, entry.previous, digest, name, said)
            self._sign(entry, name, document["keys"].get(name), made, said.get("signature"))

    def _read_settlement(self, entry: Entry) -> None:
        content, (document, digest) = entry.content, self._signed_deal("settled")
        if TRAINED not in self._since:
            raise InvalidInput("it is settled without having been trained")
        delivered = signed_delivery(document, self._since[TRAINED].content["deliveries"])
        if content["delivered_by"] != delivered:
            self._add("confirmed", "what is paid for is not what members signed to have delivered")
        if any(content.get(part) != document["money"][part] for part in MONEY):
            self._add("confirmed", "the money is not that of the deal: its currency, rate or decimals differ")
        shares = self._paid_shares(content, document)
        made = settlement_document(self._run, entry.previous, digest, content["delivered_by"], content["cents"], shares)
        for name, signature in content["signatures"].items():
            self._sign(entry, name, document["keys"].get(name), made, signature)
        if sorted(content["signatures"]) != content["confirmed"]:
            self._add("confirmed", "who has confirmed is not who has signed")
        if not content["signatures"]:
            self._add("confirmed", "nobody has confirmed the settlement")

    def _read_failure(self, entry: Entry) -> None:
        """What members had signed when a deal failed; it stays signed."""
        content = entry.content
        if AGREED in self._since and content.get("phase") == SETTLE and content.get("signatures"):
            document, digest = self._deal()
            delivered = signed_delivery(document, self._since[TRAINED].content["deliveries"])
            shares = self._paid_shares(content, document)
            made = settlement_document(self._run, entry.previous, digest, delivered, content["cents"], shares)
            for name, signature in content["signatures"].items():
                self._sign(entry, name, document["keys"].get(name), made, signature)
        elif AGREED in self._since:
            for name, said in content.get("signatures", {}).items():
                self._read_deal_signature(entry, name, said, self._since[AGREED].content)
            self._read_deliveries(entry)
        if is_end(entry):
            self._since = {}

    # Parts

    def _paid_shares(self, content: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
        """The shares that are paid for, if the deal says that it is settled so, and only then."""
        settles = (document.get("verification") or {}).get("settles") is True
        if settles != ("paid_shares" in content):
            self._add("confirmed", "it is not settled by what the deal says is paid for")
        return content.get("paid_shares")

    @property
    def _run(self) -> str:
        return self.chain.entries[0].hash

    def _deal(self) -> tuple[dict[str, Any], str]:
        if AGREED not in self._since:
            raise InvalidInput("there is no deal before it")
        document = self.deals[self._since[AGREED].hash]
        return document, document_digest(document)

    def _signed_deal(self, done: str) -> tuple[dict[str, Any], str]:
        if SIGNED not in self._since:
            raise InvalidInput(f"it was {done} under a deal that nobody has signed")
        return self._deal()

    def _sign(self, entry: Entry, name: str, key: Any, document: Mapping[str, Any], signature: Any) -> None:
        """Take down a signature, and whether it is one."""
        holds = is_signed_by(key, document, signature)
        about = str(document["about"])
        digest = document_digest(document)
        self.parts.append(
            SignedPart(entry=entry.seq, kind=entry.kind, about=about, name=name, digest=digest, holds=holds)
        )
        if not holds:
            there = "is not signed by" if not signature else "does not bear the signature of"
            self._add(CLAIM_OF.get(entry.kind, "signed"), f'line {entry.seq + 1}: the {about} {there} "{name}"')

    def _add(self, claim: str, why: str) -> None:
        self.wrong.setdefault(claim, []).append(why)

    def _check_order(self) -> None:
        for reason in _misplaced(self.chain.entries):
            self._add("order", reason)


def read_receipt(path: Path) -> dict[str, Any]:
    """What a member has written down of what it has signed last."""
    with error_context(str(path)):
        text = read_text(path)
        try:
            receipt = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"a receipt must be valid JSON: {error}") from error
        for key in ("name", "run", "head", "about", "digest"):
            if not isinstance(receipt, dict) or not isinstance(receipt.get(key), str):
                raise InvalidInput(f"a receipt must say its {key}; nodes write it, as receipt.json")
        listed = receipt.get("statements", {})
        if not isinstance(listed, dict) or not all(isinstance(of_deal, dict) for of_deal in listed.values()):
            raise InvalidInput("a receipt must list what was signed by deal; nodes write it, as receipt.json")
    return dict(receipt)


def _members(document: Mapping[str, Any]) -> list[str]:
    return [name for name in document["agents"] if name not in document["excluded"]]


def _misplaced(entries: Sequence[Entry]) -> Iterator[str]:
    """Entries that cannot stand where they do."""
    stage = FIRST
    for entry in entries[1:]:
        if stage == SETTLED:
            yield f'line {entry.seq + 1}, "{entry.kind}", comes after the settlement, where a run ends'
            return
        if entry.kind == KEYS:
            continue
        if entry.kind not in ORDER[stage]:
            yield f'line {entry.seq + 1}, {short_repr(entry.kind)}, cannot come after "{stage}"'
            return
        if entry.kind != FAILED:
            stage = entry.kind
        elif is_end(entry):
            stage = FIRST
