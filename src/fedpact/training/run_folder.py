"""The folder of a run: what was asked, every round, what came of it, and a picture.

| file            | holds                                                                              |
|-----------------|------------------------------------------------------------------------------------|
| `settings.json` | scenario, deal, experiment, fingerprint, versions and the command: enough to repeat |
| `rounds.csv`    | round, agent, whether it trains alone, samples of all its lots, accuracy, loss, test size |
| `alone.csv`     | the same of the models agents train alone                                          |
| `result.json`   | predicted and realised, per agent                                                  |
| `learning.png`  | the learning curves, where matplotlib is installed                                 |

Settings are there from the start; finished models lie in a hidden folder until the other files are written, all at
once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.logs import ALONE_FILE, ROUND_HEADS, ROUNDS_FILE
from fedpact.training.checks import frozen_counts
from fedpact.training.experiment import Histories
from fedpact.training.plan import Plan, plan_of, versions
from fedpact.training.run import Progress, Run
from fedpact.training.trainable import check_trainable, deal_for_everybody
from fedpact.utils.arrays import read_only_copy
from fedpact.utils.checkpoint import remove_pieces
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import DECODERS, read_text, replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows, read_csv_rows

SETTINGS, RESULT, PICTURE = "settings.json", "result.json", "learning.png"
MODELS_FOLDER = ".models"
DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")  # of a file whose writing was cut short
HISTORY_HEADS = ("round", "agent", "samples", "accuracy", "loss")
SAME_RUN_KEYS = ("scenario", "deal", "experiment", "floors", "ceilings", "fingerprint")
PICTURE_DPI = 200

PER_AGENT = (
    "contributions",
    "samples",
    "accuracies",
    "payoffs",
    "realised_payoffs",
    "costs",
    "realised_costs",
    "payments",
    "utilities",
    "realised_utilities",
    "standalone_samples",
    "standalone_accuracies",
    "standalone",
    "realised_standalone",
    "ir_gaps",
    "realised_ir_gaps",
    "standard_errors",
    "test_sizes",
    "floors",
    "ceilings",
)
OVERALL = ("leavers", "realised_leavers", "doubtful", "welfare", "realised_welfare", "rounds", "fingerprint")


def run_record(run: Run) -> dict[str, Any]:
    """What came of a run, as plain data."""
    members = [run.agents[place] for place in run.deal.members]
    record = {"mechanism": run.deal.mechanism, "agents": run.agents, "members": members}
    if run.federation.has_lots:  # contributions and samples are per lot
        record["lots"] = run.federation.lot_labels
    plain: dict[str, Any] = jsonable(record | {name: getattr(run, name) for name in (*PER_AGENT, *OVERALL)})
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
        """How many finished models lie there until the run is complete."""
        return len(list((self.path / MODELS_FOLDER).glob("*.npz")))

    def check(self, *, resume: bool) -> None:
        """Raise `InvalidInput` if a run cannot be put there."""
        with error_context(str(self.path)):
            if self.path.exists() and not self.path.is_dir():
                raise InvalidInput("this is a file; name a folder")
            if not self.path.absolute().parent.is_dir():
                raise InvalidInput("there is no such folder to put it in; make it first")
            held = sorted(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else []
            held = [name for name in held if not DRAFT.fullmatch(name)]
            if SETTINGS in held:
                if not resume:
                    raise InvalidInput("there is a run already; --resume goes on with it, -o names another folder")
            elif held:
                raise InvalidInput(f"the folder must be empty, it holds {held[0]!r}; -o names another")

    def begin(self, plan: Plan, origin: Mapping[str, Any]) -> None:
        """Write the settings; those that are there must be of the same plan."""
        settings = {**plan.record(), **origin, "versions": versions()}
        if (self.path / SETTINGS).is_file():
            self._check_same(settings)
        if self.finished:
            return
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"{self.path}: the folder cannot be made: {error.strerror}") from error
        self._write({SETTINGS: _json(settings)})

    def train(self, plan: Plan, *, progress: Progress | None = None) -> Run:
        """Train what is not there yet, and write what came of it."""
        if self.finished:
            return self.load(plan)
        run = plan.run(progress=progress, checkpoint=self.path / MODELS_FOLDER)
        contents = {
            ROUNDS_FILE: _rows(run, run.together, _alone(run)),
            ALONE_FILE: _rows(run, run.alone, np.ones(len(run.agents), dtype=bool)),
            **_picture(run),
            RESULT: _json(run_record(run)),  # the last to take its place: the run is finished
        }
        self._write(contents)
        remove_pieces(self.path / MODELS_FOLDER)
        return run

    def settings(self) -> dict[str, Any]:
        """What was asked."""
        path = self.path / SETTINGS
        with error_context(str(path)):
            record = DECODERS[".json"](read_text(path))
            if not isinstance(record, dict):
                raise InvalidInput("these are not the settings of a run: they must be one JSON object")
        return record

    def plan(self) -> Plan:
        """The plan to repeat the run by."""
        with error_context(str(self.path / SETTINGS)):
            return plan_of(self.settings())

    def load(self, plan: Plan) -> Run:
        """The finished run, without training."""
        federation, experiment = plan.scenario.federation, plan.experiment
        names, shape = federation.names, (plan.training.rounds, federation.n_agents)
        agreed = deal_for_everybody(plan.deal, federation)
        histories = []
        used = check_trainable(agreed, federation, experiment)
        for name, samples in zip((ROUNDS_FILE, ALONE_FILE), used, strict=True):
            with error_context(str(self.path / name)):
                found = _history(read_text(self.path / name), names, shape)
                if federation.has_lots:  # the file counts the samples of all lots of a member
                    found = replace(found, contributions=frozen_counts(np.tile(samples, (shape[0], 1))))
                histories.append(found)
        return Run(
            federation=federation,
            deal=agreed,
            together=histories[0],
            alone=histories[1],
            test_sizes=experiment.test_sizes,
            floors=plan.floors,
            ceilings=plan.ceilings,
            fingerprint=experiment.fingerprint,
        )

    def _check_same(self, settings: Mapping[str, Any]) -> None:
        there = self.settings()
        other = [key for key in SAME_RUN_KEYS if there.get(key) != settings[key]]
        if not other:
            return
        if "experiment" in other and isinstance(there.get("experiment"), dict):
            mine, own = settings["experiment"], there["experiment"]
            other[other.index("experiment")] = ", ".join(key for key in mine if own.get(key) != mine[key])
        if len(other) > 1:
            other = [key for key in other if key != "fingerprint"]  # it follows from the others
        began = there.get("command")
        words = f"; it began with: {began}" if isinstance(began, str) else ""
        raise InvalidInput(f"{self.path} holds another run, with other {', '.join(other)}{words}")

    def _write(self, contents: Mapping[str, bytes]) -> None:
        with error_context(str(self.path)):
            replace_files({self.path / name: content for name, content in contents.items()})


def _json(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _picture(run: Run) -> dict[str, bytes]:
    content = BytesIO()
    try:
        run.plot().savefig(content, format="png", dpi=PICTURE_DPI)
    except MissingExtra:
        return {}
    return {PICTURE: content.getvalue()}


def _alone(run: Run) -> NDArray[np.bool_]:
    """Who is not in the deal and trains a model of its own."""
    return ~np.isin(np.arange(len(run.agents)), run.deal.members)


def _rows(run: Run, history: Histories, alone: NDArray[np.bool_]) -> bytes:
    rows: list[Sequence[Any]] = [ROUND_HEADS]
    for number in range(run.rounds):
        for agent, name in enumerate(run.agents):
            samples = int(history.contributions[number, run.federation.lots_of(agent)].sum())
            accuracy, loss = (array[number, agent].item() for array in (history.accuracies, history.loss))
            rows.append([number + 1, name, int(alone[agent]), samples, accuracy, loss, int(run.test_sizes[agent])])
    return csv_rows(rows).encode()


def _history(text: str, names: tuple[str, ...], shape: tuple[int, int]) -> Histories:
    """What `_rows` wrote."""
    heads, *rows = read_csv_rows(text)
    columns = {head: [row[place] for row in rows] for place, head in enumerate(heads)}
    expected = [(str(number + 1), name) for number in range(shape[0]) for name in names]
    if not set(HISTORY_HEADS) <= set(heads) or [*zip(columns["round"], columns["agent"], strict=True)] != expected:
        raise InvalidInput(
            f"the table must have a row per round and member ({shape[0]} x {shape[1]}), as it was written"
        )
    try:
        samples, accuracies, loss = (
            np.array(columns[head], dtype=np.float64).reshape(shape) for head in ("samples", "accuracy", "loss")
        )
    except ValueError as error:
        raise InvalidInput("samples, accuracy and loss must be numbers, as they were written") from error
    return Histories(
        contributions=frozen_counts(samples), accuracies=read_only_copy(accuracies), loss=read_only_copy(loss)
    )
