"""Flower's own processes on this machine: on free ports, with a home of their own, ended by their numbers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

BIN = Path(sys.executable).parent
# Nothing that is started here phones home or installs anything.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
GRACE = 10.0  # seconds to end
ASKING = 4.0  # seconds between commands that ask how a run goes: each starts a process that nodes could use


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(what: str, holds: Callable[[], Any], *, seconds: float, pause: float = 0.2) -> Any:
    """What `holds` returns once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took more than {seconds:g} s")
        time.sleep(pause)


@dataclass(eq=False)
class Process:
    """A process in a session of its own, so that it can be ended with everything it has started."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def ended(self) -> bool:
        return self.popen.poll() is not None

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """End it and what it has started, at once, those with sessions of their own too."""
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.popen.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.popen.wait()

    def stop(self) -> None:
        """Let it end by itself; what is left is killed."""
        if not self.ended:
            self.popen.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(GRACE)
        self.kill()


@dataclass
class Flower:
    """A private Flower home with a SuperLink at the other end of its configuration.

    Attributes
    ----------
    folder
        For the home, logs and an empty folder to start processes in.
    connection
        Lines of `config.toml` that say how the SuperLink is reached, its address aside.
    """

    folder: Path
    connection: Sequence[str] = ("insecure = true",)
    port: int = field(default_factory=free_port)
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "neutral", "logs"):
            (self.folder / name).mkdir(parents=True)
        lines = ["[superlink]", 'default = "here"', "[superlink.here]", f'address = "127.0.0.1:{self.port}"']
        (self.folder / "home" / "config.toml").write_text("\n".join([*lines, *self.connection, ""]))

    @property
    def environment(self) -> dict[str, str]:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return os.environ | QUIET | {"FLWR_HOME": str(self.folder / "home"), "PATH": path}

    def start(self, name: str, *command: str) -> Process:
        log = self.folder / "logs" / f"{len(self.processes)}-{name}.log"
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                cwd=self.folder / "neutral",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def superlink(self, *options: str) -> Process:
        started = self.start("superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), *options)
        wait_for("the SuperLink", lambda: started.ended or "Uvicorn running" in started.text, seconds=60)
        assert not started.ended, started.text
        return started

    def supernode(self, name: str, config: str, *options: str) -> Process:
        return self.start(
            name,
            *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1"),
            *("--port", str(free_port()), "--node-config", config, *options),
        )

    def flwr(self, *arguments: str) -> Any:
        """A command of Flower's, its answer as JSON."""
        ran = subprocess.run(
            [str(BIN / "flwr"), *arguments, "--format", "json"],
            cwd=self.folder / "neutral",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        try:
            return json.loads(ran.stdout)
        except ValueError:
            raise AssertionError(f"flwr {' '.join(arguments)}: {ran.stdout} {ran.stderr}") from None

    def run(self, app: Path, *options: str) -> str:
        """Start a run; its number."""
        answer = self.flwr("run", str(app), "here", *options)
        assert answer["success"], answer
        return str(answer["run-id"])

    def status(self, run: str) -> str:
        answer = self.flwr("list", "here", "--run-id", run)
        return str(answer["runs"][0]["status"])

    def finished(self, run: str, *, seconds: float) -> str:
        """The status of a run that is over."""
        return str(
            wait_for(
                f"run {run}",
                lambda: (status := self.status(run)).startswith("finished") and status,
                seconds=seconds,
                pause=ASKING,
            )
        )

    def online(self) -> int:
        """How many SuperNodes are connected."""
        answer = self.flwr("supernode", "list", "here")
        return sum(node["status"] == "online" for node in answer["nodes"])

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.stop()

    def logs(self) -> str:
        """The ends of all logs, for a test that fails."""
        return "\n".join(f"== {process.name}\n{process.text[-3000:]}" for process in self.processes)


@contextlib.contextmanager
def running(flower: Flower) -> Iterator[Flower]:
    """Everything that was started is ended, whatever happens; a failure shows the logs."""
    try:
        yield flower
    except BaseException:
        print(flower.logs())
        raise
    finally:
        flower.stop()
