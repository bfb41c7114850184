"""A batch and its federations one by one: the same answers and the same certificates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.outcome import Outcomes
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


def assert_same(outcome: Outcomes, place: int, alone: fp.Outcome) -> None:
    largest = max(float(alone.contributions.max()), 1e-12)
    np.testing.assert_allclose(outcome.contributions[place], alone.contributions, atol=SAME_CONTRIBUTIONS * largest)
    size = float(np.abs(alone.payoffs).max() + alone.costs.max() + np.abs(alone.payments).max()) + 1e-12
    for field in FIELDS:
        got, expected = getattr(outcome, field)[place], getattr(alone, field)
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=SAME_MONEY * size, err_msg=field)
    np.testing.assert_allclose(outcome.welfare[place], alone.welfare, rtol=1e-9, atol=SAME_MONEY * size)
    for claim, certificate in outcome[place].certificates.items():
        assert certificate.verdict == alone.certificates[claim].verdict, claim
        tol = 2.0 * certificate.tol
        np.testing.assert_allclose(certificate.margin, alone.certificates[claim].margin, rtol=1e-6, atol=tol)


@pytest.mark.parametrize("harm", [False, True], ids=["helpful", "harmful"])
@pytest.mark.parametrize("n_agents", some([4, 1, 2], 1))
@pytest.mark.parametrize("family", some(FAMILIES, 2))
def test_every_family_sign_and_size(family: str, n_agents: int, *, harm: bool) -> None:
    rng = np.random.default_rng([n_agents, harm])
    federations = [drawn(rng, n_agents, FAMILIES[family](rng, n_agents), harm=harm) for _ in range(cases(6, few=2))]
    for mechanism in MECHANISMS[:2]:
        outcome = fp.solve_batch(federations, mechanism)
        for place, federation in enumerate(federations):
            assert_same(outcome, place, mechanism.solve(federation))


SIZED = [pytest.param(each, 3, id=each.name) for each in MECHANISMS]
SIZED += [pytest.param(each, 18, id=f"{each.name} of 18", marks=pytest.mark.slow) for each in MECHANISMS[:2]]


@pytest.mark.parametrize(("mechanism", "n_agents"), SIZED)
def test_every_mechanism_on_few_members_and_on_more_than_coalitions_are_listed_for(
    mechanism: fp.Mechanism, n_agents: int
) -> None:
    rng = np.random.default_rng(n_agents)
    federations = [drawn(rng, n_agents, fp.PowerLaw(0.2), harm=False) for _ in range(2 if n_agents > 3 else 4)]
    outcome = fp.solve_batch(federations, mechanism)
    for place, federation in enumerate(federations):
        assert_same(outcome, place, mechanism.solve(federation))


@pytest.mark.slow
def test_the_papers_grid_has_the_same_answers_everywhere() -> None:
    """Section 7.1.2 of the paper: w01 and w10 from -3 to 3. Corners, edges, and points near the domain's edge."""
    axis = np.linspace(-3.0, 3.0, 7)
    weights = np.tile(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [1.0, 3.0, 1.0]]), (49, 1, 1))
    weights[:, 0, 1], weights[:, 1, 0] = np.repeat(axis, 7), np.tile(axis, 7)
    base = fp.Federation(np.eye(3), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    for mechanism in MECHANISMS[:2]:
        federations = [base.replace(weights=each) for each in weights]
        outcome = fp.solve_batch(federations, mechanism)
        for place in range(0, 49, 3):
            assert_same(outcome, place, mechanism.solve(federations[place]))


def test_a_batch_is_a_sequence_of_ordinary_outcomes_and_a_frame() -> None:
    pytest.importorskip("pandas")
    base = fp.Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    outcomes = fp.solve_batch([base, base.replace(costs=0.002)], "externality")
    assert len(outcomes) == 2 and all(isinstance(each, fp.Outcome) for each in outcomes)
    assert outcomes[1].federation == base.replace(costs=0.002) and outcomes[-1].deal.agents == base.names
    frame = outcomes.to_frame()
    assert len(frame) == 6
    np.testing.assert_array_equal(frame["contributions"].to_numpy().reshape(2, 3), outcomes.contributions)
    with pytest.raises(IndexError):
        _ = outcomes[2]
    with pytest.raises(fp.InvalidInput, match="the same names: those of number 1"):
        fp.solve_batch([base, base.replace(names=["A", "B", "C"])], "externality")
