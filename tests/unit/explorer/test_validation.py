"""Every wrong field has its error, in the words of the library; right ones have none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.explorer.draft import draft_of
from fedpact.explorer.validation import read_draft, typed_number
from fedpact.scenario import example


def typed(own_curves=False, **changes):
    draft = draft_of(example("hospitals"))
    return replace(draft, own_curves=own_curves, texts={**draft.texts, **changes})


def errors(**changes):
    reading = read_draft(typed(**changes))
    assert (reading.scenario is None) == bool(reading.errors)
    return reading.errors


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("1", 1.0),
        (" 1.5 ", 1.5),
        ("1e-3", 0.001),
        ("2.4E-5", 2.4e-5),
        ("−0.5", -0.5),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("1 000", 1000.0),
        ("0,5", 0.5),
        ("1.234,5", 1234.5),
        ("1\u202f000.5", 1000.5),
    ],
)
def test_numbers_as_people_type_them(given, number):
    assert typed_number(given) == number


@pytest.mark.parametrize("given", ["", "  ", "x", "1.2.3", "nan", "inf", "1_000", "0x10", "--1", "1e", "½", "٣"])
def test_what_is_no_number_is_refused(given):
    with pytest.raises(fp.InvalidInput, match="must be a number"):
        typed_number(given)


@pytest.mark.parametrize("given", ["20.000", "20,000"])
def test_what_may_be_two_numbers_is_refused_with_both(given):
    with pytest.raises(fp.InvalidInput, match="can be read as 20 or as 20000; write 20 or 20000"):
        typed_number(given)


@pytest.mark.parametrize(
    ("field", "text", "rule"),
    [
        ("names[1]", " ", "must not be blank"),
        ("names[1]", "University", "must differ from the others"),
        ("costs[0]", "-1", "must be at least zero, got -1"),
        ("costs[0]", "cheap", "must be a number"),
        ("quadratic[2]", "-0.1", "must be at least zero"),
        ("caps[4]", "-3", "must be at least zero, got -3"),
        ("values[0]", "0", "must be positive, got 0"),
        ("weights[0,1]", "1e999", "must be finite"),
        ("weights[2,2]", "-1", "must be at least zero"),
        ("weights[4,0]", "", "nothing is typed"),
        ("payoff.beta", "0", "must be positive"),
        ("money.per_payoff", "-1", "must be a positive number"),
        ("money.currency", " ", "must be a non-empty text"),
        ("money.per_payoff", "", "nothing is typed"),
        ("family", "cubic", "must be one of power-law"),
    ],
)
def test_an_error_stands_at_its_field(field, text, rule):
    found = errors(**{field: text})
    assert set(found) == {field}
    assert rule in found[field]
    assert '(member "' not in found[field]  # the field says whose it is


def test_all_errors_are_found_at_once():
    wrong = {
        "names[0]": "",
        "names[3]": "City",
        "costs[0]": "x",
        "costs[1]": "-1",
        "quadratic[1]": "-1",
        "caps[2]": "-1",
        "caps[3]": "",
        "values[4]": "-1",
        "weights[0,1]": "a",
        "weights[1,0]": "1e400",
        "weights[3,3]": "-1",
        "payoff.beta": "-1",
        "money.per_payoff": "0",
    }
    assert set(errors(**wrong)) == set(wrong)


def test_an_empty_draft_has_errors_and_no_exception():
    found = read_draft(replace(typed(), texts={}))
    assert found.scenario is None and "names[0]" in found.errors and "family" in found.errors


def test_free_data_is_refused_at_the_cost():
    found = errors(**{"costs[1]": "0", "quadratic[1]": "0"})
    assert set(found) == {"costs[1]"} and "cost and rising cost are both 0" in found["costs[1]"]


@pytest.mark.parametrize("text", ["unlimited", "inf", "∞", " Infinity ", "1e999"])
def test_caps_may_be_unlimited(text):
    reading = read_draft(typed(**{"caps[0]": text, "home[0]": "120"}))
    assert reading.scenario is not None and np.isposinf(reading.scenario.federation.caps[0])


def test_own_curves_have_a_field_for_every_member():
    changes = {f"payoff.beta[{agent}]": f"0.{agent + 1}" for agent in range(5)}
    reading = read_draft(typed(own_curves=True, **changes))
    assert reading.scenario is not None
    np.testing.assert_array_equal(reading.scenario.federation.payoff.beta, [0.1, 0.2, 0.3, 0.4, 0.5])
    wrong = read_draft(typed(own_curves=True, **changes | {"payoff.beta[3]": "-1", "payoff.beta": "ignored"}))
    assert set(wrong.errors) == {"payoff.beta[3]"}


def test_a_text_no_file_can_hold_is_refused_at_its_field():
    assert set(errors(title="\ud800")) == {"title"}
