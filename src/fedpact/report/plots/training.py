"""Pictures of training and of its deals: pilots, fits, negotiations, the learning curves of a run, what was delivered.

A fit's curve runs over the data an agent reaches, counted in its own samples: a sample of somebody else's counts
w_ij / w_ii. A run shows accuracy round by round, in the deal and alone, an agent a line and the mean in bold; beyond
eight agents all are grey, and only the mean has a name. The rounds of a negotiation are counted through where it begins
anew without somebody, which is marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.fitting.pilots.arrangements import ONE_MODEL, OWN_CHOICE
from fedpact.mechanisms import MECHANISMS
from fedpact.report.numbers import number_text
from fedpact.report.plots.style import (
    BAD,
    FAINT,
    GOOD,
    INK,
    MAX_NAMED_LINES,
    UNNAMED,
    dress_axes,
    legend_below,
    legend_name,
    line_style,
    new_figure,
    short_name,
)
from fedpact.scenario.measured import NORMAL_QUANTILE
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.deals import Deal
    from fedpact.fitting import Delivery, Fit
    from fedpact.fitting.pilots import PilotStudy
    from fedpact.training.run import Run


MAX_CURVES = 6
FITTED_CURVE_POINTS = 60
MAX_DOTS = 3000
BAND_LEVEL = 0.9
FAR = 4.0  # standard deviations
RUN_SIZE = (8.4, 3.9)  # inches
FEW_ROUNDS = 2  # rounds, with a mark each
MIN_SHARE_AXIS = 1.3
ACCURACY_MARGIN = 0.02  # above right always, and below wrong always


def plot_fit(fit: Fit, *, figure: Any = None) -> Any:
    """Measured against fitted, and the curves of up to six agents (tasks) with 90 % bands.

    The figure's first axes are measured against fitted.
    """
    tasks = np.flatnonzero(fit.observations.measured.any(axis=0))  # of a member's own log, its own
    what = "tasks" if fit.observations.has_lots else "members"
    shown = min(len(tasks), MAX_CURVES)
    columns = min(shown, 3)
    rows = -(-shown // columns)
    figure = figure or new_figure(4.2 + 2.6 * columns, max(3.8, 2.5 * rows))
    left, right = figure.subfigures(1, 2, width_ratios=(4.0, 2.6 * columns))
    _draw_agreement(left.add_subplot(), fit)
    panels = right.subplots(rows, columns, squeeze=False).ravel()
    for place, panel in enumerate(panels):
        if place < shown:
            _draw_curve(panel, fit, int(tasks[place]))
        else:
            panel.set_axis_off()
    rest = f", the first {shown} of {len(tasks)} {what}" if shown < len(tasks) else ""
    unit = "samples of the best own lot" if fit.observations.has_lots else "own samples"
    right.supxlabel(f"data reached, in {unit}{rest}", fontsize=9, color=INK)
    return figure


def plot_delivery(delivery: Delivery, *, ax: Any = None) -> Any:
    """The share of the agreed contribution that each member delivered, with 95 % intervals; flagged ones stand out.

    Returns the figure.
    """
    names, shares = delivery.names, delivery.shares
    lower, upper = delivery.intervals()
    if ax is None:
        ax = new_figure(6.4, 1.4 + 0.34 * len(names)).subplots()
    known = np.isfinite(shares)
    reached = np.where(np.isfinite(upper), upper, shares)
    end = max(MIN_SHARE_AXIS, 1.1 * float(np.max(reached, where=known, initial=1.0)))
    for place, name in enumerate(names):
        color = BAD if name in delivery.flagged else GOOD
        if known[place]:
            ax.plot([lower[place], min(upper[place], end)], [place, place], color=color, linewidth=1.6)
            ax.plot(shares[place], place, "X" if name in delivery.flagged else "o", color=color, markersize=6)
        else:
            ax.text(0.02, place, "nothing is known", va="center", fontsize=8, color=FAINT)
    ax.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    ax.set_yticks(range(len(names)), [short_name(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0.0, end)
    ax.set_xlabel("share of the agreed contribution, with 95 % intervals; crosses are flagged", fontsize=9, color=INK)
    dress_axes(ax)
    return ax.figure


def _draw_agreement(ax: Axes, fit: Fit) -> None:
    """Each accuracy against what the fit expects; those far off are marked."""
    seen = fit.observations
    measured = seen.accuracies[seen.measured]
    fitted = measured - fit.residuals[seen.measured]
    far = np.abs(fit.scaled_residuals[seen.measured]) > FAR
    step = -(-measured.size // MAX_DOTS)
    ends = (min(measured.min(), fitted.min()), max(measured.max(), fitted.max()))
    ax.plot(ends, ends, color=FAINT, linewidth=0.9)
    ax.plot(fitted[~far][::step], measured[~far][::step], "o", color=GOOD, markersize=3, alpha=0.6, markeredgewidth=0)
    if far.any():
        ax.plot(fitted[far], measured[far], "x", color=BAD, markersize=5, label="more than 4 standard deviations off")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax.set_xlabel("fitted accuracy", fontsize=9, color=INK)
    ax.set_ylabel("measured accuracy", fontsize=9, color=INK)
    ax.set_title(f"rms {fit.quality.rms:.3f}", loc="left", fontsize=10, color=INK)
    dress_axes(ax)


def _draw_curve(ax: Axes, fit: Fit, agent: int) -> None:
    seen = fit.observations
    used = seen.measured[:, agent]
    own = float(fit.units[agent, 0])
    own_lots = seen.owned[agent]
    usable = own_lots if own_lots.any() else np.ones_like(own_lots)
    best = int(np.where(usable, fit.weights[agent], -np.inf).argmax())
    reached = seen.contributions[used] @ fit.weights[agent] / own
    places = np.linspace(0.0, max(float(reached.max()), 1.0), FITTED_CURVE_POINTS)
    given = np.zeros((FITTED_CURVE_POINTS, seen.n_lots))
    given[:, best] = places
    middle = fit.predict(given)[:, agent]
    reach = fit.quantile(0.5 + BAND_LEVEL / 2.0) * fit.prediction_errors(given)[:, agent]
    low, high = np.clip(middle - reach, 0.0, 1.0), np.clip(middle + reach, 0.0, 1.0)
    ax.fill_between(places, low, high, color=GOOD, alpha=0.25, linewidth=0)
    ax.plot(places, middle, color=GOOD, linewidth=1.2)
    step = -(-int(used.sum()) // MAX_DOTS)
    ax.plot(reached[::step], seen.accuracies[used, agent][::step], "o", color=INK, markersize=2.5, alpha=0.6)
    ax.set_title(short_name(seen.task_labels[agent]), loc="left", fontsize=9, color=INK, parse_math=False)
    dress_axes(ax)


def plot_run(run: Run, *, figure: Any = None) -> Any:
    """Two panels with the same axes: accuracies in the deal, and of everybody alone.

    The figure's `axes` are the deal and alone.
    """
    figure = figure or new_figure(*RUN_SIZE)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, what, accuracies in (
        (panels[0], "in the deal", run.together.accuracies),
        (panels[1], "alone", run.alone.accuracies),
    ):
        _draw_accuracies(panel, run, accuracies)
        panel.set_title(f"{what}: {accuracies[-1].mean():.3f} on average", loc="left", fontsize=9, color=INK)
        panel.set_xlabel("round", fontsize=9, color=INK)
        dress_axes(panel)
    panels[0].set_ylabel("accuracy on own test set", fontsize=9, color=INK)
    panels[0].set_ylim(-ACCURACY_MARGIN, 1.0 + ACCURACY_MARGIN)
    panels[0].xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(_run_headline(run), x=0.01, ha="left", fontsize=11, color=INK, parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(run.agents) > MAX_NAMED_LINES:
        labels = [f"mean of {len(run.agents)} members, which are grey"]
    legend_below(figure, handles, labels)
    return figure


def _draw_accuracies(panel: Axes, run: Run, accuracies: FloatArray) -> None:
    rounds = np.arange(1, run.rounds + 1)
    marker = "o" if run.rounds <= FEW_ROUNDS else None
    named = len(run.agents) <= MAX_NAMED_LINES
    for agent, name in enumerate(run.agents):
        panel.plot(
            rounds,
            accuracies[:, agent],
            **(line_style(agent) if named else {"color": UNNAMED}),
            linewidth=1.3 if named else 0.6,
            marker=marker,
            markersize=4,
            label=legend_name(name) if named else "_",
        )
    if len(run.agents) > 1:
        mean = accuracies.mean(axis=1)
        panel.plot(rounds, mean, color=INK, linewidth=2.8, marker=marker, label="mean", zorder=3)


def _run_headline(run: Run) -> str:
    name = run.plan.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else legend_name(name)
    agents, rounds = count_text(len(run.agents), "member"), count_text(run.rounds, "round")
    return f"Training under {title}: {agents}, {rounds}"


MIN_RESIDUAL = 1e-16  # a smaller one is drawn here
MAX_EXCLUDED_NAMED = 6


def plot_negotiation(deal: Deal, *, figure: Any = None) -> Any:
    """Two panels over the rounds: the residual on a logarithmic scale, and the welfare of what is on the table.

    Rounds whose proposal led out of the domain have neither. The figure's `axes` are the residual and the welfare.
    """
    figure = figure or new_figure(7.0, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    rounds = [event for event in deal.trace if event["event"] == "round"]
    numbers = np.arange(1, len(rounds) + 1)
    residuals, welfare = (
        np.array([np.nan if event[key] is None else event[key] for event in rounds], dtype=np.float64)
        for key in ("residual", "welfare")
    )
    upper.plot(numbers, np.maximum(residuals, MIN_RESIDUAL), "o-", color=GOOD, markersize=4)
    upper.set_yscale("log")
    lower.axhline(deal.provenance.welfare, color=FAINT, linewidth=0.9, linestyle="--")
    lower.plot(numbers, np.where(np.isfinite(welfare), welfare, np.nan), "o-", color=GOOD, markersize=4)
    agreed = f"welfare (payoff),\nagreed: {number_text(deal.provenance.welfare)}"
    for panel, label in ((upper, "gain still promised,\nshare of what is at stake"), (lower, agreed)):
        panel.set_ylabel(label, fontsize=9, color=INK)
        dress_axes(panel)
        for after, names in _exclusions(deal).items():
            panel.axvline(after + 0.5, color=BAD, linewidth=1.0, linestyle=":", label=f"without {names}")
    if _exclusions(deal):
        upper.legend(frameon=False, fontsize=8)
    lower.set_xlabel("round", fontsize=9, color=INK)
    lower.xaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels([upper, lower])
    protocol, count = str(deal.provenance.protocol).replace("-", " "), count_text(deal.rounds, "round")
    headline = f"Negotiation by {protocol}: {len(deal.members)} members, {count}"
    figure.suptitle(headline, x=0.01, ha="left", fontsize=11, color=INK, parse_math=False)
    return figure


def _exclusions(deal: Deal) -> dict[int, str]:
    """After how many rounds the negotiation went on without whom."""
    done, gone = 0, dict[int, list[str]]()
    for event in deal.trace:
        done += event["event"] == "round"
        if event["event"] == "excluded":
            gone.setdefault(done, []).append(legend_name(str(event["agent"])))
    return {after: join_names(names, most=MAX_EXCLUDED_NAMED) for after, names in gone.items()}


APART = 0.16  # of two marks of one member


def plot_pilot(pilot: PilotStudy, *, figure: Any = None) -> Any:
    """Gains in points with intervals of 90 %, a row per member."""
    names = pilot.data.names
    figure = figure or new_figure(6.4, 1.2 + 0.5 * len(names))
    axes = figure.subplots()
    rows = np.arange(len(names))
    for kind, colour, shift in ((ONE_MODEL, BAD, -APART), (OWN_CHOICE, GOOD, APART)):
        gains, errors = pilot.gain(kind)
        spans = 100.0 * NORMAL_QUANTILE * errors
        axes.errorbar(100.0 * gains, rows + shift, xerr=spans, fmt="o", color=colour, label=kind, markersize=5)
    axes.axvline(0.0, color=FAINT, linewidth=1.0)
    axes.set_yticks(rows, [short_name(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(f"points of {pilot.score.name.replace('_', ' ')} over its own model alone, everything shared")
    axes.legend(frameon=False, fontsize="small")
    dress_axes(axes)
    return figure
