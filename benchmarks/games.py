"""The federations that are measured: drawn at random, the same in every run."""

import numpy as np

import fedpact as fp


def dense(n_agents):
    """Everybody's data serves everybody; a federation and the contributions at which it is valued."""
    rng = np.random.default_rng(n_agents)
    federation = fp.Federation(_weights(rng, n_agents), costs=0.1, payoff=fp.PowerLaw(0.5))
    return federation, rng.uniform(1.0, 40.0, n_agents)


def costly(n_agents):
    """A dense federation in which some contribute, some do not and some are capped, once a mechanism has settled."""
    rng = np.random.default_rng(n_agents)
    weights = _weights(rng, n_agents)
    costs = rng.uniform(0.002, 0.01, n_agents) * n_agents / 10
    return fp.Federation(weights, costs=costs, caps=400.0, payoff=fp.PowerLaw(0.3))


def _weights(rng, n_agents):
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    return weights
