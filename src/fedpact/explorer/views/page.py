"""The page itself: head, the form at the side, and tabs for every question."""

from __future__ import annotations

import json

from fedpact.explorer.draft import Draft
from fedpact.explorer.service import FOLLOWED, MOST_CELLS, STEPS
from fedpact.explorer.views.form import control, form, selection
from fedpact.explorer.views.maps import MAPPED
from fedpact.mechanisms import MECHANISMS
from fedpact.report.html import Child, Html, el
from fedpact.scenario.examples import EXAMPLES

__all__ = ["page"]

TABS = {
    "federation": "Federation",
    "deal": "Deal",
    "whatif": "What if",
    "map": "Heat map",
    "leaving": "Who leaves",
    "talks": "Negotiation",
    "files": "Take home",
}
BUILT_IN = {
    "hospitals": "Five hospitals",
    "paper-w1": "Paper, W1: equal",
    "paper-w2": "Paper, W2: unequal",
    "paper-w3": "Paper, W3: one harms",
}
FILES = {
    "report.html": ("The report", "one page to mail or to print, for the members"),
    "scenario.toml": ("The scenario", "TOML, for fedpact and for people"),
    "scenario.json": ("The scenario as JSON", "for other programs"),
    "deal.csv": ("All numbers", "a row per mechanism and member"),
    "deal.json": ("Everything", "numbers, certificates, departures, as `fedpact compare --json` prints it"),
    "deal.png": ("The picture", "both mechanisms and the baselines"),
    "deal.svg": ("The picture, to be scaled", "for documents"),
    "weights.png": ("The weights", "who can use whose data"),
}


def page(draft: Draft, *, token: str, notes: list[str], source: str) -> str:
    """The whole page, with the draft to begin with."""
    start = json.dumps({"draft": draft.record(), "token": token, "notes": notes, "steps": STEPS})
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{source}: fedpact explorer"),
        control("link", rel="icon", href="static/icon.svg", type="image/svg+xml"),
        control("link", rel="stylesheet", href="static/report.css"),
        control("link", rel="stylesheet", href="static/explorer.css"),
        el("script", Html(start.replace("<", "\\u003c")), type="application/json", id="x-start"),
        el("script", type="module", src="static/main.js"),
    )
    panels = [_federation(draft), _deal(), _what_if(), _map(), _leaving(), _talks(), _files()]
    body = el(
        "body",
        el("a", "Skip to the deal", href="#x-deal", class_="skip"),
        _top(),
        _tabs(),
        el("main", panels, class_="desk"),
        data_tab="deal",
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en-GB')}\n"


def _top() -> Html:
    built_in = {"": "Start from…"} | {key: BUILT_IN.get(key, key) for key in EXAMPLES}
    return el(
        "header",
        el("h1", "fedpact explorer"),
        el(
            "div",
            selection(built_in, "", id="x-example", aria_label="Start from a built-in federation"),
            el(
                "label",
                "Open a file",
                control("input", type="file", id="x-file", accept=".toml,.json", class_="hidden"),
                class_="button",
            ),
            el("button", "Undo", type="button", id="x-undo", disabled=True),
            class_="tools",
        ),
        el("p", id="x-status", role="status"),
        el("div", id="x-notes", role="alert"),
        class_="top",
    )


def _tabs() -> Html:
    made = [
        el(
            "button",
            label,
            type="button",
            role="tab",
            id=f"x-tab-{ident}",
            aria_controls=f"x-{ident}",
            aria_selected="true" if ident == "deal" else "false",
            tabindex=0 if ident == "deal" else -1,
            data_tab=ident,
        )
        for ident, label in TABS.items()
    ]
    return el("div", made, role="tablist", class_="tabs", aria_label="Views")


def _panel(ident: str, *children: Child) -> Html:
    return el(
        "div",
        *children,
        id=f"x-{ident}",
        role="tabpanel",
        class_="tabpanel",
        aria_labelledby=f"x-tab-{ident}",
        tabindex=-1,
        hidden=ident not in ("federation", "deal"),
    )


def _federation(draft: Draft) -> Html:
    return _panel("federation", el("div", form(draft), id="x-form-place"))


def _deal() -> Html:
    return _panel("deal", el("div", el("p", "Working out the deal…", class_="note"), id="x-deal-view"))


def _picker(ident: str, legend: str, *more: Child) -> Html:
    """Which parameter, and from where to where; the page fills in kinds and names."""
    places = {"receiver": "received by", "giver": "given by", "agent": "of"}
    return el(
        "fieldset",
        el("legend", legend),
        el(
            "div",
            el("label", "Number", el("select", data_pick="kind")),
            [
                el("label", label, el("select", data_pick=key), data_place=key, hidden=True)
                for key, label in places.items()
            ],
            el("label", "from", control("input", type="text", class_="number", data_pick="low", spellcheck="false")),
            el("label", "to", control("input", type="text", class_="number", data_pick="high", spellcheck="false")),
            more,
            class_="row",
        ),
        el("p", class_="errors", role="alert", data_pick="error"),
        class_="picker",
        id=ident,
    )


def _what_if() -> Html:
    slider = el(
        "div",
        el("p", el("span", "Value", id="x-slide-words"), el("output", "–", id="x-slide-value")),
        control(
            "input", type="range", id="x-slide", min=0, max=STEPS, step=1, value=0, aria_labelledby="x-slide-words"
        ),
        el("button", "Keep this value", type="button", id="x-keep"),
        class_="slider",
    )
    return _panel(
        "whatif",
        el("h2", "What if a number were different?", class_="plain"),
        el("p", "Move the slider: the deals follow. Ticks mark the deals as they are now.", class_="note"),
        _picker("x-slide-pick", "Which number"),
        slider,
        el("div", id="x-moved"),
        el("p", id="x-curves-told", class_="note", role="status"),
        el("div", id="x-range-curves"),
    )


def _map() -> Html:
    rules = {key: MECHANISMS[key].title for key in FOLLOWED}
    count = el(
        "label",
        "points each way",
        control("input", type="number", id="x-map-count", value=31, min=2, max=MOST_CELLS, class_="number"),
    )
    return _panel(
        "map",
        el("h2", "A map over two numbers", class_="plain"),
        _picker("x-map-up", "Upwards"),
        _picker("x-map-right", "To the right"),
        el(
            "div",
            el("label", "Show", selection({key: label for key, (label, _) in MAPPED.items()}, "", id="x-map-metric")),
            el("label", "of", el("select", id="x-map-agent"), hidden=True),
            el("label", "under", selection(rules, "shapley", id="x-map-mechanism")),
            count,
            class_="row",
        ),
        el(
            "p",
            el("button", "Draw the map", type="button", id="x-map-draw", class_="main"),
            " ",
            el("button", "Stop", type="button", id="x-map-stop", hidden=True),
            " ",
            el("progress", id="x-map-progress", max=1, value=0, hidden=True, aria_label="Progress of the map"),
            " ",
            el("span", id="x-map-told", role="status"),
        ),
        el("div", id="x-map-view"),
        el(
            "p",
            el("button", "Save the picture", type="button", id="x-map-png"),
            " ",
            el("button", "Save the numbers", type="button", id="x-map-csv"),
            id="x-map-save",
            hidden=True,
        ),
    )


def _player(ident: str) -> Html:
    """Buttons that page through steps."""
    return el(
        "div",
        el("button", "Back", type="button", data_step="-1"),
        el("button", "Next", type="button", data_step="1", class_="main"),
        el("button", "Play", type="button", data_play="true", aria_pressed="false"),
        control("input", type="range", min=0, max=0, step=1, value=0, aria_label="Step"),
        el("span", class_="note", data_count="true"),
        class_="player",
        id=ident,
        hidden=True,
    )


def _leaving() -> Html:
    rules = {key: MECHANISMS[key].title for key in FOLLOWED}
    orders = {"all": "all who lose, at once", "worst": "who loses most, first"}
    return _panel(
        "leaving",
        el("h2", "Who leaves next?", class_="plain"),
        el("p", "Members who would do better alone leave; the others make a new deal, and so on.", class_="note"),
        el(
            "div",
            el("label", "under", selection(rules, "shapley", id="x-leave-mechanism")),
            el("label", "leaving", selection(orders, "worst", id="x-leave-order")),
            class_="row",
        ),
        _player("x-leave-player"),
        el("div", id="x-leave-view", aria_live="polite"),
    )


def _talks() -> Html:
    protocols = {"price-discovery": "price discovery: few rounds", "admm": "consensus: many small ones"}
    return _panel(
        "talks",
        el("h2", "The negotiation, round by round", class_="plain"),
        el(
            "p",
            "Every member answers questions about itself and keeps its numbers to itself; the coordinator sees the "
            "answers only. They end in the deal of the Externality mechanism.",
            class_="note",
        ),
        el("div", el("label", "by", selection(protocols, "", id="x-talk-protocol")), class_="row"),
        _player("x-talk-player"),
        el("div", id="x-talk-view"),
        el("div", id="x-talk-curve"),
    )


def _files() -> Html:
    rows = [
        el("li", el("button", label, type="button", data_file=file), el("span", file, el("small", about)))
        for file, (label, about) in FILES.items()
    ]
    return _panel(
        "files",
        el("h2", "Take it home", class_="plain"),
        el("p", "Files about the federation as it stands at the side.", class_="note"),
        el("ul", rows, class_="files"),
        el("p", id="x-files-told", role="status"),
    )
