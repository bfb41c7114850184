"""What was typed: every field of the page as text, right or wrong.

Fields are called as the library calls what they hold: `names[0]`, `costs[0]`, `quadratic[0]`, `caps[0]`, `values[0]`,
`weights[0,1]`, `payoff.beta` or, where every member has its own curve, `payoff.beta[0]`; `home[0]`, `joining_costs[0]`,
`budgets[0]`, `models`; and `title`, `description`, `family`, `money.currency`, `money.per_payoff`. A draft keeps the
texts of payoff families that are not chosen, so that trying another one loses nothing. What a pilot measured is kept
out of sight as `measured`, and holds for as long as the federation is the one it was measured for.

Where members have several lots of data or several tasks, the draft says whose each is. Costs, caps and data at home are
then numbered by lot, values and curves by task, weights by task and lot, and `lot_names[0]` and `task_names[0]` are
what they are called. A draft without lots has one of each per member, in the members' order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedpact.federation.lots import require_own_caps
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.tables import ONE_SEPARATOR

MAX_MEMBERS = 30
"""The most members whose weights can be edited on a page, and whose deal follows every key."""
MAX_LOTS = 60

UNLIMITED = "unlimited"
ALL_AT_HOME = "all"
LOT_COLUMNS = ("costs", "quadratic", "caps", "home")
MEMBER_COLUMNS = ("joining_costs", "budgets")
COLUMNS = ("names", "costs", "quadratic", "caps", "values", "home")
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
FIRST_PARAMETERS = {"beta": "0.3", "rate": "0.05", "half": "20"}
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
        Whether every member (task) has its own parameters of the payoff curve.
    texts
        By field; what a field shows that is not among them is empty.
    lot_owners, task_owners
        The members whose lots and tasks there are, as places; None where everybody has one of each.
    """

    n_agents: int
    own_curves: bool
    texts: Mapping[str, str]
    lot_owners: tuple[int, ...] | None = None
    task_owners: tuple[int, ...] | None = None

    def __getitem__(self, field: str) -> str:
        return self.texts.get(field, "")

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of the chosen payoff family; none if there is no such family."""
        return PARAMETERS.get(self["family"], ())

    @property
    def has_lots(self) -> bool:
        """Whether the draft names lots and tasks."""
        return self.lot_owners is not None

    @property
    def lots(self) -> tuple[int, ...]:
        """The owner of every lot."""
        return tuple(range(self.n_agents)) if self.lot_owners is None else self.lot_owners

    @property
    def tasks(self) -> tuple[int, ...]:
        """The owner of every task."""
        return tuple(range(self.n_agents)) if self.task_owners is None else self.task_owners

    @property
    def has_home(self) -> bool:
        """Whether data is used at home: something is typed there."""
        return any(self[f"home[{lot}]"].strip() for lot in range(len(self.lots)))

    def lots_of(self, agent: int) -> list[int]:
        """The places of a member's lots."""
        return [lot for lot, owner in enumerate(self.lots) if owner == agent]

    def tasks_of(self, agent: int) -> list[int]:
        """The places of a member's tasks."""
        return [task for task, owner in enumerate(self.tasks) if owner == agent]

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
        lots, tasks = (_owners_of_record(record, key, count) for key in ("lot_owners", "task_owners"))
        if (lots is None) != (tasks is None):
            raise InvalidInput("lot_owners and task_owners go together; give both or none")
        own = bool(record.get("own_curves"))
        return cls(n_agents=count, own_curves=own, texts=dict(texts), lot_owners=lots, task_owners=tasks)

    def record(self) -> dict[str, Any]:
        """Plain data for the page."""
        plain = {"n_agents": self.n_agents, "own_curves": self.own_curves, "texts": dict(self.texts)}
        if not self.has_lots:
            return plain
        return plain | {"lot_owners": list(self.lots), "task_owners": list(self.tasks)}


def _owners_of_record(record: Mapping[str, Any], key: str, count: int) -> tuple[int, ...] | None:
    given = record.get(key)
    if given is None:
        return None
    whole = isinstance(given, list) and all(isinstance(each, int) and 0 <= each < count for each in given)
    if not whole or not 1 <= len(given) <= MAX_LOTS:
        raise InvalidInput(f"{key} must be up to {MAX_LOTS} members from 0 to {count - 1}, got {short_repr(given)}")
    return tuple(given)


def field_names(draft: Draft) -> Iterator[str]:
    """The fields a page shows for a draft."""
    yield from WORD_FIELDS
    lots, tasks = range(len(draft.lots)), range(len(draft.tasks))
    yield from (f"names[{agent}]" for agent in range(draft.n_agents))
    if draft.has_lots:
        yield from (f"lot_names[{lot}]" for lot in lots)
        yield from (f"task_names[{task}]" for task in tasks)
    for column in LOT_COLUMNS:
        yield from (f"{column}[{lot}]" for lot in lots)
    yield from (f"values[{task}]" for task in tasks)
    for column in MEMBER_COLUMNS:
        yield from (f"{column}[{agent}]" for agent in range(draft.n_agents))
    for parameter in draft.parameters:
        if draft.own_curves:
            yield from (f"payoff.{parameter}[{task}]" for task in tasks)
        else:
            yield f"payoff.{parameter}"
    yield from (f"weights[{receiver},{giver}]" for receiver in tasks for giver in lots)


def draft_of(scenario: Scenario) -> Draft:
    """A scenario as its author would type it.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> draft_of(load_scenario("hospitals"))["caps[1]"]
    '80'
    """
    federation = scenario.federation
    count = federation.n_agents
    require_own_caps(federation, "the explorer")
    if count > MAX_MEMBERS:
        raise InvalidInput(
            f"the explorer takes up to {MAX_MEMBERS} members, got {count:,}; "
            f"`fedpact compare` takes any number, with --html for a report"
        )
    for what, number in (("lots", federation.n_lots), ("tasks", federation.n_tasks)):
        if federation.has_lots and number > MAX_LOTS:
            raise InvalidInput(
                f"the explorer takes up to {MAX_LOTS} {what}, got {number:,}; `fedpact compare` takes more"
            )
    texts = {"title": scenario.title, "description": scenario.description, "family": federation.payoff.family}
    texts |= {"unit": scenario.unit, "not_recommended": scenario.not_recommended, "models": scenario.models}
    if scenario.measured is not None:
        of = {"scenario": federation.fingerprint, "measured": asdict(scenario.measured)}
        texts["measured"] = json.dumps(of)
    if scenario.money is not None:
        texts |= {"money.currency": scenario.money.currency, "money.per_payoff": typed_text(scenario.money.per_payoff)}
    texts |= {f"names[{agent}]": name for agent, name in enumerate(federation.names)}
    if federation.has_lots:
        texts |= {f"lot_names[{lot}]": name for lot, name in enumerate(federation.lot_names)}
        texts |= {f"task_names[{task}]": name for task, name in enumerate(federation.task_names)}
    columns = {
        "costs": federation.costs.linear,
        "quadratic": federation.costs.quadratic,
        "caps": federation.caps,
        "values": federation.values,
        "joining_costs": federation.joining_costs,
        "budgets": federation.budgets,
    }
    if federation.home is not None:
        pairs = enumerate(zip(federation.home, federation.caps, strict=True))
        texts |= {f"home[{lot}]": ALL_AT_HOME if home == cap else typed_text(home) for lot, (home, cap) in pairs}
    for label, numbers in columns.items():
        texts |= {f"{label}[{agent}]": typed_text(number) for agent, number in enumerate(numbers)}
    own = False
    for label, numbers in federation.payoff.parameters.items():
        each = np.broadcast_to(numbers, federation.n_tasks)
        own = own or bool((each != each[0]).any())
        texts[f"payoff.{label}"] = typed_text(each[0])
        if own:
            texts |= {f"payoff.{label}[{agent}]": typed_text(number) for agent, number in enumerate(each)}
    weights = federation.weights
    texts |= {f"weights[{row},{column}]": typed_text(weight) for (row, column), weight in np.ndenumerate(weights)}
    starts = {
        f"payoff.{label}": FIRST_PARAMETERS.get(label, "1") for known in PARAMETERS.values() for label in known
    }  # for the families that are not chosen
    owners = {"lot_owners": federation.lot_owners, "task_owners": federation.task_owners} if federation.has_lots else {}
    return Draft(
        n_agents=count,
        own_curves=own,
        texts=starts | texts,
        **{key: tuple(map(int, each)) for key, each in owners.items()},
    )


def typed_text(number: float) -> str:
    """A number as short as it can be typed: every digit counts, and none is for show."""
    number = float(number)
    if np.isposinf(number):
        return UNLIMITED
    text = repr(number).removesuffix(".0")
    return f"{text}0" if ONE_SEPARATOR.fullmatch(text) else text  # 1.234 might be read as 1234


def with_agent(draft: Draft) -> Draft:
    """One more member with the last one's numbers; its data is worth nothing to the others yet, and theirs to it."""
    if draft.n_agents >= MAX_MEMBERS:
        raise InvalidInput(f"the explorer takes up to {MAX_MEMBERS} members; `fedpact compare` takes any number")
    new = draft.n_agents
    taken = {draft[f"names[{agent}]"].strip() for agent in range(new)}
    name = next(name for number in range(new + 1, 2 * new + 3) if (name := f"Member {number}") not in taken)
    own = {f"{label}[{new}]": draft[f"{label}[{new - 1}]"] for label in MEMBER_COLUMNS}
    made = replace(draft, n_agents=new + 1, texts={**draft.texts, f"names[{new}]": name, **own})
    if not draft.has_lots:
        return with_own_curves(_with_row(_with_column(made, new, new), new))
    made = replace(made, task_owners=(*draft.tasks, new))
    made = _with_row(made, len(draft.tasks))
    texts = {**made.texts, f"task_names[{len(draft.tasks)}]": "task"}
    return with_own_curves(with_lot(replace(made, texts=texts), new))


def with_lot(draft: Draft, agent: int) -> Draft:
    """One more lot for a member: useful to its owner as one's own data usually is, and to nobody else yet."""
    if not 0 <= agent < draft.n_agents:
        raise InvalidInput(f"agent must be from 0 to {draft.n_agents - 1}, got {agent}")
    if len(draft.lots) >= MAX_LOTS:
        raise InvalidInput(f"the explorer takes up to {MAX_LOTS} lots; `fedpact compare` takes any number")
    if not draft.has_lots:
        everybody = tuple(range(draft.n_agents))
        names = {
            f"{part}_names[{place}]": called
            for part, called in (("lot", "data"), ("task", "task"))
            for place in everybody
        }
        draft = replace(draft, lot_owners=everybody, task_owners=everybody, texts={**draft.texts, **names})
    new, taken = len(draft.lots), {draft[f"lot_names[{lot}]"].strip() for lot in draft.lots_of(agent)}
    name = next(name for number in range(len(taken) + 1, 2 * len(taken) + 3) if (name := f"lot {number}") not in taken)
    made = replace(draft, lot_owners=(*draft.lots, agent), texts={**draft.texts, f"lot_names[{new}]": name})
    return _with_column(made, new, agent)


def _with_column(draft: Draft, lot: int, owner: int) -> Draft:
    """The numbers of a new lot: those of the last one."""
    texts = {f"{label}[{lot}]": draft[f"{label}[{lot - 1}]"] for label in LOT_COLUMNS}
    texts |= {f"weights[{task},{lot}]": "1" if whose == owner else "0" for task, whose in enumerate(draft.tasks)}
    return replace(draft, texts={**draft.texts, **texts})


def _with_row(draft: Draft, task: int) -> Draft:
    """The numbers of a new task, to whom the lots there are, but its owner's, are worth nothing."""
    owner = draft.tasks[task]
    texts = {f"weights[{task},{lot}]": "1" if whose == owner else "0" for lot, whose in enumerate(draft.lots)}
    return replace(draft, texts={**draft.texts, f"values[{task}]": draft[f"values[{task - 1}]"], **texts})


def with_own_curves(draft: Draft, *, anew: bool = False) -> Draft:
    """Where every member has its own curve, those of whom nothing was typed have what all had; `anew`, all have."""
    if not draft.own_curves:
        return draft
    shared = {
        f"payoff.{label}[{agent}]": draft[f"payoff.{label}"]
        for label in draft.parameters
        for agent in range(len(draft.tasks))
    }
    return replace(draft, texts={**draft.texts, **shared} if anew else {**shared, **draft.texts})


def without_agent(draft: Draft, agent: int) -> Draft:
    """The draft without a member; the others keep what was typed for them."""
    if not 0 <= agent < draft.n_agents:
        raise InvalidInput(f"agent must be from 0 to {draft.n_agents - 1}, got {agent}")
    if draft.n_agents == 1:
        raise InvalidInput("a federation has at least one member; change this one instead")
    lots = [lot for lot, owner in enumerate(draft.lots) if owner != agent]
    tasks = [task for task, owner in enumerate(draft.tasks) if owner != agent]
    if not lots or not tasks:
        raise InvalidInput("a federation has at least one lot and one task; give another member one first")
    agents = [other for other in range(draft.n_agents) if other != agent]
    made = replace(draft, n_agents=len(agents), texts=_kept_texts(draft, agents, lots, tasks))
    if not draft.has_lots:
        return made
    return replace(
        made,
        lot_owners=tuple(agents.index(draft.lots[lot]) for lot in lots),
        task_owners=tuple(agents.index(draft.tasks[task]) for task in tasks),
    )


def without_lot(draft: Draft, lot: int) -> Draft:
    """The draft without a lot; the others keep what was typed for them."""
    if not draft.has_lots or not 0 <= lot < len(draft.lots):
        raise InvalidInput(f"lot must be from 0 to {len(draft.lots) - 1}, got {lot}")
    if len(draft.lots) == 1:
        raise InvalidInput("a federation has at least one lot; change this one instead")
    lots = [other for other in range(len(draft.lots)) if other != lot]
    texts = _kept_texts(draft, range(draft.n_agents), lots, range(len(draft.tasks)))
    return replace(draft, lot_owners=tuple(draft.lots[other] for other in lots), texts=texts)


def _kept_texts(draft: Draft, agents: Sequence[int], lots: Sequence[int], tasks: Sequence[int]) -> dict[str, str]:
    """The texts of the members, lots and tasks that are kept, numbered anew."""
    texts: dict[str, str] = {}
    for field, text in draft.texts.items():
        numbered = NUMBERED.search(field)
        if numbered is None:
            texts[field] = text
            continue
        label = field[: numbered.start()]
        places = [int(place) for place in numbered.groups() if place is not None]
        of_lots, of_members = label in (*LOT_COLUMNS, "lot_names"), label in (*MEMBER_COLUMNS, "names")
        kept = [tasks, lots] if label == "weights" else [lots if of_lots else agents if of_members else tasks]
        if all(place in each for place, each in zip(places, kept, strict=True)):
            moved = ",".join(str(list(each).index(place)) for place, each in zip(places, kept, strict=True))
            texts[f"{label}[{moved}]"] = text
    return texts
