"""Parameters reach what they name, and their ranges make sense."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import parse_axis
from fedpact.comparison.axes import arrays_at
from fedpact.explorer.parameters import Parameter, kinds_of, points_between
from fedpact.scenario import example

FEDERATION = example("hospitals").federation


@pytest.mark.parametrize(
    ("parameter", "written"),
    [
        (Parameter("weights", (0, 1)), "weights[0,1]"),
        (Parameter("weights", (None, 1)), "weights[*,1]"),
        (Parameter("weights", (2, None)), "weights[2,*]"),
        (Parameter("weights", (None, None)), "weights"),
        (Parameter("costs", (3,)), "costs[3]"),
        (Parameter("costs"), "costs"),
        (Parameter("quadratic", (0,)), "costs.quadratic[0]"),
        (Parameter("caps", (4,)), "caps[4]"),
        (Parameter("values"), "values"),
        (Parameter("beta"), "beta"),
        (Parameter("beta", (1,)), "beta[1]"),
    ],
)
def test_a_parameter_varies_what_the_command_line_varies(parameter, written):
    points = np.array([0.25, 0.5])
    ours, theirs = parameter.axis(FEDERATION, points), parse_axis(f"{written}=0.25,0.5", FEDERATION)
    assert ours.field == theirs.field
    for mine, other in zip(ours.indices, theirs.indices, strict=True):
        np.testing.assert_array_equal(mine, other)
    one, other = (FEDERATION.with_arrays(arrays_at(FEDERATION, [axis], [points]).at(1)) for axis in (ours, theirs))
    assert one == other


def test_names_that_are_numbers_do_not_mislead():
    swapped = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.1, payoff=fp.Log(), names=["1", "0"])
    axis = Parameter("weights", (0, 1)).axis(swapped, np.array([0.9]))
    assert arrays_at(swapped, [axis], [axis.points]).weights[0, 0, 1] == 0.9


@pytest.mark.parametrize("kind", ["weights", "costs", "quadratic", "caps", "values", "beta"])
def test_usual_ranges_hold_the_value_and_can_be_solved(kind):
    parameter = Parameter(kind, (0, 1)) if kind == "weights" else Parameter(kind, (0,))
    low, high = parameter.usual_range(FEDERATION)
    assert low < parameter.now(FEDERATION) < high
    found = fp.sweep(FEDERATION, parameter.axis(FEDERATION, np.array([low, high])), metrics=["welfare"])
    assert all(solved.all() for solved in found.solved.values())


def test_fields_are_those_of_the_page():
    assert Parameter("weights", (2, None)).fields(FEDERATION, own_curves=False) == [
        "weights[2,0]",
        "weights[2,1]",
        "weights[2,3]",
        "weights[2,4]",
    ]
    assert Parameter("beta").fields(FEDERATION, own_curves=False) == ["payoff.beta"]
    assert Parameter("beta", (1,)).fields(FEDERATION, own_curves=True) == ["payoff.beta[1]"]
    assert len(Parameter("beta").fields(FEDERATION, own_curves=True)) == 5


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"kind": "names"},
        {"kind": "rate"},
        {"kind": "costs", "agent": 5},
        {"kind": "costs", "agent": "0"},
        {"kind": "costs", "agent": True},
        {"kind": "weights", "receiver": -1, "giver": 0},
    ],
)
def test_records_that_name_nothing_are_refused(record):
    with pytest.raises(fp.InvalidInput):
        Parameter.of_record(record, FEDERATION)


def test_a_single_member_has_no_weights_to_vary():
    alone = FEDERATION.take([0])
    assert "weights" not in kinds_of(alone)
    with pytest.raises(fp.InvalidInput, match="there is no parameter 'weights'"):
        Parameter.of_record({"kind": "weights", "receiver": 0, "giver": 0}, alone)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (0.00014, 0.0042), (1e-12, 3e-12), (1e9, 1e9 + 1), (0.0, 1e300)]
)
def test_points_rise_and_keep_their_ends(low, high):
    points = points_between(low, high, 61)
    assert points.size == 61 and points[0] == low and points[-1] == high
    assert (np.diff(points) > 0).all()
    np.testing.assert_allclose(points, np.linspace(low, high, 61), rtol=0, atol=0.02 * (high - low) / 60)
