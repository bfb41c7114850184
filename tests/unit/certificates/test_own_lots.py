"""What an agent could gain with other amounts of its lots: found, and bounded by tangents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.certificates.own_lots import Charges, OwnGame, best_without_payments
from fedpact.certificates.shapley_check import own_share_game
from random_cases import cases
from strategies import random_lots, random_profile


def random_game(rng: np.random.Generator) -> OwnGame:
    rows, lots = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    return OwnGame(
        weights=np.where(rng.random((rows, lots)) < 0.3, 0.0, rng.uniform(-0.05, 1.0, (rows, lots))),
        values=rng.uniform(0.5, 2.0, rows),
        payoff=fp.PowerLaw(beta=0.5),
        costs=fp.Quadratic(rng.uniform(0.01, 0.3, lots), rng.uniform(0.0, 0.05, lots)),
        background=rng.uniform(0.0, 3.0, rows),
    )


def test_the_best_amounts_against_scipy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(cases(12)):
        game = random_game(rng)
        upper = rng.uniform(0.5, 4.0, game.weights.shape[1])
        found, bound, short = game.best(np.zeros(upper.size), upper)
        trial = minimize(
            lambda x, of=game: -of.welfare(x), 0.3 * upper, bounds=[(0.0, top) for top in upper], tol=1e-12
        )
        assert game.welfare(found) >= -trial.fun - 1e-7
        assert game.welfare(found) <= bound <= game.welfare(found) + 1e-10
        assert short == pytest.approx(bound - game.welfare(found), abs=1e-14)


def test_a_bound_holds_where_the_climb_stops_short() -> None:
    """The tangents bound every choice, wherever they touch."""
    rng = np.random.default_rng(1)
    game = random_game(rng)
    upper = np.full(game.weights.shape[1], 3.0)
    for _ in range(20):
        _, bound, _ = game.best(rng.uniform(0.0, 3.0, upper.size), upper)
        tried = rng.uniform(0.0, 3.0, (200, upper.size))
        assert max(game.welfare(x) for x in tried) <= bound + 1e-12


def test_what_is_of_no_use_goes_where_charges_are_lowest() -> None:
    game = OwnGame(
        weights=np.array([[1.0, 0.0, 0.0, 0.0]]),
        values=np.ones(1),
        payoff=fp.Log(),
        costs=Charges(np.array([0.25, 0.1, -0.1, -0.2]), np.array([0.0, 0.0, 0.0, 0.05])),
        background=np.zeros(1),
    )
    found, _, _ = game.best(np.ones(4), np.full(4, 10.0))
    np.testing.assert_allclose(found, [3.0, 0.0, 10.0, 2.0], rtol=1e-9)


def test_nothing_outside_the_box_pays() -> None:
    rng = np.random.default_rng(2)
    for _ in range(cases(12)):
        game = random_game(rng)
        box = game.box(np.full(game.weights.shape[1], np.inf))
        for lot in range(box.size):
            beyond = np.zeros(box.size)
            beyond[lot] = 1.01 * box[lot] + 1e-9
            assert game.welfare(beyond) < 1e-12


@pytest.mark.parametrize("n_agents", [4, 13])
def test_a_share_as_a_function_of_own_lots(n_agents: int) -> None:
    """By coalitions and by the integral: the game's gain is the Shapley value less the costs."""
    rng = np.random.default_rng(n_agents)
    fed = random_lots(rng, n_agents=n_agents, harm=False, family=fp.PowerLaw)
    s = random_profile(rng, fed)
    agent = int(fed.lot_owners[0])
    own = fed.lots_of(agent)
    game = own_share_game(fed, s, agent, np.minimum(fed.caps[own], 50.0))
    for _ in range(3):
        moved = s.copy()
        moved[own] = np.minimum(fed.caps[own], 50.0) * rng.random(own.size)
        due = fp.shapley_values(fed, moved).values[agent] - fed.spending(moved)[agent]
        assert game.welfare(moved[own]) == pytest.approx(due, rel=1e-8, abs=1e-9)


def test_agents_without_lots_or_tasks_have_what_the_others_give() -> None:
    fed = fp.Federation(
        [[1.0, 0.5], [0.5, 0.2]], lot_owners=["A", "B"], task_owners=["A", "C"], costs=0.1, payoff=fp.Log(), caps=5.0
    )
    s = np.array([1.0, 2.0])
    actions, utilities, _ = best_without_payments(fed, s, s)
    assert actions[1] == 0.0 and utilities[1] == 0.0  # B has nothing to gain from its own data
    assert utilities[2] == pytest.approx(np.log1p(0.9), rel=1e-12)
    # A wants 1 / (1 + y) = 0.1 and has 1 from B.
    assert actions[0] == pytest.approx(5.0)
