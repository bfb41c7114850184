"""Delivered shares: recovered, bounded, flagged; without the two parties' reports; and how often they are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedpact as fp
from fedpact.fitting.subset_models import MAX_SHARE

NAN = float("nan")
FLOOR, CEILING = 0.1, 0.95


@dataclass(frozen=True)
class Case:
    """A federation, what was agreed, the subsets, and what the members measure."""

    federation: fp.Federation
    contributions: NDArray[np.float64]
    subsets: NDArray[np.bool_]
    accuracies: NDArray[np.float64]
    test_size: int = 300

    def estimate(self, **changes: Any) -> fp.Delivery:
        given = {"accuracies": self.accuracies, "test_sizes": self.test_size, "floor": FLOOR, "ceiling": CEILING}
        return fp.estimate_delivery(self.federation, self.contributions, self.subsets, **(given | changes))


def true_accuracies(
    federation: fp.Federation, given: NDArray[np.float64], subsets: NDArray[np.bool_]
) -> NDArray[np.float64]:
    reached = (subsets * given) @ federation.weights.T
    return FLOOR + (CEILING - FLOOR) * federation.payoff.value(reached)


def draw(
    seed: int,
    shares: Any = (0.6, 1.0, 1.0, 1.0, 1.0, 1.0),
    *,
    payoff: fp.Payoff | None = None,
    models: int = 60,
    run_noise: float = 0.01,
    common: float = 0.0,
) -> Case:
    """A random case; `common` is the part of the test sets' variance that all models have in common."""
    rng, n_agents, size = np.random.default_rng(seed), len(shares), 300
    weights = rng.uniform(0.2, 1.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights=0.02 * weights, costs=1e-4, payoff=payoff or fp.PowerLaw(beta=0.7))
    agreed = rng.uniform(50.0, 300.0, n_agents)
    subsets = rng.random((models, n_agents)) < 0.5
    clean = true_accuracies(federation, agreed * np.array(shares), subsets)
    trained = np.clip(clean + run_noise * rng.standard_normal((models, 1)), 0.0, 1.0)
    if common:
        luck = np.sqrt(common) * rng.standard_normal((1, n_agents))
        luck = luck + np.sqrt(1.0 - common) * rng.standard_normal(trained.shape)
        seen = np.clip(trained + luck * np.sqrt(trained * (1.0 - trained) / size), 0.0, 1.0)
    else:
        seen = rng.binomial(size, trained) / size
    return Case(federation, agreed, subsets, seen, size)


def without_noise(case: Case, shares: Any) -> Case:
    clean = true_accuracies(case.federation, case.contributions * np.array(shares), case.subsets)
    return Case(case.federation, case.contributions, case.subsets, clean, 10**6)


@pytest.mark.parametrize("payoff", [fp.PowerLaw(beta=0.7), fp.Exponential(rate=0.3), fp.Michaelis(half=2.0)])
def test_shares_are_recovered_from_accuracies_without_noise(payoff: fp.Payoff) -> None:
    shares = [0.6, 1.0, 0.0, 1.3, 1.0, 0.2]
    case = without_noise(draw(0, payoff=payoff), shares)
    np.testing.assert_allclose(case.estimate().shares, shares, atol=2e-3)


def test_harmful_data_is_told_as_well() -> None:
    case = draw(3)
    weights = case.federation.weights.copy()
    weights[1:, 0] = -0.002
    federation = case.federation.replace(weights=weights)
    case = without_noise(Case(federation, case.contributions, case.subsets, case.accuracies), [0.5, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(case.estimate().shares, [0.5, 1, 1, 1, 1, 1], atol=2e-3)


def test_one_member_alone_has_nobody_to_be_held_against() -> None:
    federation = fp.Federation(weights=[[0.02]], costs=1e-4, payoff=fp.PowerLaw(beta=0.7))
    subsets = np.arange(40)[:, None] % 2 == 0
    rng = np.random.default_rng(0)
    seen, earlier = (
        rng.binomial(1000, true_accuracies(federation, np.array([given]), subsets)) / 1000 for given in (60.0, 100.0)
    )
    found = fp.estimate_delivery(federation, 100.0, subsets, seen, 1000, FLOOR, CEILING)
    assert found.flagged == ()
    calibration = fp.calibrate_delivery(federation, 100.0, subsets, earlier, 1000, FLOOR, CEILING)
    found = fp.estimate_delivery(federation, 100.0, subsets, seen, 1000, calibration=calibration)
    lower, upper = found.intervals()
    assert lower[0] < 0.6 < upper[0] < 1.0
    assert found.flagged == ("agent 0",)


def test_sizes_of_errors_are_those_that_were_drawn() -> None:
    found = draw(1, run_noise=0.03, common=0.5, models=120).estimate()
    own, of_model, _ = found.found.sizes
    np.testing.assert_allclose(own, np.sqrt(0.5), rtol=0.15)
    np.testing.assert_allclose(of_model, 0.03, rtol=0.25)
    assert found.run_noise == of_model


def test_intervals_near_zero_begin_at_zero_and_hold_it() -> None:
    lower, upper = draw(2, (0.0, 1.0, 1.0, 1.0, 1.0, 1.0)).estimate().intervals(0.95)
    assert lower[0] == 0.0
    assert 0.0 < upper[0] < 0.3


def test_intervals_are_nested() -> None:
    found = draw(4, (0.6, 0.85, 1.0, 1.0, 1.0, 1.0)).estimate()
    narrow, wide = found.intervals(0.5), found.intervals(0.99)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    assert found.flagged == ("agent 0",)


@pytest.mark.slow
def test_members_in_another_order_have_the_same_shares() -> None:
    case, order = draw(6), [3, 0, 5, 1, 4, 2]
    turned = Case(
        case.federation.take(order), case.contributions[order], case.subsets[:, order], case.accuracies[:, order]
    )
    np.testing.assert_allclose(turned.estimate().shares, case.estimate().shares[order], atol=2e-3)


def test_missing_answers_are_left_out() -> None:
    case = draw(7)
    gaps = case.accuracies.copy()
    gaps[:, 2] = NAN
    gaps[::3, 0] = NAN
    found = case.estimate(accuracies=gaps)
    lower, upper = found.intervals()
    assert found.flagged == ("agent 0",)
    assert (lower < [0.6, 1, 1, 1, 1, 1]).all()
    assert (upper > [0.6, 1, 1, 1, 1, 1]).all()


@pytest.mark.slow
def test_nothing_is_known_of_those_who_agreed_to_nothing_or_are_of_no_use() -> None:
    case = draw(8)
    weights = case.federation.weights.copy()
    weights[:, 5] = [0, 0, 0, 0, 0, 0.02]
    agreed = case.contributions.copy()
    agreed[4] = 0.0
    federation = case.federation.replace(weights=weights)
    seen = true_accuracies(federation, agreed * [0.6, 1, 1, 1, 1, 1], case.subsets)
    seen[:, 5] = NAN  # the only one who has any use for its data
    found = fp.estimate_delivery(federation, agreed, case.subsets, seen, 300, FLOOR, CEILING)
    assert np.isnan(found.shares).tolist() == [False] * 4 + [True] * 2
    lower, upper = found.intervals()
    assert (lower[4:] == 0.0).all()
    assert (upper[4:] == np.inf).all()
    assert not {"agent 4", "agent 5"} & set(found.flagged)


def test_where_more_data_makes_no_difference_intervals_are_open_above() -> None:
    federation = fp.Federation(weights=np.ones((3, 3)), costs=1e-4, payoff=fp.Exponential(rate=1.0))
    subsets = np.random.default_rng(0).random((30, 3)) < 0.5
    found = fp.estimate_delivery(federation, 100.0, subsets, np.repeat(subsets.any(axis=1)[:, None], 3, axis=1), 300)
    lower, upper = found.intervals()
    assert (upper == np.inf).all()
    assert (lower < 0.2).all()
    assert not found.flagged
    assert (found.shares <= MAX_SHARE).all()


def test_nothing_can_be_told_from_accuracies_without_any_sense() -> None:
    federation = fp.Federation(weights=np.full((3, 3), 1e-6), costs=1e-4, payoff=fp.PowerLaw(beta=0.7))
    rng = np.random.default_rng(3)
    subsets = rng.random((20, 3)) < 0.5
    found = fp.estimate_delivery(federation, 100.0, subsets, rng.binomial(300, 0.1, (20, 3)) / 300, 300, 0.1)
    assert found.unknown == found.names
    assert not (found.shares > MAX_SHARE).any()
    assert found.notes[-1].startswith("the models say nothing about what agent 0, agent 1 and agent 2 delivered")
    assert np.isnan(found.leave_out_shares()).all()


def test_many_short_at_once_are_rather_a_wrong_scale() -> None:
    found = draw(0, (0.5,) * 6).estimate()
    assert found.flagged == ()
    assert any("what all shares have in common means nothing" in note for note in found.notes)


def test_nobody_agreed_to_anything() -> None:
    found = draw(14, (1.0, 1.0), models=10)
    nothing = fp.estimate_delivery(found.federation, 0.0, found.subsets, found.accuracies, 300)
    assert np.isnan(nothing.shares).all()
    assert nothing.flagged == ()


@pytest.mark.slow
def test_doubt_about_the_weights_widens_the_intervals() -> None:
    case, rng = draw(29, (0.5, 1.0, 1.0), run_noise=0.005, models=30), np.random.default_rng(0)
    pilot = rng.random((60, 3)) < 0.5
    trained = true_accuracies(case.federation, case.contributions, pilot)
    seen = fp.Observations.of(pilot * case.contributions, rng.binomial(300, trained) / 300, 300)
    fitted = fp.fit(seen, floor=FLOOR, ceiling=CEILING)
    case = Case(fitted.federation(costs=1e-4), case.contributions, case.subsets, case.accuracies)
    widths = {}
    for label, source in {"none": None, "fit": fitted, "scenario": fitted.uncertainty()}.items():
        found = case.estimate(weights_from=source)
        lower, upper = found.intervals()
        widths[label] = upper - lower
        assert found.flagged == ("agent 0",)
        assert lower[0] < 0.5 < upper[0]
    assert (widths["fit"] > 1.05 * widths["none"]).all()
    np.testing.assert_allclose(widths["scenario"], widths["fit"], rtol=0.35)


@pytest.mark.slow
def test_what_two_parties_settle_depends_on_neithers_reports() -> None:
    case = draw(10, (0.6, 1.0, 1.0, 1.0), models=30)
    honest = case.estimate().leave_out_shares()
    lied = case.accuracies.copy()
    lied[:, [0, 2]] = np.clip(lied[:, [0, 2]] + 0.2, 0.0, 1.0)
    after = case.estimate(accuracies=lied).leave_out_shares()
    assert np.isnan(honest.diagonal()).all()
    assert after[0, 2] == honest[0, 2]
    assert after[2, 0] == honest[2, 0]
    assert after[1, 3] != honest[1, 3]
    np.testing.assert_allclose(honest[1:, 0], 0.6, atol=0.3)


def test_two_parties_cannot_settle_without_a_third_beneficiary() -> None:
    case = draw(11, (1.0, 1.0, 1.0), models=20)
    weights = case.federation.weights.copy()
    weights[2, 0] = 0.0  # only agent 1, and itself, have a use for the data of agent 0
    case = Case(case.federation.replace(weights=weights), case.contributions, case.subsets, case.accuracies)
    shares = case.estimate().leave_out_shares()
    assert np.isnan(shares[1, 0])
    assert np.isfinite(shares[2, 0])


def test_tables_and_pictures() -> None:
    found = draw(12, (0.5, 1.0, 1.0), models=30).estimate()
    frame = found.to_frame()
    assert list(frame.columns) == ["contributions", "shares", "lower", "upper", "flagged"]
    assert list(frame.index) == list(found.names)
    assert tuple(frame.index[frame["flagged"]]) == found.flagged
    assert len(found.plot().axes) == 1
    assert repr(found).startswith("Delivery(3 agents, 30 models, flagged: agent 0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"subsets": [[1, 0]]}, r"subsets must have a column per member: 3 members, 2 columns given"),
        ({"subsets": [[1, 0.5, 0]]}, r'subsets\[0, 1\] must be true or false, 1 or 0, got 0.5 \(member "agent 1"\)'),
        ({"accuracies": [[0.5, 0.5, 0.5]] * 2}, r"accuracies must have the shape of subsets"),
        (
            {"accuracies": [[50, 0.5, 0.5]]},
            r"accuracies\[0, 0\] must lie between 0 and 1, got 50; divide percentages by 100",
        ),
        ({"accuracies": [[NAN] * 3]}, r"accuracies must hold a number, all are missing"),
        ({"contributions": -1.0}, r"contributions\[0\] must lie between 0 and the cap"),
        ({"test_sizes": 0}, r"test_sizes\[0, 0\] must be at least 1"),
        ({"floor": 0.9, "ceiling": 0.5}, r"floor\[0\] must be below the ceiling 0.5, got 0.9"),
        ({"weights_from": "last year"}, r"weights_from must be a Fit or an Uncertainty, got str"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str) -> None:
    federation = fp.Federation(weights=0.02 * np.ones((3, 3)), costs=1e-4, payoff=fp.PowerLaw(beta=0.7))
    given: dict[str, Any] = {
        "contributions": 100.0,
        "subsets": [[True, False, True]],
        "accuracies": [[0.5, 0.6, 0.7]],
    }
    with pytest.raises(fp.InvalidInput, match=words):
        fp.estimate_delivery(federation, **(given | changes))
    with pytest.raises(fp.InvalidInput, match="level must lie between 0 and 1"):
        fp.estimate_delivery(federation, **given).intervals(95)


@dataclass(frozen=True)
class Rates:
    """How often things happened in many draws."""

    flagged: float
    falsely: float
    covered: float

    @classmethod
    def of(cls, count: int, share: float, **how: Any) -> Rates:
        flagged, falsely, covered = [], [], []
        for seed in range(count):
            found = draw(seed, (share, 1.0, 1.0, 1.0, 1.0, 1.0), **how).estimate()
            flagged.append("agent 0" in found.flagged)
            falsely += [name in found.flagged for name in found.names[1:]]
            lower, upper = found.intervals(0.95)
            truth = np.array([share, 1.0, 1.0, 1.0, 1.0, 1.0])
            covered += ((lower <= truth) & (truth <= upper)).tolist()
        return cls(*(float(np.mean(each)) for each in (flagged, falsely, covered)))


def check_bar(rates: Rates) -> None:
    assert rates.flagged >= 0.9
    assert rates.falsely <= 0.05
    assert rates.covered >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "share", "how"),
    [(20, 0.6, {}), (20, 0.0, {}), (8, 0.6, {"common": 0.5}), (8, 0.6, {"payoff": fp.Exponential(rate=0.15)})],
)
def test_many_draws_meet_the_bar(count: int, share: float, how: dict[str, Any]) -> None:
    check_bar(Rates.of(count, share, **how))


@pytest.mark.parametrize("ends", [{"floor": 0.2}, {"floor": 0.15}, {"ceiling": 0.9}, {"floor": 0.0, "ceiling": 1.0}])
def test_wrong_ends_flag_nobody_who_delivered(ends: dict[str, float]) -> None:
    found = [draw(seed, (1.0,) * 6).estimate(**ends) for seed in range(8)]
    assert sum(len(each.flagged) for each in found) <= 0.05 * 6 * len(found)
