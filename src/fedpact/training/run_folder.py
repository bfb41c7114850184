"""The folder of a run: what was asked, every round, what came of it, and a picture.

| file            | holds                                                                              |
|-----------------|------------------------------------------------------------------------------------|
| `settings.json` | scenario, deal, experiment, fingerprint, versions and the command to repeat it with    |
| `rounds.csv`    | round, member, whether it trains alone, samples of all its lots, score, loss, test size |
| `alone.csv`     | the same of the models agents train alone                                          |
| `result.json`   | promised and measured, per agent                                                   |
| `learning.png`  | the learning curves, where matplotlib is installed                                 |

They are written together once everything is trained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.deals.deal_file import deal_record
from fedpact.federation import Federation
from fedpact.fitting.logs import ALONE_FILE, ROUNDS_FILE
from fedpact.scenario import Scenario, scenario_to_dict
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.run import Run
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows

SETTINGS, RESULT, PICTURE = "settings.json", "result.json", "learning.png"
HEADS = ("round", "member", "alone", "samples", "score", "loss", "test_size")


def members_and_lots(federation: Federation) -> dict[str, Any]:
    """Who they are and whose lots there are, as an experiment takes it."""
    owned = {"lot_owners": federation.lot_owners, "lot_names": federation.lot_names} if federation.has_lots else {}
    return {"n_agents": federation.n_agents, "names": federation.names, **owned}


def run_record(run: Run) -> dict[str, Any]:
    """What came of a run, as plain data: keys of what was measured say so, the others are of what was promised."""
    promised, measured = run.promised, run.measured
    everybody = np.ones(len(run.agents), dtype=bool)
    record: dict[str, Any] = {
        "mechanism": run.deal.mechanism,
        "agents": run.agents,
        "members": run.member_names(everybody),
        "models": run.models,
        "verdict": run.verdict,
        "ir_gaps": promised.gains,
        "promised_gains": {"members": promised.gains, "total": promised.gains[run.members].sum()},
        "measured_gains": {"members": measured.gains, "total": measured.gains[run.members].sum()},
        "measured_interval": {"members": run.intervals, "total": run.total_interval},
    }
    if run.home is not None:
        record["home"] = run.home
    if run.federation.has_lots:  # contributions and samples are per lot
        record["lots"] = run.federation.lot_labels
    for name in ("payoffs", "costs", "utilities", "standalone", "welfare"):
        record |= {name: getattr(promised, name), f"measured_{name}": getattr(measured, name)}
    record |= {"leavers": run.member_names(promised.leaves), "measured_leavers": run.member_names(measured.leaves)}
    others = ("contributions", "payments", "samples", "accuracies", "standalone_samples", "standalone_accuracies")
    settings = ("standard_errors", "doubtful", "test_sizes", "floors", "ceilings", "rounds", "fingerprint")
    plain: dict[str, Any] = jsonable(record | {name: getattr(run, name) for name in (*others, *settings)})
    return plain


def check_folder(path: Path) -> None:
    """Raise `InvalidInput` if a run cannot be put there."""
    with error_context(str(path)):
        if path.exists() and not path.is_dir():
            raise InvalidInput("this is a file; name a folder")
        if not path.absolute().parent.is_dir():
            raise InvalidInput("there is no such folder to put it in; make it first")
        entries = path.iterdir() if path.is_dir() else ()
        held = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        if held:
            raise InvalidInput(f"the folder must be empty, it holds {held[0]!r}; -o names another")


def save_run(path: Path, run: Run, scenario: Scenario, experiment: Experiment, origin: Mapping[str, Any]) -> list[Path]:
    """Write what was trained, of what, and what came of it, to a folder; the files written.

    `origin` says for people where the scenario and the deal are from.
    """
    settings = {
        "scenario": scenario_to_dict(replace(scenario, uncertainty=None)),
        "deal": deal_record(replace(run.deal, scenario=scenario.federation.fingerprint)),
        "experiment": experiment.settings,
        "floors": run.floors,
        "ceilings": run.ceilings,
        "fingerprint": experiment.fingerprint,
        **origin,
        "versions": versions(),
    }
    outside = ~np.isin(np.arange(len(run.agents)), run.members)
    contents = {
        SETTINGS: _json(jsonable(settings)),
        ROUNDS_FILE: _rounds(run, run.together, outside),
        ALONE_FILE: _rounds(run, run.alone, np.ones_like(outside)),
        RESULT: _json(run_record(run)),
        **_picture(run),
    }
    with error_context(str(path)):
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"the folder cannot be made: {error.strerror}") from error
        replace_files({path / name: content for name, content in contents.items()})
    return [path / name for name in contents]


def versions() -> dict[str, str]:
    """What a run depends on beside its plan."""
    packages = {name: version(name) for name in ("fedpact", "jax", "numpy")}
    return {**packages, "python": sys.version.split()[0]}


def _json(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _picture(run: Run) -> dict[str, bytes]:
    content = BytesIO()
    try:
        run.plot().savefig(content, format="png", dpi=200)
    except MissingExtra:
        return {}
    return {PICTURE: content.getvalue()}


def _rounds(run: Run, history: Histories, alone: NDArray[np.bool_]) -> bytes:
    """A table of rounds."""
    rows: list[Sequence[Any]] = [HEADS]
    for number in range(run.rounds):
        for agent, name in enumerate(run.agents):
            samples = int(history.contributions[number, run.federation.lots_of(agent)].sum())
            accuracy, loss = (array[number, agent].item() for array in (history.accuracies, history.loss))
            rows.append([number + 1, name, int(alone[agent]), samples, accuracy, loss, int(run.test_sizes[agent])])
    return csv_rows(rows).encode()
