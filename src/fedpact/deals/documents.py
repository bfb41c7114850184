"""What members of a run sign, each a document of plain data that follows from the ledger alone.

| about          | who signs | what it binds                                                            |
|----------------|-----------|--------------------------------------------------------------------------|
| `key`          | each      | its name, place and public key to this run                               |
| `deal`         | all alike | contributions, payments, digests of prices, keys, money, rounds, scenario |
| `statement`    | each      | its own prices and utility, what it has checked, whose updates it wants  |
| `delivery`     | each      | the samples of a round, and the update it sent                           |
| `verification` | each      | what it measured of the models made of subsets of the updates            |
| `accuracy`     | each      | what it measured of the model                                            |
| `settlement`   | all alike | what was delivered, and everybody's cents                                |

`run` is the hash of the ledger's first entry, which holds a number drawn for the run: nothing signed in one run is of
use in another. `head` is the hash of the entry before the one that holds the signature, so that all entries up to there
are signed too. `deal` is the digest of the deal's document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from fedpact.deals.ledger import KEYS, Entry, canonical_json

MONEY = ("currency", "per_payoff", "decimals")
OWN_WORDS = {  # what a member signs of its own doing, as others read it
    "delivery": "what it delivered in round {}",
    "verification": "what it measured of the models made of subsets of the updates",
    "accuracy": "what it measured of the model",
}
TERMS = ("scenario", "samples_per_unit", "rounds")  # of a run, beside the money: its first entry says them


def key_document(run: str, name: str, place: int, key: str) -> dict[str, Any]:
    """That a key is a member's in this run."""
    return {"about": "key", "run": run, "name": name, "place": place, "key": key}


def deal_document(  # noqa: PLR0917 - the order of a ledger
    run: str,
    head: str,
    header: Mapping[str, Any],
    deal: Mapping[str, Any],
    keys: Mapping[str, str],
    verification: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The deal that all members sign.

    Parameters
    ----------
    head
        The hash of the ledger's entry of the deal.
    header
        What the first entry says of the run.
    deal
        The deal as the ledger holds it (`deal_record`).
    keys
        Public keys by name.
    verification
        How it is verified what was delivered, and whether that is what is paid for, as the deal's entry says it; None
        if it is not verified.
    """
    prices = deal.get("prices")
    members = [name for name in deal["agents"] if name not in deal["excluded"]]
    return {
        "about": "deal",
        "run": run,
        "head": head,
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


def verification_terms(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What members sign of the verification: of the calibration its digest."""
    calibration = stated.get("calibration")
    digest = None if calibration is None else hashlib.sha256(canonical_json(calibration)).hexdigest()
    return {"subsets": stated.get("subsets"), "settles": stated.get("settles"), "calibration": digest}


def deal_document_of(entries: Sequence[Entry], agreed: Entry) -> dict[str, Any]:
    """The document of a deal on a ledger, with the keys that were fixed before it."""
    first, before = entries[0], entries[: agreed.seq]
    content, keys = agreed.content, stated_keys(before)
    return deal_document(first.hash, agreed.hash, first.content, content["deal"], keys, content.get("verification"))


def stated_keys(entries: Sequence[Entry]) -> dict[str, str]:
    """Members' public keys by name, as a ledger states them; the first one of a member counts."""
    found: dict[str, str] = {}
    for entry in entries:
        for name, stated in entry.content["keys"].items() if entry.kind == KEYS else ():
            found.setdefault(name, stated["key"])
    return found


def prices_digest(row: Sequence[float]) -> str:
    """A number for a member's prices, which only it and the coordinator see."""
    return hashlib.sha256(canonical_json({"prices": list(row)})).hexdigest()


def statement_document(
    run: str,
    deal: str,
    name: str,
    *,
    prices: Sequence[float] | None,
    utility: float | None,
    claims: Sequence[str],
    wants: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A member's own part: its prices, the utility it was told, what it has checked, and whose updates it wants.

    The last only where members have models of their own.
    """
    own: dict[str, Any] = {"prices": None if prices is None else list(prices), "utility": utility}
    own |= {"claims": list(claims)} | ({} if wants is None else {"wants": list(wants)})
    return {"about": "statement", "run": run, "deal": deal, "name": name, **own}


def stated_model(trained: Mapping[str, Any], name: str) -> dict[str, Any]:
    """File and digests of a member's model, by a ledger's entry of the training: of its own, or of the one of all."""
    return dict(trained["models"].get(name, {}) if "models" in trained else trained["model"])


def delivery_document(run: str, deal: str, name: str, delivery: Mapping[str, Any]) -> dict[str, Any]:
    """What a member has delivered in a round."""
    given = {part: delivery.get(part) for part in ("round", "samples", "update")}
    return {"about": "delivery", "run": run, "deal": deal, "name": name, **given}


def accuracy_document(run: str, head: str, deal: str, name: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """What a member has measured of a model."""
    found = {part: measured.get(part) for part in ("model", "accuracy", "samples")}
    return {"about": "accuracy", "run": run, "head": head, "deal": deal, "name": name, **found}


def verification_document(run: str, head: str, deal: str, name: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """What a member has measured of models made of subsets of the updates, in their order."""
    found = {part: measured.get(part) for part in ("models", "accuracies", "samples")}
    return {"about": "verification", "run": run, "head": head, "deal": deal, "name": name, **found}


def own_statement_key(document: Mapping[str, Any]) -> str | None:
    """What a node remembers its own statement by, such as "delivery 3" or "accuracy"; None of what others sign too."""
    about = str(document["about"])
    if about not in OWN_WORDS:
        return None
    return f"{about} {document['round']}" if "round" in document else about


def own_statement_words(key: str) -> str:
    """What such a statement says, in words.

    Examples
    --------
    >>> own_statement_words("delivery 3")
    'what it delivered in round 3'
    """
    about, _, number = key.partition(" ")
    return OWN_WORDS.get(about, key).format(number)


def settlement_document(  # noqa: PLR0917 - the order of a ledger
    run: str,
    head: str,
    deal: str,
    delivered: Mapping[str, float],
    cents: Mapping[str, int],
    shares: Sequence[Sequence[float | None]] | None = None,
) -> dict[str, Any]:
    """What was delivered, in units of contribution, and what everybody is paid; the shares that are paid for, if so."""
    paid: dict[str, Any] = {"delivered": dict(delivered), "cents": dict(cents)}
    if shares is not None:
        paid["paid_shares"] = [list(row) for row in shares]
    return {"about": "settlement", "run": run, "head": head, "deal": deal, **paid}
