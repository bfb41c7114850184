"""Two equilibria of the field that no concave program describes, of federations whose members have one lot each.

**Accuracy shaping.** With s_i° member i's optimum alone and e the bonus, member i goes on while its costs beyond
c_i(s_i°), refunded in accuracy 1 + e times, are less than what the others' data adds to its payoff. So an equilibrium
is a root of

    F_i(s) = (1 + e) (c_i(s_i) - c_i(s_i°)) - (a_i(s) - a_i(s_i°, 0)),        s_i = cap_i where F_i(cap_i) <= 0.

Everybody answers the others at once, going part of the way, until nobody moves. Without harm the map behind F is
concave and rising: answers to the largest contributions that could pay fall to the greatest root, and there is no
other.

**Proportional sharing.** Member j maximises A(s) s_j / S - c_j(s_j), A the sum of all payoffs and S that of all
contributions. There is no potential, and utilities need not be concave. So members answer in turn, each by a search of
its whole range, until nobody moves.

Both work on many federations side by side; NaN where an equilibrium was not reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.federation.arrays import FederationArrays
from fedpact.solvers.groups import standalone_optima
from fedpact.utils.arrays import FloatArray

MAX_ANSWERS, MAX_BISECTIONS = 1000, 200
JUMP_EVERY = 20  # answers
ANSWER_TOLERANCE = 1e-12  # of the largest contribution
HARMED_MULTIPLE = 1e3  # of what could pay without harm: the most a member makes up for harm with, without a cap
MAX_TURNS, MAX_FULL_TURNS = 100, 40  # later turns go half of the way
GRID = np.append(0.0, 2.0 ** np.linspace(-20.0, 0.0, 33))  # of the largest contribution that could pay


def shaped_equilibria(arrays: FederationArrays, bonus: float = 0.0) -> FloatArray:
    """Contributions (..., n) where everybody has earned the whole model, or gives all it has."""
    flat = arrays.flattened() if arrays.shape else arrays.repeated(1)
    own = np.einsum("...ii->...i", flat.weights)
    alone, had = standalone_optima(flat)
    upper = np.maximum(flat.bounds()[0], alone)
    most = np.where(np.isfinite(flat.caps), flat.caps, HARMED_MULTIPLE * upper)
    profile = alone if flat.has_harm else upper
    found, part, before = np.full(profile.shape, np.nan), np.ones(len(profile)), np.full(len(profile), np.inf)
    going = np.ones(len(profile), dtype=np.bool_)

    def left_to_earn(x: FloatArray) -> FloatArray:
        earned = had + (1.0 + bonus) * flat.lot_costs(x) - bonus * flat.lot_costs(alone)
        return np.where(x < alone, 1.0, flat.worth(np.maximum(background, 0.0) + own * x) - earned)

    def marginal(x: FloatArray) -> FloatArray:
        return own * flat.marginal_worth(background + own * x) - flat.marginal_costs(x)

    with np.errstate(all="ignore"):
        for answer in range(MAX_ANSWERS):
            background = flat.data(profile) - own * profile
            earning = np.maximum(_falling_root(left_to_earn, upper), alone)
            move = np.where(background > 0, earning, _falling_root(marginal, most)) - profile
            size = np.abs(move).max(axis=-1)
            arrived = going & (size <= ANSWER_TOLERANCE * profile.max(axis=-1))
            found[arrived] = profile[arrived]
            # Those of one federation go less far when they overshoot.
            part = np.where(size > before, np.maximum(0.7 * part, 0.02), np.minimum(1.02 * part, 1.0))
            # Where every move is little shorter than the last, now and then to where they would lead (Aitken).
            slow = (part == 1.0) & (size < before) & (answer % JUMP_EVERY == JUMP_EVERY - 1)
            ahead = np.clip(profile + np.where(slow, before / (before - size), part)[:, None] * move, 0.0, flat.caps)
            going &= ~arrived & (flat.data(ahead) > flat.floor).all(axis=-1)
            if not going.any():
                break
            profile, before = np.where(going[:, None], ahead, profile), size
    return found.reshape(*arrays.shape, -1)


def _falling_root(
    function: Callable[[FloatArray], FloatArray], upper: FloatArray, lower: FloatArray | float = 0.0
) -> FloatArray:
    """Where falling functions change sign between the bounds, by bisection: one of these where they do not."""
    low, high = np.zeros_like(upper) + lower, upper
    at_low, at_high = function(low) <= 0, function(high) > 0
    for _ in range(MAX_BISECTIONS):
        wide = low < 0.5 * high
        middle = np.where(wide, np.sqrt(np.maximum(low, 1e-12 * high) * high), 0.5 * (low + high))
        if ((middle <= low) | (middle >= high)).all():
            break
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(at_low, lower, np.where(at_high, upper, high))


def proportional_equilibria(arrays: FederationArrays) -> FloatArray:
    """Contributions (..., n) to which answers in turn lead where payoffs are shared out by volume."""
    flat = arrays.flattened() if arrays.shape else arrays.repeated(1)
    with np.errstate(all="ignore"):
        upper = flat.bounds()[0]
        profile = np.minimum(standalone_optima(flat)[0], upper)
        found, index = np.full(profile.shape, np.nan), np.arange(len(profile))
        for turn in range(MAX_TURNS):
            before = profile.copy()
            for agent in range(flat.n_agents):
                part, best = 1.0 if turn < MAX_FULL_TURNS else 0.5, _best_volume(flat, profile, upper, agent)
                profile[:, agent] = part * best + (1.0 - part) * profile[:, agent]
            moved = np.abs(profile - before).max(axis=-1) > ANSWER_TOLERANCE * profile.max(axis=-1)
            nothing = profile <= ANSWER_TOLERANCE * profile.max(axis=-1, keepdims=True)
            found[index[~moved]] = np.where(nothing, 0.0, profile)[~moved]
            index, profile, upper, flat = index[moved], profile[moved], upper[moved], flat.at(moved)
            if not index.size:
                break
    return found.reshape(*arrays.shape, -1)


def _best_volume(arrays: FederationArrays, profile: FloatArray, upper: FloatArray, agent: int) -> FloatArray:
    """One member's best contribution in every federation: the best of a grid, then where its utility stops rising."""
    own, column = profile[:, agent], arrays.weights[..., agent]
    others, background = profile.sum(axis=-1) - own, arrays.data(profile) - column * own[:, None]
    linear, quadratic = arrays.linear[:, agent], arrays.quadratic[:, agent]

    def utility(x: FloatArray) -> FloatArray:
        total = arrays.worth(background + x[..., None] * column).sum(axis=-1)
        parts = np.divide(x, x + others, out=np.ones(x.shape), where=x + others > 0)
        return np.nan_to_num(total * parts - (linear + quadratic * x) * x, nan=-np.inf, neginf=-np.inf)

    def marginal(x: FloatArray) -> FloatArray:
        data, given = background + x[..., None] * column, x + others
        rises = (column * arrays.marginal_worth(data)).sum(axis=-1) * x / given
        return rises + arrays.worth(data).sum(axis=-1) * others / given**2 - linear - 2.0 * quadratic * x

    tried = np.sort(np.concatenate([GRID[:, None] * upper[:, agent], own[None]]), axis=0)
    best = utility(tried).argmax(axis=0)[None]
    low, high = (np.take_along_axis(tried, np.clip(best + step, 0, len(tried) - 1), axis=0)[0] for step in (-1, 1))
    return _falling_root(marginal, high, low)
