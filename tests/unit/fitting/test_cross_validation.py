"""The family that predicts unseen runs best is the one the log came from."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from unit.fitting.planted import planted, random_coalitions

SHAPES = {
    "power-law": lambda reached: 1.0 - (1.0 + reached) ** -0.3,
    "exponential": lambda reached: 1.0 - np.exp(-reached),
    "michaelis": lambda reached: reached / (1.0 + reached),
}


def observations(family: str, seed: int = 1) -> fp.Observations:
    rng = np.random.default_rng(seed)
    weights = 0.02 * rng.uniform(0.2, 1.2, (3, 3)) + 0.01 * np.eye(3)
    given = random_coalitions(rng, 3, 60, 1)
    seen = rng.binomial(2000, 0.1 + 0.8 * SHAPES[family](given @ weights.T)) / 2000
    return fp.Observations.of(given, seen, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("family", SHAPES)
def test_the_right_family_is_found(family: str) -> None:
    found = fp.fit(observations(family), family="auto")
    assert found.families is not None
    assert family in {found.family, *found.families.as_good}
    assert found.families.errors[found.family] == min(found.families.errors.values())
    assert set(found.families.errors) == set(SHAPES)
    # Unseen runs are missed by the noise of their test sets, and a little.
    assert 0.008 < found.families.errors[found.family] < 0.02
    plain = fp.fit(found.observations, family=found.family)
    np.testing.assert_array_equal(found.weights, plain.weights)


def test_wrong_families_are_further_off() -> None:
    errors = fp.fit(observations("exponential"), family="auto").families.errors
    assert errors["michaelis"] > 1.5 * errors["exponential"]


@pytest.mark.slow
def test_families_that_cannot_be_told_apart_are_named() -> None:
    found = fp.fit(planted(0, n_agents=2, n_runs=12, largest=20.0).observations, family="auto")
    assert found.families.as_good
    assert any("cannot tell" in note and found.families.as_good[0] in note for note in found.notes)


def test_repeats_are_unseen_together() -> None:
    """Otherwise a fold would predict runs that it has seen."""
    from fedpact.fitting.cross_validation import _folds

    groups = np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 7])
    folds = _folds(groups)
    assert all(len(set(folds[groups == group])) == 1 for group in range(8))
    assert len(set(folds)) == 5


def test_one_kind_of_run_tells_nothing() -> None:
    with pytest.raises(fp.InvalidInput, match="family auto needs runs with different contributions"):
        fp.fit(fp.Observations.of([[10.0, 5.0]] * 3, [[0.4, 0.3]] * 3, 1000), family="auto")


@pytest.mark.slow
def test_progress_names_the_family() -> None:
    said: list[str] = []
    fp.fit(observations("michaelis"), family="auto", progress=said.append)
    assert {"comparing families: power-law", "comparing families: michaelis"} <= set(said)
