"""The attack on the weights: what a coordinator works out from its transcript, by protocol and number of members."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.transcript import read_transcript
from sums_attack import _Model, _Seen, recover_weights

EXACT = 1e-6  # of the spread of the weights


def federation(size: int, seed: int = 0) -> fp.Federation:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (size, size))
    np.fill_diagonal(weights, 1.0)
    payoff = fp.PowerLaw(rng.uniform(0.1, 0.5, size))
    return fp.Federation(weights, costs=rng.uniform(0.005, 0.02, size), caps=100.0, payoff=payoff)


@pytest.mark.parametrize("size", [3, 5, 10, 20])
def test_price_discovery_tells_every_row(size: int, tmp_path: Path) -> None:
    truth = federation(size)
    fp.negotiate(truth, transcript=tmp_path / "talks.jsonl")
    assert recover_weights(tmp_path / "talks.jsonl").error(truth.weights) < EXACT


def test_sums_hide_little_between_three(tmp_path: Path) -> None:
    """A coordinator that knows the family of the payoffs finds everything: the page says so."""
    truth = federation(3)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    found = recover_weights(tmp_path / "talks.jsonl", rng=0)
    assert found.error(truth.weights) < EXACT


@pytest.mark.slow
def test_sums_can_hide_nothing_between_five(tmp_path: Path) -> None:
    """Here nothing; between five others something, as the page says."""
    truth = federation(5)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    found = recover_weights(tmp_path / "talks.jsonl", starts=2, rng=0)
    assert found.error(truth.weights) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("collude", [False, True], ids=["alone", "with a member"])
def test_sums_hide_more_between_ten(tmp_path: Path, collude: bool) -> None:
    """The same attack: the fit gets stuck far from the truth, even if one member shares what it knows."""
    truth = federation(10)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    found = recover_weights(tmp_path / "talks.jsonl", colluders={1: truth} if collude else None, starts=1, rng=0)
    assert found.error(truth.weights) > 0.1


@pytest.mark.slow
def test_between_twenty_a_short_attack_does_not_even_reproduce_the_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has the long one, which takes minutes and does not either."""
    monkeypatch.setattr("sums_attack.MAX_EVALUATIONS", 20)
    truth = federation(20)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    found = recover_weights(tmp_path / "talks.jsonl", colluders={1: truth}, starts=1, rng=0)
    assert found.misfit > EXACT and found.error(truth.weights) > 0.5


def test_the_attack_is_a_fair_one(tmp_path: Path) -> None:
    """Its model explains everything at the truth, and its derivatives are those of the model."""
    truth = federation(4)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    model = _Model(_Seen.of(list(read_transcript(tmp_path / "talks.jsonl").exchanges()), 4), {})
    numbers = np.hstack([truth.weights, truth.payoff.beta[:, None], truth.costs.linear[:, None]])
    logs = np.log(numbers)[model.sought]
    assert np.abs(model.residuals(logs)).max() < 1e-10
    logs += 0.1 * np.random.default_rng(0).standard_normal(logs.size)
    step = 1e-6
    found = [
        (model.residuals(logs + step * way) - model.residuals(logs - step * way)) / (2 * step)
        for way in np.eye(logs.size)
    ]
    np.testing.assert_allclose(model.jacobian(logs), np.array(found).T, atol=1e-7)


def test_a_colluding_member_takes_its_own_unknowns_out(tmp_path: Path) -> None:
    truth = federation(3)
    fp.negotiate(truth, protocol="sums", transcript=tmp_path / "talks.jsonl")
    found = recover_weights(tmp_path / "talks.jsonl", colluders={1: truth}, starts=2, rng=0)
    np.testing.assert_allclose(found.weights[1], truth.weights[1])
    assert found.error(truth.weights) < EXACT
