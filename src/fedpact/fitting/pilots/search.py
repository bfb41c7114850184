"""`pilot`: from members' data to a deal.

Models of coalitions are trained, first a spread of them, then those that settle the deal, until it is settled or the
models that may be trained are spent; their accuracies are fitted, and the fit with its uncertainty is the scenario.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.comparison import Comparison, compare
from fedpact.fitting import Fit, Observations, fit, suggest
from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS, built_in_pilot
from fedpact.fitting.pilots.coalitions import first_runs
from fedpact.fitting.pilots.confirmation import DealConfirmation, confirm_deal, recommended_deal, score_variances
from fedpact.fitting.pilots.estimators import CoalitionModel
from fedpact.fitting.pilots.found_lots import AUTO_LOTS, with_found_lots
from fedpact.fitting.pilots.records import CLASSIFICATION, TEST_SHARE, PilotData
from fedpact.fitting.pilots.tables import named_columns, pilot_data, read_members, tables_of
from fedpact.fitting.pilots.terms import PilotTerms, Stated, pilot_terms
from fedpact.fitting.pilots.training import CoalitionTrainer, RunKey, trained_scores
from fedpact.fitting.store import Store
from fedpact.fitting.suggestions import DealDoubts, deal_doubts
from fedpact.scenario import Scenario
from fedpact.scenario.uncertainty import WEIGHT_SIGNS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged, short_repr
from fedpact.utils.files import claim_output
from fedpact.utils.words import join_names

MAX_MODELS = 30
BATCH, BATCH_SHARE = 4, 0.1  # models between two fits; of many, this part of what is trained already
MIN_SETTLES = 0.005  # share of what is open that the best run must settle to be worth training
MAX_SEED = 2**32 - 1  # scikit-learn takes no larger one
MODELS_FILE = "models.jsonl"
SHARED_PARTS = ("beta",)
AUTO_SIGNS = "auto"
HARM_ERRORS = 2.0  # standard errors by which together is worse than alone from which that is harm, not chance
MAX_HARMED_NAMED = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotState:
    """How far a pilot is: models trained and that may be trained, what is open, what is being done."""

    trained: int
    budget: int
    doing: str
    doubts: DealDoubts | None = None


Tell = Callable[[PilotState], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotStudy:
    """What a pilot found; made by `pilot`.

    Attributes
    ----------
    data, model
        What was trained.
    runs
        Records contributed by each member (lot) to each model, in the order of training.
    fit
        Weights and curves.
    doubts
        What is open about the deal still.
    terms
        Costs and values.
    ended
        "settled", "budget" if no more models may be trained, or "no run helps".
    title
        For people.
    confirmation
        The deal that the fit recommends, trained: what members gain by it as measured; None where the fit recommends
        that everybody stays alone.
    """

    data: PilotData
    model: CoalitionModel
    runs: tuple[RunKey, ...]
    fit: Fit
    doubts: DealDoubts
    terms: PilotTerms
    ended: str
    title: str
    confirmation: DealConfirmation | None = None

    def __repr__(self) -> str:
        return f"PilotStudy({self.data!r}, {len(self.runs)} models, {self.model.label}, ended: {self.ended})"

    @property
    def observations(self) -> Observations:
        """Contributions and scores of all models: the log."""
        return self.fit.observations

    @property
    def is_settled(self) -> bool:
        """Whether no payment, and nobody's staying where it is not assumed, is open: as far as the curves hold."""
        return self.ended == "settled"

    @property
    def advice(self) -> str:
        """Whether the deal is recommended, by what was measured of it."""
        if self.confirmation is None:
            return "No deal is recommended: by the curves nobody gains by one."
        return self.confirmation.text

    @cached_property
    def alone_and_together(self) -> FloatArray:
        """(2, n): everybody's score with all of its own records, and with everybody's."""
        return _alone_and_together(self.data, self.observations)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What forbids to take the deal at its word: that data harms, and that the curves do not fit."""
        found, misfit = [], self.fit.lack_of_fit
        if harmed := np.flatnonzero(_harmed(self.data, self.alone_and_together)).tolist():
            alone, together = self.alone_and_together
            named = [f"{self.data.names[each]} ({together[each]:.3f} against {alone[each]:.3f})" for each in harmed]
            signs = (
                "weights below zero are fitted: data may harm"
                if self.fit.signs == "any"
                else "weights of at least zero cannot say so, and the deal takes harm for a gain: signs any fits harm"
            )
            found.append(
                f"together is worse than alone for {join_names(named, most=MAX_HARMED_NAMED)}, by more than the error "
                f"of the test: members' data does not go together (do labels, units and columns mean the same "
                f"everywhere?); {signs}"
            )
        if misfit.is_clear and misfit.text is not None:
            found.append(f"{misfit.text}. `fedpact fit` tries other curves on the log")
        return tuple(found)

    @cached_property
    def scenario(self) -> Scenario:
        """The federation with its uncertainty."""
        assert self.terms.costs is not None
        costs, worth, caps = self.terms.costs, self.terms.worth, self.data.available.astype(np.float64)
        words = (
            f"From {len(self.runs)} models of coalitions ({self.model.label}) on {len(self.data.names)} members' "
            f"records, {self.fit.observations.n_measured} scores."
        )
        if self.confirmation is not None and self.confirmation.is_recommended:
            words = f"{self.advice} {words}"
        words += "".join(f" Warning: {warning}." for warning in self.warnings)
        words += "".join(f" Note: {note}." for note in self.terms.words)
        loses = self.confirmation is not None and not self.confirmation.is_recommended
        made = self.fit.scenario(
            costs=costs,
            caps=caps,
            worth=worth,
            title=self.title,
            description=words,
            money=self.terms.money,
            unit="records",
        )
        return replace(made, not_recommended=self.advice if loses else "")

    def compare(self, **options: Any) -> Comparison:
        """The mechanisms side by side, with their uncertainty; options as `fedpact.compare` takes them."""
        made = self.scenario
        return compare(made, **options)

    def plot(self, *, figure: Any = None) -> Any:
        """Learning curves, each member alone and all together, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_learning_curves  # noqa: PLC0415 - optional dependency

        return plot_learning_curves(self, figure=figure)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write log, scenario, report and learning curves to a folder; the files written."""
        from fedpact.fitting.pilots.folder import save_pilot  # noqa: PLC0415 - it takes what is made here

        return save_pilot(self, Path(folder))


def pilot(
    data: Any,
    target: str | None = None,
    *,
    member: str | None = None,
    model: Any = None,
    task: str | None = None,
    ignore: Sequence[str] = (),
    lots: str | None = None,
    cost: Stated | None = None,
    value: Stated | None = None,
    predictions: float | Mapping[str, float] | None = None,
    signs: str = AUTO_SIGNS,
    models: int = MAX_MODELS,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
) -> PilotStudy:
    """Train models of coalitions on members' data until the deal between the members is settled.

    All records are read in one place: that is for public or synthetic data, or a place that all members trust. Where
    data may not be pooled, the ledger of a Flower run is the log to fit.

    Parameters
    ----------
    data
        A folder with a table per member, a table with a column `member`, a mapping from names to tables (pandas
        frames, or pairs of features and targets), `PilotData`, or the name of a built-in pilot.
    target
        The column to predict.
    member
        The column that says whose a record is, in a single table.
    model
        A scikit-learn estimator, its name such as "sklearn.linear_model:LogisticRegression(C=0.1)", or a function from
        `CoalitionRecords` to a score between 0 and 1 for each member; by default a linear model that suits the task.
    task
        "classification" or "regression"; by default the target decides.
    ignore
        Columns to leave out.
    lots
        A column that says of which kind a record is, or "auto" for records that help and records that mislead.
    cost, value
        What a record costs and what accuracy is worth, for all or by member: money such as "0.02 EUR/record" and
        "20 EUR/point" or "2 EUR/correct", or plain numbers per record and per accuracy of 1.
    predictions
        How many answers a member needs, where value is per correct one; as many as it holds records if not given.
    signs
        Of the weights: "positive", "any" if data may harm, or "auto": positive, unless a member's score together is
        below its score alone by more than two standard errors of its test.
    models
        How many models may be trained; beside them, one of the deal and one of each member alone.
    test_share
        The share of each member's records to test with.
    seed
        Of splits and training.
    output
        A folder for what is trained and found; started again with it and the same model, closures and settings
        included, a pilot goes on where it was.
    progress
        Told how far the pilot is.

    Examples
    --------
    >>> found = pilot("wine", models=8)
    >>> found.observations.n_runs, found.data.names[0]
    (8, 'Large')
    """
    if isinstance(models, bool) or not isinstance(models, int) or models < 2:
        raise InvalidInput(f"models must be a whole number of at least 2, got {models!r:.40}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"seed must be a whole number from 0 to {MAX_SEED}, got {short_repr(seed)}")
    if signs not in (AUTO_SIGNS, *WEIGHT_SIGNS):
        raise InvalidInput(f"signs must be one of {', '.join((AUTO_SIGNS, *WEIGHT_SIGNS))}, got {signs!r:.40}")
    chosen = _records(
        data, target, member=member, task=task, ignore=ignore, lots=lots, test_share=test_share, seed=seed
    )
    if models < 1 + len(chosen.names):
        raise InvalidInput(
            f"models must be at least {1 + len(chosen.names)}: everybody together, and each of {len(chosen.names)} "
            f"members alone; got {models}"
        )
    terms = pilot_terms(chosen, cost, value, predictions)
    trainer = CoalitionTrainer(chosen, CoalitionModel.of(model, chosen.task, seed))
    folder = None if output is None else Path(output)
    if folder is not None:
        _check_folder(folder, trainer.model)
    identity = json.dumps([chosen.fingerprint, trainer.model.identity, seed])
    tell = progress or (lambda state: None)
    search = _Search(trainer=trainer, store=Store(None, identity), budget=models, seed=seed, signs=signs, tell=tell)
    if folder is None:
        return search.run(terms, _title(data))
    with claim_output(folder / MODELS_FILE):  # two pilots would train the same models into one folder
        found = replace(search, store=Store(folder / MODELS_FILE, identity)).run(terms, _title(data))
        tell(PilotState(trained=len(found.runs), budget=models, doing="writing the report", doubts=found.doubts))
        found.save(folder)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """Trains, fits and weighs in turn."""

    trainer: CoalitionTrainer
    store: Store
    budget: int
    seed: int
    signs: str
    tell: Tell

    def run(self, terms: PilotTerms, title: str) -> PilotStudy:
        data = self.trainer.data
        caps = data.available.astype(np.float64)
        runs = first_runs(data.available, data.lot_owners, self.budget)
        doubts: DealDoubts | None = None
        while True:
            self._train(runs, doubts)
            self._say(len(runs), "fitting", doubts)
            found = self._fit(_observe(data, self.trainer.model.label, runs, self.store))
            terms = terms.completed(found, caps)
            assert terms.costs is not None
            self._say(len(runs), "weighing what is open", doubts)
            doubts = deal_doubts(found, costs=terms.costs, caps=caps, worth=terms.worth)
            ended = "settled" if doubts.is_settled else "budget" if len(runs) >= self.budget else "no run helps"
            wanted = self._wanted(found, terms, caps) if ended == "no run helps" else []
            if wanted:
                runs = [*runs, *wanted]
                continue
            study = PilotStudy(
                data=data,
                model=self.trainer.model,
                runs=tuple(runs),
                fit=found,
                doubts=doubts,
                terms=terms,
                ended=ended,
                title=title,
            )
            study = self._confirmed(study)
            self._say(len(runs), "done", doubts)
            return study

    def _confirmed(self, study: PilotStudy) -> PilotStudy:
        """With the recommended deal trained, and each member alone."""

        def count(done: int, total: int) -> None:
            self._say(len(study.runs), f"training the deal and everybody alone, {done} of {total}", study.doubts)

        deal = recommended_deal(study)
        if deal is None:
            return study
        self.trainer.train(deal.runs, self.store, count)
        scores = [trained_scores(self.store, run, len(study.data.names)) for run in deal.runs]
        return replace(study, confirmation=confirm_deal(study, deal, scores))

    def _fit(self, seen: Observations) -> Fit:
        """Members have their own floors and ceilings, since tests differ; one for all where the runs do not tell."""
        signs = self.signs
        if signs == AUTO_SIGNS:
            data = self.trainer.data
            signs = "any" if _harmed(data, _alone_and_together(data, seen)).any() else "positive"
        try:
            return fit(seen, shared=SHARED_PARTS, signs=signs)
        except NotConverged:
            return fit(seen, signs=signs)

    def _wanted(self, found: Fit, terms: PilotTerms, caps: FloatArray) -> list[RunKey]:
        """The runs to train next; none if the best of them would settle next to nothing."""
        assert terms.costs is not None
        made = found.observations.n_runs
        count = min(max(BATCH, round(BATCH_SHARE * made)), self.budget - made)
        wanted = suggest(found, count, costs=terms.costs, caps=caps, worth=terms.worth, rng=self.seed, only_new=True)
        if not wanted or wanted[0].settles < MIN_SETTLES:
            return []
        return [tuple(map(int, each.contributions)) for each in wanted]

    def _train(self, runs: Sequence[RunKey], doubts: DealDoubts | None) -> None:
        def count(done: int, total: int) -> None:
            number = len(runs) - total + done
            self._say(number, f"training model {number} of at most {self.budget}", doubts)

        self.trainer.train(runs, self.store, count)

    def _say(self, trained: int, doing: str, doubts: DealDoubts | None) -> None:
        self.tell(PilotState(trained=trained, budget=self.budget, doing=doing, doubts=doubts))


def _observe(data: PilotData, label: str, runs: Sequence[RunKey], store: Store) -> Observations:
    sizes = data.test_sizes if data.task == CLASSIFICATION else None
    lots: dict[str, Any] = {}
    if data.lots is not None:
        lot_names = [lot for own in data.lot_names for lot in own]
        lots = {"lot_owners": data.lot_owners, "lot_names": lot_names, "task_owners": list(data.names)}
    scores = [trained_scores(store, run, len(data.names)) for run in runs]
    for name, own in zip(data.names, zip(*scores, strict=True), strict=True):
        if np.isnan(own).all():
            raise InvalidInput(
                f'model must return a score between 0 and 1 of member "{name}", got NaN from all {len(runs)} models '
                f"({label}); score it on its test records"
            )
    return Observations.of(runs, scores, test_sizes=sizes, names=data.names, **lots)


def _alone_and_together(data: PilotData, seen: Observations) -> FloatArray:
    owners, everything = np.array(data.lot_owners), data.available
    alone = [np.where(owners == name, everything, 0) for name in data.names]
    together, *own = [int((seen.contributions == run).all(axis=1).argmax()) for run in (everything, *alone)]
    return np.stack([seen.accuracies[own, range(len(own))], seen.accuracies[together]])


def _harmed(data: PilotData, scores: FloatArray) -> NDArray[np.bool_]:
    """(n,): to whom everybody's data does worse than its own by more than chance, as if it were tested twice."""
    alone, together = scores
    return np.asarray(alone - together > HARM_ERRORS * np.sqrt(score_variances(data, scores).sum(axis=0)))


def _records(data: Any, target: str | None, **options: Any) -> PilotData:
    """The records of whatever was given."""
    member = options.pop("member")
    task, ignore, lots = (options[key] for key in ("task", "ignore", "lots"))
    if isinstance(data, PilotData) or (isinstance(data, str) and data in BUILT_IN_PILOTS):
        for label, given in {"target": target, "member": member, "task": task, "ignore": ignore}.items():
            if given:
                raise InvalidInput(f"{label} is for tables; this data is split into members already")
        if lots not in (None, AUTO_LOTS):
            raise InvalidInput(
                f'lots must be "{AUTO_LOTS}" for this data, which finds them; a column of lots is for tables'
            )
        if not isinstance(data, PilotData):
            data = built_in_pilot(data, test_share=options["test_share"], seed=options["seed"])
        return data if lots is None else with_found_lots(data, seed=options["seed"])
    _check_roles(target, member, lots, ignore)
    if isinstance(data, Mapping):
        if member is not None:
            raise InvalidInput("member is for a single table; here each member has its own already")
        tables, named = tables_of(data, target)
        return pilot_data(tables, named, **options)
    if not isinstance(data, str | os.PathLike):
        raise InvalidInput(f"data must be a folder, a table, a mapping of tables or PilotData, got {short_repr(data)}")
    if not os.path.exists(data) and not Path(data).suffix:
        raise InvalidInput(
            f"there is no folder {str(data)!r} and no built-in pilot of that name; built in are "
            f"{', '.join(BUILT_IN_PILOTS)}"
        )
    notes: list[str] = []
    tables = read_members(Path(data), member=member, notes=notes)
    if target is None:
        columns = named_columns(next(iter(tables.values())))
        raise InvalidInput(f"target must name the column to predict, one of {columns}")
    return pilot_data(tables, target, notes=notes, **options)


def _check_roles(target: str | None, member: str | None, lots: str | None, ignore: Sequence[str]) -> None:
    """A column has one role."""
    named = {"target": target, "member": member, "lots": None if lots == AUTO_LOTS else lots}
    roles = [(role, column) for role, column in named.items() if column is not None]
    roles += [("ignore", column) for column in dict.fromkeys(ignore)]
    for place, (role, column) in enumerate(roles):
        for other, twin in roles[:place]:
            if twin == column:
                raise InvalidInput(f"{role} must be another column than {other}, got {short_repr(column)} for both")


def _title(data: Any) -> str:
    return f"Pilot: {Path(data).stem}" if isinstance(data, str | os.PathLike) else "Pilot"


def _check_folder(folder: Path, model: CoalitionModel) -> None:
    """Refuse a folder that holds something else, or might."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder")
    held = [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
    if held and not (folder / MODELS_FILE).exists():
        raise InvalidInput(f"{folder} holds other files and no {MODELS_FILE}; name a new folder")
    if held and model.identity is None:
        raise InvalidInput(
            f"whether {model.label} is the model that was trained in {folder} cannot be told ({model.why}); name a new "
            f"folder, or let the function make for itself what cannot be pickled"
        )
    folder.mkdir(parents=True, exist_ok=True)
