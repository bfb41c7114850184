"""Members with several lots on the page: shown, varied, negotiated and taken home."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import numpy as np
import pytest

import fedpact as fp
from fedpact.explorer.draft import draft_of
from fedpact.explorer.questions import Questions
from lots_scenario import FEDERATION, SCENARIO


@pytest.fixture(scope="module")
def answers() -> Questions:
    return Questions()


def asked(**question):
    return {"draft": draft_of(SCENARIO).record(), **question}


def words(html):
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


@pytest.mark.slow
def test_the_deal_says_which_lots_are_worth_bringing(answers):
    answer = answers.deal(asked())
    assert answer["errors"] == [] and answer["lots"] == list(FEDERATION.lot_labels)
    table = words(re.search(r'<section id="lots">.*?</section>', answer["deal"], re.DOTALL)[0])
    best = fp.social_optimum(FEDERATION).contributions
    assert best[0] == pytest.approx(3.0) and best[1] == 0.0  # else the words below say nothing
    assert re.search(r"North: clean 3\.00 .* all of it", table)
    assert re.search(r"North: noisy 0\b.* stays at home", table)


def test_lots_are_added_and_removed_by_the_form(answers):
    more = answers.form(asked(do="add-lot", agent=1))
    assert more["draft"]["lot_owners"] == [0, 0, 1, 2, 1] and 'data-field="lot_names[4]"' in more["form"]
    less = answers.form({"draft": more["draft"], "do": "remove-lot", "lot": 4})
    assert less["draft"] == answers.form(asked())["draft"]


def test_one_lot_s_cost_is_varied(answers):
    cost = {"kind": "costs", "agent": 1}
    answer = answers.whatif(asked(parameter=cost, low="0.001", high="0.1", step=0))
    assert answer["words"] == "cost of North: noisy" and answer["kept"]["texts"]["costs[1]"] == "0.001"
    assert "North: noisy" in words(answer["moved"])
    weight = {"kind": "weights", "receiver": 3, "giver": 1}
    assert answers.whatif(asked(parameter=weight, low="0", high="2", step=30))["words"] == (
        "usefulness of North: noisy to East: rare"
    )
    with pytest.raises(fp.InvalidInput, match="giver must be a member from 0 to 3"):
        answers.range(asked(parameter={"kind": "weights", "receiver": 0, "giver": 4}))


def test_negotiated_and_taken_home(answers):
    answer = answers.talks(asked(protocol="price-discovery"))
    assert "North: noisy" in words(answer["steps"][0]) and "gives 3" in words(answer["steps"][-1])
    rows = list(csv.DictReader(io.StringIO(answers.file(asked(file="deal.csv")).data.decode())))
    assert len(rows) % 3 == 0 and "of clean" in rows[0]["lots_brought"]


def test_tables_are_for_members_with_one_lot(answers):
    with pytest.raises(fp.InvalidInput, match="one lot of data each"):
        answers.paste(asked(field="costs[0]", text="1\t2"))


def test_errors_name_the_lot(answers):
    record = draft_of(SCENARIO).record()
    record["texts"] |= {"costs[1]": "x", "lot_names[0]": "noisy"}
    told = {error["field"]: error["words"] for error in answers.deal({"draft": record})["errors"]}
    assert told == {"costs[1]": "Cost of North: noisy", "lot_names[1]": "Name of a lot of North"}


def test_the_prices_are_those_of_the_deal():
    """What the table says is worth bringing: price and own worth less cost, by the deal's own prices."""
    deal = fp.ExternalityMechanism().solve(FEDERATION)
    prices = np.asarray(deal.deal.prices)
    others = [-prices[owner, lot] for lot, owner in enumerate(FEDERATION.lot_owners)]
    np.testing.assert_allclose(FEDERATION.net_externality(deal.contributions), others, rtol=1e-8)
