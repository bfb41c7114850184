"""Mistakes of mechanisms from outside the package are told as theirs; fedpact's own are left as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpact as fp
from consortium import EqualCosts
from fedpact.certificates.deviations import Deviations

PAIR = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))


class Odd(EqualCosts):
    """Each method does what it is told."""

    name = "odd"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def solve(self, federation: fp.Federation) -> Any:
        return self._tell(super().solve(federation))

    def _tell(self, usual: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return usual if self.answer == "as usual" else self.answer


class OddPayments(Odd):
    def payments(self, arrays: Any, contributions: Any) -> Any:
        return self._tell(super().payments(arrays, contributions))


class OddDeviations(Odd):
    def deviations(self, federation: fp.Federation, contributions: Any) -> Deviations:
        return self._tell(super().deviations(federation, contributions))


def test_what_is_right_passes() -> None:
    expected = EqualCosts().solve(PAIR)
    for kind in (Odd, OddPayments):
        found = kind("as usual").solve(PAIR)
        np.testing.assert_array_equal(found.payments, expected.payments)
        assert found.certificates["nash"].verdict is expected.certificates["nash"].verdict


@pytest.mark.parametrize("answer", [None, 3.0, "nothing", {}])
def test_solve_returns_an_outcome(answer: Any) -> None:
    for ask in (
        lambda rules: rules.solve(PAIR),
        lambda rules: fp.compare(PAIR, [rules]),
        lambda rules: fp.solve_batch([PAIR], rules),
        lambda rules: fp.stable_federation(PAIR, rules),
    ):
        with pytest.raises(fp.MechanismError, match=r"test_outside:Odd\.solve must return an Outcome, got"):
            ask(Odd(answer))


def test_other_errors_name_the_method_and_keep_their_cause() -> None:
    with pytest.raises(fp.MechanismError, match=r"Odd\.solve failed: KeyError: 'lost'") as caught:
        Odd(KeyError("lost")).solve(PAIR)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [fp.InvalidInput("no"), fp.NotConverged("no"), ZeroDivisionError("no")])
def test_a_federation_without_a_solution_is_no_mistake_of_the_mechanism(error: Exception) -> None:
    with pytest.raises(type(error), match="no"):
        Odd(error).solve(PAIR)
    assert "no" in str(fp.solve_batch([PAIR], Odd(error)).errors[0])


@pytest.mark.parametrize("answer", [None, 0.0, [1.0, 2.0, 3.0], ["a", "b"], [None, None]])
def test_payments_are_a_number_per_agent(answer: Any) -> None:
    with pytest.raises(fp.MechanismError, match=r"OddPayments\.payments must return 2 numbers, one per member"):
        OddPayments(answer).payments(PAIR.arrays, np.ones(2))


def test_deviations_are_what_certificates_read() -> None:
    outcome = EqualCosts().solve(PAIR)
    spoiled = OddDeviations(None).outcome_at(PAIR, outcome.contributions, outcome.payments)
    with pytest.raises(fp.MechanismError, match=r"OddDeviations\.deviations must return a Deviations, got None"):
        _ = spoiled.certificates["nash"]


def test_the_own_mechanisms_are_not_guarded() -> None:
    assert not hasattr(fp.ShapleyMechanism.deviations, "__wrapped__")
    assert hasattr(EqualCosts.deviations, "__wrapped__")
