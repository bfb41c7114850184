"""Groups by themselves: as federations of their own, which gains most by leaving, and what none would leave."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import fedpact as fp
from fedpact.shapley.values import share_values
from fedpact.solvers.fair_division import fairest_division
from fedpact.solvers.groups import (
    KnownGroups,
    all_groups,
    group_optima,
    group_welfare,
    price_bounds,
    standalone_optimum,
)
from fedpact.solvers.nucleolus import nucleolus
from fedpact.solvers.welfare import social_optimum
from random_cases import cases
from strategies import random_federation, random_lots, with_shared_caps

ROUNDING = 1e-9  # of what all reach together


def test_every_group_has_the_optimum_of_the_federation_that_it_is():
    rng = np.random.default_rng(1)
    for kind in range(cases(12)):
        federation = random_federation(rng, n_agents=4) if kind % 2 else random_lots(rng, n_agents=4)
        federation = with_shared_caps(rng, federation) if kind % 4 == 2 else federation
        found = group_optima(federation)
        assert found.values[0] == 0 and len(found.values) == 16
        for members, value, contributions in zip(
            found.members[1:], found.values[1:], found.contributions[1:], strict=True
        ):
            able = members[federation.lot_owners].any() and members[federation.task_owners].any()
            best = social_optimum(federation.take(np.flatnonzero(members))).welfare if able else 0.0
            assert value == pytest.approx(best, rel=ROUNDING, abs=1e-12)
            assert (contributions[~members[federation.lot_owners]] == 0).all()
        np.testing.assert_allclose(group_welfare(federation.arrays, found.members), found.values, rtol=1e-9, atol=1e-14)


def test_all_groups_are_refused_beyond_sixteen_members():
    with pytest.raises(fp.InvalidInput, match=r"2\^17 groups"):
        all_groups(17)


def test_the_worst_group_gains_most_and_prices_bound_it(monkeypatch):
    rng = np.random.default_rng(2)
    for _ in range(cases(20)):
        federation = random_federation(rng, n_agents=6)
        groups = group_optima(federation)
        utilities = rng.random(6) * groups.values[-1] / 3.0
        gains, (worst, _) = groups.gains(utilities), KnownGroups(federation).worst(utilities)
        assert worst.gains(utilities)[0] == pytest.approx(gains[1:].max(), abs=1e-12 * abs(groups.values[-1]))
        bounds = price_bounds(federation, utilities, groups.contributions[-1])
        assert (gains <= groups.members @ bounds + ROUNDING * np.abs(groups.values).max()).all()
        with monkeypatch.context() as patched:
            patched.setattr("fedpact.solvers.groups.MAX_LISTED_AGENTS", 2)
            searched, bound = KnownGroups(federation).worst(utilities, proper=True)
        assert searched.gains(utilities)[0] <= gains[1:-1].max() + 1e-12 and bound >= gains[1:-1].max() - 1e-12


def shared_out(rng, harm=False):
    federation = random_federation(rng, n_agents=5, harm=harm)
    s = social_optimum(federation).contributions
    shares, costs = share_values(federation.arrays, s)[0], federation.arrays.spending(s)
    return federation, shares, costs, standalone_optimum(federation)[1], float(federation.arrays.welfare(s))


def test_the_fairest_division_keeps_all_groups_and_no_other_is_fairer():
    rng = np.random.default_rng(3)
    for _ in range(cases(15)):
        federation, shares, costs, alone, welfare = shared_out(rng)
        known = KnownGroups(federation)
        groups, scale = known.found, ROUNDING * known.scale
        for kept in (known, None):
            x = fairest_division(shares, costs, alone, welfare, kept)
            assert x.sum() == pytest.approx(welfare, abs=scale) and (x >= alone - scale).all()
            members = groups.members if kept else np.eye(5)
            values = groups.values if kept else alone
            assert (members @ x >= values - scale).all()
            best = linprog(
                [0.0] * 5 + [-1.0],
                A_ub=np.block([[-np.eye(5), shares[:, None]], [-1.0 * members, np.zeros((len(members), 1))]]),
                b_ub=np.concatenate([costs, -values + scale / 100]),
                A_eq=[[1.0] * 5 + [0.0]],
                b_eq=[welfare],
                bounds=[(None, None)] * 5 + [(0.0, 1.0)],
            )
            has = shares > scale
            assert min(1.0, ((x + costs)[has] / shares[has]).min()) == pytest.approx(best.x[-1], abs=1e-6)


def test_the_nucleolus_is_in_the_least_core_and_treats_equals_alike():
    rng = np.random.default_rng(5)
    for _ in range(cases(15)):
        federation = random_federation(rng, n_agents=5)
        known = KnownGroups(federation)
        found, groups = nucleolus(known), known.found
        level = -groups.gains(found.utilities)[1:].max()  # the first is everybody
        assert level == pytest.approx(found.level, abs=1e-8 * known.scale)
        best = linprog(
            [0.0] * 5 + [-1.0],
            A_ub=np.column_stack([-1.0 * groups.members[1:], np.ones(30)]),
            b_ub=-groups.values[1:],
            A_eq=[[1.0] * 5 + [0.0]],
            b_eq=groups.values[:1],
            bounds=(None, None),
        )
        assert found.level == pytest.approx(best.x[-1], abs=1e-6 * known.scale)
    alike = fp.Federation(np.ones((4, 4)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    utilities = nucleolus(KnownGroups(alike)).utilities
    np.testing.assert_allclose(utilities, utilities.mean(), rtol=1e-9)
