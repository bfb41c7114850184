"""Error against time for 50, 200 and 1000 agents: the integral, sampling, and the peers' best approximators.

The error is the largest relative error of any agent's value; the unit of time is the default `shapley_values` for as
many agents. The integral knows the payoff family. Sampling, ours (`sample_game`) and theirs, only asks for coalition
values, of the same game; its number is multiplied by four until a run would take too long. The reference is the
integral of the certificates, which shares no code with the default and agrees with enumeration at n = 16.
"""

import numpy as np

import fedpact as fp
from benchmarks import games, peers
from benchmarks.figures import Curve, Figure, short
from benchmarks.timing import best_of, once
from fedpact.certificates.shapley_check import check_shares

FIRST = {50: 1000, 200: 4000, 1000: 8000}  # coalition values asked for at first
FACTOR = 4
MOST_SECONDS = {50: 8.0, 200: 12.0, 1000: 25.0}


def run():
    yield _check_of_the_reference()
    for approximator in peers.APPROXIMATORS:
        approximator.estimate(*games.dense(10), 500)  # imports
    for n_agents in FIRST:
        yield from _panel(n_agents)


def _panel(n_agents):
    federation, contributions = games.dense(n_agents)
    reference = _reference(federation, contributions)
    unit, found = best_of(lambda: fp.shapley_values(federation, contributions))
    yield _curve(n_agents, "fedpact", "integral", [(unit, _error(found.values, reference))], unit)
    sampled = _growing(_sampled, federation, contributions, reference)
    yield _curve(n_agents, "fedpact", "sampling", sampled, unit)
    runs = {}
    for peer in peers.APPROXIMATORS:
        if n_agents <= peer.largest:
            runs[peer] = _growing(peer.estimate, federation, contributions, reference)
            yield _curve(n_agents, peer.library, peer.method, runs[peer], unit)
    best = min(runs, key=lambda peer: min(error for _, error in runs[peer]))
    seconds, error = min(runs[best], key=lambda point: point[1])
    yield Figure(
        what=f"Shapley values, n = {n_agents}, error {short(_error(found.values, reference))}",
        against=f"the most accurate peer: {best.library}, {best.method}, error {short(error)}",
        ratio=seconds / unit,
    )


def _sampled(federation, contributions, evaluations):
    values = peers.coalition_values(federation, contributions)

    def game(coalition):
        return float(values(np.isin(np.arange(federation.n_agents), list(coalition))))

    return fp.sample_game(game, federation.n_agents, budget=evaluations, rng=peers.SEED).values


def _growing(estimate, federation, contributions, reference):
    """Seconds and error of ever longer runs."""
    points, evaluations = [], FIRST[federation.n_agents]
    while not points or FACTOR * points[-1][0] <= MOST_SECONDS[federation.n_agents]:
        seconds, values = once(lambda: estimate(federation, contributions, evaluations))
        points.append((seconds, _error(values, reference)))
        evaluations *= FACTOR
    return points


def _curve(n_agents, library, method, points, unit):
    seconds, errors = zip(*points, strict=True)
    ratios = [taken / unit for taken in seconds]
    return Curve(plot="error", panel=f"n = {n_agents}", library=library, method=method, x=ratios, y=list(errors))


def _reference(federation, contributions):
    return check_shares(federation.arrays, contributions).values


def _error(values, reference):
    return float(np.abs(values / reference - 1.0).max())


def _check_of_the_reference():
    federation, contributions = games.dense(16)
    exact = fp.shapley_values(federation, contributions, method="enumeration").values
    return Figure(
        what="error of the reference values, n = 16",
        against="enumeration",
        ratio=_error(_reference(federation, contributions), exact),
        unit="relative error",
        at_most=1e-12,
    )
