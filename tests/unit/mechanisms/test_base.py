"""Mechanisms from outside: their own rules are used everywhere, in batches and sweeps as well as alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from consortium import EqualCosts
from fedpact.mechanisms import FIELD_MECHANISMS, MECHANISMS
from fedpact.report import write_report
from fedpact.utils.errors import InvalidInput
from random_cases import some

BASE = fp.Federation(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
)
BATCH = [BASE.replace(costs=cost) for cost in (0.001, 0.002, 0.004)]


def assert_as_alone(mechanism: fp.Mechanism) -> None:
    """A batch says of every federation what solving it alone says."""
    outcomes = fp.solve_batch(BATCH, mechanism)
    for place, federation in enumerate(BATCH):
        alone = mechanism.solve(federation)
        for field in ("contributions", "payments", "side_payments", "utilities", "ir_gaps", "reciprocity_ratios"):
            np.testing.assert_allclose(getattr(outcomes, field)[place], getattr(alone, field), rtol=1e-6, err_msg=field)
        for claim, certificate in outcomes[place].certificates.items():
            assert certificate.verdict == alone.certificates[claim].verdict, claim


class Halved(fp.ExternalityMechanism):
    """Everybody contributes half of the optimum, at the prices of that profile."""

    name = "halved"

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        return self.outcome_at(federation, 0.5 * super().solve(federation).contributions)


class Capped(fp.ShapleyMechanism):
    """Nobody pays or receives more than 0.001."""

    name = "capped"

    def payments(self, arrays, contributions):
        return np.clip(super().payments(arrays, contributions), -0.001, 0.001)


class Gifted(fp.ExternalityMechanism):
    """The payments of its solve are not those of its rule: the first agent gets a gift from the second."""

    name = "gifted"

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        found = super().solve(federation)
        gift = np.array([0.01, -0.01, 0.0])
        return self.outcome_at(federation, found.contributions, found.payments + gift, side_payments=gift)


class Stubborn(fp.Voluntary):
    """Deviations that promise more than there is."""

    name = "stubborn"

    def deviations(self, federation: fp.Federation, contributions):
        found = super().deviations(federation, contributions)
        return replace(found, utilities=found.utilities + 0.1)


class Half:
    """A mixin."""

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        return self.outcome_at(federation, 0.5 * fp.ExternalityMechanism().solve(federation).contributions)


class Mixed(Half, fp.ExternalityMechanism):
    name = "mixed"


@pytest.mark.parametrize("mechanism", some([Halved(), Capped(), Gifted(), Stubborn(), Mixed(), EqualCosts()]), ids=repr)
def test_own_rules_are_used_in_batches(mechanism: fp.Mechanism) -> None:
    assert_as_alone(mechanism)


def test_comparison_sweep_and_departures_take_it() -> None:
    rules = EqualCosts()
    compared = fp.compare(BASE, ["externality", rules, "standalone"])
    assert [outcome.mechanism for outcome in compared] == ["externality", "equal-costs", "standalone"]
    assert compared.title("equal-costs") == "Equal costs"
    assert "equal-costs" in compared.after_departures, "it is no baseline"
    assert fp.stable_federation(BASE, rules).outcome.mechanism == "equal-costs"
    swept = fp.sweep(BASE, "costs=0.001,0.002", metrics=["welfare", "nash"], mechanisms=[rules, "shapley"])
    assert swept.title("equal-costs") == "Equal costs"
    for place, federation in enumerate(BATCH[:2]):
        alone = rules.solve(federation)
        np.testing.assert_allclose(swept.metrics["equal-costs"]["welfare"][place], alone.welfare, rtol=1e-9)
        certificate = alone.certificates["nash"]
        np.testing.assert_allclose(
            swept.metrics["equal-costs"]["nash"][place], certificate.margin, atol=2 * certificate.tol
        )


def test_payments_by_design() -> None:
    assert {name: each.has_payments for name, each in MECHANISMS.items()} == {
        "externality": True,
        "shapley": True,
        "voluntary": False,
        "standalone": False,
        "fair": True,
        "fair-members": True,
        "fair-reciprocity": True,
        "fair-reciprocity-members": True,
        **dict.fromkeys(FIELD_MECHANISMS, True),
        "accuracy-shaping": False,
    }
    assert EqualCosts().has_payments


def test_mechanisms_say_what_they_are() -> None:
    class Fee(EqualCosts):
        def __init__(self, fee: float) -> None:
            self.fee = fee

    assert repr(Fee(2.0)) == "Fee(fee=2.0)"
    assert repr(fp.Voluntary()) == "Voluntary()"
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (fp.Mechanism,), {"name": "empty"})()


@pytest.mark.slow
def test_reports_and_pictures_show_it(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    compared = fp.compare(BASE, [EqualCosts(), "voluntary"])
    write_report(compared, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Equal costs" in page
    assert EqualCosts.description in page
    swept = fp.sweep(BASE, "costs=0.001,0.002", metrics=["welfare"], mechanisms=[EqualCosts()])
    for figure in (compared.plot(), swept.plot()):
        assert any("Equal costs" in text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_a_scenario_is_refused_with_the_way_to_its_federation() -> None:
    with pytest.raises(InvalidInput, match=r"federation must be a Federation, got a Scenario: take its \.federation"):
        fp.ShapleyMechanism().solve(fp.load_scenario("hospitals"))  # type: ignore[arg-type]
