"""From a scenario file to a `Scenario`.

The keys of a file are the arguments of `Federation`, with the payoff as a table, and a few words around it. `KEYS` is
the one place that lists them. TOML and JSON differ only in how a text becomes plain data.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedpact.federation import Federation, Log, Payoff, Quadratic
from fedpact.federation.payoffs import FAMILIES
from fedpact.scenario.fields import capacities, check_keys, name, name_list, number, numbers, record, rows, table, text
from fedpact.scenario.matrix_files import read_factor, read_weights
from fedpact.scenario.measured import Measured
from fedpact.scenario.members_words import SUMS, convert_prices
from fedpact.scenario.scenario import WORDS, Money, Scenario
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.arrays import NON_NEGATIVE, checked_numbers, non_negative
from fedpact.utils.errors import ErrorCollector, InvalidInput, error_context, short_repr
from fedpact.utils.files import DECODERS, choose_format, read_text

EXAMPLES = ("hospitals", "hospitals-lots", "hospitals-privacy", "paper-w1", "paper-w2", "paper-w3")
AGREE = "must agree with the weights file"
AROUND = (*WORDS, "models", "money", "measured")  # keys that are no argument of `Federation`
STAND_INS: dict[str, Any] = {"costs": 1.0, "payoff": Log()}  # for what cannot be read while the rest is checked
OWNER_KEYS = ("lot_owners", "task_owners")  # that say whose lots and tasks are where members have several
REMEDIES = {
    "lots": "lots are named by lot_owners and lot_names, and in a table shared_caps by lots",
    "tasks": "tasks are named by task_owners and task_names",
}


def load_scenario(path: str | os.PathLike[str], *, files_from: str | os.PathLike[str] | None = None) -> Scenario:
    """Read a scenario from a `.toml` or `.json` file, or take a built-in one by its name, such as "hospitals".

    Files that the scenario names, such as that of its weights, must lie in its own folder or below, or in `files_from`:
    somebody else's scenario is not to read what is none of its business.

    Raises
    ------
    InvalidInput
        If the file cannot be read or breaks a rule; the message names the file and the place.
    """
    if isinstance(path, str) and "." not in path and os.sep not in path:
        return example(path)
    if not isinstance(path, str | os.PathLike):
        rule = "must be the name of a .toml or .json file, or of a built-in scenario"
        raise InvalidInput(field="path", rule=rule, value=path)
    path = Path(path)
    with error_context(str(path)):
        document = choose_format(path, DECODERS)(read_text(path))
    folders = [path.parent] if files_from is None else [path.parent, Path(files_from)]
    return parse_scenario(document, where=str(path), folders=folders)


def example(name: str) -> Scenario:
    """A built-in scenario by name: a file in the folder `built_in`."""
    if name not in EXAMPLES:
        near = difflib.get_close_matches(name, EXAMPLES, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(EXAMPLES)}"
        raise InvalidInput(f"there is no built-in federation {name!r:.300}; {hint}")
    content = files("fedpact.scenario").joinpath("built_in", f"{name}.toml").read_text("utf-8")
    return parse_scenario(DECODERS[".toml"](content), where=name)


def parse_scenario(mapping: Mapping[str, Any], *, where: str, folders: Sequence[Path] = ()) -> Scenario:
    """Make a scenario of plain data, as `tomllib` or `json` give it.

    Parameters
    ----------
    mapping
        The keys of a scenario file.
    where
        What errors call the source, such as the file's path.
    folders
        The one that the names of files are relative to, and others in which these may lie; without any, no file is
        read.

    Examples
    --------
    >>> document = {"weights": [[1.0, 0.5], [0.0, 1.0]], "costs": 0.01, "payoff": {"family": "log"}}
    >>> parse_scenario(document, where="example").federation.n_agents
    2
    >>> parse_scenario({**document, "cap": 400}, where="example")
    Traceback (most recent call last):
        ...
    fedpact.utils.errors.InvalidInput: example: unknown key 'cap'; did you mean "caps"?
    """
    with error_context(where):
        if not isinstance(mapping, Mapping):
            raise InvalidInput(f"a scenario must be an object with keys and values, got {short_repr(mapping)}")
        errors = ErrorCollector()
        errors.attempt(check_keys, mapping, KEYS, remedies=REMEDIES)
        in_numbers = errors.attempt(convert_prices, mapping)
        unread = () if in_numbers is not None else ("costs", "values", *SUMS)  # of wrong prices more is not said
        mapping = mapping if in_numbers is None else in_numbers
        unknown = [str(key) for key in mapping if key not in KEYS]
        for key, remedy in REQUIRED.items():
            if key not in mapping and not difflib.get_close_matches(key, unknown, n=1):
                errors.errors.append(InvalidInput(field=key, rule="is missing", given=f"; add {remedy}"))
        stated = {key: reader for key, reader in KEYS.items() if key in mapping and key not in unread}
        read = {key: errors.attempt(reader, key, mapping[key]) for key, reader in stated.items()}
        parts = {key: part for key, part in read.items() if part is not None}
        words = {key: parts.pop(key) for key in AROUND if key in parts}
        parts.pop("uncertainty", None)
        if "lot_names" in mapping and "lot_names" not in parts:  # then nobody knows what these are called
            parts.pop("shared_caps", None)
        if "caps" in mapping and "caps" not in parts:  # nor how much all of them is
            parts.pop("home", None)
        federation = None
        if "weights" in parts and all(key in parts for key in OWNER_KEYS if key in mapping):
            federation = errors.attempt(_federation, parts, folders)
        errors.raise_errors()
        assert federation is not None
        doubted = "uncertainty" in mapping
        uncertainty = _uncertainty(mapping["uncertainty"], federation, folders) if doubted else None
        return Scenario(federation=federation, uncertainty=uncertainty, **words)


def _federation(parts: dict[str, Any], folders: Sequence[Path]) -> Federation:
    """The federation of what could be read, its weights from their file if they have one."""
    weights: Any = parts["weights"]
    names: Any = parts.get("names")
    square = not any(key in parts for key in OWNER_KEYS)
    columns = rows = None
    if isinstance(weights, str):
        weights, columns, rows = read_weights(_named_file("weights", weights, folders), square=square)
        if square and names is None:
            names = columns
        elif square and columns is not None:
            _check_same_names("names", names, columns)
    else:
        _check_rows(weights, names if square and names else (), square=square)
    federation = Federation(**(STAND_INS | parts | {"weights": weights, "names": names}))
    for field, there, plain, full in (
        ("lot_names", columns, federation.lot_names, federation.lot_labels),
        ("task_names", rows, federation.task_names, federation.task_labels),
    ):
        if not square and there is not None and tuple(there) != tuple(full):
            _check_same_names(field, plain, there)
    return federation


def _named_file(field: str, name: str, folders: Sequence[Path]) -> Path:
    """The file that a scenario names, if it lies in one of the folders or below."""
    if not folders:
        rule = "must be given as numbers here: a file beside the scenario cannot be read"
        raise InvalidInput(field=field, rule=rule, value=name)
    path = folders[0] / name
    try:
        path = next((folder / name for folder in folders if (folder / name).is_file()), path)
        inside = any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, ValueError):  # no path at all, which reading it says
        inside = True
    if not inside:
        given = f", got {short_repr(name)}; move the file there, or allow its folder: fedpact --files-from FOLDER ..."
        raise InvalidInput(field=field, rule="must name a file in the scenario's own folder", value=name, given=given)
    return path


def _check_rows(rows: Sequence[Sequence[float]], names: Sequence[str], *, square: bool) -> None:
    if names and rows and len(rows) != len(names) and all(len(row) == len(names) for row in rows):
        given = f": {len(names)} names, {len(rows)} rows given"
        raise InvalidInput(field="weights", rule="must have one row per member", value=rows, given=given)
    for index, row in enumerate(rows):
        wanted = len(rows if square else rows[0])
        if len(row) != wanted:
            rule = f"must have one number per {'member' if square else 'lot'}"
            given = f": {wanted} wanted, {len(row)} numbers given"
            name = names[index] if index < len(names) else None
            raise InvalidInput(field="weights", index=index, rule=rule, value=row, agent=name, given=given)


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that scenario files satisfy, TOML files once read into plain data.

    It states all rules but those that tie parts together: that the matrix is square where members have one lot and one
    task each, that lists have one entry per agent, lot or task, that names agree with a weights file.

    Examples
    --------
    >>> schema()["required"]
    ['weights', 'costs', 'payoff']
    """
    document: dict[str, Any] = json.loads(files("fedpact.scenario").joinpath("schema.json").read_text("utf-8"))
    for family in FAMILIES.values():
        parameters = family.parameter_names()
        document["properties"]["payoff"]["oneOf"].append(
            {
                "description": family.formula,
                "required": list(parameters),
                "additionalProperties": False,
                "properties": {"family": {"const": family.family}}
                | {each: {"$ref": "#/$defs/positive"} for each in parameters},
            }
        )
        for each in parameters:
            words = f"Standard error of the {each} of {family.title}; 0 if not given."
            stated = {"description": words, "$ref": "#/$defs/non_negative"}
            document["properties"]["uncertainty"]["properties"][each] = stated
    return document


def _rows_or_file(field: str, given: Any) -> list[list[float]] | str:
    return text(field, given) if isinstance(given, str) else rows(field, given, files=".csv or .npz")


def _check_same_names(field: str, names: Sequence[str], names_there: Sequence[str]) -> None:
    if len(names) != len(names_there):
        counts = f": {len(names)} names here, {len(names_there)} there"
        raise InvalidInput(field=field, rule=AGREE, value=names, given=counts)
    for agent, (here, there) in enumerate(zip(names, names_there, strict=True)):
        if here.strip() != there:
            both = f": {short_repr(here)} here, {short_repr(there)} there"
            raise InvalidInput(field=field, index=agent, rule=AGREE, value=here, given=both)


def _costs(field: str, given: Any) -> float | list[float] | Quadratic:
    if not isinstance(given, Mapping):
        return numbers(field, given)
    return Quadratic(**record(field, given, {"linear": numbers, "quadratic": numbers}))


def _shared_caps(field: str, given: Any) -> list[dict[str, Any]]:
    """Tables of lots, by name, and the cap they share."""
    if not isinstance(given, list):
        rule = "must be a list of tables with the keys lots and cap"
        raise InvalidInput(field=field, rule=rule, value=given)
    readers: dict[str, Callable[[str, Any], Any]] = {"lots": name_list, "cap": number}
    return [record(f"{field}[{index}]", entry, readers) for index, entry in enumerate(given)]


def _home(field: str, given: Any) -> Any:
    if isinstance(given, str) and given != "all":
        raise InvalidInput(field=field, rule='must be "all", a number or a list of numbers', value=given)
    return given if given == "all" else numbers(field, given)


def read_payoff(field: str, given: Any) -> Payoff:
    """The payoff of a table with a family and its parameters."""
    parameters = [key for family in FAMILIES.values() for key in family.parameter_names()]
    given = table(field, given, ["family", *parameters], required=["family"])
    name = text(f"{field}.family", given["family"])
    if name not in FAMILIES:
        one_of = f"must be one of {', '.join(FAMILIES)}"
        raise InvalidInput(field=f"{field}.family", rule=one_of, value=name)
    wanted = record(field, given, {"family": text} | dict.fromkeys(FAMILIES[name].parameter_names(), numbers))
    return FAMILIES[wanted.pop("family")](**wanted)


def _uncertainty(given: Any, federation: Federation, folders: Sequence[Path]) -> Uncertainty:
    """The uncertainty a table states about a federation."""
    wanted = federation.payoff.parameter_names()
    table("uncertainty", given, ("weights", "values", *wanted, "signs", "factor"), required=["weights"])
    parts: dict[str, Any] = {}
    for key, entry in given.items():
        path = f"uncertainty.{key}"
        if key == "signs":
            parts[key] = text(path, entry)
        elif key == "factor" and isinstance(entry, str):
            parts[key] = read_factor(_named_file(path, text(path, entry), folders))
        elif key in ("weights", "factor"):
            parts[key] = rows(path, entry, files=".npz")
        else:
            found, names = numbers(path, entry), federation.task_labels
            label = "parameter" if key in wanted else key  # families have one at most
            parts[label] = checked_numbers(path, found, non_negative, NON_NEGATIVE, names=names)
    return Uncertainty(**parts)


def _money(field: str, given: Any) -> Money:
    return Money(**record(field, given, {"currency": text, "per_payoff": number}))


KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "title": text,
    "description": text,
    "unit": name,
    "names": name_list,
    "weights": _rows_or_file,
    "costs": _costs,
    "caps": capacities,
    "values": numbers,
    "payoff": read_payoff,
    "lot_owners": name_list,
    "lot_names": name_list,
    "task_owners": name_list,
    "task_names": name_list,
    "shared_caps": _shared_caps,
    "home": _home,
    "joining_costs": numbers,
    "budgets": capacities,
    "models": text,
    "money": _money,
    "not_recommended": text,
    "measured": Measured.parse,
    "uncertainty": lambda field, given: given,  # read once the federation is known
}

REQUIRED: Mapping[str, str] = {
    "weights": "one row of numbers per member, or the name of a .csv or .npz file",
    "costs": "the cost per sample, a number or one per member (per lot, where members have several)",
    "payoff": f"a payoff table with one of the families {', '.join(FAMILIES)}",
}
