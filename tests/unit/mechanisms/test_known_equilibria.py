"""Federations with known equilibria: contributions, payments, and whether there are others."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from cases import Case, answers
from fedpact.mechanisms import DEFAULT_MECHANISMS

KNOWN = [(name, case) for name in DEFAULT_MECHANISMS for case in answers(name)]


@pytest.mark.parametrize(("name", "case"), KNOWN, ids=[f"{name} {case.name}" for name, case in KNOWN])
def test_known_equilibria(name: str, case: Case) -> None:
    outcome = DEFAULT_MECHANISMS[name].solve(case.federation)
    np.testing.assert_allclose(outcome.contributions, case.equilibria[name], rtol=0, atol=case.atol)
    if name in case.payments:
        np.testing.assert_allclose(outcome.payments, case.payments[name], rtol=0, atol=case.atol)
    if name == "externality":
        assert outcome.equilibria.dimension == case.dimension
        assert outcome.equilibria.unique is (case.dimension == 0)
    if name == "shapley":
        assert outcome.equilibria.unique


@pytest.mark.parametrize(
    ("weights", "note"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "one of several equilibria, which treats equal members alike"),
        (np.diag([1.0, 2.0]), "the only equilibrium"),
    ],
)
def test_free_riders_are_told_whether_there_are_other_equilibria(weights: object, note: str) -> None:
    found = fp.Voluntary().solve(fp.Federation(weights, costs=0.1, payoff=fp.Log())).equilibria
    assert (found.unique, found.note) == (note == "the only equilibrium", note)
