"""Lots that are worth nothing to a group, at any scale of money: ascents go to a bound instead of nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp


def pair(values: float) -> fp.Federation:
    costs = 4e-4 * values
    return fp.Federation(
        [[1.0, 0.5], [0.0, 1.0]], costs=costs, caps=[10.0, 20.0], payoff=fp.PowerLaw(0.3), values=values, home="all"
    )


@pytest.mark.parametrize("values", [1.0, 5e4, 1e8])
def test_waste_is_refuted_at_any_scale(values: float) -> None:
    rules, federation = fp.ExternalityMechanism(), pair(values)
    everything = np.array([10.0, 20.0])
    wasteful = rules.solve(federation).with_profile(everything, rules.payments(federation.arrays, everything))
    for claim in ("nash", "social-optimality", "core"):
        assert str(wasteful.certificates[claim].verdict) == "violated", claim


@pytest.mark.parametrize("values", [1.0, 5e4, 1e8])
@pytest.mark.parametrize("rules", [fp.VCGMechanism(), fp.FairMechanism()])
def test_promises_hold_at_any_scale(rules: fp.Mechanism, values: float) -> None:
    outcome = rules.solve(pair(values))
    assert all(outcome.certificates[claim].holds for claim in rules.promises(outcome.federation))


def test_batches_keep_what_is_no_number_of_the_game() -> None:
    weights = [[1.0, 0.5, 0.2], [0.4, 1.0, 0.3], [0.2, 0.6, 1.0]]
    free = fp.Federation(weights, costs=0.002, caps=[10.0, 20.0, 30.0], payoff=fp.PowerLaw(0.4))
    poor, at_home = free.replace(budgets=0.02), free.replace(home="all")
    for federation, outcome in zip((free, poor, at_home), fp.solve_batch([free, poor, at_home], "fair"), strict=True):
        np.testing.assert_allclose(outcome.payments, fp.FairMechanism().solve(federation).payments, atol=1e-12)
        assert outcome.federation == federation
