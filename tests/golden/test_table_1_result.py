"""`fedpact paper table1`: the printed digits stand beside the computed ones, and judgements follow from numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.paper import table1
from fedpact.paper.results import Judgement, Result

# As printed: reciprocity, then agents 0, 1 and 2.
PRINTED = {
    ("W1", "shapley"): ("1.000", "1.000", "1.000", "1.000"),
    ("W1", "externality"): ("1.000", "1.000", "1.000", "1.000"),
    ("W2", "shapley"): ("1.000", "1.000", "1.000", "1.000"),
    ("W2", "externality"): ("0.801", "0.995", "1.390", "0.801"),
    ("W3", "shapley"): ("1.000", "1.000", "1.000", "1.000"),
    ("W3", "externality"): ("0.678", "0.915", "3.375", "0.678"),
}
EXPLAINED = {("W2", "externality"), ("W3", "externality")}


@pytest.fixture(scope="module")
def result() -> Result:
    return table1.table1_result()


def rows(result: Result) -> dict[tuple[str, str], dict[str, object]]:
    names = list(result.columns)
    lines = [dict(zip(names, row, strict=True)) for row in zip(*result.columns.values(), strict=True)]
    return {(str(line["matrix"]), str(line["mechanism"])): line for line in lines}


def test_the_paper_s_digits_are_those_printed(result: Result) -> None:
    found = rows(result)
    assert set(found) == set(PRINTED)
    for key, line in found.items():
        shown = [line["printed_reciprocity"], *(line[f"printed_agent_{agent}"] for agent in range(3))]
        assert tuple(f"{number:.3f}" for number in shown) == PRINTED[key]


@pytest.mark.parametrize("key", PRINTED)
def test_computed_rows_meet_the_printed_digits_or_are_explained(result: Result, key: tuple[str, str]) -> None:
    line = rows(result)[key]
    shown = [line["reciprocity"], *(line[f"agent_{agent}"] for agent in range(3))]
    met = tuple(f"{number:.3f}" for number in shown) == PRINTED[key]
    assert met != (key in EXPLAINED)


def test_worst_reciprocity_has_its_own_column(result: Result) -> None:
    worst = {key: line["worst_reciprocity"] for key, line in rows(result).items()}
    np.testing.assert_allclose(worst["W1", "externality"], 0.48996, atol=5e-6)
    for key in PRINTED:
        if key != ("W1", "externality"):
            assert worst[key] == pytest.approx(rows(result)[key]["reciprocity"]), (
                "a single equilibrium is its own worst"
            )


def test_w3_has_no_ratio_for_agent_0(result: Result) -> None:
    line = rows(result)["W3", "externality"]
    assert line["agent_0"] == np.inf
    assert line["contribution_0"] == 0.0
    assert "| undefined |" in result.text


def test_every_judgement_is_the_one_known(result: Result) -> None:
    assert [found.statement for found in result.findings if not found.as_expected] == []
    counts = [sum(found.judgement is judgement for found in result.findings) for judgement in Judgement]
    assert counts == [5, 1, 2]


def test_the_stop_is_beside_the_optimum_in_the_text(result: Result) -> None:
    """The run as it comes lands on the printed digits; the same method carried on lands on the optimum."""
    lines = {line.split(" | ")[0].strip("| "): line for line in result.text.splitlines() if line.startswith("|")}
    stop = [float(cell) for cell in lines["L-BFGS-B from 10, defaults"].split(" | ")[2:5]]
    on = [float(cell) for cell in lines["L-BFGS-B from 10, exact gradients, tight"].split(" | ")[2:5]]
    np.testing.assert_allclose(stop, [0.995, 1.390, 0.801], atol=0.01)
    np.testing.assert_allclose(on, [0.896, 1.694, 0.794], atol=1.1e-3)


def test_a_row_with_the_right_digits_would_be_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {("W2", "externality"): (0.8962, 1.6941, 0.7939)}
    monkeypatch.setattr(table1, "PRINTED", table1.PRINTED | exact)
    found = table1._printed_w2()
    assert found.judgement is Judgement.CONFIRMED
    assert not found.as_expected
    assert table1._explained().judgement is Judgement.NOT_CONFIRMED
