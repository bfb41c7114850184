"""Shared caps in scenario files: read, written, in the schema and in the template."""

import tomllib

import pytest

import fedpact as fp
from fedpact.scenario.reading import parse_scenario
from fedpact.scenario.template import template

DOCUMENT = {
    "weights": [[1.0, 0.4]],
    "costs": 0.01,
    "payoff": {"family": "log"},
    "lot_owners": ["A", "A"],
    "lot_names": ["raw", "noised"],
    "task_owners": ["A"],
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("raw", "shared_caps must be a list of tables with the keys lots and cap"),
        ([{"lots": ["A: raw", "A: noised"]}], r"shared_caps\[0\].cap is missing"),
        ([{"lots": ["A: raw", "A: noised"], "cap": "ten"}], r"shared_caps\[0\].cap must be a number"),
        (
            [{"lots": ["A: raw", "A: noise"], "cap": 1.0}],
            r"shared_caps\[0\] must name lots: there is no lot called 'A: noise'",
        ),
        (
            [{"lots": "A: raw", "cap": 1.0}],
            r"shared_caps\[0\].lots must be a list of names, got 'A: raw'; write it as \['A: raw'\]",
        ),
    ],
)
def test_what_is_wrong_is_named(given: object, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        parse_scenario(DOCUMENT | {"shared_caps": given}, where="file")


def test_lots_are_no_key_of_the_whole_file() -> None:
    with pytest.raises(
        fp.InvalidInput, match=r"unknown key 'lots'; lots are named by lot_owners and lot_names, and in a"
    ):
        parse_scenario(DOCUMENT | {"lots": "A: raw"}, where="file")


def test_the_template_shows_how() -> None:
    text = template(["North", "South"], lots=["raw", "with noise"])
    start = text.index("# [[shared_caps]]")
    table = text[start : text.index("\n\n", start)].replace("# ", "")
    text = text.replace('\nhome = "all"', "")  # of records that two lots are made of, amounts have to be said
    found = parse_scenario(tomllib.loads(text + "\n" + table), where="template")
    assert found.federation.shared_caps == (fp.SharedCap((0, 1), 100.0),)
    assert "[[shared_caps]]" in template(["North", "South"])
