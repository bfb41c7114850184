"""What trained models came to, on disk: a line of JSON for each, added as soon as it is known.

A file belongs to one experiment, whose fingerprint is on every line. A line that was cut short by an interruption is
trained again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable


class Store(dict[str, Any]):
    """A file of results by key, made when the first is put; without a path, just memory."""

    def __init__(self, path: Path | None, experiment: str) -> None:
        super().__init__()
        self.path, self._experiment = path, experiment
        if path is None or not path.exists():
            return
        with error_context(str(path)):
            for number, line in enumerate(read_bytes(path).splitlines(), start=1):
                self._read(line, number)

    def _read(self, line: bytes, number: int) -> None:
        try:
            entry = json.loads(line)
            experiment, key, result = entry["experiment"], entry["key"], entry["result"]
        except (ValueError, KeyError, TypeError):
            return  # cut short, or not a line of ours
        if experiment != self._experiment:
            raise InvalidInput(f"line {number} is of another experiment; name another folder")
        self[key] = result

    def put(self, key: str, result: Any) -> None:
        """Keep a result, at once."""
        if self.path is not None:
            line = json.dumps({"experiment": self._experiment, "key": key, "result": jsonable(result)})
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(f"\n{line}")  # after a line that was cut short, a new one
            except OSError as error:
                raise InvalidInput(
                    f"{self.path}: what was trained cannot be kept: {error.strerror or error}; what was kept before is "
                    "still there"
                ) from error
        self[key] = result
