"""Random federations of chosen kinds, for studies: each kind is a way to draw weights, caps and values.

All members have the paper's payoff with one exponent per federation, between 0.2 and 1, and linear costs between 0.002
and 0.01 a sample, even on a logarithmic scale; w_ii = 1. Federation k of a kind is the same for a seed, however many
are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.payoffs import PowerLaw
from fedpact.solvers.standalone import standalone_optima
from fedpact.utils.arrays import FloatArray

LOOSE_CAP = 2000.0  # samples: more than anybody wants
EXPONENTS, COSTS = (0.2, 1.0), (0.002, 0.01)
LARGEST_WEIGHT, LARGEST_HARM = 2.0, 0.05
SHARE_USEFUL, SHARE_HARMFUL = 0.3, 0.15  # of the weights between two members
CAP_SHARES = (0.1, 1.0)  # of what a member would contribute alone
VALUES = (0.1, 10.0)

Draw = Callable[[np.random.Generator, int], Federation]


def _federation(
    rng: np.random.Generator, weights: FloatArray, *, alike: bool = False, values: FloatArray | float = 1.0
) -> Federation:
    own = np.array(weights)
    np.fill_diagonal(own, 1.0)
    costs = np.exp(rng.uniform(np.log(COSTS[0]), np.log(COSTS[1]), 1 if alike else len(own)))
    beta = rng.uniform(*EXPONENTS)
    return Federation(own, costs=np.broadcast_to(costs, len(own)), caps=LOOSE_CAP, payoff=PowerLaw(beta), values=values)


def _homogeneous(rng: np.random.Generator, n_agents: int) -> Federation:
    return _federation(rng, np.ones((n_agents, n_agents)), alike=True)


def _dense(rng: np.random.Generator, n_agents: int) -> Federation:
    return _federation(rng, rng.uniform(0.0, LARGEST_WEIGHT, (n_agents, n_agents)))


def _sparse(rng: np.random.Generator, n_agents: int) -> Federation:
    useful = rng.random((n_agents, n_agents)) < SHARE_USEFUL
    return _federation(rng, useful * rng.uniform(0.0, LARGEST_WEIGHT, (n_agents, n_agents)))


def _tight_caps(rng: np.random.Generator, n_agents: int) -> Federation:
    loose = _dense(rng, n_agents)
    wanted = np.maximum(standalone_optima(loose.arrays)[0], 1.0)
    return loose.replace(caps=wanted * rng.uniform(*CAP_SHARES, n_agents))


def _unequal_values(rng: np.random.Generator, n_agents: int) -> Federation:
    values = np.exp(rng.uniform(np.log(VALUES[0]), np.log(VALUES[1]), n_agents))
    return _federation(rng, rng.uniform(0.0, LARGEST_WEIGHT, (n_agents, n_agents)), values=values)


def _harmful(rng: np.random.Generator, n_agents: int) -> Federation:
    weights = rng.uniform(0.0, LARGEST_WEIGHT, (n_agents, n_agents))
    harms = rng.random((n_agents, n_agents)) < SHARE_HARMFUL
    return _federation(rng, np.where(harms, -rng.uniform(0.0, LARGEST_HARM, (n_agents, n_agents)), weights))


FEDERATION_KINDS: Mapping[str, Draw] = {
    "homogeneous": _homogeneous,
    "dense": _dense,
    "sparse": _sparse,
    "tight-caps": _tight_caps,
    "unequal-values": _unequal_values,
    "harmful": _harmful,
}


def draw_federations(kind: str, start: int, stop: int, *, n_agents: int, seed: int) -> list[Federation]:
    """Federations number `start` to `stop` of a kind.

    Examples
    --------
    >>> one, two = draw_federations("sparse", 5, 7, n_agents=3, seed=0)
    >>> two.fingerprint == draw_federations("sparse", 6, 7, n_agents=3, seed=0)[0].fingerprint
    True
    """
    stream = list(FEDERATION_KINDS).index(kind)
    draws = (np.random.default_rng([seed, stream, n_agents, place]) for place in range(start, stop))
    return [FEDERATION_KINDS[kind](rng, n_agents) for rng in draws]
