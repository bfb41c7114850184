"""The split-proof certificate: M^E holds it, M^Shap does not, and spoiled outcomes fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict
from fedpact.certificates.split_proof import (
    EVEN_SPLIT,
    MAX_AGENTS_WITH_SIDE_PAYMENTS,
    SPLIT_EQUILIBRIUM,
)
from fedpact.scenario import example


@pytest.mark.parametrize("instance", INSTANCES)
def test_prices_are_neutral(instance: str) -> None:
    certificate = MECHANISMS["externality"].solve(INSTANCES[instance]).certificates[Claim.SPLIT_PROOF]
    assert certificate.verdict is Verdict.HOLDS, certificate
    assert certificate.witness["compared"] == EVEN_SPLIT


@pytest.mark.parametrize("name", ["shapley", "voluntary", "standalone"])
def test_the_margin_is_the_largest_gain(name: str) -> None:
    federation = example("hospitals").federation
    outcome = MECHANISMS[name].solve(federation)
    certificate = outcome.certificates[Claim.SPLIT_PROOF]
    gains = np.array([fp.splitting_gain(federation, name, agent) for agent in federation.names])
    assert certificate.margin == pytest.approx(-gains[certificate.witness["index"]], abs=certificate.tol)
    assert certificate.holds == bool((gains <= 0.0).all())
    witness = certificate.witness
    assert witness["compared"] == SPLIT_EQUILIBRIUM
    assert sum(witness["part_utilities"]) - witness["utility"] == pytest.approx(-certificate.margin, abs=1e-12)


def test_somebody_paid_too_little_would_gain_under_two_names() -> None:
    outcome = MECHANISMS["externality"].solve(example("hospitals").federation)
    moved = np.array([0.01, -0.01, 0.0, 0.0, 0.0])
    certificate = replace(outcome, payments=outcome.payments + moved).certificates[Claim.SPLIT_PROOF]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["index"] == 1
    assert certificate.margin == pytest.approx(-0.01, abs=certificate.tol)


class Patched(fp.ShapleyMechanism):
    """M^Shap, with another solver."""

    def __init__(self, solver) -> None:
        super().__init__()
        self.solver = solver

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        return self.solver(federation)


def test_an_outcome_that_is_no_equilibrium_is_not_believed() -> None:
    """A solver that returns nonsense for the split federation proves nothing and refutes nothing."""
    outcome = MECHANISMS["shapley"].solve(example("hospitals").federation)

    def nonsense(split: fp.Federation) -> fp.Outcome:
        return MECHANISMS["shapley"].outcome_at(split, np.zeros(split.n_agents))

    def generous(split: fp.Federation) -> fp.Outcome:
        right = MECHANISMS["shapley"].solve(split)
        return replace(right, payments=right.payments + 1.0)

    def failing(split: fp.Federation) -> fp.Outcome:
        raise fp.NotConverged("no equilibrium", result=None)

    for solver in (nonsense, generous, failing):
        certificate = replace(outcome, rules=Patched(solver)).certificates[Claim.SPLIT_PROOF]
        assert certificate.verdict is Verdict.NOT_REFUTED, certificate


@pytest.mark.slow
def test_one_agent_that_gains_refutes_it_among_many() -> None:
    rng = np.random.default_rng(3)
    many = fp.Federation(
        rng.uniform(0.0, 0.1, (14, 14)) + np.eye(14), costs=0.01, caps=30.0, payoff=fp.PowerLaw(beta=0.3)
    )
    outcome = MECHANISMS["shapley"].solve(many)
    certificate = outcome.certificates[Claim.SPLIT_PROOF]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.scope.startswith("10 of 14 members")
    largest = np.argsort(-outcome.contributions)[:10]
    assert set(certificate.witness["gains"]) == {many.names[agent] for agent in largest}
    assert MECHANISMS["externality"].solve(many).certificates[Claim.SPLIT_PROOF].verdict is Verdict.HOLDS


def test_prices_are_neutral_for_everybody_among_many() -> None:
    """Nobody is copied: what one of two names could do is worked out for all at once."""
    rng = np.random.default_rng(4)
    size = 70
    costs = rng.uniform(0.05, 0.2, size)
    many = fp.Federation(rng.uniform(0.0, 1.0, (size, size)), costs=costs, caps=5.0, payoff=fp.PowerLaw(1.5))
    outcome = MECHANISMS["externality"].solve(many)
    certificate = outcome.certificates[Claim.SPLIT_PROOF]
    assert certificate.verdict is Verdict.HOLDS
    assert certificate.scope.startswith("every member")
    poor = int(np.argmin(outcome.contributions))
    moved = np.zeros(size)
    moved[[poor, (poor + 1) % size]] = -0.01, 0.01
    spoiled = replace(outcome, payments=outcome.payments + moved).certificates[Claim.SPLIT_PROOF]
    assert spoiled.verdict is Verdict.VIOLATED
    assert spoiled.witness["index"] == poor


def test_side_payments_of_many_are_not_worked_out_anew() -> None:
    """All groups of the split federation would have to be listed: the verdict says that nobody was looked at."""
    rng = np.random.default_rng(0)
    size = MAX_AGENTS_WITH_SIDE_PAYMENTS + 1
    weights = np.where(np.eye(size) > 0, 1.0, rng.uniform(0.1, 0.9, (size, size)))
    federation = fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    found = fp.FairMechanism().solve(federation).certificates["split-proof"]
    assert found.verdict is Verdict.NOT_REFUTED
    assert "not looked at" in found.scope and not found.witness
