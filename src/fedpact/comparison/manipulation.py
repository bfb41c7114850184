"""What a member gains by misreporting, or by posing as several.

**Misreporting.** A member says that its costs, or its values, are a multiple of the true ones. The mechanism works on
the reports, everybody delivers what follows, and the liar is judged by its true payoff and cost. A few factors are
tried, for one member at a time, all in one batch: enough to compare mechanisms with each other, and a lower bound on
what lies can bring. `fedpact.negotiation.lies` searches for the worst.

**Posing as several.** A federation knows its members by name. An agent that enters under k names shares its cap and its
value among them (`fedpact.federation.splitting`); what its names have under the mechanism adds up. Under M^E nothing is
gained: prices are linear, so an even split is an equilibrium at the same prices. M^Shap counts orders of names, and
pays for more. Where a mechanism has several equilibria, those that its `solve` chooses are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.comparison.batches import solve_arrays
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation
from fedpact.federation.splitting import agent_index, split_agent
from fedpact.mechanisms import Mechanism, resolve_mechanism

FACTORS = (0.5, 0.8, 1.25, 2.0)
MAX_AGENTS_LYING = 8  # beyond, solving for every lie of everybody takes long


def misreporting_gains(outcome: Outcome, mechanism: Mechanism) -> Mapping[str, float]:
    """By name, the most a member gains by one of the lies tried; NaN where none of its reports has an outcome.

    Examples
    --------
    >>> from fedpact.mechanisms import ExternalityMechanism
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = ExternalityMechanism().solve(hospitals().federation)
    >>> round(misreporting_gains(outcome, ExternalityMechanism())["Clinic"])
    20638
    """
    federation, true = outcome.federation, outcome.arrays
    n_agents, n_factors = federation.n_agents, len(FACTORS)
    lie = np.ones((n_agents * n_factors, n_agents))
    liars = np.repeat(np.arange(n_agents), n_factors)
    lie[np.arange(liars.size), liars] = np.tile(FACTORS, n_agents)
    of_costs, of_values = np.concatenate([lie, np.ones_like(lie)]), np.concatenate([np.ones_like(lie), lie])
    reports = true.repeated(
        len(of_costs),
        linear=true.linear * of_costs[:, true.lot_owners],
        quadratic=true.quadratic * of_costs[:, true.lot_owners],
        values=true.values * of_values[:, true.task_owners],
    )
    found = solve_arrays(federation, reports, mechanism)
    spent = true.spending(found.contributions) + true.joining_costs
    utilities = found.payoffs / of_values - spent + found.payments
    own = utilities[np.arange(2 * liars.size), np.tile(liars, 2)].reshape(2, n_agents, n_factors)
    gains = own - outcome.utilities[:, None]
    return dict(zip(federation.names, np.fmax.reduce(gains, axis=(0, 2)).tolist(), strict=True))


def splitting_gain(federation: Federation, mechanism: Mechanism | str, agent: int | str, parts: int = 2) -> float:
    """What an agent gains by posing as `parts` agents that share its cap and value, in units of payoff.

    Parameters
    ----------
    federation, mechanism
        The instance, and the rules as an object or by name.
    agent
        By name or by number.
    parts
        How many names it uses, at least two.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> round(splitting_gain(homogeneous, "shapley", 0), 4), abs(splitting_gain(homogeneous, "externality", 0)) < 1e-12
    (0.0242, True)
    """
    rules = resolve_mechanism(mechanism)
    split, posing = split_agent(federation, agent, parts)
    honest = rules.solve(federation).utilities[agent_index(federation, agent)]
    return float(rules.solve(split).utilities[posing].sum() - honest)
