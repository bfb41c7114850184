"""Mechanisms side by side on one federation, and a recommendation with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedpact.comparison.outlook import Outlook, outlooks
from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, Mechanism, resolve_mechanisms
from fedpact.scenario import Uncertainty
from fedpact.stability import StableFederation, stable_federation
from fedpact.utils.errors import InvalidInput, NoFairDeal, NotConverged
from fedpact.utils.words import MAX_NAMES, join_names

# Welfare within this share of the best counts as equally good; then fairness decides.
CLOSE_SHARE = 0.01
MIN_RELATIVE_GAIN = 1e-9  # of what everybody has alone
MIN_RELATIVE_WELFARE = 1e-9  # of the largest payoff


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommendation:
    """Which mechanism to choose, and why."""

    mechanism: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The outcomes of several mechanisms on one federation.

    Attributes
    ----------
    outcomes
        In the order of the mechanisms.
    mechanisms
        By name, solved or not.
    unsolved
        Mechanisms without an outcome, and why.
    uncertainty
        What each mechanism may make of the federation while its numbers are uncertain; empty if they are not.
    """

    federation: Federation
    outcomes: Sequence[Outcome]
    mechanisms: Mapping[str, Mechanism]
    unsolved: Mapping[str, str]
    uncertainty: Mapping[str, Outlook] = field(default_factory=dict)

    def __getitem__(self, mechanism: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.mechanism == mechanism:
                return outcome
        known = ", ".join(outcome.mechanism for outcome in self.outcomes)
        why = f"there is no outcome of {mechanism!r} here; there are {known}"
        raise InvalidInput(why, field="mechanism", rule=f"must be one of {known}", value=mechanism)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def mechanism(self, name: str) -> Mechanism:
        """A mechanism by its name: of those compared, or the one recommended in their stead."""
        return self.mechanisms.get(name) or MECHANISMS[name]

    def title(self, mechanism: str) -> str:
        """What people call a mechanism."""
        return self.mechanism(mechanism).title

    def share_of_best(self, welfare: float) -> float:
        """A welfare as a part of the best with everybody in; NaN where that is no yardstick."""
        best = self.best_welfare
        rounding = MIN_RELATIVE_WELFARE * max(float(np.abs(outcome.payoffs).max()) for outcome in self.outcomes)
        if max(abs(best), abs(welfare)) <= rounding:
            return 1.0
        return welfare / best if best > rounding else float("nan")

    @cached_property
    def best_welfare(self) -> float:
        """The welfare of the social optimum, as the externality mechanism or the bound of another outcome has it."""
        bounds = [outcome.certificates["social-optimality"].witness["upper_bound"] for outcome in self.outcomes]
        return float(min(bounds))

    @cached_property
    def after_departures(self) -> Mapping[str, StableFederation]:
        """Every real mechanism, once those who would leave have left."""
        return {
            outcome.mechanism: stable_federation(self.federation, self.mechanisms[outcome.mechanism], first=outcome)
            for outcome in self.outcomes
            if not self.mechanisms[outcome.mechanism].is_baseline
        }

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The mechanism with the most welfare once the unwilling have left; among equals the more reciprocal one."""
        stable = self.after_departures
        if not stable:
            return None
        best = max(settled.welfare for settled in stable.values())
        alone = float(self.outcomes[0].standalone.sum())
        if best <= alone + MIN_RELATIVE_GAIN * abs(alone):
            losses = [
                f"under {self.title(name)} {join_names(settled.leavers, most=MAX_NAMES)} would leave"
                for name, settled in stable.items()
                if settled.leavers
            ]
            reason = "; ".join(["Nobody gains by federating: no mechanism does better than everybody alone", *losses])
            return Recommendation(mechanism="standalone", reason=f"{reason}.")
        near = [name for name, settled in stable.items() if settled.welfare >= best - CLOSE_SHARE * abs(best)]
        chosen = max(near, key=lambda name: (np.nan_to_num(self[name].reciprocity, nan=-np.inf), stable[name].welfare))
        return Recommendation(mechanism=chosen, reason=self._reason(chosen))

    def _reason(self, chosen: str) -> str:
        outcome, settled = self[chosen], self.after_departures[chosen]
        alone = float(outcome.standalone.sum())
        share = _percent(self.share_of_best(settled.welfare))
        parts = [f"{self.title(chosen)} reaches {share} of the best welfare with everybody in"]
        if alone > 0:
            parts[0] += f", {100.0 * (settled.welfare / alone - 1.0):+.1f} % against everybody alone"
        if settled.leavers:
            parts.append(f"{join_names(settled.leavers, most=MAX_NAMES)} would leave; that is counted in")
        else:
            parts.append("nobody would leave")
        if not settled.leavers and outcome.reciprocity < 1.0 - CLOSE_SHARE:
            unlucky = outcome.agents[int(outcome.reciprocity_ratios.argmin())]
            parts.append(
                f"its price is fairness: {unlucky} gets back {100.0 * outcome.reciprocity:.0f} % of its Shapley share"
            )
        for other, departed in self.after_departures.items():
            if other != chosen:
                lost = join_names(departed.leavers, most=MAX_NAMES)
                verb = f"loses {lost}" if lost else "keeps everybody too"
                share = _percent(self.share_of_best(departed.welfare))
                parts.append(f"{self.title(other)} {verb} and reaches {share}")
        return "; ".join(parts) + "."

    def __repr__(self) -> str:
        from fedpact.report.display import comparison_line  # noqa: PLC0415 - imports go one way

        return comparison_line(self)

    def _repr_html_(self) -> str:
        from fedpact.report.display import comparison_html  # noqa: PLC0415 - notebooks only

        return comparison_html(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per mechanism and agent; needs pandas."""
        from fedpact.report.display import comparison_frame  # noqa: PLC0415 - optional dependency

        return comparison_frame(self)

    def plot(self, *, figure: Any = None) -> Any:
        """The mechanisms side by side as a picture, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_comparison  # noqa: PLC0415 - optional dependency

        return plot_comparison(self, figure=figure)


def compare(
    federation: Federation,
    mechanisms: Sequence[Mechanism | str] | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    uncertainty: Uncertainty | None = None,
    draws: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> Comparison:
    """Solve a federation under several mechanisms, given as objects or by name; by default those without side payments.

    A baseline without an admissible equilibrium, or a fair deal that does not exist, is listed in `unsolved`; a
    mechanism that fails raises. `progress` is told the title of each mechanism before it is solved. With `uncertainty`,
    which a fitted scenario carries, every mechanism is also solved on `draws` of the federation (see
    `fedpact.comparison.outlook.outlooks`).

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> comparison = compare(hospitals().federation)
    >>> comparison.recommendation.mechanism
    'externality'
    >>> comparison["shapley"].leavers
    ("Children's", 'Clinic')
    """
    chosen = resolve_mechanisms(mechanisms)
    outcomes, unsolved = [], {}
    for mechanism in chosen:
        if progress is not None:
            progress(mechanism.title)
        try:
            outcomes.append(mechanism.solve(federation))
        except NotConverged as error:
            if not (mechanism.is_baseline or isinstance(error, NoFairDeal)):
                raise
            unsolved[mechanism.name] = str(error)
    return Comparison(
        federation=federation,
        outcomes=tuple(outcomes),
        mechanisms={mechanism.name: mechanism for mechanism in chosen},
        unsolved=unsolved,
        uncertainty=_outlooks(
            federation, uncertainty, [each for each in chosen if each.name not in unsolved], draws, rng
        ),
    )


def _outlooks(
    federation: Federation,
    uncertainty: Uncertainty | None,
    solved: Sequence[Mechanism],
    draws: int | None,
    rng: np.random.Generator | int | None,
) -> Mapping[str, Outlook]:
    """The outlook under each mechanism; a baseline that can be solved on no draw is left out."""
    found: dict[str, Outlook] = {}
    if uncertainty is None:
        return found
    for mechanism in solved:
        try:
            found |= outlooks(federation, uncertainty, [mechanism], count=draws, rng=rng)
        except NotConverged as error:
            if not (mechanism.is_baseline or isinstance(error, NoFairDeal)):
                raise
    return found


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f} %" if np.isfinite(part) else "an undefined part"
