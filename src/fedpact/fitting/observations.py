"""What people have: accuracies measured under different contributions.

One observation is one run: what everybody contributed, and the accuracies of some of the agents. Coalition runs, the
points of a learning curve and the rounds of a log are all of this kind. Runs may repeat, and accuracies may be missing.
Where members have several lots of data or several tasks, contributions are per lot and accuracies per task.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation.lots import (
    OwnersGiven,
    Ownership,
    check_names,
    check_ownership,
    default_names,
    labels,
    owner_names,
)
from fedpact.utils.arrays import (
    FloatArray,
    LotLabels,
    TaskLabels,
    align,
    align_columns,
    label_positions,
    labels_of,
    read_only_copy,
)
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

Tests = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Observations:
    """Runs and what was measured in them; made by `Observations.of` or `Observations.from_csv`."""

    contributions: FloatArray  #: (runs, n), or (runs, lots): what each agent contributed
    accuracies: FloatArray  #: (runs, n), or (runs, tasks): between 0 and 1, NaN where nothing was measured
    #: Like accuracies: how many test samples stand behind each accuracy; NaN where that is not known
    test_sizes: FloatArray
    names: tuple[str, ...]  #: The agents' names
    rows: tuple[int, ...]  #: Where each run stands in its source, for messages: the row of a file, or the index
    left_out: tuple[int, ...] = ()  #: Rows of the source that could not be used, since a contribution was missing
    sources: tuple[str, ...] = ()  #: The file of each run where they come from several; empty otherwise
    ownership: Ownership  #: Whose lots and tasks there are
    has_lots: bool  #: Whether these were named; otherwise everybody has one of each

    @classmethod
    def of(
        cls,
        contributions: ArrayLike,
        accuracies: ArrayLike,
        test_sizes: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        *,
        lot_owners: OwnersGiven | None = None,
        task_owners: OwnersGiven | None = None,
        lot_names: Sequence[str] | None = None,
        task_names: Sequence[str] | None = None,
    ) -> Observations:
        """Observations from arrays with a row per run and a column per agent, or per lot and per task.

        Contributions (runs, n) are at least zero, and runs with a NaN are left out; accuracies (runs, n) lie between 0
        and 1, NaN where nothing was measured. `test_sizes` is a number, one per agent, or one per measurement. Where
        members have several lots or tasks, their owners and names are those of the columns, as `Federation` takes them.

        Examples
        --------
        >>> seen = Observations.of([[10, 0], [10, 20]], [[0.5, float("nan")], [0.6, 0.7]], test_sizes=1000)
        >>> seen.n_runs, seen.n_measured
        (2, 3)
        """
        has_lots = lot_owners is not None or task_owners is not None
        if names is None and not has_lots:
            names = labels_of(contributions, "columns") or labels_of(accuracies, "columns")
        columns = None if has_lots else names
        tests = checked_tests("contributions", contributions, accuracies, test_sizes, names=columns, has_lots=has_lots)
        given, measured, _ = tests
        _check(
            "contributions", given, np.isnan(given) | (np.isfinite(given) & (given >= 0)), "at least zero and finite"
        )
        if names is not None:
            names = check_names("names", names, None if has_lots else given.shape[1])
        agents = names or (owner_names(lot_owners, task_owners) if has_lots else default_names(given.shape[1]))
        owners = {"lot_owners": lot_owners, "lot_names": lot_names}
        owners |= {"task_owners": task_owners, "task_names": task_names}
        ownership = check_ownership(agents, (measured.shape[1], given.shape[1]), owners)
        return cls.checked(tests, agents, range(len(given)), ownership=ownership, has_lots=has_lots)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> Observations:
        """Observations from a CSV file (`from_files`): one row per run, columns `contributions.NAME`, `accuracy.NAME`
        and, if known, `test_size.NAME` for every agent. Empty cells and NaN are missing. Members with several lots or
        tasks have columns `contributions.NAME.LOT` and `accuracy.NAME.TASK`.
        """
        return cls.from_files([path])

    @classmethod
    def from_files(
        cls, paths: Sequence[str | os.PathLike[str]], *, member: str | None = None, lots: bool | None = None
    ) -> Observations:
        """Observations from several logs together: CSV files of runs, folders or `rounds.csv` of `fedpact train`, and
        ledgers. An agent that a log does not know gave nothing in it.

        With a member, its accuracies alone are used, and those of the others need not be known: a fit then says what
        everybody's data is worth to that member, and of the others no more than the prior does. `lots` says whether
        columns NAME.LOT and NAME.TASK are lots and tasks of members, or names with a dot in them; if it is not said,
        they are names where every column of contributions has one of accuracies of the same name.
        """
        from fedpact.fitting.logs import read_logs  # noqa: PLC0415 - the reader makes observations

        return read_logs([Path(path) for path in paths], member=member, lots=lots)

    @classmethod
    def checked(
        cls,
        tests: Tests,
        names: Sequence[str],
        rows: Sequence[int],
        *,
        ownership: Ownership,
        has_lots: bool,
        sources: Sequence[str] = (),
        member: str | None = None,
    ) -> Observations:
        """Observations from contributions, accuracies and test sizes that were checked already.

        Runs without all contributions are left out. With a member, nobody else has to be measured.
        """
        usable = np.asarray(~np.isnan(tests[0]).any(axis=1))
        if not usable.any():
            missing = f"{len(rows)} runs given, each lacks a contribution" if len(rows) else "none given"
            raise InvalidInput(
                f"there must be a run whose contributions are all known, {missing}; write 0 for a member that gave "
                f"nothing"
            )
        given, accuracies, sizes = (read_only_copy(part[usable]) for part in tests)
        for task, name in enumerate(labels(ownership.task_owners, ownership.task_names, names)):
            if member in {None, name} and np.isnan(accuracies[:, task]).all():
                raise InvalidInput(
                    f'no accuracy of member "{name}" was measured, so nothing says what data is worth to it; test the '
                    f"model of at least one run on its data, or leave the member out"
                )
        if not given.any():
            raise InvalidInput("all contributions are zero; a fit needs runs in which somebody contributes")
        return cls(
            contributions=given,
            accuracies=accuracies,
            test_sizes=sizes,
            names=tuple(names),
            rows=tuple(np.asarray(rows)[usable].tolist()),
            left_out=tuple(np.asarray(rows)[~usable].tolist()),
            sources=tuple(np.asarray(sources)[usable].tolist()) if sources else (),
            ownership=ownership,
            has_lots=has_lots,
        )

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return len(self.names)

    @property
    def n_lots(self) -> int:
        """How many columns of contributions there are."""
        return int(self.contributions.shape[1])

    @property
    def n_tasks(self) -> int:
        """How many columns of accuracies there are."""
        return int(self.accuracies.shape[1])

    @property
    def lot_labels(self) -> tuple[str, ...]:
        """What people call the columns of contributions."""
        return self._called("lot")

    @property
    def task_labels(self) -> tuple[str, ...]:
        """What people call the columns of accuracies."""
        return self._called("task")

    @property
    def lot_columns(self) -> tuple[str, ...]:
        """What files call the lots: NAME.LOT, or NAME where a lot has no name of its own."""
        return self._called("lot", in_files=True)

    @property
    def task_columns(self) -> tuple[str, ...]:
        """What files call the tasks."""
        return self._called("task", in_files=True)

    def _called(self, kind: str, *, in_files: bool = False) -> tuple[str, ...]:
        owners, own_names = (self.ownership._asdict()[f"{kind}_{part}"] for part in ("owners", "names"))
        found = labels(owners, own_names, self.names)
        if in_files:
            pairs = zip((self.names[owner] for owner in owners), own_names, strict=True)
            found = tuple(name if own == name else f"{name}.{own}" for name, own in pairs)
        return {"lot": LotLabels, "task": TaskLabels}[kind](found) if self.has_lots else found

    @property
    def owned(self) -> NDArray[np.bool_]:
        """(tasks, lots): whether the task's owner owns the lot."""
        return np.asarray(self.ownership.task_owners[:, None] == self.ownership.lot_owners)

    @property
    def n_runs(self) -> int:
        """How many runs there are."""
        return int(self.contributions.shape[0])

    @property
    def measured(self) -> NDArray[np.bool_]:
        """(runs, n): where an accuracy was measured."""
        return ~np.isnan(self.accuracies)

    @property
    def repeats(self) -> NDArray[np.intp]:
        """(runs,): the same number for runs with the same contributions."""
        _, groups = np.unique(self.contributions, axis=0, return_inverse=True)
        return np.asarray(groups.ravel(), dtype=np.intp)

    @property
    def n_measured(self) -> int:
        """How many accuracies were measured."""
        return int(self.measured.sum())

    def known_test_sizes(self) -> FloatArray | None:
        """Without gaps, like accuracies: an unknown size is taken as the agent's median, else as everybody's.

        None if no size is known.
        """
        sizes = np.where(self.measured, self.test_sizes, np.nan)
        if np.isnan(sizes).all():
            return None
        sizes[:, np.isnan(sizes).all(axis=0)] = np.nanmedian(sizes)
        return np.where(np.isnan(sizes), np.nanmedian(sizes, axis=0), sizes)

    def __repr__(self) -> str:
        lots = f"{self.n_lots} lots, {self.n_tasks} tasks, " if self.has_lots else ""
        counts = f"{count_text(self.n_runs, 'run')}, {count_text(self.n_agents, 'agent')}"
        return f"Observations({counts}, {lots}{self.n_measured} accuracies)"


class RunLabels(tuple[Any, ...]):
    """What the rows of a frame of runs are called."""

    kind = "run"


def checked_tests(
    label: str, given: Any, accuracies: Any, test_sizes: Any, *, names: Sequence[str] | None, has_lots: bool = False
) -> Tests:
    """What was given to runs (contributions, or 1 and 0 for subsets), accuracies and test sizes, as matrices.

    Columns of frames are put in the order of the names, and rows in the order of the runs of `given`.
    """
    chosen = _matrix(label, given, names)
    if names is not None and chosen.shape[1] != len(names):
        raise InvalidInput(
            f"{label} must have a column per member: {len(names)} members, {chosen.shape[1]} columns given"
        )
    measured = _matrix("accuracies", accuracies, names, runs=given)
    if measured.shape != chosen.shape and not (has_lots and len(measured) == len(chosen)):
        raise InvalidInput(
            f"accuracies must have the shape of {label}, a row per run and a column per member: "
            f"{chosen.shape} and {measured.shape} given"
        )
    for run, agent in np.argwhere(measured > 1)[:1]:
        raise InvalidInput(
            f"accuracies[{run}, {agent}] must lie between 0 and 1, got {measured[run, agent]:g}; "
            f"divide percentages by 100"
        )
    _check("accuracies", measured, np.isnan(measured) | (measured >= 0), "between 0 and 1")
    sizes = _matrix("test_sizes", np.nan if test_sizes is None else test_sizes, names, runs=given, like=measured)
    _check("test_sizes", sizes, np.isnan(sizes) | (np.isfinite(sizes) & (sizes >= 1)), "at least 1 and finite")
    return chosen, measured, sizes


def _matrix(
    label: str, given: Any, names: Sequence[str] | None, *, runs: Any = None, like: FloatArray | None = None
) -> FloatArray:
    """A row per run and a column per agent; frames are put in the order of the names, and of the frame of the `runs`.

    What has the shape of another matrix may be said once for all, or once for each column.
    """
    if hasattr(given, "columns"):
        if names is None and labels_of(given, "columns") is not None:
            raise InvalidInput(
                f"{label} must have no labels on its columns where members have several lots or tasks: give its "
                f".to_numpy(), in the order of the owners"
            )
        if hasattr(runs, "columns") and list(given.index) != list(runs.index):
            given = given.iloc[label_positions(label, list(given.index), RunLabels(runs.index))]
        given = given if names is None else align_columns(label, given, names)
    elif names is not None and like is not None:
        given = align(label, given, names)
    try:
        matrix = np.array(given, dtype=np.float64)
        matrix = matrix if like is None else np.array(np.broadcast_to(matrix, like.shape))
    except (TypeError, ValueError) as error:
        rule = "a matrix of numbers, a row per run and a column per member"
        if like is not None:
            rule = f"a number, one per member, or one per accuracy ({like.shape[0]} x {like.shape[1]})"
        raise InvalidInput(f"{label} must be {rule}, got {given!r:.80}") from error
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInput(f"{label} must be a matrix, a row per run and a column per member, got shape {matrix.shape}")
    return matrix


def _check(label: str, numbers: FloatArray, allowed: NDArray[np.bool_], rule: str) -> None:
    for run, agent in np.argwhere(~allowed)[:1]:
        raise InvalidInput(f"{label}[{run}, {agent}] must be {rule}, got {numbers[run, agent]:g}")
