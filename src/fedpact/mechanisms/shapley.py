"""Mechanisms that pay members what they add to groups of the others: M^Shap, and semivalues such as Banzhaf's.

Under M^Shap everybody is topped up or charged to its Shapley share of the total payoff: p_i = phi_i - a_i (equation 10
of the paper), so u_i = phi_i - c_i. Counting groups by another rule gives a *semivalue*: with every other member in the
group with probability q, independently, member i adds

    b_i = sum over X containing i of q^(|X|-1) (1-q)^(n-|X|) [A(s[X]) - A(s[X without i])].

q = 1/2 counts all groups alike: the value of Banzhaf (1965), which data valuation took up for being least disturbed by
noise (Wang and Jia, "Data Banzhaf", 2023). A q drawn uniformly from [0, 1] gives Shapley values (Dubey, Neyman and
Weber 1981); of all semivalues only these hand out exactly what there is.

When i alone moves, u_i changes by as much as P(s) - sum_j c_j(s_j), with P = sum over X of q^(|X|-1) (1-q)^(n-|X|)
A(s[X]): an exact potential. Every member on its own is among the groups, so P is strictly concave in what members
bring, and there is exactly one equilibrium, found by maximising it. The paper's best-response dynamics reach the same
point: members answer in turn, which climbs the potential block by block, more slowly and independently of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, semivalue_sharing
from fedpact.deals.outcome import Equilibria, Outcome
from fedpact.federation import Federation, require_federation
from fedpact.federation.arrays import FederationArrays
from fedpact.mechanisms.base import Mechanism
from fedpact.shapley.values import check_domain, share_values
from fedpact.solvers.shapley_equilibrium import best_response, potential_optima, potential_optimum, split_dimension
from fedpact.utils.arrays import FloatArray, one_number, read_only_copy
from fedpact.utils.errors import NotConverged

BANZHAF = 0.5


class SemivalueMechanism(Mechanism):
    """Everybody has what it adds on average to random groups.

    Parameters
    ----------
    probability
        q, with which each of the others is in the group: above 0 and below 1, by default a half (Banzhaf); None for
        one drawn uniformly (Shapley).

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> SemivalueMechanism().solve(homogeneous).contributions.round(4).tolist()
    [31.6646, 31.6646, 31.6646]
    """

    name = "banzhaf"
    title = "Banzhaf"
    plain_title = "paid for what you add to a random group"
    description = (
        "Everybody has what it adds, on average, to a group in which each of the others sits with even chances. It is "
        "more or less than there is to share out."
    )
    claims: Sequence[Claim] = (Claim.NASH,)
    is_baseline = True

    def __init__(self, probability: float | None = BANZHAF) -> None:
        rule = (lambda number: (number > 0.0) & (number < 1.0)), "above 0 and below 1, or None for Shapley values"
        self.probability = None if probability is None else one_number("probability", probability, *rule)

    def solve(self, federation: Federation) -> Outcome:
        """The unique equilibrium and its payments."""
        return self.outcome_at(federation, potential_optimum(federation, self.probability), is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return potential_optima(arrays, self.probability)

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return semivalue_sharing(federation, contributions, self.probability)

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        return share_values(arrays, contributions, self.probability)[0] - arrays.payoffs(contributions)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        dimension = split_dimension(federation, contributions)
        if dimension == 0:
            return Equilibria(unique=True, dimension=0, note="the only equilibrium: its potential is strictly concave")
        note = (
            "payoffs and shares are those of every equilibrium; members may exchange some of their own lots for each "
            "other, and each split here is the one of smallest norm"
        )
        return Equilibria(unique=False, dimension=dimension, note=note)


class ShapleyMechanism(SemivalueMechanism):
    """M^Shap: perfectly reciprocal; contributions exceed the social optimum.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> ShapleyMechanism().solve(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """

    name = "shapley"
    title = "Shapley"
    plain_title = "everybody gets its fair share"
    description = "Payments top up or charge each member until it has its Shapley share of all that is achieved."
    claims: Sequence[Claim] = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.RECIPROCITY)
    is_baseline = False

    def __init__(self) -> None:
        super().__init__(None)


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponseTrace:
    """The path of best responses: `trace[k]` is the profile after k rounds, `contributions` the last."""

    contributions: FloatArray
    trace: FloatArray
    rounds: int


def best_response_dynamics(
    federation: Federation, *, start: ArrayLike = 0.0, tol: float = 1e-10, max_rounds: int = 2000
) -> BestResponseTrace:
    """Members answer in turn until, in a whole round, nobody moves by more than `tol` of the largest contribution.

    Raises
    ------
    NotConverged
        After `max_rounds` rounds; `result` is the trace so far.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> best_response_dynamics(homogeneous).contributions.round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """
    require_federation(federation)
    profile = federation.checked_contributions(start).copy()
    check_domain(federation, profile)
    path = [profile.copy()]
    for _ in range(max_rounds):
        for agent in range(federation.n_agents):
            profile[federation.lots_of(agent)] = best_response(federation, profile, agent)
        path.append(profile.copy())
        if np.abs(path[-1] - path[-2]).max() <= tol * max(float(profile.max()), np.finfo(float).tiny):
            return _trace(path)
    raise NotConverged(f"best responses still moved after {max_rounds} rounds", result=_trace(path))


def _trace(path: list[FloatArray]) -> BestResponseTrace:
    return BestResponseTrace(
        contributions=read_only_copy(path[-1]), trace=read_only_copy(np.array(path)), rounds=len(path) - 1
    )
