"""Pictures, drawn with matplotlib when they are asked for."""

from fedpact.report.plots.fits import plot_fit
from fedpact.report.plots.negotiations import plot_negotiation
from fedpact.report.plots.pictures import (
    AMOUNT,
    BAD,
    FAINT,
    GOOD,
    INK,
    MOST_NAMED,
    MOST_NAMED_COMPARED,
    MOST_NAMED_WEIGHTS,
    RESOLUTION,
    new_figure,
    plot_comparison,
    plot_federation,
    plot_outcome,
)
from fedpact.report.plots.studies import plot_misreports
from fedpact.report.plots.sweeps import plot_sweep

__all__ = [
    "AMOUNT",
    "BAD",
    "FAINT",
    "GOOD",
    "INK",
    "MOST_NAMED",
    "MOST_NAMED_COMPARED",
    "MOST_NAMED_WEIGHTS",
    "RESOLUTION",
    "new_figure",
    "plot_comparison",
    "plot_federation",
    "plot_fit",
    "plot_misreports",
    "plot_negotiation",
    "plot_outcome",
    "plot_sweep",
]
