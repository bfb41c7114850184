"""Federations keep the caps that lots share, through everything that makes one of another."""

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from fedpact.federation.splitting import split_agent
from fedpact.negotiation.message_game import MessageGame

WEIGHTS = np.array([[1.0, 0.4, 0.5, 0.2], [0.5, 0.2, 1.0, 0.9]])
OWNED = {"lot_owners": ["A", "A", "B", "B"], "lot_names": ["raw", "noised", "raw", "other"]}
BASE = {"weights": WEIGHTS, "costs": 0.01, "payoff": fp.PowerLaw(0.3), **OWNED}


def federation(**changed: object) -> fp.Federation:
    return fp.Federation(**(BASE | {"shared_caps": [(["A: raw", "A: noised"], 10.0)]} | changed))  # type: ignore[arg-type]


def test_lots_are_named_by_label_place_or_name() -> None:
    wanted = (fp.SharedCap((0, 1), 10.0),)
    for lots in (["A: raw", "A: noised"], [0, 1], [0, "noised"], np.array([0, 1])):
        assert federation(shared_caps=[(lots, 10)]).shared_caps == wanted
    assert federation(shared_caps=[{"lots": [0, 1], "cap": 10.0}]).shared_caps == wanted
    assert federation(shared_caps=()).shared_caps == federation(shared_caps=None).shared_caps == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(["A: raw", "B: raw"], 1.0)], r"shared_caps\[0\] must name lots of one member, got lots of A and B"),
        ([(["A: raw"], 1.0)], r"shared_caps\[0\] must name two or more different lots"),
        ([([0, 0], 1.0)], r"shared_caps\[0\] must name two or more different lots"),
        ([([0, 1], 1.0), ([1, 0], 2.0)], r'shared_caps\[1\] must share no lot with another, "A: noised" is under two'),
        ([([0, 1], -1.0)], r'shared_caps\[0\] must have a cap that is finite and at least zero, got -1 \(member "A"\)'),
        ([([0, 1], np.inf)], r"shared_caps\[0\] must have a cap that is finite"),
        ([([0, 7], 1.0)], r"shared_caps\[0\] must name lots: there is no lot number 7; the lots are A: raw, A: noised"),
        ([([0, True], 1.0)], r"shared_caps\[0\] must name lots: there is no lot called True; the lots are A: raw"),
        (
            [(["A: raw", "raw"], 1.0)],
            r"shared_caps\[0\] must name lots: there is no lot called 'raw'; the lots are A: raw, A: noised, B: raw, "
            r"B: other$",
        ),
        ([("A: raw", 1.0)], r"shared_caps\[0\] must be a list of lots and their common cap"),
        ([(0, 1)], r"shared_caps\[0\] must be a list of lots and their common cap"),
        (5.0, r"shared_caps must be a list of lots and their common cap, such as"),
    ],
)
def test_what_is_refused(given: object, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        federation(shared_caps=given)


def test_agents_with_one_lot_have_nothing_to_share() -> None:
    with pytest.raises(fp.InvalidInput, match="shared_caps needs members with several lots"):
        fp.Federation(np.eye(2), costs=0.1, payoff=fp.Log(), shared_caps=[([0, 1], 1.0)])


def test_kept_by_all_that_makes_another_federation() -> None:
    fed = federation()
    assert fed.replace(costs=0.02).shared_caps == fed.shared_caps
    assert fed.replace(shared_caps=()).shared_caps == ()
    assert fed.replace(weights=sp.csr_array(WEIGHTS)).shared_caps == fed.shared_caps
    assert fed.without_sharing().shared_caps == fed.shared_caps
    assert fed.take([1, 0]).shared_caps == (fp.SharedCap((2, 3), 10.0),) and fed.take([1]).shared_caps == ()
    split, _ = split_agent(fed, "A")
    assert {each.cap for each in split.shared_caps} == {5.0}
    assert [sorted({split.lot_owners[lot] for lot in each.lots}) for each in split.shared_caps] == [[0], [1]]


def test_equality_and_fingerprint_know_them() -> None:
    plain = federation(shared_caps=None)
    assert federation() == federation() and federation() != plain
    prints = {each.fingerprint for each in (plain, federation(), federation(shared_caps=[([0, 1], 11.0)]))}
    assert len(prints) == 3
    assert plain.fingerprint == fp.Federation(**BASE).fingerprint


def test_contributions_are_checked_against_them() -> None:
    fed = federation()
    assert fed.checked_contributions([4.0, 6.0, 1.0, 1.0]).sum() == 12.0
    with pytest.raises(fp.InvalidInput, match=r"add up to at most the shared cap 10 over A: raw, A: noised, got 10\.5"):
        fed.checked_contributions([4.5, 6.0, 1.0, 1.0])
    np.testing.assert_array_equal(fed.arrays.reachable_caps, [10.0, 10.0, np.inf, np.inf])
    assert (fed.arrays.bounds()[0][:2] <= 10.0).all()


@pytest.mark.parametrize(
    ("use", "who"),
    [
        (lambda fed: fp.negotiate(fed, mechanism="shapley"), "a negotiation"),
        (MessageGame, "the message game"),
    ],
)
def test_who_knows_boxes_only_says_so(use, who: str) -> None:
    with pytest.raises(
        fp.InvalidInput, match=f"^{who} knows lots with a cap each only, got 1 shared_caps; leave them out"
    ):
        use(federation())


@pytest.mark.parametrize("cap", [0.0, 1e-12, 1e12])
def test_caps_of_any_size(cap: float) -> None:
    outcome = fp.ExternalityMechanism().solve(federation(shared_caps=[([0, 1], cap)]))
    assert outcome.contributions[:2].sum() <= cap * (1.0 + 1e-12)
    assert outcome.certificates["nash"].holds and outcome.certificates["social-optimality"].holds


@pytest.mark.parametrize("cap", [1e-9, 9e-13, 1e-15, 1e-20, 1e-100, 1e-300, 0.0])
@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism, fp.ShapleyMechanism])
def test_tiny_caps_have_the_price_of_small_ones(mechanism, cap: float) -> None:
    """At a cap of next to nothing one more sample is worth what it is at none, however small that is."""
    prices = [mechanism().solve(federation(shared_caps=[([0, 1], each)])).shared_cap_prices[0] for each in (1e-7, cap)]
    assert prices[0] > 0.001
    np.testing.assert_allclose(prices[1], prices[0], rtol=1e-6)


def test_caps_with_room_have_no_price() -> None:
    for cap in (30.0, 1e6):
        found = fp.ExternalityMechanism().solve(
            federation(weights=WEIGHTS[:, [0, 1, 1, 1]], shared_caps=[([0, 1], cap)])
        )
        assert found.contributions[:2].sum() < cap and found.shared_cap_prices[0] == 0.0
