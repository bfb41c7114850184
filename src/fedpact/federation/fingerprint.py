"""What makes two federations the same, bit for bit, and a short text that tells them apart."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fedpact.federation.federation import Federation


def federation_signature(federation: Federation) -> tuple[Any, ...]:
    """Everything that makes two federations the same, bit for bit."""
    if isinstance(federation.weights, np.ndarray):
        matrix: tuple[bytes, ...] = (federation.weights.tobytes(),)
    else:
        places = (federation.weights.indices, federation.weights.indptr)
        matrix = (federation.weights.data.tobytes(), *(part.astype(np.int64).tobytes() for part in places))
    parameters = tuple((name, numbers.tobytes()) for name, numbers in federation.payoff.parameters.items())
    numbers = (federation.costs.linear, federation.costs.quadratic, federation.caps, federation.values)
    parts = (
        federation.names,
        federation.is_sparse,
        matrix,
        type(federation.payoff),
        type(federation.costs),
        parameters,
        tuple(array.tobytes() for array in numbers),
    )
    if not federation.has_lots and federation.given_names == (None, None):
        return parts
    owners = tuple(owners.astype(np.int64).tobytes() for owners in (federation.lot_owners, federation.task_owners))
    owned = (*parts, owners, federation.lot_names, federation.task_names)
    if not federation.shared_caps:
        return owned
    return (*owned, tuple((*shared.lots, shared.cap) for shared in federation.shared_caps))


def fingerprint_text(signature: tuple[Any, ...]) -> str:
    """A text that tells this federation from others, and nothing else about it: 32 hexadecimal digits."""
    parts = [_class_text(part) if isinstance(part, type) else repr(part) for part in signature]
    return hashlib.sha256(f"({', '.join(parts)})".encode()).hexdigest()[:32]


def _class_text(kind: type) -> str:
    """A class by the name it had when the first transcripts were written, which name the federation they belong to."""
    module = {"fedpact.federation.payoffs": "fedpact.payoffs", "fedpact.federation.costs": "fedpact.costs"}
    return f"<class '{module.get(kind.__module__, kind.__module__)}.{kind.__qualname__}'>"
