"""What a pilot measured, as tables: whom sharing helps and what that is worth; the deal, trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedpact.federation.arrays import Owners, sum_by
from fedpact.report.numbers import Unit
from fedpact.scenario.measured import NORMAL_QUANTILE, Measured

OWN_MODEL = "own model"  # that it has anyway: no change by construction


class MeasuredTable(NamedTuple):
    """A caption, heads, and rows of texts whose first names the member."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def measured_tables(found: Measured, names: Sequence[str], lot_owners: Owners, unit: Unit) -> list[MeasuredTable]:
    """The table of the arrangements, and that of the deal where there is one."""
    tables = [_arrangements(found, names, unit)]
    return [*tables, _deal(found, names, lot_owners, unit)] if found.has_deal else tables


def no_deal_text(found: Measured) -> str:
    """What stands where the numbers of a deal would."""
    return f"There is no deal: by what was measured nobody shares anything. {found.advice}"


def _arrangements(found: Measured, names: Sequence[str], unit: Unit) -> MeasuredTable:
    """Does it help me, and what is it worth?"""
    points, spans = np.array(found.points), NORMAL_QUANTILE * np.array(found.point_errors)
    decimals = 1 if np.abs(points).max() >= 1.0 else 2
    stays = (points == 0.0) & (spans == 0.0)
    worth = unit.column(points * found.worth, signed=True)
    spread = unit.column(spans * found.worth)
    rows = []
    for member, name in enumerate(names):
        scores = [f"{kind[member]:.3f}" for kind in (found.guess, found.alone, found.one_model, found.own_choice)]
        gain = f"{points[member]:+.{decimals}f} ± {spans[member]:.{decimals}f}"
        amount = f"{worth[member]} ± {spread[member]}"
        rows.append([name, *scores, OWN_MODEL if stays[member] else gain, OWN_MODEL if stays[member] else amount])
    caption = f"With everything shared: {found.score}; {found.arrangement} against alone in points"
    heads = ["member", "guess", "alone", "one model", "own choice", "points", "worth"]
    if unit.label == "points":  # nobody said what they are worth
        return MeasuredTable(f"{caption}, 90 % intervals", heads[:-1], [row[:-1] for row in rows])
    return MeasuredTable(f"{caption} and in {unit.label}, 90 % intervals", heads, rows)


def _deal(found: Measured, names: Sequence[str], lot_owners: Owners, unit: Unit) -> MeasuredTable:
    """What do I bring, and how sure is this?"""
    gains, errors = np.array(found.gains), np.array(found.gain_errors)
    total, total_error = float(gains.sum()), float(np.sqrt((errors**2).sum()))
    measured, spans = np.append(gains, total), NORMAL_QUANTILE * np.append(errors, total_error)
    amounts = np.array(
        [
            [*found.payments, 0.0],
            [*found.promised, sum(found.promised)],
            measured,
            measured - spans,
            measured + spans,
        ]
    )
    columns = np.array(unit.column(amounts.ravel(), signed=True), dtype=object).reshape(amounts.shape)
    columns[3:, spans == 0.0] = [[OWN_MODEL], [""]]
    given = sum_by(lot_owners, np.array(found.shared), len(names))
    shared = [f"{number:,.0f}" for number in (*given, given.sum())]
    heads = ("member", "shares", "receives", "promised", "measured", "from", "to")
    caption = f"The deal, trained on fresh splits: records, and amounts in {unit.label} with 90 % intervals"
    return MeasuredTable(caption, heads, list(zip([*names, "all"], shared, *columns, strict=True)))
