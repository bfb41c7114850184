"""The potential of Hart and Mas-Colell, P(s) = sum over non-empty X of (|X|-1)! (n-|X|)! / n! A(s[X]).

phi_j = P(N) - P(N without j), and P(N without j) does not depend on s_j, so d P / d s_j = d phi_j / d s_j: an agent
that is paid its Shapley value climbs the potential. In terms of the integral,

    P(s) = sum_i values_i int dm(t) int_0^1 dq [1 - prod_k (1 - q + q e_ik)] / q,     e_ik = e^{-t w_ik s_k}.

Agents on their own make P strictly concave in what each brings to each task. With several lots per agent u_ij, the sum
over j's lots of w_il s_l, stands for w_ij s_j: the gradient has an entry per lot, by the chain rule.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fedpact.federation import Federation
from fedpact.shapley.compiled import Integrals, Precision, integrate, is_at_edge, potential_curvature
from fedpact.shapley.enumeration import coalitions
from fedpact.shapley.quadrature import receiver_nodes
from fedpact.shapley.receiver_rows import receiver_rows
from fedpact.shapley.routes import Route, choose_route
from fedpact.utils.arrays import FloatArray

EXACT_TOLERANCE, ROUGH_TOLERANCE = 1e-10, 1e-4  # of the compiled integrals
SAMPLED_RECEIVERS = 64
CLOSE_BY = 0.02


class Potential(Protocol):
    """The potential of a federation as a function of the contributions."""

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d P / d s_j, which is d phi_j / d s_j."""

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The matrix of second derivatives."""


class EnumeratedPotential:
    """The potential summed over all coalitions; each counts for `by_size`, as for Shapley values if not given."""

    def __init__(self, federation: Federation, by_size: FloatArray | None = None) -> None:
        self.federation = federation
        self._weights = federation.dense_weights()
        members, self._shares = coalitions(federation.n_agents)
        if by_size is not None:
            self._shares = by_size[members.sum(axis=1).astype(np.intp)]
        self._members = members[:, federation.lot_owners] if federation.has_lots else members

    def value(self, contributions: FloatArray) -> float:
        """P(s)."""
        return float(self._shares @ (self.federation.payoff.value(self._data(contributions)) @ self.federation.values))

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d P / d s_j."""
        slopes = self.federation.payoff.slope(self._data(contributions)) * self.federation.values
        return np.asarray(self._shares @ (self._members * (slopes @ self._weights)))

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The matrix of second derivatives."""
        bends = self.federation.payoff.curvature(self._data(contributions)) * self.federation.values
        together = np.einsum(
            "xi,xj,xk->ijk", bends * self._shares[:, None], self._members, self._members, optimize=True
        )
        return np.asarray(np.einsum("ijk,ij,ik->jk", together, self._weights, self._weights))

    def _data(self, contributions: FloatArray) -> FloatArray:
        return np.asarray((self._members * contributions) @ self._weights.T)


class IntegratedPotential:
    """The potential by quadrature over t and q."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def value(self, contributions: FloatArray) -> float:
        """P(s)."""
        nodes = receiver_nodes(self.federation, contributions)
        return float(sum((each.complement / each.q).sum() for each in nodes))

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d P / d s_j."""
        gradient = np.zeros(self.federation.n_lots)
        for nodes in receiver_nodes(self.federation, contributions):
            gradient[nodes.lots] += np.einsum("tq,tqk->k", nodes.level, nodes.slope)
        return gradient

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The matrix of second derivatives."""
        hessian = np.zeros((self.federation.n_lots,) * 2)
        for nodes in receiver_nodes(self.federation, contributions):
            slopes = nodes.slope.reshape(nodes.level.size, nodes.lots.size)
            pair = -(slopes.T * (nodes.level * nodes.q).ravel()) @ slopes
            if nodes.lots.size > nodes.agents.size:
                one, other = np.nonzero(nodes.owners[:, None] == nodes.owners)  # lots of one agent share a factor
                bends = nodes.rates[:, None, one] * nodes.slope[:, :, other]
                pair[one, other] = -np.einsum("tq,tqk->k", nodes.level, bends)
            else:
                np.fill_diagonal(pair, -np.einsum("tq,tqk->k", nodes.level, nodes.rates[:, None, :] * nodes.slope))
            hessian[np.ix_(nodes.lots, nodes.lots)] += pair
        return hessian


class CompiledPotential:
    """The potential by compiled quadrature, for many agents; the Hessian is approximate off its diagonal.

    Off its diagonal a Hessian costs more than the slopes, and a Newton step needs it to a few per cent only. So where
    slopes are rough, a few receivers stand for all of them; and what was found at a point serves close to it as well.
    """

    def __init__(self, federation: Federation, *, tolerance: float = EXACT_TOLERANCE) -> None:
        self._rows = receiver_rows(federation)
        self._precision = Precision.reaching(tolerance)
        self._at: FloatArray | None = None
        self._integrals: Integrals | None = None
        enough = self._rows.n_receivers >= 2 * SAMPLED_RECEIVERS
        self._can_save = enough and self._rows.can_be_sampled
        self._sample = self._rows.sample(SAMPLED_RECEIVERS) if self._can_save and tolerance >= ROUGH_TOLERANCE else None
        self._pairs_at: FloatArray | None = None
        self._pairs: FloatArray | None = None

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d P / d s_j."""
        return self._integrate(contributions).slopes

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """The matrix of second derivatives."""
        integrals = self._integrate(contributions)
        hessian = self._curvature_of_pairs(contributions)
        if is_at_edge(self._rows, contributions):  # what the harmed receivers add is there already
            hessian[self._rows.own_pairs] += integrals.own_bends
            return hessian
        if self._rows.lots is not None:
            hessian[self._rows.own_pairs] = integrals.own_bends
        # A sample may err upwards; with no less on the diagonal than it has itself, the matrix stays definite.
        diagonal = integrals.bends if self._sample is None else np.minimum(integrals.bends, hessian.diagonal())
        np.fill_diagonal(hessian, diagonal)
        return hessian

    def _curvature_of_pairs(self, contributions: FloatArray) -> FloatArray:
        """Off the diagonal: from a sample of receivers, or where it was worked out last, or here."""
        if self._sample is not None:
            return potential_curvature(self._sample, contributions)
        if not self._can_save:
            return potential_curvature(self._rows, contributions)
        if self._pairs is None or self._pairs_at is None or not _is_close(contributions, self._pairs_at):
            self._pairs, self._pairs_at = potential_curvature(self._rows, contributions), contributions.copy()
        return self._pairs.copy()

    def _integrate(self, contributions: FloatArray) -> Integrals:
        """The integrals at a point; a Hessian is asked for where the gradient was."""
        if self._integrals is None or self._at is None or not np.array_equal(self._at, contributions):
            self._integrals = integrate(self._rows, contributions, self._precision, curved=True)
            self._at = contributions.copy()
        return self._integrals


def _is_close(contributions: FloatArray, other: FloatArray) -> bool:
    """Whether nobody moved by more than a small share of what it, or everybody on average, contributes."""
    return bool((np.abs(contributions - other) <= CLOSE_BY * np.maximum(other, other.mean())).all())


def potential_of(federation: Federation) -> Potential:
    """The potential by the route for this federation; where nobody is harmed receivers are integrated side by side."""
    route = choose_route(federation)
    if route is Route.COALITIONS:
        return EnumeratedPotential(federation)
    if route is Route.NUMPY and federation.has_harm:
        return IntegratedPotential(federation)
    return CompiledPotential(federation)
