"""A thousand agents, minutes: equilibria with their regret and certificates, the welfare optimum against CVXPY."""

import fedpact as fp
from benchmarks import games
from benchmarks.equilibria import optimum_against_cvxpy
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once
from fedpact.certificates import Certificates, Verdict
from fedpact.certificates.deviations import shapley_sharing
from fedpact.programs.shapley_equilibrium import shapley_optimum

N_AGENTS = 1000


def run():
    yield from optimum_against_cvxpy(N_AGENTS, at_least=20.0, at_least_by_cones=10.0)
    yield from certificates_against_solving()
    federation = games.costly(N_AGENTS)
    ours, solution = once(lambda: shapley_optimum(federation))
    contributions = solution.contributions
    reference, shares = once(lambda: fp.shapley_values(federation, contributions))
    what = f"Shapley equilibrium, n = {N_AGENTS}"
    yield Figure(
        what=what,
        against="one evaluation of the Shapley values",
        ratio=ours / reference,
        unit="times as long",
        at_most=25.0,
        before=82.4,
    )
    utilities = shares.values - federation.costs.value(contributions)
    regret = float((shapley_sharing(federation, contributions).utilities - utilities).max())
    yield Figure(
        what=f"regret in the {what}",
        against="all payoffs",
        ratio=regret / float(federation.payoffs(contributions).sum()),
        unit="of them",
        at_most=1e-8,
    )


def certificates_against_solving():
    """What a mechanism promises, proved: in units of solving it. Certificates use no compiled code.

    Each time everything is worked out anew, what several claims need only once.
    """
    federation = games.costly(N_AGENTS)
    for mechanism, before in ((fp.ExternalityMechanism(), 1.19), (fp.ShapleyMechanism(), 10.9 / 46.0)):
        reference, outcome = best_of(lambda rule=mechanism: rule.solve(federation), repeats=1)
        promised = mechanism.promises(federation)

        def prove():
            certificates = Certificates(outcome)
            return [certificates[claim] for claim in promised]

        ours, found = best_of(prove, repeats=1)
        assert all(certificate.verdict is not Verdict.VIOLATED for certificate in found)
        yield Figure(
            what=f"certificates of what {mechanism.title} promises, n = {N_AGENTS}",
            against="solving it",
            ratio=ours / reference,
            unit="times as long",
            at_most=1.0,
            before=before,
        )
