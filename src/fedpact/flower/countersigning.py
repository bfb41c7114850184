"""One deal for all: how a node checks the document that everybody signs, and that everybody has signed the same.

The document holds all contributions and payments, a digest of everybody's prices, and the members' keys. Before it
signs a node checks that the document is of the run it was called to, that it can be settled in whole cents that sum
to zero, that its own prices and key are in it, that the keys it knows from elsewhere are the ones stated, and that
its own part follows from its private file (`fedpact.flower.statement`). Then it is shown everybody's signature.
Whoever was shown another deal has signed another document, so a coordinator that tells members different things is
found by every one of them before anybody trains. A coordinator could also make up keys and sign for others: only a
node that knows their keys can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedpact.deals import Deal
from fedpact.deals.ledger import FAILED, KEYS, MEASURED, SIGNED, TRAINED, VERIFIED, Entry, chained_entries
from fedpact.deals.settlement import settle_payments
from fedpact.deals.signatures import (
    KnownKeys,
    document_digest,
    is_signed_by,
    own_statement_words,
    own_statements,
    plain_key,
    prices_digest,
    signed_delivery,
)
from fedpact.fitting.delivery import Calibration
from fedpact.flower.delivery_check import check_verification_terms
from fedpact.flower.statement import OwnPart, Refused, Seat, read_own_part
from fedpact.utils.errors import InvalidInput, short_repr

KEYS_CLAIM, BALANCE_CLAIM = "keys", "balance"
CENT = 1  # how far rounding may move a payment, in cents
MONEY_ROUNDING = 1e-9  # of the money that changes hands


def check_document(
    seat: Seat,
    asked: Mapping[str, Any],
    *,
    run: str,
    key: str,
    known: KnownKeys,
    samples_per_unit: float,
    own_part: Callable[[OwnPart], list[str]],
    calibration: Calibration | None = None,
) -> list[str]:
    """Check the document of a deal, and what is said to this member alone; the claims that were checked.

    Parameters
    ----------
    asked
        The `document`, and of this member `place`, `prices` and `utility`.
    run, key
        The run it was called to, and its own public key.
    known
        Keys of others that it knows from elsewhere.
    own_part
        Checks the node's own part of the deal (`fedpact.flower.statement`); it says which claims, or raises `Refused`.
    calibration
        The calibration that it knows from elsewhere, for deals that are settled by what arrived.

    Raises
    ------
    Refused
        With the first claim that does not hold.
    """
    document = asked.get("document")
    if not isinstance(document, dict) or document.get("about") != "deal":
        raise Refused("there is no deal to sign in what was asked")
    if document.get("run") != run:
        raise Refused("run: the deal is of another run than the one this node was called to")
    if document.get("samples_per_unit") != samples_per_unit:
        unit = short_repr(document.get("samples_per_unit"))
        raise Refused(f"samples_per_unit must be {samples_per_unit:g}, got {unit}")
    if type(document.get("rounds")) is not int or document["rounds"] < 1:
        raise Refused(f"rounds must be a whole number of at least 1, got {short_repr(document.get('rounds'))}")
    part = read_own_part(asked, seat)
    claims = own_part(part)
    _check_prices_digest(seat, asked, document)
    _check_balance(part.deal, document["money"])
    verified = check_verification_terms(document, asked.get("calibration"), calibration)
    complete = _check_keys(seat, document, key, known)
    return [*claims, BALANCE_CLAIM, *verified, *([KEYS_CLAIM] if complete else [])]


def check_everybody_signed(document: Mapping[str, Any], signatures: Any) -> None:
    """That every member has signed this very document.

    Raises
    ------
    Refused
        With the first that has not.
    """
    for name, key in document["keys"].items():
        given = signatures.get(name) if isinstance(signatures, dict) else None
        if not isinstance(given, str) or not given:
            raise Refused(f'there is no signature of "{name}" on the deal')
        if not is_signed_by(key, document, given):
            raise Refused(
                f'"{name}" has not signed the deal that this node has signed: members were shown different ones'
            )


def entries_since_deal(document: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Entry]:
    """The ledger's entries from the deal to where it is to be settled, by kind.

    The deal that the node has signed names the entry before them, and what it is to sign the last of them: so they are
    those of the ledger that its signature will stand in.

    Raises
    ------
    Refused
        If they are not chained from one to the other, or not those of one training.
    """
    try:
        shown = chained_entries(asked.get("entries"), after=document["head"])
    except InvalidInput as reason:
        raise Refused(f"the ledger's entries since the deal: {reason}") from reason
    if not shown or shown[-1].hash != asked.get("head"):
        raise Refused("the ledger's entries since the deal are not shown up to where it is to be settled")
    kinds = [entry.kind for entry in shown if entry.kind not in (KEYS, FAILED)]
    if kinds not in ([SIGNED, TRAINED, MEASURED], [SIGNED, TRAINED, VERIFIED, MEASURED]):
        raise Refused(f"the ledger's entries since the deal are not those of one training: {', '.join(kinds)}")
    return {entry.kind: entry for entry in shown}


def check_own_statements(
    name: str, document: Mapping[str, Any], statements: Mapping[str, str], entries: Iterable[Entry]
) -> None:
    """That what a member has signed is in the ledger, with its signature, as it was signed.

    Parameters
    ----------
    statements
        The digest of each, by its key (`own_statement_key`).

    Raises
    ------
    Refused
        With the first that is not.
    """
    try:
        held = {
            document_digest(made)
            for entry in entries
            for whose, made, signature in own_statements(document, entry)
            if whose == name and is_signed_by(document["keys"][name], made, signature)
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the ledger's entries since the deal do not hold what they must: {error!r:.80}") from error
    for key, digest in statements.items():
        if digest not in held:
            raise Refused(f"the ledger lacks or changes {own_statement_words(key)}, which this node has signed")


def check_settlement(
    place: int,
    document: Mapping[str, Any],
    prices: Sequence[float] | None,
    asked: Mapping[str, Any],
    entries: Mapping[str, Entry],
) -> dict[str, float]:
    """Check a member's cents against what all have delivered; what was delivered, in units of contribution.

    Raises
    ------
    Refused
        If a delivery is not signed by whom it is of, or the cents are not those due.
    """
    try:
        delivered = signed_delivery(document, entries[TRAINED].content.get("deliveries"))
    except InvalidInput as reason:
        raise Refused(str(reason)) from reason
    stated = asked.get("delivered")
    if stated != delivered:
        raise Refused(f"what was delivered is {short_repr(delivered)} by what members signed, not {short_repr(stated)}")
    cents, name, money = asked.get("cents"), document["agents"][place], document["money"]
    whole = (
        isinstance(cents, dict) and list(cents) == document["agents"] and all(type(c) is int for c in cents.values())
    )
    if not isinstance(cents, dict) or not whole or sum(cents.values()):
        raise Refused("cents must be whole, one number per member, and sum to zero")
    agreed, payment = document["contributions"], float(document["payments"][place])
    short = [delivered.get(each, amount) - amount for each, amount in zip(document["agents"], agreed, strict=True)]
    if any(short):
        if prices is None:
            raise Refused("less was delivered than agreed, and the deal names no prices to pay the rest by")
        payment -= math.fsum(price * less for price, less in zip(prices, short, strict=True))
    turnover = abs(payment) + sum(abs(p * s) for p, s in zip(prices or [], agreed, strict=False))
    rate = money["per_payoff"] * 10 ** money["decimals"]
    if abs(cents[name] - payment * rate) > CENT + turnover * rate * MONEY_ROUNDING:
        raise Refused(f"{cents[name]} cents are not the {payment * rate:.2f} it has agreed to for what was delivered")
    return delivered


def _check_prices_digest(seat: Seat, asked: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    prices, digests = asked.get("prices"), document.get("prices")
    if (prices is None) != (digests is None):
        raise Refused("prices: this node's are not those of the deal")
    if prices is None or digests is None:
        return
    listed = isinstance(digests, list) and len(digests) == seat.size
    if not listed or digests[seat.place] != prices_digest(prices):
        raise Refused("prices: this node's are not those of the deal")


def _check_balance(deal: Deal, money: Mapping[str, Any]) -> None:
    """That everybody's payments, and what is fixed of them, can be settled in whole cents that sum to zero."""
    try:
        settle_payments(deal.payments, names=deal.agents, **money)
    except InvalidInput as reason:
        raise Refused(f"{BALANCE_CLAIM}: {reason}") from reason
    side = np.asarray(deal.side_payments)
    if abs(float(side.sum())) > MONEY_ROUNDING * float(np.abs(side).sum() + np.abs(deal.payments).sum()):
        raise Refused(f"{BALANCE_CLAIM}: side payments sum to {side.sum():+.3g}")


def _check_keys(seat: Seat, document: Mapping[str, Any], key: str, known: KnownKeys) -> bool:
    """That every member has a key of its own, and those known are the ones stated; whether all are known."""
    stated, members = document.get("keys"), [n for n in document["agents"] if n not in (document.get("excluded") or [])]
    if not isinstance(stated, dict) or sorted(stated) != sorted(members):
        raise Refused("keys: the deal must hold the key of every member")
    if stated.get(seat.name) != key:
        raise Refused("keys: the key stated for this node is not its own")
    if len(set(stated.values())) != len(stated):
        raise Refused("keys: two members have the same key")
    others = [name for name in members if name != seat.name]
    for name in others:
        try:
            plain_key(stated[name])
        except InvalidInput as reason:
            raise Refused(f'keys: of "{name}": {reason}') from reason
        expected = known.key_of(name, document["agents"].index(name))
        if known.is_given and expected != stated[name]:
            why = "this node does not know its key" if expected is None else "this node knows another key of it"
            raise Refused(f'keys: of "{name}": {why}')
    return known.is_given
