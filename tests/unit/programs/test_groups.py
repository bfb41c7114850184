"""What groups reach by themselves: each agrees with its own social optimum, whichever way it is solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from fedpact.programs import groups
from fedpact.programs.groups import all_groups, group_optima
from strategies import random_federations

SAME = 1e-9  # of the value: two solvers, each at rounding


@dataclass(frozen=True, eq=False)
class HomeMade(fp.PowerLaw):
    """A power law that compiled code does not know."""

    def hyperbola(self):
        return None


def one_by_one(federation: fp.Federation, members: np.ndarray) -> np.ndarray:
    """v(X) by the solver of a single federation."""
    return np.array([fp.social_optimum(federation.take(group)).welfare if group.any() else 0.0 for group in members])


def test_every_group_reaches_its_own_optimum():
    for federation in random_federations(11, 40):
        found = group_optima(federation)
        some = np.random.default_rng(0).permutation(len(found.values))[:12]
        alone = one_by_one(federation, found.members[some])
        np.testing.assert_allclose(found.values[some], alone, rtol=SAME, atol=SAME * federation.values.sum())


def test_profiles_give_the_values_and_stay_inside():
    for federation in random_federations(12, 40):
        found = group_optima(federation)
        assert (found.contributions <= federation.caps).all()
        assert (found.contributions >= 0).all()
        assert not found.contributions[~found.members].any()
        for group, value, profile in zip(found.members[1:], found.values[1:], found.contributions[1:], strict=True):
            reached = federation.take(group).welfare(profile[group])
            np.testing.assert_allclose(value, reached, rtol=1e-12, atol=1e-15)


def test_the_row_number_says_who_is_in():
    members = all_groups(3)
    assert members[0b101].tolist() == [True, False, True]
    assert len(members) == 8
    assert not members[0].any()


def test_groups_given_are_solved_in_their_order():
    federation = next(iter(random_federations(13, 1, n_agents=6)))
    everything = group_optima(federation)
    order = np.array([63, 5, 0, 17, 1, 63])
    some = group_optima(federation, everything.members[order])
    np.testing.assert_allclose(some.values, everything.values[order], rtol=1e-14)


def test_payoffs_unknown_to_compiled_code_are_solved_alone():
    weights = [[1.0, 0.5, 0.2], [0.3, 1.0, 0.9], [0.1, 0.4, 1.0]]
    known = fp.Federation(weights, costs=0.002, caps=50.0, payoff=fp.PowerLaw(0.1))
    unknown = known.replace(payoff=HomeMade(0.1))
    np.testing.assert_allclose(group_optima(unknown).values, group_optima(known).values, rtol=SAME)


def test_sparse_and_large_groups_are_solved_too():
    rng = np.random.default_rng(3)
    n = groups.MAX_COMPILED_MEMBERS + 6
    weights = np.where(rng.random((n, n)) < 0.1, rng.uniform(0.0, 1.0, (n, n)), 0.0)
    np.fill_diagonal(weights, 1.0)
    dense = fp.Federation(weights, costs=0.01, caps=40.0, payoff=fp.Log())
    sparse = dense.replace(weights=sp.csr_array(weights))
    members = np.array([rng.random(n) < 0.5, np.ones(n, dtype=bool), np.arange(n) == 4])
    np.testing.assert_allclose(group_optima(dense, members).values, one_by_one(dense, members), rtol=SAME)
    np.testing.assert_allclose(group_optima(sparse, members).values, one_by_one(dense, members), rtol=SAME)


def test_progress_counts_groups_and_may_stop_it():
    federation = next(iter(random_federations(14, 1, n_agents=5)))
    told: list[tuple[int, int]] = []
    group_optima(federation, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (32, 32)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        group_optima(federation.replace(caps=3.0), progress=stop)


@pytest.mark.slow
def test_all_groups_of_one_federation_are_worked_out_once():
    federation = next(iter(random_federations(16, 1, n_agents=4)))
    first = group_optima(federation)
    assert group_optima(federation.replace(caps=federation.caps)) is first
    assert group_optima(federation.replace(caps=federation.caps / 2.0)) is not first


def test_gains_are_values_less_utilities():
    federation = next(iter(random_federations(15, 1, n_agents=4)))
    found, utilities = group_optima(federation), np.array([0.1, 0.2, 0.4, 0.8])
    np.testing.assert_allclose(found.gains(utilities)[0b1010], found.values[0b1010] - 1.0, rtol=1e-14)


def test_too_many_agents_are_refused_with_the_way_out():
    federation = fp.Federation(np.eye(17), costs=0.1, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match=r"17 members form 2\^17 groups.*up to 16"):
        group_optima(federation)
    with pytest.raises(fp.InvalidInput, match="one column for each of the 17 members"):
        group_optima(federation, np.ones((2, 3)))
