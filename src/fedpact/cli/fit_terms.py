"""What a log does not say and `fedpact fit` needs for a scenario: costs, caps, values, money, and who stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.cli.inputs import read_scenario
from fedpact.cli.per_agent import Rule, per_agent
from fedpact.federation import Federation, Quadratic
from fedpact.fitting import Fit, Observations
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

POSITIVE: Rule = (lambda number: number > 0, "positive")
PLACEHOLDER_SHARE = 0.1  # of what perfect accuracy is worth: what giving all one has costs, where nobody has said


@dataclass(frozen=True, kw_only=True)
class FitTerms:
    """Costs and caps per agent (lot), values per agent (task), money, and what data is counted in.

    Costs and values of None are to be chosen.
    """

    costs: Any
    caps: FloatArray
    values: FloatArray | None
    money: Money | None
    unit: str = ""
    placeholder: bool = False

    def completed(self, found: Fit) -> FitTerms:
        """With costs such that giving everything costs a tenth of what perfect accuracy is worth."""
        if self.costs is not None:
            return self
        values = found.values if self.values is None else self.values
        rate = PLACEHOLDER_SHARE * float(values.mean()) / float(np.median(self.caps[self.caps > 0]))
        return replace(self, costs=np.full(len(self.caps), float(f"{rate:.1g}")), placeholder=True)

    def worth(self, found: Fit) -> FloatArray | float:
        """What a unit of accuracy is worth, so that the federation has these values."""
        return 1.0 if self.values is None else self.values / found.values


def fit_terms(
    observations: Observations, stated: Mapping[str, list[str] | None], like: str | None, staying: NDArray[np.bool_]
) -> FitTerms:
    """The terms that options, by their names, and another scenario state."""
    lots, tasks = observations.lot_columns, observations.task_columns
    largest = observations.contributions.max(axis=0)
    caps = np.where(largest > 0, largest, largest.max())
    linear, quadratic, values = (np.full(size, np.nan) for size in (len(lots), len(lots), len(tasks)))
    money, unit = None, ""
    if like is not None:
        scenario = read_scenario(like)
        known, money, unit = scenario.federation, scenario.money, scenario.unit
        _check_like(known, observations, like)
        of_lots, of_tasks = (observations.lot_labels, known.lot_labels), (observations.task_labels, known.task_labels)
        caps = _known(*of_lots, known.caps, caps)
        linear, quadratic = (_known(*of_lots, part, np.nan) for part in (known.costs.linear, known.costs.quadratic))
        values = _known(*of_tasks, known.values, np.nan)
    given = per_agent("--cost", stated["--cost"] or [], lots, np.nan, rule=POSITIVE)
    linear, quadratic = np.where(np.isnan(given), linear, given), np.where(np.isnan(given), quadratic, 0.0)
    values = per_agent("--value", stated["--value"] or [], tasks, values, rule=POSITIVE)
    caps = per_agent("--cap", stated["--cap"] or [], lots, caps, rule=(lambda number: number >= 0, "at least zero"))
    lots_staying, tasks_staying = (staying[owners] for owners in observations.ownership[:2])
    linear, quadratic = (_fill_for_leavers(lots_staying, part) for part in (linear, quadratic))
    values = _fill_for_leavers(tasks_staying, values)
    for option, numbers, names in (("--cost", linear, lots), ("--value", values, tasks)):
        for agent in np.flatnonzero(np.isnan(numbers) & bool(stated[option] or like is not None))[:1]:
            kind = getattr(names, "kind", "member")
            raise InvalidInput(f'{option} must say a number for {kind} "{names[agent]}" too, or one for all')
    costs: Any = None
    if not np.isnan(linear).any():
        costs = Quadratic(linear, quadratic) if quadratic.any() else linear
    return FitTerms(costs=costs, caps=caps, values=None if np.isnan(values).all() else values, money=money, unit=unit)


def _check_like(known: Federation, observations: Observations, like: str) -> None:
    """Refuse a scenario whose members are others than those of the log."""
    if not set(known.names) & set(observations.names):
        raise InvalidInput(f"--like {like}: its members are {', '.join(known.names)}; none of them is in the log")
    if known.has_lots != observations.has_lots:
        which = "the scenario" if known.has_lots else "the log"
        raise InvalidInput(
            f"--like {like}: members have several lots or tasks in {which} only; both must name the same"
        )


def _known(wanted: Sequence[str], labels: Sequence[str], numbers: ArrayLike, otherwise: ArrayLike) -> FloatArray:
    """For each label that is wanted its number, or what stands `otherwise`."""
    by_label = dict(zip(labels, np.broadcast_to(numbers, len(labels)).tolist(), strict=True))
    others = np.broadcast_to(otherwise, len(wanted)).tolist()
    return np.array([by_label.get(label, other) for label, other in zip(wanted, others, strict=True)])


def staying_members(names: Sequence[str], without: Sequence[str]) -> NDArray[np.bool_]:
    """Who is in the scenario that is written."""
    for name in without:
        if name not in names:
            raise InvalidInput(f'--without: there is no member "{name}"; members are {", ".join(names)}')
    staying = ~np.isin(list(names), list(without))
    if not staying.any():
        raise InvalidInput("--without leaves out everybody")
    return staying


def _fill_for_leavers(staying: NDArray[np.bool_], numbers: FloatArray) -> FloatArray:
    """Nothing has to be said of those who leave: the others' mean stands for it, and counts nowhere."""
    return np.where(~staying & np.isnan(numbers), numbers[staying].mean(), numbers)
