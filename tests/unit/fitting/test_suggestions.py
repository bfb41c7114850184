"""Suggestions: admissible, distinct in use, about the deal, and better than chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import fedpact as fp
from fedpact.fitting.suggestions import _left, _Open, _shrinkage, candidate_runs, suggest
from unit.fitting.planted import planted


@pytest.fixture(scope="module")
def few() -> fp.Fit:
    return fp.fit(planted(2, n_agents=3, n_runs=8).observations)


@pytest.mark.parametrize("n_agents", [1, 3, 6, 9])
def test_candidates_are_distinct_admissible_and_not_empty(n_agents: int) -> None:
    most = np.linspace(10.0, 50.0, n_agents)
    tried = candidate_runs(most, np.random.default_rng(0))
    assert (tried <= most).all()
    assert (tried >= 0).all()
    assert tried.any(axis=1).all()
    assert len(np.unique(tried, axis=0)) == len(tried)
    assert (tried == most).all(axis=1).any()


@pytest.mark.slow
def test_suggestions_respect_caps_and_say_why(few: fp.Fit) -> None:
    found = suggest(few, 3, costs=0.0005, caps=[20.0, 500.0, 1000.0])
    assert len(found) == 3
    for each in found:
        assert (each.contributions <= [20.0, 500.0, 1000.0]).all()
        assert each.reason.startswith(("settles whether agent", "narrows agent", "little is left"))
        assert 0.0 <= each.settles <= 1.0
    assert sum(each.settles for each in found) <= 1.0
    same = suggest(few, 3, costs=0.0005, caps=[20.0, 500.0, 1000.0])
    np.testing.assert_array_equal(found[0].contributions, same[0].contributions)


@pytest.mark.slow
def test_without_caps_nobody_gives_more_than_ever(few: fp.Fit) -> None:
    largest = few.observations.contributions.max(axis=0)
    for each in suggest(few, 4, costs=0.0005):
        assert (each.contributions <= largest * (1 + 1e-12)).all()


def test_a_better_known_federation_has_less_to_settle() -> None:
    known = fp.fit(planted(2, n_agents=3, n_runs=8, test_size=1_000_000).observations, training_noise=0.0)
    poorly = fp.fit(planted(2, n_agents=3, n_runs=8, test_size=50).observations, training_noise=0.0)

    def widths(found: fp.Fit) -> float:
        federation, doubt = found.federation(costs=0.0005, caps=500.0), found.uncertainty()
        ends = fp.compare(federation, [fp.ExternalityMechanism()], uncertainty=doubt, draws=60)
        return float(np.ptp(ends.uncertainty["externality"].interval("ir_gaps"), axis=1).sum())

    assert widths(known) < 0.3 * widths(poorly)


@pytest.mark.parametrize("count", [0, -2, 1.5, True])
def test_counts_are_checked(few: fp.Fit, count: object) -> None:
    with pytest.raises(fp.InvalidInput, match="count must be a positive whole number of runs"):
        suggest(few, count, costs=0.001)  # type: ignore[arg-type]


def test_expected_doubt_is_that_of_simulated_news() -> None:
    mean, first, left = 0.3, 1.0, 0.4
    what = _Open(
        means=np.array([mean]),
        gains=np.array([[1.0]]),
        payments=np.array([[0.0]]),
        sizes=np.ones(1),
        labels=[("Shapley", "A")],
    )
    news = mean + np.sqrt(first - left) * np.random.default_rng(0).standard_normal(400_000)
    chances = norm.cdf(-news / np.sqrt(left))
    # The mean of 400,000 numbers below one quarter is good to 0.0004; four times that, five standard errors.
    np.testing.assert_allclose(what.doubts(np.array([left]))[0], 4.0 * (chances * (1 - chances)).mean(), atol=0.01)
    np.testing.assert_allclose(what.doubts(np.array([first]))[0], 4.0 * norm.cdf(mean) * norm.cdf(-mean), rtol=1e-9)
    np.testing.assert_allclose(what.doubts(np.array([0.0]))[0], 0.0, atol=1e-12)


def test_shrinking_deviations_is_conditioning_a_gaussian() -> None:
    rng = np.random.default_rng(0)
    part, seen = rng.standard_normal((4, 30)), rng.standard_normal((3, 30))
    conditional = part @ part.T - part @ seen.T @ np.linalg.inv(seen @ seen.T + np.eye(3)) @ seen @ part.T
    shrunk = part @ _shrinkage(seen)
    np.testing.assert_allclose(shrunk @ shrunk.T, conditional, rtol=1e-9, atol=1e-9)
    inner = np.linalg.inv(seen @ seen.T + np.eye(3))
    np.testing.assert_allclose(_left(part, seen[None], inner[None])[0], np.diag(conditional), rtol=1e-9)
