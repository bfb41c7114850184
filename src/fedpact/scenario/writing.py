"""From a `Scenario` to a scenario file that reads back as the same scenario, bit for bit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedpact.federation import Cost, Federation, Linear, Payoff, Quadratic
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario.fields import INFINITY_TEXTS
from fedpact.scenario.formatting import json_text, toml_text
from fedpact.scenario.matrix_files import factor_bytes, weights_bytes
from fedpact.scenario.scenario import Scenario
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import choose_format, replace_files


def save_scenario(scenario: Scenario, path: str | os.PathLike[str]) -> None:
    """Write a scenario to a `.toml` or `.json` file, replacing it whole or not at all.

    Sparse weights go to a file beside it, named `<stem>.weights.npz`, and so do the correlations of many uncertain
    numbers, in `<stem>.correlations.npz`.
    """
    path = Path(path)
    with error_context(str(path)):
        layout = choose_format(path, LAYOUTS)
        beside = path.with_name(f"{path.stem}.weights.npz")
        contents = {}
        if scenario.federation.is_sparse:
            contents[beside] = weights_bytes(scenario.federation.sparse_weights())
        together = path.with_name(f"{path.stem}.correlations.npz")
        if scenario.uncertainty is not None and scenario.uncertainty.factor is not None:
            contents[together] = factor_bytes(scenario.uncertainty.factor)
        document = _document(scenario, weights_file=beside.name, correlations_file=together.name)
        contents[path] = _encoded(layout(document))
        replace_files(contents)


def scenario_to_dict(
    scenario: Scenario, *, weights_file: str | None = None, correlations_file: str | None = None
) -> dict[str, Any]:
    """Plain data for `parse_scenario` or `json.dumps`: the keys of a scenario file, infinite caps spelled "inf".

    Parameters
    ----------
    scenario
        What to write down.
    weights_file
        What to call the file that holds the weights if they are sparse; plain data has no place for them.
    correlations_file
        What to call the file that holds the correlations of many uncertain numbers.
    """
    return _without_infinity(_document(scenario, weights_file=weights_file, correlations_file=correlations_file))


def _document(scenario: Scenario, *, weights_file: str | None, correlations_file: str | None) -> dict[str, Any]:
    federation = scenario.federation
    if federation.is_sparse and weights_file is None:
        raise InvalidInput("sparse weights need a file of their own; give weights_file, or use save_scenario")
    document = {
        "title": scenario.title,
        "description": scenario.description,
        "not_recommended": scenario.not_recommended,
        "unit": scenario.unit,
        "names": list(federation.names),
        **_ownership(federation),
        "weights": weights_file if federation.is_sparse else federation.weights.tolist(),
        "costs": _costs(federation.costs),
        "caps": _shared(federation.caps),
        "shared_caps": _shared_caps(federation),
        "values": _shared(federation.values),
        "payoff": _payoff(federation.payoff),
        "money": scenario.money and asdict(scenario.money),
        "uncertainty": scenario.uncertainty and _uncertainty(scenario.uncertainty, federation, correlations_file),
    }
    return {key: given for key, given in document.items() if given not in ("", None, [])}


def _ownership(federation: Federation) -> dict[str, Any]:
    """Whose lots and tasks there are, and their names; nothing where each member has one of each."""
    owned = {"lot": (federation.lot_owners, federation.lot_names)}
    owned |= {"task": (federation.task_owners, federation.task_names)}
    everybody = list(federation.names)
    document: dict[str, Any] = {}
    for kind, (owners, names) in owned.items():
        if federation.has_lots:
            document[f"{kind}_owners"] = [everybody[owner] for owner in owners]
        if federation.has_lots or list(names) != everybody:
            document[f"{kind}_names"] = list(names)
    return document


def _shared_caps(federation: Federation) -> list[dict[str, Any]]:
    """Lots by their labels, and the cap they share."""
    labels = federation.lot_labels
    return [{"lots": [labels[lot] for lot in each.lots], "cap": each.cap} for each in federation.shared_caps]


def _shared(numbers: FloatArray) -> Any:
    """One number if all agents have the same, bit for bit (0.0 and -0.0 differ); otherwise the list."""
    return numbers.item(0) if len({number.tobytes() for number in numbers}) == 1 else numbers.tolist()


def _costs(costs: Cost) -> Any:
    match costs:
        case Linear():
            return _shared(costs.linear)
        case Quadratic():
            return {"linear": _shared(costs.linear), "quadratic": _shared(costs.quadratic)}
    raise InvalidInput(f"costs must be Linear or Quadratic to be written, got {short_repr(costs)}")


def _payoff(payoff: Payoff) -> dict[str, Any]:
    if type(payoff) not in FAMILIES.values():
        raise InvalidInput(
            f"payoff must be of the family {', '.join(FAMILIES)} to be written, got {short_repr(payoff)}"
        )
    return {"family": payoff.family} | {key: numbers.tolist() for key, numbers in payoff.parameters.items()}


def _uncertainty(uncertainty: Uncertainty, federation: Federation, correlations_file: str | None) -> dict[str, Any]:
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


def _without_infinity(document: dict[str, Any]) -> dict[str, Any]:
    caps = document["caps"]
    spelled = [_spelled(cap) for cap in caps] if isinstance(caps, list) else _spelled(caps)
    return document | {"caps": spelled}


def _spelled(cap: float) -> float | str:
    return INFINITY_TEXTS[0] if cap == math.inf else cap


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        bad = content[error.start : error.end]
        raise InvalidInput(f"names and texts must be such that UTF-8 can hold them, got {short_repr(bad)}") from error


LAYOUTS: Mapping[str, Callable[[dict[str, Any]], str]] = {
    ".toml": toml_text,
    ".json": lambda document: json_text(_without_infinity(document)),
}
