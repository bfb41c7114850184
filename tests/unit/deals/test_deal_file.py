"""Deals read back from files."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Deal, Source
from fedpact.deals.deal_file import outcome_record
from fedpact.scenario import example

NAMES = ("North", "South")


def written(folder: Path, **changes: Any) -> Path:
    deal = {"mechanism": "shapley", "agents": list(NAMES), "contributions": [1, 2.5], "payments": [0.25, -0.25]}
    deal = {key: value for key, value in (deal | changes).items() if value is not ...}
    path = folder / "deal.json"
    path.write_text(json.dumps(deal), encoding="utf-8")
    return path


def test_a_deal_is_read_back(tmp_path: Path) -> None:
    deal = fp.load_deal(written(tmp_path))
    assert (deal.mechanism, deal.agents) == ("shapley", NAMES)
    assert (deal.contributions.tolist(), deal.payments.tolist()) == ([1.0, 2.5], [0.25, -0.25])
    assert deal.provenance.source is Source.STATED


def test_a_deal_may_list_agents_in_another_order(tmp_path: Path) -> None:
    deal = fp.load_deal(written(tmp_path, agents=["South", "North"])).among(NAMES)
    assert (deal.contributions.tolist(), deal.payments.tolist()) == ([2.5, 1.0], [-0.25, 0.25])


def test_what_is_written_is_read_bit_for_bit(tmp_path: Path) -> None:
    federation = example("hospitals").federation
    outcome = fp.ShapleyMechanism().solve(federation)
    path = tmp_path / "deal.json"
    path.write_text(json.dumps(outcome_record(outcome)), encoding="utf-8")
    deal = fp.load_deal(path)
    assert deal.mechanism == "shapley"
    np.testing.assert_array_equal(deal.contributions, outcome.contributions)
    np.testing.assert_array_equal(deal.payments, outcome.payments)
    again = outcome.with_profile(deal.contributions, deal.payments)
    assert again.utilities.tolist() == outcome.utilities.tolist()


def same(one: Deal, other: Deal) -> None:
    for name in ("mechanism", "agents", "excluded", "scenario"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("contributions", "payments", "prices", "side_payments"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("source", "protocol", "rounds", "settled_by"):
        assert getattr(one.provenance, name) == getattr(other.provenance, name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payments": ...}, "must have the key 'payments'"),
        ({"mechanism": ...}, "must have the key 'mechanism'"),
        ({"agents": "North"}, "agents must be non-empty strings, one per member"),
        ({"agents": ["North", "North"]}, r'agents\[1\] must differ from the others, "North" appears twice'),
        ({"agents": ["North", "North\u200b"]}, r"agents\[1\] must differ from the others, .* look alike"),
        ({"agents": ["Caf\u00e9", "Cafe\u0301"]}, r"agents\[1\] must differ from the others, .* look alike"),
        ({"agents": ["North", "\u041dorth"]}, "must not mix letters of Cyrillic and Latin in a word, which look alike"),
        ({"agents": ["North", 2]}, "agents must be non-empty strings, one per member"),
        ({"agents": [["North"], {"a": 1}]}, "agents must be non-empty strings, one per member"),
        ({"contributions": [1]}, "contributions must be a number or one number per member: 2 members, 1 numbers given"),
        ({"contributions": {"North": 1}}, "contributions must be a list of numbers"),
        ({"contributions": [1, "2"]}, r"contributions\[1\] must be a finite number"),
        ({"payments": [True, 1]}, r"payments\[0\] must be a finite number"),
        ({"payments": [None, 1]}, r"payments\[0\] must be a finite number"),
        ({"payments": [10**400, 1]}, r"payments\[0\] must be a finite number, got an integer of 1329 bits"),
        ({"payments": ["inf", 1]}, r"payments\[0\] must be a finite number"),
    ],
)
def test_a_broken_deal_names_its_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        fp.load_deal(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "[1, 2]", '"text"', "{", '{"payments": NaN}', '{"a": 1, "a": 2}', "[" * 10**5],
    ids=["empty", "list", "text", "cut off", "nan", "twice", "deep"],
)
def test_what_is_no_deal_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "deal.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"deal\.json"):
        fp.load_deal(path)


def test_a_deal_is_loaded_from_a_file_that_is_named() -> None:
    with pytest.raises(fp.InvalidInput, match="path must be the name of a file, got None"):
        fp.load_deal(None)


def test_a_deal_belongs_to_its_scenario_and_to_no_other() -> None:
    federation = example("hospitals").federation
    deal = fp.ExternalityMechanism().solve(federation).deal
    assert deal.belonging_to(federation)[1] is federation
    with pytest.raises(fp.InvalidInput, match="made for another scenario"):
        deal.belonging_to(federation.replace(caps=federation.caps * 2))
    with pytest.raises(fp.InvalidInput, match="between members of the scenario"):
        deal.belonging_to(federation.take([0, 1, 2]))


def test_a_deal_of_those_who_stayed_belongs_to_the_scenario_of_all() -> None:
    federation = example("hospitals").federation
    stayed = fp.stable_federation(federation, fp.ShapleyMechanism()).outcome
    assert stayed is not None and len(stayed.agents) < federation.n_agents
    among, part = stayed.deal.belonging_to(federation)
    assert among.agents == part.names == tuple(stayed.agents)


def test_a_comparison_holds_several_deals(tmp_path: Path) -> None:
    from fedpact.report.records import comparison_record

    compared = fp.compare(example("hospitals").federation)
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps(comparison_record(compared)), encoding="utf-8")
    assert fp.load_deal(path).mechanism == compared.recommendation.mechanism
    assert fp.load_deal(path, mechanism="shapley").mechanism == "shapley"
    with pytest.raises(fp.InvalidInput, match="say which mechanism: externality, shapley"):
        fp.load_deal(path, mechanism="none")


def plain_deal(**changes: Any) -> Deal:
    parts: dict[str, Any] = {"contributions": [1.0, 2.0], "payments": [0.0, 0.0]} | changes
    return Deal(mechanism="externality", agents=NAMES, **parts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payments": [1.0, -1.0], "excluded": {"South": "left"}}, r'payments\[1\] must be 0, got -1: member "South"'),
        ({"excluded": ["South"]}, "excluded must be reasons by name"),
        ({"excluded": {"South": 5}}, "must be a reason in words"),
        ({"prices": "x"}, "prices must be a table of 2 x 2 numbers"),
        ({"scenario": 5}, "scenario must be a fingerprint"),
        ({"provenance": "x"}, "provenance must be a Provenance"),
    ],
)
def test_what_is_no_deal_cannot_be_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        plain_deal(**changes)


@pytest.mark.parametrize("copied", [lambda deal: deal, copy.deepcopy, lambda deal: pickle.loads(pickle.dumps(deal))])
def test_a_deal_and_its_copies_cannot_be_changed(copied: Any) -> None:
    deal = copied(plain_deal(excluded={"South": "left"}))
    with pytest.raises(ValueError, match="read-only"):
        deal.payments[0] = 9.0
    with pytest.raises(TypeError):
        deal.excluded["North"] = "gone"
    assert deal.members.tolist() == [0]


def test_a_deal_is_not_saved_where_it_would_not_be_read(tmp_path: Path) -> None:
    deal = fp.ExternalityMechanism().solve(example("paper-w1").federation).deal
    with pytest.raises(fp.InvalidInput, match=r"path must be the name of a JSON file.*transcripts"):
        deal.save(tmp_path / "deal.jsonl")
    with pytest.raises(fp.InvalidInput, match="path must be the name of a JSON file"):
        deal.save(3)


def test_a_deal_against_its_own_prices_is_settled_by_those_who_insist() -> None:
    deal = fp.ExternalityMechanism().solve(example("paper-w1").federation).deal
    moved = replace(deal, payments=deal.payments + np.array([0.01, -0.01, 0.0]))
    with pytest.raises(fp.InvalidInput, match=r"payments must be what the deal's prices come to: member .* unchecked"):
        fp.settle(moved)
    assert sum(fp.settle(moved, unchecked=True).cents) == 0


@pytest.mark.parametrize("prices", [[[0, 0, 0], [0, 0, 0], [3, -6, 0]], [[-1, 2, 4], [1, -2, -4], [0, 0, 0]]])
def test_nothing_is_paid_by_or_to_who_is_out(prices: Any) -> None:
    """What is agreed comes to nothing, and a shortfall of the others would be charged to somebody who signs nothing."""
    terms = {"agents": ("Ann", "Ben", "Out"), "contributions": [10.0, 5.0, 0.0], "payments": [0.0, 0.0, 0.0]}
    with pytest.raises(fp.InvalidInput, match=r'prices\[., .\] must be 0, .* by or to member "Out"'):
        Deal(mechanism="externality", **terms, prices=prices, excluded={"Out": "it was late"})
    prices = [[-1.0, 2.0, 0.0], [1.0, -2.0, 0.0], [0.0, 0.0, 0.0]]
    deal = Deal(mechanism="externality", **terms, prices=prices, excluded={"Out": "it was late"})
    assert fp.settle(deal, delivered=[5.0, 5.0, 0.0]).cents[2] == 0


def test_prices_of_lots_of_who_is_out() -> None:
    lots = {"lot_owners": ("Ann", "Out", "Ann"), "lot_names": ("x", "x", "y")}
    with pytest.raises(fp.InvalidInput, match=r'prices\[0, 1\] must be 0, .* by or to member "Out"'):
        Deal(
            mechanism="externality",
            agents=("Ann", "Out"),
            contributions=[1.0, 0.0, 1.0],
            payments=[0.0, 0.0],
            prices=[[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]],
            excluded={"Out": "it was late"},
            **lots,
        )
