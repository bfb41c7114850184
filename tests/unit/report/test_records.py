"""Outcomes as plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fedpact as fp
from fedpact.deals.deal_file import OUTCOME_FIELDS, outcome_record
from fedpact.report.records import (
    comparison_record,
    departures_record,
)
from fedpact.utils.jsonl import jsonable
from old_hospitals import example


def strict(record: Any) -> Any:
    """The record through strict JSON and back."""
    return json.loads(json.dumps(record, allow_nan=False))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hospitals", "paper-w1", "paper-w3"])
def test_outcome_record_says_what_the_outcome_says(name: str) -> None:
    for outcome in fp.compare(example(name).federation):
        record = strict(outcome_record(outcome))
        assert record["mechanism"] == outcome.mechanism
        assert record["agents"] == list(outcome.agents)
        for field in OUTCOME_FIELDS:
            assert record[field] == jsonable(getattr(outcome, field)), field
        assert list(record["certificates"]) == list(outcome.certificates)
        for claim, certificate in outcome.certificates.items():
            stated = record["certificates"][claim]
            assert stated["verdict"] == certificate.verdict.value
            assert stated["margin"] == jsonable(certificate.margin)
        assert [entry["name"] for entry in record["assumptions"]] == [entry.name for entry in outcome.assumptions]
        assert record["equilibria"]["dimension"] == outcome.equilibria.dimension
        assert record["worst_reciprocity"]["value"] == jsonable(outcome.worst_reciprocity.value)


def test_undefined_ratios_are_null_and_infinite_ones_are_spelled() -> None:
    comparison = fp.compare(example("paper-w3").federation)
    assert outcome_record(comparison["externality"])["reciprocity_ratios"][0] == "inf"
    voluntary = outcome_record(comparison["voluntary"])
    assert voluntary["shapley_values"] == [None] * 3
    assert voluntary["certificates"]["reciprocity"]["margin"] is None


def test_comparison_record() -> None:
    comparison = fp.compare(example("hospitals").federation)
    record = strict(comparison_record(comparison))
    assert list(record) == [
        "agents",
        "best_welfare",
        "outcomes",
        "after_departures",
        "blocking_groups",
        "splitting_gains",
        "unsolved",
        "recommendation",
        "sensitivity",
    ]
    assert [outcome["mechanism"] for outcome in record["outcomes"]] == [outcome.mechanism for outcome in comparison]
    assert record["recommendation"]["mechanism"] == comparison.recommendation.mechanism
    blocking = record["blocking_groups"]["shapley"]
    assert blocking["group"] == ["Children's", "Clinic"] and blocking["exact"] and blocking["blocks"]
    assert blocking["gain"] == comparison.blocking_groups["shapley"].gain
    assert record["splitting_gains"]["shapley"] == comparison.splitting_gains["shapley"]
    baselines = fp.compare(comparison.federation, [fp.Standalone()])
    assert strict(comparison_record(baselines))["recommendation"] is None


def test_departures_record() -> None:
    stable = fp.stable_federation(example("hospitals").federation, fp.ShapleyMechanism())
    record = strict(departures_record(stable))
    assert record["members"] == list(stable.members)
    assert record["leavers"] == list(stable.leavers)
    assert record["welfare"] == stable.welfare
    assert [entry["leavers"] for entry in record["departures"]] == [list(entry.leavers) for entry in stable.departures]
