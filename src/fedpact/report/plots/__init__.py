"""Pictures, drawn with matplotlib when they are asked for; one style for all of them.

`results` draws a result on one pair of axes, the `ax` it is given or new ones; `sweeps` draws a figure of panels. Every
function returns the figure: notebooks show it and `figure.savefig` writes it to a file. Without matplotlib it raises
`MissingExtra`.
"""

from fedpact.report.plots.results import (
    plot_comparison,
    plot_delivery,
    plot_federation,
    plot_fit,
    plot_negotiation,
    plot_outcome,
    plot_run,
    plot_study,
)
from fedpact.report.plots.style import new_figure
from fedpact.report.plots.sweeps import plot_sweep

__all__ = [
    "new_figure",
    "plot_comparison",
    "plot_delivery",
    "plot_federation",
    "plot_fit",
    "plot_negotiation",
    "plot_outcome",
    "plot_run",
    "plot_study",
    "plot_sweep",
]
