"""The stated range: random federations whose numbers span up to eight orders of magnitude.

Nothing crashes, hardly anything is refused, and where a certificate holds, deviations drawn at random agree with it.
`FEDPACT_ALL_CASES=1` draws 1,000 federations.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim
from random_cases import ALL_CASES

SEEDS = range(1000 if ALL_CASES else 12)
MAX_REFUSED = 0.005  # of all solves
TRIES = 40  # other profiles drawn for each outcome
MECHANISMS = (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone())


def spread(rng: np.random.Generator, orders: float, shape: int | tuple[int, ...]) -> np.ndarray:
    """Numbers even on a logarithmic scale over so many orders of magnitude, around one."""
    return np.exp(np.log(10.0) * orders * rng.uniform(-0.5, 0.5, shape))


def draw(seed: int) -> fp.Federation:
    rng = np.random.default_rng([32, seed])
    size = int(rng.choice([1, 2, 3, 5, 8, 13, 20, 40, 60], p=[0.05, 0.15, 0.15, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05]))
    orders = rng.uniform(0.0, 3.9)
    weights = spread(rng, orders, (size, size)) * (rng.random((size, size)) < rng.choice([0.3, 1.0]))
    if rng.random() < 0.2:
        weights *= np.where(rng.random((size, size)) < 0.15, -0.05, 1.0)
    np.fill_diagonal(weights, spread(rng, orders, size))
    payoffs = (fp.PowerLaw(rng.uniform(0.02, 2.0)), fp.Log(), fp.Michaelis(spread(rng, 2.0, 1)[0]), fp.Exponential(0.1))
    linear = 0.01 * spread(rng, orders, size)
    costs = fp.Quadratic(linear, linear * rng.uniform(0.0, 0.1, size)) if rng.random() < 0.4 else fp.Linear(linear)
    caps = 30.0 * spread(rng, orders, size) if rng.random() < 0.7 else np.inf
    values = spread(rng, orders, size) if rng.random() < 0.5 else 1.0
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoffs[rng.integers(4)], values=values)


def check(outcome: fp.Outcome, rng: np.random.Generator) -> None:
    """Other contributions of one member, and other profiles, gain nothing where a certificate says so."""
    federation, arrays = outcome.federation, outcome.arrays
    upper = np.minimum(arrays.bounds()[0], 10.0 * (1.0 + outcome.contributions.max()))
    holds = {claim: outcome.certificates[claim].holds for claim in (Claim.NASH, Claim.SOCIAL_OPTIMALITY)}
    for _ in range(TRIES):
        member = int(rng.integers(federation.n_agents))
        other = outcome.contributions.copy()
        other[member] = upper[member] * rng.random() ** 4
        if holds[Claim.SOCIAL_OPTIMALITY]:
            assert arrays.welfare(other) <= outcome.welfare + outcome.tolerances.sum()
        if holds[Claim.NASH] and outcome.mechanism != "externality":  # whose members take prices as given
            played = outcome.played
            with suppress(fp.NotConverged):  # at the edge of the domain shares lose their digits
                there = played.payoffs(other) - played.spending(other) + outcome.rules.payments(played, other)
                gain = there[member] - outcome.utilities[member]
                assert not gain > outcome.tolerances[member] + 1e-8 * abs(there[member])


def test_random_federations_within_the_range() -> None:
    solved, refused, unproved = 0, [], []
    for seed in SEEDS:
        federation, rng = draw(seed), np.random.default_rng(seed)
        for mechanism in MECHANISMS:
            if mechanism.name == "shapley" and federation.n_agents > 30 and seed % 10:
                continue  # seconds each
            try:
                outcome = mechanism.solve(federation)
            except fp.NotConverged as error:
                refused.append((seed, mechanism.name, str(error)))
                continue
            solved += 1
            if not outcome.certificates[Claim.NASH].holds:
                unproved.append((seed, mechanism.name))
            check(outcome, rng)
    assert len(refused) <= max(MAX_REFUSED * (solved + len(refused)), 1), refused
    assert len(unproved) <= max(MAX_REFUSED * solved, 1), unproved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [[1e-9, 0.0], [0.0, 1.0]]}, r"weights must .* got at most 1e-09 beside 1; .*agent 0"),
        ({"values": [1.0, 1e9]}, r"values\[0\] must .* got 1 beside 1e\+09; .*agent 0"),
        ({"costs": [1e-10, 1.0]}, r"costs\[0\] must .* got 1e-10 beside 1; .*agent 0"),
    ],
)
def test_numbers_outside_the_range_are_named(change: dict[str, object], message: str) -> None:
    parts = {"weights": [[1.0, 0.5], [0.5, 1.0]], "costs": 0.01, "payoff": fp.Log()}
    with pytest.raises(fp.InvalidInput, match=message):
        fp.Federation(**(parts | change))


@pytest.mark.parametrize("gamma", [1e-9, 1e-6, 1e-3, 0.0149])
def test_the_flattest_payoff_of_the_paper(gamma):
    """beta = 0.005 is nearly flat; the optimum is known."""
    fed = fp.Federation(np.ones((3, 3)), costs=gamma, payoff=fp.PowerLaw(0.005))
    outcome = fp.ExternalityMechanism().solve(fed)
    total = (3 * 0.005 / gamma) ** (1.0 / 1.005) - 1.0
    np.testing.assert_allclose(outcome.contributions, total / 3.0, rtol=1e-9)
    assert outcome.certificates["social-optimality"].holds


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_a_small_agent_beside_a_large_one_still_does_its_best(ratio):
    """Decoupled agents whose money differs by orders of magnitude: each does as alone."""
    for payoff in (fp.PowerLaw(0.5), fp.Log(), fp.Michaelis(2.0), fp.Exponential(0.3)):
        values = np.array([1.0, ratio])
        fed = fp.Federation(np.eye(2), costs=0.01 * values, payoff=payoff, values=values)
        alone = fp.Standalone().solve(fed).contributions
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            # The tolerance of the maximiser is relative to the large one's money; Newton steps do better than that.
            np.testing.assert_allclose(mechanism.solve(fed).contributions, alone, rtol=1e-7)
