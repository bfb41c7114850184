"""`fedpact fit`: what it writes and says, what it refuses, and what `compare` makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import fedpact as fp
from fedpact.scenario import schema
from random_cases import some
from unit.fitting.planted import planted

NAMES = ["North", "South", "East"]
PNG = b"\x89PNG"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return planted(2, n_agents=3, n_runs=30).write(tmp_path / "runs.csv", NAMES)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    return planted(2, n_agents=3, n_runs=5).write(tmp_path / "few.csv", NAMES)


# what it says


def test_tables_on_the_terminal(run, runs: Path) -> None:
    result = run("fit", runs)
    assert result.code == 0
    assert result.err == ""
    for words in (
        "3 members, 90 accuracies of 30 runs",
        "beta floor ceiling",
        "Weights: how useful",
        "rms 0.0",
        "R² 0.9",
        "Error on runs left out: curves 0.01",
        "That no data harms is assumed, not measured",
    ):
        assert words in result.words
    assert max(map(len, result.out.splitlines())) <= 80


def test_json_has_the_names_of_the_scenario(run, runs: Path) -> None:
    record = run("fit", runs, "--json").record
    found = fp.fit(fp.Observations.from_csv(runs))
    assert record["agents"] == NAMES
    assert record["beta"] == pytest.approx(found.beta)
    np.testing.assert_allclose(record["weights"], found.weights)
    low, high = record["intervals"]["beta"]
    assert low < record["beta"] < high
    assert np.array(record["intervals"]["weights"]).shape == (3, 3, 2)
    assert record["level"] == 0.9
    assert set(record["quality"]) == {"r_squared", "chi_square_per_degree", "rms", "degrees"}
    assert set(record["lack_of_fit"]) == {"error", "nearest_run", "log_linear", "misfit"}
    assert record["recommended"] is True
    assert record["suggestions"] == []
    assert record["files"] == []


@pytest.mark.slow
def test_curves_that_do_not_fit_are_a_warning(run, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    rows = [f"{level},{0.9 - 0.1 * place}" for place, level in enumerate([1, 2, 4, 8, 16, 32, 64, 128])]
    path.write_text("\n".join(["contributions.A,accuracy.A", *rows]) + "\n", encoding="utf-8")
    result = run("fit", path, "--family", "auto", "-o", "s.toml")
    assert result.code == 0
    assert "Warning: the curves do not fit: on runs left out they miss the accuracies by 0." in result.words
    assert "chosen by its error on unseen runs: " in result.words
    assert "Warning: the curves do not fit" in fp.load_scenario(tmp_path / "s.toml").description
    record = run("fit", path, "--family", "auto", "--json").record
    assert record["warnings"][0].startswith("the curves do not fit")
    assert record["recommended"] is False
    assert record["lack_of_fit"]["error"] >= record["lack_of_fit"]["log_linear"]
    assert set(record["families"]["errors"]) == {"power-law", "exponential", "michaelis"}
    assert record["family"] == record["families"]["chosen"]


def test_few_runs_say_that_the_prior_decides(run, tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text(
        "contributions.A,contributions.B,accuracy.A,accuracy.B\n10,20,0.4,0.5\n5,,0.3,0.3\n", encoding="utf-8"
    )
    result = run("fit", path)
    assert result.code == 0
    for words in (
        "rest on the prior",
        "runs left out since a contribution is missing (write 0 for none): 3",
        "a standard deviation of 0.02 was assumed",
        "The data cannot tell apart",
    ):
        assert words in result.words


# what it writes


def test_a_member_joins_and_another_leaves(run, runs: Path, tmp_path: Path) -> None:
    old = fp.Federation(
        np.eye(2),
        costs=fp.Quadratic([0.1, 0.2], [0.01, 0.02]),
        caps=[3, 1],
        payoff=fp.PowerLaw(0.1),
        names=["South", "North"],
        values=[5.0, 4.0],
    )
    fp.save_scenario(fp.Scenario(federation=old), tmp_path / "old.toml")
    terms = ["--like", "old.toml", "-o", "new.toml", "--without", "North"]
    assert 'error: --cost must say a number for member "East" too' in run("fit", runs, *terms).err
    terms += ["--cost", "East=0.3", "--cap", "East=9"]
    assert 'error: --value must say a number for member "East" too' in run("fit", runs, *terms).err
    assert run("fit", runs, *terms, "--value", "East=6").code == 0
    made = fp.load_scenario(tmp_path / "new.toml")
    assert made.federation.names == ("South", "East")
    np.testing.assert_allclose(made.federation.costs.linear, [0.1, 0.3])
    np.testing.assert_allclose(made.federation.costs.quadratic, [0.01, 0.0])
    np.testing.assert_allclose(made.federation.caps, [3.0, 9.0])
    np.testing.assert_allclose(made.federation.values, [5.0, 6.0])
    whole = fp.fit(fp.Observations.from_csv(runs))
    np.testing.assert_allclose(made.federation.weights, whole.weights[1:, 1:])
    assert made.uncertainty is not None
    np.testing.assert_allclose(made.uncertainty.weights, whole.uncertainty().weights[1:, 1:])
    assert "--without: there is no member" in run("fit", runs, "--without", "West").err
    assert "--without leaves out everybody" in run("fit", runs, *(f"--without={name}" for name in NAMES)).err


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_the_scenario_loads_validates_and_carries_the_uncertainty(run, runs: Path, tmp_path: Path, suffix: str) -> None:
    result = run("fit", runs, "-o", f"s.{suffix}", "--cost", "0.0005", "--cap", "North=50")
    assert result.code == 0
    assert "placeholder" not in result.out
    scenario = fp.load_scenario(tmp_path / f"s.{suffix}")
    assert scenario.federation.names == tuple(NAMES)
    assert scenario.federation.caps[0] == 50.0
    assert scenario.federation.caps[1] == pytest.approx(fp.Observations.from_csv(runs).contributions[:, 1].max())
    assert scenario.uncertainty is not None
    if suffix == "json":
        Draft202012Validator(schema()).validate(json.loads((tmp_path / "s.json").read_text(encoding="utf-8")))


def test_without_costs_a_placeholder_is_used_and_called_that(run, runs: Path, tmp_path: Path) -> None:
    result = run("fit", runs, "-o", "s.toml")
    assert result.code == 0
    assert "Costs are a placeholder" in result.words
    assert "placeholders" in fp.load_scenario(tmp_path / "s.toml").description


def test_terms_from_another_scenario(run, runs: Path, tmp_path: Path) -> None:
    order = ["East", "North", "South"]
    other = fp.Federation(
        np.eye(3), costs=[0.3, 0.1, 0.2], caps=[3, 1, 2], payoff=fp.PowerLaw(0.1), names=order, values=[9, 7, 8]
    )
    fp.save_scenario(fp.Scenario(federation=other, money=fp.Money("EUR", 500.0)), tmp_path / "terms.toml")
    assert run("fit", runs, "-o", "s.toml", "--like", "terms.toml", "--cap", "South=7").code == 0
    made = fp.load_scenario(tmp_path / "s.toml")
    np.testing.assert_array_equal(made.federation.costs.linear, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(made.federation.caps, [1.0, 7.0, 3.0])
    assert made.money == fp.Money("EUR", 500.0)
    np.testing.assert_allclose(made.federation.values, [7.0, 8.0, 9.0])
    assert "none of them is in the log" in run("fit", runs, "--like", "hospitals").err


@pytest.mark.slow
@pytest.mark.parametrize("suffix", some(["png", "svg", "pdf"], 1))
def test_pictures(run, few: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    result = run("fit", few, "--plot", f"p.{suffix}")
    assert result.code == 0
    assert (tmp_path / f"p.{suffix}").stat().st_size > 1000


def test_suggestions_with_rows_to_fill_in(run, few: Path, tmp_path: Path) -> None:
    result = run("fit", few, "--suggest", "2", "--cost", "0.0005", "--cap", "100")
    assert result.code == 0
    assert "Train next" in result.out
    lines = result.out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("contributions.North"))
    assert len(lines[start + 1 : start + 3]) == 2
    filled = "\n".join(
        [lines[start], *(line.replace(",,,,", ",0.5,0.5,0.5,") for line in lines[start + 1 : start + 3])]
    )
    (tmp_path / "next.csv").write_text(filled + "\n", encoding="utf-8")
    made = fp.Observations.from_csv(tmp_path / "next.csv")
    assert made.contributions.max() <= 100.0
    record = run("fit", few, "--suggest", "2", "--cost", "0.0005", "--cap", "100", "--json").record
    np.testing.assert_allclose([each["contributions"] for each in record["suggestions"]], made.contributions)


def test_compare_shows_how_sure_the_deal_is(run, few: Path, tmp_path: Path) -> None:
    assert run("fit", few, "-o", "s.toml", "--cost", "0.0005").code == 0
    result = run("compare", "s.toml", "-m", "externality", "-m", "shapley", "--html", "r.html")
    assert result.code == 0
    for words in ("Externality under uncertainty: 90 % intervals from 400 draws", "leaves", "keeps with 95 %"):
        assert words in result.words
    assert 'id="uncertainty"' in (tmp_path / "r.html").read_text(encoding="utf-8")
    record = run("compare", "s.toml", "-m", "shapley", "--json").record
    entry = record["uncertainty"]["shapley"]
    assert entry["draws"] + entry["unsolved_draws"] == 400
    assert len(entry["keeping_endowments"]) == 3
    plain = run("compare", "hospitals", "-m", "externality", "--json").record
    assert "uncertainty" not in plain


# what it refuses


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--signs", "both"], "signs must be one of positive, any, got 'both'"),
        (["--family", "log"], "family must be one of power-law, exponential, michaelis"),
        (["--shared", "beta,flor"], "shared must be among beta, floor, ceiling, got 'flor'"),
        (["-o", "s.yaml"], "s.yaml: the file's name must end in .toml or .json"),
        (["-o", "no/such/s.toml"], "there is no such folder"),
        (["--plot", "p.gif"], "a picture's name must end in"),
        (["--cost", "cheap"], "--cost must be NUMBER, NUMBER,NUMBER,... or NAME=NUMBER, got 'cheap'"),
        (["--cost", "0"], "--cost must be positive, got '0'"),
        (["--cost", "nan"], "--cost must be positive, got 'nan'"),
        (
            ["--cost", "West=1"],
            "--cost: there is no member 'West'; members are numbered 0 to 2",
        ),
        (["--cost", "North=1"], '--cost must say a number for member "South" too, or one for all'),
        (["--cap", "-1"], "--cap must be at least zero, got '-1'"),
    ],
)
def test_bad_options_are_told_in_one_line(run, few: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("fit", few, *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    assert {path.name for path in tmp_path.iterdir()} == {"few.csv"}


def test_a_member_prepares_itself(run, runs: Path, tmp_path: Path) -> None:
    """From its own accuracy column alone; its private file is said in words and negotiates."""
    head, *rows = runs.read_text().splitlines()
    keep = [place for place, name in enumerate(head.split(",")) if name.startswith("contributions") or "South" in name]
    own = tmp_path / "own.csv"
    own.write_text("\n".join(",".join(line.split(",")[place] for place in keep) for line in [head, *rows]) + "\n")
    assert run("fit", own).code == 2
    written = run(
        "fit", own, "--member", "South", "--cost", "South=0.001", "--value", "South=3", "-o", tmp_path / "south.json"
    )
    assert written.code == 0 and "South, number 2 of 3 members" in written.out
    said = run("agent", "check", tmp_path / "south.json")
    assert said.code == 0 and "Alone it would use" in said.out and "North" in said.out
    assert "is worth 3 of payoff" in said.out and "90% intervals: value" in said.out
    record = run("agent", "check", tmp_path / "south.json", "--json").record
    assert record["agent"] == "South" and record["agents"] == NAMES and len(record["weights"]) == 3
    assert run("fit", own, "--member", "South", "-o", tmp_path / "south.toml").code == 2
    assert run("agent", "check", runs).code == 2


@pytest.fixture
def south(run, runs: Path, tmp_path: Path) -> Path:
    """A member's private file, with a cost that nobody has said."""
    path = tmp_path / "south.json"
    assert run("fit", runs, "--member", "South", "-o", path).code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def test_a_private_file_says_that_its_cost_is_a_placeholder(run, south: Path) -> None:
    said = run("agent", "check", south)
    assert "Its cost is a placeholder: write the true one as linear, or say --cost to `fedpact fit`." in said.out
    record = json.loads(south.read_text())
    assert run("agent", "check", south, "--json").record["placeholder_cost"] == record["linear"]
    south.write_text(json.dumps(record | {"linear": 0.0123}))
    assert "placeholder" not in run("agent", "check", south).out


def test_a_private_file_counts_data_as_its_scenario_does(run, tmp_path: Path) -> None:
    for scenario in ("hospitals", "hospitals-lots"):
        path = tmp_path / f"{scenario}.json"
        assert run("flower", "agent", path, scenario, "--name", "City").code == 0
        said = run("agent", "check", path)
        assert "thousand records" in said.out and "sample" not in said.out
        assert "of payoff a unit (thousand records)" in said.out
    log = tmp_path / "hospitals.csv"
    names = ("University", "City", "County", "Children's", "Clinic")
    head = [*(f"contributions.{name}" for name in names), "accuracy.City"]
    log.write_text("\n".join([",".join(head), "10,0,0,0,0,0.4", "0,10,0,0,0,0.5", "9,9,9,9,9,0.7"]) + "\n")
    said = run("fit", log, "--member", "City", "--like", "hospitals", "-o", tmp_path / "city.json")
    assert "up to 80 thousand records" in said.out
    assert "up to 80 thousand records" in run("agent", "check", tmp_path / "city.json").out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"least_gian": 5.0}, "unknown key 'least_gian'; did you mean \"least_gain\"?"),
        (
            {"payoff": {"family": "power-law", "betta": 0.5}},
            "unknown key 'payoff.betta'; did you mean \"payoff.beta\"?",
        ),
        ({"weights": [0.01, float("nan"), 0.01]}, "weights[1] must be finite, got nan"),
        ({"cap": float("nan")}, "cap must be at least zero, got nan"),
        ({"known": [0.5, 1.0]}, 'known must be a text such as "90 % intervals: value 0.7 to 0.9", got '),
        ({"unit": 3}, 'unit must be a text such as "thousand records", got 3'),
        ({"placeholder_cost": "?"}, "placeholder_cost must be a number, or null, got '?'"),
    ],
)
def test_a_private_file_that_people_spoiled(run, south: Path, change: dict[str, object], words: str) -> None:
    south.write_text(json.dumps(json.loads(south.read_text()) | change))
    result = run("agent", "check", south)
    assert result.code == 2
    assert f"south.json: {words}" in result.err


def test_suggestions_need_everybodys_accuracies(run, runs: Path, tmp_path: Path) -> None:
    result = run("fit", runs, "--member", "South", "--suggest", "2", "-o", tmp_path / "south.json")
    assert result.code == 2
    assert "--suggest chooses runs by everybody's accuracies, and --member looks at one member's alone" in result.err
    assert f"`fedpact fit {runs} --suggest 2`" in result.err
    assert not (tmp_path / "south.json").exists()


def test_a_member_is_told_what_its_prior_decides(run, runs: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.csv"
    one.write_text("".join(runs.read_text().splitlines(keepends=True)[:2]))
    said = run("fit", one, "--member", "South")
    assert said.code == 0
    assert "Note: 1 accuracy for 6 parameters: about 5 of them rest on the prior" in said.words
    assert "The data cannot tell apart, or says nothing of (the prior decides):" in said.words
    assert "data to North" not in said.out  # not its row
    assert any("rest on the prior" in note for note in run("fit", one, "--member", "South", "--json").record["notes"])
