"""Certificates of what a mechanism promises, in units of solving it. They share no code with the solvers."""

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import best_of
from fedpact.certificates import Verdict

SIZES = (50, 200, 1000)


def run():
    for n_agents in SIZES:
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            yield certificates_against_solving(mechanism, n_agents)


def certificates_against_solving(mechanism, n_agents):
    federation = games.costly(n_agents)
    reference, outcome = best_of(lambda: mechanism.solve(federation), repeats=1)

    def prove():
        fresh = mechanism.outcome_at(federation, outcome.contributions, outcome.payments, is_solved=True)
        return [fresh.certificates[claim] for claim in mechanism.promises(federation)]

    ours, found = best_of(prove, repeats=1)
    assert all(certificate.verdict is not Verdict.VIOLATED for certificate in found)
    return Figure(
        what=f"certificates of what {mechanism.title} promises, n = {n_agents}",
        against="solving it",
        ratio=ours / reference,
        unit="times as long",
    )
