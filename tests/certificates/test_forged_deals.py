"""Deals made to pass: large bounds on a few harmless agents used to hide what many others could really gain."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim, Verdict

N_AGENTS, N_CAPPED = 41, 31
CAPPED = np.arange(N_AGENTS) < N_CAPPED


def federation(cap: float) -> fp.Federation:
    """31 members whose caps bind, and ten whose data is so cheap that they could contribute enormous amounts."""
    weights = np.random.default_rng(5).uniform(0.2, 1.0, (N_AGENTS, N_AGENTS))
    weights[:, ~CAPPED] *= 0.3
    np.fill_diagonal(weights, 1.0)
    costs, caps = np.where(CAPPED, 1e-3, 5e-6), np.where(CAPPED, cap, 1e9)
    return fp.Federation(weights, costs=costs, caps=caps, payoff=fp.PowerLaw(0.5))


@pytest.fixture(scope="module")
def forged() -> fp.Outcome:
    """The deal for caps of 1.75 put before members whose caps are 2; three large contributions a little off."""
    mechanism, truth = fp.ShapleyMechanism(), federation(2.0)
    contributions = np.array(mechanism.solve(federation(1.75)).contributions)
    contributions[np.argsort(-contributions)[:3]] *= 1.0 - 3.3e-4
    payments = fp.shapley_values(truth, contributions).values - truth.payoffs(contributions)
    return mechanism.outcome_at(truth, contributions, payments)


def test_a_forged_deal_of_41_fails(forged: fp.Outcome) -> None:
    certificate = forged.certificates[Claim.NASH]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["index"] < N_CAPPED
    assert certificate.witness["deviation"] == 2.0


def test_every_agent_has_the_gain_it_could_really_have(forged: fp.Outcome) -> None:
    """By hand: one member's contribution raised to its cap, the others as they are."""
    truth, contributions = forged.federation, np.array(forged.contributions)
    best = forged.rules.deviations(truth, forged.contributions)
    gains = best.utilities - forged.utilities
    for agent in (0, 7, N_CAPPED - 1):
        moved = contributions.copy()
        moved[agent] = 2.0
        there = fp.shapley_values(truth, moved).values[agent] - truth.costs.value(moved)[agent]
        np.testing.assert_allclose(gains[agent], there - forged.utilities[agent], rtol=1e-8)
        assert gains[agent] > 0.08 * forged.utilities[agent]
    assert (gains[:N_CAPPED] > 1e3 * gains[N_CAPPED:].max()).all(), "the ten have next to nothing to gain"


def test_the_honest_deal_of_41_holds() -> None:
    outcome = fp.ShapleyMechanism().solve(federation(2.0))
    for claim in fp.ShapleyMechanism().claims:
        assert outcome.certificates[claim].verdict is Verdict.HOLDS, outcome.certificates[claim]
