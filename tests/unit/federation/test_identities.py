"""One agent as several and two as one: nothing is created, and the names stay apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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


def test_sparse_weights_stay_sparse() -> None:
    dense = trio()
    split, _ = split_agent(dense.replace(weights=sp.csr_array(dense.weights)), "B", 3)
    assert split.is_sparse
    np.testing.assert_array_equal(split.dense_weights(), split_agent(dense, "B", 3)[0].weights)


def test_names_of_parts_do_not_collide() -> None:
    split, posing = split_agent(trio(names=["A", "A (1)", "A (2)"]), "A")
    assert len(set(split.names)) == 4
    assert split.names[2:] == ("A (1)", "A (2)")
    assert posing == slice(0, 2)


@pytest.mark.parametrize("cost", [0.02, fp.Quadratic(0.01, 0.004), fp.Quadratic(0.0, 0.004)])
@pytest.mark.parametrize("cap", [7.0, np.inf])
def test_merging_undoes_splitting(cost: object, cap: float) -> None:
    federation = trio(costs=cost, caps=cap)
    split, posing = split_agent(federation, "B")
    merged, place = merge_agents(split, (posing.start, posing.start + 1))
    assert place == 1
    assert merged.names == ("A", "B (1) + B (2)", "C")
    assert merged.replace(names=federation.names) == federation


def test_merged_quadratic_costs_are_the_cheapest_way_to_share() -> None:
    alike = fp.Federation(
        np.ones((2, 2)), costs=fp.Quadratic(0.01, [0.001, 0.003]), caps=[9.0, 3.0], payoff=fp.Log(), values=[1.0, 2.0]
    )
    merged, _ = merge_agents(alike, (0, 1))
    for total in (1.0, 5.0, 12.0):
        own = np.linspace(0.0, total, 4001)
        inside = (own <= 9.0) & (total - own <= 3.0)
        apart = np.stack([own, total - own], axis=1)[inside]
        cheapest = alike.costs.value(apart).sum(axis=1).min()
        np.testing.assert_allclose(merged.costs.value(np.array([total]))[0], cheapest, rtol=1e-6)
    assert merged.values.tolist() == [3.0]
    assert merged.caps.tolist() == [12.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [[1.0, 1.0], [0.5, 0.5]]}, "draw on data with different weights"),
        ({"weights": [[1.0, 0.5], [1.0, 0.5]]}, "data of different use"),
        ({"payoff": fp.PowerLaw([0.1, 0.2])}, "different payoff curves"),
        ({"costs": [0.01, 0.02]}, "no single linear or quadratic cost"),
        ({"costs": fp.Quadratic(0.01, [0.001, 0.0])}, "no single linear or quadratic cost"),
        ({"costs": fp.Quadratic(0.01, [0.001, 0.003]), "caps": 5.0}, "no single linear or quadratic cost"),
    ],
)
def test_agents_that_one_could_not_stand_for_are_refused(changes: dict[str, object], message: str) -> None:
    parts = {"weights": np.ones((2, 2)), "costs": 0.01, "payoff": fp.PowerLaw(0.1), "names": ["A", "B"]}
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        merge_agents(fp.Federation(**(parts | changes)), ("A", "B"))
    assert caught.value.field == "pair"


@pytest.mark.parametrize(("agent", "parts"), [("D", 2), (3, 2), (-1, 2), (True, 2), ("A", 1), ("A", 2.5), ("A", True)])
def test_wrong_arguments_are_named(agent: object, parts: object) -> None:
    field = "parts" if agent == "A" else "agent"
    with pytest.raises(fp.InvalidInput) as caught:
        split_agent(trio(), agent, parts)
    assert caught.value.field == field
    for pair in (("A", "A"), ("A",), "AB"):
        with pytest.raises(fp.InvalidInput, match="two"):
            merge_agents(trio(), pair)
