"""Semivalues: what members add on average to random groups, worked out here group by group."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fedpact as fp
from fedpact.shapley.coalitions import size_coefficients, values_and_gradient
from strategies import random_federations


def enumerated(federation: fp.Federation, profile: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    coefficients = size_coefficients(federation.n_agents, probability)
    return values_and_gradient(federation.arrays, profile, coefficients)


def added_on_average(federation: fp.Federation, contributions: np.ndarray, agent: int, probability: float) -> float:
    total = 0.0
    for group in product((0.0, 1.0), repeat=federation.n_agents):
        others = np.delete(group, agent)
        if group[agent] == 0.0:
            chance = np.prod(np.where(others > 0, probability, 1.0 - probability))
            here = np.array(group) * contributions
            there = here.copy()
            there[agent] = contributions[agent]
            total += chance * (federation.payoffs(there).sum() - federation.payoffs(here).sum())
    return total


@pytest.mark.parametrize("probability", [0.5, 0.2])
def test_everybody_has_what_it_adds_on_average(probability: float) -> None:
    for federation in random_federations(101, 12):
        outcome = fp.SemivalueMechanism(probability).solve(federation)
        expected = [
            added_on_average(federation, outcome.contributions, agent, probability)
            for agent in range(federation.n_agents)
        ]
        np.testing.assert_allclose(outcome.payoffs + outcome.payments, expected, rtol=1e-9, atol=1e-12)


def test_a_uniform_probability_is_the_shapley_mechanism() -> None:
    for federation in random_federations(102, 12):
        ours, shapley = fp.SemivalueMechanism(None).solve(federation), fp.ShapleyMechanism().solve(federation)
        np.testing.assert_allclose(ours.contributions, shapley.contributions, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(ours.utilities, shapley.utilities, rtol=1e-9, atol=1e-11)


def test_a_probability_close_to_one_is_leave_one_out() -> None:
    federation = fp.Federation([[1.0, 0.4], [2.0, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))
    near, limit = fp.SemivalueMechanism(1.0 - 1e-9).solve(federation), fp.LeaveOneOut().solve(federation)
    np.testing.assert_allclose(near.utilities, limit.utilities, atol=1e-7)


@pytest.mark.parametrize("probability", [0.0, 1.0, float("nan")])
def test_a_probability_out_of_range(probability: float) -> None:
    with pytest.raises(fp.InvalidInput, match="probability must be above 0 and below 1"):
        fp.SemivalueMechanism(probability)


@pytest.mark.parametrize("harm", [False, True])
def test_more_members_than_groups_are_listed_for(harm: bool) -> None:
    rng = np.random.default_rng(105)
    weights = rng.uniform(0.0, 1.0, (13, 13)) - (0.02 if harm else 0.0) * (rng.random((13, 13)) < 0.2)
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=0.01, caps=8.0, payoff=fp.PowerLaw(0.3))
    outcome = fp.SemivalueMechanism().solve(federation)
    summed, gradient = enumerated(federation, outcome.contributions, 0.5)
    np.testing.assert_allclose(outcome.payoffs + outcome.payments, summed, rtol=1e-10)
    slopes = gradient - 0.01
    inside = (outcome.contributions > 0) & (outcome.contributions < 8.0)
    np.testing.assert_allclose(slopes[inside], 0.0, atol=1e-10)
    assert (slopes[outcome.contributions == 0] <= 1e-12).all() and (slopes[outcome.contributions == 8.0] >= 0).all()
    assert outcome.certificates["nash"].holds
    spoiled = fp.SemivalueMechanism().outcome_at(federation, 0.5 * outcome.contributions)
    assert spoiled.certificates["nash"].verdict is fp.Verdict.VIOLATED
