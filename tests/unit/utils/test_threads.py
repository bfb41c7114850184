"""One setting for all cores."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fedpact as fp
from fedpact.utils.threads import LIBRARY_VARIABLES, THREADS_VARIABLE, thread_setting


def told(environment: dict[str, str], code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name not in {*LIBRARY_VARIABLES, THREADS_VARIABLE}}


def test_the_setting_reaches_workers_and_libraries(environment: dict[str, str]) -> None:
    code = f"import fedpact, os; print(fedpact.thread_count(), *(os.environ[name] for name in {LIBRARY_VARIABLES}))"
    assert told(environment | {THREADS_VARIABLE: "1"}, code).stdout.split() == ["1"] * (1 + len(LIBRARY_VARIABLES))


def test_what_a_library_was_told_directly_wins(environment: dict[str, str]) -> None:
    code = "import fedpact, os; print(os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'])"
    assert told(environment | {THREADS_VARIABLE: "1", "OMP_NUM_THREADS": "2"}, code).stdout.split() == ["2", "1"]


def test_without_it_nothing_is_told(environment: dict[str, str]) -> None:
    code = f"import fedpact, os; print([name for name in {LIBRARY_VARIABLES} if name in os.environ])"
    assert told(environment, code).stdout.strip() == "[]"


@pytest.mark.parametrize("given", ["0", "two", "-1", ""])
def test_nonsense_is_bad_input(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, given)
    with pytest.raises(fp.InvalidInput, match=f"FEDPACT_THREADS must be a whole number of at least 1, got '{given}'"):
        thread_setting()


def test_nonsense_ends_a_command(environment: dict[str, str]) -> None:
    answer = told(environment | {THREADS_VARIABLE: "two"}, "from fedpact.cli import main; main()")
    assert answer.returncode == 2
    assert "error: FEDPACT_THREADS must be a whole number of at least 1, got 'two'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_it_can_be_changed_at_run_time() -> None:
    before = fp.thread_count()
    try:
        fp.set_threads(1)
        assert fp.thread_count() == 1
    finally:
        fp.set_threads(before)
    assert fp.thread_count() == before


@pytest.mark.parametrize("count", [0, -1, 1.5, True, 10**6])
def test_only_counts_that_exist_are_taken(count: object) -> None:
    with pytest.raises(fp.InvalidInput, match="threads must be a whole number from 1 to"):
        fp.set_threads(count)  # type: ignore[arg-type]
