"""Which agents are shown of many."""

from __future__ import annotations

import numpy as np

from fedpact.report.view import FEW, MAX_SHOWN, View


def test_few_agents_are_all_shown_and_of_many_the_largest(comparison_of):
    few = View.of(comparison_of("hospitals"))
    assert few.select(np.arange(5.0), "x").agents == [0, 1, 2, 3, 4]
    many = View.of(comparison_of("thirty-one agents"))
    n_agents = many.federation.n_agents
    assert n_agents == FEW + 1
    chosen = many.select(np.where(np.arange(n_agents) == 3, np.nan, np.arange(n_agents)), "x")
    assert chosen.agents == list(range(n_agents - 1, n_agents - 1 - MAX_SHOWN, -1))
    assert chosen.left_out == n_agents - MAX_SHOWN


def test_a_federation_without_a_title_is_called_by_its_size(comparison_of):
    assert View.of(comparison_of("hospitals"), title=" ").title == "A federation of 5 members"
    assert View.of(comparison_of("hospitals"), title=" Five ").title == "Five"
