"""Channels that record a negotiation and play it back.

A line is on disk before its answers are used: an interruption loses the exchange under way and no other. The
coordinator is given what was written, so that an answer played back cannot end in anything else than it did at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np

from fedpact.deals.transcript import TRANSCRIPT_SUFFIX, TRANSCRIPT_VERSION, Header, Transcript, read_transcript
from fedpact.negotiation.channels import Channel
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import replace_text
from fedpact.utils.jsonl import encode_line

QUESTION_ROUNDING = 1e-6  # of the largest number of a list: how far another machine may compute another one


def find_transcript(path: Path, header: Header, *, resume: bool | None = None) -> Transcript | None:
    """The transcript to go on from, if there is one.

    Parameters
    ----------
    path, header
        Where it is, and which negotiation it must be of.
    resume
        True if there must be one, False if whatever is there does not count.

    Raises
    ------
    InvalidInput
        If there can be no transcript at the path, what is there is something else, or nothing is there and must be.
    """
    with error_context(str(path)):
        if path.suffix.lower() != TRANSCRIPT_SUFFIX:
            raise InvalidInput(f"a transcript's name must end in {TRANSCRIPT_SUFFIX}")
        if not path.absolute().parent.is_dir():
            raise InvalidInput("there is no such folder; make it first")
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            if resume:
                raise InvalidInput("there is no transcript to go on from; check the path, or do not ask to resume")
            return None
    if resume is False:
        return None
    before = read_transcript(path)
    if before.header != header:
        same = " with other numbers" if before.header.description == header.description else ""
        raise InvalidInput(
            f"{path} holds {before.header.description}{same}, not {header.description}; "
            f"name another file, or remove this one"
        )
    return before


class Playback:
    """A channel that gives the recorded answers, then asks on where the transcript ends.

    Parameters
    ----------
    transcript
        What to play back. A question that differs from the recorded one by more than rounding is an error.
    live
        Whom to ask after that; without anybody, the end of the transcript is an error.
    """

    def __init__(self, transcript: Transcript, live: Channel | None = None) -> None:
        self._transcript, self._live = transcript, live
        self._exchanges = transcript.exchanges()
        self.played = 0

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self._transcript.header.agents

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """The recorded answers to these questions, or those of the agents."""
        exchange = next(self._exchanges, None)
        if exchange is None:
            return self._ask_live(questions)
        self.played += 1
        asked = {str(place): question for place, question in questions.items()}
        if not _is_same(asked, exchange["questions"]):
            self._fail("the questions are not those that follow from the answers before")
        return _by_place(exchange["answers"])

    def check_over(self) -> None:
        """Raise `InvalidInput` if the transcript goes on."""
        if next(self._exchanges, None) is not None:
            self.played += 1
            self._fail("the negotiation was over before this exchange")

    def _ask_live(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        if self._live is None and self._transcript.deal is not None:
            self._fail("a deal is stated where the exchanges before lead to more questions")
        if self._live is None:
            raise InvalidInput(
                f"{self._transcript.path}: the negotiation broke off after {self.played} exchanges; "
                f"`fedpact negotiate` with this transcript goes on from there"
            )
        return self._live.ask(questions)

    def _fail(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"{self._transcript.path}: line {self.played + 1}: {what}; the transcript was changed, or written by "
            f"another version of fedpact"
        )


class Recorder:
    """A channel that writes down every exchange of another; close it, or use it in a `with` statement.

    Use `begin` or `resume` to make one.
    """

    def __init__(self, live: Channel, path: Path, *, length: int) -> None:
        self._live, self._path = live, path
        with self._writing():
            self._file = path.open("r+b")
            self._file.truncate(length)
            self._file.seek(length - 1)
            if self._file.read() != b"\n":
                self._file.write(b"\n")

    @classmethod
    def begin(cls, live: Channel, path: Path, header: Header) -> Recorder:
        """Into a new file; one of that name is replaced."""
        line = encode_line({"transcript": TRANSCRIPT_VERSION, **asdict(header)}) + "\n"
        replace_text(path, line)
        return cls(live, path, length=len(line))

    @classmethod
    def resume(cls, live: Channel, transcript: Transcript) -> Recorder:
        """At the end of a transcript, in place of a line that was cut off."""
        return cls(live, transcript.path, length=transcript.length)

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self._live.names

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """The answers as they were written down; a line is on disk before its answers are used."""
        answers = self._live.ask(questions)
        received = {str(place): answers[place] for place in questions if answers.get(place) is not None}
        asked = {str(place): question for place, question in questions.items()}
        line = encode_line({"questions": asked, "answers": received})
        self._write(line + "\n")
        return _by_place(json.loads(line)["answers"])

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the last line: the deal as plain data."""
        self._write(encode_line({"deal": record}) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # of a line that could not be written, which was said then
            self._file.close()

    def _write(self, text: str) -> None:
        with self._writing():
            self._file.write(text.encode())
            self._file.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(f"{self._path}: the transcript cannot be written: {error.strerror}") from error


def _by_place(answers: Mapping[str, Any]) -> dict[int, Any]:
    return {int(place): answer for place, answer in answers.items()}


def _is_same(asked: Any, recorded: Any) -> bool:
    """Whether questions agree up to rounding."""
    if isinstance(asked, dict):
        known = isinstance(recorded, dict) and asked.keys() == recorded.keys()
        return known and all(_is_same(entry, recorded[key]) for key, entry in asked.items())
    if isinstance(asked, list) and any(isinstance(entry, list | dict) for entry in asked):
        known = isinstance(recorded, list) and len(asked) == len(recorded)
        return known and all(_is_same(*pair) for pair in zip(asked, recorded, strict=True))
    if isinstance(asked, list):
        return isinstance(recorded, list) and len(asked) == len(recorded) and _is_near(asked, recorded)
    if isinstance(asked, float):
        return _is_near([asked], [recorded])
    return bool(asked == recorded)


def _is_near(asked: list[Any], recorded: list[Any]) -> bool:
    """Whether numbers are the same up to a share of the largest."""
    if asked == recorded:
        return True
    if not all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in [*asked, *recorded]):
        return False
    numbers = np.array(asked, dtype=np.float64)
    apart = np.abs(numbers - np.array(recorded, dtype=np.float64))
    return bool((apart <= QUESTION_ROUNDING * np.abs(numbers).max()).all())
