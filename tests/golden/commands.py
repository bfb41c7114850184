"""The commands whose JSON keys are recorded: on hospitals, on data of several kinds, and on a deal in a file."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedpact.cli import main
from old_hospitals import FILES

DEAL = "deal.json"
COMMANDS = (
    "solve hospitals",
    "solve hospitals --mechanism shapley",
    "solve hospitals --mechanism fair",
    "solve hospitals --leave all",
    "solve hospitals-lots",
    "solve hospitals-privacy",
    "compare hospitals",
    "compare hospitals-lots",
    "shapley hospitals",
    "shapley hospitals-lots",
    "check hospitals",
    "check hospitals --mechanism shapley --claim all",
    "check hospitals-lots",
    f"check hospitals {DEAL}",
    "settle hospitals",
    "settle hospitals-lots",
    f"settle hospitals {DEAL}",
    f"settle hospitals {DEAL} --delivered City=10",
)


def all_key_paths(folder: Path) -> dict[str, set[str]]:
    """The key paths of every command's record; the deal lies in `folder`."""
    (folder / DEAL).write_text(json.dumps(run_json("solve hospitals")), encoding="utf-8")
    return {command: key_paths(run_json(command.replace(DEAL, str(folder / DEAL)))) for command in COMMANDS}


def run_json(command: str) -> Any:
    """The JSON object that a command prints, run in this process on the hospitals of version 0.2."""
    words = [str(FILES.get(word, word)) for word in command.split()]
    given, sys.argv = sys.argv, ["fedpact", *words, "--json"]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main()
    finally:
        sys.argv = given
    return json.loads(printed.getvalue())


def key_paths(record: Any) -> set[str]:
    """The paths of all keys in a JSON record, items of lists as [], names of members and lots as NAME."""
    names = set(_texts_under(record, ("agents", "lot_names")))
    return _paths(record, "", names)


def _paths(record: Any, path: str, names: set[str]) -> set[str]:
    if isinstance(record, Mapping) and record:
        keys = {key: "NAME" if key in names or key.partition(": ")[0] in names else key for key in record}
        below = [_paths(entry, f"{path}.{keys[key]}".lstrip("."), names) for key, entry in record.items()]
        return set().union(*below)
    if isinstance(record, list):
        return set().union(*[_paths(entry, f"{path}[]", names) for entry in record]) or {f"{path}[]"}
    return {path}


def _texts_under(record: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """All texts in lists under these keys, at any depth."""
    if isinstance(record, Mapping):
        for key, entry in record.items():
            yield from entry if key in keys and isinstance(entry, list) else _texts_under(entry, keys)
    elif isinstance(record, list):
        for entry in record:
            yield from _texts_under(entry, keys)
