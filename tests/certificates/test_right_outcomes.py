"""What mechanisms promise by design holds, wherever they are solved."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("federation", INSTANCES.values(), ids=INSTANCES)
def test_promises_hold(federation: fp.Federation, mechanism: fp.Mechanism) -> None:
    certificates = mechanism.solve(federation).certificates
    assert list(certificates) == [claim.value for claim in Claim]
    for claim in mechanism.claims:
        assert certificates[claim].verdict is Verdict.HOLDS, certificates[claim]


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_promises_hold_among_many(mechanism: fp.Mechanism) -> None:
    """More agents than coalitions can be listed for: Shapley values are integrals."""
    rng = np.random.default_rng(4)
    for n_agents, payoff in ((12, fp.PowerLaw(beta=0.3)), (25, fp.Log())):
        weights = rng.uniform(0.0, 1.0, (n_agents, n_agents))
        np.fill_diagonal(weights, 1.0)
        costs = rng.uniform(0.05, 0.5, n_agents)
        outcome = mechanism.solve(fp.Federation(weights, costs=costs, caps=40.0, payoff=payoff))
        for claim in mechanism.claims:
            assert outcome.certificates[claim].verdict is Verdict.HOLDS, outcome.certificates[claim]


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_certificates_do_not_depend_on_what_the_solver_reported(mechanism: fp.Mechanism) -> None:
    outcome = mechanism.solve(INSTANCES["figure 5"])
    stripped = outcome.with_profile(outcome.contributions, outcome.payments)
    assert not stripped.is_solved
    for claim in (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.INDIVIDUAL_RATIONALITY):
        assert stripped.certificates[claim].margin == outcome.certificates[claim].margin


def test_margins_scale_with_money() -> None:
    """Counting payoffs and costs in cents instead of euros multiplies payments and margins by a hundred."""
    federation = INSTANCES["paper-w2"]
    cents = fp.Federation(
        federation.weights, costs=0.1, caps=federation.caps, payoff=federation.payoff, values=np.full(3, 100.0)
    )
    for name, mechanism in MECHANISMS.items():
        euros, hundred = mechanism.solve(federation), mechanism.solve(cents)
        np.testing.assert_allclose(hundred.payments, 100.0 * euros.payments, rtol=1e-9, atol=1e-12, err_msg=name)
        for claim in (Claim.SOCIAL_OPTIMALITY, Claim.INDIVIDUAL_RATIONALITY, Claim.RECIPROCITY):
            np.testing.assert_allclose(
                hundred.certificates[claim].margin, 100.0 * euros.certificates[claim].margin, rtol=1e-7, atol=1e-10
            )
