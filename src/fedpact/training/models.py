"""Models of one experiment, each trained once: what is the same profile is the same model, and what was kept is not
trained again.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fedpact.training.checks import IntArray, frozen_counts
from fedpact.training.experiment import Experiment, Histories
from fedpact.utils.arrays import read_only_copy
from fedpact.utils.checkpoint import Checkpoint

Key = tuple[int, ...]

PIECE_BYTES = 16


class Models:
    """Models by the samples they use, the same in every round.

    Parameters
    ----------
    experiment, rounds
        How they are trained, and for how long.
    checkpoint
        A folder that keeps those that are finished, or None.
    """

    def __init__(self, experiment: Experiment, rounds: int, checkpoint: str | Path | None) -> None:
        self._experiment, self._rounds = experiment, rounds
        self._trained: dict[Key, Histories] = {}
        machine = f"{version('jax')} {platform.machine()} {platform.processor()}"
        identity = f"models of {experiment.fingerprint} over {rounds} rounds by JAX {machine}"
        self._kept = None if checkpoint is None else Checkpoint(Path(checkpoint), identity)

    def train(self, wanted: Sequence[tuple[IntArray, str]], progress: Callable[[str], None] | None) -> None:
        """Train the models that are not there; each with its samples and what to call it."""
        for profile, what in wanted:
            key = _key(profile)
            if key in self._trained:
                continue
            if progress is not None:
                progress(what)
            self._trained[key] = self._load(profile) or self._train(profile)

    def histories(self, profiles: Sequence[IntArray]) -> Histories:
        """Each agent's column of its own model: `profiles[i]` are the samples of agent i's, per lot."""
        chosen = [self._trained[_key(profile)] for profile in profiles]
        columns = range(len(profiles))
        used = [profiles[owner][lot] for lot, owner in enumerate(self._experiment.ownership.lot_owners)]
        return Histories(
            contributions=frozen_counts([used] * self._rounds),
            accuracies=read_only_copy(np.stack([chosen[agent].accuracies[:, agent] for agent in columns], axis=1)),
            loss=read_only_copy(np.stack([chosen[agent].loss[:, agent] for agent in columns], axis=1)),
        )

    def _train(self, profile: IntArray) -> Histories:
        history = self._experiment.history(np.tile(profile, (self._rounds, 1)))
        if self._kept is not None:
            self._kept.save(self._piece(profile), {"accuracies": history.accuracies, "loss": history.loss})
        return history

    def _load(self, profile: IntArray) -> Histories | None:
        found = self._kept and self._kept.load(self._piece(profile))
        if not found:
            return None
        return Histories(
            contributions=frozen_counts(np.tile(profile, (self._rounds, 1))),
            accuracies=read_only_copy(found["accuracies"]),
            loss=read_only_copy(found["loss"]),
        )

    def _piece(self, profile: IntArray) -> str:
        digest = hashlib.sha256(repr(_key(profile)).encode()).digest()
        return f"model-{self._rounds}-{int.from_bytes(digest[:PIECE_BYTES], 'big')}"


def _key(profile: IntArray) -> Key:
    return tuple(int(samples) for samples in profile)
