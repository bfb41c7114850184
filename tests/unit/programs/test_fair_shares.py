"""The fairest sharing: closed form, active set and a general solver agree; who cannot be kept is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import fedpact as fp
from fedpact.programs.fair_shares import (
    FairShares,
    KeptGroups,
    Unkept,
    nearest_point,
    no_more_groups,
    share_among_groups,
    share_among_members,
)
from fedpact.programs.groups import GroupOptima, group_optima
from fedpact.utils.arrays import FloatArray
from random_cases import ALL_CASES, cases
from strategies import random_federations

ROUNDING = 1e-10  # of what is to be shared out
GENERAL_SOLVER = 1e-5  # what an interior-point solver leaves, on a set without an inside


def numbers_of(federation: fp.Federation) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    outcome = fp.ExternalityMechanism().solve(federation)
    return outcome.shapley_values, outcome.costs, outcome.standalone, outcome.welfare


def search_in(optima: GroupOptima):
    def search(utilities: FloatArray) -> KeptGroups:
        gains = optima.gains(utilities)
        place = [int(np.argmax(gains))]
        return KeptGroups(members=optima.members[place], values=optima.values[place])

    return search


def stake(shares: FloatArray, costs: FloatArray) -> float:
    return max(float(np.abs(shares).sum() + costs.sum()), np.finfo(float).tiny)


def by_general_solver(
    numbers: tuple[FloatArray, FloatArray, FloatArray, float], optima: GroupOptima
) -> tuple[float, FloatArray]:
    cp = pytest.importorskip("cvxpy")
    shares, costs, _, welfare = numbers
    unit = stake(shares, costs)
    x, r = cp.Variable(shares.size), cp.Variable()
    members = optima.members[1:].astype(float)
    kept = [members @ x >= (optima.values[1:]) / unit, cp.sum(x) == welfare / unit, r <= 1]
    level = cp.Problem(cp.Maximize(r), [*kept, x + costs / unit >= r * shares / unit]).solve(solver="CLARABEL")
    closest = cp.Minimize(cp.sum_squares(x + (costs - shares) / unit))
    loose = [members @ x >= optima.values[1:] / unit - 1e-9, cp.sum(x) == welfare / unit]
    cp.Problem(closest, [*loose, x + costs / unit >= (level - 1e-9) * shares / unit]).solve(solver="CLARABEL")
    return float(level), x.value * unit


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_groups_agree_with_a_general_solver() -> None:
    for federation in random_federations(5, cases(20), harm=False):
        numbers, optima = numbers_of(federation), group_optima(federation)
        found = share_among_groups(*numbers, search_in(optima))
        unit = stake(*numbers[:2])
        check_kept(found, numbers, optima.gains(found.utilities))
        level, utilities = by_general_solver(numbers, optima)
        if numbers[0].any():
            assert found.lowest_share == pytest.approx(level, abs=GENERAL_SOLVER)
        np.testing.assert_allclose(found.utilities / unit, utilities / unit, atol=GENERAL_SOLVER)


def check_kept(found: FairShares, numbers: tuple[FloatArray, FloatArray, FloatArray, float], gains: FloatArray) -> None:
    shares, costs, alone, welfare = numbers
    tol = ROUNDING * stake(shares, costs)
    assert (found.utilities >= alone - tol).all()
    assert (found.utilities + costs >= found.lowest_share * shares - tol).all()
    assert gains.max() <= tol
    assert found.utilities.sum() == pytest.approx(welfare, abs=tol)


def test_members_by_closed_form_and_by_the_active_set() -> None:
    for federation in random_federations(6, cases(67, few=30), harm=False):
        numbers = numbers_of(federation)
        closed = share_among_members(*numbers)
        general = share_among_groups(*numbers, no_more_groups)
        assert closed.lowest_share == pytest.approx(general.lowest_share, abs=ROUNDING)
        unit = stake(*numbers[:2])
        np.testing.assert_allclose(closed.utilities / unit, general.utilities / unit, atol=ROUNDING)


def test_negative_and_zero_shares_are_ordinary() -> None:
    shares, costs = np.array([1.2, 0.0, -0.2]), np.array([0.1, 0.0, 0.05])
    alone, welfare = np.array([0.3, 0.1, 0.0]), 0.85
    for found in (
        share_among_members(shares, costs, alone, welfare),
        share_among_groups(shares, costs, alone, welfare, no_more_groups),
    ):
        # 0.75 is left for the first: everybody else has what it has alone.
        np.testing.assert_allclose(found.utilities, [0.75, 0.1, 0.0], atol=1e-12)
        assert found.lowest_share == pytest.approx(0.85 / 1.2, abs=1e-12)


def test_with_nothing_to_share_everybody_has_its_share() -> None:
    nothing = np.zeros(3)
    for found in (
        share_among_members(nothing, nothing, nothing, 0.0),
        share_among_groups(nothing, nothing, nothing, 0.0, no_more_groups),
    ):
        assert found.lowest_share == 1.0
        np.testing.assert_array_equal(found.utilities, nothing)


def test_one_member_has_it_all() -> None:
    one = np.array([0.5]), np.array([0.2]), np.array([0.3]), 0.3
    for found in (share_among_members(*one), share_among_groups(*one, no_more_groups)):
        assert found.lowest_share == pytest.approx(1.0)
        np.testing.assert_allclose(found.utilities, [0.3])


def test_the_subsidy_is_the_least_that_keeps_every_group() -> None:
    refused = 0
    for federation in random_federations(3, 60, harm=True):
        numbers, optima = numbers_of(federation), group_optima(federation)
        members = optima.members[1:].astype(float)
        least = linprog(np.ones(members.shape[1]), A_ub=-members, b_ub=-optima.values[1:], bounds=(None, None)).fun
        if least <= numbers[3] + ROUNDING * stake(*numbers[:2]):
            found = share_among_groups(*numbers, search_in(optima))
            check_kept(found, numbers, optima.gains(found.utilities))
            continue
        refused += 1
        with pytest.raises(Unkept) as caught:
            share_among_groups(*numbers, search_in(optima))
        assert caught.value.subsidy == pytest.approx(least - numbers[3], rel=1e-6)
    assert refused > (3 if ALL_CASES else 0)


def test_members_who_have_more_alone_are_told() -> None:
    alone = np.array([0.5, 0.4])
    with pytest.raises(Unkept) as caught:
        share_among_members(np.array([0.3, 0.3]), np.zeros(2), alone, 0.6)
    assert caught.value.subsidy == pytest.approx(0.3)


def test_nearest_point_is_a_projection() -> None:
    """The multipliers of what binds add up to the way from the target, and none is negative."""
    rng = np.random.default_rng(8)
    for _ in range(cases(67, few=40)):
        size = int(rng.integers(2, 7))
        rows = (rng.random((12, size)) < 0.5).astype(float)
        target, inside = rng.normal(size=size), rng.normal(size=size)
        limits = rows @ inside - rng.choice([0.0, 0.3], 12)
        found = nearest_point(target, rows, limits, float(inside.sum()))
        assert found is not None
        slack = rows @ found - limits
        assert slack.min() >= -1e-11
        assert found.sum() == pytest.approx(inside.sum())
        for _ in range(30):  # no way into the set leads closer to the target
            other = inside + 0.3 * rng.normal(size=size)
            other += (inside.sum() - other.sum()) / size
            if (rows @ other >= limits).all():
                assert (target - found) @ (other - found) <= 1e-9
        assert (target - found) @ (inside - found) <= 1e-9


def test_contradicting_constraints_have_no_nearest_point() -> None:
    assert nearest_point(np.zeros(2), np.eye(2), np.array([1.0, 1.0]), 1.0) is None
