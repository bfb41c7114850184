"""What a deal means for everybody's images: who trains with whom, and whether the samples are there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.training import Experiment, Images, Training
from fedpact.training.trainable import check_held, deal_for_everybody, images_for

pytest.importorskip("jax")

TRAINING = Training(rounds=1, batch_size=8, hidden=(9, 5))
FEDERATION = fp.Federation(
    [[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.1, 0.6, 1.0]],
    costs=[0.02, 0.03, 0.025],
    caps=[20.0, 18.0, 22.0],
    payoff=fp.PowerLaw(beta=0.3),
    names=["North", "South", "West"],
)
ALONE = fp.Standalone().solve(FEDERATION)


# Everybody


def test_a_deal_between_all_stays_as_it_is() -> None:
    deal = fp.ExternalityMechanism().solve(FEDERATION).deal
    made = deal_for_everybody(deal, FEDERATION)
    assert made.agents == deal.agents and made.excluded == {}
    for part in ("contributions", "payments", "prices", "side_payments"):
        np.testing.assert_array_equal(getattr(made, part), getattr(deal, part), err_msg=part)


@pytest.mark.parametrize("order", [[0, 2], [2, 0]])
def test_those_who_left_train_alone_on_what_they_would_contribute_alone(order: list[int]) -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION.take(order))
    made = deal_for_everybody(outcome, FEDERATION)
    np.testing.assert_array_equal(made.members, [0, 2])
    np.testing.assert_array_equal(made.contributions[order], outcome.contributions)
    np.testing.assert_array_equal(made.payments[order], outcome.payments)
    np.testing.assert_array_equal(made.prices[np.ix_(order, order)], outcome.deal.prices)
    assert made.contributions[1] == ALONE.contributions[1]
    assert made.payments[1] == 0.0 and not made.prices[1].any() and not made.prices[:, 1].any()
    again = deal_for_everybody(made, FEDERATION)
    assert again.excluded == made.excluded == {"South": "trains alone"}
    np.testing.assert_array_equal(again.contributions, made.contributions)


def test_whom_a_negotiation_went_on_without_trains_alone() -> None:
    negotiated = fp.negotiate(FEDERATION)
    paid = negotiated.payments * [1.0, 0.0, 1.0]
    deal = replace(negotiated, payments=paid, excluded={"South": "it did not answer"})
    made = deal_for_everybody(deal, FEDERATION)
    np.testing.assert_array_equal(made.members, [0, 2])
    assert made.excluded == {"South": "it did not answer"}
    assert made.contributions[1] == ALONE.contributions[1]
    assert made.payments[1] == 0.0


@pytest.mark.parametrize("members", [[0, 1, 2], [0, 2]])
def test_where_nobody_federates_everybody_trains_alone(members: list[int]) -> None:
    made = deal_for_everybody(fp.Standalone().solve(FEDERATION.take(members)), FEDERATION)
    assert not made.is_federated
    np.testing.assert_allclose(made.contributions, ALONE.contributions, rtol=1e-12)
    assert not deal_for_everybody(made, FEDERATION).is_federated


def test_contributions_are_within_the_caps() -> None:
    deal = replace(fp.ExternalityMechanism().solve(FEDERATION).deal, contributions=np.array([1.0, 18.1, 1.0]))
    with pytest.raises(fp.InvalidInput, match=r"contributions\[1\] must lie between 0 and the cap 18, got 18.1"):
        deal_for_everybody(deal, FEDERATION)


# Samples


@pytest.mark.parametrize("share", [0.01, 0.2, 0.25, 0.5, 0.9])
def test_the_advice_is_the_fewest_images(share: float) -> None:
    for samples in (1, 2, 3, 7, 33, 100, 401, 10_000):
        enough = images_for(samples, share)
        assert enough - round(share * enough) >= samples
        fewer = enough - 1
        assert fewer - round(share * fewer) < samples


def test_following_the_advice_helps(images: Images) -> None:
    def dealt(samples: int) -> Experiment:
        return Experiment(images, samples=samples, training=TRAINING)

    with pytest.raises(fp.InvalidInput, match=r'member "agent 2" agreed to 41 samples but has 24 .*\(samples=51, '):
        check_held(np.array([30, 0, 41]), np.array([0, 35, 0]), dealt(30))
    check_held(np.array([30, 0, 41]), np.array([0, 35, 0]), dealt(51))
    with pytest.raises(fp.InvalidInput, match='"agent 1" would use, alone, 35 samples but has 24'):
        check_held(np.array([1, 1, 1]), np.array([0, 35, 0]), dealt(30))
    with pytest.raises(fp.InvalidInput, match="of which there are 360 in all"):
        check_held(np.array([1000, 1, 1]), np.array([0, 0, 0]), dealt(30))
