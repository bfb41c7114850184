"""What the results rest on: the paper's assumptions; and what stands out under each mechanism."""

from __future__ import annotations

from collections.abc import Sequence

from fedpact.certificates import Assumption
from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, listed, scrolling
from fedpact.report.sections.parts import section
from fedpact.report.view import MOST_SHOWN, View
from fedpact.report.words import ASSUMPTIONS
from fedpact.utils.words import count_text

__all__ = ["conditions"]


def conditions(view: View) -> Html:
    """A table of assumptions, then a few sentences per mechanism."""
    return section(
        "conditions",
        "What the results rest on",
        el(
            "p",
            "The theory makes a few assumptions. Where one fails, the deal and its certificates above still stand, for "
            "they were computed for this very federation; only what is said below no longer follows in general. "
            "Theorems are numbered as in the paper that fedpact implements.",
        ),
        _assumptions(view),
        el("h3", "What stands out"),
        el("p", f"Amounts here are in units of payoff; one is worth {view.unit.text(1.0)}.", class_="note")
        if view.unit.is_money and any(outcome.diagnosis for outcome in view.comparison)
        else None,
        el("dl", [_notes(view, outcome) for outcome in view.comparison], class_="facts wide"),
    )


def _assumptions(view: View) -> Html:
    outcomes = view.mechanisms_proper
    rows = []
    for same in zip(*(outcome.assumptions for outcome in outcomes), strict=True):
        failing = [(outcome, one) for outcome, one in zip(outcomes, same, strict=True) if not one.holds]
        about = ASSUMPTIONS.get(same[0].name)
        rows.append(
            el(
                "tr",
                el("th", same[0].name.capitalize(), el("small", about) if about else None, scope="row"),
                el("td", el("span", "✗ fails" if failing else "✓ holds", class_="verdict"), class_=_css(failing)),
                el("td", _failures(view, failing, len(outcomes)) if failing else "nothing is lost"),
            )
        )
    heads = [el("th", head, scope="col") for head in ("Assumption", "Here", "What is lost")]
    made = el(
        "table",
        el("caption", "Assumptions of the theory"),
        el("thead", el("tr", heads)),
        el("tbody", rows),
        class_="verdicts assumptions stacked",
    )
    return scrolling(made, "Assumptions")


def _css(failing: Sequence[tuple[Outcome, Assumption]]) -> str:
    return "missed" if failing else "kept"


def _failures(view: View, failing: Sequence[tuple[Outcome, Assumption]], n_outcomes: int) -> Child:
    """For whom it fails and what follows; said once if it is the same under all mechanisms."""
    agents = {tuple(one.agents) for _, one in failing}
    consequence = failing[0][1].consequence
    if len(agents) == 1 and len(failing) == n_outcomes:
        who: Child = ["Fails for ", listed(failing[0][1].agents, most=4), ": "]
    else:
        parts = [["under ", view.title_of(outcome), " for ", listed(one.agents, most=4)] for outcome, one in failing]
        who = ["Fails ", *([", " if place else None, part] for place, part in enumerate(parts)), ": "]
    return [who, consequence, "."]


def _notes(view: View, outcome: Outcome) -> Html:
    shown = outcome.diagnosis[:MOST_SHOWN]
    sentences = [el("li", sentence) for sentence in shown]
    rest = len(outcome.diagnosis) - len(shown)
    if rest:
        sentences.append(el("li", f"{count_text(rest, 'more member')} of whom the like can be said."))
    note = outcome.equilibria.note
    found = el("p", "Equilibrium: ", note, "" if note.endswith(".") else ".")
    quiet = "Nobody harms the others on net, nobody would leave." if outcome.federated else "Nobody federates."
    return el(
        "div",
        el("dt", el("span", class_=f"swatch {view.colour(outcome)}"), view.title_of(outcome)),
        el("dd", found, el("ul", sentences) if sentences else el("p", quiet)),
    )
