"""`sample_game`: exact when it can be, unbiased and honest when it cannot, and sparing with evaluations."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import fedpact as fp
from fedpact.shapley import measured
from fedpact.shapley.measured import sample_game
from fedpact.utils.errors import InvalidInput
from known_games import KnownGame, airport_game, glove_game, voting_game
from random_cases import some

# Sums of a few thousand numbers of size 1.
ROUNDING = 1e-12
STANDARD_ERRORS = 5.0
SHARES = np.array([0.5, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 0.1, 0.0])


def square_game(shares: np.ndarray = SHARES) -> KnownGame:
    """v(S) = (sum of a over S)^2: pairs share their product equally, so phi_j = a_j times the sum of all a."""
    return KnownGame(
        name="square",
        n_players=shares.size,
        value=lambda coalition: float(shares[list(coalition)].sum() ** 2),
        shapley_values=shares * shares.sum(),
    )


class Counting:
    """A game that counts how often it was asked for what."""

    def __init__(self, game):
        self.game = game
        self.asked = Counter()

    def __call__(self, coalition):
        self.asked[coalition] += 1
        return self.game(coalition)


def federation_game(n_agents: int = 30):
    """A federation of many agents with plenty of data each: nearly all comes from joining very small coalitions."""
    rng = np.random.default_rng(5)
    fed = fp.Federation(rng.uniform(0.2, 2.0, (n_agents, n_agents)), costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    s = rng.uniform(1.0, 40.0, n_agents)

    def worth(coalition):
        return float(fed.payoffs(np.where(np.isin(np.arange(n_agents), coalition), s, 0.0)).sum())

    return worth, fp.shapley_values(fed, s).values


class TestExact:
    @pytest.mark.parametrize(
        "game",
        [
            airport_game([5.0, 1.0, 0.0, 1.0, 2.5, 2.5]),
            glove_game(2, 3),
            voting_game([5, 0, 3, 2, 2, 9], quota=11),
            square_game(),
        ],
    )
    def test_when_all_coalitions_fit(self, game):
        counting = Counting(game)
        result = sample_game(counting, game.n_players, budget=2**game.n_players)
        assert result.method == "enumeration"
        assert result.evaluations == 2**game.n_players == len(counting.asked)
        np.testing.assert_allclose(result.values, game.shapley_values, atol=ROUNDING)
        np.testing.assert_array_equal(result.standard_errors, 0.0)
        assert result.efficiency_gap < ROUNDING

    def test_one_player(self):
        result = sample_game(lambda coalition: 2.0 + 3.0 * len(coalition), 1, budget=2)
        assert result.values.tolist() == [3.0]

    def test_values_at_hand_need_no_game(self):
        game = glove_game(1, 2)
        table = {coalition: game(coalition) for coalition in [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]}

        def unasked(coalition):
            raise AssertionError(coalition)

        result = sample_game(unasked, 3, budget=0, known=table)
        np.testing.assert_allclose(result.values, game.shapley_values, atol=ROUNDING)
        assert result.evaluations == 0

    def test_known_coalitions_count_towards_all(self):
        game = square_game(SHARES[:6])
        known = {(0,): game((0,)), (1, 4): game((1, 4))}
        assert sample_game(game, 6, budget=62, known=dict(known)).method == "enumeration"
        assert sample_game(game, 6, budget=61, known=dict(known)).method == "sampling"


class TestSampling:
    @pytest.mark.parametrize("budget", [40, 100, 500, 1000])
    def test_budget_is_kept_and_nothing_is_asked_twice(self, budget):
        counting = Counting(square_game())
        result = sample_game(counting, 10, budget=budget, rng=1)
        assert result.method == "sampling"
        assert result.evaluations == len(counting.asked) <= budget
        assert set(counting.asked.values()) == {1}
        assert {(), tuple(range(10))} <= set(counting.asked)
        assert result.evaluations == budget

    def test_efficient_whatever_was_drawn(self):
        game = airport_game(SHARES)
        for seed in range(5):
            result = sample_game(game, 10, budget=60, rng=seed)
            assert result.efficiency_gap < ROUNDING
            np.testing.assert_allclose(result.values.sum(), game(tuple(range(10))), rtol=ROUNDING)

    @pytest.mark.slow
    @pytest.mark.parametrize("budget", some([18, 28], 1))
    def test_unbiased_however_small_the_budget(self, budget):
        """Five players, of whose 32 coalitions up to 30 are drawn: halves, repeats and remainders all matter."""
        game = voting_game([4, 3, 2, 1, 1], quota=6)
        runs = np.array([sample_game(game, 5, budget=budget, rng=seed).values for seed in range(250)])
        room = STANDARD_ERRORS * runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert (np.abs(runs.mean(axis=0) - game.shapley_values) <= room + ROUNDING).all()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("game", "budget"),
        [
            (square_game(), 150),
            (glove_game(4, 7), 200),
            (voting_game([5, 4, 3, 3, 2, 2, 1, 1, 1, 1], quota=12), 300),
        ],
        ids=lambda case: getattr(case, "name", case),
    )
    def test_standard_errors_hold(self, game, budget):
        """95 % of a normal distribution lies within two standard errors; theirs are estimates too."""
        scores = []
        for seed in range(60):
            result = sample_game(game, game.n_players, budget=budget, rng=seed)
            wrong, right = result.values - game.shapley_values, result.standard_errors
            scores += list(wrong[right > ROUNDING] / right[right > ROUNDING])
            np.testing.assert_allclose(wrong[right <= ROUNDING], 0.0, atol=ROUNDING)
        assert 0.92 <= np.mean(np.abs(scores) <= 2.0) <= 0.98

    def test_few_coalitions_serve_a_federation(self):
        game, truth = federation_game()
        runs = [sample_game(game, 30, budget=600, rng=seed) for seed in range(5)]
        assert np.sqrt(np.mean([(run.values - truth) ** 2 for run in runs])) < 0.12 * truth.mean()

    @pytest.mark.slow
    def test_standard_errors_hold_for_federations(self):
        game, truth = federation_game()
        runs = [sample_game(game, 30, budget=600, rng=seed) for seed in range(25)]
        scores = np.array([(run.values - truth) / run.standard_errors for run in runs])
        assert 0.92 <= np.mean(np.abs(scores) <= 2.0) <= 0.98

    def test_same_seed_same_numbers(self):
        first, again, other = (
            sample_game(square_game(), 10, budget=100, rng=rng).values for rng in (3, np.random.default_rng(3), 4)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    def test_a_constant_game_is_worth_nothing(self):
        result = sample_game(lambda coalition: 7.0, 12, budget=100, rng=0)
        np.testing.assert_allclose(result.values, 0.0, atol=ROUNDING)
        np.testing.assert_allclose(result.standard_errors, 0.0, atol=ROUNDING)


class TestSeveralOutputs:
    def test_each_output_is_a_game_of_its_own(self):
        square, airport = square_game(), airport_game(SHARES)
        both = sample_game(lambda coalition: [square(coalition), airport(coalition)], 10, budget=200, rng=2)
        assert both.values.shape == both.standard_errors.shape == (10, 2)
        for output, game in enumerate([square, airport]):
            alone = sample_game(game, 10, budget=200, rng=2)
            np.testing.assert_allclose(both.values[:, output], alone.values, rtol=1e-9, atol=ROUNDING)
            np.testing.assert_allclose(both.standard_errors[:, output], alone.standard_errors, rtol=1e-9, atol=ROUNDING)

    def test_of_one_entry(self):
        result = sample_game(lambda coalition: [float(len(coalition))], 3, budget=8)
        assert result.values.shape == (3, 1)

    def test_must_be_as_many_each_time(self):
        with pytest.raises(
            InvalidInput, match=r"as many values as the others: \(\d,\) has shape \(1,\), others \(2,\)"
        ):
            sample_game(lambda coalition: [1.0] * (2 if len(coalition) != 1 else 1), 3, budget=8)


class TestContinuing:
    def test_same_seed_goes_on_where_the_first_run_stopped(self):
        counting = Counting(square_game())
        first = sample_game(counting, 10, budget=150, rng=7)
        second = sample_game(counting, 10, budget=150, rng=7, known=first.known)
        assert set(counting.asked.values()) == {1}
        assert second.evaluations <= 150
        assert len(second.known) == first.evaluations + second.evaluations
        # As if all had been one run, up to a draw that no longer fitted into the first.
        whole = sample_game(square_game(), 10, budget=first.evaluations + 150, rng=7)
        np.testing.assert_allclose(second.values, whole.values, rtol=1e-9)

    def test_an_interrupted_run_loses_nothing(self):
        cache = {}
        game = square_game()

        def slow(coalition):
            if len(cache) == 60:
                raise KeyboardInterrupt
            return game(coalition)

        with pytest.raises(KeyboardInterrupt):
            sample_game(slow, 10, budget=200, rng=3, known=cache)
        assert len(cache) == 60
        counting = Counting(game)
        result = sample_game(counting, 10, budget=140, rng=3, known=cache)
        np.testing.assert_array_equal(result.values, sample_game(game, 10, budget=200, rng=3).values)
        assert result.evaluations == counting.asked.total() == 140

    @pytest.mark.parametrize("coalition", [(2, 10), (2, 1), (0, 0), (-1,)])
    def test_coalitions_that_are_none(self, coalition):
        with pytest.raises(InvalidInput, match=r"sorted tuples of players from 0 to 9, got "):
            sample_game(square_game(), 10, budget=100, known={coalition: 1.0})


class TestAsking:
    def test_in_batches(self):
        asked = []

        def values(coalitions):
            asked.append(len(coalitions))
            return [square_game()(coalition) for coalition in coalitions]

        result = sample_game(values, 10, budget=600, rng=1, batch=True)
        assert asked == [measured.BATCH, measured.BATCH, 600 - 2 * measured.BATCH]
        np.testing.assert_array_equal(result.values, sample_game(square_game(), 10, budget=600, rng=1).values)

    def test_a_batch_must_be_answered_in_full(self):
        message = "the game must return a value for each coalition: asked 8, got 1"
        with pytest.raises(InvalidInput, match=message):
            sample_game(lambda coalitions: [1.0], 3, budget=8, batch=True)

    def test_coalitions_are_sorted_tuples_of_whole_numbers(self):
        def check(coalition):
            assert isinstance(coalition, tuple)
            assert all(type(player) is int for player in coalition)
            assert list(coalition) == sorted(coalition)
            return 0.0

        sample_game(check, 9, budget=60, rng=0)

    def test_progress(self, monkeypatch):
        monkeypatch.setattr(measured, "REPORT_SECONDS", 0.0)
        reports = []
        sample_game(square_game(), 10, budget=50, rng=0, progress=lambda *report: reports.append(report))
        assert reports == [(done, 50) for done in range(51)]


class TestFailures:
    def test_an_exception_of_the_game_is_passed_on(self):
        def failing(coalition):
            if len(coalition) == 3:
                raise RuntimeError("worker 3 ran out of memory")
            return 1.0

        with pytest.raises(RuntimeError, match="worker 3 ran out of memory"):
            sample_game(failing, 10, budget=100, rng=0)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_value_that_is_not_finite(self, bad):
        message = f"the value of coalition (0, 2) must be finite, got {bad}"
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            sample_game(lambda coalition: bad if coalition == (0, 2) else 1.0, 3, budget=8)

    @pytest.mark.parametrize(("bad", "words"), [(None, "finite"), ("high", "a number"), ([[1.0]], "a list of numbers")])
    def test_a_value_that_is_no_number(self, bad, words):
        with pytest.raises(InvalidInput, match=rf"the value of coalition \(\) must be .*{words}"):
            sample_game(lambda coalition: bad, 3, budget=8)

    def test_a_budget_too_small_to_tell_an_error(self):
        game = Counting(square_game())
        with pytest.raises(InvalidInput, match="to tell the errors of 10 players, got 15") as error:
            sample_game(game, 10, budget=15, rng=0)
        assert not game.asked
        least = int(re.search(r"at least (\d+)", str(error.value)).group(1))
        assert sample_game(game, 10, budget=least, rng=0).evaluations <= least

    def test_no_players_and_negative_budgets(self):
        with pytest.raises(InvalidInput, match="n_players must be at least 1, got 0"):
            sample_game(square_game(), 0, budget=100)
        with pytest.raises(InvalidInput, match="budget must be at least 0, got -1"):
            sample_game(square_game(), 3, budget=-1)
