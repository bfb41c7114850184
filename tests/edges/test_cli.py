"""Every command and what it prints, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import at_odds
from fedpact.certificates import Claim
from fedpact.certificates.claims import claim_title
from fedpact.deals.deal_file import OUTCOME_FIELDS
from fedpact.scenario import EXAMPLES, example, load_scenario
from fedpact.utils.words import join_names
from random_cases import some

DOCUMENTED_KEYS = {
    "mechanism",
    "agents",
    "contributions",
    "payoffs",
    "costs",
    "payments",
    "utilities",
    "standalone",
    "ir_gaps",
    "endowments",
    "shapley_values",
    "reciprocity_ratios",
    "reciprocity_gaps",
    "reciprocity",
    "welfare",
    "certificates",
}
DEAL_KEYS = {"prices", "side_payments", "excluded", "scenario", "source"}
FOUR = ["City", "County", "Children's", "Clinic"]  # who would leave the Shapley deal together
OUTCOME_KEYS = DOCUMENTED_KEYS | DEAL_KEYS | {*OUTCOME_FIELDS, "worst_reciprocity", "assumptions", "equilibria"}


# compare


def test_compare_without_arguments_shows_the_built_in_example(run) -> None:
    result = run("compare")
    assert result.code == 0
    assert result.err == ""
    for word in ("Five hospitals", "University", "Externality", "Shapley", "Fair", "Voluntary", "Standalone", "EUR"):
        assert word in result.out
    assert "Recommendation: Externality (pay for what you use)." in result.words
    assert "Who would leave; gains in EUR" in result.words and "posing as two" not in result.words
    assert "Externality nobody nobody" in result.words
    assert "University gets 83 % of its fair share of the gain" in result.words


@pytest.mark.parametrize("name", some(EXAMPLES, 2))
def test_compare_every_example(run, name: str) -> None:
    result = run("compare", name)
    assert result.code == 0
    assert example(name).title in result.words


def test_solve_keeps_the_deal_and_check_and_settle_take_it(run, tmp_path: Path) -> None:
    kept = tmp_path / "deal.json"
    assert f"Written: {kept}" in run("solve", "hospitals", "-o", str(kept)).words
    assert json.loads(kept.read_text(encoding="utf-8")) == json.loads(run("solve", "hospitals", "--json").out)
    for command in ("check", "settle"):
        assert run(command, "hospitals", str(kept)).code == 0
    refused = run("solve", "hospitals", "-o", str(kept))
    assert refused.code == 2 and "exists already; choose another name or say --force" in refused.err
    assert run("solve", "paper-w2", "-o", str(kept), "--force").code == 0


def test_compare_json(run) -> None:
    record = run("compare", "paper-w3", "--json").record
    assert list(record) == [
        "agents",
        "best_welfare",
        "outcomes",
        "after_departures",
        "blocking_groups",
        "splitting_gains",
        "unsolved",
        "recommendation",
        "sensitivity",
    ]
    assert [set(outcome) for outcome in record["outcomes"]] == [OUTCOME_KEYS] * 5
    assert record["agents"] == ["agent 0", "agent 1", "agent 2"]
    assert record["outcomes"][0]["reciprocity_ratios"][0] == "inf"
    assert record["outcomes"][3]["shapley_values"] == [None] * 3


@pytest.mark.slow
def test_compare_lists_what_has_no_outcome(run, tmp_path: Path) -> None:
    path = at_odds(tmp_path / "odds.toml")
    result = run("compare", path)
    assert result.code == 0
    assert "Voluntary: no outcome: no free-riding equilibrium was found" in result.words
    assert "voluntary" in run("compare", path, "--json").record["unsolved"]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_compare_without_any_outcome_says_that_there_is_none(run, tmp_path: Path, as_json: list[str]) -> None:
    result = run("compare", at_odds(tmp_path / "odds.toml"), "-m", "voluntary", *as_json)
    assert result.code == 3
    assert result.out == ""
    assert result.err.startswith("error: no free-riding equilibrium was found")


def test_compare_html(run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("compare", "hospitals", "--html", page)
    assert result.code == 0
    assert "Report written to" in result.out
    text = page.read_text(encoding="utf-8")
    assert text.lower().lstrip().startswith("<!doctype html>")
    for word in ("Five hospitals", "University", "Externality"):
        assert word in text
    assert run("compare", "hospitals", "--html", page, "--force", "--json").record["agents"][0] == "University"


# solve


@pytest.mark.parametrize("name", ["externality", "shapley", "voluntary", "standalone"])
def test_solve(run, name: str) -> None:
    result = run("solve", "hospitals", "-m", name)
    assert result.code == 0
    heads = result.out[result.out.index("Certificates") :]
    for claim in Claim:  # the end of a long title may go below
        assert f"\n{claim_title(claim)[:22]}" in heads and f"\n{claim.value}" not in heads
    record = run("solve", "hospitals", "-m", name, "--json").record
    assert set(record) == OUTCOME_KEYS
    assert record["mechanism"] == name
    assert record["agents"] == list(example("hospitals").federation.names)
    outcome = fp.compare(example("hospitals").federation)[name]
    np.testing.assert_array_equal(record["contributions"], outcome.contributions)
    np.testing.assert_array_equal(record["payments"], outcome.payments)


@pytest.mark.parametrize("order", ["all", "worst"])
def test_solve_and_leave(run, order: str) -> None:
    result = run("solve", "-m", "shapley", "--leave", order)
    assert result.code == 0
    assert "Round 1:" in result.out
    assert "would leave." in result.words
    record = run("solve", "-m", "shapley", "--leave", order, "--json").record
    assert set(record) == OUTCOME_KEYS | {"departures"}
    assert record["agents"] == record["departures"]["members"]
    assert "Nobody wants to leave." in run("solve", "--leave", order).out


def test_solve_and_check_name_who_gains_by_leaving_together_and_by_posing_as_two(run) -> None:
    outcome = fp.ShapleyMechanism().solve(example("hospitals").federation)
    core, split = outcome.certificates["core"], outcome.certificates["split-proof"]
    leave = f"{join_names(core.witness['group'])} would gain EUR {-core.margin:,.0f} in total by leaving together"
    pose = f"{split.witness['agent']} would gain EUR {-split.margin:,.0f} by posing as two"
    solved = run("solve", "-m", "shapley").words
    checked = run("check", "-m", "shapley", "-c", "core", "-c", "split-proof").words
    assert leave in solved and pose in solved
    assert f'"No group gains by leaving together" is violated: {leave}' in checked
    assert f'"Nobody gains by posing as two" is violated: {pose}' in checked
    assert "by posing as two" not in run("solve").words.replace("Nobody gains by posing as two holds", "")


def test_why_reciprocity_is_undefined_stands_beside_it(run, tmp_path: Path) -> None:
    weights = np.where(np.eye(3), 1.0, -0.3)
    federation = fp.Federation(weights, costs=0.01, caps=3.0, payoff=fp.PowerLaw(0.5))
    fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "edge.toml")
    words = run("solve", tmp_path / "edge.toml").words
    assert "reciprocity undefined: some coalition leaves the domain" in words
    assert "nan" not in words


def test_solve_and_everybody_leaves(run, tmp_path: Path) -> None:
    record = run("solve", at_odds(tmp_path / "odds.toml"), "--leave", "all", "--json").record
    assert record["departures"]["members"] == []
    assert record["agents"] == []


# check


def test_check_a_mechanism_by_its_promises(run) -> None:
    for name in ("externality", "shapley", "voluntary", "standalone"):
        result = run("check", "paper-w2", "-m", name)
        assert result.code == 0
        assert "Every claim it is held to is proved." in result.words


def test_check_tells_undefined_and_excused_claims_from_proved_ones(run) -> None:
    """Shapley values of the free-riding profile of paper-w3 do not exist; M^E has several equilibria on equal rows."""
    undefined = run("check", "paper-w3", "-m", "voluntary", "-c", "reciprocity")
    assert undefined.code == 0 and "is proved" not in undefined.words
    assert "undefined" in undefined.words
    excused = run("check", "paper-w2", "-m", "shapley")
    assert excused.code == 0 and "violated, not promised" in excused.words


def test_check_a_good_and_a_spoiled_deal(run, tmp_path: Path) -> None:
    deal = tmp_path / "deal.json"
    deal.write_text(run("solve", "hospitals", "-m", "shapley", "--json").out, encoding="utf-8")
    assert run("check", "hospitals", deal).code == 0
    record = json.loads(deal.read_text(encoding="utf-8"))
    record["payments"][0] -= 0.01
    record["payments"][1] += 0.01
    deal.write_text(json.dumps(record), encoding="utf-8")
    result = run("check", "hospitals", deal)
    assert result.code == 1
    assert '"Nobody gains by giving more or less" is violated by EUR 0.01: member University' in result.words
    assert '"Everybody gets back its Shapley share" is violated by EUR 0.01: member University' in result.words
    assert '"The payments balance" is violated' not in result.words
    spoiled = run("check", "hospitals", deal, "--json")
    assert spoiled.code == 1
    assert spoiled.record["failed"] == ["nash", "reciprocity", "payments", "stated"]
    assert spoiled.record["checked"] == ["nash", "budget-balance", "reciprocity", "members", "payments", "stated"]
    balance = run("check", "hospitals", deal, "-c", "budget-balance", "--json")  # the utilities it states are others
    assert balance.code == 1 and balance.record["failed"] == ["stated"]


def test_check_all_claims(run) -> None:
    result = run("check", "hospitals", "--claim", "all", "--json")
    assert result.code == 1
    assert result.record["failed"] == ["reciprocity", "fair-gains"]
    assert run("check", "hospitals", "-c", "nash", "-c", "individual-rationality").code == 0


# shapley


def test_shapley_at_an_outcome(run) -> None:
    result = run("shapley", "hospitals", "-m", "voluntary")
    assert result.code == 0
    assert "Shapley values by enumeration (EUR)" in result.out
    assert "efficiency gap" in result.out


# settle


def test_settle_and_its_files(run, tmp_path: Path) -> None:
    record = run("settle", "--output", tmp_path / "ledger.json", "--json").record
    ledger = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    named = {"mechanism": "externality", "agents": [row["agent"] for row in ledger["balances"]]}
    assert record == named | {"excluded": {}, "side_payments": [0.0] * 5, "over_budget": []} | ledger
    assert record["currency"] == "EUR"
    assert sum(round(100 * float(row["amount"])) for row in record["balances"]) == 0
    payments = fp.ExternalityMechanism().solve(example("hospitals").federation).payments
    np.testing.assert_allclose([float(row["amount"]) for row in record["balances"]], payments, atol=0.01)
    result = run("settle", "--output", tmp_path / "ledger.csv")
    assert result.code == 0
    assert "Transfers written to" in result.out
    assert "the fewest possible; all balances add up to zero." in result.words
    assert (tmp_path / "ledger.csv").read_bytes().startswith(b"payer,payee,amount,currency\r\n")


def test_settle_without_payments(run) -> None:
    assert run("settle", "-m", "standalone").out == "Nobody pays anybody.\n"


# new


@pytest.mark.slow
def test_new_then_compare(run, tmp_path: Path) -> None:
    result = run("new", "mine.toml", "--agents", "4")
    assert result.code == 0
    assert "fedpact compare mine.toml" in result.out
    assert load_scenario(tmp_path / "mine.toml").federation.n_agents == 4
    assert run("compare", "mine.toml").code == 0


def test_a_new_file_with_several_kinds_of_data(run) -> None:
    assert run("new", "mine.toml", "--lots", "labelled, unlabelled", "--agents", "2").code == 0
    found = run("solve", "mine.toml", "--json").record
    assert found["lot_names"] == ["labelled", "unlabelled"] * 2 and len(found["payments"]) == 2
    refused = run("new", "other.toml", "--lots", "a,b", "--from", "hospitals")
    assert refused.code == 2 and "leave out --ask and --from" in refused.err


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_new_from_an_example_is_the_example(run, tmp_path: Path, name: str, suffix: str) -> None:
    assert run("new", "--from", name, f"copy.{suffix}").code == 0
    assert load_scenario(tmp_path / f"copy.{suffix}") == example(name)


@pytest.mark.parametrize(
    "command", ["new kept.toml", "compare paper-w1 --html kept.html", "settle --output kept.csv", "settle -o kept.json"]
)
def test_what_is_there_is_kept_unless_forced(run, tmp_path: Path, command: str) -> None:
    path = tmp_path / command.rsplit(maxsplit=1)[-1]
    path.write_text("precious", encoding="utf-8")
    result = run(*command.split())
    assert result.code == 2
    assert result.err == f"error: {path.name} exists already; choose another name or say --force\n"
    assert path.read_text(encoding="utf-8") == "precious"
    assert run(*command.split(), "--force").code == 0
    assert "precious" not in path.read_text(encoding="utf-8")


def test_new_prints_the_schema(run, tmp_path: Path) -> None:
    assert run("new", "--schema").record["required"] == ["weights", "costs", "payoff"]
    assert list(tmp_path.iterdir()) == []


def test_a_page_for_one_member(run, tmp_path):
    made = run("compare", "hospitals", "-m", "shapley", "--member", "Clinic", "--html", "clinic.html")
    assert made.code == 0 and "Page written to clinic.html" in made.out
    assert "worse off than alone" in (tmp_path / "clinic.html").read_text(encoding="utf-8")
    nobody = run("compare", "hospitals", "--member", "Nobody", "--html", "x.html")
    assert nobody.code == 2 and "--member: there is no member 'Nobody'" in nobody.err
    assert "--member needs --html" in run("compare", "hospitals", "--member", "City").err


def test_the_shell_completes_commands_without_importing_them():
    import os
    import subprocess
    import sys

    asked = {"_FEDPACT_COMPLETE": "complete_bash", "COMP_WORDS": "fedpact s", "COMP_CWORD": "1"}
    script = "import sys; from fedpact.cli.app import app\ntry: app(prog_name='fedpact')\n"
    script += "finally: print([name for name in ('numpy', 'fedpact.cli.solve') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["solve", "shapley", "sweep", "settle", "study", "[]"], done.stderr


def test_solve_keeps_the_theory_behind_details(run):
    plain, full = run("solve", "paper-w3").words, run("solve", "paper-w3", "--details").words
    assert "margin" not in plain.replace("shows margins", "") and "Theorem" not in plain and "Equilibrium:" not in plain
    assert "margins in units of payoff" in full and "Equilibrium:" in full


def test_a_report_is_made_anew_without_force_and_other_pages_are_kept(run, tmp_path):
    page, other = tmp_path / "report.html", tmp_path / "other.html"
    other.write_text("<html>mine</html>", encoding="utf-8")
    assert run("compare", "paper-w1", "--html", page).code == 0
    assert run("compare", "paper-w1", "--html", page).code == 0
    assert run("compare", "paper-w1", "--html", other).code == 2 and "mine" in other.read_text(encoding="utf-8")


def test_where_no_deal_is_recommended_there_is_none_to_keep(run, tmp_path: Path) -> None:
    result = run("compare", "hospitals", "-m", "voluntary", "-o", "deal.json")
    assert result.code == 1 and result.err == "No deal is recommended, so deal.json was not written.\n"
    assert "Recommendation: none" in result.words and not (tmp_path / "deal.json").exists()
    assert "fedpact compare hospitals -m shapley -o deal.json" in run("compare", "hospitals", "-m", "shapley").words
