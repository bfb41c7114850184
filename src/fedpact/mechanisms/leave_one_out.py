"""Leave-one-out: everybody has what it adds to all the others.

p_i = A(s) - A(s without i) - a_i(s), with A the sum of all payoffs, so that u_i = A(s) - A(s without i) - c_i(s_i). The
yardstick most used to say what a participant's data is worth: train with it and without. The second term is nothing i
can change, so u_i changes with welfare when i alone moves. Welfare is a concave potential, and the welfare optima are
the equilibria.

What all add to all others is less than there is where data replaces other data, and more where it harms: payments leave
a surplus, or lack money, `outcome.budget`. Unlike under VCG, the others are not given time to adapt to i's absence.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.common_interest import sharing_total, total_bounds
from fedpact.certificates.deviations import Deviations
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import BatchSolution
from fedpact.mechanisms.optimum import OptimumMechanism
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged


class LeaveOneOut(OptimumMechanism):
    """Everybody has what all payoffs lose without its data.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = LeaveOneOut().solve(hospitals().federation)
    >>> outcome.certificates["social-optimality"].holds, outcome.budget < 0
    (True, True)
    """

    name = "leave-one-out"
    title = "Leave one out"
    plain_title = "paid for what would be lost without you"
    description = "Everybody has what all payoffs together would lose without its data, which is less than there is."
    claims = (Claim.NASH, Claim.SOCIAL_OPTIMALITY)
    is_baseline = True
    knows_lots = True
    knows_shared_caps = True

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        without = ~np.eye(federation.n_agents, dtype=np.bool_)[:, federation.lot_owners] * contributions
        if not all(federation.admits(profile) for profile in without):
            anything = np.full(federation.n_agents, np.inf)
            scope = "somebody leaves its payoff's domain without one of the others"
            return Deviations(actions=contributions, utilities=anything, scope=scope)
        return sharing_total(
            federation, contributions, -np.array([federation.payoffs(profile).sum() for profile in without])
        )

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What the payoffs of all lose without each member, less its own.

        Raises
        ------
        NotConverged
            If somebody would leave its payoff's domain without one of the others: its loss has no bound.
        """
        given = _given(federation, contributions)
        left = federation.data(contributions) - given
        lost = np.argwhere(left <= federation.payoff.floor)
        if lost.size:
            giver, receiver = federation.names[lost[0][0]], federation.task_labels[lost[0][1]]
            raise NotConverged(
                f'what is lost without "{giver}" has no bound: the data of others harms "{receiver}" beyond the domain '
                "of its payoff; lower caps may help",
                result=contributions,
            )
        added = federation.payoff.increment(left, given) @ federation.values
        return np.asarray(added - federation.payoffs(contributions))

    def is_vectorised(self, batch: Batch) -> bool:
        return OptimumMechanism.is_vectorised(self, batch)

    def solve_together(self, batch: Batch) -> BatchSolution:
        return OptimumMechanism.solve_together(self, batch)

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        left = np.repeat(batch.joined.data(contributions.ravel())[None], batch.n_agents, axis=0)  # by who is left out
        left -= np.concatenate(batch.weights * contributions[:, None, :]).T
        without = (batch.joined.values * batch.joined.payoff.value(left)).reshape(batch.n_agents, *contributions.shape)
        return total_bounds(batch, contributions, -without.sum(axis=2).T)


def _given(federation: Federation, contributions: FloatArray) -> FloatArray:
    """The data that each member brings to each task, by giver and receiver."""
    data = federation.agent_data(contributions)
    return (data if isinstance(data, np.ndarray) else data.toarray()).T
