"""Nash bargaining: the gain in equal parts."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from strategies import random_federations


def test_everybody_gains_the_same() -> None:
    for federation in random_federations(100, 12, harm=False):
        outcome, alone = fp.NashBargaining().solve(federation), fp.Standalone().solve(federation)
        gain = (fp.ExternalityMechanism().solve(federation).welfare - alone.welfare) / federation.n_agents
        np.testing.assert_allclose(outcome.utilities - alone.utilities, gain, rtol=1e-7, atol=1e-9)


def test_nothing_to_share_where_all_are_better_off_alone() -> None:
    harmful = fp.Federation([[1.0, -0.5], [-0.5, 1.0]], costs=0.01, caps=50.0, payoff=fp.Exponential(0.2))
    with pytest.raises(fp.NoFairDeal, match="there is no gain to share") as raised:
        fp.NashBargaining().solve(harmful)
    welfare = fp.ExternalityMechanism().solve(harmful).welfare
    np.testing.assert_allclose(raised.value.subsidy, fp.Standalone().solve(harmful).welfare - welfare, rtol=1e-9)
