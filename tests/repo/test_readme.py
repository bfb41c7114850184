"""The README's first figures are those of the built-in hospitals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.scenario import example

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scenario() -> fp.Scenario:
    return example("hospitals")


def test_what_members_receive_and_pay(scenario: fp.Scenario) -> None:
    assert scenario.money is not None
    deal = fp.ExternalityMechanism().solve(scenario.federation)
    payments = dict(zip(deal.agents, deal.payments * scenario.money.per_payoff, strict=True))
    words = " ".join(README.split())
    assert f"University receives EUR {payments['University']:,.0f}" in words
    assert f"for its {round(1000 * deal.contributions[0], -2):,.0f} patient records" in words
    assert f"City EUR {payments['City']:,.0f}" in words
    assert f"Clinic pays EUR {-payments['Clinic']:,.0f}" in words
    children, county = -payments["Children's"], -payments["County"]
    assert f"Children's EUR {children:,.0f} and County EUR {county:,.0f}" in words
    gains = np.sort(deal.ir_gaps) * scenario.money.per_payoff
    assert f"Each is EUR {gains[0]:,.0f} to {gains[-1]:,.0f} better off than alone" in words


def test_how_fair_it_is(scenario: fp.Scenario) -> None:
    deal, fair = (rule.solve(scenario.federation) for rule in (fp.ExternalityMechanism(), fp.FairMechanism()))
    worst = deal.agents[int(np.argmin(deal.gain_shares))]
    assert f"{worst} gets {100 * deal.lowest_gain_share:.0f} % of its fair share of the gain" in README
    np.testing.assert_allclose(fair.gain_shares, 1.0, rtol=1e-9)
    assert fair.welfare == pytest.approx(deal.welfare, rel=1e-9)
    assert all(deal.certificates[claim].holds for claim in ("individual-rationality", "core"))
