"""A deal that is opened on the page is held against the federation there, as `fedpact check` does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

import fedpact as fp
from fedpact.deals.deal_file import deal_record, outcome_record
from fedpact.explorer.files import check_deal_file
from fedpact.explorer.views import check_view
from old_hospitals import example, hospitals
from signed_ledgers import write_signed_ledger

FEDERATION = hospitals().federation
SOLVED = fp.ExternalityMechanism().solve(FEDERATION)
PAID = ("University 59.20 +171,625 +155,727", "Clinic 5.46 −80,450 +52,385")


def words(html):
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).replace("\N{NO-BREAK SPACE}", " ").split())


def solved_text(**changes):
    return json.dumps(deal_record(SOLVED.deal) | changes)


def ledger_text(path, deal):
    write_signed_ledger(path, deal, until="agreed")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def transcript(tmp_path):
    fp.negotiate(FEDERATION, transcript=tmp_path / "talk.jsonl")
    return (tmp_path / "talk.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def open_file(answers, ask):
    """Open a file that is known for a deal; whether it holds, and what the page says."""

    def opened(name, text, texts=None):
        assert answers.upload({"name": name, "text": text}) == {"is_deal": True}
        answer = answers.check(ask(texts, name=name, text=text))
        return answer["holds"], words(answer["check"])

    return opened


# Every kind of file


@pytest.mark.parametrize("file", ["deal.json", "comparison.json"])
def test_what_the_explorer_hands_out_can_be_opened(answers, ask, open_file, file):
    holds, said = open_file(file, "\ufeff" + answers.file(ask(file=file)).data.decode())
    assert holds and f"{file} : this deal holds" in said and "Externality mechanism, solved" in said
    assert all(row in said for row in PAID) and "is paid" in said
    assert "Payments agree to EUR 0.01" in said
    assert "✗ violated not promised" in said


def test_a_solve(open_file):
    holds, said = open_file("solved.json", json.dumps(outcome_record(fp.ShapleyMechanism().solve(FEDERATION))))
    assert holds and "Shapley mechanism" in said and "Clinic would leave" in said


def test_a_transcript(open_file, transcript):
    holds, said = open_file("talk.jsonl", transcript)
    assert holds and all(row in said for row in PAID)
    assert "✓ recomputed: the deal stated is the one that" in said


def test_a_ledger(open_file, tmp_path):
    holds, said = open_file("ledger.jsonl", ledger_text(tmp_path / "ledger.jsonl", deal_record(SOLVED.deal)))
    assert holds and all(row in said for row in PAID)
    assert "✓ chain: 3 entries" in said and "– recomputed: the deal was not negotiated here" in said


def test_a_deal_of_those_who_stayed_says_who_is_not_in_it(open_file):
    stayed = fp.ExternalityMechanism().solve(FEDERATION.take([0, 1, 2]))
    record = deal_record(stayed.deal)
    holds, said = open_file("stayed.json", json.dumps(record | {"excluded": {"Clinic": "left", "Children's": "left"}}))
    assert holds and "Children's is not in this deal: left" in said and "Clinic is not in this deal: left" in said
    holds, said = open_file("stayed.json", json.dumps(record))
    assert not holds and "Clinic is not in this deal, and it does not say why" in said


def test_what_is_only_not_refuted_is_not_called_proved():
    found = check_deal_file("deal.json", solved_text(), hospitals())
    proof = found.outcome.certificates[fp.Claim.NASH]
    doubtful = dict(found.outcome.certificates) | {fp.Claim.NASH: replace(proof, verdict=fp.Verdict.NOT_REFUTED)}
    found.outcome.__dict__["certificates"] = doubtful
    said = words(check_view("deal.json", hospitals(), found))
    assert "nothing speaks against this deal, but not all of it is proved" in said and "this deal holds" not in said


# What does not hold is marked, with the difference


def test_payments_that_were_tampered_with(open_file):
    payments = SOLVED.payments.tolist()
    payments[0], payments[1] = payments[0] + 0.05, payments[1] - 0.05
    holds, said = open_file("deal.json", solved_text(payments=payments))
    assert not holds and "deal.json : this deal does not hold" in said
    assert 'member "' in said and "by the rules of externality" in said and "(units of payoff)" in said
    assert "Up to EUR 50,000.00 is in the wrong pocket" in said
    assert "✗ violated promised: an error" in said


def test_what_the_file_states_beside_the_deal_is_checked_too(open_file):
    holds, said = open_file("solved.json", json.dumps(outcome_record(SOLVED) | {"welfare": 99.0, "leavers": ["City"]}))
    assert not holds and "stated : welfare" in said and "stated : leavers" in said


def test_a_transcript_that_was_tampered_with(open_file, transcript):
    *exchanges, last = transcript.splitlines()
    entry = json.loads(last)
    entry["deal"]["payments"][0] += 0.05
    holds, said = open_file("talk.jsonl", "\n".join([*exchanges, json.dumps(entry), ""]))
    assert not holds and "another deal for University" in said and "The numbers are those that its exchanges" in said


def test_a_ledger_that_was_tampered_with(open_file, tmp_path):
    text = ledger_text(tmp_path / "ledger.jsonl", deal_record(SOLVED.deal))
    with pytest.raises(fp.InvalidInput, match=r"^mine\.jsonl: this is no ledger: line 1 .* it was changed"):
        open_file("mine.jsonl", text.replace('"University"', '"University "'))


# What cannot be held against this federation is refused


def test_a_deal_between_others(open_file):
    deal = fp.ExternalityMechanism().solve(example("paper-w1").federation).deal
    with pytest.raises(fp.InvalidInput, match=r"^w1\.json: the deal must be between members of the scenario"):
        open_file("w1.json", json.dumps(deal_record(deal)))


@pytest.mark.slow
def test_the_federation_on_the_page_is_what_counts(open_file):
    assert open_file("deal.json", solved_text())[0]
    with pytest.raises(fp.InvalidInput, match=r"^deal\.json: the deal was made for another scenario"):
        open_file("deal.json", solved_text(), {"weights[0,1]": "0.9"})
    holds, said = open_file("deal.json", solved_text(scenario=None), {"weights[0,1]": "0.9"})
    assert not holds and "by the rules of externality" in said


def test_names_are_text(open_file):
    name = "<img src=x>.json"
    with pytest.raises(fp.InvalidInput, match=r"^<img src=x>\.json: mechanism must be one of"):
        open_file(name, solved_text(mechanism="<b>"))
    assert f"{name} : this deal holds" in open_file(name, solved_text())[1].replace("&lt;", "<")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"contributions": 1, "payments": 2}', "must have the key 'mechanism'"),
        ("a.json", '{"outcomes": []}', "say which mechanism"),
        ("a.json", solved_text(payments=[1, 2]), "payments must be a list of 5 numbers"),
        ("a.json", solved_text(contributions=[-1.0] * 5), "contributions"),
        ("a.json", solved_text(contributions=[1e9] * 5), "contributions"),
        ("a.jsonl", "", "holds no transcript"),
        ("a.jsonl", "{}\n", "must begin with"),
        ("a.jsonl", "\ud800\n", "line 1"),
        ("a\0/../../b.jsonl", "[[[", "holds no transcript"),
    ],
)
def test_rubbish_is_refused_in_words_that_name_the_file(open_file, name, text, message):
    with pytest.raises(fp.InvalidInput) as refused:
        open_file(name, text)
    assert str(refused.value).startswith(f"{name}: ") and message in str(refused.value)
    assert "/tmp" not in str(refused.value)


def test_with_fields_that_are_not_right_nothing_is_checked(answers, ask):
    with pytest.raises(fp.InvalidInput, match="not right yet"):
        answers.check(ask({"costs[0]": "x"}, name="deal.json", text=solved_text()))
