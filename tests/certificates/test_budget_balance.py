"""The budget certificate against plain sums."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from certificates.hand import INSTANCES, MECHANISMS, moved
from fedpact.certificates import Claim, Verdict


@pytest.mark.parametrize("surplus", [1e-9, -1e-6, 0.5])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_money_from_nowhere_fails_by_its_amount(mechanism: fp.Mechanism, surplus: float) -> None:
    outcome = mechanism.solve(INSTANCES["paper-w2"])
    payments = np.array(outcome.payments)
    payments[1] += surplus
    certificate = replace(outcome, payments=payments).certificates[Claim.BUDGET_BALANCE]
    assert certificate.verdict is Verdict.VIOLATED
    np.testing.assert_allclose(certificate.margin, -abs(math.fsum(payments.tolist())), atol=1e-16)
    np.testing.assert_allclose(certificate.margin, -abs(surplus), rtol=1e-6)
    assert certificate.witness["sum"] == pytest.approx(math.fsum(payments.tolist()), rel=1e-15)
    assert certificate.witness["turnover"] == pytest.approx(math.fsum(map(abs, payments.tolist())), rel=1e-15)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_moving_money_between_agents_keeps_the_balance(mechanism: fp.Mechanism) -> None:
    outcome = mechanism.solve(INSTANCES["hospitals"])
    spoiled = replace(outcome, payments=moved(outcome.payments, 0, 3, 0.125))
    assert spoiled.certificates[Claim.BUDGET_BALANCE].verdict is Verdict.HOLDS


def test_no_payments_balance_exactly() -> None:
    certificate = MECHANISMS["voluntary"].solve(INSTANCES["useless"]).certificates[Claim.BUDGET_BALANCE]
    assert certificate.margin == 0.0
    assert certificate.verdict is Verdict.HOLDS


def test_rounding_among_equals_is_no_imbalance() -> None:
    """Nobody owes anybody anything: what payments are left are the last bits of the payoffs they are differences of."""
    outcome = MECHANISMS["shapley"].solve(INSTANCES["paper-w1"])
    rounded = replace(outcome, payments=8.0 * np.spacing(outcome.payoffs))
    assert rounded.certificates[Claim.BUDGET_BALANCE].verdict is Verdict.HOLDS


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [8, 12, 16])
def test_shapley_balances_among_many_equals(n_agents: int) -> None:
    federation = fp.Federation(np.ones((n_agents, n_agents)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    certificate = MECHANISMS["shapley"].solve(federation).certificates[Claim.BUDGET_BALANCE]
    assert certificate.verdict is Verdict.HOLDS
