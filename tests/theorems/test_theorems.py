"""Every theorem on thousands of random federations, its counterexample, and proof that its margin can tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import FederationArrays
from fedpact.paper.results import Judgement
from fedpact.paper.theorems import THEOREMS, Instance, Theorem, check
from theorems.claims import CLAIMS, COUNTEREXAMPLES, round_a_cycle, shapley_gains

COUNT, MANY = 30, 1000
SOLVING = {"vcg-keeps": 10, "nucleolus-core": 4, "shaping-most-data": 15}  # counts of those that solve a federation

each = pytest.mark.parametrize("theorem", CLAIMS.values(), ids=CLAIMS)


@each
def test_random_federations_do_not_refute_it(theorem: Theorem) -> None:
    found = check(theorem, count=SOLVING.get(theorem.name, COUNT), seed=20260)
    assert found.judgement is theorem.expected
    if theorem.expected is not Judgement.NOT_CONFIRMED:
        assert found.failures_within == 0
    if theorem.expected is Judgement.CONDITIONAL:
        assert COUNT // 100 < found.failures < COUNT - COUNT // 100, "both sides of the condition were met often"


@pytest.mark.slow
@each
def test_many_random_federations_do_not_refute_it(theorem: Theorem) -> None:
    count = 20 * SOLVING[theorem.name] if theorem.name in SOLVING else MANY
    assert check(theorem, count=count, seed=20261).judgement is theorem.expected


@each
def test_the_kept_counterexample_refutes_it(theorem: Theorem) -> None:
    found = COUNTEREXAMPLES[theorem.name]
    margin = (found.margin or theorem.margin)(found.instance)
    assert not theorem.holds(margin)
    if not theorem.strict:
        assert margin < -0.01, "and clearly so"


def tilted(instance: Instance) -> Instance:
    """The same profile, with one agent contributing a little more and one a little less."""
    federation = instance.federation
    profile = instance.contributions.copy()
    profile[0] *= 0.99
    profile[-1] = min(1.01 * profile[-1], federation.caps[-1])
    return replace(instance, contributions=profile)


@pytest.mark.parametrize("name", ["lemma-3", "theorem-4", "theorem-4-wider", "equation-11", "equation-12"])
def test_profiles_a_little_off_are_told_apart(name: str) -> None:
    theorem, rng = CLAIMS[name], np.random.default_rng(1)
    for _ in range(20):
        instance = theorem.draw(rng)
        assert theorem.holds(theorem.margin(instance))
        assert not theorem.holds(theorem.margin(tilted(instance)))


@pytest.mark.parametrize(
    "name", ["theorem-4", "theorem-4-wider", "equation-12", "balance-externality", "boundary-payments"]
)
def test_payments_a_little_off_are_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = FederationArrays.price_payments
    monkeypatch.setattr(FederationArrays, "price_payments", lambda arrays, profile: rule(arrays, profile) + 1e-6)
    assert check(CLAIMS[name], count=20, seed=2).failures == 20


@pytest.mark.parametrize("name", ["theorem-3-wider", "harmless-gain"])
def test_gaps_a_little_lower_are_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what others pay for its data, somebody who contributes loses."""

    def unpaid(instance: Instance) -> np.ndarray:
        return np.minimum(instance.federation.arrays.price_payments(instance.contributions), 0.0)

    monkeypatch.setattr("theorems.claims.externality_payments", unpaid)
    assert check(CLAIMS[name], count=50, seed=3).failures > 10


def test_another_sharing_rule_has_no_potential() -> None:
    """The Shapley value squared, in proportion: exact potentials are rare."""

    def skewed(federation: fp.Federation, profile: np.ndarray) -> np.ndarray:
        return shapley_gains(federation, profile) ** 2

    rng = np.random.default_rng(4)
    instances = [CLAIMS["potential"].draw(rng) for _ in range(20)]
    margins = [round_a_cycle(instance, skewed) for instance in instances]
    assert sum(margin < -1e-6 for margin in margins) >= 15


def test_what_the_paper_claims_is_what_the_command_checks() -> None:
    assert {
        "theorem-1", "corollary-1", "corollary-1-total", "theorem-2", "theorem-3", "lemma-3", "theorem-4",
        "proposition-1", "equation-11", "equation-12", "balance-shapley", "balance-externality",
    } <= set(THEOREMS)  # fmt: skip
    assert set(COUNTEREXAMPLES) == set(CLAIMS)
