"""Which assumptions of the paper hold at an outcome, and what stands out in words."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from certificates.hand import INSTANCES, MECHANISMS, capped, figure_5, useless

NAMES = [
    "non-negative weights",
    "three beneficiaries",
    "interior equilibrium",
    "interior standalone optimum",
    "domain",
]


def failing(outcome: fp.Outcome) -> dict[str, tuple[str, ...]]:
    assert [assumption.name for assumption in outcome.assumptions] == NAMES
    for assumption in outcome.assumptions:
        assert assumption.holds == (not assumption.agents) == (not assumption.consequence)
    return {entry.name: tuple(entry.agents) for entry in outcome.assumptions if not entry.holds}


def test_figure_5_agent_0_harms_and_would_leave() -> None:
    outcome = MECHANISMS["externality"].solve(figure_5(-0.3))
    assert failing(outcome) == {"non-negative weights": ("agent 0",), "three beneficiaries": ("agent 0",)}
    assert outcome.leavers == ("agent 0",)
    (sentence,) = outcome.diagnosis
    assert sentence.startswith("agent 0 harms the others on net and would leave; ")
    assert f"{-outcome.ir_gaps[0]:.3g} units of payoff would keep it" in sentence
    # T_0 by hand: three times -0.3 a', with a' = 0.1 = 0.3 / 3 from the first-order conditions of agents 1 to 3.
    np.testing.assert_allclose(outcome.net_externality[0], -0.09, rtol=1e-9)


def test_figure_5_shapley_says_the_same() -> None:
    outcome = MECHANISMS["shapley"].solve(figure_5(-0.3))
    assert outcome.diagnosis[0].startswith("agent 0 harms the others on net and would leave; ")


def test_figure_5_voluntary_harms_and_stays() -> None:
    outcome = MECHANISMS["voluntary"].solve(figure_5(-0.3))
    assert outcome.diagnosis == ("agent 0 harms the others on net, yet gains by staying.",)


@pytest.mark.parametrize("incoming", [-0.1, 0.0, 0.1])
def test_figure_5_without_harm_nobody_stands_out(incoming: float) -> None:
    outcome = MECHANISMS["externality"].solve(figure_5(0.1, incoming))
    assert outcome.diagnosis == ()
    assert outcome.leavers == ()
    np.testing.assert_array_less(-1e-9, outcome.ir_gaps)


def test_a_helpful_agent_that_shapley_overcharges() -> None:
    outcome = MECHANISMS["shapley"].solve(INSTANCES["hospitals"])
    assert [sentence.split(";")[0] for sentence in outcome.diagnosis] == [
        "Children's helps the others on net but would do better alone",
        "Clinic helps the others on net but would do better alone",
    ]


def test_an_agent_kept_from_contributing_by_the_harm_it_would_do() -> None:
    outcome = MECHANISMS["externality"].solve(figure_5(-0.99, 0.35))
    assert outcome.contributions[0] == 0.0
    (sentence,) = outcome.diagnosis
    assert sentence.startswith("agent 0")
    assert "harm" in sentence


def test_an_agent_without_any_effect_on_others_does_not_help_them() -> None:
    weights = np.ones((4, 4))
    weights[1:, 0] = 0.0
    federation = fp.Federation(weights, costs=0.05, caps=50.0, payoff=fp.PowerLaw(beta=0.5))
    outcome = MECHANISMS["shapley"].solve(federation)
    assert outcome.net_externality[0] == 0.0
    assert outcome.leavers == ("agent 0",)
    assert outcome.diagnosis[0].startswith("agent 0's data makes no difference to the others")


def test_equal_agents_meet_every_assumption() -> None:
    assert failing(MECHANISMS["externality"].solve(INSTANCES["paper-w1"])) == {}


def test_binding_caps_are_named() -> None:
    outcome = MECHANISMS["externality"].solve(capped())
    assert failing(outcome) == {
        "interior equilibrium": ("agent 0", "agent 2"),
        "interior standalone optimum": ("agent 0",),
    }


def test_contributing_nothing_is_a_bound_too() -> None:
    everybody = ("agent 0", "agent 1", "agent 2")
    outcome = MECHANISMS["externality"].solve(useless())
    assert failing(outcome) == {"interior equilibrium": everybody, "interior standalone optimum": everybody}


def test_two_agents_cannot_set_prices() -> None:
    federation = fp.Federation(np.ones((2, 2)), costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    assert failing(MECHANISMS["externality"].solve(federation)) == {"three beneficiaries": ("agent 0", "agent 1")}


def test_whoever_could_be_harmed_out_of_the_domain_is_named() -> None:
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w3"])
    assert failing(outcome)["domain"] == ("agent 1",)


def test_infinite_caps_and_harm_leave_the_domain() -> None:
    federation = fp.Federation([[1.0, -0.1], [0.0, 1.0]], costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    assert failing(MECHANISMS["externality"].solve(federation))["domain"] == ("agent 0",)
    exponential = fp.Federation([[1.0, -0.1], [0.0, 1.0]], costs=0.01, payoff=fp.Exponential(rate=0.5))
    assert "domain" not in failing(MECHANISMS["externality"].solve(exponential))
