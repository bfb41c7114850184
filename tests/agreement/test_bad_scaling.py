"""Badly scaled federations: costs, weights, caps and values over many orders of magnitude still solve and certify."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from random_cases import cases
from strategies import kept_in_domain, payoff_of


def spread(rng: np.random.Generator, low: float, high: float, shape: object) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))


def badly_scaled(rng: np.random.Generator) -> fp.Federation:
    """Costs from 1e-5 to 1e2, weights from 1e-3 to 1e3, and parameters, caps and values to match."""
    n = int(rng.integers(1, 7))
    family = [fp.PowerLaw, fp.Log, fp.Michaelis, fp.Exponential][rng.integers(4)]
    parameter = rng.choice([0.005, 0.02, 0.5, 1.0], n) if family is fp.PowerLaw else spread(rng, 1e-3, 1e3, n)
    payoff = payoff_of(family, parameter)
    weights = spread(rng, 1e-3, 1e3, (n, n)) * (rng.random((n, n)) < 0.7)
    np.fill_diagonal(weights, spread(rng, 1e-3, 1e3, n))
    caps = np.where(rng.random(n) < 0.5, np.inf, spread(rng, 1e-3, 1e6, n))
    if rng.integers(2):
        weights = np.where(rng.random((n, n)) < 0.3, -weights, weights)
        np.fill_diagonal(weights, np.abs(np.diag(weights)))
        caps = np.where((weights < 0).any(axis=0) & np.isinf(caps), 100.0, caps)
        weights = kept_in_domain(weights, caps, payoff)
        weights = np.where(np.abs(weights) < 1e-7 * np.abs(weights).max(), 0.0, weights)
    linear = spread(rng, 1e-5, 1e2, n)
    costs = fp.Linear(linear) if rng.integers(2) else fp.Quadratic(linear, spread(rng, 1e-8, 1e2, n))
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoff, values=spread(rng, 1e-3, 1e3, n))


@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=lambda m: m.name)
def test_solutions_are_sharp_and_certified(mechanism):
    rng = np.random.default_rng(13)
    for _ in range(cases(20)):
        outcome = mechanism.solve(badly_scaled(rng))
        certificates = outcome.certificates
        assert all(certificates[claim].holds for claim in mechanism.claims)


@pytest.mark.parametrize("gamma", [1e-9, 1e-6, 1e-3, 0.0149])
def test_the_flattest_payoff_of_the_paper(gamma):
    """beta = 0.005 is nearly flat; the optimum is known."""
    fed = fp.Federation(np.ones((3, 3)), costs=gamma, payoff=fp.PowerLaw(0.005))
    outcome = fp.ExternalityMechanism().solve(fed)
    total = (3 * 0.005 / gamma) ** (1.0 / 1.005) - 1.0
    np.testing.assert_allclose(outcome.contributions, total / 3.0, rtol=1e-9)
    assert outcome.certificates["social-optimality"].holds


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_a_small_agent_beside_a_large_one_still_does_its_best(ratio):
    """Decoupled agents whose money differs by orders of magnitude: each does as alone."""
    for payoff in (fp.PowerLaw(0.5), fp.Log(), fp.Michaelis(2.0), fp.Exponential(0.3)):
        values = np.array([1.0, ratio])
        fed = fp.Federation(np.eye(2), costs=0.01 * values, payoff=payoff, values=values)
        alone = fp.Standalone().solve(fed).contributions
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            # The tolerance of the maximiser is relative to the large one's money; Newton steps do better than that.
            np.testing.assert_allclose(mechanism.solve(fed).contributions, alone, rtol=1e-7)
