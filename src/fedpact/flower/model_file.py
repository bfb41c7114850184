"""A model on disk, beside the ledger: written whole, and read only if it is the one the ledger names."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes, replace_files

__all__ = ["read_model", "write_model"]


def write_model(path: Path, arrays: ArrayRecord) -> dict[str, Any]:
    """Write a model; its file's name and digest."""
    content = BytesIO()
    named: dict[str, Any] = {f"array-{place}": array.numpy() for place, array in enumerate(arrays.values())}
    np.savez(content, names=np.array(list(arrays.keys()), dtype=np.str_), **named)
    with error_context(str(path)):
        replace_files({path: content.getvalue()})
    return {"file": path.name, "sha256": hashlib.sha256(content.getvalue()).hexdigest()}


def read_model(path: Path, digest: str) -> ArrayRecord:
    """The model of a file that has this digest."""
    with error_context(str(path)):
        content = read_bytes(path)
        if hashlib.sha256(content).hexdigest() != digest:
            raise InvalidInput("the file was changed: it does not have the digest in the ledger")
        with np.load(BytesIO(content), allow_pickle=False) as stored:
            names = stored["names"].tolist()
            return ArrayRecord({name: Array(stored[f"array-{place}"]) for place, name in enumerate(names)})
