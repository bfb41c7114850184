"""Signing: members' keys, the documents they sign, and whose signature stands where on a ledger.

A member signs a document: plain data, written in the one way that ledgers write it, after words that say what the
signature is for. Every document follows from the ledger alone, so anybody can make it anew and hold a signature to it:

| about          | who signs | what it binds                                                             |
|----------------|-----------|---------------------------------------------------------------------------|
| `key`          | each      | its name, index and public key to this run                                |
| `deal`         | all alike | contributions, payments, digests of prices, keys, money, rounds, scenario |
| `statement`    | each      | its own prices and utility, what it has checked, whose updates it wants   |
| `delivery`     | each      | the samples of a round, and the update it sent                            |
| `verification` | each      | what it measured of the models made of subsets of the updates             |
| `accuracy`     | each      | what it measured of the model                                             |
| `settlement`   | all alike | what was delivered, and everybody's cents                                 |

`run` is the hash of the ledger's first entry, which holds a number drawn for the run: nothing signed in one run is of
use in another. `head` is the hash of the entry before the one that holds the signature, so that all entries up to there
are signed too. `deal` is the digest of the deal's document. So no entry can be changed, moved or taken from another
run, even by somebody who chains all hashes anew: they would have to sign as members. Whether the keys are the members'
own no ledger can tell: whoever knows them from elsewhere compares (`KnownKeys`).

Signatures are ECDSA on the curve P-384 with SHA-384, as Flower's nodes prove themselves. A key is a file in OpenSSH
format, so that `ssh-keygen -t ecdsa -b 384` makes one as well; public keys are compared without their comments.
Signatures and digests are hexadecimal. It needs the package cryptography: `pip install "fedpact[signatures]"`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fedpact.deals.deal import whole_samples
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    KEYS,
    MEASURED,
    SETTLE,
    SETTLED,
    SIGNED,
    TRAINED,
    VERIFIED,
    Entry,
    canonical_json,
    is_end,
)
from fedpact.deals.updates import draw_subsets
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import PRIVATE, decode_json, read_bytes, read_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

PURPOSE = b"fedpact signs this document, version 1\n"  # no signature made for anything else is one of a document
CURVE = "secp384r1"
MAX_KEY_LENGTH = 1000  # characters of a public key
KEY_RULE = "must be an ECDSA key on the curve P-384 in OpenSSH format, as `fedpact flower key` makes"
MONEY = ("currency", "per_payoff", "decimals")
TERMS = ("scenario", "samples_per_unit", "rounds")  # of a run, beside the money: its first entry says them
SIGNED_KINDS = (KEYS, SIGNED, TRAINED, VERIFIED, MEASURED, SETTLED, FAILED)  # entries that hold signatures
OWN_PARTS = {  # of what a member signs of its own doing, and how it is called in what others read
    "delivery": (("round", "samples", "update"), "what it delivered in round {}"),
    "verification": (
        ("models", "accuracies", "samples"),
        "what it measured of the models made of subsets of the updates",
    ),
    "accuracy": (("models", "accuracies", "samples"), "what it measured of the model"),
}


# Keys


@dataclass(frozen=True, eq=False)
class SigningKey:
    """A member's private key."""

    private: EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, in OpenSSH format without a comment."""
        formats = _cryptography().serialization
        public = self.private.public_key()
        return public.public_bytes(formats.Encoding.OpenSSH, formats.PublicFormat.OpenSSH).decode()

    def sign(self, document: Mapping[str, Any]) -> str:
        """The signature of a document."""
        return self.sign_bytes(PURPOSE + canonical_json(document))

    def sign_bytes(self, content: bytes) -> str:
        """The signature of bytes, which say themselves what they are for."""
        return self.private.sign(content, _cryptography().algorithm).hex()

    def private_bytes(self) -> bytes:
        """The private key, in OpenSSH format."""
        formats = _cryptography().serialization
        return self.private.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.OpenSSH, formats.NoEncryption())


def document_digest(document: Mapping[str, Any]) -> str:
    """A number for a document."""
    return hashlib.sha256(PURPOSE + canonical_json(document)).hexdigest()


def is_signed_by(public: Any, document: Mapping[str, Any], signature: Any) -> bool:
    """Whether a signature is that of a document by the owner of a public key."""
    return is_signature(public, PURPOSE + canonical_json(document), signature)


def is_signature(public: Any, content: bytes, signature: Any) -> bool:
    """Whether a signature is that of bytes by the owner of a public key; whatever is not one is none."""
    package = _cryptography()
    if not isinstance(signature, str) or not isinstance(public, str):
        return False
    try:
        _public_key(plain_key(public)).verify(bytes.fromhex(signature), content, package.algorithm)
    except (package.InvalidSignature, InvalidInput, ValueError):
        return False
    return True


def plain_key(text: Any) -> str:
    """A public key without its comment, checked."""
    if not isinstance(text, str) or len(text) > MAX_KEY_LENGTH:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}")
    plain = " ".join(text.split()[:2])
    _public_key(plain)
    return plain


@lru_cache(maxsize=256)
def _public_key(text: str) -> EllipticCurvePublicKey:
    package = _cryptography()
    try:
        found: EllipticCurvePublicKey = package.serialization.load_ssh_public_key(text.encode())
    except (ValueError, package.UnsupportedAlgorithm) as error:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}") from error
    if not isinstance(found, package.ec.EllipticCurvePublicKey) or found.curve.name != CURVE:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}")
    return found


def new_signing_key() -> SigningKey:
    """A key that nobody has had before."""
    curves = _cryptography().ec
    return SigningKey(curves.generate_private_key(curves.SECP384R1()))


def read_signing_key(path: Path) -> SigningKey:
    """The private key in a file."""
    with error_context(str(path)):
        return parse_signing_key(read_bytes(path))


def parse_signing_key(content: bytes) -> SigningKey:
    """The private key in a text in OpenSSH format."""
    package = _cryptography()
    try:
        found = package.serialization.load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, package.UnsupportedAlgorithm) as error:
        raise InvalidInput(f"a member's key {KEY_RULE}, without a passphrase: {error}") from error
    if not isinstance(found, package.ec.EllipticCurvePrivateKey) or found.curve.name != CURVE:
        raise InvalidInput(f"a member's key {KEY_RULE}")
    return SigningKey(found)


def write_signing_key(path: Path, *, name: str = "") -> SigningKey:
    """Make a key: the private one goes to `path`, which nobody else may read, the public one to `path`.pub.

    `name` is whose key it is, the comment of the public one. Keys that are there are not replaced.
    """
    key, public = new_signing_key(), path.with_name(path.name + ".pub")
    comment = " ".join(name.split())
    with error_context(str(path)):
        for file, text, mode in (
            (path, key.private_bytes(), PRIVATE),
            (public, f"{key.public} {comment}".rstrip().encode(), 0o644),
        ):
            try:
                with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
                    opened.write(text.rstrip() + b"\n")
            except FileExistsError as error:
                raise InvalidInput(f"{file.name} exists already; keys are not replaced: name another file") from error
            except OSError as error:
                raise InvalidInput(f"{file.name} cannot be written: {error.strerror}") from error
    return key


@dataclass(frozen=True, kw_only=True)
class KnownKeys:
    """Public keys that are known from elsewhere, by the names of the members in their comments."""

    by_name: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether there are any."""
        return bool(self.by_name)


def read_known_keys(path: Path) -> KnownKeys:
    """Public keys in a file, one per line, or in the .pub files of a folder.

    Whose key it is its comment says, the member's name: `ecdsa-sha2-nistp384 AAAA... University`. A key without one is
    an error: a number in a file's name would be whoever a ledger lists at that number.
    """
    by_name: dict[str, str] = {}
    for file in sorted(path.glob("*.pub")) if path.is_dir() else [path]:
        with error_context(str(file)):
            for line in filter(str.strip, read_bytes(file).decode(errors="replace").splitlines()):
                key, name = plain_key(line), " ".join(line.split()[2:])
                if not name:
                    raise InvalidInput("a public key must end in the name of the member it belongs to")
                if by_name.setdefault(name, key) != key:
                    raise InvalidInput(f'there are two keys of "{name}"; keep the right one')
    if not by_name:
        raise InvalidInput(f"{path}: there is no public key in it; members' keys are files that end in .pub")
    return KnownKeys(by_name=by_name)


def _cryptography() -> SimpleNamespace:
    """What is used of the package cryptography, an extra that is imported where somebody signs."""
    try:
        from cryptography import exceptions  # noqa: PLC0415 - optional dependency
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("What checks signatures", "signatures") from error
    return SimpleNamespace(
        InvalidSignature=exceptions.InvalidSignature,
        UnsupportedAlgorithm=exceptions.UnsupportedAlgorithm,
        algorithm=ec.ECDSA(hashes.SHA384()),
        serialization=serialization,
        ec=ec,
    )


# Documents


def key_document(run: str, name: str, index: int, key: str) -> dict[str, Any]:
    """That a key is a member's in this run."""
    return {"about": "key", "run": run, "name": name, "place": index, "key": key}


def deal_document(entries: Sequence[Entry], agreed: Entry) -> dict[str, Any]:
    """The deal that all members sign, by its entry, the ledger's first and the keys that were fixed before it."""
    content, header, keys = agreed.content, entries[0].content, stated_keys(entries[: agreed.seq])
    deal, verification = content["deal"], content.get("verification")
    prices = deal.get("prices")
    members = [name for name in deal["agents"] if name not in deal["excluded"]]
    return {
        "about": "deal",
        "run": entries[0].hash,
        "head": agreed.hash,
        "mechanism": deal["mechanism"],
        "agents": list(deal["agents"]),
        "excluded": sorted(deal["excluded"]),
        "contributions": list(deal["contributions"]),
        "payments": list(deal["payments"]),
        "side_payments": list(deal.get("side_payments") or [0.0] * len(deal["agents"])),
        "prices": None if not prices else [prices_digest(row) for row in prices],
        "keys": {name: keys[name] for name in members if name in keys},
        "money": {part: header.get(part) for part in MONEY},
        **{part: header.get(part) for part in TERMS},
        **({"models": header["models"]} if "models" in header else {}),
        **({} if verification is None else {"verification": verification_terms(verification)}),
    }


def verification_terms(stated: Any) -> dict[str, Any]:
    """What members sign of how delivery is verified, and whether that is what is paid for; the calibration's digest."""
    if not isinstance(stated, Mapping):
        raise InvalidInput(f"a deal's verification must say its terms, got {short_repr(stated)}")
    calibration = stated.get("calibration")
    digest = None if calibration is None else hashlib.sha256(canonical_json(calibration)).hexdigest()
    return {"subsets": stated.get("subsets"), "settles": stated.get("settles"), "calibration": digest}


def settles_by_delivery(document: Mapping[str, Any]) -> bool:
    """Whether what arrived in effect is what is paid for under a deal."""
    terms = document.get("verification")
    return isinstance(terms, dict) and terms.get("settles") is True


def prices_digest(row: Sequence[float]) -> str:
    """A number for a member's prices, which only it and the coordinator see."""
    return hashlib.sha256(canonical_json({"prices": list(row)})).hexdigest()


def statement_document(
    deal: Mapping[str, Any],
    name: str,
    *,
    prices: Sequence[float] | None,
    utility: float | None,
    claims: Sequence[str],
    wants: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A member's own part of a deal's document: its prices, the utility it was told, what it has checked.

    Where members have models of their own, also whose updates it wants.
    """
    own: dict[str, Any] = {"prices": None if prices is None else list(prices), "utility": utility}
    own |= {"claims": list(claims)} | ({} if wants is None else {"wants": list(wants)})
    return {"about": "statement", "run": deal["run"], "deal": document_digest(deal), "name": name, **own}


def own_document(
    about: str, deal: Mapping[str, Any], name: str, said: Mapping[str, Any], *, head: str | None = None
) -> dict[str, Any]:
    """What a member has delivered in a round, or measured; measurements name the `head` they are made for."""
    parts = {part: said.get(part) for part in OWN_PARTS[about][0]} | ({} if head is None else {"head": head})
    return {"about": about, "run": deal["run"], "deal": document_digest(deal), "name": name, **parts}


def own_statement_words(document: Mapping[str, Any]) -> str | None:
    """What a node remembers its own statement by, "what it delivered in round 3"; None of what all sign alike."""
    about = OWN_PARTS.get(str(document["about"]))
    return None if about is None else about[1].format(document.get("round"))


def settlement_document(
    deal: Mapping[str, Any],
    head: str,
    delivered: Mapping[str, float],
    cents: Mapping[str, int],
    shares: Sequence[Sequence[float | None]] | None = None,
) -> dict[str, Any]:
    """What was delivered, in units of contribution, and what everybody is paid; the shares that are paid for, if so."""
    paid: dict[str, Any] = {"delivered": dict(delivered), "cents": dict(cents)}
    if shares is not None:
        paid["paid_shares"] = [list(row) for row in shares]
    return {"about": "settlement", "run": deal["run"], "head": head, "deal": document_digest(deal), **paid}


# What is signed on a ledger


def stated_keys(entries: Sequence[Entry]) -> dict[str, str]:
    """Members' public keys by name, as a ledger states them; the first one of a member counts."""
    found: dict[str, str] = {}
    for entry in entries:
        for name, stated in entry.content["keys"].items() if entry.kind == KEYS else ():
            found.setdefault(name, stated["key"])
    return found


def stated_model(trained: Mapping[str, Any], name: str) -> dict[str, Any]:
    """File and digests of a member's model, by a ledger's entry of the training: of its own, or of the one of all."""
    return dict(trained["models"].get(name, {}) if "models" in trained else trained["model"])


def signed_delivery(document: Mapping[str, Any], deliveries: Any) -> dict[str, float]:
    """What each member has delivered, in units of contribution, by what it has signed; nothing else counts.

    Of less than one agreed sample nothing is delivered, except where a deal names no prices to leave it out by. It is
    an error if a round is missing or doubled, more is counted than agreed, or a signature is not its member's.
    """
    counts = whole_samples(document["contributions"], document["samples_per_unit"])
    listed = deliveries if isinstance(deliveries, dict) else {}
    strangers = [name for name in listed if name not in document["keys"]]
    if strangers:
        raise InvalidInput(f'"{strangers[0]}" is not in the deal and cannot deliver')
    found = {}
    for index, name in enumerate(document["agents"]):
        if name in document["keys"]:
            agreed, contribution = int(counts[index]), float(document["contributions"][index])
            samples = _signed_samples(document, name, agreed, listed.get(name))
            share = sum(samples) / (agreed * len(samples)) if samples else 0.0
            is_whole = share == 1.0 or (not agreed and document["prices"] is None)
            found[name] = contribution if is_whole else share * contribution
    return found


def _signed_samples(document: Mapping[str, Any], name: str, agreed: int, listed: Any) -> list[int]:
    """A member's samples in each round, checked."""
    rounds, samples = [], []
    for delivery in listed if isinstance(listed, list) else []:
        said = delivery if isinstance(delivery, dict) else {}
        signed = own_document("delivery", document, name, said)
        if not is_signed_by(document["keys"][name], signed, said.get("signature")):
            raise InvalidInput(f'"{name}" has not signed what it is said to have delivered')
        if type(said["samples"]) is not int or not 0 <= said["samples"] <= agreed:
            raise InvalidInput(f'"{name}" agreed to {agreed} samples, and {short_repr(said["samples"])} are counted')
        rounds.append(said["round"])
        samples.append(said["samples"])
    wanted = document["rounds"] if agreed else 0
    if len(rounds) != wanted or rounds != list(range(1, len(rounds) + 1)):
        raise InvalidInput(f'"{name}" has not signed what it delivered in each of {document["rounds"]} rounds')
    return samples


def signed_subsets(
    document: Mapping[str, Any], deliveries: Mapping[str, Any], *, most: int | None = None
) -> list[list[str]]:
    """Of which members' updates the models are made that members measure, at most so many, as updates decide."""
    listed = [name for name in document["agents"] if deliveries.get(name)]
    digests = {name: [str(each["update"]) for each in deliveries[name]] for name in listed}
    count = document["verification"]["subsets"]
    count = count if most is None else min(count, most)
    return draw_subsets(digests, count, salt=document_digest(document)) if digests else []


def _own_statements(document: Mapping[str, Any], entry: Entry) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """What an entry says each member has delivered or measured: name, document and signature."""
    content = entry.content
    if entry.kind in (TRAINED, FAILED):
        for name, listed in content.get("deliveries", {}).items():
            for delivery in listed:
                yield name, own_document("delivery", document, name, delivery), delivery.get("signature")
    elif entry.kind == MEASURED:
        for name, said in content["accuracies"].items():
            if said.get("accuracy") is not None:
                measured = {
                    "models": [said.get("model")],
                    "accuracies": [said["accuracy"]],
                    "samples": said.get("samples"),
                }
                made = own_document("accuracy", document, name, measured, head=entry.previous)
                yield name, made, said.get("signature")
    else:
        models, signatures = content["models"], content.get("signatures") or {}
        for name in dict.fromkeys(name for model in models for name in model["accuracies"]):
            scores = [model["accuracies"].get(name, {}) for model in models]
            told, sizes = ([score.get(part) for score in scores] for part in ("accuracy", "samples"))
            if any(accuracy is not None for accuracy in told):
                if any(size != sizes[0] for size in sizes):
                    raise InvalidInput(f'"{name}" has signed one number of samples, and several are stated for it')
                digests = [model.get("model") for model in models]
                measured = {"models": digests, "accuracies": told, "samples": sizes[0]}
                made = own_document("verification", document, name, measured, head=entry.previous)
                yield name, made, signatures.get(name)


@dataclass(frozen=True, kw_only=True)
class SignedPart:
    """A document that a member has signed, or is said to have; `entry` is the index of what holds the signature."""

    entry: int
    kind: str
    about: str
    name: str
    digest: str
    signature: Any
    holds: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class SignedDeal:
    """A deal on a ledger, up to the next one or to where it failed: its document, and what is signed under it.

    `entries` are the deal's own and those that follow it, by kind; `ledger` all of them. `signed` is the document as
    somebody knows it who was not shown the deal's own entry, which holds everybody's prices.
    """

    ledger: Sequence[Entry]
    entries: dict[str, Entry] = field(default_factory=dict)
    signed: dict[str, Any] | None = None
    _parts: dict[int, list[SignedPart]] = field(default_factory=dict)

    @cached_property
    def document(self) -> dict[str, Any]:
        """What everybody signs of the deal."""
        if self.signed is not None:
            return self.signed
        if AGREED not in self.entries:
            raise InvalidInput("there is no deal before it")
        return deal_document(self.ledger, self.entries[AGREED])

    @property
    def members(self) -> list[str]:
        """Who is in the deal."""
        return [name for name in self.document["agents"] if name not in self.document["excluded"]]

    def delivered(self) -> dict[str, float]:
        """What members have signed to have delivered (`signed_delivery`)."""
        if TRAINED not in self.entries:
            raise InvalidInput("it is settled without having been trained")
        return signed_delivery(self.document, self.entries[TRAINED].content["deliveries"])

    def check_entry(self, entry: Entry) -> None:
        """Raise `InvalidInput` unless members have signed all that an entry says, and under a deal they have signed."""
        faults = [
            f"the {part.about} "
            f'{"does not bear the signature of" if part.signature else "is not signed by"} "{part.name}"'
            for part in self.signed_parts(entry)
            if not part.holds
        ]
        if not faults and entry.kind in (TRAINED, VERIFIED, MEASURED, SETTLED) and SIGNED not in self.entries:
            faults = ["it was written under a deal that nobody has signed"]
        faults = faults or list(self._faults(entry))
        if faults:
            raise InvalidInput("; ".join(faults))

    def _faults(self, entry: Entry) -> Iterator[str]:
        """What is wrong with an entry all of whose signatures hold."""
        if entry.kind in (KEYS, FAILED):
            return
        content, document = entry.content, self.document
        if entry.kind == SIGNED:
            keys, signatures, members = document["keys"], content["signatures"], self.members
            yield from (f'no key is stated for "{name}"' for name in members if name not in keys)
            yield from (f'it is not signed by "{name}"' for name in members if name not in signatures)
            yield from (f'"{name}" is not in the deal' for name in signatures if name not in members)
            if AGREED in self.entries and self.entries[AGREED].content["deal"].get("lot_owners") is not None:
                yield "the deal states lots of data, and what members sign knows one number for each of them"
        elif entry.kind == TRAINED:
            self.delivered()  # raises where a round is missing, or more is counted than agreed
        elif entry.kind == VERIFIED:
            if TRAINED not in self.entries or "verification" not in document:
                yield "the deal does not say that it is verified, or nothing was trained"
            else:
                models, deliveries = content["models"], self.entries[TRAINED].content["deliveries"]
                decided = signed_subsets(document, deliveries, most=len(models) + 1)  # the deal may state any number
                if [model.get("subset") for model in models] != decided:
                    yield "the models are not made of the subsets that members' updates decide"
        elif entry.kind == MEASURED:
            trained = self.entries[TRAINED].content if TRAINED in self.entries else {"models": {}}
            told = {name: said.get("model") for name, said in content["accuracies"].items() if "signature" in said}
            others = [name for name, model in told.items() if model != stated_model(trained, name).get("arrays")]
            yield from (f'"{name}" has measured another model than the one trained' for name in others)
        elif entry.kind == SETTLED:
            if settles_by_delivery(document) != ("paid_shares" in content):
                yield "it is not settled by what the deal says is paid for"
            if not content["signatures"]:
                yield "nobody has confirmed the settlement"

    def signed_parts(self, entry: Entry) -> Sequence[SignedPart]:
        """Every document that an entry says a member has signed, made anew, and whether it bears the signature."""
        if entry.seq not in self._parts:
            stated = entry.content["keys"] if entry.kind == KEYS else {}
            self._parts[entry.seq] = [
                SignedPart(
                    entry=entry.seq,
                    kind=entry.kind,
                    about=str(made["about"]),
                    name=name,
                    digest=document_digest(made),
                    signature=signature,
                    holds=is_signed_by(
                        stated[name]["key"] if stated else self.document["keys"].get(name), made, signature
                    ),
                )
                for name, made, signature in self._documents(entry)
            ]
        return self._parts[entry.seq]

    def _documents(self, entry: Entry) -> Iterator[tuple[str, dict[str, Any], Any]]:
        """Who is said to have signed what: name, document and signature."""
        content, kind = entry.content, entry.kind
        signatures = content.get("signatures") or {}
        if kind not in SIGNED_KINDS or (kind == FAILED and AGREED not in self.entries):
            return
        if kind == KEYS:
            for name, stated in content["keys"].items():
                made = key_document(self.ledger[0].hash, name, stated["place"], stated["key"])
                yield name, made, stated.get("signature")
        elif kind == SETTLED or (kind == FAILED and content.get("phase") == SETTLE and signatures):
            shares = content.get("paid_shares")
            made = settlement_document(self.document, entry.previous, self.delivered(), content["cents"], shares)
            yield from ((name, made, signature) for name, signature in signatures.items())
        elif kind in (SIGNED, FAILED):
            for name, said in signatures.items():
                if kind == FAILED or name in self.members:
                    yield name, self.document, said.get("signature")
                    yield name, self._statement(name, said), said.get("own_signature")
        if kind in (TRAINED, VERIFIED, MEASURED, FAILED):
            yield from _own_statements(self.document, entry)

    def _statement(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """A member's own part of the deal, as the ledger states it."""
        agreed, index = self.entries[AGREED].content, self.document["agents"].index(name)
        prices = agreed["deal"].get("prices")
        return statement_document(
            self.document,
            name,
            prices=prices[index] if prices else None,
            utility=agreed["utilities"].get(name),
            claims=said.get("claims") or [],
            wants=said.get("wants"),
        )


def signed_deals(ledger: Sequence[Entry]) -> list[SignedDeal]:
    """The deal that each entry of a ledger stands under; one without entries where there is none."""
    found, under = [], SignedDeal(ledger=ledger)
    for entry in ledger:
        if entry.kind == AGREED:
            under = SignedDeal(ledger=ledger)
        if entry.kind == AGREED or AGREED in under.entries:
            under.entries[entry.kind] = entry
        found.append(under)
        if is_end(entry):
            under = SignedDeal(ledger=ledger)
    return found


def last_deal(deals: Sequence[SignedDeal]) -> SignedDeal:
    """The last deal of a ledger (`signed_deals`), which may have failed; one without entries where there is none."""
    return next((under for under in reversed(deals) if AGREED in under.entries), SignedDeal(ledger=()))


def read_receipt(path: Path) -> dict[str, Any]:
    """What a member has written down of what it has signed last."""
    with error_context(str(path)):
        receipt = decode_json(read_text(path))
        for key in ("name", "run", "head", "about", "digest"):
            if not isinstance(receipt, dict) or not isinstance(receipt.get(key), str):
                raise InvalidInput(f"a receipt must say its {key}; nodes write it, as receipt.json")
        listed = receipt.get("statements", {})
        if not isinstance(listed, dict) or not all(isinstance(of_deal, dict) for of_deal in listed.values()):
            raise InvalidInput("a receipt must list what was signed by deal; nodes write it, as receipt.json")
    return dict(receipt)
