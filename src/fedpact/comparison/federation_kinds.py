"""Random federations of chosen kinds, for studies: each kind is a way to draw weights, caps and values.

| kind             | what is special about it                                                                     |
|------------------|----------------------------------------------------------------------------------------------|
| `homogeneous`    | all weights are 1, all costs the same                                                        |
| `dense`          | nothing: weights between 0 and 2                                                             |
| `sparse`         | seven in ten weights are 0                                                                   |
| `tight-caps`     | caps of a tenth to all of what a member would contribute alone                               |
| `unequal-values` | values between 0.1 and 10, even on a logarithmic scale                                       |
| `harmful`        | of the weights 15 % lie between -0.05 and 0                                                  |

All members have the paper's payoff with one exponent per federation, between 0.2 and 1, and linear costs between 0.002
and 0.01 a sample, even on a logarithmic scale; w_ii = 1. Federation k of a kind is the same for a seed, however many
are drawn.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.payoffs import PowerLaw
from fedpact.solvers.standalone import standalone_optima

FEDERATION_KINDS = ("homogeneous", "dense", "sparse", "tight-caps", "unequal-values", "harmful")
LOOSE_CAP = 2000.0  # samples: more than anybody wants


def draw_federations(kind: str, start: int, stop: int, *, n_agents: int, seed: int) -> list[Federation]:
    """Federations number `start` to `stop` of a kind.

    Examples
    --------
    >>> one, two = draw_federations("sparse", 5, 7, n_agents=3, seed=0)
    >>> two.fingerprint == draw_federations("sparse", 6, 7, n_agents=3, seed=0)[0].fingerprint
    True
    """
    stream = FEDERATION_KINDS.index(kind)
    draws = (np.random.default_rng([seed, stream, n_agents, place]) for place in range(start, stop))
    return [_draw(kind, rng, n_agents) for rng in draws]


def _draw(kind: str, rng: np.random.Generator, n_agents: int) -> Federation:
    shape = (n_agents, n_agents)
    values = np.exp(rng.uniform(np.log(0.1), np.log(10.0), n_agents)) if kind == "unequal-values" else 1.0
    useful = rng.random(shape) < 0.3 if kind == "sparse" else np.ones(shape, dtype=bool)
    weights = np.ones(shape) if kind == "homogeneous" else useful * rng.uniform(0.0, 2.0, shape)
    if kind == "harmful":
        harms = rng.random(shape) < 0.15
        weights = np.where(harms, -rng.uniform(0.0, 0.05, shape), weights)
    np.fill_diagonal(weights, 1.0)
    costs = np.exp(rng.uniform(np.log(0.002), np.log(0.01), 1 if kind == "homogeneous" else n_agents))
    costs = np.broadcast_to(costs, n_agents)
    loose = Federation(weights, costs=costs, caps=LOOSE_CAP, payoff=PowerLaw(rng.uniform(0.2, 1.0)), values=values)
    if kind != "tight-caps":
        return loose
    wanted = np.maximum(standalone_optima(loose.arrays)[0], 1.0)
    return loose.replace(caps=wanted * rng.uniform(0.1, 1.0, n_agents))
