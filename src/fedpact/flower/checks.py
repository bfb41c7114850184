"""What a node checks before it signs: the deal, everybody's signatures on it, and the settlement.

**The deal.** Everybody signs one document: contributions, payments, a digest of everybody's prices, the members' keys.
A node checks that it is of the run it was called to, that it can be settled in whole cents that sum to zero, that its
own prices and key are in it, and that the keys it knows from elsewhere are the ones stated. From its private file it
knows its row of weights, its payoff, its cost and its cap, so it can tell whether

* its payment is what its prices come to, and in a fair deal its own side payment: p_i = -sum_j l_ij s_j + T_i,
* each price of another's data is what that data is worth to it at the margin: l_ij = a_i' w_ij,
* at these prices no other contribution of its own would be better for it (complementarity, its cap included),
* it gets at least the utility that the coordinator names, and at least what it asks for beyond training alone.

The first three make the profile its best one at its prices. A deal negotiated in sums names no prices: the node knows
what data is worth to it, and is to be paid its marginal cost for what it gives, less that. Whether a side payment is
the fairest follows from everybody's numbers: the report of the deal proves that. Under the Shapley mechanism payments
follow from everybody's rows, and what a node can check of them is its utility.

**The signatures.** Then it is shown everybody's. Whoever was shown another deal has signed another document, so a
coordinator that tells members different things is found by every one of them before anybody trains. A coordinator
could also make up keys and sign for others: only a node that knows their keys can tell.

**The settlement.** It is shown the ledger's entries since the deal. All that it has signed itself must be there as it
was signed, and its cents must be those due for what all have signed to have delivered. Where a deal is settled by what
arrived in effect, it names a calibration that members sign the digest of; then the node is shown everybody's prices,
which it holds to their digests, and works all payments out anew from what members measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_from_record, is_number
from fedpact.deals.ledger import FAILED, KEYS, MEASURED, SIGNED, TRAINED, VERIFIED, chained_entries
from fedpact.deals.settlement import check_terms, settle_payments, settle_run
from fedpact.deals.signatures import (
    SignedDeal,
    is_signed_by,
    plain_key,
    prices_digest,
    settles_by_delivery,
    verification_terms,
)
from fedpact.fitting.delivery import Calibration
from fedpact.flower.identity import OwnNode, Seat, logger
from fedpact.mechanisms.registry import mechanism_named
from fedpact.negotiation.agent import Agent
from fedpact.scenario.scenario import COMMON, PERSONAL
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr

ROUNDING = 1e-6  # of the prices, and of the payoff, costs and money involved: nearer numbers differ by rounding
MONEY_ROUNDING = 1e-9  # of the money that changes hands
CENT = 1  # how far rounding may move a payment, in cents
OWN_PART = ("place", "contributions", "money")  # claims that `check_own_part` checks
NUMBERS = ("mechanism", "agents", "contributions", "payments", "side_payments")  # of a document, beside who is out


class Refused(FedpactError):
    """Why a node does not sign; `details`, which may quote its private numbers, are for its own log alone."""

    def __init__(self, reason: str, *, details: str = "") -> None:
        super().__init__(reason)
        self.details = details


def _require(claim: str, holds: bool, reason: str, *, details: str = "") -> None:
    if not holds:
        raise Refused(f"{claim}: {reason}", details=details)


# The deal


def check_deal(own: OwnNode, seat: Seat, asked: Mapping[str, Any]) -> tuple[Deal, list[str]]:
    """Check the deal that a node is asked to sign, as far as it needs no private file; the deal and the claims checked.

    The first that fails is `Refused`. `asked` holds the `document`, and of this member alone `place`, `prices` and
    `utility`, and the `calibration` where it matters.
    """
    document, per_unit = asked.get("document"), own.samples_per_unit
    if not isinstance(document, dict) or document.get("about") != "deal":
        raise Refused("there is no deal to sign in what was asked")
    if "run" not in own.state or document.get("run") != own.state["run"]:
        raise Refused("run: the deal is of another run than the one this node was called to")
    stated: Any = document.get("samples_per_unit")
    if per_unit not in (None, stated) or not is_number(stated) or not stated > 0:
        rule = "positive" if per_unit is None else f"{per_unit:g}"
        raise Refused(f"samples_per_unit must be {rule}, got {short_repr(stated)}")
    if type(document.get("rounds")) is not int or document["rounds"] < 1:
        raise Refused(f"rounds must be a whole number of at least 1, got {short_repr(document.get('rounds'))}")
    deal = check_own_part(seat, asked)
    _check_prices_digest(seat, asked.get("prices"), document.get("prices"))
    _check_balance(deal, document["money"])
    verification = _check_verification(document, asked.get("calibration"), own.calibration)
    return deal, [*OWN_PART, "balance", *verification, *_check_keys(own, seat, document)]


def deal_of_document(document: Mapping[str, Any]) -> Deal:
    """The deal in a document that members sign, without the prices, which it holds digests of."""
    try:
        out = dict.fromkeys(document.get("excluded") or [], "out of the deal")
        return deal_from_record({key: document.get(key) for key in NUMBERS} | {"excluded": out})
    except (InvalidInput, TypeError) as reason:
        raise Refused(str(reason)) from reason


def check_own_part(seat: Seat, asked: Mapping[str, Any]) -> Deal:
    """Check that a node's own part of a deal is one (`OWN_PART`); the deal."""
    document, index, prices, utility = (asked.get(key) for key in ("document", "place", "prices", "utility"))
    assert isinstance(document, dict)
    _require("place", type(index) is int and index == seat.index, f"it is not at place {short_repr(index)}")
    names = document.get("agents")
    listed = isinstance(names, list) and len(names) == seat.size and names[seat.index] == seat.name
    _require("place", listed, f"the members are not {seat.size} with {seat.name!r} at place {seat.index}")
    deal = deal_of_document(document)
    given_by_absent = np.delete(deal.contributions, deal.members).any()
    _require("contributions", not given_by_absent, "somebody who is out would contribute")
    try:
        check_terms(document.get("money"))
    except InvalidInput as reason:
        raise Refused(f"money: {reason}") from reason
    listed = isinstance(prices, list) and len(prices) == seat.size and all(map(is_number, prices))
    if prices is not None and not listed:
        raise Refused(f"prices must be {seat.size} finite numbers, got {short_repr(prices)}")
    strays = np.delete(prices or np.zeros(seat.size), deal.members).any()
    _require("prices", not strays, "they name one for the data of somebody who is out")
    if utility is not None and not is_number(utility):
        raise Refused(f"utility must be a finite number, got {short_repr(utility)}")
    return deal


def check_by_private_file(
    agent: Agent, deal: Deal, *, prices: Sequence[float] | None, utility: float | None, least_gain: float | None
) -> list[str]:
    """Check payment, prices, own contribution and utility, in this order; the claims that were checked.

    A mechanism that it does not know is refused. Where payments follow from everybody's numbers it can check none, says
    so in its log, and goes by its utility and its least gain.

    `least_gain` is what it wants beyond the utility of training alone, in units of payoff; None if it takes any deal. A
    refusal quotes what the coordinator has stated, and none of the node's own numbers.
    """
    index, [cap], profile = agent.index, agent.caps, deal.contributions
    payment, side = float(deal.payments[index]), float(np.asarray(deal.side_payments)[index])
    fits = bool(profile[index] <= cap * (1.0 + ROUNDING))
    _require("contributions", fits, "its own is more than its cap", details=f"{profile[index]:g} of {cap:g}")
    try:
        rules = mechanism_named(deal.mechanism)
    except InvalidInput:
        raise Refused(f"mechanism: it knows none called {short_repr(deal.mechanism)}") from None
    no_side = side == 0.0 or rules.has_side_payments
    _require("payment", no_side, f"{side:.9g} beside the prices is not for these rules")
    answer = agent.answer_stranger({"number": 0, "kind": "prices", "contributions": profile.tolist()})
    said = answer["tasks"][0] | answer["lots"][0]
    _require("contributions", "payoff" in said, "its payoff is not defined there")
    worth, claims = np.array(said["prices"]), []
    turnover = abs(payment) + float((np.abs(worth) * profile).sum())
    if not rules.has_prices:
        logger.info("payments under %s follow from everybody's numbers: it checks its gain alone", rules.name)
    elif prices is None:  # what it is paid at the margin makes its own contribution its best one
        _check_unpriced(agent, profile, worth, said, payment - side)
        claims = ["payment", "own contribution"]
    else:
        row = np.array(prices, dtype=np.float64)
        _check_prices(agent, profile, row, worth, payment, side)
        turnover = float((np.abs(row) * profile).sum())
        gain, scale = _own_gain(agent, profile, said, row), abs(said["payoff"]) + said["cost"] + turnover
        _require("own contribution", gain <= ROUNDING * scale, "another one would be better for it")
        claims = ["payment", "prices", "own contribution"]
    scale = abs(said["payoff"]) + said["cost"] + turnover
    found = said["payoff"] - said["cost"] + payment
    enough = utility is None or found >= utility - ROUNDING * scale
    _require("utility", enough, "it is less than the one named", details=f"{found:.9g}, and {utility} is named")
    if least_gain is not None:
        gain = found - agent.standalone
        enough = gain >= least_gain - ROUNDING * scale
        _require("least gain", enough, "it asks for more", details=f"{gain:.9g}, and it asks for {least_gain:g}")
    return [*claims, "utility", *(["least gain"] if least_gain is not None else [])]


def _check_prices(  # noqa: PLR0917 - the numbers of one member
    agent: Agent, profile: FloatArray, prices: FloatArray, worth: FloatArray, payment: float, side: float
) -> None:
    """That it is paid by its prices, and pays for data what that is worth to it."""
    turnover = float((np.abs(prices) * profile).sum())
    due = side - float(prices @ profile)
    beside = f" and {side:.9g} beside" if side else ""
    close = abs(payment - due) <= ROUNDING * (turnover + abs(side))
    _require("payment", close, f"it is {payment:.9g}, by its prices{beside} {due:.9g}")
    others = (np.arange(agent.n_agents) != agent.index) & (profile > 0.0)  # nothing is paid for what nobody gives
    highest = float(np.abs(worth).max() + np.abs(prices).max())
    fits = bool((np.abs(prices - worth)[others] <= ROUNDING * highest).all())
    _require("prices", fits, "they are not what the data is worth to it at the margin")


def _check_unpriced(
    agent: Agent, profile: FloatArray, worth: FloatArray, said: Mapping[str, Any], payment: float
) -> None:
    """That it is paid its marginal cost for what it gives, more only at its cap, less what all data is worth to it."""
    own, value = float(profile[agent.index]), float(worth @ profile)
    due = said["marginal_cost"] * own - value
    rounding = ROUNDING * (abs(said["payoff"]) + said["cost"] + abs(due) + abs(value))
    most = math.inf if own >= agent.caps[0] * (1.0 - ROUNDING) and own > 0.0 else due + rounding
    reason = f"{payment:.9g} does not follow from its costs and what data is worth to it"
    _require("payment", due - rounding <= payment <= most, reason, details=f"{due:.9g} does")


def _own_gain(agent: Agent, profile: FloatArray, said: Mapping[str, Any], prices: FloatArray) -> float:
    """What another contribution of its own would add at its price, by the margin and the curvature at this one.

    Its utility is concave in it: no step adds more than the margin says, nor much more than Newton's.
    """
    own, worth = float(profile[agent.index]), said["prices"][agent.index]
    margin = worth - said["marginal_cost"] - float(prices[agent.index])
    curvature = said["curvature"] * worth**2 + said["cost_curvature"]
    room = max(float(agent.caps[0]) - own, 0.0) if margin > 0.0 else own
    step = abs(margin) / (2.0 * curvature) if curvature > 0.0 else math.inf
    return abs(margin) * min(room, step) if margin else 0.0


def _check_prices_digest(seat: Seat, prices: Any, digests: Any) -> None:
    fits = prices is None and digests is None
    if prices is not None and isinstance(digests, list) and len(digests) == seat.size:
        fits = digests[seat.index] == prices_digest(prices)
    _require("prices", fits, "this node's are not those of the deal")


def _check_balance(deal: Deal, money: Mapping[str, Any]) -> None:
    """That everybody's payments, and what is fixed of them, can be settled in whole cents that sum to zero."""
    try:
        settle_payments(deal.payments, names=deal.agents, **money)
    except InvalidInput as reason:
        raise Refused(f"balance: {reason}") from reason
    side = np.asarray(deal.side_payments)
    balanced = abs(float(side.sum())) <= MONEY_ROUNDING * float(np.abs(side).sum() + np.abs(deal.payments).sum())
    _require("balance", balanced, f"side payments sum to {side.sum():+.3g}")


def _check_keys(own: OwnNode, seat: Seat, document: Mapping[str, Any]) -> list[str]:
    """That every member has a key of its own, and those known are the ones stated; a claim if all are known."""
    stated, known = document.get("keys"), own.known_keys
    members = [name for name in document["agents"] if name not in (document.get("excluded") or [])]
    if not isinstance(stated, dict) or sorted(stated) != sorted(members):
        raise Refused("keys: the deal must hold the key of every member")
    _require("keys", stated.get(seat.name) == own.key.public, "the key stated for this node is not its own")
    _require("keys", len(set(stated.values())) == len(stated), "two members have the same key")
    for name in members:
        if name == seat.name:
            continue
        try:
            plain_key(stated[name])
        except InvalidInput as reason:
            raise Refused(f'keys: of "{name}": {reason}') from reason
        expected = known.by_name.get(name)
        why = "this node does not know its key" if expected is None else "this node knows another key of it"
        _require("keys", not known.is_given or expected == stated[name], f'of "{name}": {why}')
    return ["keys"] if known.is_given else []


def wanted_updates(document: Mapping[str, Any], stated: Any, agent: Agent | None, name: str) -> list[str] | None:
    """Whose updates the model of a node is to be made of, by the deal it is asked to sign; None if all have one model.

    What the coordinator says of it, if anything, must be that; a node without a private file goes by it.
    """
    models, names = document.get("models", COMMON), document["agents"]
    if models == COMMON:
        return None
    if models != PERSONAL:
        raise Refused(f'models must be "{COMMON}" or "{PERSONAL}", got {short_repr(models)}')
    if agent is None:
        told = are_members(stated, names) and name in stated
        _require("models", told, f"it must be told whose updates its model is made of, got {short_repr(stated)}")
        return list(stated)
    [weights], out = agent.weights, document.get("excluded") or []
    harmful = np.flatnonzero(weights < 0.0)
    if harmful.size:
        raise Refused(
            f'models: its private file counts data of "{names[harmful[0]]}" that harms it, and with personal models '
            f'nobody trains on such data; write the file anew from a scenario with models = "{PERSONAL}"'
        )
    useful = [other for index, other in enumerate(names) if index == agent.index or weights[index] > 0.0]
    wanted = [other for other in useful if other not in out]
    same = stated is None or (are_members(stated, names) and {*stated} == {*wanted})
    _require("models", same, f"it wants the updates of {', '.join(wanted)}, not {short_repr(stated)}")
    return wanted


def are_members(stated: Any, names: Sequence[str]) -> bool:
    """Whether it is a list of members."""
    return isinstance(stated, list) and all(isinstance(name, str) and name in names for name in stated)


def _check_verification(document: Mapping[str, Any], stated: Any, known: Calibration | None) -> list[str]:
    """That delivery is verified by the calibration that was signed and that this node knows; a claim if it does."""
    terms = document.get("verification")
    if terms is None:
        return []
    subsets = terms.get("subsets") if isinstance(terms, dict) else None
    if type(subsets) is not int or subsets < 1:
        raise Refused(f"verification: subsets must be a whole number of at least 1, got {short_repr(subsets)}")
    if not settles_by_delivery(document):
        return []
    try:
        calibration = Calibration.of_record(stated)
    except InvalidInput as reason:
        raise Refused(f"calibration: {reason}") from reason
    signed = verification_terms({**terms, "calibration": stated}) == terms
    _require("calibration", signed, "it is not the one of the deal")
    _require("calibration", calibration.federation.names == tuple(document["agents"]), "it is of other members")
    if known is None:
        return []
    one, other = calibration.record(), known.record()  # floors and ceilings are of the training, not of the scenario
    same = all(one[part] == other[part] for part in ("agents", "weights", "payoff"))
    _require("calibration", same, "this node knows another one")
    return ["calibration"]


# The signatures


def check_everybody_signed(document: Mapping[str, Any], signatures: Any) -> None:
    """That every member has signed this very document; `Refused` with the first that has not."""
    for name, key in document["keys"].items():
        given = signatures.get(name) if isinstance(signatures, dict) else None
        if not isinstance(given, str) or not given:
            raise Refused(f'there is no signature of "{name}" on the deal')
        if not is_signed_by(key, document, given):
            raise Refused(
                f'"{name}" has not signed the deal that this node has signed: members were shown different ones'
            )


# The settlement


def check_settlement(
    signed: Mapping[str, Any], asked: Mapping[str, Any], statements: Mapping[str, str]
) -> dict[str, float]:
    """Check a settlement; what was delivered, in units of contribution. What does not hold is `Refused`.

    The node has `signed` the `document`, with its own `place`, `prices` and `calibration`, and the `statements`, whose
    digests are by what they say (`own_statement_words`). It is `asked` about everybody's `cents`, what was `delivered`
    and the ledger's `entries` since the deal up to its `head`; of a deal settled by what arrived it is shown
    everybody's `prices` and the `paid_shares`.
    """
    document, index = signed["document"], signed["place"]
    under = _deal_since(document, asked)
    try:
        done = [under.entries[kind] for kind in (TRAINED, VERIFIED, MEASURED) if kind in under.entries]
        own = document["agents"][index]
        held = {part.digest for each in done for part in under.signed_parts(each) if part.holds and part.name == own}
        for said, digest in statements.items():
            if digest not in held:
                raise Refused(f"the ledger lacks or changes {said}, which this node has signed")
        for entry in done:
            under.check_entry(entry)
        delivered = under.delivered()
        stated = asked.get("delivered")
        if stated != delivered:
            raise Refused(
                f"what was delivered is {short_repr(delivered)} by what members signed, not {short_repr(stated)}"
            )
        cents = asked.get("cents")
        whole = isinstance(cents, dict) and all(type(amount) is int for amount in cents.values())
        if not isinstance(cents, dict) or not whole or list(cents) != document["agents"] or sum(cents.values()):
            raise Refused("cents must be whole, one number per member, and sum to zero")
        charged = [name for name in document["excluded"] if cents.get(name)]
        if charged:
            raise Refused(f'"{charged[0]}" is not in the deal, and {cents[charged[0]]} cents are settled with it')
        if settles_by_delivery(document):
            if VERIFIED not in under.entries:
                raise Refused("there is nothing that members measured in what is to be settled")
            models = under.entries[VERIFIED].content["models"]
            _check_cents_by_delivery(document, signed["calibration"], asked, models, delivered)
        else:
            _check_own_cents(document, index, signed["prices"], cents, delivered)
    except InvalidInput as reason:
        raise Refused(str(reason)) from reason
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the ledger's entries since the deal do not hold what they must: {error!r:.80}") from error
    return delivered


def _deal_since(document: dict[str, Any], asked: Mapping[str, Any]) -> SignedDeal:
    """The ledger's entries from the deal to where it is to be settled.

    The deal that the node has signed names the entry before them, and what it is to sign the last of them: so they are
    those of the ledger that its signature will stand in.
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
    found = {entry.kind: entry for entry in shown}
    said: Any = found[SIGNED].content.get("signatures")
    listed = isinstance(said, dict) and all(isinstance(each, dict) for each in said.values())
    check_everybody_signed(document, {name: each.get("signature") for name, each in said.items()} if listed else None)
    return SignedDeal(ledger=shown, entries=found, signed=document)


def _check_own_cents(
    document: Mapping[str, Any],
    index: int,
    prices: Sequence[float] | None,
    cents: Mapping[str, int],
    delivered: Mapping[str, float],
) -> None:
    """That a member's own cents are its payment, less what it was to be paid and to pay for what is missing."""
    agreed, payment, money = document["contributions"], float(document["payments"][index]), document["money"]
    short = [delivered.get(name, amount) - amount for name, amount in zip(document["agents"], agreed, strict=True)]
    if any(short):
        if prices is None:
            raise Refused("less was delivered than agreed, and the deal names no prices to pay the rest by")
        payment -= math.fsum(price * less for price, less in zip(prices, short, strict=True))
    turnover = abs(payment) + sum(abs(p * s) for p, s in zip(prices or [], agreed, strict=False))
    rate, own = money["per_payoff"] * 10 ** money["decimals"], cents[document["agents"][index]]
    if abs(own - payment * rate) > CENT + turnover * rate * MONEY_ROUNDING:
        raise Refused(f"{own} cents are not the {payment * rate:.2f} it has agreed to for what was delivered")


def _check_cents_by_delivery(
    document: Mapping[str, Any],
    calibration: Mapping[str, Any],
    asked: Mapping[str, Any],
    models: Sequence[Mapping[str, Any]],
    delivered: Mapping[str, float],
) -> None:
    """That everybody's cents follow from what members measured of models made of subsets of the updates."""
    prices, stated = asked.get("prices"), asked.get("paid_shares")
    if not isinstance(prices, list) or [prices_digest(row) for row in prices] != (document.get("prices") or []):
        raise Refused("the prices are not those of the deal")
    deal = replace(deal_of_document(document), prices=np.asarray(prices, dtype=np.float64))
    try:
        Calibration.of_record(calibration).check_paid_shares(stated, deal, models, delivered)
    except InvalidInput as reason:
        raise Refused(f"the shares that are paid for: {reason}") from reason
    settled = settle_run(deal, delivered, document["money"], shares=stated)
    if asked.get("cents") != dict(zip(settled.names, settled.cents, strict=True)):
        raise Refused("the cents are not those due for what arrived")
