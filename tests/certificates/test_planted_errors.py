"""Errors planted in solvers, coalitions and integrals: a certificate finds each of them.

Without the error every promise holds on the same federation, so it is the error that is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim, Verdict
from fedpact.federation import Payoff
from fedpact.mechanisms import externality, shapley
from fedpact.shapley import coalitions, integral, values
from fedpact.solvers import shapley_equilibrium

Plant = Callable[[pytest.MonkeyPatch], None]
# One size for every route to Shapley values: coalitions, all factors directly, interpolation points.
SIZES = {"coalitions": 6, "direct": 13, "interpolated": 48}


def federation(n_agents: int) -> fp.Federation:
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.1, 1.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    return fp.Federation(weights, costs=rng.uniform(0.02, 0.06, n_agents), caps=400.0, payoff=fp.PowerLaw(0.4))


@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=lambda each: each.name)
@pytest.mark.parametrize("route", SIZES)
def test_without_an_error_every_promise_is_proved(mechanism: fp.Mechanism, route: str) -> None:
    outcome = mechanism.solve(federation(SIZES[route]))
    for claim in mechanism.claims:
        assert outcome.certificates[claim].verdict is Verdict.HOLDS, outcome.certificates[claim]


# Shapley values and gradients


def change_result(patch: pytest.MonkeyPatch, where: Any, name: str, change: Callable[[Any], Any]) -> None:
    right = getattr(where, name)
    patch.setattr(where, name, lambda *given, **named: change(right(*given, **named)))


def wrong_coalition_gradient(patch: pytest.MonkeyPatch) -> None:
    change_result(patch, shapley_equilibrium, "potential_derivatives", lambda found: (1.01 * found[0], found[1]))


def lost_coalition(patch: pytest.MonkeyPatch) -> None:
    """Coalitions of three count for nothing."""
    for module in (coalitions, shapley_equilibrium):
        change_result(
            patch, module, "size_coefficients", lambda found: np.where(np.arange(found.size) == 3, 0.0, found)
        )


def wrong_slopes(patch: pytest.MonkeyPatch, route: type) -> None:
    change_result(patch, route, "credits", lambda found: found._replace(derivatives=1.01 * found.derivatives))


def small_values(patch: pytest.MonkeyPatch, route: type) -> None:
    """Everybody's value a hundred thousandth too small."""
    change_result(patch, route, "credits", lambda found: found._replace(values=(1.0 - 1e-5) * found.values))


def lost_time(patch: pytest.MonkeyPatch) -> None:
    right = Payoff.time_rule

    def without(*given: Any, **named: Any) -> tuple[np.ndarray, np.ndarray]:
        times, log_weights = right(*given, **named)
        kept = np.arange(times.size) != times.size // 2
        return times[kept], log_weights[..., kept]

    patch.setattr(Payoff, "time_rule", without)


def shifted_q(patch: pytest.MonkeyPatch) -> None:
    change_result(patch, integral, "_gauss_legendre", lambda rule: (0.99 * rule[0] + 0.005, rule[1]))


PLANTED: dict[str, list[Plant]] = {
    "coalitions": [wrong_coalition_gradient, lost_coalition],
    "direct": [lambda patch: wrong_slopes(patch, integral._Direct), lost_time, shifted_q],
    "interpolated": [
        lambda patch: wrong_slopes(patch, integral._Interpolated),
        lambda patch: small_values(patch, integral._Interpolated),
        lost_time,
    ],
}


@pytest.mark.parametrize(
    ("route", "plant"),
    [
        pytest.param(route, plant, marks=[pytest.mark.slow] * (route == "interpolated" and plant is lost_time))
        for route, plants in PLANTED.items()
        for plant in plants
    ],
)
def test_an_error_in_shapley_values_or_gradients_is_found(
    route: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The integral notices itself that values do not add up; here it is not asked."""
    monkeypatch.setattr(values, "_check_efficiency", lambda result, _: result)
    plant(monkeypatch)
    certificates = fp.ShapleyMechanism().solve(federation(SIZES[route])).certificates
    assert Verdict.VIOLATED in {certificates[claim].verdict for claim in fp.ShapleyMechanism().claims}


@pytest.mark.parametrize("route", SIZES)
def test_reciprocity_can_fail(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Payments that are wrong by a balanced shift: the sum of payments says nothing."""
    shift = np.zeros(SIZES[route])
    shift[:2] = [1e-5, -1e-5]
    change_result(monkeypatch, fp.ShapleyMechanism, "payments", lambda found: found + shift)
    certificates = fp.ShapleyMechanism().solve(federation(SIZES[route])).certificates
    assert certificates[Claim.RECIPROCITY].verdict is Verdict.VIOLATED
    assert certificates[Claim.RECIPROCITY].witness["index"] == 1
    assert certificates[Claim.NASH].verdict is Verdict.VIOLATED
    assert certificates[Claim.BUDGET_BALANCE].verdict is Verdict.HOLDS


# Solvers


def test_a_maximiser_that_stops_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    change_result(
        monkeypatch,
        externality,
        "social_optimum",
        lambda found: replace(found, contributions=0.99 * found.contributions),
    )
    change_result(monkeypatch, shapley, "potential_optimum", lambda found: 0.99 * found)
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        outcome = mechanism.solve(federation(10))
        assert outcome.certificates[Claim.NASH].verdict is Verdict.VIOLATED, mechanism.name
        assert outcome.certificates[Claim.SOCIAL_OPTIMALITY].verdict is Verdict.VIOLATED


def test_payments_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shift = np.zeros(10)
    shift[:2] = [1e-6, -1e-6]
    change_result(monkeypatch, fp.federation.arrays.FederationArrays, "price_payments", lambda found: found + shift)
    certificates = fp.ExternalityMechanism().solve(federation(10)).certificates
    assert certificates[Claim.NASH].verdict is Verdict.VIOLATED
    assert certificates[Claim.NASH].witness["index"] == 1


def test_a_wrong_standalone_utility_does_not_hide_who_would_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent 0 harms the others and would leave under M^Shap; a wrong v* says it gains."""
    weights = np.ones((4, 4))
    weights[1:, 0], weights[0, 1:] = -0.3, 0.0
    harmed = fp.Federation(weights, costs=[0.1, 0.3, 0.3, 0.3], caps=3.0, payoff=fp.PowerLaw(beta=0.5))
    outcome = fp.ShapleyMechanism().solve(harmed)
    assert outcome.leavers == ("agent 0",)
    from fedpact.deals import outcome as outcome_module

    monkeypatch.setattr(outcome_module, "standalone_optima", lambda given: (np.zeros(4), np.zeros(4)))
    blind = fp.ShapleyMechanism().solve(harmed)
    assert blind.leavers == ()
    certificate = blind.certificates[Claim.INDIVIDUAL_RATIONALITY]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == "agent 0"
