"""Equal agents at several costs and payoff curves: what Fig. 1 and Fig. 2 both draw.

All weights are 1, so every agent reaches xi = 1 + z with z the total contribution, and welfare is
h(z) = n (1 - (1 + z)^-beta) - gamma z. Its maximum is at z = (n beta / gamma)^(1 / (1 + beta)) - 1, or at 0 where
n beta <= gamma: then the first sample costs more than it is worth to all agents together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedpact.comparison import sweep
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import best_response_dynamics
from fedpact.paper import drawing
from fedpact.paper.results import (
    CAP,
    SAME_AMOUNT,
    SYMBOLS,
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
from fedpact.utils.arrays import FloatArray

N_AGENTS = 3
GAMMAS = (0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001)
CHEAPEST = GAMMAS[-1]
BETAS = (0.005, 0.05, 0.5)
# Values between the paper's, to see whether what is said of three values holds in between.
IN_BETWEEN = (0.1, 0.2, 0.3, 0.4)
FINER = (*BETAS[:-1], *IN_BETWEEN, BETAS[-1])
SIZE = (7.2, 2.75)
BETWEEN_TEXT = f"β = {', '.join(f'{beta:g}' for beta in IN_BETWEEN)} in between"


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Both mechanisms at every payoff curve and cost; arrays are (betas, costs).

    Attributes
    ----------
    contributions, welfare
        (2, betas, costs), of M^E first: what each agent contributes (under M^E at the symmetric optimum), and welfare.
    """

    betas: tuple[float, ...]
    contributions: FloatArray
    welfare: FloatArray

    @property
    def worth_a_sample(self) -> np.ndarray:
        """Whether n beta > gamma: the first sample is worth its cost to all agents together."""
        return np.asarray(N_AGENTS * np.array(self.betas)[:, None] > np.array(GAMMAS) * (1.0 + SAME_AMOUNT))

    @property
    def surplus(self) -> FloatArray:
        """How many samples more each contributes under M^Shap."""
        return np.asarray(self.contributions[1] - self.contributions[0])

    @property
    def ratio(self) -> FloatArray:
        """Contributions under M^Shap to those under M^E; undefined where nobody contributes."""
        return self._where_worth(self.contributions[1], self.contributions[0])

    @property
    def loss(self) -> FloatArray:
        """How much welfare M^Shap loses."""
        return np.asarray(self.welfare[0] - self.welfare[1])

    @property
    def relative_loss(self) -> FloatArray:
        """Its loss as a share of welfare; undefined where nobody contributes."""
        return self._where_worth(self.loss, self.welfare[0])

    @property
    def optimal_total(self) -> FloatArray:
        """The total contribution that maximises welfare, in closed form."""
        betas = np.array(self.betas)[:, None]
        return np.maximum((N_AGENTS * betas / np.array(GAMMAS)) ** (1.0 / (1.0 + betas)) - 1.0, 0.0)

    def _where_worth(self, part: FloatArray, whole: FloatArray) -> FloatArray:
        return np.divide(part, whole, out=np.full(part.shape, np.nan), where=self.worth_a_sample)


def equal_agents(beta: float = BETAS[0], gamma: float = CHEAPEST) -> Federation:
    """Three agents with weights of 1."""
    return Federation(np.ones((N_AGENTS, N_AGENTS)), costs=gamma, caps=CAP, payoff=PowerLaw(beta=beta))


@lru_cache
def grid(betas: tuple[float, ...] = BETAS) -> Grid:
    """Every beta with every gamma, in the paper's order."""
    axes = {"beta": np.array(betas), "costs": np.array(GAMMAS)}
    found = sweep(equal_agents(), axes, metrics=["contributions", "welfare"]).metrics
    given, welfare = (np.array([found[name][metric] for name in SYMBOLS]) for metric in ("contributions", "welfare"))
    given, welfare = (np.where(amounts > ZERO_AMOUNT, amounts, 0.0) for amounts in (given[..., 0], welfare))
    return Grid(betas=betas, contributions=given, welfare=welfare)


def costs_where_rising(*measures: Callable[[Grid], FloatArray]) -> tuple[int, int]:
    """At how many costs measures rise from beta to beta: over those drawn, and with those in between."""
    drawn, finer = (
        int(np.all([~(np.diff(of(found), axis=0) <= 0) for of in measures], axis=(0, 1)).sum())
        for found in (grid(), grid(FINER))
    )
    return drawn, finer


def idle_points() -> str:
    """Where nobody contributes, in words."""
    idle = np.argwhere(~grid().worth_a_sample)
    return ", ".join(f"β = {BETAS[row]:g} with γ = {GAMMAS[column]:g}" for row, column in idle)


def _columns(amounts: FloatArray, **extra: FloatArray) -> dict[str, list[float]]:
    """The numbers of a figure, a row per point."""
    betas, gammas = np.meshgrid(BETAS, GAMMAS, indexing="ij")
    arrays = {"beta": betas, "gamma": gammas, "externality": amounts[0], "shapley": amounts[1]} | extra
    return {label: array.ravel().tolist() for label, array in arrays.items()}


def _table(amounts: FloatArray, form: str) -> str:
    """The numbers drawn, a row per cost."""
    heads = ["γ", *(f"β = {beta:g}, {symbol}" for beta in BETAS for symbol in SYMBOLS.values())]
    rows = [
        [f"{gamma:g}", *(number(amount, form) for amount in amounts[:, :, index].T.ravel())]
        for index, gamma in enumerate(GAMMAS)
    ]
    return pipe_table(heads, rows)


def _draw_grid(figure: Any, amounts: FloatArray, label: str, *, share_y: bool = False) -> Any:
    """A panel per beta with both mechanisms against the cost."""
    panels = figure.subplots(1, len(BETAS), sharey=share_y)
    for row, (panel, beta) in enumerate(zip(panels, BETAS, strict=True)):
        drawing.two_curves(panel, GAMMAS, amounts[0, row], amounts[1, row])
        drawing.dress(panel, f"β = {beta:g}")
        drawing.cost_axis(panel, GAMMAS)
    panels[0].set_ylabel(label)
    panels[1].set_xlabel("cost of a sample, γ")
    drawing.mechanism_legend(figure)
    return panels


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
    found = grid()
    return Result(
        name="fig1",
        title="Fig. 1: contributions of equal agents",
        columns=_columns(found.contributions, gap=found.surplus, ratio=found.ratio),
        draw=_draw_contributions,
        size=SIZE,
        text=FIG_1_TEXT.format(table=_table(found.contributions, ".2f")),
        findings=FIG_1.judge(),
    )


def _draw_contributions(figure: Any) -> None:
    for panel in _draw_grid(figure, grid().contributions, "samples per agent, s*", share_y=True):
        panel.set_yscale("symlog", linthresh=0.1, linscale=0.4)
        panel.set_ylim(-0.025, 250)
        panel.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        panel.set_yticks([], minor=True)


@FIG_1.statement(Judgement.CONDITIONAL)
def _more_with_beta() -> Verdict:
    """A larger β means stronger incentives: agents contribute more under both mechanisms."""
    drawn = costs_where_rising(lambda found: found.contributions[0], lambda found: found.contributions[1])
    cheap = grid(FINER).contributions[..., -1]  # by mechanism and beta
    most = int(cheap[0].argmax())
    return judge(min(drawn) == len(GAMMAS), partly=drawn[0] == len(GAMMAS)), (
        f"Over the three β drawn it holds at {drawn[0]} of {len(GAMMAS)} costs; with {BETWEEN_TEXT}, at {drawn[1]}. "
        f"At γ = {CHEAPEST:g} each agent contributes {number(cheap[0, most])} (M^E) and {number(cheap[1, most])} "
        f"(M^Shap) at β = {FINER[most]:g}, against {number(cheap[0, -1])} and {number(cheap[1, -1])} at "
        f"β = {FINER[-1]:g}."
    )


@FIG_1.statement(Judgement.CONDITIONAL)
def _less_with_cost() -> Verdict:
    """Contributions fall monotonically as the cost γ grows, under both mechanisms."""
    curves = grid().contributions
    steps, more = np.diff(curves, axis=-1), curves[..., 1:]  # from the highest cost down
    flat, up = int((steps == 0).sum()), int((steps < 0).sum())
    zeros = not more[steps == 0].any()
    return judge(flat + up == 0, partly=up == 0 and zeros), (
        f"{steps.size - flat - up} of {steps.size} steps to a higher cost lower them and {up} raise them; the other "
        f"{flat} stay at zero ({idle_points()})."
    )


@FIG_1.statement(Judgement.CONDITIONAL, where=f"{FIG_1}; Corollary 1")
def _shapley_above() -> Verdict:
    """At every γ and β, M^Shap makes agents contribute more than M^E."""
    found = grid()
    above, worth = found.surplus > 0, found.worth_a_sample
    none = not found.contributions[:, ~worth].any()
    return judge(bool(above.all()), partly=bool((above == worth).all()) and none), (
        f"At {above.sum()} of {above.size} points, by a factor of {span(found.ratio[above].tolist())}. The "
        f"others are those with nβ ≤ γ ({idle_points()}), where nobody contributes under either."
    )


@FIG_1.statement(Judgement.CONDITIONAL, where=f"{FIG_1} and 2")
def _gap_widens() -> Verdict:
    """The gap widens as β grows, and over-contribution under M^Shap is most severe at the largest β."""
    wider = costs_where_rising(lambda found: found.surplus)
    relative = costs_where_rising(lambda found: found.ratio)
    cheap = grid(FINER).surplus[:, -1]
    drawn = ", ".join(map(number, grid().surplus[:, -1]))
    return judge(min(wider) == len(GAMMAS), partly=wider[0] == len(GAMMAS)), (
        f"Over the three β drawn it holds at {wider[0]} of {len(GAMMAS)} costs (at γ = {CHEAPEST:g}: {drawn} "
        f"samples); with {BETWEEN_TEXT}, at {wider[1]}: at γ = {CHEAPEST:g} it is widest, {number(cheap.max())}, "
        f"at β = {FINER[int(cheap.argmax())]:g}. The ratio of the two grows with β at {min(relative)} of "
        f"{len(GAMMAS)} costs."
    )


@FIG_1.statement()
def _optimal_amount() -> Verdict:
    """M^E contributes the socially optimal amount, and M^Shap pushes agents past it."""
    found = grid()
    best, (ours, fair) = found.optimal_total, N_AGENTS * found.contributions
    off = float((np.abs(ours - best) / np.maximum(best, 1.0)).max())
    past = float((fair - best)[found.worth_a_sample].min())
    return judge(off <= SAME_AMOUNT and past > 0), (
        f"The total under M^E is (nβ/γ)^(1/(1+β)) − 1, the maximiser of welfare, to {within(off)}; under M^Shap "
        f"it exceeds that by {number(past)} samples or more wherever anybody contributes."
    )


@FIG_1.statement(where="section 7.1")
def _best_responses() -> Verdict:
    """Best-response dynamics reach the equilibrium of M^Shap."""
    reached = [[best_response_dynamics(equal_agents(beta, gamma)) for gamma in GAMMAS] for beta in BETAS]
    ends = np.array([[found.contributions[0] for found in row] for row in reached])
    fair = grid().contributions[1]
    off = float(np.abs(ends - fair).max())
    return judge(off <= SAME_AMOUNT * fair.max()), (
        f"From zero they end where the potential is largest, to {within(off)} samples, in "
        f"{max(found.rounds for row in reached for found in row)} rounds or fewer."
    )


FIG_2 = Statements("section 7.1, Fig. 2")
FIG_2_TEXT = """\
The welfare W (payoffs minus costs, summed over the three agents) at the equilibria of Fig. 1, with the same parameters.

The paper shows a picture without numbers, so we compare with its text. Welfare:

{table}
"""


def fig2_result() -> Result:
    """Welfare, drawn and judged."""
    found = grid()
    return Result(
        name="fig2",
        title="Fig. 2: welfare of equal agents",
        columns=_columns(found.welfare, loss=found.loss, relative_loss=found.relative_loss),
        draw=lambda figure: _draw_grid(figure, found.welfare, "social welfare, W(s*)"),
        size=SIZE,
        text=FIG_2_TEXT.format(table=_table(found.welfare, ".4f")),
        findings=FIG_2.judge(),
    )


@FIG_2.statement(Judgement.CONDITIONAL, where=f"{FIG_2}; Theorem 1")
def _strictly_lower() -> Verdict:
    """Although it collects more data, M^Shap has strictly lower welfare than M^E in every setting."""
    found = grid()
    lower = found.loss > 0
    more_data = bool((found.surplus[lower] > 0).all())
    partly = bool((lower == found.worth_a_sample).all()) and more_data
    return judge(bool(lower.all()) and more_data, partly=partly), (
        f"Lower at {lower.sum()} of {lower.size} points, by {span(found.loss[lower].tolist())}, with more "
        f"data at each. Where nβ ≤ γ ({idle_points()}) nobody contributes and both have welfare 0."
    )


@FIG_2.statement()
def _welfare_optimum() -> Verdict:
    """M^E aligns incentives with welfare and does not over-contribute."""
    total = grid().optimal_total
    best = N_AGENTS * (1.0 - (1.0 + total) ** -np.array(BETAS)[:, None]) - np.array(GAMMAS) * total
    off = float(np.abs(grid().welfare[0] - best).max())
    return judge(off <= SAME_AMOUNT), (
        f"Its welfare is the largest there is, n(1 − ξ^−β) − γz at z = (nβ/γ)^(1/(1+β)) − 1, to {within(off)}."
    )


@FIG_2.statement(Judgement.CONDITIONAL)
def _largest_at_large_beta() -> Verdict:
    """The welfare gap is most pronounced at larger β."""
    grows = costs_where_rising(lambda found: found.loss)
    cheap = grid(FINER).loss[:, -1]
    worst = int(cheap.argmax())
    relative = ", ".join(f"{_loss_span(row)} at β = {beta:g}" for row, beta in enumerate(BETAS))
    return judge(min(grows) == len(GAMMAS), partly=grows[0] == len(GAMMAS)), (
        f"In units of payoff it holds over the three β drawn at {grows[0]} of {len(GAMMAS)} costs; with "
        f"{BETWEEN_TEXT}, at {grows[1]} (at γ = {CHEAPEST:g}: {number(cheap[worst])} at β = {FINER[worst]:g}, "
        f"{number(cheap[-1])} at β = {FINER[-1]:g}). As a share of welfare it is {relative}."
    )


@FIG_2.statement(Judgement.CONDITIONAL)
def _alike_at_small_beta() -> Verdict:
    """At β = 0.005 the welfare gap shrinks: the two mechanisms behave more alike where data has little value."""
    loss, shares = grid().loss, grid().relative_loss
    shrinks = not loss.argmin(axis=0).any()
    return judge(shrinks and np.nanmax(shares[0]) < np.nanmin(shares[-1]), partly=shrinks), (
        f"In units of payoff the gap is at most {number(loss[0].max())}, against {number(loss[-1].max())} at "
        f"β = 0.5. But of the welfare to be had M^Shap loses {_loss_span(0)} where anybody contributes, against "
        f"{_loss_span(-1)}."
    )


def _loss_span(row: int) -> str:
    """The welfare that M^Shap loses at a beta, in per cent."""
    shares = 100.0 * grid().relative_loss[row]
    return f"{span(shares[~np.isnan(shares)].tolist(), '.1f')} %"
