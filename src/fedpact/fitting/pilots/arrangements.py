"""Ways to use what members share, trained and tested: everybody alone, one model for all, own choice.

**Alone**: a model of a member's own records. **One model**: of all that is shared, the same for everybody. **Own
choice**: a member always uses its own records at home, and of what others share what helps it. It chooses by folds
inside its own training records, never by its tests, among

* its own records alone;
* with those of all others, or of one of them, which count in full, for three tenths or for a tenth;
* a model of everything, tuned on its own records (its answers are recalibrated by a regression on its own records).

It leaves its own records alone only for what is better by more than one standard error: with a hundred records the
best of ten noisy scores is often the luckiest. With fewer than ten records of a class it has nothing to choose by.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.fitting.pilots.estimators import PilotModel
from fedpact.fitting.pilots.records import (
    CLASSIFICATION,
    Fold,
    Index,
    PilotData,
    Records,
    deal_folds,
    shared_records,
)
from fedpact.fitting.pilots.scores import ScoreFunction, difference
from fedpact.utils.arrays import FloatArray

ALONE, ONE_MODEL, OWN_CHOICE = "alone", "one model", "own choice"
WEIGHTS = (1.0, 0.3, 0.1)  # of others' records beside a member's own
INNER_FOLDS = 3
MIN_OF_CLASS = 10  # training records of every class a member has that it can choose by
MAX_SINGLE = 6  # members up to which the records of each other one are tried by themselves
SMALLEST = 1e-4  # probability that is told from none when answers are recalibrated
Predict = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Candidate:
    """Whose shared records a member uses beside its own, and how much each counts; tuned on its own if asked."""

    others: tuple[int, ...] = ()
    weight: float = 1.0
    tuned: bool = False


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains and tests models on members' records; it travels to workers with its data.

    A run is (arrangement, shares of every lot, split); what comes of it is a list with the predictions for every
    record of each member.
    """

    data: PilotData
    model: PilotModel
    score: ScoreFunction
    seed: int

    def __call__(self, run: tuple[str, tuple[float, ...], int]) -> list[FloatArray]:
        """Predictions of every member's records, each by a model that has not seen it."""
        arrangement, shares, split = run
        dealt = deal_folds(self.data, [self.seed, split])
        owners = np.array(self.data.lot_owners)
        found = [self._empty(own) for own in self.data.records]
        for fold, folds in enumerate(zip(*dealt, strict=True)):
            shared = [
                shared_records(own, mine, np.array(shares)[owners == member])
                for member, (own, mine) in enumerate(zip(self.data.records, folds, strict=True))
            ]
            common = self._common(shared) if arrangement == ONE_MODEL else None
            for member, own in enumerate(self.data.records):
                mine: Fold = folds[member]
                if common is not None:
                    model = common
                else:
                    model = self._own(member, mine.train, shared, [split, fold] if arrangement == OWN_CHOICE else None)
                found[member][mine.test] = model(own.features[mine.test])
        return found

    def scored(self, run: tuple[str, tuple[float, ...], int]) -> list[FloatArray]:
        """Every member's score in a run, with all records and without each group of them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence and columns without a value: the score tells
            found = self(run)
        return [self.score.jackknife(made, own) for made, own in zip(found, self.data.records, strict=True)]

    def _empty(self, own: Records) -> FloatArray:
        return np.zeros((len(own), self.model.n_classes) if self.data.task == CLASSIFICATION else len(own))

    def _common(self, shared: Sequence[Index]) -> Predict | None:
        parts = [(own, rows) for own, rows in zip(self.data.records, shared, strict=True) if len(rows)]
        return self._train(parts, [1.0] * len(parts)) if parts else None

    def _train(self, parts: Sequence[tuple[Records, Index]], weights: Sequence[float]) -> Predict:
        features = np.concatenate([own.features[rows] for own, rows in parts])
        targets = np.concatenate([own.targets[rows] for own, rows in parts])
        counted = None
        if any(weight != 1.0 for weight in weights):
            counted = np.concatenate([np.full(len(rows), w) for (_, rows), w in zip(parts, weights, strict=True)])
        return self.model.train(features, targets, counted)

    def _own(self, member: int, train: Index, shared: Sequence[Index], inner: Sequence[int] | None) -> Predict:
        chosen = Candidate()
        candidates = self._candidates(member, shared) if inner is not None and self._can_choose(member, train) else []
        if candidates:
            chosen = self._choose(member, train, shared, candidates, [self.seed, member, *(inner or ())])
        return self._fit(member, train, shared, chosen)

    def _can_choose(self, member: int, train: Index) -> bool:
        targets = self.data.records[member].targets[train]
        _, counts = np.unique(targets, return_counts=True)
        return self.data.task != CLASSIFICATION or bool(counts.min() >= MIN_OF_CLASS)

    def _candidates(self, member: int, shared: Sequence[Index]) -> list[Candidate]:
        others = tuple(other for other, rows in enumerate(shared) if other != member and len(rows))
        if not others:
            return []
        weights = WEIGHTS if self.model.takes_weights else (1.0,)
        singles = [(other,) for other in others] if 1 < len(others) < MAX_SINGLE else []
        found = [Candidate(others, weight) for weight in weights] + [Candidate(single) for single in singles]
        return [*found, Candidate(others, tuned=True)]

    def _fit(self, member: int, train: Index, shared: Sequence[Index], chosen: Candidate) -> Predict:
        own = self.data.records[member]
        parts = [(own, train), *((self.data.records[other], shared[other]) for other in chosen.others)]
        model = self._train(parts, [1.0, *([chosen.weight] * len(chosen.others))])
        return self._tune(model, own, train) if chosen.tuned else model

    def _tune(self, model: Predict, own: Records, train: Index) -> Predict:
        """A model whose answers a regression on a member's own records has recalibrated."""
        from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415 - slow to import

        targets = own.targets[train]
        if self.data.task != CLASSIFICATION:
            line = LinearRegression().fit(model(own.features[train])[:, None], targets)
            return lambda rows: np.asarray(line.predict(model(rows)[:, None]))
        seen = np.unique(targets).astype(int)
        if len(seen) < 2:
            return model
        step = LogisticRegression().fit(_log_odds(model(own.features[train])), targets)

        def predict(rows: FloatArray) -> FloatArray:
            found = np.zeros((len(rows), self.model.n_classes))
            found[:, seen] = step.predict_proba(_log_odds(model(rows)))
            return found

        return predict

    def _choose(
        self, member: int, train: Index, shared: Sequence[Index], candidates: Sequence[Candidate], seed: Sequence[int]
    ) -> Candidate:
        """The candidate that inner folds put furthest above a member's own records alone, beyond one standard error."""
        own = self.data.records[member]
        mine = _part(own, train)
        folds = np.random.default_rng(list(seed)).permutation(len(train)) % INNER_FOLDS
        if self.data.task == CLASSIFICATION:  # every class evenly
            order = np.lexsort((folds, mine.targets))
            folds[order] = np.arange(len(train)) % INNER_FOLDS

        def tested(candidate: Candidate) -> FloatArray:
            found = self._empty(mine)
            for fold in range(INNER_FOLDS):
                model = self._fit(member, train[folds != fold], shared, candidate)
                found[folds == fold] = model(mine.features[folds == fold])
            return self.score.jackknife(found, mine)[None]

        alone = tested(Candidate())
        best, most = Candidate(), 0.0
        for candidate in candidates:
            better, variance = difference(tested(candidate), alone)
            if better - np.sqrt(variance) > most:
                best, most = candidate, better - float(np.sqrt(variance))
        return best


def _part(own: Records, rows: Index) -> Records:
    return Records.of(own.features[rows], own.targets[rows], groups=own.groups[rows])


def _log_odds(probabilities: FloatArray) -> FloatArray:
    inside = np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)
    return np.asarray(np.log(inside[:, 1:] / inside[:, :1]))
