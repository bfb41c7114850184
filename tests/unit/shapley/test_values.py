"""`shapley_values`: known games, the choice of method, many federations at once, and the refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from cases import GAMES, W2, table_1
from fedpact.federation.arrays import stack
from fedpact.shapley.coalitions import MAX_ENUMERATED_MEMBERS
from fedpact.shapley.values import share_values
from fedpact.utils.errors import InvalidInput, OutsideDomain
from strategies import random_federation, random_profile

# Closed forms against sums of at most 32 coalitions or a few thousand nodes.
CLOSED_FORM = 1e-11

exact = pytest.mark.parametrize("method", ["enumeration", "quadrature"])


def ring(n_agents: int) -> fp.Federation:
    """Everybody uses its own data and its neighbour's."""
    weights = sp.eye_array(n_agents) + 0.5 * sp.eye_array(n_agents, k=1)
    return fp.Federation(weights, costs=0.1, caps=10.0, payoff=fp.PowerLaw(0.5))


@exact
@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_known_games(game, method):
    shapley = fp.shapley_values(game.federation, game.contributions, method=method)
    np.testing.assert_allclose(shapley.values, game.values, rtol=CLOSED_FORM, atol=CLOSED_FORM)
    assert shapley.efficiency_gap <= CLOSED_FORM


@exact
def test_gradient_at_zero_is_what_the_first_sample_is_worth(method):
    fed = table_1(W2)
    shapley = fp.shapley_values(fed, 0.0, method=method)
    np.testing.assert_allclose(shapley.gradient, 0.02 * np.array(W2).sum(axis=0), rtol=1e-12)


@exact
def test_small_shares_keep_their_digits(method):
    """A share of 1e-12 of the total is as accurate as the others: it is not a difference of totals."""
    fed = fp.Federation([[1.0, 1.0], [0.0, 1.0]], costs=0.1, payoff=fp.Log())
    s = np.array([1e-12, 5.0])
    phi = 0.5 * (np.log1p(1e-12) + np.log1p(1e-12 / 6.0))
    np.testing.assert_allclose(fp.shapley_values(fed, s, method=method).values[0], phi, rtol=CLOSED_FORM)


def test_auto_enumerates_few_agents_and_integrates_many():
    assert fp.shapley_values(ring(10), 1.0).method == "enumeration"
    assert fp.shapley_values(ring(11), 1.0).method == "quadrature"


def test_quadrature_of_many_agents_is_efficient():
    shapley = fp.shapley_values(ring(500), 3.0)
    assert shapley.efficiency_gap < 1e-12
    np.testing.assert_allclose(shapley.values[1:-1], shapley.values[1], rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("payoff", [fp.PowerLaw(0.02), fp.Log(), fp.Michaelis(5.0), fp.Exponential(0.1)], ids=repr)
def test_quadrature_scales_to_many_senders(payoff):
    """One receiver with 300 equal senders: beyond the exact rule in q, equal agents share equally."""
    n = 300
    weights = sp.lil_array((n, n))
    weights.setdiag(1.0)
    weights[0] = np.ones(n)
    fed = fp.Federation(weights.tocsr(), costs=0.1, payoff=payoff)
    shapley = fp.shapley_values(fed, 0.7)
    alone = fed.payoffs(np.full(n, 0.7))[1]
    np.testing.assert_allclose(shapley.values[1:] - alone, fed.payoffs(np.full(n, 0.7))[0] / n, rtol=1e-9)
    assert shapley.efficiency_gap < 1e-11


@pytest.mark.parametrize("remains", [0.0, 1e-7])
@pytest.mark.parametrize("n_agents", [10, 13])
def test_efficiency_gap_is_rounding_where_help_and_harm_cancel(n_agents, remains):
    """A ring in which everybody's neighbour undoes its own data."""
    weights = np.eye(n_agents) - (1.0 - remains) * np.roll(np.eye(n_agents), 1, axis=1)
    fed = fp.Federation(weights, costs=0.1, caps=0.5, payoff=fp.Log())
    shapley = fp.shapley_values(fed, 0.5)
    assert shapley.efficiency_gap < 1e-10
    np.testing.assert_allclose(shapley.values, np.log1p(0.5 * remains), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_agents", [4, 14])
def test_many_federations_at_once(n_agents):
    """Leading axes of federations and of profiles; NaN where some coalition leaves the domain."""
    rng = np.random.default_rng(n_agents)
    federations = [random_federation(rng, n_agents=n_agents, harm=True, family=fp.PowerLaw) for _ in range(3)]
    profiles = np.array([[random_profile(rng, fed) for fed in federations] for _ in range(2)])
    harmful = int(np.argmax((federations[2].weights < 0).any(axis=0)))
    profiles[1, 2, harmful] = 1e9
    values, gradient = share_values(stack(federations), profiles)
    for index in [(0, 0), (0, 2), (1, 1)]:
        one = fp.shapley_values(federations[index[1]], profiles[index])
        np.testing.assert_allclose(values[index], one.values, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(gradient[index], one.gradient, rtol=1e-12, atol=1e-15)
    assert np.isnan(values[1, 2]).all()
    assert np.isnan(gradient[1, 2]).all()


class TestRefusals:
    def test_unknown_method(self):
        message = "method must be one of auto, enumeration, quadrature, got 'magic'"
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            fp.shapley_values(table_1(W2), 1.0, method="magic")

    def test_enumeration_of_many_agents(self):
        n = MAX_ENUMERATED_MEMBERS + 11
        message = f'enumeration over {n} members needs 2^{n} coalition values; use method="quadrature"'
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            fp.shapley_values(ring(n), 1.0, method="enumeration")

    @exact
    def test_coalitions_outside_the_domain(self, method):
        """Everybody together is admissible, those who harm on their own are not."""
        fed = fp.Federation([[1.0, -0.5], [0.0, 1.0]], costs=0.1, payoff=fp.Log(), names=["Anna", "Ben"])
        assert fed.admits([5.0, 4.0])
        message = (
            'member "Anna" is harmed more than its payoff curve describes if only those whose data harms it are there: '
            "helpful less harmful data, each times its weight, comes to -2 and must stay above -1; "
            'lower their contributions, or let everybody leave out what harms it: models = "personal", '
            "with_personal_models()"
        )
        with pytest.raises(OutsideDomain, match=f"^{re.escape(message)}$"):
            fp.shapley_values(fed, [5.0, 4.0], method=method)


@pytest.mark.parametrize("distance", [1e-5, 1e-8])
def test_values_keep_their_digits_where_those_who_harm_are_at_the_edge(distance):
    """The coalitions at the edge weigh little among many agents, and so does their rounding."""
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.1, 1.0, (18, 18))
    weights[0, 1:7] *= -1.0
    profile = rng.uniform(0.5, 1.0, 18)
    profile[1:7] *= (1.0 - distance) / -(weights[0, 1:7] @ profile[1:7])
    federation = fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(0.1))
    integrated = fp.shapley_values(federation, profile, method="quadrature")
    enumerated = fp.shapley_values(federation, profile, method="enumeration")
    np.testing.assert_allclose(integrated.values, enumerated.values, rtol=1e-10)
