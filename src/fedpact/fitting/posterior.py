"""How sure a fit is: the Gaussian around it whose precision is the information of the data plus the prior's.

Intervals and draws are made in coordinates in which the posterior is closest to Gaussian: logarithms of beta, of the
range between floor and ceiling and of an agent's own weight, and asinh(w_ij / w_ii) for the others, which is linear
around zero and a logarithm far from it. The weights of lots are asinh(w_rl / u_r) with u_r the largest weight that the
task's owner has for it (`fedpact.scenario.uncertainty.weight_units`). Where a limit binds (a weight at zero), the
estimate rests there while the posterior is that without the limit: a little wide, never too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedpact.fitting.gauss_newton import ArrowMatrix, solve_scaled
from fedpact.fitting.parameters import FitRules, Parameters
from fedpact.scenario.uncertainty import weight_units
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """The Gaussian around a point.

    Attributes
    ----------
    point, rules
        The estimate and the rules it was found under.
    gathered
        The information of the data alone.
    design
        How many times larger the covariance of the shared curve is than if the agents' measurements in a run were
        independent.
    """

    point: Parameters
    rules: FitRules
    gathered: ArrowMatrix
    design: float = 1.0

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Covariances of the agents' slots given the shared curve, their gains on it, and its covariance."""
        local, shared = self.rules.free_local, self.rules.free_shared
        system = self.gathered.with_rules(self.rules).restricted(local, shared)
        inverse = _inverse(system.blocks)
        given: FloatArray = np.where(
            local[:, :, None] & local[:, None, :], (inverse + inverse.transpose(0, 2, 1)) / 2.0, 0.0
        )
        gains = given @ system.border
        corner = _inverse(system.corner - np.einsum("aps,apt->st", system.border, gains))
        corner = np.where(shared[:, None] & shared[None, :], (corner + corner.T) / 2.0, 0.0)
        if self.rules.n_parts:  # what lots have in common is not what agents measure together
            design = np.append(np.ones(self.rules.n_parts), np.full(3, np.sqrt(self.design)))
            return given, gains, corner * np.outer(design, design)
        return given, gains, corner * self.design

    @cached_property
    def joint(self) -> FloatArray:
        """(n, p + m, p + m): covariance of each agent's slots and of the m numbers that all share, the curve last."""
        given, gains, corner = self._parts
        n_agents, n_slots, n_shared = gains.shape
        joint = np.empty((n_agents, n_slots + n_shared, n_slots + n_shared))
        joint[:, :n_slots, :n_slots] = given + gains @ corner @ gains.transpose(0, 2, 1)
        joint[:, :n_slots, n_slots:] = -gains @ corner
        joint[:, n_slots:, :n_slots] = (-gains @ corner).transpose(0, 2, 1)
        joint[:, n_slots:, n_slots:] = corner
        return joint

    @property
    def _own_curve(self) -> slice:
        """Where an agent's own curve stands among its slots."""
        return slice(1 + self.rules.n_lots, 4 + self.rules.n_lots)

    @cached_property
    def curve_covariances(self) -> FloatArray:
        """(n, 3, 3): of log(beta), floor and ceiling."""
        own, shared = self._own_curve, slice(-3, None)
        joint = self.joint
        across = joint[:, own, shared]
        return joint[:, own, own] + joint[:, shared, shared] + across + across.transpose(0, 2, 1)

    @cached_property
    def curve_errors(self) -> FloatArray:
        """(n, 3): standard errors of log(beta), floor and ceiling."""
        return np.sqrt(np.maximum(np.diagonal(self.curve_covariances, axis1=1, axis2=2), 0.0))

    @cached_property
    def log_range_errors(self) -> FloatArray:
        """(n,): standard errors of log(ceiling - floor)."""
        covariance = self.curve_covariances
        variance = covariance[:, 1, 1] + covariance[:, 2, 2] - 2.0 * covariance[:, 1, 2]
        return np.sqrt(np.maximum(variance, 0.0)) / (self.point.curves[:, 2] - self.point.curves[:, 1])

    @cached_property
    def weight_errors(self) -> FloatArray:
        """(n, n): standard errors of log(w_ii), and of asinh(w_ij / w_ii) between agents; of lots, of asinh(w / u)."""
        n_lots, ratios = self.rules.n_lots, self.point.ratios
        local = self.joint[:, : 1 + n_lots, : 1 + n_lots]
        scale = local[:, 0, 0][:, None]
        own = np.diagonal(local[:, 1:, 1:], axis1=1, axis2=2)
        if self.rules.structure is not None:
            variance = ratios**2 * scale + own + 2.0 * ratios * local[:, 0, 1:]
            return np.sqrt(np.maximum(variance, 0.0)) * np.exp(self.point.scales)[:, None] / self.sizes
        variance = (ratios**2 * scale + own + 2.0 * ratios * local[:, 0, 1:]) / (1.0 + ratios**2)
        np.fill_diagonal(variance, scale[:, 0])
        return np.sqrt(np.maximum(variance, 0.0))

    @cached_property
    def units(self) -> FloatArray:
        """(tasks, 1): in which the weights of a row are counted; an agent's own weight."""
        weights, structure = self.point.weights, self.rules.structure
        return weights.diagonal()[:, None] if structure is None else weight_units(weights, structure.owned)

    @cached_property
    def sizes(self) -> FloatArray:
        """(tasks, lots): by how much a weight moves with its coordinate."""
        return np.hypot(self.point.weights, self.units)

    def weight_deviations(self, local: FloatArray) -> FloatArray:
        """(count, tasks, lots): how far weights of lots stray in their coordinates, to first order, for given steps."""
        point = self.point
        strayed = point.ratios * local[:, :, :1] + local[:, :, 1 : 1 + self.rules.n_lots]
        return np.asarray(strayed * np.exp(point.scales)[:, None] / self.sizes)

    def expected_squares(self) -> tuple[FloatArray, FloatArray]:
        """Of the parts that ratios are made of, and of the differences of those that are fitted."""
        rules, point = self.rules, self.point
        assert rules.structure is not None
        n_slots, design = self.rules.n_lots + 4, rules.structure.design * rules.structure.base[:, :, None]
        ratios, parts = slice(1, n_slots - 3), slice(n_slots, n_slots + rules.n_parts)
        joint, covariance = self.joint, self.joint[0, parts, parts]
        variance = np.diagonal(joint[:, ratios, ratios], axis1=1, axis2=2)
        variance = variance + ((design @ covariance) * design).sum(axis=2)
        variance = variance - 2.0 * (joint[:, ratios, parts] * design).sum(axis=2)
        left = (point.ratios - rules.structure.expected(point.parts)) ** 2 + np.maximum(variance, 0.0)
        return point.parts**2 + np.diag(covariance), (left / rules.structure.base**2)[rules.free_ratios]

    def prediction_errors(self, contributions: FloatArray) -> FloatArray:
        """(runs, tasks): standard errors, to first order, of the accuracies at contributions (runs, lots)."""
        point, n_lots = self.point, self.rules.n_lots
        reached = contributions @ point.weights.T
        value, slope, by_shape = self.rules.curve.evaluate(reached, point.curves[:, 0])
        spans = point.curves[:, 2] - point.curves[:, 1]
        errors = np.empty(reached.shape)
        for agent in range(self.rules.n_tasks):
            steep = spans[agent] * slope[:, agent]
            row = np.zeros((len(contributions), self.joint.shape[1]))
            row[:, 0] = steep * reached[:, agent]
            row[:, 1 : 1 + n_lots] = (steep * np.exp(point.scales[agent]))[:, None] * contributions
            curve = [spans[agent] * by_shape[:, agent], 1.0 - value[:, agent], value[:, agent]]
            row[:, self._own_curve] = row[:, -3:] = np.stack(curve, axis=-1)
            errors[:, agent] = np.sqrt(np.maximum(((row @ self.joint[agent]) * row).sum(axis=1), 0.0))
        return errors

    def prior_traces(self) -> float:
        """tr(H^-1 P): how many parameters the prior paid for."""
        local, shared = self.rules.precisions()
        n_slots = local.shape[1]
        variances = np.diagonal(self.joint, axis1=1, axis2=2)
        found = float((variances[:, :n_slots] * local).sum() + np.diag(self._parts[2]) @ shared / self.design)
        if (coupling := self.rules.coupling()) is None:
            return found
        parts, common = slice(0, self.rules.n_parts), self._parts[2]
        tied = 2.0 * float((self.joint[:, :n_slots, n_slots:] * coupling[0]).sum()) + float(
            (common * coupling[1]).sum()
        )
        return found + tied + float(np.diag(common)[parts] @ shared[parts]) * (1.0 - 1.0 / self.design)

    def steps(self, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Deviations from the point made of standard normal `noise`, (count, n p + m): local and shared."""
        given, gains, corner = self._parts
        n_agents, n_slots, n_shared = gains.shape
        shared = noise[:, -n_shared:] @ _root(corner).T
        own = noise[:, :-n_shared].reshape(-1, n_agents, n_slots)
        local = np.einsum("apk,cak->cap", _root(given), own) - np.einsum("aps,cs->cap", gains, shared)
        return local, shared


def _inverse(matrices: FloatArray) -> FloatArray:
    return solve_scaled(matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape))


def _root(covariances: FloatArray) -> FloatArray:
    """A matrix R with R R' = C for each covariance, singular ones included."""
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
