"""Who holds which images: classes dealt to agents, test sets split off, training samples put in order.

A partition says how many images of each class every agent holds. The rest is the same for all: images are dealt from a
shuffled pile per class; a share of each agent's images, taken class by class, is its test set, so an agent is tested
on its own mix of classes; the others are put in an order in which every beginning holds the classes in the agent's
proportions as nearly as whole numbers can. An agent that contributes s samples contributes the first s.

The partitioners of flwr-datasets take Hugging Face datasets only, and where a class runs out the one that takes sizes
(`InnerDirichletPartitioner`) goes on with other proportions. Here a share is what was drawn or an error, so the two
kinds needed are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.training.checks import IntArray
from fedpact.utils.arrays import POSITIVE, checked_numbers, first_where, positive
from fedpact.utils.errors import InvalidInput


class Partition:
    """A rule for how many images of each class every agent holds."""

    def counts(self, sizes: IntArray, classes: IntArray, rng: np.random.Generator, names: Sequence[str]) -> IntArray:
        """(n_agents, n_classes) images; rows sum to `sizes`, and only the `classes` there are count."""
        raise NotImplementedError


@dataclass(frozen=True)
class Even(Partition):
    """Every agent holds equally many images of every class, up to one where they do not divide."""

    def counts(self, sizes: IntArray, classes: IntArray, rng: np.random.Generator, names: Sequence[str]) -> IntArray:
        """Images left over go to the classes in turn, from agent to agent."""
        small = first_where(sizes < len(classes))
        if small is not None:
            raise InvalidInput(
                f"samples must be at least {len(classes)}, one image a class, got {sizes[small]} "
                f'(member "{names[small]}")'
            )
        counts = np.repeat(sizes[:, None] // len(classes), len(classes), axis=1)
        turn = 0
        for agent, left_over in enumerate(sizes % len(classes)):
            counts[agent, (turn + np.arange(left_over)) % len(classes)] += 1
            turn += left_over
        return counts


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Every agent's mix of classes is drawn from a symmetric Dirichlet distribution: label skew.

    Parameters
    ----------
    alpha
        Concentration, positive: 100 is nearly even, 0.1 leaves most agents with two or three classes.
    every_class
        Whether it is an error when an agent would hold no image of some class.
    """

    alpha: float
    every_class: bool = True

    def __post_init__(self) -> None:
        alpha = checked_numbers("alpha", self.alpha, positive, POSITIVE)
        if alpha.ndim:
            raise InvalidInput(f"alpha must be one number, got {alpha.size}")
        object.__setattr__(self, "alpha", float(alpha))

    def counts(self, sizes: IntArray, classes: IntArray, rng: np.random.Generator, names: Sequence[str]) -> IntArray:
        """Shares drawn per agent, rounded so that they sum to what it holds."""
        shares = rng.dirichlet(np.full(len(classes), self.alpha), len(sizes))
        if not np.isfinite(shares).all():
            raise InvalidInput(f"alpha must be large enough to draw from, got {self.alpha:g}; try 0.01")
        counts = np.stack([round_to_total(size * share, size, rng) for size, share in zip(sizes, shares, strict=True)])
        missing = np.argwhere(counts == 0)
        if self.every_class and len(missing):
            agent, place = missing[0]
            raise InvalidInput(
                f'member "{names[agent]}" would hold no image of class {classes[place]} with alpha = {self.alpha:g}; '
                f"use a larger alpha, more samples or another seed, or allow it with every_class=False"
            )
        return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """The images of one agent, as places in all images: `train` in the order of use, and `test`."""

    train: IntArray
    test: IntArray


def deal_images(
    labels: NDArray[np.int32],
    sizes: IntArray,
    partition: Partition,
    *,
    test_share: float,
    rng: np.random.Generator,
    names: Sequence[str],
) -> list[Share]:
    """Deal images to agents; nobody's image is anybody else's.

    Parameters
    ----------
    labels
        Classes of all images.
    sizes
        How many images each agent is to hold.
    partition, test_share
        The mix of classes, and which part of its images an agent is tested on.
    rng, names
        For the piles, and for errors.
    """
    if sizes.sum() > len(labels):
        raise InvalidInput(
            f"samples must not exceed the {len(labels):,} images there are, got {sizes.sum():,} over all members; "
            f"ask for fewer samples or take more images"
        )
    classes = np.unique(labels).astype(np.int64)
    counts = partition.counts(sizes, classes, rng, names)
    _check_supply(counts, labels, classes, partition)
    piles = [rng.permutation(np.flatnonzero(labels == each)) for each in classes]
    ends = counts.cumsum(axis=0)
    dealt = []
    for agent, name in enumerate(names):
        own = [pile[end - count : end] for pile, end, count in zip(piles, ends[agent], counts[agent], strict=True)]
        dealt.append(_split(own, test_share, rng, name))
    return dealt


def _check_supply(counts: IntArray, labels: NDArray[np.int32], classes: IntArray, partition: Partition) -> None:
    wanted, there = counts.sum(axis=0), np.array([(labels == each).sum() for each in classes])
    short = first_where(wanted > there)
    if short is not None:
        skewed = isinstance(partition, Dirichlet)
        raise InvalidInput(
            f"the members would hold {wanted[short]:,} images of class {classes[short]}, there are {there[short]:,}; "
            f"ask for fewer samples{', a larger alpha or another seed' if skewed else ''} or take more images"
        )


def _split(own: list[IntArray], test_share: float, rng: np.random.Generator, name: str) -> Share:
    """One agent's piles, one a class: the first of each are for tests, the others in the order of use."""
    sizes = np.array([len(pile) for pile in own])
    n_test = round(test_share * sizes.sum())
    if not 0 < n_test < sizes.sum():
        raise InvalidInput(
            f'member "{name}" holds {sizes.sum()} images, of which a test_share of {test_share:g} is {n_test}; it '
            f"needs at least one to be tested on and one to train on: give it more samples or change test_share"
        )
    tested = round_to_total(sizes * test_share, n_test, rng)
    test = np.concatenate([pile[:count] for pile, count in zip(own, tested, strict=True)])
    train = np.concatenate([pile[count:] for pile, count in zip(own, tested, strict=True)])
    # The k-th of c images of a class belongs at (k + 1/2) / c of the way; equal places are in random order.
    place = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in sizes - tested])
    return Share(train=train[np.lexsort((rng.random(len(train)), place))], test=test)


def round_to_total(amounts: NDArray[np.float64], total: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers that sum to `total`, by largest remainders, equal ones in random order."""
    whole = np.floor(amounts).astype(np.int64)
    order = np.lexsort((rng.random(len(amounts)), whole - amounts))
    whole[order[: total - whole.sum()]] += 1
    return whole
