"""Those with little at stake beside others contribute what is best to the last digits as well."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from extremes.federations import GROUP, draw_group
from fedpact.certificates import Claim
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs import social_optimum as module
from fedpact.programs.small_stakes import settle_small_stakes, unsettled_lots


def beside_a_giant() -> fp.Federation:
    """Two members of ordinary size, who draw on each other, and one to whom all of that is rounding."""
    weights = [[1.0, 0.5, 0.0], [0.4, 1.0, 0.0], [0.0, 0.0, 1.0]]
    values, costs = np.array([1e-6, 2e-6, 1e12]), np.array([2e-7, 3e-7, 1e11])
    return fp.Federation(weights, costs=fp.Quadratic(costs, 0.1 * costs), payoff=fp.Log(), values=values)


def test_the_small_reach_what_they_reach_without_the_giant():
    federation = beside_a_giant()
    upper = contribution_bounds(federation)[0]
    alone = fp.social_optimum(federation.take([0, 1])).contributions
    spoiled = np.append(alone * [3.0, 0.2], fp.social_optimum(federation).contributions[2])
    assert unsettled_lots(federation, spoiled, upper).tolist() == [True, True, False]
    settled = settle_small_stakes(federation, spoiled, upper)
    np.testing.assert_allclose(settled[:2], alone, rtol=1e-8)
    assert settled[2] == spoiled[2]
    assert not unsettled_lots(federation, settled, upper).any()


def test_a_member_whom_a_bound_holds_is_settled():
    federation = beside_a_giant().replace(caps=[0.5, 0.0, np.inf])
    upper = contribution_bounds(federation)[0]
    settled = settle_small_stakes(federation, np.array([0.1, 0.0, 1.0]), upper)
    assert settled[:2].tolist() == [0.5, 0.0]


@pytest.mark.parametrize(("seed", "place"), [(201, 449), (203, 83)])
def test_members_over_twelve_orders_of_magnitude_all_have_their_best(seed, place):
    """Drawn by `make test-extremes`: the smallest stake is a 1e-16th of the largest, or less."""
    outcome = fp.ExternalityMechanism().solve(draw_group(seed, place // GROUP)[place % GROUP])
    for claim in (Claim.NASH, Claim.INDIVIDUAL_RATIONALITY, Claim.CORE, Claim.SOCIAL_OPTIMALITY):
        assert outcome.certificates[claim].holds, claim


def test_without_settling_them_they_would_not(monkeypatch):
    federation = draw_group(201, 449 // GROUP)[449 % GROUP]
    monkeypatch.setattr(module, "settle_small_stakes", lambda federation, contributions, upper: contributions)
    rough = fp.ExternalityMechanism().solve(federation)
    assert rough.certificates[Claim.SOCIAL_OPTIMALITY].holds, "welfare does not tell them apart"
    assert not rough.certificates[Claim.CORE].holds


def test_equals_are_left_where_the_solver_found_them():
    federation = fp.Federation(np.ones((4, 4)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    contributions = fp.social_optimum(federation).contributions
    assert settle_small_stakes(federation, contributions, federation.caps).tolist() == contributions.tolist()
