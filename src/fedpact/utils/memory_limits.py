"""Files that are small on the disk and large in memory: compressed archives of arrays, and Parquet.

What a file says it holds is looked at before memory is set aside for it, and what comes out of it is counted. More than
`MAX_ARRAY_BYTES` is refused.
"""

from __future__ import annotations

import math
import zipfile
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import InvalidInput, short_repr

MAX_HEADER_BYTES = 1 << 16  # that tell what an array is: NumPy writes a few hundred
MAX_ARRAY_BYTES = 1 << 30  # that the arrays of a file take together: a dense matrix of 11,585 agents
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
NUMBER_BYTES, TEXT_BYTES = 8, 64  # that an entry takes at least, as a float64 or as an object


def check_memory(needed: int, what: str, remedy: str, *, max_bytes: int = MAX_ARRAY_BYTES) -> None:
    """Refuse what takes more memory than a file may."""
    if needed > max_bytes:
        raise InvalidInput(
            f"{what} takes {math.ceil(needed / (1 << 20)):,} MiB of memory, and at most {max_bytes >> 20:,} MiB are "
            f"read; {remedy}"
        )


def check_archive(
    content: bytes, remedy: str, *, max_bytes: int = MAX_ARRAY_BYTES, number_bytes: int = NUMBER_BYTES
) -> None:
    """Refuse an NPZ archive whose arrays are too large together, before any of them is read.

    Parameters
    ----------
    content
        Of the file.
    remedy
        What to do about arrays that are too large.
    max_bytes
        That they may take.
    number_bytes
        That a number takes at least, once it is read.

    Raises
    ------
    InvalidInput
        If they are too large, or an array holds less than it says.
    Exception
        Whatever zipfile, zlib or NumPy raise on a file that is no such archive.
    """
    needed = 0
    with zipfile.ZipFile(BytesIO(content)) as archive:
        for entry in archive.infolist():  # of which zipfile never yields more than the directory says
            name, held = short_repr(entry.filename.removesuffix(".npy")), entry.file_size
            check_memory(needed + held, f"the array {name}, with those before it,", remedy, max_bytes=max_bytes)
            with archive.open(entry) as file:
                shape, itemsize, least = _declared_size(BytesIO(file.read(MAX_HEADER_BYTES)), number_bytes)
            count = math.prod(shape)
            needed += max(held, count * max(itemsize, least))
            check_memory(
                needed, f"the array {name} of shape {shape}, with those before it,", remedy, max_bytes=max_bytes
            )
            if count * max(itemsize, 1) > held:
                raise InvalidInput(
                    f"the array {name} says shape {shape} and holds {held:,} bytes; write the file again"
                )


def read_arrays(
    content: bytes, remedy: str, *, max_bytes: int = MAX_ARRAY_BYTES, number_bytes: int = NUMBER_BYTES
) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive by name, if `check_archive` does not refuse it."""
    check_archive(content, remedy, max_bytes=max_bytes, number_bytes=number_bytes)
    with np.load(BytesIO(content), allow_pickle=False) as stored:
        return {name: np.asarray(stored[name]) for name in stored.files}


def _declared_size(file: BytesIO, number_bytes: int) -> tuple[tuple[int, ...], int, int]:
    """Shape, bytes of an entry, and the least it is counted with, by the head of an array; none of what is no array."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        return (0,), 0, 0
    if version not in HEADERS:
        raise InvalidInput(f"its arrays are in version {version[0]}.{version[1]} of the format; write plain ones")
    shape, _, dtype = HEADERS[version](file)
    if dtype.hasobject:  # which is never read
        return shape, 1, 1
    return shape, dtype.itemsize, TEXT_BYTES if dtype.kind in "US" else number_bytes
