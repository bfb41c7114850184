"""What a pilot leaves in its folder: the log, the scenario, the report, and what was measured and assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.fitting.pilots.arrangements import ALONE, ONE_MODEL, OWN_CHOICE
from fedpact.fitting.pilots.study import PilotStudy
from fedpact.fitting.runs_file import runs_text
from fedpact.scenario import save_scenario
from fedpact.utils.files import replace_files
from fedpact.utils.jsonl import jsonable

LOG, SCENARIO, REPORT, RECORD = "log.csv", "scenario.toml", "report.html", "pilot.json"


def save_pilot(found: PilotStudy, folder: Path) -> list[Path]:
    """Write everything; the files that were written."""
    from fedpact.report import write_report  # noqa: PLC0415 - it is made of what lies below

    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        folder / LOG: _log(found).encode(),
        folder / RECORD: (json.dumps(pilot_record(found), indent=2, ensure_ascii=False) + "\n").encode(),
    }
    replace_files(contents)
    scenario = found.scenario
    save_scenario(scenario, folder / SCENARIO)
    write_report(
        found.compare(),
        folder / REPORT,
        scenario_title=scenario.title,
        description=scenario.description,
        money=scenario.money,
        unit=scenario.unit,
        confirmation=found.confirmation,
    )
    return sorted([*contents, folder / SCENARIO, folder / REPORT])


def pilot_record(found: PilotStudy) -> dict[str, Any]:
    """What was trained, assumed and found, as plain data."""
    data, confirmed = found.data, found.confirmation
    n = len(data.names)
    nothing: dict[str, Any] = {"promised_gains": {"members": np.zeros(n), "total": 0.0}, "measured_gains": None}
    nothing |= {
        "measured_interval": None,
        "mechanism": None,
        "shared": np.zeros(len(data.caps)),
        "payments": np.zeros(n),
    }
    differences = {kind: found.gain(kind) for kind in (ONE_MODEL, OWN_CHOICE)}
    record = {
        "agents": data.names,
        "verdict": found.verdict,
        "advice": found.advice,
        "remedies": found.remedies,
        "arrangement": found.arrangement,
        "score": found.score.name,
        "scores": {
            "guess": found.guesses,
            **{kind.replace(" ", "_"): found.measurements[kind].means for kind in (ALONE, ONE_MODEL, OWN_CHOICE)},
        },
        "differences": {
            kind.replace(" ", "_"): {"points": 100.0 * gains, "standard_errors": 100.0 * errors}
            for kind, (gains, errors) in differences.items()
        },
        **(nothing if confirmed is None else confirmed.record()),
        "task": data.task,
        "classes": data.classes,
        "features": data.feature_names,
        "model": found.model.label,
        "records": [len(own) for own in data.records],
        "lots": data.lot_names if data.has_lots else None,
        "splits": found.splits,
        "profiles": len(found.profiles),
        "curves": {
            "family": found.curves.shape.family,
            "errors_left_out": found.curves.errors,
            "used": found.curves.predicts,
        },
        "costs": found.terms.costs,
        "worth": found.terms.worth,
        "currency": None if found.terms.money is None else found.terms.money.currency,
        "notes": [*found.warnings, *data.notes, *found.terms.words],
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def _log(found: PilotStudy) -> str:
    """Shared records and scores of every profile, as `fedpact fit` reads them."""
    alone = found.measurements[ALONE].means
    amounts = found.profiles * found.data.caps
    return runs_text(
        found.data.lot_labels, amounts, test_sizes=None, tasks=list(found.data.names), accuracies=alone + found.gains
    )
