"""Ledgers of runs that no node was needed for: every member signs with a key made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fedpact as fp
from fedpact.deals import Ledger, settle
from fedpact.deals.deal_file import deal_from_record, deal_record
from fedpact.deals.ledger import AGREED, KEYS, MEASURED, SETTLED, SIGNED, TRAINED, VERIFIED
from fedpact.deals.settlement import money_terms
from fedpact.deals.signatures import (
    deal_document,
    key_document,
    new_signing_key,
    own_document,
    settlement_document,
    signed_delivery,
    signed_subsets,
    statement_document,
)
from fedpact.deals.updates import verified_content

MODEL = "the model trained"  # in place of its digest: no file is beside the ledger
Content = Mapping[str, Any]


def write_signed_ledger(
    path: Path,
    deal: fp.Deal | Content,
    *,
    money: fp.Money | None = None,
    per_unit: float = 1.0,
    used: Mapping[str, Sequence[int]] | None = None,
    measure: Any = None,
    accuracies: Content | None = None,
    until: str = SETTLED,
    subsets: int = 0,
    changed: Mapping[str, Content] | None = None,
) -> dict[str, Any]:
    """A ledger up to a phase, and the deal's document.

    `deal` may be unsound, as plain data; `used` are the samples of every round, all that was agreed in one if not
    given; `measure` says what members measure of a model of so many, by name, and of how many samples. Parts of
    entries are `changed` after they were signed.
    """
    record = dict(deal_record(deal) if isinstance(deal, fp.Deal) else deal)
    names, changed = list(record["agents"]), changed or {}
    keys = {name: new_signing_key() for name in names}
    terms = {"scenario": record.get("scenario"), "samples_per_unit": per_unit, **money_terms(money)}
    terms["rounds"] = max((len(each) for each in (used or {}).values()), default=1)
    with Ledger(path) as ledger:

        def note(kind: str, content: Content) -> Any:
            return ledger.append(kind, {**content, **changed.get(kind, {})})

        run = note("begun", {"agents": names, **terms}).hash
        proofs = {
            name: {"place": place, "key": key.public, "signature": key.sign(key_document(run, name, place, key.public))}
            for place, (name, key) in enumerate(keys.items())
        }
        note(KEYS, {"keys": proofs})
        verification = {"subsets": subsets, "settles": False, "calibration": None} if subsets else None
        agreed = note(AGREED, {"deal": record, "utilities": {}, **({"verification": verification} if subsets else {})})
        if until == AGREED:
            return {}
        document = deal_document(ledger.entries, agreed)
        signatures = {name: _signed(document, name, place, keys[name], record) for place, name in enumerate(names)}
        signatures = {name: said for name, said in signatures.items() if name in document["keys"]}
        note(SIGNED, {"signatures": signatures})
        if until == SIGNED:
            return document
        sound = deal_from_record(record)
        given = sound.samples(per_unit)
        samples = {name: list((used or {}).get(name, [count])) for name, count in given.items()}
        deliveries = {
            name: [
                said | {"signature": keys[name].sign(own_document("delivery", document, name, said))}
                for said in ({"round": r, "samples": n, "update": f"{name} {r}"} for r, n in enumerate(counts, 1))
            ]
            for name, counts in samples.items()
            if given[name]
        }
        note(TRAINED, {"deliveries": deliveries, "model": {"file": "model.npz", "sha256": "0", "arrays": MODEL}})
        if subsets:
            note(VERIFIED, _verified(document, deliveries, ledger.head, keys, measure))
        if until in (TRAINED, VERIFIED):
            return document
        found = {}
        for name, stated in (accuracies or {}).items():
            said = {"model": MODEL, **stated}
            parts = {"models": [MODEL], "accuracies": [said.get("accuracy")], "samples": said.get("samples")}
            signed = own_document("accuracy", document, name, parts, head=ledger.head)
            told = said.get("accuracy") is not None
            found[name] = {**said, **({"signature": keys[name].sign(signed)} if told else {})}
        note(MEASURED, {"accuracies": found})
        if until == MEASURED:
            return document
        delivered = signed_delivery(document, deliveries)
        due = settle(sound, money=money, delivered=[delivered.get(name, 0.0) for name in names], unchecked=True)
        cents = dict(zip(due.names, due.cents, strict=True))
        paid = settlement_document(document, ledger.head, delivered, cents)
        confirmed = {name: keys[name].sign(paid) for name in document["keys"]}
        note(SETTLED, {"cents": cents, "signatures": confirmed})
    return document


def _signed(document: Content, name: str, place: int, key: Any, record: Content) -> dict[str, Any]:
    prices = record.get("prices")
    own = statement_document(document, name, prices=prices[place] if prices else None, utility=None, claims=[])
    return {"claims": [], "signature": key.sign(document), "own_signature": key.sign(own)}


def _verified(document: Content, deliveries: Any, head: str, keys: Content, measure: Any) -> dict[str, Any]:
    """Models of the subsets that the updates decide, as members measure them."""
    subsets = signed_subsets(document, deliveries)
    models = [f"model {place}" for place in range(len(subsets))]
    said, signatures = {}, {}
    for name in document["keys"]:
        scores, samples = measure(subsets, name)
        said[name] = {"accuracies": scores, "samples": samples}
        parts = {"models": models, "accuracies": list(scores), "samples": samples}
        signatures[name] = keys[name].sign(own_document("verification", document, name, parts, head=head))
    return verified_content(subsets, models, said) | {"signatures": signatures}
