"""Whether side payments are the fairest that keep everybody, by duality rather than by solving again.

Members have utilities x that add up to W, benefits x + c, and Shapley shares phi. What is claimed of the side payments
behind x (`fedpact.mechanisms.fair`) is three things:

* Nobody is better off outside: x(X) >= v(X) for every group X to be kept.
* The lowest share r = min (x_i + c_i) / phi_i is the largest possible. Weights l_i on members and m_X on groups, none
  negative, that give every member the same weight e in all prove it:

      r' <= (e W + sum l_i c_i - sum m_X v(X)) / sum l_i phi_i    for the r' of any sharing that keeps the groups.

  They are looked for among the constraints that bind. Members who are a little short of e by rounding are filled up by
  their own constraints, x_i >= v({i}), so the bound is one whatever the search found.
* Among sharings with this r it is the closest to phi - c: the way there is made of what binds, with no negative
  multiplier. What is left of the way is how far anybody can be from the closest sharing, since projections do not
  spread.

Shapley values, what members have alone and bounds on v(X) come from this package: a profile of the group, from wherever
it comes, bounds v(X) from below, and its prices from above. All groups have to be listed: there cannot be many agents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.certificates import CertifiedOutcome
from fedpact.certificates.core import group_gains
from fedpact.certificates.deviations import isolation
from fedpact.certificates.shapley_check import check_shares
from fedpact.utils.arrays import FloatArray

BINDING_TOLERANCE = 1e-9  # of what is shared out: a constraint with no more room than this binds


@dataclass(frozen=True, kw_only=True, eq=False)
class SidePaymentCheck:
    """What duality says of side payments, in units of payoff but for shares.

    Attributes
    ----------
    sum
        Of the side payments; they should add up to nothing.
    lowest_share, share_bound
        The lowest share returned, and a bound on that of any sharing that keeps everybody.
    shortfall
        The most that a member, or a group that is to be kept, could gain by leaving; not above zero if all are kept.
    distance
        How far the utilities can be from the closest to Shapley shares that return as much.
    """

    sum: float
    lowest_share: float
    share_bound: float
    shortfall: float
    distance: float


def check_side_payments(
    outcome: CertifiedOutcome, side_payments: FloatArray, *, groups: bool
) -> SidePaymentCheck | None:
    """Judge side payments; None where there are no Shapley values, or more groups than can be listed.

    Parameters
    ----------
    groups
        Whether every group has to be kept, or only every member.
    """
    federation, size = outcome.federation, outcome.federation.n_agents
    shares = check_shares(federation, outcome.contributions)
    if shares is None or not shares.proves:
        return None
    alone = isolation(federation, outcome.contributions).utilities
    members, lower, upper = np.eye(size), alone, alone
    if groups:
        listed = outcome.group_profiles
        if not listed.is_complete:
            return None
        found, sizes = group_gains(federation, np.zeros(size), listed), listed.members.sum(axis=1)
        several = (sizes > 1) & (sizes < size)
        members = np.vstack([members, listed.members[several]])
        lower, upper = np.append(alone, found.gains[several]), np.append(alone, found.bounds[several])
    benefits, phi = outcome.payoffs + outcome.payments, shares.values
    counted = phi > 0
    lowest = float(min(1.0, (benefits[counted] / phi[counted]).min())) if counted.any() else 1.0
    unit = max(float(np.abs(phi).sum() + outcome.costs.sum() + np.abs(alone).sum()), np.finfo(float).tiny)
    rows = np.vstack([np.eye(size), members])
    room = np.concatenate([benefits - lowest * phi, members @ outcome.utilities - lower])
    binding = room <= BINDING_TOLERANCE * unit
    return SidePaymentCheck(
        sum=float(side_payments.sum()),
        lowest_share=lowest,
        share_bound=_share_bound(outcome, phi, members, lower, binding) if counted.any() else 1.0,
        shortfall=float((upper - members @ outcome.utilities).max()),
        distance=_distance(outcome.utilities - (phi - outcome.costs), rows[binding]),
    )


def _share_bound(
    outcome: CertifiedOutcome, phi: FloatArray, members: FloatArray, values: FloatArray, binding: NDArray[np.bool_]
) -> float:
    """A bound on the lowest share of any sharing, from weights on what binds; 1 where none are found."""
    from scipy.optimize import nnls  # noqa: PLC0415 - loaded where it is used

    size = phi.size
    fair, kept = np.flatnonzero(binding[:size]), np.flatnonzero(binding[size:])
    # Columns: l, m, and e; rows: everybody's weight, and the sum of l phi, in units that make both of order one.
    unit = float(np.abs(phi).sum())
    columns = np.hstack([np.eye(size)[:, fair], members[kept].T, -np.ones((size, 1))])
    scale = np.concatenate([phi[fair] / unit, np.zeros(kept.size + 1)])
    weights, _ = nnls(np.vstack([columns, scale]), np.append(np.zeros(size), 1.0))
    on_fair, on_kept = np.zeros(size), np.zeros(len(members))
    on_fair[fair], on_kept[kept] = weights[: fair.size], weights[fair.size : -1]
    returned = float(on_fair @ phi)
    if not returned > 0:
        return 1.0
    given = on_fair + on_kept @ members
    even = float(given.max())
    on_kept[:size] += even - given  # members alone come first
    bound = even * outcome.welfare + float(on_fair @ outcome.costs - on_kept @ values)
    return min(1.0, bound / returned)


def _distance(way: FloatArray, binding: FloatArray) -> float:
    """What is left of the way from the target after what binds, all along the plane of one sum."""
    from scipy.optimize import nnls  # noqa: PLC0415 - loaded where it is used

    flat = way - way.mean()
    if not binding.size:
        return float(np.linalg.norm(flat))
    normals = binding - binding.mean(axis=1, keepdims=True)
    return float(nnls(normals.T, flat)[1])
