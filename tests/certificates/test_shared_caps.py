"""Certificates within shared caps fail where a deal is spoiled."""

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Verdict
from fedpact.certificates.core import GroupProfiles, group_gains
from fedpact.scenario import example

FEDERATION = example("hospitals-privacy").federation


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=lambda each: each.name)
def test_what_is_left_of_a_shared_cap_is_missed(mechanism: fp.Mechanism) -> None:
    outcome = mechanism.solve(FEDERATION)
    less = outcome.contributions.copy()
    less[:2] *= 0.9
    spoiled = mechanism.outcome_at(FEDERATION, less)
    assert outcome.certificates["nash"].holds
    assert spoiled.certificates["nash"].verdict is Verdict.VIOLATED
    best = spoiled.certificates["nash"].witness["deviation"]
    assert sum(best.values()) == pytest.approx(40.0, rel=1e-6)


def test_the_wrong_split_is_seen() -> None:
    mechanism = fp.ExternalityMechanism()
    outcome = mechanism.solve(FEDERATION)
    other = outcome.contributions.copy()
    other[:2] += [2.0, -2.0]
    spoiled = mechanism.outcome_at(FEDERATION, other)
    for claim in ("nash", "social-optimality"):
        assert outcome.certificates[claim].holds and spoiled.certificates[claim].verdict is Verdict.VIOLATED
    better = np.array(spoiled.certificates["social-optimality"].witness["better_contributions"])
    np.testing.assert_allclose(better, outcome.contributions, rtol=1e-4, atol=1e-4)


def test_more_than_a_shared_cap_allows_is_no_deal() -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    more = outcome.contributions + np.eye(6)[0]
    with pytest.raises(fp.InvalidInput, match="at most the shared cap 40 over University: raw, University: with noise"):
        fp.ExternalityMechanism().outcome_at(FEDERATION, more)


def test_groups_cannot_count_on_more_than_they_share() -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    everybody = np.ones((1, 3), dtype=bool)
    for profile, allowed in ((outcome.contributions, True), (outcome.contributions + 5.0, False)):
        groups = GroupProfiles(members=everybody, contributions=profile[None])
        gains, _ = group_gains(FEDERATION, outcome.utilities, groups)
        assert np.isfinite(gains[0]) == allowed
    assert outcome.certificates["core"].holds


def test_prices_of_shared_caps_are_what_more_records_are_worth() -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    for place, shared in enumerate(FEDERATION.shared_caps):
        caps = [each.cap + (1e-4 if each is shared else 0.0) for each in FEDERATION.shared_caps]
        more = FEDERATION.replace(
            shared_caps=[(each.lots, cap) for each, cap in zip(FEDERATION.shared_caps, caps, strict=True)]
        )
        rise = (fp.social_optimum(more).welfare - outcome.welfare) / 1e-4
        assert outcome.shared_cap_prices[place] == pytest.approx(rise, rel=1e-4)


def test_the_paper_wants_room_in_shared_caps() -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    interior = next(each for each in outcome.assumptions if each.name == "interior equilibrium")
    assert interior.agents == FEDERATION.names
