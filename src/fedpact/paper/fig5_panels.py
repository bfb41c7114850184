"""Four agents, one of which may harm the others: the sweep of Fig. 5.

Agents 1, 2 and 3 value each other's data fully. Agent 0's data has weight w_k0 to each of them (outgoing), theirs has
weight w_0k to agent 0 (incoming). beta = 0.5, costs (0.1, 0.3, 0.3, 0.3), caps 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedpact.deals import Outcome
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import ExternalityMechanism, Mechanism, ShapleyMechanism
from fedpact.paper.judging import ZERO_AMOUNT
from fedpact.paper.table1_optimiser import interior_payments
from fedpact.utils.arrays import FloatArray

INCOMING = (-0.1, 0.0, 0.1)
LOWEST, HIGHEST = -1.0, 0.3
BETA, COSTS, CAP = 0.5, (0.1, 0.3, 0.3, 0.3), 3.0
PANEL_POINTS = 53  # steps of 0.025, zero among them
MECHANISMS: Mapping[str, Mechanism] = {"externality": ExternalityMechanism(), "shapley": ShapleyMechanism()}
CROSSING = 1e-12  # how finely a crossing is sought


def four_agents(incoming: float, outgoing: float) -> Federation:
    """The instance with weights w_0k and w_k0."""
    weights = np.ones((4, 4))
    weights[0, 1:], weights[1:, 0] = incoming, outgoing
    return Federation(weights, costs=COSTS, caps=CAP, payoff=PowerLaw(beta=BETA))


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Both mechanisms over the outgoing weights, at one incoming weight."""

    incoming: float
    outgoing: FloatArray
    outcomes: Mapping[str, Sequence[Outcome]]

    def of_agent_0(self, mechanism: str, value: Callable[[Outcome], FloatArray]) -> FloatArray:
        """Something of agent 0's at every outgoing weight."""
        return np.array([value(outcome)[0] for outcome in self.outcomes[mechanism]])

    def gaps(self, mechanism: str) -> FloatArray:
        """Delta_0, with rounding set to zero."""
        found = self.of_agent_0(mechanism, lambda outcome: outcome.ir_gaps)
        return np.where(np.abs(found) <= ZERO_AMOUNT, 0.0, found)

    def payments(self, mechanism: str) -> FloatArray:
        """p_0, with rounding set to zero."""
        found = self.of_agent_0(mechanism, lambda outcome: outcome.payments)
        return np.where(np.abs(found) <= ZERO_AMOUNT, 0.0, found)

    def contributions(self, mechanism: str) -> FloatArray:
        """s_0."""
        return self.of_agent_0(mechanism, lambda outcome: outcome.contributions)

    def at_bound(self, mechanism: str) -> NDArray[np.bool_]:
        """Where agent 0 contributes nothing or all it has."""
        given = self.contributions(mechanism)
        return (given <= ZERO_AMOUNT) | (given >= CAP - ZERO_AMOUNT)

    @cached_property
    def crossings(self) -> Mapping[str, Sequence[float]]:
        """The outgoing weights at which Delta_0 changes its sign, per mechanism."""
        return {name: self._crossings(name) for name in MECHANISMS}

    def crossing(self, mechanism: str) -> float:
        """The one crossing of a curve; undefined if there are more or none."""
        places = self.crossings[mechanism]
        return places[0] if len(places) == 1 else float("nan")

    @cached_property
    def externality(self) -> FloatArray:
        """T_0 under M^E: what one more sample of agent 0's is worth to the others; rounding set to zero."""
        found = self.of_agent_0("externality", lambda outcome: outcome.net_externality)
        return np.where(np.abs(found) <= ZERO_AMOUNT, 0.0, found)

    @cached_property
    def in_domain(self) -> NDArray[np.bool_]:
        """Where every profile within the caps leaves every payoff defined, as Proposition 1 asks."""
        weights = [outcome.federation.weights for outcome in self._externality]
        lowest = [1.0 + (np.minimum(each, 0.0) * CAP).sum(axis=1) for each in weights]
        return np.array([float(reach.min()) > ZERO_AMOUNT for reach in lowest])

    @cached_property
    def deficits(self) -> FloatArray:
        """What the payments of equation 12 sum to under M^E: zero where the optimum is interior."""
        return np.array(
            [interior_payments(outcome.federation, outcome.contributions).sum() for outcome in self._externality]
        )

    @property
    def _externality(self) -> Sequence[Outcome]:
        return self.outcomes["externality"]

    def _crossings(self, mechanism: str) -> list[float]:
        from scipy.optimize import brentq  # noqa: PLC0415 - heavy, and only needed here

        gaps = self.gaps(mechanism)
        signed = np.flatnonzero(gaps)
        turns = [(before, after) for before, after in pairwise(signed) if gaps[before] * gaps[after] < 0]

        def gap(outgoing: float) -> float:
            return float(MECHANISMS[mechanism].solve(four_agents(self.incoming, outgoing)).ir_gaps[0])

        return [brentq(gap, self.outgoing[before], self.outgoing[after], xtol=CROSSING) for before, after in turns]


@lru_cache
def panel(incoming: float, points: int = PANEL_POINTS) -> Panel:
    """Solve both mechanisms over the outgoing weights."""
    outgoing = np.round(np.linspace(LOWEST, HIGHEST, points), 12)
    return Panel(
        incoming=incoming,
        outgoing=outgoing,
        outcomes={
            name: tuple(rules.solve(four_agents(incoming, weight)) for weight in outgoing)
            for name, rules in MECHANISMS.items()
        },
    )
