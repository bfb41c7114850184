"""Suggestions: admissible, distinct in use, about the deal, and better than chance."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.suggestions import candidate_runs, suggest
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
        assert each.reason.startswith(("narrows what agent", "narrows agent", "little is left"))
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
    known = fp.fit(planted(2, n_agents=3, n_runs=8, test_size=1_000_000).observations)
    poorly = fp.fit(planted(2, n_agents=3, n_runs=8, test_size=50).observations)

    def widths(found: fp.Fit) -> float:
        federation, doubt = found.federation(costs=0.0005, caps=500.0), found.uncertainty()
        ends = fp.compare(federation, [fp.ExternalityMechanism()], uncertainty=doubt, draws=60)
        return float(np.ptp(ends.uncertainty["externality"].interval("ir_gaps"), axis=1).sum())

    assert widths(known) < 0.3 * widths(poorly)


@pytest.mark.parametrize("count", [0, -2, 1.5, True])
def test_counts_are_checked(few: fp.Fit, count: object) -> None:
    with pytest.raises(fp.InvalidInput, match="count must be a whole number of at least 1"):
        suggest(few, count, costs=0.001)  # type: ignore[arg-type]
