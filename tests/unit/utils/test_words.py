"""Counts and names in a sentence."""

from __future__ import annotations

import pytest

from fedpact.utils.words import count_text, join_names, printable


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
        (["A", "B"], 1, "A and B"),
    ],
)
def test_names_in_a_sentence(names, most, text):
    assert join_names(names, most=most) == text


def test_control_characters_are_spelled_out_and_letters_are_not():
    assert (
        printable("Z\u00fcrich \u6771\u4eac \U0001f469\u200d\u2695\ufe0f")
        == "Z\u00fcrich \u6771\u4eac \U0001f469\u200d\u2695\ufe0f"
    )
    assert printable("\x1b[31mred\x9b\x07\r\n\u202e") == r"\x1b[31mred\x9b\x07\r\n\u202e"
    assert printable("a\nb\t", keep="\n") == "a\nb" + r"\t"
