"""Equal agents at several costs and payoff curves: what Fig. 1 and Fig. 2 both draw.

All weights are 1, so every agent reaches xi = 1 + z with z the total contribution, and welfare is
h(z) = n (1 - (1 + z)^-beta) - gamma z. Its maximum is at z = (n beta / gamma)^(1 / (1 + beta)) - 1, or at 0 where
n beta <= gamma: then the first sample costs more than it is worth to all agents together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from fedpact.deals import Outcome
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import ExternalityMechanism, ShapleyMechanism, best_response_dynamics
from fedpact.paper import drawing
from fedpact.paper.results import (
    CAP,
    SAME_AMOUNT,
    ZERO_AMOUNT,
    Judgement,
    Result,
    Statements,
    Verdict,
    judge,
    number,
    pipe_table,
    span,
    within,
)

N_AGENTS = 3
GAMMAS = (0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001)
CHEAPEST = GAMMAS[-1]
BETAS = (0.005, 0.05, 0.5)
# Values between the paper's, to see whether what is said of three values holds in between.
IN_BETWEEN = (0.1, 0.2, 0.3, 0.4)
BETWEEN_TEXT = f"β = {', '.join(f'{beta:g}' for beta in IN_BETWEEN)} in between"


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """Both mechanisms at one cost and payoff curve."""

    beta: float
    gamma: float
    externality: Outcome
    shapley: Outcome

    @property
    def worth_a_sample(self) -> bool:
        """Whether n beta > gamma: the first sample is worth its cost to all agents together."""
        return N_AGENTS * self.beta > self.gamma * (1.0 + SAME_AMOUNT)

    @property
    def contributions(self) -> tuple[float, float]:
        """What each agent contributes under M^E (the symmetric optimum) and under M^Shap."""
        return _positive(self.externality.contributions[0]), _positive(self.shapley.contributions[0])

    @property
    def welfare(self) -> tuple[float, float]:
        """Under M^E and under M^Shap."""
        return _positive(self.externality.welfare), _positive(self.shapley.welfare)

    @property
    def surplus(self) -> float:
        """How many samples more each contributes under M^Shap."""
        return self.contributions[1] - self.contributions[0]

    @property
    def ratio(self) -> float:
        """Contributions under M^Shap to those under M^E; undefined where nobody contributes."""
        return self.contributions[1] / self.contributions[0] if self.worth_a_sample else float("nan")

    @property
    def loss(self) -> float:
        """How much welfare M^Shap loses."""
        return self.welfare[0] - self.welfare[1]

    @property
    def relative_loss(self) -> float:
        """Its loss as a share of welfare; undefined where nobody contributes."""
        return self.loss / self.welfare[0] if self.worth_a_sample else float("nan")

    @property
    def optimal_total(self) -> float:
        """The total contribution that maximises welfare, in closed form."""
        return max(0.0, (N_AGENTS * self.beta / self.gamma) ** (1.0 / (1.0 + self.beta)) - 1.0)


Values = Callable[[Point], tuple[float, float]]
Measure = Callable[[Point], float]


def _positive(amount: float) -> float:
    return float(amount) if amount > ZERO_AMOUNT else 0.0


@lru_cache
def sweep(betas: tuple[float, ...] = BETAS) -> tuple[Point, ...]:
    """Every beta with every gamma, in the paper's order."""
    points = []
    for beta in betas:
        for gamma in GAMMAS:
            ones = np.ones((N_AGENTS, N_AGENTS))
            federation = Federation(ones, costs=gamma, caps=CAP, payoff=PowerLaw(beta=beta))
            ours, fair = ExternalityMechanism().solve(federation), ShapleyMechanism().solve(federation)
            points.append(Point(beta=beta, gamma=gamma, externality=ours, shapley=fair))
    return tuple(points)


def at_cost(gamma: float, *, between: bool = False) -> list[Point]:
    """The points of one cost, from the smallest beta to the largest; on demand with those between the paper's."""
    return [
        point for point in sweep((*BETAS[:-1], *IN_BETWEEN, BETAS[-1]) if between else BETAS) if point.gamma == gamma
    ]


def costs_where_rising(*measures: Measure) -> tuple[int, int]:
    """At how many costs measures rise from beta to beta: over those drawn, and with those in between."""

    def rises(points: Sequence[Point]) -> bool:
        defined = [point for point in points if not np.isnan([of(point) for of in measures]).any()]
        return all(of(later) > of(earlier) for of in measures for earlier, later in pairwise(defined))

    drawn, finer = (sum(rises(at_cost(gamma, between=between)) for gamma in GAMMAS) for between in (False, True))
    return drawn, finer


def _worth() -> list[Point]:
    return [point for point in sweep() if point.worth_a_sample]


def idle_points() -> str:
    """Where nobody contributes, in words."""
    idle = [point for point in sweep() if not point.worth_a_sample]
    return ", ".join(f"β = {point.beta:g} with γ = {point.gamma:g}" for point in idle)


def _result(
    name: str, title: str, text: str, statements: Statements, *, values: Values, form: str,
    draw: Callable[[Any], Any], **extra: Measure,
) -> Result:  # fmt: skip
    """A figure of the sweep: the numbers drawn, with a row per cost in its text, and what is said of them."""
    heads = ["γ", *(f"β = {beta:g}, {name}" for beta in BETAS for name in ("M^E", "M^Shap"))]
    rows = [
        [f"{gamma:g}", *(number(amount, form) for point in at_cost(gamma) for amount in values(point))]
        for gamma in GAMMAS
    ]
    measures: dict[str, Measure] = {"beta": lambda point: point.beta, "gamma": lambda point: point.gamma}
    measures |= {"externality": lambda point: values(point)[0], "shapley": lambda point: values(point)[1]} | extra
    return Result(
        name=name,
        title=title,
        columns={label: [of(point) for point in sweep()] for label, of in measures.items()},
        draw=draw,
        size=(7.2, 2.75),
        text=text.format(table=pipe_table(heads, rows)),
        findings=statements.judge(),
    )


def _draw_sweep(figure: Any, values: Values, label: str, *, share_y: bool = False) -> list[Any]:
    """A panel per beta with both mechanisms against the cost."""
    panels = figure.subplots(1, len(BETAS), sharey=share_y)
    for panel, beta in zip(panels, BETAS, strict=True):
        amounts = np.array([values(point) for point in sweep() if point.beta == beta])
        drawing.two_curves(panel, GAMMAS, amounts[:, 0], amounts[:, 1])
        drawing.dress(panel, f"β = {beta:g}")
        drawing.cost_axis(panel, GAMMAS)
    panels[0].set_ylabel(label)
    panels[1].set_xlabel("cost of a sample, γ")
    drawing.mechanism_legend(figure)
    return list(panels)


FIG_1 = Statements("section 7.1, Fig. 1")
FIG_1_TEXT = """\
Three equal agents (all weights 1) with costs γ per sample. The figure shows what each contributes at equilibrium, with
the paper's parameters: γ in {{0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001}}, β in {{0.005, 0.05, 0.5}}, n = 3.

Under M^E only the *total* is determined: equal agents can divide it in any way. The figure shows the symmetric
equilibrium. M^Shap has one equilibrium.

The paper shows a picture without numbers, so we compare with its text. Samples per agent:

{table}
"""


def fig1_result() -> Result:
    """Contributions, drawn and judged."""
    return _result(
        "fig1",
        "Fig. 1: contributions of equal agents",
        FIG_1_TEXT,
        FIG_1,
        values=lambda point: point.contributions,
        form=".2f",
        draw=_draw_contributions,
        gap=lambda point: point.surplus,
        ratio=lambda point: point.ratio,
    )


def _draw_contributions(figure: Any) -> None:
    for panel in _draw_sweep(figure, lambda point: point.contributions, "samples per agent, s*", share_y=True):
        panel.set_yscale("symlog", linthresh=0.1, linscale=0.4)
        panel.set_ylim(-0.025, 250)
        panel.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        panel.set_yticks([], minor=True)


@FIG_1.statement(Judgement.CONDITIONAL)
def _more_with_beta() -> Verdict:
    """A larger β means stronger incentives: agents contribute more under both mechanisms."""
    drawn = costs_where_rising(lambda point: point.contributions[0], lambda point: point.contributions[1])
    most = max(at_cost(CHEAPEST, between=True), key=lambda point: point.contributions[0])
    last = at_cost(CHEAPEST)[-1]
    return judge(min(drawn) == len(GAMMAS), partly=drawn[0] == len(GAMMAS)), (
        f"Over the three β drawn it holds at {drawn[0]} of {len(GAMMAS)} costs; with {BETWEEN_TEXT}, at {drawn[1]}. "
        f"At γ = {CHEAPEST:g} each agent contributes {number(most.contributions[0])} (M^E) and "
        f"{number(most.contributions[1])} (M^Shap) at β = {most.beta:g}, against {number(last.contributions[0])} and "
        f"{number(last.contributions[1])} at β = {last.beta:g}."
    )


@FIG_1.statement(Judgement.CONDITIONAL)
def _less_with_cost() -> Verdict:
    """Contributions fall monotonically as the cost γ grows, under both mechanisms."""
    curves = np.array([point.contributions for point in sweep()]).reshape(len(BETAS), len(GAMMAS), 2)
    steps, more = np.diff(curves, axis=1), curves[:, 1:]  # from the highest cost down
    flat, up = int((steps == 0).sum()), int((steps < 0).sum())
    zeros = not more[steps == 0].any()
    return judge(flat + up == 0, partly=up == 0 and zeros), (
        f"{steps.size - flat - up} of {steps.size} steps to a higher cost lower them and {up} raise them; the other "
        f"{flat} stay at zero ({idle_points()})."
    )


@FIG_1.statement(Judgement.CONDITIONAL, where=f"{FIG_1}; Corollary 1")
def _shapley_above() -> Verdict:
    """At every γ and β, M^Shap makes agents contribute more than M^E."""
    above = [point for point in sweep() if point.surplus > 0]
    none = all(max(point.contributions) == 0 for point in sweep() if not point.worth_a_sample)
    return judge(len(above) == len(sweep()), partly=above == _worth() and none), (
        f"At {len(above)} of {len(sweep())} points, by a factor of {span([point.ratio for point in above])}. The "
        f"others are those with nβ ≤ γ ({idle_points()}), where nobody contributes under either."
    )


@FIG_1.statement(Judgement.CONDITIONAL, where=f"{FIG_1} and 2")
def _gap_widens() -> Verdict:
    """The gap widens as β grows, and over-contribution under M^Shap is most severe at the largest β."""
    wider = costs_where_rising(lambda point: point.surplus)
    relative = costs_where_rising(lambda point: point.ratio)
    widest = max(at_cost(CHEAPEST, between=True), key=lambda point: point.surplus)
    drawn = ", ".join(number(point.surplus) for point in at_cost(CHEAPEST))
    return judge(min(wider) == len(GAMMAS), partly=wider[0] == len(GAMMAS)), (
        f"Over the three β drawn it holds at {wider[0]} of {len(GAMMAS)} costs (at γ = {CHEAPEST:g}: {drawn} "
        f"samples); with {BETWEEN_TEXT}, at {wider[1]}: at γ = {CHEAPEST:g} it is widest, {number(widest.surplus)}, "
        f"at β = {widest.beta:g}. The ratio of the two grows with β at {min(relative)} of {len(GAMMAS)} costs."
    )


@FIG_1.statement()
def _optimal_amount() -> Verdict:
    """M^E contributes the socially optimal amount, and M^Shap pushes agents past it."""
    totals = {point: float(point.externality.contributions.sum()) for point in sweep()}
    off = max(abs(total - point.optimal_total) / max(point.optimal_total, 1.0) for point, total in totals.items())
    past = min(float(point.shapley.contributions.sum()) - point.optimal_total for point in _worth())
    return judge(off <= SAME_AMOUNT and past > 0), (
        f"The total under M^E is (nβ/γ)^(1/(1+β)) − 1, the maximiser of welfare, to {within(off)}; under M^Shap "
        f"it exceeds that by {number(past)} samples or more wherever anybody contributes."
    )


@FIG_1.statement(where="section 7.1")
def _best_responses() -> Verdict:
    """Best-response dynamics reach the equilibrium of M^Shap."""
    reached = [best_response_dynamics(point.shapley.federation) for point in sweep()]
    pairs = zip(sweep(), reached, strict=True)
    off = max(float(np.abs(found.contributions - point.shapley.contributions).max()) for point, found in pairs)
    return judge(off <= SAME_AMOUNT * max(point.contributions[1] for point in sweep())), (
        f"From zero they end where the potential is largest, to {within(off)} samples, in "
        f"{max(found.rounds for found in reached)} rounds or fewer."
    )


FIG_2 = Statements("section 7.1, Fig. 2")
FIG_2_TEXT = """\
The welfare W (payoffs minus costs, summed over the three agents) at the equilibria of Fig. 1, with the same parameters.

The paper shows a picture without numbers, so we compare with its text. Welfare:

{table}
"""


def fig2_result() -> Result:
    """Welfare, drawn and judged."""
    return _result(
        "fig2",
        "Fig. 2: welfare of equal agents",
        FIG_2_TEXT,
        FIG_2,
        values=lambda point: point.welfare,
        form=".4f",
        draw=lambda figure: _draw_sweep(figure, lambda point: point.welfare, "social welfare, W(s*)"),
        loss=lambda point: point.loss,
        relative_loss=lambda point: point.relative_loss,
    )


@FIG_2.statement(Judgement.CONDITIONAL, where=f"{FIG_2}; Theorem 1")
def _strictly_lower() -> Verdict:
    """Although it collects more data, M^Shap has strictly lower welfare than M^E in every setting."""
    lower = [point for point in sweep() if point.loss > 0]
    more_data = all(point.surplus > 0 for point in lower)
    return judge(len(lower) == len(sweep()) and more_data, partly=lower == _worth() and more_data), (
        f"Lower at {len(lower)} of {len(sweep())} points, by {span([point.loss for point in lower])}, with more "
        f"data at each. Where nβ ≤ γ ({idle_points()}) nobody contributes and both have welfare 0."
    )


@FIG_2.statement()
def _welfare_optimum() -> Verdict:
    """M^E aligns incentives with welfare and does not over-contribute."""
    off = 0.0
    for point in sweep():
        total = point.optimal_total
        best = N_AGENTS * (1.0 - (1.0 + total) ** -point.beta) - point.gamma * total
        off = max(off, abs(point.welfare[0] - best))
    return judge(off <= SAME_AMOUNT), (
        f"Its welfare is the largest there is, n(1 − ξ^−β) − γz at z = (nβ/γ)^(1/(1+β)) − 1, to {within(off)}."
    )


@FIG_2.statement(Judgement.CONDITIONAL)
def _largest_at_large_beta() -> Verdict:
    """The welfare gap is most pronounced at larger β."""
    grows = costs_where_rising(lambda point: point.loss)
    worst = max(at_cost(CHEAPEST, between=True), key=lambda point: point.loss)
    last = at_cost(CHEAPEST)[-1]
    relative = ", ".join(f"{_loss_span(beta)} at β = {beta:g}" for beta in BETAS)
    return judge(min(grows) == len(GAMMAS), partly=grows[0] == len(GAMMAS)), (
        f"In units of payoff it holds over the three β drawn at {grows[0]} of {len(GAMMAS)} costs; with "
        f"{BETWEEN_TEXT}, at {grows[1]} (at γ = {CHEAPEST:g}: {number(worst.loss)} at β = {worst.beta:g}, "
        f"{number(last.loss)} at β = {last.beta:g}). As a share of welfare it is {relative}."
    )


@FIG_2.statement(Judgement.CONDITIONAL)
def _alike_at_small_beta() -> Verdict:
    """At β = 0.005 the welfare gap shrinks: the two mechanisms behave more alike where data has little value."""
    small, large = ([point for point in sweep() if point.beta == beta] for beta in (BETAS[0], BETAS[-1]))
    shrinks = all(min(at_cost(gamma), key=lambda point: point.loss).beta == BETAS[0] for gamma in GAMMAS)
    shares = [[point.relative_loss for point in points if point.worth_a_sample] for points in (small, large)]
    return judge(shrinks and max(shares[0]) < min(shares[1]), partly=shrinks), (
        f"In units of payoff the gap is at most {number(max(point.loss for point in small))}, against "
        f"{number(max(point.loss for point in large))} at β = 0.5. But of the welfare to be had M^Shap loses "
        f"{_loss_span(BETAS[0])} where anybody contributes, against {_loss_span(BETAS[-1])}."
    )


def _loss_span(beta: float) -> str:
    """The welfare that M^Shap loses at a beta, in per cent."""
    return f"{span([100.0 * point.relative_loss for point in _worth() if point.beta == beta], '.1f')} %"
