"""The deal under uncertainty: against single solves, at the ends of certainty, and in the comparison."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import Outlook, outlooks
from fedpact.comparison.outlook import solve_draws
from fedpact.report import render_report
from fedpact.report.records import comparison_record
from fedpact.scenario import example
from fedpact.utils.errors import NotConverged

FEDERATION = example("hospitals").federation
WEIGHTS = FEDERATION.weights
DOUBT = fp.Uncertainty(weights=0.2 * np.abs(WEIGHTS) + 0.02, values=0.05 * FEDERATION.values, parameter=0.002)


def test_every_draw_is_solved_as_it_would_be_alone() -> None:
    drawn = DOUBT.draws(FEDERATION, 12, 3)
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        found = outlooks(FEDERATION, DOUBT, [mechanism], count=12, rng=3)[mechanism.name]
        for place in (0, 5, 11):
            single = mechanism.solve(
                replace(
                    FEDERATION,
                    weights=drawn.weights[place],
                    values=drawn.values[place],
                    payoff=fp.PowerLaw(drawn.payoff.beta[place]),
                )
            )
            np.testing.assert_allclose(found.outcomes.payments[place], single.payments, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found.outcomes.ir_gaps[place], single.ir_gaps, rtol=1e-5, atol=1e-6)
            assert [
                name for name, leaves in zip(found.agents, found.outcomes.would_leave[place], strict=True) if leaves
            ] == list(single.leavers)


def test_without_doubt_everything_is_sure() -> None:
    sure = fp.Uncertainty(weights=np.zeros_like(WEIGHTS))
    outcome = fp.ShapleyMechanism().solve(FEDERATION)
    found = outlooks(FEDERATION, sure, [fp.ShapleyMechanism()], count=3)["shapley"]
    np.testing.assert_allclose(found.interval("payments")[:, 0], found.interval("payments")[:, 1], atol=1e-12)
    np.testing.assert_allclose(found.interval("ir_gaps")[:, 1], outcome.ir_gaps, atol=1e-6)
    leaves = np.isin(outcome.agents, outcome.leavers).astype(float)
    np.testing.assert_array_equal(found.leave_probabilities, leaves)
    np.testing.assert_allclose(found.keeping_endowments, np.where(leaves, outcome.endowments, 0.0), atol=1e-6)


def outlook(gaps: np.ndarray) -> Outlook:
    class Stated(SimpleNamespace):
        def __len__(self) -> int:
            return len(gaps)

    return Outlook(
        outcomes=Stated(
            ir_gaps=gaps,
            solved=~np.isnan(gaps).any(axis=1),
            would_leave=gaps < 0,
            reciprocity_ratios=np.where(gaps > 0, np.inf, 1.0),
        )
    )


def test_probabilities_and_endowments_by_hand() -> None:
    gaps = np.column_stack([np.arange(-3.0, 17.0), np.full(20, 1.0)])  # A loses 3, 2 and 1 in three of twenty draws
    found = outlook(gaps)
    np.testing.assert_allclose(found.leave_probabilities, [0.15, 0.0])
    # With 2, A stays in 19 of 20 draws; with anything less in 18 at most.
    kept = (gaps[:, 0] + found.keeping_endowments[0] >= 0).mean()
    assert kept >= 0.95
    assert found.keeping_endowments[0] in (2.0, 3.0)
    assert found.keeping_endowments[1] == 0.0
    np.testing.assert_allclose(found.interval("ir_gaps")[0], np.quantile(gaps[:, 0], [0.05, 0.95]))


def test_draws_without_an_outcome_are_counted_and_left_out() -> None:
    gaps = np.array([[1.0, 1.0], [np.nan, np.nan], [-1.0, 1.0]])
    found = outlook(gaps)
    assert (found.n_draws, found.n_unsolved) == (2, 1)
    np.testing.assert_allclose(found.leave_probabilities, [0.5, 0.0])
    assert found.interval("reciprocity_ratios")[1, 1] == np.inf
    assert np.isfinite(found.interval("ir_gaps")).all()


def test_a_mechanism_that_nothing_solves_is_loud() -> None:
    federation = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, payoff=fp.Log())
    sure = fp.Uncertainty(weights=np.zeros((2, 2)), signs="any")
    with pytest.raises(NotConverged, match="Voluntary could be solved on none of 4 draws"):
        solve_draws(federation, sure.draws(federation, 4, 0), fp.Voluntary())


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_counts_are_checked(count: object) -> None:
    with pytest.raises(fp.InvalidInput, match="count must be a positive whole number of draws"):
        outlooks(FEDERATION, DOUBT, count=count)  # type: ignore[arg-type]


def test_fields_are_checked() -> None:
    with pytest.raises(fp.InvalidInput, match="field must be one of contributions, payments"):
        outlook(np.ones((3, 2))).interval("costs")


@pytest.fixture(scope="module")
def compared() -> fp.Comparison:
    return fp.compare(FEDERATION, uncertainty=DOUBT, draws=40)


@pytest.mark.slow
def test_the_comparison_carries_the_outlooks(compared: fp.Comparison) -> None:
    assert list(compared.uncertainty) == ["externality", "shapley", "fair", "voluntary"]
    record = comparison_record(compared)
    assert list(record["uncertainty"]) == list(compared.uncertainty)
    entry = record["uncertainty"]["shapley"]
    assert entry["draws"] == 40
    assert np.array(entry["intervals"]["payments"]).shape == (5, 2)
    assert all(0 <= part <= 1 for part in entry["leave_probabilities"])


@pytest.mark.slow
def test_without_uncertainty_nothing_changes() -> None:
    plain = fp.compare(FEDERATION)
    assert plain.uncertainty == {}
    assert "uncertainty" not in comparison_record(plain)
    assert 'id="uncertainty"' not in render_report(plain)


def test_the_same_seed_gives_the_same_outlook() -> None:
    ours, theirs = (
        outlooks(FEDERATION, DOUBT, [fp.ExternalityMechanism()], count=5, rng=seed)["externality"].outcomes.payments
        for seed in (7, 7)
    )
    np.testing.assert_array_equal(ours, theirs)
    other = outlooks(FEDERATION, DOUBT, [fp.ExternalityMechanism()], count=5, rng=8)["externality"].outcomes.payments
    assert not np.array_equal(ours, other)


@pytest.mark.slow
def test_the_report_says_how_sure_it_is(compared: fp.Comparison) -> None:
    page = render_report(compared, example("hospitals"))
    assert 'id="uncertainty"' in page
    assert 'href="#uncertainty"' in page
    for words in ("How sure is this?", "40 draws"):
        assert words in page
    section = page[page.index('id="uncertainty"') :]
    section = section[: section.index("</section>")]
    assert all(name in section.replace("&#39;", "'") for name in FEDERATION.names)
    assert "nan" not in section.lower().replace("finance", "")
