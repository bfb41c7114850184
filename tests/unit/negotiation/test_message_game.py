"""The message game: taxes balance at every profile, nobody gains by saying something else in equilibrium."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fedpact as fp
from message_deviations import best_deviation, gains_by_messages
from random_cases import cases

BALANCE = 1e-12


def federations(seed: int, count: int) -> Iterator[fp.Federation]:
    """Three to eight agents, helpful and harmful, some links missing, caps that bind or none, both kinds of cost."""
    rng = np.random.default_rng(seed)
    while count:
        n_agents = int(rng.integers(3, 9))
        weights = rng.uniform(0.05, 2.0, (n_agents, n_agents))
        weights = np.where(rng.random(weights.shape) < 0.15, -0.3 * weights, weights)
        weights = np.where(rng.random(weights.shape) < 0.2, 0.0, weights)
        np.fill_diagonal(weights, rng.uniform(0.5, 2.0, n_agents))
        if ((weights != 0).sum(axis=0) < 3).any():
            continue
        rates = rng.uniform(0.001, 0.1, n_agents)
        bends = rng.uniform(0.0, 0.01, n_agents)
        yield fp.Federation(
            weights,
            costs=fp.Quadratic(rates, bends) if rng.random() < 0.5 else rates,
            caps=rng.uniform(1.0, 60.0, n_agents) if rng.random() < 0.7 else np.inf,
            payoff=fp.PowerLaw(float(rng.uniform(0.05, 0.9))),
        )
        count -= 1


def random_messages(federation: fp.Federation, rng: np.random.Generator) -> fp.Messages:
    shape = (federation.n_agents, federation.n_agents)
    return fp.Messages(
        proposals=rng.uniform(0.0, 1.0, shape) * np.minimum(federation.caps, 50.0), prices=rng.uniform(0.0, 1.0, shape)
    )


def test_taxes_sum_to_zero_at_any_messages() -> None:
    rng = np.random.default_rng(1)
    for federation in federations(seed=1, count=cases(13)):
        game = fp.MessageGame(federation)
        for _ in range(cases(12)):
            payments = game.outcome(random_messages(federation, rng)).payments
            assert abs(payments.sum()) <= BALANCE * np.abs(payments).sum()


def test_equilibrium_messages_make_the_deal_of_the_mechanism_and_nobody_gains_by_others() -> None:
    for federation in federations(seed=2, count=cases(13)):
        deal = fp.ExternalityMechanism().solve(federation)
        game = fp.MessageGame(federation)
        messages = game.equilibrium_messages(deal.contributions)
        found = game.outcome(messages)
        size = float(np.abs(deal.payoffs).max())
        np.testing.assert_allclose(found.contributions, deal.contributions, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.payments, deal.payments, atol=1e-9 * size)
        np.testing.assert_allclose(found.utilities, deal.utilities, atol=1e-9 * size)
        assert gains_by_messages(game, messages).max() <= 1.0


def test_the_best_deviation_beats_any_other() -> None:
    rng = np.random.default_rng(3)
    for federation in federations(seed=3, count=cases(12)):
        game = fp.MessageGame(federation)
        messages = random_messages(federation, rng)
        here = game.outcome(messages)
        for agent in range(federation.n_agents):
            if not np.isfinite(here.utilities[agent]):
                continue
            gain, _ = best_deviation(game, agent, messages)
            for _ in range(cases(13)):
                proposals = rng.uniform(0.0, 1.0, federation.n_agents) ** 3 * np.minimum(federation.caps, 50.0)
                tried = game.outcome(messages.replace(agent, proposals, rng.uniform(0.0, 0.1, federation.n_agents)))
                assert tried.utilities[agent] - here.utilities[agent] <= gain + 1e-9


def test_fewer_than_three_who_draw_on_somebody_s_data_are_refused_by_name() -> None:
    weights = np.ones((4, 4))
    weights[[0, 1], 3] = 0.0
    federation = fp.Federation(weights, costs=0.01, caps=9.0, payoff=fp.PowerLaw(0.3), names=["A", "B", "C", "Lonely"])
    with pytest.raises(fp.InvalidInput, match=r'"Lonely" matters to 2 only; personal prices make the same deal'):
        fp.MessageGame(federation)
    deal = fp.negotiate(federation)
    np.testing.assert_allclose(deal.payments, fp.ExternalityMechanism().solve(federation).payments, atol=1e-7)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda said: said["proposals"].__setitem__((0, 1), -1.0), r"proposals\[0, 1\] must be between 0 and the cap"),
        (lambda said: said["proposals"].__setitem__((2, 0), 1e9), r"proposals\[2, 0\] must be between 0 and the cap"),
        (lambda said: said["prices"].__setitem__((1, 1), np.nan), r"prices\[1, 1\] must be at least zero and finite"),
    ],
)
def test_messages_out_of_range_are_refused(spoil, message: str) -> None:
    federation = fp.Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    said = {"proposals": np.ones((3, 3)), "prices": np.ones((3, 3))}
    spoil(said)
    with pytest.raises(fp.InvalidInput, match=message):
        fp.MessageGame(federation).outcome(fp.Messages(**said))


def test_an_agent_s_own_prices_only_fine_itself() -> None:
    rng = np.random.default_rng(6)
    for federation in federations(seed=6, count=5):
        game, messages = fp.MessageGame(federation), random_messages(federation, rng)
        silent = messages.replace(0, messages.proposals[0], np.zeros(federation.n_agents))
        assert game.outcome(silent).payments[0] >= game.outcome(messages).payments[0] - 1e-12


def test_what_does_not_matter_to_the_sender_is_ignored() -> None:
    weights = np.ones((4, 4))
    weights[0, 1] = 0.0
    game = fp.MessageGame(fp.Federation(weights, costs=0.01, caps=9.0, payoff=fp.Log()))
    messages = game.equilibrium_messages()
    proposals, prices = messages.proposals.copy(), messages.prices.copy()
    proposals[0, 1], prices[0, 1] = np.nan, -7.0
    said = game.outcome(fp.Messages(proposals=proposals, prices=prices))
    np.testing.assert_array_equal(said.payments, game.outcome(messages).payments)


def test_a_bad_equilibrium_in_which_everybody_wants_the_others_data() -> None:
    """No price, and everybody asks for all of the others' data and none of its own: nobody gains by asking for less."""
    weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    federation = fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    game = fp.MessageGame(federation)
    bad = fp.Messages(proposals=400.0 * (1.0 - np.eye(3)), prices=np.zeros((3, 3)))
    here = game.outcome(bad)
    np.testing.assert_allclose(here.contributions, 800.0 / 3.0, rtol=1e-14)
    assert federation.welfare(here.contributions) == pytest.approx(-0.42, abs=5e-3)
    assert [best_deviation(game, agent, bad)[0] for agent in range(3)] == pytest.approx([0.0] * 3, abs=1e-9)
    assert gains_by_messages(game, bad).max() <= 1.0
