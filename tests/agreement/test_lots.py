"""Agents with several lots and tasks: every quantity by two routes that share as little as possible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.certificates.core import member_bounds
from fedpact.mechanisms.shapley import best_response_dynamics
from fedpact.negotiation.message_game import MessageGame
from message_deviations import gains_by_messages
from potentials import average_over_orders
from random_cases import cases
from strategies import FAMILIES, random_lots, random_profile

EXACT_ROUTES = 1e-10  # of the largest value


def instances(seed: int, count: int, **pinned: object):
    rng = np.random.default_rng(seed)
    for family in FAMILIES:
        for _ in range(cases(count, few=2)):
            fed = random_lots(rng, family=family, **pinned)  # type: ignore[arg-type]
            yield fed, random_profile(rng, fed)


def close(one: np.ndarray, other: np.ndarray, tolerance: float = EXACT_ROUTES) -> None:
    np.testing.assert_allclose(one, other, rtol=0.0, atol=tolerance * (float(np.abs(other).max(initial=0.0)) + 1e-300))


def by_orders(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    """What each agent adds with all its lots when it joins, averaged over all orders."""

    def total(members: tuple[int, ...]) -> float:
        return float(fed.values @ fed.payoff.value(fed.weights @ np.where(np.isin(fed.lot_owners, members), s, 0.0)))

    return average_over_orders(fed.n_agents, total)


@pytest.mark.slow
def test_shapley_values_by_all_routes() -> None:
    for fed, s in instances(0, 20):
        listed = fp.shapley_values(fed, s, method="enumeration")
        close(listed.values, by_orders(fed, s))
        integral = fp.shapley_values(fed, s, method="quadrature")
        close(integral.values, listed.values)
        close(integral.gradient, listed.gradient)
        assert listed.gradient.shape == (fed.n_lots,) and listed.efficiency_gap < 1e-12


def test_splitting_an_agents_data_into_lots_changes_nothing() -> None:
    """Two lots with the weights of one are that one."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.0, 1.0, (4, 4)) + np.eye(4)
    whole = fp.Federation(weights, costs=0.01, caps=30.0, payoff=fp.PowerLaw(0.2))
    parts = fp.Federation(
        np.repeat(weights, 2, axis=1), lot_owners=np.repeat(np.arange(4), 2), costs=0.01, payoff=fp.PowerLaw(0.2)
    )
    s = rng.uniform(0.0, 10.0, 8)
    one, two = fp.shapley_values(whole, s.reshape(4, 2).sum(axis=1)), fp.shapley_values(parts, s)
    close(two.values, one.values, 1e-13)
    close(two.gradient, np.repeat(one.gradient, 2), 1e-13)


# Programs

WELFARE = 1e-9  # of the welfare; what L-BFGS-B with tight tolerances can be held to
SAME_POINT = 1e-6  # of the largest contribution, between two routes to an equilibrium
NASH = 1e-9  # of the utility


def scipy_welfare(fed: fp.Federation) -> float:
    """The best of several runs of L-BFGS-B on formulas written out once more."""
    weights, linear, quadratic = fed.weights, fed.costs.linear, fed.costs.quadratic

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        data = weights @ x
        if (data <= fed.payoff.floor).any():
            return 1e6, np.zeros_like(x)
        welfare = fed.values @ fed.payoff.value(data) - (linear * x + quadratic * x**2).sum()
        slopes = weights.T @ (fed.values * fed.payoff.slope(data)) - linear - 2.0 * quadratic * x
        return -welfare, -slopes

    bounds = [(0.0, None if np.isinf(cap) else cap) for cap in fed.caps]
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-12}
    starts = (share * np.minimum(fed.caps, 1.0) for share in (0.01, 0.5))
    return -min(
        float(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun)
        for start in starts
    )


def test_the_welfare_optimum_against_scipy() -> None:
    for fed, _ in instances(10, 20):
        found = fp.social_optimum(fed)
        best = scipy_welfare(fed)
        assert found.welfare >= best - WELFARE * max(abs(best), 1e-6)


def test_collinear_lots_have_the_split_of_smallest_norm() -> None:
    rng = np.random.default_rng(11)
    for _ in range(cases(12)):
        fed = random_lots(rng, collinear=True, harm=False)
        twins = [0, fed.n_lots - 1]
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            outcome = mechanism.solve(fed)
            one, other = outcome.contributions[twins]
            if one + other > 0 and max(one, other) < 0.99 * fed.caps[twins].min():
                assert one == pytest.approx(other, rel=1e-6)
                assert outcome.equilibria.unique is False and "smallest norm" in outcome.equilibria.note


def test_the_shapley_equilibrium_against_best_responses() -> None:
    """Utilities and data are unique; contributions too where lots are not collinear."""
    for fed, _ in instances(12, 5, n_agents=3):
        solved = fp.ShapleyMechanism().solve(fed)
        answered = best_response_dynamics(fed, tol=1e-9, max_rounds=400).contributions
        close(answered, solved.contributions, SAME_POINT)
        there = fp.ShapleyMechanism().outcome_at(fed, answered)
        close(there.utilities, solved.utilities, NASH)


@pytest.mark.slow
def test_nobody_gains_in_any_equilibrium() -> None:
    """The certificates, which share no code with the solvers, and plain trials besides."""
    rng = np.random.default_rng(13)
    for fed, _ in instances(14, 10):
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone()):
            outcome = mechanism.solve(fed)
            for claim in mechanism.promises(fed):
                assert outcome.certificates[claim].holds, (mechanism.name, claim)
            if mechanism.name != "shapley":
                continue
            for agent in np.unique(fed.lot_owners):
                own, tried = fed.lots_of(agent), outcome.contributions.copy()
                tried[own] = random_profile(rng, fed)[own]
                utility = fp.shapley_values(fed, tried).values[agent] - fed.spending(tried)[agent]
                assert utility <= outcome.utilities[agent] + NASH * (1.0 + abs(outcome.utilities[agent]))


@pytest.mark.slow
def test_spoiled_outcomes_are_refuted() -> None:
    for fed, _ in instances(15, 5):
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary()):
            outcome = mechanism.solve(fed)
            lot = int(np.argmax(outcome.contributions))
            if outcome.contributions[lot] < 1e-2:
                continue
            spoiled = outcome.contributions.copy()
            spoiled[lot] *= 0.5
            if not fed.admits(spoiled) or (fed.arrays.lowest_data(spoiled) <= fed.payoff.floor).any():
                continue
            changed = outcome.with_profile(spoiled, mechanism.payments(fed.arrays, spoiled))
            assert str(changed.certificates["nash"].verdict) == "violated"
            witness = changed.certificates["nash"].witness
            assert witness["deviation_utility"] > witness["utility"]


def test_prices_pay_for_every_lot() -> None:
    for fed, _ in instances(16, 5):
        outcome = fp.ExternalityMechanism().solve(fed)
        prices = outcome.deal.prices
        assert prices is not None and prices.shape == (fed.n_agents, fed.n_lots)
        close(-(prices @ outcome.contributions), outcome.payments, 1e-9)
        np.testing.assert_allclose(prices.sum(axis=0), 0.0, atol=1e-12 * float(np.abs(prices).max()))
        assert outcome.deal.price_contradiction() == ""


def test_the_core_by_prices_and_by_groups() -> None:
    rng = np.random.default_rng(22)
    for count in range(cases(12)):
        fed = random_lots(rng, harm=bool(count % 2))
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            outcome = mechanism.solve(fed)
            worst, certificate = fp.blocking_group(outcome), outcome.certificates["core"]
            assert worst.blocks == (str(certificate.verdict) == "violated")
            most = np.maximum(member_bounds(fed, outcome.utilities, outcome.contributions), 0.0).sum()
            assert worst.gain <= most + 1e-9 and (worst.blocks or certificate.holds)


def test_posing_as_several() -> None:
    rng = np.random.default_rng(24)
    for _ in range(cases(10)):
        fed = random_lots(rng, harm=False)
        agent = int(rng.integers(fed.n_agents))
        size = float(np.abs(fp.ExternalityMechanism().solve(fed).utilities).max())
        assert fp.splitting_gain(fed, "externality", agent, 3) == pytest.approx(0.0, abs=1e-9 * size)


def test_fair_deals_keep_everybody() -> None:
    rng = np.random.default_rng(25)
    for _ in range(cases(8, few=3)):
        fed = random_lots(rng, harm=False)
        plain = fp.ExternalityMechanism().solve(fed)
        for keep in ("groups", "members"):
            for by in ("gain", "reciprocity"):
                mechanism = fp.FairMechanism(keep=keep, by=by)
                outcome = mechanism.solve(fed)
                assert all(outcome.certificates[claim].holds for claim in mechanism.promises(fed))
                assert by == "gain" or outcome.reciprocity >= plain.reciprocity - 1e-9
                close(outcome.contributions, plain.contributions, 1e-12)


@pytest.mark.slow
def test_many_agents_are_certified_by_the_integral() -> None:
    fed = random_lots(np.random.default_rng(18), n_agents=14, harm=False, family=fp.PowerLaw)
    outcome = fp.ShapleyMechanism().solve(fed)
    assert outcome.certificates["nash"].holds and outcome.certificates["reciprocity"].holds
    assert "integral" in outcome.certificates["nash"].scope
    spoiled = outcome.with_profile(0.5 * outcome.contributions, outcome.payments)
    assert str(spoiled.certificates["nash"].verdict) == "violated"


@pytest.mark.slow
def test_batches_and_sweeps_are_federations_one_by_one() -> None:
    rng = np.random.default_rng(26)
    for _ in range(cases(6, few=2)):
        fed = random_lots(rng, harm=False)
        dearer = fed.replace(costs=fp.Linear(2.0 * fed.costs.linear))
        plain = fed.replace(costs=fp.Linear(fed.costs.linear))
        swept = fp.sweep(
            plain,
            f"costs[{fed.lot_labels[0]}]=0.01,0.5",
            metrics=["contributions", "payments", "nash"],
            mechanisms=["externality", "shapley"],
        )
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Standalone()):
            together = fp.solve_batch([plain, dearer], mechanism)
            for place, each in enumerate((plain, dearer)):
                alone = mechanism.solve(each)
                stake = float(np.abs(alone.payoffs).max())  # gains of those who stand alone are rounding of it
                for name in ("contributions", "payments", "ir_gaps", "shapley_values", "net_externality"):
                    one, other = getattr(together, name)[place], getattr(alone, name)
                    atol = 1e-12 * max(stake, float(np.abs(other).max()))
                    np.testing.assert_allclose(one, other, rtol=0.0, atol=atol, err_msg=name)
            assert all(each.certificates["nash"].holds for each in together)
            assert together[1].federation == dearer
        for place, cost in enumerate((0.01, 0.5)):
            rates = plain.costs.linear.copy()
            rates[0] = cost
            alone = fp.ShapleyMechanism().solve(plain.replace(costs=fp.Linear(rates)))
            close(swept.metrics["shapley"]["contributions"][place], alone.contributions, 1e-9)
            close(swept.metrics["shapley"]["payments"][place], alone.payments, 1e-9)
            assert swept.holds["shapley"]["nash"][place]
        assert f"contributions[{fed.lot_labels[0]}]" in swept.columns()


def test_the_message_game_pays_for_every_lot() -> None:
    """Each lot is a good of its own; everybody who owns it or has a use for it says what it wants of it."""
    rng = np.random.default_rng(27)
    played = 0
    while played < cases(8, few=3):
        fed = random_lots(rng, n_agents=4, harm=False)
        try:
            game = MessageGame(fed)
        except fp.InvalidInput:  # some lot matters to fewer than three
            continue
        played += 1
        outcome, messages = fp.ExternalityMechanism().solve(fed), game.equilibrium_messages()
        settled = game.outcome(messages)
        assert messages.proposals.shape == (fed.n_agents, fed.n_lots)
        close(settled.contributions, outcome.contributions, 1e-12)
        close(settled.payments, outcome.payments, 1e-9)
        assert gains_by_messages(game, messages).max() <= 1.0
        wrong = game.messages_for(0.5 * outcome.contributions, settled.prices)
        assert game.outcome(wrong).payments.sum() == pytest.approx(0.0, abs=1e-9)
        if outcome.contributions.max() > 1e-2 and np.abs(outcome.payments).max() > 1e-3:
            assert gains_by_messages(game, wrong).max() > 1.0
