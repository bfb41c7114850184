"""What a member gains by lying, or by posing as several: a few lies, the worst that a search finds, and those of pairs.

**Misreporting.** A liar reports its costs and its values times a factor, and the weights of the others' data to it
times another; a factor below zero claims that the others' data harms it. The outcome follows from the reports, and
liars are judged by their true payoffs and costs. No check finds such a lie: whoever multiplies its numbers by a factor
throughout cannot be told from a member for whom that is the truth.

`misreporting_gains` tries a few factors on costs and values, for one member at a time: enough to compare mechanisms.
`best_lies` tries a grid of each kind alone, then goes on from the best in all three at once, in
steps that shrink while nothing better is found: an adaptive liar that knows everybody's numbers. Two that collude lie
both, or one for both, and count what they gain together. With refusal a member leaves that has less than by itself, by
its own true numbers, and the others deal anew without it, as negotiations and nodes do by default (`least_gain = 0`):
then nobody who is honest ends below standing alone, whatever the lie. Honest members of a mechanism that does not give
everybody that much leave as well, also when nobody lies. That a search finds no lie that pays proves nothing.

**Posing as several.** A federation knows its members by name. An agent that enters under k names shares its cap and its
value among them (`fedpact.federation.splitting`); what its names have under the mechanism adds up. Under M^E nothing is
gained: prices are linear, so an even split is an equilibrium at the same prices. M^Shap counts orders of names, and
pays for more. Where a mechanism has several equilibria, those that its `solve` chooses are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from math import comb
from typing import Any

import numpy as np

from fedpact.comparison.batches import solve_arrays
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.federation.lots import require_single_lots
from fedpact.federation.splitting import agent_index, split_agent
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.solvers.groups import standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.words import join_names

FACTORS = (0.5, 0.8, 1.25, 2.0)  # of a few lies, on costs and on values
MAX_AGENTS_LYING = 8  # beyond, solving for every lie of everybody takes long
MULTIPLES = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)
GRID = (MULTIPLES, MULTIPLES, (-0.5, -0.1, 0.0, *MULTIPLES))  # of each of these, to begin with
STEPS = (0.5, 0.25, 0.1)  # of a factor, one after the other
MAX_PASSES = 3  # over all factors at every step
LOWEST, HIGHEST = np.array([0.1, 0.1, -1.0]), 10.0  # factors on costs, values, and weights of the others
WITHOUT_REPORTS = ("voluntary", "standalone")  # mechanisms under which everybody decides by itself
UTILITY_TOL = 1e-7  # of the values: less is rounding

Factors = tuple[float, float, float]
Found = tuple[float, FloatArray, float]  # a lie's gain, its factors, and how far it takes others below standing alone


def report_with(true: FederationArrays, factors: FloatArray) -> FederationArrays:
    """How a federation looks, (lies, ...), when members (lies, members, 3) report multiples of the truth."""
    costs, values, uses = (factors[..., kind] for kind in range(3))
    others = true.foreign_weights
    return true.repeated(
        len(factors),
        linear=true.linear * costs[:, true.lot_owners],
        quadratic=true.quadratic * costs[:, true.lot_owners],
        values=true.values * values[:, true.task_owners],
        weights=true.own_weights + others * uses[:, true.task_owners, None],
    )


def true_utilities(federation: Federation, mechanism: Mechanism, factors: FloatArray) -> FloatArray:
    """What everybody truly has, (lies, members), under the outcomes of reports; NaN where there is none."""
    true = federation.arrays
    found = solve_arrays(federation, report_with(true, factors), mechanism)
    played = true if mechanism.federated else true.without_sharing()
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = found.played.payoffs(found.contributions)
        part = np.where(found.payoffs == whole, 1.0, found.payoffs / whole)  # where a mechanism gives a worse model
        paid = found.payments - true.spending(found.contributions) - found.joining_costs
        return np.asarray(played.payoffs(found.contributions) * part + paid)


def misreporting_gains(outcome: Outcome, mechanism: Mechanism) -> Mapping[str, float]:
    """By name, the most a member gains by one of the lies tried; NaN where none of its reports has an outcome.

    Examples
    --------
    >>> from fedpact.mechanisms import ExternalityMechanism
    >>> from fedpact import load_scenario
    >>> outcome = ExternalityMechanism().solve(load_scenario("hospitals").federation)
    >>> round(misreporting_gains(outcome, ExternalityMechanism())["Clinic"])
    20638
    """
    names = outcome.federation.names
    factors = np.ones((len(names), 2, len(FACTORS), len(names), 3))
    for liar in range(len(names)):
        for kind in range(2):
            factors[liar, kind, :, liar, kind] = FACTORS
    found = true_utilities(outcome.federation, mechanism, factors.reshape(-1, len(names), 3))
    own = np.einsum("lkl->lk", found.reshape(len(names), -1, len(names)))
    gains = np.fmax.reduce(own, axis=1) - outcome.utilities
    return dict(zip(names, gains.tolist(), strict=True))


def splitting_gain(federation: Federation, mechanism: Mechanism | str, agent: int | str, parts: int = 2) -> float:
    """What an agent, by name or number, gains by posing as `parts` agents that share its cap and value.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> round(splitting_gain(homogeneous, "shapley", 0), 4), abs(splitting_gain(homogeneous, "externality", 0)) < 1e-12
    (0.0242, True)
    """
    rules = resolve_mechanism(mechanism)
    split, posing = split_agent(federation, agent, parts)
    honest = rules.solve(federation).utilities[agent_index(federation, agent)]
    return float(rules.solve(split).utilities[posing].sum() - honest)


@dataclass(frozen=True, kw_only=True)
class Lie:
    """The best lie that was found.

    Attributes
    ----------
    agents, factors
        Who lies, and by which factors on costs, values and weights of the others.
    refusal
        Whether members leave that have less than by themselves.
    gain
        What it gains over honesty, in units of payoff; of two, together.
    lowest
        The largest amount by which an honest member then has less than by itself; 0 if nobody has.
    tried
        How many lies were tried.
    """

    agents: tuple[str, ...]
    factors: tuple[Factors, ...]
    refusal: bool
    gain: float
    lowest: float
    tried: int

    def row(self) -> dict[str, Any]:
        """Of a table; the factors of two stand side by side."""
        kinds = zip(("costs", "values", "weights"), zip(*self.factors, strict=True), strict=True)
        numbers = {name: getattr(self, name) for name in ("refusal", "gain", "lowest", "tried")}
        factors = {name: " and ".join(f"{factor:.4g}" for factor in each) for name, each in kinds}
        return {"agents": join_names(self.agents), **numbers, **factors}


def best_lies(
    federation: Federation,
    mechanism: str | Mechanism,
    *,
    together: int = 1,
    refusal: bool = False,
    liars: Sequence[Sequence[int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Lie:
    """The lie that gains most, over all groups of `together` members or the `liars` given; with or without refusal.

    `progress` is called with whose lies were tried: how many groups, and of how many.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> found = best_lies(load_scenario("hospitals").federation, "externality", liars=[[4]])
    >>> found.agents, found.gain > 30_000
    (('Clinic',), True)
    """
    require_single_lots(federation, "the search for lies")
    rules = resolve_mechanism(mechanism)
    if rules.name in WITHOUT_REPORTS:
        raise InvalidInput(f"under {rules.name} nobody reports anything, so there is nothing to lie about")
    groups = list(map(list, combinations(range(federation.n_agents), together) if liars is None else liars))
    if not groups:
        raise InvalidInput(f"there must be liars to try, got none of {together} among {federation.n_agents} members")
    search = _Search(federation, rules, refusal=refusal)
    best = None
    for index, group in enumerate(groups):
        if progress is not None:
            progress(index, len(groups))
        found = search.best_of(group)
        if best is None or found[0] > best[0]:
            best, agents = found, group
    assert best is not None
    gain, factors, lowest = best
    return Lie(
        agents=tuple(federation.names[agent] for agent in agents),
        factors=tuple(tuple(each) for each in factors.tolist()),
        refusal=refusal,
        gain=gain,
        lowest=lowest,
        tried=search.tried,
    )


def lie_study(
    federation: Federation,
    mechanism: str | Mechanism = "externality",
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Lie, ...]:
    """The lies that gain most, of one member and of two, each without and with refusal.

    `progress` is called with how many members and pairs were tried, and of how many.
    """
    size, done = federation.n_agents, count()
    asked = [(together, refusal) for together in (1, 2) if together <= size for refusal in (False, True)]
    total = sum(comb(size, together) for together, _ in asked)

    def tell(*_: int) -> None:
        if progress is not None:
            progress(next(done), total)

    return tuple(
        best_lies(federation, mechanism, together=together, refusal=refusal, progress=tell)
        for together, refusal in asked
    )


class _Search:
    """The lies of one federation under one mechanism."""

    def __init__(self, federation: Federation, mechanism: Mechanism, *, refusal: bool) -> None:
        self._federation, self._mechanism, self._refusal = federation, mechanism, refusal
        self.tried = 0
        self._alone = np.array(standalone_optimum(federation)[1])
        self._tol = UTILITY_TOL * float(federation.values.max())
        self._honest = self._utilities(np.ones((1, federation.n_agents, 3)))[0]
        if np.isnan(self._honest).any():
            raise NotConverged(f"{mechanism.name} has no outcome when everybody is honest: nothing to compare with")

    def best_of(self, group: list[int]) -> Found:
        """The best lie of some members."""
        best = self._better((0.0, np.ones((len(group), 3)), 0.0), group, _first_lies(len(group)))
        for step in STEPS:
            for _ in range(MAX_PASSES):
                before = best[0]
                best = self._better(best, group, _near(best[1], step))
                if best[0] <= before:
                    break
        return best

    def _better(self, best: Found, group: list[int], lies: list[FloatArray]) -> Found:
        """The best of some lies, if it is better than the best so far."""
        self.tried += len(lies)
        factors = np.ones((len(lies), self._federation.n_agents, 3))
        factors[:, group] = lies
        found = self._utilities(factors)
        gains = np.nan_to_num((found - self._honest)[:, group].sum(axis=1), nan=-np.inf)
        first = int(np.argmax(gains))
        if gains[first] <= best[0] + self._tol:
            return best
        lowest = float(np.delete(self._alone - found[first], group).max(initial=0.0))
        return float(gains[first]), lies[first], lowest if lowest > self._tol else 0.0

    def _utilities(self, factors: FloatArray) -> FloatArray:
        """Everybody's true utility, (lies, members); NaN without an outcome. Whoever leaves has what it has alone."""
        found, inside = np.full(factors.shape[:2], np.nan), np.ones(factors.shape[:2], dtype=np.bool_)
        waiting = np.arange(len(factors))
        while waiting.size:
            members = inside[waiting[0]]
            alike = (inside[waiting] == members).all(axis=1)
            lies, waiting = waiting[alike], waiting[~alike]
            utilities = np.tile(self._alone, (lies.size, 1))
            if members.sum() > 1:
                among = self._federation if members.all() else self._federation.take(members)
                utilities[:, members] = true_utilities(among, self._mechanism, factors[lies][:, members])
            leaving = (utilities < self._alone - self._tol) & self._refusal
            again = leaving.any(axis=1)
            found[lies[~again]] = utilities[~again]
            inside[lies[again]] &= ~leaving[again]
            waiting = np.concatenate([waiting, lies[again]])
        return found


def _first_lies(size: int) -> list[FloatArray]:
    """Lies (size, 3) of one kind: the same of all, and of several each one's while the others are honest."""
    lies = []
    for kind, factors in enumerate(GRID):
        for factor in factors:
            for liars in [slice(None), *(range(size) if size > 1 else ())]:
                lies.append(np.ones((size, 3)))
                lies[-1][liars, kind] = factor
    return lies


def _near(lie: FloatArray, step: float) -> list[FloatArray]:
    """Lies that differ in one factor."""
    lies = []
    for liar, kind in np.ndindex(lie.shape):
        for sign in (1.0, -1.0):
            changed = lie.copy()
            changed[liar, kind] = lie[liar, kind] * (1.0 + step) ** sign if kind < 2 else lie[liar, kind] + sign * step
            lies.append(np.clip(changed, LOWEST, HIGHEST))
    return lies
