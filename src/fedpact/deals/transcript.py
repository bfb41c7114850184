"""Transcripts: what was asked and answered in a negotiation, as lines of JSON; written, read and played back.

The first line says what the negotiation is, every other holds one exchange, and the last the deal if there is one:

    {"transcript": 2, "mechanism": "externality", "protocol": "price-discovery", "agents": ["A", ...], ...}
    {"questions": {"0": {...}, ...}, "answers": {"0": {...}, ...}}
    {"deal": {"mechanism": "externality", "agents": [...], "contributions": [...], "payments": [...], ...}}

A line is on disk before its answers are used: an interruption loses the exchange under way and no other. The
coordinator is given what was written, so that an answer played back cannot end in anything else than it did at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Protocol, Self

import numpy as np

from fedpact.deals.ledger import first_record
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_bytes, replace_text
from fedpact.utils.jsonl import decode_line, encode_line, numbered_lines, whole_lines_length

TRANSCRIPT_VERSION = 3
TRANSCRIPT_SUFFIX = ".jsonl"
QUESTION_ROUNDING = 1e-6  # of the largest number of a list: how far another machine may compute another one
MAKE_ONE = "`fedpact negotiate --transcript` writes one"

HEADER_RULES: Mapping[str, tuple[Any, str]] = {
    "mechanism": (lambda given: isinstance(given, str) and bool(given), "the name of a mechanism"),
    "protocol": (lambda given: isinstance(given, str) and bool(given), "the name of a protocol"),
    "agents": (
        lambda given: isinstance(given, list) and bool(given) and all(isinstance(name, str) for name in given),
        "a list of names",
    ),
    "title": (lambda given: isinstance(given, str), "a text"),
    "consent": (lambda given: isinstance(given, bool), "true or false"),
    "scenario": (lambda given: given is None or isinstance(given, str), "a text or null"),
}


class Channel(Protocol):
    """Agents at the other end, known by their indices.

    A channel never judges: an answer that is late is missing, and one that is broken comes back as it is.
    """

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Put a question to each of some agents; answers by index, those that did not come left out."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is negotiated between whom, by which rules, and whether everybody is asked to accept the deal.

    `title` is for people; `scenario` is the federation's fingerprint, None where the coordinator does not know it.
    """

    protocol: str
    agents: tuple[str, ...]
    title: str = field(default="", compare=False)
    scenario: str | None = None
    mechanism: str = "externality"
    consent: bool = True

    @property
    def description(self) -> str:
        """In words: which negotiation this is."""
        what = f'of "{self.title}"' if self.title else f"between {len(self.agents)} members"
        rules = "" if self.mechanism == "externality" else f" of {self.mechanism}"
        return f"the negotiation{rules} {what} by {self.protocol}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Transcript:
    """A transcript on disk: its header, how many exchanges it has, and the deal it states, if it is over.

    `length` is in bytes, without a last line that was cut off.
    """

    path: Path
    header: Header
    count: int
    deal: Mapping[str, Any] | None
    length: int

    def exchanges(self) -> Iterator[Mapping[str, Any]]:
        """The exchanges one by one, read anew: long negotiations need not fit in memory."""
        for number, line in numbered_lines(self.path, self.length):
            entry = decode_line(line, record=True) if number > 1 else {}
            if "questions" in entry:
                yield entry


def read_transcript(path: Path) -> Transcript:
    """A transcript; of a last line that was cut off nothing is used, and an error names the line."""
    with error_context(str(path)):
        content = read_bytes(path)
        length = whole_lines_length(content)
        if not content[:length].strip():
            raise InvalidInput(f"the file holds no transcript; {MAKE_ONE}")
    header, deal, count = None, None, 0
    for number, line in numbered_lines(path, length):
        with error_context(f"{path}: line {number}"):
            entry = decode_line(line, record=True)
            if header is None:
                header = _header(entry)
            elif deal is not None:
                raise InvalidInput("nothing may follow the deal")
            elif "deal" in entry:
                deal = entry["deal"]
                if not isinstance(deal, dict):
                    raise InvalidInput(f"deal must be a JSON object, got {short_repr(deal)}")
            else:
                _check_exchange(entry, len(header.agents))
                count += 1
    assert header is not None
    return Transcript(path=path, header=header, count=count, deal=deal, length=length)


def is_transcript(path: Path) -> bool:
    """Whether a file begins like a transcript, or is named like one."""
    return path.suffix.lower() == TRANSCRIPT_SUFFIX or "transcript" in first_record(path)


def find_transcript(path: Path, header: Header, *, resume: bool | None = None) -> Transcript | None:
    """The transcript of the negotiation of a header to go on from, if there is one.

    `resume` is True if there must be one, False if whatever is there does not count.
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


class Recording:
    """A channel on record: it gives the answers of a transcript, then asks on and writes down what comes.

    A question that differs from the recorded one by more than rounding is an error. Without anybody `live` to ask, so
    is the end of the transcript. Use it in a `with` statement.
    """

    def __init__(self, transcript: Transcript, live: Channel | None = None) -> None:
        self._transcript, self._live = transcript, live
        self._exchanges = transcript.exchanges()
        self._file: BinaryIO | None = None
        self.played = 0

    @classmethod
    def begin(cls, live: Channel, path: Path, header: Header) -> Recording:
        """In a new file; one of that name is replaced."""
        line = encode_line({"transcript": TRANSCRIPT_VERSION, **asdict(header)}) + "\n"
        replace_text(path, line)
        return cls(Transcript(path=path, header=header, count=0, deal=None, length=len(line)), live)

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self._transcript.header.agents

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """The recorded answers to these questions, or those of the agents as they were written down."""
        exchange = next(self._exchanges, None)
        asked = {str(index): question for index, question in questions.items()}
        if exchange is None:
            exchange = self._ask_live(questions, asked)
        else:
            self.played += 1
            if not _is_same(asked, exchange["questions"]):
                self._fail("the questions are not those that follow from the answers before")
        return {int(index): answer for index, answer in exchange["answers"].items()}

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the last line: the deal as plain data."""
        self._write(encode_line({"deal": record}))

    def check_over(self) -> None:
        """Raise `InvalidInput` if the transcript goes on."""
        if next(self._exchanges, None) is not None:
            self.played += 1
            self._fail("the negotiation was over before this exchange")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # of a line that could not be written, which was said then
            if self._file is not None:
                self._file.close()

    def _ask_live(self, questions: Mapping[int, dict[str, Any]], asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._live is None and self._transcript.deal is not None:
            self._fail("a deal is stated where the exchanges before lead to more questions")
        if self._live is None:
            raise InvalidInput(
                f"{self._transcript.path}: the negotiation broke off after {self.played} exchanges; "
                f"`fedpact negotiate` with this transcript goes on from there"
            )
        answers = self._live.ask(questions)
        received = {str(index): answers[index] for index in questions if answers.get(index) is not None}
        line = encode_line({"questions": asked, "answers": received})
        self._write(line)
        exchange: Mapping[str, Any] = json.loads(line)
        return exchange

    def _write(self, line: str) -> None:
        path = self._transcript.path
        try:
            if self._file is None:  # in place of a line that was cut off
                self._file = path.open("r+b")
                self._file.truncate(self._transcript.length)
                self._file.seek(self._transcript.length - 1)
                if self._file.read() != b"\n":
                    self._file.write(b"\n")
            self._file.write(f"{line}\n".encode())
            self._file.flush()
        except OSError as error:
            raise InvalidInput(
                f"{self._transcript.path}: the transcript cannot be written: {error.strerror}"
            ) from error

    def _fail(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"{self._transcript.path}: line {self.played + 1}: {what}; the transcript was changed, or written by "
            f"another version of fedpact"
        )


def _header(entry: dict[str, Any]) -> Header:
    if "transcript" not in entry:
        must = f'a transcript must begin with {{"transcript": {TRANSCRIPT_VERSION}, ...}}'
        raise InvalidInput(f"{must}, got {short_repr(entry)}; {MAKE_ONE}")
    if entry["transcript"] != TRANSCRIPT_VERSION:
        raise InvalidInput(
            f"transcripts of version {TRANSCRIPT_VERSION} can be read, got {short_repr(entry['transcript'])}; "
            f"use the version of fedpact that wrote it"
        )
    given = {field.name: entry.get(field.name) for field in fields(Header)}
    for key, (holds, rule) in HEADER_RULES.items():
        if not holds(given[key]):
            raise InvalidInput(f"{key} must be {rule}, got {short_repr(given[key])}")
    return Header(**given | {"agents": tuple(given["agents"] or ())})


def _check_exchange(entry: dict[str, Any], size: int) -> None:
    """Questions that are objects, and answers to some of them, by member."""
    asked, said, members = entry.get("questions"), entry.get("answers"), set(map(str, range(size)))
    sound = isinstance(asked, dict) and isinstance(said, dict) and said.keys() <= asked.keys() <= members
    if not sound or not all(isinstance(question, dict) for question in entry["questions"].values()):
        must = f"must have questions and answers to them, by member from 0 to {size - 1}"
        raise InvalidInput(f"an exchange {must}, got {short_repr(entry)}")


def _is_same(asked: Any, recorded: Any) -> bool:
    """Whether questions agree up to rounding; of a list of numbers, of the largest."""
    if isinstance(asked, dict):
        known = isinstance(recorded, dict) and asked.keys() == recorded.keys()
        return known and all(_is_same(entry, recorded[key]) for key, entry in asked.items())
    if isinstance(asked, float):
        asked, recorded = [asked], [recorded]
    if not isinstance(asked, list) or asked == recorded:
        return bool(asked == recorded)
    if not isinstance(recorded, list) or len(asked) != len(recorded):
        return False
    if any(isinstance(entry, list | dict) for entry in asked):
        return all(_is_same(*pair) for pair in zip(asked, recorded, strict=True))
    if not all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in [*asked, *recorded]):
        return False
    numbers = np.array(asked, dtype=np.float64)
    apart = np.abs(numbers - np.array(recorded, dtype=np.float64))
    return bool((apart <= QUESTION_ROUNDING * np.abs(numbers).max()).all())
