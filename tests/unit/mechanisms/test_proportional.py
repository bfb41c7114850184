"""Proportional sharing: paid by the amount of data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import fedpact as fp
from fedpact.certificates.fixed_points import sharing_in_proportion
from strategies import random_federations

# Drawn at random: where both answer each other's slopes, the first does better by stepping aside.
NO_EQUILIBRIUM = fp.Federation(
    [[1.0, 0.632], [-0.145, 1.0]], costs=[0.0197, 0.0444], caps=[50.0, np.inf], payoff=fp.Exponential([0.0246, 0.1703])
)


def solved(seed: int, count: int, **pinned: object):
    """Federations with an equilibrium, and their outcomes."""
    for federation in random_federations(seed, count, **pinned):
        try:
            yield federation, fp.ProportionalSharing().solve(federation)
        except fp.NotConverged:
            continue


def test_equals_contribute_what_the_closed_form_says() -> None:
    # A = n (1 - (1 + n s)^-b), shared equally: A' / n + A (n - 1) / (n^2 s) = c.
    n, b, c = 4, 0.02, 0.001
    equals = fp.Federation(np.ones((n, n)), costs=c, caps=400.0, payoff=fp.PowerLaw(b))

    def slope(s: float) -> float:
        return b * (1 + n * s) ** (-b - 1) + (1 - (1 + n * s) ** -b) * (n - 1) / (n * s) - c

    np.testing.assert_allclose(
        fp.ProportionalSharing().solve(equals).contributions, brentq(slope, 1.0, 400.0, xtol=1e-12), rtol=1e-8
    )


def test_benefits_are_in_proportion_to_contributions() -> None:
    for _, outcome in solved(411, 24, harm=False):
        given = outcome.contributions.sum()
        parts = outcome.contributions / given if given else 0.0
        expected = outcome.payoffs.sum() * parts
        np.testing.assert_allclose(outcome.payoffs + outcome.payments, expected, rtol=1e-9, atol=1e-12)
        assert outcome.certificates["nash"].holds
        assert outcome.certificates["budget-balance"].holds


def test_the_bound_holds_everywhere_and_is_reached() -> None:
    for federation, outcome in solved(412, 3, n_agents=3):
        best = sharing_in_proportion(federation, 0.7 * outcome.contributions)
        for agent in range(federation.n_agents):
            most = -np.inf
            top = min(federation.caps[agent], 3.0 * best.actions[agent] + 1.0)
            for tried in (*np.linspace(0.0, top, 25), best.actions[agent]):
                profile = 0.7 * outcome.contributions
                profile[agent] = tried
                if federation.admits(profile):
                    utilities = federation.payoffs(profile) - federation.costs.value(profile)
                    paid = fp.ProportionalSharing().payments(federation.arrays, profile)
                    most = max(most, float((utilities + paid)[agent]))
            assert most <= best.utilities[agent] + 1e-12
            np.testing.assert_allclose(best.utilities[agent], most, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_where_answers_do_not_settle_that_is_said() -> None:
    with pytest.raises(fp.NotConverged, match="there may be no equilibrium"):
        fp.ProportionalSharing().solve(NO_EQUILIBRIUM)
    compared = fp.compare(NO_EQUILIBRIUM, ["externality", "proportional"])
    assert "do not settle" in compared.unsolved["proportional"]


def test_nobody_contributes_where_nothing_pays() -> None:
    idle = fp.Federation([[1.0, 0.1], [0.1, 1.0]], costs=5.0, caps=10.0, payoff=fp.PowerLaw(0.1))
    outcome = fp.ProportionalSharing().solve(idle)
    assert not outcome.contributions.any() and not outcome.payments.any()
    assert outcome.certificates["nash"].holds
