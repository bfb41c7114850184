"""The Shapley equilibrium as a program: maximise the potential less the costs, P(s) - sum_j c_j(s_j).

An agent that is paid its Shapley value climbs the potential (`fedpact.shapley.potential`), so the equilibria are the
maximisers. The potential is strictly concave in what each agent brings to each task: with one lot per agent there is
exactly one. With several, payoffs and shares are unique too, and only lots of one agent whose weights are collinear may
be exchanged for each other; then each agent's split is the one of smallest norm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.lots import take_shared_caps
from fedpact.programs.best_response import best_answer
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.domain import coalition_room, edge_rows, interior_point, room
from fedpact.programs.shared_caps import conclude_within, maximise_within
from fedpact.programs.social_optimum import OptimalFace, face_from
from fedpact.programs.solver import GAIN_TOLERANCE, MAX_ITERATIONS, Solution
from fedpact.shapley.enumeration import semivalue_weights
from fedpact.shapley.own_share import own_shares
from fedpact.shapley.potential import (
    ROUGH_TOLERANCE,
    CompiledPotential,
    EnumeratedPotential,
    Potential,
    potential_of,
)
from fedpact.shapley.routes import MAX_COALITION_AGENTS_HARMED
from fedpact.shapley.semivalues import SemivaluePotential
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged, OutsideDomain

# Of the slopes that cancel at an equilibrium, by how much they may differ: first for those who belong at a bound.
SLOPE_TOLERANCES = (0.5, 1e-7, 1e-7)
LAST_GAIN = 0.01 * GAIN_TOLERANCE  # of the scale: below, one gain is as good as another to the maximiser
MAX_SETTLED_AGENTS = 100
MAX_AGENTS_IN_SECONDS, WORK_WITH_HARM = 60, 1.3e7  # sixty steps or more; most take thirty
MAX_ITERATIONS_OF_MANY = 120
MIN_EDGE_DISTANCE = 1e-6  # of the way from no data to the edge: a slope there has ten digits at most


class ShapleyProgram:
    """Maximise the potential less the costs; `potential` is the route to it.

    `multiple` is what all coalitions of the potential count for together, that of Shapley values if not given.
    """

    def __init__(self, federation: Federation, potential: Potential, *, multiple: float | None = None) -> None:
        self.federation = federation
        self.potential = potential
        # P is a weighted sum of A over coalitions; the weights of the coalitions of size k add up to 1/k.
        harmonic = float((1.0 / np.arange(1, federation.n_agents + 1)).sum())
        self.upper, self.scale = contribution_bounds(federation, multiple=harmonic if multiple is None else multiple)
        self._harm = None if federation.has_lots else np.minimum(federation.dense_weights(), 0.0)
        if self._harm is not None:
            self.upper = np.minimum(self.upper, _harmless_alone(self._harm, federation.payoff.floor))

    def gradient(self, contributions: FloatArray) -> FloatArray:
        try:
            return self.potential.gradient(contributions) - self.federation.costs.slope(contributions)
        except OutsideDomain:  # by rounding: the search for a step takes a shorter one
            return np.full_like(contributions, np.nan)

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        hessian = self.potential.hessian(contributions) - np.diag(self.federation.costs.curvature(contributions))
        return DenseCurvature.scaled(hessian, left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        if self._harm is None:
            return coalition_room(self.federation, contributions, direction)
        return room(self._harm, self.federation.payoff.floor, contributions, direction)

    def edges(self) -> FloatArray | None:
        return None if self._harm is None else edge_rows(self._harm, self.federation.payoff.floor)

    def start(self) -> FloatArray:
        return interior_point(self.federation, self.upper)


def _harmless_alone(harm: FloatArray, floor: FloatArray | float) -> FloatArray:
    """The contribution of each agent that would by itself take somebody to the edge of the domain.

    A coalition of just those who harm has to stay inside, so this bounds every maximiser. It is of the size of the deal
    where the spending bound, which knows nothing of harm, may be many orders of magnitude too large.
    """
    edges = np.broadcast_to(floor, harm.shape[0])[:, None]
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(edges, harm, out=np.full(harm.shape, np.inf), where=harm < 0).min(axis=0))


def shapley_optimum(federation: Federation) -> Solution:
    """The maximiser of the potential less the costs; with many agents found roughly first."""
    potential = potential_of(federation)
    rough = None
    # With harm the potential is steep at the edge of the domain: there is nothing to be had from rough integrals.
    if isinstance(potential, CompiledPotential) and not federation.has_harm:
        rough = ShapleyProgram(federation, CompiledPotential(federation, tolerance=ROUGH_TOLERANCE))
    program = ShapleyProgram(federation, potential)
    try:
        found = maximise_within(
            program, federation.shared_caps, rough=rough, max_iterations=_max_iterations(federation)
        )
    except NotConverged as error:
        raise NotConverged(f"{error}{_reason(federation, error.result.contributions)}", result=error.result) from error
    return _least_norm(program, _settle_small_stakes(program, found))


def _max_iterations(federation: Federation) -> int:
    """Where somebody is harmed a Newton step costs about n^3, and at the edge of the domain they may not end.

    Up to sixty agents have an answer, or a refusal, within seconds; more have to be waited for in any case.
    """
    if not (federation.has_harm and np.isfinite(federation.payoff.floor).all()):
        return MAX_ITERATIONS
    if federation.n_agents > MAX_AGENTS_IN_SECONDS:
        return MAX_ITERATIONS_OF_MANY
    return int(min(WORK_WITH_HARM / federation.n_agents**3, MAX_ITERATIONS))


def _settle_small_stakes(program: ShapleyProgram, found: Solution) -> Solution:
    """The same equilibrium with those at their best answers who have next to nothing at stake beside the whole.

    Their contributions are as good as any to the maximiser, which sees all of them together (as in
    `fedpact.programs.small_stakes`); to themselves they are not.
    """
    federation = program.federation
    if federation.has_lots or federation.shared_caps or federation.n_agents > MAX_SETTLED_AGENTS:
        return found
    for tol in SLOPE_TOLERANCES:
        profile = found.contributions.copy()
        unsettled = _unsettled(program, profile, tol)
        if not unsettled.size:
            continue
        try:
            for agent in unsettled.tolist():
                (share,) = own_shares(federation, profile, [agent])
                profile[agent], _ = best_answer(federation, share, agent, guess=float(profile[agent]))
            if _edge_distance(federation, profile) < 0.5 * _edge_distance(federation, found.contributions):
                break  # who has that little at stake takes nobody out of its domain
            found = conclude_within(program, (), profile, found.iterations)
        except (NotConverged, OutsideDomain):  # at this size rounding rules
            break
    return found


def _edge_distance(federation: Federation, contributions: FloatArray) -> float:
    """How far every group is from the edge of somebody's domain, as a share of all there is."""
    return float((1.0 - federation.lowest_data(contributions) / federation.payoff.floor).min())


def _unsettled(program: ShapleyProgram, contributions: FloatArray, tol: float) -> NDArray[np.intp]:
    """Whose slopes do not cancel to `tol`, with no bound in the way, though that is nothing beside the whole."""
    cost = program.federation.costs.slope(contributions)
    marginal = program.gradient(contributions)
    could_move = np.where(marginal > 0, contributions < program.upper, contributions > 0)
    away = np.abs(marginal) > tol * (np.abs(marginal + cost) + cost)
    near = np.where(marginal > 0, np.minimum(contributions, program.upper - contributions), contributions)
    little = np.abs(marginal) * near <= LAST_GAIN * float(np.max(program.scale))
    return np.flatnonzero(could_move & away & little)


def _least_norm(program: ShapleyProgram, found: Solution) -> Solution:
    """The same equilibrium with the split of smallest norm between each agent's collinear lots."""
    federation = program.federation
    faces = own_splits(program, found.contributions) if federation.has_lots else {}
    if not any(not face.is_point for face in faces.values()):
        return found
    profile = found.contributions.copy()
    for agent, face in faces.items():
        profile[federation.lots_of(agent)] = face.least_norm()
    try:
        return conclude_within(program, federation.shared_caps, profile, found.iterations)
    except NotConverged:  # a face was drawn too wide by rounding: the equilibrium found stands
        return found


def semivalue_optimum(federation: Federation, probability: float | None) -> Solution:
    """The equilibrium where everybody has its semivalue (`fedpact.shapley.enumeration`).

    By all coalitions of few agents; among many at the one q of the integral, or at all of them for Shapley values.
    """
    few = federation.n_agents <= MAX_COALITION_AGENTS_HARMED
    if probability is None and not few:
        return shapley_optimum(federation)
    if probability is None or few:
        potential: Potential = EnumeratedPotential(federation, semivalue_weights(federation.n_agents, probability))
    else:
        potential = SemivaluePotential(federation, probability)
    # What all coalitions count for: (1 - (1 - q)^n) / q.
    all_count = None if probability is None else -np.expm1(federation.n_agents * np.log1p(-probability)) / probability
    program = ShapleyProgram(federation, potential, multiple=all_count)
    return _least_norm(program, maximise_within(program, federation.shared_caps))


def _reason(federation: Federation, contributions: FloatArray) -> str:
    """Which number double precision has no digits left for, if it is that."""
    floor = np.broadcast_to(federation.payoff.floor, federation.n_tasks)
    distances = 1.0 - federation.lowest_data(contributions) / floor
    task = int(np.argmin(distances))
    if distances[task] > MIN_EDGE_DISTANCE:
        return ""
    return (
        f': those who harm "{federation.task_labels[task]}" would take it within {distances[task]:.0e} of the edge of '
        "its payoff's domain, where double precision has too few digits; lower their caps"
    )


def own_splits(program: ShapleyProgram, contributions: FloatArray) -> dict[int, OptimalFace]:
    """For every agent with several lots the ways to split what it brings that are as good, at an equilibrium."""
    federation, marginal = program.federation, program.gradient(contributions)
    weights, found = federation.dense_weights(), {}
    for agent in np.flatnonzero(np.bincount(federation.lot_owners) > 1).tolist():
        own = federation.lots_of(agent)
        found[agent] = face_from(
            weights=weights[:, own],
            point=contributions[own],
            marginal=marginal[own],
            upper=program.upper[own],
            scale=program.scale,
            bends=federation.costs.quadratic[own] > 0,
            caps=federation.caps[own],
            shared_caps=take_shared_caps(federation.shared_caps, own),
        )
    return found


def split_dimension(federation: Federation, contributions: FloatArray) -> int:
    """Of the set of equilibria around one of them: how many ways agents can exchange collinear lots of theirs."""
    if not federation.has_lots:
        return 0
    faces = own_splits(ShapleyProgram(federation, potential_of(federation)), contributions)
    return sum(face.dimension for face in faces.values())
