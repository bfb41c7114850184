"""A pilot that members agree to be judged by: whose data is worth what to whom, as the deal's entry in a ledger says.

It holds weights, curves, floors and ceilings, from runs that somebody trusted. With it, and with what members measured
of models made of subsets of the updates, anybody can work out what arrived and what is due for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals import Deal
from fedpact.deals.delivered import agreed_transfers
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.federation.payoffs import FAMILIES
from fedpact.fitting.accuracy_curves import checked_range
from fedpact.fitting.delivery import checked_subset_models, leave_out_shares
from fedpact.fitting.logs import subset_table
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

SHARE_DECIMALS = 6  # machines differ in the last digits of an estimate, and none in these
SAME_SHARE = 2e-4  # by which two machines' estimates of a share may differ
PARTS = ("agents", "weights", "payoff", "floors", "ceilings")


@dataclass(frozen=True, kw_only=True, eq=False)
class Pilot:
    """What members agree their data to be worth, for judging what was delivered.

    Attributes
    ----------
    federation
        Weights, curves and names; its costs say nothing.
    floors, ceilings
        (n,): accuracies without data and with all the data in the world.
    """

    federation: Federation
    floors: FloatArray
    ceilings: FloatArray

    @classmethod
    def of(cls, federation: Federation, floor: ArrayLike = 0.0, ceiling: ArrayLike = 1.0) -> Pilot:
        """That of a scenario's federation."""
        require_single_lots(federation, "verifying what was delivered")
        floors, ceilings = checked_range(floor, ceiling, federation, labels=("floor", "ceiling"))
        return cls(federation=federation, floors=np.asarray(floors), ceilings=np.asarray(ceilings))

    @classmethod
    def of_record(cls, record: Any) -> Pilot:
        """The pilot that a ledger or a message holds.

        Raises
        ------
        InvalidInput
            If it is none.
        """
        if not isinstance(record, Mapping) or any(part not in record for part in PARTS):
            raise InvalidInput(f"a pilot must say its {', '.join(PARTS)}, got {short_repr(record)}")
        try:
            stated = dict(record["payoff"])
            payoff = FAMILIES[stated.pop("family")](**{name: np.asarray(number) for name, number in stated.items()})
            weights = np.asarray(record["weights"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a pilot must hold weights and a payoff: {error!r:.120}") from error
        federation = Federation(weights=weights, costs=1.0, payoff=payoff, names=record["agents"])
        return cls.of(federation, record["floors"], record["ceilings"])

    def record(self) -> dict[str, Any]:
        """It as plain data."""
        payoff = self.federation.payoff
        plain = {
            "agents": self.federation.names,
            "weights": self.federation.dense_weights(),
            "payoff": {"family": payoff.family} | dict(payoff.parameters),
            "floors": self.floors,
            "ceilings": self.ceilings,
        }
        return dict(jsonable(plain))

    def check_settles(self, deal: Deal) -> None:
        """That a deal can be settled by what was delivered: it has prices, and everybody's data a third beneficiary.

        Raises
        ------
        InvalidInput
            If not, with whose data.
        """
        self._check_agents(deal)
        if deal.prices is None:
            raise InvalidInput(
                "settling by delivery needs a deal with prices: the externality mechanism, negotiated by price "
                "discovery; this one has none"
            )
        uses = self.federation.dense_weights() != 0.0
        inside = np.zeros(len(deal.agents), dtype=bool)
        inside[deal.members] = True
        for payer, payee in np.argwhere(agreed_transfers(deal, deal.prices) != 0.0).tolist():
            third = uses[:, payee] & inside
            third[[payer, payee]] = False
            if not third.any():
                one, other = deal.agents[payer], deal.agents[payee]
                raise InvalidInput(
                    f'settling by delivery needs a third beneficiary: besides "{one}", who pays, and "{other}", who is '
                    f'paid, nobody in the deal has a use for the data of "{other}"; settle by samples '
                    f'(settle-by = "samples")'
                )

    def paid_shares(
        self, deal: Deal, models: Sequence[Mapping[str, Any]], delivered: Mapping[str, float]
    ) -> list[list[float | None]]:
        """The share of the column's contribution that the row's member pays for; None if it pays nothing.

        It is the share that arrived in effect, estimated without the reports of the two. Where the models say too
        little for that, it is the share by the samples that were counted.

        Parameters
        ----------
        models
            As a ledger's entry of the verification lists them.
        delivered
            What members have delivered by the samples they signed, in units of contribution.
        """
        self._check_agents(deal)
        assert deal.prices is not None
        agreed, wanted = _given(deal), agreed_transfers(deal, deal.prices) != 0.0
        counts = np.array([delivered.get(name, own) for name, own in zip(deal.agents, agreed, strict=True)])
        shares = np.full(wanted.shape, np.nan)
        table = subset_table(deal.agents, models)
        if np.isfinite(table.accuracies).any():
            ends = (self.floors, self.ceilings)
            made = checked_subset_models(
                self.federation, agreed, table.given, table.accuracies, table.test_sizes, *ends
            )
            # All have signed the pilot: whoever sends what fits no curve is not to be judged more gently.
            shares = leave_out_shares(made, wanted, rely_on_curves=True)
        counted = np.divide(counts, agreed, out=np.zeros_like(counts), where=agreed > 0.0)
        shares = np.where(np.isnan(shares), counted, shares).round(SHARE_DECIMALS)
        rows = np.where(wanted, shares, np.nan).tolist()
        return [[None if np.isnan(share) else share for share in row] for row in rows]

    def _check_agents(self, deal: Deal) -> None:
        if self.federation.names != deal.agents:
            raise InvalidInput(
                f"the pilot must be of the members of the deal, in their order ({', '.join(deal.agents)}), got "
                f"{', '.join(self.federation.names)}"
            )


def share_matrix(shares: Sequence[Sequence[float | None]]) -> FloatArray:
    """(n, n): shares as plain data holds them; NaN where nothing is paid."""
    return np.array([[np.nan if share is None else share for share in row] for row in shares], dtype=np.float64)


def same_shares(stated: Any, due: Sequence[Sequence[float | None]]) -> bool:
    """Whether shares that somebody states are those due, as far as machines agree."""
    try:
        one, other = share_matrix(stated), share_matrix(due)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=0.0, atol=SAME_SHARE, equal_nan=True)


def _given(deal: Deal) -> FloatArray:
    given = np.zeros(len(deal.agents))
    given[deal.members] = deal.contributions[deal.members]
    return given
