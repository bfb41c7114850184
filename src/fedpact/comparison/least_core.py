"""The least core: how much every group could lose before one of them is better off by itself.

Members share v(N), the largest welfare, and a group X that leaves reaches v(X). The least core (Maschler, Peleg and
Shapley 1979) are the divisions x under which the smallest x(X) - v(X) of all proper groups is as large as can be: the
level. Below zero no division keeps all groups, and minus the level is what each must be made to lose by leaving. The
division given is the nucleolus, which is one of them (`fedpact.mechanisms.nucleolus`).
"""

from __future__ import annotations

from dataclasses import dataclass

from fedpact.federation import Federation
from fedpact.mechanisms.nucleolus import Nucleolus
from fedpact.mechanisms.side_payments import DIVISION_TIME_LIMIT
from fedpact.programs.groups import MAX_LISTED_AGENTS
from fedpact.programs.social_optimum import social_optimum
from fedpact.programs.worst_group import BRACKET_TOLERANCE, worst_group
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastCore:
    """The level of the least core, and a division in it.

    Attributes
    ----------
    utilities
        What each member has.
    lower_bound, upper_bound
        Between these is the level, in units of payoff.
    exact
        Whether the two are the same but for rounding. Then the utilities are in the least core; if not, every proper
        group has at least the lower bound beyond what it reaches by itself.
    """

    utilities: FloatArray
    lower_bound: float
    upper_bound: float
    exact: bool

    @property
    def level(self) -> float:
        """What every proper group has for certain beyond what it reaches by itself: the lower bound."""
        return self.lower_bound


def least_core(federation: Federation, *, time_limit: float = DIVISION_TIME_LIMIT) -> LeastCore:
    """How much every group has beyond what it reaches by itself, at best: exact up to 16 members, then a bracket.

    Parameters
    ----------
    time_limit
        Seconds after which a search among more than 16 members ends, and as many again for its lower bound.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> found = least_core(hospitals().federation)
    >>> found.exact, found.level > 0
    (True, True)
    """
    if federation.n_agents == 1:
        why = "the least core needs at least two members, got a federation of one: nobody can leave anybody"
        raise InvalidInput(why, field="federation", rule="must have at least two members", value=1)
    optimum = social_optimum(federation).contributions
    found = Nucleolus(time_limit=time_limit).division(federation, optimum)
    lower = found.level
    if federation.n_agents > MAX_LISTED_AGENTS:
        lower = min(lower, -worst_group(federation, found.utilities, proper=True, time_limit=time_limit).upper_bound)
    scale = abs(float(found.utilities.sum()))
    return LeastCore(
        utilities=read_only_copy(found.utilities),
        lower_bound=lower,
        upper_bound=found.level,
        exact=found.level - lower <= BRACKET_TOLERANCE * scale,
    )
