"""Random federations: hypothesis strategies, and a plain seeded generator for loops over hundreds of instances.

Every federation made here is *inside its domain*: with the agents that harm somebody at their caps, every coalition's
reach stays above the payoff's floor, so Shapley values exist at every profile within the caps. Costs are drawn as a
multiple of what the first sample is worth to everybody together, from far below to a little above: optima at zero, at a
cap and in between are all common.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

import fedpact as fp
from fedpact.federation import Payoff
from fedpact.utils.arrays import FloatArray
from random_cases import cases

FAMILIES = (fp.PowerLaw, fp.Log, fp.Michaelis, fp.Exponential)

# How far into the harmful side of the domain the worst coalition may go: as a share of the distance to the floor, and
# in units of one over the rate for the exponential family, which has no floor.
HARM_SHARE = 0.8
HARM_RATES = 2.0
# Stands for an infinite cap when a profile has to be drawn.
ROOMY = 50.0


def payoff_of(family: type[Payoff], parameter: float | FloatArray) -> Payoff:
    """A payoff of a family, whatever its parameter is called; `Log` has none."""
    return fp.Log() if family is fp.Log else family(parameter)


def _depths(weights: FloatArray, caps: FloatArray) -> FloatArray:
    harm = np.minimum(weights, 0.0)
    return harm @ np.where((harm < 0).any(axis=0), caps, 0.0)


def kept_in_domain(weights: FloatArray, caps: FloatArray, payoff: Payoff) -> FloatArray:
    """The weights with their negative entries shrunk, row by row, until every coalition at the caps is inside."""
    n_agents = weights.shape[0]
    harm = np.minimum(weights, 0.0)
    depth = -_depths(weights, caps)
    floor = np.broadcast_to(payoff.floor, n_agents)
    if isinstance(payoff, fp.Exponential):
        allowed = HARM_RATES / np.broadcast_to(payoff.rate, n_agents)
    else:
        allowed = -HARM_SHARE * floor
    shrink = allowed / np.maximum(depth, allowed)
    return np.maximum(weights, 0.0) + shrink[:, None] * harm


def _assembled(
    weights: FloatArray,
    *,
    caps: FloatArray,
    payoff: Payoff,
    values: FloatArray,
    cost_shares: FloatArray,
    bends: FloatArray | None,
) -> fp.Federation:
    """The federation whose first samples cost `cost_shares` of what they are worth to everybody."""
    harmful = (weights < 0).any(axis=0)
    caps = np.where(harmful & np.isinf(caps), ROOMY, caps)
    weights = kept_in_domain(weights, caps, payoff)
    worth = (values * payoff.slope(np.zeros(values.size))) @ np.maximum(weights, 0.0)
    rates = cost_shares * worth
    costs = fp.Linear(rates) if bends is None else fp.Quadratic(rates, bends * worth)
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoff, values=values)


def random_federation(
    rng: np.random.Generator,
    *,
    n_agents: int | None = None,
    harm: bool | None = None,
    family: type[Payoff] | None = None,
    quadratic: bool | None = None,
) -> fp.Federation:
    """One federation of any kind; the keywords pin what is otherwise drawn."""
    n = int(rng.integers(1, 9)) if n_agents is None else n_agents
    family = FAMILIES[rng.integers(len(FAMILIES))] if family is None else family
    harm = bool(rng.integers(2)) if harm is None else harm
    quadratic = bool(rng.integers(2)) if quadratic is None else quadratic
    low, high = {fp.PowerLaw: (0.01, 2.0), fp.Michaelis: (0.3, 30.0), fp.Exponential: (0.02, 2.0)}.get(
        family, (1.0, 1.0)
    )
    parameter = np.exp(rng.uniform(np.log(low), np.log(high), size=None if rng.integers(2) else n))
    weights = rng.uniform(0.0, 2.0, (n, n))
    if harm:
        weights = np.where(rng.random((n, n)) < 0.3, -rng.uniform(0.0, 0.5, (n, n)), weights)
    weights = np.where(rng.random((n, n)) < rng.choice([0.0, 0.0, 0.6]), 0.0, weights)
    np.fill_diagonal(weights, 1.0 if rng.integers(2) else rng.uniform(0.2, 3.0, n))
    caps = np.where(rng.random(n) < 0.5, np.exp(rng.uniform(-2.0, 4.0, n)), np.inf)
    values = np.ones(n) if rng.integers(2) else np.exp(rng.uniform(-1.5, 1.5, n))
    shares = np.exp(rng.uniform(np.log(1e-2), np.log(1.5), n))
    bends = np.exp(rng.uniform(-6.0, 0.0, n)) * (rng.random(n) < 0.7) if quadratic else None
    payoff = payoff_of(family, parameter)
    return _assembled(weights, caps=caps, payoff=payoff, values=values, cost_shares=shares, bends=bends)


def random_federations(seed: int, count: int, **pinned: object) -> Iterator[fp.Federation]:
    """Yield federations from one seed: `count` with all cases, the first few of them by default."""
    rng = np.random.default_rng(seed)
    for _ in range(cases(count)):
        yield random_federation(rng, **pinned)  # type: ignore[arg-type]


def random_lots(
    rng: np.random.Generator,
    *,
    n_agents: int | None = None,
    harm: bool | None = None,
    family: type[Payoff] | None = None,
    quadratic: bool | None = None,
    collinear: bool = False,
    sparse: bool = False,
) -> fp.Federation:
    """One federation whose agents own up to three lots and two tasks each, some of them none of either.

    Owners stand in any order, own data may be useless or harm its owner; with `collinear`, one agent has two lots
    with the same weights and costs.
    """
    n = int(rng.integers(1, 6)) if n_agents is None else n_agents
    family = FAMILIES[rng.integers(len(FAMILIES))] if family is None else family
    harm = bool(rng.integers(2)) if harm is None else harm
    quadratic = bool(rng.integers(2)) if quadratic is None else quadratic
    lots = np.repeat(np.arange(n), rng.integers(1, 4, n))
    tasks = np.repeat(np.arange(n), rng.integers(1, 3, n))
    if n > 2:  # one only gives, another only receives
        lots, tasks = lots[lots != 1], tasks[tasks != 2]
    lots, tasks = rng.permutation(lots), rng.permutation(tasks)
    if collinear:
        lots = np.append(lots, lots[0])
    shape = (tasks.size, lots.size)
    weights = np.where(rng.random(shape) < 0.25, 0.0, rng.uniform(0.0, 2.0, shape))
    if harm:
        weights = np.where(rng.random(shape) < 0.3, -rng.uniform(0.0, 0.5, shape), weights)
    low, high = {fp.PowerLaw: (0.01, 2.0), fp.Michaelis: (0.3, 30.0), fp.Exponential: (0.02, 2.0)}.get(
        family, (1.0, 1.0)
    )
    payoff = payoff_of(family, np.exp(rng.uniform(np.log(low), np.log(high), tasks.size)))
    caps = np.exp(rng.uniform(-2.0, 4.0, lots.size))
    if not harm:
        caps = np.where(rng.random(lots.size) < 0.5, caps, np.inf)
    weights = kept_in_domain(weights, caps, payoff)
    values = np.exp(rng.uniform(-1.5, 1.5, tasks.size))
    if collinear:
        weights[:, -1] = weights[:, 0]
    worth = (values * payoff.slope(np.zeros(tasks.size))) @ np.maximum(weights, 0.0)
    rates = np.exp(rng.uniform(np.log(1e-2), np.log(1.5), lots.size)) * np.maximum(worth, 1e-3)
    bends = np.exp(rng.uniform(-6.0, 0.0, lots.size)) * (rng.random(lots.size) < 0.7) * np.maximum(worth, 1e-3)
    if collinear:
        rates[-1], bends[[0, -1]] = rates[0], 0.0
    return fp.Federation(
        sp.csr_array(weights) if sparse else weights,
        lot_owners=lots.tolist(),
        task_owners=tasks.tolist(),
        names=[f"m{agent}" for agent in range(n)],
        costs=fp.Quadratic(rates, bends) if quadratic else fp.Linear(rates),
        caps=caps,
        payoff=payoff,
        values=values,
    )


def random_profile(rng: np.random.Generator, federation: fp.Federation) -> FloatArray:
    """Contributions within the caps, some of them at a bound."""
    caps = np.where(np.isinf(federation.caps), ROOMY, federation.caps)
    place = rng.random(federation.n_lots)
    return np.where(place < 0.15, 0.0, np.where(place > 0.9, caps, rng.random(federation.n_lots) * caps))


def _hundredths(low: int, high: int) -> st.SearchStrategy[float]:
    """Round numbers: they shrink well and make equal agents and degenerate optima common."""
    return st.integers(low, high).map(lambda number: number / 100.0)


@st.composite
def payoffs(draw: st.DrawFn, n_agents: int, *, families: tuple[type[Payoff], ...] = FAMILIES) -> Payoff:
    """A payoff family with one parameter for all or one per agent."""
    family = draw(st.sampled_from(families))
    if family is fp.Log:
        return fp.Log()
    parameter = _hundredths(20, 2000) if family is fp.Michaelis else _hundredths(1, 200)
    if draw(st.booleans()):
        return family(draw(parameter))
    return family(draw(st.lists(parameter, min_size=n_agents, max_size=n_agents)))


@st.composite
def federations(
    draw: st.DrawFn,
    *,
    least_agents: int = 1,
    most_agents: int = 8,
    harm: bool | None = None,
    families: tuple[type[Payoff], ...] = FAMILIES,
    quadratic: bool | None = None,
) -> fp.Federation:
    """Federations of up to eight agents, of all families, costs, caps and signs, inside their domain."""
    n = draw(st.integers(least_agents, most_agents))

    def per_agent(entry: st.SearchStrategy[float]) -> FloatArray:
        return np.array(draw(st.lists(entry, min_size=n, max_size=n)))

    harmful = draw(st.booleans()) if harm is None else harm
    entry = _hundredths(-50, 200) if harmful else _hundredths(0, 200)
    if draw(st.booleans()):  # sparse
        entry = st.one_of(st.just(0.0), st.just(0.0), entry)
    weights = np.array(draw(st.lists(entry, min_size=n * n, max_size=n * n))).reshape(n, n)
    np.fill_diagonal(weights, per_agent(st.one_of(st.just(1.0), _hundredths(10, 300))))
    caps = per_agent(st.one_of(st.just(np.inf), _hundredths(0, 5000)))
    values = per_agent(st.one_of(st.just(1.0), _hundredths(20, 500)))
    shares = per_agent(_hundredths(1, 150))
    bent = draw(st.booleans()) if quadratic is None else quadratic
    bends = per_agent(_hundredths(0, 20)) if bent else None
    payoff = draw(payoffs(n, families=families))
    return _assembled(weights, caps=caps, payoff=payoff, values=values, cost_shares=shares, bends=bends)


@st.composite
def contributions(draw: st.DrawFn, federation: fp.Federation) -> FloatArray:
    """Profiles within the caps, with zeros and caps among them."""
    caps = np.where(np.isinf(federation.caps), ROOMY, federation.caps)
    place = st.one_of(st.just(0.0), st.just(1.0), _hundredths(0, 100))
    return np.array(draw(st.lists(place, min_size=caps.size, max_size=caps.size))) * caps


def with_shared_caps(rng: np.random.Generator, federation: fp.Federation) -> fp.Federation:
    """The federation with a cap that some lots of every agent with several share, tight or loose."""
    shared = []
    for agent in range(federation.n_agents):
        own = rng.permutation(federation.lots_of(agent))
        if own.size > 1:
            lots = own[: rng.integers(2, own.size + 1)]
            most = federation.arrays.bounds()[0][lots].sum()
            shared.append((lots.tolist(), float(most * np.exp(rng.uniform(-5.0, 0.0)))))
    return federation.replace(shared_caps=shared)
