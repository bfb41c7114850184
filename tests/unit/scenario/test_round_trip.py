"""A scenario that is saved and loaded is the same scenario, bit for bit."""

import json
import math
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fedpact import Exponential, Federation, InvalidInput, Linear, Log, Michaelis, PowerLaw, Quadratic
from fedpact.scenario import (
    Money,
    Scenario,
    example,
    load_scenario,
    parse_scenario,
    save_scenario,
    scenario_to_dict,
    schema,
)
from random_cases import cases

SUFFIXES = (".toml", ".json")

positive_floats = st.floats(min_value=1e-3, max_value=1e4)  # numbers of a federation span eight orders of magnitude
capacities = st.floats(min_value=0, allow_infinity=True) | st.just(-0.0)
# Everything UTF-8 can hold: quotes, backslashes, newlines, control characters, DEL, emoji.
words = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n\r\t\x00\x7f\u2028🏥'), max_size=12)


def one_or_per_agent(numbers, n_agents):
    return numbers | st.lists(numbers, min_size=n_agents, max_size=n_agents)


@st.composite
def weight_matrices(draw, n_agents):
    entries = st.lists(
        positive_floats | positive_floats.map(lambda number: -number) | st.sampled_from([0.0, -0.0, 1.0]),
        min_size=n_agents**2,
        max_size=n_agents**2,
    )
    matrix = np.array(draw(entries)).reshape(n_agents, n_agents)
    np.fill_diagonal(matrix, draw(one_or_per_agent(positive_floats, n_agents)))
    return matrix


@st.composite
def scenarios(draw):
    n_agents = draw(st.integers(1, 5))
    parameter = one_or_per_agent(positive_floats, n_agents)
    names = st.lists(words.filter(str.strip), min_size=n_agents, max_size=n_agents, unique=True)
    federation = Federation(
        weights=draw(weight_matrices(n_agents)),
        costs=draw(st.builds(Linear, parameter) | st.builds(Quadratic, parameter, parameter)),
        caps=draw(one_or_per_agent(capacities, n_agents)),
        payoff=draw(
            st.builds(PowerLaw, parameter)
            | st.builds(Exponential, parameter)
            | st.builds(Michaelis, parameter)
            | st.just(Log())
        ),
        names=draw(st.none() | names),
        values=draw(parameter),
    )
    money = st.none() | st.builds(Money, words.filter(str.strip), positive_floats)
    return Scenario(federation=federation, title=draw(words), description=draw(words), money=draw(money))


def round_trip(scenario, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"scenario{suffix}"
        save_scenario(scenario, path)
        return load_scenario(path), path.read_text("utf-8")


def decoded(content, suffix):
    return tomllib.loads(content) if suffix == ".toml" else json.loads(content)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=cases(50))
@given(scenario=scenarios())
def test_saved_and_loaded_is_the_same(suffix, scenario):
    again, content = round_trip(scenario, suffix)
    assert again == scenario
    for before, after in zip(
        scenario.federation.payoff.parameters.values(), again.federation.payoff.parameters.values(), strict=True
    ):
        assert before.shape == after.shape
    Draft202012Validator(schema()).validate(decoded(content, suffix))


@pytest.fixture
def scenario():
    federation = Federation(
        weights=[[1.0, 0.25, -2.0], [0.5, 10.0, 1e-7], [0.0, 1.0, 1.0]],
        costs=[0.001, 0.002, 0.003],
        caps=[400.0, math.inf, 10.0],
        payoff=PowerLaw(beta=0.02),
        names=["North", "South", 'the "East" clinic'],
    )
    return Scenario(
        federation=federation, title="Three", description="First line.\nSecond line.", money=Money("EUR", 1e5)
    )


def test_toml_reads_well(scenario):
    assert round_trip(scenario, ".toml")[1] == (
        'title = "Three"\n'
        'description = """\n'
        "First line.\n"
        'Second line."""\n'
        'names = ["North", "South", "the \\"East\\" clinic"]\n'
        "weights = [\n"
        "  [1.0, 0.25,  -2.0],\n"
        "  [0.5, 10.0, 1e-07],\n"
        "  [0.0,  1.0,   1.0]\n"
        "]\n"
        "costs = [0.001, 0.002, 0.003]\n"
        "caps = [400.0, inf, 10.0]\n"
        "values = 1.0\n"
        "\n"
        "[payoff]\n"
        'family = "power-law"\n'
        "beta = 0.02\n"
        "\n"
        "[money]\n"
        'currency = "EUR"\n'
        "per_payoff = 100000.0\n"
    )


def test_json_reads_well(scenario):
    assert round_trip(scenario, ".json")[1] == (
        "{\n"
        '  "title": "Three",\n'
        '  "description": "First line.\\nSecond line.",\n'
        '  "names": ["North", "South", "the \\"East\\" clinic"],\n'
        '  "weights": [\n'
        "    [1.0, 0.25,  -2.0],\n"
        "    [0.5, 10.0, 1e-07],\n"
        "    [0.0,  1.0,   1.0]\n"
        "  ],\n"
        '  "costs": [0.001, 0.002, 0.003],\n'
        '  "caps": [400.0, "inf", 10.0],\n'
        '  "values": 1.0,\n'
        '  "payoff": {\n'
        '    "family": "power-law",\n'
        '    "beta": 0.02\n'
        "  },\n"
        '  "money": {\n'
        '    "currency": "EUR",\n'
        '    "per_payoff": 100000.0\n'
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_long_lists_take_a_line_per_entry(suffix):
    names = [f"member number {agent}" for agent in range(20)]
    federation = Federation(weights=np.eye(20), costs=1.0, payoff=Log(), names=names)
    again, content = round_trip(Scenario(federation=federation), suffix)
    assert again.federation == federation
    assert '"member number 7"' in [line.strip(" ,") for line in content.splitlines()]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_linear_and_quadratic_costs_stay_apart(suffix):
    linear = Scenario(federation=Federation(weights=np.eye(2), costs=Linear(0.5), payoff=Log()))
    quadratic = Scenario(federation=Federation(weights=np.eye(2), costs=Quadratic(0.5, 0.0), payoff=Log()))
    assert linear != quadratic
    assert isinstance(round_trip(linear, suffix)[0].federation.costs, Linear)
    assert isinstance(round_trip(quadratic, suffix)[0].federation.costs, Quadratic)


LOTS = Scenario(
    federation=Federation(
        [[1.0, 0.4, 0.5], [0.2, 0.0, 1.0]],
        lot_owners=["North", "North", "South"],
        lot_names=["new device", "old device", "X-rays"],
        costs=[0.01, 0.02, 0.03],
        caps=[10.0, np.inf, 30.0],
        values=[1.0, 2.0],
        payoff=PowerLaw(beta=[0.1, 0.2]),
    )
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("scenario", [LOTS, example("hospitals-privacy")], ids=["lots", "shared caps"])
def test_lots_tasks_and_shared_caps(scenario, suffix, tmp_path):
    save_scenario(scenario, tmp_path / f"lots{suffix}")
    again = load_scenario(tmp_path / f"lots{suffix}")
    assert again == scenario
    assert again.federation.shared_caps == scenario.federation.shared_caps
    Draft202012Validator(schema()).validate(scenario_to_dict(scenario))


def test_many_weights_stand_beside_the_scenario(tmp_path):
    large = Scenario(federation=Federation(np.eye(101), costs=1.0, payoff=Log()))
    save_scenario(large, tmp_path / "big.toml")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["big.toml", "big.weights.npz"]
    assert 'weights = "big.weights.npz"' in (tmp_path / "big.toml").read_text()
    assert load_scenario(tmp_path / "big.toml") == large


def test_lots_in_a_weights_file(tmp_path):
    """Lots along the top, tasks down the side, by their names or with the owner's in front."""
    document = scenario_to_dict(LOTS) | {"weights": "w.csv"}
    for columns, rows in ((",new device,old device,X-rays", "North South"), (None, None)):
        lines = ["1.0,0.4,0.5", "0.2,0.0,1.0"]
        if columns is not None:
            lines = [columns, *(f"{name},{line}" for name, line in zip(rows.split(), lines, strict=True))]
        (tmp_path / "w.csv").write_text("\n".join(lines))
        assert parse_scenario(document, where="here", folders=[tmp_path]) == LOTS
    (tmp_path / "w.csv").write_text(",new device,scans,X-rays\nNorth,1.0,0.4,0.5\nSouth,0.2,0.0,1.0")
    with pytest.raises(InvalidInput, match=r"lot_names\[1\] must agree with the weights file: 'old device' here"):
        parse_scenario(document, where="here", folders=[tmp_path])


def test_rows_of_different_length_are_refused(tmp_path):
    document = scenario_to_dict(LOTS) | {"weights": [[1.0, 0.4, 0.5], [0.2, 1.0]]}
    with pytest.raises(InvalidInput, match=r"weights\[1\] must have one number per lot: 3 wanted, 2 numbers given$"):
        parse_scenario(document, where="here", folders=[tmp_path])
