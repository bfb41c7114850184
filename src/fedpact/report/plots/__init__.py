"""Pictures, drawn with matplotlib when they are asked for; one style for all of them.

Every function draws on the empty figure or subfigure it is given, best one with `layout="constrained"`, or on a new
one, and returns it: notebooks show it and `figure.savefig` writes it to a file. Without matplotlib it raises
`MissingExtra`.
"""

from fedpact.report.plots.federations import plot_comparison, plot_federation, plot_outcome
from fedpact.report.plots.studies import plot_study
from fedpact.report.plots.style import new_figure
from fedpact.report.plots.sweeps import plot_sweep
from fedpact.report.plots.training import plot_delivery, plot_fit, plot_negotiation, plot_pilot, plot_run

__all__ = [
    "new_figure",
    "plot_comparison",
    "plot_delivery",
    "plot_federation",
    "plot_fit",
    "plot_negotiation",
    "plot_outcome",
    "plot_pilot",
    "plot_run",
    "plot_study",
    "plot_sweep",
]
