"""From terms and samples used to money and entries of a ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedpact.deals import Ledger, Settlement
from fedpact.deals.ledger import AGREED, FAILED, SETTLED, TRAINED
from fedpact.deals.settlement import MONEY_DECIMALS, PAYOFF_DECIMALS, PAYOFF_UNIT, settle_payments
from fedpact.flower.terms import Terms
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable

__all__ = ["settled", "settlement_entry", "trained_entry", "write_account"]


def settled(terms: Terms, money: Money | None, *, decimals: int | None = None) -> Settlement:
    """The payments agreed, in the smallest unit of money, or of payoff where that is not worth any."""
    return settle_payments(
        terms.payments,
        names=terms.agents,
        currency=money.currency if money else PAYOFF_UNIT,
        per_payoff=money.per_payoff if money else 1.0,
        decimals=(MONEY_DECIMALS if money else PAYOFF_DECIMALS) if decimals is None else decimals,
    )


def trained_entry(terms: Terms, samples: Mapping[str, Sequence[int]], **more: Any) -> dict[str, Any]:
    """What was used, by agent and round, beside what was agreed."""
    return {
        "agreed": dict(terms.samples),
        "samples": {name: list(used) for name, used in samples.items()},
        "samples_per_unit": terms.samples_per_unit,
        **jsonable(more),
    }


def settlement_entry(settlement: Settlement, deal: str, **more: Any) -> dict[str, Any]:
    """Money in whole cents, of the deal whose entry has this hash."""
    return {
        "deal": deal,
        "cents": dict(zip(settlement.names, settlement.cents, strict=True)),
        "decimals": settlement.decimals,
        **settlement.record(),
        **jsonable(more),
    }


def write_account(
    path: Path,
    terms: Terms,
    *,
    samples: Mapping[str, Sequence[int]],
    short: Mapping[str, str],
    settlement: Settlement | None,
    shapley_values: Mapping[str, float] | None,
) -> None:
    """A ledger of training under a deal that was made elsewhere; a file that has entries is left as it is."""
    with Ledger(path) as ledger:
        if ledger.entries:
            raise InvalidInput(f"{path} holds the record of another run; name another file")
        ledger.append("begun", {"agents": list(terms.agents)})
        agreed = ledger.append(AGREED, {"deal": jsonable({"excluded": {}, **terms.record})})
        valued = {"shapley_values": shapley_values} if shapley_values is not None else {}
        ledger.append(TRAINED, trained_entry(terms, samples, **valued))
        if settlement is None:
            ledger.append(FAILED, {"phase": "settle", "agents": dict(short), "reason": "not all delivered"})
        else:
            ledger.append(SETTLED, settlement_entry(settlement, agreed.hash))
