"""Fig. 3: who gains over training alone, as the weights between agents 0 and 1 go from harm to help."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fedpact.comparison import Sweep, sweep
from fedpact.federation import Federation, PowerLaw
from fedpact.paper.results import (
    CAP,
    ZERO_AMOUNT,
    Judgement,
    Result,
    Statements,
    Verdict,
    judge,
    number,
    within,
)
from fedpact.report.plots.sweeps import heat_map, mark_regions, region_legend, signed_limits
from fedpact.utils.arrays import FloatArray

GRID_POINTS = 121
CERTIFIED_POINTS = 13  # along each axis, at which equilibria are certified
BETA, COST = 0.02, 0.001
FIG_3 = Statements("section 7.1, Fig. 3")
ROWS = {"shapley": "M$^\\mathrm{Shap}$", "externality": "M$^\\mathrm{E}$"}
LOW, HIGH = 0.05, 3.0

FIG_3_TEXT = """\
The gains Δ_i of three agents over training alone. Agent 1's data has weight w_01 to agent 0 and agent 0's has weight
w_10 to agent 1, both from −3 to 3; the other weights are the paper's, γ = 0.001 and β = 0.02. {points} by {points}
points, each solved exactly; the Nash gain left at any of those certified, {certified} × {certified}, is {regret} of a
unit of payoff.

Red is below zero, blue above, the black line is zero. In hatched areas somebody contributes nothing, and interior
formulas do not apply. In dotted areas some coalition would leave the domain (ξ > 0) at the optimum, and Shapley values
are undefined. No agent may take an action that leaves the domain; then there is an equilibrium at every point. The
paper's own condition, ξ > 0 at every profile up to the caps, holds only where no weight is below −1/τ.
"""


@lru_cache
def grid(points: int = GRID_POINTS, text_reading: bool = False) -> Sweep:
    """The sweep: the first axis is w_10, the second w_01; `text_reading` exchanges giver and receiver everywhere."""
    return sweep(*_plane(points, text_reading), metrics=["ir_gaps", "contributions"])


def _plane(points: int, text_reading: bool = False) -> tuple[Federation, list[str]]:
    """The federation, and the two weights that vary."""
    weights = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [1.0, 3.0, 1.0]])
    up, right = ("weights[0,1]", "weights[1,0]") if text_reading else ("weights[1,0]", "weights[0,1]")
    base = Federation(weights.T if text_reading else weights, costs=COST, caps=CAP, payoff=PowerLaw(beta=BETA))
    return base, [f"{name}=-3:3:{points}" for name in (up, right)]


def fig3_result(points: int = GRID_POINTS) -> Result:
    """The maps, drawn and judged.

    Parameters
    ----------
    points
        How many values of each weight from -3 to 3, both included.
    """
    found = grid(points)
    some = sweep(*_plane(min(points, CERTIFIED_POINTS)), metrics=["nash"])
    regret = -min(float(metrics["nash"].min()) for metrics in some.metrics.values())
    return Result(
        name="fig3",
        title="Fig. 3: gains over training alone as two weights vary",
        columns=_columns(found),
        draw=lambda figure: _draw(figure, found),
        size=(7.2, 4.9),
        text=FIG_3_TEXT.format(
            points=points,
            certified=min(points, CERTIFIED_POINTS),
            regret=within(regret),
        ),
        findings=FIG_3.judge(found),
    )


def _w01(found: Sweep) -> FloatArray:
    return np.broadcast_to(found.axes[1].points[None, :], found.shape)


def _w10(found: Sweep) -> FloatArray:
    return np.broadcast_to(found.axes[0].points[:, None], found.shape)


def _gaps(found: Sweep, mechanism: str) -> FloatArray:
    return found.metrics[mechanism]["ir_gaps"]


def _helping(found: Sweep) -> np.ndarray:
    """The positive quadrant."""
    return np.asarray((_w01(found) > ZERO_AMOUNT) & (_w10(found) > ZERO_AMOUNT))


def _columns(found: Sweep) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"w_01": _w01(found).ravel().tolist(), "w_10": _w10(found).ravel().tolist()}
    for mechanism in ROWS:
        for agent in range(3):
            columns[f"{mechanism}_ir_gap_{agent}"] = _gaps(found, mechanism)[..., agent].ravel().tolist()
        columns[f"{mechanism}_at_bound"] = found.on_boundary[mechanism].any(axis=-1).ravel().tolist()
        columns[f"{mechanism}_in_domain"] = found.in_domain[mechanism].ravel().tolist()
    return columns


def _draw(figure: Any, found: Sweep) -> None:
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    limits = signed_limits([_gaps(found, mechanism) for mechanism in ROWS])
    for row, (mechanism, title) in zip(panels, ROWS.items(), strict=True):
        for agent, panel in enumerate(row):
            drawn = heat_map(panel, found, _gaps(found, mechanism)[..., agent], limits)
            mark_regions(panel, found, mechanism)
            panel.set_title(f"{title}, agent {agent}")
            panel.set_xticks([-3, -2, -1, 0, 1, 2, 3])
            panel.set_yticks([-3, -2, -1, 0, 1, 2, 3])
        row[0].set_ylabel("$w_{10}$: agent 0's data to agent 1")
    for panel in panels[1]:
        panel.set_xlabel("$w_{01}$: agent 1's data to agent 0")
    figure.colorbar(drawn, ax=panels, label="gain over training alone, $\\Delta_i$", shrink=0.8, pad=0.015)
    region_legend(figure, found)


def _share(flags: np.ndarray) -> str:
    return f"{number(100.0 * float(flags.mean()), '.1f')} %"


@FIG_3.statement()
def _shapley_loses(found: Sweep) -> Verdict:
    """Under M^Shap an agent may be better off alone, even where all weights are positive."""
    loses = np.asarray((_gaps(found, "shapley") < -ZERO_AMOUNT).any(axis=-1))
    helped = loses[_helping(found)]
    return judge(bool(helped.any()), partly=bool(loses.any())), (
        f"Somebody would leave at {_share(loses)} of the points, and at {int(helped.sum())} of the {helped.size} with "
        f"both weights positive; the largest loss is {number(-float(_gaps(found, 'shapley').min()))}, there "
        f"{number(-float(_gaps(found, 'shapley')[_helping(found)].min()))}."
    )


@FIG_3.statement(Judgement.NOT_CONFIRMED)
def _who_loses_where_all_help(found: Sweep) -> Verdict:
    """Where all weights are positive it is agents 0 and 1 that lose under M^Shap."""
    helping = _helping(found)
    counts = [int((_gaps(found, "shapley")[..., agent] < -ZERO_AMOUNT)[helping].sum()) for agent in range(3)]
    turned = grid(found.shape[0], text_reading=True)
    others = [int((_gaps(turned, "shapley")[..., agent] < -ZERO_AMOUNT)[_helping(turned)].sum()) for agent in range(3)]
    return judge(counts[0] > 0 and counts[1] > 0 and counts[2] == 0), (
        f"Agents 0, 1 and 2 lose at {counts[0]}, {counts[1]} and {counts[2]} points; agent 1's smallest gain there is "
        f"{number(float(_gaps(found, 'shapley')[..., 1][helping].min()))}. With giver and receiver exchanged, as the "
        f"text reads the weights, it is {others[0]}, {others[1]} and {others[2]}: never both."
    )


def _at(found: Sweep, w01: float, w10: float) -> tuple[int, int]:
    near: Callable[[FloatArray, float], int] = lambda points, value: int(np.argmin(np.abs(points - value)))
    return near(found.axes[0].points, w10), near(found.axes[1].points, w01)


@FIG_3.statement(Judgement.NOT_CONFIRMED)
def _the_example(found: Sweep) -> Verdict:
    """With w_01 low and w_10 high agent 0 gives much to agent 1, is paid too little, and loses under M^Shap."""
    gaps = _gaps(found, "shapley")[..., 0]
    said, mirrored = float(gaps[_at(found, LOW, HIGH)]), float(gaps[_at(found, HIGH, LOW)])
    losing = (gaps < -ZERO_AMOUNT) & _helping(found)
    return judge(said < 0), (
        f"At w_01 = {LOW:g} and w_10 = {HIGH:g} it gains {number(said)}. It loses where it gives little: at "
        f"w_01 = {HIGH:g} and w_10 = {LOW:g} its gain is {number(mirrored)}, and with both weights positive it never "
        f"loses above w_10 = {number(float(_w10(found)[losing].max(initial=-np.inf)))}."
    )


@FIG_3.statement()
def _externality_keeps_all(found: Sweep) -> Verdict:
    """Under M^E everybody gains strictly, over the whole range of weights."""
    gaps = _gaps(found, "externality")
    smallest = [number(float(gaps[..., agent].min()), ".4f") for agent in range(3)]
    return judge(bool((gaps > ZERO_AMOUNT).all())), (
        f"The smallest gains of agents 0, 1 and 2 are {', '.join(smallest)}."
    )


@FIG_3.statement(Judgement.CONDITIONAL)
def _theorem_applies(found: Sweep) -> Verdict:
    """That M^E keeps everybody follows from Theorem 3."""
    inside = ~found.on_boundary["externality"].any(axis=-1)
    applies = inside & (_w01(found) >= -ZERO_AMOUNT) & (_w10(found) >= -ZERO_AMOUNT)
    return judge(bool(applies.all()), partly=bool(applies.any())), (
        f"Theorem 3 asks for weights that do not harm and an optimum with everybody strictly inside its range: both "
        f"hold at {_share(applies)} of the points. Elsewhere nobody loses either, but the theorem does not say so."
    )


@FIG_3.statement(Judgement.NOT_CONFIRMED)
def _which_way_weights_go(_: Sweep) -> Verdict:
    """A positive W_ij says that agent i benefits agent j."""
    weights = np.array([[1.0, 0.5, 2.0], [0.5, 1.0, 0.5], [1.0, 3.0, 1.0]])
    base = Federation(weights, costs=COST, payoff=PowerLaw(beta=BETA))
    weights[0, 1] += 1.0
    profile = np.ones(3)
    moved = base.replace(weights=weights).payoffs(profile) - base.payoffs(profile)
    return judge(bool(moved[1] > 0 and moved[0] == 0)), (
        f"By equation 3 it is the other way round: raising W_01 by one changes the payoffs of agents 0 and 1 by "
        f"{number(float(moved[0]))} and {number(float(moved[1]))}. The definition is used here."
    )
