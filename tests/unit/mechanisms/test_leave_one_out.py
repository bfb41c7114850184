"""Leave-one-out: what all payoffs lose without a member."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from strategies import random_federations


def test_everybody_has_what_is_lost_without_it() -> None:
    for federation in random_federations(103, 12, harm=False):
        outcome = fp.LeaveOneOut().solve(federation)
        for agent in range(federation.n_agents):
            without = outcome.contributions.copy()
            without[agent] = 0.0
            lost = outcome.payoffs.sum() - federation.payoffs(without).sum()
            np.testing.assert_allclose((outcome.payoffs + outcome.payments)[agent], lost, rtol=1e-9, atol=1e-12)


def test_it_hands_out_no_more_than_there_is_without_harm() -> None:
    for federation in random_federations(104, 12, harm=False):
        assert fp.LeaveOneOut().solve(federation).budget <= 1e-12


def test_a_member_that_cannot_do_without_another() -> None:
    # Without the data of b, that of c would take a beyond the domain of its payoff.
    weights = [[1.0, 2.0, -0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    names = ["a", "b", "c"]
    federation = fp.Federation(weights, costs=0.1, caps=9.0, payoff=fp.PowerLaw(0.5), names=names)
    profile = np.array([0.0, 2.0, 4.0])
    with pytest.raises(fp.NotConverged, match='what is lost without "b" has no bound: the data of others harms "a"'):
        fp.LeaveOneOut().payments(federation.arrays, profile)
    assert np.isinf(fp.LeaveOneOut().deviations(federation, profile).utilities).all()
