"""The JSON Schema of scenario files, for editors and other programs."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["schema"]


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that scenario files satisfy, TOML files once read into plain data.

    It states all rules but those that tie parts together: that the matrix is square, that lists have one entry per
    agent, that names agree with a weights file.

    Examples
    --------
    >>> schema()["required"]
    ['weights', 'costs', 'payoff']
    """
    document: dict[str, Any] = json.loads(files("fedpact.scenario").joinpath("schema.json").read_text("utf-8"))
    return document
