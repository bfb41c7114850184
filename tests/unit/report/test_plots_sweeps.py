"""Pictures of sweeps: the numbers stand where they belong, marks cover their cells, and every kind of axis is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import Axis
from fedpact.mechanisms import MECHANISMS
from fedpact.report.plots.sweeps import (
    MAX_PANEL_ROWS,
    heat_map,
    mark_regions,
    plot_sweep,
    region_legend,
    scale_of,
    signed_limits,
)

matplotlib = pytest.importorskip("matplotlib")

NAMES = ("a", "b")


def axis(label: str, points: Any) -> Axis:
    return Axis(label=label, field="costs", indices=(np.array([0]),), points=np.asarray(points, dtype=float))


def made(
    *points: Any, names: tuple[str, ...] = NAMES, metrics: Any = None, mechanisms: tuple[str, ...] = ("shapley",)
) -> fp.Sweep:
    """A sweep of any shape whose numbers count up from -3 and are never the same twice."""
    axes = [axis(f"costs[{place}]", each) for place, each in enumerate(points)]
    shape = tuple(each.points.size for each in axes)
    counted = np.arange(np.prod(shape) * len(names), dtype=float).reshape(*shape, len(names)) - 3.0
    given = metrics or {"ir_gaps": counted}
    return fp.Sweep(
        axes=axes,
        agents=names,
        lots=names,
        holds={name: {} for name in mechanisms},
        no_deal=dict.fromkeys(mechanisms, np.zeros(shape, dtype=bool)),
        mechanisms={name: MECHANISMS[name] for name in mechanisms},
        metrics=dict.fromkeys(mechanisms, given),
        solved=dict.fromkeys(mechanisms, np.ones(shape, dtype=bool)),
        on_boundary=dict.fromkeys(mechanisms, np.zeros((*shape, len(names)), dtype=bool)),
        in_domain=dict.fromkeys(mechanisms, np.ones(shape, dtype=bool)),
    )


def marked(sweep: fp.Sweep, **flags: Any) -> fp.Sweep:
    from dataclasses import replace

    return replace(sweep, **{name: dict.fromkeys(sweep.metrics, array) for name, array in flags.items()})


def panel() -> Any:
    return matplotlib.figure.Figure().subplots()


def legend_texts(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


class TestScales:
    def test_an_infinite_value_has_a_place(self) -> None:
        scale = scale_of(np.array([np.inf, 5.0, 50.0]))
        assert scale.positions.tolist() == [0.0, 1.0, 2.0]
        assert list(scale.words) == ["5", "50", "∞"]

    @pytest.mark.parametrize(
        ("points", "logarithmic"),
        [
            (np.geomspace(0.01, 1, 20), True),
            (np.geomspace(1, 0.01, 20), True),
            (np.linspace(0.01, 1, 20), False),
            (np.geomspace(1, 2, 20), False),
            (np.array([1.0, 100.0]), False),
            (np.array([0.0, 1.0, 100.0]), False),
            (np.array([-1.0, 1.0, 100.0]), False),
        ],
    )
    def test_when_an_axis_is_logarithmic(self, points: Any, logarithmic: bool) -> None:
        assert scale_of(points).logarithmic == logarithmic


class TestCurves:
    def test_curves_are_the_numbers(self) -> None:
        sweep = made([0.0, 1.0, 2.0])
        (ax,) = plot_sweep(sweep).axes
        drawn = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
        assert list(drawn) == ["a", "b"]
        np.testing.assert_array_equal(drawn["b"].get_ydata(), sweep.metrics["shapley"]["ir_gaps"][:, 1])
        assert ax.get_xlabel() == "costs[0]"
        assert ax.get_ylabel() == "gain against standing alone\n(units of payoff)"
        assert ax.get_title(loc="left") == "Shapley"

    def test_amounts_are_in_money_where_there_is_money(self) -> None:
        sweep = made([0.0, 1.0, 2.0])
        (ax,) = plot_sweep(sweep, money=fp.Money("EUR", 1000.0)).axes
        drawn = {line.get_label(): line for line in ax.lines}
        np.testing.assert_array_equal(drawn["b"].get_ydata(), 1000.0 * sweep.metrics["shapley"]["ir_gaps"][:, 1])
        assert ax.get_ylabel() == "gain against standing alone\n(EUR)"

    def test_infinite_numbers_leave_gaps(self) -> None:
        sweep = made([0.0, 1.0, 2.0], metrics={"reciprocity": np.array([1.0, np.inf, 2.0])})
        line = plot_sweep(sweep).axes[0].lines[0]
        np.testing.assert_array_equal(line.get_ydata(), [1.0, np.nan, 2.0])

    def test_many_agents_become_their_range(self) -> None:
        sweep = made([0.0, 1.0], names=tuple(f"agent {n}" for n in range(9)))
        figure = plot_sweep(sweep)
        assert legend_texts(figure) == ["lowest of all members", "mean of all members", "highest of all members"]
        highest = next(line for line in figure.axes[0].lines if line.get_label().startswith("highest"))
        np.testing.assert_array_equal(highest.get_ydata(), sweep.metrics["shapley"]["ir_gaps"].max(axis=1))

    def test_an_infinite_cap_is_drawn(self) -> None:
        figure = plot_sweep(made([5.0, np.inf]))
        figure.draw_without_rendering()
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["5", "∞"]

    def test_names_are_no_mathematics_and_none_is_hidden(self) -> None:
        figure = plot_sweep(made([0.0, 1.0], names=("$\\frac$", "_b")))
        figure.draw_without_rendering()
        assert legend_texts(figure) == [r"\$\frac\$", " _b"]


class TestMaps:
    def test_the_first_axis_goes_up_and_the_second_to_the_right(self) -> None:
        sweep = made([0.0, 1.0], [10.0, 30.0, 20.0])
        ax = panel()
        cells = heat_map(ax, sweep, sweep.metrics["shapley"]["ir_gaps"][..., 0], (-8.0, 8.0))
        np.testing.assert_array_equal(cells.get_array(), [[-3.0, 1.0, -1.0], [3.0, 7.0, 5.0]])
        assert cells.get_coordinates()[0, :, 0].tolist() == [5.0, 15.0, 25.0, 35.0]
        assert cells.get_coordinates()[:, 0, 1].tolist() == [-0.5, 0.5, 1.5]

    def test_marks_cover_exactly_their_cells(self) -> None:
        """Of three by three cells those of the last row and column: an angle from edge to edge."""
        flags = np.zeros((3, 3), dtype=bool)
        flags[2, :] = flags[:, 2] = True
        sweep = marked(made([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]), on_boundary=np.stack([flags, flags & False], axis=-1))
        ax = panel()
        mark_regions(ax, sweep, "shapley")
        hatched = ax.collections[0].get_paths()[0]
        for row in range(3):
            for column in range(3):
                for nudge in (-0.45, 0.45):
                    inside = hatched.contains_point((column + nudge, row + nudge))
                    assert inside == flags[row, column], (row, column)
        assert hatched.vertices.min() == -0.5 and hatched.vertices.max() == 2.5

    def test_the_legend_says_what_is_there_and_nothing_else(self) -> None:
        plain = made([0.0, 1.0], [0.0, 1.0])
        some, none = np.array([[True, False], [False, False]]), np.zeros((2, 2), dtype=bool)
        undefined = {"reciprocity_ratios": np.where(some, np.inf, 1.0)[..., None].repeat(2, axis=-1)}
        for sweep, expected in (
            (plain, []),
            (marked(plain, on_boundary=np.stack([some, none], axis=-1)), ["somebody shares nothing or all it has"]),
            (marked(plain, in_domain=~some), ["a coalition leaves the domain"]),
            (marked(plain, solved=~some, in_domain=~some), ["no equilibrium"]),
            (made([0.0, 1.0], [0.0, 1.0], metrics=undefined), ["undefined or infinite"]),
        ):
            figure = matplotlib.figure.Figure(layout="constrained")
            region_legend(figure, sweep)
            assert legend_texts(figure) == expected

    def test_the_line_between_the_signs(self) -> None:
        sweep = made(np.arange(5.0), np.arange(5.0))
        ax = panel()
        values = np.broadcast_to(np.arange(5.0) - 1.5, (5, 5))
        heat_map(ax, sweep, values, (-3.0, 3.0))
        line = ax.collections[1].get_paths()[0].vertices
        np.testing.assert_allclose(line[:, 0], 1.5)
        ax = panel()
        heat_map(ax, sweep, np.where(values < 0, -1e-17, values), (-3.0, 3.0))
        assert len(ax.collections) == 1, "rounding is no sign"

    def test_limits(self) -> None:
        assert signed_limits([np.array([-1.0, 3.0]), np.array([np.nan, np.inf])]) == (-3.0, 3.0)
        assert signed_limits([np.array([-2.0, -1.0])]) == (-2.0, 2.0)
        assert signed_limits([np.array([1.0, 3.0])]) == (0.0, 3.0)
        assert signed_limits([np.array([2.0, 3.0])]) == (2.0, 3.0)
        assert signed_limits([np.array([-1e-14, 3.0])]) == (0.0, 3.0)
        for nothing in ([], [np.nan], [0.0], [1e-16, -1e-16]):
            assert signed_limits([np.array(nothing)]) == (0.0, 1.0)

    def test_a_picture_does_not_grow_without_end(self) -> None:
        metrics = {name: np.ones((2, 2, 2)) for name in ("costs", "payoffs", "payments", "utilities", "standalone")}
        figure = plot_sweep(made([0.0, 1.0], [0.0, 1.0], metrics=metrics, mechanisms=("externality", "shapley")))
        assert figure.get_suptitle() == f"The first {MAX_PANEL_ROWS} of 10 rows; the table holds all"
        assert figure.get_size_inches().max() < 25
