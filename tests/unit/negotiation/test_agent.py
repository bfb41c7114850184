"""Agents whose payoff is of none of our families: the coordinator's model is then approximate, its deal is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation import Payoff
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate
from fedpact.utils.arrays import FloatArray
from random_cases import cases
from strategies import random_federation

OPTIMAL = 1e-6  # linearised gain, of the payoffs
MOST_ROUNDS = 30


class Arctan(Payoff):
    """g = arctan(y): no curvature at all where nothing is contributed."""

    floor = -1e-9

    def value(self, y: FloatArray) -> FloatArray:
        return np.arctan(y)

    def slope(self, y: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + y**2)

    def curvature(self, y: FloatArray) -> FloatArray:
        return -2.0 * y / (1.0 + y**2) ** 2


class Spliced(Payoff):
    """A parabola up to y = 5, a logarithm from there on: the curvature jumps."""

    floor = -np.inf

    def value(self, y: FloatArray) -> FloatArray:
        return np.where(y < 5.0, y - y**2 / 20.0, 3.75 + 0.5 * np.log1p(np.maximum(y - 5.0, 0.0)))

    def slope(self, y: FloatArray) -> FloatArray:
        return np.where(y < 5.0, 1.0 - y / 10.0, 0.5 / (1.0 + np.maximum(y - 5.0, 0.0)))

    def curvature(self, y: FloatArray) -> FloatArray:
        return np.where(y < 5.0, -0.1, -0.5 / (1.0 + np.maximum(y - 5.0, 0.0)) ** 2)


class Mixed(Payoff):
    """A steep exponential on top of a logarithm and a hyperbola."""

    floor = -1.0
    parts = (fp.Exponential(6.0), fp.Log(), fp.Michaelis(8.0))
    shares = (1.0, 0.1, 2.0)

    def _sum(self, of: str, y: FloatArray) -> FloatArray:
        return sum(share * getattr(part, of)(y) for share, part in zip(self.shares, self.parts, strict=True))

    def value(self, y: FloatArray) -> FloatArray:
        return self._sum("value", y)

    def slope(self, y: FloatArray) -> FloatArray:
        return self._sum("slope", y)

    def curvature(self, y: FloatArray) -> FloatArray:
        return self._sum("curvature", y)


def linearised_gain(agents: list[Agent], contributions: FloatArray) -> float:
    """A bound on what any other profile could add, of the payoffs: from the agents' own derivatives."""
    gradient, payoffs = np.zeros(len(agents)), 0.0
    for agent in agents:
        said = agent.answer({"number": 0, "kind": "prices", "contributions": contributions.tolist()})
        [task], [lot] = said["tasks"], said["lots"]
        gradient += np.array(task["prices"])
        gradient[agent.index] -= lot["marginal_cost"]
        payoffs += abs(task["payoff"])
    caps = np.concatenate([agent.caps for agent in agents])
    caps = np.where(np.isfinite(caps), caps, 2.0 * contributions.max() + 1.0)
    gains = np.maximum(gradient * (caps - contributions), -gradient * contributions)
    return float(gains.sum()) / (payoffs or 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("payoff", [Arctan(), Spliced(), Mixed()], ids=["arctan", "spliced", "mixed"])
def test_they_reach_an_optimum_all_the_same(payoff: Payoff) -> None:
    rng = np.random.default_rng(4)
    for _ in range(cases(12)):
        harm = not isinstance(payoff, Arctan) and bool(rng.integers(2))
        federation = random_federation(rng, n_agents=int(rng.integers(2, 7)), harm=harm, family=fp.Log)
        agents = [replace(agent, payoff=payoff) for agent in agents_of(federation, least_gain=None)]
        deal = coordinate(InProcess(agents))
        assert not deal.excluded
        assert deal.rounds <= MOST_ROUNDS
        assert linearised_gain(agents, deal.contributions) <= OPTIMAL
        assert abs(deal.payments.sum()) <= 1e-12 * np.abs(deal.prices * deal.contributions).sum()


class Liar:
    """Says one thing of its task or of its lot differently, always."""

    def __init__(self, agent: Agent, part: str, key: str, number: float) -> None:
        self.agent, self.name, self.part, self.key, self.number = agent, agent.name, part, key, number

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        said = self.agent.answer(question)
        return said | {self.part: [said[self.part][0] | {self.key: self.number}]} if "lots" in said else said


@pytest.mark.parametrize(("part", "key"), [("tasks", "curvature"), ("lots", "cost_curvature")])
@pytest.mark.parametrize("number", [0.0, 1e-30, 1e30])
def test_curvatures_are_only_a_hint(part: str, key: str, number: float) -> None:
    """The deal is the same; it takes a few rounds more."""
    federation = fp.Federation(
        [[1.0, 0.5, 0.8], [0.3, 1.0, 1.2], [0.9, 0.4, 1.0]],
        costs=fp.Quadratic(0.02, 0.001),
        caps=[np.inf, 30.0, np.inf],
        payoff=fp.PowerLaw(0.4),
    )
    agents: list[Any] = agents_of(federation)
    agents[1] = Liar(agents[1], part, key, number)
    deal = coordinate(InProcess(agents))
    assert not deal.excluded and deal.rounds <= 25
    expected = fp.ExternalityMechanism().solve(federation)
    np.testing.assert_allclose(deal.payments, expected.payments, atol=1e-6 * np.abs(expected.payoffs).sum())


@pytest.mark.slow
def test_an_agent_that_is_always_outside_is_named() -> None:
    """It may be: nobody knows the edge of its domain. But there is no agreement with it."""

    class Touchy(Agent):
        def answer(self, question: dict[str, Any]) -> dict[str, Any]:
            said = super().answer(question)
            harmed = "lots" in said and any(question["contributions"][1:])
            return said | {"tasks": [{"outside": True}]} if harmed else said

    federation = fp.Federation(
        [[1.0, -0.1, -0.1], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]], costs=[9.0, 0.1, 0.1], caps=4.0, payoff=fp.Log()
    )
    agents = agents_of(federation)
    agents[0] = Touchy(**vars(agents[0]))
    with pytest.raises(fp.NotConverged, match='member "agent 0" was outside the domain of its payoff in'):
        coordinate(InProcess(agents))
