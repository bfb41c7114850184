"""The drawn profiles are the equilibria they are said to be: solved from scratch, and certified by other code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.theorems import (
    Instance,
    homogeneous_optimum,
    homogeneous_shapley,
    renamable_optimum,
    shapley_equilibrium,
    welfare_optimum,
)
from random_cases import cases
from theorems.claims import many, optima_of_types

Draw = Callable[[np.random.Generator], Instance]

OPTIMA: dict[str, Draw] = {
    "inside": welfare_optimum,
    "inside, alone too": partial(welfare_optimum, alone=True),
    "harm": partial(welfare_optimum, harm=True),
    "harm, alone too": partial(welfare_optimum, harm=True, alone=True),
    "at bounds": partial(welfare_optimum, edges=True),
    "anything": partial(welfare_optimum, harm=True, edges=True, wide=True),
    "homogeneous": homogeneous_optimum,
    "homogeneous, lopsided": partial(homogeneous_optimum, symmetric=False),
    "ring": renamable_optimum,
    "types": optima_of_types,
    "types, canonical": partial(optima_of_types, canonical=True),
}
EQUILIBRIA: dict[str, Draw] = {
    "inside": shapley_equilibrium,
    "at bounds": partial(shapley_equilibrium, edges=True),
    "useful": partial(shapley_equilibrium, edges=True, least=1.0),
    "homogeneous": homogeneous_shapley,
    "equal agents": partial(homogeneous_shapley, weight=0.1, edges=False),
}


@pytest.mark.parametrize("draw", OPTIMA.values(), ids=OPTIMA)
def test_drawn_optima_are_optima(draw: Draw) -> None:
    for instance in many(draw, seed=1, count=cases(12)):
        federation, profile = instance.federation, instance.contributions
        outcome = fp.ExternalityMechanism().outcome_at(federation, profile)
        for claim in ("nash", "social-optimality", "budget-balance"):
            assert outcome.certificates[claim].verdict == "holds", claim
        solved = fp.ExternalityMechanism().solve(federation)
        np.testing.assert_allclose(solved.welfare, outcome.welfare, rtol=1e-9, atol=1e-10 * outcome.payoffs.max())
        np.testing.assert_allclose(federation.reach(solved.contributions), federation.reach(profile), rtol=1e-4)


@pytest.mark.parametrize("draw", EQUILIBRIA.values(), ids=EQUILIBRIA)
def test_drawn_shapley_equilibria_are_equilibria(draw: Draw) -> None:
    for instance in many(draw, seed=2, count=cases(8)):
        outcome = fp.ShapleyMechanism().outcome_at(instance.federation, instance.contributions)
        assert outcome.certificates["nash"].verdict == "holds"
        solved = fp.ShapleyMechanism().solve(instance.federation).contributions
        np.testing.assert_allclose(solved, instance.contributions, atol=1e-6 * instance.contributions.max())


def holds(instance: Instance, *names: str) -> bool:
    outcome = fp.ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
    return all(assumption.holds for assumption in outcome.assumptions if assumption.name in names)


@pytest.mark.slow
def test_draws_meet_the_papers_assumptions() -> None:
    papers = ("non-negative weights", "three beneficiaries", "interior equilibrium", "domain")
    alone = "interior standalone optimum"
    for instance in many(shapley_equilibrium, seed=3, count=cases(67)):
        assert holds(instance, *papers)
    for instance in many(partial(welfare_optimum, alone=True), seed=4, count=cases(67)):
        assert holds(instance, *papers, alone)
    for instance in many(homogeneous_optimum, seed=5, count=cases(67)):
        assert holds(instance, *papers, alone)
    harmed = list(many(partial(welfare_optimum, harm=True, alone=True), seed=6, count=200))
    assert all(holds(instance, "interior equilibrium", "domain", alone) for instance in harmed)
    assert sum(instance.federation.has_harm for instance in harmed) > 100
    nets = np.concatenate([i.federation.net_externality(i.contributions) for i in harmed])
    assert min((nets < 0).sum(), (nets > 0).sum()) > 50, "both signs are met often"


def test_bounds_and_zeros_are_met_often() -> None:
    drawn = list(many(partial(welfare_optimum, edges=True), seed=7, count=200))
    at_zero = sum((instance.contributions == 0).any() for instance in drawn)
    at_cap = sum((instance.contributions == instance.federation.caps).any() for instance in drawn)
    assert min(at_zero, at_cap) > 80


def test_twins_leave_optima_to_choose_from() -> None:
    for instance in many(optima_of_types, seed=9, count=cases(17)):
        assert np.abs(instance.other - instance.contributions).max() > 1e-3 * instance.contributions.max()
        assert fp.social_optimum(instance.federation).face.dimension >= 1
