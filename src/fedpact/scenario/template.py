"""A scenario file to start from, with every key explained."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario.fields import name_list
from fedpact.scenario.reading import parse_scenario
from fedpact.scenario.writing import matrix_lines, quote, toml_value
from fedpact.utils.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class ScenarioAnswers:
    """What a new scenario says; one entry per member, a row of weights per receiver.

    Where every member has lots and tasks of these names, entries of costs and caps are per lot, those of values per
    task, member by member.
    """

    names: Sequence[str]
    unit: str
    weights: Sequence[Sequence[float]]
    costs: Sequence[str]
    caps: Sequence[float]
    values: Sequence[str]
    beta: float = 0.3
    title: str = ""
    lots: Sequence[str] = ()
    tasks: Sequence[str] = ()
    description: str = ""
    home: bool = True
    joining_costs: str = ""


def template(names: Sequence[str] | int = 3, *, lots: Sequence[str] = (), tasks: Sequence[str] = ()) -> str:
    """A commented TOML scenario that loads as it is and is meant to be edited.

    Parameters
    ----------
    names
        The members' names, or how many members there are.
    lots, tasks
        What the lots of data and the tasks are called that every member has several of; one of each if not given.

    Examples
    --------
    >>> print(template(["North", "South"]).splitlines()[7])
    names = ["North", "South"]
    """
    if isinstance(names, int):
        if names < 1:
            raise InvalidInput(f"names must be a list of names or a positive number of members, got {names}")
        names = [f"Member {member}" for member in range(1, names + 1)]
    members = name_list("names", names if isinstance(names, str) else list(names))
    kinds, tests = (
        [""] if not given else name_list(key, given if isinstance(given, str) else list(given))
        for key, given in (("lots", lots), ("tasks", tasks))
    )
    givers = [(member, kind) for member in range(len(members)) for kind in range(len(kinds))]
    receivers = [(member, test) for member in range(len(members)) for test in range(len(tests))]
    return scenario_text(
        ScenarioAnswers(
            names=members,
            unit="thousand records",
            weights=[[_example_weight(*receiver, *giver) for giver in givers] for receiver in receivers],
            costs=[f"{EXAMPLE_COSTS[member % 3]} EUR/record" for member, _ in givers],
            caps=[EXAMPLE_CAPS[member % 3] for member, _ in givers],
            values=[f"{EXAMPLE_VALUES[member % 3]} EUR/point" for member, _ in receivers],
            lots=kinds if lots or tasks else (),
            tasks=tests if lots or tasks else (),
        )
    )


def scenario_text(answers: ScenarioAnswers) -> str:
    """The commented file that says this; checked to load."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - for new files only

    made = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    made.filters |= {"quote": quote, "toml": lambda given: toml_value(list(given))}
    owned = {
        kind: [(name, thing or name) for name in answers.names for thing in things]
        for kind, things in (("lot", answers.lots), ("task", answers.tasks))
    }
    rows = [f"{name}: {thing}" if thing != name else name for name, thing in owned["task"]] or answers.names
    content = made.from_string(files("fedpact.scenario").joinpath("template.txt").read_text("utf-8")).render(
        asdict(answers)
        | {f"{kind}_owners": [name for name, _ in each] for kind, each in owned.items()}
        | {f"{kind}_names": [thing for _, thing in each] for kind, each in owned.items()},
        rows=list(zip(rows, matrix_lines(answers.weights), strict=True)),
        families=FAMILIES,
        first_lots=[f"{answers.names[0]}: {lot}" for lot in answers.lots[:2]],
    )
    parse_scenario(tomllib.loads(content), where="template")
    return content


# An example that is not symmetric: members differ in size, cost and stakes, and data flows one way more than the other.
EXAMPLE_CAPS = (120.0, 60.0, 30.0)
EXAMPLE_COSTS = ("0.03", "0.04", "0.025")
EXAMPLE_VALUES = ("2000", "1500", "1000")


EXAMPLE_QUALITIES = (1.0, 0.4, 0.2)  # of a member's first lot, its second, ...
OTHER_KIND = 0.3  # what a lot of another kind is worth to a task after the first, against one of its own


def _example_weight(receiver: int, test: int, giver: int, kind: int) -> float:
    """Every further task cares most about one kind of lot."""
    base = 1.0 if receiver == giver else (0.4 if giver > receiver else 0.8) / abs(receiver - giver)
    focus = 1.0 if test in (0, kind) else OTHER_KIND
    return round(base * EXAMPLE_QUALITIES[min(kind, 2)] * focus, 2)
