"""What a pilot found: measurements, curves, the deal, trained, and what follows; in words, as a scenario, in files.

The deal that the curves recommend is trained on fresh splits, beside everybody alone. A member's measured gain is

    worth of its score under the deal - worth of its score alone - what it shares costs it + its payment,

with an interval of 90 %: each end leaves out 5 %. Intervals are of records like these: other patients, other splits.

* **federate**: all together gain beyond doubt (the interval of the total is above zero), and nobody loses beyond doubt;
* **do not federate**: all together lose beyond doubt, or somebody does, or there is nothing to gain;
* **not enough evidence**: anything else. What would change it is said beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.comparison import Comparison, compare
from fedpact.deals.settlement import PAYOFF_UNIT
from fedpact.federation import Federation
from fedpact.fitting.pilots.arrangements import ALONE, ONE_MODEL, OWN_CHOICE, Measurement
from fedpact.fitting.pilots.estimators import PilotModel
from fedpact.fitting.pilots.gain_curves import SharingCurves
from fedpact.fitting.pilots.records import CLASSIFICATION, PilotData
from fedpact.fitting.pilots.scores import LARGE_CLASS, ScoreFunction
from fedpact.fitting.pilots.terms import PilotTerms
from fedpact.scenario import Measured, Scenario, save_scenario
from fedpact.scenario.measured import DO_NOT, FEDERATE, NORMAL_QUANTILE, NOT_ENOUGH, gain_intervals, verdict_of
from fedpact.utils.arrays import FloatArray
from fedpact.utils.files import replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows
from fedpact.utils.words import MAX_NAMES, join_names

GAINS, SCENARIO, REPORT, RECORD = "gains.csv", "scenario.toml", "report.html", "pilot.json"
MIN_VALUE = 1e-6  # of the largest: the value of a member that gains nothing
NEGLIGIBLE = 1e-3  # of the largest gain: a loss below it comes of whole records
MOST_TIMES_MORE = 20.0  # as many records as there are, beyond which more of them are no advice


def amount_text(number: float, currency: str) -> str:
    """An amount in a sentence."""
    return f"{number:+,.0f} {currency}" if abs(number) >= 10.0 else f"{number:+.3g} {currency}" if number else "nothing"


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirmation:
    """A deal, trained; arrays are (n,) unless said otherwise."""

    agents: Sequence[str]
    mechanism: str  # whose deal it is, in words
    shared: FloatArray  # (lots,): records that are shared under it
    payments: FloatArray  # what each receives
    promised: FloatArray  # gains by the curves
    measured: FloatArray  # gains by the trained models, with their standard errors
    errors: FloatArray
    costs: FloatArray  # what sharing costs each
    currency: str

    @property
    def intervals(self) -> FloatArray:
        """(n, 2): of each member's gain."""
        return gain_intervals(self.measured, self.errors)

    @property
    def total(self) -> float:
        """What all gain together, as measured."""
        return float(self.measured.sum())

    @property
    def total_error(self) -> float:
        """Its standard error: members' records are different ones."""
        return float(np.linalg.norm(self.errors))

    @property
    def total_interval(self) -> FloatArray:
        """(2,): of what all gain together."""
        return gain_intervals(self.total, self.total_error)

    @property
    def losers(self) -> list[str]:
        """Members that lose beyond doubt."""
        largest = np.abs(np.concatenate([self.promised, self.measured])).max(initial=1.0)
        lost = self.intervals[:, 1] < -NEGLIGIBLE * largest
        return [name for name, loses in zip(self.agents, lost, strict=True) if loses]

    @property
    def verdict(self) -> str:
        """What follows from what was measured."""
        return verdict_of(self.total_interval, has_losers=bool(self.losers))

    @property
    def reason(self) -> str:
        """Why, in a sentence or two."""
        amounts = (self.total, *self.total_interval, float(self.promised.sum()))
        total, low, high, promised = (amount_text(amount, self.currency) for amount in amounts)
        found = (
            f"The deal of the {self.mechanism} mechanism, trained on fresh splits, brings all members together "
            f"{total} (90 % interval {low} to {high}); the curves promised {promised}."
        )
        if self.losers:
            return f"{found} {join_names(self.losers, most=MAX_NAMES)} would be worse off than alone."
        return f"{found} That is no more than chance may bring." if self.verdict == NOT_ENOUGH else found

    def remedies(self) -> list[str]:
        """What would change the verdict, by these numbers."""
        found, spent, doubt = [], float(self.costs.sum()), NORMAL_QUANTILE * self.total_error
        gross = self.total + spent
        if self.verdict != FEDERATE and not self.losers and spent > 0.0 and gross > doubt:
            price = (gross - doubt) / float(self.shared.sum())
            found.append(f"at a cost of sharing below {price:.3g} {self.currency} a record it pays beyond doubt")
        if self.verdict == NOT_ENOUGH and self.total > 0.0 and (times := (doubt / self.total) ** 2) <= MOST_TIMES_MORE:
            found.append(f"{times:.1f} times as many records to test with would tell, if the gain stays what it is")
        if self.losers:
            found.append(f"{join_names(self.losers, most=MAX_NAMES)} would have to pay less, or stay out")
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotStudy:
    """What a pilot found; made by `pilot`."""

    data: PilotData
    model: PilotModel
    score: ScoreFunction
    terms: PilotTerms  # costs and values
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
        why = "By the curves nobody gains by sharing at these costs" if self.curves.predicts else "No curve fits"
        total, low, high = (amount_text(each, self.currency) for each in (gain, *gain_intervals(gain, error)))
        return (
            f"{said} {why}. With everything shared, {self.arrangement} brings all members together {total} (90 % "
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
        """What would change the verdict."""
        found = [] if self.confirmation is None else self.confirmation.remedies()
        other = ONE_MODEL if self.arrangement == OWN_CHOICE else OWN_CHOICE
        (now, _), (then, error) = self.total_gain(self.arrangement), self.total_gain(other)
        if self.confirmation is None and self.verdict == NOT_ENOUGH:
            found.append("more records, more splits or a lower cost of sharing would tell")
        if then - error > max(now, 0.0):
            found.append(f"{other} brings more than {self.arrangement} with everything shared (arrangement {other!r})")
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
        deal, nothing = self.confirmation, np.zeros(len(self.data.names))
        numbers: dict[str, FloatArray] = {
            "guess": self.guesses,
            **{kind.replace(" ", "_"): self.measurements[kind].means for kind in (ALONE, ONE_MODEL, OWN_CHOICE)},
            "points": 100.0 * gains,
            "point_errors": 100.0 * errors,
            "worth": 0.01 * self.terms.worth,
            "shared": np.zeros(len(self.data.caps)) if deal is None else deal.shared,
            "payments": nothing if deal is None else deal.payments,
            "promised": nothing if deal is None else deal.promised,
            "gains": nothing if deal is None else deal.measured,
            "gain_errors": nothing if deal is None else deal.errors,
        }
        return Measured(
            verdict=self.verdict,
            advice=self.advice,
            arrangement=self.arrangement,
            score=self.score.words,
            **{key: tuple(map(float, each)) for key, each in numbers.items()},
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

    def compare(self, **options: Any) -> Comparison:
        """The mechanisms side by side; options as `fedpact.compare` takes them."""
        return compare(self.scenario, **options)

    def plot(self, *, figure: Any = None) -> Any:
        """What one model and own choice bring each member, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_pilot  # noqa: PLC0415 - optional dependency

        return plot_pilot(self, figure=figure)

    def record(self) -> dict[str, Any]:
        """What was trained, assumed and found, as plain data."""
        data, deal, measured = self.data, self.confirmation, self.measured
        differences = {kind: self.gain(kind) for kind in (ONE_MODEL, OWN_CHOICE)}
        record = {
            "agents": data.names,
            "verdict": self.verdict,
            "advice": self.advice,
            "remedies": self.remedies,
            "arrangement": self.arrangement,
            "score": self.score.name,
            "scores": {key: getattr(measured, key) for key in ("guess", "alone", "one_model", "own_choice")},
            "differences": {
                kind.replace(" ", "_"): {"points": 100.0 * gains, "standard_errors": 100.0 * errors}
                for kind, (gains, errors) in differences.items()
            },
            "brings": self.brings,
            "mechanism": None if deal is None else deal.mechanism,
            "shared": measured.shared,
            "payments": measured.payments,
            "promised_gains": {"members": measured.promised, "total": sum(measured.promised)},
            "promised_errors": self.terms.worth * self.curves.gain_errors,
            "measured_gains": None if deal is None else {"members": deal.measured, "total": deal.total},
            "measured_interval": None if deal is None else {"members": deal.intervals, "total": deal.total_interval},
            "task": data.task,
            "classes": data.classes,
            "features": data.feature_names,
            "model": self.model.label,
            "records": [len(own) for own in data.records],
            "lots": data.lot_names if data.has_lots else None,
            "splits": self.splits,
            "profiles": len(self.profiles),
            "curves": {
                "family": self.curves.shape.family,
                "errors_left_out": self.curves.errors,
                "used": self.curves.predicts,
            },
            "costs": self.terms.costs,
            "worth": self.terms.worth,
            "currency": None if self.terms.money is None else self.terms.money.currency,
            "notes": [*self.warnings, *data.notes, *self.terms.words],
        }
        plain: dict[str, Any] = jsonable(record)
        return plain

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write scenario, report, record, and the gains of every profile to a folder; the files written."""
        from fedpact.report import write_report  # noqa: PLC0415 - it is made of what lies below

        into, scenario = Path(folder), self.scenario
        into.mkdir(parents=True, exist_ok=True)
        heads = [f"shared.{lot}" for lot in self.data.lot_labels]
        heads += [f"{kind}.{name}" for kind in ("gain", "error") for name in self.data.names]
        rows = np.hstack([self.profiles * self.data.caps, self.gains, np.sqrt(self.variances)])
        contents = {
            into / GAINS: csv_rows([heads, *rows]).encode(),
            into / RECORD: (json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n").encode(),
        }
        replace_files(contents)
        save_scenario(scenario, into / SCENARIO)
        write_report(
            self.compare(),
            into / REPORT,
            scenario_title=scenario.title,
            description=scenario.description,
            money=scenario.money,
            unit=scenario.unit,
            measured=scenario.measured,
        )
        return sorted([*contents, into / SCENARIO, into / REPORT])
