"""Members' records as numbers, and how they are divided: every record is tested, never by a model that has seen it.

**Cross-fitting.** Each member's records are dealt into folds, every class evenly. A model that is tested on fold k is
trained without fold k of any member; over all folds every record is tested once. Repeated with other deals, that is
`splits` times. Records that belong together (one patient's) stay together.

**Sharing.** Who shares a part of a lot shares that part of its training records in a fold: a model under test knows
three quarters of what is shared, as it knows three quarters of what a member has itself. They are the first in an order
that is drawn once per split, so that who shares more shares what it shared before and more.

**Tables.** A folder with a table per member, or one table with a column that says whose, are read by pandas. Texts
become a column per value, if there are few of them; records without a target are left out; missing features stay
missing until a model is trained. Members must have the same columns. What is missing, constant, or zero throughout is
listed by member and column: it is the first thing to talk about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import read_text
from fedpact.utils.tables import MISSING, find_separator, number_format, text_cells
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CLASSIFICATION, REGRESSION = "classification", "regression"
FOLDS = 4
MIN_RECORDS = 12  # of a member: three to test in each fold
Index = NDArray[np.intp]
Tables = Mapping[str, "DataFrame"]
MAX_TEXTS = 20  # different texts of a column that become columns
MAX_CLASSES = 20  # different whole numbers of a target that are classes; more of them are amounts
MAX_CLASSES_SAID = 4
MAX_LISTED = 20  # columns in a sentence
SAMPLED = 200  # rows that tell how numbers are written
MOSTLY = 0.9  # share of a column's known cells that are numbers from which the others are mistakes
SEVERAL = 0.05  # share of a member's cells from which missing ones are worth a line
READABLE = {".csv", ".tsv", ".txt"}
IGNORED = {".md", ".rst", ".pdf", ".html", ".docx", ".json", ".toml"}  # what lies beside tables and is none


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """One member's records."""

    features: FloatArray  # (N, d), NaN where one is missing
    targets: FloatArray  # (N,), as models are trained on them: numbers, or indices of classes
    truth: FloatArray  # (N,), as models are tested with; other than `targets` only where a built-in pilot spoils these
    lots: Index  # (N,): which of the member's lots each belongs to
    groups: Index  # (N,): records of one number belong together

    @classmethod
    def of(cls, features: FloatArray, targets: FloatArray, **others: Any) -> Records:
        """Records of one lot, each on its own, tested with what they are trained on; unless something else is said."""
        n = len(targets)
        rest = {"truth": targets, "lots": np.zeros(n, dtype=np.intp), "groups": np.arange(n)}
        return cls(features=features, targets=targets, **(rest | others))

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotData:
    """Everybody's records."""

    names: tuple[str, ...]  # The members
    records: tuple[Records, ...]  # One each per member
    task: str  # "classification" or "regression"
    target: str = ""  # The column that is predicted; empty if nobody said
    classes: tuple[str, ...] = ()  # What the targets of a classification stand for
    feature_names: tuple[str, ...] = ()  # Of the columns
    # Per member, the names of its lots: one, that is the member's, unless it has several
    lot_names: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()  # What was done to the tables, and what is odd about them, in words

    def __post_init__(self) -> None:
        if not self.lot_names:
            object.__setattr__(self, "lot_names", tuple((name,) for name in self.names))
        for name, own in zip(self.names, self.records, strict=True):
            if len(np.unique(own.groups)) < MIN_RECORDS:
                raise InvalidInput(
                    f'member "{name}" has {len(own)} records in {len(np.unique(own.groups))} groups; a pilot needs '
                    f"{MIN_RECORDS} or more that do not belong together: give it more, or leave the member out"
                )

    def __repr__(self) -> str:
        total = count_text(sum(map(len, self.records)), "record")
        return f"PilotData({self.task}, {join_names(self.names)}: {total})"

    @property
    def predicted(self) -> str:
        """What is predicted, in words: the column, and its classes where there are a few."""
        if not self.classes:
            return self.target or "a number"
        classes = f"one of {len(self.classes)} classes"
        if len(self.classes) <= MAX_CLASSES_SAID:
            classes = f"{', '.join(self.classes[:-1])} or {self.classes[-1]}"
        return f"{self.target} ({classes})" if self.target else classes

    @property
    def has_lots(self) -> bool:
        """Whether a member has several lots."""
        return any(len(own) > 1 for own in self.lot_names)

    @property
    def lot_owners(self) -> list[int]:
        """The owner of every lot, by index."""
        return [member for member, own in enumerate(self.lot_names) for _ in own]

    @property
    def lot_labels(self) -> list[str]:
        """What lots are called among all: the member's name, and the lot's where it has several."""
        return [
            name if len(own) == 1 else f"{name}.{lot}"
            for name, own in zip(self.names, self.lot_names, strict=True)
            for lot in own
        ]

    @cached_property
    def caps(self) -> FloatArray:
        """(lots,): how many records each holds."""
        parts = zip(self.records, self.lot_names, strict=True)
        return np.array([float((own.lots == lot).sum()) for own, lots in parts for lot in range(len(lots))])

    @cached_property
    def fingerprint(self) -> str:
        """A text that tells the records from others."""
        from joblib import hash as digest  # noqa: PLC0415 - slow to import

        return str(digest((self.names, self.task, self.classes, self.lot_names, [vars(own) for own in self.records])))


class Fold(NamedTuple):
    """Indices of one member's records in one fold: tested, and to train on, in the order in which they are shared."""

    test: Index
    train: Index


def deal_folds(data: PilotData, seed: Sequence[int]) -> list[list[Fold]]:
    """Every member's folds of one split."""
    from sklearn import model_selection  # noqa: PLC0415 - slow to import

    rng = np.random.default_rng(list(seed))
    dealt = []
    for own in data.records:
        together = len(np.unique(own.groups)) < len(own)
        kind = f"{'' if data.task == REGRESSION else 'Stratified'}{'Group' if together else ''}KFold"
        made = getattr(model_selection, kind)(FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
        order = rng.permutation(len(own))
        parts = made.split(own.features, own.targets, own.groups if together else None)
        dealt.append([Fold(test, order[np.isin(order, train)]) for train, test in parts])
    return dealt


def shared_records(own: Records, fold: Fold, shares: Sequence[float]) -> Index:
    """The records that a member shares while a fold is tested: of every lot the first ones, by its share."""
    lots = [fold.train[own.lots[fold.train] == lot] for lot in range(len(shares))]
    return np.concatenate([rows[: round(share * len(rows))] for rows, share in zip(lots, shares, strict=True)])


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
            rows = text_cells(content)
            sample = rows[:SAMPLED]
            head = [cell.strip() for cell in rows[0][1]] if rows else []
            while head and not head[-1]:
                head.pop()
            for twice in sorted({name for name in head if name and head.count(name) > 1}):
                raise InvalidInput(f"column {short_repr(twice)} appears twice; keep one of them")
            for line, cells in rows:  # pandas takes the first cell for an index, and moves the others
                if any(map(str.strip, cells[len(head) :])):
                    comma = "; is it a decimal comma? write a point" if separator == "," else ""
                    raise InvalidInput(f"line {line}: {len(cells)} fields, the header has {len(head)}{comma}")
            decimal = "," if number_format(sample).comma == "decimal" else "."
            options = {"sep": separator, "skiprows": skipped, "decimal": decimal, "na_values": list(MISSING)}
            table = pd.read_csv(StringIO(content), skipinitialspace=True, **options)
        except InvalidInput:
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
            if path.suffix.lower() in READABLE:
                if (other := tables.setdefault(path.stem, path)) != path:
                    raise InvalidInput(f"{data}: {other.name} and {path.name} are of one member; keep one of them")
            elif path.suffix.lower() not in IGNORED:
                readable = ", ".join(sorted(READABLE))
                raise InvalidInput(f"{path} is no table that can be read ({readable}); save it as one")
        if len(tables) < 2:
            raise InvalidInput(f"{data} must hold a table for each of two members or more, got {len(tables)}")
        others = ", ".join(path.name for path in files if path not in tables.values())
        return {name: read_table(path) for name, path in tables.items()}, [f"left out: {others}"] if others else []
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
    """Members' frames by name, and the column to predict."""
    for name, frame in members.items():
        if not isinstance(frame, pandas().DataFrame):
            raise InvalidInput(f'data of member "{name}" must be a pandas frame, got {short_repr(frame)}')
    if len(members) < 2:
        raise InvalidInput(f"data must be of two members or more, got {len(members)}")
    return {str(name): frame.rename(columns=str) for name, frame in members.items()}, target or "target"


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

    records = []
    for rows, own, lot, table in zip(features, targets, owned, kept.values(), strict=True):
        alike = {} if groups is None else {"groups": pandas().factorize(table[groups].fillna("missing"))[0]}
        records.append(Records.of(rows, own, lots=lot, **alike))
    said += _oddities(tuple(kept), records, feature_names, classes)
    return PilotData(
        names=tuple(kept),
        records=tuple(records),
        task=task,
        target=target,
        classes=classes,
        feature_names=feature_names,
        lot_names=lot_names,
        notes=tuple(said),
    )


def _targets(tables: Tables, target: str, task: str | None) -> tuple[str, tuple[str, ...], list[FloatArray]]:
    columns = [table[target] for table in tables.values()]
    numeric, together = all(map(pandas().api.types.is_numeric_dtype, columns)), pandas().concat(columns)
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise InvalidInput(f"task must be {CLASSIFICATION} or {REGRESSION}, got {short_repr(task)}")
    if task == REGRESSION and not numeric:
        raise InvalidInput(f"a regression needs numbers in {short_repr(target)}, which holds texts")
    if task is None:
        few = numeric and together.nunique() <= MAX_CLASSES and bool((together == together.round()).all())
        task = CLASSIFICATION if few or not numeric else REGRESSION
    values = sorted(together.unique(), key=lambda value: (isinstance(value, str), value))
    if len(values) < 2:
        raise InvalidInput(f"column {short_repr(target)} has one value only ({values[0]}); nothing to predict")
    if task == REGRESSION:
        return task, (), [column.to_numpy(np.float64) for column in columns]
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
    features = np.split(encoded.to_numpy(np.float64), ends)
    for member, own in zip(tables, features, strict=True):
        for row, column in np.argwhere(np.isinf(own))[:1].tolist():
            where = f'member "{member}", record {row + 1}, column {short_repr(encoded.columns[column])}'
            raise InvalidInput(f"{where} must be a number or empty, got {own[row, column]:g}")
    return features, tuple(encoded.columns)


def _encode(column: Series, name: str, notes: list[str]) -> DataFrame:
    """Numbers as they are; texts as a column for each, unless they are numbers with a mistake among them."""
    pd = pandas()
    if not pd.api.types.is_numeric_dtype(column):
        numbers = pd.to_numeric(column, errors="coerce")
        strays = column[column.notna() & numbers.isna()]
        if not strays.empty and len(strays) < (1.0 - MOSTLY) * column.notna().sum():
            raise InvalidInput(
                f"column {short_repr(name)} must hold numbers like the others of its column, got "
                f"{short_repr(str(strays.iloc[0]))}; leave it empty if it is not known"
            )
        column = numbers if strays.empty else column
    if pd.api.types.is_numeric_dtype(column):
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
    found = []
    for member, table in tables.items():
        if table[lots].isna().any():
            raise InvalidInput(f'member "{member}": column {short_repr(lots)} must name the lot of every record')
        found.append(pandas().factorize(table[lots].astype(str), sort=True))
    return [np.asarray(owned, dtype=np.intp) for owned, _ in found], tuple(tuple(kinds) for _, kinds in found)


def _oddities(
    names: Sequence[str], records: Sequence[Records], columns: Sequence[str], classes: Sequence[str]
) -> list[str]:
    """What is missing, constant or zero throughout, by member and column; classes that are not there."""
    pd, said = pandas(), []
    frames = [pd.DataFrame(own.features, columns=list(columns)) for own in records]
    medians = pd.DataFrame([frame.median() for frame in frames])
    for member, (name, own, frame) in enumerate(zip(names, records, frames, strict=True)):
        gaps = frame.isna().mean().sort_values(ascending=False, kind="stable")
        others, constant = medians.drop(index=member), frame.nunique() == 1
        zeros = constant & (frame.fillna(0.0) == 0.0).all() & ((others > 0.0) | others.isna()).all()
        plain = np.array([" = " not in column for column in columns])  # of texts each is one of several
        for words, odd in (
            ("missing in {}", [f"{column} ({100 * gap:.0f} %)" for column, gap in gaps.items() if gap >= SEVERAL]),
            ("{} 0 throughout, mostly above 0 elsewhere: not measured? leave it empty", frame.columns[zeros]),
            ("the same value throughout in {}", frame.columns[constant & ~zeros & plain]),
            ("no record of {}", [each for index, each in enumerate(classes) if not (own.truth == index).any()]),
        ):
            if len(odd):
                said.append(f"{name}: {words.format(join_names(list(odd)))}")
    return said
