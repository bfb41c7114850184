"""An equilibrium where all payoffs are shared out in proportion to contributions.

Member j maximises A(s) s_j / S - c_j(s_j) over its own contribution, with A the sum of all payoffs and S that of all
contributions. There is no potential, and a member's utility need not be concave in what it contributes: two local
maxima are possible. So members answer each other in turn, each by a search of its whole range, until answers move
little; Newton steps on the slopes then take the profile to rounding; and a last search says whether anybody still
gains. Many federations of one size are worked on together, side by side in one.

Stopping inequality: no search finds a gain above 1e-10 of the payoffs of all. Cost per turn: 80 n payoffs of everybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import block_bounds
from fedpact.programs.best_response import standalone_optimum
from fedpact.utils.arrays import FloatArray

MAX_TURNS = 60
NEWTON_AFTER = 8  # turns, Newton steps are tried
MAX_SHARING_STEPS = 25
GRID = np.append(0.0, 2.0 ** np.linspace(-20.0, 0.0, 33))  # of the largest contribution that could pay
ZOOM = np.linspace(0.0, 1.0, 9)
MAX_ZOOMS = 12
ANSWER_GAIN_TOLERANCE = 1e-10  # of the payoffs of all


def proportional_equilibrium(federation: Federation, weights: FloatArray) -> FloatArray:
    """Contributions (blocks, n) of federations side by side with weights (blocks, n, n); NaN where none settled."""
    blocks, n_agents = weights.shape[:2]
    game, places = _Game(federation, weights), np.arange(blocks)
    profile = np.minimum(standalone_optimum(federation)[0].reshape(blocks, n_agents), game.upper)
    found = np.full((blocks, n_agents), np.nan)
    for turn in range(MAX_TURNS):
        moved = game.take_turns(profile, part=1.0 if turn < MAX_TURNS // 2 else 0.5)
        if turn < NEWTON_AFTER or (turn - NEWTON_AFTER) % 4:
            continue
        for tried in (game.newton(profile), profile):
            settled = game.gains(tried) <= ANSWER_GAIN_TOLERANCE * game.stakes(tried)
            settled &= np.isnan(found[places]).any(axis=1)
            found[places[settled]] = tried[settled]
        going = np.flatnonzero(np.isnan(found[places]).any(axis=1) & (moved > 0))
        if not going.size:
            break
        if going.size < places.size:
            places, profile, game = places[going], profile[going], game.take(going)
    return found


class _Game:
    def __init__(self, federation: Federation, weights: FloatArray) -> None:
        self.federation, self.weights = federation, weights
        self.blocks, self.n_agents = weights.shape[:2]
        self.upper = block_bounds(federation, self.blocks)[0].reshape(self.blocks, self.n_agents)

    def take(self, places: NDArray[np.intp]) -> _Game:
        """That of some of the blocks."""
        agents = (places[:, None] * self.n_agents + np.arange(self.n_agents)).ravel()
        return _Game(self.federation.take(agents), self.weights[places])

    def take_turns(self, profile: FloatArray, *, part: float) -> FloatArray:
        """Everybody in turn moves to its best answer, or `part` of the way; returns by how much, at most, per block."""
        moved = np.zeros(self.blocks)
        for agent in range(self.n_agents):
            step = part * (self._best(profile, agent)[0] - profile[:, agent])
            moved = np.maximum(moved, np.abs(step))
            profile[:, agent] += step
        return moved

    def gains(self, profile: FloatArray) -> FloatArray:
        """The most anybody gains by another contribution, as far as a search finds, per block."""
        here = self._utilities(profile)
        found = [self._best(profile, agent)[1] - here[:, agent] for agent in range(self.n_agents)]
        return np.asarray(np.max(found, axis=0))

    def stakes(self, profile: FloatArray) -> FloatArray:
        """What there is to share out, per block."""
        return np.abs(self._payoffs(self._data(profile))).sum(axis=1)

    def newton(self, profile: FloatArray) -> FloatArray:
        """Newton steps on the slopes of everybody's utility, those held by a bound left where they are."""
        s, eye = profile.copy(), np.eye(self.n_agents)
        for _ in range(MAX_SHARING_STEPS):
            slopes, matrix = self._slopes(s)
            held = ((s <= 0) & (slopes <= 0)) | ((s >= self.upper) & (slopes >= 0))
            matrix = np.where(held[:, :, None] | held[:, None, :], eye, matrix)
            matrix[~np.isfinite(matrix).all(axis=(1, 2))] = eye
            singular = np.linalg.det(matrix) == 0
            matrix[singular] = eye
            move = np.linalg.solve(matrix, np.where(held | singular[:, None], 0.0, -slopes)[..., None])[..., 0]
            following = np.clip(s + np.clip(move, -0.5 * s, 0.5 * s + 1e-3 * self.upper), 0.0, self.upper)
            if np.array_equal(following, s):
                break
            s = following
        return s

    def _slopes(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """d u_j / d s_j, (blocks, n), and its derivative by everybody's contribution, (blocks, n, n)."""
        federation, flat = self.federation, self._data(s).ravel()
        values = federation.values
        with np.errstate(all="ignore"):
            rises = (values * federation.payoff.slope(flat)).reshape(s.shape)
            bends = (values * federation.payoff.curvature(flat)).reshape(s.shape)
            total, given = self._payoffs(self._data(s)).sum(axis=1)[:, None], s.sum(axis=1)[:, None]
            worth = np.einsum("bij,bi->bj", self.weights, rises)
            hessian = np.einsum("bij,bi,bik->bjk", self.weights, bends, self.weights)
            costs = federation.costs
            slopes = worth * s / given + total * (given - s) / given**2 - costs.slope(s.ravel()).reshape(s.shape)
            eye, part, rest = np.eye(self.n_agents), s / given, (given - s) / given**2
            matrix = hessian * part[:, :, None] + worth[:, :, None] * (
                eye / given[..., None] - (part / given)[:, :, None]
            )
            matrix += worth[:, None, :] * rest[:, :, None]
            matrix += total[..., None] * ((1.0 - eye) / given[..., None] ** 2 - 2.0 * (rest / given)[:, :, None])
            matrix -= eye * costs.curvature(s.ravel()).reshape(s.shape)[:, :, None]
        return np.nan_to_num(slopes), matrix

    def _data(self, profile: FloatArray) -> FloatArray:
        return np.matmul(self.weights, profile[..., None])[..., 0]

    def _payoffs(self, data: FloatArray) -> FloatArray:
        """Everybody's payoff at data (..., blocks, n), minus infinity outside the domain."""
        flat = data.reshape(*data.shape[:-2], -1)
        inside = flat > self.federation.payoff.floor
        with np.errstate(all="ignore"):
            worth = self.federation.values * self.federation.payoff.value(np.where(inside, flat, 0.0))
        return np.where(inside, worth, -np.inf).reshape(data.shape)

    def _utilities(self, profile: FloatArray) -> FloatArray:
        given = profile.sum(axis=1, keepdims=True)
        parts = np.divide(profile, given, out=np.full(profile.shape, 1.0 / self.n_agents), where=given > 0)
        costs = self.federation.costs.value(profile.ravel()).reshape(profile.shape)
        return self._payoffs(self._data(profile)).sum(axis=1)[:, None] * parts - costs

    def _best(self, profile: FloatArray, agent: int) -> tuple[FloatArray, FloatArray]:
        """One agent's best contribution in every block, and its utility there: by a grid, finer and finer about it."""
        others = profile.sum(axis=1) - profile[:, agent]
        column = self.weights[:, :, agent]
        background = self._data(profile) - column * profile[:, agent, None]
        owned = np.arange(self.blocks) * self.n_agents + agent
        costs, upper = self.federation.costs.take(owned), self.upper[:, agent]

        def utilities(x: FloatArray) -> FloatArray:
            total = self._payoffs(background + x[..., None] * column).sum(axis=-1)
            parts = np.divide(x, x + others, out=np.ones(x.shape), where=x + others > 0)
            with np.errstate(invalid="ignore"):  # outside the domain even nothing of it is no payoff
                return np.nan_to_num(total * parts - costs.value(x), nan=-np.inf, neginf=-np.inf)

        tried = np.concatenate([GRID[:, None] * upper, profile[None, :, agent]])
        tried.sort(axis=0)
        for zoom in range(MAX_ZOOMS):
            found = utilities(tried)
            place = found.argmax(axis=0)[None]
            if zoom == MAX_ZOOMS - 1:
                break
            low = np.take_along_axis(tried, np.maximum(place - 1, 0), 0)
            high = np.take_along_axis(tried, np.minimum(place + 1, len(tried) - 1), 0)
            tried = low + ZOOM[:, None] * (high - low)
        return np.take_along_axis(tried, place, 0)[0], np.take_along_axis(found, place, 0)[0]
