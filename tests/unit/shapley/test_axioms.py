"""Shapley's axioms, by both exact routes, on random federations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedpact as fp
from random_cases import cases
from strategies import contributions, federations

# Both routes are exact to about 1e-13 of the payoffs of the coalitions; harm makes these much larger than their sum.
TOLERANCE = 1e-10

exact = pytest.mark.parametrize("method", ["enumeration", "quadrature"])
examples = settings(max_examples=cases(12))


def games(**options):
    return federations(**options).flatmap(lambda fed: st.tuples(st.just(fed), contributions(fed)))


def stake(fed: fp.Federation, s: np.ndarray) -> float:
    """The size of what coalitions earn and lose: rounding is relative to this."""
    reach = fed.arrays.highest_data(s), fed.arrays.lowest_data(s)
    return float(sum(np.abs(fed.values * fed.payoff.value(y)).sum() for y in reach)) + 1e-300


@exact
@given(game=games())
@examples
def test_efficiency(method, game):
    fed, s = game
    shapley = fp.shapley_values(fed, s, method=method)
    np.testing.assert_allclose(shapley.values.sum(), fed.payoffs(s).sum(), rtol=0, atol=TOLERANCE * stake(fed, s))


@exact
@given(game=games(most_agents=5), data=st.data())
@examples
def test_symmetry(method, game, data):
    """An agent's double, with the same data and worth as much to everybody, gets the same."""
    fed, s = game
    n = fed.n_agents
    double = data.draw(st.integers(0, n - 1))
    who = np.append(np.arange(n), double)
    weights = fed.weights[np.ix_(who, who)]
    # Halved harm keeps every coalition inside the domain with the double there.
    doubled = fp.Federation(
        np.where(weights < 0, 0.5 * weights, weights),
        costs=fed.costs.take(who),
        caps=fed.caps[who],
        payoff=fed.payoff.take(who),
        values=fed.values[who],
    )
    values = fp.shapley_values(doubled, s[who], method=method).values
    np.testing.assert_allclose(values[double], values[n], rtol=0, atol=TOLERANCE * stake(doubled, s[who]))


@exact
@given(game=games())
@examples
def test_null_agents_get_nothing(method, game):
    fed, s = game
    s = np.where(np.arange(fed.n_agents) % 2, s, 0.0)
    np.testing.assert_array_equal(fp.shapley_values(fed, s, method=method).values[s == 0], 0.0)


@exact
@given(game=games(most_agents=5))
@examples
def test_strangers_get_what_they_have_alone(method, game):
    """An agent that neither gives nor receives gets its own payoff, and changes nobody's share."""
    fed, s = game
    n = fed.n_agents
    weights = np.eye(n + 1)
    weights[:n, :n] = fed.weights
    who = np.append(np.arange(n), 0)
    joined = fp.Federation(
        weights,
        costs=fed.costs.take(who),
        payoff=fed.payoff.take(who),
        values=fed.values[who],
    )
    values = fp.shapley_values(joined, np.append(s, 2.0), method=method).values
    atol = TOLERANCE * stake(joined, np.append(s, 2.0))
    np.testing.assert_allclose(values[:n], fp.shapley_values(fed, s, method=method).values, rtol=0, atol=atol)
    np.testing.assert_allclose(values[n], joined.payoffs(np.append(s, 2.0))[n], rtol=0, atol=atol)


@exact
@given(game=games(), data=st.data())
@examples
def test_linearity_in_values(method, game, data):
    fed, s = game
    n = fed.n_agents
    other = np.array(data.draw(st.lists(st.floats(0.1, 10.0), min_size=n, max_size=n)))

    def shares(values):
        again = fp.Federation(fed.weights, costs=fed.costs, caps=fed.caps, payoff=fed.payoff, values=values)
        return fp.shapley_values(again, s, method=method).values

    total = shares(fed.values + other)
    atol = TOLERANCE * stake(fed, s) * (1.0 + other.max())
    np.testing.assert_allclose(shares(fed.values) + shares(other), total, rtol=0, atol=atol)


@exact
@given(game=games(), data=st.data())
@examples
def test_renaming_agents_permutes_values_and_gradient(method, game, data):
    fed, s = game
    order = np.array(data.draw(st.permutations(range(fed.n_agents))))
    here, there = (fp.shapley_values(f, c, method=method) for f, c in ((fed, s), (fed.take(order), s[order])))
    np.testing.assert_allclose(there.values, here.values[order], rtol=0, atol=TOLERANCE * stake(fed, s))
    np.testing.assert_allclose(
        there.gradient, here.gradient[order], rtol=0, atol=TOLERANCE * (1e-300 + np.abs(here.gradient).max())
    )


@exact
@given(game=games(harm=False))
@examples
def test_without_harm_everybody_adds_something_and_more_data_adds_more(method, game):
    fed, s = game
    shapley = fp.shapley_values(fed, s, method=method)
    assert (shapley.values >= 0).all()
    assert (shapley.gradient > 0).all()
