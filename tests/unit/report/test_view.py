"""Which agents are shown of many."""

from __future__ import annotations

import numpy as np

from fedpact.report.view import FEW, MAX_SHOWN, View, losses_first


def test_losses_come_first_and_gains_are_not_forgotten():
    gaps = np.concatenate([-np.arange(1.0, 101.0), np.arange(1.0, 101.0)])
    ranked = gaps[np.argsort(-losses_first(gaps), kind="stable")][:20]
    assert ranked.tolist() == [*(-np.arange(100.0, 88.0, -1.0)), *np.arange(100.0, 92.0, -1.0)]


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
