"""What a member's payoffs are worth to everybody: shares that it works out from its own rows alone.

Shapley values are linear in the game, and the total payoff is a sum over tasks. So phi_j = sum_r phi_rj, where phi_rj
is j's share of the payoff of task r, and the potential is a sum P = sum_r P_r with d P_r / d s_l = d phi_rj / d s_l, j
the owner of l. Each term needs the weights, payoff curve and value of one task, and nothing of anybody else's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedpact.federation.arrays import Owners, sum_by
from fedpact.federation.payoffs import Payoff
from fedpact.shapley.integral import credit, potential
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import OutsideDomain


class TaskShares(NamedTuple):
    """Everybody's shares of the payoffs of tasks (tasks, members), and their derivatives by lots (tasks, lots)."""

    values: FloatArray
    slopes: FloatArray


class Rows(NamedTuple):
    """Some tasks: their weights (tasks, lots), curves and values; and whose all lots are, of so many members."""

    weights: FloatArray
    payoff: Payoff
    values: FloatArray
    lot_owners: Owners
    n_agents: int

    def shares(self, contributions: FloatArray) -> TaskShares:
        """Everybody's shares of these payoffs; raises `OutsideDomain` if a coalition leaves the domain of one.

        Examples
        --------
        >>> from fedpact import PowerLaw
        >>> row = Rows(np.array([[1.0, 0.5]]), PowerLaw(1.0), np.ones(1), np.arange(2), 2)
        >>> row.shares(np.array([1.0, 1.0])).values.round(6).tolist()
        [[0.383333, 0.216667]]
        """
        found, value = credit(self._brought(contributions), self.payoff), self.values[:, None]
        return TaskShares(value * found.values, value * self.weights * found.derivatives[:, self.lot_owners])

    def potential(self, contributions: FloatArray) -> float:
        """The terms of the potential, together; raises `OutsideDomain`."""
        return float(self.values @ potential(self._brought(contributions), self.payoff))

    def _brought(self, contributions: FloatArray) -> FloatArray:
        """The data that each member's lots bring to each task, (tasks, members)."""
        brought = sum_by(self.lot_owners, self.weights * contributions, self.n_agents)
        lowest = np.minimum(brought, 0.0).sum(axis=1)
        if not ((lowest > self.payoff.lowest_finite).all() and np.isfinite(brought).all()):
            data = f"weighted data from {lowest.min(initial=0.0):g} to {brought.max(initial=0.0):g}"
            raise OutsideDomain(f"{data} is outside the domain of the payoff")
        return brought
