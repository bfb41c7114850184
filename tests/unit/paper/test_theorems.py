"""How a theorem is judged, and the result made of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.results import Judgement
from fedpact.paper.theorems import MARGIN_ROUNDING, THEOREMS, Condition, Instance, Theorem, check, theorems_result
from theorems.claims import CLAIMS

PLANTED = 1e-6  # of what is at stake for the average agent
FEDERATION = fp.Federation(np.ones((2, 2)), costs=0.1, caps=1.0, payoff=fp.PowerLaw(0.5))


def at(level: float) -> Instance:
    return Instance(federation=FEDERATION, contributions=np.full(2, level))


def claim(*, strict: bool = False, condition: Condition | None = None) -> Theorem:
    """That a level drawn from -0.5 to 0.5 is at least zero; the margin is the level."""
    return Theorem(
        name="claim",
        where="nowhere",
        statement="The level is not below zero.",
        assumptions="none",
        draw=lambda rng: at(rng.uniform(-0.5, 0.5)),
        margin=lambda instance: float(instance.contributions[0]),
        strict=strict,
        condition=condition,
    )


def always(level: float, **rest: object) -> Theorem:
    theorem = claim(**rest)  # type: ignore[arg-type]
    object.__setattr__(theorem, "draw", lambda rng: at(level))
    return theorem


@pytest.mark.parametrize(
    ("margin", "weakly", "strictly"),
    [
        (1.0, True, True),
        (0.0, True, False),
        (-0.5 * MARGIN_ROUNDING, True, False),
        (-1e-6, False, False),
        (np.nan, False, False),
    ],
)
def test_rounding_is_allowed_for_and_strictness_wants_more(margin: float, weakly: bool, strictly: bool) -> None:
    assert claim().holds(margin) is weakly
    assert claim(strict=True).holds(margin) is strictly


def test_refuted_claims_are_not_confirmed() -> None:
    found = check(claim(), count=40, seed=1)
    assert 5 < found.failures < 35
    assert found.worst == found.worst_within < 0
    assert found.judgement is Judgement.NOT_CONFIRMED


def test_a_condition_that_parts_them_makes_claims_conditional() -> None:
    right = Condition(words="the level is positive", met=lambda instance: bool(instance.contributions[0] > 0))
    found = check(claim(condition=right), count=40, seed=1)
    assert found.failures_within == 0 < found.failures
    assert found.worst < 0 < found.worst_within
    assert found.judgement is Judgement.CONDITIONAL
    wrong = Condition(words="anything", met=lambda instance: True)
    assert check(claim(condition=wrong), count=40, seed=1).judgement is Judgement.NOT_CONFIRMED


def test_the_result_has_a_row_and_a_finding_per_theorem() -> None:
    result = theorems_result(count=2, seed=5)
    assert result.name == "theorems"
    assert [len(column) for column in result.columns.values()] == [len(THEOREMS)] * len(result.columns)
    assert list(result.columns["theorem"]) == list(THEOREMS)
    assert set(result.columns["federations"]) == {2}
    assert [str(finding.judgement) for finding in result.findings] == list(result.columns["judgement"])
    assert [finding.expected for finding in result.findings] == [theorem.expected for theorem in THEOREMS.values()]
    for finding in result.findings:
        assert "random federations refute it" in finding.evidence


@pytest.mark.slow
def test_judgements_come_out_as_known() -> None:
    result = theorems_result(count=40, seed=6)
    assert [finding.where for finding in result.findings if not finding.as_expected] == []


@pytest.mark.parametrize("theorem", CLAIMS.values(), ids=CLAIMS)
def test_a_millionth_of_what_is_at_stake_is_not_rounding(theorem: Theorem) -> None:
    assert not theorem.holds(-PLANTED)


@pytest.mark.parametrize("name", ["nucleolus-core", "marginal-contribution", "vcg-keeps", "nash-bargaining-keeps"])
def test_claims_that_rest_on_solved_programs_hold_and_fail_by_a_planted_millionth(name: str) -> None:
    """Two members of no use to each other: every group has exactly what it reaches, so that all margins are zero."""
    federation = fp.Federation(np.eye(2), costs=0.1, caps=10.0, payoff=fp.PowerLaw(0.5))
    apart = Instance(federation=federation, contributions=fp.Standalone().solve(federation).contributions)
    theorem = replace(CLAIMS[name], draw=lambda rng: apart)
    assert check(theorem, count=1, seed=1).judgement is Judgement.CONFIRMED
    spoiled = replace(theorem, margin=lambda instance: theorem.margin(instance) - PLANTED)
    assert check(spoiled, count=1, seed=1).judgement is Judgement.NOT_CONFIRMED


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed", "count"), [("marginal-contribution", 16, 170), ("nucleolus-core", 42, 90)])
def test_optima_known_to_a_solvers_tolerance_refute_nothing(name: str, seed: int, count: int) -> None:
    """The draws of these seeds come within 1e-10 of equality."""
    assert check(CLAIMS[name], count=count, seed=seed).failures == 0
