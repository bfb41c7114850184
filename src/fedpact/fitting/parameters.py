"""What is fitted, in the coordinates in which it is fitted, with its bounds and the prior.

Every task (agent) r has slots for a scale u_r, a coordinate z_rl for every lot (agent) l, log(beta), floor and ceiling:

    w_rl = exp(u_r + q_l) sinh(z_rl),        accuracy_r = floor_r + (ceiling_r - floor_r) g(sum_l w_rl s_l).

Where everybody has one lot and one task, sinh(z_rr) = 1 and q = 0: the scale says how useful a sample of one's own is,
and sinh(z_rl) compares others' data with it. Where members have several lots, q_l is the quality of a lot, the same for
all tasks, so that few runs say something about many weights. Sinh is a plain number near zero and a logarithm far from
it, so a Gaussian in z suits weights of either sign. The weights carry the scale of the data, so the rate of the
exponential and the half of Michaelis are 1, and only the power law has a shape of its own, beta; the logarithm has no
ceiling and is not offered. Slots of the curve may be shared by all tasks, or known.

The prior is Gaussian and weak. sinh(z): mean 1, precision `prior` pseudo-observations, each worth a measurement with
standard error 1. Scales, qualities and curves have fixed ones, which a
handful of runs overrides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Exponential, Federation, Michaelis, Payoff, PowerLaw
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput

CURVE_FAMILIES: Mapping[str, type[Payoff]] = {kind.family: kind for kind in (PowerLaw, Exponential, Michaelis)}
CURVE_PARTS = ("beta", "floor", "ceiling")
CURVE_MEANS = np.array([np.log(0.5), 0.0, 1.0])  # of log(beta), floor, ceiling
CURVE_ERRORS = np.array([1.5, 0.2, 0.2])
MIN_CURVE = np.array([np.log(1e-3), 0.0, 0.02])
MAX_CURVE = np.array([np.log(50.0), 0.98, 1.0])
MIN_RANGE = 0.01  # between floor and ceiling
SCALE_ERROR = 10.0  # of the logarithm: next to nothing
NO_PRIOR = 1e-6  # pseudo-observations that stand for none, so that the information matrix can be inverted
MAX_RATIO = 1e4
DIFFERENCE = 1e-5  # step of central differences
EQUAL = float(np.arcsinh(1.0))  # z of data that is as good as one's own


def has_shape(family: str) -> bool:
    """Whether the parameter of a family is fitted; otherwise it is 1."""
    return family == PowerLaw.family


def curve_derivatives(
    family: str, y: FloatArray, log_shape: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray | float]:
    """The curve g, dg/dy and dg/dlog(shape) at y and log(shape)."""
    if family == Exponential.family:
        return -np.expm1(-y), np.exp(-y), 0.0
    if family == Michaelis.family:
        return y / (1.0 + y), (1.0 + y) ** -2, 0.0
    if family != PowerLaw.family:
        raise InvalidInput(f"there is no curve to fit of the family {family!r:.40}")
    beta, log_reach = np.exp(log_shape), np.log1p(y)
    short = np.exp(-beta * log_reach)
    return -np.expm1(-beta * log_reach), beta * short / (1.0 + y), beta * log_reach * short


def checked_range(
    floors: ArrayLike, ceilings: ArrayLike, federation: Federation, *, labels: tuple[str, str] = ("floors", "ceilings")
) -> tuple[FloatArray, FloatArray]:
    """One floor and one ceiling per agent, the former below the latter; `labels` are what the caller calls them."""
    checked = []
    for label, given in zip(labels, (floors, ceilings), strict=True):
        numbers = checked_numbers(
            label, given, lambda x: (x >= 0) & (x <= 1), "an accuracy from 0 to 1", names=federation.names
        )
        checked.append(read_only_copy(np.broadcast_to(numbers, federation.n_agents)))
    for agent in np.flatnonzero(checked[0] >= checked[1])[:1]:
        raise InvalidInput(
            f"{labels[0]}[{agent}] must be below the ceiling {checked[1][agent]:g}, got {checked[0][agent]:g} "
            f'(member "{federation.names[agent]}")'
        )
    return checked[0], checked[1]


@dataclass(frozen=True, eq=False)
class CurveModel:
    """Which slots are free parameters, between which bounds, and the prior."""

    family: str
    # (tasks, slots): the parameter in each slot, -1 where it is fixed, and the number it is fixed at. Slots are the
    # scale, z of every lot, the quality of every lot, log(beta), floor and ceiling
    index: NDArray[np.intp]
    fixed: FloatArray
    # (parameters,): bounds and the prior; of z the prior is about sinh(z)
    lower: FloatArray
    upper: FloatArray
    means: FloatArray
    precisions: FloatArray
    is_ratio: NDArray[np.bool_]  # (parameters,): which are z

    @classmethod
    def of(
        cls,
        family: str,
        known: FloatArray,
        shared: NDArray[np.bool_],
        shape: tuple[int, int],
        *,
        has_lots: bool,
        signed: bool,
        prior: float,
        typical_scale: float,
    ) -> CurveModel:
        """The model of `shape` (tasks, lots); `known` (tasks, 3) are known parts of the curves, NaN elsewhere."""
        n_tasks, n_lots = shape
        n_slots = 1 + 2 * n_lots + 3
        index, fixed = np.full((n_tasks, n_slots), -1, dtype=np.intp), np.zeros((n_tasks, n_slots))
        rows: list[tuple[float, ...]] = []

        def add(tasks: int | slice, slot: int, *row: float) -> None:
            """A free parameter: lower and upper bound, mean and precision of the prior, and whether it is a z."""
            index[tasks, slot] = len(rows)
            rows.append(row)

        most, precision, every = float(np.arcsinh(MAX_RATIO)), max(prior, NO_PRIOR), slice(None)
        for task in range(n_tasks):
            add(task, 0, typical_scale - 30.0, typical_scale + 30.0, typical_scale, SCALE_ERROR**-2, False)
            for lot in range(n_lots):
                if has_lots or lot != task:
                    add(task, 1 + lot, -most if signed else 0.0, most, 1.0, precision, True)
                else:
                    fixed[task, 1 + lot] = EQUAL
        for lot in range(n_lots if has_lots and prior > 0 else 0):
            add(every, 1 + n_lots + lot, -8.0, 8.0, 0.0, 1.0, False)
        lower_curve, upper_curve = MIN_CURVE.copy(), MAX_CURVE.copy()
        lower_curve[2] = min(max(MIN_CURVE[2], np.nan_to_num(known[:, 1]).max() + MIN_RANGE), 1.0 - 1e-6)
        upper_curve[1] = min(MAX_CURVE[1], np.nan_to_num(known[:, 2], nan=1.0).min() - MIN_RANGE)
        for part in range(3):
            slot = n_slots - 3 + part
            fixed[:, slot] = np.nan_to_num(known[:, part])
            if np.isnan(known[0, part]):
                for tasks in [every] if shared[part] else range(n_tasks):
                    belief = CURVE_MEANS[part], CURVE_ERRORS[part] ** -2.0
                    add(tasks, slot, lower_curve[part], upper_curve[part], *belief, False)
        lower, upper, means, precisions, is_ratio = np.array(rows).T
        return cls(family, index, fixed, lower, upper, means, precisions, is_ratio.astype(bool))

    @property
    def n_lots(self) -> int:
        """How many columns the weights have."""
        return (self.index.shape[1] - 4) // 2

    def slots(self, parameters: FloatArray) -> FloatArray:
        """(..., tasks, slots): what stands in each slot."""
        return np.where(self.index >= 0, parameters[..., self.index], self.fixed)

    def weights(self, parameters: FloatArray) -> FloatArray:
        """(..., tasks, lots)."""
        slots, n_lots = self.slots(parameters), self.n_lots
        quality = slots[..., 1 + n_lots : 1 + 2 * n_lots]
        return np.asarray(np.exp(slots[..., :1] + quality) * np.sinh(slots[..., 1 : 1 + n_lots]))

    def curves(self, parameters: FloatArray) -> FloatArray:
        """(..., tasks, 3): log(beta), floor and ceiling, the last two at least `MIN_RANGE` apart."""
        curves = self.slots(parameters)[..., -3:].copy()
        curves[..., 1] = np.minimum(curves[..., 1], curves[..., 2] - MIN_RANGE)
        return curves

    def predict(self, parameters: FloatArray, contributions: FloatArray) -> FloatArray:
        """(..., runs, tasks): accuracies."""
        curves = self.curves(parameters)[..., None, :, :]
        reached = self._in_domain(contributions @ np.swapaxes(self.weights(parameters), -1, -2))
        value, _, _ = curve_derivatives(self.family, reached, curves[..., 0])
        return np.asarray(curves[..., 1] + (curves[..., 2] - curves[..., 1]) * value)

    def _in_domain(self, reached: FloatArray) -> FloatArray:
        lowest = -50.0 if self.family == Exponential.family else -1.0
        return np.maximum(reached, lowest + 1e-6)  # weights below zero may leave it

    def gradients(self, parameters: FloatArray, contributions: FloatArray) -> FloatArray:
        """(tasks, runs, parameters): derivatives of the accuracies by the parameters, through the slots."""
        n_lots, slots, curves = self.n_lots, self.slots(parameters), self.curves(parameters)
        weights, spans = self.weights(parameters), curves[:, 2] - curves[:, 1]
        total = contributions @ weights.T
        value, by_data, by_shape = curve_derivatives(self.family, self._in_domain(total), curves[:, 0])
        steep = spans * by_data
        by_ratio = np.exp(slots[:, :1] + slots[:, 1 + n_lots : 1 + 2 * n_lots]) * np.cosh(slots[:, 1 : 1 + n_lots])
        by_slot = np.empty((len(contributions), *slots.shape))
        by_slot[:, :, 0] = steep * total
        by_slot[:, :, 1 : 1 + n_lots] = steep[:, :, None] * contributions[:, None, :] * by_ratio
        by_slot[:, :, 1 + n_lots : 1 + 2 * n_lots] = steep[:, :, None] * contributions[:, None, :] * weights
        apart = slots[:, -1] - slots[:, -2] > MIN_RANGE
        by_slot[:, :, -3] = spans * by_shape
        by_slot[:, :, -2] = np.where(apart, 1.0 - value, 0.0)
        by_slot[:, :, -1] = np.where(apart, value, 1.0)
        found = np.zeros((len(slots), len(contributions), parameters.size))
        for task, index in enumerate(self.index):
            found[task][:, index[index >= 0]] = by_slot[:, task, index >= 0]
        return found

    def output_gradients(self, parameters: FloatArray, units: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(tasks, lots, parameters) and (tasks, 3, parameters): of asinh(weights / units) and of the curves.

        By central differences; `units` are (tasks, 1).
        """
        steps = DIFFERENCE * np.eye(parameters.size)
        up, down = parameters + steps, parameters - steps
        weights = np.arcsinh(self.weights(up) / units) - np.arcsinh(self.weights(down) / units)
        curves = self.slots(up)[..., -3:] - self.slots(down)[..., -3:]
        return tuple(np.moveaxis(part, 0, -1) / (2.0 * DIFFERENCE) for part in (weights, curves))  # type: ignore[return-value]

    def prior_residuals(self, parameters: FloatArray) -> FloatArray:
        """(parameters,): distances from the prior's means, in its standard errors."""
        numbers = np.where(self.is_ratio, np.sinh(parameters), parameters)
        return np.asarray(np.sqrt(self.precisions) * (numbers - self.means))

    def prior_gradients(self, parameters: FloatArray) -> FloatArray:
        """(parameters,): their derivatives, each by its own parameter."""
        return np.asarray(np.sqrt(self.precisions) * np.where(self.is_ratio, np.cosh(parameters), 1.0))

    def prior_information(self, parameters: FloatArray) -> FloatArray:
        """(parameters,): what the prior says of each."""
        return self.prior_gradients(parameters) ** 2
