"""The end of the report: a glossary, and how everything was computed."""

from __future__ import annotations

import fedpact
from fedpact.report.html import Html, el
from fedpact.report.sections.parts import section
from fedpact.report.view import View
from fedpact.report.words import GLOSSARY, SHAPLEY_METHODS

__all__ = ["method"]


def method(view: View) -> Html:
    """Glossary and method."""
    entries = [el("div", el("dt", word), el("dd", meaning)) for word, meaning in GLOSSARY.items()]
    return section(
        "method",
        "Words and method",
        el("dl", entries, class_="facts wide"),
        el("h3", "How this was computed"),
        el("p", *_computed(view)),
        el(
            "p",
            f"Written by fedpact {fedpact.__version__}. This page is complete in itself: it loads nothing.",
            class_="note",
        ),
    )


def _computed(view: View) -> list[str]:
    used = {outcome.shapley.method for outcome in view.comparison}
    methods = [text for method, text in SHAPLEY_METHODS.items() if method in used]
    shares = f" Shapley shares were computed by {' and by '.join(methods)}." if methods else ""
    return [
        "Contributions under each mechanism are an equilibrium, computed numerically; the certificates check it by "
        "other means.",
        shares,
        " Payments are rounded to whole cents that sum to zero exactly, and settled with few transfers."
        if view.unit.is_money
        else " No exchange rate was given, so amounts are in units of payoff rather than in money.",
        " Who would leave is followed through: all who would do better alone leave at once, the others make a new "
        "deal, and so on.",
    ]
