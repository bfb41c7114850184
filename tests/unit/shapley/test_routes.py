"""The one choice of how Shapley values are computed: what it picks, and that neighbouring routes agree at each step."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.shapley.own_share import own_shares
from fedpact.shapley.potential import CompiledPotential, EnumeratedPotential, IntegratedPotential, potential_of
from fedpact.shapley.routes import (
    MAX_COALITION_AGENTS,
    MAX_COALITION_AGENTS_HARMED,
    MAX_ENUMERATED_AGENTS,
    MAX_NUMPY_AGENTS,
    Route,
    choose_route,
)
from fedpact.utils.compiling import expecting_many

import fedpact as fp
from fedpact.utils.errors import InvalidInput

SAME = 1e-9  # the routes' own errors are far below it


def federation(n_agents: int, *, harm: float = 0.0) -> fp.Federation:
    weights = np.random.default_rng(n_agents).uniform(0.1, 1.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    weights[0, -1] -= harm
    return fp.Federation(weights, costs=0.05, caps=5.0, payoff=fp.PowerLaw(0.5))


def test_routes_change_at_the_thresholds() -> None:
    assert choose_route(federation(MAX_COALITION_AGENTS)) is Route.COALITIONS
    assert choose_route(federation(MAX_COALITION_AGENTS + 1)) is Route.NUMPY
    assert choose_route(federation(MAX_COALITION_AGENTS_HARMED, harm=2.0)) is Route.COALITIONS
    assert choose_route(federation(MAX_COALITION_AGENTS_HARMED + 1, harm=2.0)) is Route.NUMPY
    assert choose_route(federation(MAX_NUMPY_AGENTS)) is Route.NUMPY
    assert choose_route(federation(MAX_NUMPY_AGENTS + 1)) is Route.COMPILED


def test_a_method_asked_for_is_kept() -> None:
    assert choose_route(federation(3), "quadrature") is Route.NUMPY
    assert choose_route(federation(MAX_ENUMERATED_AGENTS), "enumeration") is Route.COALITIONS
    with pytest.raises(InvalidInput, match='use method="quadrature"'):
        choose_route(federation(MAX_ENUMERATED_AGENTS + 1), "enumeration")


@pytest.mark.parametrize("n_agents", [MAX_COALITION_AGENTS, MAX_NUMPY_AGENTS, MAX_NUMPY_AGENTS + 1])
def test_values_shares_and_potential_come_to_the_same_numbers(n_agents: int) -> None:
    fed = federation(n_agents)
    potential = potential_of(fed)
    assert isinstance(potential, EnumeratedPotential if choose_route(fed) is Route.COALITIONS else CompiledPotential)
    s = np.linspace(0.1, 2.0, n_agents)
    exact = fp.shapley_values(fed, s, method="enumeration")
    found = fp.shapley_values(fed, s)
    np.testing.assert_allclose(found.values, exact.values, rtol=SAME)
    np.testing.assert_allclose(found.gradient, exact.gradient, rtol=SAME)
    np.testing.assert_allclose(potential.gradient(s), exact.gradient, rtol=SAME)
    share = own_shares(fed, s, [1])[0]
    np.testing.assert_allclose([share.value(s[1]), share.slope(s[1])], [exact.values[1], exact.gradient[1]], rtol=SAME)


def test_the_potential_of_a_few_is_integrated_one_by_one_only_where_somebody_is_harmed() -> None:
    assert isinstance(potential_of(federation(MAX_NUMPY_AGENTS, harm=2.0)), IntegratedPotential)
    assert isinstance(potential_of(federation(MAX_NUMPY_AGENTS)), CompiledPotential)


def test_where_many_are_to_come_nine_members_are_worth_compiled_code() -> None:
    """The slider of the explorer and maps ask for many federations of the same size."""
    assert choose_route(federation(MAX_NUMPY_AGENTS)) is Route.NUMPY
    with expecting_many():
        assert choose_route(federation(MAX_COALITION_AGENTS)) is Route.COALITIONS
        assert choose_route(federation(MAX_COALITION_AGENTS + 1)) is Route.COMPILED
