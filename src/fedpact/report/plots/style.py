"""What all pictures share: colours, lines and dashes, quiet axes, names short enough, a legend below the panels.

Blue is good for the agent it belongs to and orange is bad; signs, positions and dashes say the same, so that no reader
depends on the colours. Figures are made without pyplot: nothing global changes and no display is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from fedpact.utils.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOOD, BAD = "#0072b2", "#d55e00"  # blue and vermilion of the palette of Okabe and Ito
INK, FAINT, GRID = "#2b2b2b", "#8a8a8a", "#e6e6e6"
LINES = (GOOD, BAD, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a900")  # after Okabe and Ito
DASHES = ("-", "--", "-.", ":")
UNNAMED = "#c8c8c8"  # lines of agents beyond those that can be told apart
MAX_NAMED_LINES = 8
MAX_NAME_LENGTH = 24
LETTERS_PER_INCH = 15  # of a legend
KEY_LETTERS = 6  # as much room as these takes the key of an entry
RESOLUTION = 110
FILE_RESOLUTION, MAX_PIXELS = 200, 4000


def line_style(index: int) -> Mapping[str, Any]:
    """The colour and dashes of the line at an index."""
    return {"color": LINES[index % len(LINES)], "linestyle": DASHES[index % len(DASHES)]}


def dress_axes(ax: Axes, *, tick_size: float | None = 8) -> None:
    """A light grid, and no frame above or to the right; small ticks unless their size is left to the figure."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    if tick_size is not None:
        ax.tick_params(labelsize=tick_size, colors=INK)


def short_name(name: str, longest: int = MAX_NAME_LENGTH) -> str:
    """A name on one line, its middle left out if it is long: endings tell similar names apart."""
    line = " ".join(name.split())
    return line if len(line) <= longest else f"{line[: longest // 2]}…{line[1 - longest // 2 :]}"


def legend_name(name: str, longest: int = MAX_NAME_LENGTH) -> str:
    """The same for legends and titles, which leave out what begins with _ and read dollars as mathematics."""
    short = short_name(name, longest).replace("$", r"\$")
    return f" {short}" if short.startswith("_") else short


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """One legend for all panels, in as many columns as fit."""
    if not labels:
        return
    widths = [(len(label) + KEY_LETTERS) / LETTERS_PER_INCH for label in labels]
    root = figure.get_figure(root=True)
    room = float((figure if root is None else root).get_size_inches()[0])
    columns = len(labels) if sum(widths) <= room else max(1, int(room / max(widths)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def axes_of(ax: Any, width: float, height: float) -> Any:
    """The axes given, or those of a new figure of that many inches."""
    return new_figure(width, height).subplots() if ax is None else ax


def new_figure(width: float, height: float) -> Figure:
    """A figure of that many inches, which notebooks show; needs matplotlib."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error
    figure: Figure = _picture_class()(figsize=(width, height), dpi=RESOLUTION, layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.1, h_pad=0.08)
    return figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as a file: "png", "svg" or "pdf"."""
    content = BytesIO()
    figure.savefig(content, format=kind, dpi=min(FILE_RESOLUTION, MAX_PIXELS / max(figure.get_size_inches())))
    return content.getvalue()


@cache
def _picture_class() -> Any:
    """A figure that notebooks show without pyplot."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional dependency

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Picture
