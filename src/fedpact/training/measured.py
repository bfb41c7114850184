"""Mechanisms on measured payoffs: accuracies of trained models in the place of a formula.

`MeasuredGame` says what accuracy every agent gets from a coalition's data. A coalition's model is trained on its
members' contributions alone. Without data there is no model: the empty coalition, and one whose members contribute
nothing, are worth zero to everybody. Every trained model's accuracies are kept, on disk if a folder is named, so
nothing is trained twice.

**The Shapley mechanism** is played on it by best responses. Agent i's utility is phi_i(s) - c_i s_i, and the derivative
of phi_i is measured by contributing `perturbation` samples more,

    s_i <- s_i + step ((phi_i(s + perturbation e_i) - phi_i(s)) / perturbation - c_i),   kept within [0, available_i],

all agents at once. A round takes up to 2^n + n 2^(n - 1) - 1 models.

**The Externality mechanism** is found by search. The paper trains every profile of a grid. The best of many noisy
numbers looks better than it is, so that is a choice of contributions, and its welfare has to be measured again. From a
few dozen models: fit the payoff surface (`fedpact.fitting`) to all accuracies seen so far, train at its welfare optimum
and around it, where the surface has to be right, and fit again. A fit averages over the noise of single trainings, and
its gradients are the prices, which a grid does not give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.tolerances import utility_tolerances, would_leave
from fedpact.federation.lots import require_single_lots
from fedpact.fitting import Fit, Observations, fit
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.shapley.measured import Coalition, SampledShapley, sample_game
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.settings import IntArray, nearest_counts
from fedpact.training.store import Store
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput

EXACT_UP_TO = 8  # agents: 255 models; from there on coalitions are sampled
MAX_PROFILES = 20_000  # of a grid
FIRST_LEVELS = (0.05, 0.15, 0.4, 1.0)  # of what everybody holds: the first profiles of a surface
NEARBY, MIN_SPREAD = 0.5, 5.0  # how far around the optimum the next profiles are: a share, and samples at least
MODELS_ALONE = 24  # per agent

Progress = Callable[[int], None]


class MeasuredGame:
    """What models trained by coalitions are worth, measured.

    Parameters
    ----------
    experiment
        Who holds what, and how models are trained.
    folder
        Where results are kept, one file per experiment; None to keep them in memory.
    progress
        Called with the number of models finished, each time some are.
    """

    def __init__(self, experiment: Experiment, *, folder: Path | None = None, progress: Progress | None = None) -> None:
        self.experiment = experiment
        path = None if folder is None else Path(folder) / f"{experiment.fingerprint}.jsonl"
        self._store = Store(path, experiment.fingerprint)
        self._progress = progress
        self.trained = 0

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self.experiment.n_agents

    @property
    def available(self) -> FloatArray:
        """The most each can contribute, per lot where agents have several."""
        return self.experiment.available.astype(np.float64)

    @property
    def test_sizes(self) -> FloatArray:
        """Images each is tested on, per task where agents have several."""
        return self.experiment.test_sizes.astype(np.float64)

    def accuracies(self, contributions: ArrayLike, coalition: Iterable[int] | None = None) -> FloatArray:
        """Every agent's test accuracy of the model that a coalition trains; of everybody's if none is given."""
        used = self.profile(contributions)
        if coalition is not None:
            members = list(coalition)
            if not members:
                raise InvalidInput("coalition must have a member, got none: no data, no model")
            for member in members:
                if not 0 <= member < self.n_agents:
                    raise InvalidInput(f"coalition must hold members from 0 to {self.n_agents - 1}, got {member!r}")
            used = np.where(np.isin(np.arange(self.n_agents), members), used, 0)
        return read_only_copy(self.many([used])[0])

    def profile(self, contributions: ArrayLike) -> IntArray:
        """Whole samples used: contributions rounded."""
        require_single_lots(self.experiment, "a measured game")
        given = checked_numbers("contributions", contributions, lambda x: x >= 0, "at least zero")
        return np.broadcast_to(nearest_counts(given), (self.n_agents,))

    def many(self, profiles: ArrayLike) -> FloatArray:
        """Accuracies of several models at once, (models, n_agents); what is missing is trained in one go.

        Where agents have several lots or tasks, profiles are per lot and accuracies per task.
        """
        rows = [tuple(map(int, row)) for row in np.atleast_2d(np.asarray(profiles))]
        missing = sorted({row for row in rows if any(row) and _key(row) not in self._store})
        if missing:
            for index, found in self.experiment.each(missing):
                self._keep(_key(missing[index]), found.tolist())
        return np.array([self._store[_key(row)] if any(row) else [0.0] * self.experiment.n_tasks for row in rows])

    def history(self, schedule: ArrayLike, *, wanted: NDArray[np.bool_] | None = None) -> Histories:
        """As `Experiment.history`."""
        rows = np.asarray(schedule, dtype=np.int64)
        asked = rows.tolist() if wanted is None else [rows.tolist(), wanted.tolist()]
        key = "history " + hashlib.sha256(repr(asked).encode()).hexdigest()
        if key not in self._store:
            found = self.experiment.history(rows, wanted=wanted)
            self._keep(key, {"accuracies": found.accuracies.tolist(), "loss": found.loss.tolist()})
        kept = self._store[key]
        return Histories(
            contributions=rows, accuracies=read_only_copy(kept["accuracies"]), loss=read_only_copy(kept["loss"])
        )

    def shapley(self, contributions: ArrayLike, *, permutations: int = 300, rng: int = 0) -> SampledShapley:
        """Shapley values of the sum of all agents' accuracies.

        Exact up to eight agents; beyond, from random coalitions, as many models as `permutations` of the agents would
        take, by default the paper's. The same `rng` draws the same coalitions.
        """
        used, n_agents = self.profile(contributions), self.n_agents

        def worth(coalitions: Sequence[Coalition]) -> FloatArray:
            members = np.array([np.isin(np.arange(n_agents), coalition) for coalition in coalitions])
            return self.many(np.where(members, used, 0)).sum(axis=1)

        budget = 1 << n_agents if n_agents <= EXACT_UP_TO else 2 + permutations * (n_agents - 1)
        return sample_game(worth, n_agents, budget=budget, rng=rng, batch=True)

    def rates(self, costs: ArrayLike) -> FloatArray:
        """The cost of a sample, per agent."""
        return np.broadcast_to(np.asarray(costs, dtype=np.float64), (self.n_agents,))

    def _keep(self, key: str, result: object) -> None:
        self._store.put(key, result)
        self.trained += 1
        if self._progress is not None:
            self._progress(1)


def _key(row: Sequence[int]) -> str:
    return " ".join(map(str, row))


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
    costs: ArrayLike,
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
        path.append(np.clip(path[-1] + step * (derivatives[-1] - game.rates(costs)), 0.0, game.available))
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
    game: MeasuredGame, costs: ArrayLike, *, centre: ArrayLike = 150.0, reach: int = 100, step: int = 20
) -> GridSearch:
    """Train every profile within `reach` samples of `centre` in steps of `step`; the defaults are the paper's."""
    centres = np.broadcast_to(np.asarray(centre, dtype=np.float64), (game.n_agents,))
    offsets = np.arange(-(reach // step) * step, reach + 1, step)
    axes = []
    for agent, (middle, most) in enumerate(zip(nearest_counts(centres), game.available, strict=True)):
        axes.append((middle + offsets)[(middle + offsets >= 0) & (middle + offsets <= most)])
        if not axes[-1].size:
            raise InvalidInput(
                f"centre[{agent}] must lie within {reach} of what the member holds, {most:.0f} samples, got "
                f"{centres[agent]:g}"
            )
    size = int(np.prod([float(axis.size) for axis in axes]))
    if size > MAX_PROFILES:
        raise InvalidInput(
            f"the grid has {size} profiles of {game.n_agents} members, at most {MAX_PROFILES} are tried; "
            f"take larger steps, or surface_search, which needs a few dozen"
        )
    profiles = np.array(list(product(*axes)), dtype=np.int64)
    welfare = game.many(profiles).sum(axis=1) - profiles @ game.rates(costs)
    best = int(np.argmax(welfare))
    chosen = profiles[best].astype(np.float64)
    lowest, highest = np.array([[axis[0], axis[-1]] for axis in axes]).T
    below, above = (chosen == lowest) & (chosen >= step), (chosen == highest) & (chosen + step <= game.available)
    return GridSearch(
        contributions=read_only_copy(chosen),
        welfare=float(welfare[best]),
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


def surface_search(
    game: MeasuredGame,
    costs: ArrayLike,
    *,
    budget: int = 60,
    settled: float = 10.0,
    prior: float = 10.0,
    rng: int = 0,
) -> SurfaceSearch:
    """The welfare optimum of a surface fitted to at most `budget` models, or a few more for the last search.

    Stopping inequality: the optimum moves by at most `settled` samples of everybody's, twice in a row.

    Parameters
    ----------
    prior
        How many pseudo-observations say that everybody's data is alike, as in `fit`: with linear costs the slightest
        difference decides who contributes, and few models cannot tell slight differences from noise.
    rng
        Draws the profiles around the optimum.
    """
    n_agents, rates, generator = game.n_agents, game.rates(costs), np.random.default_rng(rng)
    who = np.vstack([np.eye(n_agents), np.ones(n_agents)])  # everybody alone and all together
    first = nearest_counts([level * game.available * members for level, members in product(FIRST_LEVELS, who)])
    seen = np.unique(first[first.any(axis=1)], axis=0)
    before, still = np.full(n_agents, np.inf), 0
    while True:
        sizes = np.broadcast_to(game.test_sizes, seen.shape)
        observations = Observations.of(
            seen.astype(np.float64), game.many(seen), test_sizes=sizes, names=game.experiment.names
        )
        surface = fit(observations, prior=prior)
        federation = surface.federation(costs=np.maximum(rates, np.finfo(float).tiny), caps=game.available)
        optimum = nearest_counts(ExternalityMechanism().solve(federation).contributions).astype(np.float64)
        still = still + 1 if np.abs(optimum - before).max() <= settled else 0
        if still == 2 or len(seen) >= budget:
            break
        factors = generator.uniform(1.0 - NEARBY, 1.0 + NEARBY, (n_agents + 1, n_agents))
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


@dataclass(frozen=True, kw_only=True, eq=False)
class StandingAlone:
    """What everybody does without the others, (n_agents,): the best for each, by the curve fitted to its models."""

    contributions: FloatArray
    accuracies: FloatArray
    utilities: FloatArray


def standing_alone(game: MeasuredGame, costs: ArrayLike) -> StandingAlone:
    """The best each agent can do alone: models of its own at several sizes, a curve through them, its best point.

    The largest of the measured utilities would be the luckiest; the curve averages the luck out. Whoever loses by every
    model of its own trains none, and has zero.
    """
    shares = np.linspace(0.0, 1.0, MODELS_ALONE + 1)[1:] ** 1.6  # closer where curves are steep
    sizes = np.maximum(nearest_counts(np.outer(game.available, shares)), 1)
    profiles = sizes[:, :, None] * np.eye(game.n_agents, dtype=np.int64)[:, None, :]
    everybody = game.many(profiles.reshape(-1, game.n_agents)).reshape(profiles.shape)
    best = np.zeros((game.n_agents, 3))
    for agent, rate in enumerate(game.rates(costs)):
        seen = Observations.of(
            sizes[agent][:, None].astype(np.float64),
            everybody[agent, :, agent][:, None],
            test_sizes=float(game.test_sizes[agent]),
        )
        tried = np.arange(1.0, sizes[agent].max() + 1.0)
        accuracies = fit(seen).predict(tried[:, None])[:, 0]
        utilities = accuracies - rate * tried
        top = int(np.argmax(utilities))
        if utilities[top] > 0.0:
            best[agent] = tried[top], accuracies[top], utilities[top]
    contributions, accuracies, utilities = (read_only_copy(column) for column in best.T)
    return StandingAlone(contributions=contributions, accuracies=accuracies, utilities=utilities)


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


def leaving(
    game: MeasuredGame, costs: ArrayLike, schedule: IntArray, utilities: FloatArray, alone: StandingAlone
) -> Leaving:
    """Two federations trained round by round: with everybody, and without those who are better off alone.

    Parameters
    ----------
    schedule
        (rounds, n_agents): samples used.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions.
    alone
        What everybody has without the others.
    """
    whole, spent = game.history(schedule).accuracies, schedule * game.rates(costs)
    tolerances = utility_tolerances(whole, spent, utilities - (whole - spent), np.ones(game.n_agents))
    leaves = would_leave(utilities - alone.utilities, tolerances)
    staying = np.where(leaves, 0, schedule)
    rest = game.history(staying).accuracies if leaves.any() else whole
    # Before anybody has trained anything together, and where nobody is left, there is no model.
    begun = np.cumsum(staying.sum(axis=1)) > 0
    kept = np.where(begun[:, None], rest, 0.0) - spent
    return Leaving(
        leaves=leaves,
        everybody=read_only_copy((whole - spent).sum(axis=1)),
        without=read_only_copy(np.where(leaves, alone.utilities, kept).sum(axis=1)),
    )
