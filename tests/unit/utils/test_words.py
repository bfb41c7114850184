"""Counts and names in a sentence."""

from __future__ import annotations

import pytest

from fedpact.utils.words import count_text, join_names


@pytest.mark.parametrize(("count", "text"), [(0, "0 agents"), (1, "1 agent"), (1234, "1,234 agents")])
def test_a_count_has_its_noun(count, text):
    assert count_text(count, "agent") == text


@pytest.mark.parametrize(
    ("names", "most", "text"),
    [
        ([], None, ""),
        (["A"], None, "A"),
        (["A", "B"], None, "A and B"),
        (["A", "B", "C"], 3, "A, B and C"),
        (["A", "B", "C", "D"], 2, "A, B and 2 more"),
        (["A", "B"], 1, "A and 1 more"),
    ],
)
def test_names_in_a_sentence(names, most, text):
    assert join_names(names, most=most) == text
