"""Agents with several lots and tasks: every quantity by two routes that share as little as possible."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from fedpact.certificates.payment_bounds import price_payment_bounds
from fedpact.federation.identities import split_agent
from fedpact.programs.groups import group_optima
from fedpact.shapley.adapters import coalition_game
from fedpact.shapley.compiled import Precision, integrate
from fedpact.shapley.own_share import own_lots
from fedpact.shapley.potential import CompiledPotential, EnumeratedPotential, IntegratedPotential
from fedpact.shapley.receiver_rows import receiver_rows
from scipy.optimize import approx_fprime, minimize

import fedpact as fp
from fedpact.certificates.core import largest_gain_bound
from fedpact.negotiation.message_game import MessageGame
from fedpact.mechanisms.shapley import best_response_dynamics
from random_cases import cases
from strategies import FAMILIES, random_lots, random_profile

EXACT_ROUTES = 1e-10  # of the largest value
DIFFERENCES = 1e-5  # what finite differences can tell
ROUGH_CURVATURE = 0.1  # off its blocks, the compiled Hessian is good enough for a direction


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
    weights, values = fed.dense_weights(), np.zeros(fed.n_agents)

    def total(members: tuple[int, ...]) -> float:
        return float(fed.values @ fed.payoff.value(weights @ np.where(np.isin(fed.lot_owners, members), s, 0.0)))

    for order in permutations(range(fed.n_agents)):
        for place, agent in enumerate(order):
            values[agent] += total(order[: place + 1]) - total(order[:place])
    return values / math.factorial(fed.n_agents)


@pytest.mark.slow
def test_shapley_values_by_all_routes() -> None:
    for fed, s in instances(0, 20):
        listed = fp.shapley_values(fed, s, method="enumeration")
        close(listed.values, by_orders(fed, s))
        integral = fp.shapley_values(fed, s, method="quadrature")
        close(integral.values, listed.values)
        close(integral.gradient, listed.gradient)
        compiled = integrate(receiver_rows(fed), s, Precision.reaching(EXACT_ROUTES))
        close(compiled.values, listed.values)
        close(compiled.slopes, listed.gradient)
        assert listed.gradient.shape == (fed.n_lots,) and listed.efficiency_gap < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [9, 14])
def test_shapley_values_of_more_agents(n_agents: int) -> None:
    rng = np.random.default_rng(n_agents)
    for harm in (False, True):
        fed = random_lots(rng, n_agents=n_agents, harm=harm, family=fp.PowerLaw, sparse=harm)
        s = random_profile(rng, fed)
        listed = fp.shapley_values(fed, s, method="enumeration")
        integral = fp.shapley_values(fed, s, method="quadrature")
        close(integral.values, listed.values)
        close(integral.gradient, listed.gradient)
        compiled = integrate(receiver_rows(fed), s, Precision.reaching(EXACT_ROUTES))
        close(compiled.values, listed.values)
        close(compiled.slopes, listed.gradient)


def test_sampled_values_are_within_their_errors() -> None:
    rng = np.random.default_rng(21)
    for harm in (False, True):
        fed = random_lots(rng, n_agents=7, harm=harm, sparse=harm)
        s = random_profile(rng, fed)
        exact = fp.shapley_values(fed, s, method="enumeration")
        sampled = fp.shapley_values(fed, s, method="sampling", rng=0)
        size = float(np.abs(exact.values).max())
        assert (np.abs(sampled.values - exact.values) <= 5.0 * sampled.standard_errors + 1e-12 * size).all()
        assert sampled.gradient.shape == (fed.n_lots,)
        np.testing.assert_allclose(sampled.gradient, exact.gradient, rtol=0.1, atol=0.02 * np.abs(exact.gradient).max())


@pytest.mark.slow
def test_potential_and_its_derivatives() -> None:
    for fed, s in instances(1, 10):
        listed, integral, compiled = EnumeratedPotential(fed), IntegratedPotential(fed), CompiledPotential(fed)
        assert listed.value(s) == pytest.approx(integral.value(s), rel=1e-9, abs=1e-12)
        gradient, hessian = listed.gradient(s), listed.hessian(s)
        close(integral.gradient(s), gradient)
        close(integral.hessian(s), hessian, 1e-8)
        close(compiled.gradient(s), gradient)
        own = fed.lot_owners[:, None] == fed.lot_owners
        close(compiled.hessian(s)[own], hessian[own], 1e-8)
        close(compiled.hessian(s), hessian, ROUGH_CURVATURE)
        inside = np.maximum(s, 1e-3)
        for lot in range(fed.n_lots):
            numeric = approx_fprime(inside, lambda x, lot=lot, of=listed: of.gradient(x)[lot], 1e-6)
            close(numeric, listed.hessian(inside)[lot], 1e-3)


def test_a_potential_without_an_agent_is_free_of_its_lots() -> None:
    """phi_j = P(N) - P(N without j)."""
    for fed, s in instances(2, 5, n_agents=4):
        values, whole = fp.shapley_values(fed, s).values, EnumeratedPotential(fed).value(s)
        for agent in range(fed.n_agents):
            others = np.where(fed.lot_owners == agent, 0.0, s)
            # The federation in which the agent brings nothing still counts it as a player; the potential is the same.
            assert whole - EnumeratedPotential(fed).value(others) == pytest.approx(values[agent], rel=1e-9, abs=1e-11)


def test_own_lots_follow_the_value() -> None:
    for fed, s in instances(3, 5, n_agents=4):
        for agent in np.unique(fed.lot_owners):
            own = fed.lots_of(agent)
            upper = np.where(np.isfinite(fed.caps[own]), fed.caps[own], 50.0)
            moved = s.copy()
            moved[own] = 0.5 * upper
            there = fp.shapley_values(fed, moved, method="enumeration")
            for method in ("enumeration", "quadrature"):
                share = own_lots(fed, s, int(agent), upper, method=method)
                u = share.weights @ moved[own]
                assert share.value(u) == pytest.approx(there.values[agent], rel=1e-8, abs=1e-10)
                close(share.weights.T @ share.slopes(u), there.gradient[own], 1e-8)
                steps = 1e-6 * (1.0 + np.abs(u))
                numeric = (share.slopes(u + steps) - share.slopes(u - steps)) / (2.0 * steps)
                close(numeric, share.bends(u), DIFFERENCES)


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


def test_the_game_of_a_profile() -> None:
    fed, s = next(instances(8, 1, n_agents=3))
    game = coalition_game(fed, s)
    assert game([0, 1, 2]) == pytest.approx(float(fed.payoffs(s).sum()), rel=1e-12)
    only = np.where(fed.lot_owners == 0, s, 0.0)
    assert game.values([[0]])[0] == pytest.approx(float(fed.payoffs(only).sum()), rel=1e-12)


# Programs

WELFARE = 1e-9  # of the welfare; what L-BFGS-B with tight tolerances can be held to
SAME_POINT = 1e-6  # of the largest contribution, between two routes to an equilibrium
NASH = 1e-9  # of the utility


def scipy_welfare(fed: fp.Federation) -> float:
    """The best of several runs of L-BFGS-B on formulas written out once more."""
    weights, linear, quadratic = fed.dense_weights(), fed.costs.linear, fed.costs.quadratic

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
            if not fed.admits(spoiled) or (fed.lowest_data(spoiled) <= fed.payoff.floor).any():
                continue
            changed = outcome.with_profile(spoiled, mechanism.payment_rule(fed, spoiled))
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
        assert outcome.deal.price_contradiction == ""


@pytest.mark.slow
def test_what_groups_reach_against_each_group_solved_alone() -> None:
    rng = np.random.default_rng(17)
    for count in range(cases(12)):
        fed = random_lots(rng, n_agents=4, harm=bool(count % 2))
        found = group_optima(fed)
        for members, value, profile in zip(found.members, found.values, found.contributions, strict=True):
            some = np.flatnonzero(members)
            able = np.isin(some, fed.lot_owners).any() and np.isin(some, fed.task_owners).any()
            alone = fp.social_optimum(fed.take(members)).welfare if able else 0.0
            assert value == pytest.approx(alone, rel=1e-8, abs=1e-10)
            assert not profile[~members[fed.lot_owners]].any()


def test_the_core_by_prices_and_by_groups() -> None:
    rng = np.random.default_rng(22)
    for count in range(cases(12)):
        fed = random_lots(rng, harm=bool(count % 2))
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            outcome = mechanism.solve(fed)
            worst, certificate = fp.blocking_group(outcome), outcome.certificates["core"]
            assert worst.blocks == (str(certificate.verdict) == "violated")
            most = largest_gain_bound(fed, outcome.utilities, outcome.contributions)
            assert worst.gain <= most + 1e-9 and (worst.blocks or certificate.holds)


@pytest.mark.slow
def test_a_search_for_the_worst_group_agrees_with_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(23)
    for family in (fp.PowerLaw, fp.Exponential, fp.Log)[: cases(3, few=2)]:
        fed = random_lots(rng, n_agents=6, harm=False, family=family, quadratic=family is fp.Log)
        outcome = fp.ShapleyMechanism().solve(fed)
        exact = fp.blocking_group(outcome)
        with monkeypatch.context() as patched:
            patched.setattr("fedpact.programs.worst_group.MAX_LISTED_AGENTS", 2)
            found = fp.blocking_group(outcome, time_limit=np.inf, max_relaxations=40)
        assert found.gain <= exact.gain + 1e-9 <= found.upper_bound + 2e-9
        assert found.group == exact.group


def test_posing_as_several_and_as_one() -> None:
    rng = np.random.default_rng(24)
    for _ in range(cases(10)):
        fed = random_lots(rng, harm=False)
        agent = int(rng.integers(fed.n_agents))
        size = float(np.abs(fp.ExternalityMechanism().solve(fed).utilities).max())
        assert fp.splitting_gain(fed, "externality", agent, 3) == pytest.approx(0.0, abs=1e-9 * size)
        posing, parts = split_agent(fed, agent)
        gain = fp.splitting_gain(fed, "shapley", agent)
        assert fp.merging_gain(posing, "shapley", (parts.start, parts.stop - 1)) == pytest.approx(
            -gain, abs=1e-8 * size
        )


def test_fair_deals_keep_everybody() -> None:
    rng = np.random.default_rng(25)
    for _ in range(cases(8, few=3)):
        fed = random_lots(rng, harm=False)
        plain = fp.ExternalityMechanism().solve(fed)
        for keep in ("groups", "members"):
            mechanism = fp.FairMechanism(keep=keep)
            outcome = mechanism.solve(fed)
            assert all(outcome.certificates[claim].holds for claim in mechanism.promises(fed))
            assert outcome.reciprocity >= plain.reciprocity - 1e-9
            close(outcome.contributions, plain.contributions, 1e-12)


@pytest.mark.slow
def test_many_agents_are_certified_by_the_integral() -> None:
    fed = random_lots(np.random.default_rng(18), n_agents=14, harm=False, family=fp.PowerLaw)
    outcome = fp.ShapleyMechanism().solve(fed)
    assert outcome.certificates["nash"].holds and outcome.certificates["reciprocity"].holds
    assert "integral" in outcome.certificates["nash"].scope
    spoiled = outcome.with_profile(0.5 * outcome.contributions, outcome.payments)
    assert str(spoiled.certificates["nash"].verdict) == "violated"


def test_payments_of_a_profile_nearby_are_within_their_bounds() -> None:
    rng = np.random.default_rng(19)
    bounded = 0
    for fed, _ in instances(20, 10):
        outcome = fp.ExternalityMechanism().solve(fed)
        exact = price_payment_bounds(fed, outcome.contributions)
        close(exact.payments, outcome.payments, 1e-9)
        off = np.clip(outcome.contributions * (1.0 + 1e-6 * rng.standard_normal(fed.n_lots)), 0.0, fed.caps)
        found = price_payment_bounds(fed, off)
        bounded += bool(np.isfinite(found.errors).all())
        assert (np.abs(found.payments - outcome.payments) <= found.errors + 1e-12).all()
    assert bounded > 0


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
            assert together.certificates["nash"].holds.all()
            assert together.batch.take([1])[0] == together.batch[1]
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
        assert game.certificate(messages).holds
        wrong = game.form.messages_for(0.5 * outcome.contributions, settled.prices)
        assert game.outcome(wrong).payments.sum() == pytest.approx(0.0, abs=1e-9)
        if outcome.contributions.max() > 1e-2 and np.abs(outcome.payments).max() > 1e-3:
            assert not game.certificate(wrong).holds


def test_who_is_harmed_beyond_its_domain_is_named_by_its_task() -> None:
    weights = [
        [1.16577395, -0.05813789, -0.05323961, 0.74682453],
        [0.74576194, 0.25734854, 1.92799345, 3.52151104],
        [0.22175904, 0.5611554, 1.4459857, -0.47494024],
        [1.90728089, 0.28237421, -0.5984269, 2.25271877],
        [0.11749633, 1.19417236, -1.18675653, 0.66706142],
    ]
    federation = fp.Federation(
        weights,
        costs=fp.Quadratic([0.001, 0.001, 0.05, 0.05], 0.01),
        caps=[400.0, 1.0, 5.0, 1.0],
        values=[10.0, 1.0, 1.0, 10.0, 10.0],
        payoff=fp.Michaelis(half=1.0),
        names=["Owner", "Giver", "Other"],
        lot_owners=["Giver", "Giver", "Other", "Giver"],
        task_owners=["Owner", "Giver", "Other", "Owner", "Owner"],
    )
    with pytest.raises(fp.NotConverged, match='task "Owner 3" is harmed more than its payoff curve describes by what'):
        fp.Voluntary().solve(federation)
