"""An experiment: images dealt to agents, noise, and a way to train. It answers what accuracy a profile gives.

Agents may hold several lots of images: a profile then has a number per lot.

Everything random follows from the seed: who holds which images and in which order, the noise, the weights the network
starts with, the minibatches. All profiles share these, so two of them differ by their data alone; accuracies are the
same bit for bit on one machine, whatever else is asked at the same time and however many threads there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.lots import OwnersGiven, Ownership, check_names, check_ownership, default_names, labels
from fedpact.training.data import Holdings, Images, deal_images, make_holdings
from fedpact.training.settings import IntArray, Stream, Training, generator
from fedpact.utils.arrays import (
    POSITIVE,
    FloatArray,
    LotLabels,
    checked_numbers,
    first_where,
    one_number,
    positive,
    read_only,
    read_only_copy,
    whole_number,
)
from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr

if TYPE_CHECKING:
    from fedpact.training.engine import Engine

# Part of every fingerprint: raise it when the same settings give other accuracies than before.
CODE_VERSION = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Histories:
    """One model round by round, or everybody's own."""

    contributions: IntArray  #: (rounds, n_agents), or (rounds, lots): samples used
    #: (rounds, n_agents): on each agent's test set, after the round, of its own model where everybody has one; the loss
    #: is the mean of minus the log-probability of the right class
    accuracies: FloatArray
    loss: FloatArray


@dataclass(frozen=True, eq=False)
class Experiment:
    """Agents with images of their own, who train models together.

    Agents may hold several lots of images. Then samples, the mix of classes and noise are per lot, and an agent is
    tested on the test images of all its lots. Test sets stay clean, so that accuracies measure what data is worth on
    clean images; more noise spoils the same labels and others.
    """

    images: Images  # what is dealt to the agents
    _: KW_ONLY
    n_agents: int = 3
    samples: Any = 400  # images each agent holds, test set included; a whole number or one per agent
    test_share: float = 0.2  # of its images, that an agent is tested on; the rest is there to contribute
    # None if everybody has all classes alike; or the concentration of a Dirichlet distribution that mixes are drawn
    # from: 100 is nearly even, 0.1 leaves most agents with two or three classes
    alpha: float | None = None
    label_noise: Any = 0.0  # the share of training labels that is replaced by others; a number or one per agent
    training: Training = field(default_factory=Training)
    seed: int = 0
    names: Sequence[str] = ()  # "agent 0", "agent 1", ... if not given
    lot_owners: OwnersGiven | None = None  # the agent of each lot, by name or index, and what the lots are called
    lot_names: Sequence[str] | None = None
    ownership: Ownership = field(init=False, repr=False)
    holdings: list[Holdings] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        if find_spec("jax") is None:  # said early, without importing it, which takes a second
            raise MissingExtra("Training", "train")
        for label, kind in (("images", Images), ("training", Training)):
            if not isinstance(getattr(self, label), kind):
                raise InvalidInput(f"{label} must be of type {kind.__name__}, got {short_repr(getattr(self, label))}")
        put("n_agents", whole_number("n_agents", self.n_agents, least=1))
        put("seed", whole_number("seed", self.seed, least=0))
        put("names", check_names("names", self.names or default_names(self.n_agents), self.n_agents))
        put("ownership", self._check_ownership())
        for label, accepts, rule in (
            ("samples", lambda x: (x >= 1) & (x == np.rint(x)) & np.isfinite(x), "a whole number of at least 1"),
            ("label_noise", lambda x: (x >= 0) & (x <= 1), "a share from 0 to 1"),
        ):
            numbers = checked_numbers(label, getattr(self, label), accepts, rule, names=self.lot_labels)
            put(label, read_only_copy(np.broadcast_to(numbers, self.n_lots)))
        put("samples", read_only(self.samples.astype(np.int64)))
        share = one_number("test_share", self.test_share, lambda x: (x > 0) & (x < 1), "between 0 and 1")
        put("test_share", share)
        if self.alpha is not None:
            put("alpha", one_number("alpha", self.alpha, positive, POSITIVE))
        rng, noise = generator(self.seed, Stream.DEALING), self.label_noise
        shares = deal_images(
            self.images.labels, self.samples, self.alpha, test_share=share, rng=rng, names=self.lot_labels
        )
        put("holdings", make_holdings(self.images, shares, noise, self.seed, owners=self.ownership.lot_owners))

    @property
    def n_lots(self) -> int:
        """How many lots there are; as many as agents if these have one each."""
        return len(self.ownership.lot_owners)

    @property
    def has_lots(self) -> bool:
        """Whether agents hold several lots."""
        return not np.array_equal(self.ownership.lot_owners, np.arange(self.n_agents))

    @property
    def lot_labels(self) -> tuple[str, ...]:
        """What people call the lots."""
        found = labels(self.ownership.lot_owners, self.ownership.lot_names, self.names)
        return LotLabels(found) if self.has_lots else found

    @cached_property
    def available(self) -> IntArray:
        """Training samples of each lot, one per agent as a rule: the most that can be contributed."""
        held = np.concatenate([own.lots for own in self.holdings])
        return read_only(np.bincount(held, minlength=self.n_lots))

    @cached_property
    def test_sizes(self) -> IntArray:
        """Images each agent is tested on."""
        return read_only(np.array([len(own.test_labels) for own in self.holdings]))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that determines results, as plain data; names do not count, nor do versions of JAX."""
        found = {
            "version": CODE_VERSION,
            "images": self.images.digest,
            "samples": self.samples.tolist(),
            "test_share": self.test_share,
            "alpha": self.alpha,
            "label_noise": self.label_noise.tolist(),
            "training": asdict(self.training),
            "seed": self.seed,
        }
        if self.has_lots:
            found["lots"] = hashlib.sha256(b"".join(own.lots.tobytes() for own in self.holdings)).hexdigest()
        return found

    @cached_property
    def fingerprint(self) -> str:
        """A number for the settings: equal experiments have equal ones, others have others."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:16]

    def accuracies(self, profiles: ArrayLike) -> FloatArray:
        """(m, n_agents) shares of right answers, each of a model trained from scratch.

        `profiles` (m, n_agents) are whole numbers: how many of its samples each agent contributes, per lot where it has
        several. A coalition is a profile with zeros for those outside; somebody must contribute something.

        Raises
        ------
        NotConverged
            If a loss is not finite: the learning rate is too large.
        """
        found = dict(self.each(profiles))
        return np.array([found[index] for index in range(len(found))]).reshape(-1, self.n_agents)

    def each(self, profiles: ArrayLike) -> Iterator[tuple[int, FloatArray]]:
        """As `accuracies`, row by row as models are finished: the profile's index, and its accuracies.

        Rows come in any order; what has come is finished even if the rest is interrupted.
        """
        chosen = self._checked_counts("profiles", "profile", profiles)
        empty = first_where(chosen.sum(axis=1) == 0)
        if empty is not None:
            raise InvalidInput(
                f"profiles[{empty}] must have at least one sample of somebody, got zeros: no data, no model"
            )
        return self._engine.final(chosen)

    def history(self, schedule: ArrayLike, *, wanted: ArrayLike | None = None) -> Histories:
        """Train one model whose contributions change from round to round, or one per agent, and test after each.

        `schedule` (rounds, n_agents) is like `profiles`; a round without samples leaves the model as it is. `wanted`
        (n_agents, lots), true or false, says whose data goes into each agent's own model, as `Federation.wanted_lots`
        does; its own always does. None for one model for all.
        """
        contributions = self._checked_counts("schedule", "round", schedule)
        if not len(contributions):
            raise InvalidInput("schedule must have at least one round, got none")
        own = np.arange(self.n_agents)[:, None] == self.ownership.lot_owners
        taken = None if wanted is None else np.asarray(wanted, dtype=np.bool_) | own
        accuracies, loss = map(read_only_copy, self._engine.history(contributions, taken))
        return Histories(contributions=read_only(contributions), accuracies=accuracies, loss=loss)

    @cached_property
    def _engine(self) -> Engine:
        from fedpact.training.engine import Engine  # noqa: PLC0415 - JAX takes a second to import

        return Engine(self.holdings, self.images.n_classes, self.training, self.seed)

    def _check_ownership(self) -> Ownership:
        """Whose the lots are."""
        count = self.n_agents if self.lot_owners is None else len(self.lot_owners)
        given = {"lot_owners": self.lot_owners, "lot_names": self.lot_names, "task_owners": None, "task_names": None}
        owned = check_ownership(tuple(self.names), (self.n_agents, count), given)
        without = first_where(~np.isin(np.arange(self.n_agents), owned.lot_owners))
        if without is not None:
            raise InvalidInput(
                f'member "{self.names[without]}" has no lot, so it has no images to be tested on; give it one'
            )
        return owned

    def _checked_counts(self, label: str, row: str, given: ArrayLike) -> IntArray:
        """A table of contributions with a row per `row` and a column per agent (lot), none beyond what there is."""
        whose, names, available = "lot" if self.has_lots else "member", self.lot_labels, self.available
        try:
            numbers = np.asarray(given)
        except ValueError:  # rows of different lengths
            numbers = np.asarray(given, dtype=object)
        if numbers.dtype.kind not in "iuf" or numbers.ndim != 2 or numbers.shape[1] != len(names):
            raise InvalidInput(
                f"{label} must be whole numbers with a row per {row} and a column per {whose} ({len(names)}), got "
                f"{numbers.dtype} of shape {numbers.shape}; a coalition is `members * experiment.available`"
            )
        uncountable = ~np.isfinite(numbers) | (numbers != np.rint(numbers)) | (numbers < 0)
        for at, lot in np.argwhere(uncountable | (numbers > available))[:1]:
            must = "be a whole number of at least 0" if uncountable[at, lot] else f"be at most {available[lot]}"
            raise InvalidInput(
                f"{label}[{at}, {lot}] must {must}, got {numbers[at, lot]:g}: "
                f'{whose} "{names[lot]}" has {available[lot]} training samples'
            )
        return numbers.astype(np.int64)
