"""What a person writes becomes places and values, and every mistake is told."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import Axis, parse_axis
from fedpact.comparison.axes import arrays_at, check_axes, parse_values
from fedpact.scenario import example
from fedpact.utils.errors import InvalidInput

WEIGHTS = np.array([[1.0, 0.5, 0.1], [0.2, 1.0, -0.1], [0.0, 0.3, 1.0]])
BASE = fp.Federation(
    WEIGHTS,
    costs=[0.01, 0.02, 0.03],
    caps=[5.0, np.inf, 1.0],
    payoff=fp.PowerLaw([0.1, 0.2, 0.3]),
    names=["North", "South", "East [old] = 2"],
    values=[1.0, 2.0, 3.0],
)
PLAIN = fp.Federation(WEIGHTS, costs=0.01, payoff=fp.Log())


def changed(axis: Axis, federation: fp.Federation = BASE) -> fp.Federation:
    """The federation at the first value of an axis."""
    return federations(federation, [axis], [axis.points[:1]])[0]


def federations(federation: fp.Federation, axes: list[Axis], points: list[np.ndarray]) -> list[fp.Federation]:
    arrays = arrays_at(federation, axes, points)
    return [federation.with_arrays(arrays.at(place)) for place in range(points[0].size)]


# places


@pytest.mark.parametrize(
    ("written", "places"),
    [
        ("weights[0,1]", [(0, 1)]),
        ("weights[North,1]", [(0, 1)]),
        (" weights [ 0 , 1 ] ", [(0, 1)]),
        ("weights[1,1]", [(1, 1)]),
        ("weights[*,0]", [(1, 0), (2, 0)]),
        ("weights[0,*]", [(0, 1), (0, 2)]),
        ("weights[*,*]", [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]),
        ("weights", [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]),
        ("weights[East [old] = 2,North]", [(2, 0)]),
        ("weights[0, East [old] = 2]", [(0, 2)]),
        ("weights[*,East [old] = 2]", [(0, 2), (1, 2)]),
    ],
)
def test_the_weights_meant(written: str, places: list[tuple[int, int]]) -> None:
    axis = parse_axis(f"{written}=7", BASE)
    expected = WEIGHTS.copy()
    for place in places:
        expected[place] = 7.0
    np.testing.assert_array_equal(changed(axis).weights, expected)
    assert axis.label == written.strip()


@pytest.mark.parametrize(
    ("written", "agents"),
    [
        ("[*]", [0, 1, 2]),
        ("[ 2 ]", [2]),
        ("[North]", [0]),
        ("[East [old] = 2]", [2]),
    ],
)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("costs", lambda f: f.costs.linear),
        ("costs.linear", lambda f: f.costs.linear),
        ("costs.quadratic", lambda f: f.costs.quadratic),
        ("caps", lambda f: f.caps),
        ("values", lambda f: f.values),
        ("beta", lambda f: f.payoff.parameters["beta"]),
        ("payoff.beta", lambda f: f.payoff.parameters["beta"]),
    ],
)
def test_the_agents_meant(name: str, read, written: str, agents: list[int]) -> None:
    expected = np.array(read(BASE))
    expected[agents] = 7.0
    found = changed(parse_axis(f"{name}{written}=7", BASE))
    np.testing.assert_array_equal(np.broadcast_to(read(found), 3), expected)


def test_all_else_stays() -> None:
    found = changed(parse_axis("costs[0]=0.5", BASE))
    expected = fp.Federation(
        WEIGHTS, costs=[0.5, 0.02, 0.03], caps=BASE.caps, payoff=BASE.payoff, names=BASE.names, values=BASE.values
    )
    assert found == expected


def test_a_name_counts_before_a_number() -> None:
    turned = fp.Federation(WEIGHTS, costs=0.01, payoff=fp.Log(), names=["2", "1", "0"])
    np.testing.assert_array_equal(parse_axis("costs[0]=1", turned).indices, [[2]])
    np.testing.assert_array_equal(parse_axis("weights[2,1]=1", turned).indices, [[0], [1]])


def test_a_pair_of_names_with_commas_goes_by_number() -> None:
    both = fp.Federation(WEIGHTS, costs=0.01, payoff=fp.Log(), names=["a", "a,a", "b"])
    with pytest.raises(fp.InvalidInput, match="there is no member 'a,b'"):
        parse_axis("weights[a,a,b]=1", both)
    np.testing.assert_array_equal(parse_axis("weights[1,b]=1", both).indices, [[1], [2]])


def test_an_agent_called_star_goes_by_number() -> None:
    star = fp.Federation(WEIGHTS, costs=0.01, payoff=fp.Log(), names=["*", "b", "c"])
    assert parse_axis("costs[*]=1", star).indices[0].size == 3
    assert parse_axis("costs[0]=1", star).indices[0].tolist() == [0]


def test_quadratic_costs_on_linear_ones() -> None:
    found = changed(parse_axis("costs.quadratic[1]=0.5", PLAIN), PLAIN)
    np.testing.assert_array_equal(found.costs.quadratic, [0.0, 0.5, 0.0])
    assert parse_axis("costs.quadratic=0:1:3", PLAIN).points.tolist() == [0.0, 0.5, 1.0]


def test_unlimited_caps() -> None:
    assert parse_axis("caps=1,inf", BASE).points.tolist() == [1.0, np.inf]
    assert changed(parse_axis("caps[0]=inf", BASE)).caps[0] == np.inf


# mistakes

PARAMETERS = "weights, costs, costs.quadratic, caps, values, joining_costs, budgets"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("weights[0,1]", "vary must be NAME=VALUES, got 'weights[0,1]'; write for example"),
        ("weights[0,1]=", "must be NAME=VALUES"),
        ("", "must be NAME=VALUES"),
        ("weights[0,1=1", "must be NAME=VALUES"),
        ("wieghts=1", f"vary must name one of {PARAMETERS}, beta, got 'wieghts'"),
        ("rate=1", ", got 'rate'"),
        ("weights[0]=1", "weights[0] needs two members, the one that receives and the one that gives"),
        (
            "weights[0,9]=1",
            "weights[0,9]: there is no member '9'; members are numbered 0 to 2, or called by name: North",
        ),
        ("weights[0,1,2]=1", "weights[0,1,2]: there is no member '1,2'"),
        ("costs[0,1]=1", "costs[0,1]: there is no member '0,1'"),
        ("costs[" + "9" * 5000 + "]=1", "there is no member"),
        ("costs=0:1:3", "there is no federation with costs = 0: costs[0] must be positive, got 0"),
        ("caps=-1:1:3", "there is no federation with caps = -1: caps[0] must be at least zero"),
        ("beta=1,-1", "there is no federation with beta = -1: payoff.beta"),
        ("weights[1,1]=-1:1:3", "there is no federation with weights[1,1] = -1: weights[1, 1] must be at least zero"),
        ("joining_costs=1,-1", "there is no federation with joining_costs = -1: joining_costs"),
        ("costs.quadratic=-1,1", "there is no federation with costs.quadratic = -1"),
    ],
)
def test_mistakes_are_told(written: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput) as caught:
        parse_axis(written, BASE)
    assert message in str(caught.value)


def test_many_names_are_not_all_listed() -> None:
    crowd = fp.Federation(np.eye(9), costs=1.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match=r"numbered 0 to 8, or called by name: agent 0, .*, agent 5, \.\.\.$"):
        parse_axis("costs[x]=1", crowd)


def test_weights_between_agents_need_two_of_them() -> None:
    lonely = fp.Federation([[1.0]], costs=1.0, payoff=fp.Log())
    for written in ("weights", "weights[*,0]", "weights[0,*]"):
        with pytest.raises(fp.InvalidInput, match=r"varies nothing: .* there is only one"):
            parse_axis(f"{written}=1:2:3", lonely)
    assert parse_axis("weights[0,0]=1:2:3", lonely).points.size == 3


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("weights[*,0]", "weights[1,0]", "weights[1,0]"),
        ("weights", "weights[2,1]", "weights[2,1]"),
        ("weights[0,*]", "weights[*,2]", "weights[0,2]"),
        ("costs[North]", "costs[0]", "costs[0]"),
        ("costs", "costs.linear[1]", "costs[1]"),
        ("beta", "payoff.beta", "beta[0]"),
        ("caps", "caps", "caps[0]"),
    ],
)
def test_two_axes_must_not_set_the_same_number(first: str, second: str, shared: str) -> None:
    axes = [parse_axis(f"{written}=1", BASE) for written in (first, second)]
    with pytest.raises(fp.InvalidInput) as caught:
        check_axes(BASE, axes)
    assert f"{second} must not overlap with {first}: both set {shared}" in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("weights[*,0]", "weights[*,1]"),
        ("weights[0,0]", "weights"),
        ("costs[0]", "costs.quadratic[0]"),
        ("costs[0]", "caps[0]"),
    ],
)
def test_two_axes_of_one_kind_may_stand_side_by_side(first: str, second: str) -> None:
    axes = [parse_axis(f"{first}=3", BASE), parse_axis(f"{second}=4", BASE)]
    check_axes(BASE, axes)
    found = federations(BASE, axes, [np.array([3.0]), np.array([4.0])])[0]
    again = changed(axes[1], changed(axes[0]))
    assert found == again


def test_corners_at_which_there_is_no_federation_are_found() -> None:
    """Each cost alone may vanish, not both."""
    base = fp.Federation(np.eye(2), costs=fp.Quadratic(0.1, 0.1), payoff=fp.Log())
    axes = [parse_axis("costs=0:1:3", base), parse_axis("costs.quadratic=0:1:3", base)]
    with pytest.raises(fp.InvalidInput, match=r"no federation with costs = 0 and costs\.quadratic = 0: .*"):
        check_axes(base, axes)


def test_values_too_near_to_zero_are_found_inside_the_grid() -> None:
    """None and plenty are costs that others may have beside theirs; next to nothing is not."""
    base = fp.Federation(np.eye(2), costs=fp.Quadratic(0.1, 0.1), payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match=r"no federation with costs\[0\] = 1e-10: .* within eight orders"):
        parse_axis("costs[0]=0,1e-10,1", base)


# Values: ranges, logarithmic ranges, lists.


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
        (" 0 : 1 : 3 ", [0.0, 0.5, 1.0]),
        ("1:-1:3", [1.0, 0.0, -1.0]),
        ("0.01:1:3:log", [0.01, 0.1, 1.0]),
        ("1:0.01:3: log ", [1.0, 0.1, 0.01]),
        ("5", [5.0]),
        ("3,1,2", [3.0, 1.0, 2.0]),
        (" 1e-3 , .5 ", [0.001, 0.5]),
        ("-inf,0", [-np.inf, 0.0]),
    ],
)
def test_written_forms(written: str, values: list[float]) -> None:
    np.testing.assert_allclose(parse_values("x", written), values, rtol=1e-15)


def test_even_values_carry_no_rounding() -> None:
    """-0.9 + 3 x 0.3 is not zero in floating point; a weight of -1e-16 would be harm."""
    assert parse_values("x", "-0.9:0.9:7").tolist() == [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    grid = parse_values("x", "-3:3:121")
    assert [f"{value:.12g}" for value in grid] == [repr(value).removesuffix(".0") for value in grid.tolist()]
    assert not np.signbit(grid[60])
    assert not np.signbit(parse_values("x", "-0")[0])


def test_ends_are_exact() -> None:
    thirds = parse_values("x", "0.3333333333333333:0.6666666666666666:4")
    assert thirds[[0, -1]].tolist() == [0.3333333333333333, 0.6666666666666666]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0:1", "x: values cannot be '0:1'; write \"start:stop:count\""),
        ("0:1:0", "x: the count must be a whole number from 1 to 1,000,000, got '0'"),
        ("0:1:2.5", "the count must be a whole number"),
        ("0:1:1000001", "the count must be a whole number"),
        ("0:1:1", "a range needs two different ends and a count of at least 2, got '0:1:1'; a single value is"),
        ("0:inf:3", "a range needs finite ends, got '0:inf:3'; list the values instead"),
        ("0:1:3:log", "a logarithmic range needs positive ends, got '0:1:3:log'; leave out :log"),
        ("a:1:3", "'a' is not a number"),
        ("1,,2", "x: values must be numbers, got ''"),
        ("one", "x: 'one' is not a number; write \"start:stop:count\""),
        ("1,nan", "values must be numbers, got 'nan'"),
        ("1,2,1", "x: values must differ, got 1 more than once in '1,2,1'"),
        ("0,-0", "values must differ, got 0 more than once"),
    ],
)
def test_mistaken_values_are_told(written: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput) as caught:
        parse_values("x", written)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


class TestSharedCaps:
    federation = example("hospitals-privacy").federation

    @pytest.mark.parametrize("index", ["City", "1", "City: raw + City: with noise"])
    def test_one_by_its_member_its_number_or_its_lots(self, index: str) -> None:
        axis = parse_axis(f"shared_caps[{index}]=10,30", self.federation)
        assert axis.indices[0].tolist() == [1]
        batch = federations(self.federation, [axis], [axis.points])
        assert [each.cap for each in batch[1].shared_caps] == [40.0, 30.0, 20.0]
        assert batch[0].shared_caps[1].lots == self.federation.shared_caps[1].lots

    def test_all_at_once(self) -> None:
        assert parse_axis("shared_caps=10,30", self.federation).indices[0].tolist() == [0, 1, 2]

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            ("shared_caps[Clinic]=1,2", "there is no shared cap 'Clinic'; shared caps are numbered 0 to 2"),
            ("shared_caps[City]=-1,2", r"shared_caps\[1\] must have a cap that is finite and at least zero, got -1"),
            ("shared_caps[City]=1,inf", r"must have a cap that is finite"),
        ],
    )
    def test_refused(self, written: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            parse_axis(written, self.federation)

    def test_not_where_there_are_none(self) -> None:
        with pytest.raises(InvalidInput, match=r"vary must name one of weights, costs.*, got 'shared_caps'"):
            parse_axis("shared_caps=1,2", example("hospitals").federation)
