"""One agent as several: nothing is created, and the names stay apart."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.splitting import split_agent

ROUNDING = 1e-14


def trio(**changes: object) -> fp.Federation:
    parts = {
        "weights": [[1.0, 0.4, -0.1], [0.2, 2.0, 0.5], [0.7, 0.1, 1.5]],
        "costs": fp.Quadratic([0.01, 0.02, 0.03], [0.001, 0.0, 0.002]),
        "caps": [10.0, np.inf, 6.0],
        "payoff": fp.PowerLaw([0.5, 0.6, 0.7]),
        "values": [1.0, 2.0, 3.0],
        "names": ["A", "B", "C"],
    }
    return fp.Federation(**(parts | changes))


@pytest.mark.parametrize("agent", [0, 1, 2])
@pytest.mark.parametrize("parts", [2, 5])
def test_an_even_split_changes_nobodys_numbers(agent: int, parts: int) -> None:
    federation = trio()
    contributions = np.array([3.0, 2.0, 1.0])
    split, posing = split_agent(federation, agent, parts)
    counts = np.where(np.arange(3) == agent, parts, 1)
    even = np.repeat(contributions / counts, counts)
    for numbers, before in (
        (split.payoffs(even), federation.payoffs(contributions)),
        (split.costs.value(even), federation.costs.value(contributions)),
        (split.values, federation.values),
        (split.caps, federation.caps),
    ):
        np.testing.assert_allclose(numbers[posing].sum(), before[agent], rtol=ROUNDING)
        np.testing.assert_allclose(np.delete(numbers, posing), np.delete(before, agent), rtol=ROUNDING)


def test_names_of_parts_tell_them_from_other_members() -> None:
    split, posing = split_agent(trio(names=["A", "A (1)", "A (2)"]), "A")
    assert len(set(split.names)) == 4
    assert split.names[2:] == ("A (1)", "A (2)")
    assert posing == slice(0, 2)


@pytest.mark.parametrize(("agent", "parts"), [("D", 2), (3, 2), (-1, 2), (True, 2), ("A", 1), ("A", 2.5), ("A", True)])
def test_wrong_arguments_are_named(agent: object, parts: object) -> None:
    field = "parts" if agent == "A" else "agent"
    with pytest.raises(fp.InvalidInput) as caught:
        split_agent(trio(), agent, parts)
    assert caught.value.field == field
