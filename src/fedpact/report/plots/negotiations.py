"""Pictures of negotiations: how far from agreement, and the welfare on the table, round by round.

Rounds are counted through where the negotiation begins anew without somebody, which is marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.numbers import number_text
from fedpact.report.plots.style import BAD, FAINT, GOOD, INK, dress_axes, legend_name, new_figure
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from fedpact.deals import Deal

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
