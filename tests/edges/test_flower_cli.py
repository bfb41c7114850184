"""`fedpact flower` and ledgers on the command line."""

from __future__ import annotations

import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import fedpact as fp
from edges.command_line import Result
from edges.flower_processes import BIN, QUIET
from fedpact.deals import Ledger
from fedpact.deals.signatures import read_known_keys, read_signing_key, write_signing_key
from fedpact.flower.mnist import MnistLearner, first_model
from fedpact.flower.server import conduct, federated_averaging
from fedpact.flower.settings import AppSettings
from fedpact.negotiation.agent_file import load_agent
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from fedpact.training import Experiment, Training, mnist
from signed_ledgers import write_signed_ledger
from unit.flower.in_process import Stage

Run = Callable[..., Result]
NAMES = example("hospitals").federation.names


def test_new_writes_an_app_and_private_files(run: Run, tmp_path: Path) -> None:
    result = run("flower", "new", "deal", "hospitals", "--rounds", 4, "--samples-per-unit", 2.5)
    assert result.code == 0 and "flwr run deal/app" in result.out
    config = tomllib.loads((tmp_path / "deal/app/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    settings = AppSettings.of(config)
    federation = example("hospitals").federation
    assert settings.agents == federation.names and settings.rounds == 4 and settings.samples_per_unit == 2.5
    assert (settings.currency, settings.per_payoff) == ("EUR", 1.0)
    assert settings.folder == tmp_path / "deal" / "record"
    for place in range(5):
        private = tmp_path / "deal" / "agents" / f"{place}.json"
        agent = load_agent(private)
        assert agent.name == federation.names[place] and agent.index == place
        np.testing.assert_array_equal(agent.weights[0], federation.arrays.weights[place])
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    for module in ("client_app", "server_app"):
        compile((tmp_path / f"deal/app/deal/{module}.py").read_text(), module, "exec")


def test_names_of_all_kinds_survive(run: Run, tmp_path: Path) -> None:
    names = ['St. "Mary"', "Größe\\n", "a,b", "@rounds@", "日本"]
    federation = fp.Federation(np.eye(5) + 0.1, costs=0.1, payoff=fp.Log(), names=names)
    fp.save_scenario(fp.Scenario(federation=federation, title='A "title"\\'), tmp_path / "s.json")
    assert run("flower", "new", "deal", "s.json").code == 0
    config = tomllib.loads((tmp_path / "deal/app/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert AppSettings.of(config).agents == tuple(names) and config["title"] == 'A "title"\\'
    assert AppSettings.of(config).money is None, "the scenario says nothing of money"


def test_what_is_sent_to_nodes_holds_nothing_private(run: Run, tmp_path: Path) -> None:
    """Flower packs JSON files too, if it is not told otherwise."""
    assert run("flower", "new", "deal", "paper-w1").code == 0
    (tmp_path / "deal/app/private.json").write_text('{"weights": [1, 2, 3]}')
    subprocess.run(
        [str(BIN / "flwr"), "build", "--app", "deal/app"],
        cwd=tmp_path,
        env={"PATH": str(BIN), "HOME": str(tmp_path), "FLWR_HOME": str(tmp_path / "home"), **QUIET},
        capture_output=True,
        check=True,
    )
    (bundle,) = tmp_path.glob("*.fab")
    with zipfile.ZipFile(bundle) as packed:
        assert sorted(packed.namelist()) == [
            ".info/CONTENT",
            "deal/__init__.py",
            "deal/client_app.py",
            "deal/server_app.py",
            "pyproject.toml",
        ]


@pytest.mark.parametrize("there", ["file", "folder"])
def test_new_does_not_write_over_anything(run: Run, tmp_path: Path, there: str) -> None:
    if there == "file":
        (tmp_path / "deal").write_text("mine")
    else:
        (tmp_path / "deal").mkdir()
        (tmp_path / "deal" / "mine").write_text("mine")
    result = run("flower", "new", "deal")
    assert result.code == 2 and result.err == "error: deal: this is not an empty folder; name a new one\n"
    assert len(list(tmp_path.rglob("*"))) == (1 if there == "file" else 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["flower", "new", "deal", "nowhere.toml"], "there is no such file"),
        (["flower", "new", "deal", "--samples-per-unit", "0"], "--samples-per-unit must be positive"),
        (["flower", "new", "deal", "--samples-per-unit", "nan"], "--samples-per-unit must be positive"),
        (["flower", "keys", "k", "--host", " "], "host must be a name"),
        (["flower", "keys", "k", "--host", "ho st\u00e4"], "host must be a name"),
    ],
)
def test_bad_input(run: Run, arguments: list[str], problem: str) -> None:
    result = run(*arguments)
    assert result.code == 2 and problem in result.err and "Traceback" not in result.err


@pytest.mark.slow
def test_without_flower_the_way_out_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['flwr'] = None; sys.argv = ['fedpact', 'flower', 'new', 'deal']\n"
        "from fedpact.cli import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith(
        'error: Flower support is not installed: pip install ".[flower]" in a clone of fedpact'
    )
    assert len(ran.stderr.splitlines()) == 1


def test_keys(run: Run, tmp_path: Path) -> None:
    result = run("flower", "keys", "keys", "--host", "link.example.org", "--nodes", 2, "--json")
    assert result.code == 0 and len(result.record["files"]) == 8
    folder = tmp_path / "keys"
    root, server = (x509.load_pem_x509_certificate((folder / name).read_bytes()) for name in ("ca.crt", "server.crt"))
    server.verify_directly_issued_by(root)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "link.example.org"]
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.suffix == ".key" else 0o644)
    private = serialization.load_ssh_private_key((folder / "node-1.key").read_bytes(), None)
    public = serialization.load_ssh_public_key((folder / "node-1.key.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name == "secp384r1"
    assert private.public_key() == public
    again = run("flower", "keys", "keys")
    assert again.code == 2 and "keys are not replaced" in again.err


# Ledgers


def test_a_members_key(run: Run, tmp_path: Path) -> None:
    result = run("flower", "key", "mine.key", "--name", "St. Mary")
    assert result.code == 0 and "mine.key.pub" in result.words
    assert stat.S_IMODE((tmp_path / "mine.key").stat().st_mode) == 0o600
    assert (tmp_path / "mine.key.pub").read_text().split()[2:] == ["St.", "Mary"]
    assert read_signing_key(tmp_path / "mine.key").public == read_known_keys(tmp_path).by_name["St. Mary"]
    again = run("flower", "key", "mine.key", "--name", "St. Mary")
    assert again.code == 2 and "mine.key exists already; keys are not replaced" in again.err


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    stage = Stage(
        example("hospitals").federation, tmp_path / "stage", run_config={"title": "Five hospitals", "per-payoff": 1.0}
    )
    stage.conduct()
    return stage.ledger


def test_check_shows_a_ledger(run: Run, ledger: Path) -> None:
    result = run("check", ledger)
    assert result.code == 0
    for words in ("The ledger of Five hospitals", "chain holds", "settlement holds", "Every claim that can be checked"):
        assert words in result.words
    assert "73992.51" in result.words  # what University is paid


def test_check_says_what_is_signed_by_whom(run: Run, ledger: Path) -> None:
    words = run("check", ledger).words
    for said in ("What is signed, and by whom", "the deal, the same for all", "what was delivered and is paid"):
        assert said in words
    record = run("check", ledger, "--json").record
    assert record["is_signed"] and all(part["holds"] for part in record["signatures"])
    assert {part["agent"] for part in record["signatures"] if part["about"] == "settlement"} == set(NAMES)


def test_check_with_keys_and_receipts_from_elsewhere(run: Run, ledger: Path, tmp_path: Path) -> None:
    agents = ledger.parent.parent / "agents"
    receipt = agents / "1-record" / "receipt.json"
    sound = run("check", ledger, "--keys", agents, "--receipt", receipt, "--signed")
    assert sound.code == 0 and "they are the keys known" in sound.words and "receipt of City holds" in sound.words
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(True)[:-1]))
    assert run("check", ledger).code == 0
    cut = run("check", ledger, "--receipt", receipt)
    assert cut.code == 1 and "its end is missing" in cut.words
    assert run("flower", "key", "other.key", "--name", "City").code == 0
    other = run("check", ledger, "--keys", "other.key.pub")
    assert other.code == 1 and "the key stated for City is not the one known" in other.words


def test_members_cannot_sign_as_others(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """University and City sign a deal of County and Clinic, at the places that they have in that deal themselves."""
    (tmp_path / "keys").mkdir()
    own = [write_signing_key(tmp_path / "keys" / f"{place}.key", name=name) for place, name in enumerate(NAMES)]
    monkeypatch.setattr("signed_ledgers.new_signing_key", iter(own).__next__)
    two = example("hospitals").federation.take([2, 4])
    write_signed_ledger(tmp_path / "forged.jsonl", fp.ExternalityMechanism().solve(two).deal)
    assert run("check", "forged.jsonl").code == 0
    known = run("check", "forged.jsonl", "--keys", "keys")
    assert known.code == 1 and "the key stated for Clinic and County is not the one known" in known.words
    for place, key in enumerate(own):  # keys that say no name are nobody's, whatever their files are called
        (tmp_path / "keys" / f"{place}.key.pub").rename(tmp_path / "keys" / f"node-{place}.key.pub").write_text(
            key.public
        )
    nobody = run("check", "forged.jsonl", "--keys", "keys")
    assert nobody.code == 2 and "node-0.key.pub: a public key must end in the name of the member" in nobody.err


def test_check_asks_for_signatures_of_ledgers_alone(run: Run, tmp_path: Path, ledger: Path) -> None:
    write_signed_ledger(
        tmp_path / "plain.jsonl", fp.ExternalityMechanism().solve(example("hospitals").federation).deal, until="agreed"
    )
    assert run("check", "plain.jsonl").code == 0
    unsigned = run("check", "plain.jsonl", "--signed")
    assert unsigned.code == 1 and "nobody has signed the deal" in unsigned.words
    missing = run("check", "plain.jsonl", "--receipt", "missing.json")
    assert missing.code == 2 and "missing.json: there is no such file" in missing.err
    receipt = ledger.parent.parent / "agents" / "1-record" / "receipt.json"
    other = run("check", "plain.jsonl", "--receipt", receipt)
    assert other.code == 1 and 'receipt of City is violated: the receipt of "City" is of another run' in other.words
    assert run("check", "hospitals", ledger, "--signed", "--html", "page.html").code == 0
    assert "Agreed, delivered, paid" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run("check", "hospitals", "--signed").code == 2
    write_signing_key(tmp_path / "other.key", name="City")
    strange = run("check", "hospitals", ledger, "--keys", "other.key.pub", "--json")
    assert strange.code == 1 and "keys" in strange.record["failed"]
    assert run("check", ledger, "--keys", "nowhere").code == 2
    assert run("check", ledger, "--receipt", ledger).code == 2


def test_settle_pays_for_what_was_delivered(run: Run, ledger: Path) -> None:
    whole = run("settle", "hospitals", ledger, "--json").record
    assert whole["delivered"] == whole["agreed"] and whole["balances"] == whole["agreed_balances"]
    fp.load_deal(ledger).save("deal.json")
    half = run("settle", "hospitals", "deal.json", "--delivered", "University=0", "--json").record
    assert half["delivered"][0] == 0.0 and half["agreed"] == whole["agreed"]
    paid, agreed = (float(half[key][0]["amount"]) for key in ("balances", "agreed_balances"))
    assert paid < agreed and sum(Decimal(entry["amount"]) for entry in half["balances"]) == 0
    shown = run("settle", "hospitals", "deal.json", "--delivered", "University=0").words
    assert "Agreed, delivered, paid (EUR)" in shown
    for wrong in ("University", "Nobody=1", "University=much", "University=1e9"):
        assert run("settle", "hospitals", "deal.json", "--delivered", wrong).code == 2


def test_check_a_ledger_against_its_scenario(run: Run, ledger: Path) -> None:
    result = run("check", "hospitals", ledger, "--json")
    assert result.code == 0
    assert {"nash", "budget-balance", "chain", "settlement"} <= set(result.record["checked"])
    other = run("check", "paper-w1", ledger)
    assert other.code == 2 and "the deal must be between members of the scenario" in other.err


def test_check_finds_a_change(run: Run, ledger: Path) -> None:
    ledger.write_text(ledger.read_text().replace('"University":7399251', '"University":7399252'))
    result = run("check", ledger)
    assert result.code == 1 and "chain is violated" in result.words and "it was changed" in result.words
    assert run("check", ledger, "--json").record["failed"] == ["chain"]
    assert run("check", "hospitals", ledger).code == 1


def test_check_finds_another_transcript(run: Run, ledger: Path) -> None:
    transcript = ledger.parent / "negotiation-1.jsonl"
    transcript.write_text(transcript.read_text() + "\n")
    result = run("check", ledger)
    assert result.code == 1 and "negotiation-1.jsonl was changed" in result.words
    transcript.unlink()
    result = run("check", ledger)
    assert result.code == 0 and "recomputed is open: negotiation-1.jsonl is not beside the ledger" in result.words


def test_check_shows_a_run_that_failed(run: Run, tmp_path: Path) -> None:
    stage = Stage(example("hospitals").federation, tmp_path / "stage", node_config={1: {"least-gain": 90_000.0}})
    with pytest.raises(fp.InvalidInput):
        stage.conduct()
    result = run("check", stage.ledger)
    assert result.code == 1
    assert 'Nobody is paid: the run failed (sign): the deal is not signed: "City": least gain' in result.words


def test_check_a_ledger_without_a_deal(run: Run, tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.jsonl") as ledger:
        ledger.append("begun", {"title": "[bold]x[/bold]"})
    result = run("check", "l.jsonl")
    assert result.code == 0 and "The ledger of [bold]x[/bold]" in result.out
    assert (
        run("check", "hospitals", "l.jsonl").err
        == "error: l.jsonl: there is no deal in this ledger yet; `fedpact check l.jsonl` shows what it holds\n"
    )
    assert run("check", "l.jsonl", "--claim", "nash").code == 2


@pytest.mark.slow
def test_nodes_train_what_the_experiment_predicts(tmp_path: Path) -> None:
    stage = Stage(example("paper-w2").federation, tmp_path, learner=MnistLearner)
    stage.run_config = {"samples-per-unit": 10.0, "local-epochs": 2, "seed": 3}
    grid = stage.grid()
    context: Any = next(iter(grid.nodes.values())).context
    conduct(grid, stage.settings(timeout=60.0), initial=lambda: first_model(context), strategy=federated_averaging)
    found = check_record(stage.ledger)
    measured, trained = found.entries.get("measured"), found.entries.get("trained")
    assert measured is not None and trained is not None
    experiment = Experiment(mnist(), n_agents=3, samples=1666, seed=3, training=Training(rounds=2, local_epochs=2))
    assert found.deal is not None
    expected = experiment.accuracies([list(found.deal.samples(10.0).values())])[0]
    accuracies = [entry["accuracy"] for entry in measured.content["accuracies"].values()]
    np.testing.assert_allclose(accuracies, expected, atol=1.5 / 333)  # one test image either way
    assert found.deal is not None and found.samples.keys() == found.deal.samples(10.0).keys()
