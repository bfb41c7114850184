"""Populations: groups of identical agents give what the federation with everybody in it gives."""

import numpy as np
import pytest

import fedpact as fp


def population(counts, payoff, *, own_weights=None):
    rng = np.random.default_rng(len(counts))
    types = fp.Federation(rng.uniform(0.0, 1.0, (len(counts),) * 2), costs=0.1, caps=50.0, payoff=payoff)
    return fp.Population(types, counts=counts, own_weights=own_weights)


@pytest.mark.parametrize("payoff", [fp.PowerLaw(0.4), fp.Exponential(0.2), fp.Log(), fp.Michaelis(2.0)], ids=str)
@pytest.mark.parametrize("counts", [[1], [7], [3, 1, 5], [2, 2, 2, 2]])
@pytest.mark.parametrize("own", [None, 1.7])
def test_a_type_has_the_value_of_each_of_its_agents(payoff, counts, own):
    crowd = population(counts, payoff, own_weights=own)
    contributions = np.linspace(1.0, 4.0, len(counts))
    everybody = crowd.to_federation()
    single = fp.shapley_values(everybody, np.repeat(contributions, counts), method="enumeration")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    grouped = fp.shapley_values(crowd, contributions)
    np.testing.assert_allclose(grouped.values, single.values[first], rtol=1e-10)
    np.testing.assert_allclose(grouped.gradient, single.gradient[first], rtol=1e-10)
    np.testing.assert_allclose(crowd.payoffs(contributions), everybody.payoffs(np.repeat(contributions, counts))[first])


def test_a_hundred_thousand_agents_share_exactly_the_total():
    crowd = population(np.full(20, 5000), fp.PowerLaw(0.3))
    assert crowd.n_agents == 100_000
    assert fp.shapley_values(crowd, np.linspace(0.0, 10.0, 20)).efficiency_gap < 1e-12


@pytest.mark.parametrize(
    ("counts", "message"),
    [([1.5, 2], r"counts\[0\] must be a whole number"), ([0, 2], "counts"), ([1, 2, 3], "one number per member")],
)
def test_counts_are_checked(counts, message):
    types = fp.Federation(np.eye(2), costs=0.1, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match=message):
        fp.Population(types, counts=counts)


def test_harm_is_refused_with_a_way_out():
    types = fp.Federation([[1.0, -0.1], [0.0, 1.0]], costs=0.1, caps=1.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="expand it"):
        fp.shapley_values(fp.Population(types, counts=2), 0.5)
