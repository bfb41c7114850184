"""Members' tables as records: a folder with a table per member, or one table with a column that says whose.

Tables are read by pandas. Texts become a column per value, if there are few of them; records without a target are left
out; missing features stay missing until a model is trained. Members must have the same columns. What is missing,
constant, or zero throughout is listed by member and column: it is the first thing to talk about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, Index, PilotData, Records
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import read_text
from fedpact.utils.tables import MISSING, find_separator, number_format, text_cells
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Tables = Mapping[str, "DataFrame"]
MAX_TEXTS = 20  # different texts of a column that become columns
MAX_CLASSES = 20  # different whole numbers of a target that are classes; more of them are amounts
MAX_LISTED = 20  # columns in a sentence
SAMPLED = 200  # rows that tell how numbers are written
MOSTLY = 0.9  # share of a column's known cells that are numbers from which the others are mistakes
SEVERAL = 0.05  # share of a member's cells from which missing ones are worth a line
READABLE = {".csv", ".tsv", ".txt"}
IGNORED = {".md", ".rst", ".pdf", ".html", ".docx", ".json", ".toml"}  # what lies beside tables and is none


def pandas() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import pandas as pd  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pandas", "pilot") from error
    return pd


def read_table(path: Path) -> DataFrame:
    """A CSV file: separators, decimal commas and empty cells as people write them."""
    pd = pandas()
    with error_context(str(path)):
        try:
            content = read_text(path)
            separator, skipped = find_separator(content)
            sample = text_cells(content, max_rows=SAMPLED)
            head = [cell.strip() for cell in sample[0][1] if cell.strip()] if sample else []
            for twice in sorted({name for name in head if head.count(name) > 1}):
                raise InvalidInput(f"column {short_repr(twice)} appears twice; keep one of them")
            written = {"decimal": "," if number_format(sample).comma == "decimal" else ".", "skipinitialspace": True}
            table = pd.read_csv(StringIO(content), sep=separator, skiprows=skipped, na_values=list(MISSING), **written)
        except (InvalidInput, MissingExtra):
            raise
        except Exception as error:  # whatever a damaged file raises
            raise InvalidInput(f"the file cannot be read as a table: {str(error).splitlines()[0]}") from error
        if table.empty:
            raise InvalidInput("the file holds no records; write the columns' names and a row per record")
        table.columns = [str(name).strip() for name in table.columns]
        # Columns without a name are empty ends of rows, or the index that pandas writes.
        return table.drop(columns=[name for name in table.columns if name.startswith("Unnamed: ")])


def read_members(data: Path, member: str | None = None) -> tuple[dict[str, DataFrame], list[str]]:
    """The table of each member by name, of every file in a folder or of one file by a column; and what to say of it."""
    if data.is_dir():
        if member is not None:
            raise InvalidInput(f"{data} is a folder with a table per member; a column of members is for a single table")
        files = sorted(path for path in data.iterdir() if path.is_file() and not path.name.startswith((".", "~$")))
        tables: dict[str, Path] = {}
        for path in files:
            if path.suffix.lower() not in READABLE | IGNORED:
                raise InvalidInput(
                    f"{path} is no table that can be read ({', '.join(sorted(READABLE))}); save it as one"
                )
            if path.suffix.lower() in READABLE:
                other = tables.setdefault(path.stem, path)
                if other != path:
                    raise InvalidInput(f"{data}: {other.name} and {path.name} are of one member; keep one of them")
        if len(tables) < 2:
            raise InvalidInput(f"{data} must hold a table for each of two members or more, got {len(tables)}")
        others = [path.name for path in files if path not in tables.values()]
        notes = [f"left out: {', '.join(others)}"] if others else []
        return {name: read_table(path) for name, path in tables.items()}, notes
    table = read_table(data)
    if member is None:
        raise InvalidInput(
            f"{data} is a single table: say which of its columns names the member ({column_list(table)})"
        )
    owners = _column(table, member, str(data))
    for row in np.flatnonzero(owners.isna())[:1]:
        raise InvalidInput(f"{data}: row {row + 2}, column {short_repr(member)} is empty; every record has a member")
    parts = {str(name): own.drop(columns=member) for name, own in table.groupby(owners.astype(str), sort=False)}
    if len(parts) < 2:
        raise InvalidInput(f"{data}: column {short_repr(member)} must name two members or more, got {', '.join(parts)}")
    return parts, []


def frames_of(members: Mapping[str, Any], target: str | None) -> tuple[dict[str, DataFrame], str]:
    """Frames of members' frames, or of pairs of features and targets, and the column to predict."""
    pd, named = pandas(), target or "target"
    frames = {}
    for name, given in members.items():
        if isinstance(given, pd.DataFrame):
            frames[str(name)] = given
            continue
        try:
            features, targets = given
            rows = features if isinstance(features, pd.DataFrame) else pd.DataFrame(np.asarray(features, np.float64))
            frame = rows.rename(columns=lambda label: f"feature {label + 1}" if isinstance(label, int) else str(label))
            frames[str(name)] = frame.assign(**{named: np.asarray(targets)})
        except (TypeError, ValueError) as error:
            rule = f'data of member "{name}" must be a table, or a pair of features and targets'
            raise InvalidInput(f"{rule}, got {short_repr(given)}") from error
        if isinstance(targets, pd.Series) and list(targets.index) != list(rows.index):
            raise InvalidInput(
                f'data of member "{name}": features and targets must have the same row labels in the same order; '
                f"give their .to_numpy() to go by position"
            )
    if len(frames) < 2:
        raise InvalidInput(f"data must be of two members or more, got {len(frames)}")
    return frames, named


def column_list(table: DataFrame) -> str:
    """The columns there are, in a sentence."""
    names = list(map(str, table.columns))
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def _column(table: DataFrame, name: str, where: str) -> Series:
    if name not in table.columns:
        raise InvalidInput(f"{where}: there is no column {short_repr(name)}; columns are {column_list(table)}")
    return table[name]


def pilot_data(
    tables: Tables,
    target: str,
    *,
    task: str | None = None,
    ignore: Sequence[str] = (),
    lots: str | None = None,
    groups: str | None = None,
    notes: Sequence[str] = (),
) -> PilotData:
    """Records of members' tables, by the member's name; columns as `pilot` takes them.

    `notes` is what is to be said of the tables already.
    """
    said = list(notes)
    kept = {}
    for name, table in tables.items():
        for used in (target, lots, groups, *ignore):
            if used is not None:
                _column(table, used, f'member "{name}"')
        known = table[target].notna()
        if not known.any():
            raise InvalidInput(f'member "{name}": column {short_repr(target)} is empty; fill it in, or leave it out')
        if not known.all():
            said.append(f"{name}: {count_text(int((~known).sum()), 'record')} without {short_repr(target)} left out")
        kept[name] = table[known].reset_index(drop=True)
    task, classes, targets = _targets(kept, target, task)
    unused = {target, lots, groups, *ignore}
    features, feature_names = _features(kept, unused, said)
    owned, lot_names = _kinds(kept, lots)

    def codes(column: Series) -> Index:
        return np.asarray(pandas().factorize(column.fillna("missing"))[0], dtype=np.intp)

    records = tuple(
        Records.of(rows, own, lots=lot, **({} if groups is None else {"groups": codes(table[groups])}))
        for rows, own, lot, table in zip(features, targets, owned, kept.values(), strict=True)
    )
    said += _oddities(tuple(kept), records, feature_names, classes)
    return PilotData(
        names=tuple(kept),
        records=records,
        task=task,
        classes=classes,
        feature_names=feature_names,
        lot_names=lot_names,
        notes=tuple(said),
    )


def _is_numeric(column: Series) -> bool:
    return bool(pandas().api.types.is_numeric_dtype(column))


def _targets(tables: Tables, target: str, task: str | None) -> tuple[str, tuple[str, ...], list[FloatArray]]:
    pd = pandas()
    columns = [table[target] for table in tables.values()]
    numeric = all(map(_is_numeric, columns))
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise InvalidInput(f"task must be {CLASSIFICATION} or {REGRESSION}, got {short_repr(task)}")
    if task == REGRESSION and not numeric:
        raise InvalidInput(f"a regression needs numbers in {short_repr(target)}, which holds texts")
    together = pd.concat(columns)
    if task is None:
        few = numeric and together.nunique() <= MAX_CLASSES and bool((together == together.round()).all())
        task = CLASSIFICATION if few or not numeric else REGRESSION
    if together.nunique() < 2:
        raise InvalidInput(f"column {short_repr(target)} has one value only ({together.iloc[0]}); nothing to predict")
    if task == REGRESSION:
        return task, (), [column.to_numpy(np.float64) for column in columns]
    values = sorted(together.unique(), key=lambda value: (isinstance(value, str), value))
    if len(values) > MAX_CLASSES and not numeric:
        raise InvalidInput(
            f"column {short_repr(target)} holds {len(values)} different texts; {MAX_CLASSES} can be told"
        )
    index = {value: float(place) for place, value in enumerate(values)}
    classes = tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return task, classes, [column.map(index).to_numpy(np.float64) for column in columns]


def _features(tables: Tables, unused: set[Any], notes: list[str]) -> tuple[list[FloatArray], tuple[str, ...]]:
    pd = pandas()
    first, *others = tables
    wanted = [name for name in tables[first].columns if name not in unused]
    for other in others:
        theirs = set(tables[other].columns) - unused
        for lacking, having, missing in ((other, first, set(wanted) - theirs), (first, other, theirs - set(wanted))):
            if missing:
                name = min(missing)
                raise InvalidInput(
                    f'member "{lacking}" has no column {short_repr(name)}, which "{having}" has; add it, or leave it '
                    f"out for all (ignore {name})"
                )
    together = pd.concat([table[wanted] for table in tables.values()], ignore_index=True)
    parts = [_encode(together[name], name, notes) for name in wanted]
    if not parts:
        raise InvalidInput("there is no column left to predict from")
    encoded = pd.concat(parts, axis=1)
    ends = np.cumsum([len(table) for table in tables.values()])[:-1]
    return np.split(encoded.to_numpy(np.float64), ends), tuple(encoded.columns)


def _encode(column: Series, name: str, notes: list[str]) -> DataFrame:
    """Numbers as they are; texts as a column for each, unless they are numbers with a mistake among them."""
    pd = pandas()
    if not _is_numeric(column):
        numbers = pd.to_numeric(column, errors="coerce")
        strays = column[column.notna() & numbers.isna()]
        if not strays.empty and len(strays) < (1.0 - MOSTLY) * column.notna().sum():
            raise InvalidInput(
                f"column {short_repr(name)} must hold numbers like the others of its column, got "
                f"{short_repr(str(strays.iloc[0]))}; leave it empty if it is not known"
            )
        column = numbers if strays.empty else column
    if _is_numeric(column):
        return column.to_frame(name)
    made = pd.get_dummies(column.astype("string").str.strip(), dtype=np.float64)
    if made.shape[1] > MAX_TEXTS:
        raise InvalidInput(
            f"column {short_repr(name)} holds {made.shape[1]} different texts, more than the {MAX_TEXTS} that can "
            f"become columns; put fewer kinds in it, or leave it out (ignore {name})"
        )
    notes.append(f"column {short_repr(name)} holds texts: a column for each of {', '.join(made.columns)}")
    return made.add_prefix(f"{name} = ")


def _kinds(tables: Tables, lots: str | None) -> tuple[list[Index], tuple[tuple[str, ...], ...]]:
    if lots is None:
        return [np.zeros(len(table), dtype=np.intp) for table in tables.values()], ()
    owned, names = [], []
    for member, table in tables.items():
        if table[lots].isna().any():
            raise InvalidInput(f'member "{member}": column {short_repr(lots)} must name the lot of every record')
        kinds = sorted(table[lots].astype(str).unique())
        owned.append(np.asarray(table[lots].astype(str).map(kinds.index), dtype=np.intp))
        names.append(tuple(kinds))
    return owned, tuple(names)


def _oddities(
    names: Sequence[str], records: Sequence[Records], columns: Sequence[str], classes: Sequence[str]
) -> list[str]:
    """What is missing, constant or zero throughout, by member and column; classes that are not there."""
    pd, said = pandas(), []
    frames = [pd.DataFrame(own.features, columns=list(columns)) for own in records]
    medians = pd.DataFrame([frame.median() for frame in frames])
    for member, (name, own, frame) in enumerate(zip(names, records, frames, strict=True)):
        gaps = frame.isna().mean().sort_values(ascending=False, kind="stable")
        missing = [f"{column} ({100 * gap:.0f} %)" for column, gap in gaps.items() if gap >= SEVERAL]
        others, constant = medians.drop(index=member), frame.nunique() == 1
        zeros = constant & (frame.fillna(0.0) == 0.0).all() & ((others > 0.0) | others.isna()).all()
        plain = np.array([" = " not in column for column in columns])  # of texts each is one of several
        same = constant & ~zeros & plain
        absent = [label for place, label in enumerate(classes) if not (own.truth == place).any()]
        for words, odd in (
            ("missing in {}", missing),
            ("{} 0 throughout, mostly above 0 elsewhere: not measured? leave it empty", list(frame.columns[zeros])),
            ("the same value throughout in {}", list(frame.columns[same])),
            ("no record of {}", absent),
        ):
            if odd:
                said.append(f"{name}: {words.format(join_names(odd))}")
    return said
