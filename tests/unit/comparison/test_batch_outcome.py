"""The outcomes of a batch: failures, boundaries, spoiled outcomes, and what only a batch says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Verdict
from fedpact.deals.outcome import PER_AGENT
from fedpact.mechanisms import MECHANISMS
from fedpact.programs import batch_solver
from fedpact.programs.best_response import standalone_optimum
from random_cases import some

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

    monkeypatch.setattr("fedpact.mechanisms.optimum.maximise_blocks", gives_up)
    again = fp.solve_batch(BATCH, fp.ExternalityMechanism())
    np.testing.assert_allclose(again.contributions, expected.contributions, rtol=1e-7)


def test_payments_keep_their_digits_where_the_program_is_much_larger_than_the_deal() -> None:
    """Compiled code ends within its tolerance here, with payments wrong in the seventh digit."""
    federation = fp.Federation(
        [[9.1847, -6.0449, -16.1134], [-3.0035, 0.1251, 1.8516], [0.0332, 0.7947, 3.6914]],
        costs=[1.0947e-5, 0.22064, 2.0591e-5],
        payoff=fp.Log(),
        values=[11.2247, 81.2783, 8.8199],
    )
    alone = fp.ShapleyMechanism().solve(federation)
    found = fp.solve_batch([federation], "shapley")
    np.testing.assert_allclose(found.payments[0], alone.payments, rtol=1e-9)


# One bad federation does not spoil the others


def trio(**changes) -> fp.Federation:
    return fp.Federation(
        **({"weights": BASE.weights, "costs": 0.001, "caps": 400.0, "payoff": fp.PowerLaw(0.02)} | changes)
    )


HARM = [[1.0, -3.0, 0.0], [-3.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
BAD = {
    "free riders beyond the domain": trio(weights=HARM, payoff=fp.PowerLaw(0.5)),
    "costs of next to nothing": trio(costs=1e-300, caps=np.inf),
    "values beyond all squares": trio(values=1e300),
}


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("mechanism", some(MECHANISMS))
def test_a_bad_federation_does_not_touch_the_others(mechanism: str, bad: str) -> None:
    good = [trio(), trio(costs=0.002)]
    clean = fp.solve_batch(good, mechanism)
    mixed = fp.solve_batch([good[0], BAD[bad], good[1]], mechanism)
    assert mixed.statuses[0] == mixed.statuses[2] == "solved"
    for field in PER_AGENT:
        found, expected = getattr(mixed, field)[[0, 2]], getattr(clean, field)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15, err_msg=field)  # a gain of 0 is rounding
    for claim, judged in mixed.certificates.items():
        assert list(judged.verdicts[[0, 2]]) == list(clean.certificates[claim].verdicts), claim
    if mixed.solved[1]:
        assert mixed.statuses[1] == "solved"
        assert np.isfinite(mixed.utilities[1]).all()
    else:
        assert mixed.statuses[1] == str(mixed.errors[1]) != ""
        assert np.isnan(mixed.utilities[1]).all()
        assert not any(judged.holds[1] for judged in mixed.certificates.values())
        with pytest.raises(type(mixed.errors[1])):
            mixed[1]
        assert repr(mixed) == f"BatchOutcome({mechanism}, 3 federations of 3 agents, 1 not solved)"


def test_the_one_without_an_equilibrium_is_told() -> None:
    found = fp.solve_batch([trio(), BAD["free riders beyond the domain"]], "voluntary")
    assert found.statuses[1].startswith("there is no free-riding equilibrium")
    np.testing.assert_array_equal(found.solved, [True, False])


def test_what_one_federation_spoils_is_worked_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fp.solve_batch(BATCH, "externality")

    def gives_up(federation: fp.Federation):
        if federation.n_agents > BASE.n_agents:
            raise fp.NotConverged("one of them is bad")
        return standalone_optimum(federation)

    monkeypatch.setattr("fedpact.comparison.batch_outcome.standalone_optimum", gives_up)
    monkeypatch.setattr("fedpact.mechanisms.optimum.standalone_optimum", gives_up)
    again = fp.solve_batch(BATCH, "externality")
    for field in PER_AGENT:
        np.testing.assert_allclose(getattr(again, field), getattr(expected, field), rtol=1e-7, atol=1e-9, err_msg=field)
    for claim, judged in again.certificates.items():
        assert list(judged.verdicts) == list(expected.certificates[claim].verdicts), claim


def test_a_federation_whose_certificate_cannot_be_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing holds that was not proved, nothing is violated that nothing shows; the others keep their verdicts."""

    class Doubtful(fp.Voluntary):
        name = "doubtful"

        def deviations(self, federation, contributions):
            if federation.caps[0] == 10.0:
                raise fp.NotConverged("who knows")
            return super().deviations(federation, contributions)

    judged = fp.solve_batch(BATCH, Doubtful()).certificates["nash"]
    assert list(judged.verdicts) == [Verdict.HOLDS, Verdict.NOT_REFUTED, Verdict.HOLDS]
    assert np.isnan(judged.margins[1])


def test_an_instance_that_once_never_ended() -> None:
    """Its curvature is not finite, which no ridge mends."""
    federation = fp.Federation([[1, -1], [0.5, 1]], costs=0.01, payoff=fp.Exponential(rate=[155, 1]))
    found = fp.solve_batch([federation], "externality")
    alone = fp.ExternalityMechanism().solve(federation)
    np.testing.assert_allclose(found.contributions[0], alone.contributions, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (BASE, "federations must be a Batch or a list of federations, got Federation"),
        (None, "federations must be a Batch or a list of federations, got NoneType"),
        ([BASE, 3], "federations must be a Batch or a list of federations, but number 1 is int"),
        ("shapley", "but number 0 is str"),
        ([], "a batch needs at least one federation, got none"),
    ],
)
def test_wrong_kinds_are_told(given, message: str) -> None:
    with pytest.raises(fp.InvalidInput) as caught:
        fp.solve_batch(given, "externality")
    assert message in str(caught.value)


def test_lists_names_and_frames() -> None:
    found = fp.solve_batch(iter(list(BATCH)), "externality")
    np.testing.assert_array_equal(found.contributions, fp.solve_batch(BATCH, fp.ExternalityMechanism()).contributions)
    assert repr(found) == "BatchOutcome(externality, 3 federations of 3 agents)"
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.index.names) == ["federation", "agent"]
    assert len(frame) == 9
    np.testing.assert_array_equal(frame.loc[1, "payments"], found.payments[1])
    assert set(frame["status"]) == {"solved"}


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
