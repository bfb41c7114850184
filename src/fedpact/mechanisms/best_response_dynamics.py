"""The paper's best-response dynamics for M^Shap: agents take turns to answer the others' contributions.

Each answer maximises phi_j(x, s_-j) - c_j(x) over [0, cap], a concave function of one variable. Since the game has an
exact concave potential, answering in turn climbs it coordinate by coordinate and ends at the unique equilibrium. Slower
than maximising the potential at once, and independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.programs.best_response import best_answer
from fedpact.shapley.own_share import own_shares
from fedpact.shapley.values import check_domain
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged

__all__ = ["BestResponseTrace", "best_response_dynamics"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponseTrace:
    """The path of best responses: `trace[k]` is the profile after k rounds, `contributions` the last."""

    contributions: FloatArray
    trace: FloatArray
    rounds: int


def best_response_dynamics(
    federation: Federation, *, start: ArrayLike = 0.0, tol: float = 1e-10, most_rounds: int = 2000
) -> BestResponseTrace:
    """Agents answer in turn until, in a whole round, nobody moves by more than `tol` of the largest contribution.

    Raises
    ------
    NotConverged
        After `most_rounds` rounds; `result` is the trace so far.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> best_response_dynamics(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """
    profile = federation.checked_contributions(start).copy()
    check_domain(federation, profile)
    path = [profile.copy()]
    for _ in range(most_rounds):
        for agent in range(federation.n_agents):
            profile[agent] = _answer(federation, profile, agent)
        path.append(profile.copy())
        if np.abs(path[-1] - path[-2]).max() <= tol * max(float(profile.max()), np.finfo(float).tiny):
            return _trace(path)
    raise NotConverged(f"best responses still moved after {most_rounds} rounds", result=_trace(path))


def _answer(federation: Federation, profile: FloatArray, agent: int) -> float:
    share = own_shares(federation, profile, [agent])[0]
    return best_answer(federation, share, agent, guess=float(profile[agent]))[0]


def _trace(path: list[FloatArray]) -> BestResponseTrace:
    return BestResponseTrace(
        contributions=read_only_copy(path[-1]), trace=read_only_copy(np.array(path)), rounds=len(path) - 1
    )
