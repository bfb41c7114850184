"""Results by name."""

from __future__ import annotations

import pytest

from fedpact.paper import results
from fedpact.paper.results import number, numbers, span, within
from fedpact.utils.errors import InvalidInput


def test_names_are_those_of_the_paper() -> None:
    assert list(results.RESULTS) == [
        "fig1",
        "fig2",
        "fig3",
        "table1",
        "fig4",
        "fig5",
        "theorems",
    ]
    usual = [name for name in results.RESULTS if name not in results.ON_REQUEST]
    assert results.choose_results([]) == results.choose_results(["all"]) == usual
    assert results.choose_results(["fig5", "fig1", "fig5"]) == ["fig1", "fig5"]


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(InvalidInput, match="there is no result 'fig9'; there are fig1, fig2, fig3, table1, fig4"):
        results.choose_results(["fig1", "fig9"])


def test_numbers_in_words() -> None:
    assert number(-0.0004, ".2f") == "0.00"
    assert numbers([1.0, -2.5]) == "(1, −2.5)"
    assert span([3.0, 1.0]) == "1 to 3"
    assert span([]) == "nothing"
    assert within(1e-13) == "less than 1e−12"
    assert within(float("nan")) == number(float("nan")) == "undefined"
    assert number(float("-inf")) == "−∞"
