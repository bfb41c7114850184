"""Deciding on a few lots at a time ends at the same optimum as deciding on all at once."""

import numpy as np
import pytest

import fedpact as fp
from fedpact.programs import parts, social_optimum
from fedpact.programs.parts import maximise_by_parts
from fedpact.programs.social_optimum import WelfareProgram
from fedpact.programs.solver import GAIN_TOLERANCE, maximise

pytestmark = pytest.mark.slow

N_AGENTS = 200
SAME_WELFARE = 10.0 * GAIN_TOLERANCE  # each is within the gain tolerance of the best


def _federations():
    rng = np.random.default_rng(21)
    weights = rng.uniform(0.0, 2.0, (N_AGENTS, N_AGENTS)) + np.eye(N_AGENTS)
    rates = rng.uniform(0.02, 0.12, N_AGENTS)
    power = fp.PowerLaw(0.3)
    return {
        "few contribute": fp.Federation(weights, costs=rates, caps=400.0, payoff=power),
        "many at their caps": fp.Federation(weights, costs=rates, caps=2.0, payoff=power),
        "caps of all sizes": fp.Federation(weights, costs=rates, caps=rng.uniform(0.0, 10.0, N_AGENTS), payoff=power),
        "costs that bend": fp.Federation(weights, costs=fp.Quadratic(rates, rates / 30), caps=400.0, payoff=power),
        "no caps": fp.Federation(weights, costs=rates, payoff=fp.Log()),
        "very unequal": fp.Federation(
            weights, costs=rates, payoff=fp.Michaelis(2.0), values=rng.lognormal(0.0, 3.0, N_AGENTS)
        ),
        "lots": fp.Federation(weights[::2], costs=rates, caps=2.0, payoff=power, lot_owners=np.arange(N_AGENTS) // 2),
    }


FEDERATIONS = _federations()


@pytest.mark.parametrize("kind", FEDERATIONS)
def test_same_optimum_as_all_at_once(kind):
    federation = FEDERATIONS[kind]
    program = WelfareProgram(federation)
    found, reference = maximise_by_parts(program), maximise(program)
    assert found is not None
    assert found.kkt_residual <= GAIN_TOLERANCE
    difference = federation.welfare(found.contributions) - federation.welfare(reference.contributions)
    assert abs(difference) <= SAME_WELFARE * program.scale
    np.testing.assert_allclose(found.contributions, reference.contributions, atol=1e-6 * program.upper.max())


def test_few_are_decided_on(monkeypatch):
    """The Hessians are of the few, not of everybody."""
    sizes = []
    hessian = WelfareProgram.hessian
    monkeypatch.setattr(WelfareProgram, "hessian", lambda self, s: (sizes.append(s.size), hessian(self, s))[1])
    assert social_optimum.maximise_welfare(FEDERATIONS["few contribute"]).kkt_residual <= GAIN_TOLERANCE
    assert max(sizes) <= parts.FIRST_NEWCOMERS


def test_nobody_at_a_bound_is_left_to_all_at_once():
    """Where data serve hardly anybody but their owners, all contribute: there is nothing to be had from parts."""
    federation = fp.Federation(np.eye(N_AGENTS) + 1e-3, costs=0.05, payoff=fp.PowerLaw(0.3))
    assert maximise_by_parts(WelfareProgram(federation)) is None
    optimum = fp.social_optimum(federation)
    np.testing.assert_allclose(optimum.contributions, optimum.contributions[0], rtol=1e-9)


def test_equals_contribute_alike_though_only_some_were_decided_on():
    """The canonical optimum is that of smallest norm, whichever was found; the face has all but one direction."""
    federation = fp.Federation(
        np.ones((N_AGENTS, N_AGENTS)), costs=0.01 * N_AGENTS, caps=400.0, payoff=fp.PowerLaw(0.3)
    )
    found = maximise_by_parts(WelfareProgram(federation))
    assert found is not None
    assert (found.contributions > 0).sum() <= parts.FIRST_NEWCOMERS
    optimum = fp.social_optimum(federation)
    np.testing.assert_allclose(optimum.contributions, found.contributions.sum() / N_AGENTS, rtol=1e-9)
    assert optimum.face is not None
    assert optimum.face.dimension == N_AGENTS - 1


def test_sparse_and_harmed_federations_are_not_parted():
    weights = FEDERATIONS["few contribute"].weights.copy()
    weights[0, 1] = -0.01
    assert not WelfareProgram(fp.Federation(weights, costs=0.05, caps=4.0, payoff=fp.PowerLaw(0.3))).can_be_parted
    assert WelfareProgram(FEDERATIONS["few contribute"]).can_be_parted
