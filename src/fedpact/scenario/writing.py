"""From a `Scenario` to a scenario file that reads back as the same scenario, bit for bit.

TOML and JSON are written for people: one line per key, one line per row of a matrix. By hand, because libraries put
every number of a matrix on a line of its own. Floats are written by `repr`, so they come back bit for bit.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.federation import Federation, Linear, Payoff
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario.fields import INFINITY_TEXTS
from fedpact.scenario.scenario import Scenario
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import choose_format, replace_files

MAX_INLINE = 10_000  # numbers of a matrix that stand in the scenario's file itself


def save_scenario(scenario: Scenario, path: str | os.PathLike[str]) -> None:
    """Write a scenario to a `.toml` or `.json` file, replacing it whole or not at all.

    Weights of more than a hundred members go to a file beside it, named `<stem>.weights.npz`, and so does the factor of
    many uncertain numbers, in `<stem>.factor.npz`.
    """
    path = Path(path)
    with error_context(str(path)):
        layout = choose_format(path, LAYOUTS)
        document, contents = _document(scenario), {}
        large = [("weights", scenario.federation.weights, document)]
        if scenario.uncertainty is not None and scenario.uncertainty.factor is not None:
            large.append(("factor", scenario.uncertainty.factor, document["uncertainty"]))
        for key, matrix, table in large:
            if matrix.size > MAX_INLINE:
                beside = path.with_name(f"{path.stem}.{key}.npz")
                contents[beside], table[key] = _archive(**{key: matrix}), beside.name
        contents[path] = _encoded(layout(document))
        replace_files(contents)


def _archive(**arrays: FloatArray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def scenario_to_dict(scenario: Scenario) -> dict[str, Any]:
    """Plain data for `parse_scenario` or `json.dumps`: the keys of a scenario file, infinite caps spelled "inf"."""
    return _without_infinity(_document(scenario))


def _document(scenario: Scenario) -> dict[str, Any]:
    federation = scenario.federation
    costs, linear = federation.costs, _shared(federation.costs.linear)
    document = {
        "title": scenario.title,
        "description": scenario.description,
        "not_recommended": scenario.not_recommended,
        "unit": scenario.unit,
        "names": list(federation.names),
        **_ownership(federation),
        "weights": federation.weights.tolist(),
        "costs": linear if isinstance(costs, Linear) else {"linear": linear, "quadratic": _shared(costs.quadratic)},
        "caps": _shared(federation.caps),
        "shared_caps": _shared_caps(federation),
        "home": None if federation.home is None else _shared(federation.home),
        "joining_costs": _shared(federation.joining_costs) if federation.joining_costs.any() else None,
        "budgets": _shared(federation.budgets) if np.isfinite(federation.budgets).any() else None,
        "models": None if scenario.models == "common" else scenario.models,
        "values": _shared(federation.values),
        "payoff": _payoff(federation.payoff),
        "money": scenario.money and asdict(scenario.money),
        "uncertainty": scenario.uncertainty and _uncertainty(scenario.uncertainty, federation),
        "measured": scenario.measured
        and {key: list(entry) if isinstance(entry, tuple) else entry for key, entry in vars(scenario.measured).items()},
    }
    return {key: given for key, given in document.items() if given not in ("", None, [])}


def _ownership(federation: Federation) -> dict[str, Any]:
    """Whose lots and tasks there are, and their names; nothing where each member has one of each."""
    everybody = list(federation.names)
    document: dict[str, Any] = {}
    for kind in ("lot", "task"):
        owners, names = getattr(federation, f"{kind}_owners"), list(getattr(federation, f"{kind}_names"))
        if federation.has_lots:
            document[f"{kind}_owners"] = [everybody[owner] for owner in owners]
        if federation.has_lots or names != everybody:
            document[f"{kind}_names"] = names
    return document


def _shared_caps(federation: Federation) -> list[dict[str, Any]]:
    """Lots by their labels, and the cap they share."""
    labels = federation.lot_labels
    return [{"lots": [labels[lot] for lot in each.lots], "cap": each.cap} for each in federation.shared_caps]


def _shared(numbers: FloatArray) -> Any:
    """One number if all agents have the same, bit for bit (0.0 and -0.0 differ); otherwise the list."""
    return numbers.item(0) if len({number.tobytes() for number in numbers}) == 1 else numbers.tolist()


def _payoff(payoff: Payoff) -> dict[str, Any]:
    if type(payoff) not in FAMILIES.values():
        raise InvalidInput(
            f"payoff must be of the family {', '.join(FAMILIES)} to be written, got {short_repr(payoff)}"
        )
    return {"family": payoff.family} | {key: numbers.tolist() for key, numbers in payoff.parameters.items()}


def _uncertainty(uncertainty: Uncertainty, federation: Federation) -> dict[str, Any]:
    document: dict[str, Any] = {key: uncertainty.parameter.tolist() for key in federation.payoff.parameters}
    document |= {"values": uncertainty.values.tolist(), "weights": uncertainty.weights.tolist()}
    document["signs"] = uncertainty.signs
    return document if uncertainty.factor is None else document | {"factor": uncertainty.factor.tolist()}


def _without_infinity(document: dict[str, Any]) -> dict[str, Any]:
    found = dict(document)
    for key in found.keys() & {"caps", "budgets"}:
        numbers = np.array(found[key], dtype=object)
        numbers[numbers == math.inf] = INFINITY_TEXTS[0]
        found[key] = numbers.tolist()
    return found


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        bad = content[error.start : error.end]
        raise InvalidInput(f"names and texts must be such that UTF-8 can hold them, got {short_repr(bad)}") from error


WIDTH = 100


def toml_text(document: Mapping[str, Any]) -> str:
    """A TOML document, tables after everything else."""
    tables = {key: given for key, given in document.items() if isinstance(given, Mapping)}
    lists = {key: given for key, given in document.items() if isinstance(given, list) and isinstance(given[0], Mapping)}
    blocks = [_toml_lines({key: given for key, given in document.items() if key not in tables | lists})]
    blocks += [f"[{key}]\n{_toml_lines(given)}" for key, given in tables.items()]
    blocks += [f"[[{key}]]\n{_toml_lines(each)}" for key, given in lists.items() for each in given]
    return "\n".join(blocks)


def _toml_lines(entries: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(given)}\n" for key, given in entries.items())


def toml_value(given: Any) -> str:
    """A text, a float, or a list of these or of rows."""
    if isinstance(given, str) and "\n" in given:
        return '"""\n' + "\n".join(quote(line)[1:-1] for line in given.split("\n")) + '"""'
    return _value(given)


def json_text(document: Mapping[str, Any]) -> str:
    """A JSON object; it must hold no infinity."""
    return _value(document) + "\n"


def quote(given: str) -> str:
    """A text in quotes, on one line.

    Examples
    --------
    >>> print(quote('the "North" clinic'))
    "the \\"North\\" clinic"
    """
    # JSON's escapes are all TOML escapes; TOML also wants DEL escaped.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(given: Any, indent: str = "") -> str:
    """What TOML and JSON write alike, and objects of JSON; a list on one line if it is short and flat."""
    inner = indent + "  "
    if isinstance(given, Mapping):
        entries = [f"{inner}{quote(key)}: {_value(each, inner)}" for key, each in given.items()]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if not isinstance(given, list):
        return quote(given) if isinstance(given, str) else repr(given)
    is_matrix = bool(given) and isinstance(given[0], list)
    lines = matrix_lines(given) if is_matrix else [_value(each, inner) for each in given]
    line = f"[{', '.join(lines)}]"
    if not is_matrix and len(line) <= WIDTH:
        return line
    return "[\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}]"


def matrix_lines(rows: Sequence[Sequence[float]]) -> list[str]:
    """The rows of a matrix, its columns aligned."""
    cells = [[repr(entry) for entry in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [f"[{', '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))}]" for row in cells]


LAYOUTS: Mapping[str, Callable[[dict[str, Any]], str]] = {
    ".toml": toml_text,
    ".json": lambda document: json_text(_without_infinity(document)),
}
