"""Who would leave together and who gains by posing as two, in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.report.numbers import Unit
from fedpact.report.tables import NOBODY, leaving_text, posing_text
from old_hospitals import example
from unit.report.reports import report_of

UNIT = Unit.of(fp.Money("EUR", 1_000_000.0))


@pytest.fixture(scope="module")
def hospitals() -> fp.Comparison:
    return fp.compare(example("hospitals").federation)


@pytest.fixture(scope="module")
def seventeen() -> fp.Comparison:
    rng = np.random.default_rng(0)
    weights = np.where(np.eye(17) > 0, 1.0, rng.uniform(0.1, 0.9, (17, 17)))
    return fp.compare(fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)))


def test_groups_by_name_with_their_gain(hospitals: fp.Comparison) -> None:
    assert leaving_text(hospitals, hospitals["shapley"], UNIT) == "Children's and Clinic +321,817"
    assert leaving_text(hospitals, hospitals["externality"], UNIT) == NOBODY
    assert leaving_text(hospitals, hospitals["voluntary"], UNIT).startswith("everybody together +")


def test_groups_that_were_not_all_looked_at(seventeen: fp.Comparison) -> None:
    assert leaving_text(seventeen, seventeen["externality"], UNIT) == NOBODY
    assert "no group gains more than EUR" in leaving_text(seventeen, seventeen["shapley"], UNIT).replace("\xa0", " ")


def test_one_member_has_nobody_to_leave_with() -> None:
    one = fp.compare(fp.Federation([[1.0]], costs=0.001, payoff=fp.PowerLaw(beta=0.02)))
    assert leaving_text(one, one["externality"], UNIT) == "–"


@pytest.mark.slow
def test_posing_as_two(hospitals: fp.Comparison, seventeen: fp.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    assert posing_text(hospitals, hospitals["shapley"], UNIT) == "University +389,579"
    assert posing_text(hospitals, hospitals["externality"], UNIT) == ""
    monkeypatch.setattr("fedpact.certificates.split_proof.MAX_AGENTS_SOLVED_FOR", 2 * 17)
    two = fp.compare(seventeen.federation, ["shapley"])
    assert "(2 of 17 members looked at)" in posing_text(two, two["shapley"], UNIT)


def test_the_report_shows_them(hospitals: fp.Comparison) -> None:
    page = report_of(hospitals, money=fp.Money("EUR", 1_000_000.0))
    assert "+321,817" in page
    assert 'id="certificates"' not in report_of(replace(hospitals, outcomes=()))


@pytest.mark.slow
def test_the_report_says_where_not_all_groups_were_looked_at(hospitals: fp.Comparison) -> None:
    rng = np.random.default_rng(0)
    weights = np.where(np.eye(17) > 0, 1.0, rng.uniform(-0.01, 0.9, (17, 17)))
    harmed = fp.Federation(weights, costs=0.001, caps=40.0, payoff=fp.PowerLaw(beta=0.02))
    said = "not all groups were looked at"
    page = report_of(fp.compare(harmed, ["externality"]))
    assert f"Externality: {said}" in page
    assert said not in report_of(hospitals)
