"""The rules of a federation's inputs: all that is wrong is told at once, part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from cases import W2, errors_of

GOOD: dict[str, Any] = {
    "weights": W2,
    "costs": 0.001,
    "caps": 400.0,
    "payoff": fp.PowerLaw(0.02),
    "names": ["Anna", "Ben", "Cleo"],
    "values": 1.0,
}


def errors(**changes: Any) -> list[tuple[Any, ...]]:
    return [(error.field, error.index, error.rule, error.value, error.agent) for error in errors_of(**(GOOD | changes))]


def test_all_errors_are_told_at_once() -> None:
    weights = np.array(W2)
    weights[0, 1], weights[2, 0], weights[1, 1] = np.inf, np.nan, -2.0
    found = errors(
        weights=weights,
        costs=[0.0, 1.0, -1.0],
        caps=[-1.0, 2.0, 3.0],
        names=["Anna", "Ben", "Anna"],
        values=-3.0,
    )
    assert [(field, index, rule) for field, index, rule, _, _ in found] == [
        ("names", (2,), "must differ from the others"),
        ("weights", (0, 1), "must be finite"),
        ("weights", (2, 0), "must be finite"),
        ("weights", (1, 1), "must be at least zero"),
        ("costs", (0,), "must be positive"),
        ("costs", (2,), "must be positive"),
        ("caps", (0,), "must be at least zero"),
        ("values", (), "must be positive"),
    ]


NO_NUMBERS = (True, [1.0, True, 2.0], np.array([True, False, True]), "1", ["1", "2", "3"], np.array([1j, 1.0, 1.0]), 1j)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("field", ["costs", "caps", "values"])
def test_truth_values_texts_and_complex_numbers_are_no_numbers(field: str, given: Any) -> None:
    with pytest.raises(fp.InvalidInput, match=f"^{field} must be a number or one number per member, got "):
        fp.Federation(**(GOOD | {field: given}))


@pytest.mark.parametrize(
    "given",
    [
        np.array(W2) + 0j,
        np.eye(3, dtype=bool),
        np.eye(3).astype(str),
        [[1, 0, True], [0, 1, 0], [0, 0, 1]],
        sp.csr_array(np.eye(3) + 0j),
        sp.csr_array(np.eye(3, dtype=bool)),
    ],
    ids=["complex", "truth values", "texts", "one truth value", "sparse complex", "sparse truth values"],
)
def test_weights_are_real_numbers(given: Any) -> None:
    with pytest.raises(fp.InvalidInput, match=r"^weights must be a square matrix of numbers, got "):
        fp.Federation(**(GOOD | {"weights": given}))


def test_the_first_error_is_raised_and_holds_the_others() -> None:
    changes = {"costs": [0.0, 1.0, -1.0], "caps": [-1.0, 2.0, 3.0]}
    with pytest.raises(fp.InvalidInput, match=r'^costs\[0\] must be positive, got 0 \(member "Anna"\)$') as caught:
        fp.Federation(**(GOOD | changes))
    assert [str(error) for error in caught.value.errors] == list(map(str, errors_of(**(GOOD | changes))))
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize(
    ("family", "parameters", "expected"),
    [
        (fp.PowerLaw, {"beta": [0.1, -0.2, 0.0]}, [("payoff.beta", (1,), -0.2), ("payoff.beta", (2,), 0.0)]),
        (fp.Michaelis, {"half": 0.0}, [("payoff.half", (), 0.0)]),
        (
            fp.Quadratic,
            {"linear": [-1.0, 0.0], "quadratic": [0.0, -2.0]},
            [("costs.linear", (0,), -1.0), ("costs.quadratic", (1,), -2.0)],
        ),
        (fp.Quadratic, {"linear": [0.0, 1.0, 0.0], "quadratic": 0.0}, [("costs", (0,), 0.0), ("costs", (2,), 0.0)]),
    ],
)
def test_parts_of_payoffs_and_costs(family: Any, parameters: dict[str, Any], expected: list[Any]) -> None:
    with pytest.raises(fp.InvalidInput) as caught:
        family(**parameters)
    assert [(error.field, error.index, error.value) for error in caught.value.errors] == expected


def test_without_a_matrix_the_rest_is_held_against_the_names() -> None:
    found = errors(weights=[[1.0, 2.0]], caps=[1.0, 2.0], values=[1.0, 0.0, 2.0])
    assert [(field, index, agent) for field, index, _, _, agent in found] == [
        ("weights", (), None),
        ("caps", (), None),
        ("values", (1,), "Ben"),
    ]


def test_without_a_matrix_and_names_nothing_else_can_be_told() -> None:
    assert [error[0] for error in errors(weights=[[1.0, 2.0]], names=None, caps=-1.0)] == ["weights"]


def test_more_than_two_thousand_members_are_refused() -> None:
    with pytest.raises(fp.InvalidInput, match=r"^names must be at most 2,000 members, got 2,001; ask about"):
        fp.Federation(sp.eye_array(2001, format="csr"), costs=0.1, payoff=fp.Log(), names=list(map(str, range(2001))))
    with pytest.raises(fp.InvalidInput, match="at most 2,000 members"):
        fp.Federation(sp.eye_array(2001, format="csr"), costs=0.1, payoff=fp.Log())
    assert fp.Federation(sp.eye_array(2000, format="csr"), costs=0.1, payoff=fp.Log()).n_agents == 2000


class Hump(fp.Log):
    """More data is worth less beyond y = 50."""

    def slope(self, y: Any) -> Any:
        return super().slope(y) - 1.0 / 51.0


class Steepening(fp.Log):
    """The more data there is, the more one more sample is worth."""

    def curvature(self, y: Any) -> Any:
        return -super().curvature(y)


@pytest.mark.parametrize(("payoff", "label"), [(Hump(), "slope"), (Steepening(), "curvature")])
def test_families_from_outside_must_rise_and_be_concave(payoff: fp.Payoff, label: str) -> None:
    with pytest.raises(fp.InvalidInput, match=f"payoff must rise and be concave.*its {label} at .* has the wrong sign"):
        fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.1, payoff=payoff)
