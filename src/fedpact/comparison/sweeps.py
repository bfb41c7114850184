"""Metrics of mechanisms over one or two parameters of a federation.

Metrics are the fields of an outcome, and the margins of its certificates by the claim's name. "reciprocity" is the
field, the smallest of the agents' ratios; the margin of that claim is "reciprocity-margin". "lowest_fair_part" is the
smallest ratio of those whose Shapley share is above zero, "lowest_gain_share" the smallest share of a fair gain.

The grid is cut into pieces (`fedpact.comparison.batches`), each a batch under one mechanism.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.comparison.axes import Axis, arrays_at, check_axes, parse_axis
from fedpact.comparison.batches import Arrays, Piece, certify_each, cut, is_vectorised, solve_arrays, solve_pieces
from fedpact.deals.outcome import PER_AGENT, PER_LOT
from fedpact.federation import Federation, require_federation
from fedpact.mechanisms import Mechanism, resolve_mechanisms
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NoFairDeal

MAX_POINTS = 1_000_000
MAX_NUMBERS = 20_000_000  # in the table, which is held in memory
BATCHED_POINTS, BATCHED_COALITIONS = 500, 1 << 15  # at most, in a piece whose points are solved together
SINGLE_POINTS = 10  # in other pieces
FLAGS = ("solved", "on_boundary", "in_domain", "no_deal")
FIELDS = (*PER_AGENT, "welfare", "reciprocity", "lowest_fair_part", "lowest_gain_share")
MARGINS: Mapping[str, Claim] = {f"{claim}-margin" if claim in FIELDS else str(claim): claim for claim in Claim}
METRICS = (*FIELDS, *MARGINS)

# Everything else is in units of payoff.
UNITS: Mapping[str, str] = {
    "contributions": "samples",
    "reciprocity_ratios": "ratio",
    "reciprocity": "ratio",
    "lowest_fair_part": "ratio",
    "gain_shares": "ratio",
    "lowest_gain_share": "ratio",
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
    axes, agents, lots, mechanisms
        What was varied, the names of members and of their lots, and the mechanisms by name.
    metrics
        `metrics[mechanism][metric]` has the shape of the grid, with the members on a last axis where the metric is
        theirs; NaN where there is no equilibrium or the metric is undefined.
    solved, no_deal
        By mechanism, over the grid: whether an equilibrium was found, and whether there is none because no deal keeps
        what the mechanism promises.
    on_boundary, in_domain
        Likewise, false where nothing was solved: whether each lot is not brought at all or all of it (lots on a last
        axis), and whether every coalition's data lies in the domain, as Shapley values need.
    holds
        `holds[mechanism][claim]` for every claim whose margin is a metric: whether it is proved. A margin a little
        below zero may be rounding; this says whether it counts.
    """

    axes: Sequence[Axis]
    agents: Sequence[str]
    lots: Sequence[str]
    mechanisms: Mapping[str, Mechanism]
    metrics: Mapping[str, Mapping[str, FloatArray]]
    solved: Mapping[str, np.ndarray]
    on_boundary: Mapping[str, np.ndarray]
    in_domain: Mapping[str, np.ndarray]
    holds: Mapping[str, Mapping[str, np.ndarray]]
    no_deal: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points there are along every axis."""
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
        flags = {f"{claim}-holds": held for claim, held in self.holds[mechanism].items()} | {
            "solved": solved,
            "on_boundary": self.on_boundary[mechanism].any(axis=-1),
            "in_domain": self.in_domain[mechanism],
        }
        known = {name: np.where(solved | (name == "solved"), flag, np.array(None)) for name, flag in flags.items()}
        return columns | known

    def to_frame(self) -> Any:
        """A pandas frame with a row for each point and mechanism; needs pandas."""
        from fedpact.report.records import columns_frame  # noqa: PLC0415 - optional dependency

        return columns_frame(self.columns())

    def plot(self, *, money: Any = None, data: str = "") -> Any:
        """A figure with curves for one parameter, heat maps for two; needs matplotlib.

        Amounts are in `money` (`fedpact.Money`) where it is given, contributions in units of `data`.
        """
        from fedpact.report.plots.sweeps import plot_sweep  # noqa: PLC0415 - optional dependency

        return plot_sweep(self, money=money, data=data)


def sweep(
    federation: Federation | Scenario,
    vary: str | Axis | Sequence[str | Axis] | Mapping[str, ArrayLike],
    *,
    metrics: Sequence[str] = ("ir_gaps",),
    mechanisms: Mechanism | str | Sequence[Mechanism | str] = ("externality", "shapley"),
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Metrics of the mechanisms' outcomes over one or two parameters.

    Parameters
    ----------
    vary
        What to vary, such as `["weights[0,1]=-3:3:121", "weights[1,0]=-3:3:121"]`, or `{"costs[City]": array}`. Of a
        scenario with money, joining costs and budgets may be sums: "budgets[City]=50000 EUR,80000 EUR".
    metrics
        Fields of an outcome, such as "ir_gaps" or "welfare", or claims, such as "nash", whose margin is meant.
    progress
        Called with the number of points done and of all points, both counted once for every mechanism.
    checkpoint
        A folder for finished pieces: an interrupted sweep that is started again goes on from there. It is left for the
        caller to remove.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
    >>> found = sweep(base, ["costs=0.001,0.002"], metrics=["contributions"], mechanisms=["externality"])
    >>> found.metrics["externality"]["contributions"].round(4).tolist()
    [[18.1238, 18.1238, 18.1238], [9.0215, 9.0215, 9.0215]]
    """
    money = federation.money if isinstance(federation, Scenario) else None
    federation = federation.federation if isinstance(federation, Scenario) else federation
    require_federation(federation)
    several = vary.items() if isinstance(vary, Mapping) else vary
    written: list[Any] = [vary] if isinstance(vary, str | Axis) or not isinstance(several, Iterable) else list(several)
    if len(written) not in {1, 2}:
        counts = f", got {len(written)}"
        raise InvalidInput(field="vary", rule="must be one or two parameters", value=written, given=counts)
    metrics = _check_metrics([metrics] if isinstance(metrics, str) else [str(name) for name in metrics])
    rules = resolve_mechanisms(mechanisms)
    axes = [each if isinstance(each, Axis) else parse_axis(each, federation, money=money) for each in written]
    check_axes(federation, axes)
    shape = tuple(axis.points.size for axis in axes)
    _check_size(federation, math.prod(shape), metrics, len(rules))
    done = solve_pieces(
        {each.name: _cut(federation, axes, each, metrics) for each in rules},
        checkpoint=checkpoint,
        mechanisms=rules,
        identity=(
            federation.fingerprint,
            [(axis.label, axis.field, np.array(axis.indices).tolist(), axis.points.tobytes()) for axis in axes],
            metrics,
        ),
        progress=progress,
    )
    for arrays in done.values():
        for name, array in arrays.items():
            arrays[name] = array.reshape(shape + array.shape[1:])
            arrays[name].setflags(write=False)
    claims = {metric: str(MARGINS[metric]) for metric in metrics if metric in MARGINS}
    return Sweep(
        axes=tuple(axes),
        agents=federation.names,
        lots=federation.lot_labels,
        mechanisms={each.name: each for each in rules},
        metrics={rule: {metric: found[metric] for metric in metrics} for rule, found in done.items()},
        holds={
            rule: {claim: found[f"{metric}-holds"] for metric, claim in claims.items()} for rule, found in done.items()
        },
        **{flag: {rule: found[flag] for rule, found in done.items()} for flag in FLAGS},
    )


def _cut(federation: Federation, axes: Sequence[Axis], mechanism: Mechanism, metrics: Sequence[str]) -> list[Piece]:
    """The pieces of the grid under one mechanism; points are counted with the last axis fastest."""
    vectorised = is_vectorised(federation, mechanism) and not any(metric in MARGINS for metric in metrics)
    batched = min(BATCHED_POINTS, max(SINGLE_POINTS, BATCHED_COALITIONS >> federation.n_agents))
    return cut(
        mechanism.name,
        math.prod(axis.points.size for axis in axes),
        batched if vectorised else SINGLE_POINTS,
        partial(_solve_points, federation, axes, mechanism, metrics),
        vectorised=vectorised,
    )


def _solve_points(
    federation: Federation, axes: Sequence[Axis], mechanism: Mechanism, metrics: Sequence[str], *, start: int, stop: int
) -> Arrays:
    """The metrics and flags of some points of the grid, by name."""
    indices = np.unravel_index(np.arange(start, stop), [axis.points.size for axis in axes])
    points = [axis.points[index] for axis, index in zip(axes, indices, strict=True)]
    outcomes = solve_arrays(federation, arrays_at(federation, axes, points), mechanism)
    found: Arrays = {metric: np.asarray(getattr(outcomes, metric)) for metric in metrics if metric in FIELDS}
    for metric in (metric for metric in metrics if metric in MARGINS):
        proofs = certify_each(outcomes, MARGINS[metric])
        found[metric] = np.array([np.nan if proof is None else proof.margin for proof in proofs])
        found[f"{metric}-holds"] = np.array([proof is not None and proof.holds for proof in proofs])
    no_deal = [isinstance(outcomes.errors.get(index), NoFairDeal) for index in range(stop - start)]
    flags = {"on_boundary": outcomes.on_boundary, "in_domain": outcomes.in_domain & outcomes.solved}
    return found | flags | {"solved": outcomes.solved, "no_deal": np.array(no_deal)}


def _check_metrics(metrics: list[str]) -> list[str]:
    for name in metrics:
        if name not in METRICS:
            raise InvalidInput(field="metrics", rule=f"must be among {', '.join(METRICS)}", value=name)
    if not metrics or len(set(metrics)) < len(metrics):
        raise InvalidInput(field="metrics", rule="must be one or more, each once", value=metrics)
    return metrics


def _check_size(federation: Federation, points: int, metrics: Sequence[str], n_mechanisms: int) -> None:
    numbers = points * n_mechanisms * sum(federation.n_agents if metric in PER_AGENT else 1 for metric in metrics)
    if points > MAX_POINTS or numbers > MAX_NUMBERS:
        rule = f"must make up to {MAX_POINTS:,} points, and {MAX_NUMBERS:,} numbers in all"
        given = f", got {points:,} points and {numbers:,} numbers; take fewer values, metrics or mechanisms"
        raise InvalidInput(field="vary", rule=rule, value=points, given=given)
