"""Transcripts: what was asked and answered in a negotiation, as lines of JSON.

The first line says what the negotiation is, every other holds one exchange, and the last the deal if there is one:

    {"transcript": 2, "mechanism": "externality", "protocol": "price-discovery", "agents": ["A", ...], ...}
    {"questions": {"0": {...}, ...}, "answers": {"0": {...}, ...}}
    {"deal": {"mechanism": "externality", "agents": [...], "contributions": [...], "payments": [...], ...}}

Here they are read; `fedpact.negotiation.recording` writes them and plays them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import decode_line, numbered_lines, whole_lines_length

TRANSCRIPT_VERSION = 2
TRANSCRIPT_SUFFIX = ".jsonl"
PROTOCOL_NAMES = ("price-discovery", "sums")
MAX_FIRST_LINE = 1 << 24  # bytes that are read to tell a transcript from other files


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is negotiated, and by which rules.

    Attributes
    ----------
    mechanism, protocol
        As `coordinate` takes them.
    agents
        Everybody's names, by place.
    title
        For people.
    scenario
        The `fingerprint` of the federation, or None where the coordinator does not know it.
    consent
        Whether everybody was asked to accept the deal.
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
            entry = decode_line(line, record=True) if number > 1 else {}
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
        length = whole_lines_length(content)
        if not content[:length].strip():
            raise InvalidInput("the file holds no transcript; `fedpact negotiate --transcript` writes one")
    header, deal, count = None, None, 0
    for number, line in numbered_lines(path, length):
        with error_context(f"{path}: line {number}"):
            entry = decode_line(line, record=True)
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


def is_transcript(path: Path) -> bool:
    """Whether a file begins like a transcript, or is named like one."""
    if path.suffix.lower() == TRANSCRIPT_SUFFIX:
        return True
    if path.is_fifo():
        return False
    try:
        with path.open("rb") as file:
            return "transcript" in decode_line(file.readline(MAX_FIRST_LINE))
    except (OSError, InvalidInput):
        return False


def _header(entry: dict[str, Any]) -> Header:
    if "transcript" not in entry:
        raise InvalidInput(
            f'a transcript must begin with {{"transcript": {TRANSCRIPT_VERSION}, ...}}, got {short_repr(entry)}; '
            f"`fedpact negotiate --transcript` writes one"
        )
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


HEADER_RULES: dict[str, tuple[Any, str]] = {
    "mechanism": (lambda given: isinstance(given, str) and bool(given), "the name of a mechanism"),
    "protocol": (lambda given: given in PROTOCOL_NAMES, f"one of {', '.join(PROTOCOL_NAMES)}"),
    "agents": (
        lambda given: isinstance(given, list) and bool(given) and all(isinstance(name, str) for name in given),
        "a list of names",
    ),
    "title": (lambda given: isinstance(given, str), "a text"),
    "consent": (lambda given: isinstance(given, bool), "true or false"),
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
                f"an exchange must have {key} by member, got {short_repr(said if key in entry else entry)}"
            )
        for place in said:
            if place not in places:
                raise InvalidInput(f"{key} must be by member, from 0 to {size - 1}, got {short_repr(place)}")
    for place, question in entry["questions"].items():
        if not isinstance(question, dict):
            raise InvalidInput(f"questions[{place}] must be a JSON object, got {short_repr(question)}")
    for place in entry["answers"]:
        if place not in entry["questions"]:
            raise InvalidInput(f"answers[{place}] must have a question to it")
