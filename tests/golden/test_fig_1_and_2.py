"""Fig. 1 and Fig. 2: equal agents, against first-order conditions that use none of the solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from fedpact.paper import fig1_and_2
from fedpact.paper.fig1_and_2 import fig1_result, fig2_result
from fedpact.paper.results import Judgement, Result

GAMMAS = (0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.001)
BETAS = (0.005, 0.05, 0.5)


@pytest.fixture(scope="module")
def contributions() -> Result:
    return fig1_result()


@pytest.fixture(scope="module")
def welfare() -> Result:
    return fig2_result()


def optimum(beta: float, gamma: float) -> float:
    """Each agent's part of the total at which 3 beta xi^-(beta + 1) = gamma."""
    return max(0.0, (3 * beta / gamma) ** (1 / (1 + beta)) - 1) / 3


def shared(beta: float, gamma: float) -> float:
    """Where the Shapley value's slope is the cost: with k agents before it, the k-th sample is worth 3 a'(k s) / 3."""

    def slope(each: float) -> float:
        return beta * sum((1 + k * each) ** (-beta - 1) for k in (1, 2, 3)) - gamma

    return brentq(slope, 0.0, 1e4, xtol=1e-12) if slope(0.0) > 1e-12 else 0.0


def total_welfare(each: float, beta: float, gamma: float) -> float:
    return 3 * (1 - (1 + 3 * each) ** -beta) - 3 * gamma * each


@pytest.mark.slow
def test_the_grid_is_the_paper_s(contributions: Result, welfare: Result) -> None:
    grid = [(beta, gamma) for beta in BETAS for gamma in GAMMAS]
    for result in (contributions, welfare):
        assert list(zip(result.columns["beta"], result.columns["gamma"], strict=True)) == grid


@pytest.mark.slow
def test_contributions(contributions: Result) -> None:
    columns = contributions.columns
    grid = list(zip(columns["beta"], columns["gamma"], strict=True))
    np.testing.assert_allclose(columns["externality"], [optimum(*point) for point in grid], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(columns["shapley"], [shared(*point) for point in grid], rtol=1e-7, atol=1e-9)


def test_welfare(welfare: Result) -> None:
    columns = welfare.columns
    grid = list(zip(columns["beta"], columns["gamma"], strict=True))
    for name, each in (("externality", optimum), ("shapley", shared)):
        expected = [total_welfare(each(*point), *point) for point in grid]
        np.testing.assert_allclose(columns[name], expected, rtol=1e-7, atol=1e-9)


def test_the_exception_to_strictly(contributions: Result, welfare: Result) -> None:
    """Where n beta <= gamma nobody contributes under either mechanism."""
    for beta, gamma, gap, loss in zip(
        contributions.columns["beta"],
        contributions.columns["gamma"],
        contributions.columns["gap"],
        welfare.columns["loss"],
        strict=True,
    ):
        idle = (beta, gamma) in ((0.005, 0.02), (0.005, 0.015))
        assert (gap == 0, loss == 0) == (idle, idle)
        assert gap >= 0 and loss >= 0


def test_every_judgement_is_the_one_known(contributions: Result, welfare: Result) -> None:
    for result, counts in ((contributions, [2, 4, 0]), (welfare, [1, 3, 0])):
        assert [found.statement for found in result.findings if not found.as_expected] == []
        assert [sum(found.judgement is judgement for found in result.findings) for judgement in Judgement] == counts


def test_judgements_follow_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mechanisms exchanged, no statement about which of them contributes more stands."""
    as_they_are = fig1_and_2.grid

    def swapped(*betas: tuple[float, ...]) -> fig1_and_2.Grid:
        found = as_they_are(*betas)
        return replace(found, contributions=found.contributions[::-1])

    monkeypatch.setattr(fig1_and_2, "grid", swapped)
    assert fig1_and_2._shapley_above().judgement is Judgement.NOT_CONFIRMED
    assert fig1_and_2._gap_widens().judgement is Judgement.NOT_CONFIRMED
