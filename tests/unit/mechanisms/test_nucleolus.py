"""Nucleolus: the division furthest from losing a group, as an equilibrium."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp


def test_more_members_than_groups_can_be_searched() -> None:
    many = fp.Federation(np.eye(17), costs=0.01, caps=5.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="federation must have at most 16 members for the mechanism nucleolus"):
        fp.Nucleolus().solve(many)
