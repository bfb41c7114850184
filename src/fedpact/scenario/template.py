"""A scenario file to start from, with every key explained."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from fedpact.scenario.fields import name_list
from fedpact.scenario.formatting import matrix_lines, toml_string, toml_value
from fedpact.scenario.reading import parse_scenario
from fedpact.utils.errors import InvalidInput

TEMPLATE = """\
# A scenario for fedpact: who takes part, what each one's data is worth to the others, what data costs.
# Lines that start with # are comments. Change the numbers, keep the keys.

title = "My federation"
description = "What this federation trains, and where the numbers below come from."

# One name per member. Every list below follows this order.
names = {names}

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

# What one more sample costs its owner, in the same units as the payoff: a number for all members, or a list with
# one per member. If samples get dearer the more one gives: costs = {{linear = 0.001, quadratic = 0.00001}}
costs = 0.001

# The most samples each member can give: a number, or a list with one per member. inf means no limit.
caps = 400

# What a unit of payoff is worth to each member: a number, or a list with one per member.
values = 1.0

# How payoff grows with y, the weighted samples a member can reach (the sum over its row of weight times samples).
#   family        payoff               parameter
#   power-law     1 - (1 + y)^-beta    beta: how fast errors fall with data; accuracy that levels off slowly
#   exponential   1 - exp(-rate y)     rate: accuracy that levels off fast, after about 1/rate samples
#   michaelis     y / (y + half)       half: the samples that bring half of what is possible
#   log           log(1 + y)           none: every doubling of the data is worth the same
# A parameter is a number for all members, or a list with one per member.
[payoff]
family = "power-law"
beta = 0.02

# A table called uncertainty, which `fedpact fit` writes from measured accuracies, says how sure the numbers above are.

# Needed only to settle payments in money: how much money one unit of payoff is worth. Remove the # to use it.
# [money]
# currency = "EUR"
# per_payoff = 100000
"""


def template(names: Sequence[str] | int = 3) -> str:
    """A commented TOML scenario that loads as it is and is meant to be edited.

    Parameters
    ----------
    names
        The members' names, or how many members there are.

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
    content = TEMPLATE.format(names=toml_value(members), weights=_weights(members))
    parse_scenario(tomllib.loads(content), where="template", folder=Path())
    return content


def _weights(members: Sequence[str]) -> str:
    rows = [[1.0 if giver == receiver else 0.5 for giver in members] for receiver in members]
    return "\n".join(
        f"  {line},  # what each member's data is worth to {toml_string(member)}"
        for member, line in zip(members, matrix_lines(rows), strict=True)
    )
