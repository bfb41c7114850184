"""Equal split: an n-th of all payoffs each."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import fedpact as fp
from strategies import random_federations


def test_everybody_has_the_same_benefit() -> None:
    for federation in random_federations(92, 12):
        outcome = fp.EqualSplit().solve(federation)
        np.testing.assert_allclose(outcome.payoffs + outcome.payments, outcome.payoffs.mean(), rtol=1e-12, atol=1e-15)


def test_contributions_maximise_the_potential() -> None:
    for federation in random_federations(93, 12, harm=False):
        outcome, n_agents = fp.EqualSplit().solve(federation), federation.n_agents
        caps = np.minimum(federation.caps, 1e4)

        def loss(part, federation=federation, caps=caps, n_agents=n_agents):
            profile = part * caps
            slopes = federation.weights.T @ federation.marginal_payoffs(profile) / n_agents
            value = federation.payoffs(profile).sum() / n_agents - federation.costs.value(profile).sum()
            return -value, -(slopes - federation.costs.slope(profile)) * caps

        found = minimize(loss, np.full(n_agents, 0.01), jac=True, bounds=[(0.0, 1.0)] * n_agents, tol=1e-14)
        assert -loss(outcome.contributions / caps)[0] >= -found.fun - 1e-12
