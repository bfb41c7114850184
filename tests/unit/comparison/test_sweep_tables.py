"""Tables of sweeps: whether claims hold stands beside their margins."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from fedpact.report.records import sweep_record
from fedpact.scenario import example


def test_claims_hold_or_not_as_the_certificates_say() -> None:
    """Margins of rounding are below zero without counting; each point is held against its own certificates."""
    federation, caps = example("hospitals").federation, [10.0, 26.0, 60.0]
    found = fp.sweep(
        federation,
        "caps[Clinic]=10,26,60",
        metrics=["core", "reciprocity-margin", "welfare"],
        mechanisms=["externality", "shapley", "fair"],
    )
    for name, held in found.holds.items():
        assert list(held) == ["core", "reciprocity"]
        for place, cap in enumerate(caps):
            there = fp.Federation(
                federation.weights,
                costs=federation.costs,
                caps=[*federation.caps[:-1], cap],
                payoff=federation.payoff,
                values=federation.values,
                names=federation.names,
            )
            certificates = found.mechanisms[name].solve(there).certificates
            assert held["core"][place] == certificates["core"].holds
            assert held["reciprocity"][place] == certificates["reciprocity"].holds
    assert found.holds["externality"]["core"].all() and found.holds["fair"]["core"].all()
    assert not found.holds["shapley"]["core"].any()
    columns = found.columns()
    assert columns["core-holds"] == [True] * 3 + [False] * 3 + [True] * 3
    assert sweep_record(found)["mechanisms"]["shapley"]["holds"]["core"] == [False] * 3


def test_without_margins_there_is_nothing_to_hold() -> None:
    found = fp.sweep(
        example("hospitals").federation, "caps[Clinic]=10,20", metrics=["welfare"], mechanisms=["externality"]
    )
    assert found.holds == {"externality": {}}
    assert not any(name.endswith("-holds") for name in found.columns())
    assert np.isfinite(found.metrics["externality"]["welfare"]).all()
