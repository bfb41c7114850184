"""Two equilibria of the field that no concave program describes, of federations whose members have one lot each.

**Accuracy shaping.** With s_i° member i's optimum alone and e the bonus, member i goes on while its costs beyond
c_i(s_i°), refunded in accuracy 1 + e times, are less than what the others' data adds to its payoff. So an equilibrium
is a root of

    F_i(s) = (1 + e) (c_i(s_i) - c_i(s_i°)) - (a_i(s) - a_i(s_i°, 0)),        s_i = cap_i where F_i(cap_i) <= 0.

Without harm F is convex, with derivatives that are not positive off the diagonal: Newton steps from the largest
contributions that could pay fall to the greatest root, and Newton's matrix is an M-matrix all the way. The map behind F
is concave and rising, so that there is no other root. With harm none of this holds: everybody answers the others at
once, going part of the way, until nobody moves.

**Proportional sharing.** Member j maximises A(s) s_j / S - c_j(s_j), A the sum of all payoffs and S that of all
contributions. There is no potential, and utilities need not be concave. So members answer in turn, each by a search of
its whole range, until answers move little; Newton steps on the gradients then take the profile to rounding; and a last
search says whether anybody still gains more than 1e-10 of all payoffs.

Both work on many federations side by side; NaN where an equilibrium was not reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.federation.arrays import FederationArrays, times, times_transposed
from fedpact.solvers.standalone import standalone_optima
from fedpact.solvers.welfare import flatten
from fedpact.utils.arrays import FloatArray

MAX_SHAPING_STEPS, MAX_ANSWERS = 200, 1000
STEP_TOLERANCE, ANSWER_TOLERANCE = 1e-13, 1e-12  # of a contribution, and of the largest one
MAX_BISECTIONS = 200
HARMED_MULTIPLE = 1e3  # of what could pay without harm: the most a member makes up for harm with, without a cap
MAX_TURNS, NEWTON_AFTER, MAX_SHARING_STEPS = 60, 8, 25
GRID = np.append(0.0, 2.0 ** np.linspace(-20.0, 0.0, 33))  # of the largest contribution that could pay
ZOOM, MAX_ZOOMS = np.linspace(0.0, 1.0, 9), 12
SHARING_GAIN = 1e-10  # of the payoffs of all


def shaped_equilibria(arrays: FederationArrays, bonus: float = 0.0) -> FloatArray:
    """Contributions (..., n) where everybody has earned the whole model, or gives all it has."""
    flat = flatten(arrays) if arrays.shape else arrays.repeated(1)
    with np.errstate(all="ignore"):
        game = _Shaping(flat, bonus)
        found = game.answers() if arrays.has_harm else game.fall()
    return found.reshape(*arrays.shape, -1)


class _Shaping:
    def __init__(self, arrays: FederationArrays, bonus: float) -> None:
        self.arrays, self.bonus = arrays, bonus
        self.alone, had = standalone_optima(arrays)
        self.own = np.einsum("...ii->...i", arrays.weights)
        # (1 + e) c_i(s_i°) - a_i(s_i°, 0)
        self.spent = bonus * arrays.lot_costs(self.alone) - had
        self.upper = np.maximum(arrays.bounds()[0], self.alone)

    def fall(self) -> FloatArray:
        """The greatest root, by Newton steps from above."""
        arrays, rate = self.arrays, 1.0 + self.bonus
        helped = arrays.data(self.upper) > self.own * self.upper  # others bring it something
        profile, eye = np.where(helped, self.upper, self.alone), np.eye(arrays.n_agents)
        for _ in range(MAX_SHAPING_STEPS):
            excess = rate * arrays.lot_costs(profile) - arrays.task_payoffs(profile) - self.spent
            free = helped & ~((profile >= arrays.caps) & (excess <= 0))
            rises = np.where(free, arrays.marginal_payoffs(profile), 0.0)
            diagonal = np.where(free, rate * arrays.marginal_costs(profile), 1.0)
            matrix = diagonal[..., None] * eye - rises[..., None] * arrays.weights * free[:, None, :]
            try:
                step = np.linalg.solve(matrix, np.where(free, excess, 0.0)[..., None])[..., 0]
            except np.linalg.LinAlgError:  # on the way down somebody's earnings rise just as its costs do
                return self.answers()
            ahead = np.clip(profile - step, self.alone, profile)
            moves = profile - ahead > STEP_TOLERANCE * profile
            profile = ahead
            if not moves.any():
                break
        return np.where(moves.any(axis=-1, keepdims=True), np.nan, profile)

    def answers(self) -> FloatArray:
        """Everybody answers the others at once, those of one federation less far when they overshoot."""
        arrays, profile = self.arrays, self.alone
        found, part, before = np.full(profile.shape, np.nan), np.ones(len(profile)), np.full(len(profile), np.inf)
        going = np.ones(len(profile), dtype=np.bool_)
        for _ in range(MAX_ANSWERS):
            move = self._best(arrays.data(profile) - self.own * profile) - profile
            size = np.abs(move).max(axis=-1)
            settled = going & (size <= ANSWER_TOLERANCE * profile.max(axis=-1))
            found[settled] = profile[settled]
            part = np.where(size > before, np.maximum(0.7 * part, 0.02), np.minimum(1.02 * part, 1.0))
            ahead = np.clip(profile + part[:, None] * move, 0.0, arrays.caps)
            going &= ~settled & (arrays.data(ahead) > arrays.floor).all(axis=-1)
            if not going.any():
                break
            profile, before = np.where(going[:, None], ahead, profile), size
        return found

    def _best(self, background: FloatArray) -> FloatArray:
        """Everybody's best contribution where the others bring it so much data."""
        arrays = self.arrays

        def left_to_earn(x: FloatArray) -> FloatArray:
            worth = arrays.worth(np.maximum(background, 0.0) + self.own * x)
            return np.where(x < self.alone, 1.0, worth - (1.0 + self.bonus) * arrays.lot_costs(x) + self.spent)

        def marginal(x: FloatArray) -> FloatArray:
            return self.own * arrays.marginal_worth(background + self.own * x) - arrays.marginal_costs(x)

        earned = np.maximum(_falling_root(left_to_earn, self.upper), self.alone)
        most = np.where(np.isfinite(arrays.caps), arrays.caps, HARMED_MULTIPLE * self.upper)
        return np.where(background > 0, earned, _falling_root(marginal, most))


def _falling_root(function: Callable[[FloatArray], FloatArray], upper: FloatArray) -> FloatArray:
    """Where falling functions change sign on [0, upper], by bisection: 0 or `upper` where they do not."""
    low, high = np.zeros_like(upper), upper
    at_low, at_high = function(low) <= 0, function(high) > 0
    for _ in range(MAX_BISECTIONS):
        wide = low < 0.5 * high
        middle = np.where(wide, np.sqrt(np.maximum(low, 1e-12 * high) * high), 0.5 * (low + high))
        if ((middle <= low) | (middle >= high)).all():
            break
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(at_low, 0.0, np.where(at_high, upper, high))


def proportional_equilibria(arrays: FederationArrays) -> FloatArray:
    """Contributions (..., n) to which answers in turn lead where payoffs are shared out by volume."""
    flat = flatten(arrays) if arrays.shape else arrays.repeated(1)
    with np.errstate(all="ignore"):
        game, index = _Sharing(flat), np.arange(len(flat.values))
        profile, found = np.minimum(standalone_optima(flat)[0], game.upper), np.full(flat.caps.shape, np.nan)
        for turn in range(MAX_TURNS):
            game.take_turns(profile, part=1.0 if turn < MAX_TURNS // 2 else 0.5)
            if turn < NEWTON_AFTER or (turn - NEWTON_AFTER) % 4:
                continue
            for tried in (profile, game.newton(profile)):  # the second is the more exact, where both are settled
                settled = game.gains(tried) <= SHARING_GAIN * game.stakes(tried)
                found[index[settled]] = tried[settled]
            going = np.flatnonzero(np.isnan(found[index]).any(axis=-1))
            if not going.size:
                break
            index, profile, game = index[going], profile[going], _Sharing(game.arrays.at(going))
    return found.reshape(*arrays.shape, -1)


class _Sharing:
    """Federations (federations, n) whose payoffs are shared out in proportion to contributions."""

    def __init__(self, arrays: FederationArrays) -> None:
        self.arrays, self.upper = arrays, arrays.bounds()[0]

    def take_turns(self, profile: FloatArray, *, part: float) -> None:
        """Everybody in turn moves to its best answer, or `part` of the way; changes the profile."""
        for agent in range(self.arrays.n_agents):
            profile[:, agent] += part * (self._best(profile, agent)[0] - profile[:, agent])

    def gains(self, profile: FloatArray) -> FloatArray:
        """The most anybody gains by another contribution, as far as a search finds, (federations,)."""
        given = profile.sum(axis=-1, keepdims=True)
        parts = np.divide(profile, given, out=np.full(profile.shape, 1.0 / profile.shape[-1]), where=given > 0)
        here = self.arrays.task_payoffs(profile).sum(axis=-1, keepdims=True) * parts - self.arrays.lot_costs(profile)
        best = [self._best(profile, agent)[1] - here[:, agent] for agent in range(self.arrays.n_agents)]
        return np.asarray(np.max(best, axis=0))

    def stakes(self, profile: FloatArray) -> FloatArray:
        """What there is to share out, (federations,)."""
        return np.abs(self.arrays.task_payoffs(profile)).sum(axis=-1)

    def newton(self, profile: FloatArray) -> FloatArray:
        """Newton steps on the gradients of everybody's utility, those held by a bound left where they are."""
        s, eye = profile.copy(), np.eye(self.arrays.n_agents)
        for _ in range(MAX_SHARING_STEPS):
            gradient, jacobian = self._gradient(s)
            held = ((s <= 0) & (gradient <= 0)) | ((s >= self.upper) & (gradient >= 0))
            jacobian = np.where(held[:, :, None] | held[:, None, :], eye, jacobian)
            lost = ~np.isfinite(jacobian).all(axis=(-1, -2)) | (np.linalg.det(np.nan_to_num(jacobian)) == 0)
            jacobian[lost] = eye
            step = np.linalg.solve(jacobian, np.where(held | lost[:, None], 0.0, -gradient)[..., None])[..., 0]
            ahead = np.clip(s + np.clip(step, -0.5 * s, 0.5 * s + 1e-3 * self.upper), 0.0, self.upper)
            if np.array_equal(ahead, s):
                break
            s = ahead
        return s

    def _gradient(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """d u_j / d s_j, (federations, n), and its derivatives by everybody's contribution, (federations, n, n)."""
        arrays, eye = self.arrays, np.eye(self.arrays.n_agents)
        data, given = arrays.data(s), s.sum(axis=-1, keepdims=True)
        total = arrays.worth(data).sum(axis=-1, keepdims=True)
        worth = times_transposed(arrays.weights, arrays.marginal_worth(data))
        part, rest = s / given, (given - s) / given**2
        gradient = worth * part + total * rest - arrays.marginal_costs(s)
        hessian = np.swapaxes(arrays.weights, -1, -2) @ (arrays.worth_curvature(data)[..., None] * arrays.weights)
        wide = given[..., None]
        jacobian = hessian * part[..., None] + worth[..., None] * (eye / wide - (part / given)[..., None])
        jacobian += worth[:, None, :] * rest[..., None]
        jacobian += total[..., None] * ((1.0 - eye) / wide**2 - 2.0 * (rest / given)[..., None])
        return np.nan_to_num(gradient), jacobian - 2.0 * eye * np.broadcast_to(arrays.quadratic, s.shape)[..., None]

    def _best(self, profile: FloatArray, agent: int) -> tuple[FloatArray, FloatArray]:
        """One member's best contribution in every federation, and its utility: by a grid, finer and finer about it."""
        arrays, others = self.arrays, profile.sum(axis=-1) - profile[:, agent]
        column = arrays.weights[..., agent]
        background = times(arrays.weights, profile) - column * profile[:, agent, None]
        linear, quadratic = arrays.linear[:, agent], arrays.quadratic[:, agent]

        def utilities(x: FloatArray) -> FloatArray:
            total = arrays.worth(background + x[..., None] * column).sum(axis=-1)
            parts = np.divide(x, x + others, out=np.ones(x.shape), where=x + others > 0)
            return np.nan_to_num(total * parts - (linear + quadratic * x) * x, nan=-np.inf, neginf=-np.inf)

        tried = np.sort(np.concatenate([GRID[:, None] * self.upper[:, agent], profile[None, :, agent]]), axis=0)
        for zoom in range(MAX_ZOOMS):
            found = utilities(tried)
            place = found.argmax(axis=0)[None]
            if zoom < MAX_ZOOMS - 1:
                low = np.take_along_axis(tried, np.maximum(place - 1, 0), 0)
                high = np.take_along_axis(tried, np.minimum(place + 1, len(tried) - 1), 0)
                tried = low + ZOOM[:, None] * (high - low)
        return np.take_along_axis(tried, place, 0)[0], np.take_along_axis(found, place, 0)[0]
