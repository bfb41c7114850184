"""Accuracies of trained models as a game: what does every agent get from whose data?

A coalition's model is trained on its members' contributions alone. Without data there is no model: the empty
coalition, and one whose members contribute nothing, are worth zero to everybody. Every trained model's accuracies are
kept, on disk if a folder is named, so nothing is trained twice. `fedpact.paper.measured_mechanisms` plays the
mechanisms on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.lots import require_single_lots
from fedpact.shapley.measured import Coalition, SampledShapley, sample_game
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.checkpoint import Checkpoint

EXACT_UP_TO = 8  # agents: 255 models; from there on coalitions are sampled

Progress = Callable[[int], None]


class MeasuredGame:
    """What models trained by coalitions are worth, measured.

    Results are kept in `folder`, with a folder for each experiment, or in memory. `progress` is called with the number
    of models finished, each time some are.
    """

    def __init__(self, experiment: Experiment, *, folder: Path | None = None, progress: Progress | None = None) -> None:
        self.experiment = experiment
        self._kept = None
        if folder is not None:
            own = Path(folder) / experiment.fingerprint
            own.parent.mkdir(parents=True, exist_ok=True)
            self._kept = Checkpoint(own, experiment.fingerprint)
        self._known: dict[str, dict[str, FloatArray]] = {}
        self._progress = progress
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
        """Images each is tested on."""
        return self.experiment.test_sizes.astype(np.float64)

    def accuracies(self, contributions: ArrayLike) -> FloatArray:
        """Every agent's test accuracy of the model that all train."""
        return read_only_copy(self.many([self.profile(contributions)])[0])

    def profile(self, contributions: ArrayLike) -> IntArray:
        """Whole samples used: contributions rounded."""
        require_single_lots(self.experiment, "a measured game")
        given = checked_numbers("contributions", contributions, lambda x: x >= 0, "at least zero")
        return np.broadcast_to(nearest_counts(given), (self.n_agents,))

    def many(self, profiles: ArrayLike) -> FloatArray:
        """Accuracies of several models at once, (models, n_agents); what is missing is trained in one go.

        Where agents have several lots, profiles are per lot.
        """
        rows = [tuple(map(int, row)) for row in np.atleast_2d(np.asarray(profiles))]
        missing = sorted({row for row in rows if any(row) and self._load(row) is None})
        if missing:
            for index, found in self.experiment.each(missing):
                self._keep(missing[index], {"accuracies": found})
        nothing = np.zeros(self.experiment.n_agents)
        return np.array([self._known[_piece(row)]["accuracies"] if any(row) else nothing for row in rows])

    def history(self, schedule: ArrayLike) -> Histories:
        """As `Experiment.history`."""
        rows = np.asarray(schedule, dtype=np.int64)
        asked = "history", rows.tolist()
        known = self._load(asked)
        if known is None:
            found = self.experiment.history(rows)
            known = self._keep(asked, {"accuracies": found.accuracies, "loss": found.loss})
        return Histories(contributions=rows, **{name: read_only_copy(part) for name, part in known.items()})

    def shapley(self, contributions: ArrayLike, *, permutations: int = 300, rng: int = 0) -> SampledShapley:
        """Shapley values of the sum of all agents' accuracies.

        Exact up to eight agents; beyond, from random coalitions, as many models as `permutations` of the agents would
        take, by default the paper's. The same `rng` draws the same coalitions.
        """
        used, n_agents = self.profile(contributions), self.n_agents

        def worth(coalitions: Sequence[Coalition]) -> FloatArray:
            members = np.array([np.isin(np.arange(n_agents), coalition) for coalition in coalitions])
            return self.many(np.where(members, used, 0)).sum(axis=1)

        budget = 1 << n_agents if n_agents <= EXACT_UP_TO else 2 + permutations * (n_agents - 1)
        return sample_game(worth, n_agents, budget=budget, rng=rng, batch=True)

    def _load(self, asked: Sequence[object]) -> dict[str, FloatArray] | None:
        """What was trained already, now or before an interruption."""
        piece = _piece(asked)
        stored = self._kept.load(piece) if piece not in self._known and self._kept is not None else None
        if stored is not None:
            self._known[piece] = stored
        return self._known.get(piece)

    def _keep(self, asked: Sequence[object], result: dict[str, FloatArray]) -> dict[str, FloatArray]:
        if self._kept is not None:
            self._kept.save(_piece(asked), result)
        self._known[_piece(asked)] = result
        self.trained += 1
        if self._progress is not None:
            self._progress(1)
        return result


def _piece(asked: Sequence[object]) -> str:
    """What a result is called on disk."""
    return f"model-{hashlib.sha256(repr(asked).encode()).hexdigest()[:16]}-0-0"


def nearest_counts(amounts: ArrayLike) -> IntArray:
    """The whole numbers nearest to some amounts, for designs of experiments; a deal is rounded down."""
    return np.rint(amounts).astype(np.int64)
