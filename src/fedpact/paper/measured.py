"""Mechanisms on measured payoffs: test accuracies of trained models instead of a formula.

A coalition's model is trained on its members' contributions alone. Without data there is no model: the empty coalition,
and one whose members contribute nothing, are worth zero to everybody. Every trained model's accuracies are kept, on
disk if a folder is named, so nothing is trained twice.

**The Shapley mechanism** is played by best responses. Agent i's utility is phi_i(s) - c s_i, and the derivative of
phi_i is measured by contributing `perturbation` samples more,

    s_i <- s_i + step ((phi_i(s + perturbation e_i) - phi_i(s)) / perturbation - c),   kept within [0, available_i],

all agents at once. A round takes up to 2^n + n 2^(n - 1) - 1 models.

**The Externality mechanism** contributes the best profile of a grid, as in the paper. Its payments are at the gradients
of a payoff surface (`fedpact.fitting`) through all models trained so far, which a grid by itself does not give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from fedpact.fitting import Observations, fit
from fedpact.shapley.measured import Coalition, sample_game
from fedpact.training.experiment import Experiment
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.checkpoint import Checkpoint

# Pseudo-observations that everybody's data is alike. With linear costs the slightest difference decides who
# contributes, and noise would make that choice.
PRIOR = 10.0
MODELS_ALONE = 24  # per agent
MAX_GRIDS = 4  # a grid whose best profile is on its edge is followed by one around that profile


class MeasuredGame:
    """What models trained by coalitions are worth, measured; results are kept in `folder`, or in memory."""

    def __init__(self, experiment: Experiment, *, folder: Path | None = None) -> None:
        self.experiment = experiment
        self.n_agents = experiment.n_agents
        self.available = experiment.available.astype(np.float64)
        self._kept = None
        if folder is not None:
            own = Path(folder) / experiment.fingerprint
            own.parent.mkdir(parents=True, exist_ok=True)
            self._kept = Checkpoint(own, experiment.fingerprint)
        self._known: dict[str, FloatArray] = {}
        self.trained = 0

    def accuracies(self, profiles: ArrayLike) -> FloatArray:
        """Every agent's test accuracy of the models that profiles train, (models, n_agents); all missing in one go."""
        rows = [tuple(map(int, row)) for row in np.rint(np.atleast_2d(profiles))]
        missing = sorted({row for row in rows if any(row) and self._load(row) is None})
        if missing:
            for index, found in self.experiment.each(missing):
                self._keep(missing[index], found)
        nothing = np.zeros(self.n_agents)
        return np.array([self._known[_piece(row)] if any(row) else nothing for row in rows])

    def history(self, schedule: ArrayLike) -> FloatArray:
        """(rounds, n_agents): accuracies of one model whose contributions change from round to round."""
        rows = np.asarray(schedule, dtype=np.int64)
        asked = "history", rows.tolist()
        known = self._load(asked)
        return self._keep(asked, self.experiment.history(rows).accuracies) if known is None else known

    def shapley(self, contributions: ArrayLike) -> FloatArray:
        """Shapley values of the sum of all agents' accuracies, from the models of all coalitions."""
        used = np.rint(contributions)

        def worth(coalitions: Sequence[Coalition]) -> FloatArray:
            members = np.array([np.isin(np.arange(self.n_agents), coalition) for coalition in coalitions])
            return self.accuracies(np.where(members, used, 0)).sum(axis=1)

        return sample_game(worth, self.n_agents, budget=1 << self.n_agents, batch=True).values

    def _load(self, asked: Sequence[object]) -> FloatArray | None:
        """What was trained already, now or before an interruption."""
        piece = _piece(asked)
        stored = self._kept.load(piece) if piece not in self._known and self._kept is not None else None
        if stored is not None:
            self._known[piece] = stored["accuracies"]
        return self._known.get(piece)

    def _keep(self, asked: Sequence[object], accuracies: FloatArray) -> FloatArray:
        if self._kept is not None:
            self._kept.save(_piece(asked), {"accuracies": accuracies})
        self._known[_piece(asked)] = accuracies
        self.trained += 1
        return accuracies


def _piece(asked: Sequence[object]) -> str:
    """What a result is called on disk."""
    return f"model-{hashlib.sha256(repr(asked).encode()).hexdigest()[:16]}-0-0"


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponses:
    """Where best responses led.

    Attributes
    ----------
    contributions
        (rounds + 1, n_agents): what is contributed in each round, and in the end.
    models
        How many models were looked at.
    """

    contributions: FloatArray
    models: int

    def schedule(self, rounds: int) -> IntArray:
        """Whole samples used in each of `rounds` rounds; once at rest, always the same."""
        path = np.rint(self.contributions).astype(np.int64)
        return path[np.minimum(np.arange(rounds), len(path) - 1)]


def best_responses(
    game: MeasuredGame,
    cost: float,
    *,
    start: float = 150.0,
    step: float = 1000.0,
    perturbation: int = 10,
    threshold: float = 5.0,
    patience: int = 3,
    rounds: int = 50,
) -> BestResponses:
    """Best-response dynamics with finite differences; the defaults are the paper's.

    Stopping inequality: in `patience` rounds in a row nobody moves by more than `threshold` samples.
    """
    masks = np.array(list(product([0, 1], repeat=game.n_agents)))
    path = [np.clip(np.full(game.n_agents, start), 0.0, game.available)]
    seen: set[tuple[int, ...]] = set()
    quiet = 0
    while len(path) <= rounds and quiet < patience:
        used = np.rint(path[-1]).astype(np.int64)
        # Forwards, backwards for who has nothing more.
        moves = np.where(used + perturbation <= game.available, perturbation, -np.minimum(perturbation, used))
        moved = used + np.diag(moves)
        asked = np.concatenate([masks * profile for profile in (used, *moved)])
        seen.update(map(tuple, asked[asked.any(axis=1)].tolist()))
        game.accuracies(asked)  # all in one go
        own = np.array([game.shapley(profile)[agent] for agent, profile in enumerate(moved)])
        derivatives = np.divide(own - game.shapley(used), moves, out=np.zeros(game.n_agents), where=moves != 0)
        path.append(np.clip(path[-1] + step * (derivatives - cost), 0.0, game.available))
        quiet = quiet + 1 if np.abs(path[-1] - path[-2]).max() <= threshold else 0
    return BestResponses(contributions=read_only_copy(path), models=len(seen))


@dataclass(frozen=True, kw_only=True, eq=False)
class GridSearch:
    """The best profile of a search and every profile it looked at, in units of whole samples."""

    best: IntArray
    profiles: IntArray


def grid_search(
    game: MeasuredGame, cost: float, *, centre: float = 150.0, reach: int = 100, step: int = 20
) -> GridSearch:
    """Train every profile within `reach` samples of `centre` in steps of `step`; the defaults are the paper's.

    While the best profile is on the edge of the grid and more of the same is possible, another grid around it follows.
    """
    best, tried = np.full(game.n_agents, round(centre)), list[IntArray]()
    offsets = np.arange(-(reach // step) * step, reach + 1, step)
    while len(tried) < MAX_GRIDS:
        around = zip(best[:, None] + offsets, game.available, strict=True)
        axes = [axis[(axis >= 0) & (axis <= most)] for axis, most in around]
        profiles = np.array(list(product(*axes)), dtype=np.int64)
        tried.append(profiles)
        best = profiles[np.argmax(game.accuracies(profiles).sum(axis=1) - cost * profiles.sum(axis=1))]
        below, above = (best == profiles.min(axis=0)) & (best >= step), best == profiles.max(axis=0)
        if not (below | (above & (best + step <= game.available))).any():
            break
    return GridSearch(best=best, profiles=np.unique(np.concatenate(tried), axis=0))


def externality_payments(game: MeasuredGame, cost: float, found: GridSearch) -> FloatArray:
    """What everybody receives at the best profile, at the gradients of a surface through all models trained so far."""
    seen = np.concatenate([found.profiles, *_profiles_alone(game)]).astype(np.float64)
    seen = seen[seen.any(axis=1)]
    sizes = np.broadcast_to(game.experiment.test_sizes.astype(np.float64), seen.shape)
    observations = Observations.of(seen, game.accuracies(seen), test_sizes=sizes, names=game.experiment.names)
    federation = fit(observations, prior=PRIOR).federation(costs=cost, caps=game.available)
    return federation.arrays.price_payments(found.best.astype(np.float64))


def standing_alone(game: MeasuredGame, cost: float) -> FloatArray:
    """(n_agents,) the best utility of each alone, by a curve through models of its own at several sizes.

    The best measured utility would be the luckiest one; a curve averages over the noise. An agent that loses by every
    model of its own trains none, and has zero.
    """
    profiles = _profiles_alone(game)
    everybody = game.accuracies(profiles.reshape(-1, game.n_agents)).reshape(profiles.shape)
    best = np.zeros(game.n_agents)
    for agent in range(game.n_agents):
        sizes, measured = profiles[agent, :, agent][:, None], everybody[agent, :, agent][:, None]
        curve = fit(Observations.of(sizes, measured, test_sizes=float(game.experiment.test_sizes[agent])))
        tried = np.arange(1.0, sizes.max() + 1.0)
        best[agent] = max(0.0, (curve.predict(tried[:, None])[:, 0] - cost * tried).max())
    return best


def _profiles_alone(game: MeasuredGame) -> FloatArray:
    """(n_agents, models, n_agents): everybody by itself, at sizes that are closer where curves are steep."""
    shares = np.linspace(0.0, 1.0, MODELS_ALONE + 1)[1:] ** 1.6
    sizes = np.maximum(np.rint(np.outer(game.available, shares)), 1.0)
    return np.asarray(sizes[:, :, None] * np.eye(game.n_agents)[:, None, :])
