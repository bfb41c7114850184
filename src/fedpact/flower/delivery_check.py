"""How a node checks a deal that is settled by what arrived in effect, and the payments that follow.

Such a deal names a calibration: what everybody's data is worth to whom (`fedpact.fitting.delivery`). Members sign
its digest with the deal, so all are judged by the same numbers. A node that knows the calibration from elsewhere
(`calibration` in its configuration, a scenario's file) refuses any other. When it is paid, the node is shown
everybody's prices, which it holds to the digests it has signed, and what every member has measured, each signed; and
works all payments out anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context

from fedpact.deals import Deal
from fedpact.deals.ledger import TRAINED, VERIFIED, Entry
from fedpact.deals.settlement import payments_for_shares, settle_payments, share_matrix
from fedpact.deals.signatures import (
    check_subsets,
    is_signed_by,
    own_statements,
    prices_digest,
    signed_delivery,
    verification_terms,
)
from fedpact.fitting.delivery import Calibration, same_shares
from fedpact.flower.statement import Refused, deal_of_document
from fedpact.scenario import load_scenario
from fedpact.utils.errors import InvalidInput, short_repr

CALIBRATION_CLAIM = "calibration"
CALIBRATION_ROUNDING = 1e-9


def calibration_of_node(context: Context) -> Calibration | None:
    """The calibration that a node knows from elsewhere than the coordinator, if it does."""
    if "pilot" in context.node_config:
        raise InvalidInput("the node's configuration must say calibration, the scenario's file, and not pilot")
    named = context.node_config.get("calibration")
    return None if not named else Calibration.of(load_scenario(Path(str(named)).expanduser()).federation)


def settles_by_delivery(document: Mapping[str, Any]) -> bool:
    """Whether what arrived in effect is what is paid for under a deal."""
    terms = document.get("verification")
    return isinstance(terms, dict) and terms.get("settles") is True


def check_verification_terms(document: Mapping[str, Any], stated: Any, known: Calibration | None) -> list[str]:
    """Check how a deal says that delivery is verified; the claims that were checked.

    Raises
    ------
    Refused
        If the calibration is not the one signed, not the one this node knows, or cannot be settled by.
    """
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
        raise Refused(f"{CALIBRATION_CLAIM}: {reason}") from reason
    if verification_terms({**terms, "calibration": stated}) != terms:
        raise Refused(f"{CALIBRATION_CLAIM}: it is not the one of the deal")
    if calibration.federation.names != tuple(document["agents"]):
        raise Refused(f"{CALIBRATION_CLAIM}: it is of other members")
    if known is not None and not _is_same(calibration.federation, known.federation):
        raise Refused(f"{CALIBRATION_CLAIM}: this node knows another one")
    return [CALIBRATION_CLAIM] if known is not None else []


def _is_same(one: Any, other: Any) -> bool:
    """Whether two federations are the same but for their costs and caps."""
    if one.names != other.names or one.payoff.family != other.payoff.family:
        return False
    pairs = [(one.weights, other.weights)]
    pairs += [(number, other.payoff.parameters[name]) for name, number in one.payoff.parameters.items()]
    return all(np.allclose(here, there, rtol=CALIBRATION_ROUNDING, atol=0.0) for here, there in pairs)


def check_delivery_settlement(
    document: Mapping[str, Any], calibration: Mapping[str, Any], asked: Mapping[str, Any], entries: Mapping[str, Entry]
) -> dict[str, float]:
    """Check everybody's cents against what arrived in effect; what was delivered by the samples that members signed.

    Raises
    ------
    Refused
        If something is not signed by whom it is of, or the cents are not those due.
    """
    try:
        deliveries: Any = entries[TRAINED].content.get("deliveries")
        delivered = signed_delivery(document, deliveries)
        if asked.get("delivered") != delivered:
            raise Refused(f"what was delivered is {short_repr(delivered)} by what members signed")
        deal = _priced_deal(document, asked.get("prices"))
        models = _signed_models(document, deliveries, entries.get(VERIFIED))
        due = Calibration.of_record(calibration).paid_shares(deal, models, delivered)
    except InvalidInput as reason:
        raise Refused(str(reason)) from reason
    stated: Any = asked.get("paid_shares")
    if not same_shares(stated, due):
        raise Refused("the shares that are paid for are not those that what members measured comes to")
    settled = settle_payments(payments_for_shares(deal, share_matrix(stated)), names=deal.agents, **document["money"])
    if asked.get("cents") != dict(zip(settled.names, settled.cents, strict=True)):
        raise Refused("the cents are not those due for what arrived")
    return delivered


def _signed_models(document: Mapping[str, Any], deliveries: Any, verified: Entry | None) -> list[dict[str, Any]]:
    """The models that members measured, if their subsets are those decided and all that is said is signed."""
    models = [] if verified is None else verified.content.get("models")
    if not isinstance(models, list):
        raise InvalidInput("there is nothing that members measured in what is to be settled")
    check_subsets(document, deliveries, models)
    for name, made, signature in () if verified is None else own_statements(document, verified):
        if not is_signed_by(document["keys"].get(name), made, signature):
            raise InvalidInput(f'"{name}" has not signed what it is said to have measured')
    return models


def _priced_deal(document: Mapping[str, Any], prices: Any) -> Deal:
    digests = document.get("prices") or []
    if not isinstance(prices, list) or [prices_digest(row) for row in prices] != digests:
        raise InvalidInput("the prices are not those of the deal")
    return replace(deal_of_document(document), prices=np.asarray(prices, dtype=np.float64))
