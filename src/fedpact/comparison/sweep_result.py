"""What a sweep found: for every mechanism and every metric, an array over the grid.

Metrics are the fields of an outcome, and the margins of its certificates by the claim's name. "reciprocity" is the
field, the smallest of the agents' ratios; the margin of that claim is "reciprocity-margin". "lowest_fair_part" is the
smallest ratio of those whose Shapley share is above zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.comparison.axes import Axis
from fedpact.deals.outcome import PER_AGENT, PER_LOT
from fedpact.mechanisms import Mechanism
from fedpact.utils.arrays import FloatArray

FIELDS = (*PER_AGENT, "welfare", "reciprocity", "lowest_fair_part")
MARGINS: Mapping[str, Claim] = {f"{claim}-margin" if claim in FIELDS else str(claim): claim for claim in Claim}
METRICS = (*FIELDS, *MARGINS)

# Everything else is in units of payoff.
UNITS: Mapping[str, str] = {
    "contributions": "samples",
    "reciprocity_ratios": "ratio",
    "reciprocity": "ratio",
    "lowest_fair_part": "ratio",
    "net_externality": "payoff per sample",
}


def unit_of(metric: str) -> str:
    """What a metric is counted in."""
    return UNITS.get(metric, "payoff")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """Metrics over a grid of one or two parameters.

    Attributes
    ----------
    axes
        What was varied.
    agents, lots
        The agents' names, and those of their lots: the same where everybody has one.
    mechanisms
        By name.
    metrics
        `metrics[mechanism][metric]` has the shape of the grid, with the agents on a last axis where the metric is
        theirs; NaN where there is no equilibrium or the metric is undefined.
    solved, on_boundary, in_domain
        By mechanism, over the grid: whether an equilibrium was found; whether each agent contributes nothing or its cap
        (with the agents on a last axis); whether every coalition's reach lies in the domain, as Shapley values need.
        The last two say nothing where no equilibrium was found: they are false there, and empty in `columns`.
    no_deal
        By mechanism, over the grid: whether none was found because no deal keeps what the mechanism promises.
    holds
        `holds[mechanism][claim]` for every claim whose margin is a metric, over the grid: whether it is proved.
        A margin a little below zero may be rounding; this says whether it counts. False where nothing was solved.
    """

    axes: Sequence[Axis]
    agents: Sequence[str]
    mechanisms: Mapping[str, Mechanism]
    metrics: Mapping[str, Mapping[str, FloatArray]]
    solved: Mapping[str, np.ndarray]
    on_boundary: Mapping[str, np.ndarray]
    in_domain: Mapping[str, np.ndarray]
    lots: Sequence[str]
    holds: Mapping[str, Mapping[str, np.ndarray]]
    no_deal: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points along every axis."""
        return tuple(axis.points.size for axis in self.axes)

    def title(self, mechanism: str) -> str:
        """What people call a mechanism."""
        return self.mechanisms[mechanism].title

    def is_per_agent(self, metric: str) -> bool:
        """Whether a metric has a number for each agent."""
        return next(iter(self.metrics.values()))[metric].ndim > len(self.shape)

    def labels(self, metric: str) -> Sequence[str]:
        """Whose the numbers of a metric on its last axis are: the agents', or of contributions the lots'."""
        return self.lots if metric in PER_LOT else self.agents

    def columns(self) -> dict[str, list[Any]]:
        """One row for each point and mechanism: the parameters, the mechanism, the metrics, and the flags.

        A parameter that has the name of a metric's column, as the costs of an agent may, is called "varied costs[...]".
        """
        grids = np.meshgrid(*(axis.points for axis in self.axes), indexing="ij")
        parts = [self._columns_of(mechanism) for mechanism in self.metrics]
        count, size = len(parts), int(np.prod(self.shape))
        columns: dict[str, list[Any]] = {}
        for axis, grid in zip(self.axes, grids, strict=True):
            name = f"varied {axis.label}" if axis.label in parts[0] else axis.label
            columns[name] = grid.ravel().tolist() * count
        columns["mechanism"] = [mechanism for mechanism in self.metrics for _ in range(size)]
        for name in parts[0]:
            columns[name] = [number for part in parts for number in part[name].ravel().tolist()]
        return columns

    def _columns_of(self, mechanism: str) -> dict[str, np.ndarray]:
        """The metrics and flags of one mechanism, by the names of their columns."""
        columns: dict[str, np.ndarray] = {}
        for metric, numbers in self.metrics[mechanism].items():
            if self.is_per_agent(metric):
                columns |= {f"{metric}[{name}]": numbers[..., agent] for agent, name in enumerate(self.labels(metric))}
            else:
                columns[metric] = numbers
        solved = self.solved[mechanism]

        def where_solved(flags: np.ndarray) -> np.ndarray:
            flags = flags.astype(object)
            flags[~solved] = None
            return flags

        columns |= {f"{claim}-holds": where_solved(held) for claim, held in self.holds[mechanism].items()}
        columns["solved"] = solved
        columns["on_boundary"] = where_solved(np.asarray(self.on_boundary[mechanism].any(axis=-1)))
        columns["in_domain"] = where_solved(self.in_domain[mechanism])
        return columns

    def to_frame(self) -> Any:
        """A pandas frame with a row for each point and mechanism; needs pandas."""
        from fedpact.report.display import sweep_frame  # noqa: PLC0415 - optional dependency

        return sweep_frame(self)

    def plot(self, *, money: Any = None, data: str = "", figure: Any = None) -> Any:
        """Curves for one parameter, heat maps for two, on `figure` or a new one; needs matplotlib.

        Amounts are in `money` (`fedpact.Money`) where it is given, contributions in units of `data`.
        """
        from fedpact.report.plots import plot_sweep  # noqa: PLC0415 - optional dependency

        return plot_sweep(self, money=money, data=data, figure=figure)
