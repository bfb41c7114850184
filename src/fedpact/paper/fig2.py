"""Fig. 2: the welfare of equal agents, against the cost of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedpact.paper.fig1_and_2 import (
    BETAS,
    BETWEEN_TEXT,
    GAMMAS,
    Point,
    at_gamma,
    between,
    costs_where,
    draw_sweep,
    idle_points,
    rises,
    sweep,
    sweep_columns,
    sweep_table,
)
from fedpact.paper.judging import SAME_AMOUNT, judge, number, span, within
from fedpact.paper.results import Judgement, PaperFinding, Result

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
        draw=_draw,
        size=(7.2, 2.75),
        text=FIG_2_TEXT.format(table=sweep_table(lambda point: point.welfare, lambda amount: number(amount, ".4f"))),
        findings=[
            _strictly_lower(),
            _optimum(),
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


def _optimum() -> PaperFinding:
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


def _draw(figure: Any) -> None:
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
