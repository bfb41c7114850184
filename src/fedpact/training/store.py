"""What trained models came to, on disk: a line of JSON for each, added as soon as it is known.

A file belongs to one experiment and says so on its first line. Whatever is cut short by an interruption is the last
line, which is dropped when the file is read again; so nothing finished is lost, and nothing unfinished is used.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable


class Store:
    """A file of results by key, or just memory.

    Parameters
    ----------
    path
        Made when the first result is put; None to keep nothing.
    experiment
        The fingerprint of the experiment all results come from.
    """

    def __init__(self, path: Path | None, experiment: str) -> None:
        self.path, self._experiment = path, experiment
        self._results: dict[str, Any] = {}
        self._whole = 0  # bytes of the file that are whole lines
        if path is not None and path.exists():
            with error_context(str(path)):
                self._read(read_bytes(path))

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> Any:
        return self._results[key]

    def put(self, key: str, result: Any) -> None:
        """Keep a result, at once."""
        if self.path is not None:
            with error_context(str(self.path)):
                self._append(self.path, {"key": key, "result": result})
        self._results[key] = result

    def _read(self, content: bytes) -> None:
        *lines, _ = content.split(b"\n")
        self._whole = sum(len(line) + 1 for line in lines)
        entries = [_decode(line) for line in lines]
        if not entries:
            return
        if "experiment" not in entries[0]:
            raise InvalidInput("this is no file of trained models; name another folder")
        if entries[0]["experiment"] != self._experiment:
            raise InvalidInput("this file holds the models of another experiment; name another folder")
        for number, entry in enumerate(entries[1:], start=2):
            if "key" not in entry or "result" not in entry:
                raise InvalidInput(f"line {number} is spoiled; remove it, and what it held is trained anew")
            self._results[entry["key"]] = entry["result"]

    def _append(self, path: Path, entry: dict[str, Any]) -> None:
        lines = [entry] if self._whole else [{"experiment": self._experiment}, entry]
        content = "".join(json.dumps(jsonable(line)) + "\n" for line in lines).encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if path.exists() else "xb") as file:
                file.truncate(self._whole)
                file.seek(self._whole)
                file.write(content)
        except OSError as error:
            raise InvalidInput(
                f"what was trained cannot be kept: {error.strerror or error}; what was kept before is still there"
            ) from error
        self._whole += len(content)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
