"""Studies: mechanisms on many random federations, in pieces."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import FEDERATION_KINDS, batches, studies
from fedpact.comparison.studies import draw_federations
from fedpact.mechanisms import MECHANISMS

QUICK = ["externality", "shapley", "equal-split", "vcg"]


@pytest.fixture(scope="module")
def found() -> fp.FieldStudy:
    return fp.study(["dense", "harmful"], QUICK, count=6, n_agents=3, splits=1, seed=7)


@pytest.mark.slow
def test_numbers_are_those_of_each_federation_alone(found: fp.FieldStudy) -> None:
    for kind in found.kinds:
        federations = draw_federations(kind, 0, 6, n_agents=3, seed=7)
        for name in QUICK:
            numbers = found.numbers[kind][name]
            for place, federation in enumerate(federations):
                outcome = MECHANISMS[name].solve(federation)
                np.testing.assert_allclose(numbers["welfare"][place], outcome.welfare, rtol=1e-9)
                np.testing.assert_allclose(numbers["lowest_share"][place], outcome.reciprocity, rtol=1e-6, atol=1e-9)
                for claim in ("nash", "budget-balance", "social-optimality", "individual-rationality", "core"):
                    assert bool(numbers[claim][place]) == outcome.certificates[claim].holds, (kind, name, place, claim)


@pytest.mark.slow
def test_what_is_known_of_the_mechanisms_shows(found: fp.FieldStudy) -> None:
    for kind in found.kinds:
        assert found.share_holding(kind, "externality", "social-optimality") == 1.0
        assert found.share_holding(kind, "shapley", "budget-balance") == 1.0
        assert found.share_holding(kind, "equal-split", "core") == 0.0
    assert found.share_holding("dense", "externality", "core") == 1.0
    assert found.share_holding("dense", "vcg", "budget-balance") == 0.0
    assert (found.numbers["dense"]["vcg"]["budget"] > 0).all()
    assert (found.numbers["dense"]["externality"]["split-proof"] >= 0).sum() == 1
    np.testing.assert_allclose(found.numbers["dense"]["externality"]["share_of_best"], 1.0, rtol=1e-12)


def test_rows_of_the_table(found: fp.FieldStudy) -> None:
    columns = found.columns()
    assert {len(column) for column in columns.values()} == {2 * len(QUICK) * 6}
    assert columns["split-proof"].count(None) == 2 * len(QUICK) * 5
    rows = found.summary()
    assert [(row["kind"], row["mechanism"]) for row in rows] == [(k, m) for k in found.kinds for m in QUICK]
    assert rows[0]["nash-judged"] == 6 and rows[0]["split-proof-judged"] == 1
    assert rows[0]["share_of_best_median"] == pytest.approx(1.0)


def test_pieces_and_seeds(monkeypatch, tmp_path) -> None:
    whole = fp.study("sparse", "shapley", count=5, n_agents=3, splits=0)
    monkeypatch.setattr(studies, "PIECE_SIZE", 2)
    done: list[tuple[int, int]] = []
    stopped = tmp_path / "kept"

    def interrupt(now: int, total: int) -> None:
        if now >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fp.study("sparse", "shapley", count=5, n_agents=3, splits=0, checkpoint=stopped, progress=interrupt)
    asked: list[str] = []
    monkeypatch.setattr(batches, "solve_piece", lambda piece: asked.append(piece.name) or piece.solve())
    again = fp.study(
        "sparse", "shapley", count=5, n_agents=3, splits=0, checkpoint=stopped, progress=lambda *n: done.append(n)
    )
    assert asked == ["sparse-2-4", "sparse-4-5"] and done[-1] == (5, 5)
    for name, numbers in again.numbers["sparse"]["shapley"].items():
        np.testing.assert_allclose(numbers, whole.numbers["sparse"]["shapley"][name], rtol=1e-9, atol=1e-12)
    other = fp.study("sparse", "shapley", count=5, n_agents=3, splits=0, seed=1)
    assert not np.allclose(other.numbers["sparse"]["shapley"]["welfare"], whole.numbers["sparse"]["shapley"]["welfare"])


@pytest.mark.parametrize("kind", FEDERATION_KINDS)
def test_every_kind_is_what_it_says(kind: str) -> None:
    for federation in draw_federations(kind, 0, 4, n_agents=4, seed=3):
        weights, costs = federation.weights, federation.costs.linear
        assert federation.has_harm == (weights < 0).any()
        assert (kind == "homogeneous") == (bool((weights == 1).all()) and np.ptp(costs) == 0)
        assert (kind == "unequal-values") == bool(np.ptp(federation.values) > 0)
        assert kind == "harmful" or not federation.has_harm
        assert (kind == "tight-caps") == bool((federation.caps < 400).any())
        assert kind == "sparse" or (weights != 0).all()


def test_one_member_goes_through_all_mechanisms() -> None:
    alone = fp.study("dense", count=2, n_agents=1, splits=0)
    for name in MECHANISMS:
        np.testing.assert_allclose(alone.numbers["dense"][name]["share_of_best"], 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": "odd"}, "kinds must be among homogeneous, dense, .*got 'odd'"),
        ({"kinds": []}, "kinds must be one or more, each once"),
        ({"kinds": ["dense", "dense"]}, "kinds must be one or more, each once"),
        ({"count": 0}, "count must be from 1 to"),
        ({"n_agents": 11}, "n_agents must be from 1 to 10, got 11"),
        ({"splits": -1}, "splits must be from 0 to"),
        ({"seed": -1}, "seed must be from 0 to"),
    ],
)
def test_what_cannot_be_studied(options: dict, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        fp.study(mechanisms="externality", **options)


def test_the_picture_has_a_row_for_every_mechanism(found: fp.FieldStudy) -> None:
    figure = found.plot()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [found.title(name) for name in QUICK]
    assert figure.axes[0].get_xticklabels()[-1].get_text() == "split proof (of 2 only)"


@pytest.mark.slow
def test_nothing_is_known_of_federations_without_an_outcome() -> None:
    """The fifth sparse federation has no equilibrium of proportional sharing that answers reach."""
    found = fp.study(["sparse"], ["proportional"], count=5, splits=0).to_frame()
    without = found[~found["solved"]]
    assert len(without) and without["budget"].isna().all()
    assert all(without[str(claim)].isna().all() for claim in studies.STUDIED)
    assert found[found["solved"]]["budget-balance"].all()
