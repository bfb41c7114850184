"""Models made of subsets of the updates, and what members measured of them, as a signed ledger lists them.

    {"models": [{"subset": [names], "model": digest, "accuracies": {name: {"accuracy": 0.8, "samples": 300}}}, ...],
     "signatures": {name: signature}}

Each member signs what it measured of all of them at once (`verification_document`). A member that did not answer has
`{"accuracy": null, "reason": ...}` in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedpact.deals.documents import verification_document
from fedpact.deals.signatures import document_digest, is_signed_by
from fedpact.deals.signed_delivery import signed_subsets
from fedpact.utils.errors import InvalidInput


def verified_content(
    subsets: Sequence[Sequence[str]], models: Sequence[str], said: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """An entry of a ledger, without its signatures.

    Parameters
    ----------
    models
        The digest of every model.
    said
        By member `accuracies` and `samples`, or `accuracies` None and a `reason`.
    """

    def score(name: str, place: int) -> dict[str, Any]:
        answer = said[name]
        if answer["accuracies"] is None:
            return {"accuracy": None, "reason": answer["reason"]}
        return {"accuracy": answer["accuracies"][place], "samples": answer["samples"]}

    return {
        "models": [
            {"subset": list(subset), "model": digest, "accuracies": {name: score(name, place) for name in said}}
            for place, (subset, digest) in enumerate(zip(subsets, models, strict=True))
        ]
    }


def missing_measurements(models: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which members have measured none of the models that a ledger lists, and why."""
    said = [(name, each) for model in models for name, each in model["accuracies"].items()]
    measured = {name for name, each in said if each.get("accuracy") is not None}
    return {name: str(each.get("reason")) for name, each in said if name not in measured}


def measured_documents(
    document: Mapping[str, Any], models: Sequence[Mapping[str, Any]], *, head: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each member that measured something has to have signed.

    Raises
    ------
    InvalidInput
        If a member is said to have tested models on different numbers of samples: it signs one number.
    """
    digest = document_digest(document)
    names = dict.fromkeys(name for model in models for name in model["accuracies"])
    for name in names:
        scores = [model["accuracies"].get(name, {}) for model in models]
        if any(score.get("accuracy") is not None for score in scores):
            if any(score.get("samples") != scores[0].get("samples") for score in scores):
                raise InvalidInput(f'"{name}" has signed one number of samples, and several are stated for it')
            measured = {
                "models": [model.get("model") for model in models],
                "accuracies": [score.get("accuracy") for score in scores],
                "samples": scores[0].get("samples"),
            }
            yield name, verification_document(document["run"], head, digest, name, measured)


def check_subsets(document: Mapping[str, Any], deliveries: Mapping[str, Any], models: Sequence[Any]) -> None:
    """That the subsets are those that members' updates decide; raises `InvalidInput` if not."""
    decided = signed_subsets(document, deliveries, most=len(models) + 1)  # the deal may state any number of them
    if [model.get("subset") for model in models] != decided:
        raise InvalidInput("the models are not made of the subsets that members' updates decide")


def checked_models(
    document: Mapping[str, Any], deliveries: Mapping[str, Any], verified: Any, *, head: str
) -> list[dict[str, Any]]:
    """The models that members measured, if their subsets are those decided and all that is said is signed.

    Raises
    ------
    InvalidInput
        If not.
    """
    content = verified if isinstance(verified, dict) else {}
    models, signatures = content.get("models"), content.get("signatures")
    if not isinstance(models, list) or not isinstance(signatures, dict):
        raise InvalidInput("there is nothing that members measured in what is to be settled")
    check_subsets(document, deliveries, models)
    for name, made in measured_documents(document, models, head=head):
        if not is_signed_by(document["keys"].get(name), made, signatures.get(name)):
            raise InvalidInput(f'"{name}" has not signed what it is said to have measured')
    return models
