"""Coalition accuracies: nothing is trained twice, and nothing finished is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.measured_game import MeasuredGame
from unit.paper.measured.formula import Formula

EXACT = 1e-12


def federation(n: int = 3) -> fp.Federation:
    rng = np.random.default_rng(n)
    return fp.Federation(
        rng.uniform(0.005, 0.05, (n, n)),
        costs=0.002,
        caps=200.0,
        payoff=fp.PowerLaw(0.6),
        values=rng.uniform(0.7, 0.9, n),
    )


def test_accuracies_are_those_of_the_members_data_alone() -> None:
    game = MeasuredGame(Formula(federation()))
    s = np.array([10.0, 20.0, 30.0])
    np.testing.assert_allclose(game.accuracies(s), federation().payoffs(s), atol=EXACT)
    np.testing.assert_allclose(game.accuracies(s * [1, 0, 1]), federation().payoffs(s * [1, 0, 1]), atol=EXACT)


def test_nothing_is_trained_twice_and_zeros_are_worth_nothing() -> None:
    experiment = Formula(federation())
    game = MeasuredGame(experiment)
    first = game.many([[1, 2, 3], [0, 0, 0], [1, 2, 3], [4, 0, 0]])
    assert sorted(experiment.asked) == [(1, 2, 3), (4, 0, 0)]
    assert not first[1].any()
    np.testing.assert_array_equal(first[0], first[2])
    game.many([[4, 0, 0], [1, 2, 3]])
    assert len(experiment.asked) == game.trained == 2


@pytest.mark.parametrize("n", [1, 3, 5])
def test_few_agents_have_exact_shapley_values(n: int) -> None:
    game = MeasuredGame(Formula(federation(n)))
    s = np.arange(1.0, n + 1.0) * 10.0
    found = game.shapley(s)
    np.testing.assert_allclose(found.values, fp.shapley_values(federation(n), s).values, atol=EXACT)
    assert found.method == "enumeration"
    assert game.trained == 2**n - 1


def test_many_agents_have_sampled_ones() -> None:
    many = federation(10)
    game = MeasuredGame(Formula(many))
    s = np.linspace(10.0, 60.0, 10)
    found = game.shapley(s, permutations=100)
    assert found.method == "sampling"
    assert game.trained <= 2 + 100 * 9
    exact = fp.shapley_values(many, s).values
    assert (np.abs(found.values - exact) <= 5 * found.standard_errors + 1e-9).all()
    np.testing.assert_array_equal(game.shapley(s, permutations=100).values, found.values)


def test_what_is_trained_is_on_disk_at_once_and_read_again(tmp_path: Path) -> None:
    class Interrupted(Formula):
        def each(self, profiles):
            for count, found in enumerate(super().each(profiles)):
                if count == 2:
                    raise KeyboardInterrupt
                yield found

    profiles = [[k, k, 0] for k in range(1, 6)]
    with pytest.raises(KeyboardInterrupt):
        MeasuredGame(Interrupted(federation()), folder=tmp_path).many(profiles)
    again = Formula(federation())
    game = MeasuredGame(again, folder=tmp_path)
    found = game.many(profiles)
    assert len(again.asked) == 3
    np.testing.assert_array_equal(found, MeasuredGame(Formula(federation())).many(profiles))
    third = Formula(federation())
    MeasuredGame(third, folder=tmp_path).many(profiles)
    assert third.asked == []


def test_histories_are_kept_too(tmp_path: Path) -> None:
    schedule = np.array([[1, 2, 3], [3, 2, 1]])
    first = MeasuredGame(Formula(federation()), folder=tmp_path).history(schedule)
    experiment = Formula(federation())
    again = MeasuredGame(experiment, folder=tmp_path).history(schedule)
    assert experiment.asked == []
    np.testing.assert_array_equal(first.accuracies, again.accuracies)
    np.testing.assert_array_equal(first.loss, again.loss)
    MeasuredGame(experiment, folder=tmp_path).history(schedule[::-1])
    assert experiment.asked == [("history",)]


def test_bad_questions() -> None:
    game = MeasuredGame(Formula(federation()))
    for contributions, message in [
        ([1.0, -2.0, 3.0], r"contributions\[1\] must be at least zero, got -2"),
        ([1.0, float("nan"), 3.0], r"contributions\[1\]"),
    ]:
        with pytest.raises(fp.InvalidInput, match=message):
            game.accuracies(contributions)


def test_a_model_cut_short_on_disk_is_trained_again(tmp_path: Path) -> None:
    profiles = [[1, 1, 0], [2, 2, 0]]
    first = MeasuredGame(Formula(federation()), folder=tmp_path).many(profiles)
    cut = sorted(tmp_path.rglob("*.npz"))[0]
    cut.write_bytes(cut.read_bytes()[:-4])
    experiment = Formula(federation())
    np.testing.assert_array_equal(MeasuredGame(experiment, folder=tmp_path).many(profiles), first)
    assert len(experiment.asked) == 1
