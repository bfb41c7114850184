"""What is certified: a verdict per mechanism and claim, and the evidence behind each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, join, scrolling
from fedpact.report.sections.parts import folded, section
from fedpact.report.view import MOST_SHOWN, View
from fedpact.report.words import CLAIMS, EVIDENCE

__all__ = ["certificates"]

SIGNS = {Verdict.HOLDS: "✓", Verdict.VIOLATED: "✗", Verdict.NOT_REFUTED: "○", Verdict.UNDEFINED: "–"}


def certificates(view: View) -> Html:
    """A table of claims by mechanisms, then the evidence to open."""
    outcomes = view.comparison.outcomes
    claims = list(outcomes[0].certificates.values())
    return section(
        "certificates",
        "What is certified?",
        el(
            "p",
            "Every claim was checked from the contributions and payments alone, by other methods than those that found "
            "the deal. Some claims a mechanism promises by design, for every federation; the others it may keep or "
            "not, and a claim that is ",
            el("b", "violated"),
            " but was ",
            el("b", "not promised"),
            f" is no error. The margin is the room to spare, in {view.unit.label}; below zero it is by how much the "
            "claim fails.",
        ),
        _matrix(view, [Claim(certificate.claim) for certificate in claims]),
        el("h3", "Evidence"),
        el("p", _evidence_unit(view), class_="note"),
        [
            folded(
                view.title_of(outcome),
                [_evidence(certificate, view, outcome) for certificate in outcome.certificates.values()],
            )
            for outcome in outcomes
        ],
    )


def _matrix(view: View, claims: Sequence[Claim]) -> Html:
    heads = [el("th", view.title_of(outcome), scope="col") for outcome in view.comparison]
    rows = [
        el(
            "tr",
            el("th", CLAIMS[claim][0], el("small", CLAIMS[claim][1]), scope="row"),
            [_cell(view, outcome, outcome.certificates[claim]) for outcome in view.comparison],
        )
        for claim in claims
    ]
    made = el(
        "table",
        el("caption", "Verdicts by claim and mechanism"),
        el("thead", el("tr", el("th", "Claim", scope="col"), heads)),
        el("tbody", rows),
        class_="verdicts stacked",
    )
    return scrolling(made, "Verdicts")


def _cell(view: View, outcome: Outcome, certificate: Certificate) -> Html:
    promised = certificate.claim in view.comparison.mechanisms[outcome.mechanism].claims
    css, word = _judged(certificate, promised=promised)
    return el(
        "td",
        el("span", f"{SIGNS[certificate.verdict]} {certificate.verdict}", class_="verdict"),
        el("small", el("span", word), " ", el("span", f"margin {_margin(view, certificate)}")),
        class_=css,
        data_label=view.title_of(outcome),
    )


def _judged(certificate: Certificate, *, promised: bool) -> tuple[str, str]:
    """The class of a cell and the word on the promise."""
    if certificate.verdict is Verdict.VIOLATED:
        return ("broken", "promised: an error") if promised else ("missed", "not promised")
    if certificate.verdict in {Verdict.NOT_REFUTED, Verdict.UNDEFINED}:
        return "open", "promised" if promised else "not promised"
    return ("kept", "promised by design") if promised else ("bonus", "not promised, holds here")


def _margin(view: View, certificate: Certificate) -> str:
    if np.isnan(certificate.margin):
        return "undefined"
    if abs(certificate.margin) <= certificate.tol:
        return "0"
    return view.unit.column([certificate.margin], signed=True)[0]


def _evidence_unit(view: View) -> str:
    rate = f" One unit is worth {view.unit.text(1.0)}." if view.unit.is_money else ""
    return f"The numbers from which each margin can be worked out anew, in units of payoff.{rate}"


def _evidence(certificate: Certificate, view: View, outcome: Outcome) -> Html:
    promised = certificate.claim in view.comparison.mechanisms[outcome.mechanism].claims
    facts = {
        "verdict": f"{certificate.verdict}; {'promised by design' if promised else 'not promised'}",
        "margin": _number(certificate.margin),
        "counts as rounding": f"up to {_number(certificate.tol)}",
        "scope": certificate.scope,
    }
    entries = [el("div", el("dt", label), el("dd", text)) for label, text in facts.items()]
    entries += [
        el("div", el("dt", EVIDENCE.get(key, key.replace("_", " "))), el("dd", _value(given)))
        for key, given in certificate.witness.items()
    ]
    return folded(
        [f"{CLAIMS[Claim(certificate.claim)][0]}: ", el("b", str(certificate.verdict))],
        el("dl", entries, class_="facts"),
    )


def _value(given: Any) -> Child:
    if isinstance(given, Mapping):
        parts: list[Child] = [
            join(el("bdi", str(key)), " ", _value(value)) for key, value in _first(list(given.items()))
        ]
        return _separated(parts, len(given)) if parts else "nobody"
    if isinstance(given, Sequence) and not isinstance(given, str):
        return _separated([_value(value) for value in _first(given)], len(given))
    if isinstance(given, bool | str):
        return el("bdi", str(given))
    if isinstance(given, int | np.integer):
        return f"{int(given):,}"
    if isinstance(given, float | np.floating):
        return _number(float(given))
    return str(given)


def _first(given: Sequence[Any]) -> Sequence[Any]:
    return given if len(given) <= MOST_SHOWN + 10 else given[:MOST_SHOWN]


def _separated(parts: Sequence[Child], count: int) -> Child:
    joined = [join(", " if place else None, part) for place, part in enumerate(parts)]
    return [*joined, f" and {count - len(parts):,} more" if count > len(parts) else None]


def _number(number: float) -> str:
    return "undefined" if np.isnan(number) else f"{number:.6g}".replace("-", "−")
