"""Finished pieces of a long sweep on disk, so that an interrupted one goes on where it was.

A piece's file is named after its sweep, whose number stands for everything that makes a sweep what it is. So pieces of
another sweep, or of another version of fedpact, are never used, even if two sweeps write into one folder at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import replace_files

PIECE = re.compile(r"[0-9a-f]{32}-[a-z0-9-]+-\d+-\d+\.npz|\.[0-9a-f]{32}\.tmp")  # the latter is a piece half written


class Checkpoint:
    """A folder of finished pieces.

    Parameters
    ----------
    folder
        Made if it is not there; pieces of other sweeps in it are removed.
    identity
        Whatever tells this sweep from others.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self._number = hashlib.sha256(identity.encode()).hexdigest()[:32]
        try:
            folder.mkdir(exist_ok=True)
            self._remove_others()
        except OSError as error:
            raise InvalidInput(
                f"{folder}: intermediate results cannot be kept there: {error.strerror}; name another file"
            ) from error

    def load(self, piece: str) -> dict[str, np.ndarray] | None:
        """A finished piece, if it is there and whole."""
        try:
            content = self._path(piece).read_bytes()
        except OSError:
            return None
        try:
            with np.load(BytesIO(content), allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except Exception:  # whatever a damaged file raises: the piece is worked out anew
            return None

    def save(self, piece: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a finished piece, whole or not at all."""
        content = BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        with suppress(OSError):  # what ails the folder is told by the next step
            self.folder.mkdir(exist_ok=True)  # another sweep may have finished and removed it
        with error_context(str(self._path(piece))):
            replace_files({self._path(piece): content.getvalue()})

    def _path(self, piece: str) -> Path:
        return self.folder / f"{self._number}-{piece}.npz"

    def _remove_others(self) -> None:
        for path in self.folder.iterdir():
            if not PIECE.fullmatch(path.name):
                raise InvalidInput(
                    f"{self.folder} is in the way: it holds {path.name!r}, which is no piece of a sweep; "
                    f"move it or name another file"
                )
        for path in self.folder.iterdir():
            if path.suffix == ".npz" and not path.name.startswith(self._number):
                path.unlink(missing_ok=True)


def remove_pieces(folder: Path) -> None:
    """Throw all pieces away, and the folder if nothing else is in it."""
    with suppress(OSError):
        for path in folder.iterdir():
            if PIECE.fullmatch(path.name):
                path.unlink()
        folder.rmdir()
