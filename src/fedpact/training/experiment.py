"""An experiment: images dealt to agents, noise, and a way to train. It answers what accuracy a profile gives.

Everything random follows from the seed: who holds which images and in which order, the noise, the weights the network
starts with, the minibatches. All profiles share these, so two of them differ by their data alone; accuracies are the
same bit for bit on one machine, whatever else is asked at the same time and however many threads there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, is_dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.validation import checked_names
from fedpact.training.checks import IntArray, checked_counts, checked_samples, frozen_counts
from fedpact.training.data import Images
from fedpact.training.holdings import Holdings, make_holdings
from fedpact.training.noise import Noise, PrivateUpdates, Strengths, checked_noise
from fedpact.training.partitions import Even, Partition, deal_images
from fedpact.training.seeds import Stream, generator
from fedpact.training.settings import Training, whole_number
from fedpact.utils.arrays import FloatArray, checked_numbers, first_where, read_only_copy
from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr

if TYPE_CHECKING:
    from fedpact.training.engine import Engine

# Part of every fingerprint: raise it when the same settings give other accuracies than before.
CODE_VERSION = 1
FINGERPRINT_DIGITS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Histories:
    """One model round by round.

    Attributes
    ----------
    contributions
        (rounds, n_agents) samples used.
    accuracies, loss
        (rounds, n_agents) on each agent's test set, after the round; the loss is the mean of minus the
        log-probability of the right class.
    """

    contributions: IntArray
    accuracies: FloatArray
    loss: FloatArray


@dataclass(frozen=True, eq=False)
class Experiment:
    """Agents with images of their own, who train models together.

    Parameters
    ----------
    images
        What is dealt to the agents.
    n_agents
        At least 1.
    samples
        Images each agent holds, test set included; a whole number or one per agent.
    test_share
        The part of its images an agent is tested on, between 0 and 1; the rest is there to contribute.
    partition
        The mix of classes: `Even()` or `Dirichlet(alpha)`.
    noise
        What spoils contributions: any of `LabelNoise`, `PixelNoise` and `PrivateUpdates`, each at most once.
    training
        How models are trained.
    seed
        Whole number of at least 0.
    names
        One per agent; "agent 0", "agent 1", ... if not given.
    """

    images: Images
    _: KW_ONLY
    n_agents: int = 3
    samples: Any = 400
    test_share: float = 0.2
    partition: Partition = field(default_factory=Even)
    noise: Sequence[Noise] | Noise = ()
    training: Training = field(default_factory=Training)
    seed: int = 0
    names: Sequence[str] = ()
    _noise: Strengths = field(init=False, repr=False)
    holdings: list[Holdings] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _require_jax()
        for label, kind in (("images", Images), ("training", Training), ("partition", Partition)):
            if not isinstance(getattr(self, label), kind):
                raise InvalidInput(f"{label} must be of type {kind.__name__}, got {short_repr(getattr(self, label))}")
        if not is_dataclass(self.partition):
            raise InvalidInput("partition must be a dataclass, whose fields say which of its kind it is")
        object.__setattr__(self, "n_agents", whole_number("n_agents", self.n_agents, least=1))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, least=0))
        object.__setattr__(self, "names", checked_names(None if self.names == () else self.names, self.n_agents))
        object.__setattr__(self, "samples", checked_samples(self.samples, self.names))
        object.__setattr__(self, "test_share", _checked_share(self.test_share))
        object.__setattr__(self, "_noise", checked_noise(self.noise, self.names))
        object.__setattr__(self, "holdings", self._deal_images())

    @cached_property
    def available(self) -> IntArray:
        """Training samples each agent holds: the most it can contribute."""
        return frozen_counts([len(own.labels) for own in self.holdings])

    @cached_property
    def fingerprint(self) -> str:
        """A number for everything that determines results: equal experiments have equal ones, others have others.

        Names do not count, nor do the versions of JAX and the machine, between which accuracies differ by rounding.
        """
        settings = {
            "version": CODE_VERSION,
            "images": self.images.digest,
            "samples": self.samples.tolist(),
            "test_share": self.test_share,
            "partition": [type(self.partition).__name__, asdict(self.partition)],  # type: ignore[call-overload]
            "noise": {
                kind.__name__: {name: numbers.tolist() for name, numbers in strengths.items()}
                for kind, strengths in self._noise.items()
            },
            "training": asdict(self.training),
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def accuracies(self, profiles: ArrayLike, *, progress: Callable[[int, int], None] | None = None) -> FloatArray:
        """Train a model from scratch for every profile, and test it on every agent's test set.

        Parameters
        ----------
        profiles
            (m, n_agents) whole numbers: how many of its samples each agent contributes. A coalition is a profile with
            zeros for those outside; somebody must contribute something.
        progress
            Called with the number of models finished and to train.

        Returns
        -------
        FloatArray
            (m, n_agents) shares of right answers.

        Raises
        ------
        NotConverged
            If a loss is not finite: the learning rate is too large.
        """
        chosen = self._checked_profiles(profiles)
        found = np.empty(chosen.shape)
        for done, (place, row) in enumerate(self.each(chosen)):
            found[place] = row
            if progress is not None:
                progress(done + 1, len(chosen))
        return found

    def each(self, profiles: ArrayLike) -> Iterator[tuple[int, FloatArray]]:
        """As `accuracies`, row by row as models are finished: the profile's place, and its accuracies.

        Rows come in any order; what has come is finished even if the rest is interrupted.
        """
        chosen = self._checked_profiles(profiles)
        return self._engine.final(chosen)

    def history(self, schedule: ArrayLike) -> Histories:
        """Train one model whose contributions change from round to round, and test it after each.

        Parameters
        ----------
        schedule
            (rounds, n_agents) whole numbers: how many of its samples each agent contributes in each round. A round
            without samples leaves the model as it is.
        """
        contributions = checked_counts("schedule", "round", schedule, self.available, self.names)
        if not len(contributions):
            raise InvalidInput("schedule must have at least one round, got none")
        accuracies, loss = self._engine.history(contributions)
        return Histories(
            contributions=frozen_counts(contributions), accuracies=read_only_copy(accuracies), loss=read_only_copy(loss)
        )

    @cached_property
    def _engine(self) -> Engine:
        from fedpact.training.engine import Engine  # noqa: PLC0415 - JAX takes a second to import

        privacy = self._noise.get(PrivateUpdates)
        return Engine(self.holdings, self.images.n_classes, self.training, self.seed, privacy)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, which every process makes for itself."""
        return {name: part for name, part in vars(self).items() if name != "_engine"}

    def _deal_images(self) -> list[Holdings]:
        rng = generator(self.seed, Stream.DEALING)
        shares = deal_images(
            self.images.labels,
            self.samples,
            self.partition,
            test_share=self.test_share,
            rng=rng,
            names=self.names,
        )
        return make_holdings(self.images, shares, self._noise, self.seed)

    def _checked_profiles(self, given: ArrayLike) -> IntArray:
        profiles = checked_counts("profiles", "profile", given, self.available, self.names)
        empty = first_where(profiles.sum(axis=1) == 0)
        if empty is not None:
            raise InvalidInput(
                f"profiles[{empty}] must have at least one sample of somebody, got zeros: no data, no model"
            )
        return profiles


def _require_jax() -> None:
    """Say so early where JAX is not installed, without importing it."""
    if find_spec("jax") is None:
        raise MissingExtra("Training", "train")


def _checked_share(given: Any) -> float:
    share = checked_numbers("test_share", given, lambda x: (x > 0) & (x < 1), "between 0 and 1")
    if share.ndim:
        raise InvalidInput(f"test_share must be one number, got {share.size}")
    return float(share)
