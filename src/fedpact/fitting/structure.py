"""What the weights of lots have in common, so that few runs say something about many of them.

Every task r has a scale, and ratio_rl says how useful lot l is to it: w_rl = exp(scale_r) ratio_rl, with

    ratio_rl = exp(quality_l + likeness(owner of r, owner of l) + likeness(kind of r, kind of l)) (1 + difference_rl):

a factor per task, a quality per lot, and similarities. The parts are drawn around zero, each sort with a spread of its
own: the quality of a lot is the same for all tasks, the likeness of two members for all of their tasks and lots, and
that of two kinds for all tasks and lots of these names. What no part explains is the difference. The spreads are
estimated with the rest (an EM step after each pass), so that parts which explain something are trusted and the
differences shrink towards what they say: a weight that few runs speak of is then much like those of the same lot, of
the same members and of the same kinds. The exponential is taken to first order around the parts of the pass before, so
that within a pass all is linear; a weight may be zero or below.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.lots import Ownership
from fedpact.utils.arrays import FloatArray

MAX_LOG_RATIO = 4.0  # of what parts make: beyond, they have no meaning
FIRST_SPREADS = {"quality": 1.0, "members": 0.5, "kinds": 0.5}  # before there is an estimate
PSEUDO_PARTS = 2.0  # that say so
SPREAD_LIMITS = (0.02, 10.0)
MAX_PARTS = 200  # of a sort; of more, estimates would take long and say little
SPREAD_CHANGE = 0.03  # relative


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightStructure:
    """The parts that ratios are made of.

    Attributes
    ----------
    design
        (tasks, lots, parts): how much of a part a ratio has, more than ratios have on average.
    sorts
        (parts,): which sort each is of.
    precisions
        (parts,): one over the squared spread of its sort.
    first_precisions
        The same before anything was estimated.
    owned
        (tasks, lots): whether the task's owner owns the lot.
    first_difference
        Precision of the differences before anything was estimated.
    origin, base
        (parts,) and (tasks, lots): the parts around which the exponential is linear, and the ratios they make.
    """

    design: FloatArray
    sorts: NDArray[np.intp]
    precisions: FloatArray
    first_precisions: FloatArray
    owned: NDArray[np.bool_]
    first_difference: float
    origin: FloatArray
    base: FloatArray

    @classmethod
    def of(cls, ownership: Ownership, prior: float) -> WeightStructure:
        """Of members with lots and tasks; without a prior nothing is held to be alike."""
        tasks, lots = ownership.task_owners, ownership.lot_owners
        shape = (tasks.size, lots.size)

        def kind(task: int, lot: int) -> Hashable:
            return ownership.task_names[task], ownership.lot_names[lot]

        sorts: Sequence[tuple[str, Callable[[int, int], Hashable]]] = (
            ("quality", lambda task, lot: lot),
            ("members", lambda task, lot: (tasks[task], lots[lot])),
            ("kinds", kind),
        )
        designs, sort_of, first = [], [], []
        for place, (sort, key) in enumerate(sorts):
            keys = [[key(task, lot) for lot in range(shape[1])] for task in range(shape[0])]
            parts = {part: column for column, part in enumerate(dict.fromkeys(part for row in keys for part in row))}
            if not 1 < len(parts) < min(tasks.size * lots.size, MAX_PARTS + 1) or prior == 0:
                continue
            made = np.array([[np.eye(len(parts))[parts[part]] for part in row] for row in keys])
            designs.append(made - made.mean(axis=(0, 1)))  # what all ratios have in common is the scales'
            sort_of += [place] * len(parts)
            first += [prior * FIRST_SPREADS[sort] ** -2.0] * len(parts)
        return cls(
            design=np.concatenate([np.zeros((*shape, 0)), *designs], axis=2),
            sorts=np.array(sort_of, dtype=np.intp),
            precisions=np.array(first),
            first_precisions=np.array(first),
            owned=np.asarray(tasks[:, None] == lots[None, :]),
            first_difference=prior,
            origin=np.zeros(len(first)),
            base=np.ones(shape),
        )

    @property
    def n_parts(self) -> int:
        """How many parts there are."""
        return int(self.sorts.size)

    def expected(self, parts: FloatArray) -> FloatArray:
        """(tasks, lots): the ratios that the parts make."""
        return np.asarray(self.base * (1.0 + self.design @ (parts - self.origin)))

    def around(self, parts: FloatArray) -> WeightStructure:
        """The same, linear around other parts."""
        base = np.exp(np.clip(self.design @ parts, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        return replace(self, origin=parts, base=base)

    def with_spreads(
        self, squares: FloatArray, differences: FloatArray, difference: float
    ) -> tuple[WeightStructure, float, bool]:
        """After an EM step: with new spreads, the precision of the differences, and whether all have settled.

        Parameters
        ----------
        squares
            (parts,): expected squares of the parts.
        differences
            Flat: expected squares of the differences.
        difference
            The precision of the differences before the step.
        """
        if self.first_difference == 0:
            return self, difference, True
        precisions = self.precisions.copy()
        for sort in np.unique(self.sorts):
            chosen = self.sorts == sort
            precisions[chosen] = _precision(squares[chosen], float(self.first_precisions[chosen][0]))
        found = _precision(differences, self.first_difference)
        before, after = np.append(self.precisions, difference), np.append(precisions, found)
        settled = bool((np.abs(np.log(after / before)) <= 2.0 * SPREAD_CHANGE).all())
        return replace(self, precisions=precisions), found, settled


def _precision(squares: FloatArray, first: float) -> float:
    variance = (PSEUDO_PARTS / first + float(squares.sum())) / (PSEUDO_PARTS + squares.size)
    return float(np.clip(variance, SPREAD_LIMITS[0] ** 2, SPREAD_LIMITS[1] ** 2)) ** -1
