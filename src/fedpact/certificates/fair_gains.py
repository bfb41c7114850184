"""Fair gains: everybody gets its fair share of the gain, or comes as close to it as nobody would leave.

With v(X) what a group reaches by itself, target_i is its Shapley value in v: what i has alone and its fair gain. The
claim is that utilities x are the point nearest to the target, in the sum of squares, of those with the same total in
which every group that is to be kept has v(X), and nobody pays more than its budget. That is so if and only if

    x - target = nu (1, ..., 1) + sum over tight groups X of lambda_X 1_X,      lambda >= 0,

tight where x(X) = v(X), or where a budget is used up. For x in the set, with a remainder r on the right, x is within
|r| of that point: for the nearest point z and by (target - z)(x - z) <= 0, |x - z|^2 <= r (x - z).

Where the target itself is in the set, the claim is that x is the target.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.certificates.claims import Certificate, Claim, about
from fedpact.certificates.core import MAX_AGENTS_LISTED, GroupProfiles, group_gains, group_optima
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome

MAX_AGENTS = 16  # all groups of more are too many


def certify_fair_gains(outcome: Outcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """Everybody gets its fair share of the gain, as far as nobody would leave; `optimum` is where ascents start."""
    federation, size = outcome.federation, outcome.federation.n_agents
    tol = float(outcome.tolerances.sum())
    if size > MAX_AGENTS:
        return Certificate.undefined(Claim.FAIR_GAINS, tol, f"fair gains of more than {MAX_AGENTS} members are sampled")
    members = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1 > 0
    try:
        if size <= MAX_AGENTS_LISTED:
            profiles = group_optima(federation.arrays, members[1:], optimum()).contributions
        else:
            profiles = _in_order(getattr(outcome, "group_profiles"))[1:]  # noqa: B009 - of an outcome, if it has some
    except (NotConverged, AttributeError):
        return Certificate.undefined(Claim.FAIR_GAINS, tol, "what some group reaches by itself was not found")
    with np.errstate(over="ignore", invalid="ignore"):
        return _judge(outcome, GroupProfiles(members[1:], profiles))


def _judge(outcome: Outcome, groups: GroupProfiles) -> Certificate:
    federation, size, members = outcome.federation, outcome.federation.n_agents, groups.members
    tol = float(outcome.tolerances.sum())
    reached, most = group_gains(federation, np.zeros(size), groups)
    values = np.append(0.0, reached)
    target, alone = shapley_values_of(values, size), values[1 << np.arange(size)]
    kept = members if getattr(outcome.rules, "keep", "groups") == "groups" else np.eye(size, dtype=np.bool_)
    limits = values[kept @ (1 << np.arange(size))]
    remainder, lacking, binding = _distance(outcome, target, kept, limits)
    fair, gains = target - alone, outcome.utilities - alone
    counts = fair > outcome.tolerances
    agent = int(np.argmin(np.where(counts, gains / np.where(counts, fair, 1.0), np.inf)))
    witness: dict[str, Any] = about(outcome, agent) | {
        "member_gain": float(gains[agent]),
        "fair_gain": float(fair[agent]),
    }
    proven = bool((most - reached).max() <= tol)
    if outcome.rules.federated:
        scope = "all groups, by multipliers of those that would leave"
        witness |= {"distance_from_fair": remainder, "lacking": lacking}
        witness["groups_that_bind"] = [[federation.names[i] for i in np.flatnonzero(group)] for group in binding]
    else:  # nothing is shared out: what is lacking is all that federating would gain
        scope, remainder = "what everybody together would gain by federating", 0.0
        lacking = max(float(values[-1] - alone.sum()), 0.0)
        witness["gain_forgone"] = lacking
    return Certificate.judge(
        Claim.FAIR_GAINS, -max(remainder, lacking), tol, scope, witness, proven=proven, refuted=proven
    )


def shapley_values_of(values: FloatArray, size: int) -> FloatArray:
    """The Shapley values of a game given by what every group (2^n,) is worth, bit j of its index for member j."""
    groups = np.arange(1 << size)
    sizes = ((groups[:, None] >> np.arange(size)) & 1).sum(axis=1)
    counted = np.array([1.0 / (size * comb(size - 1, k)) for k in range(size)])
    found = np.empty(size)
    for member in range(size):
        without = groups[(groups >> member) & 1 == 0]
        found[member] = counted[sizes[without]] @ (values[without | 1 << member] - values[without])
    return found


def _distance(outcome: Outcome, target: FloatArray, kept: Any, limits: FloatArray) -> tuple[float, float, list[Any]]:
    """How far utilities are at most from the nearest point, what a kept group or a budget lacks, and who binds."""
    from scipy.optimize import nnls  # noqa: PLC0415 - heavy, and only for divisions

    x, tols = outcome.utilities, outcome.tolerances
    slack = kept @ x - limits
    spare = outcome.payments + outcome.federation.budgets
    rows = np.concatenate([kept[np.abs(slack) <= kept @ tols] * 1.0, np.eye(x.size)[spare <= tols]])
    flat = rows - rows.mean(axis=1, keepdims=True)
    away = (x - target) - (x - target).mean()
    multipliers = nnls(flat.T, away)[0] if len(flat) else np.zeros(0)
    remainder = float(np.linalg.norm(away - flat.T @ multipliers)) if len(flat) else float(np.linalg.norm(away))
    lacking = max(float((-slack).max()), float((-spare).max()), 0.0)
    return remainder, lacking, list(rows[multipliers > tols.max()] > 0)


def _in_order(groups: GroupProfiles) -> FloatArray:
    """Profiles of all groups, by the index whose bits say who is in it."""
    index = groups.members @ (1 << np.arange(groups.members.shape[1]))
    found = np.zeros((1 << groups.members.shape[1], groups.contributions.shape[1]))
    found[index] = groups.contributions
    return found
