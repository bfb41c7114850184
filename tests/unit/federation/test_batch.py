"""Batches are made of federations, or of one federation varied, and give them back."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp

BASE = fp.Federation(
    [[1.0, 0.5, 0.0], [0.2, 1.0, -0.1], [0.0, 0.3, 1.0]],
    costs=[0.01, 0.02, 0.03],
    caps=[5.0, np.inf, 0.0],
    payoff=fp.PowerLaw([0.1, 0.2, 0.3]),
    names=["a", "b", "c"],
    values=[1.0, 2.0, 3.0],
)


def test_a_batch_gives_its_federations_back() -> None:
    other = fp.Federation(np.eye(3), costs=0.5, payoff=fp.PowerLaw(0.7), names=["a", "b", "c"])
    batch = fp.Batch.of([BASE, other])
    assert batch[0] == BASE
    assert batch[1] == other
    assert [federation.n_agents for federation in batch] == [3, 3]
    assert batch[-1] == other


def test_a_varied_batch_changes_only_what_is_given() -> None:
    batch = fp.Batch.vary(BASE, costs=np.array([[0.1], [0.2]]))
    assert batch[1] == fp.Federation(
        BASE.weights, costs=0.2, caps=BASE.caps, payoff=BASE.payoff, names=BASE.names, values=BASE.values
    )


def test_parameters_of_the_payoff_and_quadratic_costs_vary() -> None:
    batch = fp.Batch.vary(BASE, parameters={"beta": [[0.5], [0.6]]}, quadratic=[[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    np.testing.assert_array_equal(batch[1].payoff.parameters["beta"], 0.6)
    np.testing.assert_array_equal(batch[1].costs.quadratic, [0.0, 0.0, 2.0])


def test_its_weights_cannot_be_written_to() -> None:
    batch = fp.Batch.of([BASE])
    with pytest.raises(ValueError, match="read-only"):
        batch.weights[0, 0, 0] = 2.0


def test_what_is_given_is_not_kept() -> None:
    weights = np.tile(np.eye(3), (2, 1, 1))
    batch = fp.Batch.vary(BASE, weights=weights)
    weights[:] = 7.0
    np.testing.assert_array_equal(batch[0].weights, np.eye(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.Batch.of([]), "at least one federation"),
        (lambda: fp.Batch.of([BASE, BASE.take([0, 1])]), "same size"),
        (lambda: fp.Batch.of([BASE, fp.Federation(np.eye(3), costs=1.0, payoff=fp.Log())]), "number 1 has 3 and log"),
        (lambda: fp.Batch.vary(BASE, parameters={"rate": [[1.0]]}), "no parameter 'rate'; it has beta"),
        (lambda: fp.Batch.vary(BASE, costs=[[1.0]], caps=[[1.0], [2.0]]), r"got lengths \[1, 2\]"),
        (lambda: fp.Batch.vary(BASE, costs=[[1.0, 2.0]]), r"costs must have shape \(1, 3\) or \(1, 1\)"),
        (lambda: fp.Batch.vary(BASE, weights=[[[1.0]]]), r"weights must have shape \(1, 3, 3\)"),
        (lambda: fp.Batch.vary(BASE), "what varies must have one entry per federation"),
        (lambda: fp.Batch.vary(BASE, costs=[[-1.0]]), "must be positive"),
    ],
)
def test_what_makes_no_batch_is_refused(make, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        make()


def test_there_is_no_federation_beyond_the_last() -> None:
    with pytest.raises(IndexError, match="there is no number 1"):
        fp.Batch.of([BASE])[1]
