"""Federations whose answers are known: inputs, exact answer, and where it comes from.

Two kinds. `CASES` have known equilibria, in closed form, as the root of one equation, or as printed digits. `GAMES`
are contribution profiles with known Shapley values. Several equilibria are built backwards: a round profile is chosen,
and the costs are the marginal benefits there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, root

import fedpact as fp

# Closed forms, and roots to the last digit: what is left is the solver's rounding, which a flat optimum magnifies.
EXACT = 1e-9
# Answers known to four decimals.
FOUR_DECIMALS = 5e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A federation and its equilibrium contributions by mechanism.

    `atol` is the absolute error allowed, `dimension` that of the set of welfare optima.
    """

    name: str
    federation: fp.Federation
    source: str
    equilibria: Mapping[str, ArrayLike]
    atol: float = EXACT
    dimension: int = 0
    payments: Mapping[str, ArrayLike] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """A contribution profile and its Shapley values."""

    name: str
    federation: fp.Federation
    contributions: ArrayLike
    values: ArrayLike
    source: str


# The homogeneous federation, w_ij = 1.


def homogeneous(n_agents: int, beta: float, gamma: float, cap: float = np.inf) -> fp.Federation:
    """The paper's homogeneous setting."""
    return fp.Federation(np.ones((n_agents, n_agents)), costs=gamma, caps=cap, payoff=fp.PowerLaw(beta))


def welfare_total(n_agents: int, beta: float, gamma: float) -> float:
    """z with n beta (1 + z)^(-beta - 1) = gamma: what everybody contributes together at the social optimum."""
    return max((n_agents * beta / gamma) ** (1.0 / (beta + 1.0)) - 1.0, 0.0)


def shapley_each(n_agents: int, beta: float, gamma: float) -> float:
    """s with beta sum_{k=1..n} (1 + k s)^(-beta - 1) = gamma.

    The k-th to join, each place being as likely, adds n [g(k s) - g((k - 1) s)], whose derivative in its own
    contribution is n beta (1 + k s)^(-beta - 1).
    """
    sizes = np.arange(1, n_agents + 1)

    def slope(s: float) -> float:
        return float(beta * ((1.0 + sizes * s) ** (-beta - 1.0)).sum() - gamma)

    return 0.0 if slope(0.0) <= 0 else float(brentq(slope, 0.0, n_agents * beta / gamma, xtol=1e-13, rtol=1e-15))


def _homogeneous_case(n_agents: int, beta: float, gamma: float) -> Case:
    alone = welfare_total(1, beta, gamma)
    ones = np.ones(n_agents)
    return Case(
        name=f"homogeneous n={n_agents} beta={beta} gamma={gamma}",
        federation=homogeneous(n_agents, beta, gamma),
        source="the first-order conditions, one equation in one unknown; free riding reaches the standalone total",
        equilibria={
            "externality": ones * welfare_total(n_agents, beta, gamma) / n_agents,
            "shapley": ones * shapley_each(n_agents, beta, gamma),
            "voluntary": ones * alone / n_agents,
            "standalone": ones * alone,
        },
        payments={"externality": 0.0 * ones, "shapley": 0.0 * ones},
        dimension=n_agents - 1 if n_agents * beta > gamma else 0,
    )


# Table 1 of the paper: gamma = 0.001, beta = 0.02.

W1 = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
W2 = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
W3 = [[1.0, 0.1, 2.0], [-0.2, 1.0, 0.5], [1.0, 3.0, 1.0]]


def table_1(weights: ArrayLike) -> fp.Federation:
    """An instance of Table 1; the paper leaves the caps open."""
    return fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))


def stationary(weights: ArrayLike, free: list[int], guess: ArrayLike) -> list[float]:
    """Where the marginal welfare of the `free` agents vanishes, the others contributing nothing: a plain root."""
    matrix = np.asarray(weights)

    def profile(x: ArrayLike) -> np.ndarray:
        s = np.zeros(matrix.shape[0])
        s[free] = x
        return s

    def marginal(x: ArrayLike) -> np.ndarray:
        slopes = 0.02 * (1.0 + matrix @ profile(x)) ** -1.02
        return 1e3 * (slopes @ matrix - 0.001)[free]

    return profile(root(marginal, guess, tol=1e-13).x).tolist()


TABLE_1 = (
    Case(
        name="table 1, W1",
        federation=table_1(W1),
        source="Table 1 of the paper; equal agents",
        equilibria={"externality": [18.1238] * 3, "shapley": [33.1657604] * 3},
        atol=FOUR_DECIMALS,
        dimension=2,
    ),
    Case(
        name="table 1, W2",
        federation=table_1(W2),
        source="the exact optimum of Table 1's W2; the printed row comes from an optimiser that stopped early",
        equilibria={"externality": [16.8967, 6.1563, 31.2144]},
        atol=FOUR_DECIMALS,
    ),
    Case(
        name="table 1, W2, to all digits",
        federation=table_1(W2),
        source="the three first-order conditions, by a general root finder",
        equilibria={"externality": stationary(W2, [0, 1, 2], [17.0, 6.0, 31.0])},
        atol=1e-9,
    ),
    Case(
        name="table 1, W3",
        federation=table_1(W3),
        source="there is no interior optimum: agent 0 contributes nothing; two first-order conditions for the others",
        equilibria={"externality": stationary(W3, [1, 2], [15.0, 20.0])},
        atol=1e-9,
    ),
)


# Two agents with logarithmic payoffs. Agent 1's data has weight w for agent 0, agent 0's is of no use to agent 1:
#     a_0 = log(1 + s_0 + w s_1),  a_1 = log(1 + s_1).


def one_way(w: float, costs: ArrayLike) -> fp.Federation:
    """The two agents, of whom only agent 0 can use the other's data."""
    return fp.Federation([[1.0, w], [0.0, 1.0]], costs=costs, payoff=fp.Log())


def one_way_shapley_costs(w: float, s: tuple[float, float]) -> list[float]:
    """Costs at which s is the Shapley equilibrium: d phi_j / d s_j at s."""
    together = 1.0 + s[0] + w * s[1]
    first = 0.5 * (1.0 / (1.0 + s[0]) + 1.0 / together)
    second = 1.0 / (1.0 + s[1]) + 0.5 * (w / (1.0 + w * s[1]) + w / together)
    return [first, second]


TWO_AGENTS = (
    Case(
        name="one-way help",
        federation=one_way(0.5, [0.1, 0.25]),
        source="a_0' = c_0 and w c_0 + 1 / (1 + s_1) = c_1, so s_1 = 4 and s_0 = 9 - 4 / 2; agent 0 pays w c_0 s_1",
        equilibria={"externality": [7.0, 4.0], "voluntary": [7.5, 3.0], "standalone": [9.0, 3.0]},
        payments={"externality": [-0.2, 0.2]},
    ),
    Case(
        name="one-way harm",
        federation=one_way(-0.5, [0.1, 0.15]),
        source="as above with w = -1/2: s_1 = 1 / (c_1 + c_0 / 2) - 1 = 4, s_0 = 9 + 4 / 2; agent 1 pays for the harm",
        equilibria={
            "externality": [11.0, 4.0],
            "voluntary": [9.0 + 17.0 / 6.0, 17.0 / 3.0],
            "standalone": [9.0, 17.0 / 3.0],
        },
        payments={"externality": [0.2, -0.2]},
    ),
    Case(
        name="one-way help, Shapley",
        federation=one_way(0.5, one_way_shapley_costs(0.5, (3.0, 2.0))),
        source="costs chosen as the marginal Shapley values at (3, 2)",
        equilibria={"shapley": [3.0, 2.0]},
    ),
    Case(
        name="one-way harm, Shapley",
        federation=one_way(-0.1, one_way_shapley_costs(-0.1, (3.0, 2.0))),
        source="costs chosen as the marginal Shapley values at (3, 2), with a harmful weight",
        equilibria={"shapley": [3.0, 2.0]},
    ),
    Case(
        name="mutual free riding",
        federation=fp.Federation([[1.0, 2.0], [2.0, 1.0]], costs=0.1, payoff=fp.Log()),
        source="both want y = 9: (3, 3), (9, 0) and (0, 9) are equilibria without payments; the first is singled out",
        equilibria={"voluntary": [3.0, 3.0], "standalone": [9.0, 9.0], "externality": [29.0 / 3.0] * 2},
    ),
)


# Single agents and decoupled agents: every mechanism is the standalone optimum.


def _all_equal(contributions: ArrayLike) -> dict[str, ArrayLike]:
    return dict.fromkeys(("externality", "shapley", "voluntary", "standalone"), contributions)


def _single(name: str, payoff: fp.Payoff, costs: object, answer: float, source: str, **options: float) -> Case:
    federation = fp.Federation([[2.0]], costs=costs, payoff=payoff, values=3.0, **options)
    return Case(
        name=f"single, {name}",
        federation=federation,
        source=source,
        equilibria=_all_equal([answer]),
        payments={"externality": [0.0], "shapley": [0.0]},
    )


# One agent with w = 2 and value 3: 6 g'(2 s) = c'(s).
SINGLE = (
    _single(
        "power law", fp.PowerLaw(0.5), 0.1, ((6.0 * 0.5 / 0.1) ** (1.0 / 1.5) - 1.0) / 2.0, "3 (1 + 2s)^-1.5 = 0.1"
    ),
    _single("log", fp.Log(), 0.1, (6.0 / 0.1 - 1.0) / 2.0, "6 / (1 + 2s) = 0.1"),
    _single("michaelis", fp.Michaelis(4.0), 0.1, (sqrt(6.0 * 4.0 / 0.1) - 4.0) / 2.0, "24 / (2s + 4)^2 = 0.1"),
    _single("exponential", fp.Exponential(0.25), 0.1, log(1.5 / 0.1) / 0.5, "1.5 e^(-s/2) = 0.1"),
    _single(
        "rising cost", fp.Log(), fp.Quadratic(0.0, 0.25), (sqrt(1.0 + 4.0 * 24.0) - 1.0) / 4.0, "6 / (1 + 2s) = s / 2"
    ),
    _single("dear", fp.Log(), 6.0, 0.0, "6 / (1 + 2s) = 6 at zero: not worth the first sample"),
    _single("capped", fp.Log(), 0.1, 5.0, "29.5 would be best", caps=5.0),
)

DECOUPLED = Case(
    name="decoupled",
    federation=fp.Federation(
        np.diag([1.0, 2.0, 0.5]),
        costs=[0.1, 0.2, 0.4],
        caps=[np.inf, 3.0, np.inf],
        payoff=fp.Log(),
        values=[1.0, 3.0, 0.5],
    ),
    source="identity-like weights: values_i w_ii / (1 + w_ii s_i) = c_i, cut at the cap and at zero",
    equilibria=_all_equal([9.0, 3.0, 0.0]),
    payments={"externality": [0.0] * 3, "shapley": [0.0] * 3},
)


# Optima on the boundary.

_TOTAL = welfare_total(3, 0.02, 0.001)

BOUNDARY = (
    Case(
        name="not worth a sample",
        federation=homogeneous(3, 0.005, 0.015),
        source="n beta <= gamma: the first sample costs as much as it is worth to all, under both mechanisms",
        equilibria=_all_equal([0.0] * 3),
    ),
    Case(
        name="all at the cap",
        federation=homogeneous(3, 0.02, 0.001, cap=5.0),
        source="15 in total, below both the optimum and the standalone wish",
        equilibria={"externality": [5.0] * 3, "shapley": [5.0] * 3, "standalone": [5.0] * 3, "voluntary": [5.0] * 3},
        payments={"externality": [0.0] * 3, "shapley": [0.0] * 3},
    ),
    Case(
        name="small caps among equals",
        federation=fp.Federation(W1, costs=0.001, caps=[5.0, 10.0, 400.0], payoff=fp.PowerLaw(0.02)),
        source="every split of the optimal total is optimal; the one of smallest norm fills the small caps",
        equilibria={"externality": [5.0, 10.0, _TOTAL - 15.0]},
        dimension=2,
    ),
    Case(
        name="caps that pin",
        federation=fp.Federation(
            W1, costs=[0.001, 0.0005, 0.001], caps=[np.inf, 4.0, np.inf], payoff=fp.PowerLaw(0.02)
        ),
        source="the cheap agent is at its cap at every optimum; the two others split the rest",
        equilibria={"externality": [(_TOTAL - 4.0) / 2.0, 4.0, (_TOTAL - 4.0) / 2.0]},
        dimension=1,
    ),
    Case(
        name="duplicate columns",
        federation=fp.Federation(
            [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], costs=0.1, payoff=fp.Log(), values=[1.0, 1.0, 1.0]
        ),
        source="2 / (1 + s_0 + s_1) = 0.1 fixes only the sum, 19; agent 2 stands alone",
        equilibria={"externality": [9.5, 9.5, 9.0]},
        dimension=1,
    ),
)

CASES = {
    case.name: case
    for case in (
        *TABLE_1,
        _homogeneous_case(1, 0.02, 0.001),
        _homogeneous_case(3, 0.02, 0.001),
        _homogeneous_case(5, 0.5, 0.03),
        _homogeneous_case(8, 1.0, 0.2),
        *TWO_AGENTS,
        *SINGLE,
        DECOUPLED,
        *BOUNDARY,
    )
}


def answers(mechanism: str) -> list[Case]:
    """The cases in which the equilibrium of one mechanism is known."""
    return [case for case in CASES.values() if mechanism in case.equilibria]


# Shapley values in closed form.


def _first_among(g: Callable[[float], float], x: float, y: float) -> float:
    """phi of the agent with data x in the two-agent game g: the mean over both orders."""
    return 0.5 * (g(x) + g(x + y) - g(y))


def _power(y: float) -> float:
    return 1.0 - (1.0 + y) ** -0.5


def _product_game() -> Game:
    """One receiver with an exponential payoff: v(X) = 1 - product of e_k.

    Agent j meets none of the others first with chance 1/3, exactly one of them with chance 1/6 each, both with 1/3.
    """
    weights, s, rate = np.array([[1.0, 0.5, 2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), [1.0, 3.0, 0.25], 0.4
    e = np.exp(-rate * weights[0] * s)
    values = []
    for j in range(3):
        k, m = (other for other in range(3) if other != j)
        values.append((1.0 - e[j]) * (1.0 / 3.0 + (e[k] + e[m]) / 6.0 + e[k] * e[m] / 3.0))
    values[1] += 1.0 - exp(-rate * 3.0)
    values[2] += 1.0 - exp(-rate * 0.25)
    return Game(
        name="product game",
        federation=fp.Federation(weights, costs=0.1, payoff=fp.Exponential(rate)),
        contributions=s,
        values=values,
        source="the coalition payoff is one minus a product; summed over the six orders by hand",
    )


GAMES = {
    game.name: game
    for game in (
        Game(
            name="power law, two agents",
            federation=fp.Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.1, payoff=fp.PowerLaw(0.5)),
            contributions=[3.0, 4.0],
            values=[_first_among(_power, 3.0, 2.0), _first_among(_power, 2.0, 3.0) + _power(4.0)],
            source="the mean over both orders",
        ),
        Game(
            name="power law, one harmful weight",
            federation=fp.Federation([[1.0, -0.2], [0.0, 1.0]], costs=0.1, payoff=fp.PowerLaw(0.5)),
            contributions=[3.0, 4.0],
            values=[_first_among(_power, 3.0, -0.8), _first_among(_power, -0.8, 3.0) + _power(4.0)],
            source="the mean over both orders; alone, agent 1 would leave agent 0 with a reach of 0.2",
        ),
        Game(
            name="michaelis, two agents",
            federation=fp.Federation([[1.0, 1.0], [1.0, 1.0]], costs=0.1, payoff=fp.Michaelis(2.0), values=[1.0, 3.0]),
            contributions=[2.0, 4.0],
            values=[4.0 * 0.5 * (1 / 2 + 3 / 4 - 2 / 3), 4.0 * 0.5 * (2 / 3 + 3 / 4 - 1 / 2)],
            source="g(2) = 1/2, g(4) = 2/3, g(6) = 3/4, and the values add up to 4",
        ),
        Game(
            name="log, equal agents",
            federation=fp.Federation(np.ones((4, 4)), costs=0.1, payoff=fp.Log()),
            contributions=[2.5] * 4,
            values=[log(11.0)] * 4,
            source="equal agents share 4 log(1 + 10) equally",
        ),
        _product_game(),
        Game(
            name="exponential, equal senders",
            federation=fp.Federation(np.ones((5, 5)), costs=0.1, payoff=fp.Exponential(0.1)),
            contributions=[2.0] * 5,
            values=[1.0 - exp(-1.0)] * 5,
            source="equal agents share 5 (1 - e^-1) equally",
        ),
        Game(
            name="nobody contributes",
            federation=fp.Federation(W2, costs=0.1, payoff=fp.PowerLaw(0.02)),
            contributions=[0.0] * 3,
            values=[0.0] * 3,
            source="g(0) = 0",
        ),
    )
}


def errors_of(**fields: Any) -> tuple[fp.InvalidInput, ...]:
    """Everything that is wrong with the inputs of a federation."""
    try:
        fp.Federation(**fields)
    except fp.InvalidInput as error:
        return error.errors
    return ()
