"""The folder of a run: what was asked, every round, what came of it, and a picture.

| file            | holds                                                                              |
|-----------------|------------------------------------------------------------------------------------|
| `settings.json` | scenario, deal, experiment, fingerprint, versions and the command to repeat it with    |
| `models`        | every trained model's accuracies and losses, as soon as it is finished             |
| `rounds.csv`    | round, member, whether it trains alone, samples of all its lots, score, loss, test size |
| `alone.csv`     | the same of the models agents train alone                                          |
| `result.json`   | promised and measured, per agent                                                   |
| `learning.png`  | the learning curves, where matplotlib is installed                                 |

Settings are there from the start, models as they are trained; the other files are written all at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record
from fedpact.federation import Federation
from fedpact.fitting.logs import ALONE_FILE, ROUNDS_FILE
from fedpact.scenario import Scenario, scenario_to_dict
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.run import Progress, Run, train_under
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import DECODERS, read_text, replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows

SETTINGS, RESULT, PICTURE, MODELS = "settings.json", "result.json", "learning.png", "models"
HEADS = ("round", "member", "alone", "samples", "score", "loss", "test_size")
SAME_RUN_KEYS = ("scenario", "deal", "data", "experiment", "floors", "ceilings")


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A run that can be trained any number of times, and what tells it from others."""

    scenario: Scenario
    deal: Deal
    data: str  # where MNIST comes from: "embedded" or "openml"
    experiment: Experiment
    floors: FloatArray
    ceilings: FloatArray

    def record(self) -> dict[str, Any]:
        """The plan as plain data; it needs no files beside it."""
        federation = self.scenario.federation
        scenario = replace(self.scenario, uncertainty=None)
        plain: dict[str, Any] = jsonable(
            {
                "scenario": scenario_to_dict(scenario),
                "deal": deal_record(replace(self.deal, scenario=federation.fingerprint)),
                "data": self.data,
                "experiment": self.experiment.settings,
                "floors": self.floors,
                "ceilings": self.ceilings,
            }
        )
        return plain


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


class RunFolder:
    """A folder that holds one run, or is to hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.path / RESULT).is_file()

    @property
    def files(self) -> list[str]:
        """What a finished run left, in the order it is told."""
        return [name for name in (SETTINGS, ROUNDS_FILE, ALONE_FILE, RESULT, PICTURE) if (self.path / name).is_file()]

    @property
    def kept(self) -> int:
        """How many models are finished."""
        return len(list((self.path / MODELS).glob("*/*.npz")))

    def check(self, *, resume: bool) -> None:
        """Raise `InvalidInput` if a run cannot be put there."""
        with error_context(str(self.path)):
            if self.path.exists() and not self.path.is_dir():
                raise InvalidInput("this is a file; name a folder")
            if not self.path.absolute().parent.is_dir():
                raise InvalidInput("there is no such folder to put it in; make it first")
            entries = self.path.iterdir() if self.path.is_dir() else ()
            held = sorted(entry.name for entry in entries if not entry.name.startswith("."))
            if SETTINGS in held:
                if not resume:
                    raise InvalidInput("there is a run already; --resume goes on with it, -o names another folder")
            elif held:
                raise InvalidInput(f"the folder must be empty, it holds {held[0]!r}; -o names another")

    def train(self, plan: Plan, origin: Mapping[str, Any], *, progress: Progress | None = None) -> Run:
        """Train what is not there yet, and write what came of it; a run that is there must be of the same plan."""
        settings = {**plan.record(), "fingerprint": plan.experiment.fingerprint, **origin, "versions": versions()}
        if (self.path / SETTINGS).is_file():
            self._check_same(settings)
        if not self.finished:
            try:
                self.path.mkdir(exist_ok=True)
            except OSError as error:
                raise InvalidInput(f"{self.path}: the folder cannot be made: {error.strerror}") from error
            self._write({SETTINGS: _json(settings)})
        run = train_under(
            plan.deal,
            plan.scenario.federation,
            plan.experiment,
            floors=plan.floors,
            ceilings=plan.ceilings,
            models=plan.scenario.models,
            progress=progress,
            checkpoint=self.path / MODELS,
        )
        if not self.finished:
            tables = {name: csv_rows(rows).encode() for name, rows in _tables(run).items()}
            # The result is the last to take its place: the run is finished.
            self._write({**tables, **_picture(run), RESULT: _json(run_record(run))})
        return run

    def _check_same(self, settings: Mapping[str, Any]) -> None:
        path = self.path / SETTINGS
        with error_context(str(path)):
            there = DECODERS[".json"](read_text(path))
            if not isinstance(there, dict):
                raise InvalidInput("these are not the settings of a run: they must be one JSON object")
        other = [key for key in SAME_RUN_KEYS if there.get(key) != settings[key]]
        if not other:
            return
        if "experiment" in other and isinstance(there.get("experiment"), dict):
            mine, own = settings["experiment"], there["experiment"]
            other[other.index("experiment")] = ", ".join(key for key in mine if own.get(key) != mine[key])
        began = there.get("command")
        words = f"; it began with: {began}" if isinstance(began, str) else ""
        raise InvalidInput(f"{self.path} holds another run, with other {', '.join(other)}{words}")

    def _write(self, contents: Mapping[str, bytes]) -> None:
        with error_context(str(self.path)):
            replace_files({self.path / name: content for name, content in contents.items()})


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


def _tables(run: Run) -> dict[str, list[Sequence[Any]]]:
    """The rows of both tables, heads first."""
    outside = ~np.isin(np.arange(len(run.agents)), run.members)
    everybody = np.ones_like(outside)
    return {ROUNDS_FILE: _rows(run, run.together, outside), ALONE_FILE: _rows(run, run.alone, everybody)}


def _rows(run: Run, history: Histories, alone: Sequence[bool] | NDArray[np.bool_]) -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = [HEADS]
    for number in range(run.rounds):
        for agent, name in enumerate(run.agents):
            samples = int(history.contributions[number, run.federation.lots_of(agent)].sum())
            accuracy, loss = (array[number, agent].item() for array in (history.accuracies, history.loss))
            rows.append([number + 1, name, int(alone[agent]), samples, accuracy, loss, int(run.test_sizes[agent])])
    return rows
