"""Agents with several lots of data and several tasks: who owns what, and sums over it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpact as fp
from cases import errors_of

WEIGHTS = np.array([[1.0, 0.4, 0.5], [0.2, 0.0, 1.0], [0.1, 0.9, -0.1]])
LOTS: dict[str, Any] = {
    "weights": WEIGHTS,
    "lot_owners": ["North", "North", "South"],
    "task_owners": ["North", "South", "South"],
    "lot_names": ["new device", "old device", "X-rays"],
    "task_names": ["adults", "adults", "children"],
    "costs": [0.01, 0.02, 0.03],
    "caps": [10.0, 20.0, 30.0],
    "values": [1.0, 2.0, 3.0],
    "payoff": fp.PowerLaw(beta=[0.1, 0.2, 0.3]),
}
S = np.array([1.0, 2.0, 3.0])


def test_who_owns_what() -> None:
    fed = fp.Federation(**LOTS)
    assert (fed.names, fed.n_agents, fed.n_lots, fed.n_tasks, fed.has_lots) == (("North", "South"), 2, 3, 3, True)
    assert fed.lots_of(0).tolist() == [0, 1] and fed.tasks_of(1).tolist() == [1, 2]
    assert fed.lot_labels == ("North: new device", "North: old device", "South: X-rays")
    assert "2 agents, 3 lots, 3 tasks" in repr(fed)


def test_payoffs_and_costs_are_sums_over_what_an_agent_owns() -> None:
    fed = fp.Federation(**LOTS)
    reach = 1.0 + WEIGHTS @ S
    tasks = np.array([1.0, 2.0, 3.0]) * (1.0 - reach ** -np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(fed.task_payoffs(S), tasks, rtol=1e-14)
    np.testing.assert_allclose(fed.payoffs(S), [tasks[0], tasks[1] + tasks[2]], rtol=1e-14)
    np.testing.assert_allclose(fed.spending(S), [0.01 + 0.04, 0.09], rtol=1e-14)
    assert fed.welfare(S) == pytest.approx(tasks.sum() - 0.14, rel=1e-14)
    slopes = fed.marginal_payoffs(S)
    others = [WEIGHTS[1:, 0] @ slopes[1:], WEIGHTS[1:, 1] @ slopes[1:], WEIGHTS[0, 2] * slopes[0]]
    np.testing.assert_allclose(fed.net_externality(S), others, rtol=1e-13)


def test_some_of_the_agents_bring_their_lots_and_tasks() -> None:
    fed = fp.Federation(**LOTS)
    swapped = fed.take([1, 0])
    assert swapped.names == ("South", "North") and swapped.lot_owners.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(swapped.payoffs(S[[2, 0, 1]]), fed.payoffs(S)[[1, 0]])
    south = fed.take([1])
    assert south.weights.tolist() == [[1.0], [-0.1]] and south.lot_names == ("X-rays",)


def test_one_of_each_is_a_plain_federation() -> None:
    plain = fp.Federation(np.eye(2), costs=0.1, payoff=fp.Log(), names=["A", "B"])
    owned = fp.Federation(
        np.eye(2), costs=0.1, payoff=fp.Log(), lot_owners=["A", "B"], task_owners=["A", "B"], names=["A", "B"]
    )
    assert not owned.has_lots and owned == plain and owned.fingerprint == plain.fingerprint
    assert plain.lot_names == plain.task_names == ("A", "B")
    assert plain.replace(names=["C", "D"]).lot_names == ("C", "D")
    named = plain.replace(lot_names=["X-rays", "scans"])
    assert named.fingerprint != plain.fingerprint and named.replace(caps=3.0).lot_names == ("X-rays", "scans")


def test_own_data_may_be_useless_where_owners_are_given() -> None:
    """Where each has one lot and one task it is the plain federation, in which own data may be of no use too."""
    weights = [[0.0, 1.0], [1.0, 0.5]]
    owned = fp.Federation(weights, costs=0.1, payoff=fp.Log(), lot_owners=["A", "B"])
    assert owned == fp.Federation(weights, costs=0.1, payoff=fp.Log(), names=["A", "B"]) and not owned.has_lots
    np.testing.assert_array_equal(owned.without_sharing().data([1.0, 2.0]), [0.0, 1.0])


def test_owners_and_names_are_part_of_the_fingerprint() -> None:
    fed = fp.Federation(**LOTS)
    assert fed == fp.Federation(**LOTS) and fed.replace(caps=LOTS["caps"]) == fed
    other = fp.Federation(**(LOTS | {"lot_owners": ["North", "South", "South"]}))
    assert len({fed.fingerprint, other.fingerprint, fed.replace(lot_names=["a", "b", "c"]).fingerprint}) == 3


def test_names_and_owners_that_are_not_given() -> None:
    fed = fp.Federation([[1.0, 0.2, 0.5], [0.3, 0.1, 1.0]], lot_owners=[0, 0, 1], costs=0.1, payoff=fp.Log())
    assert fed.names == ("agent 0", "agent 1") and fed.task_owners.tolist() == [0, 1]
    assert fed.lot_names == ("agent 0 1", "agent 0 2", "agent 1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lot_owners": ["North", "East", "South"], "names": ["North", "South"]}, "lot_owners[1] must be one of the"),
        ({"lot_owners": ["North", "South"]}, "lot_owners must name an owner for each of the 3 columns, got 2"),
        ({"lot_owners": 7}, "lot_owners must name an owner for each of the 3 columns, got 7"),
        ({"task_owners": None}, "task_owners is missing: 3 rows of weights, 2 members; say whose"),
        ({"lot_names": ["a", "a", "b"]}, 'lot_names[1] must differ from the owner\'s others, "a" appears twice'),
        ({"task_names": ["a"]}, "task_names must have one entry per task: 3 rows, 1 names given"),
        ({"names": ["North", "South", "West"]}, "names[2] must own a lot or a task: it owns neither"),
        ({"caps": [1.0, 2.0]}, "caps must be a number or one number per lot: 3 lots, 2 numbers given"),
        ({"costs": [0.1, -1.0, 0.1]}, 'costs[1] must be positive, got -1 (lot "North: old device")'),
        ({"values": [1.0, 0.0, 1.0]}, 'values[1] must be positive, got 0 (task "South: adults")'),
        ({"weights": np.full((3, 3), np.nan)}, 'weights[0, 0] must be finite, got nan (what "North: new device"'),
        ({"weights": np.zeros(3)}, "weights must be a matrix with a row per task and a column per lot"),
    ],
)
def test_errors_say_which_lot_or_task(changes: dict[str, Any], message: str) -> None:
    found = [str(error) for error in errors_of(**(LOTS | changes))]
    assert any(text.startswith(message) for text in found), found


def test_all_errors_are_told_at_once() -> None:
    found = errors_of(**(LOTS | {"costs": -1.0, "caps": [1.0, -2.0, 3.0], "values": 0.0}))
    assert [error.field for error in found] == ["costs", "caps", "values"]


def test_contributions_are_checked_per_lot() -> None:
    with pytest.raises(
        fp.InvalidInput, match=r'contributions\[1\] must lie between 0 and the cap 20, got 21 \(lot "No'
    ):
        fp.Federation(**LOTS).checked_contributions([0.0, 21.0, 0.0])
