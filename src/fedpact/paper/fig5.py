"""Fig. 5: would an agent stay if its data harms the others?

Agents 1, 2 and 3 value each other's data fully. Agent 0's data has weight w_k0 to each of them (outgoing), theirs has
weight w_0k to agent 0 (incoming). beta = 0.5, costs (0.1, 0.3, 0.3, 0.3), caps 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.deals import Outcome
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import ExternalityMechanism, Mechanism, ShapleyMechanism
from fedpact.paper import drawing
from fedpact.paper.results import (
    ZERO_AMOUNT,
    Judgement,
    Result,
    Statements,
    Verdict,
    judge,
    number,
    numbers,
    pipe_table,
    span,
    within,
)
from fedpact.paper.table1 import interior_payments
from fedpact.report.plots.style import FAINT, INK
from fedpact.utils.arrays import FloatArray

INCOMING = (-0.1, 0.0, 0.1)
LOWEST, HIGHEST = -1.0, 0.3
BETA, COSTS, CAP = 0.5, (0.1, 0.3, 0.3, 0.3), 3.0
PANEL_POINTS = 53  # steps of 0.025, zero among them
MECHANISMS: Mapping[str, Mechanism] = {"externality": ExternalityMechanism(), "shapley": ShapleyMechanism()}
CROSSING = 1e-12  # how finely a crossing is sought


def four_agents(incoming: float, outgoing: float) -> Federation:
    """The instance with weights w_0k and w_k0."""
    weights = np.ones((4, 4))
    weights[0, 1:], weights[1:, 0] = incoming, outgoing
    return Federation(weights, costs=COSTS, caps=CAP, payoff=PowerLaw(beta=BETA))


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Both mechanisms over the outgoing weights, at one incoming weight."""

    incoming: float
    outgoing: FloatArray
    outcomes: Mapping[str, Sequence[Outcome]]

    def gaps(self, mechanism: str) -> FloatArray:
        """Delta_0."""
        return self._of_agent_0(mechanism, "ir_gaps")

    def payments(self, mechanism: str) -> FloatArray:
        """p_0."""
        return self._of_agent_0(mechanism, "payments")

    def contributions(self, mechanism: str) -> FloatArray:
        """s_0."""
        return self._of_agent_0(mechanism, "contributions")

    def at_bound(self, mechanism: str) -> NDArray[np.bool_]:
        """Where agent 0 contributes nothing or all it has."""
        given = self.contributions(mechanism)
        return (given == 0.0) | (given >= CAP - ZERO_AMOUNT)

    @property
    def externality(self) -> FloatArray:
        """T_0 under M^E: what one more sample of agent 0's is worth to the others."""
        return self._of_agent_0("externality", "net_externality")

    @property
    def in_domain(self) -> NDArray[np.bool_]:
        """Where every profile within the caps leaves every payoff defined, as Proposition 1 asks."""
        return 1.0 + CAP * np.minimum(np.minimum(self.outgoing, 3.0 * self.incoming), 0.0) > ZERO_AMOUNT

    @property
    def deficits(self) -> FloatArray:
        """What the payments of equation 12 sum to under M^E: zero where the optimum is interior."""
        outcomes = self.outcomes["externality"]
        return np.array([interior_payments(each.federation, each.contributions).sum() for each in outcomes])

    def _of_agent_0(self, mechanism: str, quantity: str) -> FloatArray:
        """Something of agent 0's at every outgoing weight, with rounding set to zero."""
        found = np.array([getattr(outcome, quantity)[0] for outcome in self.outcomes[mechanism]])
        return np.where(np.abs(found) <= ZERO_AMOUNT, 0.0, found)

    @cached_property
    def crossings(self) -> Mapping[str, Sequence[float]]:
        """The outgoing weights at which Delta_0 changes its sign, per mechanism."""
        return {name: self._crossings(name) for name in MECHANISMS}

    def crossing(self, mechanism: str) -> float:
        """The one crossing of a curve; undefined if there are more or none."""
        indices = self.crossings[mechanism]
        return indices[0] if len(indices) == 1 else float("nan")

    def _crossings(self, mechanism: str) -> list[float]:
        from scipy.optimize import brentq  # noqa: PLC0415 - heavy, and only needed here

        gaps = self.gaps(mechanism)
        signed = np.flatnonzero(gaps)
        turns = [(before, after) for before, after in pairwise(signed) if gaps[before] * gaps[after] < 0]

        def gap(outgoing: float) -> float:
            return float(MECHANISMS[mechanism].solve(four_agents(self.incoming, outgoing)).ir_gaps[0])

        return [brentq(gap, self.outgoing[before], self.outgoing[after], xtol=CROSSING) for before, after in turns]


@lru_cache
def panel(incoming: float, points: int = PANEL_POINTS) -> Panel:
    """Solve both mechanisms over the outgoing weights."""
    outgoing = np.round(np.linspace(LOWEST, HIGHEST, points), 12)
    return Panel(
        incoming=incoming,
        outgoing=outgoing,
        outcomes={
            name: tuple(rules.solve(four_agents(incoming, weight)) for weight in outgoing)
            for name, rules in MECHANISMS.items()
        },
    )


FIG_5 = Statements("section 8, Fig. 5")
AT_ZERO = 1e-6  # a crossing this near to zero is at zero

FIG_5_TEXT = """\
Agent 0's gain over training alone, Δ_0, against the weight w_k0 of its data to agents 1, 2 and 3, who value each
other's data fully; w_0k is the weight of theirs to agent 0. The paper's parameters: β = 0.5, γ = (0.1, 0.3, 0.3, 0.3),
τ = 3, w_k0 from −1 to 0.3, w_0k in {{−0.1, 0, 0.1}}.

Where the curves cross zero, by computation (the paper gives the signs, and 0 for M^E):

{crossings}

A curve is dotted where agent 0 contributes nothing or its cap: interior formulas do not apply there.

Agents 1, 2 and 3 may share their contributions in many ways under M^E; Δ_0 is the same at all of them. Where w_k0 ≤ 0
only agent 0 benefits from its data. The paper's game form asks for three beneficiaries and has no prices for such data;
M^E stands here for the welfare optimum and its payments.
"""


def fig5_result(points: int = PANEL_POINTS) -> Result:
    """The sweep, drawn and judged; `points` is how many values of w_k0 there are from -1 to 0.3, both included."""
    panels = [panel(incoming, points) for incoming in INCOMING]
    return Result(
        name="fig5",
        title="Fig. 5: the gain of an agent whose data may harm the others",
        columns=_columns(panels),
        draw=lambda figure: _draw(figure, panels),
        size=(7.2, 2.9),
        text=FIG_5_TEXT.format(crossings=_crossings_table(panels)),
        findings=FIG_5.judge(panels),
    )


def _columns(panels: Sequence[Panel]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for each in panels:
        parts = {"w_0k": np.full(each.outgoing.size, each.incoming), "w_k0": each.outgoing}
        for name in MECHANISMS:
            parts |= {f"{name}_ir_gap": each.gaps(name), f"{name}_payment": each.payments(name)}
            parts |= {f"{name}_contribution": each.contributions(name), f"{name}_at_bound": each.at_bound(name)}
        parts["net_externality"] = each.externality
        for label, numbers_there in parts.items():
            columns.setdefault(label, []).extend(numbers_there.tolist())
    return columns


def _crossings_table(panels: Sequence[Panel]) -> str:
    said = ("below 0", "0", "above 0")
    rows = [
        [number(each.incoming, "g"), "0", numbers_text(each.crossings["externality"]), sign,
         numbers_text(each.crossings["shapley"])]
        for each, sign in zip(panels, said, strict=True)
    ]  # fmt: skip
    return pipe_table(["w_0k", "M^E, paper", "M^E, computed", "M^Shap, paper", "M^Shap, computed"], rows)


def numbers_text(crossings: Sequence[float]) -> str:
    """The crossings of one curve, nearly always one."""
    return ", ".join("0" if abs(index) <= AT_ZERO else number(index, ".4f") for index in crossings) or "none"


@FIG_5.statement()
def _threshold(panels: Sequence[Panel]) -> Verdict:
    """Each curve crosses zero at a threshold: below it agent 0 would leave, above it would stay."""
    single = sum(len(each.crossings[name]) == 1 for each in panels for name in MECHANISMS)
    ordered = sum(
        bool((np.sign(each.gaps(name)) == np.sign(np.round(each.outgoing - each.crossing(name), 6))).all())
        for each in panels
        for name in MECHANISMS
    )
    return judge(single == ordered == 2 * len(panels)), (
        f"{single} of {2 * len(panels)} curves cross once, and {ordered} are negative at every point below the "
        f"crossing and positive at every point above."
    )


@FIG_5.statement(where=f"{FIG_5}a; Proposition 1")
def _externality_at_zero(panels: Sequence[Panel]) -> Verdict:
    """The crossing of M^E is at w_k0 = 0 whatever agent 0 draws from the others, that of M^Shap if it draws nothing."""
    found = [*(each.crossing("externality") for each in panels), panels[1].crossing("shapley")]
    within_zero = f"Computed at 0 to {within(float(np.abs(found).max()))}, for w_0k = −0.1, 0 and 0.1."
    return judge(all(abs(index) <= AT_ZERO for index in found)), within_zero


@FIG_5.statement(where=f"{FIG_5}a")
def _shapley_below_zero(panels: Sequence[Panel]) -> Verdict:
    """If the others harm agent 0, M^Shap keeps it even where it does them mild harm: its crossing is below 0."""
    harmed = panels[0]
    index = harmed.crossing("shapley")
    between = (harmed.outgoing > index) & (harmed.outgoing < 0)
    return judge(index < -AT_ZERO and bool((harmed.gaps("shapley")[between] > 0).all())), (
        f"The crossing is at w_k0 = {number(index, '.4f')}."
    )


@FIG_5.statement(where=f"{FIG_5}a")
def _paid_throughout(panels: Sequence[Panel]) -> Verdict:
    """If the others harm agent 0, M^Shap pays it over the whole range, because the harm keeps a_0 below φ_0."""
    harmed = panels[0]
    payments = harmed.payments("shapley")
    least = int(np.argmin(payments))
    idle = harmed.contributions("shapley") <= ZERO_AMOUNT
    return judge(bool((payments > 0).all())), (
        f"p_0 = φ_0 − a_0 is smallest at w_k0 = {number(harmed.outgoing[least], 'g')}, {number(payments[least])}. "
        f"Where agent 0 contributes nothing it is paid {number(payments[idle].max(initial=0.0))}."
    )


@FIG_5.statement(where=f"{FIG_5}c")
def _shapley_above_zero(panels: Sequence[Panel]) -> Verdict:
    """If agent 0 benefits from the others, M^Shap keeps it only if it benefits them: its crossing is above 0."""
    helped = panels[2]
    index = helped.crossing("shapley")
    return judge(index > AT_ZERO), f"The crossing is at w_k0 = {number(index, '.4f')}."


@FIG_5.statement(Judgement.CONDITIONAL, where=f"{FIG_5}c")
def _pays(panels: Sequence[Panel]) -> Verdict:
    """If agent 0 benefits from the others, M^Shap makes it pay, because the benefit lifts a_0 above φ_0."""
    helped = panels[2]
    payments = helped.payments("shapley")
    index = helped.crossing("shapley")
    there = None if np.isnan(index) else MECHANISMS["shapley"].solve(four_agents(helped.incoming, index))
    at_crossing = np.nan if there is None else float(there.payments[0])
    below = payments[helped.outgoing <= index]
    received = helped.outgoing[payments > 0]
    return judge(bool((payments < 0).all()), partly=bool((below < 0).all()) and at_crossing < 0), (
        f"p_0 is {number(at_crossing)} at the crossing and {span(below.tolist())} below it; it turns into an amount "
        f"received by w_k0 = {number(received.min(initial=np.inf), 'g')} and is {number(payments[-1])} at "
        f"w_k0 = {number(HIGHEST, 'g')}."
    )


@FIG_5.statement()
def _shift(panels: Sequence[Panel]) -> Verdict:
    """It is the payment that shifts the curve of M^Shap: up where agent 0 is paid, down where it pays."""
    zero = [int(np.argmin(np.abs(each.outgoing))) for each in panels]
    paid = [float(each.payments("shapley")[index]) for each, index in zip(panels, zero, strict=True)]
    gaps = [float(each.gaps("shapley")[index]) for each, index in zip(panels, zero, strict=True)]
    signs = [
        [int(np.sign(amount if abs(amount) > ZERO_AMOUNT else 0.0)) for amount in amounts] for amounts in (paid, gaps)
    ]
    return judge(signs == [[1, 0, -1]] * 2), (
        f"At w_k0 = 0, for w_0k = −0.1, 0, 0.1: p_0 = {numbers(paid)} and Δ_0 = {numbers(gaps)}."
    )


@FIG_5.statement(Judgement.CONDITIONAL, where="section 8, Proposition 1")
def _proposition(panels: Sequence[Panel]) -> Verdict:
    """The sweep shows Proposition 1: M^E keeps agent 0 exactly where its net externality T_0 is not negative."""
    agrees = [bool(flag) for each in panels for flag in (each.externality >= 0) == (each.gaps("externality") >= 0)]
    in_domain = np.concatenate([each.in_domain for each in panels])
    interior = ~np.concatenate([each.at_bound("externality") for each in panels])
    asked = in_domain & interior
    outgoing = np.concatenate([each.outgoing for each in panels])
    first = number(outgoing[in_domain].min(initial=HIGHEST), "g")
    capped = number(outgoing[~interior].min(initial=HIGHEST), "g")
    return judge(all(agrees) and bool(asked.all()), partly=all(agrees)), (
        f"True at {sum(agrees)} of {len(agrees)} points. What the proposition asks for holds at {int(asked.sum())}: "
        f"payoffs are defined at every profile within the caps only where w_k0 > −1/3 (here from {first} on), "
        f"and agent 0 gives its cap where w_k0 ≥ {capped}."
    )


@FIG_5.statement(Judgement.CONDITIONAL, where="section 8; equation 12")
def _payment_rule(panels: Sequence[Panel]) -> Verdict:
    """Negative weights leave the payment rule of M^E as it is."""
    deficits = np.abs(np.concatenate([each.deficits for each in panels]))
    interior = ~np.concatenate([each.at_bound("externality") for each in panels])
    capped = number(np.concatenate([each.outgoing for each in panels])[~interior].min(initial=HIGHEST), "g")
    balanced = max(float(abs(outcome.payments.sum())) for each in panels for outcome in each.outcomes["externality"])
    return judge(bool((deficits <= AT_ZERO).all()), partly=bool((deficits[interior] <= AT_ZERO).all())), (
        f"Equation 12 balances to {within(deficits[interior].max(initial=0.0))} at the {int(interior.sum())} interior "
        f"points. At the {int((~interior).sum())} where agent 0 gives its cap (w_k0 ≥ {capped}) its payments are off "
        f"balance by up to {number(deficits.max())}: the cap's multiplier is missing. With it they balance to "
        f"{within(balanced)}."
    )


@FIG_5.statement()
def _what_they_look_at(panels: Sequence[Panel]) -> Verdict:
    """Under M^E staying depends on what agent 0 gives alone; under M^Shap on what it draws as well."""
    found = {name: np.array([each.crossing(name) for each in panels]) for name in MECHANISMS}
    spread = {name: float(indices.max() - indices.min()) for name, indices in found.items()}
    rising = bool((np.diff(found["shapley"]) > AT_ZERO).all())
    return judge(spread["externality"] <= AT_ZERO and rising), (
        f"From w_0k = −0.1 to 0.1 the crossing of M^E moves by {within(spread['externality'])}, that of M^Shap from "
        f"{number(found['shapley'][0], '.4f')} to {number(found['shapley'][-1], '.4f')}."
    )


def _draw(figure: Any, panels: Sequence[Panel]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    axes = figure.subplots(1, len(panels), sharey=True)
    words = ("harmed by the others' data", "indifferent to the others' data", "helped by the others' data")
    for index, (ax, each) in enumerate(zip(axes, panels, strict=True)):
        ax.axhline(0.0, color=INK, linewidth=0.8)
        for name in MECHANISMS:
            _draw_curve(ax, each, name)
        drawing.dress(ax, f"({'abc'[index]})  $w_{{0k}}$ = {number(each.incoming, 'g')}\n{words[index]}")
        _mark_crossings(ax, each)
        ax.set_xlim(LOWEST, HIGHEST)
        ax.set_xticks([-1, -0.5, 0], ["−1", "−0.5", "0"])
        ax.set_xticks([-0.75, -0.25, 0.25], minor=True)
        ax.tick_params(axis="x", which="minor", length=2)
    axes[0].set_ylabel("gain of agent 0 over\ntraining alone, $Δ_0$")
    axes[1].set_xlabel("weight of agent 0's data to the others, $w_{k0}$")
    at_bound = Line2D([], [], color=FAINT, linestyle=":", label="agent 0 contributes 0 or its cap")
    drawing.mechanism_legend(figure, at_bound)


def _draw_curve(ax: Any, each: Panel, name: str) -> None:
    """Solid or dashed where agent 0's contribution is interior, dotted where it is at a bound."""
    mark, at_bound = drawing.MARKS[name], each.at_bound(name)
    beside = at_bound & np.roll(at_bound, 1) & np.roll(at_bound, -1)  # stretches share their ends
    beside[[0, -1]] = at_bound[[0, -1]]
    for hidden, style in ((beside, mark["linestyle"]), (~at_bound, ":")):
        ax.plot(each.outgoing, np.where(hidden, np.nan, each.gaps(name)), color=mark["color"], linestyle=style)


def _mark_crossings(ax: Any, each: Panel) -> None:
    for name, size in (("shapley", 7.0), ("externality", 4.5)):
        mark = drawing.MARKS[name]
        for index in each.crossings[name]:
            ax.plot([index], [0.0], marker=mark["marker"], color=mark["color"], markersize=size, zorder=3, **EDGE)


EDGE = {"markeredgecolor": "white", "markeredgewidth": 0.7, "linestyle": "none"}
