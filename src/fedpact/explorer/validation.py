"""From what was typed to a scenario, or to an error at every field that is wrong.

Texts become numbers here; everything else is checked by the reader of scenario files. A text that is no number is an
error at its field; a stand-in lets the other fields be checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedpact.explorer.draft import ALL_AT_HOME, TAKING_PART, UNLIMITED, Draft, field_names
from fedpact.federation.costs import MUST_RISE
from fedpact.scenario import Measured, Scenario, parse_scenario
from fedpact.scenario.members_words import parse_sum
from fedpact.utils.errors import InvalidInput
from fedpact.utils.tables import typed_number as written_number

NUMBER = re.compile(r"[+-]?[\d.,' ]+(e[+-]?\d+)?\s*%?", re.ASCII | re.IGNORECASE)
SHOWN = 40  # characters of a wrong text
TEXTS = ("names", "title", "description", "not_recommended", "unit", "money.currency", "models", "family")
INFINITE = ("inf", "infinity", "∞", UNLIMITED)
EMPTY = {"joining_costs": 0.0, "budgets": math.inf}  # what nothing typed means
HOME = "must be a number or “all”; leave the column empty if using one’s own data costs as much as sharing it"
# The page has other words than the library for these.
LABELS = {"costs.linear": "costs", "costs.quadratic": "quadratic", "payoff.family": "family"}
BOTH_ZERO = f"{MUST_RISE}: cost and rising cost are both 0; give one a positive number"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """A scenario, or errors by field; the field of an error about the whole federation is ""."""

    scenario: Scenario | None
    errors: Mapping[str, str]


def typed_number(given: str) -> float:
    """A number as people type it, with a decimal comma too; one that may be two numbers is refused with both.

    Examples
    --------
    >>> typed_number("0,5"), typed_number("20 000"), typed_number("−3")
    (0.5, 20000.0, -3.0)
    """
    plain = re.sub(r"[\s\u2009\u202f]+", " ", given).replace("\N{MINUS SIGN}", "-").strip()
    if not plain:
        raise InvalidInput("must be a number; nothing is typed here")
    try:
        if NUMBER.fullmatch(plain):
            return written_number(plain)
    except InvalidInput:
        raise
    except ValueError:
        pass
    short = given.strip() if len(given.strip()) <= SHOWN else f"{given.strip()[:SHOWN]}…"
    raise InvalidInput(f"must be a number, got “{short}”")


def read_draft(draft: Draft) -> Reading:
    """The scenario of a draft, or every error in it.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> from fedpact.explorer.draft import draft_of
    >>> draft = draft_of(load_scenario("hospitals"))
    >>> wrong = draft.with_texts({"caps[0]": "-1", "weights[0,1]": "half"})
    >>> for field, error in read_draft(wrong).errors.items():
    ...     print(field, error)
    weights[0,1] must be a number, got “half”
    caps[0] must be at least zero, got -1
    """
    errors: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for field in field_names(draft):
        try:
            entries[field] = _entry(draft, field)
        except InvalidInput as error:
            errors[field], entries[field] = error.problem, field if field.startswith("names") else 1.0
    scenario = None
    try:
        scenario = parse_scenario(_document(draft, entries), where="the federation")
    except InvalidInput as refused:
        for each in refused.errors:
            field = LABELS.get(each.field or "", f"{each.field}")
            field += f"[{','.join(map(str, each.index))}]" if each.index else ""
            problem = BOTH_ZERO if each.rule == MUST_RISE else each.problem
            errors.setdefault(field if field in entries else "", problem)
    if errors or scenario is None:
        return Reading(scenario=None, errors=errors)
    return Reading(scenario=replace(scenario, measured=_measured(draft, scenario)), errors=errors)


def _entry(draft: Draft, field: str) -> Any:
    """What a field holds."""
    given, label = draft[field], field.partition("[")[0]
    plain = given.strip()
    if label == "names" and not plain:
        raise InvalidInput("must not be blank")
    if label in TEXTS:
        return given
    if label in EMPTY and not plain:
        return EMPTY[label]
    if label == "money.per_payoff" and not plain and not draft["money.currency"].strip():
        return None
    if label in ("caps", "budgets") and plain.lower() in INFINITE:
        return math.inf
    if label == "home" and not plain:
        if _has_home(draft):
            raise InvalidInput(HOME)
        return None
    if label == "home" and plain.lower() == ALL_AT_HOME:
        return ALL_AT_HOME
    stated = parse_sum(label, given) if label in TAKING_PART else None
    if stated is None:
        return typed_number(given)
    amount, currency = stated
    if currency != draft["money.currency"].strip():
        raise InvalidInput(f"must be a number, or a sum in the currency below, got one in {currency}")
    return amount / typed_number(draft["money.per_payoff"])


def _has_home(draft: Draft) -> bool:
    """Whether data is used at home: something is typed there."""
    return any(draft[f"home[{agent}]"].strip() for agent in range(draft.n_agents))


def _document(draft: Draft, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario file."""
    members = range(draft.n_agents)

    def column(label: str) -> list[Any]:
        return [entries[f"{label}[{agent}]"] for agent in members]

    document = {key: entries[key] for key in ("title", "description", "not_recommended", "unit", "models")}
    document = {key: text for key, text in document.items() if text.strip()}
    document |= {key: column(key) for key in ("names", "caps", "values", *TAKING_PART)}
    document["costs"] = column("costs")
    if any(column("quadratic")):
        document["costs"] = {"linear": column("costs"), "quadratic": column("quadratic")}
    if _has_home(draft):
        pairs = zip(column("home"), document["caps"], strict=True)
        document["home"] = [cap if home == ALL_AT_HOME else home for home, cap in pairs]
    document["weights"] = [[entries[f"weights[{receiver},{giver}]"] for giver in members] for receiver in members]
    parameters = [f"payoff.{label}" for label in draft.parameters]
    curves = {each: column(each) if draft.own_curves else entries[each] for each in parameters}
    document["payoff"] = {"family": draft["family"]} | {key.removeprefix("payoff."): at for key, at in curves.items()}
    if entries["money.per_payoff"] is not None:
        document["money"] = {"currency": draft["money.currency"], "per_payoff": entries["money.per_payoff"]}
    return document


def _measured(draft: Draft, scenario: Scenario) -> Measured | None:
    """What a pilot measured, unless the federation was changed since."""
    if not draft["measured"]:
        return None
    kept = json.loads(draft["measured"])
    fits = kept["scenario"] == scenario.federation.fingerprint
    return Measured.parse("measured", kept["measured"]) if fits else None
