"""The least core: how much every group could lose before one of them is better off by itself.

Members share v(N), the largest welfare, and a group X that leaves reaches v(X). The least core (Maschler, Peleg and
Shapley 1979) are the divisions x under which the smallest x(X) - v(X) of all proper groups is as large as can be: the
level. Below zero no division keeps all groups, and minus the level is what each must be made to lose by leaving. The
division given is the nucleolus, which is one of them (`fedpact.mechanisms.Nucleolus`).
"""

from __future__ import annotations

from dataclasses import dataclass

from fedpact.federation import Federation
from fedpact.solvers.groups import MAX_LISTED_AGENTS, KnownGroups
from fedpact.solvers.nucleolus import nucleolus
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastCore:
    """The level of the least core, and a division in it.

    Attributes
    ----------
    utilities
        What each member has.
    level
        What every proper group has beyond what it reaches by itself, in units of payoff.
    """

    utilities: FloatArray
    level: float


def least_core(federation: Federation) -> LeastCore:
    """How much every group has beyond what it reaches by itself, at best: of two to 16 members.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> least_core(hospitals().federation).level > 0
    True
    """
    if federation.n_agents == 1:
        why = "the least core needs at least two members, got a federation of one: nobody can leave anybody"
        raise InvalidInput(why, field="federation", rule="must have at least two members", value=1)
    if federation.n_agents > MAX_LISTED_AGENTS:
        rule, size = f"must have at most {MAX_LISTED_AGENTS} members", federation.n_agents
        raise InvalidInput(field="federation", rule=rule, value=size, given=f", got {size}: it needs all 2^n groups")
    found = nucleolus(KnownGroups(federation))
    return LeastCore(utilities=read_only_copy(found.utilities), level=found.level)
