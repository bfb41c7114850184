"""Every malformed file is refused with one message that names the file, the place, the rule and the value."""

import json
import math
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fedpact import InvalidInput
from fedpact.scenario import Scenario, load_scenario, parse_scenario, schema
from random_cases import cases

GOOD = {
    "names": ["North", "South", "East"],
    "weights": [[1.0, 0.2, 0.4], [0.1, 1.0, 0.0], [0.3, -0.5, 1.0]],
    "costs": 0.001,
    "caps": 400,
    "values": 1.0,
    "payoff": {"family": "power-law", "beta": 0.02},
    "money": {"currency": "EUR", "per_payoff": 100000},
}


def good(**changes):
    return {key: given for key, given in (GOOD | changes).items() if given is not ...}


def power_law(**changes):
    return good(payoff={"family": "power-law", "beta": 0.02} | changes)


# What the file says, and what the error says about it. The schema refuses all of these too.
REFUSED_BY_BOTH = [
    ([], "a scenario must be an object with keys and values, got []"),
    ({}, "weights is missing; add one row of numbers per member"),
    (good(weights=...), "weights is missing; add one row of numbers per member, or the name of a .csv or .npz file"),
    (good(costs=...), "costs is missing; add the cost per sample"),
    (good(payoff=...), "payoff is missing; add a payoff table with one of the families power-law, exponential, log"),
    (good(wieghts=1), "unknown key 'wieghts'; did you mean \"weights\"?"),
    (good(gamma=1), "unknown key 'gamma'; known keys here are title, description, unit, names, weights, costs"),
    (good(title=5), "title must be a text in quotes, got 5"),
    (good(names=["North", 2, "East"]), "names[1] must be a text in quotes, got 2"),
    (good(names=["North", " ", "East"]), "names[1] must not be blank, got ' '"),
    (good(names=["North", "South", "North"]), 'names[2] must differ from the others, "North" appears twice'),
    (good(weights=1.0), "weights must be a list of rows, or the name of a .csv or .npz file, got 1.0"),
    (good(weights=[1.0, 2.0]), "weights[0] must be a list of numbers, one per column, got 1.0"),
    (
        good(weights=[[1.0, "0.2"], [0.0, 1.0]]),
        "weights[0, 1] must be a number, got '0.2'; write numbers without quotes",
    ),
    (good(weights=[[1.0, True], [0.0, 1.0]]), "weights[0, 1] must be a number, got True"),
    (
        good(weights="weights.xls"),
        "weights.xls: the file's name must end in .csv or .npz or .tsv, got 'weights.xls'",
    ),
    (good(costs="0.1"), "costs must be a number without quotes, or money such as \"0.02 EUR/record\", got '0.1'"),
    (good(costs=-1), "costs must be positive, got -1"),
    (good(costs=[1, 0, 1]), 'costs[1] must be positive, got 0 (member "South")'),
    (good(costs={"linear": 1}), "costs.quadratic is missing; costs needs the keys linear, quadratic"),
    (good(costs={"linear": 1, "quadratc": 1}), "unknown key 'costs.quadratc'; did you mean \"costs.quadratic\"?"),
    (good(costs={"linear": 1, "quadratic": "2"}), "costs.quadratic must be a number or a list of numbers"),
    (good(costs={"linear": [1, -1, 1], "quadratic": 1}), "costs.linear[1] must be at least zero, got -1"),
    (good(caps="unlimited"), "caps must be a number or a list of numbers, got 'unlimited'"),
    (good(caps=[1, "nan", 1]), "caps[1] must be a number, got 'nan'"),
    (good(caps=[1, -1, 1]), 'caps[1] must be at least zero, got -1 (member "South")'),
    (good(values=0), "values must be positive, got 0"),
    (good(values="inf"), "values must be a number without quotes, or money such as"),
    (good(payoff="log"), "payoff must be a table with the keys family, beta, rate, half, got 'log'"),
    (good(payoff={"beta": 0.02}), "payoff.family is missing"),
    (
        power_law(family="powerlaw"),
        "payoff.family must be one of power-law, exponential, log, michaelis, got 'powerlaw'",
    ),
    (
        good(payoff={"family": "power-law"}),
        "payoff.beta is missing; payoff needs the keys family, beta",
    ),
    (power_law(rate=1), "unknown key 'payoff.rate'; known keys here are family, beta"),
    (
        good(payoff={"family": "log", "half": 1}),
        "unknown key 'payoff.half'; known keys here are family",
    ),
    (power_law(bta=1), "unknown key 'payoff.bta'; did you mean \"payoff.beta\"?"),
    (
        power_law(caps=400),
        "unknown key 'payoff.caps'; known keys here are family, beta, rate, half; keys of the whole file stand above",
    ),
    (power_law(beta=0), "payoff.beta must be positive, got 0"),
    (power_law(beta=[0.1, "x", 0.1]), "payoff.beta[1] must be a number, got 'x'"),
    (good(money=5), "money must be a table with the keys currency, per_payoff, got 5"),
    (good(money={"currency": "EUR", "per_payoff": -1}), "money.per_payoff must be a positive number, got -1.0"),
    (
        good(money={"currency": " ", "per_payoff": 1}),
        "money.currency must be a non-empty text such as \"EUR\", got ' '",
    ),
    (good(money={"currency": "EUR", "per_payof": 1}), 'did you mean "money.per_payoff"?'),
]

# Rules that tie parts together, or that numbers in a schema cannot state.
REFUSED_BY_US = [
    (
        good(weights=[[1.0, 0.2, 0.4], [0.1, 1.0], [0.3, 0.5]]),
        '[1] must have one number per member: 3 wanted, 2 numbers given (member "South")',
    ),
    (
        good(weights=[[1.0, 0.2, 0.4], [0.1, 1.0, 2.0]]),
        "weights must have one row per member: 3 names, 2 rows given",
    ),
    (good(names=..., weights=[[1.0], [0.1]]), "weights[0] must have one number per member: 2 wanted, 1 numbers given"),
    (good(names=["North", "South"]), "names must have one entry per member: 3 rows of weights, 2 names given"),
    (
        good(names=..., weights=[[1.0, 10**400], [0.0, 1.0]]),
        "weights[0, 1] must be below 1.8e308, the largest float, got an integer of 1329",
    ),
    (good(weights="nowhere.csv"), "nowhere.csv: there is no such file; check the path"),
    (good(weights="nul\0.npz"), "the file cannot be read: its name has a null character in it"),
    (good(costs=[1, 2]), "costs must be a number or one number per member: 3 members, 2 numbers given"),
    (good(costs={"linear": 0, "quadratic": 0}), "costs[0] must rise: linear and quadratic are both 0"),
    (good(costs=1 << 20000), "costs must be below 1.8e308, the largest float, got an integer of 20001 bits"),
    (good(caps=math.nan), "caps must be at least zero, got nan"),
    (good(title="\ud800"), "title must be text that UTF-8 can hold, got '\\ud800'"),
]


def message_of(document, folder=Path()):
    with pytest.raises(InvalidInput) as caught:
        parse_scenario(document, where="deal.toml", folders=[folder])
    return str(caught.value)


@pytest.mark.parametrize(("document", "message"), REFUSED_BY_BOTH + REFUSED_BY_US)
def test_malformed_documents(document, message, tmp_path):
    said = message_of(document, tmp_path)
    assert said.startswith("deal.toml: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize("document", [document for document, _ in REFUSED_BY_BOTH])
def test_the_schema_refuses_them_too(document):
    assert not Draft202012Validator(schema()).is_valid(document)


def test_the_good_one_is_good():
    assert isinstance(parse_scenario(GOOD, where="here"), Scenario)
    assert Draft202012Validator(schema()).is_valid(GOOD)


# File name, content, message.
BAD_FILES = [
    ("a.toml", b"", "the file is empty"),
    ("a.toml", b"# nothing but words\n", "weights is missing"),
    ("a.toml", b'title = "a"\nnames = \xff\n', "but byte 0xff on line 2 is not; save it with UTF-8"),
    (
        "a.toml",
        b"title = 'a'\ncosts : 5\n",
        "not valid TOML: Expected '=' after a key in a key/value pair (at line 2, column 7)",
    ),
    ("a.toml", b"costs = 1\ncosts = 2\n", "not valid TOML: Cannot overwrite a value (at line 2, column 10)"),
    ("a.toml", b"costs = " + b"9" * 5000, "the file is not valid TOML: Exceeds the limit"),
    ("a.toml", b"costs = " + b"[" * 10000, "the file nests its lists or tables too deeply"),
    ("a.toml", b"weights = []\ncosts = 1979-05-27\npayoff.family = 'log'", "got datetime.date(1979, 5, 27)"),
    ("a.toml", b"a." * 60 + b"a = 1", "unknown key 'a'"),
    (
        "a.json",
        b'{"title": "a",\n "costs": 5 "caps": 6}',
        "must be valid JSON: Expecting ',' delimiter, line 2, column 13",
    ),
    ("a.json", b'{"costs": 5, "costs": 6}', "key 'costs' appears twice in one object; keep one of them"),
    ("a.json", b'{"costs": NaN}', 'JSON has no NaN; it is written "inf"'),
    ("a.json", b'{"costs": ' + b"9" * 5000 + b"}", "must be valid JSON: Exceeds the limit"),
    ("a.json", b"[" * 10000, "must not nest lists or objects so deeply"),
    ("a.json", b"[1, 2]", "a scenario must be an object with keys and values, got [1, 2]"),
    ("a.yaml", b"costs: 5", "the file's name must end in .toml or .json, got 'a.yaml'"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_malformed_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InvalidInput, match=r"pipe\.toml: this is a pipe, not a file; write what comes through it"):
        load_scenario(tmp_path / "pipe.toml")


def test_what_people_write_by_hand(tmp_path):
    path = tmp_path / "Deal.TOML"
    path.write_bytes(
        b"\xef\xbb\xbf"  # the mark that Windows editors put first
        b"weights = [[1, 0], [0.5, 1]]\r\ncosts = {linear = 1, quadratic = [1, 2]}\r\ncaps = [inf, 3]\r\n"
        b'[payoff]\r\nfamily = "michaelis"\r\nhalf = [50, 60]\r\n'
    )
    federation = load_scenario(path).federation
    assert federation.names == ("agent 0", "agent 1")
    assert federation.caps.tolist() == [math.inf, 3.0]
    assert federation.costs.quadratic.tolist() == [1.0, 2.0]
    assert federation.payoff.half.tolist() == [50.0, 60.0]
    assert federation.values.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("spelling", ["inf", "Infinity"])
def test_json_spells_infinity(tmp_path, spelling):
    path = tmp_path / "deal.json"
    path.write_text(json.dumps(good(caps=[1, spelling, 2])))
    assert load_scenario(path).federation.caps.tolist() == [1.0, math.inf, 2.0]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["log", "inf"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=cases(67))
@given(key=st.sampled_from(sorted(GOOD)), replacement=anything)
def test_one_part_replaced_by_anything(key, replacement):
    """It loads or it is refused; nothing else is raised."""
    with suppress(InvalidInput):
        parse_scenario(GOOD | {key: replacement}, where="here", folders=[Path("/nowhere")])


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"path must be the name of a \.toml or \.json file, or of a built-in"):
        load_scenario(3)  # type: ignore[arg-type]


def test_data_at_home_is_all_or_numbers():
    assert message_of(good(home="some")) == "deal.toml: home must be \"all\", a number or a list of numbers, got 'some'"
