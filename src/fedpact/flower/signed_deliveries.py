"""What members deliver round by round, counted only if whose it is has signed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Message

from fedpact.deals.documents import delivery_document
from fedpact.deals.signatures import document_digest, is_signed_by
from fedpact.flower.messages import RECORD, record_digest
from fedpact.utils.errors import InvalidInput


@dataclass
class SignedDeliveries:
    """What was delivered under a deal that members have signed.

    Attributes
    ----------
    document
        What everybody has signed of the deal (`fedpact.deals.documents`).
    by_name
        By member, a list of `round`, `samples`, `update` and `signature`.
    """

    document: Mapping[str, Any]
    by_name: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, reply: Message, name: str, samples: int, server_round: int) -> None:
        """Take down what a member delivers.

        Raises
        ------
        InvalidInput
            If it has not signed it.
        """
        record, document = reply.content.get(RECORD), self.document
        update = record_digest(next(iter(reply.content.array_records.values())))
        delivery = {"round": server_round, "samples": samples, "update": update}
        signature = record.get("signature") if isinstance(record, ConfigRecord) else None
        signed = delivery_document(document["run"], document_digest(document), name, delivery)
        if not is_signed_by(document["keys"].get(name), signed, signature):
            raise InvalidInput("it has not signed what it delivers")
        self.by_name.setdefault(name, []).append({**delivery, "signature": signature})
