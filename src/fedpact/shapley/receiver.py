"""One receiver's payoff shared out among everybody: what a member works out from its own row alone.

Shapley values are linear in the game, and the total payoff is a sum over receivers. So phi_j = sum_i phi_ij, where
phi_ij is j's share of receiver i's payoff, and the potential is a sum P = sum_i P_i with d P_i / d s_j = d phi_ij /
d s_j. Each term needs the receiver's weights, payoff curve and value, and nothing of anybody else's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import sum_by
from fedpact.federation.payoffs import Payoff
from fedpact.shapley.integral import credit, potential
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import OutsideDomain


class ReceiverShares(NamedTuple):
    """Everybody's share of one receiver's payoff at a profile, phi_ij, and its slopes d phi_ij / d s_j."""

    values: FloatArray
    slopes: FloatArray


def receiver_shares(
    weights: FloatArray,
    payoff: Payoff,
    value: float,
    contributions: FloatArray,
    *,
    lot_owners: NDArray[np.intp] | None = None,
    n_agents: int = 0,
) -> ReceiverShares:
    """Everybody's share of the payoff of a receiver with these weights; `payoff` is of one member.

    Where members have several lots, `lot_owners` says whose each is, by index among `n_agents`: weights and slopes are
    then per lot, the shares per member. Raises `OutsideDomain` if a coalition leaves the domain of the payoff.

    Examples
    --------
    >>> from fedpact import PowerLaw
    >>> receiver_shares(np.array([1.0, 0.5]), PowerLaw(1.0), 1.0, np.array([1.0, 1.0])).values.round(6).tolist()
    [0.383333, 0.216667]
    """
    owners = np.arange(weights.size) if lot_owners is None else lot_owners
    brought = _brought(weights, payoff, contributions, owners, n_agents)
    found = credit(brought[None], payoff)
    return ReceiverShares(values=value * found.values[0], slopes=value * weights * found.derivatives[0, owners])


def receiver_potential(
    weights: FloatArray,
    payoff: Payoff,
    value: float,
    contributions: FloatArray,
    *,
    lot_owners: NDArray[np.intp] | None = None,
    n_agents: int = 0,
) -> float:
    """P_i(s), the receiver's term of the potential; raises `OutsideDomain`. Lots as in `receiver_shares`."""
    owners = np.arange(weights.size) if lot_owners is None else lot_owners
    return value * float(potential(_brought(weights, payoff, contributions, owners, n_agents)[None], payoff)[0])


def _brought(
    weights: FloatArray, payoff: Payoff, contributions: FloatArray, owners: NDArray[np.intp], n_agents: int
) -> FloatArray:
    """The data that each member's lots bring together."""
    brought = sum_by(owners, weights * contributions, max(n_agents, int(owners.max(initial=-1)) + 1))
    lowest, floor = float(np.minimum(brought, 0.0).sum()), float(np.min(payoff.lowest_finite))
    if not lowest > floor or not np.isfinite(brought).all():
        data = f"weighted data from {lowest:g} to {float(np.maximum(brought, 0.0).sum()):g}"
        raise OutsideDomain(f"{data} is outside the domain of the payoff")
    return brought
