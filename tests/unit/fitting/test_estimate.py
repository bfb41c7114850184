"""`fit`: options, intervals, quality, doubts, draws, and the federation that comes of it."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from random_cases import some
from unit.fitting.planted import planted


@pytest.fixture(scope="module")
def found() -> fp.Fit:
    return fp.fit(planted(0).observations)


def test_shapes_and_words(found: fp.Fit) -> None:
    assert isinstance(found.beta, float)
    assert found.weights.shape == (5, 5)
    assert found.floors.shape == found.ceilings.shape == found.values.shape == (5,)
    assert repr(found).startswith("Fit(power-law, 5 agents, 300 accuracies of 60 runs, rms 0.01")
    np.testing.assert_allclose(found.values, found.ceilings - found.floors)
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0, 0] = 1.0


def test_intervals_hold_the_estimate_and_grow_with_the_level(found: fp.Fit) -> None:
    narrow, wide = found.intervals(0.5), found.intervals(0.99)
    for name, estimate in (("beta", found.beta), ("weights", found.weights), ("ceilings", found.ceilings)):
        assert (wide[name][..., 0] < narrow[name][..., 0]).all()
        assert (narrow[name][..., 0] < estimate).all()
        assert (estimate < narrow[name][..., 1]).all()
        assert (narrow[name][..., 1] < wide[name][..., 1]).all()
    with pytest.raises(fp.InvalidInput, match="level must lie between 0 and 1, got 90"):
        found.intervals(90)


def test_quality_is_that_of_the_residuals(found: fp.Fit) -> None:
    seen = found.observations
    residuals = seen.accuracies - found.predict(seen.contributions)
    np.testing.assert_allclose(found.quality.rms, np.sqrt((residuals**2).mean()), rtol=1e-9)
    assert found.quality.r_squared > 0.99
    assert 0.8 < found.quality.chi_square_per_degree < 1.2
    # 25 weights, beta, floor and ceiling; the prior pays for little.
    np.testing.assert_allclose(found.quality.degrees, 300 - 28, atol=1.0)


def test_renaming_and_reordering_change_nothing() -> None:
    log, order = planted(4, n_agents=3, n_runs=30), [2, 0, 1]
    plain = fp.fit(log.observations)
    turned = fp.fit(fp.Observations.of(log.contributions[::-1, order], log.accuracies[::-1, order], 1000))
    np.testing.assert_allclose(turned.beta, plain.beta, rtol=1e-4)
    np.testing.assert_allclose(turned.weights, plain.weights[np.ix_(order, order)], rtol=1e-3)


def test_counting_data_in_thousands_scales_the_weights_alone() -> None:
    log = planted(4, n_agents=3, n_runs=30)
    plain = fp.fit(log.observations)
    scaled = fp.fit(fp.Observations.of(log.contributions / 1000.0, log.accuracies, 1000))
    np.testing.assert_allclose(scaled.beta, plain.beta, rtol=1e-4)
    np.testing.assert_allclose(scaled.weights, 1000.0 * plain.weights, rtol=1e-3)


def drawn_weights(found: fp.Fit, count: int, seed: int = 0) -> np.ndarray:
    return found.model.weights(found.parameter_draws(count, np.random.default_rng(seed)))


def drawn_curves(found: fp.Fit, count: int) -> np.ndarray:
    """(count, n, 3): log(beta), floors and ceilings."""
    return found.model.curves(found.parameter_draws(count, np.random.default_rng(0)))


def test_known_ends_stay_and_sharpen_beta(found: fp.Fit) -> None:
    known = fp.fit(found.observations, floor=0.1, ceiling=0.95)
    np.testing.assert_array_equal(known.floors, np.full(5, 0.1))
    np.testing.assert_array_equal(known.ceilings, np.full(5, 0.95))
    assert known.standard_errors["beta"] < 0.6 * found.standard_errors["beta"]
    assert (known.standard_errors["floors"] == 0).all()
    assert (drawn_curves(known, 20)[:, :, 1] == 0.1).all()


def test_curves_of_their_own() -> None:
    log = planted(1, n_agents=3, n_runs=60)
    own = np.array([0.05, 0.2, 0.3])
    true = own + (0.95 - own) * (1.0 - (1.0 + log.contributions @ log.weights.T) ** -0.6)
    seen = np.random.default_rng(0).binomial(1000, true) / 1000
    observations = fp.Observations.of(log.contributions, seen, 1000)
    found = fp.fit(observations, shared=("beta", "ceiling"))
    np.testing.assert_allclose(found.floors, own, atol=0.03)
    assert len(set(found.ceilings.tolist())) == 1
    alone = fp.fit(observations, shared=())
    assert alone.beta.shape == (3,)
    assert alone.intervals()["beta"].shape == (3, 2)
    assert alone.federation(costs=0.001).payoff.parameters["beta"].shape == (3,)


@pytest.mark.parametrize(("family", "payoff"), [("exponential", fp.Exponential), ("michaelis", fp.Michaelis)])
def test_other_families_recover_their_own_curves(family: str, payoff: type) -> None:
    log = planted(2, n_agents=3, n_runs=80, largest=200.0)
    made = payoff(1.0)
    true = 0.1 + 0.8 * made.value(log.contributions @ log.weights.T)
    seen = np.random.default_rng(0).binomial(1000, true) / 1000
    found = fp.fit(fp.Observations.of(log.contributions, seen, 1000), family=family)
    assert found.beta is None
    assert "beta" not in found.intervals()
    assert np.median(np.abs(found.weights / log.weights - 1.0)) < 0.15
    federation = found.federation(costs=0.001)
    assert isinstance(federation.payoff, payoff)
    np.testing.assert_allclose(
        federation.payoffs(log.contributions[0]) + found.floors, found.predict(log.contributions[0])
    )


def test_harm_is_found_where_signs_are_free() -> None:
    log = planted(5, n_agents=3, n_runs=80, largest=300.0)
    weights = log.weights.copy()
    weights[0, 1] = -0.3 * weights[0, 0]
    given = log.contributions.copy()
    given[:, 0] += 100.0
    given[:, 1] = np.minimum(given[:, 1], given[:, 0])
    seen = np.random.default_rng(1).binomial(1000, 0.1 + 0.85 * (1.0 - (1.0 + given @ weights.T) ** -0.6)) / 1000
    observations = fp.Observations.of(given, seen, 1000)
    low, high = fp.fit(observations, signs="any", floor=0.1).intervals()["weights"][0, 1]
    assert low < weights[0, 1] < high < 0
    assert fp.fit(observations, floor=0.1).weights.min() >= 0.0


def test_the_prior_says_everybody_is_alike_and_can_be_switched_off() -> None:
    given = np.array([[50.0, 50.0], [100.0, 100.0], [400.0, 400.0], [5.0, 5.0]])  # never apart
    seen = 0.1 + 0.85 * (1.0 - (1.0 + given @ np.array([[0.03, 0.01], [0.01, 0.03]]).T) ** -0.6)
    observations = fp.Observations.of(given, seen, 1000)
    believed = fp.fit(observations)
    np.testing.assert_allclose(believed.weights[0, 1] / believed.weights[0, 0], 1.0, atol=0.1)
    strong = fp.fit(observations, prior=100.0)
    assert strong.standard_errors["weights"][0, 1] < believed.standard_errors["weights"][0, 1]
    without = fp.fit(observations, prior=0.0).intervals()["weights"][0, 1]
    assert without[1] - without[0] > 10.0 * np.ptp(believed.intervals()["weights"][0, 1])
    assert "the data of agent 0 and agent 1, to every member" in believed.indistinguishable


def test_well_measured_parameters_are_told_apart(found: fp.Fit) -> None:
    assert found.indistinguishable == ()


def test_beta_and_ceiling_on_a_ridge_are_named() -> None:
    log = planted(0, n_agents=2, n_runs=20, largest=12.0)  # the curve's beginning only
    groups = fp.fit(log.observations).indistinguishable
    assert any("beta" in group and "ceiling" in group for group in groups)


def test_few_observations_work_and_say_so() -> None:
    found = fp.fit(fp.Observations.of([[10.0, 0.0]], [[0.4, 0.3]], 1000))
    assert np.isfinite(found.weights).all()
    assert any("rest on the prior" in note for note in found.notes)
    ends = found.intervals()["weights"]
    assert (ends[..., 1] > 3.0 * found.weights).all()  # and is not sure of it


def test_without_test_sizes_the_noise_is_estimated() -> None:
    log = planted(0, training_noise=0.02, say_size=False)
    found = fp.fit(log.observations)
    assert found.notes == ("no test sizes given: all noise is estimated from the residuals",)
    assert 0.018 < found.training_noise < 0.03  # the test sets' noise is part of it here
    assert found.quantile(0.95) > 1.645


def test_a_floor_is_given_measured_or_said_to_be_fitted(found: fp.Fit) -> None:
    log = planted(0, n_agents=2, n_runs=12)
    given = np.maximum(log.contributions, 1.0)
    plain = fp.fit(fp.Observations.of(given, log.accuracies, 1000))
    assert any("the floor is fitted, not measured" in note for note in plain.notes)
    guessed = np.vstack([given, [0.0, 0.0]]), np.vstack([log.accuracies, [0.1, 0.1]])
    for other in (fp.fit(plain.observations, floor=0.1), fp.fit(fp.Observations.of(*guessed, 1000))):
        assert not any("floor" in note for note in other.notes)


def test_training_noise_is_found_beside_the_test_sets(found: fp.Fit) -> None:
    noisy = fp.fit(planted(0, training_noise=0.03).observations)
    np.testing.assert_allclose(noisy.training_noise, 0.03, atol=0.006)
    assert noisy.standard_errors["beta"] > 1.5 * found.standard_errors["beta"]


def test_noise_shared_by_a_run_widens_what_is_shared() -> None:
    log, rng = planted(0), np.random.default_rng(9)
    shaken = np.clip(log.accuracies + 0.02 * rng.standard_normal((60, 1)), 0.0, 1.0)
    lucky = fp.fit(fp.Observations.of(log.contributions, shaken, 1000))
    assert lucky.doubt > 1.5
    apart = np.clip(log.accuracies + 0.02 * rng.standard_normal((60, 5)), 0.0, 1.0)
    assert fp.fit(fp.Observations.of(log.contributions, apart, 1000)).doubt < 1.5


def test_outliers_are_named_by_row() -> None:
    log = planted(0)
    spoiled = log.accuracies.copy()
    spoiled[17, 2] = 0.0
    found = fp.fit(fp.Observations.of(log.contributions, spoiled, 1000))
    assert (found.outliers[0].row, found.outliers[0].agent) == (17, "agent 2")
    assert found.outliers[0].accuracy == 0.0


def test_draws_follow_the_estimates_and_their_seed(found: fp.Fit) -> None:
    weights, curves = drawn_weights(found, 4000), drawn_curves(found, 4000)
    np.testing.assert_array_equal(weights, drawn_weights(found, 4000))
    assert not np.array_equal(weights[:5], drawn_weights(found, 5, seed=1))
    np.testing.assert_allclose(curves[:, :, 0].std(), found.standard_errors["beta"] / found.beta, rtol=0.05)
    np.testing.assert_allclose(weights.std(axis=0), found.standard_errors["weights"], rtol=0.15)
    assert (weights >= 0).all()
    assert (curves[:, :, 2] > curves[:, :, 1]).all()
    assert len(weights) == 4000


def test_the_federation_pays_what_the_curve_adds_to_the_floor(found: fp.Fit) -> None:
    given = found.observations.contributions[0]
    federation = found.federation(costs=0.001, caps=400.0, worth=1000.0)
    np.testing.assert_allclose(federation.payoffs(given), 1000.0 * (found.predict(given) - found.floors))
    with pytest.raises(fp.InvalidInput, match="worth must be positive, got 0"):
        found.federation(costs=0.001, worth=0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"family": "log"},
            r"family must be one of power-law, exponential, michaelis, got 'log'; a curve needs a ceil",
        ),
        ({"signs": "both"}, r"signs must be one of positive, any, got 'both'"),
        ({"shared": ("beta", "flor")}, r"shared must be among beta, floor, ceiling, got 'flor'"),
        ({"prior": -1.0}, r"prior must be from 0 to 1,000,000, got -1"),
        ({"floor": 1.0}, r"floor must be at least 0 and below 1, got 1"),
        ({"floor": [0.1, 0.2]}, r"floor must be a number or one number per member: 5 members, 2 numbers"),
        ({"ceiling": 95}, r"ceiling must be above 0 and at most 1, got 95"),
        (
            {"floor": 0.5, "ceiling": 0.4},
            r'ceiling must exceed floor by at least 0.01, got 0.4 and 0.5 \(member "agent 0"\)',
        ),
    ],
)
def test_options_are_checked(found: fp.Fit, options: dict, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        fp.fit(found.observations, **options)


def test_only_observations_are_fitted() -> None:
    with pytest.raises(fp.InvalidInput, match=r"observations must be Observations; make them with Observations.of"):
        fp.fit([[1.0, 2.0]])  # type: ignore[arg-type]


RNG = np.random.default_rng(0)
STRANGE = {
    "one member": (np.array([[10.0], [50.0], [200.0]]), np.array([[0.3], [0.5], [0.7]])),
    "one number": (np.array([[10.0]]), np.array([[0.3]])),
    "always the same": (RNG.uniform(0.0, 100.0, (20, 2)), np.full((20, 2), 0.5)),
    "always right": (RNG.uniform(0.0, 100.0, (20, 2)), np.ones((20, 2))),
    "always wrong": (RNG.uniform(0.0, 100.0, (20, 2)), np.zeros((20, 2))),
    "falling": (np.linspace(1.0, 100.0, 20)[:, None], np.linspace(0.9, 0.1, 20)[:, None]),
    "never gives": (np.column_stack([RNG.uniform(0.0, 100.0, 20), np.zeros(20)]), RNG.uniform(0.4, 0.6, (20, 2))),
    "one run, repeated": (np.tile([[10.0, 20.0]], (30, 1)), np.tile([[0.5, 0.6]], (30, 1))),
    "huge numbers": (RNG.uniform(0.0, 1e12, (20, 2)), RNG.uniform(0.4, 0.9, (20, 2))),
    "tiny numbers": (RNG.uniform(0.0, 1e-9, (20, 2)), RNG.uniform(0.4, 0.9, (20, 2))),
    "nonsense": (RNG.uniform(0.0, 100.0, (5, 4)), RNG.uniform(0.0, 1.0, (5, 4))),
}


@pytest.mark.parametrize("size", [1000, None], ids=["sized", "unsized"])
@pytest.mark.parametrize("case", some(STRANGE, 5))
def test_strange_logs_give_finite_numbers_and_no_warning(case: str, size: int | None) -> None:
    found = fp.fit(fp.Observations.of(*STRANGE[case], size))
    drawn = drawn_weights(found, 20), drawn_curves(found, 20)
    for numbers in (found.weights, found.ceilings, found.values, *drawn):
        assert np.isfinite(numbers).all()
    assert (found.weights.diagonal() > 0).all()
    assert (found.values > 0).all()
    scenario = found.scenario(costs=0.001, caps=100.0)
    assert np.isfinite(scenario.uncertainty.draws(scenario.federation, 20, 0).weights).all()
    assert not np.isnan(found.intervals()["weights"]).any()
    _ = found.quality, found.indistinguishable, found.notes, found.outliers


def test_progress_is_told() -> None:
    said: list[str] = []
    fp.fit(planted(0, n_agents=2, n_runs=10).observations, progress=said.append)
    assert {"starting from beta 0.05", "pass 1", "leaving out runs, part 1"} <= set(said)
