"""What members have delivered: a count of samples and an update, round by round, by what they have signed.

Where members sign, nothing else counts: an entry may state more, and whoever writes the ledger chooses that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpact.deals.deal import Deal, whole_samples
from fedpact.deals.delivered import delivered_contributions
from fedpact.deals.documents import deal_document_of, delivery_document
from fedpact.deals.ledger import Chain, Entry
from fedpact.deals.signatures import document_digest, is_signed_by
from fedpact.deals.updates import draw_subsets
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr


def ledger_delivery(chain: Chain, deal: Deal, agreed: Entry, trained: Entry) -> FloatArray:
    """What each has delivered by a ledger's entries of the deal and the training, in units of contribution.

    Without signatures, it is what the entry states.
    """
    if not chain.is_signed:
        return delivered_contributions(deal, trained.content)
    signed = signed_delivery(deal_document_of(chain.entries, agreed), trained.content["deliveries"])
    return np.array([signed.get(name, own) for name, own in zip(deal.agents, deal.contributions, strict=True)])


def signed_delivery(document: Mapping[str, Any], deliveries: Any) -> dict[str, float]:
    """What each member has delivered, in units of contribution.

    Of less than one agreed sample nothing is delivered, except where a deal names no prices to leave it out by.

    Parameters
    ----------
    document
        The deal's, which holds the keys.
    deliveries
        By name, a list of `round`, `samples`, `update` and `signature`.

    Raises
    ------
    InvalidInput
        If a round is missing or doubled, more is counted than agreed, or a signature is not its member's.
    """
    counts = whole_samples(document["contributions"], document["samples_per_unit"])
    listed = deliveries if isinstance(deliveries, dict) else {}
    strangers = [name for name in listed if name not in document["keys"]]
    if strangers:
        raise InvalidInput(f'"{strangers[0]}" is not in the deal and cannot deliver')
    found = {}
    for place, name in enumerate(document["agents"]):
        if name in document["keys"]:
            samples = _signed_samples(document, name, int(counts[place]), listed.get(name))
            agreed, contribution = int(counts[place]), float(document["contributions"][place])
            share = sum(samples) / (agreed * len(samples)) if samples else 0.0
            is_whole = share == 1.0 or (not agreed and document["prices"] is None)
            found[name] = contribution if is_whole else share * contribution
    return found


def signed_subsets(
    document: Mapping[str, Any], deliveries: Mapping[str, Any], *, most: int | None = None
) -> list[list[str]]:
    """Of which members' updates the models are made that members measure, as the updates they signed decide.

    Of `most` or more the first `most`.
    """
    listed = [name for name in document["agents"] if deliveries.get(name)]
    digests = {name: [str(each["update"]) for each in deliveries[name]] for name in listed}
    count = document["verification"]["subsets"]
    count = count if most is None else min(count, most)
    return draw_subsets(digests, count, salt=document_digest(document)) if digests else []


def _signed_samples(document: Mapping[str, Any], name: str, agreed: int, listed: Any) -> list[int]:
    """A member's samples in each round, checked."""
    digest, rounds, samples = document_digest(document), [], []
    for delivery in listed if isinstance(listed, list) else []:
        said = delivery if isinstance(delivery, dict) else {}
        signed = delivery_document(document["run"], digest, name, said)
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
