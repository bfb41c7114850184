"""Unequal data, from trained coalitions to deals: predicted from a fit, then trained, and the two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.paper import drawing
from fedpact.paper.heterogeneous_runs import COSTS, MEMBER_NAMES, RealisedDeal, Study, study
from fedpact.paper.judging import BEYOND, SYMBOLS, judge, number, numbers
from fedpact.paper.markdown import pipe_table
from fedpact.paper.results import Judgement, PaperFinding, Result
from fedpact.report.plots.style import FAINT, INK
from fedpact.utils.arrays import FloatArray

NOISY = 3  # the agent with wrong labels
SURE_PROBABILITY = 0.1  # a probability of leaving below it, or above its complement
WITHIN, SHARE_WITHIN = 2.0, 0.9  # standard deviations, and the share of accuracies expected within them
HETEROGENEOUS_TEXT = """\
Nobody knows its weights. Here they are estimated from what can be measured, and what follows from them is put to the
test. Five agents hold 500 MNIST images each with mixes of classes of their own (Dirichlet, alpha 1; 150 images of each
agent are for testing). Two fifths of the training labels of D are wrong; E clips its updates and adds noise to them.
{models} coalition models were trained, and accuracy curves and weights fitted to their accuracies (`fedpact.fit`). Both
mechanisms were solved on the fit at two costs of a sample, then models were trained at the contributions predicted, and
everybody alone at what it would contribute alone. Payments stay as agreed.

Fitted: beta {beta}, floor {floor}, ceiling {ceiling}. Weights times 1000, in the row's view of the column's data:

{weights}

Deals, predicted and realised. An IR gap is the utility in the federation less that of training alone; P(leaves) is the
share of 400 draws from the fit in which the agent does better alone.

{deals}

**Where the power law does not fit.** {misfit}
"""


def heterogeneous_result(*, folder: Path | None = None, progress: Any = None) -> Result:
    """The study, drawn and judged; `folder` keeps what was trained."""
    found = study(folder=folder, progress=progress)
    surface = found.surface
    return Result(
        name="heterogeneous",
        title="Unequal data: deals predicted from a fit, and realised",
        columns=_columns(found),
        draw=lambda figure: _draw(figure, found),
        size=(7.2, 3.1),
        text=HETEROGENEOUS_TEXT.format(
            models=len(found.profiles),
            beta=number(float(np.ravel(surface.beta)[0])),
            floor=number(float(surface.floors[0])),
            ceiling=number(float(surface.ceilings[0])),
            weights=_weights(found),
            deals=_deals(found.deals),
            misfit=_misfit(found),
        ),
        findings=[_accuracies(found), _signs(found), _noisy_member(found), _no_harm(found), _noise(found)],
    )


# Numbers


def _weights(found: Study) -> str:
    intervals = found.surface.intervals()["weights"]
    rows = [
        [
            name,
            *(
                f"{number(1000.0 * weight, '.1f')} ({number(1000.0 * low, '.1f')} to {number(1000.0 * high, '.1f')})"
                for weight, (low, high) in zip(found.surface.weights[agent], intervals[agent], strict=True)
            ),
        ]
        for agent, name in enumerate(MEMBER_NAMES)
    ]
    return pipe_table(["receives", *(name[0] for name in MEMBER_NAMES)], rows)


def _deals(deals: Sequence[RealisedDeal]) -> str:
    rows = []
    for deal in deals:
        predicted, realised = deal.gaps
        for agent, name in enumerate(MEMBER_NAMES):
            rows.append(
                [
                    f"{deal.cost:g}",
                    SYMBOLS[deal.name],
                    name,
                    number(float(deal.contributions[agent]), ".0f"),
                    number(float(deal.outcome.payments[agent]), "+.3f"),
                    f"{deal.predicted[agent]:.3f}",
                    f"{deal.realised[agent]:.3f}",
                    number(float(predicted[agent]), "+.3f"),
                    number(float(realised[agent]), "+.3f"),
                    f"{100 * deal.outlook.leave_probabilities[agent]:.0f} %",
                ]
            )
    heads = ["γ", "mechanism", "agent", "contributes", "is paid", "accuracy predicted", "realised"]
    return pipe_table([*heads, "IR gap predicted", "realised", "P(leaves)"], rows)


def _columns(found: Study) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for deal in found.deals:
        predicted, realised = deal.gaps
        low, high = deal.outlook.interval("ir_gaps").T
        for agent, name in enumerate(MEMBER_NAMES):
            row = {
                "gamma": deal.cost,
                "mechanism": deal.name,
                "agent": name,
                "contribution": int(deal.contributions[agent]),
                "payment": float(deal.outcome.payments[agent]),
                "accuracy_predicted": float(deal.predicted[agent]),
                "accuracy_realised": float(deal.realised[agent]),
                "utility_predicted": float(deal.utilities(deal.predicted)[agent]),
                "utility_realised": float(deal.utilities(deal.realised)[agent]),
                "ir_gap_predicted": float(predicted[agent]),
                "ir_gap_low": float(low[agent]),
                "ir_gap_high": float(high[agent]),
                "ir_gap_realised": float(realised[agent]),
                "leave_probability": float(deal.outlook.leave_probabilities[agent]),
            }
            for key, value in row.items():
                columns.setdefault(key, []).append(value)
    return columns


def _misfit(found: Study) -> str:
    """Mean residuals by who trains: what the curve gets wrong on the whole, not by chance."""
    members = (found.profiles > 0).sum(axis=1)
    own = (found.profiles > 0) & (members == 1)[:, None]
    others = (found.profiles == 0) & (members == 1)[:, None]
    small = (
        (found.profiles.sum(axis=1) < 100)[:, None] & (members > 1)[:, None] & np.ones(len(MEMBER_NAMES), dtype=bool)
    )
    large = (
        (found.profiles.sum(axis=1) >= 400)[:, None] & (members > 1)[:, None] & np.ones(len(MEMBER_NAMES), dtype=bool)
    )
    groups = {
        "own data alone": own,
        "one other agent's data alone": others,
        "several agents, fewer than 100 samples": small,
        "several agents, 400 samples and more": large,
    }
    told = []
    for name, group in groups.items():
        left = found.residuals[group]
        if left.size:
            error = float(left.std() / np.sqrt(left.size))
            told.append(f"{name}: {number(float(left.mean()), '+.3f')} ± {error:.3f}")
    quality = found.surface.quality
    sampling = np.sqrt((found.accuracies * (1.0 - found.accuracies) / found.test_sizes).mean())
    return (
        f"The curve leaves {100 * (1 - quality.r_squared):.0f} % of the variance; residuals are {number(quality.rms)} "
        f"(root mean square) where test sets of this size alone would leave {number(float(sampling))}. Measured less "
        f"fitted, mean and standard error: {'; '.join(told)}. One number per pair of agents says how many samples of "
        f"one's own a sample of another's is worth, at any amount. With mixes of classes that is not so: classes an "
        f"agent lacks can only come from others, and the first samples of them are worth more than later ones."
    )


# Judgements


def _accuracies(found: Study) -> PaperFinding:
    apart = np.concatenate([deal.realised - deal.predicted for deal in found.deals])
    scaled = np.concatenate([(deal.realised - deal.predicted) / found.noise(deal.realised) for deal in found.deals])
    within = float((np.abs(scaled) <= WITHIN).mean())
    utilities = float(np.sqrt((apart**2).mean()))
    return PaperFinding(
        BEYOND,
        "Accuracies under the deals come out as predicted, within the noise of training and testing.",
        judge(within >= SHARE_WITHIN, partly=within >= 0.75),
        f"Realised less predicted: {number(float(apart.mean()), '+.3f')} on average, {number(utilities)} root mean "
        f"square (utilities differ by the same, payments being agreed); {100 * within:.0f} % lie within "
        f"{WITHIN:g} standard deviations.",
        expected=Judgement.CONFIRMED,
    )


def _signs(found: Study) -> PaperFinding:
    agree = sure = sure_agree = total = 0
    wrong = []
    for deal in found.deals:
        predicted, realised = deal.gaps
        chance = deal.outlook.leave_probabilities
        for agent, name in enumerate(MEMBER_NAMES):
            same = (predicted[agent] >= 0) == (realised[agent] >= 0)
            certain = chance[agent] <= SURE_PROBABILITY or chance[agent] >= 1 - SURE_PROBABILITY
            total, agree = total + 1, agree + same
            sure, sure_agree = sure + certain, sure_agree + (certain and same)
            if not same:
                wrong.append(f"{name} under {SYMBOLS[deal.name]} at γ = {deal.cost:g}")
    return PaperFinding(
        BEYOND,
        "Who would leave comes out as predicted wherever the prediction is sure.",
        judge(sure_agree == sure, partly=agree >= 0.8 * total),
        f"The sign of the IR gap is the one predicted for {agree} of {total} members; of the {sure} with a probability "
        f"of leaving below {100 * SURE_PROBABILITY:.0f} % or above {100 * (1 - SURE_PROBABILITY):.0f} %, for "
        f"{sure_agree}. "
        f"{'Other sign: ' + '; '.join(wrong) if wrong else 'No other sign'}.",
        expected=Judgement.CONDITIONAL,
    )


def _noisy_member(found: Study) -> PaperFinding:
    gaps = {name: [deal.gaps[1][NOISY] for deal in found.deals if deal.name == name] for name in SYMBOLS}
    chances = {
        name: [deal.outlook.leave_probabilities[NOISY] for deal in found.deals if deal.name == name] for name in SYMBOLS
    }
    stays = min(gaps["externality"]) >= 0
    leaves = [gap < 0 for gap in gaps["shapley"]]
    return PaperFinding(
        BEYOND,
        "The member whose labels are wrong stays under M^E, which asks nothing of it, and is driven out by M^Shap.",
        judge(stays and all(leaves), partly=stays and any(leaves)),
        f"Its IR gap, realised, is {numbers(gaps['externality'], '+.3f')} under M^E and "
        f"{numbers(gaps['shapley'], '+.3f')} under M^Shap at γ = {', '.join(f'{cost:g}' for cost in COSTS)}; predicted "
        f"probability of leaving {_percent(chances['externality'])} and {_percent(chances['shapley'])}.",
        expected=Judgement.CONDITIONAL,
    )


def _percent(chances: Sequence[float]) -> str:
    return " and ".join(f"{100 * chance:.0f} %" for chance in chances)


def _no_harm(found: Study) -> PaperFinding:
    low, high = found.surface.intervals()["weights"][:, NOISY].T
    others = [agent for agent in range(len(MEMBER_NAMES)) if agent != NOISY]
    harmful = [MEMBER_NAMES[agent] for agent in others if high[agent] < 0]
    useless = [MEMBER_NAMES[agent] for agent in others if low[agent] <= 0 <= high[agent]]
    return PaperFinding(
        BEYOND,
        "Data with wrong labels harms the other members.",
        judge(len(harmful) == len(others), partly=bool(harmful)),
        f"The weight of its data is below zero (90 % interval) for {len(harmful)} of {len(others)} others and not told "
        f"from zero for {len(useless)}: two fifths of wrong labels make data nearly worthless here, not harmful.",
        expected=Judgement.NOT_CONFIRMED,
    )


def _noise(found: Study) -> PaperFinding:
    left, misfit = found.surface.unexplained, found.surface.lack_of_fit.misfit
    sampling = float(np.sqrt((found.accuracies * (1.0 - found.accuracies) / found.test_sizes).mean()))
    return PaperFinding(
        BEYOND,
        "A power law of one weight per pair of agents explains measured accuracies up to the noise of the test sets.",
        judge(left <= 0.3 * sampling, partly=found.surface.quality.r_squared >= 0.85),
        f"It explains {100 * found.surface.quality.r_squared:.0f} % of the variance. What is left has a standard "
        f"deviation of {number(left)}, besides {number(sampling)} of the test set: noise of training, and "
        f"{number(misfit)} that runs with similar contributions have in common, which is the curve's.",
        expected=Judgement.CONDITIONAL,
    )


# Picture


def _draw(figure: Any, found: Study) -> None:
    panels = figure.subplots(1, 3)
    fitted = found.surface.predict(found.profiles.astype(np.float64))
    panels[0].plot(fitted.ravel(), found.accuracies.ravel(), ".", color=FAINT, markersize=3, alpha=0.6)
    for deal in found.deals:
        mark = {key: drawing.MARKS[deal.name][key] for key in ("color", "marker")}
        points = {**mark, "linestyle": "none", "markeredgecolor": "white", "markeredgewidth": 0.5}
        panels[0].plot(deal.predicted, deal.realised, **points)
        panels[1].plot(deal.utilities(deal.predicted), deal.utilities(deal.realised), **points)
        predicted, realised = deal.gaps
        low, high = deal.outlook.interval("ir_gaps").T
        spread = [np.maximum(predicted - low, 0.0), np.maximum(high - predicted, 0.0)]
        panels[2].errorbar(predicted, realised, xerr=spread, elinewidth=0.7, capsize=0, **points)
    for panel, what in zip(panels, ("accuracy", "utility", "IR gap"), strict=True):
        drawing.dress(panel, what)
        _diagonal(panel)
    panels[2].axhline(0.0, color=FAINT, linewidth=0.8)
    panels[2].axvline(0.0, color=FAINT, linewidth=0.8)
    panels[0].set_ylabel("realised by training")
    panels[1].set_xlabel("predicted from the fit")
    drawing.mechanism_legend(figure, *_extra_marks())


def _diagonal(panel: Any) -> None:
    low = min(panel.get_xlim()[0], panel.get_ylim()[0])
    high = max(panel.get_xlim()[1], panel.get_ylim()[1])
    panel.plot([low, high], [low, high], color=INK, linewidth=0.7, linestyle=":")
    panel.set_xlim(low, high)
    panel.set_ylim(low, high)


def _extra_marks() -> list[FloatArray | Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    return [
        Line2D([], [], color=FAINT, marker=".", linestyle="none", label="coalitions the fit has seen"),
        Line2D([], [], color=INK, linestyle=":", linewidth=0.7, label="as predicted"),
    ]
