"""Mistakes in the `solve` of mechanisms from outside the package are told as theirs."""

from __future__ import annotations

from typing import Any

import pytest

import fedpact as fp
from consortium import EqualCosts

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
