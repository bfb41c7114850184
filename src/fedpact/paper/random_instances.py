"""Random federations whose equilibrium is known without solving.

We draw a profile first, and set each agent's marginal cost to what one more sample earns it there: sum_k w_ki a_k' for
M^E, d phi_i / d s_i for M^Shap. Then the profile is an equilibrium. An agent drawn at zero gets a higher marginal cost,
one drawn at its cap a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.federation import Cost, Exponential, Federation, Linear, Log, Michaelis, Payoff, PowerLaw, Quadratic
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray

MIN_AGENTS, MAX_AGENTS = 3, 7
MIN_BENEFICIARIES = 3
AT_ZERO, AT_CAP = 0.25, 0.75  # of a uniform number: below, an agent contributes nothing; above, its cap
DEPTH = 0.8  # how far towards the floor of the domain all harm at the caps together may go
SMALLEST_COST = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """A federation and the profile a claim is about, an equilibrium unless the claim says otherwise.

    Attributes
    ----------
    other
        A second profile, for claims that compare two.
    payments
        For claims about any payments; otherwise they follow from the mechanism.
    """

    federation: Federation
    contributions: FloatArray
    other: FloatArray | None = None
    payments: FloatArray | None = None


def stakes(instance: Instance) -> float:
    """The mean of |a_i| + c_i: what is at stake for the average agent."""
    federation, profile = instance.federation, instance.contributions
    return float((np.abs(federation.payoffs(profile)) + federation.costs.value(profile)).mean())


def earned_socially(federation: Federation, contributions: FloatArray) -> FloatArray:
    """sum_k w_ki a_k': what one more sample of i's is worth to everybody."""
    return np.asarray(federation.weights.T @ federation.marginal_payoffs(contributions))


def earned_by_shapley(federation: Federation, contributions: FloatArray) -> FloatArray:
    """d phi_i / d s_i."""
    return shapley_values(federation, contributions, method="enumeration").gradient


def welfare_optimum(
    rng: np.random.Generator,
    *,
    harm: bool = False,
    edges: bool = False,
    wide: bool = False,
    alone: bool = False,
    few: bool = False,
) -> Instance:
    """A federation and a welfare optimum of it.

    `harm` allows negative weights, `edges` agents at zero or at their cap, `wide` every payoff family, cost, value and
    own weight of the package; `alone` asks for standalone optima strictly inside (not with `edges` or `wide`), `few`
    allows data that is of use to fewer than three.
    """
    while True:
        weights, profile, caps = _parts(rng, harm=harm, edges=edges, beneficiaries=1 if few else MIN_BENEFICIARIES)
        payoff = _any_payoff(rng) if wide else PowerLaw(_beta(rng))
        values = np.exp(rng.uniform(-1.0, 1.0, profile.size)) if wide else np.ones(profile.size)
        if wide:
            weights = weights * np.exp(rng.uniform(-1.0, 1.0, profile.size))
        weights = _in_domain(weights, caps, payoff)
        costs = _costs(rng, profile, caps, (values * payoff.slope(weights @ profile)) @ weights, bent=wide)
        if costs is None or (alone and (costs.linear >= payoff.slope(np.zeros(1))).any()):
            continue
        if alone:  # caps that leave room for what each would gather alone
            caps = np.maximum(caps, 1.1 * payoff.inverse_slope(costs.linear))
        if (np.minimum(weights, 0.0) @ caps > payoff.floor).all():
            federation = Federation(weights, costs=costs, caps=caps, payoff=payoff, values=values)
            return Instance(federation=federation, contributions=profile)


def shapley_equilibrium(rng: np.random.Generator, *, edges: bool = False, least: float = 0.0) -> Instance:
    """A federation without harm and its Shapley equilibrium; with `least`, weights at least that of one's own data."""
    while True:
        weights, profile, caps = _parts(rng, harm=False, edges=edges)
        if least:
            weights = np.maximum(weights, least)
            np.fill_diagonal(weights, 1.0)
        blank = Federation(weights, costs=1.0, caps=caps, payoff=PowerLaw(_beta(rng)))
        costs = _costs(rng, profile, caps, earned_by_shapley(blank, profile), bent=False)
        if costs is not None:
            return Instance(federation=_with_costs(blank, costs), contributions=profile)


def homogeneous_optimum(rng: np.random.Generator, *, symmetric: bool = True) -> Instance:
    """The paper's homogeneous federation and an interior optimum, the symmetric one or any; all is in closed form."""
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 2)), _beta(rng)
    cost = beta * np.exp(rng.uniform(-6.0, -0.1))  # below beta: alone too agents contribute
    total = (n_agents * beta / cost) ** (1.0 / (beta + 1.0)) - 1.0
    shares = np.ones(n_agents) if symmetric else np.exp(rng.uniform(-2.0, 2.0, n_agents))
    profile = total * shares / shares.sum()
    alone = (beta / cost) ** (1.0 / (beta + 1.0)) - 1.0
    cap = float(np.exp(rng.uniform(0.01, 2.0)) * max(profile.max(), alone))
    federation = Federation(np.ones((n_agents, n_agents)), costs=cost, caps=cap, payoff=PowerLaw(beta))
    return Instance(federation=federation, contributions=profile)


def homogeneous_shapley(rng: np.random.Generator, *, weight: float = 1.0, edges: bool = True) -> Instance:
    """Equal agents that value each other's data at `weight`, and their Shapley equilibrium; some caps may bind.

    Whoever is not capped contributes the same; with equal costs, those capped below that want more.
    """
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1)), _beta(rng)
    profile = np.full(n_agents, np.exp(rng.uniform(-2.0, 4.0)))
    caps = np.exp(rng.uniform(0.01, 3.0, n_agents)) * profile
    if edges:
        capped = (rng.random(n_agents) > AT_CAP) & (np.arange(n_agents) > 0)
        profile = np.where(capped, rng.uniform(0.05, 0.95, n_agents) * profile, profile)
        caps = np.where(capped, profile, caps)
    weights = np.full((n_agents, n_agents), weight)
    np.fill_diagonal(weights, 1.0)
    blank = Federation(weights, costs=1.0, caps=caps, payoff=PowerLaw(beta))
    cost = float(earned_by_shapley(blank, profile)[0])
    return Instance(federation=_with_costs(blank, cost), contributions=profile)


def renamable_optimum(rng: np.random.Generator) -> Instance:
    """Agents in a ring, each to its neighbours what the next is to its own, and the optimum that treats all alike.

    Weights depend on the distance round the ring only, costs and caps are equal. In a third of them the cap binds.
    """
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1)), _beta(rng)
    by_distance = np.concatenate([[1.0], rng.uniform(0.05, 2.0, n_agents - 1)])
    places = np.arange(n_agents)
    weights = by_distance[(places[None, :] - places[:, None]) % n_agents]
    level = float(np.exp(rng.uniform(-2.0, 3.0)))
    binding = rng.random() < 1.0 / 3.0
    cap = level if binding else 3.0 * level
    blank = Federation(weights, costs=1.0, caps=cap, payoff=PowerLaw(beta))
    profile = np.full(n_agents, level)
    cost = float(earned_socially(blank, profile).mean()) * (rng.uniform(0.1, 0.9) if binding else 1.0)
    return Instance(federation=_with_costs(blank, cost), contributions=profile)


def any_profile(rng: np.random.Generator) -> Instance:
    """Any federation of the package, harm included, with any two profiles within the caps."""
    federation = welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True).federation
    places = np.clip(rng.uniform(-0.2, 1.2, (2, federation.n_agents)), 0.0, 1.0)
    places[:, rng.integers(federation.n_agents)] = rng.uniform(0.1, 0.9, 2)  # somebody contributes
    return Instance(federation=federation, contributions=places[0] * federation.caps, other=places[1] * federation.caps)


def _beta(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(0.01), 0.0)))


def _any_payoff(rng: np.random.Generator) -> Payoff:
    scale = float(np.exp(rng.uniform(-1.0, 3.0)))
    return (PowerLaw(_beta(rng)), Log(), Michaelis(scale), Exponential(1.0 / scale))[rng.integers(4)]


def _parts(
    rng: np.random.Generator, *, harm: bool, edges: bool, beneficiaries: int = MIN_BENEFICIARIES
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights with 1 on the diagonal and so many beneficiaries each at least, a profile, and caps."""
    n_agents = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1))
    weights = rng.uniform(0.05, 2.0, (n_agents, n_agents))
    if rng.integers(2):  # sparse
        order = rng.random((n_agents, n_agents))
        np.fill_diagonal(order, -1.0)
        kept = order.argsort(axis=0).argsort(axis=0) < beneficiaries
        weights = np.where(kept | (rng.random((n_agents, n_agents)) < 0.4), weights, 0.0)
    if harm:
        harmful = (rng.random((n_agents, n_agents)) < 0.2) | (rng.random(n_agents) < 0.3)[None, :]
        weights = np.where(harmful, -0.5 * weights, weights)
    np.fill_diagonal(weights, 1.0)
    profile = np.exp(rng.uniform(-2.0, 3.0, n_agents))
    caps = np.exp(rng.uniform(0.05, 1.0 if harm else 3.0, n_agents)) * profile
    if edges:
        place = rng.random(n_agents)
        place[rng.integers(n_agents)] = 0.5  # somebody contributes
        caps = np.where(place > AT_CAP, profile, caps)
        profile = np.where(place < AT_ZERO, 0.0, profile)
    return weights, profile, caps


def _in_domain(weights: FloatArray, caps: FloatArray, payoff: Payoff) -> FloatArray:
    """The weights with harm shrunk, row by row, until every profile within the caps is in the domain."""
    harm = np.minimum(weights, 0.0)
    allowed = DEPTH * min(-float(np.max(payoff.floor)), 2.0)
    depth = -(harm @ caps)
    return (
        np.maximum(weights, 0.0) + harm * np.where(depth > allowed, allowed / np.maximum(depth, 1e-300), 1.0)[:, None]
    )


def _costs(
    rng: np.random.Generator, profile: FloatArray, caps: FloatArray, earns: FloatArray, *, bent: bool
) -> Cost | None:
    """Costs that make the profile an equilibrium; None where one would not be positive."""
    dearer = np.maximum(earns, 0.0) + rng.uniform(0.0, 1.0, profile.size) * np.abs(earns).mean()
    cheaper = rng.uniform(0.05, 1.0, profile.size) * earns
    slopes = np.where(profile <= 0, dearer, np.where(profile >= caps, cheaper, earns))
    if (slopes <= SMALLEST_COST * np.abs(earns).max()).any():
        return None
    if not bent or rng.integers(2):
        return Linear(slopes)
    bends = rng.uniform(0.0, 0.5, profile.size) * slopes / np.maximum(profile, 1.0)
    return Quadratic(slopes - 2.0 * bends * profile, bends)


def _with_costs(blank: Federation, costs: Any) -> Federation:
    return Federation(blank.weights, costs=costs, caps=blank.caps, payoff=blank.payoff, values=blank.values)
