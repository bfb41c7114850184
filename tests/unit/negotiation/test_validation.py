"""What makes an answer broken, by what the agent is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpact.negotiation.validation import (
    BadAnswer,
    Introduction,
    Layout,
    ProfileAnswer,
    Withdrawal,
    check_answer,
    read_answer,
    read_introduction,
    read_profile,
)

QUESTION = {"number": 7, "kind": "prices"}
USES = np.array([True, True, False])
MINE = Introduction(layout=Layout((0, 1, 2)), caps=np.array([np.inf]), task_uses=(USES,))
AT = np.array([3.0, 1.0, 2.0])
# a = log(1 + s_0 + 2 s_1), cost 0.1 s_0, at s = (3, 1, 2).
HONEST: dict[str, Any] = {
    "number": 7,
    "payoff": float(np.log(6.0)),
    "prices": [1 / 6, 2 / 6, 0.0],
    "curvature": 1.0,
    "cost": 0.3,
    "marginal_cost": 0.1,
    "cost_curvature": 0.0,
}
AT_NOTHING = HONEST | {"payoff": 0.0, "prices": [1.0, 2.0, 0.0], "cost": 0.0}


def read(answer: dict[str, Any], at: np.ndarray = AT, earlier: tuple[ProfileAnswer, ...] = ()) -> ProfileAnswer:
    """An answer about one task and one lot, given flat."""
    costs = {key: answer.get(key, HONEST[key]) for key in ("cost", "marginal_cost", "cost_curvature")}
    return read_profile(
        {
            "number": 7,
            "tasks": [answer],
            "lots": [costs | {"cost": 0.1 * float(at[0])} if "outside" in answer else costs],
        },
        at,
        MINE,
        [each for each in earlier if not each.outside],
        index=0,
        n_agents=3,
        shares=False,
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "no answer in time"),
        ("yes", "not an answer but str"),
        ([HONEST], "not an answer but list"),
        ({}, "answers question None instead of 7"),
        (HONEST | {"number": 6}, "answers question 6 instead of 7"),
        (HONEST | {"number": "7"}, "answers question '7' instead of 7"),
        (HONEST | {"number": 7.0}, "answers question 7.0 instead of 7"),
        (HONEST | {"number": np.array([7, 7])}, "answers question array"),
        ({"number": 7, "error": "disk full"}, "fails to answer: disk full"),
    ],
)
def test_what_answers_no_question(raw: Any, message: str) -> None:
    with pytest.raises(BadAnswer, match=message):
        check_answer(raw, QUESTION)


def test_leaving_needs_no_number() -> None:
    with pytest.raises(Withdrawal):
        check_answer({"leave": True}, QUESTION)
    assert check_answer(HONEST | {"leave": False}, QUESTION)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"payoff": None}, "payoff must be a finite number, got None"),
        ({"payoff": float("nan")}, "payoff must be a finite number, got nan"),
        ({"payoff": 1e300}, "payoff must be a finite number, got 1e[+]300"),
        ({"payoff": 10**5000}, "payoff must be a finite number, got an integer of 16610 bits"),
        ({"payoff": True}, "payoff must be a finite number, got True"),
        ({"curvature": -1.0}, "curvature must be at least 0, got -1"),
        ({"marginal_cost": "0.1"}, "marginal_cost must be a finite number, got '0.1'"),
        ({"prices": None}, "prices must list 3 numbers, got none"),
        ({"prices": [1.0, 2.0]}, "prices must list 3 numbers, got 2"),
        ({"prices": [1.0, float("inf"), 0.0]}, r"prices\[1\] must be a finite number, got inf"),
        ({"prices": [0.1, [1.0], 0.0]}, r"prices\[1\] must be a finite number, got \[1.0\]"),
        ({"prices": [0.1, 0.2, 0.3]}, "names a price for data that does not matter to it"),
        ({"prices": [-0.1, 0.2, 0.0]}, "its own data harms it"),
        ({"marginal_cost": 0.0, "cost": 0.0}, "contributing without end costs nothing"),
        ({"cost": 0.5}, "its samples cost it more than they do at the margin"),
        ({"payoff": 0.5}, "its payoff is less than its prices make it"),
    ],
)
def test_answers_about_prices_that_cannot_be(change: dict[str, Any], message: str) -> None:
    assert read(HONEST).tasks[0].payoff == HONEST["payoff"]
    with pytest.raises(BadAnswer, match=message):
        read(HONEST | change)


def test_contributing_nothing_is_worth_nothing_and_always_inside() -> None:
    nothing = np.zeros(3)
    assert read(AT_NOTHING, nothing).tasks[0].payoff == 0.0
    with pytest.raises(BadAnswer, match="contributing nothing is outside the domain"):
        read({"outside": True}, nothing)
    with pytest.raises(BadAnswer, match="its payoff is less than its prices make it"):
        read(AT_NOTHING | {"payoff": 5.0}, nothing)
    with pytest.raises(BadAnswer, match="its samples cost it more"):
        read(AT_NOTHING | {"cost": 1.0}, nothing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"prices": [1.0, 2.0, 0.0], "payoff": 6.0}, "its payoff does not change as it says"),
        ({"prices": [1 / 7, 3 / 7, 0.0]}, "other proportions"),
        ({"prices": [1 / 6, 2 / 6, 0.0], "payoff": HONEST["payoff"]}, "its payoff does not change as it says"),
        ({"cost": 0.3, "marginal_cost": 0.1}, "its cost does not change as it says"),
    ],
)
def test_answers_that_contradict_an_earlier_one(change: dict[str, Any], message: str | None) -> None:
    """From s = (3, 1, 2) to (4, 1, 2); an old answer under a new number is one of them."""
    before, there = read(HONEST), AT + np.array([1.0, 0.0, 0.0])
    answer = HONEST | {"payoff": float(np.log(7.0)), "prices": [1 / 7, 2 / 7, 0.0], "cost": 0.4} | change
    if message is None:
        assert read(answer, there, (before,)).tasks[0].payoff == answer["payoff"]
    else:
        with pytest.raises(BadAnswer, match=message):
            read(answer, there, (before,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caps": [-1.0]}, "cap must be at least 0, got -1"),
        ({"caps": [float("nan")]}, "cap must be a finite number, got nan"),
        ({"caps": ["much"]}, "cap must be a finite number, got 'much'"),
        ({"caps": []}, "caps must have an entry for each of its lots, 1 in all"),
        ({"tasks": ["all"]}, "tasks must list lots by number"),
        ({"tasks": [[0, 3]]}, "from 0 to 2, got"),
        ({"tasks": [[0, True]]}, "tasks must list lots by number"),
        ({"tasks": [[0, 0]]}, "each of the lots once"),
        ({"tasks": [[0], [1]]}, "tasks must have one entry"),
        ({"lot_owners": [0, 1, 9]}, "lot_owners must list a member by number"),
        ({"lot_owners": [0, 0, 1]}, "lot_names must name each of the 3 lots"),
    ],
)
def test_introductions(change: dict[str, Any], message: str) -> None:
    raw = {"caps": ["inf"], "tasks": [[0, 2]], "lot_owners": [0, 1, 2]}
    met = read_introduction(raw, 0, 3)
    assert met.caps.tolist() == [np.inf]
    assert [each.tolist() for each in met.task_uses] == [[True, False, True]]
    assert read_introduction(raw | {"caps": [float("inf")]}, 0, 3).caps.tolist() == [np.inf]
    with pytest.raises(BadAnswer, match=message):
        read_introduction(raw | change, 0, 3)


def final(raw: dict[str, Any], proposals: np.ndarray, prices: np.ndarray) -> None:
    read_answer("messages", raw, proposals=proposals, prices=prices)


def test_final_messages_are_those_agreed() -> None:
    proposals, prices = np.array([1.0, 2.0, 9.0]), np.array([0.0, 5.0, 1.0])
    final({"proposals": [1.0, 2.0, 9.0], "prices": [0.0, 5.0 + 1e-12, 1.0]}, proposals, prices)
    with pytest.raises(BadAnswer, match="its final proposals are not those that were agreed"):
        final({"proposals": [1.0, 2.1, 9.0], "prices": [0.0, 5.0, 1.0]}, proposals, prices)
    with pytest.raises(BadAnswer, match="its final prices are not those that were agreed"):
        final({"proposals": [1.0, 2.0, 9.0], "prices": [0.0, 5.0, 1.1]}, proposals, prices)
    final({"proposals": [0.0], "prices": [0.0]}, np.zeros(1), np.zeros(1))
