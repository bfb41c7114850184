"""What a protocol is: a way of asking that leads to contributions and prices, or says how far it got."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np

from fedpact.federation.arrays import Owners
from fedpact.negotiation.session import Session
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtocolResult:
    """What a protocol comes to.

    Attributes
    ----------
    contributions
        Everybody's, per lot.
    prices
        Personal prices, (n, lots), every column summing to zero; None where the protocol knows none.
    payments
        Everybody's, summing to zero; None where they follow from the prices. With neither somebody had to go, and the
        contributions are where to go on from.
    side_payments
        What everybody is paid beside the prices, summing to zero.
    rounds
        How often everybody was asked.
    settled_by
        What the payments are, where there is no message game.
    residual, welfare
        The gain still promised as a share of what is at stake, and the welfare by what the agents say.
    """

    contributions: FloatArray
    prices: FloatArray | None = None
    payments: FloatArray | None = None
    side_payments: FloatArray | None = None
    rounds: int
    settled_by: str = "personal prices"
    residual: float = np.inf
    welfare: float = np.nan

    @property
    def is_agreed(self) -> bool:
        """Whether there is something to settle."""
        return self.prices is not None or self.payments is not None


class Protocol(Interface):
    """A function that negotiates with the members of a session, from contributions to begin with."""

    def __call__(self, session: Session, *, tol: float, max_rounds: int, start: FloatArray) -> ProtocolResult:
        """The result; raises `NotConverged` if there is none within so many rounds."""


def balanced_prices(worth: FloatArray, lot_owners: Owners) -> FloatArray:
    """Personal prices from what lots are worth to agents at the margin: who is paid receives what the others pay."""
    prices, own = np.array(worth), (lot_owners, np.arange(lot_owners.size))
    prices[own] = 0.0
    prices[own] = -prices.sum(axis=0)
    return prices


def balance_exactly(payments: FloatArray) -> FloatArray:
    """The payments on a grid on which they sum to exactly zero; what rounding leaves is shared out in order.

    Examples
    --------
    >>> balance_exactly(np.array([0.1, 0.2, -0.3])).sum()
    np.float64(0.0)
    """
    size = float(np.abs(payments).sum())
    if size == 0.0:
        return np.zeros_like(payments)
    grid = max(2.0 ** (int(np.frexp(size)[1]) - 52), math.ulp(0.0))  # sums of so few digits are exact
    units = np.rint(payments / grid).astype(np.int64)
    each, left = divmod(int(units.sum()), units.size)
    units -= each
    units[:left] -= 1
    return np.asarray(units * grid)
