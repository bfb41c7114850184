"""Ways to use what members share, trained and tested: everybody alone, one model for all, own choice.

**Alone**: a model of a member's own records. **One model**: of all that is shared, the same for everybody. **Own
choice**: a member always uses its own records at home, and of what others share what helps it. It chooses by folds
inside its own training records, never by its tests, among

* its own records alone;
* with those of all others, or of one of them, which count in full, for three tenths or for a tenth;
* a model of everything, tuned on its own records (its answers are recalibrated by a regression on its own records).

It leaves its own records alone only for what is better by more than one standard error: with a hundred records the
best of ten noisy scores is often the luckiest. With fewer than ten records of a class it has nothing to choose by.

A `Measurement` holds what was found of every member's score in every split; differences between two of them are
paired. Runs are kept on disk as soon as they are known, so that an interrupted pilot goes on.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fedpact.fitting.pilots.models import PilotModel, ScoreFunction, kept_records
from fedpact.fitting.pilots.records import CLASSIFICATION, Fold, Index, PilotData, deal_folds, shared_records
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.parallel import map_parallel, run_on_one_thread
from fedpact.utils.threads import thread_count

ALONE, ONE_MODEL, OWN_CHOICE = "alone", "one model", "own choice"
WEIGHTS = (0.3, 0.1)  # of others' records beside a member's own, other than in full
INNER_FOLDS = 3
MIN_OF_CLASS = 10  # training records of every class a member has that it can choose by
MAX_SINGLE = 6  # members up to which the records of each other one are tried by themselves
SMALLEST = 1e-4  # probability that is told from none when answers are recalibrated
MIN_SHARED_SECONDS = 5.0  # of work left from which starting workers pays
Predict = Callable[[FloatArray], FloatArray]
Shares = tuple[float, ...]
Run = tuple[str, Shares, int]  # arrangement, shares of every lot, split


class Candidate(NamedTuple):
    """Whose shared records a member uses beside its own, and how much each counts; tuned on its own if asked."""

    others: tuple[int, ...] = ()
    weight: float = 1.0
    tuned: bool = False


@dataclass(frozen=True, eq=False)
class Measurement:
    """What was found of every member's score, (splits, ...) each: the score, and what its variance follows from."""

    score: ScoreFunction
    scores: tuple[FloatArray, ...]

    @property
    def means(self) -> FloatArray:
        """(n,): over splits, of all records."""
        return np.array([float(own[:, 0].mean()) for own in self.scores])

    def gains_over(self, other: Measurement) -> tuple[FloatArray, FloatArray]:
        """(n,) each: differences to another measurement on the same splits, and their variances."""
        found = [self.score.difference(*pair) for pair in zip(self.scores, other.scores, strict=True)]
        return np.array([mean for mean, _ in found]), np.array([variance for _, variance in found])


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains and tests models on members' records; it travels to workers with its data.

    What was found in the split at hand is remembered: profiles of sharing have much in common.
    """

    data: PilotData
    model: PilotModel
    score: ScoreFunction
    seed: int
    remembered: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, run: Run) -> list[FloatArray]:
        """The predictions of every member's records, each by a model that has not seen it."""
        arrangement, shares, split = run
        if self.remembered.get("split") != split:
            self.remembered.clear()
            self.remembered["split"] = split
        owners = np.array(self.data.lot_owners)
        by_member = [tuple(np.array(shares)[owners == member]) for member in range(len(self.data.names))]
        found = [self.empty(len(own)) for own in self.data.records]
        for number, folds in enumerate(zip(*deal_folds(self.data, [self.seed, split]), strict=True)):
            fold = _Fold(self, number, folds, by_member)
            for member, own in enumerate(folds):
                found[member][own.test] = fold.predictions(member, arrangement)
        return found

    def scored(self, run: Run) -> list[FloatArray]:
        """What is found of every member's score in a run."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence and columns without a value: the score tells
            pairs = zip(self(run), self.data.records, strict=True)
            return [self.score.measure(made, own.truth, kept_records(own.truth, own.groups)) for made, own in pairs]

    def empty(self, n: int) -> FloatArray:
        """Predictions of n records, to fill in."""
        return np.zeros((n, self.model.n_classes) if self.data.task == CLASSIFICATION else n)


@dataclass(frozen=True, eq=False)
class Laboratory:
    """Trains what is asked for and was not trained yet."""

    trainer: Trainer
    kept: Checkpoint | None = None  # where runs are kept
    count: Callable[[str, int, int], None] = lambda doing, done, total: None  # told after every run what was done
    done: dict[Run, list[FloatArray]] = field(default_factory=dict)  # what was trained, or read, so far

    def measure(self, wanted: Sequence[tuple[str, Shares]], splits: Sequence[int], doing: str) -> list[Measurement]:
        """One measurement for each arrangement and shares."""
        runs: list[Run] = [(arrangement, shares, split) for split in splits for arrangement, shares in wanted]
        for run in runs:
            known = self.kept.load(_piece(run)) if self.kept is not None and run not in self.done else None
            if known is not None:
                self.done[run] = [known[f"member{member}"] for member in range(len(known))]
        missing = [run for run in dict.fromkeys(runs) if run not in self.done]
        with closing(self._results(missing)) as results:
            for done, (run, scores) in enumerate(results, start=1):
                self.done[run] = scores
                if self.kept is not None:
                    self.kept.save(_piece(run), {f"member{member}": own for member, own in enumerate(scores)})
                self.count(doing, len(runs) - len(missing) + done, len(runs))
        measured = [[self.done[arrangement, shares, split] for split in splits] for arrangement, shares in wanted]
        by_member = [tuple(np.stack(own) for own in zip(*each, strict=True)) for each in measured]
        return [Measurement(self.trainer.score, scores) for scores in by_member]

    def _results(self, runs: Sequence[Run]) -> Generator[tuple[Run, list[FloatArray]], None, None]:
        for index, run in enumerate(runs):
            begun = time.process_time()
            yield run, run_on_one_thread(self.trainer.scored, run)
            left = (len(runs) - index - 1) * (time.process_time() - begun)
            if run[0] != ALONE and left > MIN_SHARED_SECONDS and thread_count() > 1:
                yield from map_parallel(self.trainer.scored, runs[index + 1 :])
                return


def _piece(run: Run) -> str:
    """What a run is called on disk."""
    arrangement, shares, split = run
    digits = "-".join(f"{round(1000 * share)}" for share in shares)
    return f"{arrangement.replace(' ', '-')}-{digits}-{split}-0"


@dataclass(frozen=True, eq=False)
class _Fold:
    """One fold of one split, with what every member shares of its training records."""

    trainer: Trainer
    number: int
    folds: Sequence[Fold]
    shares: Sequence[Shares]

    @cached_property
    def shared(self) -> list[Index]:
        parts = zip(self.trainer.data.records, self.folds, self.shares, strict=True)
        return [shared_records(*part) for part in parts]

    @cached_property
    def common(self) -> Predict:
        return self._train([(member, rows) for member, rows in enumerate(self.shared) if len(rows)], 1.0)

    def predictions(self, member: int, arrangement: str) -> FloatArray:
        """Of the member's records in this fold."""
        own = self.folds[member]
        if arrangement == ONE_MODEL and any(map(len, self.shared)):
            return self.common(self.trainer.data.records[member].features[own.test])
        chosen = self._choose(member) if arrangement == OWN_CHOICE else Candidate()
        return self._remember(("test", member, chosen), partial(self._answers, member, own.train, own.test, chosen))

    def _remember(self, what: tuple[Any, ...], work: Callable[[], Any]) -> Any:
        """What is known already in this fold, for these shares of the others that a candidate uses."""
        key = (self.number, *what, tuple(self.shares[other] for other in what[-1].others))
        if key not in self.trainer.remembered:
            self.trainer.remembered[key] = work()
        return self.trainer.remembered[key]

    def _train(self, parts: Sequence[tuple[int, Index]], weight: float) -> Predict:
        """A model of some members' records; those of all but the first count for `weight`."""
        records = self.trainer.data.records
        features = np.concatenate([records[member].features[rows] for member, rows in parts])
        targets = np.concatenate([records[member].targets[rows] for member, rows in parts])
        counted = np.where(np.arange(len(targets)) < len(parts[0][1]), 1.0, weight)
        return self.trainer.model.train(features, targets, None if weight == 1.0 else counted)

    def _answers(self, member: int, train: Index, test: Index, chosen: Candidate) -> FloatArray:
        """What a candidate, with these records of the member's own, predicts of others of its own."""
        own, remembered = self.trainer.data.records[member], self.trainer.remembered
        key = (self.number, member, chosen.others, chosen.weight, self.shares, train.tobytes())
        if remembered.get("last", (None,))[0] != key:  # the model to be tuned is mostly the one trained last
            parts = [(member, train), *((other, self.shared[other]) for other in chosen.others)]
            remembered["last"] = key, self._train(parts, chosen.weight)
        model: Predict = remembered["last"][1]
        return (self._tune(model, member, train) if chosen.tuned else model)(own.features[test])

    def _tune(self, model: Predict, member: int, train: Index) -> Predict:
        """A model whose answers a regression on a member's own records has recalibrated."""
        from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415 - slow to import

        own, n_classes = self.trainer.data.records[member], self.trainer.model.n_classes
        targets, answers = own.targets[train], model(own.features[train])
        if self.trainer.data.task != CLASSIFICATION:
            line = LinearRegression().fit(answers[:, None], targets)
            return lambda rows: np.asarray(line.predict(model(rows)[:, None]))
        if len(seen := np.unique(targets).astype(int)) < 2:
            return model
        step = LogisticRegression().fit(_log_odds(answers), targets)
        return lambda rows: step.predict_proba(_log_odds(model(rows))) @ np.eye(n_classes)[seen]

    def _choose(self, member: int) -> Candidate:
        """The candidate that inner folds put furthest above a member's own records alone, beyond one standard error."""
        candidates = self._candidates(member)
        scores = self._inner_scores(member, [Candidate(), *candidates]) if candidates else {}
        best, most = Candidate(), 0.0
        for candidate in candidates:
            better, variance = self.trainer.score.difference(scores[candidate], scores[Candidate()])
            if (sure := better - float(np.sqrt(variance))) > most:
                best, most = candidate, sure
        return best

    def _candidates(self, member: int) -> list[Candidate]:
        others = tuple(other for other, rows in enumerate(self.shared) if other != member and len(rows))
        data = self.trainer.data
        _, counts = np.unique(data.records[member].targets[self.folds[member].train], return_counts=True)
        if not others or (data.task == CLASSIFICATION and counts.min() < MIN_OF_CLASS):
            return []
        weights = WEIGHTS if self.trainer.model.takes_weights else ()
        singles = others if 1 < len(others) < MAX_SINGLE else ()
        every = [Candidate(others), Candidate(others, tuned=True), *(Candidate(others, weight) for weight in weights)]
        return every + [Candidate((single,)) for single in singles]

    def _inner_scores(self, member: int, candidates: Sequence[Candidate]) -> dict[Candidate, FloatArray]:
        """(1, ...) each: what is found of the score by inner folds."""
        own, train = self.trainer.data.records[member], self.folds[member].train
        split, targets = self.trainer.remembered["split"], own.targets[train]
        rng = np.random.default_rng([self.trainer.seed, member, split, self.number])
        folds = rng.permutation(len(train)) % INNER_FOLDS
        if self.trainer.data.task == CLASSIFICATION:  # every class evenly
            folds[np.lexsort((folds, targets))] = np.arange(len(train)) % INNER_FOLDS
        kept = kept_records(targets, own.groups[train])
        predictions = {each: self.trainer.empty(len(train)) for each in candidates}
        for inner in range(INNER_FOLDS):
            rows = folds == inner
            for each, found in predictions.items():
                work = partial(self._answers, member, train[~rows], train[rows], each)
                found[rows] = self._remember((inner, member, each), work)
        measure = self.trainer.score.measure
        return {
            each: self._remember(("score", member, each), partial(measure, found, targets, kept))[None]
            for each, found in predictions.items()
        }


def _log_odds(probabilities: FloatArray) -> FloatArray:
    inside = np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)
    return np.asarray(np.log(inside[:, 1:] / inside[:, :1]))
