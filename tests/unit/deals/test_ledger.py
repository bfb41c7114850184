"""Ledgers: append-only, chained, and cut off nowhere that matters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedpact as fp
from fedpact.deals import Ledger, is_ledger, read_ledger
from fedpact.deals.ledger import BEGINNING


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def written(path: Path, *contents: Any) -> list[Any]:
    with Ledger(path) as ledger:
        return [ledger.append("begun" if not ledger.entries else "noted", content) for content in contents]


def test_entries_are_chained(path: Path) -> None:
    first, second = written(path, {"a": 1}, {"b": [0.1, None, "ü", True]})
    chain = read_ledger(path)
    assert chain.entries == (first, second)
    assert (first.previous, second.previous) == (BEGINNING, first.hash)
    assert (first.seq, second.seq) == (0, 1)
    assert chain.head == second.hash and chain.broken is None and not chain.cut_off


def test_opened_again_it_goes_on(path: Path) -> None:
    first = written(path, {"a": 1})
    again = written(path, {"b": 2})
    assert list(read_ledger(path).entries) == first + again


def test_floats_survive_bit_for_bit(path: Path) -> None:
    numbers = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 1.0]
    (entry,) = written(path, {"numbers": numbers})
    assert read_ledger(path).entries[0].content["numbers"] == numbers
    assert [str(number) for number in entry.content["numbers"]] == [str(number) for number in numbers]


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": "\ud800"}])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(path: Path, content: Any) -> None:
    written(path, {})
    before = path.read_bytes()
    with pytest.raises(fp.InvalidInput, match="plain data that JSON can hold"):
        written(path, content)
    assert path.read_bytes() == before


def test_cut_off_anywhere_in_the_last_line(path: Path) -> None:
    first, second = written(path, {"a": 1}, {"b": 2})
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    for length in range(start, len(content)):
        path.write_bytes(content[:length])
        # Without its line break alone it is whole.
        stands = (first, second) if length == len(content) - 1 else (first,)
        assert read_ledger(path).entries == stands
        assert read_ledger(path).broken is None
        with Ledger(path) as ledger:
            assert ledger.entries == stands
            third = ledger.append("noted", {"c": 3})
        assert read_ledger(path).entries == (*stands, third)


def changes(lines: list[bytes]) -> dict[str, list[bytes]]:
    """A ledger of four entries, tampered with."""
    second = json.loads(lines[1])

    def rewritten(**fields: Any) -> bytes:
        return json.dumps(second | fields, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    return {
        "content": [lines[0], lines[1].replace(b'"b":2', b'"b":3'), *lines[2:]],
        "removed": [lines[0], *lines[2:]],
        "swapped": [lines[0], lines[2], lines[1], lines[3]],
        "doubled": [lines[0], lines[1], lines[1], *lines[2:]],
        "spaces": [lines[0], lines[1].replace(b'":', b'": ', 1), *lines[2:]],
        "doubled key": [lines[0], lines[1].replace(b'"content":{', b'"content":{"b":9,', 1), *lines[2:]],
        "time": [lines[0], rewritten(time="2000-01-01T00:00:00Z"), *lines[2:]],
        "seq as truth": [lines[0], rewritten(seq=True), *lines[2:]],
        "no hash": [lines[0], rewritten(hash=None), *lines[2:]],
        "other keys": [lines[0], rewritten(more=1), *lines[2:]],
        "not JSON": [lines[0], b"{\n", *lines[2:]],
        "blank line": [lines[0], b"\n", *lines[1:]],
    }


@pytest.mark.parametrize("change", list(changes([b'{"a":1}\n'] * 4)))
def test_no_change_goes_unnoticed(path: Path, change: str) -> None:
    entries = written(path, {"a": 1}, {"b": 2}, {"c": 3}, {"d": 4})
    path.write_bytes(b"".join(changes(path.read_bytes().splitlines(keepends=True))[change]))
    chain = read_ledger(path)
    stands = 2 if change == "doubled" else 1
    assert chain.entries == tuple(entries[:stands]) and chain.broken
    with pytest.raises(fp.InvalidInput, match=f"line {stands + 1} .*nothing is added to a ledger that was changed"):
        Ledger(path)
    assert read_ledger(path).broken is not None


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", None), (b"{}\n", "keys of an entry"), (b"not JSON\n", "valid JSON"), (b'{"transcript": 2}\n', "keys")],
)
def test_files_that_are_no_ledgers(path: Path, content: bytes, problem: str | None) -> None:
    path.write_bytes(content)
    assert not is_ledger(path)
    if problem:
        with pytest.raises(fp.InvalidInput, match=f"this is no ledger: line 1 .*{problem}"):
            read_ledger(path)
    else:
        assert read_ledger(path).entries == ()


def test_one_writer_at_a_time_and_none_after_it_died(path: Path) -> None:
    code = (
        "import sys, os, time; from pathlib import Path; from fedpact.deals import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1])); ledger.append('begun', {'by': 'other'}); print('open', flush=True)\n"
        "time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(fp.InvalidInput, match="another process is writing"):
            Ledger(path)
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
    assert len(written(path, {"more": 1})) == 1
    assert [entry.content.get("by") for entry in read_ledger(path).entries] == ["other", None]


def test_a_patient_writer_waits_until_the_other_has_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Ledger(path)
    first.append("begun", {"by": "other"})
    monkeypatch.setattr("fedpact.deals.ledger.time.sleep", lambda seconds: first.close())  # it ends meanwhile
    with Ledger(path, patience=60.0) as ledger:
        assert [entry.content["by"] for entry in ledger.entries] == ["other"]
