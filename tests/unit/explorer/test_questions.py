"""What the page is told is what the library computes."""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.deal_file import deal_record
from fedpact.explorer.draft import Draft, draft_of
from fedpact.explorer.files import DOWNLOADS
from fedpact.explorer.form import EXAMPLE_TITLES, MAX_STEP, page_view
from fedpact.explorer.parameters import Parameter, points_between
from fedpact.explorer.questions import Cancelled, Questions, Unfinished, initial_draft
from fedpact.explorer.validation import read_draft
from fedpact.report import render_report
from fedpact.report.records import comparison_record
from fedpact.scenario import example as built_in
from old_hospitals import hospitals

WEIGHT = {"kind": "weights", "receiver": 0, "giver": 1}
COST = {"kind": "costs", "agent": 1}
FEDERATION = hospitals().federation


def quietly(done, total):
    pass


def words(html):
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).replace("\N{NO-BREAK SPACE}", " ").split())


def mapped(ask, **changes):
    asked = ask(
        up={"parameter": WEIGHT, "low": "-1", "high": "1"},
        right={"parameter": COST, "low": "0.001", "high": "0.01"},
        metric="ir_gaps",
        mechanism="shapley",
        agent=4,
        count=3,
    )
    return asked | changes


@pytest.mark.parametrize("name", EXAMPLE_TITLES)
def test_examples_are_there_to_start_from(answers, name):
    answer = answers.example({"name": name})
    assert read_draft(Draft.of_record(answer["draft"])).scenario == built_in(name)
    assert "<form" in answer["form"] and answer["notes"] == []


@pytest.mark.slow
def test_a_saved_scenario_can_be_opened_again(answers, ask):
    saved = answers.file(ask({"caps[0]": "unlimited"}, file="scenario.toml")).data.decode()
    answer = answers.upload({"name": "mine.toml", "text": "\ufeff" + saved})
    assert answer["draft"]["texts"]["caps[0]"] == "unlimited"
    assert answer["draft"]["texts"]["weights[0,1]"] == "0.54"


def test_members_with_several_lots_are_refused_with_the_way_out(answers):
    with pytest.raises(fp.InvalidInput, match="one lot of data each, and some here have several; `fedpact compare`"):
        answers.example({"name": "hospitals-lots"})


def test_an_unknown_example_is_refused(answers):
    with pytest.raises(fp.InvalidInput, match="there is no built-in federation"):
        answers.example({})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "", "a.toml: the file is empty"),
        ("a.txt", "x", "must end in .toml or .json"),
        ("a.toml", "title =", "not valid TOML"),
        ("a.json", "[1]", "a scenario must be an object"),
        ("a.json", json.dumps(deal_record(fp.Standalone().solve(FEDERATION).deal)), "a deal; `fedpact check SCENARIO"),
        ("a.toml", "weights = 'w.csv'\ncosts = 1", "fedpact explore a.toml"),
        ("a.toml", "weights = [[1.0]]\ncosts = -1.0\npayoff = {family = 'log'}", "costs must be positive"),
    ],
)
def test_files_that_cannot_be_opened_are_explained(answers, name, text, message):
    with pytest.raises(fp.InvalidInput, match=message):
        answers.upload({"name": name, "text": text})


def test_how_sure_the_numbers_are_is_said_to_be_left_out():
    federation = fp.Federation(np.eye(2), costs=0.1, payoff=fp.PowerLaw(0.3), names=["a", "b"])
    scenario = fp.Scenario(federation=federation, uncertainty=fp.Uncertainty(weights=np.full((2, 2), 0.01)))
    _, notes = initial_draft(scenario)
    assert len(notes) == 1 and "fedpact compare" in notes[0]
    assert initial_draft(hospitals())[1] == []


def test_the_deal_is_the_librarys(answers, ask):
    answer = answers.deal(ask({"weights[0,1]": "0.9"}))
    assert answer["errors"] == []
    weights = np.array(FEDERATION.weights)
    weights[0, 1] = 0.9
    compared = fp.compare(
        fp.Federation(
            weights, costs=FEDERATION.costs, caps=FEDERATION.caps, payoff=FEDERATION.payoff, names=FEDERATION.names
        )
    )
    text = words(answer["deal"])
    for outcome in compared:
        assert f"{1e6 * outcome.welfare:,.0f}" in text
    assert all(sentence in text for sentence in compared.advice)
    for part in ("gains", "deals", "certificates", "federation"):
        assert f'id="{part}"' in answer["deal"]
    assert answer["agents"] == list(FEDERATION.names)
    assert list(answer["kinds"]) == ["weights", "costs", "quadratic", "caps", "values", "joining_costs", "beta"]


def test_a_deal_that_was_measured_to_lose_is_not_recommended(answers):
    reason = "Not recommended: measured at 2,949 EUR less than alone."
    draft, _ = initial_draft(replace(hospitals(), not_recommended=reason))
    said = words(answers.deal({"draft": draft.record()})["deal"])
    assert reason in said and "The Standalone mechanism" in said and "The Externality mechanism: pay" not in said
    saved = answers.file({"draft": draft.record(), "file": "scenario.toml"}).data.decode()
    assert f'not_recommended = "{reason}"' in saved


def test_errors_come_with_their_field(answers, ask):
    wrong = {"weights[0,1]": "x", "costs[2]": "-1", "payoff.beta": "", "money.per_payoff": "0", "names[4]": ""}
    answer = answers.deal(ask(wrong))
    assert {entry["field"] for entry in answer["errors"]} == set(wrong)
    assert "deal" not in answer


def test_a_federation_without_a_deal_is_a_problem_and_no_crash(answers):
    at_odds = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, payoff=fp.Log())
    answer = answers.deal({"draft": draft_of(fp.Scenario(federation=at_odds)).record()})
    assert answer["errors"] == []
    assert "no outcome" in words(answer["deal"])


def test_what_the_solvers_refuse_is_told_and_is_no_ones_field(ask):
    class Stuck(Questions):
        def _comparison(self, scenario):
            raise fp.NotConverged("no equilibrium within 60 rounds")

    assert Stuck().deal(ask()) == {"errors": [], "problem": "no equilibrium within 60 rounds"}


@pytest.mark.parametrize("weights", [[[1.0]], [[1.0, 0.0], [0.0, 1.0]]])
def test_small_federations_have_every_view(weights):
    scenario = fp.Scenario(federation=fp.Federation(weights, costs=0.01, caps=10.0, payoff=fp.Log()))
    question, fresh = {"draft": draft_of(scenario).record()}, Questions()
    assert fresh.deal(question)["errors"] == []
    sliding = question | {"parameter": {"kind": "caps", "agent": 0}, "low": "0", "high": "20"}
    slid = fresh.whatif(sliding)
    assert slid["value"] == "10"
    assert "<svg" in fresh.curves(sliding, quietly)["curves"]
    assert (
        fresh.leaving(question | {"mechanism": "shapley", "leave": "all"})["members"]
        == ["agent 0", "agent 1"][: len(weights)]
    )


@pytest.mark.parametrize("name", ["range", "whatif", "leaving", "file"])
def test_drafts_with_errors_are_sent_back(answers, ask, name):
    with pytest.raises(Unfinished, match="correct those that are marked"):
        getattr(answers, name)(ask({"caps[0]": "-1"}))


def test_forms_grow_and_shrink(answers, ask):
    more = answers.form(ask({"caps[0]": "?"}, do="add"))
    assert more["draft"]["n_agents"] == 6 and 'value="?"' in more["form"]
    less = answers.form(ask(do="remove", agent=0))
    assert less["draft"]["texts"]["names[0]"] == "City"
    with pytest.raises(fp.InvalidInput, match="agent must be a whole number"):
        answers.form(ask(do="remove", agent="first"))


def test_names_never_become_markup(answers, ask):
    nasty = "<script>alert('x')</script>\" onfocus=\"y"
    answer = answers.form(ask({"names[0]": nasty}, do="show"))
    assert "<script" not in answer["form"] and 'onfocus="y"' not in answer["form"]
    deal = answers.deal(ask({"names[0]": nasty}))
    assert "<script" not in deal["deal"]


@pytest.mark.parametrize("step", [0, 17, MAX_STEP])
@pytest.mark.parametrize("parameter", [WEIGHT, COST, {"kind": "beta", "agent": None}])
def test_a_slider_shows_the_deal_at_its_value(answers, ask, parameter, step):
    answer = answers.whatif(ask(parameter=parameter, low="0.002", high="0.5", step=step))
    value = float(answer["value"])
    assert value == points_between(0.002, 0.5, MAX_STEP + 1)[step]
    there = read_draft(Draft.of_record(answer["kept"])).scenario
    assert there is not None
    text = words(answer["moved"])
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        outcome = mechanism.solve(there.federation)
        assert f"EUR {1e6 * outcome.welfare:,.0f}" in text
        for gap in outcome.ir_gaps:
            assert f"{abs(1e6 * gap):,.0f}" in text


def test_curves_go_through_the_gains(answers, ask):
    told = []
    answer = answers.curves(ask(parameter=WEIGHT, low="-0.46", high="1.54"), lambda *done: told.append(done))
    assert told and answer["curves"].count("<svg") == 2 and "marker" in answer["curves"]
    axis = Parameter("weights", (0, 1)).axis(FEDERATION, np.array([-0.46, 0.54, 1.54]))
    now = fp.compare(FEDERATION)
    for mechanism, metrics in fp.sweep(FEDERATION, axis, metrics=["ir_gaps"]).metrics.items():
        np.testing.assert_allclose(metrics["ir_gaps"][1], now[mechanism].ir_gaps, atol=1e-8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": "x"}, "^low must be a number"),
        ({"high": "-5"}, "^high must be above"),
        ({"low": "-1", "parameter": COST}, "there is no federation with"),
        ({"step": MAX_STEP + 1}, "step must be from 0"),
        ({"step": 1.5}, "step must be a whole number"),
        ({"parameter": {"kind": "?"}}, "there is no parameter"),
    ],
)
def test_wrong_sliders_are_explained(answers, ask, changes, message):
    with pytest.raises(fp.InvalidInput, match=message):
        answers.whatif(ask(parameter=WEIGHT, low="0", high="1", step=0) | changes)


def test_a_map_holds_the_numbers_of_the_sweep(answers, ask):
    told = []
    answer = answers.map(mapped(ask), lambda done, total: told.append((done, total)))
    assert told[0] == (0, 9) and told[-1] == (9, 9)
    found = fp.sweep(FEDERATION, ["weights[0,1]=-1:1:3", "costs[1]=0.001:0.01:3"], mechanisms=["shapley"])
    expected = 1e6 * found.metrics["shapley"]["ir_gaps"][..., 4]
    np.testing.assert_allclose(answer["numbers"]["values"], expected, rtol=1e-9)
    assert answer["numbers"]["measure"] == "EUR"
    assert answer["map"].count("<rect") == 9 + 1
    assert "Gain of one member (Clinic) under Shapley" in answer["map"]
    json.dumps(answer, allow_nan=False)


def test_a_map_nobody_waits_for_is_stopped_and_leaves_the_desk_free(ask):
    fresh = Questions()

    def refuse(done, total):
        raise Cancelled

    with pytest.raises(Cancelled):
        fresh.map(mapped(ask), refuse)
    assert fresh.deal(ask())["errors"] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 1}, "points each way must be from 2 to 101"),
        ({"count": None}, "points each way must be a whole number"),
        ({"metric": "nash equilibrium"}, "metric must be one of"),
        ({"mechanism": "voluntary"}, "mechanism must be one of"),
        ({"agent": 5}, "agent must be from 0 to 4"),
        ({"up": None}, "up must be an object"),
        ({"right": {"parameter": COST, "low": "", "high": "1"}}, "^right: low must be a number"),
        ({"right": {"parameter": WEIGHT, "low": "0", "high": "1"}}, "must not overlap with"),
    ],
)
def test_wrong_maps_are_explained(answers, ask, changes, message):
    with pytest.raises(fp.InvalidInput, match=message):
        answers.map(mapped(ask, **changes), lambda done, total: None)


@pytest.mark.parametrize("leave", ["all", "worst", "groups"])
@pytest.mark.parametrize("mechanism", ["externality", "shapley"])
def test_leaving_is_followed_to_the_end(answers, ask, mechanism, leave):
    answer = answers.leaving(ask(mechanism=mechanism, leave=leave))
    rules = {"externality": fp.ExternalityMechanism(), "shapley": fp.ShapleyMechanism()}[mechanism]
    settled = fp.stable_federation(FEDERATION, rules, leave=leave)
    assert answer["members"] == list(settled.members)
    assert len(answer["steps"]) == len(settled.departures) + 1
    for departure, step in zip(settled.departures, answer["steps"], strict=False):
        for name in departure.leavers:
            assert name in words(step).partition("leave")[0]
    assert f"{1e6 * settled.welfare:,.0f}" in words(answer["steps"][-1])


def test_groups_are_followed_where_all_can_be_listed(answers):
    many = fp.Scenario(federation=fp.Federation(np.ones((17, 17)), costs=0.001, caps=9.0, payoff=fp.PowerLaw(0.02)))
    with pytest.raises(fp.InvalidInput, match="groups are followed up to 16 members, got 17"):
        answers.leaving({"draft": draft_of(many).record(), "mechanism": "shapley", "leave": "groups"})


def test_the_report_is_the_librarys(answers, ask):
    scenario = hospitals()
    expected = render_report(fp.compare(FEDERATION), scenario)
    assert answers.file(ask(file="report.html")).data.decode() == expected


@pytest.mark.slow
def test_data_files_hold_the_numbers(answers, ask, tmp_path):
    compared = fp.compare(FEDERATION)
    rows = list(csv.DictReader(io.StringIO(answers.file(ask(file="deal.csv")).data.decode())))
    assert len(rows) == 25 and rows[5]["mechanism"] == "shapley"
    np.testing.assert_allclose(
        [float(row["payments"]) for row in rows[:5]], compared["externality"].payments, rtol=1e-9, atol=1e-15
    )
    record = json.loads(answers.file(ask(file="comparison.json")).data)
    assert record["recommendation"] == comparison_record(compared)["recommendation"]
    deal = tmp_path / "deal.json"
    deal.write_bytes(answers.file(ask(file="deal.json")).data)
    assert not fp.load_deal(deal).differences(compared[compared.recommendation.mechanism].deal)
    assert tomllib.loads(answers.file(ask(file="scenario.toml")).data.decode())["title"] == "Five hospitals"


def test_a_picture_is_a_picture(answers, ask):
    assert answers.file(ask(file="deal.png")).data.startswith(b"\x89PNG")


def test_the_page_offers_every_file():
    page = page_view(draft_of(hospitals()), token="", notes=[], source="x")
    assert re.findall(r'data-file="([^"]*)"', page) == list(DOWNLOADS)
