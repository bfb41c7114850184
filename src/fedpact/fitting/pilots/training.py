"""Models of coalitions, trained once each and kept as soon as they are known: here, in workers or on a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from fedpact.fitting.pilots.coalitions import coalition_records
from fedpact.fitting.pilots.estimators import CoalitionModel
from fedpact.fitting.pilots.records import PilotData
from fedpact.fitting.store import Store
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.parallel import is_configured, map_parallel, run_on_one_thread, worker_count

RunKey = tuple[int, ...]
MIN_SHARED_SECONDS = 5.0  # of work left from which starting workers pays


@dataclass(frozen=True, eq=False)
class CoalitionTrainer:
    """Trains the models of a pilot; it travels to workers with its data."""

    data: PilotData
    model: CoalitionModel

    def __call__(self, run: RunKey) -> list[float]:
        """The scores of a run's model, one per member."""
        return self.model.scores(coalition_records(self.data, run, self.model.seed))

    def train(self, runs: Sequence[RunKey], store: Store, count: Callable[[int, int], None]) -> None:
        """Train what is not in the store yet, and put it there."""
        missing = [run for run in dict.fromkeys(runs) if _key(run) not in store]
        with closing(self._results(missing)) as results:
            for done, (run, scores) in enumerate(results, start=1):
                store.put(_key(run), scores)
                count(done, len(missing))

    def _results(self, runs: Sequence[RunKey]) -> Generator[tuple[RunKey, list[float]], None, None]:
        if is_configured():
            yield from map_parallel(self, runs)
            return
        for place, run in enumerate(runs):
            begun = time.perf_counter()
            yield run, run_on_one_thread(self, run)
            left = (len(runs) - place - 1) * (time.perf_counter() - begun)
            if self.model.score is None and left > MIN_SHARED_SECONDS and worker_count() > 1:
                yield from map_parallel(self, runs[place + 1 :])
                return


def trained_scores(store: Store, run: RunKey, n_members: int) -> list[float]:
    """What the store holds of a run; NaN where nothing was measured."""
    kept = store[_key(run)]
    try:
        scores = [float("nan") if score is None else float(score) for score in kept]
    except (TypeError, ValueError):
        scores = []
    if len(scores) != n_members or any(score < 0.0 or score > 1.0 for score in scores):
        raise InvalidInput(
            f"{store.path}: the result of {_key(run)} must be {n_members} scores between 0 and 1, got "
            f"{short_repr(kept)}; remove its line, and the model is trained anew"
        )
    return scores


def _key(run: RunKey) -> str:
    return json.dumps(list(run))
