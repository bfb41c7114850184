"""Numbers in pandas objects go to whom their labels name, in any order, or are refused; without names by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.settlement import settle_payments
from fedpact.fitting.pilots.records import frames_of, pilot_data

pd = pytest.importorskip("pandas")

NAMES = ("Nord", "Kueste", "Sued")
WEIGHTS = np.array([[1.0, 0.2, 0.4], [0.3, 1.0, 0.5], [0.6, 0.1, 1.0]])
COSTS, CAPS, VALUES = [0.01, 0.02, 0.03], [10.0, 20.0, 30.0], [1.0, 2.0, 3.0]
BETA = [0.2, 0.4, 0.6]
SHUFFLED = [2, 0, 1]


def by_name(numbers: Any, names: Any = NAMES, order: Any = SHUFFLED) -> Any:
    """The numbers with the names as their index, in another order."""
    return pd.Series(list(numbers), index=list(names)).iloc[list(order)]


def frame(matrix: Any, rows: Any = (1, 2, 0), columns: Any = SHUFFLED) -> Any:
    return pd.DataFrame(matrix, index=list(NAMES), columns=list(NAMES)).iloc[list(rows), list(columns)]


def federation(**changes: Any) -> fp.Federation:
    plain: dict[str, Any] = {"costs": COSTS, "caps": CAPS, "values": VALUES, "payoff": fp.PowerLaw(BETA)}
    return fp.Federation(changes.pop("weights", WEIGHTS), **({"names": NAMES} | plain | changes))


PLAIN = federation()
PROFILE = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "changes",
    [
        {"costs": by_name(COSTS)},
        {"caps": by_name(CAPS)},
        {"values": by_name(VALUES)},
        {"weights": frame(WEIGHTS)},
        {"costs": pd.Series(COSTS), "caps": pd.Series(CAPS)},
        {"weights": pd.DataFrame(WEIGHTS)},
    ],
    ids=["costs", "caps", "values", "weights", "by position", "weights by position"],
)
def test_a_federation_is_the_same_whatever_the_order_of_labels(changes: dict[str, Any]) -> None:
    found = federation(**changes)
    assert found.names == NAMES
    for name in ("weights", "caps", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(PLAIN, name))
    np.testing.assert_array_equal(found.costs.linear, PLAIN.costs.linear)
    np.testing.assert_array_equal(found.payoff.parameters["beta"], PLAIN.payoff.parameters["beta"])
    outcome = fp.ExternalityMechanism().solve(found)
    np.testing.assert_allclose(outcome.payments, fp.ExternalityMechanism().solve(PLAIN).payments, atol=1e-12)


@pytest.mark.parametrize("make", [fp.Linear, lambda given: fp.Quadratic(0.1, given), fp.PowerLaw])
def test_costs_and_payoffs_know_no_members_and_refuse_labels(make: Callable[[Any], Any]) -> None:
    with pytest.raises(fp.InvalidInput, match=r"goes by position, got labels such as 'Sued': give its \.to_numpy\(\)"):
        make(by_name(COSTS))


def test_replace_goes_by_the_names_there_are() -> None:
    found = PLAIN.replace(caps=by_name([1.0, 2.0, 3.0]), weights=frame(2.0 * WEIGHTS))
    np.testing.assert_array_equal(found.caps, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found.weights, 2.0 * WEIGHTS)


def test_a_frame_of_weights_brings_its_names() -> None:
    given = frame(WEIGHTS, rows=[0, 1, 2])
    found = fp.Federation(given, costs=by_name(COSTS), payoff=fp.Log())
    assert found.names == NAMES
    np.testing.assert_array_equal(found.weights, WEIGHTS)
    np.testing.assert_array_equal(found.costs.linear, COSTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"costs": by_name(COSTS, ["Nord", "Kueste", "Ost"])},
            r'costs must have .*"Sued" is missing, "Ost" is none of',
        ),
        ({"caps": by_name(CAPS, ["Nord", "Kueste", "Nord"])}, r'"Sued" is missing, "Nord" is there twice'),
        ({"values": pd.Series(VALUES, index=[2, 0, 1])}, "values must have the members' names as its index"),
        ({"costs": by_name([0.01, 0.02], NAMES[:2], [1, 0])}, r'"Sued" is missing; label it by these names, or give'),
        (
            {"weights": pd.DataFrame(WEIGHTS, index=NAMES, columns=list("ABC"))},
            "weights must have the members' names as",
        ),
        (
            {"weights": pd.DataFrame(WEIGHTS, index=NAMES, columns=list("ABC")), "names": None},
            r'as its columns: "Nord" is missing',
        ),
        ({"weights": pd.DataFrame(WEIGHTS, index=list(NAMES)), "names": None}, "weights must .* on both sides"),
    ],
)
def test_other_labels_are_refused_with_the_way_out(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message) as refused:
        federation(**changes)
    assert ".to_numpy()" in str(refused.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda profile: fp.shapley_values(PLAIN, profile).values,
        PLAIN.payoffs,
        PLAIN.welfare,
        PLAIN.spending,
        PLAIN.net_externality,
        lambda profile: fp.ExternalityMechanism().outcome_at(PLAIN, profile).payments,
        lambda profile: fp.ExternalityMechanism().solve(PLAIN).with_profile(profile, by_name([1.0, -3.0, 2.0])).payoffs,
        lambda profile: fp.NashBargaining().outcome_at(PLAIN, profile).utilities,
        lambda profile: fp.MessageGame(PLAIN).equilibrium_messages(profile).proposals,
        lambda profile: fp.personal_prices(PLAIN, profile),
    ],
)
def test_contributions_go_to_whom_they_belong(ask: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(ask(by_name(PROFILE)), ask(PROFILE))
    with pytest.raises(fp.InvalidInput, match='"Sued" is missing'):
        ask(by_name(PROFILE, ["Nord", "Kueste", "Ost"]))


def test_payments_are_settled_with_whom_they_belong_to() -> None:
    deal = fp.ExternalityMechanism().solve(PLAIN).deal
    half = 0.5 * deal.contributions
    assert fp.settle(deal, delivered=by_name(half)).cents == fp.settle(deal, delivered=half).cents
    plain = settle_payments([5.0, -2.0, -3.0], names=NAMES)
    assert settle_payments(by_name([5.0, -2.0, -3.0]), names=NAMES).cents == plain.cents
    with pytest.raises(fp.InvalidInput, match='"Ost" is none of them'):
        fp.settle(deal, delivered=by_name(half, ["Nord", "Kueste", "Ost"]))


def test_lots_and_tasks_go_by_their_labels() -> None:
    lots, weights = ["A: raw", "A: noised", "B"], np.array([[1.0, 0.5, 0.2], [0.3, 0.1, 1.0]])
    plain: dict[str, Any] = {"lot_owners": ["A", "A", "B"], "lot_names": ["raw", "noised", "B"], "payoff": fp.Log()}
    expected = fp.Federation(weights, costs=COSTS, caps=CAPS, **plain)
    assert list(expected.lot_labels) == lots
    shuffled = pd.DataFrame(weights, index=["A", "B"], columns=lots).iloc[[1, 0], [2, 0, 1]]
    found = fp.Federation(shuffled, costs=by_name(COSTS, lots), caps=by_name(CAPS, lots), **plain)
    np.testing.assert_array_equal(found.weights, weights)
    np.testing.assert_array_equal(found.costs.linear, COSTS)
    np.testing.assert_array_equal(found.caps, CAPS)
    with pytest.raises(fp.InvalidInput, match="costs must have the lots' names as its index"):
        fp.Federation(weights, costs=by_name(COSTS), **plain)


def test_runs_and_models_have_their_columns_by_name() -> None:
    rng = np.random.default_rng(0)
    contributions, accuracies = rng.uniform(0.0, 10.0, (20, 3)), rng.uniform(0.2, 0.8, (20, 3))
    runs = [f"run {number}" for number in range(20)]
    given = pd.DataFrame(contributions, index=runs, columns=list(NAMES))
    measured = pd.DataFrame(accuracies, index=runs, columns=list(NAMES)).iloc[::-1, SHUFFLED]
    found = fp.Observations.of(given, measured, test_sizes=by_name([100, 200, 300]))
    assert found.names == NAMES
    np.testing.assert_array_equal(found.contributions, contributions)
    np.testing.assert_array_equal(found.accuracies, accuracies)
    np.testing.assert_array_equal(found.test_sizes[0], [100, 200, 300])
    sizes = rng.integers(100, 900, (20, 3)).astype(float)
    shuffled = pd.DataFrame(sizes, index=runs, columns=list(NAMES)).iloc[::-1, SHUFFLED]
    np.testing.assert_array_equal(fp.Observations.of(given, measured, test_sizes=shuffled).test_sizes, sizes)
    with pytest.raises(fp.InvalidInput, match="test_sizes must have the members' names as its columns"):
        fp.Observations.of(given, measured, test_sizes=shuffled.rename(columns={"Sued": "Ost"}))
    with pytest.raises(fp.InvalidInput, match="accuracies must have the members' names as its columns"):
        fp.Observations.of(given, measured.rename(columns={"Sued": "Ost"}))


def test_delivery_is_estimated_of_whom_the_columns_name() -> None:
    rng = np.random.default_rng(0)
    subsets = rng.random((40, 3)) < 0.6
    arrived = subsets * PROFILE * [1.0, 1.0, 0.5]
    accuracies = np.clip(np.array([PLAIN.payoff.value(PLAIN.data(row)) for row in arrived]), 0.0, 1.0)
    plain = fp.estimate_delivery(PLAIN, PROFILE, subsets, accuracies, test_sizes=500)
    named = [pd.DataFrame(matrix, columns=list(NAMES)).iloc[:, SHUFFLED] for matrix in (subsets, accuracies)]
    found = fp.estimate_delivery(PLAIN, by_name(PROFILE), *named, test_sizes=500)
    np.testing.assert_allclose(found.shares, plain.shares)


def test_labels_where_there_are_no_names_are_refused() -> None:
    with pytest.raises(fp.InvalidInput, match=r"uncertainty.values goes by position.*\.to_numpy\(\)"):
        fp.Uncertainty(weights=np.zeros((3, 3)), values=by_name([0.1, 0.1, 0.1]))
    with pytest.raises(fp.InvalidInput, match=r"uncertainty.weights has no names to go by.*\.to_numpy\(\)"):
        fp.Uncertainty(weights=frame(np.zeros((3, 3))))


def test_rows_with_labels_of_their_own_are_refused() -> None:
    rows = [by_name(row) for row in WEIGHTS]
    with pytest.raises(fp.InvalidInput, match=r"weights must be a matrix, or a DataFrame .*, got a list of rows"):
        fp.Federation(rows, costs=COSTS, caps=CAPS, payoff=fp.Log(), names=NAMES)


def test_prices_of_a_deal_go_by_their_labels() -> None:
    deal = fp.ExternalityMechanism().solve(PLAIN).deal
    named = fp.Deal(
        mechanism=deal.mechanism,
        agents=deal.agents,
        contributions=by_name(deal.contributions),
        payments=by_name(deal.payments),
        prices=frame(deal.prices),
    )
    np.testing.assert_array_equal(named.prices, deal.prices)


def test_runs_counted_in_another_order_are_followed() -> None:
    rng = np.random.default_rng(1)
    contributions, accuracies = rng.uniform(0.0, 10.0, (6, 3)), rng.uniform(0.2, 0.8, (6, 3))
    given, measured = (pd.DataFrame(matrix, columns=list(NAMES)) for matrix in (contributions, accuracies))
    np.testing.assert_array_equal(fp.Observations.of(given, measured.iloc[::-1]).accuracies, accuracies)


def test_a_pilot_takes_features_by_name() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["age", "dose"])
    table = table.assign(target=(table["age"] > 0).astype(int))
    in_order = dict.fromkeys(("Ada", "Ben"), table)
    swapped = in_order | {"Ben": table[["dose", "target", "age"]]}
    one, other = (pilot_data(*frames_of(data, None)) for data in (in_order, swapped))
    np.testing.assert_array_equal(one.records[1].features, other.records[1].features)
    with pytest.raises(fp.InvalidInput, match="must be a pandas frame"):
        fp.pilot(in_order | {"Ben": table.to_numpy()})
