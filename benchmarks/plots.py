"""The two plots, drawn from the curves that are kept: time against n, error against time. PNG and SVG."""

import numpy as np

from benchmarks import record

# Okabe and Ito's palette, which the colour-blind can tell apart; a colour is a library, a marker a method.
COLOURS = {"fedpact": "#0072b2", "shapiq": "#d55e00", "shap": "#009e73", "pyDVL": "#b0578d"}
INK, FAINT = "#2b2b2b", "#8a8a8a"
ROUNDING = 1e-16  # an error of nothing at all is drawn here
MARKERS = {
    "integral": "o",
    "sampling": "s",
    "SVARM": "D",
    "stratified": "^",
    "permutations": "v",
    "kernel": "P",
    "harmonic strata": "X",
}
TICKS = (4, 8, 12, 20, 50, 100, 200, 500, 1000, 2000)
STYLE = {
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "fedpact",  # the same file from the same curves
}


def draw():
    """Draw whatever there are curves for."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        for plot, picture, name in (("time", _time, "time_against_n"), ("error", _error, "error_against_time")):
            if curves := record.curves(plot):
                _save(picture(curves), name)


def _save(figure, name):
    figure.savefig(record.FOLDER / f"{name}.png", dpi=160, facecolor="white", metadata={"Software": None})
    figure.savefig(record.FOLDER / f"{name}.svg", facecolor="white", metadata={"Date": None})


def _time(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), layout="constrained")
    ax = figure.subplots()
    for curve in curves:
        ours = curve.library == "fedpact" and not curve.method
        colour = INK if curve.method == "enumeration" else COLOURS[curve.library]
        ax.loglog(curve.x, curve.y, "o-", color=colour, linewidth=2.6 if ours else 1.6, markersize=5 if ours else 4)
        words = "all coalitions,\nin NumPy" if curve.method == "enumeration" else f"{curve.library} {curve.method}"
        side = {"ha": "right", "xytext": (-8, 2)} if curve.library == "pyDVL" else {"ha": "left", "xytext": (8, 0)}
        ax.annotate(
            words.strip(), (curve.x[-1], curve.y[-1]), textcoords="offset points", va="center", color=colour,
            fontweight="bold" if ours else "normal", **side,
        )  # fmt: skip
    _plain_axes(ax)
    ax.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
    ax.set_xticks([], minor=True)
    ax.set_xlim(3.5, 4200)
    ax.set_xlabel("agents n")
    ax.set_ylabel("time / time of fedpact for 8 agents")
    ax.set_title("Exact Shapley values", loc="left")
    return figure


def _error(curves):
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(curve.panel for curve in curves))
    figure = Figure(figsize=(11.0, 5.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)[0]
    lines = {}
    for ax, panel in zip(axes, panels, strict=True):
        for curve in (curve for curve in curves if curve.panel == panel):
            (line,) = ax.loglog(curve.x, np.maximum(curve.y, ROUNDING), **_look(curve))
            lines.setdefault(curve.library, {}).setdefault(curve.method, line)
        _plain_axes(ax)
        ax.axhline(1.0, color=FAINT, linewidth=0.9, linestyle=":", zorder=1)
        ax.set_title(panel, loc="left")
        ax.set_xlabel("time / time of fedpact's default")
    axes[0].set_ylabel("largest relative error of a Shapley value")
    axes[-1].text(0.99, 1.4, "100 % wrong", transform=axes[-1].get_yaxis_transform(), ha="right", color=FAINT)
    _legend(figure, lines)
    return figure


def _look(curve):
    ours = curve.library == "fedpact"
    return {
        "color": COLOURS[curve.library],
        "marker": MARKERS[curve.method],
        "linestyle": "--" if ours and curve.method == "sampling" else "-",
        "linewidth": 2.4 if ours else 1.6,
        "markersize": 6.5 if ours else 6,
    }


def _legend(figure, lines):
    """One column for each library."""
    from matplotlib.lines import Line2D

    longest = max(len(methods) for methods in lines.values())
    entries = []
    for library, methods in lines.items():
        entries += [(line, f"{library}, {method}") for method, line in methods.items()]
        entries += [(Line2D([], [], linestyle="none"), "")] * (longest - len(methods))
    handles, words = zip(*entries, strict=True)
    figure.legend(handles, words, loc="outside lower center", ncols=len(lines), frameon=False, columnspacing=3.0)


def _plain_axes(ax):
    ax.grid(True, which="major", color="#e6e6e6", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", length=0)
