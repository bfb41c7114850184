"""Fair gains, fair deals and the best members, against all groups solved one by one; with lots and joining costs."""

from __future__ import annotations

from itertools import chain, combinations
from math import factorial

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import fedpact as fp
from random_cases import cases
from strategies import random_federation, random_lots

Groups = dict[frozenset[int], float]
KINDS = ["dense", "sparse", "harm", "lots", "home"]
AGREEMENT = 1e-8  # of the largest worth of a group


def drawn(kind: str, seed: int, n_agents: int = 4) -> fp.Federation:
    """Joining costs are a few percent of what a member has, or nothing."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind == "lots":
        fed = random_lots(rng, n_agents=n_agents, harm=bool(seed % 2))
    else:
        fed = random_federation(rng, n_agents=n_agents, harm=kind == "harm")
    if kind == "sparse":
        own = np.eye(n_agents, dtype=bool)
        fed = fed.replace(weights=np.where((rng.random(own.shape) < 0.7) & ~own, 0.0, fed.weights))
    if kind == "home":
        fed = fed.replace(home=np.minimum(fed.caps, 10.0))
    scale = float(np.mean(np.abs(fp.social_optimum(fed).welfare))) / n_agents
    return fed.replace(joining_costs=rng.uniform(0.0, 0.1, n_agents) * scale if seed % 3 else 0.0)


def groups_of(n_agents: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(n_agents), size) for size in range(1, n_agents + 1)))


def worth_of_groups(fed: fp.Federation) -> Groups:
    """v(X), each a federation of its own."""
    found: Groups = {frozenset(): 0.0}
    for group in groups_of(fed.n_agents):
        joining = float(fed.joining_costs[list(group)].sum()) if len(group) > 1 else 0.0
        trains = np.isin(fed.lot_owners, group).any() and np.isin(fed.task_owners, group).any()
        found[frozenset(group)] = (fp.social_optimum(fed.take(list(group))).welfare if trains else 0.0) - joining
    return found


def enumerated(worth: Groups, n_agents: int) -> tuple[np.ndarray, np.ndarray]:
    """Fair gains, the Shapley values of what the best part of every group gains, and what members have alone."""
    alone = np.array([worth[frozenset([agent])] for agent in range(n_agents)])
    gains = {group: value - alone[list(group)].sum() for group, value in worth.items()}
    best = {group: max(gain for part, gain in gains.items() if part <= group) for group in gains}
    fair = np.zeros(n_agents)
    for group, value in best.items():
        for agent in set(range(n_agents)) - group:
            share = factorial(len(group)) * factorial(n_agents - len(group) - 1) / factorial(n_agents)
            fair[agent] += share * (best[group | {agent}] - value)
    return fair, alone


def constraints(worth: Groups, n_agents: int, *, keep: str) -> tuple[np.ndarray, np.ndarray]:
    """Who is to be kept; all together have the total anyway."""
    kept = [group for group in groups_of(n_agents)[:-1] if keep == "groups" or len(group) == 1]
    rows = np.array([[agent in group for agent in range(n_agents)] for group in kept], dtype=float)
    return rows, np.array([worth[frozenset(group)] for group in kept])


def nearest(target: np.ndarray, rows: np.ndarray, limits: np.ndarray, total: float) -> np.ndarray | None:
    """The nearest point by a general solver; None where a linear program finds none at all."""
    unit = max(float(np.abs(limits).max()), abs(total), 1e-300)
    feasible = linprog(
        np.zeros(target.size), -rows, -limits / unit, np.ones((1, target.size)), [total / unit], (None, None)
    )
    if feasible.status == 2:
        return None
    found = minimize(
        lambda x: float(((x - target / unit) ** 2).sum()),
        feasible.x,
        jac=lambda x: 2.0 * (x - target / unit),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: rows @ x - limits / unit, "jac": lambda _: rows},
            {"type": "eq", "fun": lambda x: x.sum() - total / unit, "jac": lambda _: np.ones((1, target.size))},
        ],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert found.success, found.message
    return found.x * unit


@pytest.mark.parametrize("kind", KINDS)
def test_fair_gains_are_those_of_all_groups(kind: str) -> None:
    for seed in range(cases(30)):
        fed = drawn(kind, seed)
        worth = worth_of_groups(fed)
        fair, alone = enumerated(worth, fed.n_agents)
        scale = max(map(abs, worth.values()))
        outcome = fp.ExternalityMechanism().solve(fed)
        np.testing.assert_allclose(outcome.fair_gains, fair, rtol=0.0, atol=AGREEMENT * scale)
        assert not outcome.fair_gain_errors.any()
        gains = outcome.utilities - alone
        some = outcome.fair_gains > 1e-6 * scale
        np.testing.assert_allclose(outcome.gain_shares[some], gains[some] / fair[some], rtol=1e-3, atol=1e-9)
        lowest = np.fmin.reduce(outcome.gain_shares)
        assert outcome.lowest_gain_share == pytest.approx(lowest, nan_ok=True)
        batch = fp.solve_batch([fed, fed], "externality")
        np.testing.assert_allclose(batch.fair_gains[1], outcome.fair_gains, rtol=0.0, atol=AGREEMENT * scale)
        assert (outcome.fair_gains >= -AGREEMENT * scale).all()


@pytest.mark.parametrize("keep", ["groups", "members"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_fair_deal_is_the_nearest_to_fair_gains_that_keeps_everybody(kind: str, keep: str) -> None:
    rules = fp.FairMechanism(keep=keep)
    for seed in range(cases(30)):
        fed = drawn(kind, seed)
        worth = worth_of_groups(fed)
        fair, alone = enumerated(worth, fed.n_agents)
        scale, total = max(map(abs, worth.values())), worth[frozenset(range(fed.n_agents))]
        expected = nearest(alone + fair, *constraints(worth, fed.n_agents, keep=keep), total)
        if expected is None:
            with pytest.raises(fp.NoFairDeal, match="no side payments keep everybody: "):
                rules.solve(fed)
            continue
        outcome = rules.solve(fed)
        np.testing.assert_allclose(outcome.utilities, expected, rtol=0.0, atol=1e-6 * scale)
        for claim in rules.promises(fed):
            assert outcome.certificates[claim].holds, (seed, claim, outcome.certificates[claim])
        assert fp.Claim.FAIR_GAINS in rules.promises(fed)
        rows, limits = constraints(worth, fed.n_agents, keep=keep)
        is_all = (alone + fair).sum() <= total + AGREEMENT * scale  # not more than there is, where some should stay out
        if is_all and (rows @ (alone + fair) >= limits).all():
            np.testing.assert_allclose(outcome.utilities, alone + fair, rtol=0.0, atol=AGREEMENT * scale)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["gain", "reciprocity"])
def test_budgets_are_kept_or_no_deal_does(by: str) -> None:
    refused = kept = 0
    for seed in range(cases(20, few=12)):
        fed = drawn("dense", 3 * seed)
        free = fp.FairMechanism(by=by).solve(fed)
        budgets = np.maximum(-free.payments, 0.0) * np.random.default_rng(seed).uniform(0.0, 1.0, fed.n_agents)
        limited, worth = fed.replace(budgets=budgets), worth_of_groups(fed)
        scale, total = max(map(abs, worth.values())), worth[frozenset(range(fed.n_agents))]
        rows, limits = constraints(worth, fed.n_agents, keep="groups")
        least = free.payoffs - free.costs - budgets
        feasible = nearest(
            free.utilities, np.vstack([rows, np.eye(fed.n_agents)]), np.concatenate([limits, least]), total
        )
        plain = fp.ExternalityMechanism().solve(limited)
        over = np.flatnonzero(-plain.payments > budgets + 1e-6 * scale)
        assert set(plain.over_budget) >= {fed.names[agent] for agent in over}
        if feasible is None:
            refused += 1
            with pytest.raises(fp.NoFairDeal, match="no side payments keep everybody within the budgets of agent 0"):
                fp.FairMechanism(by=by).solve(limited)
            continue
        kept += 1
        outcome = fp.FairMechanism(by=by).solve(limited)
        assert (outcome.payments >= -budgets - 1e-9 * scale).all() and not outcome.over_budget
        assert outcome.certificates["core"].holds
        assert by == "reciprocity" or outcome.certificates["fair-gains"].holds
    assert refused and kept


def identical_blocks(counts: list[int], *, home: bool = False) -> fp.Federation:
    """Blocks of identical members, each block useful to itself only."""
    block = np.repeat(np.arange(len(counts)), counts)
    weights = np.where(block[:, None] == block, 0.4 + 0.2 * block, 0.0)
    np.fill_diagonal(weights, 1.0)
    values = 1.0 + 0.5 * block
    return fp.Federation(
        weights, costs=0.01, caps=30.0, payoff=fp.PowerLaw(0.3), values=values, home="all" if home else None
    )


def test_sampled_fair_gains_lie_within_their_errors() -> None:
    """Identical members have equal gains; of blocks that do not matter to each other they are those of each block."""
    for counts, home in (([17], False), ([12, 6], True), ([4] * 5, False)):
        fed = identical_blocks(counts, home=home)
        outcome, expected = fp.ExternalityMechanism().solve(fed), np.empty(0)
        for size, place in zip(counts, np.cumsum([0, *counts]).tolist(), strict=False):
            part = fed.take(range(place, place + size))
            alone = fp.Standalone().solve(part).utilities
            expected = np.append(expected, np.full(size, (fp.social_optimum(part).welfare - alone.sum()) / size))
        errors = outcome.fair_gain_errors
        assert (np.abs(outcome.fair_gains - expected) <= 5.0 * errors + 1e-9).all(), counts
        assert errors.max() < 0.2 * expected.max()
        assert outcome.certificates["fair-gains"].verdict == "undefined"
        assert "fair-gains" not in fp.FairMechanism().promises(fed)


def test_of_too_many_members_fair_gains_are_not_known() -> None:
    crowd = identical_blocks([65])
    outcome = fp.ExternalityMechanism().solve(crowd)
    assert np.isnan(outcome.fair_gains).all() and np.isnan(outcome.lowest_gain_share)
    with pytest.raises(fp.InvalidInput, match=r'must have at most 64 members .* by="reciprocity" takes any number'):
        fp.FairMechanism(keep="members").solve(crowd)


@pytest.mark.parametrize("kind", KINDS)
def test_best_members_of_all_sets(kind: str) -> None:
    for seed in range(cases(30)):
        fed = drawn(kind, seed)
        fed = fed.replace(joining_costs=fed.joining_costs * (1 + 9 * (seed % 2)))
        worth = worth_of_groups(fed)
        alone = np.array([worth[frozenset([agent])] for agent in range(fed.n_agents)])
        scale = max(map(abs, worth.values()))

        def total(group: frozenset[int], worth: Groups = worth, alone: np.ndarray = alone) -> float:
            return worth[group] + float(alone[[agent for agent in range(alone.size) if agent not in group]].sum())

        found = fp.best_members(fed)
        chosen = frozenset(fed.names.index(name) for name in found.members)
        assert found.exact and len(chosen) != 1
        assert found.welfare == pytest.approx(max(map(total, worth)), abs=AGREEMENT * scale)
        assert found.welfare == pytest.approx(total(chosen), abs=AGREEMENT * scale)
        assert found.welfare_all == pytest.approx(total(frozenset(range(fed.n_agents))), abs=AGREEMENT * scale)
        assert found.welfare_alone == pytest.approx(float(alone.sum()), abs=AGREEMENT * scale)
        assert set(found.adds) == set(found.costs) == set(fed.names) - set(found.members)
        for name, added in found.adds.items() if chosen else ():
            agent = fed.names.index(name)
            net = total(chosen | {agent}) - found.welfare
            assert added - found.costs[name] == pytest.approx(net, abs=AGREEMENT * scale)
            assert found.costs[name] == fed.joining_costs[agent] and net <= AGREEMENT * scale


@pytest.mark.slow
@pytest.mark.parametrize("harm", [False, True])
def test_best_members_of_many_beat_everybody_and_any_one_more_or_less(harm: bool) -> None:
    fed = drawn("harm" if harm else "dense", 1, n_agents=18)
    alone = fp.Standalone().solve(fed).utilities
    each = fp.social_optimum(fed).welfare / 18
    fed = fed.replace(joining_costs=np.random.default_rng(0).uniform(0.0, 1.0, 18) * each)
    found = fp.best_members(fed)
    chosen = np.isin(fed.names, found.members)

    def total(group: np.ndarray) -> float:
        if group.sum() < 2:
            return float(alone.sum())
        return fp.social_optimum(fed.take(group)).welfare - fed.joining_costs[group].sum() + alone[~group].sum()

    size = abs(found.welfare)
    assert found.welfare == pytest.approx(total(chosen), abs=AGREEMENT * size)
    assert found.welfare_all == pytest.approx(total(np.ones(18, dtype=bool)), abs=AGREEMENT * size)
    others = [np.where(np.arange(18) == agent, ~chosen, chosen) for agent in range(18)]
    assert found.welfare >= max(found.welfare_all, found.welfare_alone, *map(total, others)) - AGREEMENT * size
    assert found.upper_bound >= found.welfare and 0 < chosen.sum() < 18


def test_everybody_is_best_where_nothing_harms_and_joining_is_free() -> None:
    for n_agents in (1, 2, 40):
        fed = identical_blocks([n_agents])
        found = fp.best_members(fed)
        assert found.members == (fed.names if n_agents > 1 else ()) and found.exact
    useless = fp.Federation([[1, 1, 0], [1, 1, 0], [0, 0, 1]], costs=0.01, caps=30.0, payoff=fp.PowerLaw(0.3))
    assert fp.best_members(useless).members == useless.names, "of sets worth alike the largest"
    assert fp.best_members(useless.without_sharing()).members == ()
    with pytest.raises(fp.InvalidInput, match="must have at most 64 members where data harms or joining costs"):
        fp.best_members(identical_blocks([65]).replace(joining_costs=1.0))
