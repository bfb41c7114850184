"""Mechanisms from outside: their own rules are used everywhere, in batches and sweeps as well as alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from consortium import EqualCosts
from fedpact.mechanisms import FIELD_MECHANISMS, MECHANISMS
from fedpact.report import write_report
from random_cases import some

BASE = fp.Federation(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
)
BATCH = fp.Batch.vary(BASE, costs=np.array([[0.001], [0.002], [0.004]]))


def assert_as_alone(mechanism: fp.Mechanism) -> fp.BatchOutcome:
    """A batch says of every federation what solving it alone says."""
    outcome = fp.solve_batch(BATCH, mechanism)
    for place, federation in enumerate(BATCH):
        alone = mechanism.solve(federation)
        for field in ("contributions", "payments", "side_payments", "utilities", "ir_gaps", "reciprocity_ratios"):
            np.testing.assert_allclose(getattr(outcome, field)[place], getattr(alone, field), rtol=1e-6, err_msg=field)
            np.testing.assert_allclose(
                getattr(outcome[place], field), getattr(alone, field), rtol=1e-6, err_msg=f"{field}, by place"
            )
        for claim, judged in outcome.certificates.items():
            certificate = alone.certificates[claim]
            assert judged.verdicts[place] == certificate.verdict, claim
            np.testing.assert_allclose(judged.margins[place], certificate.margin, rtol=1e-6, atol=2 * certificate.tol)
    return outcome


class Halved(fp.ExternalityMechanism):
    """Everybody contributes half of the optimum, at the prices of that profile."""

    name = "halved"

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        return self.outcome_at(federation, 0.5 * super().solve(federation).contributions)


class Capped(fp.ShapleyMechanism):
    """Nobody pays or receives more than 0.001."""

    name = "capped"

    def payment_rule(self, federation: fp.Federation, contributions):
        return np.clip(super().payment_rule(federation, contributions), -0.001, 0.001)


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
        from dataclasses import replace

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
    assert not mechanism.is_vectorised(BATCH)
    assert_as_alone(mechanism)


def test_a_subclass_that_changes_no_rules_is_as_fast() -> None:
    class Renamed(fp.ExternalityMechanism):
        name, title = "renamed", "Renamed"

    assert Renamed().is_vectorised(BATCH)
    assert_as_alone(Renamed())


def test_a_subclass_may_bring_its_own_way_with_batches() -> None:
    class Own(Halved):
        def solve(self, federation: fp.Federation) -> fp.Outcome:
            raise AssertionError("not asked")

        def is_vectorised(self, batch: fp.Batch) -> bool:
            return True

        def solve_together(self, batch: fp.Batch):
            found = fp.ExternalityMechanism().solve_together(batch)
            contributions = 0.5 * found.contributions
            payments = [self.payment_rule(each, contributions[place]) for place, each in enumerate(batch)]
            return type(found)(contributions=contributions, payments=np.array(payments))

    np.testing.assert_allclose(
        fp.solve_batch(BATCH, Own()).utilities, fp.solve_batch(BATCH, Halved()).utilities, rtol=1e-6
    )


def test_comparison_sweep_and_departures_take_it() -> None:
    rules = EqualCosts()
    compared = fp.compare(BASE, ["externality", rules, "standalone"])
    assert [outcome.mechanism for outcome in compared] == ["externality", "equal-costs", "standalone"]
    assert compared.title("equal-costs") == "Equal costs"
    assert "equal-costs" in compared.after_departures, "it is no baseline"
    assert fp.stable_federation(BASE, rules).outcome.mechanism == "equal-costs"
    swept = fp.sweep(BASE, "costs=0.001,0.002", metrics=["welfare", "nash"], mechanisms=[rules, "shapley"])
    assert swept.title("equal-costs") == "Equal costs"
    for place, federation in enumerate(list(BATCH)[:2]):
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
