"""Mechanisms on measured payoffs: accuracies of trained models in the place of a formula (`MeasuredGame`).

**The Shapley mechanism** is played by best responses. Agent i's utility is phi_i(s) - c s_i, and the derivative of
phi_i is measured by contributing `perturbation` samples more,

    s_i <- s_i + step ((phi_i(s + perturbation e_i) - phi_i(s)) / perturbation - c),   kept within [0, available_i],

all agents at once. A round takes up to 2^n + n 2^(n - 1) - 1 models.

**The Externality mechanism** is found by search. The paper trains every profile of a grid. The best of many noisy
numbers looks better than it is, so that is a choice of contributions, and its welfare has to be measured again. From a
few dozen models: fit the payoff surface (`fedpact.fitting`) to all accuracies seen so far, train at its welfare optimum
and around it, where the surface has to be right, and fit again. A fit averages over the noise of single trainings, and
its gradients are the prices, which a grid does not give.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.claims import utility_tolerances, would_leave
from fedpact.fitting import Fit, Observations, fit
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.paper.measured_game import EXACT_UP_TO, MeasuredGame, nearest_counts
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

FIRST_LEVELS = (0.05, 0.15, 0.4, 1.0)  # of what everybody holds: the first profiles of a surface
NEARBY, MIN_SPREAD = 0.5, 5.0  # how far around the optimum the next profiles are: a share, and samples at least
MAX_MOVE = 10.0  # samples: an optimum that moves by less stays
# Pseudo-observations that everybody's data is alike: with linear costs the slightest difference decides who
# contributes, and few models cannot tell slight differences from noise.
PRIOR = 10.0
MODELS_ALONE = 24  # per agent


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponses:
    """Where best responses led.

    Attributes
    ----------
    contributions
        (rounds + 1, n_agents): what is contributed in each round, and in the end.
    derivatives
        (rounds, n_agents): of phi_i in the agent's own contribution, as measured.
    stable
        Whether they came to rest before the rounds were over.
    models
        How many models were looked at.
    """

    contributions: FloatArray
    derivatives: FloatArray
    stable: bool
    models: int

    def schedule(self, rounds: int) -> IntArray:
        """Whole samples used in each of `rounds` rounds; once at rest, always the same."""
        path = nearest_counts(self.contributions)
        return path[np.minimum(np.arange(rounds), len(path) - 1)]


def best_responses(
    game: MeasuredGame,
    cost: float,
    *,
    start: ArrayLike = 150.0,
    step: float = 1000.0,
    perturbation: int = 10,
    threshold: float = 5.0,
    patience: int = 3,
    rounds: int = 50,
) -> BestResponses:
    """Best-response dynamics with finite differences, for at most eight agents; the defaults are the paper's.

    Stopping inequality: in `patience` rounds in a row nobody moves by more than `threshold` samples.
    """
    if game.n_agents > EXACT_UP_TO:
        raise InvalidInput(
            f"best responses need every coalition of at most {EXACT_UP_TO} members, got {game.n_agents} members; "
            "surface_search takes more"
        )
    masks = np.array(list(product([0, 1], repeat=game.n_agents)))
    path = [np.clip(np.broadcast_to(np.asarray(start, dtype=np.float64), (game.n_agents,)), 0.0, game.available)]
    derivatives: list[FloatArray] = []
    seen: set[tuple[int, ...]] = set()
    quiet = 0
    while len(derivatives) < rounds and quiet < patience:
        used = game.profile(path[-1])
        # Forwards, backwards for who has nothing more.
        moves = np.where(used + perturbation <= game.available, perturbation, -np.minimum(perturbation, used))
        moved = used + np.diag(moves)
        asked = np.concatenate([masks * profile for profile in (used, *moved)])
        seen.update(map(tuple, asked[asked.any(axis=1)].tolist()))
        game.many(asked)  # all in one go
        values = game.shapley(used).values
        own = np.array([game.shapley(profile).values[agent] for agent, profile in enumerate(moved)])
        derivatives.append(np.divide(own - values, moves, out=np.zeros(game.n_agents), where=moves != 0))
        path.append(np.clip(path[-1] + step * (derivatives[-1] - cost), 0.0, game.available))
        quiet = quiet + 1 if np.abs(path[-1] - path[-2]).max() <= threshold else 0
    return BestResponses(
        contributions=read_only_copy(path),
        derivatives=read_only_copy(derivatives),
        stable=quiet >= patience,
        models=len(seen),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class GridSearch:
    """The best profile of a grid, its welfare as measured in the search, and how many profiles were looked at.

    `on_edge` says whether an agent's contribution is the smallest or largest of the grid, and more of the same was
    possible.
    """

    contributions: FloatArray
    welfare: float
    tried: int
    on_edge: bool


def grid_search(
    game: MeasuredGame, cost: float, *, centre: ArrayLike = 150.0, reach: int = 100, step: int = 20
) -> GridSearch:
    """Train every profile within `reach` samples of `centre` in steps of `step`; the defaults are the paper's."""
    centres = np.broadcast_to(np.asarray(centre, dtype=np.float64), (game.n_agents,))
    offsets = np.arange(-(reach // step) * step, reach + 1, step)
    around = zip(nearest_counts(centres)[:, None] + offsets, game.available, strict=True)
    axes = [axis[(axis >= 0) & (axis <= most)] for axis, most in around]
    profiles = np.array(list(product(*axes)), dtype=np.int64)
    welfare = game.many(profiles).sum(axis=1) - cost * profiles.sum(axis=1)
    chosen = profiles[np.argmax(welfare)].astype(np.float64)
    lowest, highest = np.array([[axis[0], axis[-1]] for axis in axes]).T
    below, above = (chosen == lowest) & (chosen >= step), (chosen == highest) & (chosen + step <= game.available)
    return GridSearch(
        contributions=read_only_copy(chosen),
        welfare=float(welfare.max()),
        tried=len(profiles),
        on_edge=bool((below | above).any()),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SurfaceSearch:
    """The optimum of a fitted surface: whole samples, and payments at the fitted personal prices, which sum to zero.

    `surface` is the fit, and `trained` says how many models it took.
    """

    contributions: FloatArray
    payments: FloatArray
    surface: Fit
    trained: int


def surface_search(game: MeasuredGame, cost: float, *, budget: int = 60) -> SurfaceSearch:
    """The welfare optimum of a surface fitted to at most `budget` models, or a few more for the last search.

    Stopping inequality: the optimum moves by at most `MAX_MOVE` samples of everybody's, twice in a row.
    """
    n_agents, rng = game.n_agents, np.random.default_rng(0)
    who = np.vstack([np.eye(n_agents), np.ones(n_agents)])  # everybody alone and all together
    first = nearest_counts([level * game.available * members for level, members in product(FIRST_LEVELS, who)])
    seen = np.unique(first[first.any(axis=1)], axis=0)
    before, still = np.full(n_agents, np.inf), 0
    while True:
        sizes = np.broadcast_to(game.test_sizes, seen.shape)
        observations = Observations.of(
            seen.astype(np.float64), game.many(seen), test_sizes=sizes, names=game.experiment.names
        )
        surface = fit(observations, prior=PRIOR)
        federation = surface.federation(costs=cost, caps=game.available)
        optimum = nearest_counts(ExternalityMechanism().solve(federation).contributions).astype(np.float64)
        still = still + 1 if np.abs(optimum - before).max() <= MAX_MOVE else 0
        if still == 2 or len(seen) >= budget:
            break
        factors = rng.uniform(1.0 - NEARBY, 1.0 + NEARBY, (n_agents + 1, n_agents))
        around = np.concatenate([optimum[None], factors * np.maximum(optimum, MIN_SPREAD)])
        nearby = nearest_counts(np.clip(around, 0, game.available))
        seen = np.unique(np.concatenate([seen, nearby[nearby.any(axis=1)]]), axis=0)
        before = optimum
    return SurfaceSearch(
        contributions=read_only_copy(optimum),
        payments=read_only_copy(federation.arrays.price_payments(optimum)),
        surface=surface,
        trained=len(seen),
    )


def standing_alone(game: MeasuredGame, cost: float) -> FloatArray:
    """(n_agents,) utilities of the best each can do alone, by a curve through models of its own at several sizes.

    The largest of the measured utilities would be the luckiest; the curve averages the luck out. Whoever loses by every
    model of its own trains none, and has zero.
    """
    shares = np.linspace(0.0, 1.0, MODELS_ALONE + 1)[1:] ** 1.6  # closer where curves are steep
    sizes = np.maximum(nearest_counts(np.outer(game.available, shares)), 1)
    profiles = sizes[:, :, None] * np.eye(game.n_agents, dtype=np.int64)[:, None, :]
    everybody = game.many(profiles.reshape(-1, game.n_agents)).reshape(profiles.shape)
    best = np.zeros(game.n_agents)
    for agent in range(game.n_agents):
        seen = Observations.of(
            sizes[agent][:, None].astype(np.float64),
            everybody[agent, :, agent][:, None],
            test_sizes=float(game.test_sizes[agent]),
        )
        tried = np.arange(1.0, sizes[agent].max() + 1.0)
        best[agent] = max(0.0, (fit(seen).predict(tried[:, None])[:, 0] - cost * tried).max())
    return read_only_copy(best)


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaving:
    """Welfare if those who gain by it leave.

    Attributes
    ----------
    leaves
        (rounds, n_agents): who is better off alone.
    everybody
        (rounds,): welfare with everybody in.
    without
        (rounds,): those who leave have their utility alone, the others a model without their data.
    """

    leaves: NDArray[np.bool_]
    everybody: FloatArray
    without: FloatArray


def leaving(game: MeasuredGame, cost: float, schedule: IntArray, utilities: FloatArray, alone: FloatArray) -> Leaving:
    """Two federations trained round by round: with everybody, and without those who are better off alone.

    Parameters
    ----------
    schedule
        (rounds, n_agents): samples used.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions.
    alone
        What everybody has without the others, (n_agents,).
    """
    whole, spent = game.history(schedule).accuracies, np.asarray(cost * schedule, dtype=np.float64)
    tolerances = utility_tolerances(whole, spent, utilities - (whole - spent), np.ones(game.n_agents))
    leaves = would_leave(utilities - alone, tolerances)
    staying = np.where(leaves, 0, schedule)
    rest = game.history(staying).accuracies if leaves.any() else whole
    # Before anybody has trained anything together, and where nobody is left, there is no model.
    begun = np.cumsum(staying.sum(axis=1)) > 0
    kept = np.where(begun[:, None], rest, 0.0) - spent
    return Leaving(
        leaves=leaves,
        everybody=read_only_copy((whole - spent).sum(axis=1)),
        without=read_only_copy(np.where(leaves, alone, kept).sum(axis=1)),
    )
