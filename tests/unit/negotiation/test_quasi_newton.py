"""The climb finds maxima it does not know: inside, on the boundary, far away, next to nothing, behind an edge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedpact.negotiation.quasi_newton import QuasiNewton

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
TOL = 1e-12


def climb(
    function: Function,
    caps: np.ndarray,
    *,
    max_rounds: int = 100,
    start: np.ndarray | None = None,
) -> tuple[QuasiNewton, int]:
    search = QuasiNewton(caps, tol=TOL, start=start)
    for number in range(1, max_rounds + 1):
        told = [function(point) for point in search.points]
        stake = max(value for value, _ in told)
        stake = max(stake, 0.0 if search.best is None else search.best.value)
        search.tell([value for value, _ in told], [gradient for _, gradient in told], stake=stake)
        if search.is_done:
            return search, number
    raise AssertionError("no end")


def logarithms(scale: np.ndarray, costs: np.ndarray) -> Function:
    """sum log(1 + s_j / scale_j) - costs s: the maximum is at 1 / costs - scale."""

    def function(at: np.ndarray) -> tuple[float, np.ndarray]:
        return float(np.log1p(at / scale).sum() - costs @ at), 1.0 / (scale + at) - costs

    return function


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_whatever_the_unit_of_contributions_is(size: float) -> None:
    scale, costs = size * np.array([1.0, 2.0, 0.5, 1.5]), np.array([0.1, 0.02, 0.4, 5.0]) / size
    search, rounds = climb(logarithms(scale, costs), np.full(4, np.inf))
    np.testing.assert_allclose(search.best.at, np.maximum(1.0 / costs - scale, 0.0), rtol=1e-4, atol=1e-6 * size)
    assert rounds <= 40


def test_at_the_caps_and_at_nothing() -> None:
    scale, costs = np.ones(3), np.array([0.01, 0.02, 2.0])
    search, _ = climb(logarithms(scale, costs), np.array([5.0, np.inf, 7.0]))
    np.testing.assert_allclose(search.best.at, [5.0, 49.0, 0.0], rtol=1e-5)
    search, rounds = climb(logarithms(scale, np.full(3, 2.0)), np.full(3, 10.0))
    assert rounds == 1 and not search.best.at.any()
    search, rounds = climb(logarithms(scale, np.full(3, 0.1)), np.zeros(3))
    assert rounds == 1 and not search.best.at.any()


def test_where_it_was_among_others_may_lead_nowhere() -> None:
    """Towards the start the function falls from the first step on; the maximum is elsewhere."""
    scale, costs = np.ones(3), np.array([0.1, 5.0, 9.0])
    search, _ = climb(logarithms(scale, costs), np.full(3, np.inf), start=np.array([0.1, 0.1, 0.1]))
    np.testing.assert_allclose(search.best.at, [9.0, 0.0, 0.0], rtol=1e-4)


def test_points_outside_the_domain_shorten_the_step() -> None:
    """log(1 + s_0 - 3 s_1) + log(1 + s_1): the gradient at nothing leads over the edge."""

    def function(at: np.ndarray) -> tuple[float, np.ndarray]:
        inside = 1.0 + at[0] - 3.0 * at[1]
        if inside <= 0.0:
            return -np.inf, np.zeros(2)
        value = np.log(inside) + 4.0 * np.log1p(at[1]) - 0.1 * at[0]
        return float(value), np.array([1.0 / inside - 0.1, -3.0 / inside + 4.0 / (1.0 + at[1])])

    search, _ = climb(function, np.full(2, np.inf))
    np.testing.assert_allclose(search.best.gradient, 0.0, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_sum_of_ridges_over_a_box(seed: int) -> None:
    """At the end the conditions of Karush, Kuhn and Tucker hold."""
    rng = np.random.default_rng(seed)
    rows, costs, caps = rng.random((12, 12)), rng.uniform(0.01, 0.1, 12), rng.choice([3.0, np.inf], 12)

    def function(at: np.ndarray) -> tuple[float, np.ndarray]:
        data = rows @ at
        return float(np.log1p(data).sum() - costs @ at), rows.T @ (1.0 / (1.0 + data)) - costs

    search, _ = climb(function, caps)
    at, gradient = search.best.at, search.best.gradient
    inside = (at > 1e-9) & (at < caps - 1e-9)
    np.testing.assert_allclose(gradient[inside], 0.0, atol=1e-4 * costs.max())
    assert (gradient[at <= 1e-9] <= 1e-6).all() and (gradient[at >= caps - 1e-9] >= -1e-6).all()
