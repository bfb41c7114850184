"""What a pilot leaves in its folder: the log, the scenario, the report, the learning curves, and what was assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.fitting.pilots.coalitions import FEW
from fedpact.fitting.pilots.estimators import REGRESSION_MAP
from fedpact.fitting.pilots.records import REGRESSION
from fedpact.fitting.pilots.search import PilotStudy
from fedpact.fitting.runs_file import runs_text
from fedpact.scenario import save_scenario
from fedpact.utils.errors import MissingExtra
from fedpact.utils.files import replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows

LOG, SCENARIO, REPORT = "log.csv", "scenario.toml", "report.html"
CURVES, PICTURE, RECORD = "curves.csv", "curves.png", "pilot.json"
SAME_SHARE = 0.02  # how far apart shares of records may be that were rounded


def save_pilot(found: PilotStudy, folder: Path) -> list[Path]:
    """Write everything; the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        folder / LOG: _log(found).encode(),
        folder / CURVES: csv_rows([CURVE_HEADS, *learning_curves(found)]).encode(),
        folder / RECORD: (json.dumps(pilot_record(found), indent=2, ensure_ascii=False) + "\n").encode(),
    }
    picture = _picture(found)
    if picture:
        contents[folder / PICTURE] = picture
    replace_files(contents)
    save_scenario(found.scenario, folder / SCENARIO)
    _write_report(found, folder / REPORT)
    return sorted([*contents, folder / SCENARIO, folder / REPORT])


def _write_report(found: PilotStudy, path: Path) -> None:
    from fedpact.report import write_report  # noqa: PLC0415 - it is made of what lies below

    scenario = found.scenario
    write_report(
        found.compare(),
        path,
        scenario_title=scenario.title,
        description=scenario.description,
        money=scenario.money,
        unit=scenario.unit,
        confirmation=found.confirmation,
    )


def pilot_record(found: PilotStudy) -> dict[str, Any]:
    """What was trained, assumed and found, as plain data."""
    data, doubts = found.data, found.doubts
    record = {
        "agents": data.names,
        "task": data.task,
        "classes": data.classes,
        "features": data.feature_names,
        "model": found.model.label,
        "score": REGRESSION_MAP if data.task == REGRESSION else "share of right answers",
        "training_records": [len(own) for own in data.train],
        "test_records": [len(own) for own in data.test],
        "lots": None if data.lots is None else data.lot_names,
        "alone": found.alone_and_together[0],
        "together": found.alone_and_together[1],
        "signs": found.fit.signs,
        "models": len(found.runs),
        "ended": found.ended,
        "open": [
            {
                "mechanism": mechanism,
                "agent": agent,
                "leave_probability": None if assumed else leaves,
                "assumption": assumed or None,
                "payment_spread": spread,
            }
            for (mechanism, agent), leaves, spread, assumed in zip(
                doubts.labels,
                doubts.leave_probabilities.tolist(),
                doubts.payment_spreads.tolist(),
                doubts.assumptions,
                strict=True,
            )
        ],
        "advice": found.advice,
        "confirmation": None if found.confirmation is None else found.confirmation.record(),
        "costs": found.terms.costs,
        "worth": found.terms.worth,
        "currency": None if found.terms.money is None else found.terms.money.currency,
        "notes": [*found.warnings, *data.notes, *found.terms.words, *found.fit.notes],
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


CURVE_HEADS = ("tested", "whose data", "share", "records", "score")


def learning_curves(found: PilotStudy) -> list[tuple[str, str, float, int, float]]:
    """Who is tested, whose data the model has ("alone" or "everybody"), which share, how many records, the score.

    They are the models in which one member, or everybody, contributes a share that is the same for all.
    """
    data = found.data
    available = data.available
    owners = np.array([data.names.index(owner) for owner in data.lot_owners])
    rows = []
    for run, scores in zip(found.runs, found.observations.accuracies.tolist(), strict=True):
        shares = np.array(run) / np.maximum(available, 1)
        for kind, members in [("everybody", range(len(data.names))), *(("alone", [m]) for m in range(len(data.names)))]:
            inside = np.isin(owners, list(members))
            few = shares[inside]
            if np.array(run)[~inside].any() or not few.all() or np.ptp(few) > SAME_SHARE + FEW / available.min():
                continue
            share, records = float(sum(run) / available[inside].sum()), int(sum(run))
            tested = range(len(data.names)) if kind == "everybody" else members
            rows += [(data.names[each], kind, round(share, 4), records, scores[each]) for each in tested]
    return sorted(rows, key=lambda row: (data.names.index(row[0]), row[1], row[3]))


def _log(found: PilotStudy) -> str:
    """The log as `fedpact fit` reads it."""
    seen = found.observations
    sizes = None if np.isnan(seen.test_sizes).any() else seen.test_sizes[0].tolist()
    names, tasks = seen.lot_columns, seen.task_columns
    return runs_text(names, seen.contributions, test_sizes=sizes, tasks=tasks, accuracies=seen.accuracies)


def _picture(found: PilotStudy) -> bytes | None:
    try:
        from fedpact.report.plots.style import figure_bytes  # noqa: PLC0415 - optional dependency

        return figure_bytes(found.plot(), "png")
    except MissingExtra:
        return None
