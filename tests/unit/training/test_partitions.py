"""Who holds which images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpact.training import Experiment, Images
from fedpact.training.data import Share, deal_images, round_to_total, spoil_labels
from fedpact.utils.errors import InvalidInput
from random_cases import cases

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10, dtype=np.int32), 500))


def dealt(
    sizes: Any, alpha: float | None = None, *, test_share: float = 0.2, seed: int = 0, labels: Any = LABELS
) -> list[Share]:
    names = [f"agent {agent}" for agent in range(len(sizes))]
    rng = np.random.default_rng(seed)
    return deal_images(labels, np.array(sizes), alpha, test_share=test_share, rng=rng, names=names)


def mix(places: Any) -> np.ndarray:
    return np.bincount(LABELS[places], minlength=10)


def test_the_papers_agents() -> None:
    for share in dealt([400, 400, 400]):
        assert mix(share.train).tolist() == [32] * 10
        assert mix(share.test).tolist() == [8] * 10


@given(
    st.lists(st.integers(10, 80), min_size=1, max_size=6),
    st.sampled_from([None, 0.5]),
    st.floats(0.1, 0.9),
    st.integers(0, 50),
)
@settings(max_examples=cases(20))
def test_nobody_shares_an_image(sizes: list[int], alpha: float | None, test_share: float, seed: int) -> None:
    shares = dealt(sizes, alpha, test_share=test_share, seed=seed)
    places = np.concatenate([part for share in shares for part in (share.train, share.test)])
    assert len(np.unique(places)) == len(places) == sum(sizes)
    assert [len(share.train) + len(share.test) for share in shares] == sizes
    for share in shares:
        held = mix(share.train) + mix(share.test)
        assert (np.abs(mix(share.test) - test_share * held) < 1).all()


@given(st.integers(1, 320), st.integers(0, 20))
@settings(max_examples=cases(20))
def test_every_beginning_of_an_even_agent_is_even(used: int, seed: int) -> None:
    (share,) = dealt([400], seed=seed)
    assert np.ptp(mix(share.train[:used])) <= 1


@given(st.integers(1, 320), st.integers(0, 20))
@settings(max_examples=cases(20))
def test_every_beginning_has_the_agents_mix(used: int, seed: int) -> None:
    (share,) = dealt([400], 2.0, seed=seed)
    whole = mix(share.train)
    # Each class is at most half an image from its due, and the end of the beginning is shared by ten.
    assert np.abs(mix(share.train[:used]) - used * whole / whole.sum()).max() < 5


def test_even_agents_differ_by_one_at_most() -> None:
    shares = dealt([13, 17, 24])
    counts = np.array([mix(share.train) + mix(share.test) for share in shares])
    assert (np.ptp(counts, axis=1) <= 1).all()
    assert np.ptp(counts.sum(axis=0)) <= 1  # what is left over goes round


def test_a_small_alpha_skews_and_a_large_one_does_not() -> None:
    def skew(alpha: float) -> float:
        shares = [dealt([300], alpha, seed=seed)[0] for seed in range(20)]
        return float(np.mean([mix(share.train).max() / len(share.train) for share in shares]))

    assert skew(0.2) > 0.4
    assert skew(1000.0) < 0.13


def test_the_seed_decides() -> None:
    once, again, other = (dealt([50, 50], seed=seed) for seed in (1, 1, 2))
    for first, second, third in zip(once, again, other, strict=True):
        np.testing.assert_array_equal(first.train, second.train)
        np.testing.assert_array_equal(first.test, second.test)
        assert (first.train != third.train).any()


@pytest.mark.parametrize(
    ("sizes", "alpha", "test_share", "message"),
    [
        ([2000, 4000], None, 0.2, "samples must not exceed the 5,000 images there are, got 6,000 over all members"),
        ([40, 9], None, 0.2, r'samples must be at least 10, one image a class, got 9 \(member "agent 1"\)'),
        ([40], None, 0.01, 'member "agent 0" holds 40 images, of which a test_share of 0.01 is 0; it needs'),
        ([40], None, 0.99, 'member "agent 0" holds 40 images, of which a test_share of 0.99 is 40; it needs'),
        ([2000] * 2, 0.3, 0.2, r"images of class \d, there are 500; .*a larger alpha"),
        ([1], 1.0, 0.2, 'member "agent 0" holds 1 images'),
    ],
)
def test_what_cannot_be_dealt(sizes: Any, alpha: float | None, test_share: float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        dealt(sizes, alpha, test_share=test_share)


def test_a_class_that_runs_out_is_named() -> None:
    labels = np.repeat(np.arange(2, dtype=np.int32), [5, 100])
    with pytest.raises(InvalidInput, match="would hold 10 images of class 0, there are 5; ask for fewer samples or"):
        dealt([20], labels=labels)


def test_labels_may_leave_classes_out() -> None:
    labels = np.repeat(np.array([1, 7], dtype=np.int32), 30)
    (share,) = dealt([40], labels=labels)
    assert np.bincount(labels[share.train]).tolist() == [0, 16, 0, 0, 0, 0, 0, 16]


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf, "much", [1.0, 2.0]])
def test_concentrations_that_are_none(images: Images, alpha: Any) -> None:
    with pytest.raises(InvalidInput, match="alpha must be"):
        Experiment(images, samples=30, alpha=alpha)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=8))
def test_rounding_moves_nothing_by_one(amounts: list[float]) -> None:
    given_amounts = np.array(amounts)
    total = round(given_amounts.sum())
    whole = round_to_total(given_amounts, total, np.random.default_rng(0))
    assert whole.sum() == total
    assert (np.abs(whole - given_amounts) < 1 + 1e-9).all()


LABELS_IN_TURN = np.tile(np.arange(10, dtype=np.int32), 20)


def spoiled(share: float, seed: int = 0) -> np.ndarray:
    return spoil_labels(LABELS_IN_TURN, share, 10, np.random.default_rng(seed))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_wrong_labels_is_exact(share: float) -> None:
    wrong = spoiled(share) != LABELS_IN_TURN
    assert wrong.sum() == round(share * len(LABELS_IN_TURN))
    assert set(np.unique(spoiled(share))) <= set(range(10))


def test_more_noise_spoils_the_same_labels_and_more() -> None:
    little, much = spoiled(0.2), spoiled(0.6)
    wrong = little != LABELS_IN_TURN
    np.testing.assert_array_equal(little[wrong], much[wrong])


def test_wrong_labels_are_of_all_other_classes() -> None:
    counts = np.zeros((10, 10), dtype=int)
    for seed in range(50):
        np.add.at(counts, (LABELS_IN_TURN, spoiled(1.0, seed)), 1)
    assert (counts.diagonal() == 0).all()
    others = counts[~np.eye(10, dtype=bool)]
    expected = 50 * 20 / 9
    assert np.abs(others - expected).max() < 5 * np.sqrt(expected)


def test_noise_is_each_agents_own_and_spares_tests(images: Images) -> None:
    clean = Experiment(images, samples=30).holdings
    noisy = Experiment(images, samples=30, label_noise=[0, 0.5, 0]).holdings
    assert [(one.labels == two.labels).mean() for one, two in zip(clean, noisy, strict=True)] == [1.0, 0.5, 1.0]
    for one, two in zip(clean, noisy, strict=True):
        np.testing.assert_array_equal(one.pixels, two.pixels)
        np.testing.assert_array_equal(one.test_labels, two.test_labels)
