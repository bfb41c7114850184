"""Who contributes what under each mechanism, and alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.programs.best_response import standalone_optimum
from fedpact.report.html import Child, Html, el, name
from fedpact.report.numbers import given_text, number_texts
from fedpact.report.sections.parts import BarRow, bar_table, group, section
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.view import View
from fedpact.utils.arrays import FloatArray

__all__ = ["contributions"]

# A contribution closer to its cap than this part of it has reached it.
AT_CAP = 1e-9
# Caps up to this many times the largest contribution are marked.
CAPS_WITHIN = 2.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """Contributions under one mechanism, or alone."""

    title: str
    css: str
    contributions: FloatArray


def contributions(view: View) -> Html:
    """A group of bars per agent, one bar per mechanism and one for standing alone."""
    profiles = _profiles(view)
    numbers = np.array([profile.contributions for profile in profiles])
    chosen = view.select(numbers.max(axis=0), "the largest contributions")
    shown = list(chosen.agents)
    axis = _axis(numbers[:, shown], view.federation.caps[shown])
    texts = np.array(number_texts(numbers[:, shown].ravel())).reshape(len(profiles), -1)
    totals = number_texts(numbers.sum(axis=1))
    together = ", ".join(f"{profile.title} {total}" for profile, total in zip(profiles, totals, strict=True))
    return section(
        "contributions",
        "Who contributes what?",
        el(
            "p",
            f"How much data each member puts in under each mechanism. {profiles[-1].title} is what it would use if it "
            f"trained by itself. {_ticks(view, axis)}",
        ),
        el("p", f"All members together: {together}.", class_="note"),
        el(
            "div",
            [_group(view, agent, profiles, axis, texts[:, place].tolist()) for place, agent in enumerate(shown)],
            class_="groups",
        ),
        chosen.note,
    )


def _profiles(view: View) -> list[Profile]:
    """What was solved, with standing alone last, whether it was among it or not."""
    made = [
        Profile(title=view.title_of(outcome), css=view.colour(outcome), contributions=outcome.contributions)
        for outcome in view.comparison
    ]
    alone = [profile for profile in made if profile.css == "alone"]
    if not alone:
        alone = [Profile(title="Alone", css="alone", contributions=standalone_optimum(view.federation)[0])]
    return [profile for profile in made if profile.css != "alone"] + alone


def _group(view: View, agent: int, profiles: Sequence[Profile], axis: Axis, texts: Sequence[str]) -> Html:
    who, cap = view.names[agent], float(view.federation.caps[agent])
    mark = cap if cap <= axis.high else None
    rows = [
        BarRow(
            label=profile.title,
            picture=bar(axis, given, profile.css, f"{who}, {profile.title}: {text}", mark=mark),
            number=[el("small", "all it has ") if 0 < cap * (1.0 - AT_CAP) <= given else None, text],
        )
        for profile, text in zip(profiles, texts, strict=True)
        for given in (float(profile.contributions[agent]),)
    ]
    bars = bar_table(f"Contributions of {who}", rows, heads=("Mechanism", "Contribution"), show_heads=False)
    return group(_head(who, cap), bars)


def _axis(profiles: FloatArray, caps: FloatArray) -> Axis:
    """An axis with the caps on it, unless that would leave the bars short."""
    largest = float(profiles.max())
    near = caps[caps <= CAPS_WITHIN * largest]
    return Axis.over(profiles, near)


def _ticks(view: View, axis: Axis) -> str:
    within = view.federation.caps <= axis.high
    if not within.any():
        return ""
    return (
        f"The upright line marks the most it could give{'' if within.all() else ', where that is within the picture'}."
    )


def _head(agent: str, cap: float) -> Child:
    text = "no cap" if np.isinf(cap) else f"can give up to {given_text(cap)}" if cap > 0 else "has nothing to give"
    return [el("h3", name(agent)), el("p", text, class_="note")]
