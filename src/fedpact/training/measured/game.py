"""Coalition accuracies as a game: contributions and a coalition in, every agent's test accuracy out.

A coalition's model is trained on its members' contributions alone. Without data there is no model: the empty coalition,
and one whose members contribute nothing, are worth zero to everybody. Every trained model's accuracies are kept, on
disk if a folder is named, so nothing is trained twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.lots import require_single_lots
from fedpact.fitting.store import Store
from fedpact.shapley.measured import Coalition, SampledShapley, sample_game
from fedpact.training import Experiment, Histories
from fedpact.training.checks import nearest_counts
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput

EXACT_UP_TO = 8  # agents: 255 models; from there on orders are sampled
PERMUTATIONS = 300  # the paper's

Progress = Callable[[int], None]


class MeasuredGame:
    """What models trained by coalitions are worth, measured.

    Parameters
    ----------
    experiment
        Who holds what, and how models are trained.
    folder
        Where results are kept, one file per experiment; None to keep them in memory.
    progress
        Called with the number of models finished, each time some are.
    """

    def __init__(self, experiment: Experiment, *, folder: Path | None = None, progress: Progress | None = None) -> None:
        self.experiment = experiment
        path = None if folder is None else Path(folder) / f"{experiment.fingerprint}.jsonl"
        self._store = Store(path, experiment.fingerprint)
        self._progress = progress
        self._asked: list[set[str]] = []
        self.trained = 0

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self.experiment.n_agents

    @property
    def available(self) -> FloatArray:
        """The most each can contribute, per lot where agents have several."""
        return self.experiment.available.astype(np.float64)

    @property
    def test_sizes(self) -> FloatArray:
        """Images each is tested on, per task where agents have several."""
        return self.experiment.test_sizes.astype(np.float64)

    @contextmanager
    def counting(self) -> Iterator[set[str]]:
        """Collects the models asked for while it lasts, those known before among them, each once."""
        asked: set[str] = set()
        self._asked.append(asked)
        try:
            yield asked
        finally:
            self._asked.remove(asked)

    def accuracies(self, contributions: ArrayLike, coalition: Iterable[int] | None = None) -> FloatArray:
        """Every agent's test accuracy of the model that a coalition trains; of everybody's if none is given."""
        return read_only_copy(self.many([self.profile(contributions, coalition)])[0])

    def profile(self, contributions: ArrayLike, coalition: Iterable[int] | None = None) -> np.ndarray:
        """Whole samples used: contributions rounded, zero outside the coalition."""
        require_single_lots(self.experiment, "a measured game")
        given = checked_numbers("contributions", contributions, lambda x: x >= 0, "at least zero")
        used = np.broadcast_to(nearest_counts(given), (self.n_agents,))
        if coalition is None:
            return used.copy()
        members = list(coalition)
        if not members:
            raise InvalidInput("coalition must have a member, got none: no data, no model")
        for member in members:
            if not 0 <= member < self.n_agents:
                raise InvalidInput(f"coalition must hold members from 0 to {self.n_agents - 1}, got {member!r}")
        return np.where(np.isin(np.arange(self.n_agents), members), used, 0)

    def many(self, profiles: ArrayLike) -> FloatArray:
        """Accuracies of several models at once, (models, n_agents); what is missing is trained in one go.

        Where agents have several lots or tasks, profiles are per lot and accuracies per task.
        """
        rows = [tuple(map(int, row)) for row in np.atleast_2d(np.asarray(profiles))]
        for asked in self._asked:
            asked.update(_key(row) for row in rows if any(row))
        missing = sorted({row for row in rows if any(row) and _key(row) not in self._store})
        if missing:
            for place, found in self.experiment.each(missing):
                self._store.put(_key(missing[place]), found.tolist())
                self.trained += 1
                if self._progress is not None:
                    self._progress(1)
        return np.array([self._store[_key(row)] if any(row) else [0.0] * self.experiment.n_tasks for row in rows])

    def history(self, schedule: ArrayLike) -> Histories:
        """One model whose contributions change from round to round, tested after each."""
        rows = np.asarray(schedule, dtype=np.int64)
        key = "history " + hashlib.sha256(repr(rows.tolist()).encode()).hexdigest()
        if key not in self._store:
            found = self.experiment.history(rows)
            self._store.put(key, {"accuracies": found.accuracies.tolist(), "loss": found.loss.tolist()})
            self.trained += 1
            if self._progress is not None:
                self._progress(1)
        kept = self._store[key]
        return Histories(
            contributions=rows,
            accuracies=read_only_copy(np.array(kept["accuracies"])),
            loss=read_only_copy(np.array(kept["loss"])),
        )

    def shapley(self, contributions: ArrayLike, *, permutations: int = PERMUTATIONS, rng: int = 0) -> SampledShapley:
        """Shapley values of the sum of all agents' accuracies.

        Exact up to eight agents; beyond, from random coalitions, as many models as `permutations` of the agents would
        take. The same `rng` draws the same coalitions.
        """
        used = self.profile(contributions)
        n_agents = self.n_agents

        def worth(coalitions: Sequence[Coalition]) -> FloatArray:
            members = np.array([np.isin(np.arange(n_agents), coalition) for coalition in coalitions])
            return self.many(np.where(members, used, 0)).sum(axis=1)

        exact = n_agents <= EXACT_UP_TO
        budget = 1 << n_agents if exact else 2 + permutations * (n_agents - 1)
        return sample_game(worth, n_agents, budget=budget, rng=rng, batch=True)


def _key(row: Sequence[int]) -> str:
    return " ".join(map(str, row))
