"""What is fitted, in the coordinates in which it is fitted, with its limits and the prior.

Row i of the weights is a scale and ratios to it: w_ij = exp(scale_i) ratio_ij with ratio_ii = 1. The scale says how
useful a sample of i's own is to it; the ratios compare everybody's data with its own, so "everybody's data is like
mine" is ratio 1. Curves have three numbers, log(beta), floor and ceiling, each shared by all agents or of its own.

Every agent has a slot for everything: `local` is (n, 4 + n) with columns scale, ratios, log(beta), floor, ceiling, and
`shared` (3,) the shared part of the curve. Masks say which slots are free; the others keep their value.

The prior is Gaussian and weak. Ratios: mean 1, precision `prior` pseudo-observations, each worth a measurement of the
ratio with standard error 1. The curve and the scale have fixed ones (`CURVE_MEANS`, `CURVE_ERRORS`, `SCALE_ERROR`), so
weak that a handful of runs overrides them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.accuracy_curves import CurveFamily
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
    """A point: scales (n,), ratios (n, n) with ones on the diagonal, curves (n, 3)."""

    scales: FloatArray
    ratios: FloatArray
    curves: FloatArray

    @property
    def weights(self) -> FloatArray:
        """w_ij."""
        return np.exp(self.scales)[:, None] * self.ratios

    def moved(self, local: FloatArray, shared: FloatArray) -> Parameters:
        """The point after a step in the slots."""
        n_agents = self.scales.size
        return replace(
            self,
            scales=self.scales + local[:, 0],
            ratios=self.ratios + local[:, 1 : 1 + n_agents],
            curves=self.curves + local[:, 1 + n_agents :] + shared,
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
        (n, n): which ratios are fitted; the others are 0, or 1 on the diagonal.
    signed
        Whether ratios may be negative.
    prior
        Precision of the ratios' prior.
    scale_mean
        Mean of the scales' prior.
    """

    curve: CurveFamily
    shared: NDArray[np.bool_]
    known: NDArray[np.bool_]
    free_ratios: NDArray[np.bool_]
    signed: bool
    prior: float
    scale_mean: float

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return int(self.free_ratios.shape[0])

    @property
    def free_local(self) -> NDArray[np.bool_]:
        """(n, 4 + n): the free slots of each agent."""
        own = np.broadcast_to(~self.shared & ~self.known, (self.n_agents, 3))
        return np.hstack([np.ones((self.n_agents, 1), dtype=bool), self.free_ratios, own])

    @property
    def free_shared(self) -> NDArray[np.bool_]:
        """(3,): the free slots of the shared curve."""
        return np.asarray(self.shared & ~self.known)

    def limits(self) -> tuple[Parameters, Parameters]:
        """The lowest and the highest admissible point."""
        n_agents = self.n_agents
        lowest = Parameters(
            scales=np.full(n_agents, SCALE_LIMITS[0]),
            ratios=np.full((n_agents, n_agents), -np.inf if self.signed else 0.0),
            curves=np.tile(MIN_CURVE, (n_agents, 1)),
        )
        highest = Parameters(
            scales=np.full(n_agents, SCALE_LIMITS[1]),
            ratios=np.full((n_agents, n_agents), np.inf),
            curves=np.tile(MAX_CURVE, (n_agents, 1)),
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
        )

    def admits(self, point: Parameters) -> bool:
        """Whether every curve rises."""
        return bool((point.curves[:, 2] - point.curves[:, 1] >= MIN_RANGE).all())

    def pushes(self, point: Parameters) -> tuple[FloatArray, FloatArray]:
        """-1 in slots that are at their lower limit, +1 at their upper one, else 0: local and shared."""
        low, high = self.limits()
        ratios = np.where(point.ratios <= low.ratios, -1.0, 0.0)
        curves = np.where(point.curves <= low.curves, -1.0, 0.0) + np.where(point.curves >= high.curves, 1.0, 0.0)
        local = np.hstack([np.zeros((self.n_agents, 1)), ratios, curves])
        return local, curves[0]

    def precisions(self) -> tuple[FloatArray, FloatArray]:
        """The prior's precision in every slot: local and shared; zero where a slot is not free."""
        ratios = np.full((self.n_agents, self.n_agents), max(self.prior, NO_PRIOR))
        own = np.tile(CURVE_ERRORS**-2.0, (self.n_agents, 1))
        local = np.hstack([np.full((self.n_agents, 1), SCALE_ERROR**-2.0), ratios, own])
        return np.where(self.free_local, local, 0.0), np.where(self.free_shared, CURVE_ERRORS**-2.0, 0.0)

    def deviations(self, point: Parameters) -> tuple[FloatArray, FloatArray]:
        """How far each slot is from the prior's mean: local and shared."""
        curves = point.curves - CURVE_MEANS
        local = np.hstack([(point.scales - self.scale_mean)[:, None], point.ratios - 1.0, curves])
        return local, curves[0]

    def penalty(self, point: Parameters) -> float:
        """Half the prior's sum of squares."""
        pairs = zip(self.precisions(), self.deviations(point), strict=True)
        return 0.5 * sum(float((precision * apart**2).sum()) for precision, apart in pairs)
