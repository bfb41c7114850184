"""Files that are small on the disk and large in memory: compressed archives of arrays, and Parquet.

What a file says it holds is looked at before it is read; more than `MAX_ARRAY_BYTES` is refused.
"""

from __future__ import annotations

import math
import zipfile
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import InvalidInput

MAX_ARRAY_BYTES = 1 << 30  # that the arrays of a file take together


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
