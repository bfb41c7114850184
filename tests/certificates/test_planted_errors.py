"""Errors planted in the solvers, the integrals and the compiled kernels: a certificate finds each of them.

Without the error every promise holds on the same federation, so it is the error that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim, Verdict
from fedpact.mechanisms import externality
from fedpact.programs import shapley_equilibrium, social_optimum
from fedpact.shapley import compiled, enumeration, kernels, potential, quadrature, small_rows, values

Plant = Callable[[pytest.MonkeyPatch], None]
# One size for every route to Shapley values: coalitions, NumPy, NumPy with receivers side by side, compiled. Only where
# somebody is harmed are the slopes of few integrated one by one.
SIZES = {"coalitions": 6, "numpy": 13, "side by side": 30, "compiled": 66}
ROUTES = [pytest.param(route, marks=pytest.mark.slow if route == "compiled" else ()) for route in SIZES]


def federation(n_agents: int) -> fp.Federation:
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.1, 1.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    if n_agents == SIZES["numpy"]:
        weights[0, 1] = -0.001
    return fp.Federation(weights, costs=rng.uniform(0.02, 0.06, n_agents), caps=400.0, payoff=fp.PowerLaw(0.4))


@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=lambda each: each.name)
@pytest.mark.parametrize("route", ROUTES)
def test_without_an_error_every_promise_is_proved(mechanism: fp.Mechanism, route: str) -> None:
    outcome = mechanism.solve(federation(SIZES[route]))
    for claim in mechanism.claims:
        assert outcome.certificates[claim].verdict is Verdict.HOLDS, outcome.certificates[claim]


# Shapley values and slopes


def wrong_coalition_slope(patch: pytest.MonkeyPatch) -> None:
    right = potential.EnumeratedPotential.gradient
    patch.setattr(potential.EnumeratedPotential, "gradient", lambda self, s: 1.01 * right(self, s))


def lost_coalition(patch: pytest.MonkeyPatch) -> None:
    """Coalitions of three count for nothing."""
    right = enumeration._weights
    change_result(patch, enumeration, "_weights", right, lambda found: np.where(np.arange(found.size) == 3, 0.0, found))
    enumeration.coalitions.cache_clear()


def change_result(patch: pytest.MonkeyPatch, module: Any, name: str, right: Callable, change: Callable) -> None:
    patch.setattr(module, name, lambda *given, **named: change(right(*given, **named)))


def change_nodes(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    """In both places that integrate in NumPy: values and potential."""
    right = quadrature.receiver_nodes

    def changed(*given: Any, **named: Any) -> Iterator[Any]:
        return (change(nodes) for nodes in right(*given, **named))

    for module in (quadrature, potential):
        patch.setattr(module, "receiver_nodes", changed)


def wrong_numpy_slope(patch: pytest.MonkeyPatch) -> None:
    change_nodes(patch, lambda nodes: replace(nodes, slope=1.01 * nodes.slope))


def lost_numpy_node(patch: pytest.MonkeyPatch) -> None:
    change_nodes(patch, lambda nodes: replace(nodes, level=nodes.level * (np.arange(nodes.q.shape[1]) > 0)))


def lost_numpy_time(patch: pytest.MonkeyPatch) -> None:
    middle = 30
    change_nodes(
        patch, lambda nodes: replace(nodes, level=nodes.level * (np.arange(nodes.level.shape[0]) != middle)[:, None])
    )


def shifted_numpy_q(patch: pytest.MonkeyPatch) -> None:
    right = quadrature.gauss_legendre
    change_result(patch, quadrature, "gauss_legendre", right, lambda rule: (0.99 * rule[0] + 0.005, rule[1]))


def wrong_slope_side_by_side(patch: pytest.MonkeyPatch) -> None:
    right = small_rows.SmallRows.sums

    def steeper(*given: Any) -> tuple[np.ndarray, ...]:
        value, slope, bend = right(*given)
        return value, 1.01 * slope, bend

    patch.setattr(small_rows.SmallRows, "sums", steeper)


def lost_times_side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Those near zero."""
    right = small_rows.SmallRows.sums

    def without(rows: Any, times: np.ndarray, log_masses: np.ndarray) -> tuple[np.ndarray, ...]:
        return right(rows, times[:, times.shape[1] // 2 :], log_masses[:, times.shape[1] // 2 :])

    patch.setattr(small_rows.SmallRows, "sums", without)


def change_kernel(patch: pytest.MonkeyPatch, before: Callable | None = None, after: Callable | None = None) -> None:
    """`before` changes the arguments of the compiled sum, `after` what it filled: values, slopes, bends."""
    right = kernels.sum_helped

    def changed(*given: Any) -> None:
        given = before(list(given)) if before else given
        right(*given)
        if after:
            after(*given[-3:])

    patch.setattr(kernels, "sum_helped", changed)
    patch.setattr(compiled, "run_in_threads", lambda function, count, **named: function(0, count))  # changed once


def wrong_compiled_slope(patch: pytest.MonkeyPatch) -> None:
    def steeper(value: np.ndarray, slope: np.ndarray, bend: np.ndarray) -> None:
        slope *= 1.01

    change_kernel(patch, after=steeper)


def lost_compiled_node(patch: pytest.MonkeyPatch) -> None:
    def without(given: list[Any]) -> list[Any]:
        log_masses = given[7].copy()
        log_masses[:, log_masses.shape[1] // 2] = -np.inf
        return [*given[:7], log_masses, *given[8:]]

    change_kernel(patch, before=without)


def shifted_compiled_q(patch: pytest.MonkeyPatch) -> None:
    def shifted(given: list[Any]) -> list[Any]:
        nodes, weights = given[9]
        return [*given[:9], (0.99 * nodes + 0.005, weights), *given[10:]]

    change_kernel(patch, before=shifted)


def small_compiled_values(patch: pytest.MonkeyPatch) -> None:
    """Everybody's value a hundred thousandth too small."""

    def smaller(value: np.ndarray, slope: np.ndarray, bend: np.ndarray) -> None:
        value *= 1.0 - 1e-5

    change_kernel(patch, after=smaller)


PLANTED = {
    "coalitions": [wrong_coalition_slope, lost_coalition],
    "numpy": [wrong_numpy_slope, lost_numpy_node, lost_numpy_time, shifted_numpy_q],
    "side by side": [wrong_slope_side_by_side, lost_times_side_by_side],
    "compiled": [wrong_compiled_slope, lost_compiled_node, shifted_compiled_q, small_compiled_values],
}


@pytest.mark.parametrize(
    ("route", "plant"),
    [
        pytest.param(route, plant, marks=pytest.mark.slow if route == "compiled" else ())
        for route, plants in PLANTED.items()
        for plant in plants
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_an_error_in_shapley_values_or_slopes_is_found(
    route: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The integral notices itself that values do not add up; here it is not asked."""
    monkeypatch.setattr(values, "_check_precision", lambda *given: None)
    plant(monkeypatch)
    try:
        certificates = fp.ShapleyMechanism().solve(federation(SIZES[route])).certificates
        verdicts = {claim: certificates[claim].verdict for claim in fp.ShapleyMechanism().claims}
    finally:
        enumeration.coalitions.cache_clear()
    assert Verdict.VIOLATED in verdicts.values()


@pytest.mark.parametrize("route", ROUTES)
def test_reciprocity_can_fail(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are wrong by a balanced shift: payments follow, and the sum of payments says nothing."""
    right = values._values_by

    def shifted(*given: Any) -> tuple[np.ndarray, np.ndarray, float]:
        found, *others = right(*given)
        shift = np.zeros(found.size)
        shift[:2] = [1e-5, -1e-5]
        return found + shift, *others

    monkeypatch.setattr(values, "_values_by", shifted)
    certificates = fp.ShapleyMechanism().solve(federation(SIZES[route])).certificates
    assert certificates[Claim.RECIPROCITY].verdict is Verdict.VIOLATED
    assert certificates[Claim.RECIPROCITY].witness["index"] == 1
    assert certificates[Claim.NASH].verdict is Verdict.VIOLATED
    assert certificates[Claim.BUDGET_BALANCE].verdict is Verdict.HOLDS


# Solvers


def test_a_maximiser_that_stops_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    solvers = [
        (social_optimum, "maximise_welfare", fp.ExternalityMechanism()),
        (shapley_equilibrium, "maximise_within", fp.ShapleyMechanism()),
    ]
    for module, name, mechanism in solvers:
        right = getattr(module, name)

        def short(*given: Any, right: Callable = right, **named: Any) -> Any:
            solution = right(*given, **named)
            return replace(solution, contributions=0.99 * solution.contributions)

        with monkeypatch.context() as patch:
            patch.setattr(module, name, short)
            patch.setattr(social_optimum, "MAX_FACE_AGENTS", 0)
            outcome = mechanism.solve(federation(10))
        assert outcome.certificates[Claim.NASH].verdict is Verdict.VIOLATED, mechanism.name
        if Claim.SOCIAL_OPTIMALITY in mechanism.claims:
            assert outcome.certificates[Claim.SOCIAL_OPTIMALITY].verdict is Verdict.VIOLATED


def test_payments_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = externality.price_payments

    def off(*given: Any) -> np.ndarray:
        payments = np.array(right(*given))
        payments[:2] += [1e-6, -1e-6]
        return payments

    monkeypatch.setattr(externality, "price_payments", off)
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

    monkeypatch.setattr(outcome_module, "standalone_optimum", lambda given: (np.zeros(4), np.zeros(4)))
    blind = fp.ShapleyMechanism().solve(harmed)
    assert blind.leavers == ()
    certificate = blind.certificates[Claim.INDIVIDUAL_RATIONALITY]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == "agent 0"


# Batches


def planted_batch(mechanism: fp.Mechanism) -> fp.BatchOutcome:
    return fp.solve_batch([federation(4), federation(4).replace(costs=0.05)], mechanism)


def change_coalition_values(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    """What the compiled coalitions of a batch say, wherever it is used."""
    from fedpact.comparison import batch_outcome
    from fedpact.mechanisms import shapley

    for module in (shapley, batch_outcome):
        right = module.enumerate_blocks
        change_result(patch, module, "enumerate_blocks", right, lambda found: (change(found[0]), found[1]))


def test_values_of_a_batch_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a balanced shift, in payments and shares alike: their difference says nothing."""
    assert planted_batch(fp.ShapleyMechanism()).certificates[Claim.RECIPROCITY].holds.all()
    change_coalition_values(monkeypatch, lambda found: found + np.array([1e-6, -1e-6, 0.0, 0.0]))
    certificates = planted_batch(fp.ShapleyMechanism()).certificates
    for claim in (Claim.RECIPROCITY, Claim.NASH):
        assert set(certificates[claim].verdicts) == {Verdict.VIOLATED}, claim
    assert certificates[Claim.BUDGET_BALANCE].holds.all()


def test_payments_of_a_batch_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planted_batch(fp.ExternalityMechanism()).certificates[Claim.NASH].holds.all()
    right, shift = externality.price_payments, np.array([1e-6, -1e-6, 0.0, 0.0])

    def off(given: fp.Federation, contributions: np.ndarray) -> np.ndarray:
        return right(given, contributions) + np.resize(shift, contributions.size)

    monkeypatch.setattr(externality, "price_payments", off)
    certificates = planted_batch(fp.ExternalityMechanism()).certificates
    assert set(certificates[Claim.NASH].verdicts) == {Verdict.VIOLATED}


def test_a_wrong_standalone_utility_of_a_batch_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedpact.comparison import batch_outcome

    right = planted_batch(fp.ShapleyMechanism()).certificates[Claim.INDIVIDUAL_RATIONALITY].margins
    nothing = lambda given: (np.zeros(given.n_agents), np.zeros(given.n_agents))
    monkeypatch.setattr(batch_outcome, "standalone_optimum", nothing)
    blind = planted_batch(fp.ShapleyMechanism())
    assert (blind.standalone == 0).all()
    np.testing.assert_allclose(blind.certificates[Claim.INDIVIDUAL_RATIONALITY].margins, right, rtol=1e-9)
