"""Equilibria: nobody gains by another contribution, whatever route led there."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import stack
from fedpact.solvers import shapley_equilibrium
from fedpact.solvers.fixed_points import proportional_equilibria, shaped_equilibria
from fedpact.solvers.free_riding import free_riding_equilibria, free_riding_equilibrium, is_only_equilibrium
from fedpact.solvers.groups import standalone_optimum
from fedpact.solvers.shapley_equilibrium import best_response, potential_optima, potential_optimum, split_dimension
from random_cases import cases
from strategies import random_federation, random_lots, with_shared_caps

SAME = 1e-7  # of the largest contribution


def kinds(seed, count, **pinned):
    rng = np.random.default_rng(seed)
    for kind in range(cases(count)):
        if kind % 3 == 0:
            yield random_federation(rng, n_agents=int(rng.integers(1, 6)), **pinned)
        else:
            lots = random_lots(rng, n_agents=3, collinear=bool(rng.integers(2)), **pinned)
            yield with_shared_caps(rng, lots) if kind % 3 == 1 else lots


def test_at_the_shapley_equilibrium_nobody_would_answer_otherwise():
    for federation in kinds(1, 20):
        s = potential_optimum(federation)
        assert (federation.arrays.lowest_data(s) > federation.arrays.floor).all()
        for agent in range(federation.n_agents):
            answer = best_response(federation, s, agent)
            np.testing.assert_allclose(answer, s[federation.lots_of(agent)], rtol=0, atol=SAME * max(s.max(), 1e-300))


def test_many_shapley_equilibria_at_once_and_semivalues():
    rng = np.random.default_rng(2)
    alike = [random_federation(rng, n_agents=3, family=fp.Log) for _ in range(cases(20))]
    for probability in (None, 0.5):
        found = potential_optima(stack(alike), probability)
        for place, federation in enumerate(alike):
            s = potential_optimum(federation, probability)
            np.testing.assert_allclose(found[place], s, rtol=0, atol=SAME * max(s.max(), 1e-300))


def test_the_integral_leads_where_coalitions_do(monkeypatch):
    for federation in kinds(3, 10):
        summed = potential_optimum(federation)
        with monkeypatch.context() as patched:
            patched.setattr(shapley_equilibrium, "FEW_MEMBERS", 0)
            integrated = potential_optimum(federation)
        np.testing.assert_allclose(integrated, summed, rtol=0, atol=SAME * max(summed.max(), 1e-300))


def test_collinear_lots_of_one_member_are_used_alike():
    federation = fp.Federation(
        [[1.0, 1.0, 0.5], [0.3, 0.3, 1.0]], lot_owners=[0, 0, 1], names=["a", "b"], costs=0.01, payoff=fp.Log()
    )
    s = potential_optimum(federation)
    assert s[0] == pytest.approx(s[1], rel=1e-12) and split_dimension(federation, s) == 1


def gains_alone(federation, s):
    """What every member could still gain by its own lots, as the optimum of a federation in which others stay."""
    for agent in range(federation.n_agents):
        own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
        if not (own.size and tasks.size):
            continue
        arrays = federation.arrays
        rng = np.random.default_rng(agent)
        for _ in range(100):
            tried = s.copy()
            size = np.exp(rng.normal(0.0, rng.choice([1e-4, 0.1, 2.0]), own.size))
            tried[own] = np.minimum(np.where(s[own] > 0, s[own], 1e-3) * size, arrays.reachable_caps[own])
            if (arrays.shared @ tried <= arrays.shared_limits).all() and (arrays.data(tried) > arrays.floor).all():
                utility = arrays.payoffs(tried) - arrays.spending(tried)
                yield utility[agent] - (arrays.payoffs(s) - arrays.spending(s))[agent]


def test_at_a_free_riding_equilibrium_nobody_gains():
    found = 0
    for federation in kinds(4, 25):
        try:
            s = free_riding_equilibrium(federation)
        except fp.NotConverged:
            assert federation.has_harm
            continue
        found += 1
        scale = float(np.abs(federation.arrays.payoffs(s)).sum()) + 1e-12
        assert max(gains_alone(federation, s), default=0.0) <= 1e-9 * scale
    assert found > cases(25) // 2


def test_free_riding_treats_equals_alike_side_by_side_and_knows_when_it_is_alone():
    alike = fp.Federation(np.ones((3, 3)), costs=0.001, caps=[1.0, 400.0, 400.0], payoff=fp.PowerLaw(beta=0.02))
    s = free_riding_equilibrium(alike)
    assert s[1] == pytest.approx(s[2], rel=1e-12) and not is_only_equilibrium(alike, s)
    apart = alike.replace(weights=np.eye(3) + 0.1)
    assert is_only_equilibrium(apart, free_riding_equilibrium(apart))
    both = free_riding_equilibria(stack([alike, apart]))
    np.testing.assert_allclose(both, [s, free_riding_equilibrium(apart)], rtol=1e-10)
    # Each of two who are more useful to the other than to themselves rides on the other: one gives, whichever.
    crossed = fp.Federation([[1.0, 2.0], [2.0, 1.0]], costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    s = free_riding_equilibrium(crossed)
    assert s[0] == pytest.approx(s[1], rel=1e-9) and not is_only_equilibrium(crossed, s)


@pytest.mark.parametrize("harm", [False, True])
def test_accuracy_shaping_ends_where_everybody_has_earned_the_model(harm):
    rng = np.random.default_rng(5)
    for _ in range(cases(15)):
        federation = random_federation(rng, n_agents=4, harm=harm)
        s = shaped_equilibria(federation.arrays, 0.1)
        arrays, (alone, had) = federation.arrays, standalone_optimum(federation)
        if np.isnan(s).any():
            assert harm
            continue
        earned = had + arrays.spending(alone) + 1.1 * (arrays.spending(s) - arrays.spending(alone))
        scale = 1e-9 * float(np.abs(arrays.payoffs(s)).sum() + arrays.values.sum())
        helped = arrays.data(s) > arrays.own_data(s)  # whom others harm does what is best for itself
        beyond = helped & (s > alone * (1.0 + 1e-9))
        assert (np.abs(earned - arrays.payoffs(s))[beyond & (s < arrays.caps)] <= scale).all()
        assert (earned <= arrays.payoffs(s) + scale)[beyond].all()


def test_proportional_sharing_is_a_maximum_for_everybody():
    rng = np.random.default_rng(6)
    for federation in [random_federation(rng, n_agents=3, harm=False) for _ in range(cases(8))]:
        s = proportional_equilibria(federation.arrays)
        if np.isnan(s).any():
            continue
        arrays = federation.arrays

        def utilities(profile, arrays=arrays):
            total = profile.sum()
            return arrays.payoffs(profile).sum() * profile / total - arrays.spending(profile) if total else 0 * profile

        here = utilities(s)
        for agent in range(3):
            for factor in (0.0, 0.5, 0.99, 1.01, 2.0):
                tried = s.copy()
                tried[agent] = min(factor * s[agent], arrays.caps[agent])
                assert utilities(tried)[agent] <= here[agent] + 1e-9 * arrays.payoffs(s).sum()
