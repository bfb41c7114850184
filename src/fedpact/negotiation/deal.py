"""What a negotiation ends in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.mechanisms import Messages
from fedpact.utils.arrays import FloatArray

__all__ = ["Deal", "Event"]

Event = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Deal:
    """Contributions and payments the agents at the table have agreed on.

    Attributes
    ----------
    agents, protocol
        Everybody's names, and "price-discovery" or "admm".
    contributions, payments
        By agent; zero for those who are out. Payments sum to zero.
    prices
        l_ij: what agent i pays per sample of j's, (n, n); columns sum to zero.
    rounds
        How often everybody was asked about contributions, repeated questions included.
    welfare, residual
        As the agents described it: welfare, and the gain still promised when the negotiation ended, as a share of what
        is at stake.
    excluded
        Who is out and why, by name.
    messages
        The final messages of the game form, or None where the deal was made without it.
    trace
        What happened, in order.
    """

    agents: Sequence[str]
    protocol: str
    contributions: FloatArray
    payments: FloatArray
    prices: FloatArray
    rounds: int
    welfare: float
    residual: float
    excluded: Mapping[str, str]
    messages: Messages | None
    trace: Sequence[Event]

    @property
    def members(self) -> np.ndarray:
        """The places of those at the table."""
        return np.array([place for place, name in enumerate(self.agents) if name not in self.excluded], dtype=np.intp)

    def __repr__(self) -> str:
        out = f", without {', '.join(self.excluded)}" if self.excluded else ""
        at_table = f"{len(self.members)} agents, {self.rounds} rounds, welfare {self.welfare:.6g}"
        return f"<Deal by {self.protocol}: {at_table}{out}>"

    def plot(self, *, figure: Any = None) -> Any:
        """How the negotiation converged, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_negotiation  # noqa: PLC0415 - optional dependency

        return plot_negotiation(self, figure=figure)
