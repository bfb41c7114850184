"""Mechanisms from outside the package on the command line: by import path, and by a registered name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import consortium
from fedpact.scenario import example

RULES = consortium.EqualCosts()
HOSPITALS = example("hospitals").federation


@pytest.fixture(autouse=True)
def _same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line may add the folder it runs in to where modules are found."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_by_import_path(run) -> None:
    path = "consortium:EqualCosts"
    compared = run("compare", "hospitals", "-m", "externality", "-m", path)
    assert compared.code == 0
    assert "Equal costs" in compared.out
    solved = run("solve", "hospitals", "-m", path, "--json")
    deal = json.loads(solved.out)
    assert deal["mechanism"] == "equal-costs"
    np.testing.assert_allclose(deal["payments"], RULES.solve(HOSPITALS).payments)
    assert run("check", "hospitals", "-m", path).code == 0
    Path("deal.json").write_text(solved.out, encoding="utf-8")
    assert run("check", "hospitals", "deal.json", "-m", path).code == 0
    deal["payments"][0] += 1.0
    Path("deal.json").write_text(json.dumps(deal), encoding="utf-8")
    assert run("check", "hospitals", "deal.json", "-m", path).code == 1


BROKEN = """
import fedpact as fp
from consortium import EqualCosts

class Raises(EqualCosts):
    name = "raises"
    def solve(self, federation):
        return {}["lost"]

class Forgets(EqualCosts):
    name = "forgets"
    def solve(self, federation):
        super().solve(federation)

class Speechless(EqualCosts):
    name = "speechless"
    def deviations(self, federation, contributions):
        return None

class Shapeless(EqualCosts):
    name = "shapeless"
    def payments(self, arrays, contributions):
        return 0.0

class Spelled(EqualCosts):
    name = "spelled"
    claims = ("nash",)

class Unmade(EqualCosts):
    name = "unmade"
    def __init__(self):
        raise KeyError("fee")

class Lies(EqualCosts):
    name = "lies"
    def solve(self, federation):
        found = super().solve(federation)
        return self.outcome_at(federation, found.contributions + 0.5 * federation.caps)
"""


@pytest.fixture
def broken(run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("broken.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "broken", raising=False)


MISTAKES = {
    "Raises": "broken:Raises.solve failed: KeyError: 'lost'",
    "Forgets": "broken:Forgets.solve must return an Outcome, got None",
    "Speechless": "broken:Speechless.deviations must return a Deviations, got None",
    "Shapeless": "broken:Shapeless.payments must return 5 numbers, one per member, got 0.0",
    "Spelled": "Spelled.claims[0] must be one of Claim.NASH, Claim.BUDGET_BALANCE",
    "Unmade": "mechanism 'broken:Unmade' cannot be made without arguments: 'fee'",
}
SWEEP = ["sweep", "hospitals", "--vary", "costs=0.001,0.002", "--metric", "nash"]
OTHERS = (["compare", "hospitals"], ["check", "hospitals"], ["settle", "hospitals"], SWEEP)


@pytest.mark.parametrize(
    ("command", "name"),
    [*((["solve", "hospitals"], name) for name in MISTAKES), *((command, "Raises") for command in OTHERS)],
    ids=str,
)
@pytest.mark.usefixtures("broken")
def test_mistakes_of_a_mechanism_are_told_as_its_own(run, command: list[str], name: str) -> None:
    result = run(*command, "-m", f"broken:{name}")
    assert result.code == 2, result.err
    assert MISTAKES[name] in " ".join(result.err.split())


@pytest.mark.usefixtures("broken")
def test_a_deal_that_a_mechanism_makes_is_checked_before_money_moves(run) -> None:
    lies = ("-m", "broken:Lies")
    assert run("check", "hospitals", *lies).code == 1
    refused = run("settle", "hospitals", *lies)
    assert refused.code == 1
    assert 'the deal of lies: this deal does not hold: "Nobody gains by giving more or less": violated' in " ".join(
        refused.err.split()
    )
    assert run("settle", "hospitals", *lies, "--unchecked").code == 0
    trained = run("train", "hospitals", *lies)
    assert trained.code == 1
    assert "the deal of lies: this deal does not hold" in " ".join(trained.err.split())


def test_a_deal_of_rules_that_are_not_installed_says_how_to_name_them(run) -> None:
    Path("deal.json").write_text(run("solve", "-m", "consortium:EqualCosts", "--json").out, encoding="utf-8")
    for command in ("check", "settle"):
        result = run(command, "hospitals", "deal.json")
        assert result.code == 2
        assert "got 'equal-costs'; one of your own goes by its import path: package.module:Class" in " ".join(
            result.err.split()
        )
    assert run("settle", "hospitals", "deal.json", "-m", "consortium:EqualCosts").code == 0


def test_a_file_imports_nothing(run, tmp_path: Path) -> None:
    """A deal of a stranger that names a module does not make it run."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w')\n", encoding="utf-8")
    deal = json.loads(run("solve", "hospitals", "--json").out) | {"mechanism": "trap:Rules"}
    Path("deal.json").write_text(json.dumps(deal), encoding="utf-8")
    result = run("check", "hospitals", "deal.json")
    assert result.code == 2
    assert "mechanism must be one of" in " ".join(result.err.split())
    assert not (tmp_path / "sprung").exists()


@pytest.mark.slow
def test_in_the_folder_one_is_in_and_registered(tmp_path: Path) -> None:
    """As a user runs it: the module lies in the folder, or an installed package registers its name."""
    shutil.copy(consortium.__file__, tmp_path / "our_rules.py")

    def fedpact(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; sys.path = [p for p in sys.path if p]; from fedpact.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
        )

    by_path = fedpact("solve", "-m", "our_rules:EqualCosts", "--json")
    assert by_path.returncode == 0, by_path.stderr
    refused = fedpact("solve", "-m", "equal-costs")
    assert refused.returncode == 2
    installed = tmp_path / "site"
    info = installed / "our_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "our_rules.py").rename(installed / "our_rules.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-rules\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[fedpact.mechanisms]\nequal-costs = our_rules:EqualCosts\n", encoding="utf-8"
    )
    code = f"import sys; sys.path.append({str(installed)!r}); from fedpact.cli import main; main()"
    by_name = subprocess.run(
        [sys.executable, "-c", code, "solve", "-m", "equal-costs", "--json"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert by_name.returncode == 0, by_name.stderr
    assert json.loads(by_name.stdout)["payments"] == json.loads(by_path.stdout)["payments"]


@pytest.mark.slow
def test_compare_all_puts_mechanisms_against_properties(run) -> None:
    shown = run("compare", "paper-w2", "--all")
    assert shown.code == 0
    head, table = shown.out.split("What holds;")
    assert "Contributions" not in head
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert rows["Externality"][:-1] == ["yes", "yes", "yes", "yes", "no", "yes", "yes", "no"]
    assert rows["VCG"][:3] == ["yes", "+0.0292", "yes"]
    assert "Posing as two, where identities are cheap, gains most:" in shown.words
    both = run("compare", "paper-w2", "--all", "-m", "vcg")
    assert both.code == 2 and "--all and --mechanism exclude each other" in both.err


def test_a_sponsor_covers_what_does_not_balance(run) -> None:
    refused = run("settle", "paper-w2", "-m", "vcg")
    assert refused.code == 2 and "payments must sum to zero" in " ".join(refused.err.split())
    in_money = run("settle", "hospitals", "-m", "vcg")
    assert "got a sum of 298,680.64 EUR" in " ".join(in_money.err.split())
    settled = run("settle", "paper-w2", "-m", "vcg", "--sponsor", "Foundation", "--json")
    record = json.loads(settled.out)
    assert record["balances"][-1]["agent"] == "Foundation" and float(record["balances"][-1]["amount"]) < 0
    assert record["transfers"]


@pytest.mark.slow
def test_payments_that_do_not_balance_are_said_in_money(run) -> None:
    solved = " ".join(run("solve", "hospitals", "-m", "vcg").out.split())
    assert "It pays out EUR 298,681 more than it takes in" in solved
    compared = " ".join(run("compare", "hospitals", "-m", "vcg", "-m", "leave-one-out").out.split())
    assert "VCG pays out EUR 298,681 more than it takes in: somebody outside has to cover that" in compared
    assert "Leave one out takes in EUR 112,008 more than it pays out" in compared
    assert "Recommendation: none. VCG and Leave one out are there to compare with" in compared
    assert "more than it takes in" not in run("solve", "hospitals", "-m", "fair").out
