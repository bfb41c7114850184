"""The federation as it is typed: members, weights, payoff curve, words and money."""

from __future__ import annotations

from collections.abc import Mapping

from fedpact.explorer.draft import MOST_AGENTS, PARAMETERS, Draft
from fedpact.report.html import Child, Html, el

__all__ = ["control", "error_entries", "form", "selection"]

HEADS = {
    "costs": ("Cost", "per unit of data"),
    "quadratic": ("Rising cost", "per unit squared"),
    "caps": ("Cap", "the most it can give"),
    "values": ("Value", "of one unit of payoff"),
}
CURVES = {
    "power-law": "Power law: 1 − (1 + data)^−beta",
    "exponential": "Exponential: 1 − e^(−rate · data)",
    "log": "Logarithm: log(1 + data)",
    "michaelis": "Michaelis: data / (data + half)",
}
PLAIN = {
    "": "The federation",
    "family": "Curve",
    "title": "Title",
    "description": "Description",
    "money.currency": "Currency",
    "money.per_payoff": "Money per unit of payoff",
}
PARAMETER_HINTS = {"beta": "how fast it rises", "rate": "how fast it rises", "half": "data for half of it"}


def control(tag: str, **attributes: str | int | float | bool | None) -> Html:
    """An element without an end tag that reports do not use."""
    return Html(el(tag, **attributes).removesuffix(f"</{tag}>"))


def selection(options: dict[str, str], chosen: str, **attributes: str | int | float | bool | None) -> Html:
    """A list to choose from: labels by value."""
    made = [el("option", label, value=value, selected=value == chosen) for value, label in options.items()]
    return el("select", made, **attributes)


def form(draft: Draft) -> Html:
    """All fields, holding what was typed."""
    return el(
        "form",
        _part("members", "Members", _members(draft), note=_members_note()),
        _part("weights", "Who can use whose data", _weights(draft), note=_weights_note()),
        _part("payoff", "What data is worth", _payoff(draft)),
        _part("words", "Title and money", _words(draft)),
        id="x-form",
        novalidate=True,
        autocomplete="off",
    )


def error_entries(draft: Draft, errors: Mapping[str, str]) -> list[dict[str, str]]:
    """Errors for the page to show: the field, the part of the form it is in, what it is called, what is wrong."""
    return [
        {"field": field, "part": _part_of(field), "words": _words_for(draft, field), "message": message}
        for field, message in errors.items()
    ]


def _part_of(field: str) -> str:
    label = field.partition("[")[0]
    if label == "weights":
        return "weights"
    if label in ("family", "") or label.startswith("payoff."):
        return "members" if "[" in field else "payoff"
    return "members" if label in ("names", *HEADS) else "words"


def _words_for(draft: Draft, field: str) -> str:
    label, _, place = field.partition("[")
    places = [int(each) for each in place.removesuffix("]").split(",") if each]
    if label == "weights":
        return f"{_called(draft, places[1])} to {_called(draft, places[0])}"
    if label == "names":
        return f"Name of member {places[0] + 1}"
    called = HEADS[label][0] if label in HEADS else PLAIN.get(label, label.removeprefix("payoff."))
    return f"{called} of {_called(draft, places[0])}" if places else called


def _part(ident: str, heading: str, *children: Child, note: Child = None) -> Html:
    return el(
        "fieldset",
        el("legend", heading),
        el("p", note, class_="note") if note else None,
        *children,
        el("ul", class_="errors", id=f"x-errors-{ident}", aria_live="polite"),
        data_part=ident,
    )


def _members_note() -> str:
    return "Paste cells from a spreadsheet; move with Enter and the arrow keys."


def _weights_note() -> Child:
    return [
        "The row receives, the column gives; 1 is as good as one’s own data usually is. ",
        el("span", el("span", class_="key gain"), "helps", class_="nowrap"),
        " ",
        el("span", el("span", class_="key loss"), "harms (below 0)", class_="nowrap"),
    ]


def _members(draft: Draft) -> Html:
    columns = dict(HEADS)
    if draft.own_curves:
        columns |= {f"payoff.{label}": (label, PARAMETER_HINTS[label]) for label in draft.parameters}
    heads = [el("th", head, el("small", hint), scope="col") for head, hint in columns.values()]
    rows = [
        el(
            "tr",
            el("td", _input(draft, f"names[{agent}]", f"Name of member {agent + 1}", css="who")),
            [
                el("td", _input(draft, f"{label}[{agent}]", f"{head} of {_called(draft, agent)}", css="number"))
                for label, (head, _) in columns.items()
            ],
            el(
                "td",
                el(
                    "button",
                    "×",
                    type="button",
                    class_="plain remove",
                    data_remove=agent,
                    disabled=draft.n_agents == 1,
                    aria_label=f"Remove {_called(draft, agent)}",
                    title=f"Remove {_called(draft, agent)}",
                ),
            ),
        )
        for agent in range(draft.n_agents)
    ]
    made = el(
        "table",
        el("thead", el("tr", el("th", "Name", scope="col"), heads, el("td"))),
        el("tbody", rows),
        class_="typed members",
    )
    more = el("button", "Add a member", type="button", id="x-add", disabled=draft.n_agents >= MOST_AGENTS)
    return el("div", _scrolling(made, "Members"), more)


def _weights(draft: Draft) -> Html:
    agents = range(draft.n_agents)
    heads = [el("th", el("bdi", _called(draft, giver), data_name=giver), scope="col") for giver in agents]
    rows = [
        el(
            "tr",
            el("th", el("bdi", _called(draft, receiver), data_name=receiver), scope="row"),
            [
                el(
                    "td",
                    _input(
                        draft,
                        f"weights[{receiver},{giver}]",
                        f"Usefulness of {_called(draft, giver)}’s data to {_called(draft, receiver)}",
                        css="number weight own" if receiver == giver else "number weight",
                    ),
                )
                for giver in agents
            ],
        )
        for receiver in agents
    ]
    corner = el("th", "receives ↓", el("br"), "gives →", scope="col")
    made = el("table", el("thead", el("tr", corner, heads)), el("tbody", rows), class_="typed grid")
    return _scrolling(made, "Weights")


def _payoff(draft: Draft) -> Child:
    family = el(
        "label",
        "Curve",
        selection(CURVES, draft["family"], data_field="family", id="x-family"),
        class_="wide",
    )
    shared = [
        el("label", label, el("small", PARAMETER_HINTS[label]), _input(draft, f"payoff.{label}", label, css="number"))
        for label in draft.parameters
        if not draft.own_curves
    ]
    own = el(
        "label",
        control("input", type="checkbox", id="x-own-curves", checked=draft.own_curves),
        "every member has its own",
        class_="check",
    )
    return [
        el("div", family, shared, own if PARAMETERS.get(draft["family"]) else None, class_="row"),
        el("div", id="x-curve"),
    ]


def _words(draft: Draft) -> Html:
    fields = {"title": ("Title", "wide"), "description": ("Description", "wide")}
    money = {"money.currency": ("Currency", ""), "money.per_payoff": ("Money per unit of payoff", "number")}
    made = [
        el("label", label, _input(draft, field, label, css=css), class_=css)
        for field, (label, css) in (fields | money).items()
    ]
    hint = "Leave both empty to see amounts in units of payoff."
    return el("div", made, el("p", hint, class_="note wide"), class_="row")


def _input(draft: Draft, field: str, label: str, *, css: str) -> Html:
    return control(
        "input",
        type="text",
        value=draft[field],
        data_field=field,
        aria_label=label,
        class_=css or None,
        inputmode="decimal" if "number" in css and not field.startswith(("caps", "weights")) else None,
        spellcheck="false",
        autocapitalize="off",
    )


def _called(draft: Draft, agent: int) -> str:
    return draft[f"names[{agent}]"].strip() or f"member {agent + 1}"


def _scrolling(made: Html, label: str) -> Html:
    return el("div", made, class_="scroll", role="region", aria_label=f"{label}; scrolls sideways if narrow")
