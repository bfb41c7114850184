"""Games with known Shapley values: the formulas against sums over all coalitions, and published numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.shapley.measured import sample_game
from known_games import airport_game, glove_game, unanimity_game, voting_game

ROUNDING = 1e-13


@pytest.mark.parametrize(
    "game",
    [
        airport_game([1.0]),
        airport_game([5.0, 1.0, 0.0, 1.0, 2.5, 2.5]),
        glove_game(1, 1),
        glove_game(3, 3),
        glove_game(2, 5),
        glove_game(6, 3),
        unanimity_game([1], 3),
        unanimity_game([0, 3, 4], 6),
        voting_game([1, 1, 1], quota=2),
        voting_game([5, 0, 3, 2, 2, 9], quota=11),
        voting_game([3, 2, 1], quota=6),
    ],
    ids=lambda game: f"{game.name}-{game.n_players}",
)
def test_formula_agrees_with_enumeration(game):
    result = sample_game(game, game.n_players, budget=2**game.n_players)
    np.testing.assert_allclose(result.values, game.shapley_values, atol=ROUNDING)


def test_gloves_of_two_and_three():
    """Shapley and Shubik (1969), also printed by later texts: 0.650 and 0.233."""
    np.testing.assert_allclose(glove_game(2, 3).shapley_values, [0.65, 0.65, 0.7 / 3, 0.7 / 3, 0.7 / 3], rtol=ROUNDING)


def test_the_security_council():
    """Permanent members 421/2145, others 4/2145 (with 9 of 15 votes and five vetoes)."""
    power = voting_game([7] * 5 + [1] * 10, quota=39).shapley_values
    np.testing.assert_allclose(power[:5], 421 / 2145, rtol=ROUNDING)
    np.testing.assert_allclose(power[5:], 4 / 2145, rtol=ROUNDING)


def test_runways_of_littlechild_and_owen():
    """Three classes of aircraft by hand: the common part is shared by all, the longest by the last alone."""
    shares = airport_game([6.0] * 2 + [12.0] + [20.0]).shapley_values
    np.testing.assert_allclose(shares, [1.5, 1.5, 4.5, 12.5], rtol=ROUNDING)
