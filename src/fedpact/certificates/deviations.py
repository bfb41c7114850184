r"""The most any one member could gain by acting differently, under each mechanism's rules.

Under most rules a member's utility is concave in its own lots, the others' given: a `ConcaveProblem`. Its tangents at
what the member does bound every gain; where that bound is more than rounding, an ascent looks for a real one. Bounds
prove that nobody gains, actions that somebody does.

| rules               | utility of member i, as a function of its own lots x                                 |
|---------------------|--------------------------------------------------------------------------------------|
| `price_taking`      | a_i(x, s_-i) - c_i(x) + x (what the others pay for its lots) - what it pays for theirs |
| `free_riding`       | a_i(x, s_-i) - c_i(x)                                                                |
| `isolation`         | a_i(x, 0) - c_i(x)                                                                   |
| `sharing_total`     | share A(x, s_-i) - c_i(x) + constant_i, A the payoffs of all                         |
| `semivalue_sharing` | phi_i(x, s_-i) - c_i(x), phi Shapley values or semivalues                            |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import agent_values, utility_tolerances
from fedpact.certificates.concave import ConcaveProblem, maximise, welfare_problem
from fedpact.certificates.shapley_check import CheckedShares, check_shares, own_share_problems
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by, times_transposed
from fedpact.utils.arrays import FloatArray

MAX_EVERYBODY_SEARCHED = 50  # members of whom all who may gain are searched; of more, until one does
SEARCHED_AT_ONCE, MAX_SEARCHED = 8, 160
MOST_BROUGHT = 1e12  # of a lot without a cap, where a search begins with all that there is
PRICES_SCOPE = "all profiles one member could ask for at its prices, which it takes as given"
ISOLATION_SCOPE = "all amounts of one member's lots within the caps, alone"
FREE_RIDING_SCOPE = "all amounts of one member's lots within the caps, without payments"
TOTAL_SCOPE = "all amounts of one member's lots within the caps, paid with the payoffs of all"
SHARES_SCOPE = "all amounts of one member's lots within the caps, by {}"
NO_DOMAIN_SCOPE = "somebody is outside its payoff's domain"
NO_SHARES_SCOPE = "no Shapley values: a coalition leaves the domain"


@dataclass(frozen=True, kw_only=True, eq=False)
class Deviations:
    """The best each member could do alone, before side payments."""

    actions: FloatArray  # what it would contribute of its lots, (lots,)
    utilities: FloatArray  # bounds on the utility it could have, whatever it does, (members,)
    scope: str  # what was searched
    shortfalls: FloatArray | float = 0.0  # how much less than that its `actions` give it, (members,)
    # the Shapley values or semivalues that it was worked out from, if these are the rule
    shares: CheckedShares | None = None

    @property
    def reached(self) -> FloatArray:
        """The utilities that the actions give; minus infinity where nothing is known but that there is no bound."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isposinf(self.utilities), -np.inf, self.utilities - self.shortfalls)

    def compare(self, utilities: FloatArray, tols: FloatArray) -> tuple[FloatArray, bool]:
        """What everybody could have, and whether an action shows that somebody gains by it; if none does, the bounds.

        A bound above what somebody has refutes nothing: it may be loose.
        """
        refuted = bool((self.reached - utilities > tols).any())
        return (self.reached if refuted else self.utilities), refuted


def unbounded_deviations(federation: Federation, contributions: FloatArray, scope: str) -> Deviations:
    """Where nothing bounds what is gained; `scope` says why."""
    return Deviations(actions=contributions, utilities=np.full(federation.n_agents, np.inf), scope=scope)


# Own lots, others given


def isolation(federation: Federation, contributions: FloatArray) -> Deviations:
    """Alone, member i maximises a_i(x, 0) - c_i(x), whatever the profile."""
    return _isolation(federation.arrays)


@lru_cache(maxsize=2)  # all outcomes of a federation ask
def _isolation(arrays: FederationArrays) -> Deviations:
    return _own_best(arrays, np.zeros(arrays.n_tasks), np.zeros(arrays.n_lots), ISOLATION_SCOPE)


def free_riding(federation: Federation, contributions: FloatArray) -> Deviations:
    """Without payments, member i maximises a_i(x, s_-i) - c_i(x)."""
    arrays = federation.arrays
    background = arrays.foreign_data(contributions)
    return _own_best(arrays, background, contributions, FREE_RIDING_SCOPE)


def _own_best(arrays: FederationArrays, background: FloatArray, start: FloatArray, scope: str) -> Deviations:
    """The best of each member's own lots on top of data `background`, (tasks,)."""
    blocks = _OwnLots(arrays, background)
    problem, begin = blocks.problem, blocks.take(start)
    most = problem.project(np.minimum(problem.upper, MOST_BROUGHT))
    for other in (np.zeros_like(begin), most):  # where it is not in the domain
        begin = np.where(np.isfinite(problem.value(begin))[:, None], begin, other)
    found = maximise(problem.within_means(begin), begin)
    with np.errstate(invalid="ignore"):
        short = np.nan_to_num(found.bounds - found.values)
    return Deviations(
        actions=blocks.put(start, found.x),
        utilities=np.where(np.isfinite(found.values), found.bounds, found.values),
        shortfalls=short,
        scope=scope,
    )


class _OwnLots:
    """Every member's own problem side by side, padded to as many lots and tasks as any has."""

    def __init__(self, arrays: FederationArrays, background: FloatArray) -> None:
        self.arrays = arrays
        tasks, has_task = _index_by(arrays.task_owners, arrays.n_agents)
        self.lots, self.has_lot = _index_by(arrays.lot_owners, arrays.n_agents)
        own = arrays.weights[tasks[:, :, None], self.lots[:, None, :]] * has_task[:, :, None] * self.has_lot[:, None, :]
        caps, has_cap = _index_by(arrays.lot_owners[arrays.shared.argmax(axis=1)], arrays.n_agents)
        shared = arrays.shared[caps[:, :, None], self.lots[:, None, :]] * has_cap[:, :, None] * self.has_lot[:, None, :]
        self.problem = ConcaveProblem(
            weights=own,
            values=arrays.values[tasks] * has_task,
            payoff=arrays.payoff.map(lambda parameter: parameter[tasks]),
            background=background[tasks],
            linear=arrays.linear[self.lots],
            quadratic=arrays.quadratic[self.lots],
            upper=np.where(self.has_lot, arrays.reachable_caps[self.lots], 0.0),
            shared=shared,
            limits=arrays.shared_limits[caps] * has_cap,
        )

    def take(self, profile: FloatArray) -> FloatArray:
        """(members, lots): what everybody has of its own lots in a profile."""
        return np.where(self.has_lot, profile[self.lots], 0.0)

    def put(self, profile: FloatArray, own: FloatArray) -> FloatArray:
        """A profile with own lots (members, lots) in place of those it has."""
        changed = np.array(profile)
        changed[self.lots[self.has_lot]] = own[self.has_lot]
        return changed


def _index_by(owners: NDArray[np.intp], n_owners: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(owners, most): the indices of what each owns, padded with zeros, and which of them are not padding."""
    order, counts = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=n_owners)
    is_owned = np.arange(int(counts.max())) < counts[:, None]
    index = np.zeros(is_owned.shape, dtype=np.intp)
    index[is_owned] = order
    return index, is_owned


# Prices


def price_taking(federation: Federation, contributions: FloatArray) -> Deviations:
    """At personal prices l_i, member i asks for the profile x that maximises a_i(x) - c_i(x_i) - l_i x.

    The prices are those of this profile: l_ij = da_i/ds_j, and l_jj makes each column sum to zero. So at this profile
    nothing is gained by asking for other data of others, to first order: a_i(x) less what i pays for data lies below
    its value here, whatever i asks for, and what its own lots earn less their costs is bounded lot by lot. A real gain
    is looked for among the member's own lots. Members take prices as given: one that states another cap, cost or value
    moves them, and may gain.
    """
    arrays = federation.arrays
    if not federation.admits(contributions):
        return unbounded_deviations(federation, contributions, NO_DOMAIN_SCOPE)
    problem = welfare_problem(arrays, np.maximum(arrays.bounds()[0], contributions)[None])
    earned, worth = problem.earned(contributions[None]), arrays.marginal_payoffs(contributions)
    sold = times_transposed(arrays.foreign_weights, worth)  # what the others pay for a sample of each lot
    foreign = arrays.foreign_data(contributions)
    paid = sum_by(arrays.lot_owners, contributions * sold, arrays.n_agents)
    paid = paid - sum_by(arrays.task_owners, worth * foreign, arrays.n_agents)
    here = arrays.payoffs(contributions) - arrays.spending(contributions) + paid
    gaps = sum_by(arrays.lot_owners, problem.gaps(contributions[None], earned)[0], arrays.n_agents)
    blocks = _OwnLots(arrays, foreign)
    own = replace(
        blocks.problem,
        linear=blocks.problem.linear - sold[blocks.lots],
        upper=np.where(blocks.has_lot, problem.upper[0][blocks.lots], 0.0),
    )
    now = blocks.take(contributions)
    found = maximise(own, now)
    gains = np.maximum(found.values - own.value(now), 0.0)
    actions = blocks.put(contributions, np.where(gains[:, None] > 0, found.x, now))
    bounds = np.maximum(gaps, gains)
    return Deviations(actions=actions, utilities=here + bounds, shortfalls=bounds - gains, scope=PRICES_SCOPE)


# Shares of all payoffs


def sharing_total(
    federation: Federation, contributions: FloatArray, constants: FloatArray, *, share: float = 1.0
) -> Deviations:
    """The best each member could do with u_i = share A(s) - c_i(s_i) + constants_i."""
    arrays = replace(federation.arrays, values=share * federation.arrays.values)
    if not federation.admits(contributions):
        return unbounded_deviations(federation, contributions, NO_DOMAIN_SCOPE)
    problem, data = _share_bounds(arrays, contributions), arrays.data(contributions)
    earned = welfare_problem(arrays, problem.upper).earned(contributions[None])

    def own_problem(agent: int) -> ConcaveProblem:
        own = np.flatnonzero(arrays.lot_owners == agent)
        alone = welfare_problem(arrays, problem.upper[:, own], own)
        return replace(alone, background=data - alone.data(contributions[None, own]))

    worth = arrays.payoffs(contributions).sum() + constants
    gaps = problem.gaps(contributions[None], earned)[0]
    found = _search(federation.arrays, contributions, worth, gaps, lambda agents: map(own_problem, agents))
    return replace(found, scope=TOTAL_SCOPE)


def semivalue_sharing(federation: Federation, contributions: FloatArray, probability: float | None) -> Deviations:
    """Paid what it adds on average to coalitions, member j maximises that less its costs.

    Coalitions are those of Shapley values, or drawn with `probability`. What it adds is concave in its own lots.
    """
    arrays = federation.arrays
    shares = check_shares(arrays, contributions, probability)
    if shares is None:
        return unbounded_deviations(federation, contributions, NO_SHARES_SCOPE)
    problem = _share_bounds(arrays, contributions)
    gaps = problem.gaps(contributions[None], shares.gradient[None])[0]

    def own_problems(agents: list[int]) -> Iterator[ConcaveProblem]:
        return own_share_problems(arrays, contributions, agents, problem.upper[0], probability)

    def utility(profile: FloatArray, agent: int) -> float:
        there = check_shares(arrays, profile, probability)
        return -np.inf if there is None else float(there.values[agent] - arrays.spending(profile)[agent])

    found = _search(
        arrays, contributions, shares.values, gaps, own_problems, utility=utility if arrays.has_harm else None
    )
    return replace(found, scope=SHARES_SCOPE.format(shares.method), shares=shares)


def _share_bounds(arrays: FederationArrays, contributions: FloatArray) -> ConcaveProblem:
    """The payoffs of all, with bounds on what a member could want to bring that is paid what it adds to others.

    In no coalition has a task less data than what those who harm it bring, and more data adds less: so whatever a
    member adds is at most what it adds there.
    """
    upper = np.maximum(arrays.reachable_caps, contributions)[None]
    problem = replace(welfare_problem(arrays, upper), background=arrays.lowest_data(contributions)[None])
    bounded = problem.within_means(np.zeros_like(upper))
    return replace(bounded, upper=np.maximum(bounded.upper, contributions))


def _search(
    arrays: FederationArrays,
    contributions: FloatArray,
    worth: FloatArray,
    gaps: FloatArray,
    own_problems: Callable[[list[int]], Iterable[ConcaveProblem]],
    *,
    utility: Callable[[FloatArray, int], float] | None = None,
) -> Deviations:
    """Deviations from utilities `worth - costs`, where no lot gains more than its gap: who may gain is searched.

    `own_problems` are what some members have over their own lots, up to a constant. Near the edge of the domain they
    have few digits: what is found there is worked out again, by `utility` of a profile and the member.
    """
    payoffs, costs = arrays.payoffs(contributions), arrays.spending(contributions)
    here, actions, gains = worth - costs, np.array(contributions), np.zeros(arrays.n_agents)
    tols = utility_tolerances(payoffs, costs, worth - payoffs, agent_values(arrays))
    bounds = np.maximum(sum_by(arrays.lot_owners, gaps, arrays.n_agents), 0.0)
    excess = np.nan_to_num(bounds / tols, nan=np.inf)
    suspects = np.argsort(-excess, kind="stable")[: min(int((excess > 1.0).sum()), MAX_SEARCHED)].tolist()
    for first in range(0, len(suspects), SEARCHED_AT_ONCE):
        some = suspects[first : first + SEARCHED_AT_ONCE]
        for agent, problem in zip(some, own_problems(some), strict=True):
            own = np.flatnonzero(arrays.lot_owners == agent)
            now, moved = contributions[own][None], np.array(contributions)
            found, base = maximise(problem, now), problem.value(now)
            moved[own] = found.x[0]
            with np.errstate(invalid="ignore"):
                gain, bound = float((found.values - base)[0]), float((found.bounds - base)[0])
            if utility is not None and gain > tols[agent]:
                gain = utility(moved, agent) - float(here[agent])
            if gain > 0:
                actions[own], gains[agent] = moved[own], gain
            bounds[agent] = np.fmin(bounds[agent], max(bound, gains[agent]))
        if arrays.n_agents > MAX_EVERYBODY_SEARCHED and (gains > tols).any():
            break
    bounds = np.maximum(bounds, gains)
    with np.errstate(invalid="ignore"):
        short = np.nan_to_num(bounds - gains)
    return Deviations(actions=actions, utilities=here + bounds, shortfalls=short, scope="")
