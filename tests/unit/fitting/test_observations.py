"""Observations: what is accepted, what is left out, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp

NAN = float("nan")


def test_gaps_and_repeats_are_kept() -> None:
    seen = fp.Observations.of([[1, 2], [1, 2], [3, 0]], [[0.5, NAN], [0.6, 0.7], [NAN, 0.2]], [100, NAN])
    assert (seen.n_runs, seen.n_agents, seen.n_measured) == (3, 2, 4)
    assert seen.names == ("agent 0", "agent 1")
    assert repr(seen) == "Observations(3 runs, 2 agents, 4 accuracies)"


def test_inputs_are_copied_and_cannot_be_changed() -> None:
    given = np.array([[1.0, 2.0]])
    seen = fp.Observations.of(given, [[0.5, 0.5]])
    given[0, 0] = 99.0
    assert seen.contributions[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        seen.contributions[0, 0] = 5.0


def test_a_run_without_all_contributions_is_left_out() -> None:
    seen = fp.Observations.of([[1, NAN], [1, 0]], [[0.5, 0.5], [0.6, 0.6]])
    assert seen.rows == (1,)
    assert seen.left_out == (0,)


def test_unknown_test_sizes_are_the_agents_median_then_everybodys() -> None:
    sizes = [[100, NAN], [300, NAN], [NAN, NAN]]
    seen = fp.Observations.of(np.ones((3, 2)), np.full((3, 2), 0.5), sizes)
    np.testing.assert_array_equal(seen.known_test_sizes(), [[100, 200], [300, 200], [200, 200]])
    assert fp.Observations.of([[1.0]], [[0.5]]).known_test_sizes() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 2]], [[0.5]]), r"accuracies must have the shape of contributions.*\(1, 2\) and \(1, 1\)"),
        (([1, 2], [0.5, 0.5]), r"contributions must be a matrix, a row per run.*got shape \(2,\)"),
        (([[]], [[]]), r"contributions must be a matrix.*got shape \(1, 0\)"),
        (([[-1.0]], [[0.5]]), r"contributions\[0, 0\] must be at least zero and finite, got -1"),
        (([[1.0]], [[71.0]]), r"accuracies\[0, 0\] must lie between 0 and 1, got 71; divide percentages by 100"),
        (([[1.0]], [[0.5]], 0), r"test_sizes\[0, 0\] must be at least 1 and finite, got 0"),
        (([[1.0]], [[0.5]], [1, 2, 3]), r"test_sizes must be a number, one per member, or one per accuracy \(1 x 1\)"),
        (([[1.0, 1.0]], [[0.5, NAN]]), r'no accuracy of member "agent 1" was measured, so nothing says what data'),
        (([[0.0]], [[0.5]]), r"all contributions are zero"),
        (([[NAN]], [[0.5]]), r"there must be a run whose contributions are all known, 1 runs given.*write 0"),
        (
            ([[1.0]], [[0.5]], None, ["A", "B"]),
            r"contributions must have a column per member: 2 members, 1 columns given",
        ),
        (([[1.0, 1.0]], [[0.5, 0.5]], None, ["A", "A"]), r'names\[1\] must differ from the others, "A" appears twice'),
        (([[1.0]], [[0.5]], None, "A"), r"names must be non-empty strings"),
    ],
)
def test_refusals_name_the_place(arguments: tuple, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        fp.Observations.of(*arguments)
