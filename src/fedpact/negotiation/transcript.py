"""Transcripts: what was asked and answered in a negotiation, as lines of JSON that can be played back.

The first line says what the negotiation is, every other holds one exchange, and the last the deal if there is one:

    {"transcript": 1, "protocol": "price-discovery", "game": true, "agents": ["A", ...], ...}
    {"questions": {"0": {...}, ...}, "answers": {"0": {...}, ...}}
    {"deal": {"mechanism": "externality", "agents": [...], "contributions": [...], "payments": [...], ...}}

Everything a coordinator knows it knows from answers, so the exchanges alone determine the deal. A line is on disk
before its answers are used: an interruption loses the exchange under way and no other. The coordinator is given what
was written, so that an answer played back cannot end in anything else than it did at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np

from fedpact.negotiation.channels import Channel
from fedpact.negotiation.coordinator import PROTOCOLS, coordinate
from fedpact.negotiation.deal import Deal
from fedpact.negotiation.table import Listener
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import error_context, read_bytes, replace_text, short_repr
from fedpact.utils.jsonl import decode_line, encode_line, numbered_lines, whole_lines

__all__ = ["Header", "Playback", "Recorder", "Transcript", "read_transcript", "recompute"]

VERSION = 1
SAME = 1e-6  # of the largest number of a list: questions closer than this differ by the rounding of another machine


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is negotiated, and by which rules.

    Attributes
    ----------
    protocol, game, tol, most_rounds
        As `coordinate` takes them.
    agents
        Everybody's names, by place.
    title
        For people.
    scenario
        The `fingerprint` of the federation, or None where the coordinator does not know it.
    """

    protocol: str
    game: bool
    tol: float
    most_rounds: int
    agents: tuple[str, ...]
    title: str = ""
    scenario: str | None = None

    @classmethod
    def of(
        cls, agents: Sequence[str], *, protocol: str, game: bool, title: str = "", scenario: str | None = None
    ) -> Header:
        """The header of a negotiation by a protocol's usual rules."""
        if protocol not in PROTOCOLS:
            raise InvalidInput(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        _, tol, most_rounds = PROTOCOLS[protocol]
        return cls(
            protocol=protocol,
            game=game,
            tol=tol,
            most_rounds=most_rounds,
            agents=tuple(agents),
            title=title,
            scenario=scenario,
        )

    @property
    def told(self) -> str:
        """In words: which negotiation this is."""
        what = f'of "{self.title}"' if self.title else f"between {len(self.agents)} agents"
        return f"the negotiation {what} by {self.protocol}{'' if self.game else ' without the game'}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Transcript:
    """A transcript on disk.

    Attributes
    ----------
    path, header
        Where it is, and what its first line says.
    count
        Of its exchanges.
    deal
        What its last line says the deal is; None while the negotiation is not over.
    length
        In bytes, without a last line that was cut off.
    """

    path: Path
    header: Header
    count: int
    deal: Mapping[str, Any] | None
    length: int

    def exchanges(self) -> Iterator[Mapping[str, Any]]:
        """The exchanges one by one, read anew: long negotiations need not fit in memory."""
        for number, line in numbered_lines(self.path, self.length):
            entry = decode_line(line) if number > 1 else {}
            if "questions" in entry:
                yield entry


def read_transcript(path: Path) -> Transcript:
    """A transcript; of a last line that was cut off nothing is used.

    Raises
    ------
    InvalidInput
        If the file is not a transcript, or a line is not what it must be; the error names the line.
    """
    with error_context(str(path)):
        content = read_bytes(path)
        length = whole_lines(content)
        if not content[:length].strip():
            raise InvalidInput("the file holds no transcript; `fedpact negotiate --transcript` writes one")
    header, deal, count = None, None, 0
    for number, line in numbered_lines(path, length):
        with error_context(f"{path}: line {number}"):
            entry = decode_line(line)
            if header is None:
                header = _header(entry)
            elif deal is not None:
                raise InvalidInput("nothing may follow the deal")
            elif "deal" in entry:
                deal = _checked_deal(entry)
            else:
                _check_exchange(entry, len(header.agents))
                count += 1
    assert header is not None
    return Transcript(path=path, header=header, count=count, deal=deal, length=length)


def recompute(transcript: Transcript, *, listener: Listener | None = None) -> Deal:
    """The deal that follows from a transcript's exchanges alone.

    Raises
    ------
    InvalidInput
        If the exchanges end before there is a deal, or are not those of a negotiation by the rules of its header.
    """
    playback = Playback(transcript)
    deal = negotiated(playback, transcript.header, listener=listener)
    playback.check_over()
    return deal


def negotiated(channel: Channel, header: Header, *, listener: Listener | None = None) -> Deal:
    """The deal of whoever is at the other end, by the rules of a header."""
    return coordinate(
        channel,
        protocol=header.protocol,
        game=header.game,
        tol=header.tol,
        most_rounds=header.most_rounds,
        listener=listener,
    )


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
            return self._asked_on(questions)
        self.played += 1
        asked = {str(place): question for place, question in questions.items()}
        if not _same(asked, exchange["questions"]):
            self._fail("the questions are not those that follow from the answers before")
        return _by_place(exchange["answers"])

    def check_over(self) -> None:
        """Raise `InvalidInput` if the transcript goes on."""
        if next(self._exchanges, None) is not None:
            self.played += 1
            self._fail("the negotiation was over before this exchange")

    def _asked_on(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
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
        self.count = 0
        with self._writing():
            self._file = path.open("r+b")
            self._file.truncate(length)
            self._file.seek(length - 1)
            if self._file.read() != b"\n":
                self._file.write(b"\n")

    @classmethod
    def begin(cls, live: Channel, path: Path, header: Header) -> Recorder:
        """Into a new file; one of that name is replaced."""
        line = encode_line({"transcript": VERSION, **asdict(header)}) + "\n"
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
        heard = {str(place): answers[place] for place in questions if answers.get(place) is not None}
        asked = {str(place): question for place, question in questions.items()}
        line = encode_line({"questions": asked, "answers": heard})
        self._write(line + "\n")
        self.count += 1
        return _by_place(json.loads(line)["answers"])

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the last line: the deal as plain data."""
        self._write(encode_line({"deal": record}) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def _header(entry: dict[str, Any]) -> Header:
    if "transcript" not in entry:
        raise InvalidInput(
            f'a transcript must begin with {{"transcript": {VERSION}, ...}}, got {short_repr(entry)}; '
            f"`fedpact negotiate --transcript` writes one"
        )
    if entry["transcript"] != VERSION:
        raise InvalidInput(
            f"transcripts of version {VERSION} can be read, got {short_repr(entry['transcript'])}; "
            f"use the version of fedpact that wrote it"
        )
    given = {field.name: entry.get(field.name) for field in fields(Header)}
    for key, (holds, rule) in HEADER_RULES.items():
        if not holds(given[key]):
            raise InvalidInput(f"{key} must be {rule}, got {short_repr(given[key])}")
    return Header(**given | {"agents": tuple(given["agents"] or ())})


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


HEADER_RULES: dict[str, tuple[Any, str]] = {
    "protocol": (lambda given: isinstance(given, str) and given in PROTOCOLS, f"one of {', '.join(PROTOCOLS)}"),
    "game": (lambda given: isinstance(given, bool), "true or false"),
    "tol": (lambda given: _is_number(given) and 0 < given < 1, "a number between 0 and 1"),
    "most_rounds": (lambda given: isinstance(given, int) and _is_number(given) and given > 0, "a count of rounds"),
    "agents": (
        lambda given: isinstance(given, list) and bool(given) and all(isinstance(name, str) for name in given),
        "a list of names",
    ),
    "title": (lambda given: isinstance(given, str), "a text"),
    "scenario": (lambda given: given is None or isinstance(given, str), "a text or null"),
}


def _checked_deal(entry: dict[str, Any]) -> dict[str, Any]:
    deal = entry["deal"]
    if not isinstance(deal, dict):
        raise InvalidInput(f"deal must be a JSON object, got {short_repr(deal)}")
    return deal


def _check_exchange(entry: dict[str, Any], size: int) -> None:
    places = {str(place) for place in range(size)}
    for key in ("questions", "answers"):
        said = entry.get(key)
        if not isinstance(said, dict):
            raise InvalidInput(
                f"an exchange must have {key} by agent, got {short_repr(said if key in entry else entry)}"
            )
        for place in said:
            if place not in places:
                raise InvalidInput(f"{key} must be by agent, from 0 to {size - 1}, got {short_repr(place)}")
    for place, question in entry["questions"].items():
        if not isinstance(question, dict):
            raise InvalidInput(f"questions[{place}] must be a JSON object, got {short_repr(question)}")
    for place in entry["answers"]:
        if place not in entry["questions"]:
            raise InvalidInput(f"answers[{place}] must have a question to it")


def _same(asked: Any, recorded: Any) -> bool:
    """Whether questions agree up to rounding."""
    if isinstance(asked, dict):
        known = isinstance(recorded, dict) and asked.keys() == recorded.keys()
        return known and all(_same(entry, recorded[key]) for key, entry in asked.items())
    if isinstance(asked, list):
        return isinstance(recorded, list) and len(asked) == len(recorded) and _near(asked, recorded)
    if isinstance(asked, float):
        return _near([asked], [recorded])
    return bool(asked == recorded)


def _near(asked: list[Any], recorded: list[Any]) -> bool:
    """Whether numbers are the same up to a share of the largest."""
    if asked == recorded:
        return True
    if not all(_is_number(entry) for entry in [*asked, *recorded]):
        return False
    numbers = np.array(asked, dtype=np.float64)
    apart = np.abs(numbers - np.array(recorded, dtype=np.float64))
    return bool((apart <= SAME * np.abs(numbers).max()).all())
