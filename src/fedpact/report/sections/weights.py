"""The weights as a coloured table: the row receives, the column gives."""

from __future__ import annotations

import numpy as np

from fedpact.report.html import Html, el, name, scrolling
from fedpact.report.view import Selection, View
from fedpact.utils.arrays import FloatArray

__all__ = ["weight_table"]

# The strongest shade; text stays readable on it.
DEEPEST = 0.55
# Tables with more columns are set tighter.
ROOMY = 12


def weight_table(view: View, chosen: Selection) -> Html:
    """The weights among the chosen agents, and a sentence on all of them."""
    agents = np.asarray(list(chosen.agents), dtype=np.intp)
    shown = view.federation.take(agents).dense_weights()
    largest, tight = float(np.abs(shown).max()), len(agents) > ROOMY
    texts = _texts(shown, tight=tight)
    heads = [el("th", el("span", name(view.names[agent])), scope="col") for agent in agents]
    rows = [
        el(
            "tr",
            el("th", name(view.names[agent]), scope="row"),
            [
                _cell(text, float(weight) / largest, own=row == column)
                for column, (weight, text) in enumerate(zip(shown[row], texts[row], strict=True))
            ],
        )
        for row, agent in enumerate(agents)
    ]
    made = el(
        "table",
        el("caption", "Weights"),
        el("thead", el("tr", el("th", "receives ↓ · gives →", scope="col"), heads)),
        el("tbody", rows),
        class_="weights tight" if tight else "weights",
    )
    return el(
        "div",
        el("p", _sentence(view), class_="note"),
        scrolling(made, "Weights"),
    )


def _cell(text: str, strength: float, *, own: bool) -> Html:
    css = "own" if own else "harm" if strength < 0 else "help"
    return el("td", text, class_=f"num {css}", style=None if own else f"--shade:{DEEPEST * abs(strength):.2f}")


def _texts(weights: FloatArray, *, tight: bool) -> list[list[str]]:
    """Every weight as text; with the same few decimals where there is little room."""
    decimals = int(np.clip(2 - np.floor(np.log10(np.abs(weights).max())), 0, 6))
    form = f".{decimals}f" if tight else ".4g"
    return [["0" if weight == 0 else format(weight, form).replace("-", "−") for weight in row] for row in weights]


def _sentence(view: View) -> str:
    """The range of all weights, those not shown among them."""
    federation = view.federation
    n_agents = federation.n_agents
    if n_agents == 1:
        return "A single member: only its own data matters."
    entries = federation.weight_entries
    n_other = int(np.count_nonzero(entries)) - n_agents
    n_harmful = int((entries < 0).sum())
    mean = float((federation.weights.sum() - federation.own_weights.sum()) / (n_agents * (n_agents - 1)))
    harm = f"; {n_harmful:,} of these {'is' if n_harmful == 1 else 'are'} harmful" if n_harmful else "; none is harmful"
    return (
        "The row receives, the column gives; 1 means as useful as one’s own data usually is. "
        f"Of {n_agents * (n_agents - 1):,} pairs of members, {n_other:,} "
        f"have a weight other than zero{harm}. The mean weight of another’s data is {mean:.3g}."
    ).replace("-", "−")
