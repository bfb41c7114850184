"""Finished pieces of a long sweep on disk, so that an interrupted one goes on where it was.

The folder holds a file that says which sweep it belongs to and one file per finished piece. Pieces of another sweep,
or of another version of fedpact, are never used.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from fedpact.errors import InvalidInput
from fedpact.files import replace_files

__all__ = ["Checkpoint"]

IDENTITY = "sweep.txt"


class Checkpoint:
    """A folder of finished pieces.

    Parameters
    ----------
    folder
        Made if it is not there; emptied if it belongs to another sweep.
    identity
        Whatever tells this sweep from others.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        digest = hashlib.sha256(identity.encode()).hexdigest()
        try:
            if folder.is_dir() and self._says() != digest:
                if self._says() is None and any(folder.iterdir()):
                    raise InvalidInput(f"{folder} is in the way: it holds something else; move it or name another file")
                shutil.rmtree(folder)
            folder.mkdir(exist_ok=True)
            replace_files({folder / IDENTITY: digest.encode()})
        except OSError as error:
            raise InvalidInput(f"{folder}: intermediate results cannot be kept there: {error.strerror}") from error

    def load(self, piece: str) -> dict[str, np.ndarray] | None:
        """A finished piece, or None."""
        try:
            with np.load(self.folder / f"{piece}.npz", allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError, zipfile.BadZipFile):  # not there, or cut off: it is worked out anew
            return None

    def save(self, piece: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a finished piece, whole or not at all."""
        content = BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        replace_files({self.folder / f"{piece}.npz": content.getvalue()})

    def remove(self) -> None:
        """Throw the pieces away: the sweep is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _says(self) -> str | None:
        try:
            return (self.folder / IDENTITY).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
