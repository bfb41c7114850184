"""Mechanisms whose equilibria are the welfare optima of a federation: what they share.

They differ in what is paid. Where several profiles are optimal, the one of smallest norm is the outcome.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from fedpact.deals import Equilibria, Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms.base import SOLVER_ERRORS, BatchSolution, Mechanism
from fedpact.programs.batch_solver import maximise_blocks
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.small_stakes import unsettled_lots
from fedpact.programs.social_optimum import SocialOptimum, faces_possible, optimum_at, social_optimum
from fedpact.programs.solver import GAIN_TOLERANCE
from fedpact.utils.arrays import FloatArray

MAX_COMPILED_AGENTS = 16  # in the compiled welfare program
PRECISE_GAIN = 1e-13  # a linearised gain, in units of the program's scale, that leaves payments with all their digits


class OptimumMechanism(Mechanism):
    """Equilibria are the welfare optima of `played(federation)`, by default of the federation itself.

    Attributes
    ----------
    optimum_names
        What people call one of them, and several.
    """

    optimum_names = ("welfare optimum", "welfare optima")

    def played(self, federation: Federation) -> Federation:
        """The federation whose welfare optima are the equilibria: this one, or one with other values."""
        return federation

    def solve(self, federation: Federation) -> Outcome:
        """The optimum of smallest norm and its payments."""
        return self._outcome(federation, social_optimum(self.played(federation)))

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        return self._outcome(federation, optimum_at(self.played(federation), contributions), payments)

    def played_together(self, batch: Batch) -> Batch:
        """The same of a batch: this one, or one with other values."""
        return batch

    def payments_together(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        """Payments (federations, n) at a profile of every federation, NaN where there are none; one after the other."""
        payments = np.full(contributions.shape, np.nan)
        for place, federation in enumerate(batch):
            with suppress(*SOLVER_ERRORS):
                payments[place] = self.payment_rule(federation, contributions[place])
        return payments

    def is_vectorised(self, batch: Batch) -> bool:
        return batch.joined.payoff.hyperbola() is not None and batch.n_agents <= MAX_COMPILED_AGENTS

    def solve_together(self, batch: Batch) -> BatchSolution:
        played = self.played_together(batch)
        start = standalone_optimum(played.joined)[0]  # the right size, and inside the domain unless harm is strong
        everybody = np.ones((1, batch.n_agents))
        contributions, gains = maximise_blocks(played.joined, *played.bounds(), everybody, np.ones(1), start=start)
        imprecise = sorted({*reject_unsolved(contributions, gains), *_unsettled(played, contributions)})
        several = _move_to_smallest(played, contributions)
        payments = self.payments_together(batch, np.nan_to_num(contributions))
        contributions[np.isnan(payments).any(axis=1)] = np.nan  # told when it is solved alone
        return BatchSolution(contributions=contributions, payments=payments, several=several, imprecise=imprecise)

    def _outcome(self, federation: Federation, optimum: SocialOptimum, payments: FloatArray | None = None) -> Outcome:
        return self.outcome_at(
            federation,
            optimum.contributions,
            payments,
            equilibria=equilibria_of(optimum, *self.optimum_names),
            solution=optimum.solution,
            face=optimum.face,
        )


def equilibria_of(found: SocialOptimum, optimum: str, optima: str) -> Equilibria:
    """What is known of the equilibria from the set of optima, and what these are called."""
    face = found.face
    if face is None:
        differ = f"others, if there are any, differ from it in {found.n_undecided} contributions at most"
        note = f"one of the {optima}; {differ}"
        return Equilibria(unique=None, dimension=0, note=note)
    dimension = face.dimension
    if dimension == 0:
        return Equilibria(unique=True, dimension=0, note=f"the only {optimum}")
    kind = "a line" if dimension == 1 else f"a set of dimension {dimension}"
    note = f"{optima} form {kind}; this is the one of smallest norm, which treats equal members alike"
    return Equilibria(unique=False, dimension=dimension, note=note)


def reject_unsolved(contributions: FloatArray, gains: FloatArray) -> list[int]:
    """Set to NaN, in place, what compiled code did not solve; returns the places of what it solved badly.

    A gain counts in units of the whole program, but payments follow from small differences between slopes.
    """
    contributions[~(gains <= GAIN_TOLERANCE)] = np.nan
    return np.flatnonzero((gains > PRECISE_GAIN) & (gains <= GAIN_TOLERANCE)).tolist()


def _unsettled(batch: Batch, contributions: FloatArray) -> list[int]:
    """The places of federations without harm in which those with little at stake are not settled."""
    lots = unsettled_lots(batch.joined, np.nan_to_num(contributions).ravel(), batch.bounds()[0])
    harmed = (batch.weights < 0).any(axis=(1, 2))
    return np.flatnonzero(batch.split(lots).any(axis=1) & ~harmed).tolist()


def _move_to_smallest(batch: Batch, contributions: FloatArray) -> tuple[int, ...]:
    """Move each optimum, in place, to the one of smallest norm; returns the federations that have several optima."""
    upper, scale = batch.bounds()
    profile = np.nan_to_num(contributions).ravel()
    earned = np.asarray(batch.joined.weights.T @ batch.joined.marginal_payoffs(profile))
    marginal = batch.split(earned - batch.joined.costs.slope(profile))
    linear = (np.zeros(batch.joined.n_agents) + batch.joined.costs.quadratic).reshape(marginal.shape) == 0
    several = []
    for place in faces_possible(batch.weights, marginal, batch.split(upper), scale, linear).tolist():
        if np.isnan(contributions[place]).any():
            continue
        try:
            optimum = optimum_at(batch[place], contributions[place])
        except SOLVER_ERRORS:
            contributions[place] = np.nan  # left to be solved alone
            continue
        contributions[place] = optimum.contributions
        if optimum.face is not None and not optimum.face.is_point:
            several.append(place)
    return tuple(several)
