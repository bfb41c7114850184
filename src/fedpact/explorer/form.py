"""The page as it opens: the form of the federation at the side, and a tab for every question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from fedpact.explorer.draft import COLUMNS, MAX_MEMBERS, TAKING_PART, Draft
from fedpact.explorer.files import DOWNLOADS, PACKAGE
from fedpact.explorer.views import MAPPED
from fedpact.federation.payoffs import FAMILIES
from fedpact.mechanisms import DEFAULT_MECHANISMS, MECHANISMS
from fedpact.report.markup import render

MAX_STEP = 60  # the last position of a slider
MAX_CELLS = 101  # of a map, each way
FOLLOWED = tuple(mechanism.name for mechanism in DEFAULT_MECHANISMS.values() if not mechanism.is_baseline)
HEADS: Mapping[str, tuple[str, str]] = {
    "costs": ("Cost", "per unit of data"),
    "quadratic": ("Rising cost", "per unit squared"),
    "caps": ("Cap", "the most it can give"),
    "values": ("Value", "of one unit of payoff"),
    "home": ("At home", "used anyway: all, or an amount"),
    "joining_costs": ("Joining cost", "paid once"),
    "budgets": ("Budget", "the most it can pay"),
}
MODELS = {"common": "One model for all", "personal": "One for each member, without data that harms it"}
FIELD_WORDS = {
    "": "The federation",
    "models": "Models",
    "family": "Curve",
    "title": "Title",
    "description": "Description",
    "not_recommended": "Not recommended, because",
    "unit": "Unit of data",
    "money.currency": "Currency",
    "money.per_payoff": "Money per unit of payoff",
}
TABS = {
    "federation": "Federation",
    "deal": "Deal",
    "whatif": "What if",
    "map": "Heat map",
    "leaving": "Who leaves",
    "files": "Take home",
}
EXAMPLE_TITLES = {
    "hospitals": "Five hospitals",
    "paper-w1": "Paper, W1: equal",
    "paper-w2": "Paper, W2: unequal",
    "paper-w3": "Paper, W3: one harms",
}


def form_view(draft: Draft) -> Markup:
    """All fields, holding what was typed."""
    hints = FAMILIES[draft["family"]].parameter_hints if draft.parameters else {}
    own = {f"payoff.{label}": (label, hints.get(label, "")) for label in draft.parameters}
    columns = {label: HEADS[label] for label in COLUMNS if label in HEADS}
    return render(
        "form.html",
        package=PACKAGE,
        draft=draft,
        names=draft.names,
        columns=columns | (own if draft.own_curves else {}),
        taking_part={label: HEADS[label] for label in TAKING_PART},
        models=MODELS,
        families={name: f"{family.title}: {family.formula}" for name, family in FAMILIES.items()},
        hints=hints,
        words=FIELD_WORDS,
        max_agents=MAX_MEMBERS,
    )


def page_view(draft: Draft, *, token: str, notes: Sequence[str], source: str) -> str:
    """The whole page, with the draft to begin with."""
    return str(
        render(
            "page.html",
            package=PACKAGE,
            source=source,
            start={"draft": draft.record(), "token": token, "notes": notes, "steps": MAX_STEP},
            form=form_view(draft),
            tabs=TABS,
            examples={"": "Start from…"} | EXAMPLE_TITLES,
            rules={key: MECHANISMS[key].full_title for key in FOLLOWED},
            metrics={key: label for key, (label, _) in MAPPED.items()},
            downloads=DOWNLOADS,
            max_step=MAX_STEP,
            max_cells=MAX_CELLS,
        )
    )
