"""The published schema and the template agree with the code that reads files."""

import re
import tomllib
from dataclasses import fields

import pytest
from jsonschema import Draft202012Validator

from fedpact import InvalidInput, Quadratic
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario import Money, load_scenario, parse_scenario, schema, template
from fedpact.scenario.reading import KEYS, REQUIRED


def names_of(kind):
    return [field.name for field in fields(kind)]


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(schema())


def test_the_schema_knows_the_same_keys():
    properties = schema()["properties"]
    assert list(properties) == list(KEYS)
    assert schema()["required"] == list(REQUIRED)
    assert list(properties["money"]["properties"]) == names_of(Money)
    assert list(properties["costs"]["oneOf"][1]["properties"]) == names_of(Quadratic)


def test_the_schema_knows_the_same_families():
    families = {}
    for branch in schema()["properties"]["payoff"]["oneOf"]:
        keys = dict(branch["properties"])
        name = keys.pop("family")["const"]
        families[name] = list(keys)
        assert families[name] == branch.get("required", [])
    assert families == {name: names_of(family) for name, family in FAMILIES.items()}


@pytest.mark.parametrize(
    "names", [1, 3, 12, ["North", "South"], ['quote " and {brace}', "line\nbreak", "DEL\x7f", "🏥"]]
)
def test_the_template_loads(tmp_path, names):
    path = tmp_path / "new.toml"
    path.write_text(template(names), encoding="utf-8")
    federation = load_scenario(path).federation
    expected = [f"Member {member + 1}" for member in range(names)] if isinstance(names, int) else names
    assert list(federation.names) == expected
    Draft202012Validator(schema()).validate(tomllib.loads(template(names)))


def test_the_template_explains_every_key_and_family():
    content = template()
    for word in [*KEYS, *FAMILIES, *(key for family in FAMILIES.values() for key in names_of(family))]:
        assert re.search(rf"\b{word}\b", content), word


def test_what_the_template_offers_in_comments_loads_too():
    content = template()
    content = content[: content.index("# [money]")] + content[content.index("# [money]") :].replace("# ", "")
    content = re.sub(r"^costs = \[.*\n", "", content, flags=re.MULTILINE) + "\n"
    (offer,) = re.findall(r"costs = \{.*\}", content)
    content = f"{offer}\n{content}"
    scenario = parse_scenario(tomllib.loads(content), where="template")
    assert scenario.money == Money("EUR", 100000.0)
    assert isinstance(scenario.federation.costs, Quadratic)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (0, "names must be a list of names or a positive number of members, got 0"),
        ([], "weights must be a square matrix"),
        (["North", "North"], 'names[1] must differ from the others, "North" appears twice'),
        (["North", 5], "names[1] must be a text in quotes, got 5"),
    ],
)
def test_templates_that_cannot_be(names, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        template(names)


def test_a_template_with_lots_and_tasks_loads_as_it_is() -> None:
    text = template(["North", "South"], lots=["labelled", "unlabelled"], tasks=["adults", "children"])
    federation = parse_scenario(tomllib.loads(text), where="template").federation
    assert federation.lot_labels == ("North: labelled", "North: unlabelled", "South: labelled", "South: unlabelled")
    assert federation.task_labels == ("North: adults", "North: children", "South: adults", "South: children")
    assert "# lot_owners" not in text and "one per lot" in text and "one per task" in text
    only_lots = parse_scenario(tomllib.loads(template(2, lots=["a", "b"])), where="template").federation
    assert only_lots.n_lots == 4 and only_lots.task_names == only_lots.names


def test_lots_of_a_template_have_names_of_their_own() -> None:
    with pytest.raises(InvalidInput, match="lot_names"):
        template(2, lots=["a", "a"])


@pytest.mark.parametrize("key", ["lots", "tasks"])
def test_one_text_is_no_list_of_names(key: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{key} must be a list of names, got 'raw'; write it as \['raw'\]$"):
        template(2, **{key: "raw"})
