"""Who would leave is one question with one answer, whoever asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.claims import balance_tolerance, utility_tolerances, would_leave

FEDERATION = fp.Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))


@pytest.mark.parametrize(("part", "leaves"), [(0.9, False), (1.1, True)])
def test_a_loss_counts_from_the_tolerance_on(part: float, leaves: bool) -> None:
    """A payment that takes the first agent just short of, or just beyond, what it has alone by its tolerance."""
    solved = fp.ExternalityMechanism().solve(FEDERATION)
    start = solved.payments - np.array([solved.ir_gaps[0], 0.0, 0.0])
    tolerance = replace(solved, payments=start).tolerances[0]
    spoiled = replace(solved, payments=start - np.array([part * tolerance, 0.0, 0.0]))
    assert bool(spoiled.leavers) is leaves
    assert spoiled.certificates["individual-rationality"].holds is not leaves
    batch = fp.solve_batch([FEDERATION, FEDERATION], fp.ExternalityMechanism())
    forged = replace(batch, payments=np.vstack([spoiled.payments, batch.payments[1]]))
    assert forged.would_leave.tolist() == [[leaves, False, False], [False] * 3]


def test_nobody_leaves_where_the_gap_is_not_known() -> None:
    assert would_leave(np.array([np.nan, -1.0]), np.zeros(2)).tolist() == [False, True]


def test_tolerances_take_batches() -> None:
    payoffs, costs, payments = np.ones((2, 3)), np.full((2, 3), 0.5), np.full((2, 3), -0.25)
    expected = 1.75e-8 + 3 * 1.75e-15  # of one, and the rounding of what all three have
    np.testing.assert_allclose(
        utility_tolerances(payoffs, costs, payments, np.zeros((2, 3))), np.full((2, 3), expected)
    )
    np.testing.assert_allclose(balance_tolerance(payments, payoffs), [3e-12, 3e-12])


def test_nothing_at_stake_is_no_tolerance_to_divide_by() -> None:
    nothing = np.zeros(2)
    tolerances = utility_tolerances(nothing, nothing, nothing, np.full(2, 5e-324))
    assert (tolerances > 0).all()
    np.testing.assert_array_equal(nothing / tolerances, nothing)


def test_a_member_with_nothing_is_not_judged_by_the_rounding_of_what_others_have() -> None:
    """Under VCG the first has what all lose without it: the difference of two sums of order one."""
    weights = np.array([[1.0, 0.3, 0.2], [-1e-9, 1.0, 0.4], [0.0, 0.5, 1.0]])
    federation = fp.Federation(weights, costs=0.01, caps=[1e-9, 10.0, 10.0], payoff=fp.Log(), values=[1e-6, 1.0, 1.0])
    outcome = fp.VCGMechanism().solve(federation)
    assert outcome.certificates["nash"].holds
    assert outcome.tolerances[0] > 1e-15
