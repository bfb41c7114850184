"""What is fitted, in the coordinates in which it is fitted, with its limits and the prior.

Row i of the weights is a scale and ratios to it: w_ij = exp(scale_i) ratio_ij with ratio_ii = 1. The scale says how
useful a sample of i's own is to it; the ratios compare everybody's data with its own, so "everybody's data is like
mine" is ratio 1. Curves have three numbers, log(beta), floor and ceiling, each shared by all agents or of its own.

Every agent has a slot for everything: `local` is (n, 4 + n) with columns scale, ratios, log(beta), floor, ceiling, and
`shared` (3,) the shared part of the curve. Masks say which slots are free; the others keep their value.

Where members have several lots and tasks, rows are tasks and columns lots, no ratio is held at 1, and in place of "all
data is alike" ratios are made of parts that they share (`fedpact.fitting.structure`): the prior's mean of a ratio is
the sum of its parts. The parts stand before the shared curve in `shared`; no run speaks of them but through ratios.

The prior is Gaussian and weak. Ratios: mean 1, precision `prior` pseudo-observations, each worth a measurement of the
ratio with standard error 1. The curve and the scale have fixed ones (`CURVE_MEANS`, `CURVE_ERRORS`, `SCALE_ERROR`), so
weak that a handful of runs overrides them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.accuracy_curves import CurveFamily
from fedpact.fitting.structure import WeightStructure
from fedpact.utils.arrays import FloatArray

CURVE_PARTS = ("beta", "floor", "ceiling")

# log(beta), floor, ceiling: a power law with beta 0.5 from one in ten to perfect, give or take a lot.
CURVE_MEANS = np.array([np.log(0.5), 0.0, 1.0])
CURVE_ERRORS = np.array([1.5, 0.2, 0.2])
SCALE_ERROR = 10.0  # of the logarithm: next to nothing
NO_PRIOR = 1e-6  # pseudo-observations that stand for none, so that the information matrix can be inverted

MIN_CURVE = np.array([np.log(1e-3), 0.0, 0.02])
MAX_CURVE = np.array([np.log(50.0), 0.98, 1.0])
MIN_RANGE = 0.01  # between floor and ceiling
SCALE_LIMITS = (-40.0, 20.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameters:
    """A point: scales (n,), ratios (n, n) with ones on the diagonal, curves (n, 3).

    Of lots, ratios are (tasks, lots), and `parts` what they have in common.
    """

    scales: FloatArray
    ratios: FloatArray
    curves: FloatArray
    parts: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def weights(self) -> FloatArray:
        """w_ij."""
        return np.exp(self.scales)[:, None] * self.ratios

    def moved(self, local: FloatArray, shared: FloatArray) -> Parameters:
        """The point after a step in the slots."""
        n_lots = self.ratios.shape[1]
        return replace(
            self,
            scales=self.scales + local[:, 0],
            ratios=self.ratios + local[:, 1 : 1 + n_lots],
            curves=self.curves + local[:, 1 + n_lots :] + shared[-3:],
            parts=self.parts + shared[:-3],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FitRules:
    """The rules of a fit: which slots are free, between which limits, and the prior.

    Attributes
    ----------
    curve
        The family.
    shared
        By part of the curve: whether all agents have the same.
    known
        By part of the curve: whether it is given rather than fitted.
    free_ratios
        (n, n), or (tasks, lots): which ratios are fitted; the others are 0, or 1 on the diagonal.
    signed
        Whether ratios may be negative.
    prior
        Precision of the ratios' prior.
    scale_mean
        Mean of the scales' prior.
    structure
        What the weights of lots have in common; None where everybody has one lot and one task.
    """

    curve: CurveFamily
    shared: NDArray[np.bool_]
    known: NDArray[np.bool_]
    free_ratios: NDArray[np.bool_]
    signed: bool
    prior: float
    scale_mean: float
    structure: WeightStructure | None = None

    @property
    def n_tasks(self) -> int:
        """How many rows there are: tasks, or agents."""
        return int(self.free_ratios.shape[0])

    @property
    def n_lots(self) -> int:
        """How many columns there are: lots, or agents."""
        return int(self.free_ratios.shape[1])

    @property
    def n_parts(self) -> int:
        """How many parts ratios are made of."""
        return 0 if self.structure is None else self.structure.n_parts

    @property
    def n_noise(self) -> int:
        """How many independent numbers make a draw of all slots."""
        return self.n_tasks * (self.n_lots + 4) + self.n_parts + 3

    @property
    def anchors(self) -> NDArray[np.bool_]:
        """Ratios that are 1 by definition: everybody's own, where everybody has one lot and one task."""
        shape = self.free_ratios.shape
        return np.eye(shape[0], shape[1], dtype=np.bool_) if self.structure is None else np.zeros(shape, dtype=np.bool_)

    @property
    def free_local(self) -> NDArray[np.bool_]:
        """(n, 4 + n): the free slots of each agent."""
        own = np.broadcast_to(~self.shared & ~self.known, (self.n_tasks, 3))
        return np.hstack([np.ones((self.n_tasks, 1), dtype=bool), self.free_ratios, own])

    @property
    def free_shared(self) -> NDArray[np.bool_]:
        """(parts + 3,): the free slots of the parts and the shared curve."""
        return np.concatenate([np.ones(self.n_parts, dtype=bool), self.shared & ~self.known])

    def limits(self) -> tuple[Parameters, Parameters]:
        """The lowest and the highest admissible point."""
        n_tasks, shape = self.n_tasks, self.free_ratios.shape
        lowest = Parameters(
            scales=np.full(n_tasks, SCALE_LIMITS[0]),
            ratios=np.full(shape, -np.inf if self.signed else 0.0),
            curves=np.tile(MIN_CURVE, (n_tasks, 1)),
        )
        highest = Parameters(
            scales=np.full(n_tasks, SCALE_LIMITS[1]),
            ratios=np.full(shape, np.inf),
            curves=np.tile(MAX_CURVE, (n_tasks, 1)),
        )
        return lowest, highest

    def clipped(self, point: Parameters) -> Parameters:
        """The nearest admissible point; what is known stays as it is."""
        low, high = self.limits()
        curves = np.where(self.known, point.curves, np.clip(point.curves, low.curves, high.curves))
        return Parameters(
            scales=np.clip(point.scales, *SCALE_LIMITS),
            ratios=np.maximum(point.ratios, low.ratios),
            curves=curves,
            parts=point.parts,
        )

    def admits(self, point: Parameters) -> bool:
        """Whether every curve rises."""
        return bool((point.curves[:, 2] - point.curves[:, 1] >= MIN_RANGE).all())

    def pushes(self, point: Parameters) -> tuple[FloatArray, FloatArray]:
        """-1 in slots that are at their lower limit, +1 at their upper one, else 0: local and shared."""
        low, high = self.limits()
        ratios = np.where(point.ratios <= low.ratios, -1.0, 0.0)
        curves = np.where(point.curves <= low.curves, -1.0, 0.0) + np.where(point.curves >= high.curves, 1.0, 0.0)
        local = np.hstack([np.zeros((self.n_tasks, 1)), ratios, curves])
        return local, np.concatenate([np.zeros(self.n_parts), curves[0]])

    def precisions(self) -> tuple[FloatArray, FloatArray]:
        """The prior's precision in every slot: local and shared; zero where a slot is not free."""
        ratios = np.full(self.free_ratios.shape, max(self.prior, NO_PRIOR))
        if self.structure is not None:  # differences are relative to what the parts make
            ratios = ratios / self.structure.base**2
        own = np.tile(CURVE_ERRORS**-2.0, (self.n_tasks, 1))
        local = np.hstack([np.full((self.n_tasks, 1), SCALE_ERROR**-2.0), ratios, own])
        parts = np.zeros(0) if self.structure is None else self.structure.precisions
        shared = np.concatenate([parts, CURVE_ERRORS**-2.0])
        return np.where(self.free_local, local, 0.0), np.where(self.free_shared, shared, 0.0)

    def coupling(self) -> tuple[FloatArray, FloatArray] | None:
        """What the prior ties together beyond precisions, since ratios lie around the sum of their parts.

        A border (tasks, slots, parts + 3) and a corner (parts + 3, parts + 3); None where there are no parts.
        """
        if self.structure is None or not self.n_parts:
            return None
        design = np.where(self.free_ratios[:, :, None], self.structure.design, 0.0)
        precision, n_parts = max(self.prior, NO_PRIOR), self.n_parts
        border = np.zeros((self.n_tasks, self.n_lots + 4, n_parts + 3))
        border[:, 1:-3, :n_parts] = -precision * design / self.structure.base[:, :, None]
        corner = np.zeros((n_parts + 3, n_parts + 3))
        corner[:n_parts, :n_parts] = precision * np.tensordot(design, design, ((0, 1), (0, 1)))
        return border, corner

    def deviations(self, point: Parameters) -> tuple[FloatArray, FloatArray]:
        """How far each slot is from the prior's mean: local and shared."""
        curves = point.curves - CURVE_MEANS
        expected = 1.0 if self.structure is None else self.structure.expected(point.parts)
        local = np.hstack([(point.scales - self.scale_mean)[:, None], point.ratios - expected, curves])
        return local, np.concatenate([point.parts, curves[0]])

    def penalty(self, point: Parameters) -> float:
        """Half the prior's sum of squares."""
        pairs = zip(self.precisions(), self.deviations(point), strict=True)
        return 0.5 * sum(float((precision * apart**2).sum()) for precision, apart in pairs)
