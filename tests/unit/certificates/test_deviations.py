"""Deviations at the edge of a payoff's domain, and of one of two names."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.deviations import free_riding, price_taking
from fedpact.certificates.tolerances import agent_values
from fedpact.federation.identities import split_agent
from strategies import random_federations

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


def test_one_of_two_names_does_what_it_does_in_the_federation_with_two() -> None:
    """At the optimum and beside it; the federation with the agent split is made, and its prices are taken."""
    rng = np.random.default_rng(8)
    for federation in random_federations(9, 60):
        caps = np.minimum(federation.caps, 50.0)
        capped = federation.replace(caps=caps)
        optimum = fp.social_optimum(capped).contributions
        for profile in (optimum, np.minimum(optimum * rng.uniform(0.99, 1.01, optimum.size), caps)):
            if not capped.admits(profile):
                continue
            as_two = price_taking(capped, profile).as_two
            assert as_two is not None
            found, scale = as_two().utilities, 1e-9 * (1.0 + agent_values(capped))
            for agent in range(capped.n_agents):
                split, posing = split_agent(capped, agent)
                halves = np.where(np.arange(profile.size) == agent, profile / 2.0, profile)
                halves = np.insert(halves, agent, halves[agent])
                expected = price_taking(split, halves).utilities[posing]
                np.testing.assert_allclose(expected, found[agent], rtol=1e-9, atol=scale[agent])
