"""What a node that knows the others' keys answers in one run, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

import fedpact as fp
from fedpact.negotiation.node_memory import NodeMemory

EVERYBODY, PROFILE = [0, 1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0, 5.0]


def sums(about: str = "welfare", *, members: list[int] = EVERYBODY, points: Any = (PROFILE,)) -> dict[str, Any]:
    return {"kind": "sums", "about": about, "members": members, "points": [list(each) for each in points]}


def payment(at: list[float] = PROFILE) -> dict[str, Any]:
    return {"kind": "payment", "about": "prices", "contributions": at, "sums": [0.0] * 5}


def after(*questions: dict[str, Any], knows_keys: bool = True, protocol: str = "") -> NodeMemory:
    memory = NodeMemory(protocol=protocol)
    for question in questions:
        memory = memory.after(question, knows_keys=knows_keys)
    return memory


def test_an_honest_negotiation_in_sums_is_answered() -> None:
    introduced = [{"kind": "introduce", "protocol": "sums"}, {"kind": "key"}]
    found = after(*introduced, sums(), sums(points=[PROFILE, PROFILE]), sums("prices"), sums("prices"), payment())
    assert found == NodeMemory(protocol="sums", mechanism="externality", members=(0, 1, 2, 3, 4), agreed=tuple(PROFILE))
    after(
        *introduced,
        sums(),
        sums("prices"),
        payment(),
        payment(),
        {"kind": "accept", "contributions": PROFILE, "payment": 1.0},
    )


def test_an_honest_price_discovery_is_answered() -> None:
    found = after(
        {"kind": "introduce", "protocol": "price-discovery"},
        {"kind": "prices"},
        {"kind": "messages"},
        {"kind": "accept"},
    )
    assert found.protocol == "price-discovery"


@pytest.mark.parametrize("kind", ["prices", "shares", "messages", "introduce"])
def test_plain_questions_are_not_answered_where_sums_were_begun(kind: str) -> None:
    with pytest.raises(fp.InvalidInput, match="this negotiation is by sums"):
        after({"kind": "introduce", "protocol": "sums"}, {"kind": kind, "protocol": "price-discovery"})


def test_the_owner_names_the_protocol() -> None:
    with pytest.raises(fp.InvalidInput, match="this negotiation is by sums: it does not answer 'introduce'"):
        after({"kind": "introduce", "protocol": "price-discovery"}, protocol="sums")


@pytest.mark.parametrize("members", [[0, 2, 3, 4], [0, 1, 2, 3, 4, 5]])
def test_sums_over_two_sets_would_tell_the_difference(members: list[int]) -> None:
    with pytest.raises(fp.InvalidInput, match="begin another run without"):
        after(sums(), sums(members=members))
    after(sums(), sums(members=members), knows_keys=False)


@pytest.mark.parametrize(
    "asked",
    [
        [sums(), payment()],
        [sums("prices"), payment([9.0] * 5)],
        [sums("prices"), sums("prices", points=[[9.0] * 5])],
        [sums("prices", points=[PROFILE, PROFILE])],
    ],
)
def test_a_payment_is_worked_out_at_the_profile_agreed_alone(asked: list[dict[str, Any]]) -> None:
    with pytest.raises(fp.InvalidInput, match="agreed"):
        after(*asked)


def test_an_unknown_protocol_is_refused_by_name() -> None:
    with pytest.raises(fp.InvalidInput, match="protocol must be one of price-discovery, sums, got 'haggling'"):
        after({"kind": "introduce", "protocol": "haggling"})
