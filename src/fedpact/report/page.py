"""The report as one page: head, contents, sections. It holds its style and pictures and asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path

from markupsafe import Markup

from fedpact.comparison import Comparison
from fedpact.report import sections
from fedpact.report.markup import render
from fedpact.report.tables import has_properties
from fedpact.report.view import View
from fedpact.scenario import Scenario
from fedpact.utils.files import replace_text

# The appendix, in order: the short name in the contents, and what makes the section.
SECTIONS: Mapping[str, tuple[str, Callable[[View], sections.Section]]] = {
    "gains": ("Gains", sections.gains),
    "uncertainty": ("Certainty", sections.uncertainty),
    "properties": ("Properties", sections.properties),
    "deals": ("All numbers", sections.deals),
    "certificates": ("Certificates", sections.certificates),
    "federation": ("Federation", sections.federation),
    "method": ("Glossary", sections.method),
}
WITHOUT_OUTCOMES = ("federation", "method")


def render_report(comparison: Comparison, scenario: Scenario | None = None) -> str:
    """The report as HTML text.

    Parameters
    ----------
    comparison
        The outcomes to report on.
    scenario
        Its title and description, money, the unit of data, and what a pilot measured; without one, amounts are in
        units of payoff.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, Standalone, compare
    >>> alone = Federation([[1.0]], costs=0.001, payoff=PowerLaw(beta=0.02), names=["Ada & Co"])
    >>> "Ada &amp; Co" in render_report(compare(alone, [Standalone()]))
    True
    """
    view = View.of(comparison, scenario)
    has_outcomes = comparison.outcomes and (view.measured is None or view.measured.has_deal)
    contents = {
        ident: label
        for ident, (label, _) in SECTIONS.items()
        if (has_outcomes or ident in WITHOUT_OUTCOMES)
        and (comparison.uncertainty or ident != "uncertainty")
        and (ident != "properties" or has_properties(comparison))
    }
    summary, parts = render_section("summary", view), [render_section(ident, view) for ident in contents]
    return str(render("report.html", view=view, style=style_sheet(), summary=summary, contents=contents, parts=parts))


def render_section(ident: str, view: View) -> Markup:
    """One section of the report as HTML; also for other pages that have its style sheet."""
    if ident == "summary":
        return render("summary.html", view=view, **sections.summary(view))
    return render("section.html", ident=ident, section=SECTIONS[ident][1](view))


def style_sheet() -> Markup:
    """The style sheet of all pages."""
    return Markup(files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8"))


def write_report(comparison: Comparison, path: str | PathLike[str], scenario: Scenario | None = None) -> None:
    """Write the report to a file, whole or not at all; see `render_report`.

    Raises
    ------
    InvalidInput
        If the folder does not exist or the file cannot be written.
    """
    replace_text(Path(path), render_report(comparison, scenario))
