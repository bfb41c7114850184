"""Fits of lots and tasks against the truth they were simulated from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting import suggest
from random_cases import cases

LOTS, TASKS = ("clean", "fair", "poor"), ("common", "rare")
N_AGENTS, BETA, TEST_SIZE = 3, 0.6, 1000
OWNERS = {
    "lot_owners": np.repeat(range(N_AGENTS), len(LOTS)),
    "task_owners": np.repeat(range(N_AGENTS), len(TASKS)),
    "lot_names": LOTS * N_AGENTS,
    "task_names": TASKS * N_AGENTS,
}


def true_weights(rng: np.random.Generator, *, apart: float = 0.15) -> np.ndarray:
    """A factor per task times a quality per lot times how alike the members are, and a little of their own."""
    tasks, lots = OWNERS["task_owners"], OWNERS["lot_owners"]
    quality = np.tile([1.0, 0.6, 0.15], N_AGENTS) * rng.uniform(0.7, 1.3, lots.size)
    alike = np.where(np.eye(N_AGENTS) > 0, 1.0, rng.uniform(0.3, 0.9, (N_AGENTS, N_AGENTS)))
    factors = 0.03 * rng.uniform(0.5, 2.0, tasks.size)
    own = np.exp(apart * rng.standard_normal((tasks.size, lots.size)))
    return factors[:, None] * quality * alike[np.ix_(tasks, lots)] * own


def simulated(
    rng: np.random.Generator, weights: np.ndarray, given: np.ndarray, test_size: int = TEST_SIZE
) -> fp.Observations:
    accuracies = 0.1 + 0.85 * (1.0 - (1.0 + given @ weights.T) ** -BETA)
    return fp.Observations.of(given, rng.binomial(test_size, accuracies) / test_size, test_sizes=test_size, **OWNERS)


def random_runs(rng: np.random.Generator, count: int) -> np.ndarray:
    shape = (count, N_AGENTS * len(LOTS))
    return 400.0 * rng.uniform(0.0, 1.0, shape) ** 2 * (rng.random(shape) < 0.5)


def covered(found: fp.Fit, name: str, truth: object) -> np.ndarray:
    ends = found.intervals(0.9)[name]
    return np.asarray((ends[..., 0] <= truth) & (truth <= ends[..., 1]))


def weight_error(found: fp.Fit, weights: np.ndarray) -> float:
    """How far the worth of lots against each other is off, on average over the tasks."""
    shares, truth = (each / each.sum(axis=1, keepdims=True) for each in (found.weights, weights))
    return float(np.abs(shares - truth).mean() / truth.mean())


@pytest.mark.slow
def test_intervals_hold_the_truth_and_structure_helps_where_tests_are_small() -> None:
    held, betas, errors, loose = [], [], [], []
    for seed in range(cases(12)):
        rng = np.random.default_rng(seed)
        weights = true_weights(rng)
        seen = simulated(rng, weights, random_runs(rng, 20), test_size=100)
        found = fp.fit(seen, floor=0.1)
        held.append(covered(found, "weights", weights).mean())
        betas.append(covered(found, "beta", BETA))
        errors.append(weight_error(found, weights))
        loose.append(weight_error(fp.fit(seen, floor=0.1, prior=0.0), weights))
    assert 0.8 < np.mean(held) <= 1.0
    assert np.mean(betas) > 0.6
    assert np.median(errors) < 0.95 * np.median(loose)  # 20 runs tested on 100 samples, 54 weights


def test_lots_that_were_never_brought_apart_are_named() -> None:
    rng = np.random.default_rng(5)
    given = random_runs(rng, 24)
    given[:, 4] = given[:, 3]
    given[:, 8] = 0.0
    found = fp.fit(simulated(rng, true_weights(rng), given), floor=0.1)
    assert "the data of agent 1: clean and agent 1: fair, to every task" in found.indistinguishable
    assert "the data of agent 2: poor, to every task" in found.indistinguishable
    assert not any("agent 0: clean and agent 0: fair, to every task" in line for line in found.indistinguishable)


def test_a_fit_of_lots_becomes_a_scenario_whose_deal_has_an_outlook(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    weights = true_weights(rng)
    found = fp.fit(simulated(rng, weights, random_runs(rng, 30)), floor=0.1)
    assert covered(found, "weights", weights).mean() > 0.7
    scenario = found.scenario(costs=0.0005, caps=400.0)
    path = tmp_path / "lots.toml"
    fp.save_scenario(scenario, path)
    again = fp.load_scenario(path)
    assert again == scenario
    # The scenario's draws stray as the fit's own do.
    drawn = again.uncertainty.draws(again.federation, 400, 0).weights
    own = found.model.weights(found.parameter_draws(400, np.random.default_rng(1)))
    np.testing.assert_allclose(drawn.std(axis=0), own.std(axis=0), rtol=0.5, atol=1e-3)
    some = again.take([2, 0])
    assert some.uncertainty.weights.shape == some.federation.weights.shape == (4, 6)
    np.testing.assert_array_equal(some.uncertainty.weights[:2, :3], again.uncertainty.weights[4:, 6:])
    compared = fp.compare(again.federation, [fp.ExternalityMechanism()], uncertainty=again.uncertainty, draws=3)
    outlook = compared.uncertainty["externality"]
    assert outlook.outcomes.contributions.shape == (3, 9) and outlook.outcomes.payments.shape == (3, 3)
    np.testing.assert_allclose(outlook.outcomes.payments.sum(axis=1), 0.0, atol=1e-8)


@pytest.mark.slow
def test_suggested_runs_are_over_lots() -> None:
    rng = np.random.default_rng(7)
    found = fp.fit(simulated(rng, true_weights(rng), random_runs(rng, 16)), floor=0.1)
    (wanted,) = suggest(found, 1, costs=0.0005)
    assert wanted.contributions.shape == (9,) and wanted.settles > 0.0
