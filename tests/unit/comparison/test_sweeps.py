"""A sweep is the same as solving every federation of its grid alone, however it is cut up and shared out."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import batches
from fedpact.comparison.axes import arrays_at
from fedpact.comparison.sweeps import METRICS
from fedpact.deals.outcome import PER_AGENT
from fedpact.mechanisms import DEFAULT_MECHANISMS, MECHANISMS
from fedpact.scenario import example
from random_cases import some

SAME = {"rtol": 1e-6, "atol": 1e-9}  # a batch stops at the tolerance of a single solve, not at its last digit
PAIR = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5), names=["a", "b"])
TRIO = fp.Federation(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
)
CLAIMS = {str(claim): claim for claim in fp.Claim if claim != "reciprocity"} | {"reciprocity-margin": "reciprocity"}


def alone(federation: fp.Federation, mechanism: str, metric: str):
    """A metric of one federation solved by itself."""
    outcome = MECHANISMS[mechanism].solve(federation)
    return outcome.certificates[CLAIMS[metric]].margin if metric in CLAIMS else getattr(outcome, metric)


def with_weights(base: fp.Federation, entries: dict[tuple[int, int], float]) -> fp.Federation:
    weights = base.weights.copy()
    for place, value in entries.items():
        weights[place] = value
    return fp.Federation(weights, costs=base.costs, caps=base.caps, payoff=base.payoff, names=base.names)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", some(MECHANISMS, 2))
def test_every_metric_of_one_parameter(mechanism: str) -> None:
    found = fp.sweep(TRIO, "weights[0,1]=0.2,1,2", metrics=METRICS, mechanisms=mechanism)
    assert found.shape == (3,)
    for place, value in enumerate((0.2, 1.0, 2.0)):
        federation = with_weights(TRIO, {(0, 1): value})
        for metric in METRICS:
            np.testing.assert_allclose(
                found.metrics[mechanism][metric][place], alone(federation, mechanism, metric), **SAME, err_msg=metric
            )
            assert found.is_per_agent(metric) == (metric in PER_AGENT)
    assert found.solved[mechanism].all()


@pytest.mark.parametrize("mechanism", DEFAULT_MECHANISMS)
def test_two_parameters(mechanism: str) -> None:
    found = fp.sweep(
        PAIR,
        ["weights[0,1]=-0.2,0.4,1", "costs[b]=0.02,0.01"],
        metrics=["utilities", "welfare"],
        mechanisms=[mechanism],
    )
    assert found.shape == (3, 2)
    for row, weight in enumerate((-0.2, 0.4, 1.0)):
        for column, cost in enumerate((0.02, 0.01)):
            federation = fp.Federation(
                [[1.0, weight], [0.2, 1.0]], costs=[0.01, cost], caps=50.0, payoff=fp.PowerLaw(0.5)
            )
            outcome = MECHANISMS[mechanism].solve(federation)
            got = found.metrics[mechanism]
            np.testing.assert_allclose(got["utilities"][row, column], outcome.utilities, **SAME)
            np.testing.assert_allclose(got["welfare"][row, column], outcome.welfare, **SAME)
            rounding = 1e-12 * 50.0  # a best answer exactly at a bound is a float beside it on some machines
            boundary = (outcome.contributions <= rounding) | (outcome.contributions >= 50.0 - rounding)
            np.testing.assert_array_equal(found.on_boundary[mechanism][row, column], boundary)


@pytest.mark.parametrize(
    "written", ["beta[0]=0.1,0.4", "caps=1,inf", "values[1]=1,5", "costs.quadratic=0,0.01", "weights[0,0]=0.5,2"]
)
def test_every_parameter_reaches_the_solver(written: str) -> None:
    found = fp.sweep(PAIR, written, metrics=["contributions"], mechanisms=["externality"])
    arrays = arrays_at(PAIR, found.axes, [found.axes[0].points])
    for place in range(2):
        expected = fp.ExternalityMechanism().solve(PAIR.with_arrays(arrays.at(place))).contributions
        np.testing.assert_allclose(found.metrics["externality"]["contributions"][place], expected, **SAME)
    np.testing.assert_raises(AssertionError, np.testing.assert_allclose, *found.metrics["externality"]["contributions"])


def test_points_without_an_equilibrium_are_marked() -> None:
    """Free riders who harm each other beyond the domain have none."""
    found = fp.sweep(PAIR, ["weights[0,1]=-3,0", "weights[1,0]=-3,0"], metrics=METRICS, mechanisms=["voluntary"])
    np.testing.assert_array_equal(found.solved["voluntary"], [[False, True], [True, True]])
    for metric, numbers in found.metrics["voluntary"].items():
        assert (
            metric in {"standalone", "joining_costs", "fair_gains", "fair_gain_errors"} or np.isnan(numbers[0, 0]).all()
        ), metric
    assert np.isfinite(found.metrics["voluntary"]["utilities"][1]).all()
    assert not found.on_boundary["voluntary"][0, 0].any()
    assert not found.in_domain["voluntary"][0, 0]


def test_a_coalition_outside_the_domain_is_marked() -> None:
    found = fp.sweep(PAIR, "weights[0,1]=-3,0.5", metrics=["shapley_values"], mechanisms=["standalone", "voluntary"])
    assert found.in_domain["standalone"].all(), "alone nobody is harmed"
    assert found.in_domain["voluntary"][1]
    assert not found.in_domain["voluntary"][0]
    np.testing.assert_array_equal(
        np.isnan(found.metrics["voluntary"]["shapley_values"]).any(axis=1), ~found.in_domain["voluntary"]
    )


@pytest.mark.parametrize("mechanism", some(MECHANISMS))
def test_one_agent(mechanism: str) -> None:
    lonely = fp.Federation([[1.0]], costs=0.01, payoff=fp.Log())
    found = fp.sweep(lonely, "costs=0.1,0.7", metrics=METRICS, mechanisms=[mechanism])
    np.testing.assert_allclose(
        found.metrics[mechanism]["contributions"][:, 0], 1.0 / found.axes[0].points - 1.0, atol=1e-6
    )


@pytest.mark.parametrize("mechanism", ["externality", "shapley", "voluntary"])
def test_more_members_than_are_solved_at_once(mechanism: str) -> None:
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.0, 0.3, (20, 20))
    np.fill_diagonal(weights, 1.0)
    crowd = fp.Federation(weights, costs=0.05, caps=40.0, payoff=fp.PowerLaw(0.3))
    found = fp.sweep(crowd, "costs[3]=0.01,0.1", metrics=["contributions", "shapley_values"], mechanisms=[mechanism])
    federation = fp.Federation(
        weights, costs=np.where(np.arange(20) == 3, 0.1, 0.05), caps=40.0, payoff=fp.PowerLaw(0.3)
    )
    outcome = MECHANISMS[mechanism].solve(federation)
    for metric in ("contributions", "shapley_values"):
        np.testing.assert_allclose(found.metrics[mechanism][metric][1], getattr(outcome, metric), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_progress_begins_at_nothing_and_ends_with_all() -> None:
    told: list[tuple[int, int]] = []
    fp.sweep(PAIR, "values=1:2:25", mechanisms=["fair", "externality"], progress=lambda *now: told.append(now))
    assert told[0] == (0, 50)
    assert told[-1] == (50, 50)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) == 1 + 3 + 1, "pieces of ten, and one batch"


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        ([], {}, "vary must be one or two parameters, got 0"),
        (["costs=1", "caps=1", "values=1"], {}, "vary must be one or two parameters, got 3"),
        (["costs=1", "costs=2"], {}, "costs must not overlap with costs: both set costs[0]"),
        (["costs=1"], {"metrics": ["gaps"]}, "metrics must be among contributions, payoffs"),
        (["costs=1"], {"metrics": []}, "metrics must be one or more, each once, got []"),
        (["costs=1"], {"metrics": ["nash", "nash"]}, "metrics must be one or more, each once, got ['nash', 'nash']"),
        (
            ["costs=1"],
            {"mechanisms": ["barter"]},
            f"mechanism must be one of {', '.join(MECHANISMS)}, got 'barter'",
        ),
        (["costs=1"], {"mechanisms": []}, "mechanisms must be one or more"),
        (
            ["costs=1:2:2000", "caps=1:2:2000"],
            {},
            "vary must make up to 1,000,000 points, and 20,000,000 numbers in all, got 4,000,000 points",
        ),
        (
            ["costs=1:2:1000", "caps=1:2:1000"],
            {"metrics": METRICS[:6]},
            "got 1,000,000 points and 24,000,000 numbers; take fewer values",
        ),
    ],
)
def test_mistakes_are_told_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vary, options, message: str
) -> None:
    monkeypatch.setattr(batches, "solve_piece", None)
    with pytest.raises(fp.InvalidInput) as caught:
        fp.sweep(PAIR, vary, checkpoint=tmp_path / "kept", **options)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# workers


@pytest.mark.slow
def test_workers_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    if fp.thread_count() < 2:
        pytest.skip("one thread")
    vary = ["weights[0,1]=-0.5:1:20", "weights[1,0]=-0.5:1:10"]
    used = []
    true_way = batches.map_parallel
    monkeypatch.setattr(
        batches, "map_parallel", lambda function, items: used.append(len(items)) or true_way(function, items)
    )
    pytest.importorskip("joblib")  # sets a variable of its own when it is imported
    environment = dict(os.environ)
    shared = fp.sweep(PAIR, vary, mechanisms=["fair", "externality"], metrics=["utilities"])
    assert used == [20], "the twenty pieces of ten points of the mechanism that is not vectorised"
    assert dict(os.environ) == environment
    monkeypatch.setattr(batches, "MIN_SHARED_FEDERATIONS", 10_000)
    here = fp.sweep(PAIR, vary, mechanisms=["fair", "externality"], metrics=["utilities"])
    assert used == [20]
    for mechanism in ("fair", "externality"):
        np.testing.assert_array_equal(shared.metrics[mechanism]["utilities"], here.metrics[mechanism]["utilities"])
    np.testing.assert_array_equal(shared.solved["fair"], here.solved["fair"])


@pytest.mark.slow
def test_workers_from_a_thread_and_without_one_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the explorer does it: two threads sweep at once, and one of them gives up; the other does not notice."""
    if fp.thread_count() < 2:
        pytest.skip("one thread")
    monkeypatch.setattr(batches, "MIN_SHARED_FEDERATIONS", 20)

    class GivenUp(Exception):
        pass

    def give_up(done: int, total: int) -> None:
        if done:
            raise GivenUp

    def sweep(progress) -> fp.Sweep:
        return fp.sweep(PAIR, "values=1:2:100", metrics=["welfare"], mechanisms="fair", progress=progress)

    with ThreadPoolExecutor(2) as threads:
        stopped, whole = threads.submit(sweep, give_up), threads.submit(sweep, None)
        with pytest.raises(GivenUp):
            stopped.result()
        found = whole.result()
    monkeypatch.setattr(batches, "thread_count", lambda: 1)
    np.testing.assert_array_equal(found.metrics["fair"]["welfare"], sweep(None).metrics["fair"]["welfare"])


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    script = """
import os, signal, sys
import fedpact as fp
from joblib.externals.loky import reusable_executor
base = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))
told = []
def end(done, total):
    told.append(done)
    if done == 30 and "kill" in sys.argv:
        os.kill(next(iter(reusable_executor._executor._processes)), signal.SIGKILL)
found = fp.sweep(base, "values=1:2:200", mechanisms=["fair"], progress=end, checkpoint="kept")
print(told[0] >= 30, told[-1], found.solved["fair"].all())
"""
    broken = run_script(tmp_path / "script.py", script, "kill")
    assert "FedpactError: a worker process ended, perhaps for lack of memory" in broken.stderr
    kept = len(list((tmp_path / "kept").glob("*.npz")))
    assert kept >= 3
    again = run_script(tmp_path / "script.py", script)
    assert again.stdout.split() == ["True", "200", "True"], again.stderr
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 20


def run_script(path: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, path, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=path.parent,
        env=os.environ | {"FEDPACT_THREADS": "2"},
    )


def test_shared_caps_vary() -> None:
    federation = example("hospitals-privacy").federation
    found = fp.sweep(
        federation, "shared_caps[City]=5,25", metrics=["welfare", "contributions"], mechanisms=["externality"]
    )
    for place, cap in enumerate((5.0, 25.0)):
        shared = [each._replace(cap=cap) if each.lots[0] == 2 else each for each in federation.shared_caps]
        outcome = fp.ExternalityMechanism().solve(federation.replace(shared_caps=shared))
        metrics = found.metrics["externality"]
        np.testing.assert_allclose(metrics["welfare"][place], outcome.welfare, rtol=1e-9)
        np.testing.assert_allclose(metrics["contributions"][place], outcome.contributions, atol=1e-5)


def test_arrays_by_parameter_are_axes() -> None:
    scenario = example("hospitals")
    asked = {"metrics": ["welfare"], "mechanisms": "externality"}
    found = fp.sweep(scenario, {"costs[City]": np.array([0.001, 0.002]), "caps": [50.0, np.inf]}, **asked)
    written = fp.sweep(scenario.federation, ["costs[City]=0.001,0.002", "caps=50,inf"], **asked)
    assert [axis.label for axis in found.axes] == ["costs[City]", "caps"]
    np.testing.assert_array_equal(found.metrics["externality"]["welfare"], written.metrics["externality"]["welfare"])
    for values, message in (([], "one or more"), ([1.0, 1.0], "differ"), ("a", "must be a number"), ([np.nan], "nan")):
        with pytest.raises(fp.InvalidInput, match=message):
            fp.sweep(scenario, {"caps": values}, **asked)
