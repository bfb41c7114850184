"""Cells of a spreadsheet put into the form, pasted or from a CSV file.

The first row may name the columns ("name", "cost", "cap", "value", ...) or, of weights, the members; else cells go
where they are pasted. Rows beyond the last member make new members. The page says which cells it did not take. Numbers
may be written with decimal commas or percent signs; what is no number stays as it was typed, and the form marks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from fedpact.explorer.draft import COLUMNS, MAX_MEMBERS, TAKING_PART, Draft, typed_text, with_agent, without_agent
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.tables import NumberFormat, is_missing, is_number, text_cells
from fedpact.utils.words import count_text

FIELD = re.compile(rf"({'|'.join((*COLUMNS, *TAKING_PART, 'weights'))}|payoff\.\w+)\[(\d+)(?:,(\d+))?\]")
HEADS: Mapping[str, frozenset[str]] = {
    "names": frozenset({"name", "names", "member", "members", "agent", "agents", "who"}),
    "costs": frozenset({"cost", "costs", "cost per unit", "cost per unit of data", "unit cost", "price"}),
    "quadratic": frozenset({"rising cost", "rising costs", "quadratic", "quadratic cost"}),
    "caps": frozenset({"cap", "caps", "limit", "most", "data", "records", "the most it can give"}),
    "values": frozenset({"value", "values", "worth"}),
    "home": frozenset({"home", "at home", "data at home"}),
    "joining_costs": frozenset({"joining cost", "joining costs", "joining"}),
    "budgets": frozenset({"budget", "budgets", "the most it can pay"}),
}
MAX_TEXTS_TOLD = 5
LONE_NUMBERS = re.compile(r"\s*[+\-−]?\d*[.,]?\d+\s*%?\s*(\r?\n\s*[+\-−]?\d*[.,]?\d+\s*%?\s*)*")
Cells = list[list[str]]
Filled = tuple[Draft, list[str]]


def paste_cells(draft: Draft, start: str, text: str) -> Filled:
    """Cells pasted into a field of a table; the draft with them, and what was added or not taken."""
    at = FIELD.fullmatch(start)
    if at is None:
        raise InvalidInput(f"cells are pasted into a table's field, got {short_repr(start)}")
    cells = _cells(text)
    if not cells:
        raise InvalidInput("there is nothing in the cells that were pasted")
    label, row = at[1], int(at[2])
    heads = _head_columns(cells[0], draft)
    if heads:
        return _put_members(draft, cells[1:], heads, range(row, row + len(cells) - 1), head=cells[0])
    names = _matrix_names(cells)
    if names:
        return _put_named_weights(draft, cells, names)
    if label == "weights":
        return _put_weights(draft, cells, row, int(at[3] or 0))
    own = [f"payoff.{parameter}" for parameter in draft.parameters] if draft.own_curves else []
    shown = TAKING_PART if label in TAKING_PART else (*COLUMNS, *own)
    columns = shown[shown.index(label) :] if label in shown else []
    return _put_members(draft, cells, columns, range(row, row + len(cells)))


def open_table(draft: Draft, name: str, text: str) -> Filled:
    """The members or the weights of a CSV file in a draft; members it has already are known by their names."""
    cells = _cells(text)
    if not cells:
        raise InvalidInput(f"{name}: the file has no rows")
    heads = _head_columns(cells[0], draft)
    if heads and "names" not in heads:
        return _put_members(draft, cells[1:], heads, range(len(cells) - 1), head=cells[0])
    if heads:
        column = heads.index("names")
        named = [row[column].strip() if column < len(row) else "" for row in cells[1:]]
        twice = [each for index, each in enumerate(named) if each in named[:index]]
        if twice:
            raise InvalidInput(f"{name}: two rows are called {short_repr(twice[0])}; give each member one row")
        draft, indices = _places(draft, named)
        found, notes = _put_members(draft, cells[1:], heads, indices, head=cells[0])
        return found, [*notes, *_left_alone(found, named)]
    names = _matrix_names(cells)
    if names:
        return _put_named_weights(draft, cells, names)
    written = NumberFormat.of(chain.from_iterable(cells))
    if all(len(row) == len(cells) for row in cells) and all(is_number(cell, written) for row in cells for cell in row):
        return _put_weights(draft, cells, 0, 0)
    if any(cell.startswith("contributions.") for cell in cells[0]):
        raise InvalidInput(f"{name} is a log of runs: fedpact fit {name} makes a scenario of it, which can be opened")
    raise InvalidInput(
        f"{name}: row 1 must name columns such as name, cost, cap and value, or the members along a table of weights, "
        f"got {_listed(cells[0])}"
    )


def _cells(text: str) -> Cells:
    """Rows of cells; a single column of numbers may have decimal commas."""
    if LONE_NUMBERS.fullmatch(text):
        return [[line.strip()] for line in text.split("\n") if line.strip()]
    return [row for _, row in text_cells(text)]


def _typed(cell: str, written: NumberFormat) -> str:
    """A number as it would be typed into the form; any other cell stays as it is."""
    plain = cell.strip().replace("−", "-")
    try:
        return cell.strip() if is_missing(plain) else typed_text(written.number(plain))
    except (ValueError, InvalidInput):
        return cell.strip()


def _head_columns(head: Sequence[str], draft: Draft) -> list[str | None]:
    """The form's column that each heading names, or None; an empty list if the cells are no headings."""
    written = NumberFormat.of(head)
    if any(is_number(cell, written) for cell in head):
        return []
    known = {each: label for label, names in HEADS.items() for each in names}
    known |= {label: f"payoff.{label}" for label in draft.parameters if draft.own_curves}
    # Without the unit: "Cost (EUR per record)", "Cost, EUR", "Cost [EUR]".
    plain = [re.split(r"[(\[,:/]", cell, maxsplit=1)[0].strip().lower().replace("_", " ") for cell in head]
    found = [known.get(cell) for cell in plain]
    named = [label for label in found if label is not None]
    enough = len(named) >= 2 or (len(named) == 1 and len([cell for cell in head if cell.strip()]) == 1)
    return found if enough and len(set(named)) == len(named) else []


def _matrix_names(cells: Cells) -> list[str]:
    """The members' names, if they stand along the top and down the side of the cells."""
    if len(cells) < 2 or len(cells[0]) < 2:
        return []
    top, side = [cell.strip() for cell in cells[0][1:]], [row[0].strip() for row in cells[1:]]
    written = NumberFormat.of(chain.from_iterable(row[1:] for row in cells[1:]))
    is_named = all(top) and len(set(top)) == len(top) and sorted(side) == sorted(top)
    return top if is_named and not any(is_number(name, written) for name in top) else []


def _put_members(
    draft: Draft, rows: Cells, columns: Sequence[str | None], indices: Sequence[int], *, head: Sequence[str] = ()
) -> Filled:
    """Rows of members, whose columns are called as on the form; None is a column that is not known."""

    def field(index: int, column: int) -> str | None:
        if column >= len(columns):
            return None
        return f"{columns[column]}[{index}]" if columns[column] else ""

    found, notes = _fill(draft, rows, indices, field, count=max(indices, default=-1) + 1)
    unknown = [cell.strip() for cell, label in zip(head, columns, strict=False) if label is None and cell.strip()]
    if unknown:
        known = ", ".join(chain.from_iterable(sorted(names)[:1] for names in HEADS.values()))
        notes.append(f"Not taken: {_listed(unknown)}; columns that are known are {known}.")
    return found, notes


def _put_weights(draft: Draft, rows: Cells, first_row: int, first_column: int) -> Filled:
    """A block of weights."""

    def field(index: int, column: int) -> str | None:
        return f"weights[{index},{first_column + column}]" if first_column + column < MAX_MEMBERS else None

    last = max(first_row + len(rows), first_column + max(map(len, rows)))
    return _fill(draft, rows, range(first_row, first_row + len(rows)), field, count=last)


def _put_named_weights(draft: Draft, cells: Cells, names: Sequence[str]) -> Filled:
    """Weights with the members' names along both sides."""
    draft, indices = _places(draft, names)
    where = dict(zip(names, indices, strict=True))

    def field(index: int, column: int) -> str | None:
        if column >= len(indices):
            return None
        return f"weights[{index},{indices[column]}]" if indices[column] < MAX_MEMBERS else ""

    receivers = [where[row[0].strip()] for row in cells[1:]]
    found, notes = _fill(draft, [row[1:] for row in cells[1:]], receivers, field, count=max(indices) + 1, called=where)
    return found, [*notes, *_left_alone(found, names)]


def _fill(
    draft: Draft,
    rows: Cells,
    indices: Sequence[int],
    field: Callable[[int, int], str | None],
    *,
    count: int,
    called: Mapping[str, int] | None = None,
) -> Filled:
    """Cells into the fields of a draft with `count` members or as many as the page takes, and what is to be said.

    `field` names the field of a row's index and a column: empty for a cell that is left, None for one beyond the last.
    """
    before, written, outside = draft.n_agents, NumberFormat.of(chain.from_iterable(rows)), 0
    while draft.n_agents < min(count, MAX_MEMBERS):
        draft = with_agent(draft)
    typed = {f"names[{index}]": name for name, index in (called or {}).items() if index < MAX_MEMBERS}
    for index, row in zip(indices, rows, strict=True):
        for column, cell in enumerate(row if index < MAX_MEMBERS else ()):
            name = field(index, column) if cell.strip() else ""
            outside += name is None
            if name:
                typed[name] = cell.strip() if name.startswith("names") else _typed(cell, written)
    draft = draft.with_texts(typed)
    notes, too_many = [], sum(index >= MAX_MEMBERS for index in indices)
    if draft.n_agents > before:
        notes.append(f"Added {count_text(draft.n_agents - before, 'member')}: {_listed(draft.names[before:])}.")
    if too_many:
        rest = count_text(too_many, "row")
        notes.append(f"Not taken: {rest} at the end, since the explorer takes up to {MAX_MEMBERS} members.")
    if outside:
        notes.append(f"Not taken: {count_text(outside, 'cell')} beyond the last column.")
    return draft, notes


def _places(draft: Draft, names: Sequence[str]) -> tuple[Draft, list[int]]:
    """The indices of members by name, with new ones at the end; if no name is known, all members are replaced."""
    here = {name: agent for agent, name in enumerate(draft.names)}
    if not any(name in here for name in names):
        while draft.n_agents > max(len(names), 1):
            draft = without_agent(draft, draft.n_agents - 1)
        return draft, list(range(len(names)))
    new = iter(range(draft.n_agents, draft.n_agents + len(names)))
    return draft, [here[name] if name in here else next(new) for name in names]


def _left_alone(draft: Draft, names: Sequence[str]) -> list[str]:
    others = [name for name in draft.names if name not in names]
    return [f"Not in the table, and as before: {_listed(others)}."] if others else []


def _listed(names: Iterable[str]) -> str:
    texts = [f"“{name}”" for name in names]
    more = f" and {len(texts) - MAX_TEXTS_TOLD} more" if len(texts) > MAX_TEXTS_TOLD else ""
    return ", ".join(texts[:MAX_TEXTS_TOLD]) + more
