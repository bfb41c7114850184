"""What every section of the report looks at: the comparison, the unit of amounts, and the transfers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedpact.comparison import Comparison
from fedpact.deals import Outcome, Settlement
from fedpact.deals.settlement import currency_decimals, settle_payments
from fedpact.federation import Federation
from fedpact.report.numbers import Unit
from fedpact.scenario import Measured, Money, Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

PAYOFF_DECIMALS = 6  # of transfers without money


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A comparison as the report shows it."""

    comparison: Comparison
    title: str
    description: str = ""
    money: Money | None = None
    data: str = ""
    measured: Measured | None = None

    @classmethod
    def of(cls, comparison: Comparison, scenario: Scenario | None = None) -> View:
        """A comparison with what its scenario says of it; federations without a title are called by their size."""
        chosen = comparison.recommendation if comparison.outcomes else None
        if chosen is not None and chosen.mechanism not in comparison.mechanisms:  # what is recommended is shown
            rules = comparison.mechanism(chosen.mechanism)
            outcomes = (*comparison.outcomes, rules.solve(comparison.federation))
            comparison = replace(comparison, outcomes=outcomes, mechanisms={**comparison.mechanisms, rules.name: rules})
        said = scenario or Scenario(federation=comparison.federation)
        return cls(
            comparison=comparison,
            title=said.title.strip() or f"A federation of {count_text(comparison.federation.n_agents, 'member')}",
            description=said.description.strip(),
            money=said.money,
            data=said.unit,
            measured=said.measured,
        )

    @property
    def federation(self) -> Federation:
        """The federation compared."""
        return self.comparison.federation

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self.federation.names

    @cached_property
    def unit(self) -> Unit:
        """What amounts are shown in."""
        sizes = [outcome.payoffs for outcome in self.comparison.outcomes]
        return Unit.of(self.money, np.concatenate(sizes) if sizes else np.zeros(1), data=self.data)

    @cached_property
    def deals(self) -> Sequence[Outcome]:
        """The outcomes in which agents federate."""
        return [outcome for outcome in self.comparison.outcomes if outcome.federated]

    @cached_property
    def among_best(self) -> View | None:
        """What is compared among those who should be in, where that is not everybody."""
        best = self.comparison.among_best if self.comparison.outcomes else None
        return None if best is None else replace(self, comparison=best)

    @cached_property
    def chosen(self) -> Outcome | None:
        """The outcome of the recommended mechanism, with everybody in, or the first that there is."""
        recommendation = self.comparison.recommendation
        solved = {outcome.mechanism: outcome for outcome in self.comparison.outcomes}
        if recommendation is not None and recommendation.mechanism in solved:
            return solved[recommendation.mechanism]
        return next(iter(solved.values()), None)

    @cached_property
    def best_welfare(self) -> float:
        """The welfare of the social optimum; NaN if nothing was solved."""
        return self.comparison.best_welfare if self.comparison.outcomes else float("nan")

    def title_of(self, outcome: Outcome) -> str:
        """What people call the outcome's mechanism."""
        return self.comparison.title(outcome.mechanism)

    @cached_property
    def settlements(self) -> Mapping[str, Settlement | None]:
        """The transfers of every outcome, by mechanism; None where the payments do not balance."""
        return {outcome.mechanism: self._settlement(outcome) for outcome in self.comparison.outcomes}

    def _settlement(self, outcome: Outcome) -> Settlement | None:
        payments = np.where(np.abs(outcome.payments).max() <= self.unit.noise, 0.0, outcome.payments)
        digits = PAYOFF_DECIMALS if self.money is None else currency_decimals(self.money.currency)
        rate, currency = self.unit.per_payoff, self.unit.label
        try:
            return settle_payments(payments, names=outcome.agents, per_payoff=rate, currency=currency, decimals=digits)
        except InvalidInput:
            return None
