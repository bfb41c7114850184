"""Whether there is any free-riding equilibrium at all: one is found, or there is a proof that there is none.

At an equilibrium with reach y = W s, every agent i is in one of three places, and each has its linear consequences.
With worth_i = values_i w_ii and t_i(x) the reach at which worth_i g_i' = c_i'(x), falling and convex in x:

    wants     s_i < cap_i: no more is wanted, worth_i g_i'(y_i) <= c_i'(s_i); and since slopes of payoffs are convex,
              worth_i (g_i'(a) + g_i''(a) (y_i - a)) <= c_i'(s_i)  for every a
    enough    s_i > 0 and s_i >= x: no less is wanted, y_i <= t_i(x)
    chord     the same with l <= s_i <= u: y_i lies below the chord of t_i from l to u
    floor     payoffs are defined, and numbers that floats hold: y_i >= floor_i

Where a linear program finds no contributions that satisfy them, multiples of these inequalities add up to a
contradiction, which is a proof that anybody can check (`fedpact.certificates.no_equilibrium`). Where it finds some,
they are an equilibrium, or an agent is told to be at its bound in one case and away from it in another, or, where its
marginal costs rise, below an amount and above. Cost: a linear program per case.

A proof is plain data: {"rows": [[name, agent, where, multiplier], ...]} of a contradiction, where being a, t_i(x), or
both ends of the chord; or {"agent", "bound", "at", "away"}, two proofs: for the bound "cap" or "zero" of the agent at
it and not, for a number of the agent contributing at most and at least so much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fedpact.federation import Federation
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.equilibrium_cases import LEEWAY, Case, Leaf, Row
from fedpact.utils.arrays import FloatArray, like_sized

Proof = dict[str, Any]

MAX_WORK = 3_000_000  # numbers in all linear programs together, a few seconds
WORK_PER_CASE = 1_500  # numbers that take as long as a linear program without any
MAX_DEPTH = 300  # of cases within cases
MAX_CUTS = 6  # rounds of tangents in one case
MAX_REPAIRS = 30
MAX_FAILURES = 4  # of linear programs, by rounding
GROWTH = 1e3  # from one amount to the next, of who might contribute without end
MAX_POLISHES = 12  # contributions that might be an equilibrium, from which Newton steps are tried
SLOPE_LEEWAY = 1e-11  # of a slope, the same
FEASIBLE = 1e-9  # a violation, with numbers of like size, that is rounding of the linear program
VIOLATED = 1e-7  # the same, of complementarity, from which on an agent is looked at
MAX_NAMES = 3  # told in an error
CLOSE = 1e-3  # of an interval, to its ends
CLOSE_BY = 1e-6  # of data, that an inequality by itself is to spare
WORTH_TELLING = 2.0  # times: a bound that moves by less is left to linear programs
MAX_TOLD = 3  # agents looked at for such a bound
TOO_LITTLE, FAR = 1e-3, 1e6  # of what an agent would usually contribute: bounds beyond are not worth telling
ZERO_BOUND = "zero"


Told = tuple[int, str | float, int, Leaf]  # an agent, its bound, and which side of it is a contradiction: at or away


class Refuter:
    """Looks for an equilibrium, or for the proof that there is none.

    `polish` takes contributions that may be an equilibrium to one, or returns None.
    """

    def __init__(self, federation: Federation, polish: Callable[[FloatArray], FloatArray | None]) -> None:
        self.federation, self.polish = federation, polish
        self.weights, self.caps = federation.dense_weights(), federation.caps
        self.floor = np.broadcast_to(federation.payoff.lowest_finite, federation.n_agents)
        self.worth = federation.values * federation.own_weights
        self.linear = np.broadcast_to(federation.costs.linear, federation.n_agents)
        self.quadratic = np.broadcast_to(federation.costs.quadratic, federation.n_agents)
        self.own = federation.own_weights
        others = self.weights - np.diag(np.diagonal(self.weights))
        self.helps, self.harms = np.maximum(others, 0.0), np.minimum(others, 0.0)
        self.found: FloatArray | None = None
        self.alone, _ = standalone_optimum(federation)
        self.usual = np.maximum(self.alone, np.abs(np.nan_to_num(self.wanted(self.alone), posinf=0.0)) / self.own)
        self.usual = np.maximum(self.usual, np.finfo(float).tiny)
        self.polishes = MAX_POLISHES
        self.left = MAX_WORK

    def decide(self) -> FloatArray | Proof | None:
        """An equilibrium, a proof that there is none, or None where neither was found."""
        able = self.caps > 0
        first = self.wanted(np.zeros_like(self.caps))
        tangents = [(agent, float(first[agent])) for agent in np.flatnonzero(np.isfinite(first) & able).tolist()]
        case = Case(
            low=np.zeros_like(self.caps),
            high=self.caps,
            below_cap=frozenset(np.flatnonzero(np.isinf(self.caps)).tolist()),
            tangents=tuple((agent, at) for agent, at in tangents if at > self.floor[agent]),
        )
        refuted = self._refute(case)
        if self.found is not None:
            return self.found
        return None if refuted is None else refuted[0]

    def wanted(self, contributions: FloatArray) -> FloatArray:
        """t_i(s_i), the reach at which nobody wants to change its own contribution."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            marginal = self.linear + 2.0 * self.quadratic * contributions
            return np.asarray(self.federation.payoff.inverse_slope(marginal / self.worth))

    def _surely_enough(self, contributions: FloatArray) -> FloatArray:
        """t_i(s_i) and a little more, so that rounding of reach and of slopes leaves no doubt."""
        wanted, payoff = self.wanted(contributions), self.federation.payoff
        defined = np.isfinite(wanted) & (wanted > self.floor)
        at = np.where(defined, wanted, 0.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            width = payoff.slope(at) / -payoff.curvature(at)
        width = np.where(defined & np.isfinite(width), width, 0.0)
        return np.asarray(wanted + LEEWAY * np.abs(wanted) + SLOPE_LEEWAY * width)

    def _refute(self, case: Case, depth: int = 0) -> tuple[Proof, list[Leaf]] | None:
        """The proof that no equilibrium is in a case, with its contradictions; None without one, or one is found."""
        if 0 < depth <= MAX_DEPTH and (told := self._told_apart(case)) is not None:
            return self._refute_told(case, told, depth)
        agent: int | None = None
        bound: str | float | None = None
        for _ in range(MAX_CUTS):
            if self.left <= 0 or depth > MAX_DEPTH:
                return None
            leaf, s, agent = self._solve(case)
            if s is None:
                if leaf is not None:
                    return {"rows": leaf.rows}, [leaf]
                bound = self._bound_without_end(case, agent)
                break
            agent, bound = self._most_violated(case, s)
            cuts = self._cuts(case, s)
            if not cuts or set(cuts) <= set(case.tangents):
                break
            case = replace(case, tangents=case.tangents + cuts)
        if s is not None and (agent is None or isinstance(bound, float)):
            self.polishes -= 1
            self.found = self.polish(s) if self.polishes >= 0 else None
        if agent is None or bound is None or self.found is not None:
            return None
        if not depth and (told := self._told_apart(case)) is not None:  # before, the simplest proof was tried
            return self._refute_told(case, told, depth)
        refuted = []
        for branch in case.with_bound(agent, bound, self.caps):
            part = self._refute(branch, depth + 1)
            if part is None:
                return None
            freed = [leaf.without(agent, case) for leaf in part[1]]
            if all(leaf is not None for leaf in freed):  # it did not take the bound: what is proved holds in both
                return part[0], [leaf for leaf in freed if leaf is not None]
            refuted.append(part)
        (at, first), (away, second) = refuted
        return {"agent": int(agent), "bound": bound, "at": at, "away": away}, first + second

    def _refute_told(self, case: Case, told: Told, depth: int) -> tuple[Proof, list[Leaf]] | None:
        """The same where one side of a bound is a contradiction that is known."""
        agent, bound, side, leaf = told
        part = self._refute(case.with_bound(agent, bound, self.caps)[1 - side], depth + 1)
        if part is None:
            return None
        freed = [each.without(agent, case) for each in part[1]]
        if all(each is not None for each in freed):  # it did not take the bound
            return part[0], [each for each in freed if each is not None]
        sides = [part[0], part[0]]
        sides[side] = {"rows": leaf.rows}
        return {"agent": agent, "bound": bound, "at": sides[0], "away": sides[1]}, [leaf, *part[1]]

    def _told_apart(self, case: Case) -> Told | None:
        """A bound of an agent of which one side (0 at it, 1 away) is a contradiction by one inequality alone.

        Whoever has more than it wants, whatever the others do, contributes less; whoever has less, more.
        """
        if self.left <= 0:
            return None
        self.left -= self.weights.size
        least, most = self._from_others(case)
        at = np.where(self.quadratic > 0, np.maximum(self.alone, case.low), case.low)
        enough = self._surely_enough(at)
        with np.errstate(over="ignore", invalid="ignore"):
            amount = (enough - least + CLOSE_BY * (np.abs(enough) + np.abs(least))) / self.own
            amount = np.where(self.quadratic > 0, np.maximum(amount, at), amount)
            open_above = (case.low < case.high) & (amount <= FAR * self.usual)
            fall = np.where(open_above, case.high / np.maximum(amount, np.finfo(float).tiny), 0.0)
        for agent in np.argsort(-fall, kind="stable")[:MAX_TOLD].tolist():
            if not fall[agent] >= WORTH_TELLING:
                break
            is_zero = amount[agent] <= 0.0 and agent not in case.positive
            if not (is_zero or amount[agent] > case.low[agent]):
                continue
            bound = ZERO_BOUND if is_zero else float(amount[agent])
            side = case.with_bound(agent, bound, self.caps)[1]
            reach = float(self._surely_enough(side.low)[agent])
            if (leaf := self._single(side, ["enough", agent, reach])) is not None:
                return agent, bound, 1, leaf
        return self._told_to_give(case, most)

    def _told_to_give(self, case: Case, most: FloatArray) -> Told | None:
        """The same of those who have too little."""
        wanted = self.wanted(self.alone)
        with np.errstate(over="ignore", invalid="ignore"):
            amount = (wanted - most - CLOSE_BY * (np.abs(wanted) + np.abs(most))) / self.own
            amount = np.where(self.quadratic > 0, np.minimum(amount, self.alone), amount)
            open_below = (case.low < case.high) & (amount <= FAR * self.usual)
            rise = np.where(open_below, amount / np.maximum(case.low, TOO_LITTLE * self.usual), 0.0)
        for agent in np.argsort(-rise, kind="stable")[:MAX_TOLD].tolist():
            if not rise[agent] >= WORTH_TELLING:
                break
            full = amount[agent] >= self.caps[agent]
            if agent in case.below_cap if full else amount[agent] >= case.high[agent]:
                continue
            bound: str | float = "cap" if full else float(amount[agent])
            refuted = 1 if full else 0
            side = case.with_bound(agent, bound, self.caps)[refuted]
            if (leaf := self._single(side, ["wants", agent, float(wanted[agent])])) is not None:
                return agent, bound, refuted, leaf
        return None

    def _from_others(self, case: Case) -> tuple[FloatArray, FloatArray]:
        """The least and the most data that the others' contributions bring."""
        finite, endless = np.where(np.isinf(case.high), 0.0, case.high), np.isinf(case.high).astype(float)
        with np.errstate(over="ignore", invalid="ignore"):
            least = self.helps @ case.low + self.harms @ finite
            most = self.helps @ finite + self.harms @ case.low
        return np.where(self.harms @ endless < 0, -np.inf, least), np.where(self.helps @ endless > 0, np.inf, most)

    def _single(self, case: Case, row: Row) -> Leaf | None:
        """The contradiction that one inequality is in a case, if it is."""
        names, matrix, bounds = self._rows(replace(case, tangents=((row[1], row[2]),) if row[0] == "wants" else ()))
        places = [place for place, name in enumerate(names) if name[:2] == row[:2]]
        if not places:
            return None
        leaf = self._add_up(case, [names[places[0]]], matrix[places[:1]], bounds[places[:1]], np.ones(1))
        return leaf if leaf.spare > LEEWAY * leaf.size else None

    def _bound_without_end(self, case: Case, agent: int | None) -> str | float:
        """Where to tell apart who contributes without end, which the linear program overlooked.

        If that is known to be positive already, and yet no data is enough or not in proportion, then by an amount: what
        it would contribute alone, or more.
        """
        if agent not in case.positive or self.alone[agent] <= 0:
            return "zero"
        return float(max(self.alone[agent], GROWTH * case.low[agent]))

    def _rows(self, case: Case) -> tuple[list[Row], FloatArray, FloatArray]:
        """The inequalities of a case, matrix @ s >= bounds."""
        drawn = [(agent, at) for agent, at in case.tangents if agent in case.below_cap]
        agents, places = np.array([agent for agent, _ in drawn], dtype=int), np.array([at for _, at in drawn])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            payoff, worth = self.federation.payoff.take(agents), self.worth[agents]
            bends = -worth * payoff.curvature(places)
            owns = 2.0 * self.quadratic[agents] / bends
            reaches = places + (worth * payoff.slope(places) - self.linear[agents]) / bends
        usable = np.flatnonzero((bends > 0) & np.isfinite(owns) & np.isfinite(reaches))
        names: list[Row] = [["wants", *drawn[place]] for place in usable.tolist()]
        tangents = self.weights[agents[usable]]
        tangents[np.arange(usable.size), agents[usable]] += owns[usable]
        matrix, bounds = [], []

        def add(row: Row, sign: float, own: float, bound: float) -> None:
            agent = row[1]
            factors = sign * self.weights[agent]
            factors[agent] += own
            if np.isfinite(own) and np.isfinite(bound):
                names.append(row)
                matrix.append(factors)
                bounds.append(bound)

        enough = self._surely_enough(case.low)
        ends = self._surely_enough(np.where(np.isfinite(case.high), case.high, 0.0))
        for agent in sorted(case.positive):
            left, right, width = float(enough[agent]), float(ends[agent]), case.high[agent] - case.low[agent]
            add(["enough", agent, left], -1.0, 0.0, -left)
            if self.quadratic[agent] > 0 and 0 < width < np.inf and np.isfinite(left):
                falls = (right - left) / width
                add(["chord", agent, [left, right]], -1.0, float(falls), float(-left + falls * case.low[agent]))
        for agent in np.flatnonzero(np.isfinite(self.floor)).tolist():
            add(["floor", agent, None], 1.0, 0.0, float(self.floor[agent]))
        others = np.array(matrix).reshape(len(bounds), self.caps.size)
        return names, np.vstack([tangents, others]), np.concatenate([reaches[usable], np.array(bounds)])

    def _solve(self, case: Case) -> tuple[Leaf | None, FloatArray | None, int | None]:
        """Inequalities that contradict each other, or contributions that satisfy all.

        With no contributions and an agent: that agent's contribution would have to be told apart first.
        """
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the ordinary case

        names, matrix, bounds = self._rows(case)
        self.left -= WORK_PER_CASE + matrix.size
        if not names:
            return None, case.low, None
        loose = np.hstack([matrix + LEEWAY * np.abs(matrix), (bounds - LEEWAY * np.abs(bounds))[:, None]])
        rows, columns = like_sized(loose)
        level, unit = rows[:, None] * loose * columns, columns[:-1] / columns[-1]
        with np.errstate(over="ignore"):
            box = [*zip(case.low / unit, case.high / unit, strict=True), (0.0, None)]
        # As little violation of all of them as possible.
        answer = linprog(
            np.append(np.zeros(unit.size), 1.0),
            A_ub=-np.hstack([level[:, :-1], np.ones((len(names), 1))]),
            b_ub=-level[:, -1],
            bounds=box,
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if answer.x is None:  # rounding is too much for it
            self.left -= MAX_WORK // MAX_FAILURES
            return None, case.low, None
        if answer.fun <= FEASIBLE:
            return None, np.clip(answer.x[:-1] * unit, case.low, case.high), None
        multipliers, repaired, is_repaired = self._repair(
            case, names, matrix, np.maximum(-answer.ineqlin.marginals, 0.0) * rows
        )
        if not is_repaired:
            return None, None, repaired
        leaf = self._add_up(case, names, matrix, bounds, multipliers)
        if repaired is not None and not leaf.spare > 0:  # what was repaired is no contradiction any more
            return None, None, repaired
        return leaf, None, None

    def _add_up(
        self, case: Case, names: list[Row], matrix: FloatArray, bounds: FloatArray, multipliers: FloatArray
    ) -> Leaf:
        """What the inequalities say together."""
        gains, asked = multipliers @ matrix, multipliers * bounds
        most = np.where(gains > 0, case.high, case.low)
        reached = np.where(gains != 0, gains * np.where(gains != 0, most, 0.0), 0.0)
        return Leaf(
            case=case,
            rows=[[*row, float(m)] for row, m in zip(names, multipliers, strict=True) if m > 0],
            gains=gains,
            spare=float(asked.sum() - reached.sum()),
            size=float(np.abs(asked).sum() + np.abs(reached).sum()),
        )

    def _repair(
        self, case: Case, names: list[Row], matrix: FloatArray, multipliers: FloatArray
    ) -> tuple[FloatArray, int | None, bool]:
        """Multipliers under which nobody without a cap could make up for what is missing; who could, by rounding.

        What is small beside other numbers of a column passes for nothing in a linear program, but without a cap it
        counts. An agent that has enough data of its own is held against it by that; the last says whether it is.
        """
        enough = {row[1]: place for place, row in enumerate(names) if row[0] == "enough"}
        multipliers = multipliers / multipliers.max()
        repaired = None
        for _ in range(MAX_REPAIRS):
            gains = multipliers @ matrix
            open_ended = np.flatnonzero(np.isinf(case.high) & (gains > 0))
            if not open_ended.size:
                return multipliers, repaired, True
            for agent in open_ended.tolist():
                if agent not in enough:
                    return multipliers, agent, False
                place, repaired = enough[agent], agent
                multipliers[place] += (1.0 + CLOSE) * gains[agent] / -matrix[place, agent]
        return multipliers, repaired, False

    def _cuts(self, case: Case, s: FloatArray) -> tuple[tuple[int, float], ...]:
        """Tangents that exclude contributions at which somebody below its cap, its costs bending, wants more."""
        y, wanted = self.weights @ s, self.wanted(s)
        free = np.isin(np.arange(s.size), list(case.below_cap)) & (self.quadratic > 0) & (self.caps > 0)
        short = free & (wanted - y > VIOLATED * self._sizes(s))
        # Where the first sample costs nothing any tangent says that some is contributed.
        middle = np.where(
            np.isfinite(wanted), 0.5 * (np.maximum(y, self.floor) + wanted), np.maximum(y, 0.5 * self.floor)
        )
        return tuple((int(agent), float(middle[agent])) for agent in np.flatnonzero(short & np.isfinite(middle)))

    def _sizes(self, s: FloatArray) -> FloatArray:
        return np.abs(self.weights) @ s + np.abs(np.nan_to_num(self.wanted(s), posinf=0.0)) + np.finfo(float).tiny

    def _most_violated(self, case: Case, s: FloatArray) -> tuple[int | None, str | float | None]:
        """Who is not at the bound that would explain what it has, of those not yet told apart."""
        y, wanted, sizes = self.weights @ s, self.wanted(s), self._sizes(s)
        agents = np.arange(s.size)
        positive, below = (np.isin(agents, list(chosen)) for chosen in (case.positive, case.below_cap))
        with np.errstate(invalid="ignore"):
            short = np.where((case.low < case.high) & (s < self.caps) & ~below, (wanted - y) / sizes, 0.0)
            spare = np.where((case.low < case.high) & (s > 0), (y - wanted) / sizes, 0.0)
        spare[positive & (self.quadratic == 0)] = 0.0
        short, spare = np.nan_to_num(short), np.nan_to_num(spare)
        worst = int(np.argmax(np.maximum(short, spare)))
        if max(short[worst], spare[worst]) <= VIOLATED:
            return None, None
        if short[worst] >= spare[worst]:
            return worst, "cap"
        return worst, self._amount(case, s, worst) if positive[worst] else "zero"

    def _amount(self, case: Case, s: FloatArray, agent: int) -> float:
        """Where to cut the interval of an agent in two: at what it contributes, away from the ends."""
        low, high, at = float(case.low[agent]), float(case.high[agent]), float(s[agent])
        if np.isinf(high):
            return max(at, 2.0 * low)
        return float(np.clip(at, low + 0.1 * (high - low), high - 0.1 * (high - low)))


def decide_equilibrium(
    federation: Federation, polish: Callable[[FloatArray], FloatArray | None]
) -> FloatArray | Proof | None:
    """An admissible free-riding equilibrium, a proof that there is none, or None where neither was found."""
    return Refuter(federation, polish).decide()


def leaves(proof: Proof) -> Iterator[Proof]:
    """The cases of a proof, each a contradiction."""
    if "rows" in proof:
        yield proof
        return
    yield from leaves(proof["at"])
    yield from leaves(proof["away"])


def contradictions(proof: Proof) -> Iterator[list[Any]]:
    """All the inequalities a proof uses, those of each case in the order of their agents."""
    for leaf in leaves(proof):
        yield from leaf["rows"]


def explain(federation: Federation, proof: Proof) -> str:
    """Who cannot all be content, in words."""
    rows = list(contradictions(proof))
    growing, harmed = (_names(federation, name, rows) for name in ("wants", "floor"))
    cases = sum(1 for _ in leaves(proof))
    text = "there is no free-riding equilibrium, as linear inequalities prove" + (
        f" in {cases} cases" if cases > 1 else ""
    )
    beyond = "beyond the domain of its payoff"
    if np.isneginf(federation.payoff.floor).all():
        text = text.replace("equilibrium", "equilibrium with finite payoffs", 1)
        beyond = "so much that its payoff curve falls below -1.8e308, the lowest number that computers reckon with"
    if growing and harmed:
        text += f": what {growing} would contribute to have the data wanted harms {harmed} {beyond}"
    elif harmed:
        text += f": others harm {harmed} {beyond}"
    else:
        text += f": {growing} would contribute more and more without end, to make up for the harm of others"
    return text + "; give lower caps to those who harm"


def _names(federation: Federation, name: str, rows: list[list[Any]]) -> str:
    agents = list(dict.fromkeys(row[1] for row in rows if row[0] == name))
    return ", ".join(f'"{federation.names[agent]}"' for agent in agents[:MAX_NAMES])
