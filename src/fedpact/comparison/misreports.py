"""What a member gains by misreporting: it says that its costs, or its values, are a multiple of the true ones.

The mechanism works on the reports, everybody delivers what follows, and the liar is judged by its true payoff and cost.
A few factors are tried, for one member at a time, all in one batch: enough to compare mechanisms with each other, and a
lower bound on what lies can bring. `fp.misreport_study` tries many factors, the message game and negotiations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.comparison.batch_outcome import solve_batch
from fedpact.deals import Outcome
from fedpact.federation import Batch
from fedpact.mechanisms import Mechanism

FACTORS = (0.5, 0.8, 1.25, 2.0)
MAX_AGENTS_LYING = 8  # beyond, solving for every lie of everybody takes long


def misreporting_gains(outcome: Outcome, mechanism: Mechanism) -> Mapping[str, float]:
    """By name, the most a member gains by one of the lies tried; NaN where none of its reports has an outcome.

    Examples
    --------
    >>> from fedpact.mechanisms import ExternalityMechanism
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = ExternalityMechanism().solve(hospitals().federation)
    >>> round(misreporting_gains(outcome, ExternalityMechanism())["Clinic"], 4)
    0.0263
    """
    federation, n_agents = outcome.federation, outcome.federation.n_agents
    liars = np.repeat(np.arange(n_agents), len(FACTORS))
    stretch = np.ones((liars.size, n_agents))
    stretch[np.arange(liars.size), liars] = np.tile(FACTORS, n_agents)
    same = np.ones_like(stretch)
    costs, values = np.concatenate([stretch, same]), np.concatenate([same, stretch])
    reports = Batch.vary(
        federation,
        costs=federation.costs.linear * costs,
        quadratic=federation.costs.quadratic * costs,
        values=federation.values * values,
    )
    found = solve_batch(reports, mechanism)
    true_costs = federation.costs.value(np.nan_to_num(found.contributions))
    utilities = found.payoffs / values - true_costs + found.payments
    own = np.take_along_axis(utilities, np.tile(liars, 2)[:, None], axis=1)[:, 0].reshape(2, n_agents, len(FACTORS))
    gains = own - outcome.utilities[:, None]
    return dict(zip(federation.names, np.fmax.reduce(gains, axis=(0, 2)).tolist(), strict=True))
