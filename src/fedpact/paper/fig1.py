"""Fig. 1: what equal agents contribute, against the cost of a sample."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fedpact.mechanisms import best_response_dynamics
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
from fedpact.report.plots.style import FAINT

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
        draw=_draw,
        size=(7.2, 2.75),
        text=FIG_1_TEXT.format(
            table=sweep_table(lambda point: point.contributions, lambda amount: number(amount, ".2f"))
        ),
        findings=[
            _more_with_beta(),
            _less_with_cost(),
            _shapley_above(),
            _gap_widens(),
            _optimum(),
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


def _optimum() -> PaperFinding:
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


def _draw(figure: Any) -> None:
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
