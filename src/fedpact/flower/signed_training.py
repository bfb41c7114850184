"""Training in which every member signs what it delivers, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import Strategy

from fedpact.deals import Deal
from fedpact.deals.documents import delivery_document
from fedpact.deals.signatures import document_digest, is_signed_by
from fedpact.flower.messages import RECORD, record_digest
from fedpact.flower.strategy import Lost, UnderDeal
from fedpact.utils.errors import InvalidInput


class SignedTraining(UnderDeal):
    """A strategy under a deal that members have signed; what is not signed by whom it is of does not count.

    Parameters
    ----------
    strategy, deal, nodes
        As of `UnderDeal`.
    document
        What everybody has signed of the deal (`fedpact.deals.documents`).
    """

    def __init__(
        self, strategy: Strategy, deal: Deal, document: Mapping[str, Any], *, nodes: Mapping[int, str]
    ) -> None:
        super().__init__(
            strategy,
            deal,
            samples_per_unit=document["samples_per_unit"],
            nodes=nodes,
            strict=True,
            verify_subsets=document.get("verification", {}).get("subsets", 0),
        )
        self.deliveries: dict[str, list[dict[str, Any]]] = {}
        self._document, self._round = document, 0

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate; members that are lost take nothing back of what they have signed."""
        self._round = server_round
        try:
            return super().aggregate_train(server_round, replies)
        except Lost as lost:
            raise Lost(lost.reasons, signed={"deliveries": self.deliveries}) from lost

    def _read_reply(self, reply: Message, node: int) -> tuple[str, int]:
        name, samples = super()._read_reply(reply, node)
        record = reply.content.get(RECORD)
        update = record_digest(next(iter(reply.content.array_records.values())))
        delivery = {"round": self._round, "samples": samples, "update": update}
        signature = record.get("signature") if isinstance(record, ConfigRecord) else None
        document, digest = self._document, document_digest(self._document)
        signed = delivery_document(document["run"], digest, name, delivery)
        if not is_signed_by(document["keys"].get(name), signed, signature):
            raise InvalidInput("it has not signed what it delivers")
        self.deliveries.setdefault(name, []).append({**delivery, "signature": signature})
        return name, samples
