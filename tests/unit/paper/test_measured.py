"""Mechanisms on measured payoffs that are a formula: they find what the solvers find, and train nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.fig4 import (
    MeasuredGame,
    best_responses,
    externality_payments,
    grid_search,
    standing_alone,
    train_rounds,
)
from fedpact.training import Histories

# Accuracy curves like those of small networks.
WEIGHTS = [[0.03, 0.012, 0.02], [0.01, 0.035, 0.015], [0.02, 0.02, 0.03]]
FED = fp.Federation(WEIGHTS, costs=0.004, caps=320.0, payoff=fp.PowerLaw(0.7), values=0.9)


class Formula:
    """In the place of an experiment: accuracy is the federation's payoff."""

    def __init__(self, federation: fp.Federation = FED) -> None:
        self.federation, self.fingerprint = federation, "f"
        self.n_agents, self.names = federation.n_agents, federation.names
        self.available = federation.caps.astype(np.int64)
        self.test_sizes = np.full(self.n_agents, 10**6)
        self.asked: list[tuple[int, ...]] = []

    def each(self, profiles: Any) -> Iterator[tuple[int, np.ndarray]]:
        """In another order than asked, as trainings end."""
        for place in reversed(range(len(profiles))):
            self.asked.append(tuple(profiles[place]))
            yield place, self.federation.payoffs(np.asarray(profiles[place], dtype=np.float64))

    def history(self, schedule: Any) -> Histories:
        self.asked.append((-1,))
        found = np.array([self.federation.payoffs(row.astype(np.float64)) for row in schedule])
        return Histories(contributions=schedule, accuracies=found, loss=1.0 - found)


def game(federation: fp.Federation = FED, **rest: Any) -> MeasuredGame:
    return MeasuredGame(Formula(federation), **rest)  # type: ignore[arg-type]


def test_nothing_is_trained_twice_and_zeros_are_worth_nothing() -> None:
    measured = game()
    first = measured.accuracies([[1, 2, 3], [0, 0, 0], [1, 2, 3], [4, 0, 0]])
    np.testing.assert_allclose(first[0], FED.payoffs(np.array([1.0, 2.0, 3.0])), atol=1e-12)
    assert not first[1].any()
    np.testing.assert_array_equal(measured.accuracies([[4, 0, 0], [1, 2, 3]]), first[[3, 0]])
    assert sorted(measured.experiment.asked) == [(1, 2, 3), (4, 0, 0)] and measured.trained == 2


def test_shapley_values_take_every_coalition() -> None:
    measured, profile = game(), np.array([10.0, 20.0, 30.0])
    np.testing.assert_allclose(measured.shapley(profile), fp.shapley_values(FED, profile).values, atol=1e-12)
    assert measured.trained == 7


def test_what_is_trained_is_on_disk_at_once_and_read_again(tmp_path: Path) -> None:
    class Interrupted(Formula):
        def each(self, profiles):
            for count, found in enumerate(super().each(profiles)):
                if count == 2:
                    raise KeyboardInterrupt
                yield found

    profiles = [[k, k, 0] for k in range(1, 6)]
    with pytest.raises(KeyboardInterrupt):
        MeasuredGame(Interrupted(), folder=tmp_path).accuracies(profiles)
    again = game(folder=tmp_path)
    found = again.accuracies(profiles)
    assert len(again.experiment.asked) == 3
    np.testing.assert_array_equal(found, game().accuracies(profiles))
    cut = sorted(tmp_path.rglob("*.npz"))[0]
    cut.write_bytes(cut.read_bytes()[:-4])
    third = game(folder=tmp_path)
    np.testing.assert_array_equal(third.accuracies(profiles), found)
    assert len(third.experiment.asked) == 1, "only the model that was cut short is trained again"


def test_histories_are_kept_too(tmp_path: Path) -> None:
    schedule = np.array([[1, 2, 3], [3, 2, 1]])
    first = game(folder=tmp_path).history(schedule)
    again = game(folder=tmp_path)
    np.testing.assert_array_equal(again.history(schedule), first)
    assert again.experiment.asked == []
    again.history(schedule[::-1])
    assert len(again.experiment.asked) == 1


def test_best_responses_come_to_rest_at_the_shapley_equilibrium() -> None:
    found = best_responses(game(), 0.004, step=8000.0, perturbation=2, threshold=0.4, rounds=300)
    assert len(found.contributions) <= 300
    expected = fp.ShapleyMechanism().solve(FED).contributions
    np.testing.assert_allclose(found.contributions[-1], expected, atol=4.0)  # whole samples, differences over two


def test_best_responses_follow_the_paper_s_rule() -> None:
    found = best_responses(game(), 0.004, rounds=6, threshold=1e-9)
    assert len(found.contributions) == 7 and found.models <= 19 * 6
    for here, after in zip(found.contributions, found.contributions[1:], strict=False):
        used, slope = np.rint(here), np.zeros(3)
        for agent in range(3):
            more = used + 10.0 * (np.arange(3) == agent)
            rise = fp.shapley_values(FED, more).values[agent] - fp.shapley_values(FED, used).values[agent]
            slope[agent] = rise / 10.0
        np.testing.assert_allclose(after, np.clip(here + 1000.0 * (slope - 0.004), 0.0, 320.0))


def test_at_rest_after_three_quiet_rounds_and_the_schedule_goes_on() -> None:
    found = best_responses(game(), 0.004, threshold=1e9, rounds=50)
    assert len(found.contributions) == 4
    np.testing.assert_array_equal(found.schedule(7)[3:], np.tile(np.rint(found.contributions[3]), (4, 1)))


def test_who_has_nothing_more_is_measured_backwards_and_nothing_stays_nothing() -> None:
    free = best_responses(game(), 0.0, start=320.0, rounds=2, threshold=0.0)
    np.testing.assert_array_equal(free.contributions[-1], 320.0)
    dear = best_responses(game(), 100.0, start=5.0, rounds=4, threshold=0.0)
    np.testing.assert_array_equal(dear.contributions[-1], 0.0)


def test_the_grid_has_the_best_of_its_profiles_and_moves_on_from_its_edge() -> None:
    found = grid_search(game(), 0.004, centre=60.0, reach=40, step=20)
    best = max(found.profiles.astype(float), key=FED.welfare)
    np.testing.assert_array_equal(found.best, best)
    assert len(grid_search(game(), 10.0, centre=20.0, reach=40, step=20).profiles) == 64, "nothing lies below zero"
    assert len(grid_search(game(), 1e-9, centre=320.0, reach=40, step=20).profiles) == 27, "nobody holds more"
    assert len(grid_search(game(), 0.004, centre=250.0, reach=40, step=20).profiles) > 125
    payments = externality_payments(game(), 0.004, found)
    assert abs(payments.sum()) <= 1e-12
    np.testing.assert_allclose(payments, FED.arrays.price_payments(best), atol=0.02)


def test_standing_alone_is_the_best_of_each_curve() -> None:
    expected = fp.ExternalityMechanism().solve(FED).standalone
    np.testing.assert_allclose(standing_alone(game(), 0.004), expected, atol=0.01)
    np.testing.assert_array_equal(standing_alone(game(), 100.0), 0.0)


def test_welfare_without_leavers() -> None:
    alone = standing_alone(game(), 0.004)
    schedule = np.tile([40, 50, 60], (3, 1))
    utilities = np.array([alone + 1.0, alone + np.array([1.0, -1.0, 1.0]), alone - 1.0])
    found = train_rounds(game(), 0.004, schedule, utilities, alone)
    assert found.leaves.tolist() == [[False] * 3, [False, True, False], [True] * 3]
    whole = FED.payoffs(np.array([40.0, 50.0, 60.0])) - 0.004 * schedule[0]
    np.testing.assert_allclose(found.welfare, whole.sum(), atol=1e-12)
    rest = FED.payoffs(np.array([40.0, 0.0, 60.0])) - 0.004 * schedule[0]
    expected = [whole.sum(), rest[0] + alone[1] + rest[2], alone.sum()]
    np.testing.assert_allclose(found.welfare_without, expected, atol=1e-12)
