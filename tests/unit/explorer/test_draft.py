"""What was typed is kept as it was typed, whatever happens around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import fedpact as fp
from fedpact.explorer.draft import (
    MAX_MEMBERS,
    STARTING_PARAMETERS,
    Draft,
    draft_of,
    field_names,
    typed_text,
    with_agent,
    without_agent,
)
from fedpact.explorer.form import EXAMPLE_TITLES
from fedpact.explorer.validation import read_draft
from fedpact.scenario import Measured, example
from random_cases import cases
from strategies import federations


def many(count):
    return fp.Scenario(federation=fp.Federation(np.eye(count), costs=0.01, payoff=fp.Log()))


@pytest.mark.parametrize("name", EXAMPLE_TITLES)
def test_built_in_federations_come_back_bit_for_bit(name):
    scenario = example(name)
    reading = read_draft(draft_of(scenario))
    assert reading.errors == {}
    assert reading.scenario == scenario


@settings(max_examples=cases(13))
@given(federations(most_agents=4))
def test_every_federation_comes_back(federation):
    scenario = fp.Scenario(federation=federation)
    back = read_draft(draft_of(scenario)).scenario
    assert back is not None
    names = ("weights", "caps", "values")
    for name in names:
        np.testing.assert_array_equal(getattr(back.federation, name), getattr(scenario.federation, name))
    assert back.federation.names == federation.names
    np.testing.assert_array_equal(back.federation.costs.linear, federation.costs.linear)
    np.testing.assert_array_equal(back.federation.costs.quadratic, federation.costs.quadratic)
    for label, numbers in federation.payoff.parameters.items():
        shape = federation.n_agents
        np.testing.assert_array_equal(
            np.broadcast_to(back.federation.payoff.parameters[label], shape), np.broadcast_to(numbers, shape)
        )


def test_too_many_members_are_refused_with_the_way_out():
    assert draft_of(many(MAX_MEMBERS)).n_agents == MAX_MEMBERS
    with pytest.raises(fp.InvalidInput, match="up to 30 members, got 31; `fedpact compare`"):
        draft_of(many(MAX_MEMBERS + 1))


@pytest.mark.parametrize(
    ("number", "text"),
    [(120.0, "120"), (0.1, "0.1"), (2.4e-5, "2.4e-05"), (np.inf, "unlimited"), (-0.5, "-0.5"), (1 / 3, repr(1 / 3))],
)
def test_numbers_are_short_and_exact(number, text):
    assert typed_text(number) == text


def test_fields_of_a_draft_are_those_of_its_family():
    draft = draft_of(example("hospitals"))
    assert "payoff.beta" in set(field_names(draft))
    log = replace(draft, texts={**draft.texts, "family": "log"})
    assert not [field for field in field_names(log) if field.startswith("payoff.")]
    nonsense = replace(draft, texts={**draft.texts, "family": "nonsense"})
    assert not [field for field in field_names(nonsense) if field.startswith("payoff.")]
    own = replace(draft, own_curves=True)
    assert "payoff.beta[4]" in set(field_names(own)) and "payoff.beta" not in set(field_names(own))


def test_trying_another_family_loses_nothing():
    draft = draft_of(example("hospitals"))
    tried = replace(draft, texts={**draft.texts, "family": "michaelis"})
    assert read_draft(tried).errors == {}  # there is something to begin with
    back = replace(tried, texts={**tried.texts, "family": "power-law"})
    assert read_draft(back).scenario == example("hospitals")


def test_a_new_member_changes_nothing_for_the_others():
    draft = with_agent(draft_of(example("hospitals")))
    scenario = read_draft(draft).scenario
    assert scenario is not None
    assert scenario.federation.names[-1] == "Member 6"
    np.testing.assert_array_equal(scenario.federation.weights[:5, :5], example("hospitals").federation.weights)
    before = fp.ExternalityMechanism().solve(example("hospitals").federation).payments
    after = fp.ExternalityMechanism().solve(scenario.federation).payments
    np.testing.assert_allclose(after, [*before, 0.0], atol=1e-9)


def test_a_new_members_name_is_not_taken():
    draft = draft_of(many(2))
    taken = replace(draft, texts={**draft.texts, "names[0]": "Member 3", "names[1]": " Member 4 "})
    assert with_agent(taken)["names[2]"] == "Member 5"


@pytest.mark.parametrize("agent", range(5))
def test_removing_a_member_leaves_the_federation_of_the_others(agent):
    others = [other for other in range(5) if other != agent]
    draft = without_agent(draft_of(example("hospitals")), agent)
    scenario = read_draft(draft).scenario
    assert scenario is not None
    assert scenario.federation == example("hospitals").federation.take(others)
    assert not [field for field in draft.texts if "[4" in field or ",4]" in field]


def test_removing_what_is_not_there_or_the_last_one_is_refused():
    with pytest.raises(fp.InvalidInput, match="at least one member"):
        without_agent(draft_of(many(1)), 0)
    for agent in (-1, 2):
        with pytest.raises(fp.InvalidInput, match="agent must be from 0 to 1"):
            without_agent(draft_of(many(2)), agent)


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {"n_agents": 2},
        {"n_agents": 2, "texts": []},
        {"n_agents": 0, "texts": {}},
        {"n_agents": True, "texts": {}},
        {"n_agents": 31, "texts": {}},
        {"n_agents": "3", "texts": {}},
        {"n_agents": 2, "texts": {"title": 3}},
        {"n_agents": 2, "texts": {"title": "x" * 10_001}},
    ],
)
def test_records_of_another_shape_are_refused(record):
    with pytest.raises(fp.InvalidInput):
        Draft.of_record(record)


def test_every_family_is_known():
    from fedpact.federation.payoffs import FAMILIES

    assert set(STARTING_PARAMETERS) == {name for family in FAMILIES.values() for name in family.parameter_names()}


def four_banks(**changes) -> fp.Scenario:
    """What members have and want: data at home, joining costs, budgets, personal models."""
    federation = fp.Federation(
        np.full((4, 4), 0.5) + 0.5 * np.eye(4),
        costs=0.001,
        caps=[40.0, 30.0, 20.0, 10.0],
        payoff=fp.PowerLaw(beta=0.3),
        home=[40.0, 30.0, 5.0, 10.0],
        joining_costs=[0.01, 0.0, 0.02, 0.01],
        budgets=[np.inf, 0.5, 0.25, np.inf],
    )
    return fp.Scenario(federation=federation, models="personal", money=fp.Money("EUR", 1e6), **changes)


def test_what_members_have_and_want_comes_back():
    draft = draft_of(four_banks())
    assert [draft[f"home[{agent}]"] for agent in range(4)] == ["all", "all", "5", "all"]
    reading = read_draft(draft)
    assert reading.errors == {} and reading.scenario == four_banks()
    without = read_draft(without_agent(draft, 1)).scenario
    assert without.federation == four_banks().federation.take([0, 2, 3])
    more = read_draft(with_agent(draft)).scenario.federation
    assert (more.home[4], more.joining_costs[4], more.budgets[4]) == (10.0, 0.01, np.inf)


def test_sums_of_money_and_wrong_amounts():
    def read(**typed):
        draft = draft_of(four_banks())
        return read_draft(replace(draft, texts={**draft.texts, **typed}))

    found = read(**{"joining_costs[0]": "50000 EUR", "budgets[1]": "", "budgets[2]": "unlimited"}).scenario.federation
    assert (found.joining_costs[0], list(found.budgets[1:3])) == (0.05, [np.inf, np.inf])
    assert set(read(models="two").errors) == {"models"}
    wrong = {"home[0]": "", "home[1]": "much", "joining_costs[1]": "5 USD", "joining_costs[2]": "-1"}
    errors = read(**wrong).errors
    assert errors.keys() == wrong.keys(), errors
    assert "a sum in the currency below, got one in USD" in errors["joining_costs[1]"]


def test_what_was_measured_holds_for_the_federation_it_was_measured_for():
    one = dict.fromkeys(("guess", "alone", "one_model", "own_choice", "points", "point_errors", "worth"), (0.5,) * 4)
    amounts = dict.fromkeys(("shared", "payments", "promised", "gains", "gain_errors"), (1.0,) * 4)
    words = {"verdict": "federate", "advice": "Federate.", "arrangement": "own choice", "score": "accuracy"}
    scenario = four_banks(measured=Measured(**words, **one, **amounts))
    draft = draft_of(scenario)
    assert read_draft(draft).scenario == scenario
    renamed = replace(draft, texts={**draft.texts, "title": "Banks"})
    assert read_draft(Draft.of_record(renamed.record())).scenario.measured == scenario.measured
    changed = replace(draft, texts={**draft.texts, "caps[0]": "41"})
    assert read_draft(changed).scenario.measured is None
