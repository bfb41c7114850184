"""A coordinator that breaks the protocol of sums learns nothing from real nodes that know each other's keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord

import fedpact as fp
from fedpact.deals import Ledger
from fedpact.deals.signatures import stated_keys
from fedpact.flower.run import SignedRun, begin_run
from fedpact.flower.server import FlowerChannel
from fedpact.negotiation import PROTOCOLS, coordinate
from fedpact.negotiation.session import ProtocolResult, Session, SettledBy
from fedpact.negotiation.sums import _Exchange
from fedpact.scenario import example
from fedpact.utils.arrays import FloatArray
from unit.flower.in_process import Stage
from unit.flower.test_run_negotiation import keys_by_name

FEDERATION = example("hospitals").federation
AT = 0.3 * FEDERATION.caps


class Coordinator:
    """Asks the nodes of a run whatever it likes; `exchange` is how an honest one asks for sums."""

    def __init__(self, folder: Path, federation: fp.Federation = FEDERATION, **config: Any) -> None:
        folder.mkdir(exist_ok=True)
        keys = keys_by_name(federation, folder / "keys")
        self.stage = Stage(federation, folder / "run", node_config={place: keys[place] | config for place in keys})
        grid = self.stage.grid()
        with Ledger(folder / "ledger.jsonl") as ledger:
            begin_run(ledger, {})
            self.channel = FlowerChannel(SignedRun(grid, ledger, FEDERATION.names, timeout=0.02, patience=0.0))
        self.number = 1000

    def ask(self, place: int, question: Mapping[str, Any]) -> dict[str, Any]:
        """One node's answer; why it gives none is its error."""
        self.number += 1
        return dict(self.channel.ask({place: {**question, "number": self.number}})[place])

    def again(self) -> Coordinator:
        """Of nodes that are started anew: they forget what they have answered, and keep what their masks are of."""
        for node in self.channel._run.grid.nodes.values():
            kept = json.loads(str(node.context.state["fedpact"]["json"]))
            kept["memory"] = kept["memory"] | {"agreed": [], "mechanism": ""}
            node.context.state["fedpact"] = ConfigRecord({"json": json.dumps(kept)})
        return self

    def begin(self) -> _Exchange:
        session = Session(self.channel, None)
        session.introduce("sums", "externality", tells_uses=False)
        return _Exchange(session)


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator(tmp_path)


def refusal(answer: Mapping[str, Any]) -> str:
    assert set(answer) == {"number", "error"}, answer
    return str(answer["error"])


def test_plain_questions_are_refused_where_sums_are_negotiated(coordinator: Coordinator) -> None:
    coordinator.begin()
    for kind in ("prices", "shares"):
        answer = coordinator.ask(1, {"kind": kind, "contributions": AT.tolist()})
        assert "this negotiation is by sums" in refusal(answer)


def test_a_node_whose_owner_wants_sums_answers_nothing_else(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path, protocol="sums")
    assert "this negotiation is by sums" in refusal(
        coordinator.ask(1, {"kind": "introduce", "protocol": "price-discovery"})
    )
    assert "this negotiation is by sums" in refusal(
        coordinator.ask(1, {"kind": "prices", "contributions": AT.tolist()})
    )


def test_sums_with_and_without_somebody_are_not_both_answered(coordinator: Coordinator) -> None:
    exchange = coordinator.begin()
    exchange.ask("welfare", [AT], 1)
    question = {"kind": "sums"} | exchange.question("welfare", [AT], 1) | {"members": [0, 2, 3, 4]}
    for place in (0, 2, 3, 4):
        assert "begin another run without them" in refusal(coordinator.ask(place, question))


def test_a_payment_at_invented_sums_is_told_once_and_at_the_agreed_profile_alone(coordinator: Coordinator) -> None:
    exchange = coordinator.begin()
    exchange.ask("welfare", [AT], 1)
    invented = {"kind": "payment", "about": "prices", "sums": [0.0] * 5}
    early = coordinator.ask(1, invented | {"contributions": AT.tolist()})
    assert "no profile is agreed yet" in refusal(early)
    exchange.ask("prices", [AT], 0)
    assert "payment" in coordinator.ask(1, invented | {"contributions": AT.tolist()})
    for place in range(5):
        elsewhere = np.where(np.arange(5) == place, 1.0, 0.0).tolist()
        answer = coordinator.ask(1, invented | {"contributions": elsewhere})
        assert "one profile is agreed in a run" in refusal(answer)


def test_one_profile_is_agreed_and_asked_about_alone(coordinator: Coordinator) -> None:
    exchange = coordinator.begin()
    for count, profiles in enumerate(([AT, AT], [AT], [0.5 * AT])):
        answer = coordinator.ask(1, {"kind": "sums"} | exchange.question("prices", profiles, 0))
        assert "masked" in answer if count == 1 else "one profile is agreed in a run" in refusal(answer)


def test_an_unknown_protocol_is_refused_by_name(coordinator: Coordinator) -> None:
    answer = coordinator.ask(1, {"kind": "introduce", "protocol": "haggling"})
    assert "protocol must be one of price-discovery, sums, got 'haggling'" in refusal(answer)


def test_masks_are_never_opened(coordinator: Coordinator) -> None:
    """Not even where sums contradict themselves: the coordinator could have changed them."""
    exchange = coordinator.begin()
    exchange.ask("welfare", [AT], 1)
    question = {"kind": "open", "asked": exchange.question("welfare", [AT], 1)}
    assert "kind must be one of" in refusal(coordinator.ask(1, question))


def settle(exchange: _Exchange) -> FloatArray:
    """Everybody's payments, as an honest coordinator asks for them."""
    return exchange.ask_payments("prices", AT)


def test_payments_are_told_for_one_mechanism_alone(coordinator: Coordinator) -> None:
    """Under both, a member would tell its payoff beside what it pays at the margin."""
    settle(coordinator.begin())
    question = {"kind": "payment", "about": "shares", "contributions": AT.tolist(), "sums": [0.0] * 5}
    assert "this negotiation is of externality" in refusal(coordinator.ask(1, question))


def test_consent_is_no_oracle_of_utilities(coordinator: Coordinator) -> None:
    """Asked about one payment after the other, a member would tell what a profile is worth to it, digit by digit."""
    payments = settle(coordinator.begin())
    question = {"kind": "accept", "contributions": AT.tolist(), "payment": float(payments[1])}
    for other in ({"payment": 0.5}, {"contributions": (0.5 * AT).tolist()}):
        assert "accepts" in coordinator.ask(1, question)
        assert "at one payment, and nothing else" in refusal(coordinator.ask(1, question | other))
    early = Coordinator(coordinator.stage.folder.parent / "again")
    early.begin()
    assert "at one payment, and nothing else" in refusal(early.ask(1, question))


def sign(
    coordinator: Coordinator,
    place: int,
    profile: Any,
    *,
    gets: float = 0.0,
    utility: Any = None,
    out: Any = (),
    **changed: Any,
) -> dict[str, Any]:
    """A node's answer to a deal under rules that name no payments, so that what it is paid is free to choose."""
    run = coordinator.channel._run
    keys, members = stated_keys(run.ledger.entries), [name for name in FEDERATION.names if name not in out]
    payments = [-gets / (len(members) - 1) if name in members else 0.0 for name in FEDERATION.names]
    payments[place] = gets
    document = {
        "about": "deal",
        "run": run.ledger.entries[0].hash,
        "head": "0" * 64,
        "mechanism": "shapley",
        "agents": list(FEDERATION.names),
        "excluded": list(out),
        "contributions": np.asarray(profile, dtype=float).tolist(),
        "payments": payments,
        "side_payments": [0.0] * 5,
        "prices": None,
        "keys": {name: keys[name] for name in members},
        "money": {"currency": "EUR", "per_payoff": 1.0, "decimals": 2},
        "samples_per_unit": 1.0,
        "rounds": 1,
    } | changed
    name = FEDERATION.names[place]
    answers, silent = run.ask(
        "sign", {name: {"document": document, "place": place, "prices": None, "utility": utility}}
    )
    assert not silent
    return answers[name]


ANOTHER = "it decides on the one deal that is agreed in a run, and this is another one"


@pytest.mark.parametrize("protocol", ["sums", "price-discovery"])
def test_a_signature_is_no_oracle_of_utilities(tmp_path: Path, protocol: str) -> None:
    """Neither by the utility that is named, nor by payments or profiles: it decides on one deal."""
    coordinator = Coordinator(tmp_path, protocol=protocol)
    first = sign(coordinator, 1, AT, gets=100.0, utility=1e9)
    assert first == {"signed": False, "reason": "utility: it is less than the one named"}
    assert sign(coordinator, 1, AT, gets=100.0, utility=1e9) == first
    for profile, gets, utility in ((AT, 100.0, -1e9), (AT, 100.0, None), (AT, 99.0, 1e9), (0.5 * AT, 100.0, 1e9)):
        assert sign(coordinator, 1, profile, gets=gets, utility=utility) == {"signed": False, "reason": ANOTHER}
    assert sign(coordinator, 2, AT, gets=100.0)["signed"] is True  # another node


def test_after_sums_only_the_deal_agreed_is_decided_on(coordinator: Coordinator) -> None:
    """At the agreed profile too, a payment follows from the mechanism that was negotiated."""
    settle(coordinator.begin())
    by_others = "mechanism: it has negotiated externality, and this deal is by shapley"
    assert sign(coordinator, 1, AT, gets=100.0)["reason"] == by_others
    elsewhere = sign(coordinator, 1, 0.5 * AT, gets=100.0, mechanism="externality")
    assert elsewhere["reason"] == ANOTHER


def test_those_who_are_left_may_deal_anew_once_for_every_member_that_is_lost(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path)
    assert sign(coordinator, 1, AT, gets=100.0)["signed"] is True
    left = np.where(np.arange(5) == 4, 0.0, AT)
    assert sign(coordinator, 1, left, gets=100.0, out=["Clinic"])["signed"] is True
    for profile, out in ((left, ["Clinic"]), (0.5 * np.where(np.arange(5) == 0, 0.0, AT), ["University"]), (AT, [])):
        assert sign(coordinator, 1, profile, gets=90.0, out=out)["reason"] == ANOTHER


def test_why_a_node_does_not_sign_is_in_its_own_log_alone(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="flwr.fedpact")
    said = sign(coordinator, 1, 1e6 * AT, gets=100.0)
    assert said["reason"] == "contributions: its own is more than its cap"
    assert f"of {FEDERATION.caps[1]:g})" in caplog.text


TERMS = {"rounds": 10**6}, {"money": {"currency": "EUR", "per_payoff": 7.0, "decimals": 2}}
VERIFIED = {"verification": {"subsets": 5, "settles": False, "calibration": None}}


def test_one_deal_in_a_run_is_one_in_all_that_is_signed(coordinator: Coordinator) -> None:
    """Its head aside: a server that goes on may have written on."""
    assert sign(coordinator, 1, AT, gets=100.0)["signed"] is True
    assert sign(coordinator, 1, AT, gets=100.0, head="1" * 64)["signed"] is True
    for changed in (*TERMS, VERIFIED):
        assert sign(coordinator, 1, AT, gets=100.0, **changed)["reason"] == ANOTHER


def test_a_deal_by_rules_it_does_not_know_takes_nothing_from_a_member(coordinator: Coordinator) -> None:
    for place, name in enumerate(("whatever", "os:system")):
        said = sign(coordinator, place, AT, gets=100.0, mechanism=name)
        assert said == {"signed": False, "reason": f"mechanism: it knows none called {name!r}"}


@pytest.mark.parametrize("protocol", ["sums", "price-discovery"])
def test_a_deal_is_by_the_mechanism_that_was_negotiated(tmp_path: Path, protocol: str) -> None:
    coordinator = Coordinator(tmp_path)
    assert "error" not in coordinator.ask(1, {"kind": "introduce", "protocol": protocol, "mechanism": "externality"})
    said = sign(coordinator, 1, AT, gets=100.0)
    assert said["reason"] == "mechanism: it has negotiated externality, and this deal is by shapley"
    other = coordinator.ask(1, {"kind": "introduce", "protocol": protocol, "mechanism": "shapley"})
    assert "this negotiation is of externality, and not of 'shapley'" in refusal(other)


def test_a_protocol_of_ones_own_that_returns_prices_is_settled_between_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes keep to one protocol in a run, and final messages are of none."""
    solved = fp.ExternalityMechanism().solve(FEDERATION)

    def post_prices(session: Session, **_: Any) -> ProtocolResult:
        session.ask("posted", lambda index: {}, lambda raw, index: raw)
        found: dict[str, Any] = {"contributions": solved.contributions, "prices": solved.deal.prices}
        return ProtocolResult(**found, settled_by=SettledBy.PERSONAL_PRICES, residual=0.0, welfare=solved.welfare)

    posted = replace(PROTOCOLS["price-discovery"], negotiate=post_prices, answers={"posted": lambda agent, asked: {}})
    monkeypatch.setitem(PROTOCOLS, "posted", posted)  # type: ignore[arg-type]
    deal = coordinate(Coordinator(tmp_path).channel, protocol="posted", consent=False)
    assert not deal.excluded and deal.provenance.settled_by == "message game"
    np.testing.assert_allclose(deal.payments, solved.payments, rtol=1e-9)


@pytest.mark.parametrize("about", ["welfare", "potential", "prices", "shares"])
def test_whether_a_member_answers_does_not_depend_on_its_private_numbers(tmp_path: Path, about: str) -> None:
    """Alone at profiles of somebody's choice it would tell its costs by bisection, and which data harms it."""
    weights = FEDERATION.weights.copy()
    weights[1, 2] = -731.25
    coordinator = Coordinator(tmp_path, FEDERATION.replace(weights=weights, caps=np.inf))
    exchange = coordinator.begin()
    for place, amount in ((1, 1e3), (1, 1e12), (2, 1e-9), (2, 1e12)):
        profile = np.where(np.arange(5) == place, amount, 0.0)
        question = {"kind": "sums", **exchange.question(about, [profile], 0)}
        assert "masked" in coordinator.again().ask(1, question)


def test_profiles_beyond_the_caps_are_refused_and_own_caps_are_the_ones_stated(coordinator: Coordinator) -> None:
    question = {"kind": "sums", **coordinator.begin().question("welfare", [AT], 1)}
    for place in range(5):
        beyond = np.where(np.arange(5) == place, 1.001 * FEDERATION.caps, AT).tolist()
        assert "points, all within everybody's caps" in refusal(coordinator.ask(1, question | {"points": [beyond]}))
    wide = np.where(np.arange(5) == 1, 2.0 * FEDERATION.caps, FEDERATION.caps).tolist()
    assert "must hold caps" in refusal(coordinator.ask(1, question | {"caps": wide}))
    assert "masked" in coordinator.ask(1, question)


@pytest.mark.parametrize(
    "changed",
    [
        {"members": None},
        {"members": [0, 1, 2, 77]},
        {"members": [[], {}, "x"]},
        {"keys": {}},
        {"keys": [1, 2, 3, 4, 5]},
        {"points": None},
        {"points": []},
        {"points": [[1.0, 2.0]]},
        {"points": [["x"] * 5]},
        {"points": [[10**400] * 5]},
        {"caps": None},
        {"about": "wealth"},
        {"about": []},
    ],
)
def test_questions_about_sums_that_are_none_are_refused_in_words(
    coordinator: Coordinator, changed: dict[str, Any]
) -> None:
    question = {"kind": "sums", **coordinator.begin().question("welfare", [AT], 1)} | changed
    told = refusal(coordinator.ask(1, {part: given for part, given in question.items() if given is not None}))
    assert "must" in told or "begin another run" in told or "says nothing about" in told
    assert "error" not in coordinator.ask(1, {"kind": "key"})


def test_no_error_quotes_a_private_number(tmp_path: Path) -> None:
    rich = FEDERATION.replace(values=FEDERATION.values * 3.21e13)
    stage = Stage(rich, tmp_path / "run")
    with pytest.raises(fp.NotConverged, match="state payoffs in a larger unit") as caught:
        stage.conduct(protocol="sums")
    assert "3.2" not in str(caught.value)
    private = tmp_path / "run" / "agents" / "1.json"
    private.write_text(private.read_text().replace('"value":', '"value": -77.125, "old":', 1))
    with pytest.raises(fp.FedpactError) as told:
        stage.conduct()
    assert "77.125" not in str(told.value)


def test_no_reply_quotes_a_file_of_the_nodes_own(tmp_path: Path) -> None:
    scenario = tmp_path / "calibration.toml"
    scenario.write_text("weights = [[77.125, 'x']]")
    coordinator = Coordinator(tmp_path / "run", calibration=str(scenario))
    with pytest.raises(AssertionError, match="its calibration cannot be used; the node's own log says why") as told:
        sign(coordinator, 1, AT, gets=100.0)
    assert "77.125" not in str(told.value)
