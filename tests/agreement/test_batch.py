"""A batch and its federations one by one: the same answers and the same certificates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation import Payoff
from random_cases import cases, some

MECHANISMS = (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone())
SAME_CONTRIBUTIONS = 1e-7  # of the largest; both solvers stop at a linearised gain of 1e-10 of the payoffs
SAME_MONEY = 1e-9  # of the payoffs and costs
FIELDS = ("payoffs", "costs", "payments", "utilities", "standalone", "ir_gaps", "endowments", "shapley_values")

FAMILIES: dict[str, Callable[[np.random.Generator, int], Payoff]] = {
    "power-law": lambda rng, n: fp.PowerLaw(np.exp(rng.uniform(np.log(0.005), 0.0, n))),
    "log": lambda rng, n: fp.Log(),
    "michaelis": lambda rng, n: fp.Michaelis(np.exp(rng.uniform(-1.0, 4.0, n))),
    "exponential": lambda rng, n: fp.Exponential(np.exp(rng.uniform(-4.0, 0.0, n))),
}


def drawn(rng: np.random.Generator, n_agents: int, payoff: Payoff, *, harm: bool) -> fp.Federation:
    weights = np.exp(rng.uniform(-3.0, 1.0, (n_agents, n_agents))) * (rng.random((n_agents, n_agents)) < 0.8)
    if harm:
        weights = np.where(rng.random((n_agents, n_agents)) < 0.3, -weights, weights)
    np.fill_diagonal(weights, np.exp(rng.uniform(-1.0, 1.0, n_agents)))
    rates = np.exp(rng.uniform(-7.0, 0.0, n_agents))
    costs = fp.Linear(rates) if rng.random() < 0.5 else fp.Quadratic(rates, np.exp(rng.uniform(-8.0, 0.0, n_agents)))
    caps = (
        np.inf if rng.random() < 0.3 else np.where(rng.random(n_agents) < 0.1, 0.0, rng.uniform(1.0, 100.0, n_agents))
    )
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoff, values=rng.uniform(0.2, 5.0, n_agents))


def assert_same(outcome: fp.BatchOutcome, place: int, alone: fp.Outcome) -> None:
    largest = max(float(alone.contributions.max()), 1e-12)
    np.testing.assert_allclose(outcome.contributions[place], alone.contributions, atol=SAME_CONTRIBUTIONS * largest)
    size = float(np.abs(alone.payoffs).max() + alone.costs.max() + np.abs(alone.payments).max()) + 1e-12
    for field in FIELDS:
        got, expected = getattr(outcome, field)[place], getattr(alone, field)
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=SAME_MONEY * size, err_msg=field)
    np.testing.assert_allclose(outcome.welfare[place], alone.welfare, rtol=1e-9, atol=SAME_MONEY * size)
    for claim, judgements in outcome.certificates.items():
        certificate = alone.certificates[claim]
        assert judgements.verdicts[place] == certificate.verdict, claim
        np.testing.assert_allclose(
            judgements.margins[place], certificate.margin, rtol=1e-6, atol=2.0 * certificate.tol, err_msg=claim
        )


@pytest.mark.parametrize("harm", [False, True], ids=["helpful", "harmful"])
@pytest.mark.parametrize("n_agents", some([4, 1, 2], 1))
@pytest.mark.parametrize("family", some(FAMILIES, 2))
def test_every_family_sign_and_size(family: str, n_agents: int, *, harm: bool) -> None:
    rng = np.random.default_rng([n_agents, harm])
    federations = [drawn(rng, n_agents, FAMILIES[family](rng, n_agents), harm=harm) for _ in range(cases(6, few=2))]
    batch = fp.Batch.of(federations)
    for mechanism in MECHANISMS[:2]:
        outcome = fp.solve_batch(batch, mechanism)
        for place, federation in enumerate(federations):
            assert_same(outcome, place, mechanism.solve(federation))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[mechanism.name for mechanism in MECHANISMS])
def test_every_mechanism_on_three_agents(mechanism: fp.Mechanism) -> None:
    rng = np.random.default_rng(3)
    federations = [drawn(rng, 3, fp.PowerLaw(0.2), harm=False) for _ in range(4)]
    outcome = fp.solve_batch(fp.Batch.of(federations), mechanism)
    for place, federation in enumerate(federations):
        assert_same(outcome, place, mechanism.solve(federation))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=["externality", "shapley"])
def test_more_agents_than_compiled_code_takes(mechanism: fp.Mechanism) -> None:
    rng = np.random.default_rng(4)
    federations = [drawn(rng, 18, fp.PowerLaw(0.2), harm=False) for _ in range(2)]
    outcome = fp.solve_batch(fp.Batch.of(federations), mechanism)
    for place, federation in enumerate(federations):
        assert_same(outcome, place, mechanism.solve(federation))


@pytest.mark.slow
def test_several_optima_the_canonical_one_and_the_worst_reciprocity() -> None:
    """Equal agents: every split of the same total is an optimum. Only the equal one is reciprocal."""
    base = fp.Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    batch = fp.Batch.vary(base, costs=np.array([[0.001], [0.002], [0.003]]))
    outcome = fp.solve_batch(batch, fp.ExternalityMechanism())
    assert outcome.several == (0, 1, 2)
    for place in range(3):
        assert_same(outcome, place, fp.ExternalityMechanism().solve(batch[place]))
    assert list(outcome.certificates["reciprocity"].verdicts) == ["violated"] * 3
    np.testing.assert_allclose(outcome.reciprocity, 1.0, rtol=1e-9)


@pytest.mark.slow
def test_the_papers_grid_has_the_same_answers_everywhere() -> None:
    """Section 7.1.2 of the paper: w01 and w10 from -3 to 3. Corners, edges, and points near the domain's edge."""
    axis = np.linspace(-3.0, 3.0, 7)
    weights = np.tile(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [1.0, 3.0, 1.0]]), (49, 1, 1))
    weights[:, 0, 1], weights[:, 1, 0] = np.repeat(axis, 7), np.tile(axis, 7)
    base = fp.Federation(np.eye(3), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    for mechanism in MECHANISMS[:2]:
        outcome = fp.solve_batch(fp.Batch.vary(base, weights=weights), mechanism)
        for place in range(0, 49, 3):
            assert_same(outcome, place, mechanism.solve(outcome.batch[place]))


def extreme(rng: np.random.Generator, n_agents: int, payoff: Payoff) -> fp.Federation:
    """Weights, costs, caps and values over many orders of magnitude each."""
    shape = (n_agents, n_agents)
    weights = 10 ** rng.uniform(-6.0, 3.0, shape) * (rng.random(shape) < 0.8)
    weights = np.where(rng.random(shape) < 0.15, -weights, weights)
    np.fill_diagonal(weights, 10 ** rng.uniform(-3.0, 2.0, n_agents))
    rates = 10 ** rng.uniform(-6.0, 3.0, n_agents)
    costs = fp.Linear(rates) if rng.random() < 0.5 else fp.Quadratic(rates, 10 ** rng.uniform(-8.0, 2.0, n_agents))
    caps = np.inf if rng.random() < 0.4 else 10 ** rng.uniform(-3.0, 5.0, n_agents)
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoff, values=10 ** rng.uniform(-3.0, 4.0, n_agents))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[mechanism.name for mechanism in MECHANISMS])
@pytest.mark.parametrize("seed", some(range(4), 1))
def test_certificates_agree_over_many_orders_of_magnitude(seed: int, mechanism: fp.Mechanism) -> None:
    """A batch's verdict on a profile is that of the certificate of this profile alone."""
    rng = np.random.default_rng([17, seed])
    n_agents = int(rng.integers(1, 5))
    family = list(FAMILIES)[seed]
    federations = [extreme(rng, n_agents, FAMILIES[family](rng, n_agents)) for _ in range(6)]
    outcome = fp.solve_batch(federations, mechanism)
    assert len(outcome.statuses) == 6
    for place in np.flatnonzero(outcome.solved).tolist():
        for claim, certificate in outcome[place].certificates.items():
            assert outcome.certificates[claim].verdicts[place] == certificate.verdict, (place, claim)
    for place in outcome.errors:
        assert not any(judged.holds[place] for judged in outcome.certificates.values())
