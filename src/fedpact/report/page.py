"""The report as one page: head, contents, sections. It holds its style and pictures and asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedpact.comparison import Comparison
from fedpact.report.background_sections import certificates, conditions, federation, method, summary
from fedpact.report.deal_sections import contributions, gains, payments, uncertainty
from fedpact.report.markup import render
from fedpact.report.property_table import has_property_table, properties
from fedpact.report.stability import stability
from fedpact.report.view import View
from fedpact.scenario import Measured, Money
from fedpact.utils.files import replace_text

SECTIONS: Mapping[str, Callable[[View], dict[str, Any]]] = {
    "summary": summary,
    "contributions": contributions,
    "payments": payments,
    "gains": gains,
    "uncertainty": uncertainty,
    "stability": stability,
    "properties": properties,
    "certificates": certificates,
    "conditions": conditions,
    "federation": federation,
    "method": method,
}
"""What the template of each section shows."""

# After the summary, in order, with the short names of the contents.
CONTENTS = {
    "gains": "Gains",
    "payments": "Payments",
    "contributions": "Contributions",
    "uncertainty": "Certainty",
    "stability": "Holding together",
    "properties": "Properties",
    "certificates": "Certificates",
    "conditions": "Assumptions",
    "federation": "Federation",
    "method": "Glossary",
}
WITHOUT_OUTCOMES = ("federation", "method")


def render_report(
    comparison: Comparison,
    *,
    scenario_title: str = "",
    description: str = "",
    money: Money | None = None,
    unit: str = "",
    measured: Measured | None = None,
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    comparison
        The outcomes to report on.
    scenario_title, description
        For the head of the page; empty if there is nothing to say.
    money
        The exchange rate; without one, amounts are in units of payoff.
    unit
        What contributions are counted in, such as "thousand records".
    measured
        What a pilot measured of the members and their deal; None if no pilot did.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, Standalone, compare
    >>> alone = Federation([[1.0]], costs=0.001, payoff=PowerLaw(beta=0.02), names=["Ada & Co"])
    >>> "Ada &amp; Co" in render_report(compare(alone, [Standalone()]))
    True
    """
    view = View.of(comparison, title=scenario_title, description=description, money=money, data=unit)
    view = replace(view, measured=measured)
    has_outcomes = comparison.outcomes and (measured is None or measured.has_deal)
    contents = {
        ident: label
        for ident, label in CONTENTS.items()
        if (has_outcomes or ident in WITHOUT_OUTCOMES)
        and (comparison.uncertainty or ident != "uncertainty")
        and (ident != "properties" or has_property_table(comparison))
    }
    parts = [render_section(ident, view) for ident in contents]
    return str(
        render(
            "report.html",
            view=view,
            style=style_sheet(),
            summary=render_section("summary", view),
            contents=contents,
            parts=parts,
        )
    )


def render_section(ident: str, view: View) -> Markup:
    """One section of the report as HTML; also for other pages that have its style sheet."""
    return render(f"{ident}.html", view=view, **SECTIONS[ident](view))


def style_sheet() -> Markup:
    """The style sheet of all pages."""
    return Markup(files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8"))


def write_report(
    comparison: Comparison,
    path: str | PathLike[str],
    *,
    scenario_title: str = "",
    description: str = "",
    money: Money | None = None,
    unit: str = "",
    measured: Measured | None = None,
) -> None:
    """Write the report to a file, whole or not at all; see `render_report`.

    Raises
    ------
    InvalidInput
        If the folder does not exist or the file cannot be written.
    """
    text = render_report(
        comparison,
        scenario_title=scenario_title,
        description=description,
        money=money,
        unit=unit,
        measured=measured,
    )
    replace_text(Path(path), text)
