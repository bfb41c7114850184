"""What one agent does for itself, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from cases import answers
from fedpact.programs.best_response import best_answer, best_own, own_utilities, standalone_optimum
from fedpact.shapley.own_share import own_shares
from strategies import random_federations, random_profile

GRID = 4001


def grid_of(upper: float, around: float) -> np.ndarray:
    """A fine grid of [0, upper], and a finer one near the answer to be beaten."""
    far = min(upper, 20.0 * around + 100.0)
    near = np.clip(around * np.linspace(0.9, 1.1, GRID), 0.0, upper)
    return np.concatenate([np.linspace(0.0, far, GRID), near])


@pytest.mark.parametrize("case", answers("standalone"), ids=lambda case: case.name)
def test_standalone_optimum_in_closed_form(case):
    found, _ = standalone_optimum(case.federation)
    np.testing.assert_allclose(found, case.equilibria["standalone"], rtol=0, atol=case.atol)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with others' data"])
def test_no_grid_point_beats_the_best_own_contribution(alone):
    rng = np.random.default_rng(0)
    for fed in random_federations(11, 60):
        s = random_profile(rng, fed)
        background = np.zeros(fed.n_agents) if alone else fed.data(s) - fed.own_weights * s
        found = best_own(fed, background)
        utilities = own_utilities(fed, found, background)
        for agent in range(fed.n_agents):
            one = fed.take([agent])
            grid = grid_of(float(fed.caps[agent]), float(found[agent]))
            tried = np.array(one.values * one.payoff.value(background[agent] + one.own_weights * grid[:, None]))[:, 0]
            tried -= one.costs.value(grid[:, None])[:, 0]
            # Rounding of the two terms of the utility.
            rounding = 1e-13 * (1.0 + abs(tried).max())
            assert utilities[agent] >= tried.max() - rounding


def test_standalone_utility_is_never_negative():
    for fed in random_federations(12, 60):
        assert (standalone_optimum(fed)[1] >= 0).all()


def test_more_of_others_data_means_less_of_ones_own():
    for fed in random_federations(13, 30, harm=False):
        less, more = (best_own(fed, np.full(fed.n_agents, background)) for background in (0.5, 2.0))
        assert (more <= less).all()


def test_agents_below_the_floor_contribute_their_way_out():
    for costs in (0.1, fp.Quadratic(0.05, 0.001)):
        fed = fp.Federation([[1.0]], costs=costs, payoff=fp.Log())
        contribution = best_own(fed, np.array([-5.0]))
        # At its wish the marginal payoff 1 / (1 + y) is the marginal cost.
        np.testing.assert_allclose(1.0 / (1.0 - 5.0 + contribution), fed.costs.slope(contribution), rtol=1e-12)


def test_best_answer_maximises_the_shapley_utility():
    rng = np.random.default_rng(5)
    for fed in random_federations(14, 25, n_agents=3):
        s = random_profile(rng, fed)
        agent = int(rng.integers(3))
        share = own_shares(fed, s, [agent])[0]
        best, utility = best_answer(fed, share, agent, guess=float(s[agent]))
        tried = [utility(x) for x in grid_of(share.upper, best)[::16]]
        assert utility(best) >= max(tried) - 1e-13 * (1.0 + max(np.abs(tried)))


def test_wants_too_large_for_a_number_end_at_the_cap_without_a_warning():
    fed = fp.Federation([[1e-300]], costs=1e-320, caps=5.0, payoff=fp.Log(), values=1e300)
    np.testing.assert_array_equal(best_own(fed, np.zeros(1)), [5.0])
