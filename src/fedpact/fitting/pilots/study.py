"""`pilot`: from members' data to a deal that was measured to pay, or is not recommended.

1. **Does it help, and whom?** Everybody alone, one model for all, and own choice are trained and tested on every record
   (`arrangements`), with everything shared.
2. **What is it worth?** Of the arrangement to be used, some profiles of sharing are measured, and curves are fitted to
   the gains (`gain_curves`).
3. **What is the deal?** The curves, with what records cost and what a score is worth, are a federation; the deal is
   that of M^E, which has the most welfare, and under which nobody who does no harm loses.
4. **Does it pay?** The deal is trained on fresh splits and held against everybody alone (`verdict`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedpact.comparison import Comparison, compare, stable_federation
from fedpact.deals import Outcome
from fedpact.deals.settlement import PAYOFF_UNIT
from fedpact.federation import Federation, Payoff
from fedpact.federation.arrays import sum_by
from fedpact.fitting.pilots.arrangements import ALONE, ONE_MODEL, OWN_CHOICE, Trainer
from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS, built_in_pilot
from fedpact.fitting.pilots.estimators import PilotModel
from fedpact.fitting.pilots.gain_curves import SharingCurves, fit_gains, shapes_of
from fedpact.fitting.pilots.measured import Laboratory, Measurement, Shares
from fedpact.fitting.pilots.members import column_list, frames_of, pilot_data, read_members
from fedpact.fitting.pilots.records import CLASSIFICATION, PilotData
from fedpact.fitting.pilots.scores import LARGE_CLASS, ScoreFunction
from fedpact.fitting.pilots.terms import PilotTerms, Stated, pilot_terms
from fedpact.fitting.pilots.verdict import DO_NOT, FEDERATE, NORMAL_QUANTILE, NOT_ENOUGH, Confirmation
from fedpact.mechanisms import ExternalityMechanism
from fedpact.scenario import Scenario, Uncertainty
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import join_names

PROFILES = 14
MIN_SPLITS, MAX_SPLITS = 2, 8
SECONDS = 60.0  # of training that splits are chosen by
FRESH = 1_000  # number of the first split that the deal is confirmed on
CONFIRMING = 2  # times as many splits confirm the deal as its curves were fitted to
REFITS = 3  # times at most that the deal itself is measured, and curves are fitted again with it
NEAR = 0.01  # shares that differ by less are the same
PARTS = (0.0, 0.1, 0.3, 0.6, 1.0)  # of a lot, in profiles that are drawn
MAX_SEED = 2**32 - 1  # scikit-learn takes no larger one
ARRANGEMENTS = (OWN_CHOICE, ONE_MODEL)
MIN_VALUE = 1e-6  # of the largest: the value of a member that gains nothing
PIECES, SPLITS_PIECE = ".pieces", "splits-0-0"


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotState:
    """How far a pilot is: what is being done, how much of it, and of how much."""

    doing: str
    done: int = 0
    total: int = 0


Tell = Callable[[PilotState], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotStudy:
    """What a pilot found; made by `pilot`.

    Attributes
    ----------
    data, model, score
        What was trained, and how it is judged.
    terms
        Costs and values.
    splits
        How often records were split anew.
    arrangement
        That the deal is for: "own choice" or "one model".
    measurements
        Everybody alone, one model and own choice with everything shared, by arrangement.
    guesses
        (n,): the score of the constant answer.
    profiles
        (profiles, lots): shares that were measured.
    gains, variances
        (profiles, n): measured gains over alone, in units of the score.
    curves
        Fitted to them.
    confirmation
        The deal, trained; None where there is no deal to gain by.
    title
        For people.
    """

    data: PilotData
    model: PilotModel
    score: ScoreFunction
    terms: PilotTerms
    splits: int
    arrangement: str
    measurements: Mapping[str, Measurement]
    guesses: FloatArray
    profiles: FloatArray
    gains: FloatArray
    variances: FloatArray
    curves: SharingCurves
    title: str
    confirmation: Confirmation | None = None

    def __repr__(self) -> str:
        return f"PilotStudy({self.data!r}, {self.model.label}, {self.score.name}: {self.verdict})"

    @property
    def verdict(self) -> str:
        """ "federate", "do not federate" or "not enough evidence"."""
        if self.confirmation is not None:
            return self.confirmation.verdict
        gain, error = self.total_gain(self.arrangement)
        return DO_NOT if gain + NORMAL_QUANTILE * error <= 0.0 else NOT_ENOUGH

    @property
    def advice(self) -> str:
        """The verdict and its reason."""
        said = f"{self.verdict.capitalize()}."
        if self.confirmation is not None:
            said += f" {self.confirmation.reason}"
        else:
            gain, error = self.total_gain(self.arrangement)
            unit = self.currency
            why = "By the curves nobody gains by sharing at these costs" if self.curves.predicts else "No curve fits"
            low, high = (f"{gain + sign * NORMAL_QUANTILE * error:+,.4g} {unit}" for sign in (-1.0, 1.0))
            said += (
                f" {why}. With everything shared, {self.arrangement} brings all members together {gain:+,.4g} {unit} "
                f"(90 % interval {low} to {high}) before costs."
            )
        return said

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return PAYOFF_UNIT if self.terms.money is None else self.terms.money.currency

    def gain(self, arrangement: str) -> tuple[FloatArray, FloatArray]:
        """(n,) each: what an arrangement brings over alone with everything shared, and its standard errors."""
        gains, variances = self.measurements[arrangement].gains_over(self.measurements[ALONE])
        return gains, np.sqrt(variances)

    def total_gain(self, arrangement: str) -> tuple[float, float]:
        """In money, before costs, and its standard error."""
        gains, errors = self.gain(arrangement)
        return float(self.terms.worth @ gains), float(np.sqrt(((self.terms.worth * errors) ** 2).sum()))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What forbids to take numbers at their word."""
        found = []
        if not self.curves.predicts:
            best = min(self.curves.errors, key=lambda name: self.curves.errors[name])
            found.append(
                f"no deal is made of the curves: they predict profiles left out worse than {best} does "
                f"({self.curves.errors['curves']:.3g} against {self.curves.errors[best]:.3g})"
            )
        poor = self.measurements[ALONE].means <= self.guesses
        if poor.any():
            names = join_names([name for name, below in zip(self.data.names, poor, strict=True) if below])
            found.append(f"alone, the model of {names} scores no better than guessing")
        if self.data.task == CLASSIFICATION and self.score.name == "accuracy":
            large = [
                f"{name} ({100 * share:.0f} %)"
                for name, own in zip(self.data.names, self.data.records, strict=True)
                if (share := np.bincount(own.truth.astype(int)).max() / len(own)) >= LARGE_CLASS
            ]
            if large:
                found.append(
                    f"one class is nearly all of {join_names(large)}: is accuracy what you want? the constant answer "
                    f"has as much (score balanced_accuracy or roc_auc)"
                )
        return tuple(found)

    @property
    def remedies(self) -> list[str]:
        """What would change the verdict."""
        found = [] if self.confirmation is None else self.confirmation.remedies()
        other = ONE_MODEL if self.arrangement == OWN_CHOICE else OWN_CHOICE
        (now, _), (then, error) = self.total_gain(self.arrangement), self.total_gain(other)
        if self.confirmation is None and self.verdict == NOT_ENOUGH:
            found.append("more records, more splits (splits) or a lower cost of sharing would tell")
        if then - error > max(now, 0.0):
            found.append(f"{other} brings more than {self.arrangement} with everything shared (arrangement {other!r})")
        return found

    @cached_property
    def federation(self) -> Federation:
        """The curves with costs and values: what is shared, and what members gain by it."""
        return gain_federation(self.data, self.terms, self.curves)

    @cached_property
    def scenario(self) -> Scenario:
        """The federation with its uncertainty, and what was measured in words."""
        words = (
            f"From {len(self.profiles)} profiles of sharing, {self.splits} splits each ({self.model.label}, "
            f"{self.score.words}), {self.arrangement}. Amounts are gains over everybody's own model."
        )
        words += "".join(f" Warning: {warning}." for warning in self.warnings)
        return Scenario(
            federation=self.federation,
            title=self.title,
            description=words,
            money=self.terms.money,
            unit="records",
            uncertainty=Uncertainty(
                weights=self.curves.weight_errors,
                values=self.terms.worth * self.curves.value_errors,
                signs="positive" if self.arrangement == OWN_CHOICE else "any",
            ),
            not_recommended="" if self.verdict == FEDERATE else self.advice,
        )

    def compare(self, **options: Any) -> Comparison:
        """The mechanisms side by side, with their uncertainty; options as `fedpact.compare` takes them."""
        return compare(self.scenario, **options)

    def plot(self, *, figure: Any = None) -> Any:
        """What one model and own choice bring each member, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_pilot  # noqa: PLC0415 - optional dependency

        return plot_pilot(self, figure=figure)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write log, scenario, report and record to a folder; the files written."""
        from fedpact.fitting.pilots.folder import save_pilot  # noqa: PLC0415 - it takes what is made here

        return save_pilot(self, Path(folder))


def pilot(
    data: Any,
    target: str | None = None,
    *,
    member: str | None = None,
    model: Any = None,
    task: str | None = None,
    score: Any = None,
    ignore: Sequence[str] = (),
    lots: str | None = None,
    groups: str | None = None,
    cost: Stated | None = None,
    value: Stated | None = None,
    predictions: float | Mapping[str, float] | None = None,
    floor: float | None = None,
    family: str | None = None,
    arrangement: str | None = None,
    models: int = PROFILES,
    splits: int | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    source: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
) -> PilotStudy:
    """Measure whether members gain by sharing data, make the deal, and train it before recommending it.

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
        A scikit-learn estimator, or its name such as "sklearn.linear_model:LogisticRegression(C=0.1)"; by default a
        linear model that suits the task.
    task
        "classification" or "regression"; by default the target decides.
    score
        A score of scikit-learn, such as "roc_auc"; by default "accuracy" or "r2".
    ignore
        Columns to leave out.
    lots
        A column that says of which kind a record is.
    groups
        A column of what belongs together, such as a patient's number.
    cost, value
        What sharing a record costs and what the score is worth, for all or by member: money such as "0.02 EUR/record"
        and "20 EUR/point" (a hundredth of the score) or "2 EUR/correct", or plain numbers per record and per 1.
    predictions
        How many answers a member needs, where value is per correct one; as many as it holds records if not given.
    floor
        What guessing scores; measured by the constant answer if not given.
    family
        Of the curves: "power-law" or "exponential"; the one that predicts better if not given.
    arrangement
        "own choice" or "one model"; by default own choice, unless one model is measured to be better.
    models
        How many profiles of sharing are measured.
    splits
        How often records are split anew; by default what a minute of training allows.
    seed
        Of splits and training.
    output
        A folder for what is trained and found; started again with it, a pilot goes on where it was.
    source
        A folder that a built-in pilot reads its files from, if it does not come with a package.
    progress
        Told how far the pilot is.

    Examples
    --------
    >>> found = pilot("wine", models=8, splits=2)
    >>> found.verdict in ("federate", "do not federate", "not enough evidence")
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"seed must be a whole number from 0 to {MAX_SEED}, got {short_repr(seed)}")
    if floor is not None and not np.isfinite(floor):
        raise InvalidInput(f"floor must be finite, got {floor:g}; leave it out to have it measured")
    if arrangement not in (None, *ARRANGEMENTS):
        raise InvalidInput(f"arrangement must be one of {', '.join(ARRANGEMENTS)}, got {arrangement!r:.40}")
    if splits is not None and (isinstance(splits, bool) or not isinstance(splits, int) or splits < MIN_SPLITS):
        raise InvalidInput(f"splits must be a whole number of at least {MIN_SPLITS}, got {short_repr(splits)}")
    chosen = _records(
        data, target, member=member, task=task, ignore=ignore, lots=lots, groups=groups, source=source, seed=seed
    )
    needed = 1 + len(chosen.caps)
    if isinstance(models, bool) or not isinstance(models, int) or models < needed:
        raise InvalidInput(
            f"models must be a whole number of at least {needed}: everything shared, and each of {needed - 1} lots "
            f"alone; got {short_repr(models)}"
        )
    judged = ScoreFunction(score, chosen.task)
    trained = PilotModel.of(model, chosen.task, len(chosen.classes), seed)
    terms = pilot_terms(chosen, cost, value, predictions)
    tell = progress or (lambda state: None)
    folder = None if output is None else Path(output)
    kept = None
    if folder is not None:
        _check_folder(folder)
        identity = json.dumps([chosen.fingerprint, trained.label, judged.name, seed])
        kept = Checkpoint(folder / PIECES, identity)
    laboratory = Laboratory(
        Trainer(chosen, trained, judged, seed),
        kept,
        lambda doing, done, total: tell(PilotState(doing=doing, done=done, total=total)),
    )
    plan = _Plan(models, splits, arrangement, tuple(shapes_of(family)), floor)
    found = _run(laboratory, terms, plan, _title(data))
    if folder is not None:
        tell(PilotState(doing="writing the report"))
        found.save(folder)
    return found


class _Plan(NamedTuple):
    """What was asked for: profiles, splits, arrangement and floor, None where the pilot decides; shapes of curves."""

    profiles: int
    splits: int | None
    arrangement: str | None
    shapes: Sequence[Payoff]
    floor: float | None


def _run(laboratory: Laboratory, terms: PilotTerms, plan: _Plan, title: str) -> PilotStudy:
    data, n_lots = laboratory.trainer.data, len(laboratory.trainer.data.caps)
    everything: Shares = (1.0,) * n_lots
    nothing: Shares = (0.0,) * n_lots
    splits = plan.splits or _affordable_splits(laboratory, plan.profiles + CONFIRMING, everything)
    first = range(splits)
    kinds = [(ALONE, nothing), (ONE_MODEL, everything), (OWN_CHOICE, everything)]
    measured = dict(zip((ALONE, ONE_MODEL, OWN_CHOICE), laboratory.measure(kinds, first, "arrangements"), strict=True))
    alone = measured[ALONE]
    used = plan.arrangement or _better(measured, terms.worth)
    profiles = sharing_profiles(data, plan.profiles, laboratory.trainer.seed)
    owners = np.array(data.lot_owners)
    allowed = np.arange(len(data.names))[:, None] != owners if used == OWN_CHOICE else None
    guesses = _guesses(laboratory.trainer, plan.floor)
    for last in (*[False] * REFITS, True):
        found = laboratory.measure([(used, tuple(map(float, each))) for each in profiles], first, "profiles of sharing")
        pairs = [each.gains_over(alone) for each in found]
        gains, variances = (np.stack(parts) for parts in zip(*pairs, strict=True))
        curves = fit_gains(profiles * data.caps, gains, variances, allowed, shapes=plan.shapes)
        study = PilotStudy(
            data=data,
            model=laboratory.trainer.model,
            score=laboratory.trainer.score,
            terms=terms.completed(float((terms.worth * curves.values).sum()), data.caps),
            splits=splits,
            arrangement=used,
            measurements=measured,
            guesses=guesses,
            profiles=profiles,
            gains=gains,
            variances=variances,
            curves=curves,
            title=title,
        )
        outcome = _deal(study)
        if outcome is None:
            return study
        shares = _shared_records(study, outcome) / data.caps
        if last or np.abs(profiles - shares).max(axis=1).min() < NEAR:
            break
        # Curves are right about what was measured: so the deal they would make is measured, before it is promised.
        profiles = np.vstack([profiles, shares])
    return replace(study, confirmation=_confirm(study, outcome, laboratory))


def _affordable_splits(laboratory: Laboratory, n_profiles: int, everything: Shares) -> int:
    """How many splits a minute of training allows; a pilot that goes on has as many as it began with."""
    kept = laboratory.kept
    known = None if kept is None else kept.load(SPLITS_PIECE)
    if known is not None:
        return int(known["splits"])
    seconds = laboratory.seconds(OWN_CHOICE, everything) * n_profiles
    splits = int(np.clip(SECONDS / max(seconds, 1e-9), MIN_SPLITS, MAX_SPLITS))
    if kept is not None:
        kept.save(SPLITS_PIECE, {"splits": np.array(splits)})
    return splits


def sharing_profiles(data: PilotData, count: int, seed: int) -> FloatArray:
    """(count, lots): shares of lots to measure: everything, each lot alone, all but one, and some that are drawn."""
    n_lots = len(data.caps)
    drawn = np.random.default_rng([seed, 1]).choice(PARTS, (count, n_lots))
    planned = [
        np.ones((1, n_lots)),
        np.eye(n_lots),
        1.0 - np.eye(n_lots) if n_lots > 2 else np.empty((0, n_lots)),
        drawn,
    ]
    profiles = np.concatenate(planned)
    return np.array(list(dict.fromkeys(tuple(each) for each in profiles if each.any()))[:count])


def _better(measured: Mapping[str, Measurement], worth: FloatArray) -> str:
    """Own choice, unless one model brings more in total beyond doubt."""
    more, variances = measured[ONE_MODEL].gains_over(measured[OWN_CHOICE])
    error = float(np.sqrt((worth**2 * variances).sum()))
    return ONE_MODEL if float(worth @ more) > NORMAL_QUANTILE * error else OWN_CHOICE


def _guesses(trainer: Trainer, floor: float | None) -> FloatArray:
    """(n,): the score of the constant answer, the shares of classes or the mean of a member's own records."""
    if floor is not None:
        return np.full(len(trainer.data.names), float(floor))
    found = []
    for own in trainer.data.records:
        if trainer.data.task == CLASSIFICATION:
            shares = np.bincount(own.truth.astype(int), minlength=trainer.model.n_classes) / len(own)
            constant = np.tile(shares, (len(own), 1))
        else:
            constant = np.full(len(own), float(own.truth.mean()))
        found.append(trainer.score.of(constant, own.truth))
    return np.array(found)


def gain_federation(data: PilotData, terms: PilotTerms, curves: SharingCurves) -> Federation:
    """Members that use their own data anyway, and gain by what others share."""
    assert terms.costs is not None
    values = terms.worth * curves.values
    owners = [data.names[owner] for owner in data.lot_owners]
    return Federation(
        curves.weights,
        costs=terms.costs,
        caps=data.caps,
        payoff=curves.shape,
        values=np.maximum(values, MIN_VALUE * max(float(values.max()), 1.0)),
        names=list(data.names),
        lot_owners=owners,
        task_owners=list(data.names),
        lot_names=[lot for own in data.lot_names for lot in own] if data.has_lots else None,
    )


def _deal(study: PilotStudy) -> Outcome | None:
    """The deal of most welfare by the curves, once those who would leave have left, if any."""
    if not study.curves.predicts:
        return None
    settled = stable_federation(study.federation, ExternalityMechanism())
    shares_any = settled.outcome is not None and np.rint(settled.outcome.contributions).any()
    return settled.outcome if shares_any else None


def _shared_records(study: PilotStudy, outcome: Outcome) -> FloatArray:
    """(lots,): whole records that are shared under a deal of some or all members."""
    shared = np.zeros(len(study.data.caps))
    for own, name in enumerate(outcome.agents):
        lots = study.federation.lots_of(study.data.names.index(name))
        shared[lots] = np.rint(outcome.contributions[outcome.federation.lots_of(own)])
    return shared


def _confirm(study: PilotStudy, outcome: Outcome, laboratory: Laboratory) -> Confirmation:
    """A deal, trained on fresh splits beside everybody alone."""
    data, terms, n = study.data, study.terms, len(study.data.names)
    assert terms.costs is not None
    payments, promised, inside = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    members = [data.names.index(name) for name in outcome.agents]
    inside[members], payments[members], promised[members] = True, outcome.payments, outcome.ir_gaps
    shared = _shared_records(study, outcome)
    splits = range(FRESH, FRESH + CONFIRMING * study.splits)
    wanted = [(study.arrangement, tuple(map(float, shared / data.caps))), (ALONE, (0.0,) * len(shared))]
    deal, alone = laboratory.measure(wanted, splits, "the deal, on fresh splits")
    gains, variances = deal.gains_over(alone)
    gains, variances = np.where(inside, gains, 0.0), np.where(inside, variances, 0.0)
    spent = sum_by(np.array(data.lot_owners), terms.costs * shared, n)
    return Confirmation(
        agents=data.names,
        mechanism=ExternalityMechanism().title,
        shared=shared,
        payments=payments,
        promised=promised,
        measured=terms.worth * gains - spent + payments,
        errors=terms.worth * np.sqrt(variances),
        costs=spent,
        currency=study.currency,
    )


def _records(data: Any, target: str | None, *, source: Any, seed: int, **options: Any) -> PilotData:
    """The records of whatever was given."""
    if isinstance(data, PilotData) or (isinstance(data, str) and data in BUILT_IN_PILOTS):
        for label, given in {"target": target, **options}.items():
            if given:
                raise InvalidInput(f"{label} is for tables; this data is split into members already")
        return data if isinstance(data, PilotData) else built_in_pilot(data, source=source, seed=seed)
    if source is not None:
        raise InvalidInput(f"source is for built-in pilots ({', '.join(BUILT_IN_PILOTS)}); name the folder itself")
    member = options.pop("member")
    named = {"target": target, "member": member, "lots": options["lots"], "groups": options["groups"]}
    _check_roles([*named.items(), *(("ignore", column) for column in options["ignore"])])
    if isinstance(data, Mapping):
        if member is not None:
            raise InvalidInput("member is for a single table; here each member has its own already")
        frames, target = frames_of(data, target)
        return pilot_data(frames, target, **options)
    if not isinstance(data, str | os.PathLike):
        raise InvalidInput(f"data must be a folder, a table, a mapping of tables or PilotData, got {short_repr(data)}")
    if not os.path.exists(data) and not Path(data).suffix:
        raise InvalidInput(
            f"there is no folder {str(data)!r} and no built-in pilot of that name; built in are "
            f"{', '.join(BUILT_IN_PILOTS)}"
        )
    tables, notes = read_members(Path(data), member)
    if target is None:
        columns = column_list(next(iter(tables.values())))
        raise InvalidInput(f"target must name the column to predict, one of {columns}")
    return pilot_data(tables, target, notes=notes, **options)


def _check_roles(named: Sequence[tuple[str, str | None]]) -> None:
    """A column has one role."""
    roles = [(role, column) for role, column in named if column is not None]
    for place, (role, column) in enumerate(roles):
        for other, twin in roles[:place]:
            if twin == column:
                raise InvalidInput(f"{role} must be another column than {other}, got {short_repr(column)} for both")


def _title(data: Any) -> str:
    return f"Pilot: {Path(data).stem}" if isinstance(data, str | os.PathLike) else "Pilot"


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PIECES).is_dir():
        raise InvalidInput(f"{folder} holds other files and is of no pilot; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
