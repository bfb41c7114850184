"""Equal agents at several costs and payoff curves: what Fig. 1 and Fig. 2 both draw.

All weights are 1, so every agent reaches xi = 1 + z with z the total contribution, and welfare is
h(z) = n (1 - (1 + z)^-beta) - gamma z. Its maximum is at z = (n beta / gamma)^(1 / (1 + beta)) - 1, or at 0 where
n beta <= gamma: then the first sample costs more than it is worth to all agents together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from fedpact.deals import Outcome
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import ExternalityMechanism, ShapleyMechanism
from fedpact.paper import drawing
from fedpact.paper.judging import CAP, SAME_AMOUNT, ZERO_AMOUNT
from fedpact.paper.markdown import pipe_table

N_AGENTS = 3
GAMMAS = (0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001)
BETAS = (0.005, 0.05, 0.5)
# Values between the paper's, to see whether what is said of three values holds in between.
IN_BETWEEN = (0.1, 0.2, 0.3, 0.4)
BETWEEN_TEXT = f"β = {', '.join(f'{beta:g}' for beta in IN_BETWEEN)} in between"


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """Both mechanisms at one cost and payoff curve."""

    beta: float
    gamma: float
    externality: Outcome
    shapley: Outcome

    @property
    def worth_a_sample(self) -> bool:
        """Whether n beta > gamma: the first sample is worth its cost to all agents together."""
        return N_AGENTS * self.beta > self.gamma * (1.0 + SAME_AMOUNT)

    @property
    def contributions(self) -> tuple[float, float]:
        """What each agent contributes under M^E (the symmetric optimum) and under M^Shap."""
        return _positive(self.externality.contributions[0]), _positive(self.shapley.contributions[0])

    @property
    def welfare(self) -> tuple[float, float]:
        """Under M^E and under M^Shap."""
        return _positive(self.externality.welfare), _positive(self.shapley.welfare)

    @property
    def surplus(self) -> float:
        """How many samples more each contributes under M^Shap."""
        return self.contributions[1] - self.contributions[0]

    @property
    def ratio(self) -> float:
        """Contributions under M^Shap to those under M^E; undefined where nobody contributes."""
        return self.contributions[1] / self.contributions[0] if self.worth_a_sample else float("nan")

    @property
    def loss(self) -> float:
        """How much welfare M^Shap loses."""
        return self.welfare[0] - self.welfare[1]

    @property
    def relative_loss(self) -> float:
        """Its loss as a share of welfare; undefined where nobody contributes."""
        return self.loss / self.welfare[0] if self.worth_a_sample else float("nan")

    @property
    def optimal_total(self) -> float:
        """The total contribution that maximises welfare, in closed form."""
        return max(0.0, (N_AGENTS * self.beta / self.gamma) ** (1.0 / (1.0 + self.beta)) - 1.0)

    @property
    def optimal_welfare(self) -> float:
        """The largest welfare there is, in closed form."""
        total = self.optimal_total
        return N_AGENTS * (1.0 - (1.0 + total) ** -self.beta) - self.gamma * total


Values = Callable[[Point], tuple[float, float]]


@lru_cache
def sweep(betas: tuple[float, ...] = BETAS) -> tuple[Point, ...]:
    """Every beta with every gamma, in the paper's order."""
    return tuple(_solved(beta, gamma) for beta in betas for gamma in GAMMAS)


def between() -> tuple[Point, ...]:
    """The sweep with values of beta between the paper's as well."""
    return sweep((*BETAS[:-1], *IN_BETWEEN, BETAS[-1]))


def at_gamma(points: Sequence[Point], gamma: float) -> list[Point]:
    """The points of one cost, from the smallest beta to the largest."""
    return [point for point in points if point.gamma == gamma]


def costs_where(holds: Callable[[Sequence[Point]], bool]) -> tuple[int, int]:
    """At how many costs something holds from beta to beta: over those drawn, and with those in between."""
    drawn, finer = (sum(holds(at_gamma(points, gamma)) for gamma in GAMMAS) for points in (sweep(), between()))
    return drawn, finer


def rises(values: Sequence[float]) -> bool:
    """Whether every value exceeds the one before."""
    return all(later > earlier for earlier, later in pairwise(values))


def idle_points() -> str:
    """Where nobody contributes, in words."""
    idle = [point for point in sweep() if not point.worth_a_sample]
    return ", ".join(f"β = {point.beta:g} with γ = {point.gamma:g}" for point in idle)


def sweep_columns(values: Values) -> dict[str, list[float]]:
    """The numbers drawn, for the CSV file."""
    points = sweep()
    return {
        "beta": [point.beta for point in points],
        "gamma": [point.gamma for point in points],
        "externality": [values(point)[0] for point in points],
        "shapley": [values(point)[1] for point in points],
    }


def draw_sweep(figure: Any, values: Values, label: str, *, share_y: bool = False) -> list[tuple[Any, list[Point]]]:
    """A panel per beta with both mechanisms against the cost; every panel with its points."""
    panels = figure.subplots(1, len(BETAS), sharey=share_y)
    drawn = []
    for panel, beta in zip(panels, BETAS, strict=True):
        curve = [point for point in sweep() if point.beta == beta]
        amounts = np.array([values(point) for point in curve])
        drawing.two_curves(panel, GAMMAS, amounts[:, 0], amounts[:, 1])
        drawing.dress(panel, f"β = {beta:g}")
        drawing.cost_axis(panel, GAMMAS)
        drawn.append((panel, curve))
    panels[0].set_ylabel(label)
    panels[1].set_xlabel("cost of a sample, γ")
    drawing.mechanism_legend(figure)
    return drawn


def sweep_table(values: Values, form: Callable[[float], str]) -> str:
    """The numbers drawn, a row per gamma and a pair of columns per beta, as Markdown."""
    heads = ["γ", *(f"β = {beta:g}, {name}" for beta in BETAS for name in ("M^E", "M^Shap"))]
    rows = []
    for gamma in GAMMAS:
        pairs = [values(point) for point in sweep() if point.gamma == gamma]
        rows.append([f"{gamma:g}", *(form(amount) for pair in pairs for amount in pair)])
    return pipe_table(heads, rows)


def _solved(beta: float, gamma: float) -> Point:
    federation = Federation(np.ones((N_AGENTS, N_AGENTS)), costs=gamma, caps=CAP, payoff=PowerLaw(beta=beta))
    return Point(
        beta=beta,
        gamma=gamma,
        externality=ExternalityMechanism().solve(federation),
        shapley=ShapleyMechanism().solve(federation),
    )


def _positive(amount: float) -> float:
    return float(amount) if amount > ZERO_AMOUNT else 0.0
