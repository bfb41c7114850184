"""The table `uncertainty` of a scenario file: read, and written.

Standard errors go by the names of the numbers they belong to. Correlations are rows in the file, or the name of an NPZ
file beside it with an array "factor".
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario.fields import numbers, rows, table, text
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_bytes

__all__ = ["factor_bytes", "uncertainty_document", "uncertainty_of", "uncertainty_parts"]

PARAMETERS = {name: list(family.__dataclass_fields__) for name, family in FAMILIES.items()}  # type: ignore[attr-defined]
KEYS = ["weights", "values", *(key for keys in PARAMETERS.values() for key in keys), "signs", "correlations"]


def uncertainty_parts(label: str, given: Any) -> Mapping[str, Any]:
    """The table with its types checked."""
    given = table(label, given, KEYS, required=["weights"])
    parts: dict[str, Any] = {}
    for key, entry in given.items():
        place = f"{label}.{key}"
        if key == "signs" or (key == "correlations" and isinstance(entry, str)):
            parts[key] = text(place, entry)
        elif key in ("weights", "correlations"):
            parts[key] = _square(place, rows(place, entry, files=".npz"))
        else:
            parts[key] = numbers(place, entry)
    return parts


def uncertainty_of(parts: Mapping[str, Any], federation: Federation, folder: Path) -> Uncertainty:
    """The uncertainty a table states about a federation."""
    family = federation.payoff.family
    wanted = PARAMETERS[family]
    given = dict(parts)
    for key in set(given) & {key for keys in PARAMETERS.values() for key in keys} - set(wanted):
        takes = ", ".join(wanted) or "no parameter"
        raise InvalidInput(f'uncertainty.{key} must belong to the payoff; the family "{family}" takes {takes}')
    names = federation.names
    errors = [  # families have one parameter at most
        checked_numbers(f"uncertainty.{key}", given.pop(key), non_negative, NON_NEGATIVE, names=names)
        for key in wanted
        if key in given
    ]
    if isinstance(given.get("correlations"), str):
        given["factor"] = _read_factor(folder / given.pop("correlations"))
    return Uncertainty(parameter=errors[0] if errors else 0.0, **given)


def uncertainty_document(
    uncertainty: Uncertainty, federation: Federation, *, correlations_file: str | None
) -> dict[str, Any]:
    """The table as plain data."""
    if uncertainty.factor is not None and correlations_file is None:
        raise InvalidInput("many correlations need a file of their own; give correlations_file, or use save_scenario")
    document: dict[str, Any] = {key: uncertainty.parameter.tolist() for key in federation.payoff.parameters}
    document |= {"values": uncertainty.values.tolist(), "weights": uncertainty.weights.tolist()}
    document["signs"] = uncertainty.signs
    if uncertainty.correlations is not None:
        document["correlations"] = uncertainty.correlations.tolist()
    if uncertainty.factor is not None:
        document["correlations"] = correlations_file
    return document


def factor_bytes(uncertainty: Uncertainty) -> bytes:
    """The factor as the content of an NPZ file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, factor=uncertainty.factor)
    return buffer.getvalue()


def _square(label: str, matrix: list[list[float]]) -> list[list[float]]:
    for place, row in enumerate(matrix):
        if len(row) != len(matrix):
            raise InvalidInput(
                f"{label}[{place}] must have as many numbers as there are rows: {len(matrix)} rows, {len(row)} numbers "
                f"given"
            )
    return matrix


def _read_factor(path: Path) -> FloatArray:
    with error_context(f"correlations file {path}"):
        if path.suffix.lower() != ".npz":
            raise InvalidInput(f"the file's name must end in .npz, got {short_repr(path.name)}")
        content = read_bytes(path)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                return np.asarray(archive["factor"], dtype=np.float64)
        except Exception as error:  # a damaged archive raises whatever zipfile, zlib or NumPy stumble over
            raise InvalidInput(
                'the file is not a readable NPZ archive with an array "factor"; write the scenario again'
            ) from error
