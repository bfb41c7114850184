"""Lines of JSON, and values made plain for them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fedpact.certificates import Verdict
from fedpact.utils.jsonl import jsonable


def strict(record: Any) -> Any:
    """The record through strict JSON and back."""
    return json.loads(json.dumps(record, allow_nan=False))


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.array([[1.0, np.inf], [-np.inf, np.nan]]), [[1.0, "inf"], ["-inf", None]]),
        (np.float64(0.5), 0.5),
        (np.float32(np.inf), "inf"),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (float("nan"), None),
        ((1, "a", None), [1, "a", None]),
        ({"x": (np.int32(1),), 2: Verdict.NOT_REFUTED}, {"x": [1], "2": "not refuted"}),
        (True, True),
        (np.array([]), []),
    ],
)
def test_plain_data(given: Any, plain: Any) -> None:
    result = jsonable(given)
    assert result == plain
    assert type(result) is type(plain)
    strict(result)
