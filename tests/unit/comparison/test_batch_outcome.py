"""The outcomes of a batch: failures, boundaries, spoiled outcomes, and what only a batch says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Verdict
from fedpact.programs import batch_solver

BASE = fp.Federation(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
)
BATCH = fp.Batch.vary(BASE, caps=np.array([[400.0], [10.0], [0.0]]))


def test_boundaries_are_marked() -> None:
    boundary = fp.solve_batch(BATCH, fp.ExternalityMechanism()).on_boundary
    np.testing.assert_array_equal(boundary[0], [False, False, False])
    assert boundary[1].any()
    assert boundary[2].all()


@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=["E", "Shap"])
def test_spoiled_outcomes_fail_the_claims_they_break(mechanism: fp.Mechanism) -> None:
    good = fp.solve_batch(BATCH, mechanism)
    assert all(good.certificates[claim].holds.all() for claim in mechanism.claims if claim != "reciprocity")
    payments = good.payments.copy()
    payments[0, 0] += 0.01
    spoiled = replace(good, payments=payments).certificates["budget-balance"]
    assert list(spoiled.verdicts) == [Verdict.VIOLATED, Verdict.HOLDS, Verdict.HOLDS]
    np.testing.assert_allclose(spoiled.margins[0], -0.01)


def test_another_profile_is_no_equilibrium() -> None:
    good = fp.solve_batch(BATCH, fp.ShapleyMechanism())
    moved = good.contributions.copy()
    moved[0, 1] *= 0.5
    spoiled = replace(good, contributions=moved)
    assert list(spoiled.certificates["nash"].verdicts) == [Verdict.VIOLATED, Verdict.HOLDS, Verdict.HOLDS]


def test_what_compiled_code_leaves_open_is_solved_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fp.solve_batch(BATCH, fp.ExternalityMechanism())
    true_way = batch_solver.maximise_blocks

    def gives_up(*given, **options):
        contributions, gains = true_way(*given, **options)
        return np.zeros_like(contributions), np.full_like(gains, np.inf)

    monkeypatch.setattr("fedpact.mechanisms.externality.maximise_blocks", gives_up)
    again = fp.solve_batch(BATCH, fp.ExternalityMechanism())
    np.testing.assert_allclose(again.contributions, expected.contributions, rtol=1e-7)


def test_a_federation_that_cannot_be_solved_is_told_and_the_others_are_kept() -> None:
    """Free riders who harm each other beyond the domain have no equilibrium; the other two have."""
    weights = np.tile(np.eye(2), (3, 1, 1))
    weights[1] = [[1.0, -3.0], [-3.0, 1.0]]
    base = fp.Federation(np.eye(2), costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))
    with pytest.raises(
        fp.NotConverged, match="1 of 3 federations could not be solved, the first is number 1"
    ) as caught:
        fp.solve_batch(fp.Batch.vary(base, weights=weights), fp.Voluntary())
    kept = caught.value.result
    np.testing.assert_array_equal(kept.solved, [True, False, True])
    assert np.isnan(kept.utilities[1]).all()
    np.testing.assert_allclose(kept.utilities[0], fp.Voluntary().solve(kept.batch[0]).utilities)


def test_progress_is_told_to_the_end() -> None:
    told: list[int] = []
    fp.solve_batch(BATCH, fp.Voluntary(), progress=told.append)
    assert told == [0, 1, 2, 3]


def test_shapley_values_are_undefined_where_a_coalition_leaves_the_domain() -> None:
    weights = np.tile(np.array([[1.0, -3.0, 2.0], [2.0, 1.0, 0.5], [1.0, 3.0, 1.0]]), (1, 1, 1))
    base = fp.Federation(np.eye(3), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    outcome = fp.solve_batch(fp.Batch.vary(base, weights=weights), fp.ExternalityMechanism())
    alone = fp.ExternalityMechanism().solve(outcome.batch[0])
    np.testing.assert_array_equal(np.isnan(outcome.shapley_values[0]), np.isnan(alone.shapley_values))
    assert outcome.certificates["reciprocity"].verdicts[0] == alone.certificates["reciprocity"].verdict
