"""Where accuracy shaping leads: everybody contributes until what it has earned is the model that all have trained.

With s_i° member i's own optimum alone and e the bonus, member i goes on while its costs beyond c_i(s_i°), refunded in
accuracy 1 + e times, are less than what the others' data adds to its payoff. So an equilibrium is a root of

    F_i(s) = (1 + e) (c_i(s_i) - c_i(s_i°)) - (a_i(s) - a_i(s_i°, 0)),        s_i = cap_i where F_i(cap_i) <= 0.

Without harm F is convex with slopes that are not positive off the diagonal: Newton steps from the largest
contributions that could pay fall to the greatest root, each where all F_i >= 0, and Newton's matrix is an M-matrix all
the way. The map behind F is concave and rising, so that there is no other root. With harm none of this holds: everybody
answers the others in turn, going part of the way, until nobody moves.

Stopping inequality: no step changes a contribution by more than 1e-13 of it. Cost: about ten linear systems.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fedpact.federation import Federation
from fedpact.federation.bounds import block_bounds
from fedpact.programs.best_response import best_own, own_utilities, standalone_optimum
from fedpact.programs.roots import falling_roots
from fedpact.utils.arrays import FloatArray

MAX_SHAPING_STEPS = 200
MAX_ANSWERS = 2000
STEP_TOLERANCE = 1e-13  # of a contribution
ANSWER_TOLERANCE = 1e-12


def shaped_equilibrium(federation: Federation, bonus: float, *, blocks: int = 1) -> FloatArray:
    """Everybody's contribution, for one federation or `blocks` of one size side by side; NaN where none was reached."""
    if federation.has_harm:
        return _answers(federation, bonus, blocks)
    alone = standalone_optimum(federation)[0]
    floor = _spent_and_had(federation, alone, bonus)
    upper = np.maximum(block_bounds(federation, blocks)[0], alone)
    helped = federation.data(upper) > federation.own_weights * upper  # others bring it something
    profile = np.where(helped, upper, alone)
    for _ in range(MAX_SHAPING_STEPS):
        excess = (1.0 + bonus) * federation.costs.value(profile) - federation.payoffs(profile) - floor
        free = helped & ~((profile >= federation.caps) & (excess <= 0))
        try:
            step = _newton_step(federation, profile, np.where(free, excess, 0.0), free, bonus)
        except np.linalg.LinAlgError:  # on the way down somebody's earnings rise just as its costs do
            return _answers(federation, bonus, blocks)
        moved = np.clip(profile - step, alone, profile)
        settled = profile - moved <= STEP_TOLERANCE * profile
        profile = moved
        if settled.all():
            break
    return np.where(settled, profile, np.nan)


def _spent_and_had(federation: Federation, alone: FloatArray, bonus: float) -> FloatArray:
    """(1 + e) c_i(s_i°) - a_i(s_i°, 0)."""
    had = own_utilities(federation, alone, np.zeros_like(alone))
    return bonus * federation.costs.value(alone) - had


def _newton_step(
    federation: Federation, profile: FloatArray, excess: FloatArray, free: np.ndarray, bonus: float
) -> FloatArray:
    """Where F and the contributions of those not free stay as they are."""
    rises = np.where(free, federation.marginal_payoffs(profile), 0.0)
    own = np.where(free, (1.0 + bonus) * federation.costs.slope(profile), 1.0)
    if federation.is_sparse:
        from scipy.sparse.linalg import spsolve  # noqa: PLC0415 - heavy, and only for many agents

        matrix = sp.diags_array(own) - sp.diags_array(rises) @ federation.sparse_weights() @ sp.diags_array(1.0 * free)
        return np.asarray(spsolve(sp.csc_array(matrix), excess))
    return np.linalg.solve(np.diag(own) - rises[:, None] * federation.dense_weights() * free, excess)


def _answers(federation: Federation, bonus: float, blocks: int) -> FloatArray:
    """Everybody answers the others at once, those of one block less far when they overshoot; NaN if it never ends.

    Blocks that have settled, or have left the domain, are left behind.
    """
    found = np.full((blocks, federation.n_agents // blocks), np.nan)
    places, shape = np.arange(blocks), found.shape[1:]
    profile = standalone_optimum(federation)[0].reshape(-1, *shape)
    parts, last = np.ones(blocks), np.full(blocks, np.inf)
    for _ in range(MAX_ANSWERS):
        flat = profile.ravel()
        background = federation.data(flat) - federation.own_weights * flat
        move = (best_shaped(federation, background, bonus, blocks=places.size) - flat).reshape(profile.shape)
        size = np.abs(move).max(axis=1)
        settled = size <= ANSWER_TOLERANCE * profile.max(axis=1)
        found[places[settled]] = profile[settled]
        parts = np.where(size > last, np.maximum(parts * 0.7, 0.02), np.minimum(parts * 1.02, 1.0))
        profile, last = np.clip(profile + parts[:, None] * move, 0.0, federation.caps.reshape(profile.shape)), size
        inside = federation.data(profile.ravel()) > federation.payoff.floor
        going = np.flatnonzero(~settled & inside.reshape(profile.shape).all(axis=1))
        if not going.size:
            break
        if going.size < places.size:
            agents = (going[:, None] * shape[0] + np.arange(shape[0])).ravel()
            federation = federation.take(agents)
            places, profile, parts, last = places[going], profile[going], parts[going], last[going]
    return found.ravel()


def best_shaped(federation: Federation, background: FloatArray, bonus: float, *, blocks: int = 1) -> FloatArray:
    """Each agent's best contribution when the others' data gives it y = `background`."""
    zero = np.zeros_like(background)
    alone = standalone_optimum(federation)[0]
    floor = _spent_and_had(federation, alone, bonus)

    def left(x: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            have = own_utilities(federation, x, np.maximum(background, zero))
        return np.where(x < alone, 1.0, have - bonus * federation.costs.value(x) + floor)

    earned = falling_roots(left, block_bounds(federation, blocks)[0])
    return np.where(background > 0, np.maximum(earned, alone), best_own(federation, background))
