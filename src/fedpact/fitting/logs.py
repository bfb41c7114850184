"""Logs of every kind as runs: tables of runs, rounds of any tool, what `fedpact train` leaves, ledgers.

**Tables of runs** have one row per run, with columns `contributions.NAME`, `accuracy.NAME`, `test_size.NAME`:

    contributions.North,contributions.South,accuracy.North,accuracy.South,test_size.North
    100,0,0.71,,1000
    100,50,0.78,0.74,1000

Members with several lots of data, or several tests, have columns `contributions.NAME.LOT` and `accuracy.NAME.TASK`. A
name may hold dots that a space follows ("St. Mary.X-rays" is the lot X-rays of St. Mary). Where every column of
contributions has one of accuracies by the same name, dots are part of the names, unless the caller says otherwise.
Models made of subsets of the updates have columns `subset.NAME` in place of contributions: 1 where the model is made of
that member's update too, 0 where it is not.

**Tables of rounds**, as anybody can write them down, have one row per round and member:

    round,member,samples,score,subset,test_size
    10,North,400,0.81,,1000
    10,South,250,0.78,,800
    10,North,400,0.74,North,1000
    10,South,250,0.69,North,800

`samples` is what the member trained on in that round, `score` what the model after it scores on the member's test data.
`subset` says of whose updates the model is made, names joined by "+": everybody's where the cell is empty or the column
is missing. A member with 1 in a column `alone`, as `fedpact train` writes it, has a model of its own data. `test_size`
may be missing too. Only the last round counts: earlier ones are the same data, trained less.

**Ledgers** hold the model that their run ended in, and models made of subsets of the updates. Contributions are in the
units of the scenario. A member that a log does not know was not there: it gave nothing, and measured nothing.

Cells that are empty or say NaN are missing. Rows are counted as a spreadsheet does: the head is row 1. Separators,
decimal commas and percent signs are those of `fedpact.utils.tables`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedpact.deals.ledger import MEASURED, TRAINED, VERIFIED, is_ledger
from fedpact.federation.lots import Ownership
from fedpact.fitting.observations import Observations, Tests
from fedpact.negotiation.check import CheckedLedger
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.tables import csv_rows, number_format, read_cells

ROUNDS_FILE, ALONE_FILE = "rounds.csv", "alone.csv"
ROUND_HEADS, OPTIONAL_HEADS = ("round", "member", "samples", "score"), ("subset", "alone", "test_size")
CONTRIBUTIONS, SUBSET, ACCURACY, TEST_SIZE, ROUND = "contributions", "subset", "accuracy", "test_size", "round"
RUN_KINDS = (CONTRIBUTIONS, ACCURACY, TEST_SIZE)
SUBSET_KINDS = (SUBSET, ACCURACY, TEST_SIZE)
RULES: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    CONTRIBUTIONS: ("a number of samples, at least 0 and below 1e15", lambda number: 0.0 <= number < MAX_SAMPLES),
    SUBSET: ("1 or 0", lambda number: number in (0.0, 1.0)),
    ACCURACY: ("a number between 0 and 1", lambda number: 0.0 <= number <= 1.0),
    TEST_SIZE: ("a number of samples, at least 1", lambda number: 1.0 <= number < math.inf),
    ROUND: ("a number of at least 0", lambda number: 0.0 <= number < math.inf),
}
OWN_NAME = re.compile(r"\.(?=\S)")  # the dot between a member's name and that of its lot or task
MAX_SAMPLES = 1e15  # of one member: curves of more lose their digits
JOINED = "+"  # between the names of a subset
MAX_RUNS_READ = 100_000  # a fit of more takes minutes, and knows no more than one of their averages

Key = tuple[str, str]  # a member, and its lot or task: its own name again where it has one


class LoggedRun(NamedTuple):
    """One model, and the row it stands in: what it was made of by lot (1 and 0 for subsets), what it scored by task."""

    row: int
    given: dict[Key, float]
    accuracies: dict[Key, float]
    test_sizes: dict[Key, float]


@dataclass(frozen=True)
class RunLog:
    """The runs of a file, and whether its members have several lots or tasks, by what the columns are called."""

    runs: Sequence[LoggedRun]
    has_lots: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The members."""
        return tuple(dict.fromkeys(name for run in self.runs for name, _ in run.given))

    def tests(self, names: Sequence[str]) -> Tests:
        """(runs, n) each, of members with one lot: what was given, accuracies and test sizes."""
        keys = [(name, name) for name in names]
        return _tests(self.runs, keys, keys)


def _tests(runs: Sequence[LoggedRun], lots: Sequence[Key], tasks: Sequence[Key]) -> Tests:
    """A lot that a run does not know was not brought, a task that it does not know was not tested."""
    given = np.array([[run.given.get(key, 0.0) for key in lots] for run in runs])
    accuracies = np.array([[run.accuracies.get(key, np.nan) for key in tasks] for run in runs])
    return given, accuracies, np.array([[run.test_sizes.get(key, np.nan) for key in tasks] for run in runs])


def read_logs(paths: Sequence[Path], *, member: str | None = None, lots: bool | None = None) -> Observations:
    """The runs of all files together; with a member, its accuracies alone are used.

    `lots` says whether names with a dot in them are lots and tasks of members; if not given, each file's columns say.
    """
    if not paths:
        raise InvalidInput("there must be at least one log")
    files = [(file, log) for path in paths for file, log in _read_log(path, member, lots)]
    with_lots = [file for file, log in files if log.has_lots]
    for file, log in files:
        if with_lots and not log.has_lots:
            raise InvalidInput(
                f"{file}: its members have no lots, those of {with_lots[0].name} have; name the lots in all logs "
                f"(contributions.NAME.LOT), or fit them apart"
            )
    names = list(dict.fromkeys(name for _, log in files for name in log.names))
    if member is not None and member not in names:
        raise InvalidInput(f"member must be one of those of the log, {', '.join(names)}, got {member!r:.80}")
    runs = [run if member is None else _measured_by(member, run) for _, log in files for run in log.runs]
    lot_keys = list(dict.fromkeys(key for run in runs for key in run.given))
    task_keys = list(dict.fromkeys(key for run in runs for key in run.accuracies)) if with_lots else lot_keys
    lot_owners, task_owners = (
        np.array([names.index(name) for name, _ in keys], dtype=np.intp) for keys in (lot_keys, task_keys)
    )
    own_names = (tuple(own for _, own in keys) for keys in (lot_keys, task_keys))
    with error_context(", ".join(dict.fromkeys(str(file) for file, _ in files))):
        return Observations.checked(
            _tests(runs, lot_keys, task_keys),
            names,
            [run.row for run in runs],
            sources=[file.name for file, log in files for _ in log.runs] if len(files) > 1 else [],
            member=None if with_lots else member,
            ownership=Ownership(lot_owners, task_owners, *own_names),
            has_lots=bool(with_lots),
        )


def _measured_by(member: str, run: LoggedRun) -> LoggedRun:
    kept = ({key: number for key, number in part.items() if key[0] == member} for part in run[2:])
    return LoggedRun(run.row, run.given, *kept)


def _read_log(path: Path, member: str | None, lots: bool | None) -> Iterable[tuple[Path, RunLog]]:
    """The logs in a file or folder."""
    if not path.is_dir():
        return [(path, _read_file(path, RUN_KINDS, member, lots))]
    if not (path / ROUNDS_FILE).is_file():
        raise InvalidInput(f"{path}: a folder of `fedpact train` holds {ROUNDS_FILE}; this one does not")
    return [(file, read_rounds(file)) for file in (path / ROUNDS_FILE, path / ALONE_FILE) if file.is_file()]


def read_subset_models(path: Path) -> RunLog:
    """Models made of subsets of the updates, and what they scored, from a ledger, rounds, or a table of such models."""
    return _read_file(path, SUBSET_KINDS, None, lots=False)


def _read_file(path: Path, kinds: Sequence[str], member: str | None, lots: bool | None) -> RunLog:
    if is_ledger(path):
        return _read_ledger(path) if kinds is RUN_KINDS else read_verified(path)
    with error_context(str(path)):
        head = next(iter(read_cells(path, max_rows=1)), (1, []))[1]
    if tuple(cell.strip() for cell in head[:2]) == ROUND_HEADS[:2]:
        return read_rounds(path, as_subsets=kinds is SUBSET_KINDS)
    return _read_runs(path, kinds, member, lots)


def runs_text(
    lots: Sequence[str],
    contributions: FloatArray,
    *,
    tasks: Sequence[str] | None = None,
    test_sizes: Sequence[float] | None = None,
) -> str:
    """Runs that are still to be made, as the text of a CSV file whose accuracies are empty.

    `lots` and `tasks` are what the columns are called: the names of the members, where they have one each.
    """
    tasks = lots if tasks is None else tasks
    sizes = [f"{size:.10g}" for size in test_sizes or ()]
    kinds = {CONTRIBUTIONS: lots, ACCURACY: tasks} | ({TEST_SIZE: tasks} if sizes else {})
    head = [f"{kind}.{name}" for kind, names in kinds.items() for name in names]
    rows = [[*(f"{given:.10g}" for given in run), *[""] * len(tasks), *sizes] for run in contributions]
    return csv_rows([head, *rows])


class _Table:
    """The cells of a file, by row and by what their columns are called, and the numbers in them."""

    def __init__(self, path: Path, *, max_rows: int | None = None) -> None:
        (self.head_row, head), *self.lines = read_cells(path, max_rows=max_rows)
        self.head = [cell.strip() for cell in head]
        self.written = number_format(self.lines)

    def rows(self) -> list[tuple[int, dict[str, str]]]:
        """Every row below the head: its number, and its cells."""
        for row, cells in self.lines:
            if len(cells) != len(self.head):
                raise InvalidInput(f"row {row} must have {len(self.head)} cells like the head, got {len(cells)}")
        return [(row, dict(zip(self.head, map(str.strip, cells), strict=True))) for row, cells in self.lines]

    def number(self, row: int, cells: Mapping[str, str], label: str, kind: str, *, needed: bool = False) -> float:
        """The number in a cell of this kind, NaN if it is missing."""
        where, (rule, accepts), cell = f"row {row}, column {short_repr(label)}", RULES[kind], cells.get(label, "")
        try:
            with error_context(where):
                number = self.written.number(cell)
        except InvalidInput:
            raise
        except ValueError:
            number = math.inf
        percent = "%" in cell
        if math.isnan(number) and needed:
            raise InvalidInput(f"{where} must be {rule}, the cell is empty")
        if math.isnan(number) or (accepts(number) and (kind == ACCURACY or not percent)):
            return number
        is_percentage = kind == ACCURACY and 1 < number <= 100 and not percent
        hint = "; divide percentages by 100, or write 71 %" if is_percentage else ""
        raise InvalidInput(f"{where} must be {rule}, got {short_repr(cell)}{hint}")


class _Column(NamedTuple):
    """A column of a table of runs: what it is called, what it holds, of whom, and of which lot or task of theirs."""

    label: str
    kind: str
    name: str
    member: str
    own: str


def _read_runs(path: Path, kinds: Sequence[str], member: str | None, lots: bool | None) -> RunLog:
    """A table of runs, whose first kind of column says what members gave."""
    with error_context(str(path)):
        table = _Table(path, max_rows=MAX_RUNS_READ + 2)  # the head, and one to tell that there are more
        columns = [_column(cell, index, table.head_row, kinds) for index, cell in enumerate(table.head)]
        given, measured = ({column.name for column in columns if column.kind == kind} for kind in kinds[:2])
        if lots is None:  # dots are part of names where every column of contributions has one of accuracies
            lots = member is None and given != measured and any(column.own for column in columns)
        if not lots:
            columns = [column._replace(member=column.name, own="") for column in columns]
        _check_columns(columns, table.head_row, kinds, member=member, lots=lots)
        if not table.lines:
            raise InvalidInput("the file has a head but no runs; write one row per run below it")
        if len(table.lines) > MAX_RUNS_READ:
            raise InvalidInput(
                f"the file has more than {MAX_RUNS_READ:,} rows; average runs with equal contributions, or keep some"
            )
        runs = []
        for row, cells in table.rows():
            parts: dict[str, dict[Key, float]] = {kind: {} for kind in kinds}
            for column in columns:
                needed = column.kind == SUBSET
                number = table.number(row, cells, column.label, column.kind, needed=needed)
                parts[column.kind][column.member, column.own or column.member] = number
            runs.append(LoggedRun(row, *parts.values()))
        return RunLog(runs, lots)


def _column(label: str, index: int, row: int, kinds: Sequence[str]) -> _Column:
    kind, _, name = label.partition(".")
    if kind.strip() not in kinds or not name.strip():
        given = "the cell is empty" if not label else "the column is unknown"
        named = [f"{known}.{name}" if name.strip() else f"{known}.NAME" for known in kinds]
        raise InvalidInput(
            f"row {row}, column {short_repr(label) if label else index + 1}: {given}; "
            f"{_nearest(label, named, 'columns are')}"
        )
    member, _, own = OWN_NAME.sub("\0", name.strip(), count=1).partition("\0")
    return _Column(label, kind.strip(), name.strip(), member.strip(), own.strip())


def _check_columns(
    columns: Sequence[_Column], row: int, kinds: Sequence[str], *, member: str | None, lots: bool
) -> None:
    """No column appears twice; those of the first kind say who the members are, all of whom are measured.

    With a member, accuracies of the others may be missing.
    """
    every = [column.label for column in columns]
    givers, receivers = ({column.member for column in columns if column.kind == kind} for kind in kinds[:2])
    tasks = [column.name for column in columns if column.kind == ACCURACY]
    if not givers:
        expected = " and ".join([", ".join(f"{kind}.NAME" for kind in kinds[:-1]), f"{kinds[-1]}.NAME"])
        raise InvalidInput(f"row {row}: there is no column {kinds[0]}.NAME; a head has the columns {expected}")
    for column in sorted(columns, key=lambda each: each.member in givers and not each.name.endswith(".")):
        who, where = column.member, f"row {row}, column {short_repr(column.label)}"
        if every.count(column.label) > 1:
            raise InvalidInput(f"{where}: the column appears twice; keep one of them")
        if lots and (not who or column.name.endswith(".")):
            raise InvalidInput(f"{where}: a name is missing; columns are {column.kind}.NAME or {column.kind}.NAME.LOT")
        alike = [other for other in columns if other.kind == column.kind and other.member == who]
        if lots and not column.own and len(alike) > 1:
            raise InvalidInput(
                f'{where}: "{who}" has other columns {column.kind}.{who}.NAME; give this one a name as well'
            )
        if who not in givers:
            near = _nearest(who, sorted(givers), "members are")
            raise InvalidInput(f"{where}: there is no column {kinds[0]}.{who}{' or one of its lots' * lots}; {near}")
        if kinds is RUN_KINDS and who not in receivers and member in {None, who}:
            raise InvalidInput(
                f"{where}: there is no column {ACCURACY}.{who}{' or one of its tasks' * lots}, so nothing says what "
                f'data is worth to member "{who}"; test the model of at least one run on its data, or leave the member '
                f"out"
            )
        if lots and column.kind == TEST_SIZE and column.name not in tasks:
            near = _nearest(column.name, tasks, "tasks are")
            raise InvalidInput(f"{where}: there is no column {ACCURACY}.{column.name}; {near}")


def _nearest(given: str, known: Sequence[str], otherwise: str) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f'did you mean "{near[0]}"?' if near else f"{otherwise} {', '.join(known)}"


def read_rounds(path: Path, *, as_subsets: bool = False) -> RunLog:
    """The models of the last round: what members gave to each, or with `as_subsets` 1 and 0, and what they score."""
    with error_context(str(path)):
        table = _Table(path)
        for column in ROUND_HEADS:
            if column not in table.head:
                raise InvalidInput(
                    f"there is no column {column!r}; a table of rounds has the columns {', '.join(ROUND_HEADS)}, and "
                    f"may have {', '.join(OPTIONAL_HEADS)}"
                )
        rows = table.rows()
        table.written = number_format([(row, [cells["samples"], cells["score"]]) for row, cells in rows])
        rounds = [table.number(row, cells, "round", ROUND, needed=True) for row, cells in rows]
        last = max(rounds, default=-1.0)
        ended = [each for each, at in zip(rows, rounds, strict=True) if at == last]
        samples = {
            cells["member"]: table.number(row, cells, "samples", CONTRIBUTIONS, needed=True) for row, cells in ended
        }
        for row, cells in rows:
            if cells["member"] not in samples:
                raise InvalidInput(
                    f"row {row}: member {cells['member']!r:.40} has no row in round {last:g}, the last, which is the "
                    f"one that counts; say what it did there, or leave it out"
                )
        alone = {cells["member"] for row, cells in ended if table.number(row, cells, "alone", SUBSET) == 1.0}
        together = [name for name in samples if name not in alone]
        models: dict[tuple[str, ...], dict[str, Any]] = {}
        for row, cells in ended:
            member = cells["member"]
            chosen = (member,) if member in alone else _subset(row, cells.get("subset", ""), together)
            model = models.setdefault(chosen, {"row": row, "subset": chosen, "accuracies": {}})
            if member in model["accuracies"]:
                raise InvalidInput(
                    f"row {row}: member {member!r:.40} is there twice for one model; the table must have one row per "
                    f"round and member"
                )
            score, size = (table.number(row, cells, *each) for each in (("score", ACCURACY), (TEST_SIZE, TEST_SIZE)))
            model["accuracies"][member] = {"accuracy": score, "samples": size}
        if not models:
            raise InvalidInput("the table must have one row per round and member, and has none")
        return stated_models(dict.fromkeys(samples, 1.0) if as_subsets else samples, [*models.values()])


def _subset(row: int, cell: str, names: list[str]) -> tuple[str, ...]:
    """Of whose updates a model is made, in the order of the names."""
    chosen = {part.strip() for part in cell.split(JOINED)} if cell else set(names)
    for unknown in sorted(chosen - set(names)):
        raise InvalidInput(
            f"row {row}, column 'subset' must name members of the table joined by {JOINED!r}, got {short_repr(unknown)}"
        )
    return tuple(name for name in names if name in chosen)


def _sound_ledger(path: Path) -> CheckedLedger:
    from fedpact.fitting.delivery import check_run  # noqa: PLC0415 - which reads the models that stand in a ledger

    found = check_run(path)
    for claim in found.failed:
        raise InvalidInput(f"this ledger does not hold: {claim}: {found.findings[claim].reason}")
    return found


def _read_ledger(path: Path) -> RunLog:
    """The model that a ledger's run ended in, and those made of subsets of the updates."""
    with error_context(str(path)):
        found = _sound_ledger(path)
        trained, measured, verified = (found.entries.get(kind) for kind in (TRAINED, MEASURED, VERIFIED))
        models = [] if verified is None else verified.content["models"]
        if trained is None or (measured is None and not models):
            raise InvalidInput("this ledger records no accuracies: the run did not get so far, or nobody measured them")
        unit, used = float(found.chain.entries[0].content["samples_per_unit"]), found.samples
        names = [name for name in (() if found.deal is None else found.deal.agents) if name in used]
        given = {name: max(used[name], default=0) / unit for name in names}
        whole = [] if measured is None else [{"subset": names, "accuracies": measured.content["accuracies"]}]
        runs = stated_models(given, whole, row=0 if measured is None else measured.seq + 1).runs
        subsets = stated_models(given, models, row=0 if verified is None else verified.seq + 1).runs
        return RunLog([*runs, *subsets])


def read_verified(path: Path) -> RunLog:
    """The models made of subsets of the updates that a ledger records."""
    with error_context(str(path)):
        found = _sound_ledger(path)
        entry = found.entries.get(VERIFIED)
        if entry is None or not entry.content["models"]:
            raise InvalidInput(
                "this ledger records no models made of subsets of the updates, so nothing can be verified; a .csv file "
                "with columns subset.NAME and accuracy.NAME can stand in its place"
            )
        models = entry.content["models"]
        known = {name for model in models for name in (*model["accuracies"], *model["subset"])}
        agents = () if found.deal is None else found.deal.agents  # a ledger writes names by the alphabet
        return stated_models({name: 1.0 for name in agents if name in known}, models, row=entry.seq + 1)


def stated_models(given: Mapping[str, float], models: Sequence[Mapping[str, Any]], *, row: int = 0) -> RunLog:
    """Models made of subsets of the updates as ledgers list them, by what each member gives to a model it is in.

    Accuracies stand by name with the samples behind them, or with the reason why there is none.
    """

    def scores(model: Mapping[str, Any], key: str) -> dict[Key, float]:
        stated = {name: each.get(key) for name, each in model["accuracies"].items() if name in given}
        return {(name, name): float(score) for name, score in stated.items() if isinstance(score, int | float)}

    return RunLog(
        [
            LoggedRun(
                model.get("row", row),
                {(name, name): amount * (name in model["subset"]) for name, amount in given.items()},
                scores(model, "accuracy"),
                scores(model, "samples"),
            )
            for model in models
        ]
    )
