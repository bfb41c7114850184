"""The next runs worth training: those that settle the deal, not the parameters for their own sake.

What is open about a deal is, for every mechanism and member, whether the member stays and how much it pays. Draws from
the fit say how these go together with the accuracies of a run that has not been made yet. Taking them as jointly
Gaussian, a run's accuracies, noise included, leave variance v' of a gain whose variance is v, and the mean will move
by the difference. The expected doubt about the sign, E[p (1 - p)] with p the probability to leave then, is
2 T(m / sqrt(v), sqrt((1 - r) / (1 + r))) with r = 1 - v' / v and T Owen's function. Runs are chosen one by one; each
makes the most of what the ones before it leave open.

That is for choosing runs. Gains are seldom Gaussian, so what is said of the deal, and whether it is settled, is counted
on the draws of the scenario, with which `fedpact.compare` and the report say it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import owens_t

from fedpact.comparison.outlook import outlooks, solve_draws
from fedpact.comparison.sweeps import is_vectorised
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import Owners
from fedpact.federation.validation import Costs
from fedpact.fitting.accuracy_curves import CURVE_FAMILIES
from fedpact.fitting.noise import ASSUMED_NOISE, sampling_variances
from fedpact.fitting.result import Draws, Fit
from fedpact.mechanisms import DEFAULT_MECHANISMS, Mechanism, resolve_mechanisms
from fedpact.utils.arrays import POSITIVE, FloatArray, checked_numbers, positive, read_only_copy
from fedpact.utils.errors import InvalidInput

COMPILED_DRAWS, PLAIN_DRAWS = 400, 150  # with compiled solvers, and without
NEGLIGIBLE_CHANCE = 0.05  # probability to leave, or to stay, that nobody worries about
NARROW = 0.1  # spread of a payment that nobody quarrels about
MIN_OPEN = 0.01  # below this nothing is open that a member would notice
MIN_DEVIATION = 1e-12
CANDIDATE_LEVELS = (0.1, 0.4, 1.0)  # of what an agent can contribute
MAX_AGENTS_ALL_COALITIONS = 6
MAX_CANDIDATE_PAIRS, CANDIDATE_MIXTURES = 60, 60
MIN_CANDIDATES = 30  # new ones to choose from


@dataclass(frozen=True, kw_only=True, eq=False)
class Suggestion:
    """A run to make.

    Attributes
    ----------
    contributions
        What everybody should contribute, per lot where there are several.
    reason
        What it settles, in words.
    settles
        The part of what was open before any suggestion that this run is expected to settle.
    """

    contributions: FloatArray
    reason: str
    settles: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DealDoubts:
    """What is still open about the deal, one entry for every mechanism and member.

    Attributes
    ----------
    labels
        The mechanism's title and the member.
    leave_probabilities
        That the member would rather train alone: the part of the draws in which it would.
    payment_spreads
        Standard deviation of its payment, in parts of what is typically paid and gained under the mechanism.
    assumptions
        What has decided the probability, in words, whatever was measured; empty where the draws decide.
    """

    labels: tuple[tuple[str, str], ...]
    leave_probabilities: FloatArray
    payment_spreads: FloatArray
    assumptions: tuple[str, ...]

    @property
    def unsure(self) -> tuple[tuple[str, str, float], ...]:
        """Mechanism, member and probability where it is open whether the member would leave, the most open first."""
        openness = np.minimum(self.leave_probabilities, 1.0 - self.leave_probabilities)
        order = [place for place in np.argsort(-openness, kind="stable") if openness[place] > NEGLIGIBLE_CHANCE]
        return tuple((*self.labels[place], float(self.leave_probabilities[place])) for place in order)

    @property
    def widest_payment(self) -> float:
        """The largest spread of a payment."""
        return float(self.payment_spreads.max())

    @property
    def is_settled(self) -> bool:
        """Whether nobody's staying is open, and every payment is known to a tenth: as far as the curves hold."""
        return not self.unsure and self.widest_payment <= NARROW


@dataclass(frozen=True, kw_only=True, eq=False)
class _Open:
    """What is open: means of gains, deviations of gains and payments over the draws (quantities, draws), labels."""

    means: FloatArray
    gains: FloatArray
    payments: FloatArray
    sizes: FloatArray
    labels: Sequence[tuple[str, str]]

    @property
    def first(self) -> FloatArray:
        return np.asarray((self.gains**2).sum(axis=1))

    @property
    def spreads(self) -> FloatArray:
        """Of payments, in parts of what is typically paid and gained."""
        return np.asarray(np.sqrt((self.payments**2).sum(axis=1)) / self.sizes)

    def doubts(self, left: FloatArray) -> FloatArray:
        """Expected 4 p (1 - p) once the variances of the gains have shrunk to `left`, (..., quantities)."""
        first = self.first
        known = np.clip(1.0 - left / np.maximum(first, MIN_DEVIATION**2), 0.0, 1.0)
        ratio = self.means / np.sqrt(np.maximum(first, MIN_DEVIATION**2))
        return np.asarray(8.0 * owens_t(ratio, np.sqrt((1.0 - known) / (1.0 + known))))


def deal_doubts(fit: Fit, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> DealDoubts:
    """What is open about the deal of a federation, under the mechanisms that `suggest` weighs runs for by default."""
    federation = fit.federation(costs=costs, caps=caps, worth=worth)
    uncertainty = fit.uncertainty(worth=worth)
    chosen = _default_mechanisms(federation)
    found = list(outlooks(federation, uncertainty, chosen).values())
    return DealDoubts(
        labels=tuple((each.title, agent) for each in found for agent in each.agents),
        leave_probabilities=np.concatenate([each.leave_probabilities for each in found]),
        payment_spreads=np.concatenate([_open([each.outcomes], len(each.outcomes)).spreads for each in found]),
        assumptions=tuple(each.assumption for each in found for _ in each.agents),
    )


def suggest(
    fit: Fit,
    count: int,
    *,
    costs: Costs,
    caps: ArrayLike | None = None,
    worth: ArrayLike = 1.0,
    mechanisms: Sequence[Mechanism | str] | None = None,
    rng: np.random.Generator | int | None = 0,
    progress: Callable[[str], None] | None = None,
    only_new: bool = False,
) -> tuple[Suggestion, ...]:
    """The `count` runs to train next, in order of use.

    Parameters
    ----------
    fit
        What is known so far.
    costs, caps, worth
        Of the federation the deal is about. Without caps, nobody is asked for more than its largest contribution yet.
    mechanisms
        Whose deals matter; Externality and Shapley if not given, Externality alone where Shapley would take too long.
    rng
        A Generator, an int or None.
    progress
        Told what is being done.
    only_new
        Contributions are whole numbers, and no run is suggested that was made already, or twice: where training is the
        same every time, a repeat teaches nothing.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"count must be a positive whole number of runs, got {count!r:.40}")
    generator = np.random.default_rng(rng)
    largest = fit.observations.contributions.max(axis=0)
    most = np.where(largest > 0, largest, largest.max())
    federation = fit.federation(costs=costs, caps=np.inf if caps is None else caps, worth=worth)
    if caps is not None:
        most = np.where(np.isfinite(federation.caps), federation.caps, most)
    drawn = fit.draws(COMPILED_DRAWS, generator)
    rates = checked_numbers("worth", worth, positive, POSITIVE, names=fit.observations.task_labels)
    found = _outlooks(federation, drawn, rates, mechanisms, progress)
    n_draws = min(map(len, found))
    what = _open(found, n_draws)
    if progress is not None:
        progress("weighing candidates")
    tried = candidate_runs(most, generator, federation.lot_owners)
    if only_new:
        tried = _new_runs(tried, most, fit.observations.contributions)
        count = min(count, len(tried))
    if not count:
        return ()
    predicted = _predictions(fit, drawn, tried, n_draws)
    noise = _noise(fit, predicted)
    chosen = _greedy(count, what, tried, _centred(predicted, axis=-1), noise, repeat=not only_new)
    return tuple(chosen)


def _new_runs(tried: FloatArray, most: FloatArray, made: FloatArray) -> FloatArray:
    """In whole numbers, without those that were made; once few are left, with other mixtures."""
    known = {tuple(run) for run in made.tolist()} | {(0.0,) * most.size}

    def new(runs: FloatArray) -> list[list[float]]:
        return [run for run in np.unique(np.ceil(runs - 1e-9), axis=0).tolist() if tuple(run) not in known]

    found = new(tried)
    if len(found) < MIN_CANDIDATES:
        mixed = np.random.default_rng(len(made)).random((CANDIDATE_MIXTURES, most.size)).round(1) * most
        found = new(np.concatenate([tried, mixed]))
    return np.array(found).reshape(-1, most.size)


def candidate_runs(most: FloatArray, rng: np.random.Generator, lot_owners: Owners | None = None) -> FloatArray:
    """(candidates, n): coalitions at a few levels, and mixtures, up to `most`; distinct, none of them empty.

    Of lots, coalitions of lots, and members with all of their lots, alone and all but one.
    """
    n_agents = most.size
    members = _coalitions(n_agents, rng)
    if lot_owners is not None and np.unique(lot_owners).size < n_agents:
        whole = (lot_owners == np.unique(lot_owners)[:, None]).astype(np.float64)
        members = np.concatenate([members, whole, 1.0 - whole])
    levels = np.concatenate([level * members for level in CANDIDATE_LEVELS])
    mixed = rng.choice([0.0, *CANDIDATE_LEVELS], size=(CANDIDATE_MIXTURES, n_agents))
    found = np.unique(np.concatenate([levels, mixed]) * most, axis=0)
    return np.asarray(found[found.any(axis=1)])


def _coalitions(n_agents: int, rng: np.random.Generator) -> FloatArray:
    """All coalitions of a few agents; of many everybody, everybody but one, each alone, and some pairs."""
    everybody = np.ones((1, n_agents))
    if n_agents <= MAX_AGENTS_ALL_COALITIONS:
        numbers = np.arange(1, 2**n_agents)
        return (numbers[:, None] >> np.arange(n_agents) & 1).astype(np.float64)
    pairs = np.array(list(combinations(range(n_agents), 2)))
    pairs = pairs[rng.permutation(len(pairs))[:MAX_CANDIDATE_PAIRS]]
    two = np.zeros((len(pairs), n_agents))
    np.put_along_axis(two, pairs, 1.0, axis=1)
    return np.concatenate([everybody, 1.0 - np.eye(n_agents), np.eye(n_agents), two])


def _outlooks(
    federation: Federation,
    drawn: Draws,
    rates: FloatArray,
    mechanisms: Sequence[Mechanism | str] | None,
    progress: Callable[[str], None] | None,
) -> list[Outcomes]:
    chosen = resolve_mechanisms(_default_mechanisms(federation) if mechanisms is None else mechanisms)
    quick = all(is_vectorised(federation, each) for each in chosen)
    payoff = federation.payoff.unchecked(**dict.fromkeys(federation.payoff.parameters, drawn.beta))
    arrays = federation.arrays.repeated(
        len(drawn.weights), weights=drawn.weights, values=rates * drawn.values, payoff=payoff
    ).at(slice(None if quick else PLAIN_DRAWS))
    found = []
    for mechanism in chosen:
        if progress is not None:
            progress(f"solving {mechanism.title} on draws")
        found.append(solve_draws(federation, arrays, mechanism))
    return found


def _default_mechanisms(federation: Federation) -> list[Mechanism]:
    """Those in which data is paid for, as far as many federations are solved at once."""
    proper = [each for each in DEFAULT_MECHANISMS.values() if not each.is_baseline]
    return [each for each in proper if is_vectorised(federation, each)] or proper[:1]


def _open(found: Sequence[Outcomes], n_draws: int) -> _Open:
    """What is open, from the draws that every mechanism could be solved on; others count as average."""
    means, gains, payments, sizes, labels = [], [], [], [], []
    for outcomes in found:
        gap, paid = (_filled(numbers[:n_draws]) for numbers in (outcomes.ir_gaps, outcomes.payments))
        means.append(gap.mean(axis=0))
        gains.append(_centred(gap.T, axis=-1))
        payments.append(_centred(paid.T, axis=-1))
        sizes.append(np.full(gap.shape[1], np.abs(gap).mean() + np.abs(paid).mean() + MIN_DEVIATION))
        labels += [(outcomes.rules.title, agent) for agent in outcomes.federation.names]
    return _Open(
        means=np.concatenate(means),
        gains=np.concatenate(gains),
        payments=np.concatenate(payments),
        sizes=np.concatenate(sizes),
        labels=labels,
    )


def _filled(numbers: FloatArray) -> FloatArray:
    solved = np.asarray(~np.isnan(numbers).any(axis=1))
    return np.where(solved[:, None], numbers, numbers[solved].mean(axis=0))


def _centred(numbers: FloatArray, *, axis: int) -> FloatArray:
    """Deviations from the mean whose squares add up to the variance."""
    return np.asarray((numbers - numbers.mean(axis=axis, keepdims=True)) / np.sqrt(max(numbers.shape[axis] - 1, 1)))


def _predictions(fit: Fit, drawn: Draws, tried: FloatArray, n_draws: int) -> FloatArray:
    """(candidates, tasks, draws): the accuracies each candidate would have."""
    curve = CURVE_FAMILIES[fit.family]
    reached = np.einsum("dij,cj->cid", drawn.weights[:n_draws], tried)
    lowest = max(curve.lowest, -1.0) + 1e-6  # draws of negative weights may leave the domain
    shape, _, _ = curve.evaluate(np.maximum(reached, lowest), np.log(drawn.beta[:n_draws]).T)
    floors, values = drawn.floors[:n_draws].T, drawn.values[:n_draws].T
    return np.asarray(np.clip(floors + values * shape, 0.0, 1.0))


def _noise(fit: Fit, predicted: FloatArray) -> FloatArray:
    """(candidates, n): the variance with which accuracies would be measured, misfit included: it teaches nothing."""
    sizes = fit.observations.known_test_sizes()
    typical = None if sizes is None else np.median(sizes, axis=0)
    variance = sampling_variances(predicted.mean(axis=-1), typical) + fit.unexplained**2
    return np.asarray(np.maximum(variance, (0.05 * ASSUMED_NOISE) ** 2))


def _greedy(
    count: int, what: _Open, tried: FloatArray, predicted: FloatArray, noise: FloatArray, *, repeat: bool = True
) -> list[Suggestion]:
    """One run after another, each with the deviations that those before it leave."""
    gains, payments = what.gains, what.payments
    doubts, spreads = what.doubts(what.first), what.spreads
    total = float(doubts.sum() + spreads.sum())
    chosen, taken = [], np.zeros(len(tried), dtype=bool)
    for _ in range(count):
        seen = predicted / np.sqrt(noise)[:, :, None]
        inner = np.asarray(np.linalg.inv(seen @ seen.transpose(0, 2, 1) + np.eye(seen.shape[1])), dtype=np.float64)
        left = [_left(part, seen, inner) for part in (gains, payments)]
        after_doubts, after_spreads = what.doubts(left[0]), np.sqrt(left[1]) / what.sizes
        falls = (doubts - after_doubts) + (spreads - after_spreads)
        best = int(np.where(taken, -np.inf, falls.sum(axis=1)).argmax())
        taken[best] = not repeat
        settled = float(falls[best].sum())
        chosen.append(
            Suggestion(
                contributions=read_only_copy(tried[best]),
                reason=_reason(what, doubts - after_doubts[best], spreads - after_spreads[best], spreads),
                settles=settled / total if total > MIN_OPEN else 0.0,
            )
        )
        doubts, spreads = after_doubts[best], after_spreads[best]
        shrink = _shrinkage(seen[best])
        gains, payments, predicted = gains @ shrink, payments @ shrink, predicted @ shrink
    return chosen


def _left(part: FloatArray, seen: FloatArray, inner: FloatArray) -> FloatArray:
    """(candidates, quantities): variances after each candidate."""
    across = np.einsum("qd,cnd->cqn", part, seen)
    taken = np.einsum("cqn,cnm,cqm->cq", across, inner, across)
    return np.asarray(np.maximum((part**2).sum(axis=1) - taken, 0.0))


def _shrinkage(seen: FloatArray) -> FloatArray:
    """(draws, draws): takes deviations to those left once `seen`, in units of its noise, has been measured."""
    _, sizes, directions = np.linalg.svd(seen, full_matrices=False)
    shorter = 1.0 - 1.0 / np.sqrt(1.0 + sizes**2)
    return np.asarray(np.eye(seen.shape[1]) - (directions.T * shorter) @ directions)


def _reason(what: _Open, doubts: FloatArray, spreads: FloatArray, before: FloatArray) -> str:
    """What falls most, in words."""
    if doubts.sum() + spreads.sum() < MIN_OPEN:
        return "little is left to settle"
    if doubts.max() >= spreads.max():
        mechanism, agent = what.labels[int(doubts.argmax())]
        return f"settles whether {agent} stays under {mechanism}"
    place = int(spreads.argmax())
    mechanism, agent = what.labels[place]
    part = 100.0 * spreads[place] / before[place]
    return f"narrows {agent}'s payment under {mechanism} by {part:.0f} %"
