"""Members' tables as records for a pilot: a folder with a table per member, or one table with a column that says whose.

Texts become a column per value, if there are few of them; missing targets leave a record out; missing features stay
missing until a model is trained. Members must have the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.data_table import TABLE_FORMATS, Column, DataTable, plain_column, read_data_table
from fedpact.fitting.pilots.found_lots import AUTO_LOTS, with_found_lots
from fedpact.fitting.pilots.records import (
    CLASSIFICATION,
    MAX_LOTS,
    REGRESSION,
    TEST_SHARE,
    PilotData,
    Records,
    split_records,
)
from fedpact.utils.arrays import FloatArray, labels_of
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import count_text

MAX_TEXTS = 20  # different texts of a column that become columns
MAX_CLASSES = 20  # different whole numbers of a target that are classes; more of them are amounts
MAX_VALUES_NAMED, MAX_COLUMNS = 5, 20  # in a sentence: names, and columns to choose from
MAX_SIZE, MIN_SPREAD = 1e100, 1e-100  # beyond them sums of squares overflow, or vanish
DOCUMENTS = {".md", ".rst", ".txt", ".pdf", ".html", ".docx"}  # what lies beside tables and is none
HIDDEN = (".", "~$")  # the latter while a spreadsheet is open
PAIRED_TARGET = "target"
Tables = Mapping[str, DataTable]


def read_members(data: Path, *, member: str | None = None, notes: list[str] | None = None) -> dict[str, DataTable]:
    """The table of each member, by name: of every file in a folder, or of one file by its column `member`.

    What is left out of the folder is said in `notes`.
    """
    if data.is_dir():
        if member is not None:
            raise InvalidInput(f"{data} is a folder with a table per member; a column of members is for a single table")
        files = _member_files(data, [] if notes is None else notes)
        return {path.stem: read_data_table(path) for path in files}
    table = read_data_table(data)
    if member is None:
        raise InvalidInput(
            f"{data} is a single table: say which of its columns names the member ({named_columns(table)})"
        )
    owners = _labels(_column_of(table, member))
    if unknown := [table.rows[place] for place, owner in enumerate(owners) if owner is None]:
        raise InvalidInput(f"{data}: row {unknown[0]}, column {short_repr(member)} is empty; every record has a member")
    names = list(dict.fromkeys(str(owner) for owner in owners))
    if len(names) < 2:
        raise InvalidInput(f"{data}: column {short_repr(member)} must name two members or more, got {', '.join(names)}")
    everybody = np.array(owners, dtype=object)
    return {name: table.without(member).take(np.flatnonzero(everybody == name)) for name in names}


def _member_files(folder: Path, notes: list[str]) -> list[Path]:
    """The tables in a folder. Whatever might be one and cannot be read is refused: a member must not be lost."""
    files, others = [], []
    kinds = ", ".join(TABLE_FORMATS)
    for path in sorted(folder.iterdir()):
        ending = path.suffix.lower()
        if path.name.startswith(HIDDEN) or ending in DOCUMENTS or (path.is_dir() and not ending):
            others.append(path.name)
        elif not path.exists():
            raise InvalidInput(f"{path} is a link to nothing; mend it, or remove it to leave the member out")
        elif not path.is_file():
            what = "a folder" if path.is_dir() else "no file"
            raise InvalidInput(f"{path} is {what}; put the table itself there, or move it out of the folder")
        elif ending not in TABLE_FORMATS:
            raise InvalidInput(
                f"{path} is no table that can be read ({kinds}); save it as one of these, or move it out of the folder"
            )
        else:
            files.append(path)
    for name in sorted({path.stem for path in files}):
        if len(twins := [path.name for path in files if path.stem == name]) > 1:
            raise InvalidInput(f"{folder}: {' and '.join(twins)} are of one member; keep one of them")
    if len(files) < 2:
        raise InvalidInput(f"{folder} must hold a table ({kinds}) for each of two members or more, got {len(files)}")
    if others:
        notes.append(f"in {folder} left out, no tables: {', '.join(others)}")
    return files


def _note_alike(what: str, names: Sequence[str], notes: list[str], of: str = "") -> None:
    """Ask about names that people write in several ways."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(" ".join(name.casefold().split()), []).append(name)
    notes += [
        f"are the {what} {', '.join(own)}{of} one? they differ in capitals or spaces only, and are taken as {len(own)}"
        for own in alike.values()
        if len(own) > 1
    ]


def pilot_data(
    tables: Tables,
    target: str,
    *,
    task: str | None = None,
    ignore: Sequence[str] = (),
    lots: str | None = None,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> PilotData:
    """Records of members' tables, encoded and split.

    Parameters
    ----------
    tables
        By the member's name.
    target
        The column to predict.
    task
        "classification" or "regression"; by default texts and few whole numbers are classes.
    ignore
        Columns to leave out.
    lots
        A column that says of which kind a record is, or "auto" for tiers by what each record is worth.
    test_share
        The share of each member's records to test with.
    seed
        Of the splits.
    notes
        What is to be said of the tables already.
    """
    said = list(notes)
    _note_alike("members", list(tables), said)
    for name in ignore:
        for table in tables.values():
            _column_of(table, name)
    tables = {name: _with_target(name, table, target, said) for name, table in tables.items()}
    task, classes, targets = _encode_targets(tables, target, task)
    _note_alike("classes", classes, said)
    unused = {target, *ignore, *([lots] if lots not in (None, AUTO_LOTS) else [])}
    features, feature_names = _encode_features(tables, unused, said)
    rng = np.random.default_rng(seed)
    train, test, kept = [], [], []
    for name, rows, own in zip(tables, features, targets, strict=True):
        records = Records(rows, own)
        used, tested = split_records(records, task=task, test_share=test_share, rng=rng, name=name)
        train.append(records.take(used))
        test.append(records.take(tested))
        kept.append(used)
    _note_unseen(tuple(tables), classes, train, test, said)
    owned: tuple[NDArray[np.intp], ...] | None = None
    lot_names: tuple[tuple[str, ...], ...] = ()
    if lots not in (None, AUTO_LOTS):
        owned, lot_names = _named_lots(tables, str(lots), kept)
    found = PilotData(
        names=tuple(tables),
        train=tuple(train),
        test=tuple(test),
        task=task,
        classes=classes,
        feature_names=feature_names,
        lots=owned,
        lot_names=lot_names,
        notes=tuple(said),
    )
    return with_found_lots(found, seed=seed) if lots == AUTO_LOTS else found


def named_columns(table: DataTable) -> str:
    """What there is to choose from, in a sentence."""
    names = list(table.columns)
    return ", ".join(names[:MAX_COLUMNS]) + (", ..." if len(names) > MAX_COLUMNS else "")


def _column_of(table: DataTable, name: str) -> Column:
    if name not in table.columns:
        raise InvalidInput(
            f"{table.source}: there is no column {short_repr(name)}; columns are {named_columns(table)}: name one of "
            f"them"
        )
    return table.columns[name]


def _labels(column: Column) -> list[str | None]:
    """Entries as texts, None where missing; whole numbers without a point."""
    if column.dtype == object:
        return list(column)
    return [None if np.isnan(entry) else f"{entry:.15g}" for entry in column.tolist()]


def _with_target(name: str, table: DataTable, target: str, notes: list[str]) -> DataTable:
    known = np.array([label is not None for label in _labels(_column_of(table, target))])
    if not known.all():
        lost = count_text(int((~known).sum()), "record")
        notes.append(f"{name}: {lost} left out, since {short_repr(target)} is missing")
    if not known.any():
        raise InvalidInput(
            f"{table.source}: column {short_repr(target)} is empty for every record of {name}; fill it in, or "
            f"leave the member out"
        )
    return table if known.all() else table.take(np.flatnonzero(known))


def _encode_targets(tables: Tables, target: str, task: str | None) -> tuple[str, tuple[str, ...], list[FloatArray]]:
    columns = [table.columns[target] for table in tables.values()]
    numeric = all(column.dtype != object for column in columns)
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise InvalidInput(f"task must be {CLASSIFICATION} or {REGRESSION}, got {short_repr(task)}")
    if task == REGRESSION and not numeric:
        texts = next(table for table in tables.values() if table.columns[target].dtype == object)
        raise InvalidInput(f"{texts.source}: a regression needs numbers in {short_repr(target)}, which holds texts")
    if task is None:
        together = np.unique(np.concatenate(columns)) if numeric else np.empty(0)
        few = numeric and together.size <= MAX_CLASSES and bool((together == np.round(together)).all())
        task = CLASSIFICATION if few or not numeric else REGRESSION
    if task == REGRESSION:
        _check_sizes(target, tables, columns)
        if np.ptp(np.concatenate(columns)) == 0:
            raise InvalidInput(f"column {short_repr(target)} has one value only; there is nothing to predict")
        return task, (), [np.asarray(column, dtype=np.float64) for column in columns]
    labels = [_labels(column) for column in columns]
    classes = tuple(_distinct(labels))
    if len(classes) > MAX_CLASSES and not numeric:
        _check_kinds(target, tables)
    if len(classes) < 2:
        raise InvalidInput(
            f"column {short_repr(target)} has one class only ({classes[0]}); there is nothing to predict"
        )
    places = {label: float(place) for place, label in enumerate(classes)}
    return task, classes, [np.array([places[str(label)] for label in own]) for own in labels]


def _natural(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label


def _encode_features(tables: Tables, unused: set[str], notes: list[str]) -> tuple[list[FloatArray], tuple[str, ...]]:
    _check_same_columns(tables, unused)
    parts: list[list[FloatArray]] = [[] for _ in tables]
    names: list[str] = []
    first = next(iter(tables.values()))
    for name in first.columns:
        if name in unused:
            continue
        columns = [table.columns[name] for table in tables.values()]
        if all(column.dtype != object for column in columns):
            _check_sizes(name, tables, columns)
            names.append(name)
            for part, column in zip(parts, columns, strict=True):
                part.append(column[:, None])
            continue
        encoded, values = _encode_texts(name, tables)
        _note_alike("values", values, notes, f" of column {short_repr(name)}")
        names += [f"{name} = {value}" for value in values]
        notes.append(f"column {short_repr(name)} holds texts: a column for each of {', '.join(values)}")
        for part, column in zip(parts, encoded, strict=True):
            part.append(column)
    if not names:
        raise InvalidInput("there is no column left to predict from")
    gaps = sum(int(np.isnan(column).sum()) for part in parts for column in part)
    if gaps:
        notes.append(f"{count_text(gaps, 'cell')} missing: a model takes the median of what it is trained on instead")
    return [np.hstack(part) for part in parts], tuple(names)


def _check_sizes(name: str, tables: Tables, columns: Sequence[Column]) -> None:
    """Squares of numbers and of their differences must be finite, and must not vanish."""
    for (member, table), column in zip(tables.items(), columns, strict=True):
        for place in np.flatnonzero(np.abs(column) > MAX_SIZE)[:1]:
            raise InvalidInput(
                f"{table.source}: row {table.rows[place]}, column {short_repr(name)} must lie within {MAX_SIZE:g} of "
                f'0, got {column[place]:g} (member "{member}"), whose square is too large; count in larger units, or '
                f"leave it empty if it is not known"
            )
    together = np.concatenate(columns)
    known = together[~np.isnan(together)]
    if known.size and 0.0 < np.ptp(known) < MIN_SPREAD:
        largest = np.nanargmax(np.abs(together))
        member = np.repeat(list(tables), [len(column) for column in columns])[largest]
        raise InvalidInput(
            f"the numbers of column {short_repr(name)} must differ by {MIN_SPREAD:g} or more, for their squares to be "
            f'above 0, got {together[largest]:g} at most (member "{member}"); count in smaller units'
        )


def _check_same_columns(tables: Tables, unused: set[str]) -> None:
    (first_name, first), *others = tables.items()
    wanted = [name for name in first.columns if name not in unused]
    for name, table in others:
        for here, there, lacking, having in (
            (table.columns, wanted, name, first_name),
            (first.columns, [column for column in table.columns if column not in unused], first_name, name),
        ):
            if missing := [column for column in there if column not in here]:
                raise InvalidInput(
                    f'member "{lacking}" has no column {short_repr(missing[0])}, which "{having}" has; add it, or '
                    f"leave it out for all (ignore {missing[0]})"
                )


def _encode_texts(name: str, tables: Tables) -> tuple[list[FloatArray], list[str]]:
    """A column of 0 and 1 for each text."""
    labels = [_labels(table.columns[name]) for table in tables.values()]
    values = _distinct(labels)
    if len(values) > MAX_TEXTS:
        _check_kinds(name, tables)
        raise InvalidInput(
            f"column {short_repr(name)} holds {len(values)} different texts ({', '.join(values[:3])}, ...), more than "
            f"the {MAX_TEXTS} that become columns; put fewer kinds in it, or leave it out (ignore {name})"
        )
    return [np.array([[float(label == value) for value in values] for label in own]) for own in labels], values


def _distinct(labels: Sequence[Sequence[str | None]]) -> list[str]:
    return sorted({label for own in labels for label in own if label is not None}, key=_natural)


def _check_kinds(name: str, tables: Tables) -> None:
    """Where a column of many values holds numbers of some members, refuse texts of others."""
    if all(table.columns[name].dtype == object for table in tables.values()):
        return
    table = next(table for table in tables.values() if table.columns[name].dtype == object)
    texts = ", ".join(_distinct([_labels(table.columns[name])])[:3])
    raise InvalidInput(
        f"{table.source}: column {short_repr(name)} holds texts ({texts}), but numbers where other members have it; "
        f"write numbers in all tables"
    )


def _note_unseen(
    names: Sequence[str], classes: Sequence[str], train: Sequence[Records], test: Sequence[Records], notes: list[str]
) -> None:
    if not classes:
        return
    seen = set(np.concatenate([own.targets for own in train]).tolist())
    for name, own, tested in zip(names, train, test, strict=True):
        if unseen := sorted(set(tested.targets.tolist()) - seen):
            listed = ", ".join(classes[int(place)] for place in unseen)
            notes.append(f"{name} is tested on {listed}, which nobody's training records hold: always wrong")
        others = {target for other in train if other is not own for target in other.targets.tolist()}
        if alone := sorted(set(own.targets.tolist()) - others):
            listed = ", ".join(classes[int(place)] for place in alone[:MAX_VALUES_NAMED])
            notes.append(f"{name} alone trains on {listed}: models without its records never answer that")
        if len(set(own.targets.tolist())) == 1:
            notes.append(f"{name}: all training records are of one class, {classes[int(own.targets[0])]}")


def _named_lots(
    tables: Tables, lots: str, kept: Sequence[NDArray[np.intp]]
) -> tuple[tuple[NDArray[np.intp], ...], tuple[tuple[str, ...], ...]]:
    owned, names = [], []
    for member, table, used in zip(tables, tables.values(), kept, strict=True):
        labels = np.array([label or "unnamed" for label in _labels(_column_of(table, lots))], dtype=object)[used]
        own = sorted(set(labels.tolist()), key=_natural)
        if len(own) > MAX_LOTS:
            raise InvalidInput(
                f'member "{member}" has {len(own)} lots by column {short_repr(lots)}; up to {MAX_LOTS} can be told '
                f"apart"
            )
        owned.append(np.array([own.index(label) for label in labels], dtype=np.intp))
        names.append(tuple(own))
    return tuple(owned), tuple(names)


def _row_labels(given: Any) -> list[Any] | None:
    """The labels of a pandas object's rows, counted ones too; None of what has none."""
    index = getattr(given, "index", None)
    return None if index is None or callable(index) else list(index)


def tables_of(members: Mapping[str, Any], target: str | None) -> tuple[dict[str, DataTable], str]:
    """Tables of pandas frames, or of pairs of features and targets, and the column to predict."""
    tables: dict[str, DataTable] = {}
    for name, given in members.items():
        if hasattr(given, "columns") and hasattr(given, "to_dict"):
            columns = {str(label): plain_column(str(label), given[label].tolist()) for label in given.columns}
        else:
            try:
                features, targets = given
                kept = labels_of(features, "columns")
                labels, others = _row_labels(features), _row_labels(targets)
                if labels != others and labels is not None and others is not None:
                    raise InvalidInput(
                        f'data of member "{name}": features and targets must have the same row labels in the same '
                        f"order; give their .to_numpy() to go by position"
                    )
                rows = np.asarray(features, dtype=np.float64)
                own = plain_column(PAIRED_TARGET, np.asarray(targets).tolist())
            except InvalidInput:
                raise
            except (TypeError, ValueError) as error:
                raise InvalidInput(
                    f'data of member "{name}" must be a table, or a pair of features and targets, '
                    f"got {short_repr(given)}"
                ) from error
            if rows.ndim != 2 or len(rows) != len(own):
                raise InvalidInput(
                    f'data of member "{name}": a row of features per target, got {rows.shape}, {len(own)}'
                )
            named = [f"feature {place}" for place in range(1, rows.shape[1] + 1)] if kept is None else map(str, kept)
            columns = dict(zip(named, rows.T, strict=True))
            columns[target or PAIRED_TARGET] = own
        count = len(next(iter(columns.values()), ()))
        tables[str(name)] = DataTable(columns=columns, rows=range(1, count + 1), source=Path(str(name)))
    if len(tables) < 2:
        raise InvalidInput(f"data must be of two members or more, got {len(tables)}")
    return tables, target or PAIRED_TARGET
