"""Agents in operating-system processes of their own, reached by lines of JSON over pipes.

Each process is started with a file that holds its own row and nothing else (`save_agent`); the coordinator's process
never sees it. An agent's process says who it is on its first line and then answers every line it reads with one line,
so an agent may be written in any language. `python -m fedpact.negotiation.processes FILE` is ours.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fedpact.costs import Linear, Quadratic
from fedpact.errors import InvalidInput
from fedpact.files import located, read_text, replace_text
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.lines import decoded, encoded
from fedpact.payoffs import FAMILIES

__all__ = ["Processes", "load_agent", "save_agent", "serve"]

PATIENCE = 30.0  # seconds to start
GRACE = 5.0  # seconds to end


def save_agent(agent: Agent, path: Path) -> None:
    """Write what one agent knows: its row, payoff, cost and cap."""
    record = {
        "name": agent.name,
        "index": agent.index,
        "weights": agent.weights.tolist(),
        "payoff": {"family": agent.payoff.family}
        | {name: float(np.ravel(number)[0]) for name, number in agent.payoff.parameters.items()},
        "value": agent.value,
        "linear": float(np.ravel(agent.cost.linear)[0]),
        "quadratic": float(np.ravel(agent.cost.quadratic)[0]),
        "cap": agent.cap,
    }
    replace_text(path, encoded(record) + "\n")


def load_agent(path: Path) -> Agent:
    """The agent of a file written by `save_agent`."""
    with located(str(path)):
        record = decoded(read_text(path).encode())
        try:
            payoff = dict(record["payoff"])
            family = FAMILIES[payoff.pop("family")]
            linear, quadratic = float(record["linear"]), float(record["quadratic"])
            return Agent(
                name=str(record["name"]),
                index=int(record["index"]),
                weights=np.array(record["weights"], dtype=np.float64),
                payoff=family(**{name: np.array([number]) for name, number in payoff.items()}),
                value=float(record["value"]),
                cost=Quadratic(np.array([linear]), np.array([quadratic])) if quadratic else Linear(np.array([linear])),
                cap=float(record["cap"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is no agent's file: {error!r:.120}") from error


def serve(path: Path) -> None:
    """Be one agent: say who it is, then answer every line on standard input until there are no more."""
    agent = load_agent(path)
    _say({"name": agent.name, "index": agent.index})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            _say(agent.answer(question))
        except Exception as error:  # the coordinator is told, and deals with it
            _say({"number": question.get("number"), "error": f"{type(error).__name__}: {error}"})


def _say(entry: Mapping[str, Any]) -> None:
    sys.stdout.write(encoded(entry) + "\n")
    sys.stdout.flush()


class _Worker:
    """One agent's process, and a thread that collects the lines it writes."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def tell(self, question: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended: no answer will come
            self.process.stdin.write(encoded(question) + "\n")
            self.process.stdin.flush()

    def hear(self, number: int | None, deadline: float) -> Any:
        """The answer to the question of that number, or None; older answers that come late are dropped."""
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                return None
            if line is None:
                self._lines.put(None)  # it has ended, also for whoever asks next
                return None
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                return line
            if number is None or not isinstance(answer, dict) or not _is_older(answer.get("number"), number):
                return answer

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError, ValueError):
                if stream is not None and stream is self.process.stdin:
                    stream.close()
        try:
            self.process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(timeout=GRACE)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(None)


def _is_older(given: Any, number: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given < number


class Processes:
    """A channel to agents in processes of their own; use it in a `with` statement, which ends them all.

    Parameters
    ----------
    commands
        How to start each agent, in the order of their places.
    timeout
        Seconds to wait for answers to one question.
    """

    def __init__(self, commands: Sequence[Sequence[str]], *, timeout: float = 10.0) -> None:
        self.timeout = timeout
        self._workers = [_Worker(command) for command in commands]
        deadline = time.monotonic() + PATIENCE
        greetings = [worker.hear(None, deadline) for worker in self._workers]
        self._names = [
            str(greeting["name"]) if isinstance(greeting, dict) and "name" in greeting else f"agent {place}"
            for place, greeting in enumerate(greetings)
        ]

    @classmethod
    def of_files(cls, paths: Sequence[Path], *, timeout: float = 10.0) -> Self:
        """Our own agents, each from its file."""
        module = "fedpact.negotiation.processes"
        return cls([[sys.executable, "-m", module, str(path)] for path in paths], timeout=timeout)

    @property
    def names(self) -> Sequence[str]:
        """The agents' names, as they gave them."""
        return self._names

    @property
    def process_ids(self) -> Sequence[int]:
        """Of the agents' processes."""
        return [worker.process.pid for worker in self._workers]

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Ask all at once, then wait for answers until the time is up."""
        for place, question in questions.items():
            self._workers[place].tell(question)
        deadline = time.monotonic() + self.timeout
        heard = {
            place: self._workers[place].hear(question["number"], deadline) for place, question in questions.items()
        }
        return {place: answer for place, answer in heard.items() if answer is not None}

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
