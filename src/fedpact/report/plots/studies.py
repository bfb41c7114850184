"""A study as a picture: how often each property holds, and what is left of welfare and of fair shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.comparison.studies import STUDIED
from fedpact.report.plots.style import FAINT, GOOD, INK, dress_axes, new_figure
from fedpact.report.words import PROPERTY_HEADS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import FieldStudy

WIDTH, ROW_HEIGHT, MIN_HEIGHT = 11.0, 0.3, 2.6  # inches
DARK = 0.55  # of a share, from which on its number is white
MAX_SHARE_SHOWN = 1.5
SMALL_PART = 0.5  # of all federations: a property looked at in fewer says so


def plot_study(study: FieldStudy, *, figure: Any = None) -> Any:
    """A row per mechanism: the share of federations of all kinds in which each property holds, and two ranges."""
    height = max(MIN_HEIGHT, 1.2 + ROW_HEIGHT * len(study.mechanisms))
    figure = new_figure(WIDTH, height) if figure is None else figure
    table, welfare, shares = figure.subplots(1, 3, width_ratios=(2.2, 1.0, 1.0))
    names = list(study.mechanisms)
    _draw_shares(table, study, names)
    _draw_ranges(welfare, study, names, "share_of_best", "welfare, part of the best")
    _draw_ranges(shares, study, names, "lowest_share", "lowest Shapley share returned")
    figure.suptitle(
        f"{study.count * len(study.kinds):,} random federations of {study.n_agents} members: {', '.join(study.kinds)}",
        fontsize=9,
        color=INK,
    )
    return figure


def _draw_shares(ax: Axes, study: FieldStudy, names: list[str]) -> None:
    claims = list(STUDIED)
    shares = np.array([[_share(study, name, claim) for claim in claims] for name in names])
    ax.imshow(np.nan_to_num(shares), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for row, column in np.ndindex(shares.shape):
        share = shares[row, column]
        text = "-" if np.isnan(share) else f"{100 * share:.0f}" if share in (0.0, 1.0) else f"{100 * share:.1f}"
        colour = "white" if share > DARK else INK
        ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(len(claims)), [_head(study, claim) for claim in claims], fontsize=7, rotation=20)
    ax.set_yticks(range(len(names)), [study.title(name) for name in names], fontsize=8)
    ax.set_title("holds in so many per cent", loc="left", fontsize=8, color=FAINT)


def _head(study: FieldStudy, claim: Claim) -> str:
    """What a property is called, and in how many federations it was looked at if those are few."""
    judged = max(sum((each[claim] >= 0).sum() for each in _by_kind(study, name)) for name in study.mechanisms)
    few = judged < SMALL_PART * study.count * len(study.kinds)
    return f"{PROPERTY_HEADS[claim]}\n(of {judged:,} only)" if few else PROPERTY_HEADS[claim]


def _by_kind(study: FieldStudy, mechanism: str) -> list[Mapping[str, np.ndarray]]:
    return [study.numbers[kind][mechanism] for kind in study.kinds]


def _share(study: FieldStudy, mechanism: str, claim: Claim) -> float:
    """Over the federations of all kinds that were looked at."""
    found = np.concatenate([each[claim] for each in _by_kind(study, mechanism)])
    known = found[found >= 0]
    return float(known.mean()) if known.size else float("nan")


def _draw_ranges(ax: Axes, study: FieldStudy, names: list[str], number: str, title: str) -> None:
    """The middle nine tenths as a line and the median as a mark."""
    dress_axes(ax, tick_size=7)
    for row, name in enumerate(names):
        found = np.concatenate([each[number] for each in _by_kind(study, name)])
        known = np.clip(found[~np.isnan(found)], -0.5, MAX_SHARE_SHOWN)
        if known.size:
            low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
            ax.plot([low, high], [row, row], color=GOOD, linewidth=1.4)
            ax.plot([middle], [row], "o", color=GOOD, markersize=4)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), [""] * len(names))
    ax.set_title(title, loc="left", fontsize=8, color=FAINT)
