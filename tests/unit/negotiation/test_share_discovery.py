"""The Shapley deal by price discovery, against the mechanism that knows everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate
from fedpact.shapley.coalitions import coalition_sizes, size_coefficients
from random_cases import cases
from strategies import random_federation

SAME = 1e-6  # of payoffs and costs
MAX_ROUNDS = 15


def assert_solved(deal: fp.Deal, federation: fp.Federation) -> None:
    expected = fp.ShapleyMechanism().solve(federation.take(deal.members))
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum()) or 1.0
    np.testing.assert_allclose(deal.payments[deal.members], expected.payments, rtol=0.0, atol=SAME * size)
    given = deal.contributions[deal.members]
    assert expected.federation.welfare(given) == pytest.approx(expected.welfare, abs=SAME * size)
    assert float(deal.payments.sum()) == 0.0


@pytest.mark.parametrize("seed", range(cases(12)))
def test_it_reaches_the_deal_of_the_mechanism(seed: int) -> None:
    """Of all families, with harm, caps, quadratic costs, alone and in company."""
    rng = np.random.default_rng(seed)
    federation = random_federation(rng, n_agents=1 + seed % 7)
    deal = fp.negotiate(federation, mechanism="shapley", least_gain=None)
    assert_solved(deal, federation)
    assert deal.rounds <= MAX_ROUNDS
    assert deal.mechanism == "shapley" and deal.prices is None
    assert deal.provenance.settled_by == "Shapley shares"


class Arctangent(Agent):
    """A payoff curve of no family: the coordinator's model is a model only, and its correction has to do the work."""

    def answer(self, question: dict[str, Any]) -> Any:
        said = super().answer(question)
        if question["kind"] != "shares":
            return said
        profile = np.array(question["contributions"])
        return said | {"tasks": [arctangent_shares(self.weights[0], profile)]}


def arctangent_shares(weights: np.ndarray, profile: np.ndarray) -> dict[str, Any]:
    """By counting out all coalitions."""
    members = (np.arange(1 << weights.size)[:, None] >> np.arange(weights.size)) & 1
    chances = size_coefficients(weights.size)[coalition_sizes(weights.size)]
    pulled = weights * profile
    shares, slopes = np.zeros((2, weights.size))
    for agent in range(weights.size):
        without = np.flatnonzero(members[:, agent] == 0)
        chance = chances[without | (1 << agent)]
        data = members[without] @ pulled
        shares[agent] = chance @ (np.arctan(data + pulled[agent]) - np.arctan(data))
        slopes[agent] = chance @ (weights[agent] / (1.0 + (data + pulled[agent]) ** 2))
    data = float(pulled.sum())
    slope = 1.0 / (1.0 + data**2)
    return {
        "payoff": float(np.arctan(data)),
        "prices": (slope * weights).tolist(),
        "curvature": 2.0 * data * slope**2 / slope**2,
        "shares": shares.tolist(),
        "slopes": slopes.tolist(),
    }


def test_payoffs_of_no_family_lead_there_too() -> None:
    """At the end no share gains by a change of its own contribution: the slopes say so."""
    weights = np.array([[1.0, 0.4, 0.2], [0.3, 1.0, 0.5], [0.6, 0.1, 1.0]])
    federation = fp.Federation(weights, costs=[0.1, 0.15, 0.2], caps=10.0, payoff=fp.PowerLaw(1.0))
    agents = [Arctangent(**vars(agent)) for agent in agents_of(federation, least_gain=None)]
    deal = coordinate(InProcess(agents), mechanism="shapley")
    slopes = sum(np.array(arctangent_shares(row, deal.contributions)["slopes"]) for row in weights)
    assert (deal.contributions > 0.0).all()
    np.testing.assert_allclose(slopes, [0.1, 0.15, 0.2], rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shares": [0.1, 0.1, 0.1]}, "the shares of its payoff do not add up"),
        ({"shares": [0.1]}, "shares must list 3 numbers"),
        ({"slopes": [-1.0, 0.1, 0.1]}, "takes one from data that helps it"),
        ({"outside": True}, "outside"),
    ],
)
def test_shares_that_cannot_be_are_no_shares(change: dict[str, Any], reason: str) -> None:
    class Liar(Agent):
        def answer(self, question: dict[str, Any]) -> Any:
            said = super().answer(question)
            return said | {"tasks": [said["tasks"][0] | change]} if question["kind"] == "shares" else said

    federation = fp.Federation(np.ones((3, 3)), costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.3))
    agents = agents_of(federation, least_gain=None)
    agents[2] = Liar(**vars(agents[2]))
    deal = coordinate(InProcess(agents), mechanism="shapley")
    assert reason in deal.excluded["agent 2"]
    assert_solved(deal, federation)
