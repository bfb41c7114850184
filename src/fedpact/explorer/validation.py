"""From what was typed to a scenario, or to an error at every field that is wrong.

A text that is no number is an error at its field, and a stand-in takes its place while the rules of `Federation` and
`Money` look at the others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedpact.explorer.draft import ALL_AT_HOME, LOT_COLUMNS, MEMBER_COLUMNS, UNLIMITED, Draft, field_names
from fedpact.federation import Federation, Payoff, Quadratic
from fedpact.federation.costs import MUST_RISE
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Measured, Money, Scenario
from fedpact.scenario.fields import name, text
from fedpact.scenario.members_words import DataUnit, parse_sum
from fedpact.scenario.scenario import MODELS
from fedpact.utils.errors import ErrorCollector, InvalidInput
from fedpact.utils.tables import typed_number as written_number

NUMBER = re.compile(r"[+-]?[\d.,' ]+(e[+-]?\d+)?\s*%?", re.ASCII | re.IGNORECASE)
SHOWN = 40  # characters of a wrong text


def _unit_of_data(field: str, given: str) -> str:
    """What contributions are counted in; nothing if the field is empty."""
    if given.strip():
        DataUnit.parse(text(field, given), field)
    return given.strip()


TEXTS: Mapping[str, Callable[[str, str], str]] = {
    "names": name,
    "lot_names": name,
    "task_names": name,
    "title": text,
    "description": text,
    "not_recommended": text,
    "unit": _unit_of_data,
    "money.currency": text,
}
INFINITE = ("inf", "infinity", "∞", UNLIMITED)
# What stands in for a refused entry while the others are looked at.
STAND_INS = {"costs": 1.0, "quadratic": 0.0, "caps": 1.0, "values": 1.0, "money.per_payoff": 1.0}
STAND_INS |= {"home": 0.0, "joining_costs": 0.0, "budgets": math.inf}
EMPTY = {"joining_costs": 0.0, "budgets": math.inf}  # what nothing typed means
HOME = "must be a number or “all”; leave it empty for everybody where using one’s own data costs as sharing it does"
FALLBACK = FAMILIES["log"]()
# The page has other words than the library for these.
LABELS = {"costs.linear": "costs", "costs.quadratic": "quadratic"}
BOTH_ZERO = f"{MUST_RISE}: cost and rising cost are both 0; give one a positive number"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What a draft says: a scenario, or what is wrong by field; "" is for what belongs to no single field."""

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
    >>> from dataclasses import replace
    >>> from fedpact import load_scenario
    >>> from fedpact.explorer.draft import draft_of
    >>> draft = draft_of(load_scenario("hospitals"))
    >>> wrong = replace(draft, texts={**draft.texts, "caps[0]": "-1", "weights[0,1]": "half"})
    >>> for field, error in read_draft(wrong).errors.items():
    ...     print(field, error)
    weights[0,1] must be a number, got “half”
    caps[0] must be at least zero, got -1
    """
    errors: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for field in field_names(draft):
        entries[field], problem = _entry(draft, field)
        if problem is not None:
            errors[field] = problem
    refused = ErrorCollector()
    scenario = _scenario(draft, entries, refused)
    for error in refused.errors:
        field = _field(error)
        problem = BOTH_ZERO if error.rule == MUST_RISE else error.problem
        errors.setdefault(*((field, problem) if field in entries else ("", str(error))))
    return Reading(scenario=None if errors else scenario, errors=errors)


def _entry(draft: Draft, field: str) -> tuple[Any, str | None]:
    """What a field holds, and what is wrong with it as a text."""
    given, label = draft[field], field.partition("[")[0]
    if label == "family":
        return given, None if given in FAMILIES else f"must be one of {', '.join(FAMILIES)}"
    if label == "money.per_payoff" and not given.strip() and not draft["money.currency"].strip():
        return None, None
    if label == "models":
        return given or MODELS[0], None if given in ("", *MODELS) else f"must be one of {', '.join(MODELS)}"
    if label in ("caps", "budgets") and given.strip().lower() in INFINITE:
        return math.inf, None
    if label in EMPTY and not given.strip():
        return EMPTY[label], None
    if label == "home" and not given.strip():
        return None, HOME if draft.has_home else None
    if label == "home" and given.strip().lower() == ALL_AT_HOME:
        return ALL_AT_HOME, None
    try:
        if label in MEMBER_COLUMNS and (stated := parse_sum(label, given)) is not None:
            return _in_payoff(draft, *stated), None
        return TEXTS[label](label, given) if label in TEXTS else typed_number(given), None
    except InvalidInput as error:
        return _stand_in(field), error.problem


def _in_payoff(draft: Draft, amount: float, currency: str) -> float:
    """A sum of money in units of payoff."""
    if currency != draft["money.currency"].strip():
        raise InvalidInput(f"must be a number, or a sum in the currency below, got one in {currency}")
    return amount / typed_number(draft["money.per_payoff"])


def _stand_in(field: str) -> Any:
    label, _, place = field.partition("[")
    if label in TEXTS:
        return f"\N{REPLACEMENT CHARACTER}{place}"
    if label == "weights":
        row, column = place.removesuffix("]").split(",")
        return 1.0 if row == column else 0.0
    return STAND_INS.get(label, 1.0)


def _scenario(draft: Draft, entries: Mapping[str, Any], refused: ErrorCollector) -> Scenario | None:
    """The scenario, if nothing is refused."""
    lots, tasks = range(len(draft.lots)), range(len(draft.tasks))
    columns = {label: [entries[f"{label}[{lot}]"] for lot in lots] for label in LOT_COLUMNS}
    columns["values"] = [entries[f"values[{task}]"] for task in tasks]
    columns |= {label: [entries[f"{label}[{agent}]"] for agent in range(draft.n_agents)] for label in MEMBER_COLUMNS}
    home = [cap if own == ALL_AT_HOME else own for own, cap in zip(columns["home"], columns["caps"], strict=True)]
    columns["names"] = [entries[f"names[{agent}]"] for agent in range(draft.n_agents)]
    owned: dict[str, Any] = {}
    if draft.has_lots:
        owned = {"lot_owners": list(draft.lots), "task_owners": list(draft.tasks)}
        owned["lot_names"] = [entries[f"lot_names[{lot}]"] for lot in lots]
        owned["task_names"] = [entries[f"task_names[{task}]"] for task in tasks]
    costs: Any = columns["costs"]
    if any(columns["quadratic"]):
        costs = refused.attempt(Quadratic, costs, columns["quadratic"]) or 1.0
    payoff: Payoff | None = None
    if draft["family"] in FAMILIES:
        payoff = refused.attempt(FAMILIES[draft["family"]], **_parameters(draft, entries))
    federation = refused.attempt(
        Federation,
        [[entries[f"weights[{receiver},{giver}]"] for giver in lots] for receiver in tasks],
        costs=costs,
        payoff=payoff or FALLBACK,
        caps=columns["caps"],
        names=columns["names"],
        values=columns["values"],
        home=[own or 0.0 for own in home] if draft.has_home else None,
        joining_costs=columns["joining_costs"],
        budgets=columns["budgets"],
        **owned,
    )
    money = refused.attempt(_money, entries)
    if federation is None or refused.errors:
        return None
    return Scenario(
        federation=federation,
        title=entries["title"],
        description=entries["description"],
        not_recommended=entries["not_recommended"],
        unit=entries["unit"],
        models=entries["models"],
        money=money,
        measured=_measured(draft, federation),
    )


def _measured(draft: Draft, federation: Federation) -> Measured | None:
    """What a pilot measured of this federation; of one that was changed nothing was measured."""
    if not draft["measured"]:
        return None
    kept = json.loads(draft["measured"])
    return Measured.parse("measured", kept["measured"]) if kept["scenario"] == federation.fingerprint else None


def _parameters(draft: Draft, entries: Mapping[str, Any]) -> dict[str, Any]:
    if not draft.own_curves:
        return {label: entries[f"payoff.{label}"] for label in draft.parameters}
    return {
        label: [entries[f"payoff.{label}[{task}]"] for task in range(len(draft.tasks))] for label in draft.parameters
    }


def _money(entries: Mapping[str, Any]) -> Money | None:
    rate = entries["money.per_payoff"]
    return None if rate is None else Money(entries["money.currency"], rate)


def _field(error: InvalidInput) -> str:
    """What the page calls the field an error is about."""
    label = LABELS.get(error.field or "", error.field)
    return f"{label}[{','.join(map(str, error.index))}]" if error.index else f"{label}"
