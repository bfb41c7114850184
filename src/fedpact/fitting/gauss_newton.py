"""Penalised weighted least squares by Gauss-Newton steps that know the structure of the problem.

The rows of the weights meet only in the shared part of the curve, so the information matrix is an arrow: one block per
agent (task), and a border of at most three, and of the parts that the weights of lots have in common. Eliminating the
blocks (Schur complement) makes a step as cheap as n small ones: O(runs n^3) for the blocks of all agents together and
O(n^4) to factor them.

Steps are damped until the objective falls (Levenberg-Marquardt), bent along the narrow valley in which beta, scale,
floor and ceiling trade off (geodesic acceleration), prolonged while the objective falls further, and projected on the
limits; slots at a limit that want to go beyond rest. Every `STEPS_BETWEEN_CHECKS` steps it also tries to go on in the
direction they led in together.

It stops when the squared Newton decrement, g' H^-1 g, is at most `DECREMENT`: the point then is within sqrt(DECREMENT)
standard errors of the best one; or when the objective, which is in units of log-likelihood, falls by no more than
`MIN_FALL` in `STEPS_BETWEEN_CHECKS` steps, as it may on data that the model does not describe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.parameters import FitRules, Parameters
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

DECREMENT = 1e-6
MAX_GAUSS_NEWTON_STEPS = 1000
MIN_FALL, STEPS_BETWEEN_CHECKS = 1e-3, 5
FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING = 1e-3, 1e-9, 1e10
EASE, TIGHTEN = 0.2, 5.0
MAX_DOUBLINGS = 12
PROBE = 0.1  # of a step, for second differences
MIN_FALL_RATIO = 0.7  # of the fall that a step promises: less, and it is bent
MAX_BEND = 0.75  # of the step's length
OBJECTIVE_ROUNDING = 1e-12
SCALED_RIDGE, MIN_DIAGONAL = 1e-13, 1e-200


SlotStep = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRuns:
    """Contributions (runs, lots), accuracies and precisions (runs, tasks), zero where nothing was measured."""

    contributions: FloatArray
    accuracies: FloatArray
    precisions: FloatArray

    def rows(self, chosen: NDArray[np.intp]) -> WeightedRuns:
        """Some of the runs."""
        return WeightedRuns(
            contributions=self.contributions[chosen],
            accuracies=self.accuracies[chosen],
            precisions=self.precisions[chosen],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """A point and what it predicts, (runs, n) each: weighted data, accuracies, and the curve with its derivatives."""

    point: Parameters
    data: FloatArray
    predicted: FloatArray
    curve: tuple[FloatArray, FloatArray, FloatArray]
    objective: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrowMatrix:
    """A symmetric matrix of blocks: one per agent, a border, a corner; and a vector of the same parts.

    Attributes
    ----------
    blocks, border, corner
        (n, p, p), (n, p, m), (m, m), m being 3 and one more for every part of ratios.
    local, shared
        The gradient: (n, p) and (m,).
    """

    blocks: FloatArray
    border: FloatArray
    corner: FloatArray
    local: FloatArray
    shared: FloatArray

    def restricted(self, local: NDArray[np.bool_], shared: NDArray[np.bool_]) -> ArrowMatrix:
        """Only the free slots: the others get a one on the diagonal and nothing else."""
        blocks = np.where(local[:, :, None] & local[:, None, :], self.blocks, 0.0)
        corner = np.where(shared[:, None] & shared[None, :], self.corner, 0.0)
        _diagonal(blocks)[...] += ~local
        _diagonal(corner)[...] += ~shared
        return ArrowMatrix(
            blocks=blocks,
            border=np.where(local[:, :, None] & shared, self.border, 0.0),
            corner=corner,
            local=np.where(local, self.local, 0.0),
            shared=np.where(shared, self.shared, 0.0),
        )

    def with_prior(self, local: FloatArray, shared: FloatArray) -> ArrowMatrix:
        """The same with precisions added on the diagonal."""
        blocks, corner = self.blocks.copy(), self.corner.copy()
        _diagonal(blocks)[...] += local
        _diagonal(corner)[...] += shared
        return ArrowMatrix(blocks=blocks, border=self.border, corner=corner, local=self.local, shared=self.shared)

    def with_rules(self, rules: FitRules) -> ArrowMatrix:
        """The same with all that the prior of a fit knows."""
        found, coupling = self.with_prior(*rules.precisions()), rules.coupling()
        if coupling is None:
            return found
        return replace(found, border=found.border + coupling[0], corner=found.corner + coupling[1])

    def damped(self, damping: float) -> ArrowMatrix:
        """The same with its diagonal enlarged."""
        return self.with_prior(damping * _diagonal(self.blocks), damping * _diagonal(self.corner))

    def step(self) -> tuple[FloatArray, FloatArray]:
        """-H^-1 g by elimination of the blocks."""
        solved = solve_scaled(self.blocks, np.concatenate([self.border, self.local[:, :, None]], axis=2))
        gains, own = solved[:, :, :-1], solved[:, :, -1]
        corner = self.corner - np.einsum("aps,apt->st", self.border, gains)
        shared = -solve_scaled(corner, (self.shared - np.einsum("aps,ap->s", self.border, own))[:, None])[:, 0]
        return -(own + gains @ shared), shared


def solve_scaled(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """A^-1 B for positive definite matrices whose rows differ in scale by any factor.

    With ones on the diagonal a pinch of ridge keeps what rounding makes singular from failing, and changes nothing
    else.
    """
    sizes = np.sqrt(np.maximum(_diagonal(matrices), MIN_DIAGONAL))
    scaled = matrices / (sizes[..., :, None] * sizes[..., None, :])
    _diagonal(scaled)[...] += SCALED_RIDGE
    return np.asarray(np.linalg.solve(scaled, right / sizes[..., :, None]) / sizes[..., :, None])


def _diagonal(matrices: FloatArray) -> FloatArray:
    """A writable view of the diagonals of one or many matrices."""
    size = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], size * size)[..., :: size + 1]


def evaluate(data: WeightedRuns, rules: FitRules, point: Parameters) -> Prediction | None:
    """The predictions at a point; None where some run's reach leaves the domain of the curve."""
    reached = data.contributions @ point.weights.T
    if not rules.admits(point) or not (reached > rules.curve.lowest).all():
        return None
    curve = rules.curve.evaluate(reached, point.curves[:, 0])
    floors, ceilings = point.curves[:, 1], point.curves[:, 2]
    predicted = floors + (ceilings - floors) * curve[0]
    misfit = 0.5 * float((data.precisions * (data.accuracies - predicted) ** 2).sum())
    objective = misfit + rules.penalty(point)
    if not np.isfinite(objective):
        return None
    return Prediction(point=point, data=reached, predicted=predicted, curve=curve, objective=objective)


def information(data: WeightedRuns, found: Prediction) -> ArrowMatrix:
    """J' Q J and the gradient of the misfit, without the prior, over all slots."""
    blocks, local = _gathered(data, found, found.predicted - data.accuracies, with_blocks=True)
    curve, n_parts = slice(1 + found.point.ratios.shape[1], None), found.point.parts.size
    return ArrowMatrix(
        blocks=blocks,
        border=np.pad(blocks[:, :, curve], ((0, 0), (0, 0), (n_parts, 0))),
        corner=np.pad(blocks[:, curve, curve].sum(axis=0), (n_parts, 0)),
        local=local,
        shared=np.pad(local[:, curve].sum(axis=0), (n_parts, 0)),
    )


def _gathered(
    data: WeightedRuns, found: Prediction, changes: FloatArray, *, with_blocks: bool
) -> tuple[FloatArray, FloatArray]:
    """J' Q J, if asked, and J' Q x for changes x of the predictions: (n, p, p) and (n, p)."""
    value, slope, by_shape = found.curve
    spans = found.point.curves[:, 2] - found.point.curves[:, 1]
    steep, known = spans * slope, data.precisions[:, :, None] != 0.0
    own = steep[:, :, None] * np.exp(found.point.scales)[:, None] * data.contributions[:, None, :]
    rest = (spans * by_shape, 1.0 - value, value)
    rows = np.concatenate([(steep * found.data)[:, :, None], own, *(part[:, :, None] for part in rest)], axis=2)
    rows = np.where(known, rows, 0.0)
    weighted = data.precisions[:, :, None] * rows
    local = np.einsum("rap,ra->ap", weighted, np.where(known[:, :, 0], changes, 0.0))
    blocks = np.matmul(weighted.transpose(1, 2, 0), rows.transpose(1, 0, 2)) if with_blocks else np.zeros((0, 0, 0))
    return blocks, local


def minimise(
    data: WeightedRuns,
    rules: FitRules,
    start: Parameters,
    *,
    max_steps: int = MAX_GAUSS_NEWTON_STEPS,
    decrement: float = DECREMENT,
    progress: Callable[[], None] | None = None,
    strict: bool = True,
) -> Prediction:
    """The point of least penalised misfit reached from `start`.

    With `strict`, not reaching `decrement` within `max_steps` raises `NotConverged`; without, the best point so far
    is returned.
    """
    best = evaluate(data, rules, rules.clipped(start))
    if best is None:
        raise NotConverged("the fit cannot start: some run leaves the domain of the curve")
    damping, earlier = FIRST_DAMPING, best
    for count in range(1, max_steps + 1):
        if progress is not None:
            progress()
        system, remaining = _system(data, rules, best)
        if remaining <= decrement:
            return best
        trial, damping = _descend(data, rules, best, system, damping)
        if trial is None:  # rounding: no damping makes the objective fall any more
            return best
        best = trial
        if count % STEPS_BETWEEN_CHECKS == 0:
            best = _prolonged(data, rules, best, best, _between(earlier.point, best.point))
            if earlier.objective - best.objective <= MIN_FALL:
                return best
            earlier = best
    if strict:
        raise NotConverged(
            f"the fit did not settle within {max_steps} steps; the accuracies may not follow such a curve. Sharing "
            f"beta, floor and ceiling between the members, or giving a floor or a ceiling that is known, helps",
            result=best,
        )
    return best


def _system(data: WeightedRuns, rules: FitRules, best: Prediction) -> tuple[ArrowMatrix, float]:
    """The Newton system over the slots free to move, and its squared decrement."""
    precisions, apart = rules.precisions(), rules.deviations(best.point)
    raw = information(data, best)
    full = replace(
        raw, local=raw.local + precisions[0] * apart[0], shared=raw.shared + precisions[1] * apart[1]
    ).with_rules(rules)
    if (coupling := rules.coupling()) is not None:
        full = replace(full, shared=full.shared + np.einsum("aps,ap->s", coupling[0], apart[0]))
    pushes = rules.pushes(best.point)
    local = rules.free_local & ~(pushes[0] * full.local < 0)
    shared = rules.free_shared & ~(pushes[1] * full.shared < 0)
    system = full.restricted(local, shared)
    steps = system.step()
    remaining = -float((steps[0] * system.local).sum() + steps[1] @ system.shared)
    return system, remaining


def _descend(
    data: WeightedRuns, rules: FitRules, best: Prediction, system: ArrowMatrix, damping: float
) -> tuple[Prediction | None, float]:
    """The first damped step along which the objective falls, bent and prolonged, and the damping for the next."""
    while damping <= MAX_DAMPING:
        damped = system.damped(damping)
        path = _Path(damped.step(), None)
        trial = _falling(data, rules, best, path)
        promised = -0.5 * float((path.step[0] * system.local).sum() + path.step[1] @ system.shared)
        if trial is None or best.objective - trial.objective < MIN_FALL_RATIO * promised:
            bend = _bend(data, rules, best, damped, path.step)
            bent = None if bend is None else _falling(data, rules, best, _Path(path.step, bend))
            if bent is not None and (trial is None or bent.objective < trial.objective):
                path, trial = _Path(path.step, bend), bent
        if trial is not None:
            return _prolonged(data, rules, best, trial, path), max(damping * EASE, MIN_DAMPING)
        damping *= TIGHTEN
    return None, damping


def _falling(data: WeightedRuns, rules: FitRules, best: Prediction, path: _Path) -> Prediction | None:
    """The end of the path if the objective falls on it."""
    trial = _after(data, rules, best, path.at(1.0))
    return trial if trial is not None and trial.objective < best.objective * (1.0 - OBJECTIVE_ROUNDING) else None


@dataclass(frozen=True)
class _Path:
    """t step + t^2 / 2 bend."""

    step: SlotStep
    bend: SlotStep | None

    def at(self, time: float) -> SlotStep:
        if self.bend is None:
            return time * self.step[0], time * self.step[1]
        return (
            time * self.step[0] + time**2 / 2.0 * self.bend[0],
            time * self.step[1] + time**2 / 2.0 * self.bend[1],
        )


def _between(start: Parameters, end: Parameters) -> _Path:
    """From one point to another, and on: where steps creep along a valley, this is its direction."""
    columns = [(end.scales - start.scales)[:, None], end.ratios - start.ratios, end.curves - start.curves]
    return _Path((np.hstack(columns), np.append(end.parts - start.parts, np.zeros(3))), None)


def _bend(
    data: WeightedRuns, rules: FitRules, best: Prediction, damped: ArrowMatrix, step: SlotStep
) -> SlotStep | None:
    """Geodesic acceleration: how the step has to bend for the predictions to go straight; None if it bends too much.

    See Transtrum and Sethna (2012), "Improvements to the Levenberg-Marquardt algorithm".
    """
    ahead, behind = (
        _after(data, rules, best, (sign * PROBE * step[0], sign * PROBE * step[1])) for sign in (1.0, -1.0)
    )
    if ahead is None or behind is None:
        return None
    curved = (ahead.predicted - 2.0 * best.predicted + behind.predicted) / PROBE**2
    _, local = _gathered(data, best, curved, with_blocks=False)
    shared = np.pad(local[:, -3:].sum(axis=0), (damped.shared.size - 3, 0))
    free = replace(
        damped, local=np.where(damped.local != 0, local, 0.0), shared=np.where(damped.shared != 0, shared, 0.0)
    )
    bend = free.step()
    length = float((_diagonal(damped.blocks) * step[0] ** 2).sum() + _diagonal(damped.corner) @ step[1] ** 2)
    turned = float((_diagonal(damped.blocks) * bend[0] ** 2).sum() + _diagonal(damped.corner) @ bend[1] ** 2)
    return bend if 2.0 * np.sqrt(turned) <= MAX_BEND * np.sqrt(length) else None


def _prolonged(data: WeightedRuns, rules: FitRules, best: Prediction, trial: Prediction, path: _Path) -> Prediction:
    """The best of the points twice, four times, ... as far along the path as the one that was reached."""
    for doubling in range(1, MAX_DOUBLINGS + 1):
        longer = _after(data, rules, best, path.at(2.0**doubling))
        if longer is None or longer.objective >= trial.objective:
            break
        trial = longer
    return trial


def _after(data: WeightedRuns, rules: FitRules, best: Prediction, step: SlotStep) -> Prediction | None:
    with np.errstate(over="ignore", invalid="ignore"):  # a step too far is refused
        return evaluate(data, rules, rules.clipped(best.point.moved(*step)))
