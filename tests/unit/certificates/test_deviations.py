"""Deviations at the edge of a payoff's domain."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.deviations import free_riding

HARM = 346794.24557  # of which 1 is more than its payoff can bear


def harmed(cap: float) -> fp.Federation:
    """Agent 0 keeps itself in the domain by its own data; one sample more or less is a rounding of its reach."""
    return fp.Federation([[1.0, -HARM], [0.0, 1.0]], costs=[1e11, 0.1], caps=[cap, 1.0], payoff=fp.Log())


def test_who_is_kept_in_the_domain_by_the_last_digit_does_best_inside() -> None:
    federation = harmed(np.inf)
    profile = np.array([np.nextafter(HARM - 1.0, np.inf), 1.0])
    assert federation.admits(profile)
    best = free_riding(federation, profile)
    assert federation.admits(np.array([best.actions[0], 1.0]))
    assert np.isfinite(best.utilities).all()
    here = federation.payoffs(profile)[0] - federation.costs.value(profile)[0]
    assert best.utilities[0] >= here


@pytest.mark.parametrize("cap", [1.0, HARM - 1.0])
def test_who_cannot_reach_the_domain_has_nothing_to_gain(cap: float) -> None:
    best = free_riding(harmed(cap), np.array([cap, 1.0]))
    assert best.utilities[0] == -np.inf
