"""What a member gains by lying, or by posing as several: a few lies, the worst that a search finds, and those of pairs.

**Misreporting.** A liar reports its costs and its values times a factor, and the weights of the others' data to it
times another; a factor below zero claims that the others' data harms it. The outcome follows from the reports, and
liars are judged by their true payoffs and costs. No check finds such a lie: whoever multiplies its numbers by a factor
throughout cannot be told from a member for whom that is the truth.

`misreporting_gains` tries a few factors on costs and values, for one member at a time, all in one batch: enough to
compare mechanisms. `best_lies` tries a grid of each kind alone, then goes on from the best in all three at once, in
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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from fedpact.comparison.batches import solve_arrays
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.federation.splitting import agent_index, split_agent
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.solvers.standalone import standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, NotConverged
from fedpact.utils.words import join_names

FACTORS = (0.5, 0.8, 1.25, 2.0)  # of a few lies, on costs and on values
MAX_AGENTS_LYING = 8  # beyond, solving for every lie of everybody takes long
TRUTH = (1.0, 1.0, 1.0)  # factors on costs, values, and weights of the others
COSTS, VALUES = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0), (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)
WEIGHTS = (-0.5, -0.1, 0.0, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0)
STEPS = (0.5, 0.25, 0.1)  # of a factor, one after the other
MAX_PASSES = 3  # over all factors at every step
LOWEST, HIGHEST = 0.1, 10.0  # factors on costs and values
MOST_HARM, MOST_USE = -1.0, 10.0  # factors on weights
WITHOUT_REPORTS = ("voluntary", "standalone")  # mechanisms under which everybody decides by itself
HEADS = ("who lies", "others may leave", "gains", "says its costs are", "its value", "others' data", "honest one loses")
UTILITY_TOL = 1e-7  # of the values: less is rounding

Factors = tuple[float, float, float]
Lies = dict[int, Factors]


def misreporting_gains(outcome: Outcome, mechanism: Mechanism) -> Mapping[str, float]:
    """By name, the most a member gains by one of the lies tried; NaN where none of its reports has an outcome.

    Examples
    --------
    >>> from fedpact.mechanisms import ExternalityMechanism
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = ExternalityMechanism().solve(hospitals().federation)
    >>> round(misreporting_gains(outcome, ExternalityMechanism())["Clinic"])
    20638
    """
    federation, true = outcome.federation, outcome.arrays
    n_agents, n_factors = federation.n_agents, len(FACTORS)
    lie = np.ones((n_agents * n_factors, n_agents))
    liars = np.repeat(np.arange(n_agents), n_factors)
    lie[np.arange(liars.size), liars] = np.tile(FACTORS, n_agents)
    of_costs, of_values = np.concatenate([lie, np.ones_like(lie)]), np.concatenate([np.ones_like(lie), lie])
    reports = true.repeated(
        len(of_costs),
        linear=true.linear * of_costs[:, true.lot_owners],
        quadratic=true.quadratic * of_costs[:, true.lot_owners],
        values=true.values * of_values[:, true.task_owners],
    )
    found = solve_arrays(federation, reports, mechanism)
    spent = true.spending(found.contributions) + true.joining_costs
    utilities = found.payoffs / of_values - spent + found.payments
    own = utilities[np.arange(2 * liars.size), np.tile(liars, 2)].reshape(2, n_agents, n_factors)
    gains = own - outcome.utilities[:, None]
    return dict(zip(federation.names, np.fmax.reduce(gains, axis=(0, 2)).tolist(), strict=True))


def splitting_gain(federation: Federation, mechanism: Mechanism | str, agent: int | str, parts: int = 2) -> float:
    """What an agent gains by posing as `parts` agents that share its cap and value, in units of payoff.

    Parameters
    ----------
    federation, mechanism
        The instance, and the rules as an object or by name.
    agent
        By name or by number.
    parts
        How many names it uses, at least two.

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


@dataclass(frozen=True, kw_only=True)
class LieStudy:
    """The lies that gain most, in units of payoff.

    Attributes
    ----------
    mechanism, title
        Its name, and what people call it.
    lies
        Of one member and of two, each without and with refusal; of two only if there are as many.
    """

    mechanism: str
    title: str
    lies: tuple[Lie, ...]

    def columns(self) -> dict[str, list[Any]]:
        """One row for each lie; the factors of two stand side by side."""
        columns: dict[str, list[Any]] = {
            "mechanism": [self.mechanism for _ in self.lies],
            "agents": [join_names(lie.agents) for lie in self.lies],
            "refusal": [lie.refusal for lie in self.lies],
            "gain": [lie.gain for lie in self.lies],
            "lowest": [lie.lowest for lie in self.lies],
            "tried": [lie.tried for lie in self.lies],
        }
        for place, kind in enumerate(("costs", "values", "weights")):
            columns[kind] = [" and ".join(f"{factors[place]:g}" for factors in lie.factors) for lie in self.lies]
        return columns

    @property
    def text(self) -> str:
        """The study in words, as Markdown."""
        rows = [HEADS, tuple("---" for _ in HEADS), *(_row(lie) for lie in self.lies)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return (
            f"# What the worst lies gain under {self.title}\n\n"
            f"A liar says a multiple of its costs, of what accuracy is worth to it, and of how useful the others' data "
            f"is; below zero it claims harm. Amounts are in units of payoff; two that collude count together. The last "
            f"column is by how much an honest member then has less than by itself.\n\n{table}\n\n"
            f"These are the lies that a search found. That it finds none proves nothing.\n"
        )


def report_with(federation: Federation, lies: Lies) -> Federation:
    """The federation as it looks when some agents lie."""
    true = federation.arrays
    costs, values, uses = (np.ones(federation.n_agents) for _ in TRUTH)
    for agent, factors in lies.items():
        costs[agent], values[agent], uses[agent] = factors
    others = true.weights - true.own_weights
    return federation.with_arrays(
        replace(
            true,
            linear=true.linear * costs[true.lot_owners],
            quadratic=true.quadratic * costs[true.lot_owners],
            values=true.values * values[true.task_owners],
            weights=true.own_weights + others * uses[true.task_owners, None],
        )
    )


def best_lies(
    federation: Federation,
    mechanism: str | Mechanism,
    *,
    together: int = 1,
    refusal: bool = False,
    liars: Sequence[Sequence[int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Lie:
    """The lie that gains most, over all members or pairs of them.

    Parameters
    ----------
    together
        How many collude.
    refusal
        Whether members leave that have less than by themselves.
    liars
        Who is tried; all groups of that size if not given.
    progress
        Called with whose lies were tried: how many members or pairs, and of how many.

    Raises
    ------
    InvalidInput
        If nobody reports anything under the mechanism.
    NotConverged
        If the mechanism has no outcome when everybody is honest.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> found = best_lies(hospitals().federation, "externality", liars=[[4]])
    >>> found.agents, found.gain > 30_000
    (('Clinic',), True)
    """
    require_single_lots(federation, "the search for lies")
    rules = resolve_mechanism(mechanism)
    if rules.name in WITHOUT_REPORTS:
        raise InvalidInput(f"under {rules.name} nobody reports anything, so there is nothing to lie about")
    search = _Search(federation, rules, refusal)
    groups = list(combinations(range(federation.n_agents), together) if liars is None else map(tuple, liars))
    if not groups:
        raise InvalidInput(f"there must be liars to try, got none of {together} among {federation.n_agents} members")
    found = []
    for place, group in enumerate(groups):
        if progress is not None:
            progress(place, len(groups))
        found.append(search.best_of(group))
    gain, lies, lowest = max(found, key=lambda each: each[0])
    return Lie(
        agents=tuple(federation.names[agent] for agent in lies),
        factors=tuple(lies.values()),
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
) -> LieStudy:
    """Search for the lies that gain most; `progress` is called with how many members and pairs were tried, of all."""
    rules = resolve_mechanism(mechanism)
    size = federation.n_agents
    counts = {together: size if together == 1 else size * (size - 1) // 2 for together in (1, 2) if together <= size}
    lies, done = [], 0
    for together, count in counts.items():
        for refusal in (False, True):

            def tell(place: int, _: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + place, 2 * sum(counts.values()))

            lies.append(best_lies(federation, rules, together=together, refusal=refusal, progress=tell))
            done += count
    return LieStudy(mechanism=rules.name, title=rules.title, lies=tuple(lies))


def _row(lie: Lie) -> tuple[str, ...]:
    who = join_names(lie.agents).replace("|", "\\|").replace("\n", " ")
    leaves = "yes" if lie.refusal else "no"
    if lie.gain <= 0.0:
        return ("no one" if len(lie.agents) == 1 else "no two", leaves, "none found", "", "", "", "")
    kinds = (" and ".join(f"{factors[place]:.3g}" for factors in lie.factors) for place in range(3))
    return (who, leaves, f"{lie.gain:.4g}", *(f"x {kind}" for kind in kinds), f"{lie.lowest:.4g}")


class _Search:
    """The lies of one federation under one mechanism."""

    def __init__(self, federation: Federation, mechanism: Mechanism, refusal: bool) -> None:
        self._federation, self._mechanism, self._refusal = federation, mechanism, refusal
        self.tried = 0
        self._alone = np.array(standalone_optimum(federation)[1])
        self._tol = UTILITY_TOL * float(federation.values.max())
        honest = self._utilities({})
        if honest is None:
            raise NotConverged(f"{mechanism.name} has no outcome when everybody is honest: nothing to compare with")
        self._honest = honest

    def best_of(self, group: tuple[int, ...]) -> tuple[float, Lies, float]:
        """The best lie of some members: its gain, the lie, and how far below standing alone it takes others."""
        best: tuple[float, Lies, float] = (0.0, dict.fromkeys(group, TRUTH), 0.0)
        for lies in _first_lies(group):
            best = self._better(best, lies)
        for step in STEPS:
            for _ in range(MAX_PASSES):
                before = best[0]
                for lies in _near(best[1], step):
                    best = self._better(best, lies)
                if best[0] <= before:
                    break
        return best

    def _better(self, best: tuple[float, Lies, float], lies: Lies) -> tuple[float, Lies, float]:
        self.tried += 1
        found = self._utilities(lies)
        if found is None:
            return best
        gain = float(sum(found[agent] - self._honest[agent] for agent in lies))
        if gain <= best[0] + self._tol:
            return best
        below = np.delete(self._alone - found, list(lies))
        lowest = float(below.max(initial=0.0))
        return gain, lies, lowest if lowest > self._tol else 0.0

    def _utilities(self, lies: Lies) -> FloatArray | None:
        """Everybody's true utility; None if there is no outcome. Whoever leaves has what it has by itself."""
        utilities, inside = self._alone.copy(), np.ones(self._federation.n_agents, dtype=bool)
        report = report_with(self._federation, lies)
        while inside.sum() > 1:
            members = np.flatnonzero(inside)
            found = self._among(report, members)
            if found is None:
                return None
            leaving = found < self._alone[members] - self._tol
            if not self._refusal or not leaving.any():
                utilities[members] = found
                return utilities
            inside[members[leaving]] = False
        return utilities

    def _among(self, report: Federation, members: np.ndarray) -> FloatArray | None:
        """True utilities of those who are in, under the outcome of the reports."""
        everybody = members.size == report.n_agents
        said = report if everybody else report.take(members.tolist())
        true = self._federation if everybody else self._federation.take(members.tolist())
        try:
            outcome = self._mechanism.solve(said)
            given = outcome.contributions
            held_back = said.payoffs(given) - outcome.payoffs  # by mechanisms that give a worse model
            spent = true.costs.value(given) + true.joining_costs
            return np.asarray(true.payoffs(given) - held_back - spent + outcome.payments)
        except FedpactError:
            return None


def _first_lies(group: tuple[int, ...]) -> Iterator[Lies]:
    """Lies of one kind: the same of all, and of several each one's while the others are honest."""
    for kind, factors in enumerate((COSTS, VALUES, WEIGHTS)):
        for factor in factors:
            lie: Factors = (*TRUTH[:kind], factor, *TRUTH[kind + 1 :])  # type: ignore[assignment]
            yield dict.fromkeys(group, lie)
            for liar in group if len(group) > 1 else ():
                yield dict.fromkeys(group, TRUTH) | {liar: lie}


def _near(lies: Lies, step: float) -> Iterator[Lies]:
    """Lies that differ in one factor."""
    for agent, factors in lies.items():
        for kind, factor in enumerate(factors):
            low, high = (LOWEST, HIGHEST) if kind < 2 else (MOST_HARM, MOST_USE)
            moves = (factor * (1.0 + step), factor / (1.0 + step)) if kind < 2 else (factor + step, factor - step)
            for moved in moves:
                changed = list(factors)
                changed[kind] = min(max(moved, low), high)
                yield lies | {agent: (changed[0], changed[1], changed[2])}
