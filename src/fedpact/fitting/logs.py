"""Logs of every kind as observations: files of runs, rounds of other tools, runs of `fedpact train`, ledgers.

A run of `fedpact train` and the run of a ledger are one observation each, of the model they ended in: earlier rounds
are the same data, trained less. Beside it stand the models that agents trained alone, and those made of subsets of the
updates where a ledger records them: these say most about the weights. Contributions are in the units of the scenario.

An agent that a log does not know was not there: it gave nothing to its runs, and measured nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.ledger import MEASURED, TRAINED, VERIFIED, Entry, is_ledger
from fedpact.federation.lots import Ownership
from fedpact.fitting.observations import Observations, check_accuracies, checked_test_sizes
from fedpact.fitting.plain_rounds import holds_plain_rounds, read_plain_rounds
from fedpact.fitting.runs_file import Keys, LogTable, read_runs
from fedpact.negotiation.audit import LedgerAudit, audit_ledger
from fedpact.utils.arrays import FloatArray
from fedpact.utils.cells import read_cells
from fedpact.utils.errors import InvalidInput, error_context, short_repr

ROUNDS_FILE, ALONE_FILE = "rounds.csv", "alone.csv"
#: Columns of `rounds.csv` and `alone.csv`; `alone` is 1 if the model is the agent's own, 0 if it is that of the deal.
ROUND_HEADS = ("round", "agent", "alone", "samples", "accuracy", "loss", "test_size")


def read_logs(paths: Sequence[Path], *, member: str | None = None, lots: bool | None = None) -> Observations:
    """The runs of all files together; with a member, its accuracies alone are used.

    `lots` says whether names with a dot in them are lots and tasks of members; if not given, each file's columns say.
    """
    if not paths:
        raise InvalidInput("there must be at least one log")
    files = [(file, table) for path in paths for file, table in _read_log(path, member, lots)]
    with_lots = [file for file, table in files if table.has_lots]
    for file, table in files:
        if with_lots and not table.has_lots:
            raise InvalidInput(
                f"{file}: its members have no lots, those of {with_lots[0].name} have; name the lots in all logs "
                f"(contributions.NAME.LOT), or fit them apart"
            )
    names = list(dict.fromkeys(name for _, table in files for name in table.names))
    if member is not None and member not in names:
        raise InvalidInput(f"member must be one of those of the log, {', '.join(names)}, got {member!r:.80}")
    lot_keys, task_keys = (
        list(dict.fromkeys(key for _, table in files for key in getattr(table, side))) for side in ("lots", "tasks")
    )
    # A lot that a log does not know was not brought; a task that it does not know was not tested.
    given = np.concatenate([_spread(table.given, table.lots, lot_keys, 0.0) for _, table in files])
    accuracies, sizes = (
        np.concatenate([_spread(getattr(table, part), table.tasks, task_keys, np.nan) for _, table in files])
        for part in ("accuracies", "test_sizes")
    )
    if member is not None:
        others = [place for place, (name, _) in enumerate(task_keys) if name != member]
        accuracies[:, others] = sizes[:, others] = np.nan
    ownership = None
    if with_lots:
        lot_owners, task_owners = (
            np.array([names.index(name) for name, _ in side], dtype=np.intp) for side in (lot_keys, task_keys)
        )
        own_names = (tuple(own for _, own in side) for side in (lot_keys, task_keys))
        ownership = Ownership(lot_owners, task_owners, *own_names)
    with error_context(", ".join(dict.fromkeys(str(file) for file, _ in files))):
        return Observations.checked(
            given,
            accuracies,
            sizes,
            names,
            [row for _, table in files for row in table.rows],
            sources=[file.name for file, table in files for _ in table.rows] if len(files) > 1 else [],
            member=member if ownership is None else None,
            ownership=ownership,
        )


def _spread(numbers: FloatArray, own: Keys, every: Sequence[tuple[str, str]], empty: float) -> FloatArray:
    """A table's numbers with a column for each of all keys."""
    whole = np.full((len(numbers), len(every)), empty)
    whole[:, [every.index(key) for key in own]] = numbers
    return whole


def read_verified(path: Path) -> LogTable:
    """The models made of subsets of the updates that a ledger records."""
    with error_context(str(path)):
        found = _sound_ledger(path)
        entry = found.last(VERIFIED)
        if entry is None or not entry.content["models"]:
            raise InvalidInput(
                "this ledger records no models made of subsets of the updates, so nothing can be verified; a .csv file "
                "with columns subset.NAME and accuracy.NAME can stand in its place"
            )
        models = entry.content["models"]
        known = {name for model in models for name in (*model["accuracies"], *model["subset"])}
        return _verified_table(entry, _in_order(found, known))


def verified_entry(
    names: Sequence[str], subsets: FloatArray, accuracies: FloatArray, test_sizes: FloatArray
) -> dict[str, Any]:
    """An entry of a ledger: models made of subsets of the updates, and what the members measured, (models, n) each."""
    rows = zip(np.asarray(subsets, dtype=bool), np.asarray(accuracies), np.asarray(test_sizes), strict=True)
    return {
        "models": [
            {
                "subset": [name for name, used in zip(names, chosen, strict=True) if used],
                "accuracies": {
                    name: {"accuracy": float(score), "samples": int(size)} if np.isfinite(score) else {"accuracy": None}
                    for name, score, size in zip(names, scores, sizes, strict=True)
                },
            }
            for chosen, scores, sizes in rows
        ]
    }


def _read_log(path: Path, member: str | None, lots: bool | None) -> Iterable[tuple[Path, LogTable]]:
    """The tables in a file or folder."""
    if path.is_dir():
        if not (path / ROUNDS_FILE).is_file():
            raise InvalidInput(f"{path}: a folder of `fedpact train` holds {ROUNDS_FILE}; this one does not")
        found = [path / ROUNDS_FILE, path / ALONE_FILE]
        return [(file, _read_rounds(file)) for file in found if file.is_file()]
    if is_ledger(path):
        return [(path, _read_ledger_runs(path))]
    if path.suffix.lower() == ".csv":
        with error_context(str(path)):
            head = next(iter(read_cells(path, max_rows=1)), (1, []))[1]
        if head[:2] == list(ROUND_HEADS[:2]):
            return [(path, _read_rounds(path))]
        if holds_plain_rounds(path):
            return [(path, read_plain_rounds(path))]
    return [(path, read_runs(path, member=member, lots=lots))]


def _read_rounds(path: Path) -> LogTable:
    """The models that a run of `fedpact train` ended in: that of the deal, and those of agents by themselves."""
    with error_context(str(path)):
        (_, head), *rows = read_cells(path) or [(1, [])]
        missing = [column for column in ROUND_HEADS if column not in head]
        if missing:
            raise InvalidInput(f"there is no column {missing[0]!r}; `fedpact train` writes {', '.join(ROUND_HEADS)}")
        columns = [head.index(column) for column in ROUND_HEADS if column != "loss"]
        for row, line in rows:
            if len(line) != len(head):
                raise InvalidInput(f"row {row} must have {len(head)} cells like the head, got {len(line)}")
        cells = [(row, [line[place] for place in columns]) for row, line in rows]
        last = max((_number(row, "round", line[0]) for row, line in cells), default=0.0)
        ended = [(row, line) for row, line in cells if _number(row, "round", line[0]) == last]
        names = [line[1] for _, line in ended]
        if not names or len(set(names)) != len(names):
            raise InvalidInput("the table must have one row per round and member")
        kinds = (ROUND_HEADS[2], *ROUND_HEADS[3:5], ROUND_HEADS[6])
        numbers = np.array([[_number(row, *cell) for cell in zip(kinds, line[2:], strict=True)] for row, line in ended])
        alone, samples, accuracies, sizes = numbers.T
        models = ([np.flatnonzero(alone == 0)] if (alone == 0).any() else []) + [
            np.array([agent]) for agent in np.flatnonzero(alone != 0)
        ]
        return _model_table(names, models, (samples, accuracies, sizes), [ended[model[0]][0] for model in models])


def _model_table(
    names: Sequence[str], models: Sequence[Any], numbers: tuple[FloatArray, ...], rows: Sequence[int]
) -> LogTable:
    """One row per model, of those agents whose model it is."""
    whole = [np.full((len(models), len(names)), empty) for empty in (0.0, np.nan, np.nan)]
    for place, model in enumerate(models):
        for part, each in zip(whole, numbers, strict=True):
            part[place, model] = each[model]
    check_accuracies(whole[1])
    return LogTable.of_members(names, whole[0], whole[1], checked_test_sizes(whole[2], whole[2].shape), rows)


def _number(row: int, column: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise InvalidInput(f"row {row}, column {column!r} must be a number of at least 0, got {short_repr(cell)}")
    return number


def _sound_ledger(path: Path) -> LedgerAudit:
    found = audit_ledger(path)
    for claim in found.failed:
        raise InvalidInput(f"this ledger does not hold: {claim}: {found.findings[claim].reason}")
    return found


def _read_ledger_runs(path: Path) -> LogTable:
    """The model that a ledger's run ended in, and those made of subsets of the updates."""
    with error_context(str(path)):
        found = _sound_ledger(path)
        trained, measured, verified = (found.last(kind) for kind in (TRAINED, MEASURED, VERIFIED))
        if trained is None or (measured is None and (verified is None or not verified.content["models"])):
            raise InvalidInput("this ledger records no accuracies: the run did not get so far, or nobody measured them")
        unit = float(trained.content["samples_per_unit"])
        used = trained.content["samples"]
        names = _in_order(found, used)
        given = np.array([max(used[name], default=0) / unit for name in names])
        tables = []
        if measured is not None:
            tables.append(_table_of(names, given[None, :], [measured.content["accuracies"]], [measured.seq + 1]))
        if verified is not None and verified.content["models"]:
            models = _verified_table(verified, names)
            tables.append(replace(models, given=models.given * given))
        whole, accuracies, sizes = (
            np.concatenate([getattr(table, part) for table in tables]) for part in ("given", "accuracies", "test_sizes")
        )
        return LogTable.of_members(names, whole, accuracies, sizes, [row for table in tables for row in table.rows])


def _in_order(found: LedgerAudit, names: Collection[str]) -> tuple[str, ...]:
    """Names in the order of the deal; a ledger writes them by the alphabet."""
    agents = () if found.deal is None else found.deal.agents
    return tuple(name for name in agents if name in names)


def _verified_table(entry: Entry, names: Sequence[str]) -> LogTable:
    return subset_table(names, entry.content["models"], row=entry.seq + 1)


def subset_table(names: Sequence[str], models: Sequence[Mapping[str, Any]], *, row: int = 0) -> LogTable:
    """Models made of subsets of the updates, as ledgers list them, as a table."""
    subsets = np.array([[float(name in model["subset"]) for name in names] for model in models])
    return _table_of(names, subsets, [model["accuracies"] for model in models], [row] * len(models))


def _table_of(
    names: Sequence[str], given: FloatArray, scores: Sequence[Mapping[str, Any]], rows: Sequence[int]
) -> LogTable:
    """Accuracies as ledgers state them: by name, with the samples behind them, or the reason why there is none."""
    accuracies, sizes = (
        np.array([[_stated(score.get(name, {}).get(key)) for name in names] for score in scores])
        for key in ("accuracy", "samples")
    )
    return LogTable.of_members(names, given, accuracies, checked_test_sizes(sizes, sizes.shape), rows)


def _stated(number: Any) -> float:
    return float(number) if isinstance(number, int | float) else np.nan
