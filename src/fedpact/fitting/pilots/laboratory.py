"""What was measured: scores of every member under an arrangement, at what everybody shares, over several splits.

A `Measurement` holds the jackknife of every member's score (`scores`) in every split; differences
between two of them are paired. Runs are kept on disk as soon as they are known, so that an interrupted pilot goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from fedpact.fitting.pilots.arrangements import ALONE, Run, Trainer
from fedpact.fitting.pilots.scores import difference
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.parallel import is_configured, map_parallel, run_on_one_thread, worker_count

Shares = tuple[float, ...]
MIN_SHARED_SECONDS = 5.0  # of work left from which starting workers pays


@dataclass(frozen=True, eq=False)
class Measurement:
    """Scores of every member, (splits, 1 + groups) each: of all records, and without each group of them."""

    scores: tuple[FloatArray, ...]

    @property
    def means(self) -> FloatArray:
        """(n,): over splits, of all records."""
        return np.array([float(own[:, 0].mean()) for own in self.scores])

    def gains_over(self, other: Measurement) -> tuple[FloatArray, FloatArray]:
        """(n,) each: differences to another measurement on the same splits, and their variances."""
        found = [difference(own, theirs) for own, theirs in zip(self.scores, other.scores, strict=True)]
        return np.array([mean for mean, _ in found]), np.array([variance for _, variance in found])


@dataclass(frozen=True, eq=False)
class Laboratory:
    """Trains what is asked for and was not trained yet."""

    trainer: Trainer  # What is trained
    kept: Checkpoint | None  # Where runs are kept; None if nowhere
    count: Callable[[str, int, int], None]  # Told after every run what was done
    done: dict[Run, list[FloatArray]] = field(default_factory=dict)  # What was trained, or read, so far

    def measure(self, wanted: Sequence[tuple[str, Shares]], splits: Sequence[int], doing: str) -> list[Measurement]:
        """One measurement for each arrangement and shares."""
        runs: list[Run] = [(arrangement, shares, split) for split in splits for arrangement, shares in wanted]
        for run in runs:
            known = self.kept.load(_piece(run)) if self.kept is not None and run not in self.done else None
            if known is not None:
                self.done[run] = [known[f"member{place}"] for place in range(len(known))]
        missing = [run for run in dict.fromkeys(runs) if run not in self.done]
        with closing(self._results(missing)) as results:
            for done, (run, scores) in enumerate(results, start=1):
                self.done[run] = scores
                if self.kept is not None:
                    self.kept.save(_piece(run), {f"member{place}": own for place, own in enumerate(scores)})
                self.count(doing, len(runs) - len(missing) + done, len(runs))
        measured = [[self.done[arrangement, shares, split] for split in splits] for arrangement, shares in wanted]
        return [Measurement(tuple(np.stack(own) for own in zip(*each, strict=True))) for each in measured]

    def seconds(self, arrangement: str, shares: Shares) -> float:
        """How long a run takes here; one of the first split, which is kept."""
        begun = time.process_time()
        self.measure([(arrangement, shares)], [0], "one run, for its time")
        return time.process_time() - begun

    def _scored(self, run: Run) -> list[FloatArray]:
        return run_on_one_thread(self.trainer.scored, run)

    def _results(self, runs: Sequence[Run]) -> Generator[tuple[Run, list[FloatArray]], None, None]:
        if is_configured():
            yield from map_parallel(self.trainer.scored, runs)
            return
        for place, run in enumerate(runs):
            begun = time.process_time()
            yield run, self._scored(run)
            left = (len(runs) - place - 1) * (time.process_time() - begun)
            if run[0] != ALONE and left > MIN_SHARED_SECONDS and worker_count() > 1:
                yield from map_parallel(self.trainer.scored, runs[place + 1 :])
                return


def _piece(run: Run) -> str:
    arrangement, shares, split = run
    digits = "-".join(f"{round(1000 * share)}" for share in shares)
    return f"{arrangement.replace(' ', '-')}-{digits}-{split}-0"
