"""The canonical optimum: renaming permutes it, equals are treated alike, and it is the least-norm point of its face."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fedpact as fp
from random_cases import cases
from strategies import random_federation

# Relative to the largest contribution.
EQUALS = 1e-8
PERMUTED = 1e-7

PAYOFFS = (fp.PowerLaw(0.3), fp.Log(), fp.Michaelis(3.0), fp.Exponential(0.1))
MECHANISMS = (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary())
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)


def with_doubles(rng: np.random.Generator) -> tuple[fp.Federation, np.ndarray]:
    """A federation in which some agents are copies of others, and who is a copy of whom."""
    base = random_federation(rng, n_agents=int(rng.integers(1, 5)))
    kind = np.sort(np.append(np.arange(base.n_agents), rng.integers(0, base.n_agents, rng.integers(1, 4))))
    weights = base.weights[np.ix_(kind, kind)]
    # Harm shared among the copies keeps every coalition inside the domain.
    weights = np.where(weights < 0, weights / np.bincount(kind).max(), weights)
    return fp.Federation(
        weights,
        costs=base.costs.take(kind),
        caps=base.caps[kind],
        payoff=base.payoff.take(kind),
        values=base.values[kind],
    ), kind


def flat(rng: np.random.Generator) -> tuple[fp.Federation, np.ndarray]:
    """A federation with many optima, and one of them: low-rank weights, and costs that meet its marginal benefits."""
    n = int(rng.integers(2, 8))
    rank = int(rng.integers(1, n))
    weights = rng.uniform(0.1, 2.0, (n, rank)) @ rng.uniform(0.0, 2.0, (rank, n))
    if rng.integers(2):
        weights = rng.uniform(0.1, 2.0, (n, n))[:, rng.integers(0, rank, n)]
    payoff = PAYOFFS[rng.integers(4)]
    optimum = rng.uniform(0.5, 5.0, n) * (rng.random(n) < 0.7)
    costs = weights.T @ payoff.slope(weights @ optimum)
    dear = (optimum == 0) & (rng.random(n) < 0.5)
    caps = np.where(rng.random(n) < 0.4, optimum * rng.uniform(1.0, 2.0, n) + (optimum == 0), np.inf)
    return fp.Federation(weights, costs=np.where(dear, 1.3 * costs, costs), caps=caps, payoff=payoff), optimum


def flat_federations(seed: int, count: int) -> Iterator[tuple[fp.Federation, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield flat(rng)


@every_mechanism
def test_equal_agents_contribute_alike(mechanism):
    rng = np.random.default_rng(21)
    for _ in range(cases(13)):
        fed, kind = with_doubles(rng)
        s = mechanism.solve(fed).contributions
        spread = max(float(np.ptp(s[kind == which])) for which in np.unique(kind))
        assert spread <= EQUALS * max(float(s.max()), 1e-300)


@every_mechanism
def test_renaming_agents_permutes_the_outcome(mechanism):
    rng = np.random.default_rng(22)
    for _ in range(cases(12)):
        fed, _ = with_doubles(rng)
        order = rng.permutation(fed.n_agents)
        here, there = mechanism.solve(fed), mechanism.solve(fed.take(order))
        size = max(float(here.contributions.max()), 1e-300)
        np.testing.assert_allclose(there.contributions, here.contributions[order], rtol=0, atol=PERMUTED * size)
        size = np.abs(here.payoffs).sum() + here.costs.sum() + 1e-300
        np.testing.assert_allclose(there.payments, here.payments[order], rtol=0, atol=PERMUTED * size)


def test_solving_twice_gives_the_same_bits():
    """There is no start to choose and nothing random."""
    rng = np.random.default_rng(23)
    for mechanism in MECHANISMS:
        fed, _ = with_doubles(rng)
        first, second = (mechanism.solve(fed).contributions for _ in range(2))
        np.testing.assert_array_equal(first, second)


def test_flat_federations_have_their_welfare_and_a_face():
    faces = 0
    for fed, optimum in flat_federations(24, 40):
        found = fp.social_optimum(fed)
        size = np.abs(fed.payoffs(optimum)).sum() + fed.costs.value(optimum).sum() + 1e-3
        np.testing.assert_allclose(found.welfare, fed.welfare(optimum), rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(fed.data(found.contributions), fed.data(optimum), rtol=1e-4, atol=1e-4)
        faces += found.face.dimension > 0
    assert faces > 20


@pytest.mark.slow
def test_no_direction_into_the_face_shortens_the_optimum():
    """At the least-norm point of a convex set s . x is at least s . s everywhere: one linear program tells."""
    for fed, _ in flat_federations(26, 120):
        found = fp.social_optimum(fed)
        if found.face.is_point:
            continue
        s = found.contributions
        assert s @ (found.face.vertex(-s) - s) >= -1e-6 * (1.0 + float(s @ s))
