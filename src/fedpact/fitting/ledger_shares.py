"""What arrived in effect, worked out anew from what members measured and the calibration they signed."""

from __future__ import annotations

from dataclasses import replace

from fedpact.deals.documents import deal_document_of
from fedpact.deals.ledger import AGREED, SETTLED, TRAINED, VERIFIED
from fedpact.deals.signed_delivery import signed_delivery
from fedpact.fitting.calibration import Calibration, same_shares
from fedpact.negotiation.audit import AuditFinding, LedgerAudit
from fedpact.utils.errors import FedpactError

SHARES = "paid shares"


def ledger_calibration(found: LedgerAudit) -> Calibration | None:
    """The calibration that members signed to be judged by, if there is one."""
    agreed = found.last(AGREED)
    stated = None if agreed is None else (agreed.content.get("verification") or {}).get("calibration")
    return None if stated is None else Calibration.of_record(stated)


def with_paid_shares(found: LedgerAudit) -> LedgerAudit:
    """The audit with whether the shares that are paid for are those that follow from what members measured."""
    settled = found.last(SETTLED)
    if settled is None or "paid_shares" not in settled.content:
        return found
    try:
        finding = _judge_shares(found)
    except (FedpactError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        finding = AuditFinding(holds=False, reason=f"they cannot be worked out anew: {error!s:.200}")
    return replace(found, findings={**found.findings, SHARES: finding})


def _judge_shares(found: LedgerAudit) -> AuditFinding:
    agreed, trained, verified, settled = (found.last(kind) for kind in (AGREED, TRAINED, VERIFIED, SETTLED))
    calibration, deal = ledger_calibration(found), found.deal
    if agreed is None or trained is None or settled is None or calibration is None or deal is None:
        return AuditFinding(
            holds=False, reason="there is no deal, no training or no calibration that they could follow from"
        )
    document = deal_document_of(found.chain.entries, agreed)
    delivered = signed_delivery(document, trained.content["deliveries"])
    due = calibration.paid_shares(deal, [] if verified is None else verified.content["models"], delivered)
    if not same_shares(settled.content["paid_shares"], due):
        return AuditFinding(holds=False, reason="they are not those that follow from what members measured")
    return AuditFinding(
        holds=True,
        reason="each follows from the calibration and what members measured, without the two parties' reports",
    )
