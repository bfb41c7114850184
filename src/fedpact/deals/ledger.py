"""A ledger on disk: lines of JSON, each chained to the last by hash, and only ever added to.

    {"content": {...}, "hash": "...", "kind": "negotiated", "previous": "...", "seq": 2, "time": "2026-01-31T12:00:00Z"}

A line is the one way to write its entry: keys sorted, no spaces. Its hash is the SHA-256 of that line without the hash,
and the hash before it is part of it, so no entry can be changed, removed, added or moved without changing all that
follow. Whoever writes the ledger can change all that follow: what keeps it from that are the members' signatures, which
name the hash the ledger ended in when they signed (`fedpact.deals.signatures`). That the last entries are missing only
somebody who knows a later hash can tell: every member keeps a receipt.

A ledger is what members sign. What nobody signs belongs into a table, such as a CSV file, or the file of a deal.

An entry counts once its line is on the disk. A last line that was cut off is no entry, and is dropped when the ledger
is opened to write.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self

from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import check_writable, read_bytes
from fedpact.utils.jsonl import decode_line

try:
    import fcntl
except ImportError:  # Windows: nobody is kept from opening a ledger twice
    fcntl = None  # type: ignore[assignment]

BEGINNING = "0" * 64  # the hash before the first entry
FIRST = "begun"  # the kind of the first entry
VERSION = 3

# The phases of a run, each the kind of an entry.
KEYS = "keys"  # members' public keys
AGREED, SIGNED, TRAINED, MEASURED, SETTLED, FAILED = "agreed", "signed", "trained", "measured", "settled", "failed"
VERIFIED = "verified"  # what members measured of models made of subsets of the updates
VERIFY, SETTLE = "verify", "settle"  # phases that can be tried again: a failure there leaves the deal as it is
ASK_AGAIN = 0.2  # seconds between looks whether another process has ended
MAX_FIRST_LINE = 1 << 24  # bytes that are read to tell ledgers and transcripts from other files


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a ledger: its index from 0, when it was written in UTC, what happened, and the chain of hashes."""

    seq: int
    time: str
    kind: str
    content: Mapping[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What a ledger's file holds: entries that are sound, from the first, in so many bytes.

    `broken` is what is wrong with the line after them, or None; the end of a line that was cut off does not count.
    """

    entries: tuple[Entry, ...]
    length: int
    broken: str | None
    cut_off: bool

    @property
    def head(self) -> str:
        """The hash it ends in."""
        return self.entries[-1].hash if self.entries else BEGINNING


def is_end(entry: Entry) -> bool:
    """Whether an entry makes the deal before it void; to verify and to settle can be tried again."""
    return entry.kind == FAILED and entry.content.get("phase") not in (VERIFY, SETTLE)


def read_ledger(path: Path) -> Chain:
    """A ledger as far as its chain holds; its first line must be a ledger's."""
    with error_context(str(path)):
        content = read_bytes(path)
        chain = _follow_chain(content)
        if not chain.entries and content:
            raise InvalidInput(f"this is no ledger: line 1 {chain.broken or 'was cut off'}")
    return chain


def is_ledger(path: Path) -> bool:
    """Whether a file begins like a ledger."""
    first = first_record(path)
    return isinstance(first.get("content"), dict) and "ledger" in first["content"] and "previous" in first


def first_record(path: Path) -> dict[str, Any]:
    """The first line of a file as an object of JSON; an empty one where it is none."""
    try:
        if path.is_fifo():
            return {}
        with path.open("rb") as file:
            return decode_line(file.readline(MAX_FIRST_LINE))
    except (OSError, InvalidInput):
        return {}


class Ledger:
    """A ledger open for writing; nobody else can write to it at the same time. Use it in a `with` statement.

    If another process is writing to it, it is waited for so many seconds of `patience`.
    """

    def __init__(self, path: Path, *, patience: float = 0.0) -> None:
        self.path = path
        with error_context(str(path)):
            check_writable(path)
            try:
                self._file: BinaryIO = open(path, "a+b")  # noqa: SIM115 - closed by `close`
            except OSError as error:
                raise InvalidInput(f"the ledger cannot be opened: {error.strerror}") from error
            try:
                self._lock(time.monotonic() + patience)
                self._entries = self._sound_entries()
            except BaseException:
                self._file.close()
                raise

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order."""
        return tuple(self._entries)

    @property
    def head(self) -> str:
        """The hash it ends in."""
        return self._entries[-1].hash if self._entries else BEGINNING

    def last(self, *kinds: str) -> Entry | None:
        """The last entry of these kinds, or of any."""
        return next((entry for entry in reversed(self._entries) if not kinds or entry.kind in kinds), None)

    def append(self, kind: str, content: Mapping[str, Any]) -> Entry:
        """Add an entry; it is on the disk when this returns.

        Content is plain data that JSON can hold: a number that is not finite is refused.
        """
        if not self._entries:
            if kind != FIRST:
                raise InvalidInput(f"the first entry must be of kind {FIRST!r}, got {kind!r}")
            content = {"ledger": VERSION, **content}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"seq": len(self._entries), "time": now, "kind": kind, "content": content, "previous": self.head}
        with error_context(str(self.path)):
            plain = json.loads(canonical_json(fields))
            entry = Entry(**plain, hash=_digest(plain))
            self._write(_line(entry))
        self._entries.append(entry)
        return entry

    def close(self) -> None:
        """Let others write."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self, deadline: float) -> None:
        while fcntl is not None:
            try:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise InvalidInput("another process is writing to this ledger; wait for it, or end it") from error
                time.sleep(ASK_AGAIN)
            except OSError as error:
                raise InvalidInput(f"the ledger cannot be locked: {error.strerror}; keep it on a local disk") from error
            else:
                return

    def _sound_entries(self) -> list[Entry]:
        """What the file holds; a line that was cut off is dropped."""
        self._file.seek(0)
        content = self._file.read()
        chain = _follow_chain(content)
        if chain.broken is not None:
            raise InvalidInput(
                f"line {len(chain.entries) + 1} {chain.broken}; nothing is added to a ledger that was changed: "
                f"name another folder, and keep this one as evidence"
            )
        if chain.cut_off:
            self._file.truncate(chain.length)
        elif content and not content.endswith(b"\n"):
            self._write(b"\n")
        return list(chain.entries)

    def _write(self, line: bytes) -> None:
        if self._file.closed:
            raise InvalidInput("the ledger is closed; open it anew")
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:  # part of the line may be there: it is dropped when the ledger is opened anew
            with suppress(OSError):
                self._file.close()
            raise InvalidInput(f"the ledger cannot be written: {error.strerror}") from error


def _follow_chain(content: bytes) -> Chain:
    """The entries of a file's content up to the first line that is not the next entry."""
    entries: list[Entry] = []
    length = 0
    while length < len(content):
        end = content.find(b"\n", length)
        whole = end >= 0
        line = content[length : end + 1] if whole else content[length:] + b"\n"
        previous = entries[-1].hash if entries else BEGINNING
        try:
            entry = _entry(line, len(entries), previous)
        except InvalidInput as error:
            broken = str(error) if whole else None
            return Chain(entries=tuple(entries), length=length, broken=broken, cut_off=not whole)
        entries.append(entry)
        length = end + 1 if whole else len(content)
    return Chain(entries=tuple(entries), length=length, broken=None, cut_off=False)


def _entry(line: bytes, seq: int, previous: str) -> Entry:
    """The next entry of a ledger, checked."""
    found = decode_line(line, record=True)
    if found.keys() != Entry.__dataclass_fields__.keys():
        raise InvalidInput(f"must have the keys of an entry, got {short_repr(list(found))}")
    for key, wanted in (("seq", seq), ("previous", previous)):
        if found[key] != wanted or type(found[key]) is not type(wanted):
            raise InvalidInput(f"must have {key} {short_repr(wanted)}, got {short_repr(found[key])}")
    for key, kind in (("content", dict), ("kind", str), ("time", str), ("hash", str)):
        if not isinstance(found[key], kind):
            raise InvalidInput(f"must have a {key}, got {short_repr(found[key])}")
    if seq == 0 and (found["kind"] != FIRST or found["content"].get("ledger") != VERSION):
        raise InvalidInput(
            f'must be of kind {FIRST!r} and hold {{"ledger": {VERSION}}}: ledgers of version 0.2 are not read'
        )
    entry = Entry(**found)
    if entry.hash != _own_hash(entry) or line != _line(entry):
        raise InvalidInput("does not have the hash of what it says: it was changed")
    return entry


def chained_entries(stated: Any, *, after: str) -> list[Entry]:
    """Entries that somebody shows, as plain data, if each is chained to the last and the first to this hash."""
    found: list[Entry] = []
    for each in stated if isinstance(stated, list) else []:
        if not isinstance(each, dict) or each.keys() != Entry.__dataclass_fields__.keys():
            raise InvalidInput(f"entries must have the keys of an entry, got {short_repr(each)}")
        entry = Entry(**each)
        if entry.previous != (found[-1].hash if found else after) or entry.hash != _own_hash(entry):
            raise InvalidInput("the entries are not chained to each other, or were changed")
        found.append(entry)
    return found


def _own_hash(entry: Entry) -> str:
    """The hash of what an entry says."""
    return _digest({key: part for key, part in vars(entry).items() if key != "hash"})


def _line(entry: Entry) -> bytes:
    return canonical_json(vars(entry)) + b"\n"


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(fields)).hexdigest()


def canonical_json(fields: Mapping[str, Any]) -> bytes:
    """The one way to write plain data."""
    try:
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is one of them
        raise InvalidInput(f"an entry must be plain data that JSON can hold: {error}") from error
