"""From what was typed to a scenario, or to an error at every field that is wrong.

The rules are those of `Federation` and `Money`, which say them one at a time. So the federation is made again and
again: whatever a rule refuses is noted at its field and set aside for a stand-in, until nothing is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpact.explorer.draft import COLUMNS, UNLIMITED, Draft, field_names
from fedpact.federation import Federation, Quadratic
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Money, Scenario
from fedpact.scenario.fields import name_list, text
from fedpact.utils.errors import InvalidInput

__all__ = ["Reading", "read_draft", "typed_number"]

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
REFUSED = re.compile(r"(?P<label>[a-z_.]+)(\[(?P<row>\d+)(, (?P<column>\d+))?\])? (?P<rule>.*)", re.DOTALL)
WHO = re.compile(r' \(agent ".*"\)$', re.DOTALL)
SHOWN = 40  # characters of a wrong text
INFINITE = ("inf", "infinity", "∞", UNLIMITED)
# What stands in for a refused entry while the others are looked at.
STAND_INS = {"costs": 1.0, "quadratic": 0.0, "caps": 1.0, "values": 1.0, "money.per_payoff": 1.0}
LABELS = {"costs.linear": "costs", "costs.quadratic": "quadratic"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What a draft says: a scenario, or what is wrong by field; "" is for what belongs to no single field."""

    scenario: Scenario | None
    errors: Mapping[str, str]


def typed_number(given: str) -> float:
    """A number as people type it."""
    plain = re.sub(r"[\s\u2009\u202f]", "", given).replace("\N{MINUS SIGN}", "-")
    if not plain:
        raise InvalidInput("must be a number; nothing is typed here")
    if not NUMBER.fullmatch(plain):
        hint = "; write the decimal point as a dot" if NUMBER.fullmatch(plain.replace(",", ".")) else ""
        short = given.strip() if len(given.strip()) <= SHOWN else f"{given.strip()[:SHOWN]}…"
        raise InvalidInput(f"must be a number, got “{short}”{hint}")
    return float(plain)


def read_draft(draft: Draft) -> Reading:
    """The scenario of a draft, or every error in it.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fedpact.scenario.examples import hospitals
    >>> from fedpact.explorer.draft import draft_of
    >>> draft = draft_of(hospitals())
    >>> wrong = replace(draft, texts={**draft.texts, "caps[0]": "-1", "weights[0,1]": "0,5"})
    >>> for field, error in read_draft(wrong).errors.items():
    ...     print(field, error)
    weights[0,1] must be a number, got “0,5”; write the decimal point as a dot
    caps[0] must be at least zero, got -1
    """
    errors: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for field in field_names(draft):
        entries[field], problem = _entry(draft, field)
        if problem is not None:
            errors[field] = problem
    scenario = None
    for _ in range(len(entries) + 1):
        try:
            scenario = _scenario(draft, entries)
            break
        except InvalidInput as error:
            field, rule = _placed(str(error))
            if field not in entries or field in errors:
                errors.setdefault("", str(error))
                break
            errors[field] = rule
            entries[field] = _stand_in(field)
    return Reading(scenario=None if errors else scenario, errors=errors)


def _entry(draft: Draft, field: str) -> tuple[Any, str | None]:
    """What a field holds, and what is wrong with it as a text."""
    given = draft[field]
    if field.partition("[")[0] in ("names", "title", "description", "money.currency"):
        return given, None
    if field == "family":
        return given, None if given in FAMILIES else f"must be one of {', '.join(FAMILIES)}"
    if field == "money.per_payoff" and not given.strip() and not draft["money.currency"].strip():
        return None, None
    if field.startswith("caps") and given.strip().lower() in INFINITE:
        return math.inf, None
    try:
        return typed_number(given), None
    except InvalidInput as error:
        return _stand_in(field), str(error)


def _stand_in(field: str) -> Any:
    label, _, place = field.partition("[")
    if label in ("names", "title", "description", "money.currency"):
        return f"\N{REPLACEMENT CHARACTER}{place}"
    if label == "weights":
        row, column = place.removesuffix("]").split(",")
        return 1.0 if row == column else 0.0
    return STAND_INS.get(label, 1.0)


def _scenario(draft: Draft, entries: Mapping[str, Any]) -> Scenario:
    agents = range(draft.n_agents)
    columns = {label: [entries[f"{label}[{agent}]"] for agent in agents] for label in COLUMNS}
    rising = any(columns["quadratic"])
    federation = Federation(
        [[entries[f"weights[{receiver},{giver}]"] for giver in agents] for receiver in agents],
        costs=Quadratic(columns["costs"], columns["quadratic"]) if rising else columns["costs"],
        payoff=FAMILIES[draft["family"]](**_parameters(draft, entries)) if draft["family"] in FAMILIES else FALLBACK,
        caps=columns["caps"],
        names=name_list("names", columns["names"]),
        values=columns["values"],
    )
    return Scenario(
        federation=federation,
        title=text("title", entries["title"]),
        description=text("description", entries["description"]),
        money=_money(entries),
    )


def _parameters(draft: Draft, entries: Mapping[str, Any]) -> dict[str, Any]:
    if not draft.own_curves:
        return {label: entries[f"payoff.{label}"] for label in draft.parameters}
    return {
        label: [entries[f"payoff.{label}[{agent}]"] for agent in range(draft.n_agents)] for label in draft.parameters
    }


def _money(entries: Mapping[str, Any]) -> Money | None:
    rate = entries["money.per_payoff"]
    return None if rate is None else Money(text("money.currency", entries["money.currency"]), rate)


def _placed(message: str) -> tuple[str, str]:
    """The field a refusal is about and the rule it breaks; the agent is known where the field is."""
    refused = REFUSED.fullmatch(message)
    if refused is None:
        return "", message
    places = [place for place in (refused["row"], refused["column"]) if place is not None]
    label = LABELS.get(refused["label"], refused["label"])
    rule = WHO.sub("", refused["rule"]).replace("linear and quadratic are both 0", "cost and rising cost are both 0")
    return f"{label}[{','.join(places)}]" if places else label, rule


FALLBACK = FAMILIES["log"]()
