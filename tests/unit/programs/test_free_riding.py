"""The equilibrium without payments: a fixed point of best responses, and whether it is the only one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

import fedpact as fp
from cases import CASES, answers
from extremes.federations import draw_group
from fedpact.certificates.no_equilibrium import refutes
from fedpact.programs.best_response import best_own
from fedpact.programs.free_riding import free_riding_equilibrium
from fedpact.programs.free_riding_uniqueness import is_unique
from fedpact.programs.no_equilibrium import leaves
from fedpact.scenario.examples import hospitals
from fedpact.utils.errors import NoEquilibrium, NotConverged
from random_cases import cases
from strategies import federations, random_federations

# The stopping inequality is 1e-11 of the largest contribution; here the best responses are worked out once more.
FIXED_POINT = 1e-10


def responses(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    return best_own(fed, fed.data(s) - fed.own_weights * s)


def equilibria_by_search(fed: fp.Federation) -> list[np.ndarray]:
    """Every equilibrium with linear costs and no caps, one per set of agents that contribute."""
    weights = fed.dense_weights()
    wanted = fed.payoff.inverse_slope(fed.costs.linear / (fed.values * fed.own_weights))
    found = []
    for bits in product((False, True), repeat=fed.n_agents):
        free = np.array(bits)
        s = np.zeros(fed.n_agents)
        if free.any():
            s[free] = np.linalg.solve(weights[np.ix_(free, free)], wanted[free])
        if (s >= 0).all() and (weights @ s >= wanted - 1e-9 * np.abs(wanted).max())[~free].all():
            found.append(s)
    return found


@given(federations(harm=False))
@settings(max_examples=cases(20))
def test_is_a_fixed_point_of_best_responses(fed):
    s = free_riding_equilibrium(fed)
    np.testing.assert_allclose(s, responses(fed, s), rtol=0, atol=FIXED_POINT * max(s.max(), 1e-300))


def test_is_a_fixed_point_with_harm_too():
    for fed in random_federations(41, 60, harm=True):
        s = free_riding_equilibrium(fed)
        np.testing.assert_allclose(s, responses(fed, s), rtol=0, atol=FIXED_POINT * max(s.max(), 1e-300))


@pytest.mark.parametrize("case", answers("voluntary"), ids=lambda case: case.name)
def test_closed_forms(case):
    np.testing.assert_allclose(
        free_riding_equilibrium(case.federation), case.equilibria["voluntary"], rtol=0, atol=case.atol
    )


class TestUniqueness:
    def test_several_equilibria_are_recognised(self):
        fed = CASES["mutual free riding"].federation
        assert len(equilibria_by_search(fed)) == 3
        assert is_unique(fed, free_riding_equilibrium(fed)) is False

    def test_a_line_of_equilibria_is_not_unique(self):
        fed = fp.Federation(np.ones((3, 3)), costs=0.1, payoff=fp.Log())
        assert is_unique(fed, free_riding_equilibrium(fed)) is False

    def test_decoupled_agents_have_one(self):
        fed = CASES["decoupled"].federation
        assert is_unique(fed, free_riding_equilibrium(fed)) is True

    def test_positive_minors_suffice_without_symmetry(self):
        """A P-matrix whose symmetric part is indefinite."""
        fed = fp.Federation([[1.0, 5.0], [0.0, 1.0]], costs=0.1, payoff=fp.Log())
        assert is_unique(fed, free_riding_equilibrium(fed)) is True

    def test_many_agents_are_left_open(self):
        weights = np.ones((8, 8)) + 2.0 * (1.0 - np.eye(8))
        fed = fp.Federation(weights, costs=0.1, payoff=fp.Log())
        assert is_unique(fed, free_riding_equilibrium(fed)) is None

    def test_agrees_with_a_search_over_all_supports(self):
        rng = np.random.default_rng(7)
        for _ in range(cases(13)):
            weights = rng.uniform(0.0, 2.5, (3, 3))
            np.fill_diagonal(weights, 1.0)
            fed = fp.Federation(weights, costs=rng.uniform(0.05, 0.3, 3), payoff=fp.Log())
            found = free_riding_equilibrium(fed)
            known = equilibria_by_search(fed)
            assert min(np.abs(found - s).max() for s in known) < 1e-8 * found.max()
            assert is_unique(fed, found) is (len(known) == 1)


def test_finds_an_equilibrium_that_exists():
    weights = [[1.0, 0.1, 3.9, 3.0], [0.7, 1.0, 0.2, 1.7], [0.1, 6.0, 1.0, 3.6], [1.6, 0.1, 0.1, 1.0]]
    fed = fp.Federation(weights, costs=[0.05, 0.12, 0.02, 0.36], payoff=fp.Michaelis(1.0))
    known = equilibria_by_search(fed)
    assert known
    found = free_riding_equilibrium(fed)
    assert min(np.abs(found - s).max() for s in known) < 1e-8 * found.max()


def test_agents_without_room_may_have_costs_that_start_flat():
    fed = fp.Federation(np.ones((2, 2)), costs=fp.Quadratic(0.0, 1.0), caps=[0.0, 1.0], payoff=fp.Log())
    # 1 / (1 + s) = 2 s
    np.testing.assert_allclose(free_riding_equilibrium(fed), [0.0, (np.sqrt(3.0) - 1.0) / 2.0], atol=1e-9)


def test_endless_growth_is_reported():
    """Each other's harm makes both contribute more and more: no equilibrium without caps."""
    fed = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.1, payoff=fp.Log())
    with pytest.raises(NoEquilibrium, match="there is no free-riding equilibrium") as raised:
        free_riding_equilibrium(fed)
    assert refutes(fed, raised.value.proof)


def test_values_beyond_double_precision_are_named():
    base = hospitals().federation
    with pytest.raises(
        fp.NotConverged, match=r"the value 4\.94066e-324 that .* puts on payoff is too far from its costs"
    ):
        fp.Voluntary().solve(base.replace(values=5e-324))


def spread_federation(seed: int, n_agents: int, *, harm: float, **numbers) -> fp.Federation:
    """Weights over eight orders of magnitude, of both signs."""
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-4.0, 4.0, (n_agents, n_agents))
    weights *= np.where(rng.random(weights.shape) < harm, -1.0, 1.0)
    np.fill_diagonal(weights, 10.0 ** rng.uniform(-4.0, 4.0, n_agents))
    return fp.Federation(weights, costs=10.0 ** rng.uniform(-6.0, 3.0, n_agents), payoff=fp.Log(), **numbers)


@pytest.mark.parametrize("seed", range(cases(13)))
def test_weights_over_eight_orders_of_magnitude(seed):
    fed = spread_federation(seed, 5 + seed % 30, harm=0.0)
    s = free_riding_equilibrium(fed)
    wanted = fed.payoff.inverse_slope(fed.costs.linear / (fed.values * fed.own_weights))
    spare = fed.data(s) - wanted
    rounding = 1e-11 * (fed.data(s) + np.abs(wanted))
    assert (spare >= -rounding).all()
    assert (spare[s > 0] <= rounding[s > 0]).all()


@pytest.mark.parametrize("seed", range(cases(13)))
def test_with_caps_and_harm_every_answer_is_a_best_response(seed):
    """The complementarity problem on a box always has a solution, whatever the weights."""
    fed = spread_federation(100 + seed, 5 + seed % 30, harm=0.3, caps=10.0)
    proof = None
    try:
        s = free_riding_equilibrium(fed)
    except NotConverged as error:  # it may be outside the domain of a payoff; where nothing else is, that is proved
        s, proof = error.result, getattr(error, "proof", None)
    assert proof is None or refutes(fed, proof)
    wanted = fed.payoff.inverse_slope(fed.costs.linear / (fed.values * fed.own_weights))
    spare = fed.data(s) - wanted
    rounding = 1e-11 * (np.abs(fed.dense_weights()) @ s + np.abs(wanted))
    assert (spare[s < fed.caps] >= -rounding[s < fed.caps]).all()
    assert (spare[s > 0] <= rounding[s > 0]).all()


def test_who_grows_without_end_is_named():
    fed = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.1, payoff=fp.Log(), names=["Ada", "Bob"])
    with pytest.raises(NotConverged, match=r'"Ada", "Bob" would contribute more and more without end.*give lower caps'):
        free_riding_equilibrium(fed)


def test_who_is_harmed_beyond_the_domain_is_named():
    fed = fp.Federation([[1.0, -30.0], [0.0, 1.0]], costs=0.1, caps=[1.0, 9.0], payoff=fp.Log(), names=["Ada", "Bob"])
    with pytest.raises(
        NoEquilibrium, match=r'in 2 cases: what "Bob" would contribute .* harms "Ada" beyond the domain'
    ):
        fp.Voluntary().solve(fed)


def test_harm_beyond_what_floats_hold_is_proved_and_named():
    """An exponential payoff has no floor, but at y = -900 it is -e^900: there is no such number."""
    fed = fp.Federation(
        [[1.0, -30.0], [0.0, 1.0]], costs=1e-13, caps=[1.0, np.inf], payoff=fp.Exponential(1.0), names=["Ada", "Bob"]
    )
    with pytest.raises(
        NoEquilibrium, match=r'with finite payoffs.*"Bob" would contribute.*"Ada".* below -1.8e308'
    ) as e:
        fp.Voluntary().solve(fed)
    assert refutes(fed, e.value.proof)
    milder = fp.Federation([[1.0, -20.0], [0.0, 1.0]], costs=1e-13, caps=[1.0, np.inf], payoff=fp.Exponential(1.0))
    assert np.isfinite(fp.Voluntary().solve(milder).utilities).all()


def test_a_proof_has_no_cases_of_those_who_have_no_part_in_it() -> None:
    """Ada and Bob again, with six members to whom they are nothing: two cases, not 2 x 2^6."""
    weights = np.eye(8)
    weights[6, 7] = -30.0
    fed = fp.Federation(weights, costs=0.1, caps=[9.0] * 6 + [1.0, 9.0], payoff=fp.Log())
    with pytest.raises(NoEquilibrium) as raised:
        fp.Voluntary().solve(fed)
    assert refutes(fed, raised.value.proof)
    assert sum(1 for _ in leaves(raised.value.proof)) == 2


def test_a_spoiled_proof_proves_nothing() -> None:
    """Without one of its cases, with another multiplier or another cap, it does not add up."""
    fed = fp.Federation([[1.0, -30.0], [0.0, 1.0]], costs=0.1, caps=[1.0, 9.0], payoff=fp.Log())
    with pytest.raises(NoEquilibrium) as raised:
        fp.Voluntary().solve(fed)
    proof = raised.value.proof
    assert refutes(fed, proof)
    assert not refutes(fed, proof["at"])
    assert not refutes(fed, proof["away"])
    assert not refutes(fed.replace(caps=[271.0, 9.0]), proof)
    rows = [[*row[:3], 0.0 if row[0] == "floor" else 1.0] for row in proof["away"]["rows"]]
    assert not refutes(fed, proof | {"away": {"rows": rows}})


def test_rising_costs_are_proved_case_by_case() -> None:
    """Its first sample costs agent 1 nothing, so that it contributes something, which is more than agent 0 bears."""
    fed = fp.Federation(
        [[1.0, -1e5], [0.0, 1.0]], costs=fp.Quadratic([1.0, 0.0], [1.0, 1.0]), caps=[1.0, 2.0], payoff=fp.Log()
    )
    with pytest.raises(NoEquilibrium, match='harms "agent 0"') as raised:
        fp.Voluntary().solve(fed)
    assert refutes(fed, raised.value.proof)
    assert fp.Voluntary().solve(fed.replace(weights=[[1.0, -0.1], [0.0, 1.0]])).certificates["nash"].verdict == "holds"


def test_who_wants_no_more_than_the_floor_of_its_domain_ends_no_search() -> None:
    """At a marginal cost of 1e17 a logarithm is wanted at -1, to the last digit."""
    costs = fp.Quadratic([1e17, 0.1], [1e17, 0.1])
    federation = fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=costs, payoff=fp.Log())
    outcome = fp.Voluntary().solve(federation)
    assert outcome.contributions[0] == 0
    assert outcome.certificates["nash"].holds


def test_a_case_where_everybody_with_a_tangent_is_at_its_cap_is_proved() -> None:
    """Drawn by `make test-extremes`: no line of the case is a tangent."""
    federation = draw_group(2, 54)[0]
    with pytest.raises(NoEquilibrium, match='harms "agent 3"') as raised:
        free_riding_equilibrium(federation)
    assert refutes(federation, raised.value.proof)
