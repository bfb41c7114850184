"""Mechanisms side by side, and what is recommended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim, Verdict
from fedpact.mechanisms import MECHANISMS
from fedpact.report import write_report
from old_hospitals import example


def figure_5() -> fp.Federation:
    weights = np.ones((4, 4))
    weights[1:, 0], weights[0, 1:] = -0.3, 0.0
    return fp.Federation(weights, costs=[0.1, 0.3, 0.3, 0.3], caps=3.0, payoff=fp.PowerLaw(beta=0.5))


@dataclass(frozen=True)
class Failing(fp.Voluntary):
    """A mechanism that never converges."""

    name: str
    title: str = "Failing"
    is_baseline: bool = False

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        raise fp.NotConverged("it went round in circles")


@pytest.fixture(scope="module")
def hospitals() -> fp.Comparison:
    return fp.compare(example("hospitals").federation)


def test_all_mechanisms_in_order(hospitals: fp.Comparison) -> None:
    expected = ["externality", "shapley", "fair", "voluntary", "standalone"]
    assert [outcome.mechanism for outcome in hospitals] == expected
    assert list(hospitals.mechanisms) == expected
    assert hospitals.unsolved == {}
    assert hospitals.title("shapley") == "Shapley"
    assert hospitals["voluntary"].mechanism == "voluntary"


@pytest.mark.slow
def test_all_mechanisms_against_all_properties() -> None:
    compared = fp.compare(example("paper-w2").federation, "all")
    assert list(compared.verdicts) == list(MECHANISMS) and compared.unsolved == {}
    for name, verdicts in compared.verdicts.items():
        assert list(verdicts) == list(fp.Claim)
        promised = compared.mechanism(name).promises(compared.federation)
        assert {verdicts[claim] for claim in promised} == {Verdict.HOLDS}
    assert compared.verdicts["vcg"][fp.Claim.BUDGET_BALANCE] is Verdict.VIOLATED
    assert compared.verdicts["shapley"][fp.Claim.SOCIAL_OPTIMALITY] is Verdict.VIOLATED


@pytest.mark.slow
def test_of_all_mechanisms_those_without_an_outcome_are_named() -> None:
    weights = [[1.0, -1.4, -1.46], [0.53, 1.0, 0.02], [0.32, -0.14, 1.0]]
    rivals = fp.Federation(weights, costs=0.05, caps=[49.9, 5.2, 52.2], payoff=fp.Log())
    compared = fp.compare(rivals, "all")
    assert "no free-riding equilibrium was found" in compared.unsolved["cost-sharing"]
    assert "do not settle" in compared.unsolved["accuracy-shaping"]
    assert set(compared.verdicts) | set(compared.unsolved) == set(MECHANISMS)
    weights = [[1.0, -1.2, 0.1], [1.4, 1.0, -0.8], [-0.9, 1.1, 1.0]]
    unsolved = fp.compare(fp.Federation(weights, costs=0.05, caps=60.0, payoff=fp.Log()), "all").unsolved
    for name, why in (
        ("fair", "ask for more by themselves than there is to share"),
        ("fair-reciprocity", "no Shapley shares"),
        ("nash-bargaining", "no gain to share"),
        ("leave-one-out", "no bound"),
    ):
        assert why in unsolved[name]


def test_unknown_outcome_is_named(hospitals: fp.Comparison) -> None:
    with pytest.raises(fp.InvalidInput, match=r"mechanism must be one of externality, shapley, .*got 'vcg'"):
        hospitals["vcg"]


def test_best_welfare_is_the_social_optimum(hospitals: fp.Comparison) -> None:
    optimum = fp.social_optimum(hospitals.federation).welfare
    assert hospitals.best_welfare == pytest.approx(optimum, rel=1e-9)
    baselines = fp.compare(hospitals.federation, [fp.Voluntary()])
    assert baselines.best_welfare == pytest.approx(optimum, rel=1e-9), "also where no outcome is optimal"


def test_departures_are_followed_through_for_real_mechanisms(hospitals: fp.Comparison) -> None:
    assert set(hospitals.after_departures) == {"externality", "shapley", "fair"}
    assert hospitals.after_departures["externality"].leavers == ()
    assert set(hospitals["shapley"].leavers) <= set(hospitals.after_departures["shapley"].leavers)


def test_verdicts_on_groups(hospitals: fp.Comparison) -> None:
    assert hospitals.group_verdict("externality") is Verdict.HOLDS
    assert hospitals.group_verdict("shapley") is Verdict.VIOLATED
    assert hospitals.group_verdict("standalone") is Verdict.UNDEFINED
    one = fp.compare(fp.Federation([[1.0]], costs=0.001, payoff=fp.PowerLaw(beta=0.02)))
    assert one.blocking_groups["externality"] is None, "one member has no others to leave"
    assert one.holds_together("externality")


def test_splitting_gains_are_those_of_solving_with_a_member_split(hospitals: fp.Comparison) -> None:
    for name in ("externality", "shapley", "fair"):
        gains = hospitals.splitting_gains[name]
        assert list(gains) == list(hospitals.federation.names)
        for member in ("University", "City"):
            expected = fp.splitting_gain(hospitals.federation, name, member)
            assert gains[member] == pytest.approx(expected, abs=1e-7)
    assert hospitals.largest_splitting_gain("externality") is None
    member, gain = hospitals.largest_splitting_gain("shapley")
    assert member == "University" and gain == max(hospitals.splitting_gains["shapley"].values())


@pytest.mark.slow
def test_beyond_what_is_affordable_it_says_so() -> None:
    """Seventeen members: no fair deal unless it is asked for, groups searched, false names only where promised."""
    rng = np.random.default_rng(0)
    weights = np.where(np.eye(17) > 0, 1.0, rng.uniform(0.1, 0.9, (17, 17)))
    federation = fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    comparison = fp.compare(federation)
    assert list(comparison.mechanisms) == ["externality", "shapley", "voluntary", "standalone"]
    assert comparison.group_verdict("externality") is Verdict.HOLDS, "proved by prices"
    assert comparison.holds_together("externality") is True
    worst = max(
        fp.social_optimum(federation.take(inside)).welfare - comparison["voluntary"].utilities[inside].sum()
        for inside in (np.delete(np.arange(17), left) for left in range(17))
    )
    for name in ("shapley", "voluntary"):
        assert comparison.group_verdict(name) is Verdict.VIOLATED, "found by the search, not by prices"
        assert comparison.holds_together(name) is False
    assert comparison.blocking_groups["voluntary"].gain >= worst - 1e-9 > 0.0
    most = np.argsort(-comparison["shapley"].contributions)[:8]
    assert set(comparison.splitting_gains["shapley"]) == {federation.names[int(agent)] for agent in most}
    member, largest = comparison.largest_splitting_gain("shapley")
    gain = fp.splitting_gain(federation, "shapley", member)
    np.testing.assert_allclose(largest, gain, rtol=1e-6)
    assert comparison.verdicts["shapley"][Claim.SPLIT_PROOF] is Verdict.VIOLATED
    assert max(map(abs, comparison.splitting_gains["externality"].values())) < 1e-9
    assert len(comparison.splitting_gains["externality"]) == 17


def test_baselines_alone_are_not_recommended() -> None:
    comparison = fp.compare(example("paper-w1").federation, [fp.Voluntary(), fp.Standalone()])
    assert comparison.after_departures == {}
    assert comparison.recommendation is None


def test_nothing_to_gain_is_no_division_by_zero() -> None:
    federation = fp.Federation(np.ones((3, 3)), costs=1.0, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    comparison = fp.compare(federation)
    assert comparison.best_welfare == 0.0
    assert comparison.recommendation.mechanism == "standalone"
    assert comparison.share_of_best(0.0) == 1.0
    assert np.isnan(comparison.share_of_best(-1.0)), "nothing is no yardstick"


def test_a_baseline_without_an_equilibrium_is_listed() -> None:
    federation = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, payoff=fp.Log())
    comparison = fp.compare(federation)
    assert [outcome.mechanism for outcome in comparison] == ["externality", "shapley", "standalone"]
    assert list(comparison.unsolved) == ["fair", "voluntary"]
    assert "no side payments keep everybody" in comparison.unsolved["fair"]
    assert "free-riding equilibrium" in comparison.unsolved["voluntary"]
    assert comparison.title("voluntary") == "Voluntary"


def test_a_mechanism_that_fails_raises() -> None:
    federation = example("paper-w1").federation
    with pytest.raises(fp.NotConverged, match="round in circles"):
        fp.compare(federation, [fp.ExternalityMechanism(), Failing("auction")])
    assert fp.compare(federation, [Failing("voluntary", is_baseline=True)]).unsolved == {
        "voluntary": "it went round in circles"
    }


def test_a_federation_may_do_better_without_those_who_harm_it() -> None:
    """Figure 5: agent 0 on its own harms nobody, so welfare after it has left is above the best with it in."""
    comparison = fp.compare(figure_5())
    settled = comparison.after_departures["externality"]
    assert settled.leavers == ("agent 0",)
    together = comparison.best_welfare_together
    assert settled.welfare == pytest.approx(comparison.best_welfare, rel=1e-12)
    assert comparison.best_welfare > together == pytest.approx(comparison["externality"].welfare)
    assert comparison.recommendation.out == ("agent 0",)
    assert "With everybody in, agent 0 would leave Externality." in comparison.recommendation.reason


def test_the_reason_names_everybody_who_leaves() -> None:
    """Agent 2 leaves the first deal and takes with it what kept another one in."""
    weights = [[1.0, -0.1, -0.5], [0.2, 1.0, 2.5], [0.7, -0.2, 1.0]]
    federation = fp.Federation(weights, costs=0.01, caps=5.0, payoff=fp.PowerLaw(beta=0.5))
    comparison = fp.compare(federation, [fp.ExternalityMechanism()])
    leavers = comparison.after_departures["externality"].leavers
    assert leavers == ("agent 2", "agent 1")
    assert comparison["externality"].leavers == ("agent 2",)
    assert "With everybody in, agent 2 and agent 1 would leave" in comparison.recommendation.reason


def test_a_report_shows_what_is_recommended_though_it_was_not_compared(tmp_path: Path) -> None:
    """Where nobody gains by federating, standing alone is recommended, among the mechanisms compared or not."""
    strangers = fp.Federation(np.eye(3), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    compared = fp.compare(strangers, ["shapley"])
    assert compared.recommendation.mechanism == "standalone"
    write_report(compared, tmp_path / "report.html")
    assert "Standalone" in (tmp_path / "report.html").read_text(encoding="utf-8")
