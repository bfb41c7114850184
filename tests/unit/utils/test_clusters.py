"""Work on a real cluster: a Dask scheduler with two worker processes, and Ray on this machine.

Nothing is lost and nothing is doubled when a worker is killed, and the results are those of one process, bit for bit.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.cli.clusters import use_cluster
from fedpact.comparison.outlook import solve_draws
from fedpact.scenario.examples import example, hospitals
from fedpact.utils.errors import FedpactError
from fedpact.utils.parallel import is_configured, map_parallel

SECONDS = 60.0


def square(number: int) -> int:
    return number * number


def square_once(folder: str, number: int) -> int:
    """The square; the first to work on 5 kills its worker, and every call leaves a mark."""
    Path(folder, f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if number == 5 and len(list(Path(folder).glob("5-*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("here", 'cluster must be "dask://host:port", "ray" or "ray://host:port", got \'here\''),
        ("dask://", "cluster must be"),
        ("dask://127.0.0.1:99999999", "cluster must be"),
    ],
)
def test_addresses_that_are_none(address: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message), use_cluster(address):
        pass


def test_errors_travel_as_they_are() -> None:
    error = fp.NoFairDeal("no deal", groups=(("A",),), subsidy=2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.groups, again.subsidy, type(again)) == ("no deal", (("A",),), 2.0, fp.NoFairDeal)
    place = fp.InvalidInput(field="costs", index=2, rule="must be positive", value=-0.5, agent="A")
    assert pickle.loads(pickle.dumps(place)).index == (2,)
    assert str(pickle.loads(pickle.dumps(fp.MissingExtra("Dask", "dask")))) == str(fp.MissingExtra("Dask", "dask"))


@pytest.fixture(scope="module")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and two workers, as processes of their own."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    contact = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    scheduler = [
        *dask,
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        contact,
    ]
    worker = [*dask, "worker", "--scheduler-file", contact, "--host", "127.0.0.1", "--nworkers", "2", "--nthreads", "1"]
    worker += ["--no-dashboard", "--local-directory", folder]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    running = [subprocess.Popen(list(map(str, words)), env=environment, **quiet) for words in (scheduler, worker)]  # type: ignore[call-overload]
    try:
        from distributed import Client

        end = time.monotonic() + SECONDS
        while not contact.exists():
            assert time.monotonic() < end and running[0].poll() is None, "the scheduler does not start"
            time.sleep(0.1)
        with Client(scheduler_file=str(contact)) as client:
            client.wait_for_workers(2, timeout=SECONDS)
            address = client.scheduler.address
        yield address.replace("tcp://", "dask://")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(timeout=SECONDS)


@pytest.fixture(params=["dask", "ray"])
def cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "ray":
        pytest.importorskip("ray")
    address = request.getfixturevalue("dask_address") if request.param == "dask" else "ray"
    with use_cluster(address):
        yield


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(cluster: None, tmp_path: Path) -> None:
    assert is_configured()
    work = partial(square_once, str(tmp_path))
    try:
        found = list(map_parallel(work, range(12)))  # Dask does the work of a lost worker again by itself
    except FedpactError:  # with Ray
        found = list(map_parallel(work, range(12)))
    assert sorted(found) == [(number, number * number) for number in range(12)]
    assert len(list(tmp_path.glob("5-*"))) >= 2  # it was killed, and done again
    assert os.getpid() not in {int(path.name.split("-")[1]) for path in tmp_path.iterdir()}


def sweep_costs() -> list[np.ndarray]:
    found = fp.sweep(hospitals().federation, "caps[City]=20:80:6", mechanisms=["fair"])
    return list(found.metrics["fair"].values())


def draw_lots() -> list[np.ndarray]:
    lots = example("hospitals-lots").federation
    uncertainty = fp.Uncertainty(weights=np.full(np.shape(lots.weights), 0.05), values=0.05, parameter=0.01)
    drawn = uncertainty.draws(lots, 6, 0)
    found = solve_draws(lots, drawn, fp.ExternalityMechanism())
    return [found.payments, found.contributions]


def study_kinds() -> list[np.ndarray]:
    found = fp.study("dense", ["shapley"], count=20, n_agents=3, splits=1)
    return [found.numbers["dense"]["shapley"]["welfare"]]


def train_coalitions() -> list[np.ndarray]:
    found = fp.pilot("wine", models=8)
    return [found.gains, found.variances]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("work", [sweep_costs, draw_lots, study_kinds, train_coalitions])
def test_results_are_those_of_one_process_bit_for_bit(
    work: Callable[[], list[np.ndarray]], dask_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedpact.comparison.pieces.MIN_SHARED_FEDERATIONS", 4)
    here = work()
    with use_cluster(dask_address):
        there = work()
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(mine, theirs)
