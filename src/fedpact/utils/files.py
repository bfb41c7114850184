"""Bytes in and out of files, and texts into plain data.

Files are written whole or not at all. Compressed archives of arrays and Parquet are small on the disk and large in
memory: what they say they hold is looked at before it is read. Every failure is an `InvalidInput` that leaves out the
file's name; callers add it with `error_context`.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
import tomllib
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import InvalidInput, error_context, short_repr

Format = TypeVar("Format")

PRIVATE = 0o600
MAX_FILE_BYTES = 1 << 32
MAX_ARRAY_BYTES = 1 << 30  # that the arrays of a file take together
PART_BYTES = 1 << 20
MAX_TEXT_BYTES = 1 << 28  # a matrix of 3,700 agents with all digits, read in a few seconds
MAX_TOML_BYTES = 1 << 25  # Python's reader of TOML is slow: seconds for each of a few megabytes
DECIMAL_COMMA = re.compile(r"^[^#\"\[]*=\s*-?\d+,\d", re.MULTILINE)
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # of what spreadsheets call Unicode text


def choose_format(path: Path, formats: Mapping[str, Format]) -> Format:
    """The entry for the kind of file that `path` is."""
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise InvalidInput(f"the file's name must end in {' or '.join(formats)}, got {short_repr(path.name)}")
    return formats[suffix]


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """All of a file, which has a limit: devices never end."""
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise InvalidInput("there is no such file; check the path") from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the file cannot be read: {_reason(error)}") from error
    if stat.S_ISFIFO(found.st_mode):
        raise InvalidInput("this is a pipe, not a file; write what comes through it to a file first")
    length = found.st_size
    try:
        with path.open("rb") as file:
            parts = iter(lambda: file.read(PART_BYTES), b"")
            content = b"".join(islice(parts, max_bytes // PART_BYTES + 1)) if length <= max_bytes else b""
    except IsADirectoryError as error:
        raise InvalidInput("this is a folder; name a file in it") from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the file cannot be read: {_reason(error)}") from error
    _check_length(max(length, len(content)), max_bytes)
    return content


def _check_length(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise InvalidInput(
            f"the file has more than {max_bytes >> 20:,} MiB, the most that is read; large weights fit in an .npz file"
        )


def read_text(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """All of a UTF-8 file, without the byte order mark that some editors write; UTF-16 where such a mark says so."""
    content = read_bytes(path, max_bytes=max_bytes)
    try:
        decoded = content.decode("utf-16" if content[:2] in UTF_16_MARKS else "utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise InvalidInput("the file is binary, no text and no table; save what it holds as text first") from error
        line = error.object.count(b"\n", 0, error.start) + 1  # the decoder has taken a mark away
        raise InvalidInput(
            f"the file must be UTF-8 text, but byte 0x{error.object[error.start]:02x} on line {line} is not; "
            f"save it with UTF-8 encoding"
        ) from error
    if not decoded.strip():
        raise InvalidInput("the file is empty; fill it in, or take another")
    return decoded


def check_memory(needed: int, what: str, remedy: str, *, max_bytes: int = MAX_ARRAY_BYTES) -> None:
    """Refuse what takes more memory than a file may."""
    if needed > max_bytes:
        raise InvalidInput(
            f"{what} takes {math.ceil(needed / (1 << 20)):,} MiB of memory, and at most {max_bytes >> 20:,} MiB are "
            f"read; {remedy}"
        )


def read_arrays(content: bytes, remedy: str, *, max_bytes: int = MAX_ARRAY_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive by name, unless they are too large together.

    Raises
    ------
    InvalidInput
        If they are; `remedy` says what to do about it.
    Exception
        Whatever zipfile, zlib or NumPy raise on a file that is no such archive.
    """
    with zipfile.ZipFile(BytesIO(content)) as archive:
        held = sum(entry.file_size for entry in archive.infolist())  # zipfile never yields more than this
    check_memory(held, "what the archive holds", remedy, max_bytes=max_bytes)
    with np.load(BytesIO(content), allow_pickle=False) as stored:
        return {name: np.asarray(stored[name]) for name in stored.files}


def check_writable(path: Path) -> None:
    """Refuse a path that no file can be written to."""
    if not path.name or os.path.isdir(path):  # unlike Path.is_dir, silent about names that are too long
        raise InvalidInput("this is a folder; name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidInput("this is a device or a pipe, which a file must not replace; name a file")
    if not os.path.isdir(path.absolute().parent):
        raise InvalidInput("there is no such folder; make it first")


def make_folder(path: Path) -> None:
    """Make a folder and those it is in; one that is there stays."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder cannot be made: {error.strerror}") from error


def replace_files(contents: Mapping[Path, bytes], *, private: bool = False) -> None:
    """Write all of the files or, on failure, leave all of them as they were; `private` ones nobody else may read.

    Everything is on disk under temporary names before the first file takes its place, so what can fail fails before.
    By hand, because libraries of atomic writes do one file at a time.
    """
    for path in contents:
        check_writable(path)
    drafts = {path.with_name(f".{uuid.uuid4().hex}.tmp"): path for path in contents}
    try:
        for draft, path in drafts.items():
            mode = PRIVATE if private else 0o666  # less what the user's umask takes away
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(contents[path])
                file.flush()
                os.fsync(file.fileno())
        for draft, path in drafts.items():
            os.replace(draft, path)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the file cannot be written: {_reason(error)}") from error
    finally:
        for draft in drafts:
            with suppress(OSError, ValueError):
                draft.unlink()


def replace_text(path: Path, content: str, *, private: bool = False) -> None:
    """Write one UTF-8 file whole, or leave what was there; errors name the file."""
    with error_context(str(path)):
        replace_files({path: content.encode()}, private=private)


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):  # the only one that Python makes of a name
        return "its name has a null character in it"
    return getattr(error, "strerror", None) or str(error)


def _from_toml(content: str) -> Any:
    _check_length(len(content), MAX_TOML_BYTES)
    try:
        return tomllib.loads(content)
    except RecursionError as error:
        raise InvalidInput("the file nests its lists or tables too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or an integer beyond Python's limit of digits
        remedy = "; decimals take a point, such as 0.3" if DECIMAL_COMMA.search(content) else ""
        raise InvalidInput(f"the file is not valid TOML: {error}{remedy}") from error


def decode_json(content: str | bytes, **hooks: Callable[..., Any]) -> Any:
    """JSON text as plain data; `hooks` are those of `json.loads`, of which NaN and infinity have one by default."""
    try:
        return json.loads(content, **({"parse_constant": _no_constant} | hooks))  # type: ignore[arg-type]
    except RecursionError as error:
        raise InvalidInput("must not nest lists or objects so deeply") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InvalidInput(f"must be valid JSON: {error.msg}, {where}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("must be UTF-8 text") from error
    except InvalidInput:
        raise
    except ValueError as error:  # an integer beyond Python's limit of digits
        raise InvalidInput(f"must be valid JSON: {error}") from error


def _from_json(content: str) -> Any:
    return decode_json(content, object_pairs_hook=_unique_pairs)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, given in pairs:
        if key in unique:
            raise InvalidInput(f"key {short_repr(key)} appears twice in one object; keep one of them")
        unique[key] = given
    return unique


def _no_constant(constant: str) -> NoReturn:
    raise InvalidInput(f'JSON has no {constant}; it is written "inf", "-inf" or "nan" where a number may be that')


DECODERS: Mapping[str, Callable[[str], Any]] = {".toml": _from_toml, ".json": _from_json}
