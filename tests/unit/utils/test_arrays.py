"""Numbers per agent: copied, frozen, and refused with a message that names the entry and the agent."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedpact.utils.arrays import checked_numbers, first_where, non_negative, positive, read_only_copy
from fedpact.utils.errors import InvalidInput

NAMES = ["Anna", "Ben", "Cleo"]


def test_frozen_copies_and_locks():
    original = np.array([1, 2, 3])
    copy = read_only_copy(original)
    assert copy.dtype == np.float64
    assert not np.shares_memory(original, copy)
    with pytest.raises(ValueError, match="read-only"):
        copy[0] = 5.0


def test_first_where_is_none_without_a_hit():
    assert first_where(np.array([False, True, True])) == 1
    assert first_where(np.array([False, False])) is None


@pytest.mark.parametrize("accepts", [positive, non_negative])
def test_infinities_and_nan_are_neither_positive_nor_non_negative(accepts):
    assert not accepts(np.array([np.inf, -np.inf, np.nan, -1.0])).any()


def test_zero_is_not_negative_and_not_positive():
    assert non_negative(np.array([0.0])).all()
    assert not positive(np.array([0.0])).any()


def test_one_number_stays_one_number():
    numbers = checked_numbers("costs", 2, positive, "positive", names=NAMES)
    assert numbers.shape == ()
    assert not numbers.flags.writeable


def test_given_array_is_copied():
    given = np.array([1.0, 2.0, 3.0])
    numbers = checked_numbers("costs", given, positive, "positive", names=NAMES)
    given[0] = -1.0
    np.testing.assert_array_equal(numbers, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        (-0.5, NAMES, "costs must be positive, got -0.5"),
        ([1.0, 2.0, -0.5], NAMES, 'costs[2] must be positive, got -0.5 (member "Cleo")'),
        ([1.0, 2.0, -0.5], None, "costs[2] must be positive, got -0.5"),
        ([1.0, 2.0], NAMES, "costs must be a number or one number per member: 3 members, 2 numbers given"),
        ([[1.0, 2.0]], NAMES, "costs must be a number or one number per member, got an array of shape (1, 2)"),
        ("many", NAMES, "costs must be a number or one number per member, got 'many'"),
        ([1.0, [2.0]], NAMES, "costs must be a number or one number per member, got [1.0, [2.0]]"),
        ([1.0, np.nan, 2.0], NAMES, 'costs[1] must be positive, got nan (member "Ben")'),
    ],
)
def test_refusals_name_the_entry_the_rule_and_the_agent(given, names, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        checked_numbers("costs", given, positive, "positive", names=names)
