"""Rounds of a run that was not made by fedpact, as anybody can write them down: a line per round and member.

    round,member,samples,score,subset,test_size
    10,North,400,0.81,,1000
    10,South,250,0.78,,800
    10,North,400,0.74,North,1000
    10,South,250,0.69,North,800

`samples` is what the member trained on in that round, `score` what the model after it scores on the member's test data.
`subset` says of whose updates the model is made, names joined by "+": everybody's where the cell is empty or the column
is missing. `test_size` may be missing too. Only the last round counts: earlier ones are the same data, trained less.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedpact.fitting.observations import check_accuracies, checked_test_sizes
from fedpact.fitting.runs_file import LogTable
from fedpact.utils.cells import number_format, read_cells
from fedpact.utils.errors import InvalidInput, error_context, short_repr

REQUIRED, OPTIONAL = ("round", "member", "samples", "score"), ("subset", "test_size")
JOINED = "+"


def holds_plain_rounds(path: Path) -> bool:
    """Whether a table begins with a head of this kind."""
    with error_context(str(path)):
        head = next(iter(read_cells(path, max_rows=1)), (1, []))[1]
    return [cell.strip() for cell in head[:2]] == list(REQUIRED[:2])


def read_plain_rounds(path: Path, *, as_subsets: bool = False) -> LogTable:
    """The models of the last round: what members gave to each, or with `as_subsets` 1 and 0, and what they score."""
    with error_context(str(path)):
        (_, head), *lines = read_cells(path)
        columns = [cell.strip() for cell in head]
        for column in REQUIRED:
            if column not in columns:
                known = ", ".join((*REQUIRED, *OPTIONAL))
                raise InvalidInput(f"there is no column {column!r}; a table of rounds has the columns {known}")
        for row, line in lines:
            if len(line) != len(head):
                raise InvalidInput(f"row {row} must have {len(head)} cells like the head, got {len(line)}")
        cells = [(row, dict(zip(columns, map(str.strip, line), strict=True))) for row, line in lines]
        written = number_format([(row, [each[key] for key in ("samples", "score")]) for row, each in cells])

        def number(row: int, each: dict[str, str], key: str) -> float:
            try:
                found = written.number(each[key])
            except ValueError:
                found = -1.0
            if not (found >= 0.0 or (np.isnan(found) and key == "test_size")):
                raise InvalidInput(f"row {row}, column {key!r} must be a number of at least 0, got {each[key]!r:.40}")
            return found

        rounds = [number(row, each, "round") for row, each in cells]
        last = max(rounds, default=-1.0)
        ended = [cell for cell, at in zip(cells, rounds, strict=True) if at == last]
        names = list(dict.fromkeys(each["member"] for _, each in ended))
        for row, each in cells:
            if each["member"] not in names:
                raise InvalidInput(
                    f"row {row}: member {each['member']!r:.40} has no row in round {last:g}, the last, which is the "
                    f"one that counts; say what it did there, or leave it out"
                )
        samples = {each["member"]: number(row, each, "samples") for row, each in ended}
        subsets = [_subset(row, each.get("subset", ""), names) for row, each in ended]
        models = list(dict.fromkeys(subsets))
        given = np.array([[name in model for name in names] for model in models], dtype=np.float64)
        scores, sizes = np.full((2, len(models), len(names)), np.nan)
        rows = [0] * len(models)
        for (row, each), subset in zip(ended, subsets, strict=True):
            at = models.index(subset), names.index(each["member"])
            if not np.isnan(scores[at]):
                raise InvalidInput(f"row {row}: member {each['member']!r:.40} is there twice for one model")
            rows[at[0]] = rows[at[0]] or row
            scores[at] = number(row, each, "score")
            sizes[at] = number(row, each, "test_size") if each.get("test_size") else np.nan
        check_accuracies(scores)
        if not as_subsets:
            given = given * np.array([samples[name] for name in names])
        return LogTable.of_members(names, given, scores, checked_test_sizes(sizes, sizes.shape), rows)


def _subset(row: int, cell: str, names: list[str]) -> tuple[str, ...]:
    """Of whose updates a model is made, in the order of the names."""
    chosen = {part.strip() for part in cell.split(JOINED)} if cell else set(names)
    unknown = sorted(chosen - set(names))
    if unknown:
        given = short_repr(unknown[0])
        raise InvalidInput(
            f"row {row}, column 'subset' must name members of the table joined by {JOINED!r}, got {given}"
        )
    return tuple(name for name in names if name in chosen)
