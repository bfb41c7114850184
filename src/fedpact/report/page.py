"""The report as one page: head, contents, sections. It holds its style and pictures and asks for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path

from fedpact.comparison import Comparison
from fedpact.report.html import Html, el
from fedpact.report.sections.certificates import certificates
from fedpact.report.sections.conditions import conditions
from fedpact.report.sections.contributions import contributions
from fedpact.report.sections.fairness import fairness
from fedpact.report.sections.federation import federation
from fedpact.report.sections.gains import gains
from fedpact.report.sections.method import method
from fedpact.report.sections.payments import payments
from fedpact.report.sections.summary import summary
from fedpact.report.sections.uncertainty import uncertainty
from fedpact.report.sections.welfare import welfare
from fedpact.report.view import View
from fedpact.scenario import Money
from fedpact.utils.files import replace_text
from fedpact.utils.words import count_text

__all__ = ["render_report", "write_report"]

# What needs at least one solved mechanism, in order, with the short names of the contents.
ABOUT_OUTCOMES = {
    "contributions": (contributions, "Contributions"),
    "payments": (payments, "Payments"),
    "gains": (gains, "Gains"),
    "uncertainty": (uncertainty, "Certainty"),
    "fairness": (fairness, "Fairness"),
    "welfare": (welfare, "Welfare"),
    "certificates": (certificates, "Certificates"),
    "conditions": (conditions, "Assumptions"),
}
ALWAYS = {"federation": (federation, "Federation"), "method": (method, "Glossary")}


def render_report(
    comparison: Comparison, *, scenario_title: str = "", description: str = "", money: Money | None = None
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

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, Standalone, compare
    >>> alone = Federation([[1.0]], costs=0.001, payoff=PowerLaw(beta=0.02), names=["Ada & Co"])
    >>> "Ada &amp; Co" in render_report(compare(alone, [Standalone()]))
    True
    """
    title = scenario_title.strip() or f"A federation of {count_text(comparison.federation.n_agents, 'member')}"
    view = View(comparison=comparison, title=title, description=description.strip(), money=money)
    parts = (ABOUT_OUTCOMES if comparison.outcomes else {}) | ALWAYS
    if not comparison.uncertainty:
        parts = {ident: part for ident, part in parts.items() if ident != "uncertainty"}
    body = el(
        "body",
        _header(view),
        el("main", summary(view), _contents(parts), [make(view) for make, _ in parts.values()]),
    )
    return f"<!DOCTYPE html>\n{el('html', _head(view), body, lang='en-GB')}\n"


def write_report(
    comparison: Comparison,
    path: str | PathLike[str],
    *,
    scenario_title: str = "",
    description: str = "",
    money: Money | None = None,
) -> None:
    """Write the report to a file, whole or not at all; see `render_report`.

    Raises
    ------
    InvalidInput
        If the folder does not exist or the file cannot be written.
    """
    text = render_report(comparison, scenario_title=scenario_title, description=description, money=money)
    replace_text(Path(path), text)


def _head(view: View) -> Html:
    style = files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8")
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="generator", content="fedpact"),
        el("title", f"{view.title}: federation report"),
        el("style", Html(style)),
    )


def _header(view: View) -> Html:
    return el(
        "header",
        el("p", "Federation report", class_="kicker"),
        el("h1", view.title),
        el("p", view.description, class_="lead") if view.description else None,
    )


def _contents(parts: Mapping[str, tuple[object, str]]) -> Html:
    entries = [el("li", el("a", label, href=f"#{ident}")) for ident, (_, label) in parts.items()]
    return el("nav", el("ol", entries), aria_label="Contents")
