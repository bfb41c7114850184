"""`fedpact lots`: labelled samples cut into lots by what each of them is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.fitting.pilots.records import column_list, pandas, read_table
from fedpact.shapley.samples import LeftOut, SampleLots, Samples, find_lots, leave_lots_out
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import write_table

LABEL = "label"
STEPS = 2
MAX_LABELS_NAMED = 4


def lots(
    data: Annotated[Path, Argument(help="A table with a column label, the others numbers.")],
    test: Annotated[Path, Option("--test", help="Correctly labelled samples to judge by; a file like DATA.")],
    output: Annotated[Path | None, Option("--output", "-o", help="Every sample's value and lot, .csv.")] = None,
    check: Annotated[bool, Option("--check", help="Fit a model without each lot too.")] = False,
    force: inputs.Force = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Sort samples into lots, kinds of data to share or to keep at home: good, fair and harmful ones.

    Every sample gets a value: about 1 if it is as useful as its class allows, below 0 if it misleads.
    """
    inputs.check_output(output, force=force, suffixes=(".csv",))
    (features, labels), (test_features, test_labels) = read_samples(data), read_samples(test)
    if not set(labels.tolist()) & set(test_labels.tolist()):
        raise InvalidInput(f"{test}: none of its labels is one of {data}; both must use the same labels")
    samples = Samples(features=features, labels=labels, test_features=test_features, test_labels=test_labels)
    with screen.progress(STEPS) as begin:
        begin("valuing samples")
        found = find_lots(samples)
        if check:
            begin("models without each lot")
        left_out = leave_lots_out(found, samples) if check else None
    files = [] if output is None else [str(output)]
    if output is not None:
        columns = {
            "sample": list(range(1, len(labels) + 1)),  # in the order of the file
            LABEL: labels.tolist(),
            "value": [f"{value:.6g}" for value in found.values],
            "lot": [found.names[lot] for lot in found.lots],
        }
        write_table(output, columns)
    if as_json:
        screen.print_json(_record(found, left_out) | {"files": files})
        return
    _show(found, labels, left_out)
    screen.say_written(files)


def _record(found: SampleLots, left_out: LeftOut | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "lots": found.names,
        "sizes": found.sizes,
        "mean_values": found.mean_values,
        "values": found.values,
        "lot_of_sample": found.lots,
    }
    if left_out is not None:
        record |= {"accuracy": left_out.accuracy, "accuracy_without": left_out.without, "order_agrees": left_out.agrees}
    plain: dict[str, Any] = jsonable(record)
    return plain


def _show(found: SampleLots, labels: Any, left_out: LeftOut | None) -> None:
    heads = ["lot", "samples", "mean value", "mostly labels"]
    heads += ["accuracy without it", "lost per 100 samples"] if left_out is not None else []
    rows = []
    for lot, name in enumerate(found.names):
        kinds, counts = np.unique(labels[found.lots == lot], return_counts=True)
        most = [str(kinds[index]) for index in np.argsort(-counts, kind="stable")[:MAX_LABELS_NAMED]]
        named = ", ".join(most) + (", ..." if len(kinds) > MAX_LABELS_NAMED else "")
        effect = [] if left_out is None else [f"{left_out.without[lot]:.3f}", f"{left_out.losses[lot]:+.4f}"]
        rows.append([name, str(found.sizes[lot]), f"{found.mean_values[lot]:+.2f}", named, *effect])
    title = f"Lots of {len(labels)} samples, valued by votes of nearest neighbours"
    screen.print_rows(title, heads, rows, words=("mostly labels",))
    if left_out is not None:
        verdict = "agrees with" if left_out.agrees else "differs from"
        screen.say()
        screen.say(
            f"A logistic regression on all samples has accuracy {left_out.accuracy:.3f}; differences are sure up to "
            f"{2 * left_out.noise:.3f}. The order of the lots {verdict} what leaving them out does."
        )


def read_samples(path: Path) -> tuple[FloatArray, NDArray[Any]]:
    """Features (N, d) and labels (N,) of a table with a column `label`.

    Raises
    ------
    InvalidInput
        If the file cannot be read or breaks a rule; the message names the file, row and column.
    """
    table = read_table(path)
    with error_context(str(path)):
        if LABEL not in table:
            found = column_list(table)
            raise InvalidInput(f"there is no column {LABEL!r}; the first row names the columns, got {found}")
        numbers = table.drop(columns=LABEL).apply(pandas().to_numeric, errors="coerce")
        missing = table.isna() | ~np.isfinite(numbers).reindex(columns=table.columns, fill_value=True)
        for row, column in np.argwhere(missing)[:1]:
            name, cell = table.columns[column], table.iloc[row, column]
            must = "hold a label" if name == LABEL else "be a number"
            raise InvalidInput(f"row {row + 2}, column {name!r} must {must}, got {short_repr(str(cell))}")
        return numbers.to_numpy(np.float64), table[LABEL].astype(str).to_numpy(dtype=str)
