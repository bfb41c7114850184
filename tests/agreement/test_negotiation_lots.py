"""Negotiations between members with several lots and tasks against the deal that is solved from everybody's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.mechanisms import MECHANISMS
from old_hospitals import example
from random_cases import some
from strategies import random_lots

MONEY = 1e-6  # of payoffs and costs together: the root of the gain that is left, where it is climbed
SAME_SPLIT = 1e-5  # of the largest contribution
PROTOCOLS = [
    ("externality", "price-discovery"),
    ("externality", "sums"),
    ("shapley", "price-discovery"),
    ("shapley", "sums"),
]


def assert_is_solved(federation: fp.Federation, deal: fp.Deal) -> None:
    solved = MECHANISMS[deal.mechanism].solve(federation)
    size = float(np.abs(solved.payoffs).sum() + solved.costs.sum())
    assert not deal.excluded and deal.has_lots and deal.lot_names == federation.lot_names
    np.testing.assert_allclose(deal.payments, solved.payments, rtol=0.0, atol=MONEY * size)
    np.testing.assert_allclose(federation.payoffs(deal.contributions), solved.payoffs, rtol=0.0, atol=MONEY * size)
    assert abs(federation.welfare(deal.contributions) - solved.welfare) <= MONEY * size
    assert float(deal.payments.sum()) == 0.0


@pytest.mark.parametrize(("mechanism", "protocol"), PROTOCOLS)
@pytest.mark.parametrize("seed", some(range(12), 1))
def test_random_lots_and_tasks(mechanism: str, protocol: str, seed: int) -> None:
    """Some members only give, others only receive; zeros, caps, harm and both kinds of costs."""
    federation = random_lots(np.random.default_rng(seed), n_agents=4 + seed % 3)
    deal = fp.negotiate(federation, mechanism=mechanism, protocol=protocol, least_gain=None)
    assert_is_solved(federation, deal)


@pytest.mark.parametrize("mechanism", ["externality", "shapley"])
def test_of_lots_that_can_stand_for_each_other_the_smallest_split_is_agreed(mechanism: str) -> None:
    federation = random_lots(np.random.default_rng(5), n_agents=4, harm=False, collinear=True)
    deal = fp.negotiate(federation, mechanism=mechanism, least_gain=None)
    solved = MECHANISMS[mechanism].solve(federation)
    assert_is_solved(federation, deal)
    tol = SAME_SPLIT * float(solved.contributions.max())
    np.testing.assert_allclose(deal.contributions, solved.contributions, rtol=0.0, atol=tol)


def test_who_refuses_trains_alone_with_all_of_its_lots(lots_example: fp.Federation) -> None:
    deal = fp.negotiate(lots_example, mechanism="shapley")
    assert deal.excluded
    out = [owner in deal.excluded for owner in deal.lot_owners or ()]
    assert not deal.contributions[out].any()
    left = lots_example.take([place for place, name in enumerate(lots_example.names) if name not in deal.excluded])
    np.testing.assert_allclose(
        deal.payments[deal.members], fp.ShapleyMechanism().solve(left).payments, atol=MONEY * deal.provenance.welfare
    )


@pytest.fixture(scope="module")
def lots_example() -> fp.Federation:
    return example("hospitals-lots").federation
