"""The Shapley equilibrium as a program: maximise the potential less the costs, P(s) - sum_l c_l(s_l).

A member that is paid its Shapley value climbs the potential P (`fedpact.shapley.coalitions`), so the equilibria are the
maximisers; semivalues have a potential of the same form, with other weights of coalitions. P is strictly concave in
what each member brings to each task: with one lot per member there is exactly one equilibrium. With several, payoffs
and shares are unique too, and only lots of one member whose weights are collinear may be exchanged for each other; then
each member's split is the one of smallest norm.

With harm every coalition has to stay inside the domain of every payoff: the lowest data of a task, of just those
members who harm it, has to stay above its floor.

Up to a dozen members the potential is summed over all coalitions, of many federations at once; among more it is an
integral (`fedpact.shapley.integral`), of one federation at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.shapley import integral
from fedpact.shapley.coalitions import FEW_MEMBERS, potential_derivatives, size_coefficients
from fedpact.solvers.groups import standalone_optima
from fedpact.solvers.interior_point import finish, linearised_gains, maximise
from fedpact.solvers.welfare import FACE_GAIN, OptimalFace, optimal_face, payoff_floor, take_lots
from fedpact.utils.arrays import FloatArray, read_only_copy

# With fewer points diagonals may be wrong by orders of magnitude where data differs by as much.
HESSIAN_ACCURACY = integral.ROUGH._replace(points=6.0, rank=1e-8)
CLOSE = 0.01  # of contributions: over such a way a rough Hessian changes less than it is wrong
NEAR = integral.FINE._replace(step=0.4, living=20.0, q_nodes=6.0, points=4.0)  # gradients to 1e-8, in half the time
INTEGRAL_GAIN = 1e-13  # of the scale: with a rough Hessian the last digits of an integral take many steps


class PotentialProgram:
    """The potential less the costs, of federations with one leading axis, or of one of any size.

    With a `probability`, that of a semivalue (`fedpact.shapley.coalitions.size_coefficients`). Where the potential is
    an integral, `fine` and `rough` are the accuracies of its gradient and its Hessian. `bounds` are the box (..., lots)
    and what is at stake, (...). With `lots` only these are decided on, the `others` stay as in a profile.
    """

    def __init__(
        self,
        arrays: FederationArrays,
        probability: float | None = None,
        *,
        fine: integral.Accuracy = integral.FINE,
        rough: integral.Accuracy = HESSIAN_ACCURACY,
        bounds: tuple[FloatArray, FloatArray] | None = None,
        lots: NDArray[np.intp] | None = None,
        others: FloatArray | None = None,
    ) -> None:
        self.arrays, self._probability, self._others = arrays, probability, others
        self._fine, self._rough = fine, rough
        self._lots = np.arange(arrays.n_lots) if lots is None else lots
        upper, scale = _bounds(arrays, probability) if bounds is None else bounds
        self.scale = np.reshape(scale, -1)
        self._all_upper = upper.reshape(len(self.scale), -1)
        self.upper, self.shared = self._all_upper[:, self._lots], arrays.shared[..., self._lots]
        limits = arrays.shared_limits if others is None else arrays.shared_limits - arrays.shared @ self._rest(others)
        self.shared_limits = np.broadcast_to(limits, (len(self.scale), limits.shape[-1]))
        self._gradient_at: tuple[FloatArray, FloatArray] | None = None
        self._hessian_at: tuple[FloatArray, FloatArray] | None = None

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """d(P - c)/ds; NaN where a coalition leaves the domain."""
        profile = self._profile(contributions)
        if self._gradient_at is None or not np.array_equal(self._gradient_at[0], profile):
            if self.arrays.n_agents <= FEW_MEMBERS:
                coefficients = size_coefficients(self.arrays.n_agents, self._probability)
                gradient, hessian = potential_derivatives(self.arrays, profile, coefficients)
                self._hessian_at = profile, hessian
            else:
                gradient = integral.integrate(
                    self.arrays, profile[0], probability=self._probability, accuracy=self._fine
                ).gradient[None]
            self._gradient_at = profile, gradient
        return (self._gradient_at[1] - self.arrays.marginal_costs(profile))[:, self._lots]

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """-d2(P - c)/ds2; where the potential is an integral, that of a profile close by will do."""
        profile = self._profile(contributions)
        if self.arrays.n_agents <= FEW_MEMBERS:
            self.gradient(contributions)
        elif not self._is_close(profile):
            hessian = integral.potential_hessian(
                self.arrays, profile[0], probability=self._probability, accuracy=self._rough
            )
            self._hessian_at = profile, hessian[None]
        assert self._hessian_at is not None
        found = -self._hessian_at[1][:, self._lots[:, None], self._lots]
        np.einsum("pii->pi", found)[...] += 2.0 * self.arrays.quadratic[..., self._lots]
        return found

    def _is_close(self, profile: FloatArray) -> bool:
        """Whether the last Hessian will do; with harm, near the edge of the domain, none but a profile's own does."""
        if self._hessian_at is None or self.arrays.has_harm:
            return False
        return bool((np.abs(profile - self._hessian_at[0]) <= CLOSE * (profile + profile.mean())).all())

    def max_step(self, contributions: FloatArray, direction: FloatArray) -> FloatArray | float:
        """The largest step at which every coalition is inside the domain.

        The lowest data, sum_j min(u_j + t v_j, 0), is concave in t and made of straight pieces, so that Newton's method
        ends at the root from above.
        """
        if not self.arrays.has_harm:
            return np.inf
        along = np.zeros((len(direction), self.arrays.n_lots))
        along[:, self._lots] = direction
        here, change = self.arrays.member_data(self._profile(contributions)), self.arrays.member_data(along)
        floor = payoff_floor(self.arrays, np.minimum(here, 0.0).sum(axis=-1))
        counts, step = change < 0, np.full(floor.shape, np.inf)
        for _ in range(self.arrays.n_agents + 1):
            slope, level = np.where(counts, change, 0.0).sum(axis=-1), np.where(counts, here, 0.0).sum(axis=-1)
            before, step = step, np.minimum(step, np.where(slope < 0, (floor - level) / slope, np.inf))
            if np.array_equal(step, before):
                break
            counts = np.where(np.isfinite(step)[..., None], here + step[..., None] * change, change) < 0
        return np.asarray(step.min(axis=-1))

    def at(self, index: NDArray[np.intp]) -> PotentialProgram:
        """The programs of some of the federations."""
        if not self.arrays.shape:
            return self
        bounds = self._all_upper[index], self.scale[index]
        return PotentialProgram(self.arrays.at(index), self._probability, bounds=bounds)

    def own_part(self, agent: int, profile: FloatArray) -> PotentialProgram:
        """The program of one member of one federation, the others held where they are."""
        lots = np.flatnonzero(self.arrays.lot_owners == agent)
        bounds = self._all_upper[0], self.scale
        return PotentialProgram(self.arrays, self._probability, bounds=bounds, lots=lots, others=profile)

    def _profile(self, contributions: FloatArray) -> FloatArray:
        """All lots, (programs, lots)."""
        if self._others is None:
            return contributions
        whole = np.tile(self._others, (len(contributions), 1))
        whole[:, self._lots] = contributions
        return whole

    def _rest(self, profile: FloatArray) -> FloatArray:
        rest = profile.copy()
        rest[self._lots] = 0.0
        return rest


def potential_optimum(federation: Federation, probability: float | None = None) -> FloatArray:
    """Contributions where everybody is paid its Shapley value, or its semivalue of a `probability`.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> potential_optimum(homogeneous).round(4).tolist()
    [33.1658, 33.1658, 33.1658]
    """
    program = PotentialProgram(federation.arrays, probability)
    if federation.n_agents <= FEW_MEMBERS:
        found = maximise(program)
    else:
        harm, bounds = federation.arrays.has_harm, (program.upper[0], program.scale)
        near = None if harm else PotentialProgram(federation.arrays, probability, fine=NEAR, bounds=bounds)
        start = 2.0 * standalone_optima(federation.arrays)[0][None] if harm else None
        found = maximise(program, start, near=near, precision=INTEGRAL_GAIN)
        if not found.converged.all():
            program = PotentialProgram(federation.arrays, probability, rough=integral.FINE, bounds=bounds)
            found = maximise(program, precision=INTEGRAL_GAIN)
    found.require_converged()
    return read_only_copy(least_norm_split(program, found.contributions[0]))


def potential_optima(arrays: FederationArrays, probability: float | None = None) -> FloatArray | None:
    """The same of many federations, (..., lots), NaN where not reached; None where they take an integral each."""
    if arrays.n_agents > FEW_MEMBERS:
        return None
    flat = arrays.flattened()
    program = PotentialProgram(flat, probability)
    found = maximise(program)
    contributions = np.where(found.converged[:, None], found.contributions, np.nan)
    if np.bincount(arrays.lot_owners).max(initial=0) > 1:
        for index in np.flatnonzero(found.converged).tolist():
            bounds = program.upper[index], program.scale[index]
            single = PotentialProgram(flat.at(index) if arrays.shape else flat, probability, bounds=bounds)
            contributions[index] = least_norm_split(single, contributions[index])
    return contributions.reshape(*arrays.shape, -1)


def best_response(federation: Federation, profile: FloatArray, agent: int) -> FloatArray:
    """A member's best lots if it is paid its Shapley value and the others stay as they are in a profile."""
    program, own = PotentialProgram(federation.arrays), federation.arrays.lot_owners == agent
    if not own.any():
        return profile[own]
    part = program.own_part(agent, profile)
    found = finish(part, profile[None, own])
    if not found.converged.all():
        found = maximise(part).require_converged()
    answer = profile.copy()
    answer[own] = found.contributions[0]
    return least_norm_split(program, answer, agents=(agent,))[own]


def split_dimension(federation: Federation, contributions: FloatArray) -> int:
    """Of the set of equilibria around one of them: how many ways members can exchange collinear lots of theirs."""
    faces = _own_faces(PotentialProgram(federation.arrays), np.asarray(contributions))
    return sum(face.dimension for face in faces.values())


def _own_faces(
    program: PotentialProgram, contributions: FloatArray, agents: tuple[int, ...] | None = None
) -> dict[int, OptimalFace]:
    """For every member that can split what it brings in several ways that are as good, all of these."""
    owners = program.arrays.lot_owners
    several = np.flatnonzero(np.bincount(owners, minlength=program.arrays.n_agents) > 1).tolist()
    chosen = [agent for agent in several if agents is None or agent in agents]
    if not chosen:
        return {}
    gradient = program.gradient(contributions[None])[0]
    prices = linearised_gains(program, contributions[None])[1][0]
    faces = {}
    for agent in chosen:
        own = np.flatnonzero(owners == agent)
        face = optimal_face(
            take_lots(program.arrays, own),
            contributions[own],
            gradient[own],
            upper=program.upper[0, own],
            scale=float(program.scale[0]),
            prices=prices,
        )
        if not face.is_point:
            faces[agent] = face
    return faces


def least_norm_split(
    program: PotentialProgram, contributions: FloatArray, agents: tuple[int, ...] | None = None
) -> FloatArray:
    """The same equilibrium with the split of smallest norm between each member's collinear lots."""
    smallest = contributions.copy()
    faces = _own_faces(program, contributions, agents)
    for agent, face in faces.items():
        smallest[program.arrays.lot_owners == agent] = face.least_norm()
    if faces and agents is None:
        before, after = (float(linearised_gains(program, s[None])[0][0]) for s in (contributions, smallest))
        if after > max(10.0 * before, FACE_GAIN):  # rounding drew a face too wide: the equilibrium found stands
            return contributions
    return smallest


def _bounds(arrays: FederationArrays, probability: float | None) -> tuple[FloatArray, FloatArray]:
    """The box that every equilibrium lies in, (..., lots), and what is at stake, (...).

    The weights of all coalitions together bound the potential. What one lot would harm a task with by itself, to the
    edge of its domain, is a bound of the size of the deal where that on spending may be many orders too large.
    """
    if probability is None:
        multiple = float((1.0 / np.arange(1, arrays.n_agents + 1)).sum())
    else:
        multiple = float(-np.expm1(arrays.n_agents * np.log1p(-probability)) / probability)
    upper, scale = arrays.bounds(multiple)
    if arrays.has_harm and np.bincount(arrays.lot_owners).max() == 1:
        weights = arrays.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = np.minimum(upper, np.where(weights < 0, arrays.floor[..., None] / weights, np.inf).min(axis=-2))
    return upper, scale
