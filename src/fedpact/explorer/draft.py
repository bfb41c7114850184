"""What was typed: every field of the page as text, right or wrong.

Fields are called as the library calls what they hold: `names[0]`, `costs[0]`, `quadratic[0]`, `caps[0]`, `values[0]`,
`weights[0,1]`, `payoff.beta` or, where every member has its own curve, `payoff.beta[0]`; and `title`, `description`,
`family`, `money.currency`, `money.per_payoff`. A draft keeps the texts of payoff families that are not chosen, so that
trying another one loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpact.federation.ownership import require_single_lots
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, short_repr

MAX_MEMBERS = 30
"""The most members whose weights can be edited on a page, and whose deal follows every key."""

UNLIMITED = "unlimited"
COLUMNS = ("names", "costs", "quadratic", "caps", "values")
WORD_FIELDS = ("title", "description", "unit", "family", "money.currency", "money.per_payoff")
PARAMETERS: Mapping[str, Sequence[str]] = {name: family.parameter_names() for name, family in FAMILIES.items()}
STARTS = {"beta": "0.3", "rate": "0.05", "half": "20"}
NEW_MEMBER = {"costs": "0.01", "quadratic": "0", "caps": "100", "values": "1"}
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

    @classmethod
    def of_record(cls, record: Any) -> Draft:
        """The draft a page sent, checked for its shape alone."""
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
        return {"n_agents": self.n_agents, "own_curves": self.own_curves, "texts": dict(self.texts)}


def field_names(draft: Draft) -> Iterator[str]:
    """The fields a page shows for a draft."""
    yield from WORD_FIELDS
    agents = range(draft.n_agents)
    for column in COLUMNS:
        yield from (f"{column}[{agent}]" for agent in agents)
    for parameter in draft.parameters:
        if draft.own_curves:
            yield from (f"payoff.{parameter}[{agent}]" for agent in agents)
        else:
            yield f"payoff.{parameter}"
    yield from (f"weights[{receiver},{giver}]" for receiver in agents for giver in agents)


def draft_of(scenario: Scenario) -> Draft:
    """A scenario as its author would type it.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> draft_of(hospitals())["caps[1]"]
    '80'
    """
    federation = scenario.federation
    require_single_lots(federation, "the explorer")
    count = federation.n_agents
    if count > MAX_MEMBERS:
        raise InvalidInput(
            f"the explorer takes up to {MAX_MEMBERS} members, got {count:,}; "
            f"`fedpact compare` takes any number, with --html for a report"
        )
    texts = {"title": scenario.title, "description": scenario.description, "family": federation.payoff.family}
    texts["unit"] = scenario.unit
    if scenario.money is not None:
        texts |= {"money.currency": scenario.money.currency, "money.per_payoff": typed_text(scenario.money.per_payoff)}
    texts |= {f"names[{agent}]": name for agent, name in enumerate(federation.names)}
    columns = {
        "costs": federation.costs.linear,
        "quadratic": federation.costs.quadratic,
        "caps": federation.caps,
        "values": federation.values,
    }
    for label, numbers in columns.items():
        texts |= {f"{label}[{agent}]": typed_text(number) for agent, number in enumerate(numbers)}
    own = False
    for label, numbers in federation.payoff.parameters.items():
        each = np.broadcast_to(numbers, count)
        own = own or bool((each != each[0]).any())
        texts[f"payoff.{label}"] = typed_text(each[0])
        if own:
            texts |= {f"payoff.{label}[{agent}]": typed_text(number) for agent, number in enumerate(each)}
    weights = federation.dense_weights()
    texts |= {f"weights[{row},{column}]": typed_text(weight) for (row, column), weight in np.ndenumerate(weights)}
    starts = {f"payoff.{label}": text for label, text in STARTS.items()}  # for the families that are not chosen
    return Draft(n_agents=count, own_curves=own, texts=starts | texts)


def typed_text(number: float) -> str:
    """A number as short as it can be typed: every digit counts, and none is for show."""
    number = float(number)
    if np.isposinf(number):
        return UNLIMITED
    text = repr(number)
    return text.removesuffix(".0")


def with_agent(draft: Draft) -> Draft:
    """One more member, like nobody yet: its data is worth nothing to the others, and theirs nothing to it."""
    if draft.n_agents >= MAX_MEMBERS:
        raise InvalidInput(f"the explorer takes up to {MAX_MEMBERS} members; `fedpact compare` takes any number")
    new = draft.n_agents
    taken = {draft[f"names[{agent}]"].strip() for agent in range(new)}
    name = next(name for number in range(new + 1, 2 * new + 3) if (name := f"Member {number}") not in taken)
    texts = {f"names[{new}]": name} | {f"{label}[{new}]": text for label, text in NEW_MEMBER.items()}
    texts |= {f"weights[{new},{other}]": "0" for other in range(new)}
    texts |= {f"weights[{other},{new}]": "0" for other in range(new)} | {f"weights[{new},{new}]": "1"}
    return with_own_curves(replace(draft, n_agents=new + 1, texts={**draft.texts, **texts}))


def with_own_curves(draft: Draft, *, anew: bool = False) -> Draft:
    """Where every member has its own curve, those of whom nothing was typed have what all had; `anew`, all have."""
    if not draft.own_curves:
        return draft
    shared = {
        f"payoff.{label}[{agent}]": draft[f"payoff.{label}"]
        for label in draft.parameters
        for agent in range(draft.n_agents)
    }
    return replace(draft, texts={**draft.texts, **shared} if anew else {**shared, **draft.texts})


def without_agent(draft: Draft, agent: int) -> Draft:
    """The draft without a member; the others keep what was typed for them."""
    if not 0 <= agent < draft.n_agents:
        raise InvalidInput(f"agent must be from 0 to {draft.n_agents - 1}, got {agent}")
    if draft.n_agents == 1:
        raise InvalidInput("a federation has at least one member; change this one instead")
    texts: dict[str, str] = {}
    for field, text in draft.texts.items():
        numbered = NUMBERED.search(field)
        if numbered is None:
            texts[field] = text
            continue
        places = [int(place) for place in numbered.groups() if place is not None]
        if agent not in places and max(places) < draft.n_agents:
            moved = ",".join(str(place - (place > agent)) for place in places)
            texts[f"{field[: numbered.start()]}[{moved}]"] = text
    return replace(draft, n_agents=draft.n_agents - 1, texts=texts)
