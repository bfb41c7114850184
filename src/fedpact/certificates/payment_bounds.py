r"""How far the payments of a profile can be from those of the exact equilibrium.

A profile that misses the equilibrium a little costs its members next to nothing, to second order; the payments move
with it to first order. Equilibria maximise a concave function F: welfare under M^E, the potential under M^Shap. With
slopes g and curvature H at the profile, F lies below

    F(s) + g d - k/2 d^T H d

wherever the curvature is at least k H. No maximiser is therefore further away, in the norm of H, than the radius at
which this falls below F(s) again. The radius bounds every contribution and every reach, and with them the payments.
Slopes that push a contribution against its bounds promise nothing. Nothing here asks a solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fedpact.certificates.shapley_check import check_shares
from fedpact.certificates.shared_caps import add_room_worth, steepest_first_prices
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.federation.bounds import contribution_bounds
from fedpact.utils.arrays import FloatArray

MAX_DENSE_AGENTS = 1000
MIN_EIGENVALUE = 1e-9  # of the curvature scaled to a unit diagonal: below it there may be many optima
KEPT_CURVATURE = 0.9  # k above
ROUNDING = 8.0 * float(np.finfo(float).eps)  # of what is summed up, for every term
RADIUS_MARGIN = 1.0 + 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentBounds:
    """The payments due at a profile by the rules.

    Attributes
    ----------
    payments
        What each agent is due at this profile.
    errors
        How far each can be from what the agent is due at the exact equilibrium; infinite where that is not known.
    """

    payments: FloatArray
    errors: FloatArray


def price_payment_bounds(federation: Federation, contributions: FloatArray) -> PaymentBounds:
    """Payments at personal prices, p_i = s_i sum_{k != i} w_ki a_k' - a_i' sum_{j != i} w_ij s_j.

    With several lots the first term is summed over an agent's lots and the second over its tasks.
    """
    s, data = np.asarray(contributions), federation.data(contributions)
    by_lot, by_task = federation.per_agent_from_lots, federation.per_agent_from_tasks
    slopes = federation.marginal_payoffs(s)
    sold, used = np.asarray(federation.weights.T @ slopes) - federation.own_worth(slopes), data - federation.own_data(s)
    payments = by_lot(s * sold) - by_task(slopes * used)
    nothing_known = PaymentBounds(payments=payments, errors=np.full(federation.n_agents, np.inf))
    if federation.n_lots > MAX_DENSE_AGENTS:
        return nothing_known
    weights = federation.dense_weights()
    sizes, own_sizes = np.abs(weights), np.abs(federation.without_sharing().dense_weights())
    bends = -federation.values * federation.payoff.curvature(data)
    curvature = weights.T @ (bends[:, None] * weights) + np.diag(federation.costs.curvature(s))
    inverse = _inverse(curvature)
    if inverse is None:
        return nothing_known
    costs = federation.costs.slope(s)
    noise = ROUNDING * s.size * (sizes.T @ slopes + costs)
    upper = np.maximum(contribution_bounds(federation)[0], s)
    rises, spare = weights.T @ slopes - costs, 0.0
    if federation.shared_caps:  # within a shared cap, no step gains more than at slopes less its price, and its room
        prices, per_lot = steepest_first_prices(rises, upper, federation.shared_caps)
        rises = rises - per_lot
        spare = float(add_room_worth(np.zeros_like(s), s, prices, federation.shared_caps).sum())
    diagonal, spare = curvature.diagonal(), max(spare, 0.0)
    radius = _radius(s, rises, noise, upper=upper, diagonal=diagonal, inverse=inverse, spare=spare)
    moved = radius * np.sqrt(inverse.diagonal())
    reached = radius * np.sqrt(np.einsum("ij,jk,ik->i", weights, inverse, weights))
    if not _keeps_curvature(federation, data, reached):
        return nothing_known
    bent = -federation.values * federation.payoff.curvature(data - reached) * reached  # the most a slope changes
    others = sizes - own_sizes
    errors = (
        by_lot(moved * np.abs(sold) + (s + moved) * (others.T @ bent))
        + by_task(bent * np.abs(used))
        + by_task((slopes + bent) * (reached + own_sizes @ moved))
        + ROUNDING * s.size * (by_lot(s * (others.T @ slopes)) + by_task(slopes * (others @ s)))
    )
    return PaymentBounds(payments=payments, errors=errors)


def share_payment_bounds(federation: Federation, contributions: FloatArray) -> PaymentBounds:
    """Payments up to the Shapley share, p_i = phi_i - a_i.

    The potential is a sum over all groups of members, each part concave; every group counts everybody's payoff. The
    groups of one member alone bound its curvature from below: each counts with weight 1/n, and their curvature is
    diagonal.
    """
    s, size = np.asarray(contributions), federation.n_agents
    shares = check_shares(federation, s)
    if shares is None:
        return PaymentBounds(payments=np.full(size, np.nan), errors=np.full(size, np.inf))
    payments = shares.values - federation.payoffs(s)
    nothing_known = PaymentBounds(payments=payments, errors=np.full(size, np.inf))
    if federation.has_lots:
        return nothing_known
    effects = GroupEffects(federation)
    curvature = effects.curvature_alone(s) / size + federation.costs.curvature(s)
    if not shares.proves or not ((curvature > 0) & np.isfinite(curvature)).all():
        return nothing_known
    costs, scale = federation.costs.slope(s), float(np.abs(shares.values).sum())
    doubt = ROUNDING * size + shares.error / max(scale, np.finfo(float).tiny)
    noise = doubt * (np.abs(shares.slopes) + costs)
    slopes = shares.slopes - costs
    radius = _radius(s, slopes, noise, upper=federation.caps, diagonal=curvature, inverse=1.0 / curvature)
    moved = radius / np.sqrt(curvature)
    if not (effects.curvature_alone(s, moved) >= KEPT_CURVATURE * effects.curvature_alone(s)).all():
        return nothing_known
    per_sample = effects.steepest(s, moved)
    if not np.isfinite(per_sample).all():
        return nothing_known
    # A share averages differences of two groups' payoffs, and the member's own payoff is a third.
    error = 3.0 * radius * float(np.sqrt((per_sample**2 / curvature).sum())) + shares.error + ROUNDING * size * scale
    return PaymentBounds(payments=payments, errors=np.full(size, error))


class GroupEffects:
    """The weights that are not zero, one by one: what sender j's data is to receiver i in groups of members."""

    def __init__(self, federation: Federation) -> None:
        entries = sp.coo_array(federation.weights)
        self.weights, (self.receivers, self.senders) = entries.data, entries.coords
        self.payoff, self.values = federation.payoff.take(self.receivers), federation.values[self.receivers]
        self.floor = np.broadcast_to(federation.payoff.floor, federation.n_agents)[self.receivers]
        self.negative, self.size = federation.negative_weights(), federation.n_agents

    def curvature_alone(self, s: FloatArray, moved: FloatArray | float = 0.0) -> FloatArray:
        """(n,): how everybody's payoff together bends in j's data if j is alone, at least; NaN outside the domain.

        Slopes of payoffs fall ever more slowly, so the curvature is least where the reach is largest.
        """
        change = np.broadcast_to(moved, s.shape)[self.senders]
        reach = self.weights * s[self.senders]
        safe = (reach - np.abs(self.weights) * change) > self.floor
        bends = -self.payoff.curvature(np.where(safe, reach + np.abs(self.weights) * change, 0.0))
        return self._by_sender(np.where(safe, self.values * self.weights**2 * bends, np.nan))

    def steepest(self, s: FloatArray, moved: FloatArray) -> FloatArray:
        """(n,): the most that a group's payoffs change with a unit of j's data, which is in it; NaN outside the domain.

        A receiver's reach is at least what j brings, less all harm.
        """
        harm = np.asarray(self.negative @ (s + moved))[self.receivers]
        helped = np.maximum(self.weights, 0.0) * np.maximum(s - moved, 0.0)[self.senders]
        safe = harm + helped > self.floor
        slopes = self.values * self.payoff.slope(np.where(safe, harm + helped, 0.0))
        return self._by_sender(np.where(safe, np.abs(self.weights) * slopes, np.nan))

    def _by_sender(self, amounts: FloatArray) -> FloatArray:
        return sum_by(self.senders, amounts, self.size)


def _inverse(curvature: FloatArray) -> FloatArray | None:
    """The inverse, or None where the curvature is too nearly flat in some direction to say."""
    diagonal = curvature.diagonal()
    if not (np.isfinite(curvature).all() and (diagonal > 0).all()):
        return None
    unit = 1.0 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(unit[:, None] * curvature * unit)
    if values[0] < MIN_EIGENVALUE:
        return None
    spread = unit[:, None] * vectors
    return np.asarray((spread / values) @ spread.T)


def _radius(
    s: FloatArray,
    slopes: FloatArray,
    noise: FloatArray,
    *,
    upper: FloatArray,
    diagonal: FloatArray,
    inverse: FloatArray,
    spare: float = 0.0,
) -> float:
    """How far a maximiser can be in the norm of the curvature, whose inverse is a matrix or a diagonal.

    `spare` is what may be gained besides.
    """
    room, steepness = np.where(slopes > 0, upper - s, s), np.abs(slopes) + noise
    # A slope that is all noise may point either way; a sure one is worth no more than the room there is.
    bounded = (np.abs(slopes) > noise) & (np.abs(slopes) >= diagonal * room)
    promised = spare + float((steepness[bounded] * room[bounded]).sum())
    free = np.where(bounded, 0.0, steepness)
    if inverse.ndim == 1:
        pull = float(np.sqrt((free**2 * inverse).sum()))
    else:
        # The signs are not known for noise: |free|^T |H^-1| |free| bounds them all.
        pull = float(np.sqrt(free @ np.abs(inverse) @ free))
    k = KEPT_CURVATURE
    return RADIUS_MARGIN * (pull + np.sqrt(pull**2 + 2.0 * k * promised)) / k


def _keeps_curvature(federation: Federation, data: FloatArray, reached: FloatArray) -> bool:
    """Whether payoffs are defined within this distance of a reach, and bend at least `KEPT_CURVATURE` as much.

    Slopes of payoffs fall ever more slowly, so that the curvature is least at the upper end.
    """
    curvature = federation.payoff.curvature
    if not (data - reached > np.broadcast_to(federation.payoff.floor, data.shape)).all():
        return False
    return bool((curvature(data + reached) <= KEPT_CURVATURE * curvature(data)).all())
