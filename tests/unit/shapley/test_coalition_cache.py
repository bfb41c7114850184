"""`CoalitionCache`: a dictionary of coalitions that goes to a file and back."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from fedpact.shapley.measured import CoalitionCache
from fedpact.utils.errors import InvalidInput


class TestMapping:
    def test_order_within_a_coalition_does_not_matter(self):
        cache = CoalitionCache({(2, 0): 1.5})
        assert cache[0, 2] == 1.5
        assert (2, 0) in cache and (0,) not in cache and "ab" not in cache
        assert list(cache) == [(0, 2)]
        cache[0, 2] = 2.0
        assert dict(cache) == {(0, 2): 2.0}
        del cache[2, 0]
        assert len(cache) == 0

    def test_missing_coalitions(self):
        with pytest.raises(KeyError, match=r"\(0, 1\)"):
            CoalitionCache()[0, 1]
        with pytest.raises(KeyError):
            del CoalitionCache()[0,]

    def test_numpy_players(self):
        assert CoalitionCache({tuple(np.array([3, 1])): 1.0})[1, 3] == 1.0

    def test_several_outputs(self):
        cache = CoalitionCache({(0,): [1.0, 2.0]})
        assert cache.shape == (2,)
        np.testing.assert_array_equal(cache[0,], [1.0, 2.0])
        with pytest.raises(ValueError, match="read-only"):
            cache[0,][0] = 5.0

    def test_shape_of_numbers_and_of_nothing(self):
        assert CoalitionCache().shape is None
        assert CoalitionCache({(): 1.0}).shape == ()

    def test_repr_is_short(self):
        assert repr(CoalitionCache({(): 1.0})) == "CoalitionCache of 1 coalitions"


class TestRefusals:
    @pytest.mark.parametrize("coalition", [(0, -1), (0.5,), ("a",), 3])
    def test_no_players(self, coalition):
        with pytest.raises(InvalidInput, match="a coalition must hold players counted from 0, got "):
            CoalitionCache({coalition: 1.0})

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (np.nan, "the value of coalition (0, 1) must be finite, got nan"),
            ([1.0, np.inf], "the value of coalition (0, 1) must be finite, got [1.0, inf]"),
            ("high", "the value of coalition (0, 1) must be a number, got 'high'"),
            ([], "the value of coalition (0, 1) must be a number or a list of numbers, got an array of shape (0,)"),
        ],
    )
    def test_no_value(self, value, message):
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            CoalitionCache({(0, 1): value})

    def test_values_of_different_shapes(self):
        message = "every coalition must have as many values as the others: (1,) has shape (2,), others ()"
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            CoalitionCache({(0,): 1.0, (1,): [1.0, 2.0]})


class TestFiles:
    @pytest.mark.parametrize(
        "values", [{}, {(): 0.1, (3, 70): 1.0 / 3.0, (0,): -1e-300}, {(0,): [0.1, 0.2], (1,): [1.0, 2.0]}]
    )
    def test_round_trip(self, values, tmp_path):
        path = tmp_path / "coalitions.json"
        CoalitionCache(values).save(path)
        back = CoalitionCache.load(str(path))
        assert list(back) == [tuple(sorted(coalition)) for coalition in values]
        for coalition, value in values.items():
            np.testing.assert_array_equal(back[coalition], value)

    def test_format(self, tmp_path):
        path = tmp_path / "coalitions.json"
        CoalitionCache({(2, 0): 0.5}).save(path)
        assert json.loads(path.read_text()) == {"coalitions": [{"members": [0, 2], "value": 0.5}]}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[1]", 'the file must hold {"coalitions": [{"members": [...], "value": ...}, ...]}'),
            ('{"coalitions": [{"members": [0]}]}', 'the file must hold {"coalitions": '),
            ('{"coalitions": [{"members": [-1], "value": 1}]}', "a coalition must hold players counted from 0"),
            (
                '{"coalitions": [{"members": [0], "value": null}]}',
                "the value of coalition (0,) must be finite, got nan",
            ),
            (
                '{"coalitions": [{"members": [0, 1], "value": 1}, {"members": [1, 0], "value": 2}]}',
                "coalition (0, 1) appears twice",
            ),
            ("{", "must be valid JSON"),
        ],
    )
    def test_what_is_wrong_with_a_file(self, text, message, tmp_path):
        path = tmp_path / "coalitions.json"
        path.write_text(text)
        with pytest.raises(InvalidInput, match=re.escape(f"{path}: {message}")):
            CoalitionCache.load(path)
