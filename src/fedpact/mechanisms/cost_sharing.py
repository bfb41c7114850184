"""Cost sharing, M^BG: everybody is refunded a part of its costs, and pays that part of the average of the others'.

    p_i = b (c_i(s_i) - mean over j != i of c_j(s_j)),    so that    u_i = a_i - (1 - b) c_i - b mean_{j != i} c_j.

The budget-balanced mechanism of Murhekar, Yuan, Chaudhury, Li and Mehta ("Incentives in federated learning: equilibria,
dynamics, and mechanisms for welfare maximization", NeurIPS 2023). What the others spend is nothing an agent can change,
so it free-rides as if its costs were (1 - b) c_i: the equilibria are those of `Voluntary` at these costs, or, which is
the same, at values divided by 1 - b. Every cost is paid out once and collected once: it balances at every profile.

By default b = 1 - 1/n. Then u_i = a_i minus the average cost: all costs are paid together. Among agents who are all
alike, and useful to each other as to themselves, that reaches the welfare optimum; among others it need not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, free_riding
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution
from fedpact.mechanisms.voluntary import Voluntary
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput


class CostSharing(Voluntary):
    """Refunds a part of everybody's costs, paid for by the others.

    Parameters
    ----------
    part
        b, from 0 (everybody bears its costs) to below 1; 1 - 1/n if not given.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> CostSharing().solve(homogeneous).contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """

    name = "cost-sharing"
    title = "Cost sharing"
    plain_title = "costs are shared"
    description = (
        "Members pay a part of each other's costs; each contributes what suits itself at the costs left to it."
    )
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)

    def __init__(self, part: float | None = None) -> None:
        if part is not None and not 0.0 <= part < 1.0:
            raise InvalidInput(field="part", rule="must be at least 0 and below 1", value=part)
        self.part = part

    def played(self, federation: Federation) -> Federation:
        return federation.replace(values=federation.values / (1.0 - self._part(federation)))

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        part = self._part(federation)
        best = free_riding(self.played(federation), contributions)
        paid = part * _mean_of_others(federation.spending(contributions))
        return replace(
            best,
            utilities=(1.0 - part) * best.utilities - paid,
            shortfalls=None if best.shortfalls is None else (1.0 - part) * best.shortfalls,
            scope="all contributions of one member in [0, cap], at the costs left to it",
        )

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        costs = federation.spending(contributions)
        return self._part(federation) * (costs - _mean_of_others(costs))

    def is_vectorised(self, batch: Batch) -> bool:
        return Voluntary.is_vectorised(self, batch)

    def solve_together(self, batch: Batch) -> BatchSolution:
        return Voluntary.solve_together(self, batch)

    def played_together(self, batch: Batch) -> Batch:
        return replace(batch, joined=batch.joined.replace(values=batch.joined.values / (1.0 - self._part(batch))))

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        costs = batch.split(batch.joined.costs.value(contributions.ravel()))
        return self._part(batch) * (costs - _mean_of_others(costs))

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        part, played = self._part(batch), self.played_together(batch)
        best = batch.split(free_riding(played.joined, contributions.ravel()).utilities)
        paid = part * _mean_of_others(batch.split(batch.joined.costs.value(contributions.ravel())))
        return np.asarray((1.0 - part) * best - paid)

    def _part(self, federation: Federation | Batch) -> float:
        """b; nothing where there is nobody to share with."""
        if self.part is None or federation.n_agents == 1:
            return 1.0 - 1.0 / federation.n_agents
        return self.part


def _mean_of_others(costs: FloatArray) -> FloatArray:
    """For every agent, what the others spend on average; nothing where there are none."""
    return np.asarray((costs.sum(axis=-1, keepdims=True) - costs) / max(costs.shape[-1] - 1, 1))
