"""What a member gains by posing as several.

A federation knows its members by name. An agent that enters under k names shares its cap and its value among them
(`fedpact.federation.splitting`); what its names have under the mechanism adds up. Under M^E nothing is gained: prices
are linear, so an even split is an equilibrium at the same prices. M^Shap counts orders of names, and pays for more.

Where a mechanism has several equilibria, those that its `solve` chooses are compared.
"""

from __future__ import annotations

from fedpact.federation import Federation
from fedpact.federation.splitting import agent_index, split_agent
from fedpact.mechanisms import Mechanism, resolve_mechanism


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
