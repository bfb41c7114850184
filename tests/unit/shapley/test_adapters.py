"""A federation as a coalition game; the peers themselves are met in `tests/edges/test_peers.py`."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from fedpact.shapley.adapters import as_pydvl_utility, as_shapiq_game, coalition_game
from fedpact.shapley.blackbox import sample_game

import fedpact as fp
from fedpact.utils.errors import InvalidInput, MissingExtra, OutsideDomain

ROUNDING = 1e-13
WEIGHTS = np.array([[1.0, 0.5, 0.0], [0.2, 1.0, 1.5], [0.0, 0.7, 1.0]])
CONTRIBUTIONS = np.array([3.0, 1.0, 2.0])


def federation(weights=WEIGHTS, **options) -> fp.Federation:
    return fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(beta=0.5), values=[1.0, 2.0, 3.0], **options)


@pytest.mark.parametrize("weights", [WEIGHTS, sp.csr_array(WEIGHTS)], ids=["dense", "sparse"])
class TestCoalitionGame:
    def test_worth_is_the_payoff_of_members_alone(self, weights):
        fed = federation(weights)
        game = coalition_game(fed, CONTRIBUTIONS)
        assert game.n_players == 3
        for members in np.ndindex(2, 2, 2):
            coalition = tuple(np.flatnonzero(members))
            np.testing.assert_allclose(game(coalition), fed.payoffs(CONTRIBUTIONS * members).sum(), rtol=ROUNDING)
        assert game(()) == 0.0

    def test_many_at_once(self, weights):
        game = coalition_game(federation(weights), CONTRIBUTIONS)
        coalitions = [(), (0,), (2, 1), {0, 1, 2}]
        matrix = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
        expected = [game(coalition) for coalition in coalitions]
        np.testing.assert_allclose(game.values(coalitions), expected, rtol=ROUNDING)
        np.testing.assert_allclose(game.values(matrix), expected, rtol=ROUNDING)
        assert game.values([]).shape == (0,)

    def test_shapley_values_are_the_federation_s(self, weights):
        fed = federation(weights)
        result = sample_game(coalition_game(fed, CONTRIBUTIONS), 3, budget=8)
        np.testing.assert_allclose(result.values, fp.shapley_values(fed, CONTRIBUTIONS).values, rtol=ROUNDING)


class TestRefusals:
    def test_contributions_above_the_caps(self):
        with pytest.raises(InvalidInput, match=r"contributions\[0\] must lie between 0 and the cap 2, got 3"):
            coalition_game(federation(caps=2.0), CONTRIBUTIONS)

    def test_unknown_agents(self):
        game = coalition_game(federation(), CONTRIBUTIONS)
        with pytest.raises(InvalidInput, match=r"coalitions\[1\] must hold members between 0 and 2, got \[1, 3\]"):
            game.values([(0,), (1, 3)])
        with pytest.raises(InvalidInput, match="a column for each of the 3 members, got 2"):
            game.values(np.zeros((1, 2), dtype=bool))

    def test_a_coalition_outside_the_domain(self):
        fed = federation([[1.0, -0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], names=["Anna", "Ben", "Cleo"])
        game = coalition_game(fed, [5.0, 4.0, 1.0])
        assert np.isfinite(game((0, 1, 2)))
        message = 'member "Anna" is harmed more than its payoff curve describes in the group of Ben and Cleo: helpful '
        with pytest.raises(OutsideDomain, match=re.escape(message)):
            game((1, 2))

    @pytest.mark.parametrize(
        ("adapter", "module", "message"),
        [
            (as_shapiq_game, "shapiq", 'shapiq is not installed: pip install "fedpact[peers]"'),
            (as_pydvl_utility, "pydvl.valuation.dataset", 'pyDVL 0.10 is not installed: pip install "pyDVL==0.10.0"'),
        ],
    )
    def test_without_the_package(self, adapter, module, message, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=f"^{re.escape(message)}$"):
            adapter(federation(), CONTRIBUTIONS)
