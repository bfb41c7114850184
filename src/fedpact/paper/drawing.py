"""What the figures of the paper share: one colour, marker and line per mechanism, quiet axes, one legend, and
files that come out the same every time.

The colours are those of `fedpact.report.plots`, told apart by colour-blind readers; markers and lines differ as well.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

from numpy.typing import ArrayLike

from fedpact.paper.results import Result
from fedpact.report.plots.style import BAD, FAINT, GOOD, INK, dress_axes
from fedpact.utils.errors import MissingExtra

NAMED_COSTS = (0.001, 0.003, 0.01, 0.02)
MARKS: dict[str, dict[str, Any]] = {
    "externality": {"color": GOOD, "marker": "o", "linestyle": "-", "label": "Externality, M$^\\mathrm{E}$"},
    "shapley": {"color": BAD, "marker": "s", "linestyle": "--", "label": "Shapley, M$^\\mathrm{Shap}$"},
}
# In force while a figure is drawn and saved: sizes for a page of 7 inches.
STYLE: dict[str, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.2,
    "svg.hashsalt": "fedpact",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), INK),
}
PICTURE_DPI = 300
# Nothing that changes from day to day or from machine to machine.
PICTURE_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def require_matplotlib() -> None:
    """Fail early, and say how to install it."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error


def pictures(result: Result) -> dict[str, bytes]:
    """The figure as PNG and as SVG."""
    require_matplotlib()
    import matplotlib  # noqa: PLC0415 - optional dependency
    from matplotlib.figure import Figure  # noqa: PLC0415

    assert result.draw is not None
    with matplotlib.rc_context(cast(Any, STYLE)):
        figure = Figure(figsize=result.size, dpi=PICTURE_DPI, layout="constrained", facecolor="white")
        result.draw(figure)
        return {kind: _save(figure, kind, metadata) for kind, metadata in PICTURE_METADATA.items()}


def _save(figure: Any, kind: str, metadata: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()


def two_curves(panel: Any, indices: ArrayLike, externality: ArrayLike, shapley: ArrayLike) -> None:
    """Both mechanisms with markers, and the gap between them lightly filled."""
    panel.fill_between(indices, externality, shapley, color=FAINT, alpha=0.13, linewidth=0)
    for name, amounts in (("externality", externality), ("shapley", shapley)):
        panel.plot(indices, amounts, clip_on=False, markeredgecolor="white", markeredgewidth=0.5, **MARKS[name])


def dress(panel: Any, title: str) -> None:
    """A title, a light grid, and no frame above or to the right."""
    panel.set_title(title)
    dress_axes(panel, tick_size=None)
    panel.tick_params(length=3)


def cost_axis(panel: Any, gammas: Sequence[float]) -> None:
    """The costs on a logarithmic axis: a tick at each, and those named that have room."""
    panel.set_xscale("log")
    panel.set_xticks(NAMED_COSTS, [f"{gamma:g}" for gamma in NAMED_COSTS])
    panel.set_xticks([gamma for gamma in gammas if gamma not in NAMED_COSTS], minor=True)
    panel.tick_params(axis="x", which="minor", length=3, labelbottom=False)
    panel.set_xlim(min(gammas) * 0.85, max(gammas) * 1.15)


def mechanism_legend(figure: Any, *extra: Any) -> None:
    """One legend for all panels, below them."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    handles = [Line2D([], [], **mark) for mark in MARKS.values()]
    figure.legend(handles=[*handles, *extra], loc="outside lower center", ncols=len(handles) + len(extra))
