"""The next runs worth training: those that settle the deal, not the parameters for their own sake.

What is open about a deal is how gains and payments differ between draws of what the fit leaves possible. The same draws
say which accuracies a run that has not been made yet would have. Taken as jointly Gaussian, deviations D of the gains
and payments over the draws and those P of the accuracies in units of their noise leave

    D D' - D P' (P P' + I)^-1 P D'

once the run is made. Runs are chosen one by one; each takes away the most of the variance that those before it leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fedpact.comparison.batches import is_vectorised
from fedpact.comparison.outlook import solve_draws
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import Owners
from fedpact.federation.validation import Costs
from fedpact.fitting.lack_of_fit import MIN_VARIANCE, sampling_variances
from fedpact.fitting.result import Fit
from fedpact.mechanisms import DEFAULT_MECHANISMS
from fedpact.utils.arrays import POSITIVE, FloatArray, checked_numbers, positive, read_only_copy, whole_number

DRAWS = 200
CANDIDATE_LEVELS = (0.1, 0.4, 1.0)  # of what an agent can contribute
MAX_AGENTS_ALL_COALITIONS = 6
MAX_PAIRS, MIXTURES = 60, 60
LITTLE = 1e-4  # variance, in parts of what is typically gained and paid, that no member would notice


@dataclass(frozen=True, kw_only=True, eq=False)
class Suggestion:
    """A run to make."""

    contributions: FloatArray  # What everybody should contribute, per lot where there are several
    reason: str  # What it settles, in words
    settles: float  # The part of what was open before any suggestion that this run is expected to settle


def suggest(
    fit: Fit,
    count: int,
    *,
    costs: Costs,
    caps: ArrayLike | None = None,
    worth: ArrayLike = 1.0,
    rng: np.random.Generator | int | None = 0,
    progress: Callable[[str], None] | None = None,
) -> tuple[Suggestion, ...]:
    """The `count` runs to train next, in order of use.

    Costs, caps and worth are those of the federation the deal is about. Without caps, nobody is asked for more than its
    largest contribution yet.
    """
    whole_number("count", count, least=1)
    generator = np.random.default_rng(rng)
    federation = fit.federation(costs=costs, caps=np.inf if caps is None else caps, worth=worth)
    largest = fit.observations.contributions.max(axis=0)
    most = np.where(largest > 0, largest, largest.max())
    most = most if caps is None else np.where(np.isfinite(federation.caps), federation.caps, most)
    drawn = fit.parameter_draws(DRAWS, generator)
    rates = checked_numbers("worth", worth, positive, POSITIVE, names=fit.observations.task_labels)
    open_deals, labels = _solved(fit, federation, drawn, rates, progress or (lambda what: None))
    tried = candidate_runs(most, generator, federation.lot_owners)
    predicted = np.clip(fit.model.predict(drawn, tried), 0.0, 1.0)
    sizes = fit.observations.known_test_sizes()
    typical = None if sizes is None else np.median(sizes, axis=0)
    noise = sampling_variances(predicted.mean(axis=0), typical) + fit.unexplained**2
    seen = _deviations(predicted.transpose(1, 2, 0)) / np.sqrt(np.maximum(noise, MIN_VARIANCE))[:, :, None]
    return _greedy(count, open_deals, labels, tried, seen)


def _solved(
    fit: Fit, federation: Federation, drawn: FloatArray, rates: FloatArray, progress: Callable[[str], None]
) -> tuple[FloatArray, list[str]]:
    """Deviations of gains and payments over draws of the federation, (quantities, draws), and what each is called.

    Draws without a deal count as the mean. The deals are those of Externality and Shapley; of Externality alone where
    Shapley would take too long.
    """
    proper = [each for each in DEFAULT_MECHANISMS.values() if not each.is_baseline]
    mechanisms = [each for each in proper if is_vectorised(federation, each)] or proper[:1]
    curves = fit.model.curves(drawn)
    payoff = federation.payoff.unchecked(**dict.fromkeys(federation.payoff.parameters, np.exp(curves[:, :, 0])))
    arrays = federation.arrays.repeated(
        len(drawn), weights=fit.model.weights(drawn), values=rates * (curves[:, :, 2] - curves[:, :, 1]), payoff=payoff
    )
    deviations, labels = [], []
    for mechanism in mechanisms:
        progress(f"solving {mechanism.title} on draws")
        outcomes: Outcomes = solve_draws(federation, arrays, mechanism)
        solved = np.asarray(~np.isnan(outcomes.ir_gaps).any(axis=1))
        parts = [
            np.where(solved[:, None], part, part[solved].mean(axis=0)) for part in (outcomes.ir_gaps, outcomes.payments)
        ]
        typical = sum(float(np.abs(part).mean()) for part in parts) + 1e-12
        deviations += [_deviations(part.T / typical) for part in parts]
        labels += [f"what {agent} gains under {mechanism.title}" for agent in federation.names]
        labels += [f"{agent}'s payment under {mechanism.title}" for agent in federation.names]
    return np.concatenate(deviations), labels


def candidate_runs(most: FloatArray, rng: np.random.Generator, lot_owners: Owners | None = None) -> FloatArray:
    """(candidates, n): coalitions at a few levels, and mixtures, up to `most`; distinct, none of them empty.

    Of lots, coalitions of lots, and members with all of their lots, alone and all but one.
    """
    n_agents = most.size
    if n_agents <= MAX_AGENTS_ALL_COALITIONS:
        members = (np.arange(1, 2**n_agents)[:, None] >> np.arange(n_agents) & 1).astype(np.float64)
    else:
        every = np.array(list(combinations(range(n_agents), 2)))
        pairs = np.zeros((min(len(every), MAX_PAIRS), n_agents))
        np.put_along_axis(pairs, rng.permutation(every)[: len(pairs)], 1.0, axis=1)
        members = np.concatenate([np.ones((1, n_agents)), 1.0 - np.eye(n_agents), np.eye(n_agents), pairs])
    if lot_owners is not None and np.unique(lot_owners).size < n_agents:
        whole = (lot_owners == np.unique(lot_owners)[:, None]).astype(np.float64)
        members = np.concatenate([members, whole, 1.0 - whole])
    levels = np.concatenate([level * members for level in CANDIDATE_LEVELS])
    mixed = rng.choice([0.0, *CANDIDATE_LEVELS], size=(MIXTURES, n_agents))
    found = np.unique(np.concatenate([levels, mixed]) * most, axis=0)
    return np.asarray(found[found.any(axis=1)])


def _deviations(numbers: FloatArray) -> FloatArray:
    """From the mean along the last axis; their squares add up to the variance."""
    return np.asarray((numbers - numbers.mean(axis=-1, keepdims=True)) / np.sqrt(numbers.shape[-1] - 1))


def _greedy(
    count: int, left: FloatArray, labels: Sequence[str], tried: FloatArray, seen: FloatArray
) -> tuple[Suggestion, ...]:
    """One run after another, each with the deviations that those before it leave."""
    chosen = []
    total = float((left**2).sum())
    for _ in range(count):
        across = np.einsum("qd,cnd->cqn", left, seen)
        inner = np.linalg.inv(seen @ seen.transpose(0, 2, 1) + np.eye(seen.shape[1]))
        falls = np.einsum("cqn,cnm,cqm->cq", across, inner, across)
        best = int(falls.sum(axis=1).argmax())
        index, fall = int(falls[best].argmax()), float(falls[best].max())
        before = float((left[index] ** 2).sum())
        narrower = 100.0 * (1.0 - np.sqrt(max(1.0 - fall / before, 0.0))) if before > 0 else 0.0
        chosen.append(
            Suggestion(
                contributions=read_only_copy(tried[best]),
                reason=f"narrows {labels[index]} by {narrower:.0f} %" if fall > LITTLE else "little is left to settle",
                settles=float(falls[best].sum()) / total if total > LITTLE else 0.0,
            )
        )
        _, sizes, directions = np.linalg.svd(seen[best], full_matrices=False)
        shrink = (directions.T * (1.0 - 1.0 / np.sqrt(1.0 + sizes**2))) @ directions
        left, seen = left - left @ shrink, seen - seen @ shrink
    return tuple(chosen)
