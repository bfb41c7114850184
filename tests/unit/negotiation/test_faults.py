"""Negotiations in which agents fail, cheat or leave, at random: who, when, how and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from faults import FAULTS, FAULTS_IN_SUMS, Faulty, Trial
from fedpact.negotiation import agents_of
from random_cases import cases, some
from strategies import random_federation


def run(seed: int, count: int, protocol: str, mechanism: str = "externality") -> list[Trial]:
    """Trials that go through the faults one after the other, and through others at random beside them."""
    rng = np.random.default_rng(seed)
    faults = FAULTS_IN_SUMS if protocol == "sums" else FAULTS
    trials = []
    for case in range(count):
        trial = Trial.random(rng, faults, sure=faults[(seed * count + case) % len(faults)])
        try:
            trial.judge(trial.run(protocol, mechanism))
        except Exception as error:
            error.add_note(f"seed {seed}, case {case}: {trial.describe()}")
            raise
        trials.append(trial)
    return trials


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(cases(4, few=1)))
def test_every_negotiation_ends_in_a_valid_deal_or_an_error_with_names(seed: int) -> None:
    trials = run(seed, len(FAULTS), "price-discovery")
    met = {it.fault for trial in trials for it in trial.faulty.values() if it.asked > it.at}
    assert met == set(FAULTS)  # each was tried


@pytest.mark.parametrize("mechanism", ["externality", "shapley"])
@pytest.mark.parametrize("seed", range(3))
def test_so_do_sums(seed: int, mechanism: str) -> None:
    run(seed, cases(13), "sums", mechanism)


@pytest.mark.parametrize("seed", range(2))
def test_so_does_price_discovery_of_shares(seed: int) -> None:
    run(seed, cases(18), "price-discovery", "shapley")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", some([4, 0], 1))
def test_every_fault_of_one_agent_alone(fault: str, at: int) -> None:
    rng = np.random.default_rng(at)
    federation = random_federation(rng, n_agents=4)
    faulty = Faulty(agent=agents_of(federation, least_gain=None)[1], fault=fault, at=at, lasting=True, rng=rng)
    trial = Trial(federation=federation, faulty={1: faulty})
    trial.judge(trial.run("price-discovery"))
