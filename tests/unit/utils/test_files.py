"""Files are read whole with a reason for every failure, and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.files import (
    DECODERS,
    choose_format,
    read_bytes,
    read_text,
    replace_files,
    replace_text,
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (5, "5"),
        ("x" * 500, None),
        (list(range(1000)), "[0, 1, 2, 3, ...]"),
        (10**5000, "an integer of 16610 bits"),
        ([[[[1]]]], None),
        ({"k": list(range(50))}, None),
    ],
    ids=["number", "text", "list", "integer", "nested", "table"],
)
def test_shown_is_short_and_on_one_line(given: object, text: str | None) -> None:
    assert len(short_repr(given)) <= 80
    assert "\n" not in short_repr(given)
    if text is not None:
        assert short_repr(given) == text


def test_suffix_chooses_without_regard_to_case() -> None:
    formats = {".toml": 1, ".json": 2}
    assert choose_format(Path("A.TOML"), formats) == 1
    with pytest.raises(InvalidInput, match=r"must end in \.toml or \.json, got 'a\.yaml'"):
        choose_format(Path("a.yaml"), formats)


def test_reading_says_why_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read_bytes(tmp_path / "missing")
    with pytest.raises(InvalidInput, match="this is a folder"):
        read_bytes(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_bytes(tmp_path / ("long" * 200))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_bytes(Path("nul\0byte"))


def test_text_is_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfZ\xc3\xbcrich")
    assert read_text(path) == "Zürich"
    path.write_bytes(b"one\ntwo\xff")
    with pytest.raises(InvalidInput, match="byte 0xff on line 2 is not"):
        read_text(path)
    path.write_bytes(b" \n\t ")
    with pytest.raises(InvalidInput, match="the file is empty"):
        read_text(path)


def test_writing_replaces(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old", encoding="utf-8")
    replace_text(path, "neu: ü")
    assert path.read_bytes() == "neu: ü".encode()
    assert os.listdir(tmp_path) == ["page.html"]


def test_writing_fails_before_anything_is_lost(tmp_path: Path) -> None:
    """The second of two files cannot be written: the first stays as it was, and no drafts are left."""
    first = tmp_path / "first"
    first.write_text("old", encoding="utf-8")
    (tmp_path / "second").mkdir()
    with pytest.raises(InvalidInput, match="this is a folder"):
        replace_files({first: b"new", tmp_path / "second": b"new"})
    assert first.read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_writing_says_where_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"page\.html: there is no such folder; make it first"):
        replace_text(tmp_path / "none" / "page.html", "x")
    with pytest.raises(InvalidInput, match="this is a folder"):
        replace_text(tmp_path, "x")
    with pytest.raises(InvalidInput, match="cannot be written"):
        replace_text(tmp_path / ("long" * 200), "x")
    assert os.listdir(tmp_path) == []


def test_a_path_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput):
        replace_text(Path("."), "x")


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder"])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out.csv"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/null")
        case "link":
            path.symlink_to("/dev/null")
        case "folder":
            path.mkdir()
    before = os.lstat(path)
    with pytest.raises(InvalidInput, match=r"device or a pipe|folder"):
        replace_text(path, "x")
    after = os.lstat(path)
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)


def test_files_beyond_the_limit_are_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(InvalidInput, match=r"more than 256 MiB, the most that is read"):
        read_text(tmp_path / "huge.json")
    (tmp_path / "small.json").write_bytes(b"12345")
    assert read_bytes(tmp_path / "small.json", max_bytes=5) == b"12345"
    with pytest.raises(InvalidInput, match="the most that is read"):
        read_bytes(tmp_path / "small.json", max_bytes=4)


def test_toml_beyond_its_own_limit_is_refused_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's reader of TOML takes half a minute for what JSON is read from in seconds."""
    monkeypatch.setattr("fedpact.utils.files.MAX_TOML_BYTES", 1 << 20)
    with pytest.raises(InvalidInput, match="more than 1 MiB, the most that is read"):
        DECODERS[".toml"]("this is no TOML" + " " * (1 << 20))
    assert DECODERS[".json"]("[1" + " " * (1 << 20) + "]") == [1]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of Unix")
def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 2 MiB"):
        read_bytes(Path("/dev/zero"), max_bytes=2 << 20)
