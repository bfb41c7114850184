"""Work in other processes: plain scripts, interrupts, errors, and one thread each."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

import fedpact as fp
from fedpact.utils.parallel import map_parallel
from random_cases import some

pytestmark = pytest.mark.skipif(fp.thread_count() < 2, reason="one thread")
THREADS = {"FEDPACT_THREADS": "2"}


def test_every_item_once() -> None:
    assert sorted(map_parallel(math.factorial, range(30))) == [(number, math.factorial(number)) for number in range(30)]
    assert list(map_parallel(math.factorial, [])) == []


def test_tasks_run_in_other_processes_on_one_thread() -> None:
    def threads_there(_: int) -> tuple[int, int, list[int]]:
        from threadpoolctl import threadpool_info

        return os.getpid(), fp.thread_count(), [pool["num_threads"] for pool in threadpool_info()]

    for _, (process, threads, pools) in map_parallel(threads_there, range(8)):
        assert process != os.getpid()
        assert threads == 1
        assert set(pools) <= {1}
    assert fp.thread_count() > 1


def test_an_error_in_a_task_is_told_as_it_is() -> None:
    def fail(number: int) -> int:
        raise fp.InvalidInput(f"number {number} is wrong")

    with pytest.raises(fp.InvalidInput, match="number 3 is wrong"):
        list(map_parallel(fail, [3]))
    assert list(map_parallel(math.factorial, [2])) == [(2, 2)], "and others work after it"


def test_closures_and_classes_of_a_script_travel() -> None:
    factor = 3

    class Local(fp.PowerLaw):
        pass

    assert list(map_parallel(lambda number: factor * number, [2])) == [(2, 6)]
    assert [name for _, name in map_parallel(lambda payoff: type(payoff).__name__, [Local(0.5)])] == ["Local"]


@pytest.mark.slow
def test_what_workers_cannot_import_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of a module are found by its name; workers do not know one that was made here."""
    made = types.ModuleType("made_here")
    exec("def double(number):\n    return 2 * number", made.__dict__)
    monkeypatch.setitem(sys.modules, "made_here", made)
    with pytest.raises(fp.FedpactError, match="cannot import what they need: ModuleNotFoundError: No module"):
        list(map_parallel(made.double, [1]))


@pytest.mark.slow
def test_whoever_stops_early_leaves_no_warning() -> None:
    results = map_parallel(math.factorial, [5] * 1000)
    next(results)
    results.close()
    assert len(list(map_parallel(math.factorial, range(5)))) == 5


PLAIN_SCRIPT = """
print("begun")
import fedpact as fp
from fedpact.utils.parallel import map_parallel
class Own(fp.PowerLaw):
    pass
def slope(payoff):
    return float(payoff.slope(0.0))
print(sorted(result for _, result in map_parallel(slope, [Own(0.5), Own(0.25)])))
"""


@pytest.mark.slow
def test_plain_scripts_work(tmp_path: Path) -> None:
    """No guard is needed, the script does not run again, and its classes travel."""
    (tmp_path / "script.py").write_text(PLAIN_SCRIPT, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env=os.environ | THREADS,
    )
    assert ran.stderr == ""
    assert ran.stdout == "begun\n[0.25, 0.5]\n"


SLEEPING_SCRIPT = """
import os, time
from fedpact.utils.parallel import map_parallel
def sleep(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(300)
list(map_parallel(sleep, ["one", "two"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals, and a look into processes")
@pytest.mark.parametrize(
    "ending", some([signal.SIGINT, signal.SIGKILL, signal.SIGTERM], 1), ids=lambda ending: ending.name
)
def test_workers_end_with_the_caller(tmp_path: Path, ending: signal.Signals) -> None:
    """An interrupt on a terminal reaches all processes; the other signals the caller alone."""
    (tmp_path / "script.py").write_text(SLEEPING_SCRIPT, encoding="utf-8")
    caller = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | THREADS,
        start_new_session=True,
    )
    begun = [tmp_path / name for name in ("one", "two")]
    wait_until(lambda: all(path.exists() and path.read_text(encoding="utf-8") for path in begun), 60.0)
    workers = [int(path.read_text(encoding="utf-8")) for path in begun]
    if ending is signal.SIGINT:
        os.killpg(caller.pid, ending)
    else:
        caller.send_signal(ending)
    start = time.monotonic()
    try:
        _, said = caller.communicate(timeout=30)
    finally:
        caller.kill()
    assert caller.returncode == -ending
    assert time.monotonic() - start < 10.0
    if ending is signal.SIGINT:
        assert said.count("Traceback") == 1, "that of the script"
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 20.0)


def wait_until(true, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "too late"
        threading.Event().wait(0.05)
