"""How Shapley values, an agent's own share and the potential are computed: chosen here and nowhere else.

There are three routes to the same numbers. A sum over coalitions is exact and keeps the most digits near the edge of
the domain, but there are 2^n of them. The integral (`fedpact.shapley.quadrature`) costs n^3 in NumPy and starts at
once. The same integral for any number of agents, at the cost of their non-zero weights, is compiled beyond 64 of them
(`fedpact.shapley.compiled`); without harm, the potential of nine or more is integrated that way too.
"""

from __future__ import annotations

from enum import Enum

from fedpact.federation import Federation
from fedpact.utils.compiling import are_many_expected
from fedpact.utils.errors import InvalidInput

METHODS = ("auto", "enumeration", "quadrature", "sampling")

# Up to here coalitions are fewer than the nodes of the integral; where somebody is harmed they are worth more.
MAX_COALITION_AGENTS, MAX_COALITION_AGENTS_HARMED = 8, 12
# Beyond, receivers side by side are quicker than one after the other; where many are to be solved, compiled code is.
MAX_NUMPY_AGENTS = 16
MAX_ENUMERATED_AGENTS = 20  # for those who ask for it


class Route(Enum):
    """A way to compute Shapley values."""

    COALITIONS = "enumeration"
    NUMPY = "quadrature"
    COMPILED = "compiled quadrature"


def choose_route(federation: Federation, method: str = "auto") -> Route:
    """The route for a federation: the cheapest, or the cheapest of a method ("enumeration" or "quadrature")."""
    n_agents = federation.n_agents
    few = MAX_COALITION_AGENTS_HARMED if federation.has_harm else MAX_COALITION_AGENTS
    if method == "enumeration" or (method == "auto" and n_agents <= few):
        if n_agents > MAX_ENUMERATED_AGENTS:
            raise InvalidInput(
                f'enumeration over {n_agents} members needs 2^{n_agents} coalition values; use method="quadrature"'
            )
        return Route.COALITIONS
    return Route.NUMPY if n_agents <= MAX_NUMPY_AGENTS and not are_many_expected() else Route.COMPILED
