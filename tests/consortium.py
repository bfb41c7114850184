"""A mechanism from outside the package, as in docs/how-to/add-a-mechanism.md: all costs go into one pot."""

from __future__ import annotations

from typing import Any

import fedpact as fp
from fedpact.certificates.deviations import Deviations, free_riding


def cheaper(federation: fp.Federation) -> fp.Federation:
    """The same federation, in which everybody bears one n-th of what its own contribution costs."""
    n = federation.n_agents
    costs = fp.Quadratic(federation.costs.linear / n, federation.costs.quadratic / n)
    return federation.replace(costs=costs)


class EqualCosts(fp.Mechanism):
    """Nobody pays for data, but all costs go into one pot that everybody fills equally."""

    name = "equal-costs"
    title = "Equal costs"
    description = "Nobody pays for data. All costs go into one pot that everybody fills equally."
    claims = (fp.Claim.NASH, fp.Claim.BUDGET_BALANCE)

    def payments(self, arrays: Any, contributions: Any) -> Any:
        costs = arrays.spending(contributions)
        return costs - costs.mean(axis=-1, keepdims=True)

    def deviations(self, federation: fp.Federation, contributions: Any) -> Deviations:
        found = free_riding(cheaper(federation), contributions)
        costs = federation.spending(contributions)
        others = (costs.sum() - costs) / federation.n_agents
        return Deviations(actions=found.actions, utilities=found.utilities - others, scope=found.scope)

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        return self.outcome_at(federation, fp.Voluntary().solve(cheaper(federation)).contributions, is_solved=True)


class Membership(EqualCosts):
    """The same with a fee: it cannot be made without arguments."""

    def __init__(self, fee: float) -> None:
        self.fee = fee


instance = EqualCosts()
not_a_mechanism = cheaper
