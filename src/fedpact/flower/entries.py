"""What the ledger of training under a deal says of samples and of money, and the error when members are lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fedpact.deals import Settlement
from fedpact.deals.updates import missing_measurements
from fedpact.utils.errors import FedpactError
from fedpact.utils.jsonl import jsonable

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that it is shown beside it


class Lost(FedpactError, RuntimeError):
    """Members of a deal that no longer keep it; `reasons` says why, by name, `signed` what was signed until then."""

    def __init__(self, reasons: Mapping[str, str], *, signed: Mapping[str, Any] | None = None) -> None:
        told = "; ".join(f'"{name}": {reason}' for name, reason in reasons.items())
        super().__init__(f"members of the deal are lost: {told}")
        self.reasons, self.signed = dict(reasons), dict(signed or {})


class Unmeasured(FedpactError, RuntimeError):
    """That no member could measure the models made of subsets of the updates; `reasons` says why, by name."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        name, reason = next(iter(reasons.items()))
        super().__init__(f'no member could measure the models made of subsets of the updates ("{name}": {reason})')
        self.reasons = dict(reasons)


def check_measured(models: Sequence[Mapping[str, Any]]) -> None:
    """Say who could not measure the models made of subsets of the updates; raise `Unmeasured` if nobody could."""
    reasons = missing_measurements(models)
    if reasons and len(reasons) == len(models[0]["accuracies"]):
        raise Unmeasured(reasons)
    warn_unmeasured(reasons, "the models made of subsets of the updates")


def warn_unmeasured(reasons: Mapping[str, str], what: str) -> None:
    """Say who could not measure, and why."""
    for name, reason in reasons.items():
        logger.warning('member "%s" has not measured %s: %s', name, what, reason)


def trained_entry(
    agreed: Mapping[str, int], samples: Mapping[str, Sequence[int]], samples_per_unit: float, **more: Any
) -> dict[str, Any]:
    """An entry of a ledger: what was used, by agent and round, beside what was agreed."""
    used = {name: list(counts) for name, counts in samples.items()}
    return {"agreed": dict(agreed), "samples": used, "samples_per_unit": samples_per_unit, **jsonable(more)}


def settlement_entry(settlement: Settlement, deal: str, **more: Any) -> dict[str, Any]:
    """An entry of a ledger: money in whole cents, of the deal whose entry has this hash."""
    return {
        "deal": deal,
        "cents": dict(zip(settlement.names, settlement.cents, strict=True)),
        "decimals": settlement.decimals,
        **settlement.record(),
        **jsonable(more),
    }
