"""Agents in operating-system processes of their own, reached by lines of JSON over pipes.

Each process is started with a file that holds its own row and nothing else (`save_agent`); the coordinator's process
never sees it. An agent's process says who it is on its first line and then answers every line it reads with one line,
so an agent may be written in any language. `python -m fedpact.negotiation.processes FILE` is ours.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedpact.negotiation.agent import Agent
from fedpact.negotiation.agent_file import MAX_NAME, agent_from_record, record_of_agent
from fedpact.utils.errors import InvalidInput, Refusal, error_context
from fedpact.utils.files import read_text, replace_text
from fedpact.utils.jsonl import decode_line, encode_line

EXIT_TIMEOUT = 2.0  # seconds
CHUNK = 1 << 16  # bytes read at once
MAX_LINE = 1 << 24  # bytes


def save_agent(agent: Agent, path: Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write what one agent knows, for nobody else to read: its row, payoff, cost and cap; notes are for people."""
    record = dict(notes or {}) | record_of_agent(agent)
    replace_text(path, encode_line(record) + "\n", private=True)


def load_agent(path: Path) -> Agent:
    """The agent of a file written by `save_agent`, checked; raises `InvalidInput`."""
    with error_context(str(path)):
        return agent_from_record(read_private_file(path))


def read_private_file(path: Path) -> dict[str, Any]:
    """All that a private file says, notes included, unchecked."""
    return decode_line(read_text(path).encode(), constants=True)


def serve(path: Path) -> None:
    """Be one agent: say who it is, then answer every line on standard input until there are no more."""
    agent = load_agent(path)
    _say({"name": agent.name, "index": agent.index})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            _say(agent.answer_stranger(question))
        except Refusal as reason:  # the coordinator is told, and deals with it
            _say({"number": question.get("number"), "error": str(reason)})


def _say(entry: Mapping[str, Any]) -> None:
    sys.stdout.write(encode_line(entry) + "\n")
    sys.stdout.flush()


class _Worker:
    """One agent's process: what is still to be sent to it, and what it has said."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        for stream in (self.input, self.output):
            os.set_blocking(stream.fileno(), False)
        self.ended = False
        self._unsent = b""
        self._line = b""
        self._lines: deque[bytes] = deque()

    def send(self, question: Mapping[str, Any]) -> None:
        """Put a question behind what is still to be sent."""
        self._unsent += encode_line(question).encode() + b"\n"

    @property
    def has_unsent(self) -> bool:
        """Whether there is something still to be sent."""
        return bool(self._unsent)

    def write(self) -> None:
        """Say as much as it takes in now."""
        try:
            self._unsent = self._unsent[os.write(self.input.fileno(), self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it no longer listens, but may have said something before
            self._unsent = b""

    def read(self) -> None:
        """Take in what it has said by now, up to a limit: nobody keeps the others waiting by talking."""
        try:
            received = os.read(self.output.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self.ended = True
            return
        *lines, self._line = (self._line + received).split(b"\n")
        if len(self._line) > MAX_LINE:
            lines, self._line = [*lines, self._line[:CHUNK]], b""
        self._lines.extend(lines)

    def answer(self, number: int | None) -> Any:
        """The answer to the question of that number, or None; answers and greetings that come late are dropped."""
        while self._lines:
            line = self._lines.popleft()
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                return f"{line[:80]!r}"
            if number is None or not isinstance(answer, dict) or not _is_late(answer, number):
                return answer if answer is not None else "null"
        return {"number": number, "error": "its process has ended"} if self.ended else None

    def hang_up(self) -> None:
        """Nothing more is said or received; an agent of ours ends by itself."""
        for stream in (self.input, self.output):
            with suppress(OSError):
                stream.close()


def _is_late(answer: Mapping[str, Any], number: int) -> bool:
    """Whether it answers an earlier question, or says who it is, as on its first line."""
    given = answer.get("number")
    return answer.keys() == {"name", "index"} or (type(given) is int and given < number)


class Processes:
    """A channel to agents in processes of their own; use it in a `with` statement, which ends them all.

    Agents that have ended, do not listen, or talk without end keep nobody else waiting beyond `timeout`.

    Parameters
    ----------
    commands
        How to start each agent, in the order of their places.
    timeout
        Seconds to wait for answers to one question.
    patience
        Seconds to wait for agents to start and say who they are.
    """

    def __init__(self, commands: Sequence[Sequence[str]], *, timeout: float = 10.0, patience: float = 30.0) -> None:
        self.timeout = timeout
        self._workers: list[_Worker] = []
        try:
            for place, command in enumerate(commands):
                self._workers.append(_start_worker(command, place))
            greetings = self._collect(dict.fromkeys(range(len(commands))), patience)
            self._names = _names([greetings.get(place) for place in range(len(commands))])
        except BaseException:
            self.close()
            raise

    @classmethod
    def of_files(cls, paths: Sequence[Path], *, timeout: float = 10.0, patience: float = 30.0) -> Self:
        """Our own agents, each from its file."""
        module = "fedpact.negotiation.processes"
        commands = [[sys.executable, "-m", module, str(path)] for path in paths]
        return cls(commands, timeout=timeout, patience=patience)

    @property
    def names(self) -> Sequence[str]:
        """The agents' names, as they gave them; told apart where several gave the same."""
        return self._names

    @property
    def process_ids(self) -> Sequence[int]:
        """Of the agents' processes."""
        return [worker.process.pid for worker in self._workers]

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Ask all at once, then wait for answers until the time is up."""
        for place, question in questions.items():
            self._workers[place].send(question)
        return self._collect({place: question["number"] for place, question in questions.items()}, self.timeout)

    def _collect(self, numbers: Mapping[int, int | None], timeout: float) -> dict[int, Any]:
        """Answers to the questions of these numbers, by place, as far as they come in time."""
        received: dict[int, Any] = {}
        deadline = time.monotonic() + timeout
        while True:
            for place in numbers.keys() - received.keys():
                answer = self._workers[place].answer(numbers[place])
                if answer is not None:
                    received[place] = answer
            remaining = deadline - time.monotonic()
            if len(received) == len(numbers) or remaining <= 0.0:
                return received
            self._exchange([self._workers[place] for place in numbers.keys() - received.keys()], remaining)

    @staticmethod
    def _exchange(workers: Sequence[_Worker], timeout: float) -> None:
        """Say and hear what can be, at once; wait for it no longer than the timeout."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.output, selectors.EVENT_READ, worker.read)
                if worker.has_unsent:
                    selector.register(worker.input, selectors.EVENT_WRITE, worker.write)
            for key, _ in selector.select(timeout):
                key.data()

    def close(self) -> None:
        """End all processes: those that do not end by themselves are killed."""
        for worker in self._workers:
            worker.hang_up()
        deadline = time.monotonic() + EXIT_TIMEOUT
        for worker in self._workers:
            try:
                worker.process.wait(timeout=max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start_worker(command: Sequence[str], place: int) -> _Worker:
    try:
        return _Worker(command)
    except OSError as error:
        raise InvalidInput(f"member {place} cannot be started by {command[0]!r}: {error.strerror}") from error


def _names(greetings: Sequence[Any]) -> list[str]:
    """What everybody is called; an agent that does not say is called by its place."""
    names: list[str] = []
    for place, greeting in enumerate(greetings):
        stated = greeting if isinstance(greeting, dict) else {}
        name = stated.get("name")
        if stated.get("index", place) != place:
            raise InvalidInput(f"member {place} says that its place is {stated['index']!r:.40}; start members in order")
        usable = isinstance(name, str) and name.strip() and len(name) <= MAX_NAME and name not in names
        names.append(str(name) if usable else f"agent {place}")
    while len(set(names)) < len(names):  # somebody is called like another's place
        names = [name if names.index(name) == place else f"{name} ({place})" for place, name in enumerate(names)]
    return names


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
