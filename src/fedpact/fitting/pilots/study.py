"""`pilot`: from members' data to a deal that was measured to pay, or is not recommended.

1. **Does it help, and whom?** Everybody alone, one model for all, and own choice are trained and tested on every record
   (`arrangements`), with everything shared.
2. **What is it worth?** Of the arrangement to be used, some profiles of sharing are measured, and curves are fitted to
   the gains (`gain_curves`).
3. **What is the deal?** The curves, with what records cost and what a score is worth, are a federation; the deal is
   that of M^E, which has the most welfare, and under which nobody who does no harm loses. Curves are right about what
   was measured, and a deal is made where they promise most. So it is measured too, and the curves are fitted again with
   it, until the deal is one that was measured.
4. **Does it pay?** The deal is trained on fresh splits and held against everybody alone. A member's measured gain is

       worth of its score under the deal - worth of its score alone - what it shares costs it + its payment,

   with an interval (`fedpact.scenario.measured`) of records like these: other patients, other splits.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.comparison import compare, stable_federation
from fedpact.deals import Outcome
from fedpact.deals.settlement import PAYOFF_UNIT
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import stated_by_name
from fedpact.fitting.pilots.arrangements import ALONE, ONE_MODEL, OWN_CHOICE, Laboratory, Measurement, Trainer
from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS, built_in_pilot
from fedpact.fitting.pilots.gain_curves import SharingCurves, fit_gains, shapes_of
from fedpact.fitting.pilots.models import LARGE_CLASS, PilotModel, ScoreFunction
from fedpact.fitting.pilots.records import CLASSIFICATION, PilotData, column_list, frames_of, pilot_data, read_members
from fedpact.mechanisms import ExternalityMechanism
from fedpact.scenario import Measured, Money, Scenario, save_scenario
from fedpact.scenario.measured import DO_NOT, FEDERATE, NORMAL_QUANTILE, NOT_ENOUGH, MeasuredGains, gain_intervals
from fedpact.scenario.members_words import DataUnit, Price, is_price, one_currency
from fedpact.utils.arrays import FloatArray, whole_number
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.files import read_text, replace_files
from fedpact.utils.tables import csv_rows, typed_number
from fedpact.utils.words import MAX_NAMES, join_names

Stated = str | float | Mapping[str, str | float]
ONE_RECORD = DataUnit(1.0, "record")
POINTS = "points"
GAINS, SCENARIO, REPORT, RECORD = "gains.csv", "scenario.toml", "report.html", "pilot.json"
MIN_VALUE = 1e-6  # of the largest: the value of a member that gains nothing
NOTHING = 1e-9  # amounts that come of rounding
MOST_TIMES_MORE = 20.0  # as many records as there are, beyond which more of them are no advice
PROFILES = 14
MIN_SPLITS, MAX_SPLITS = 2, 8
SECONDS = 60.0  # of training that splits are chosen by
FRESH = 1_000  # number of the first split that the deal is confirmed on
CONFIRMING = 2  # times as many splits confirm the deal as its curves were fitted to
REFITS = 3  # times at most that the deal itself is measured, and curves are fitted again with it
NEGLIGIBLE = 1e-3  # of the largest gain: a loss below it comes of whole records
NEAR = 0.01  # shares that differ by less are the same
PARTS = (0.0, 0.1, 0.3, 0.6, 1.0)  # of a lot, in profiles that are drawn
MAX_SEED = 2**32 - 1  # scikit-learn takes no larger one
ARRANGEMENTS = (OWN_CHOICE, ONE_MODEL)
PIECES, SPLITS_PIECE = ".pieces", "splits-0-0"
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, and of how much


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotTerms:
    """Costs per record of each member (lot) and worth of an accuracy of 1 to each member; costs of None are to be set.

    `words` say what sharing costs where that is assumed, or was said without money.
    """

    costs: FloatArray | None
    worth: FloatArray
    money: Money | None
    words: str = ""

    def completed(self, worth: float, caps: FloatArray) -> PilotTerms:
        """With costs, if none were said, such that sharing everything costs a tenth of what all can gain by it."""
        if self.costs is not None:
            return self
        least = 0.01 * float(self.worth.mean())  # a point
        rate = float(f"{0.1 * max(worth, least) / caps.sum():.1g}")
        unit = PAYOFF_UNIT if self.money is None else self.money.currency
        words = f"Costs are a placeholder, {rate:g} {unit} a record: say what sharing a record costs."
        return replace(self, costs=np.full(len(caps), rate), words=words)


def pilot_terms(data: PilotData, cost: Stated | None, value: Stated | None) -> PilotTerms:
    """Terms as they are stated for all, or by member (and lot, MEMBER.LOT); money for costs and values, or for none."""
    lots = data.lot_labels
    prices = {"cost": _stated("cost", cost, lots), "value": _stated("value", value, data.names)}
    kinds = {label: {isinstance(entry, Price) for entry in found} for label, found in prices.items() if found}
    for label, found in kinds.items():
        if len(found) > 1:
            raise InvalidInput(f"{label} must be money for all members, or a plain number for all")
    if kinds.get("cost") == {True} and kinds.get("value") != {True}:
        raise InvalidInput('cost is in money: say what accuracy is worth too, such as value "20 EUR/point"')
    if kinds.get("value") == {True} and kinds.get("cost") == {False}:
        raise InvalidInput('value is in money: say the cost in money too, such as cost "0.02 EUR/record"')
    in_money = [entry for found in prices.values() for entry in found or () if isinstance(entry, Price)]
    money = Money(one_currency([price.currency for price in in_money], "cost and value"), 1.0) if in_money else None
    costs, words, worth = None, "", np.full(len(data.names), 100.0)
    if prices["value"] is None:  # amounts are points of the score
        money = Money(POINTS, 1.0)
    if prices["cost"] is not None:
        each = (entry.per_unit(ONE_RECORD, "cost") if isinstance(entry, Price) else entry for entry in prices["cost"])
        costs = np.array(list(each))
        if not in_money:
            ends = " to ".join(f"{end:g}" for end in np.unique([costs.min(), costs.max()]))
            unit = PAYOFF_UNIT if money is None else money.currency
            words = f"Sharing a record costs {ends} {unit}, as said without money."
    if prices["value"] is not None:
        worth = np.array(
            [entry.per_payoff("value") if isinstance(entry, Price) else entry for entry in prices["value"]]
        )
    if not np.isfinite(worth).all():
        raise InvalidInput("value must be below 1.8e308 for a score of 1; say it in larger units")
    return PilotTerms(costs=costs, worth=worth, money=money, words=words)


def _stated(label: str, given: Stated | None, names: Sequence[str]) -> list[Price | float] | None:
    """One entry per name, the more specific winning; None if nothing was said."""
    if given is None:
        return None
    entries = given if isinstance(given, Mapping) else {"": given}
    found = stated_by_name(label, {name: _amount(label, entry) for name, entry in entries.items()}, names)
    for name, entry in zip(names, found, strict=True):
        if entry is None:
            raise InvalidInput(f'{label} must be said for "{name}" too, or once for all')
    return [entry for entry in found if entry is not None]


def _amount(label: str, entry: Any) -> Price | float:
    if isinstance(entry, str) and is_price(entry):
        return Price.parse(entry, label)
    try:
        if isinstance(entry, str) and "%" in entry:
            raise ValueError("a percentage of what?")
        number = typed_number(entry) if isinstance(entry, str) else float(entry)
    except InvalidInput as error:
        raise error.within(label) from error
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 < number < float("inf"):
        example = "0.02 EUR/record" if label == "cost" else "20 EUR/point"
        raise InvalidInput(f'{label} must be a positive number, or money such as "{example}", got {short_repr(entry)}')
    return number


def amount_text(number: float, currency: str) -> str:
    """An amount in a sentence."""
    if abs(number) < NOTHING:
        return "nothing"
    return f"{number:+,.0f} {currency}" if abs(number) >= 10.0 else f"{number:+.3g} {currency}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirmation(MeasuredGains):
    """A deal, trained; arrays are (n,) unless said otherwise."""

    mechanism: str  # whose deal it is, in words
    shared: FloatArray  # (lots,): records that are shared under it
    payments: FloatArray  # what each receives
    costs: FloatArray  # what sharing costs each
    currency: str

    @property
    def reason(self) -> str:
        """Why, in a sentence or two."""
        amounts = (self.total, *self.total_interval, float(self.promised.sum()))
        total, low, high, promised = (amount_text(amount, self.currency) for amount in amounts)
        found = (
            f"The deal of the {self.mechanism} mechanism, trained on fresh splits, brings {total} summed over members "
            f"(90 % interval {low} to {high}); the curves promised {promised}."
        )
        if self.losers:
            return f"{found} {join_names(self.losers, most=MAX_NAMES)} would be worse off than alone."
        return f"{found} That is no more than chance may bring." if self.verdict == NOT_ENOUGH else found

    def remedies(self) -> list[str]:
        """What would change the verdict, by these numbers; sentences."""
        found, spent, doubt = [], float(self.costs.sum()), NORMAL_QUANTILE * self.total_error
        gross = self.total + spent
        if self.verdict != FEDERATE and not self.losers and spent > 0.0 and gross > doubt:
            price = (gross - doubt) / float(self.shared.sum())
            found.append(f"At a cost of sharing below {price:.3g} {self.currency} a record it pays beyond doubt.")
        if self.verdict == NOT_ENOUGH and self.total > 0.0 and (times := (doubt / self.total) ** 2) <= MOST_TIMES_MORE:
            found.append(f"To find out: {times:.1f} times as many records to test with, if the gain stays what it is.")
        if self.losers:
            found.append(f"{join_names(self.losers, most=MAX_NAMES)} would have to pay less, or stay out.")
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotStudy:
    """What a pilot found; made by `pilot`."""

    data: PilotData
    model: PilotModel
    score: ScoreFunction
    terms: PilotTerms  # costs and values
    question: str  # a text that tells what was asked from other questions
    splits: int  # how often records were split anew
    arrangement: str  # that the deal is for: "own choice" or "one model"
    measurements: Mapping[str, Measurement]  # by arrangement, alone included, with everything shared
    guesses: FloatArray  # (n,): the score of the constant answer
    profiles: FloatArray  # (profiles, lots): shares that were measured
    gains: FloatArray  # (profiles, n): measured gains over alone, in units of the score, and their variances
    variances: FloatArray
    curves: SharingCurves  # fitted to them
    title: str  # for people
    confirmation: Confirmation | None = None  # the deal, trained; None where there is no deal to gain by

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
            return f"{said} {self.confirmation.reason}"
        gain, error = self.total_gain(self.arrangement)
        these = "at a placeholder for costs" if self.terms.words.startswith("Costs are") else "at these costs"
        why = f"By the curves nobody gains by sharing {these}" if self.curves.predicts else "No curve fits"
        total, low, high = (amount_text(each, self.currency) for each in (gain, *gain_intervals(gain, error)))
        return (
            f"{said} {why}. With everything shared, {self.arrangement} brings {total} summed over members (90 % "
            f"interval {low} to {high}) before costs."
        )

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
        return float(self.terms.worth @ gains), float(np.linalg.norm(self.terms.worth * errors))

    @property
    def brings(self) -> FloatArray:
        """(n,): what the others gain in money where a member alone shares everything; NaN if that was not measured."""
        owners, found = np.array(self.data.lot_owners), np.full(len(self.data.names), np.nan)
        for member in range(len(found)):
            for profile in np.flatnonzero((self.profiles == (owners == member)).all(axis=1)):
                found[member] = float(np.delete(self.terms.worth * self.gains[profile], member).sum())
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """What forbids to take numbers at their word."""
        found, data, errors = [], self.data, self.curves.errors
        if not self.curves.predicts:
            best = min(errors, key=errors.__getitem__)
            found.append(
                f"no deal is made of the curves: they predict profiles left out worse than {best} does "
                f"({errors['curves']:.3g} against {errors[best]:.3g})"
            )
        poor = self.measurements[ALONE].means <= self.guesses
        if poor.any():
            names = join_names([name for name, below in zip(data.names, poor, strict=True) if below])
            found.append(f"alone, the model of {names} scores no better than guessing")
        if data.task == CLASSIFICATION and self.score.name == "accuracy":
            large = [
                f"{name} ({100 * share:.0f} %)"
                for name, own in zip(data.names, data.records, strict=True)
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
        """What would change the verdict; sentences."""
        found = [] if self.confirmation is None else self.confirmation.remedies()
        other = ONE_MODEL if self.arrangement == OWN_CHOICE else OWN_CHOICE
        (now, _), (then, error) = self.total_gain(self.arrangement), self.total_gain(other)
        if self.confirmation is None and self.verdict == NOT_ENOUGH:
            found.append("To find out: more records, more splits, or a lower cost of sharing.")
        if then - error > max(now, 0.0):
            said = f"{other.capitalize()} brings more than {self.arrangement} with everything shared"
            found.append(f"{said} (arrangement {other!r}).")
        return found

    @cached_property
    def federation(self) -> Federation:
        """Members that use their own data anyway, and gain by what others share: curves, costs and values."""
        data, terms, values = self.data, self.terms, self.terms.worth * self.curves.values
        assert terms.costs is not None
        return Federation(
            self.curves.weights,
            costs=terms.costs,
            caps=data.caps,
            payoff=self.curves.shape,
            values=np.maximum(values, MIN_VALUE * max(float(values.max()), 1.0)),
            names=list(data.names),
            lot_owners=[data.names[owner] for owner in data.lot_owners],
            task_owners=list(data.names),
            lot_names=[lot for own in data.lot_names for lot in own] if data.has_lots else None,
        )

    @property
    def measured(self) -> Measured:
        """What was measured, as a scenario carries it."""
        gains, errors = self.gain(self.arrangement)
        found = {"points": 100.0 * gains, "point_errors": 100.0 * errors, "worth": 0.01 * self.terms.worth}
        found |= {kind.replace(" ", "_"): self.measurements[kind].means for kind in (ALONE, ONE_MODEL, OWN_CHOICE)}
        deal, nothing = self.confirmation, np.zeros(len(gains))
        trained = [np.zeros(len(self.data.caps)), *[nothing] * 4]
        if deal is not None:
            trained = [deal.shared, deal.payments, deal.promised, deal.measured, deal.errors]
        found |= zip(("shared", "payments", "promised", "gains", "gain_errors"), trained, strict=True)
        return Measured(
            verdict=self.verdict,
            advice=self.advice,
            arrangement=self.arrangement,
            score=self.score.words,
            **{key: tuple(map(float, each)) for key, each in ({"guess": self.guesses} | found).items()},
        )

    @cached_property
    def scenario(self) -> Scenario:
        """The federation with what was measured."""
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
            measured=self.measured,
            not_recommended="" if self.verdict == FEDERATE else self.advice,
        )

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write scenario, report, record, and the gains of every profile to a folder; the files written."""
        from fedpact.report import write_report  # noqa: PLC0415 - it is made of what lies below
        from fedpact.report.records import pilot_record  # noqa: PLC0415 - as above

        into, scenario = Path(folder), self.scenario
        into.mkdir(parents=True, exist_ok=True)
        heads = [f"shared.{lot}" for lot in self.data.lot_labels]
        heads += [f"{kind}.{name}" for kind in ("gain", "error") for name in self.data.names]
        rows = np.hstack([self.profiles * self.data.caps, self.gains, np.sqrt(self.variances)])
        record = json.dumps(pilot_record(self), indent=2, ensure_ascii=False) + "\n"
        replace_files({into / GAINS: csv_rows([heads, *rows]).encode(), into / RECORD: record.encode()})
        save_scenario(scenario, into / SCENARIO)
        write_report(compare(scenario), into / REPORT, scenario)
        return [into / name for name in sorted((GAINS, RECORD, SCENARIO, REPORT))]


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
    floor: float | None = None,
    family: str | None = None,
    arrangement: str | None = None,
    models: int = PROFILES,
    splits: int | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    source: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> PilotStudy:
    """Measure whether members gain by sharing data, make the deal, and train it before recommending it.

    All records are read in one place: that is for public or synthetic data, or a place that all members trust. Where
    data may not be pooled, the ledger of a Flower run is the log to fit.

    `data` is a folder with a table per member, a table with a column `member`, a mapping from names to pandas frames,
    `PilotData`, or the name of a built-in pilot, which reads files it does not come with from the folder `source`. Of
    the columns, `target` is to be predicted, `ignore` are left out, `lots` says of which kind a record is, and `groups`
    what belongs together, such as a patient's number.

    `model` is a scikit-learn estimator, or its name such as "sklearn.linear_model:LogisticRegression(C=0.1)", by
    default a linear one that suits the `task`, "classification" or "regression", which the target decides. `score` is
    one of scikit-learn's, "accuracy" or "r2" by default, or a `ScoreFunction` with a variance of its own. `cost` and
    `value` are what sharing a record costs and what the score is worth, for all or by member: money such as
    "0.02 EUR/record" and "20 EUR/point" (a hundredth of the score), or plain numbers per record and per 1.

    `floor`, what guessing scores, is measured by the constant answer if it is not given; `family`, of the curves, is
    "power-law" or "exponential", the one that predicts better; `arrangement` is "own choice" or "one model", the former
    unless the latter is measured to be better. `models` says how many profiles of sharing are measured, `splits` how
    often records are split anew, by default what a minute of training allows, and `seed` what is random.

    Everything is kept in the folder `output`; started again with it, a pilot goes on where it was. A pilot of other
    data, or with other costs, does not replace what is there unless `force` says so. `progress` is told what is being
    done, how much of it, and of how much.

    Examples
    --------
    >>> found = pilot("wine", models=6, splits=2)
    >>> found.verdict in ("federate", "do not federate", "not enough evidence")
    True
    """
    if floor is not None and not np.isfinite(floor):
        raise InvalidInput(f"floor must be finite, got {floor:g}; leave it out to have it measured")
    if arrangement not in (None, *ARRANGEMENTS):
        raise InvalidInput(f"arrangement must be one of {', '.join(ARRANGEMENTS)}, got {arrangement!r:.40}")
    whole_number("splits", MIN_SPLITS if splits is None else splits, least=MIN_SPLITS)
    if whole_number("seed", seed, least=0) > MAX_SEED:
        raise InvalidInput(f"seed must be a whole number from 0 to {MAX_SEED}, got {seed}")
    columns = {"member": member, "ignore": ignore, "lots": lots, "groups": groups}
    records = _records(data, target, task=task, source=source, seed=seed, **columns)
    whole_number("models", models, least=1 + len(records.caps))  # everything shared, and each lot alone
    judged = score if isinstance(score, ScoreFunction) else ScoreFunction(score, records.task)
    trained = PilotModel.of(model, records.task, len(records.classes), seed)
    terms, shapes = pilot_terms(records, cost, value), shapes_of(family)
    tell = progress or (lambda doing, done, total: None)
    kept, trainings = None, json.dumps([records.fingerprint, trained.label, judged.name, seed])
    question = _digest(trainings, cost, value, floor, family, arrangement)
    if output is not None:
        _check_folder(Path(output), question, force=force)
        kept = Checkpoint(Path(output) / PIECES, trainings)
    laboratory = Laboratory(Trainer(records, trained, judged, seed), kept, tell)
    n_splits = splits or _affordable_splits(laboratory, models + CONFIRMING)
    nothing, everything = ((share,) * len(records.caps) for share in (0.0, 1.0))
    kinds = {ALONE: nothing, ONE_MODEL: everything, OWN_CHOICE: everything}
    measured = laboratory.measure(list(kinds.items()), range(n_splits), "arrangements")
    by_arrangement = dict(zip(kinds, measured, strict=True))
    more, doubts = by_arrangement[ONE_MODEL].gains_over(by_arrangement[OWN_CHOICE])
    is_better = float(terms.worth @ more) > NORMAL_QUANTILE * float(np.sqrt((terms.worth**2 * doubts).sum()))
    used = arrangement or (ONE_MODEL if is_better else OWN_CHOICE)
    title = f"Pilot: {Path(data).stem}" if isinstance(data, str | os.PathLike) else "Pilot"

    def fitted(profiles: FloatArray) -> PilotStudy:
        wanted = [(used, tuple(map(float, each))) for each in profiles]
        found = laboratory.measure(wanted, range(n_splits), "profiles of sharing")
        pairs = [each.gains_over(by_arrangement[ALONE]) for each in found]
        gains, variances = (np.stack(parts) for parts in zip(*pairs, strict=True))
        others = np.arange(len(records.names))[:, None] != np.array(records.lot_owners)
        allowed = others if used == OWN_CHOICE else None
        curves = fit_gains(profiles * records.caps, gains, variances, allowed, shapes=shapes)
        return PilotStudy(
            data=records,
            model=trained,
            score=judged,
            terms=terms.completed(float((terms.worth * curves.values).sum()), records.caps),
            question=question,
            splits=n_splits,
            arrangement=used,
            measurements=by_arrangement,
            guesses=_guesses(laboratory.trainer, floor),
            profiles=profiles,
            gains=gains,
            variances=variances,
            curves=curves,
            title=title,
        )

    study = fitted(sharing_profiles(records, models, seed))
    outcome = _deal(study)
    for _ in range(REFITS):
        shares = None if outcome is None else _shared_records(study, outcome) / records.caps
        if shares is None or np.abs(study.profiles - shares).max(axis=1).min() < NEAR:
            break
        # Curves are right about what was measured: so the deal they would make is measured, before it is promised.
        study = fitted(np.vstack([study.profiles, shares]))
        outcome = _deal(study)
    if outcome is not None:
        study = replace(study, confirmation=_confirm(study, outcome, laboratory))
    if output is not None:
        tell("writing the report", 0, 0)
        study.save(output)
    return study


def _affordable_splits(laboratory: Laboratory, n_profiles: int) -> int:
    """How many splits a minute of training allows; a pilot that goes on has as many as it began with."""
    kept = laboratory.kept
    known = None if kept is None else kept.load(SPLITS_PIECE)
    if known is not None:
        return int(known["splits"])
    begun = time.process_time()
    laboratory.measure([(OWN_CHOICE, (1.0,) * len(laboratory.trainer.data.caps))], [0], "one run, for its time")
    seconds = (time.process_time() - begun) * n_profiles
    splits = int(np.clip(SECONDS / max(seconds, 1e-9), MIN_SPLITS, MAX_SPLITS))
    if kept is not None:
        kept.save(SPLITS_PIECE, {"splits": np.array(splits)})
    return splits


def sharing_profiles(data: PilotData, count: int, seed: int) -> FloatArray:
    """(count, lots): shares of lots to measure: everything, each lot alone, all but one, and some that are drawn."""
    n_lots = len(data.caps)
    drawn = np.random.default_rng([seed, 1]).choice(PARTS, (count, n_lots))
    all_but_one = 1.0 - np.eye(n_lots)[: n_lots if n_lots > 2 else 0]
    planned = np.concatenate([np.ones((1, n_lots)), np.eye(n_lots), all_but_one, drawn])
    return np.array(list(dict.fromkeys(tuple(each) for each in planned if each.any()))[:count])


def _guesses(trainer: Trainer, floor: float | None) -> FloatArray:
    """(n,): the score of the constant answer, the shares of classes or the mean of a member's own records."""
    found = []
    for own in trainer.data.records:
        answers = np.eye(trainer.model.n_classes)[own.truth.astype(int)] if trainer.model.n_classes else own.truth
        found.append(trainer.score.of(np.broadcast_to(answers.mean(axis=0), answers.shape), own.truth))
    return np.array(found) if floor is None else np.full(len(found), float(floor))


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
    members, shared = [data.names.index(name) for name in outcome.agents], _shared_records(study, outcome)
    payments, promised, inside = np.zeros(n), np.zeros(n), np.zeros(n)
    inside[members], payments[members], promised[members] = 1.0, outcome.payments, outcome.ir_gaps
    splits = range(FRESH, FRESH + CONFIRMING * study.splits)
    wanted = [(study.arrangement, tuple(map(float, shared / data.caps))), (ALONE, (0.0,) * len(shared))]
    deal, alone = laboratory.measure(wanted, splits, "the deal, on fresh splits")
    gains, variances = deal.gains_over(alone)
    spent = sum_by(np.array(data.lot_owners), terms.costs * shared, n)
    measured = terms.worth * (inside * gains) - spent + payments
    return Confirmation(
        names=data.names,
        mechanism=ExternalityMechanism().title,
        shared=shared,
        payments=payments,
        promised=promised,
        measured=measured,
        errors=terms.worth * np.sqrt(inside * variances),
        slack=NEGLIGIBLE * np.abs([promised, measured]).max(initial=1.0),
        costs=spent,
        currency=study.currency,
    )


def _records(data: Any, target: str | None, *, source: Any, seed: int, **options: Any) -> PilotData:
    """The records of whatever was given."""
    if isinstance(data, PilotData) or (isinstance(data, str) and data in BUILT_IN_PILOTS):
        for label in [label for label, given in {"target": target, **options}.items() if given]:
            raise InvalidInput(f"{label} is for tables; this data is split into members already")
        return data if isinstance(data, PilotData) else built_in_pilot(data, source=source, seed=seed)
    if source is not None:
        raise InvalidInput(f"source is for built-in pilots ({', '.join(BUILT_IN_PILOTS)}); name the folder itself")
    roles: dict[str, str] = {}
    named = {"target": target} | {role: options[role] for role in ("member", "lots", "groups")}
    for role, column in (*named.items(), *(("ignore", each) for each in options["ignore"])):
        if column is not None and (other := roles.setdefault(column, role)) != role:
            raise InvalidInput(f"{role} must be another column than {other}, got {short_repr(column)} for both")
    member = options.pop("member")
    if isinstance(data, Mapping):
        if member is not None:
            raise InvalidInput("member is for a single table; here each member has its own already")
        frames, target = frames_of(data, target)
        return pilot_data(frames, target, **options)
    if not isinstance(data, str | os.PathLike):
        raise InvalidInput(f"data must be a folder, a table, a mapping of tables or PilotData, got {short_repr(data)}")
    if not os.path.exists(data) and not Path(data).suffix:
        built_in = ", ".join(BUILT_IN_PILOTS)
        raise InvalidInput(
            f"there is no folder {str(data)!r} and no built-in pilot of that name; built in are {built_in}"
        )
    tables, notes = read_members(Path(data), member)
    if target is None:
        columns = column_list(next(iter(tables.values())))
        raise InvalidInput(f"target must name the column to predict, one of {columns}")
    return pilot_data(tables, target, notes=notes, **options)


def _digest(*asked: Any) -> str:
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:32]


def _check_folder(folder: Path, question: str, *, force: bool) -> None:
    """Refuse a folder that holds something else, and the results of another question unless they may go."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PIECES).is_dir():
        raise InvalidInput(f"{folder} holds other files and is of no pilot; name a new folder")
    record = folder / RECORD
    if record.is_file() and not force and f'"question": "{question}"' not in read_text(record):
        raise InvalidInput(
            f"{folder} holds another pilot: its data, costs, values, model, score, seed or arrangement are not these; "
            "name another folder, or say --force to replace it (force=True)"
        )
    folder.mkdir(parents=True, exist_ok=True)
