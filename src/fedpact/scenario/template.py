"""A scenario file to start from, with every key explained."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedpact.scenario.fields import name_list
from fedpact.scenario.formatting import matrix_lines, toml_string, toml_value
from fedpact.scenario.reading import parse_scenario
from fedpact.utils.errors import InvalidInput

MEMBERS = """\
# How useful the members' data is to each other. The row receives, the column gives: the second number of the
# first row says how useful the second member's data is to the first. 1 means as good as one's own data, 0.5 that
# two of their samples do as much as one of one's own, 0 useless, below 0 harmful. A member's own weight, on the
# diagonal, is positive; 1 counts reach in the member's own samples.
# For a large federation keep the matrix in a file beside this one instead: weights = "weights.csv", with the names
# along the top and down the side, or weights = "weights.npz".
weights = [
{weights}
]

# If members hold several kinds of data (lots), or care about several tests (tasks), say whose each column and each row
# is, by the names above. There is then a row per task and a column per lot; costs and caps have one number per lot,
# values and the payoff's parameter one per task. A member's own data may then be of any use to it. For example, two
# lots of the first member and one of the second, and a task each:
#   lot_owners = ["North", "North", "South"]
#   lot_names = ["X-rays, new device", "X-rays, old device", "X-rays"]
#   task_owners = ["North", "South"]
#   task_names = ["adults", "children"]
#   weights = [[1.0, 0.6, 0.5], [0.5, 0.2, 1.0]]
# Lots of one member may share a cap, such as the same records raw or with noise: a table [[shared_caps]] at the end of
# this file, with lots = ["North: raw", "North: with noise"] and cap = 100.0
"""
LOTS_TEMPLATE = """\
# Whose data there is, a column for each of these lots, and what each is called.
lot_owners = {lot_owners}
lot_names = {lot_names}

# Whose tests there are, a row for each of these tasks, and what each is called.
task_owners = {task_owners}
task_names = {task_names}

# How useful every lot is to every task. The row receives, the column gives: the second number of the first row says how
# useful the second lot is to the first task. 1 means as good as the data one would measure it against, 0.5 that two
# samples do as much as one of that, 0 useless, below 0 harmful. A member's own data may be of any use to it.
weights = [
{weights}
]
"""
SHARED_CAPS = """\

# If lots of one member are the same records, offered raw or with noise for instance, say how many there are in all: a
# table for each at the end of this file, after all others. Remove the # to use it.
# [[shared_caps]]
# lots = {lots}
# cap = 100.0
"""
TEMPLATE = """\
# A scenario for fedpact: who takes part, what each one's data is worth to the others, what data costs.
# Lines that start with # are comments. Change the numbers, keep the keys.

title = {title}
description = "What this federation trains, and where the numbers below come from."

# One name per member. Every list below follows this order.
names = {names}

{ownership}
# What contributions are counted in.
unit = {unit}

# What one more unit of data costs its owner: money per record, or per so many, as one text for all or a list with one
# per {giver}. Plain numbers, costs = 0.001, are in the units of the payoff, per unit of data. If data gets
# dearer the more one gives: costs = {{linear = 0.001, quadratic = 0.00001}}
costs = {costs}

# The most units of data that can be given: a number for all, or a list with one per {giver}. inf means no limit.
caps = {caps}
{shared}
# What one more point of accuracy is worth: money per point, for all or one per {receiver}. As plain numbers,
# values = 1.0, what a payoff of 1 is worth: an accuracy 100 points above that of no data.
values = {values}

# How payoff grows with y, the weighted samples a member can reach (the sum over its row of weight times samples).
#   family        payoff               parameter
#   power-law     1 - (1 + y)^-beta    beta: how fast errors fall with data; accuracy that levels off slowly
#   exponential   1 - exp(-rate y)     rate: accuracy that levels off fast, after about 1/rate samples
#   michaelis     y / (y + half)       half: the samples that bring half of what is possible
#   log           log(1 + y)           none: every doubling of the data is worth the same
# A parameter is a number for all, or a list with one per {receiver}.
[payoff]
family = "power-law"
beta = {beta}

# A table called uncertainty, which `fedpact fit` writes from measured accuracies, says how sure the numbers above are.
# A text not_recommended, which `fedpact pilot` writes where a trained deal lost, says why no deal is to be recommended.

# Needed where costs and values are plain numbers and payments are to be settled in money: how much money one unit of
# payoff is worth. Remove the # to use it.
# [money]
# currency = "EUR"
# per_payoff = 100000
"""


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
    title: str = "My federation"
    lots: Sequence[str] = ()
    tasks: Sequence[str] = ()


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
    content = TEMPLATE.format(
        title=toml_string(answers.title),
        names=toml_value(list(answers.names)),
        ownership=_ownership(answers),
        giver="lot" if answers.lots else "member",
        receiver="task" if answers.tasks else "member",
        unit=toml_string(answers.unit),
        costs=toml_value(list(answers.costs)),
        caps=toml_value([float(cap) for cap in answers.caps]),
        shared=SHARED_CAPS.format(lots=_first_lots(answers)) if len(answers.lots) > 1 else "",
        values=toml_value(list(answers.values)),
        beta=answers.beta,
    )
    parse_scenario(tomllib.loads(content), where="template", folder=Path())
    return content


# An example that is not symmetric: members differ in size, cost and stakes, and data flows one way more than the other.
EXAMPLE_CAPS = (120.0, 60.0, 30.0)
EXAMPLE_COSTS = ("0.30", "0.40", "0.25")
EXAMPLE_VALUES = ("2000", "1500", "1000")


EXAMPLE_QUALITIES = (1.0, 0.4, 0.2)  # of a member's first lot, its second, ...
OTHER_KIND = 0.3  # what a lot of another kind is worth to a task after the first, against one of its own


def _example_weight(receiver: int, test: int, giver: int, kind: int) -> float:
    """Every further task cares most about one kind of lot."""
    base = 1.0 if receiver == giver else (0.4 if giver > receiver else 0.8) / abs(receiver - giver)
    focus = 1.0 if test in (0, kind) else OTHER_KIND
    return round(base * EXAMPLE_QUALITIES[min(kind, 2)] * focus, 2)


def _ownership(answers: ScenarioAnswers) -> str:
    """The weights, and whose every column and row is where members have several lots or tasks."""
    if not answers.lots:
        return MEMBERS.format(weights=_weights(answers.names, answers.weights))
    lots, tasks = answers.lots, answers.tasks
    owned = [[(name, thing or name) for name in answers.names for thing in things] for things in (lots, tasks)]
    keys = {
        f"{kind}_{part}": toml_value([entry[place] for entry in each])
        for kind, each in zip(("lot", "task"), owned, strict=True)
        for place, part in enumerate(("owners", "names"))
    }
    rows = [f"{name}: {thing}" if thing != name else name for name, thing in owned[1]]
    return LOTS_TEMPLATE.format(weights=_weights(rows, answers.weights), **keys)


def _first_lots(answers: ScenarioAnswers) -> str:
    """The labels of the first member's lots."""
    return toml_value([f"{answers.names[0]}: {lot}" for lot in answers.lots[:2]])


def _weights(members: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    return "\n".join(
        f"  {line},  # what each member's data is worth to {toml_string(member)}"
        for member, line in zip(members, matrix_lines(rows), strict=True)
    )
