"""Lots that share caps: optima and equilibria by two routes, and certificates that see what is spoiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.mechanisms.shapley import best_response_dynamics
from fedpact.solvers.groups import group_optima, standalone_optimum
from random_cases import cases, some
from strategies import FAMILIES, random_lots, with_shared_caps

FOUND = 1e-8  # of the payoff scale: what SciPy's sequential programming finds
SAME = 1e-6  # of the largest contribution


def instances(seed: int, count: int, few: int = 2, **pinned: object) -> Iterator[fp.Federation]:
    rng = np.random.default_rng(seed)
    for family in some(FAMILIES, few=2):
        for _ in range(cases(count, few=few)):
            collinear = bool(rng.integers(2))
            yield with_shared_caps(rng, random_lots(rng, family=family, collinear=collinear, **pinned))  # type: ignore[arg-type]


def rows_of(fed: fp.Federation) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array([np.isin(np.arange(fed.n_lots), shared.lots) for shared in fed.shared_caps], dtype=float)
    return rows.reshape(-1, fed.n_lots), np.array([shared.cap for shared in fed.shared_caps])


def by_scipy(fed: fp.Federation, start: np.ndarray) -> float:
    """The most welfare that sequential quadratic programming finds, in units of the scale."""
    upper, scale = fed.arrays.bounds()
    rows, caps = rows_of(fed)
    unit = np.maximum(upper, 1e-300)

    def loss(x: np.ndarray) -> float:
        return -fed.welfare(unit * x) / scale if fed.admits(unit * x) else 1e3

    def slope(x: np.ndarray) -> np.ndarray:
        if not fed.admits(unit * x):
            return np.zeros_like(x)
        at = unit * x
        return -unit * (fed.weights.T @ fed.marginal_payoffs(at) - fed.costs.slope(at)) / scale

    inside = {
        "type": "ineq",
        "fun": lambda x: 1.0 - rows @ (unit * x) / caps,
        "jac": lambda x: -rows * unit / caps[:, None],
    }
    bounds = [(0.0, 1.0 if most > 0 else 0.0) for most in upper]
    found = minimize(
        loss, start / unit, jac=slope, bounds=bounds, constraints=[inside] if caps.size else (), method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-14},
    )  # fmt: skip
    feasible = np.clip(found.x, 0.0, 1.0) * upper
    over = max([1.0, *(rows @ feasible / caps).tolist()])
    return -loss(feasible / over / unit)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_welfare_against_scipy() -> None:
    binding = 0
    for fed in instances(0, 12, few=4):
        found = fp.social_optimum(fed)
        scale = float(fed.arrays.bounds()[1])
        if scale == 0.0 or (fed.arrays.bounds()[0] == 0.0).any():
            continue
        rows, caps = rows_of(fed)
        assert (rows @ found.contributions <= caps * (1.0 + 1e-12)).all()
        outcome = fp.ExternalityMechanism().solve(fed)
        binding += int((outcome.shared_cap_prices > 0).sum())
        assert by_scipy(fed, 0.5 * found.contributions) <= found.welfare / scale + FOUND
        assert outcome.certificates["social-optimality"].holds
    assert binding > 3


def test_shapley_equilibrium_against_best_responses_and_deviations() -> None:
    """Best answers over each agent's polytope reach it, and no other amounts tried gain, by all coalitions."""
    rng = np.random.default_rng(5)
    for fed in instances(1, 4, few=1, n_agents=2):
        found = fp.ShapleyMechanism().solve(fed)
        answers = best_response_dynamics(fed).contributions
        size = max(float(found.contributions.max()), 1e-12)
        np.testing.assert_allclose(answers, found.contributions, rtol=0.0, atol=SAME * size)
        rows, caps = rows_of(fed)
        for agent in np.unique(fed.lot_owners).tolist():
            own = fed.lots_of(agent)
            for _ in range(5):
                other = found.contributions.copy()
                other[own] = rng.uniform(0.0, 1.0, own.size) * np.minimum(fed.arrays.reachable_caps[own], 2.0 * size)
                other[own] /= max([1.0, *(rows @ other / caps).tolist()])
                if not fed.admits(other) or (fed.arrays.lowest_data(other) <= fed.payoff.floor).any():
                    continue
                share = fp.shapley_values(fed, other, method="enumeration").values[agent]
                assert share - fed.spending(other)[agent] <= found.utilities[agent] + 1e-9 * (1.0 + abs(share))


def test_everything_promised_holds() -> None:
    """Nash, balance, optimality, the core and all else that mechanisms promise, with zeros and harm."""
    for fed in instances(2, 4, few=1, n_agents=2):
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Standalone()):
            outcome = mechanism.solve(fed)
            for claim in mechanism.promises(fed):
                certificate = outcome.certificates[claim]
                assert certificate.holds, (mechanism.name, claim, certificate)


def test_loose_shared_caps_change_nothing() -> None:
    rng = np.random.default_rng(4)
    for _ in range(3):
        plain = random_lots(rng, n_agents=3, harm=False)
        lots = [plain.lots_of(agent).tolist() for agent in range(3) if plain.lots_of(agent).size > 1]
        loose = plain.replace(shared_caps=[(own, 1e9) for own in lots])
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            one, other = mechanism.solve(plain), mechanism.solve(loose)
            np.testing.assert_allclose(one.contributions, other.contributions, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(one.payments, other.payments, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        fp.ExternalityMechanism(),
        fp.Standalone(),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (fp.ShapleyMechanism(), fp.Voluntary())),
    ],
    ids=lambda each: each.name,
)
def test_one_cap_for_all_lots_that_are_alike_is_a_lot_with_that_cap(mechanism: fp.Mechanism) -> None:
    weights = np.array([[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.5, 0.1, 1.0]])
    whole = fp.Federation(weights, costs=0.01, caps=[3.0, 5.0, 8.0], payoff=fp.PowerLaw(0.4))
    twice = fp.Federation(
        np.repeat(weights, 2, axis=1),
        lot_owners=[0, 0, 1, 1, 2, 2],
        costs=0.01,
        payoff=fp.PowerLaw(0.4),
        shared_caps=[((0, 1), 3.0), ((2, 3), 5.0), ((4, 5), 8.0)],
    )
    one, two = mechanism.solve(whole), mechanism.solve(twice)
    np.testing.assert_allclose(two.contributions.reshape(3, 2).sum(axis=1), one.contributions, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(two.contributions[::2], two.contributions[1::2], rtol=1e-7, atol=1e-9)  # least norm
    np.testing.assert_allclose(two.utilities, one.utilities, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(standalone_optimum(twice)[1], standalone_optimum(whole)[1], rtol=1e-10)
    np.testing.assert_allclose(group_optima(twice).values, group_optima(whole).values, rtol=1e-10)


def test_batches_are_solved_as_each_alone() -> None:
    rng = np.random.default_rng(11)
    base = with_shared_caps(rng, random_lots(rng, n_agents=3, harm=False))
    other = base.replace(shared_caps=[(each.lots, 0.5 * each.cap) for each in base.shared_caps])
    solved = fp.solve_batch([base, other], "externality")
    for found, fed in zip(solved, (base, other), strict=True):
        assert found.federation.shared_caps == fed.shared_caps
        expected = fp.ExternalityMechanism().solve(fed).contributions
        np.testing.assert_allclose(found.contributions, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("cap", [0.5, 1.0, 2.0, 3.0, 10.0])
def test_of_lots_that_are_alike_the_smallest_amounts_are_brought(cap: float) -> None:
    """Three lots of one kind, two of which share a cap: these are filled evenly, the third brings the rest."""
    fed = fp.Federation(
        [[1.0, 1.0, 1.0, 0.5], [0.5, 0.5, 0.5, 1.0]],
        names=["N", "S"],
        lot_owners=["N", "N", "N", "S"],
        lot_names=list("abcd"),
        costs=0.002,
        caps=100.0,
        payoff=fp.PowerLaw(beta=0.3),
        shared_caps=[([0, 1], cap)],
    )
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        out = mechanism.solve(fed)
        a, b, c, _ = out.contributions
        np.testing.assert_allclose([a, b], min(cap / 2.0, (a + b + c) / 3.0), rtol=1e-9)
        assert not out.equilibria.unique
