"""Members whose payoff is a table of what amounts of data are worth, with kinks: only consensus agrees then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate
from fedpact.utils.arrays import FloatArray
from random_cases import some

WELFARE = 1e-9  # of the welfare of the linear program
CAP = 100.0


@dataclass(frozen=True, eq=False)
class Table:
    """A payoff that is linear between amounts of data; concave and rising."""

    amounts: FloatArray
    worths: FloatArray

    @property
    def floor(self) -> FloatArray:
        return np.array([-1.0])

    @property
    def slopes(self) -> FloatArray:
        return np.append(np.diff(self.worths) / np.diff(self.amounts), 0.0)

    def value(self, data: FloatArray) -> FloatArray:
        return np.where(data < 0.0, self.slopes[0] * data, np.interp(data, self.amounts, self.worths))

    def slope(self, data: FloatArray) -> FloatArray:
        return self.slopes[np.clip(np.searchsorted(self.amounts, data, side="right") - 1, 0, None)]

    def curvature(self, data: FloatArray) -> FloatArray:
        return np.zeros_like(data)


def table_agents(size: int, seed: int, rows: int = 12) -> list[Agent]:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (size, size))
    np.fill_diagonal(weights, 1.0)
    beta, costs = rng.uniform(0.2, 0.6, size), rng.uniform(0.005, 0.02, size)
    smooth = fp.Federation(weights, costs=costs, caps=CAP, payoff=fp.PowerLaw(beta))
    amounts = np.concatenate([[0.0], np.geomspace(0.5, CAP * size, rows)])
    tables: list[Any] = [Table(amounts, 1.0 - (1.0 + amounts) ** -power) for power in beta]
    return [replace(agent, payoff=tables[place]) for place, agent in enumerate(agents_of(smooth, least_gain=None))]


def largest_welfare(agents: list[Agent]) -> float:
    """The linear program: payoffs below all lines of their tables."""
    size = len(agents)
    rows, limits = [], []
    for place, agent in enumerate(agents):
        table: Any = agent.payoff
        for slope, amount, worth in zip(table.slopes, table.amounts, table.worths, strict=True):
            rows.append(np.concatenate([-slope * agent.weights, np.eye(size)[place]]))
            limits.append(worth - slope * amount)
    costs = [float(np.ravel(agent.cost.linear)[0]) for agent in agents]
    found = linprog(
        np.concatenate([costs, -np.ones(size)]),
        np.array(rows),
        limits,
        bounds=[(0, CAP)] * size + [(None, None)] * size,
    )
    return -float(found.fun)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seed"), some([(3, 0), (3, 1), (5, 0), (5, 2)], few=2))
def test_consensus_finds_the_optimum_between_tables(size: int, seed: int) -> None:
    agents = table_agents(size, seed)
    deal = coordinate(InProcess(agents), protocol="admm")
    assert not deal.excluded
    data = [float(agent.weights @ deal.contributions) for agent in agents]
    costs = [float(np.ravel(agent.cost.linear)[0]) for agent in agents]
    payoffs = [float(agent.payoff.value(np.array([each]))[0]) for agent, each in zip(agents, data, strict=True)]
    best = largest_welfare(agents)
    assert sum(payoffs) - float(costs @ deal.contributions) == pytest.approx(best, abs=WELFARE * best)
    assert float(deal.payments.sum()) == 0.0


def test_sums_find_no_agreement_there() -> None:
    """They follow slopes, which jump: the page says so."""
    with pytest.raises(fp.NotConverged, match="no agreement within 60 rounds"):
        coordinate(InProcess(table_agents(3, 0)), protocol="sums", max_rounds=60)
