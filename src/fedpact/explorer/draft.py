"""What was typed: every field of the page as text, right or wrong.

Fields are called as the library calls what they hold: `names[0]`, `costs[0]`, `quadratic[0]`, `caps[0]`, `values[0]`,
`weights[0,1]`, `payoff.beta` or, where every member has its own curve, `payoff.beta[0]`; `home[0]`, `joining_costs[0]`,
`budgets[0]`, `models`; and `title`, `description`, `family`, `money.currency`, `money.per_payoff`. A draft keeps the
texts of payoff families that are not chosen, so that trying another one loses nothing. What a pilot measured is kept
out of sight as `measured`, and holds for as long as the federation is the one it was measured for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.tables import ONE_SEPARATOR

MAX_MEMBERS = 30
"""A page has room for the weights of so many members, and their deal follows every key."""

UNLIMITED = "unlimited"
ALL_AT_HOME = "all"
COLUMNS = ("names", "costs", "quadratic", "caps", "values", "home")
TAKING_PART = ("joining_costs", "budgets")  # a table of their own
WORD_FIELDS = (
    "title",
    "description",
    "not_recommended",
    "unit",
    "models",
    "family",
    "money.currency",
    "money.per_payoff",
)
PARAMETERS: Mapping[str, Sequence[str]] = {name: family.parameter_names() for name, family in FAMILIES.items()}
STARTING_PARAMETERS = {"beta": "0.3", "rate": "0.05", "half": "20"}
MAX_FIELD_LENGTH = 10_000  # characters of a field
NUMBERED = re.compile(r"\[(\d+)(?:,(\d+))?\]$")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The texts of all fields.

    Attributes
    ----------
    n_agents
        How many members the page shows.
    own_curves
        Whether every member has its own parameters of the payoff curve.
    texts
        By field; what a field shows that is not among them is empty.
    """

    n_agents: int
    own_curves: bool
    texts: Mapping[str, str]

    def __getitem__(self, field: str) -> str:
        return self.texts.get(field, "")

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of the chosen payoff family; none if there is no such family."""
        return PARAMETERS.get(self["family"], ())

    @property
    def names(self) -> list[str]:
        """What members are called."""
        return [self[f"names[{agent}]"].strip() or f"member {agent + 1}" for agent in range(self.n_agents)]

    @classmethod
    def of_record(cls, record: Any) -> Draft:
        """Read the draft that a page sent; its texts may be wrong."""
        if not isinstance(record, Mapping) or not isinstance(record.get("texts"), Mapping):
            raise InvalidInput(f"a draft must be an object with texts, got {short_repr(record)}")
        count, texts = record.get("n_agents"), record["texts"]
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_MEMBERS:
            raise InvalidInput(f"n_agents must be a whole number from 1 to {MAX_MEMBERS}, got {short_repr(count)}")
        for field, text in texts.items():
            if not isinstance(text, str) or len(text) > MAX_FIELD_LENGTH:
                raise InvalidInput(
                    f"{field} must be a text of up to {MAX_FIELD_LENGTH} characters, got {short_repr(text)}"
                )
        return cls(n_agents=count, own_curves=bool(record.get("own_curves")), texts=dict(texts))

    def record(self) -> dict[str, Any]:
        """Plain data for the page."""
        return asdict(self)

    def with_texts(self, texts: Mapping[str, str]) -> Draft:
        """The draft with some fields typed over."""
        return replace(self, texts={**self.texts, **texts})


def field_names(draft: Draft) -> Iterator[str]:
    """The fields a page shows for a draft."""
    yield from WORD_FIELDS
    members = range(draft.n_agents)
    own = [f"payoff.{parameter}" for parameter in draft.parameters]
    yield from () if draft.own_curves else own
    for column in (*COLUMNS, *TAKING_PART, *(own if draft.own_curves else ())):
        yield from (f"{column}[{agent}]" for agent in members)
    yield from (f"weights[{receiver},{giver}]" for receiver in members for giver in members)


def draft_of(scenario: Scenario) -> Draft:
    """A scenario as its author would type it.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> draft_of(load_scenario("hospitals"))["caps[1]"]
    '80'
    """
    federation = scenario.federation
    if federation.has_lots:
        raise InvalidInput(
            "the explorer takes members with one lot of data each, and some here have several; "
            "`fedpact compare` takes them, with --html for a report"
        )
    if federation.n_agents > MAX_MEMBERS:
        raise InvalidInput(
            f"the explorer takes up to {MAX_MEMBERS} members, got {federation.n_agents:,}; "
            f"`fedpact compare` takes any number, with --html for a report"
        )
    texts = {"title": scenario.title, "description": scenario.description, "family": federation.payoff.family}
    texts |= {"unit": scenario.unit, "not_recommended": scenario.not_recommended, "models": scenario.models}
    if scenario.measured is not None:
        of = {"scenario": federation.fingerprint, "measured": asdict(scenario.measured)}
        texts["measured"] = json.dumps(of)
    if scenario.money is not None:
        texts |= {"money.currency": scenario.money.currency, "money.per_payoff": typed_text(scenario.money.per_payoff)}
    texts |= {f"names[{agent}]": name for agent, name in enumerate(federation.names)}
    if federation.home is not None:
        pairs = enumerate(zip(federation.home, federation.caps, strict=True))
        texts |= {f"home[{agent}]": ALL_AT_HOME if home == cap else typed_text(home) for agent, (home, cap) in pairs}
    own, parameters = False, federation.payoff.parameters
    columns = {name: getattr(federation, name) for name in ("caps", "values", *TAKING_PART)}
    columns |= {"costs": federation.costs.linear, "quadratic": federation.costs.quadratic}
    for label, numbers in parameters.items():
        each = np.broadcast_to(numbers, federation.n_agents)
        own = own or bool((each != each[0]).any())
        texts[f"payoff.{label}"] = typed_text(each[0])
        columns |= {f"payoff.{label}": each} if own else {}
    for label, numbers in columns.items():
        texts |= {f"{label}[{agent}]": typed_text(number) for agent, number in enumerate(numbers)}
    weights = np.ndenumerate(federation.weights)
    texts |= {f"weights[{row},{column}]": typed_text(weight) for (row, column), weight in weights}
    starts = {
        f"payoff.{label}": STARTING_PARAMETERS.get(label, "1") for known in PARAMETERS.values() for label in known
    }
    return Draft(n_agents=federation.n_agents, own_curves=own, texts=starts | texts)


def typed_text(number: float) -> str:
    """The shortest text that reads back as this number."""
    number = float(number)
    if np.isposinf(number):
        return UNLIMITED
    text = repr(number).removesuffix(".0")
    return f"{text}0" if ONE_SEPARATOR.fullmatch(text) else text  # 1.234 might be read as 1234


def with_agent(draft: Draft) -> Draft:
    """Add a member with the last one's numbers and weights of zero."""
    if draft.n_agents >= MAX_MEMBERS:
        raise InvalidInput(f"the explorer takes up to {MAX_MEMBERS} members; `fedpact compare` takes any number")
    new, taken = draft.n_agents, set(draft.names)
    name = next(name for number in range(new + 1, 2 * new + 3) if (name := f"Member {number}") not in taken)
    texts = {f"{label}[{new}]": draft[f"{label}[{new - 1}]"] for label in (*COLUMNS, *TAKING_PART)}
    texts |= {f"weights[{new},{other}]": "0" for other in range(new)}
    texts |= {f"weights[{other},{new}]": "0" for other in range(new)}
    texts |= {f"names[{new}]": name, f"weights[{new},{new}]": "1"}
    return with_own_curves(replace(draft.with_texts(texts), n_agents=new + 1))


def with_own_curves(draft: Draft, *, anew: bool = False) -> Draft:
    """Where every member has its own curve, fill in empty fields with what all had; with `anew`, all fields."""
    if not draft.own_curves:
        return draft
    pairs = [(label, agent) for label in draft.parameters for agent in range(draft.n_agents)]
    shared = {f"payoff.{label}[{agent}]": draft[f"payoff.{label}"] for label, agent in pairs}
    return draft.with_texts(shared if anew else {**shared, **draft.texts})


def without_agent(draft: Draft, agent: int) -> Draft:
    """The draft without a member; the others keep what was typed for them, numbered anew."""
    if not 0 <= agent < draft.n_agents:
        raise InvalidInput(f"agent must be from 0 to {draft.n_agents - 1}, got {agent}")
    if draft.n_agents == 1:
        raise InvalidInput("a federation has at least one member; change this one instead")
    texts: dict[str, str] = {}
    for field, text in draft.texts.items():
        numbered = NUMBERED.search(field)
        indices = [int(index) for index in numbered.groups() if index is not None] if numbered else []
        if agent not in indices:
            moved = ",".join(str(index - (index > agent)) for index in indices)
            texts[f"{field[: numbered.start()]}[{moved}]" if numbered else field] = text
    return replace(draft, n_agents=draft.n_agents - 1, texts=texts)
