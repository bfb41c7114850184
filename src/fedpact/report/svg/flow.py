"""Who pays whom: payers on the left, payees on the right, ribbons between them as wide as what is paid.

The ribbons are drawn in a box 100 wide that stretches to the page. Names and amounts stand beside it as text, so they
neither stretch nor shrink.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedpact.deals import Settlement
from fedpact.report.html import Html, el, name
from fedpact.report.numbers import cents_text
from fedpact.report.svg.nodes import MOST_NODES, Layout, Node, laid_out

__all__ = ["flow"]

NODE_WIDTH = 9
BEND = 45


def flow(settlement: Settlement, title: str, ident: str) -> Html:
    """The picture of a settlement that has transfers; `ident` keeps apart several pictures on one page."""
    layout = laid_out(settlement)
    height = f"{layout.height:g}"
    stretched = el(
        "svg",
        el("defs", _gradient(ident)),
        _ribbons(layout, settlement, ident),
        viewBox=f"0 0 100 {height}",
        preserveAspectRatio="none",
        width="100%",
        height=height,
    )
    picture = el(
        "svg",
        el("title", title, id=f"{ident}-title"),
        el("desc", _description(layout, settlement), id=f"{ident}-desc"),
        stretched,
        _bars(layout.payers, "loss", "0%"),
        _bars(layout.payees, "gain", "100%"),
        width="100%",
        height=height,
        class_="chart",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
    )
    left, right = _labels(layout.payers, settlement, -1), _labels(layout.payees, settlement, +1)
    return el("div", left, picture, right, class_="flow", style=f"height:{height}px")


def _gradient(ident: str) -> Html:
    stops = [el("stop", offset=offset, class_=css) for offset, css in ((0, "stop-loss"), (1, "stop-gain"))]
    ends = {"x1": 0, "x2": 100, "y1": 0, "y2": 0}
    return el("linearGradient", stops, id=f"{ident}-gradient", gradientUnits="userSpaceOnUse", **ends)


def _ribbons(layout: Layout, settlement: Settlement, ident: str) -> list[Html]:
    """One ribbon per pair; each leaves its payer, and reaches its payee, in the order of the other side."""
    starts = {node.key: node.top for node in layout.payers}
    ends = {node.key: node.top for node in layout.payees}
    paths = []
    for payer in layout.payers:
        for payee in layout.payees:
            cents = layout.ribbons.get((payer.key, payee.key), 0)
            if not cents:
                continue
            first, last = payer.height * cents / payer.cents, payee.height * cents / payee.cents
            shape = _ribbon(starts[payer.key], first, ends[payee.key], last)
            starts[payer.key] += first
            ends[payee.key] += last
            hint = el("title", _sentence(payer, payee, cents, settlement))
            paths.append(el("path", hint, d=shape, fill=f"url(#{ident}-gradient)", class_="ribbon"))
    return paths


def _ribbon(top: float, first: float, end: float, last: float) -> str:
    """A band from the left edge, `first` wide, to the right edge, `last` wide."""
    far = 100 - BEND
    return (
        f"M0 {top:.2f}C{BEND} {top:.2f} {far} {end:.2f} 100 {end:.2f}V{end + last:.2f}"
        f"C{far} {end + last:.2f} {BEND} {top + first:.2f} 0 {top + first:.2f}Z"
    )


def _bars(nodes: Sequence[Node], css: str, at: str) -> list[Html]:
    moved = None if at == "0%" else f"translate(-{NODE_WIDTH} 0)"
    return [
        el(
            "rect",
            x=at,
            y=f"{node.top:.2f}",
            width=NODE_WIDTH,
            height=f"{node.height:.2f}",
            transform=moved,
            class_=f"bar {css}",
        )
        for node in nodes
    ]


def _labels(nodes: Sequence[Node], settlement: Settlement, sign: int) -> Html:
    """Names and amounts beside the bars: what is paid with a minus, what is received with a plus."""
    css, mark = ("loss-text", "−") if sign < 0 else ("gain-text", "+")

    def label(node: Node) -> Html:
        who = el("span", node.label, class_="name rest") if node.key is None else name(node.label)
        amount = el("span", f"{mark}{cents_text(settlement, node.cents)}", class_=f"amount {css}")
        return el("li", who, amount, style=f"top:{node.top + node.height / 2:.1f}px")

    return el("ul", [label(node) for node in nodes])


def _description(layout: Layout, settlement: Settlement) -> str:
    payers = {node.key: node for node in layout.payers}
    payees = {node.key: node for node in layout.payees}
    largest = sorted(layout.ribbons.items(), key=lambda item: -item[1])[: 2 * MOST_NODES]
    return " ".join(_sentence(payers[payer], payees[payee], cents, settlement) for (payer, payee), cents in largest)


def _sentence(payer: Node, payee: Node, cents: int, settlement: Settlement) -> str:
    verb = "pay" if payer.key is None else "pays"
    return f"{payer.label} {verb} {payee.label} {cents_text(settlement, cents)} {settlement.currency}."
