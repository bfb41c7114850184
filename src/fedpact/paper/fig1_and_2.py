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
from fedpact.paper.markdown import pipe_table
from fedpact.paper.results import (
    CAP,
    SAME_AMOUNT,
    ZERO_AMOUNT,
    Judgement,
    PaperFinding,
    Result,
    judge,
    number,
    span,
    within,
)
from fedpact.report.plots.style import FAINT

N_AGENTS = 3
GAMMAS = (0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001)
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

    @property
    def optimal_welfare(self) -> float:
        """The largest welfare there is, in closed form."""
        total = self.optimal_total
        return N_AGENTS * (1.0 - (1.0 + total) ** -self.beta) - self.gamma * total


Values = Callable[[Point], tuple[float, float]]


@lru_cache
def sweep(betas: tuple[float, ...] = BETAS) -> tuple[Point, ...]:
    """Every beta with every gamma, in the paper's order."""
    return tuple(_solved(beta, gamma) for beta in betas for gamma in GAMMAS)


def between() -> tuple[Point, ...]:
    """The sweep with values of beta between the paper's as well."""
    return sweep((*BETAS[:-1], *IN_BETWEEN, BETAS[-1]))


def at_gamma(points: Sequence[Point], gamma: float) -> list[Point]:
    """The points of one cost, from the smallest beta to the largest."""
    return [point for point in points if point.gamma == gamma]


def costs_where(holds: Callable[[Sequence[Point]], bool]) -> tuple[int, int]:
    """At how many costs something holds from beta to beta: over those drawn, and with those in between."""
    drawn, finer = (sum(holds(at_gamma(points, gamma)) for gamma in GAMMAS) for points in (sweep(), between()))
    return drawn, finer


def rises(values: Sequence[float]) -> bool:
    """Whether every value exceeds the one before."""
    return all(later > earlier for earlier, later in pairwise(values))


def idle_points() -> str:
    """Where nobody contributes, in words."""
    idle = [point for point in sweep() if not point.worth_a_sample]
    return ", ".join(f"β = {point.beta:g} with γ = {point.gamma:g}" for point in idle)


def sweep_columns(values: Values) -> dict[str, list[float]]:
    """The numbers drawn, for the CSV file."""
    points = sweep()
    return {
        "beta": [point.beta for point in points],
        "gamma": [point.gamma for point in points],
        "externality": [values(point)[0] for point in points],
        "shapley": [values(point)[1] for point in points],
    }


def draw_sweep(figure: Any, values: Values, label: str, *, share_y: bool = False) -> list[tuple[Any, list[Point]]]:
    """A panel per beta with both mechanisms against the cost; every panel with its points."""
    panels = figure.subplots(1, len(BETAS), sharey=share_y)
    drawn = []
    for panel, beta in zip(panels, BETAS, strict=True):
        curve = [point for point in sweep() if point.beta == beta]
        amounts = np.array([values(point) for point in curve])
        drawing.two_curves(panel, GAMMAS, amounts[:, 0], amounts[:, 1])
        drawing.dress(panel, f"β = {beta:g}")
        drawing.cost_axis(panel, GAMMAS)
        drawn.append((panel, curve))
    panels[0].set_ylabel(label)
    panels[1].set_xlabel("cost of a sample, γ")
    drawing.mechanism_legend(figure)
    return drawn


def sweep_table(values: Values, form: Callable[[float], str]) -> str:
    """The numbers drawn, a row per gamma and a pair of columns per beta, as Markdown."""
    heads = ["γ", *(f"β = {beta:g}, {name}" for beta in BETAS for name in ("M^E", "M^Shap"))]
    rows = []
    for gamma in GAMMAS:
        pairs = [values(point) for point in sweep() if point.gamma == gamma]
        rows.append([f"{gamma:g}", *(form(amount) for pair in pairs for amount in pair)])
    return pipe_table(heads, rows)


def _solved(beta: float, gamma: float) -> Point:
    federation = Federation(np.ones((N_AGENTS, N_AGENTS)), costs=gamma, caps=CAP, payoff=PowerLaw(beta=beta))
    return Point(
        beta=beta,
        gamma=gamma,
        externality=ExternalityMechanism().solve(federation),
        shapley=ShapleyMechanism().solve(federation),
    )


def _positive(amount: float) -> float:
    return float(amount) if amount > ZERO_AMOUNT else 0.0


FIG_1 = "section 7.1, Fig. 1"
FIG_1_TEXT = """\
Three equal agents (all weights 1) with costs γ per sample. Drawn is what each contributes at equilibrium, with the
paper's parameters: γ in {{0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001}}, β in {{0.005, 0.05, 0.5}}, n = 3.

Under M^E only the *total* is determined: every division of it among equal agents is a welfare optimum too. Drawn is the
symmetric one. M^Shap has one equilibrium.

The paper shows a picture without numbers, so what stands beside ours is its text. Samples per agent:

{table}
"""


def fig1_result() -> Result:
    """The sweep, drawn and judged."""
    points = sweep()
    columns = sweep_columns(lambda point: point.contributions) | {
        "gap": [point.surplus for point in points],
        "ratio": [point.ratio for point in points],
    }
    return Result(
        name="fig1",
        title="Fig. 1: contributions of equal agents",
        columns=columns,
        draw=_draw_contributions,
        size=(7.2, 2.75),
        text=FIG_1_TEXT.format(
            table=sweep_table(lambda point: point.contributions, lambda amount: number(amount, ".2f"))
        ),
        findings=[
            _more_with_beta(),
            _less_with_cost(),
            _shapley_above(),
            _gap_widens(),
            _optimal_amount(),
            _best_responses(),
        ],
    )


def _more_with_beta() -> PaperFinding:
    drawn = costs_where(lambda points: all(rises([point.contributions[place] for point in points]) for place in (0, 1)))
    most = max(at_gamma(between(), GAMMAS[-1]), key=lambda point: point.contributions[0])
    last = _at(BETAS[-1], GAMMAS[-1])
    return PaperFinding(
        FIG_1,
        "A larger β means stronger incentives: agents contribute more under both mechanisms.",
        judge(min(drawn) == len(GAMMAS), partly=drawn[0] == len(GAMMAS)),
        f"Over the three β drawn it holds at {drawn[0]} of {len(GAMMAS)} costs; with {BETWEEN_TEXT}, at {drawn[1]}. "
        f"At γ = {GAMMAS[-1]:g} each agent contributes {number(most.contributions[0])} (M^E) and "
        f"{number(most.contributions[1])} (M^Shap) at β = {most.beta:g}, against {number(last.contributions[0])} and "
        f"{number(last.contributions[1])} at β = {last.beta:g}.",
        expected=Judgement.CONDITIONAL,
    )


def _less_with_cost() -> PaperFinding:
    strict = flat = up = 0
    zeros = True
    for beta in BETAS:
        curve = [point for point in sweep() if point.beta == beta]  # from the highest cost down
        for dearer, cheaper in pairwise(curve):
            for more, less in zip(cheaper.contributions, dearer.contributions, strict=True):
                strict, flat, up = strict + (more > less), flat + (more == less), up + (more < less)
                zeros &= more != less or more == 0
    steps = strict + flat + up
    return PaperFinding(
        FIG_1,
        "Contributions fall monotonically as the cost γ grows, under both mechanisms.",
        judge(strict == steps, partly=up == 0 and zeros),
        f"{strict} of {steps} steps to a higher cost lower them and {up} raise them; the other {flat} stay at zero "
        f"({idle_points()}).",
        expected=Judgement.CONDITIONAL,
    )


def _shapley_above() -> PaperFinding:
    above = [point for point in sweep() if point.surplus > 0]
    explained = all((point.surplus > 0) == point.worth_a_sample for point in sweep())
    none = all(max(point.contributions) == 0 for point in sweep() if not point.worth_a_sample)
    return PaperFinding(
        f"{FIG_1}; Corollary 1",
        "At every γ and β, M^Shap makes agents contribute more than M^E.",
        judge(len(above) == len(sweep()), partly=explained and none),
        f"At {len(above)} of {len(sweep())} points, by a factor of {span([point.ratio for point in above])}. The "
        f"others are those with nβ ≤ γ ({idle_points()}), where nobody contributes under either.",
        expected=Judgement.CONDITIONAL,
    )


def _gap_widens() -> PaperFinding:
    wider = costs_where(lambda points: rises([point.surplus for point in points]))
    relative = costs_where(lambda points: rises([point.ratio for point in points if point.worth_a_sample]))
    widest = max(at_gamma(between(), GAMMAS[-1]), key=lambda point: point.surplus)
    drawn = ", ".join(number(_at(beta, GAMMAS[-1]).surplus) for beta in BETAS)
    return PaperFinding(
        FIG_1,
        "The gap between the mechanisms widens as β grows.",
        judge(min(wider) == len(GAMMAS), partly=wider[0] == len(GAMMAS)),
        f"Over the three β drawn it holds at {wider[0]} of {len(GAMMAS)} costs (at γ = {GAMMAS[-1]:g}: {drawn} "
        f"samples); with {BETWEEN_TEXT}, at {wider[1]}: at γ = {GAMMAS[-1]:g} it is widest, {number(widest.surplus)}, "
        f"at β = {widest.beta:g}. The ratio of the two grows with β at {min(relative)} of {len(GAMMAS)} costs.",
        expected=Judgement.CONDITIONAL,
    )


def _optimal_amount() -> PaperFinding:
    off = max(
        abs(float(point.externality.contributions.sum()) - point.optimal_total) / max(point.optimal_total, 1.0)
        for point in sweep()
    )
    past = min(
        float(point.shapley.contributions.sum()) - point.optimal_total for point in sweep() if point.worth_a_sample
    )
    return PaperFinding(
        FIG_1,
        "M^E contributes the socially optimal amount, and M^Shap pushes agents past it.",
        judge(off <= SAME_AMOUNT and past > 0),
        f"The total under M^E is (nβ/γ)^(1/(1+β)) − 1, the maximiser of welfare, to {within(off)}; under M^Shap "
        f"it exceeds that by {number(past)} samples or more wherever anybody contributes.",
        expected=Judgement.CONFIRMED,
    )


def _best_responses() -> PaperFinding:
    off, rounds = 0.0, 0
    for point in sweep():
        reached = best_response_dynamics(point.shapley.federation)
        off = max(off, float(np.abs(reached.contributions - point.shapley.contributions).max()))
        rounds = max(rounds, reached.rounds)
    return PaperFinding(
        "section 7.1",
        "Best-response dynamics reach the equilibrium of M^Shap.",
        judge(off <= SAME_AMOUNT * max(point.contributions[1] for point in sweep())),
        f"From zero they end where the potential is largest, to {within(off)} samples, in {rounds} rounds or fewer.",
        expected=Judgement.CONFIRMED,
    )


def _at(beta: float, gamma: float) -> Point:
    return next(point for point in sweep() if (point.beta, point.gamma) == (beta, gamma))


def _draw_contributions(figure: Any) -> None:
    drawn = draw_sweep(figure, lambda point: point.contributions, "samples per agent, s*", share_y=True)
    for panel, curve in drawn:
        panel.set_yscale("symlog", linthresh=0.1, linscale=0.4)
        panel.set_ylim(-0.025, 250)
        panel.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        panel.set_yticks([], minor=True)
        _write_gap(panel, curve[-1])
    idle = [point.gamma for point in sweep() if not point.worth_a_sample]
    drawn[0][0].annotate(
        "nobody contributes\nwhere nβ ≤ γ",
        (min(idle), 0.0),
        xytext=(0.05, 0.06),
        textcoords="axes fraction",
        va="bottom",
        fontsize=7.5,
        arrowprops={"arrowstyle": "->", "color": FAINT, "linewidth": 0.7, "shrinkB": 4},
    )


def _write_gap(panel: Any, cheapest: Point) -> None:
    """How many samples M^Shap asks for beyond M^E at the lowest cost."""
    low, high = cheapest.contributions
    panel.annotate(
        f"gap {high - low:.1f}",
        (cheapest.gamma, high),
        xytext=(2, 5),
        textcoords="offset points",
        fontsize=7.5,
    )


FIG_2 = "section 7.1, Fig. 2"
FIG_2_TEXT = """\
The welfare W (payoffs minus costs, summed over the three agents) at the equilibria of Fig. 1, with the same parameters.

The paper shows a picture without numbers, so what stands beside ours is its text. Welfare:

{table}
"""


def fig2_result() -> Result:
    """The sweep, drawn and judged."""
    points = sweep()
    columns = sweep_columns(lambda point: point.welfare) | {
        "loss": [point.loss for point in points],
        "relative_loss": [point.relative_loss for point in points],
    }
    return Result(
        name="fig2",
        title="Fig. 2: welfare of equal agents",
        columns=columns,
        draw=_draw_welfare,
        size=(7.2, 2.75),
        text=FIG_2_TEXT.format(table=sweep_table(lambda point: point.welfare, lambda amount: number(amount, ".4f"))),
        findings=[
            _strictly_lower(),
            _welfare_optimum(),
            _largest_at_large_beta(),
            _over_contribution(),
            _alike_at_small_beta(),
        ],
    )


def _strictly_lower() -> PaperFinding:
    lower = [point for point in sweep() if point.loss > 0]
    explained = all((point.loss > 0) == point.worth_a_sample for point in sweep())
    more_data = all(point.contributions[1] > point.contributions[0] for point in lower)
    return PaperFinding(
        f"{FIG_2}; Theorem 1",
        "Although it collects more data, M^Shap has strictly lower welfare than M^E in every setting.",
        judge(len(lower) == len(sweep()) and more_data, partly=explained and more_data),
        f"Lower at {len(lower)} of {len(sweep())} points, by {span([point.loss for point in lower])}, with more "
        f"data at each. Where nβ ≤ γ ({idle_points()}) nobody contributes and both have welfare 0.",
        expected=Judgement.CONDITIONAL,
    )


def _welfare_optimum() -> PaperFinding:
    off = max(abs(point.welfare[0] - point.optimal_welfare) for point in sweep())
    return PaperFinding(
        FIG_2,
        "M^E aligns incentives with welfare and does not over-contribute.",
        judge(off <= SAME_AMOUNT),
        f"Its welfare is the largest there is, n(1 − ξ^−β) − γz at z = (nβ/γ)^(1/(1+β)) − 1, to {within(off)}.",
        expected=Judgement.CONFIRMED,
    )


def _largest_at_large_beta() -> PaperFinding:
    grows = costs_where(lambda points: rises([point.loss for point in points]))
    worst = max(at_gamma(between(), GAMMAS[-1]), key=lambda point: point.loss)
    last = at_gamma(sweep(), GAMMAS[-1])[-1]
    relative = ", ".join(f"{_percent_span(beta)} at β = {beta:g}" for beta in BETAS)
    return PaperFinding(
        FIG_2,
        "The welfare gap is most pronounced at larger β.",
        judge(min(grows) == len(GAMMAS), partly=grows[0] == len(GAMMAS)),
        f"In units of payoff it holds over the three β drawn at {grows[0]} of {len(GAMMAS)} costs; with "
        f"{BETWEEN_TEXT}, at {grows[1]} (at γ = {GAMMAS[-1]:g}: {number(worst.loss)} at β = {worst.beta:g}, "
        f"{number(last.loss)} at β = {last.beta:g}). As a share of welfare it is {relative}.",
        expected=Judgement.CONDITIONAL,
    )


def _over_contribution() -> PaperFinding:
    worth = [point for point in sweep() if point.worth_a_sample]
    ratios = "; ".join(
        f"β = {beta:g}: {span([point.ratio for point in worth if point.beta == beta], '.2f')}" for beta in BETAS
    )
    by_ratio = costs_where(lambda points: rises([point.ratio for point in points if point.worth_a_sample]))
    by_surplus = costs_where(lambda points: rises([point.surplus for point in points]))
    return PaperFinding(
        FIG_2,
        "Over-contribution under M^Shap is most severe at the largest β.",
        judge(min(*by_ratio, *by_surplus) == len(GAMMAS), partly=min(by_ratio) == len(GAMMAS)),
        f"As a ratio to the social optimum ({ratios}) it grows with β at {min(by_ratio)} of {len(GAMMAS)} costs, "
        f"with {BETWEEN_TEXT}. In samples it grows over the three β drawn at {by_surplus[0]} costs, with those in "
        f"between at {by_surplus[1]}.",
        expected=Judgement.CONDITIONAL,
    )


def _alike_at_small_beta() -> PaperFinding:
    small = [point for point in sweep() if point.beta == BETAS[0]]
    large = [point for point in sweep() if point.beta == BETAS[-1]]
    shrinks = all(min(at_gamma(sweep(), gamma), key=lambda point: point.loss).beta == BETAS[0] for gamma in GAMMAS)
    shares = [[point.relative_loss for point in points if point.worth_a_sample] for points in (small, large)]
    return PaperFinding(
        FIG_2,
        "At β = 0.005 the welfare gap shrinks: the two mechanisms behave more alike where data has little value.",
        judge(shrinks and max(shares[0]) < min(shares[1]), partly=shrinks),
        f"In units of payoff the gap is at most {number(max(point.loss for point in small))}, against "
        f"{number(max(point.loss for point in large))} at β = 0.5. But of the welfare to be had M^Shap loses "
        f"{_percent_span(BETAS[0])} where anybody contributes, against {_percent_span(BETAS[-1])}.",
        expected=Judgement.CONDITIONAL,
    )


def _percent_span(beta: float) -> str:
    shares = [100.0 * point.relative_loss for point in sweep() if point.beta == beta and point.worth_a_sample]
    return f"{span(shares, '.1f')} %"


def _draw_welfare(figure: Any) -> None:
    for panel, curve in draw_sweep(figure, lambda point: point.welfare, "social welfare, W(s*)"):
        panel.margins(y=0.08)
        _write_loss(panel, curve)


def _write_loss(panel: Any, curve: Sequence[Point]) -> None:
    """How much M^Shap loses, in the panel's free corner."""
    shares = [100.0 * point.relative_loss for point in curve if point.worth_a_sample]
    panel.text(
        0.98,
        0.97,
        f"loss up to {max(point.loss for point in curve):.2g},\n{min(shares):.0f} to {max(shares):.0f} % of welfare",
        transform=panel.transAxes,
        ha="right",
        va="top",
        fontsize=7.5,
    )
